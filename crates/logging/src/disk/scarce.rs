//! A disk with limited room and descriptors; tests change both limits while it is in use.
//!
//! A file takes as many bytes as its length; a folder takes none. An open file takes a descriptor, and
//! listing or syncing a folder takes one during the call.
//! Held by: `room_and_descriptors_are_given_back`.

use super::{Disk, DiskFile, SharedDisk};
use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
struct State {
    /// Limit of the bytes of all files together.
    room: u64,
    descriptors: usize,
    /// Descriptors in use.
    taken: usize,
    /// The number and length of each file that has a name.
    files: BTreeMap<PathBuf, (u64, u64)>,
    next: u64,
}

/// The limits that a disk and its files share.
#[derive(Debug)]
struct Limits(Mutex<State>);

impl Limits {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn used(&self) -> u64 {
        self.files.values().map(|(_, length)| length).sum()
    }

    /// Checks that a file may grow to a length, and notes the length.
    fn grow(&mut self, number: u64, length: u64) -> io::Result<()> {
        let (used, room) = (self.used(), self.room);
        // A file without a name takes no room.
        let Some((_, own)) = self.files.values_mut().find(|(own, _)| *own == number) else { return Ok(()) };
        let more = length.saturating_sub(*own);
        if more > 0 && used + more > room {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        *own = (*own).max(length);
        Ok(())
    }
}

/// A wrapper around a disk with limits. The files that it has at first take no room.
#[derive(Clone, Debug)]
pub struct ScarceDisk {
    inner: SharedDisk,
    limits: Arc<Limits>,
}

struct ScarceFile {
    inner: Box<dyn DiskFile>,
    number: u64,
    descriptor: Descriptor,
}

/// A descriptor in use, until it is dropped.
struct Descriptor(Arc<Limits>);

impl Drop for Descriptor {
    fn drop(&mut self) {
        self.0.lock().taken -= 1;
    }
}

impl ScarceDisk {
    /// Makes a disk without limits.
    pub fn new(inner: SharedDisk) -> Self {
        let (files, next) = (BTreeMap::new(), 0);
        let state = State { room: u64::MAX, descriptors: usize::MAX, taken: 0, files, next };
        Self { inner, limits: Arc::new(Limits(Mutex::new(state))) }
    }

    /// Limits the bytes of all files together.
    pub fn limit_room(&self, bytes: u64) {
        self.limits.lock().room = bytes;
    }

    /// Sets the limit to the bytes in use plus `bytes`.
    pub fn leave_room(&self, bytes: u64) {
        let mut state = self.limits.lock();
        state.room = state.used() + bytes;
    }

    /// Sets the limit to the descriptors in use plus `more`.
    pub fn leave_descriptors(&self, more: usize) {
        let mut state = self.limits.lock();
        state.descriptors = state.taken.saturating_add(more);
    }

    /// Returns the bytes of all files together.
    pub fn used(&self) -> u64 {
        self.limits.lock().used()
    }

    fn descriptor(&self) -> io::Result<Descriptor> {
        let mut state = self.limits.lock();
        if state.taken >= state.descriptors {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        state.taken += 1;
        Ok(Descriptor(Arc::clone(&self.limits)))
    }

    fn file(&self, path: &Path, inner: Box<dyn DiskFile>, descriptor: Descriptor) -> Box<dyn DiskFile> {
        let mut state = self.limits.lock();
        let next = state.next;
        state.next += 1;
        let number = state.files.entry(path.into()).or_insert((next, 0)).0;
        drop(state);
        Box::new(ScarceFile { inner, number, descriptor })
    }
}

impl DiskFile for ScarceFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.descriptor.0.lock().grow(self.number, offset + bytes.len() as u64)?;
        self.inner.write_at(offset, bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(offset, buffer)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }

    fn length(&self) -> io::Result<u64> {
        self.inner.length()
    }
}

impl Disk for ScarceDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let descriptor = self.descriptor()?;
        let inner = self.inner.create(path)?;
        self.limits.lock().files.remove(path);
        Ok(self.file(path, inner, descriptor))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let descriptor = self.descriptor()?;
        Ok(self.file(path, self.inner.open(path)?, descriptor))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let _descriptor = self.descriptor()?;
        self.inner.list(folder)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)?;
        let mut state = self.limits.lock();
        if let Some(file) = state.files.remove(from) {
            state.files.insert(to.into(), file);
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)?;
        self.limits.lock().files.retain(|file, _| !file.starts_with(path));
        Ok(())
    }

    fn create_folder(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.inner.create_folder(folder)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let _descriptor = self.descriptor()?;
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
    fn room_and_descriptors_are_given_back() {
        let disk = ScarceDisk::new(Arc::new(CrashingDisk::default()));
        disk.limit_room(10);
        disk.leave_descriptors(2);
        let [one, two, three] = ["one", "two", "three"].map(Path::new);
        let file = disk.create(one).unwrap();
        file.write_at(0, b"12345678").unwrap();
        let other = disk.create(two).unwrap();
        assert_eq!(disk.create(three).map(drop).unwrap_err().raw_os_error(), Some(libc::EMFILE));
        assert_eq!(other.write_at(0, b"123").unwrap_err().raw_os_error(), Some(libc::ENOSPC));
        file.write_at(0, b"abcdefgh").unwrap();
        disk.rename(one, three).unwrap();
        assert_eq!(disk.used(), 8);
        disk.remove(three).unwrap();
        other.write_at(0, b"123").unwrap();
        drop(file);
        disk.open(two).unwrap();
        assert_eq!(disk.used(), 3);
    }
}
