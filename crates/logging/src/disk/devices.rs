//! Log devices other than plain files: written past the page cache, in emulated non-volatile memory, or at a
//! limited rate.
//! Paper: Poplar §6.1 (NVRAM emulation), §6.3 (several devices). Files outside a device's folder are
//! unaffected.
//!
//! A rate holds for all reads and writes in a device's folder, checkpoints included, but not for the
//! preallocation of files. One disk can thus show the effect of several devices.

use super::direct::DirectFile;
use super::memory::MemoryFile;
use super::{Disk, DiskFile, SharedDisk};
use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum persist delay of a write into emulated memory, in nanoseconds.
const LONGEST_PERSIST: u64 = 1_000_000_000;

/// The way in which log files are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum LogIo {
    /// Through the page cache: pwrite, fdatasync.
    #[default]
    Buffered,
    /// Past the page cache: `O_DIRECT`, `O_DSYNC`.
    Direct,
    /// Into a mapped file that emulates non-volatile memory; each write takes a fixed time to persist. The
    /// file survives the end of the process, but not a loss of power.
    Memory {
        /// Persist delay of each write, in nanoseconds.
        persist_ns: u64,
    },
}

impl FromStr for LogIo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "buffered" => Ok(Self::Buffered),
            None if text == "direct" => Ok(Self::Direct),
            Some(("memory", persist_ns)) => match persist_ns.parse() {
                Ok(persist_ns) if persist_ns <= LONGEST_PERSIST => Ok(Self::Memory { persist_ns }),
                _ => Err(format!("\"{persist_ns}\" is no number of nanoseconds from 0 to {LONGEST_PERSIST}")),
            },
            _ => Err(format!(
                "unknown way to write logs \"{text}\"; known are: buffered, direct, memory:NANOSECONDS"
            )),
        }
    }
}

/// The properties of log devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceOptions {
    /// How log files are written.
    pub io: LogIo,
    /// Bytes per second that each device reads and writes; `None` for no limit.
    pub rate: Option<u64>,
}

impl DeviceOptions {
    /// Returns the disk with devices of this kind in the given folders.
    pub fn on(self, disk: &SharedDisk, folders: &[PathBuf]) -> SharedDisk {
        if self == Self::default() {
            return Arc::clone(disk);
        }
        let device = |folder: &PathBuf| Device {
            folder: folder.clone(),
            budget: self.rate.map(|rate| Arc::new(Budget { rate, free_at: Mutex::new(Instant::now()) })),
        };
        Arc::new(Devices {
            inner: Arc::clone(disk),
            io: self.io,
            devices: folders.iter().map(device).collect(),
        })
    }
}

/// The remaining budget of a device: it is busy until a time.
#[derive(Debug)]
struct Budget {
    rate: u64,
    free_at: Mutex<Instant>,
}

impl Budget {
    /// Charges the device for these bytes and waits until it has processed them.
    fn spend(&self, bytes: usize) {
        let takes = Duration::from_nanos((bytes as u128 * 1_000_000_000 / u128::from(self.rate)) as u64);
        let done_at = {
            let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
            *free_at = (*free_at).max(Instant::now()) + takes;
            *free_at
        };
        std::thread::sleep(done_at.saturating_duration_since(Instant::now()));
    }
}

#[derive(Debug)]
struct Device {
    folder: PathBuf,
    budget: Option<Arc<Budget>>,
}

#[derive(Debug)]
struct Devices {
    inner: SharedDisk,
    io: LogIo,
    devices: Vec<Device>,
}

/// A file of a device with a rate.
struct LimitedFile {
    inner: Box<dyn DiskFile>,
    budget: Arc<Budget>,
}

impl DiskFile for LimitedFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.budget.spend(bytes.len());
        self.inner.write_at(offset, bytes)
    }

    fn write_durably(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.budget.spend(bytes.len());
        self.inner.write_durably(offset, bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read_at(offset, buffer)?;
        self.budget.spend(read);
        Ok(read)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }

    fn begin_writing(&self, offset: u64, length: u64) {
        self.inner.begin_writing(offset, length);
    }

    fn allocate_zeros(&self, offset: u64, length: u64) -> io::Result<()> {
        self.inner.allocate_zeros(offset, length)
    }

    fn prefers_allocation(&self) -> bool {
        true
    }

    fn alignment(&self) -> usize {
        self.inner.alignment()
    }

    fn length(&self) -> io::Result<u64> {
        self.inner.length()
    }
}

impl Devices {
    fn of(&self, path: &Path) -> Option<&Device> {
        self.devices.iter().find(|device| path.starts_with(&device.folder))
    }

    fn wrap(&self, path: &Path, file: Box<dyn DiskFile>) -> io::Result<Box<dyn DiskFile>> {
        let Some(device) = self.of(path) else { return Ok(file) };
        // Log files lie in the device's folder itself, parts of checkpoints in folders below it.
        let is_log = path.parent() == Some(&device.folder);
        let file: Box<dyn DiskFile> = match self.io {
            LogIo::Direct if is_log => Box::new(DirectFile::open(path, file)?),
            LogIo::Memory { persist_ns } if is_log => {
                Box::new(MemoryFile::new(path, file, Duration::from_nanos(persist_ns)))
            }
            _ => file,
        };
        Ok(match &device.budget {
            Some(budget) => Box::new(LimitedFile { inner: file, budget: Arc::clone(budget) }),
            None => file,
        })
    }
}

impl Disk for Devices {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.wrap(path, self.inner.create(path)?)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.wrap(path, self.inner.open(path)?)
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
