//! All file I/O of the engine: one small trait and its back ends. One is real, one fails, one waits, one has
//! limited room, one builds the state after a crash; devices of other kinds wrap them.

mod crashing;
mod devices;
mod direct;
mod failing;
mod gated;
mod memory;
mod real;
mod scarce;

pub use crashing::CrashingDisk;
pub use devices::{DeviceOptions, LogIo};
pub use failing::{FailingDisk, Fault};
pub use gated::{ClosedGate, GatedDisk};
pub use real::RealDisk;
pub use scarce::ScarceDisk;

use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Zeros to write.
pub(crate) static ZEROS: [u8; 256 << 10] = [0; 256 << 10];

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Writes all bytes at an offset; the file grows where needed.
    ///
    /// # Errors
    /// The disk is full, or fails.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Reads into the buffer from an offset up to the end of the file; returns the number of bytes read.
    ///
    /// # Errors
    /// The disk fails.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Returns once all written bytes are durable (fdatasync).
    ///
    /// # Errors
    /// The disk fails. Bytes written since the last success may or may not be durable.
    fn sync(&self) -> io::Result<()>;

    /// Writes all bytes at an offset and returns once they, and all bytes written before, are durable.
    ///
    /// # Errors
    /// The disk is full, or fails. Bytes written since the last success may or may not be durable.
    fn write_durably(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_at(offset, bytes)?;
        self.sync()
    }

    /// Starts to write a range to the disk, so that a later `sync` has less to do. A hint without a
    /// guarantee.
    fn begin_writing(&self, offset: u64, length: u64) {
        let _ = (offset, length);
    }

    /// Allocates a range, which reads as zeros from then on. Does not write the zeros if the file system can
    /// avoid it.
    ///
    /// # Errors
    /// The disk is full, or fails.
    fn allocate_zeros(&self, offset: u64, length: u64) -> io::Result<()> {
        write_zeros(self, offset, length)
    }

    /// Returns whether `allocate_zeros` is better than writing zeros.
    fn prefers_allocation(&self) -> bool {
        false
    }

    /// Returns the alignment of log batches: a multiple of 512 bytes.
    fn alignment(&self) -> usize {
        4096
    }

    /// Returns the file's length, in bytes.
    ///
    /// # Errors
    /// The disk fails.
    fn length(&self) -> io::Result<u64>;
}

fn write_zeros(file: &(impl DiskFile + ?Sized), offset: u64, length: u64) -> io::Result<()> {
    let (mut offset, end) = (offset, offset + length);
    while offset < end {
        let part = (end - offset).min(ZEROS.len() as u64);
        file.write_at(offset, &ZEROS[..part as usize])?;
        offset += part;
    }
    Ok(())
}

/// A disk: files by path.
pub trait Disk: Send + Sync + std::fmt::Debug {
    /// Creates an empty file, or truncates one, readable by its owner only.
    ///
    /// # Errors
    /// The disk is full, or fails.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// The file does not exist, or the disk fails.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Returns the files of a folder, sorted; none when the folder does not exist.
    ///
    /// # Errors
    /// The disk fails.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;

    /// Renames a file, replacing a file that has the new name.
    ///
    /// # Errors
    /// The disk fails.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file, or a folder with its contents.
    ///
    /// # Errors
    /// It does not exist, or the disk fails.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Creates a folder and its missing parents; returns the created ones, outermost first. See
    /// `make_folder`.
    ///
    /// # Errors
    /// The disk is full, or fails.
    fn create_folder(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;

    /// Returns once the names in a folder are durable.
    ///
    /// # Errors
    /// The disk fails.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// Locks a folder for as long as the guard lives. The lock is on the folder itself, because a lock file
    /// could be removed.
    ///
    /// # Errors
    /// `WouldBlock` when this process or another one has locked it; the folder does not exist.
    fn lock(&self, folder: &Path) -> io::Result<Box<dyn Any + Send + Sync>>;
}

/// Creates a folder and its missing parents, durably.
///
/// # Errors
/// The disk is full, or fails.
pub fn make_folder(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    let sync_parent = |folder: &Path| match folder.parent() {
        Some(parent) if parent.as_os_str().is_empty() => disk.sync_folder(Path::new(".")),
        Some(parent) => disk.sync_folder(parent),
        None => Ok(()),
    };
    let made = disk.create_folder(folder)?;
    made.iter().try_for_each(|folder| sync_parent(folder))?;
    if made.is_empty() {
        // The process that created the folder may have ended before it was durable. If the parent cannot be
        // read, another process created it.
        return sync_parent(folder).or_else(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => Ok(()),
            _ => Err(error),
        });
    }
    Ok(())
}

/// Returns a path relative to a folder; one that begins with `..` is relative to the folder above. Works on
/// names alone, because not every disk here supports `..`.
pub fn seen_from(folder: &Path, path: &Path) -> PathBuf {
    match (path.strip_prefix(".."), folder.parent()) {
        (Ok(rest), Some(parent)) => parent.join(rest),
        _ => folder.join(path),
    }
}

/// Reads a whole file.
///
/// # Errors
/// It does not exist, or the disk fails.
pub fn read_whole(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path)?;
    let mut bytes = vec![0; usize::try_from(file.length()?).map_err(io::Error::other)?];
    let read = file.read_at(0, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Replaces a file in one step: a reader finds the old contents or the new ones, also after a crash.
///
/// # Errors
/// The disk is full, or fails; the old file is then unchanged.
pub fn replace(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let file = disk.create(&temporary)?;
    file.write_at(0, bytes)?;
    file.sync()?;
    drop(file);
    disk.rename(&temporary, path)?;
    disk.sync_folder(path.parent().unwrap_or(Path::new(".")))
}

/// A disk that the crates of a database share.
pub type SharedDisk = Arc<dyn Disk>;
