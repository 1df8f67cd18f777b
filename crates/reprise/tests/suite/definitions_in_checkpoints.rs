//! A checkpoint that holds a definition begins behind it: recovery never applies the definition again.

use crate::common::on;
use reprise::disk::{CrashingDisk, Disk, DiskFile};
use reprise::{Content, Database, Sequencing};
use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const FOLDER: &str = "/db";
/// How long the test waits for a checkpoint that may be waiting for the log.
const PATIENCE: Duration = Duration::from_millis(60);

/// Whether batches may become durable.
#[derive(Clone, Default, Debug)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn set(&self, is_closed: bool) {
        *self.0.0.lock().unwrap() = is_closed;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        drop(self.0.1.wait_while(self.0.0.lock().unwrap(), |is_closed| *is_closed).unwrap());
    }
}

/// A disk whose batches wait at a gate.
#[derive(Debug)]
struct GatedDisk {
    inner: Arc<dyn Disk>,
    gate: Gate,
}

struct GatedFile {
    inner: Box<dyn DiskFile>,
    gate: Gate,
}

impl DiskFile for GatedFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_at(offset, bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(offset, buffer)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }

    fn write_durably(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.gate.pass();
        self.inner.write_durably(offset, bytes)
    }

    fn length(&self) -> io::Result<u64> {
        self.inner.length()
    }
}

impl GatedDisk {
    fn gated(&self, inner: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(GatedFile { inner, gate: self.gate.clone() })
    }
}

impl Disk for GatedDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.gated(self.inner.create(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.gated(self.inner.open(path)?))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.inner.list(folder)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn create_folder(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.inner.create_folder(folder)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.inner.sync_folder(folder)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Any + Send + Sync>> {
        self.inner.lock(path)
    }
}

/// Takes a checkpoint while a definition is applied and not durable yet, and opens what is there after a kill.
fn check(content: Content, sequencing: Sequencing, devices: usize, definition: &str) {
    let what = format!("{content}, {sequencing}, {devices} devices: {definition}");
    let disk = CrashingDisk::default();
    let gate = Gate::default();
    let gated = GatedDisk { inner: Arc::new(disk.clone()), gate: gate.clone() };
    let config = |disk: Arc<dyn Disk>| {
        let mut config = on(disk);
        (config.content, config.sequencing) = (content, sequencing);
        config.log_devices = Some((0..devices).map(|device| format!("log{device}").into()).collect());
        config
    };
    let db = Database::open(FOLDER, config(Arc::new(gated))).unwrap();
    let mut session = db.session().unwrap();
    session
        .execute_script("CREATE TABLE a (id INT PRIMARY KEY, v INT); INSERT INTO a VALUES (1, 1)")
        .unwrap();
    gate.set(true);
    std::thread::scope(|scope| {
        let before = db.digest().unwrap();
        let defining = scope.spawn(move || session.execute_script(definition).map(drop));
        // A table shows in the digest once it is defined, durable or not.
        while db.digest().unwrap().tables.len() == before.tables.len() && !defining.is_finished() {
            std::thread::yield_now();
        }
        let (done, taken) = channel();
        let (db, gate) = (&db, &gate);
        scope.spawn(move || done.send(db.checkpoint().map(drop)));
        let early = taken.recv_timeout(PATIENCE);
        gate.set(false);
        early.or_else(|_| taken.recv()).unwrap().unwrap();
        defining.join().unwrap().unwrap();
    });
    let expected = db.digest().unwrap();
    let killed: Arc<dyn Disk> = Arc::new(CrashingDisk::holding(disk.contents()));
    drop(db);
    let db = Database::open(FOLDER, config(killed)).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(db.digest().unwrap(), expected, "{what}");
}

#[test]
fn a_checkpoint_begins_behind_its_definitions() {
    let definitions = [
        "CREATE TABLE b (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE b (id INT PRIMARY KEY); INSERT INTO b VALUES (1)",
    ];
    // Under `gsn` a worker writes its batches itself, so a definition is durable before it shows.
    for sequencing in [Sequencing::Serial, Sequencing::Epoch, Sequencing::Ssn] {
        for content in [Content::Command, Content::Logical, Content::Physical] {
            if sequencing.admits(content, content.images()).is_err() {
                continue;
            }
            for devices in [1, 2].into_iter().filter(|own| sequencing.admits_devices(*own).is_ok()) {
                for definition in definitions {
                    check(content, sequencing, devices, definition);
                }
            }
        }
    }
}
