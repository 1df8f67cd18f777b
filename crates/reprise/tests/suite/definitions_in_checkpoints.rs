//! A checkpoint that holds a definition begins behind it: recovery never applies the definition again.

use crate::common::on;
use reprise::disk::{CrashingDisk, Disk, GatedDisk};
use reprise::{Content, Database, Sequencing};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

const FOLDER: &str = "/db";
/// How long the test waits for a checkpoint that may be waiting for the log.
const PATIENCE: Duration = Duration::from_millis(60);

/// Takes a checkpoint while a definition is applied and not durable yet, and opens what is there after a
/// kill.
fn check(content: Content, sequencing: Sequencing, devices: usize, definition: &str) {
    let what = format!("{content}, {sequencing}, {devices} devices: {definition}");
    let disk = CrashingDisk::default();
    let gated = Arc::new(GatedDisk::before("logs", Arc::new(disk.clone())));
    let config = |disk: Arc<dyn Disk>| {
        let mut config = on(disk);
        (config.content, config.sequencing) = (content, sequencing);
        config.log_devices = Some((0..devices).map(|device| format!("logs/{device}").into()).collect());
        config
    };
    let db = Database::open(FOLDER, config(Arc::clone(&gated) as Arc<dyn Disk>)).unwrap();
    let mut session = db.session().unwrap();
    session
        .execute_script("CREATE TABLE a (id INT PRIMARY KEY, v INT); INSERT INTO a VALUES (1, 1)")
        .unwrap();
    let closed = gated.close();
    std::thread::scope(|scope| {
        let before = db.digest().unwrap();
        let defining = scope.spawn(move || session.execute_script(definition).map(drop));
        // A table shows in the digest once it is defined, durable or not.
        while db.digest().unwrap().tables.len() == before.tables.len() && !defining.is_finished() {
            std::thread::yield_now();
        }
        let (done, taken) = channel();
        let db = &db;
        scope.spawn(move || done.send(db.checkpoint().map(drop)));
        let early = taken.recv_timeout(PATIENCE);
        drop(closed);
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
