//! The real disk: files of the operating system, pwrite and fdatasync.

#![allow(unsafe_code)]

use super::{Disk, DiskFile, write_zeros};
use std::any::Any;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Files of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl DiskFile for File {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            match FileExt::read_at(self, &mut buffer[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    #[cfg(target_os = "linux")]
    fn begin_writing(&self, offset: u64, length: u64) {
        let flags = libc::SYNC_FILE_RANGE_WRITE;
        // SAFETY: the descriptor is open as long as `self` exists. A failure shows again in `sync`.
        unsafe { libc::sync_file_range(self.as_raw_fd(), offset as i64, length as i64, flags) };
    }

    #[cfg(target_os = "linux")]
    fn allocate_zeros(&self, offset: u64, length: u64) -> io::Result<()> {
        // SAFETY: the descriptor is open as long as `self` exists.
        let result = unsafe {
            libc::fallocate(self.as_raw_fd(), libc::FALLOC_FL_ZERO_RANGE, offset as i64, length as i64)
        };
        if result == 0 {
            return Ok(());
        }
        match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EOPNOTSUPP) => write_zeros(self, offset, length),
            error => Err(error),
        }
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    // Records hold the arguments of calls, so only the owner may read them.
    options.read(true).write(true).mode(0o600);
    options
}

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(options().create(true).truncate(true).open(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        match options().open(path) {
            // Read access to the folder suffices for `recover` and `log`.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(Box::new(File::open(path)?)),
            opened => Ok(Box::new(opened?)),
        }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
    }

    fn create_folder(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let mut made: Vec<_> = folder.ancestors().take_while(is_missing).map(Path::to_path_buf).collect();
        made.reverse();
        // Logs and checkpoints hold rows and the arguments of calls, so only the owner may read them.
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        Ok(made)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }

    fn lock(&self, folder: &Path) -> io::Result<Box<dyn Any + Send + Sync>> {
        let file = File::open(folder)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(file)),
            Err(fs::TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }
}
