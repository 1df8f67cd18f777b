//! Files whose batches bypass the page cache: `O_DIRECT` and `O_DSYNC`, in one call. All other accesses use
//! the page cache.

use super::DiskFile;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Alignment that the device requires of addresses, offsets and lengths.
const BLOCK: usize = 4096;

/// Memory aligned to a block.
#[derive(Default)]
struct AlignedBytes(Vec<u8>);

impl AlignedBytes {
    /// Copies bytes into the aligned memory.
    fn copy_of(&mut self, bytes: &[u8]) -> &[u8] {
        if self.0.len() < bytes.len() + BLOCK {
            self.0.resize(bytes.len() + BLOCK, 0);
        }
        let start = self.0.as_ptr().align_offset(BLOCK);
        let copy = &mut self.0[start..start + bytes.len()];
        copy.copy_from_slice(bytes);
        copy
    }
}

pub(super) struct DirectFile {
    buffered: Box<dyn DiskFile>,
    direct: File,
    copy: Mutex<AlignedBytes>,
}

impl DirectFile {
    /// Opens a file a second time, past the page cache.
    pub(super) fn open(path: &Path, buffered: Box<dyn DiskFile>) -> io::Result<Self> {
        let flags = libc::O_DIRECT | libc::O_DSYNC;
        let direct = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
        Ok(Self { buffered, direct, copy: Mutex::default() })
    }
}

impl DiskFile for DirectFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.buffered.write_at(offset, bytes)
    }

    fn write_durably(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if !(offset as usize).is_multiple_of(BLOCK) || !bytes.len().is_multiple_of(BLOCK) {
            self.buffered.write_at(offset, bytes)?;
            return self.buffered.sync();
        }
        let mut copy = self.copy.lock().unwrap_or_else(PoisonError::into_inner);
        self.direct.write_all_at(copy.copy_of(bytes), offset)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.buffered.read_at(offset, buffer)
    }

    fn sync(&self) -> io::Result<()> {
        self.buffered.sync()
    }

    fn begin_writing(&self, offset: u64, length: u64) {
        self.buffered.begin_writing(offset, length);
    }

    fn allocate_zeros(&self, offset: u64, length: u64) -> io::Result<()> {
        self.buffered.allocate_zeros(offset, length)
    }

    fn length(&self) -> io::Result<u64> {
        self.buffered.length()
    }
}
