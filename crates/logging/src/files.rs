//! Log files: names, headers, preallocation and recycling.
//!
//! A logger writes files `log-<incarnation>-<sequence>.rlog` in its device's folder; where several write into
//! one folder, `log-<incarnation>-<sequence>-w<logger>.rlog`. The first 4,096 bytes are the header: one
//! sector (see `sectors`) of magic (8 bytes), format version (u32), logger (u32), loggers (u32), incarnation
//! (u64), sequence (u64), length of the file (u64), salt (u64), number of the first batch (u64), alignment of
//! batches (u32), database (16 bytes), semantics of the executor (u32). Batches follow, each beginning at a
//! multiple of the alignment: magic (u32), length of the records (u32), number (u64), then two commit orders:
//! up to the first all that this logger has is in this batch or before (u64), up to the second all that any
//! logger has is durable with it (u64); length of the next list (u16), a varint for each logger with the
//! number of its last durable batch, where there are several loggers; then the records. This is the only
//! description of that layout.
//!
//! | version | differs from the next one |
//! |---|---|
//! | 1 | has fewer kinds of records |
//! | 2 | batches have an epoch for the first commit order and no second one; the alignment is 4,096 |
//! | 3 | no database, semantics, or list of batches |
//!
//! Invariants: 1. a file has batches only once the pepoch file names it. 2. a batch names only batches that
//! were durable when it was written. So what is named is there after any crash, and a file or batch that is
//! named and not there was removed. Held by: `altered_files` (crates/reprise).
//! After a crash: the header is written last when a file is made, so a file with a header has its full
//! length, zeroed but for its batches; a file without one, or with a part of one and nothing else, was never
//! used.

use crate::disk::{DiskFile, SharedDisk, ZEROS};
use crate::error::{CorruptionKind, LogError};
use crate::identity::DatabaseId;
use crate::pepoch::PepochKeeper;
use crate::sectors::{self, SECTOR, SectorState};
use crate::sequencing::Durability;
use crate::shortage::{Rests, Stage};
use catalog::{CommitOrder, Reader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of the smallest log file.
pub(crate) const LEAST_FILE: u64 = 32 << 10;
/// Length of the header.
pub(crate) const PAGE: usize = 4096;
/// Bytes of a batch before its list of batches.
pub(crate) const BATCH_HEADER: usize = 34;
pub(crate) const BATCH_MAGIC: u32 = 0x4854_4142;
/// Most bytes of a varint.
const VARINT: usize = 10;
const MAGIC: &[u8; 8] = b"RPRSLOG\n";
const VERSION: u32 = 4;
const OLDEST_VERSION: u32 = 1;

/// The identity of a logger's file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FileId {
    /// The incarnation: the number of the opening of the database.
    pub incarnation: u64,
    /// The logger, if several write into one folder.
    pub worker: Option<u32>,
    /// The file's number among the logger's files of the incarnation.
    pub sequence: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) logger: u32,
    pub(crate) loggers: u32,
    pub(crate) id: FileId,
    pub(crate) length: u64,
    pub(crate) salt: u64,
    pub(crate) first_batch: u64,
    pub(crate) alignment: usize,
    pub(crate) database: DatabaseId,
    pub(crate) semantics: u32,
}

impl FileId {
    /// Returns the path of the file on a device.
    pub fn path(self, folder: &Path) -> PathBuf {
        let worker = self.worker.map(|worker| format!("-w{worker:03}")).unwrap_or_default();
        folder.join(format!("log-{:08}-{:08}{worker}.rlog", self.incarnation, self.sequence))
    }

    /// Returns the logger of a file on a device.
    pub fn logger(self, device: u32) -> u32 {
        self.worker.unwrap_or(device)
    }

    /// Returns the file that a path names; `None` for other files.
    pub fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.strip_prefix("log-")?.strip_suffix(".rlog")?;
        let (incarnation, rest) = name.split_once('-')?;
        let (sequence, worker) = match rest.split_once("-w") {
            Some((sequence, worker)) => (sequence, Some(worker.parse().ok()?)),
            None => (rest, None),
        };
        Some(Self { incarnation: incarnation.parse().ok()?, worker, sequence: sequence.parse().ok()? })
    }
}

