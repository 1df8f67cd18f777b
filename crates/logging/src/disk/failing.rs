//! A disk that fails at a chosen call: once or from then on, with an error or a short write.

use super::{Disk, DiskFile, SharedDisk};
use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The call fails with EIO.
    Error,
    /// The call fails with ENOSPC.
    Full,
    /// Half of a write is done, then it fails.
    ShortWrite,
}

#[derive(Debug)]
struct Plan {
    fault: Fault,
    at_call: u64,
    for_good: bool,
    /// Where calls count; everywhere when `None`.
    under: Option<PathBuf>,
    calls: AtomicU64,
}

impl Plan {
    /// Counts a call; the fault, if this is its turn.
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

/// Another disk, of which the calls that change something fail as planned.
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
    /// A disk whose call number `at_call` (from 0; reads are not counted) fails, and all after it when
    /// `for_good`.
    pub fn new(inner: SharedDisk, fault: Fault, at_call: u64, for_good: bool) -> Self {
        let plan = Plan { fault, at_call, for_good, under: None, calls: AtomicU64::new(0) };
        Self { inner, plan: Arc::new(plan) }
    }

    /// The same, but only calls count and fail that concern a folder: one of several devices.
    ///
    /// # Panics
    /// When it is in use.
    #[must_use]
    pub fn under(self, folder: PathBuf) -> Self {
        let mut plan = Arc::into_inner(self.plan).expect("nobody uses it yet");
        plan.under = Some(folder);
        Self { inner: self.inner, plan: Arc::new(plan) }
    }

    /// Calls so far that change something.
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
