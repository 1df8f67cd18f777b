//! A disk whose changes wait while its gate is closed, so that a test can keep a transaction from becoming
//! durable.
//!
//! Invariant: between `close` and the drop of its guard, no call that changes the disk returns.
//! Held by: `nothing_changes_while_the_gate_is_closed`.

use super::{Disk, DiskFile, SharedDisk};
use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

#[derive(Default, Debug)]
struct State {
    is_closed: bool,
    /// Threads that wait at the gate.
    waiting: Vec<ThreadId>,
}

#[derive(Default, Debug)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns once the gate is open.
    fn pass(&self) {
        let mut state = self.lock();
        if !state.is_closed {
            return;
        }
        let thread = std::thread::current().id();
        state.waiting.push(thread);
        self.changed.notify_all();
        while state.is_closed {
            state = self.wait(state);
        }
        state.waiting.retain(|waiting| *waiting != thread);
    }
}

/// A wrapper around a disk with a gate, which is open at first. Reads pass a closed gate.
#[derive(Debug)]
pub struct GatedDisk {
    inner: SharedDisk,
    gate: Arc<Gate>,
    /// The name of the folder behind the gate; `None` when the whole disk is behind it.
    folder: Option<&'static str>,
}

/// Keeps the gate closed until it is dropped.
#[derive(Debug)]
#[must_use = "the gate opens when this is dropped"]
pub struct ClosedGate(Arc<Gate>);

struct GatedFile {
    inner: Box<dyn DiskFile>,
    gate: Option<Arc<Gate>>,
}

impl GatedDisk {
    /// Puts a gate before a disk.
    pub fn new(inner: SharedDisk) -> Self {
        Self { inner, gate: Arc::default(), folder: None }
    }

    /// Puts a gate before all folders of one name.
    pub fn before(folder: &'static str, inner: SharedDisk) -> Self {
        Self { folder: Some(folder), ..Self::new(inner) }
    }

    /// Closes the gate.
    pub fn close(&self) -> ClosedGate {
        self.gate.lock().is_closed = true;
        ClosedGate(Arc::clone(&self.gate))
    }

    fn is_behind(&self, path: &Path) -> bool {
        self.folder.is_none_or(|folder| path.components().any(|part| part.as_os_str() == folder))
    }

    fn pass(&self, path: &Path) {
        if self.is_behind(path) {
            self.gate.pass();
        }
    }

    fn file(&self, path: &Path, inner: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        let gate = self.is_behind(path).then(|| Arc::clone(&self.gate));
        Box::new(GatedFile { inner, gate })
    }
}

impl ClosedGate {
    /// Returns once all of these threads wait at the gate.
    pub fn wait_for(&self, threads: &[ThreadId]) {
        let mut state = self.0.lock();
        while !threads.iter().all(|thread| state.waiting.contains(thread)) {
            state = self.0.wait(state);
        }
    }
}

impl Drop for ClosedGate {
    fn drop(&mut self) {
        self.0.lock().is_closed = false;
        self.0.changed.notify_all();
    }
}

impl DiskFile for GatedFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.gate.iter().for_each(|gate| gate.pass());
        self.inner.write_at(offset, bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(offset, buffer)
    }

    fn sync(&self) -> io::Result<()> {
        self.gate.iter().for_each(|gate| gate.pass());
        self.inner.sync()
    }

    fn alignment(&self) -> usize {
        self.inner.alignment()
    }

    fn length(&self) -> io::Result<u64> {
        self.inner.length()
    }
}

impl Disk for GatedDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.pass(path);
        self.inner.create(path).map(|inner| self.file(path, inner))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.inner.open(path).map(|inner| self.file(path, inner))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.inner.list(folder)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.pass(from);
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.pass(path);
        self.inner.remove(path)
    }

    fn create_folder(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.pass(folder);
        self.inner.create_folder(folder)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.pass(folder);
        self.inner.sync_folder(folder)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Any + Send + Sync>> {
        self.inner.lock(path)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::disk::CrashingDisk;

    #[test]
    fn nothing_changes_while_the_gate_is_closed() {
        let crashing = CrashingDisk::default();
        let disk = GatedDisk::new(Arc::new(crashing.clone()));
        let file = disk.create(Path::new("file")).unwrap();
        let closed = disk.close();
        let before = crashing.calls();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| file.write_durably(0, b"bytes"));
            closed.wait_for(&[writer.thread().id()]);
            assert_eq!(crashing.calls(), before);
            assert_eq!(file.length().unwrap(), 0, "reads pass");
            drop(closed);
            writer.join().unwrap().unwrap();
        });
        assert_eq!(file.length().unwrap(), 5);
    }
}