impl Header {
    fn write(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.extend_from_slice(&self.logger.to_le_bytes());
        bytes.extend_from_slice(&self.loggers.to_le_bytes());
        let numbers = [self.id.incarnation, self.id.sequence, self.length, self.salt, self.first_batch];
        for number in numbers {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&(self.alignment as u32).to_le_bytes());
        bytes.extend_from_slice(&self.database.to_bytes());
        bytes.extend_from_slice(&self.semantics.to_le_bytes());
        let mut sector = Vec::new();
        sectors::pack(&[&bytes], 0, 0, &mut sector);
        sector
    }

    /// Reads a file's header; `None` when the file was never used.
    pub(crate) fn read(path: &Path, bytes: &[u8]) -> Result<Option<Self>, LogError> {
        let corrupt = |kind| LogError::corrupt(path, 0, kind);
        if bytes.len() < PAGE {
            let kind = CorruptionKind::Truncated { actual: bytes.len() as u64, expected: PAGE as u64 };
            return Err(LogError::corrupt(path, bytes.len() as u64, kind));
        }
        let sector = &bytes[..SECTOR];
        if sectors::judge(sector, 0, 0) != SectorState::Valid {
            // Batches follow the header, so a file whose header was written in part has none.
            let has_batches = bytes[SECTOR..].iter().any(|byte| *byte != 0);
            return if has_batches { Err(corrupt(CorruptionKind::Checksum)) } else { Ok(None) };
        }
        let malformed = |_| corrupt(CorruptionKind::Malformed("this is no header of a log file"));
        let mut reader = Reader::new(sector);
        if reader.take(8).map_err(malformed)? != MAGIC {
            return Err(corrupt(CorruptionKind::Malformed("this is no log file")));
        }
        let version = u32::from_le_bytes(reader.array().map_err(malformed)?);
        if !(OLDEST_VERSION..=VERSION).contains(&version) {
            return Err(corrupt(CorruptionKind::UnknownVersion(version)));
        }
        let logger = u32::from_le_bytes(reader.array().map_err(malformed)?);
        let loggers = u32::from_le_bytes(reader.array().map_err(malformed)?);
        let mut number = || reader.array().map(u64::from_le_bytes).map_err(malformed);
        let worker = FileId::of(path).and_then(|id| id.worker);
        let id = FileId { incarnation: number()?, worker, sequence: number()? };
        let (length, salt, first_batch) = (number()?, number()?, number()?);
        let alignment = match version {
            3.. => u32::from_le_bytes(reader.array().map_err(malformed)?) as usize,
            _ => PAGE,
        };
        if alignment == 0 || !alignment.is_multiple_of(SECTOR) {
            return Err(corrupt(CorruptionKind::Malformed("its batches are aligned to no sectors")));
        }
        let (database, semantics) = match version {
            4.. => (
                DatabaseId::from_bytes(reader.array().map_err(malformed)?),
                u32::from_le_bytes(reader.array().map_err(malformed)?),
            ),
            // No release wrote these versions, so their records are replayed with today's semantics.
            _ => (DatabaseId::default(), procedure::SEMANTICS),
        };
        let header =
            Self { version, logger, loggers, id, length, salt, first_batch, alignment, database, semantics };
        if header.length != bytes.len() as u64 {
            let kind = CorruptionKind::Truncated { actual: bytes.len() as u64, expected: header.length };
            return Err(LogError::corrupt(path, bytes.len() as u64, kind));
        }
        Ok(Some(header))
    }
}

/// A file that is ready for batches.
pub(crate) struct ReadyFile {
    pub(crate) file: Box<dyn DiskFile>,
    pub(crate) path: PathBuf,
    pub(crate) salt: u64,
    pub(crate) length: u64,
    pub(crate) alignment: usize,
}

/// How the making of a file continues after each part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pace {
    /// With the next part.
    Steady,
    /// Without pauses, because a logger waits for the file.
    Hurry,
    /// Not at all.
    Stop,
}

