//! A disk that fails at a chosen call: once or from then on, with an error or a short write.

use super::{Disk, DiskFile, SharedDisk};
use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The kind of a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The call fails with EIO.
    Error,
    /// The call fails with ENOSPC.
    Full,
    /// Half of the bytes are written, then the call fails.
    ShortWrite,
}

#[derive(Debug)]
struct Plan {
    fault: Fault,
    at_call: u64,
    for_good: bool,
    /// The folder whose calls count; `None` for all folders.
    under: Option<PathBuf>,
    calls: AtomicU64,
}

impl Plan {
    /// Counts a call; returns the fault if this call is to fail.
    fn next(&self) -> Option<Fault> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let due = if self.for_good { call >= self.at_call } else { call == self.at_call };
        due.then_some(self.fault)
    }

    fn concerns(&self, path: &Path) -> bool {
        self.under.as_ref().is_none_or(|folder| path.starts_with(folder))
    }

    fn check(&self, path: &Path) -> io::Result<()> {
        match self.concerns(path).then(|| self.next()).flatten() {
            None => Ok(()),
            Some(fault) => Err(fault.error()),
        }
    }
}

impl Fault {
    fn error(self) -> io::Error {
        match self {
            Self::Error | Self::ShortWrite => io::Error::from_raw_os_error(5),
            Self::Full => io::Error::from_raw_os_error(28),
        }
    }
}

/// A wrapper around a disk whose changing calls fail as planned.
#[derive(Debug)]
pub struct FailingDisk {
    inner: SharedDisk,
    plan: Arc<Plan>,
}

struct FailingFile {
    inner: Box<dyn DiskFile>,
    path: PathBuf,
    plan: Arc<Plan>,
}

impl FailingDisk {
    /// Makes a disk whose call number `at_call` fails, and all later ones if `for_good`. Calls count from 0;
    /// reads do not count.
    pub fn new(inner: SharedDisk, fault: Fault, at_call: u64, for_good: bool) -> Self {
        let plan = Plan { fault, at_call, for_good, under: None, calls: AtomicU64::new(0) };
        Self { inner, plan: Arc::new(plan) }
    }

    /// Restricts counting and failures to the calls on one folder, such as one of several devices.
    ///
    /// # Panics
    /// The disk is already shared.
    #[must_use]
    pub fn under(self, folder: PathBuf) -> Self {
        let mut plan = Arc::into_inner(self.plan).expect("the disk is not shared yet");
        plan.under = Some(folder);
        Self { inner: self.inner, plan: Arc::new(plan) }
    }

    /// Returns the number of calls so far that change the disk.
    pub fn calls(&self) -> u64 {
        self.plan.calls.load(Ordering::Relaxed)
    }
}

impl DiskFile for FailingFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match self.plan.concerns(&self.path).then(|| self.plan.next()).flatten() {
            None => self.inner.write_at(offset, bytes),
            Some(fault) => {
                if fault == Fault::ShortWrite {
                    self.inner.write_at(offset, &bytes[..bytes.len() / 2])?;
                }
                Err(fault.error())
            }
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(offset, buffer)
    }

    fn sync(&self) -> io::Result<()> {
        self.plan.check(&self.path)?;
        self.inner.sync()
    }

    fn length(&self) -> io::Result<u64> {
        self.inner.length()
    }
}

impl Disk for FailingDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.plan.check(path)?;
        let inner = self.inner.create(path)?;
        Ok(Box::new(FailingFile { inner, path: path.into(), plan: Arc::clone(&self.plan) }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let inner = self.inner.open(path)?;
        Ok(Box::new(FailingFile { inner, path: path.into(), plan: Arc::clone(&self.plan) }))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.inner.list(folder)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.plan.check(to)?;
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.plan.check(path)?;
        self.inner.remove(path)
    }

    fn create_folder(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.plan.check(folder)?;
        self.inner.create_folder(folder)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.plan.check(folder)?;
        self.inner.sync_folder(folder)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Any + Send + Sync>> {
        self.inner.lock(path)
    }
}
