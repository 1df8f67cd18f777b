//! Identifies the database of a file or device: a random number, drawn when a data folder is made.
//!
//! A device carries a marker, the text file `reprise-device`: a version line, the database, the logger's
//! number and the number of devices, a checksum line. This is the only description of that layout.
//! Invariants: 1. a device whose marker is of another database or logger is never written to. 2. two open
//! databases never use one device, as each holds the lock of the device's folder.
//! Held by: `altered_files` and `devices_are_not_shared` (crates/reprise).
//! After a crash: the pepoch file tells whether all devices have their markers.

use crate::disk::{SharedDisk, read_whole, replace};
use crate::error::{LogError, UnprovenKind};
use crate::sealed::{malformed, seal, unseal};
use std::any::Any;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

const MARKER: &str = "reprise-device";
const FIRST_LINE: &str = "reprise device 1";

/// The number of a database; 0 in files of formats without one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DatabaseId(u128);

impl DatabaseId {
    /// Bytes of an encoded number.
    pub const BYTES: usize = 16;

    /// Draws a number.
    pub fn random() -> Self {
        Self(rand::random::<u128>().max(1))
    }

    /// Returns whether the file had a number.
    pub fn is_known(self) -> bool {
        self.0 != 0
    }

    /// Returns the number as bytes.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0.to_le_bytes()
    }

    /// Returns the number that bytes encode.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }

    pub(crate) fn salt(self) -> u64 {
        self.0 as u64 ^ (self.0 >> 64) as u64
    }

    /// Refuses a file of another database. Files without a number belong to any.
    ///
    /// # Errors
    /// `Foreign`.
    pub fn admit(self, found: Self, file: &Path) -> Result<(), LogError> {
        if self.is_known() && found.is_known() && self != found {
            return Err(LogError::unproven(file, 0, UnprovenKind::Foreign { found, expected: self }));
        }
        Ok(())
    }
}

impl fmt::Display for DatabaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for DatabaseId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(text, 16).map(Self)
    }
}

/// The identity that a device's marker states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceMarker {
    /// The database.
    pub database: DatabaseId,
    /// The index of the device among the configured ones.
    pub logger: u32,
    /// The number of devices of the database.
    pub loggers: u32,
}

impl DeviceMarker {
    /// Returns the path of a device's marker.
    pub fn path(device: &Path) -> PathBuf {
        device.join(MARKER)
    }

    /// Reads the marker of a device; `None` when there is none.
    ///
    /// # Errors
    /// The disk fails; the marker is damaged.
    pub fn read(disk: &SharedDisk, device: &Path) -> Result<Option<Self>, LogError> {
        let path = Self::path(device);
        let bytes = match read_whole(&**disk, &path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LogError::io("read", &path, error)),
        };
        let corrupt = |(offset, kind)| LogError::corrupt(&path, offset, kind);
        let malformed = || corrupt(malformed("this is no marker of a device"));
        let contents = unseal(&bytes).map_err(corrupt)?;
        let mut words = contents.strip_prefix(FIRST_LINE).ok_or_else(malformed)?.split_whitespace();
        let mut word = |name| words.next().filter(|word| *word == name).and_then(|_| words.next());
        let database = word("database").and_then(|word| word.parse().ok()).ok_or_else(malformed)?;
        let logger = word("logger").and_then(|word| word.parse().ok()).ok_or_else(malformed)?;
        let loggers = word("of").and_then(|word| word.parse().ok()).ok_or_else(malformed)?;
        Ok(Some(Self { database, logger, loggers }))
    }

    /// Refuses a device that belongs to another database or logger.
    ///
    /// # Errors
    /// `Foreign`, `OtherLogger`.
    pub fn admit(self, found: Self, device: &Path) -> Result<(), LogError> {
        let path = Self::path(device);
        self.database.admit(found.database, &path)?;
        if found.logger != self.logger {
            let kind = UnprovenKind::OtherLogger { found: found.logger, expected: self.logger };
            return Err(LogError::unproven(&path, 0, kind));
        }
        Ok(())
    }

    /// Writes the marker of a device, durably.
    ///
    /// # Errors
    /// The disk is full, or fails.
    pub fn write(self, disk: &SharedDisk, device: &Path) -> Result<(), LogError> {
        let path = Self::path(device);
        let Self { database, logger, loggers } = self;
        let mut text = format!("{FIRST_LINE}\ndatabase {database}\nlogger {logger} of {loggers}\n");
        seal(&mut text);
        replace(&**disk, &path, text.as_bytes()).map_err(|error| LogError::io("write", &path, error))
    }
}

/// Locks a device for as long as the guard lives. Returns `None` when another database has locked it, or this
/// one under another name of the device.
///
/// # Errors
/// The disk fails.
pub fn lock_device(disk: &SharedDisk, device: &Path) -> Result<Option<Box<dyn Any + Send + Sync>>, LogError> {
    match disk.lock(device) {
        Ok(guard) => Ok(Some(guard)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(LogError::io("lock", device, error)),
    }
}