/// Fills a file with zeros, durably. `rest` runs between parts, so that other writers of the device are not
/// held up. The parts are not synced one by one, because each journal commit of the file system would delay
/// the loggers.
///
/// A file in a hurry is only allocated. Batches into such room take longer. A logger that fills files faster
/// than they are zeroed has large batches, though, for which the cost is small.
fn zero(file: &dyn DiskFile, length: u64, rest: impl Fn() -> Pace) -> std::io::Result<()> {
    let mut offset = 0;
    let mut pace = if file.prefers_allocation() { Pace::Hurry } else { Pace::Steady };
    while offset < length {
        let part = (length - offset).min(ZEROS.len() as u64);
        match pace {
            Pace::Steady => {
                file.write_at(offset, &ZEROS[..part as usize])?;
                file.begin_writing(offset, part);
                offset += part;
                pace = rest();
            }
            Pace::Hurry => {
                file.allocate_zeros(offset, length - offset)?;
                break;
            }
            Pace::Stop => return Err(std::io::ErrorKind::Interrupted.into()),
        }
    }
    if pace == Pace::Stop { Err(std::io::ErrorKind::Interrupted.into()) } else { file.sync() }
}

/// The state that a logger needs to make files.
#[derive(Clone, Debug)]
pub(crate) struct FileMaker {
    pub(crate) disk: SharedDisk,
    pub(crate) folder: PathBuf,
    pub(crate) logger: u32,
    pub(crate) loggers: u32,
    /// Whether other loggers write into the folder too.
    pub(crate) shares_folder: bool,
    /// The maximum number of loggers.
    pub(crate) most_loggers: usize,
    pub(crate) length: u64,
    pub(crate) database: DatabaseId,
    pub(crate) pepoch: Arc<PepochKeeper>,
    /// The durability of the whole log; it records which loggers lack room.
    pub(crate) durability: Arc<Durability>,
    /// How long a batch is retried while there is no room for it; `None` until the log is closed.
    pub(crate) gives_up_after: Option<Duration>,
}

impl FileMaker {
    /// Returns the number of this logger in names of files.
    pub(crate) fn worker(&self) -> Option<u32> {
        self.shares_folder.then_some(self.logger)
    }

    fn temporary(&self, name: &str) -> PathBuf {
        let worker = self.worker().map(|worker| format!("-w{worker:03}")).unwrap_or_default();
        self.folder.join(format!("{name}{worker}.tmp"))
    }

    /// Returns the path of the spare file. Checkpoints rename released files to it, and the maker renames it
    /// to a new file, so neither needs to know the other.
    fn spare(&self) -> PathBuf {
        self.temporary("spare")
    }

    /// Returns the path of the file in preparation.
    fn next(&self) -> PathBuf {
        self.temporary("next")
    }

    /// Returns the record bytes of the largest batch that a file holds.
    pub(crate) fn largest_batch(&self) -> usize {
        let room = (self.length as usize).saturating_sub(PAGE) / PAGE * PAGE;
        let list = if self.most_loggers > 1 { self.most_loggers * VARINT } else { 0 };
        (room / SECTOR * sectors::CONTENTS).saturating_sub(BATCH_HEADER + list)
    }

    /// Makes zeroed room for the next file. Reuses the spare file, or a file that an earlier incarnation
    /// prepared. All slow work happens here, with pauses when the file is for later. Frees the room again
    /// when the disk is full.
    pub(crate) fn prepare(&self, rest: impl Fn() -> Pace) -> Result<Box<dyn DiskFile>, LogError> {
        let file = self.make(rest)?;
        // A file can be used only once the pepoch file names it.
        self.pepoch.reserve().inspect_err(|_| self.give_back())?;
        Ok(file)
    }

    /// Frees the room of the file in preparation. If this fails, the next attempt or opening empties the
    /// file.
    fn give_back(&self) {
        let _ = self.disk.remove(&self.next());
    }

    fn make(&self, rest: impl Fn() -> Pace) -> Result<Box<dyn DiskFile>, LogError> {
        let path = self.next();
        let prepared = self.open_next(&path).and_then(|file| {
            let zeroed = zero(&*file, self.length, rest);
            zeroed.map_err(|error| LogError::io("write", &path, error)).map(|()| file)
        });
        prepared.inspect_err(|error| {
            if error.is_shortage() {
                self.give_back();
            }
        })
    }

