//! Large records, which no buffer holds: each is in a file of its own, and a record in the log refers to it.
//!
//! A file `large-<incarnation>-<number>` in the folder of the first device: magic and version (8 bytes),
//! CRC-32C of the record's bytes behind its number (u32, little-endian), database (16 bytes), then those
//! bytes (`content`). Version 1 has no database. This is the only description of that layout.
//! Invariants: 1. the file and its name are durable before the record that refers to it is in a buffer. 2.
//! the file is removed once a checkpoint holds its changes, or when its transaction did not commit.
//! After a crash: files of transactions that did not commit; the next opening removes them.
//! Held by: `large_transactions` (crates/reprise).

use crate::content::{LargeRecord, take_body};
use crate::disk::{SharedDisk, read_whole};
use crate::error::{CorruptionKind, LogError};
use crate::identity::DatabaseId;
use catalog::CommitOrder;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

const MAGIC: &[u8; 8] = b"RPRSLRG2";
const MAGIC_WITHOUT_DATABASE: &[u8; 8] = b"RPRSLRG1";
/// Bytes before the database, and the body of version 1.
const HEADER: usize = 12;
const BODY: usize = HEADER + DatabaseId::BYTES;
const PREFIX: &str = "large-";

/// The large records of one log.
#[derive(Debug)]
pub struct LargeRecords {
    disk: SharedDisk,
    folder: PathBuf,
    database: DatabaseId,
    incarnation: u64,
    next: AtomicU64,
    /// Files of committed transactions, and their numbers.
    kept: Mutex<Vec<(PathBuf, CommitOrder)>>,
}

/// The file of a transaction that has neither committed nor aborted yet.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "it is kept or forgotten"]
pub struct LargeFile(PathBuf);

fn path_of(folder: &Path, incarnation: u64, number: u64) -> PathBuf {
    folder.join(format!("{PREFIX}{incarnation}-{number}"))
}

impl LargeRecords {
    /// Returns the large records of an incarnation. `kept` are files of earlier ones that recovery needs,
    /// with the numbers of their transactions; all other files are removed.
    ///
    /// # Errors
    /// The disk fails.
    pub fn new(
        disk: &SharedDisk,
        folder: &Path,
        (database, incarnation): (DatabaseId, u64),
        kept: Vec<(PathBuf, CommitOrder)>,
    ) -> Result<Self, LogError> {
        let listed = disk.list(folder).map_err(|error| LogError::io("list", folder, error))?;
        for file in listed {
            let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with(PREFIX) && !kept.iter().any(|(own, _)| *own == file) {
                disk.remove(&file).map_err(|error| LogError::io("remove", &file, error))?;
            }
        }
        let (disk, folder) = (disk.clone(), folder.into());
        Ok(Self { disk, folder, database, incarnation, next: AtomicU64::new(1), kept: Mutex::new(kept) })
    }

    /// Moves a record's contents into a file and replaces them by a reference.
    ///
    /// # Errors
    /// The disk is full, or fails; the file is then removed.
    pub fn put(&self, record: &mut Vec<u8>) -> Result<LargeFile, LogError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = path_of(&self.folder, self.incarnation, number);
        let (kind, body) = take_body(record);
        let checksum = crc32c::crc32c(body);
        let mut bytes = Vec::with_capacity(BODY + body.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes.extend_from_slice(&self.database.to_bytes());
        bytes.extend_from_slice(body);
        let length = body.len() as u64;
        let write = || {
            let file = self.disk.create(&path)?;
            file.write_at(0, &bytes)?;
            file.sync()?;
            self.disk.sync_folder(&self.folder)
        };
        if let Err(error) = write() {
            // If the removal fails, the next opening of the database removes the file.
            let _ = self.disk.remove(&path);
            return Err(LogError::io("write", &path, error));
        }
        LargeRecord { incarnation: self.incarnation, number, kind, length, checksum }.write(record);
        Ok(LargeFile(path))
    }

    /// Keeps the file of a transaction that has committed.
    pub fn keep(&self, file: LargeFile, order: CommitOrder) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push((file.0, order));
    }

    /// Removes the file of a transaction that has not committed.
    pub fn forget(&self, file: LargeFile) {
        // If the removal fails, the next opening of the database removes the file.
        let _ = self.disk.remove(&file.0);
    }

    /// Removes the files of transactions that a checkpoint holds, because they are numbered before its bound.
    ///
    /// # Errors
    /// The disk fails.
    pub fn release_before(&self, bound: CommitOrder) -> Result<(), LogError> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(place) = kept.iter().position(|(_, order)| *order < bound) {
            let (file, _) = &kept[place];
            self.disk.remove(file).map_err(|error| LogError::io("remove", file, error))?;
            kept.swap_remove(place);
        }
        Ok(())
    }
}

/// Reads the file of a reference: the record's bytes behind its number.
///
/// # Errors
/// The file does not exist, or is damaged; the disk fails.
pub fn read_large(
    disk: &SharedDisk,
    folder: &Path,
    database: DatabaseId,
    record: LargeRecord,
) -> Result<(PathBuf, Vec<u8>), LogError> {
    let path = path_of(folder, record.incarnation, record.number);
    let mut bytes = read_whole(&**disk, &path).map_err(|error| LogError::io("read", &path, error))?;
    let damaged = |offset: usize, kind| Err(LogError::corrupt(&path, offset as u64, kind));
    let header = match bytes.first_chunk::<8>() {
        Some(MAGIC_WITHOUT_DATABASE) => HEADER,
        _ => BODY,
    };
    let expected = record.length + header as u64;
    if bytes.len() as u64 != expected {
        return damaged(bytes.len(), CorruptionKind::Truncated { actual: bytes.len() as u64, expected });
    }
    if header == BODY && bytes[..8] != *MAGIC {
        return damaged(0, CorruptionKind::Malformed("this is no file of a large record"));
    }
    let checksum = u32::from_le_bytes(bytes[8..HEADER].try_into().expect("four bytes"));
    if header == BODY {
        let found = bytes[HEADER..BODY].try_into().expect("the bytes of a number");
        database.admit(DatabaseId::from_bytes(found), &path)?;
    }
    let body = bytes.split_off(header);
    if checksum != record.checksum || crc32c::crc32c(&body) != checksum {
        return damaged(header, CorruptionKind::Checksum);
    }
    Ok((path, body))
}
