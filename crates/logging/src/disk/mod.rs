//! All file I/O of the engine: one small trait; a real back end, one that fails, one that waits, one that has
//! little room, one that rebuilds what a crash can leave, and devices of other kinds upon them.

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

/// A file that is open.
pub trait DiskFile: Send + Sync {
    /// Writes all bytes at an offset; the file grows where needed.
    ///
    /// # Errors
    /// The disk is full, or fails.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Fills the buffer from an offset on, as far as the file goes; returns how many bytes there were.
    ///
    /// # Errors
    /// The disk fails.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Returns once everything written is durable (fdatasync).
    ///
    /// # Errors
    /// The disk fails; nothing is known then of what was written since the last success.
    fn sync(&self) -> io::Result<()>;

    /// Writes all bytes at an offset and returns once they are durable, and everything written before.
    ///
    /// # Errors
    /// The disk is full, or fails; nothing is known then of what was written since the last success.
    fn write_durably(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_at(offset, bytes)?;
        self.sync()
    }

    /// Begins to write a range to the disk, so that a later `sync` has less to do. A hint: it promises
    /// nothing.
    fn begin_writing(&self, offset: u64, length: u64) {
        let _ = (offset, length);
    }

    /// Makes room for a range, which reads as zeros from then on; without writing them where the file system
    /// can.
    ///
    /// # Errors
    /// The disk is full, or fails.
    fn allocate_zeros(&self, offset: u64, length: u64) -> io::Result<()> {
        write_zeros(self, offset, length)
    }

    /// Whether room is better made by `allocate_zeros` than by writing zeros.
    fn prefers_allocation(&self) -> bool {
        false
    }

    /// What batches of a log are aligned to: a multiple of 512 bytes.
    fn alignment(&self) -> usize {
        4096
    }

    /// Bytes.
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
    /// Makes an empty file, or empties one, readable by its owner only.
    ///
    /// # Errors
    /// The disk is full, or fails.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// It is not there, or the disk fails.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// The files of a folder, sorted; none when there is no folder.
    ///
    /// # Errors
    /// The disk fails.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;

    /// Gives a file another name, in place of one that has it.
    ///
    /// # Errors
    /// The disk fails.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file or a folder with all that is in it.
    ///
    /// # Errors
    /// It is not there, or the disk fails.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes a folder and those above it; returns those that were not there, outermost first. See
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

    /// Locks a folder for as long as the guard lives. The lock is the folder's own: no file in it stands for
    /// it, which could be removed.
    ///
    /// # Errors
    /// `WouldBlock` when it is locked, by this process or another one; it is not there.
    fn lock(&self, folder: &Path) -> io::Result<Box<dyn Any + Send + Sync>>;
}

/// Makes a folder and those above it, durably.
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
        // A process that made it may have ended before it was durable. A parent that can't be read was made
        // by another one.
        return sync_parent(folder).or_else(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => Ok(()),
            _ => Err(error),
        });
    }
    Ok(())
}

/// A path seen from a folder; one that begins with `..` is seen from the folder above. By name alone, as not
/// every disk here knows `..`.
pub fn seen_from(folder: &Path, path: &Path) -> PathBuf {
    match (path.strip_prefix(".."), folder.parent()) {
        (Ok(rest), Some(parent)) => parent.join(rest),
        _ => folder.join(path),
    }
}

/// Reads a whole file.
///
/// # Errors
/// It is not there, or the disk fails.
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
/// The disk is full, or fails; the old file is then still there.
pub fn replace(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let file = disk.create(&temporary)?;
    file.write_at(0, bytes)?;
    file.sync()?;
    drop(file);
    disk.rename(&temporary, path)?;
    disk.sync_folder(path.parent().unwrap_or(Path::new(".")))
}

/// A disk that is shared by the rooms of a database.
pub type SharedDisk = Arc<dyn Disk>;