    fn open_next(&self, path: &Path) -> Result<Box<dyn DiskFile>, LogError> {
        // The spare file may not exist.
        let _ = self.disk.rename(&self.spare(), path);
        match self.disk.open(path) {
            Ok(file) if file.length().is_ok_and(|length| length == self.length) => {
                // The file's name as a log must be gone, durably, before its contents are overwritten.
                // Otherwise a crash could bring the file back half empty.
                let folder = &self.folder;
                self.disk.sync_folder(folder).map_err(|error| LogError::io("sync", folder, error))?;
                Ok(file)
            }
            _ => self.disk.create(path).map_err(|error| LogError::io("create", path, error)),
        }
    }

    /// Makes the first file of an incarnation. If there is no room for a whole one, makes the smallest one,
    /// which suffices for the marks of a checkpoint; the checkpoint frees room. Transactions that write are
    /// refused until then.
    ///
    /// # Errors
    /// There is not even room for that; the disk fails.
    pub(crate) fn first(&self, id: FileId) -> Result<ReadyFile, LogError> {
        // No record is logged yet, so there is no reason to wait.
        let at_once = Self { gives_up_after: Some(Duration::ZERO), ..self.clone() };
        let lack = match at_once.prepare(|| Pace::Steady) {
            Err(error) if error.is_shortage() => error,
            prepared => return at_once.finish(prepared?, id, 1),
        };
        let small = Self { length: LEAST_FILE.min(self.length), ..at_once };
        let make = || small.make(|| Pace::Steady).and_then(|file| small.finish(file, id, 1));
        let file = make().or_else(|error| match error.is_shortage() && self.pepoch.spend_reserve() {
            true => make(),
            false => Err(error),
        })?;
        self.durability.shortage.set_error(self.logger, Stage::Ahead, Some(&lack));
        Ok(file)
    }

    /// Retries an operation until it no longer fails for lack of room. The log counts as stalled during the
    /// retries.
    ///
    /// # Errors
    /// It fails for another reason; the log is closed, or `gives_up_after` has passed.
    pub(crate) fn persist<T>(&self, mut act: impl FnMut() -> Result<T, LogError>) -> Result<T, LogError> {
        let shortage = &self.durability.shortage;
        let (begun, mut rests, mut has_failed) = (Instant::now(), Rests::default(), false);
        loop {
            let error = match act() {
                Err(error) if error.is_shortage() && !shortage.is_stopped() => error,
                done => {
                    if has_failed {
                        shortage.set_stalled(self.logger, false);
                        shortage.set_error(self.logger, Stage::Now, None);
                    }
                    return done;
                }
            };
            if self.gives_up_after.is_some_and(|limit| begun.elapsed() >= limit) {
                return Err(error);
            }
            shortage.set_error(self.logger, Stage::Now, Some(&error));
            if !has_failed {
                shortage.set_stalled(self.logger, true);
                has_failed = true;
            }
            self.durability.announce();
            std::thread::sleep(rests.next());
        }
    }

    /// Gives a prepared file its name and header.
    pub(crate) fn finish(
        &self,
        file: Box<dyn DiskFile>,
        id: FileId,
        first_batch: u64,
    ) -> Result<ReadyFile, LogError> {
        let path = id.path(&self.folder);
        let salt = (id.incarnation << 40 ^ id.sequence << 8 ^ u64::from(self.logger))
            .wrapping_mul(0xd134_2543_de82_ef95)
            ^ self.database.salt();
        let alignment = file.alignment();
        let header = Header {
            version: VERSION,
            logger: self.logger,
            loggers: self.loggers,
            id,
            length: self.length,
            salt,
            first_batch,
            alignment,
            database: self.database,
            semantics: procedure::SEMANTICS,
        };
        let step = |action, act: &dyn Fn() -> std::io::Result<()>| {
            self.persist(|| act().map_err(|error| LogError::io(action, &path, error)))
        };
        step("rename", &|| self.disk.rename(&self.next(), &path))?;
        step("write", &|| file.write_at(0, &header.write()).and_then(|()| file.sync()))?;
        step("sync the folder of", &|| self.disk.sync_folder(&self.folder))?;
        let name = || self.pepoch.update_newest(|newest| newest.begin_file(self.logger, id.sequence));
        self.persist(name)?;
        Ok(ReadyFile { file, path, salt, length: self.length, alignment })
    }

