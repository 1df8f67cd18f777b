//! Emulated non-volatile memory: batches are copied into a mapped file, and persist after a delay.
//! Paper: Poplar §6.1 (the delay is a loop that waits).
#![allow(unsafe_code)]

use super::DiskFile;
use memmap2::{MmapOptions, MmapRaw};
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Memory has no blocks, but batches consist of sectors here too.
const ALIGNMENT: usize = 512;

pub(super) struct MemoryFile {
    path: PathBuf,
    file: Box<dyn DiskFile>,
    /// Mapped at the first batch, when the file has its final length. Mapped by descriptor, because the file
    /// may be renamed before.
    mapped: OnceLock<MmapRaw>,
    opened: Option<std::fs::File>,
    persist: Duration,
    /// Held by the thread that copies.
    copying: Mutex<()>,
}

impl MemoryFile {
    pub(super) fn new(path: &Path, file: Box<dyn DiskFile>, persist: Duration) -> Self {
        let opened = OpenOptions::new().read(true).write(true).open(path).ok();
        Self { path: path.into(), file, mapped: OnceLock::new(), opened, persist, copying: Mutex::default() }
    }

    fn mapped(&self) -> io::Result<&MmapRaw> {
        if let Some(mapped) = self.mapped.get() {
            return Ok(mapped);
        }
        let missing = || io::Error::other(format!("{} cannot be mapped", self.path.display()));
        let opened = self.opened.as_ref().ok_or_else(missing)?;
        let mapped = MmapOptions::new().map_raw(opened)?;
        Ok(self.mapped.get_or_init(|| mapped))
    }
}

impl DiskFile for MemoryFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn write_durably(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let (begun, mapped) = (Instant::now(), self.mapped()?);
        let offset = offset as usize;
        if offset.checked_add(bytes.len()).is_none_or(|end| end > mapped.len()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let copying = self.copying.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the range lies inside the mapping, which no reference ever borrows, and one thread at a
        // time copies.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), mapped.as_mut_ptr().add(offset), bytes.len())
        };
        drop(copying);
        while begun.elapsed() < self.persist {
            std::hint::spin_loop();
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn begin_writing(&self, offset: u64, length: u64) {
        self.file.begin_writing(offset, length);
    }

    fn allocate_zeros(&self, offset: u64, length: u64) -> io::Result<()> {
        self.file.allocate_zeros(offset, length)
    }

    fn alignment(&self) -> usize {
        ALIGNMENT
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }
}