    /// Makes a released file the spare one, replacing the previous one.
    pub(crate) fn recycle(&self, path: &Path) -> Result<(), LogError> {
        self.disk.rename(path, &self.spare()).map_err(|error| LogError::io("recycle", path, error))
    }
}

/// A full file, or one of an earlier incarnation. It may go once a checkpoint holds all records numbered up
/// to `last`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RetiredFile {
    pub(crate) path: PathBuf,
    pub(crate) id: FileId,
    pub(crate) logger: u32,
    pub(crate) last: CommitOrder,
}

impl RetiredFile {
    /// Returns the files of earlier incarnations on a device, with the greatest number in each.
    pub(crate) fn of_device(device: usize, files: &[(PathBuf, CommitOrder)]) -> impl Iterator<Item = Self> {
        files.iter().filter_map(move |(path, last)| {
            let id = FileId::of(path)?;
            Some(Self { path: path.clone(), id, logger: id.logger(device as u32), last: *last })
        })
    }
}

/// The part of a logger's log in one incarnation that a checkpoint needs, and a lower bound of its extent
/// when the checkpoint was published.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LogRange {
    /// The incarnation.
    pub incarnation: u64,
    /// The logger.
    pub logger: u32,
    /// The sequence of the first file needed.
    pub first_file: u64,
    /// The sequence of the newest file.
    pub last_file: u64,
    /// The newest durable batch; 0 when it is not known.
    pub last_batch: u64,
}

impl LogRange {
    /// Extends the ranges by a file.
    pub(crate) fn add(ranges: &mut Vec<Self>, file: &RetiredFile) {
        let (incarnation, logger, sequence) = (file.id.incarnation, file.logger, file.id.sequence);
        match ranges.iter_mut().find(|range| range.is_of(incarnation, logger)) {
            Some(range) => {
                range.first_file = range.first_file.min(sequence);
                range.last_file = range.last_file.max(sequence);
            }
            None => ranges.push(Self {
                incarnation,
                logger,
                first_file: sequence,
                last_file: sequence,
                last_batch: 0,
            }),
        }
    }

    /// Returns whether the range is of a logger of an incarnation.
    pub fn is_of(&self, incarnation: u64, logger: u32) -> bool {
        (self.incarnation, self.logger) == (incarnation, logger)
    }

    /// Returns whether the ranges of a checkpoint include a file.
    pub(crate) fn include(ranges: &[Self], file: &RetiredFile) -> bool {
        let mut own = ranges.iter().filter(|range| range.is_of(file.id.incarnation, file.logger));
        own.any(|range| range.first_file <= file.id.sequence)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::disk::CrashingDisk;
    use crate::pepoch::PepochFile;
    use crate::reader::read_device;

    #[test]
    fn a_recycled_file_loses_its_name_before_its_contents() {
        let crashing = CrashingDisk::default();
        let disk: SharedDisk = Arc::new(crashing.clone());
        let folder = PathBuf::from("/log");
        let maker = FileMaker {
            disk: Arc::clone(&disk),
            folder: folder.clone(),
            logger: 0,
            loggers: 1,
            shares_folder: false,
            most_loggers: 1,
            length: 64 << 10,
            database: DatabaseId::random(),
            pepoch: PepochKeeper::new(&disk, &folder, PepochFile::default(), false),
            durability: Arc::default(),
            gives_up_after: None,
        };
        let file = maker.prepare(|| Pace::Steady).unwrap();
        let ready = maker.finish(file, FileId { incarnation: 1, worker: None, sequence: 1 }, 1).unwrap();
        let mut sector = Vec::new();
        sectors::pack(&[b"a batch that a checkpoint holds"], ready.salt, (PAGE / SECTOR) as u64, &mut sector);
        ready.file.write_at(PAGE as u64, &sector).unwrap();
        ready.file.sync().unwrap();
        maker.recycle(&ready.path).unwrap();
        assert!(maker.prepare(|| Pace::Stop).is_err(), "it is stopped before it is durable");
        for seed in 0..64 {
            let after: SharedDisk = Arc::new(crashing.after_crash(seed));
            let logs = read_device(&after, &folder, 0).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let damage = logs.iter().find_map(|log| log.damage());
            assert!(damage.is_none(), "seed {seed}: {damage:?}");
        }
    }
}
