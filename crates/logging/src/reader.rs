//! Reading a device: the batches of its log files, and how each incarnation's log ends.
//!
//! | what is found where a batch should begin or inside it | what it means |
//! |---|---|
//! | all sectors whole | a batch |
//! | header all zero, nothing after it | the end of the log |
//! | some sectors zero, the rest whole, nothing after it | a torn tail, cut: a crash interrupted it |
//! | any sector neither whole nor zero | damage: the log ends with an error that names file and offset |
//! | not whole, but a later batch or file follows | damage likewise: batches are written one at a time |
//! | the file is shorter than its header says | damage likewise |
//! | a batch or file is left out | damage likewise |
//! | the file belongs to another database or logger | damage likewise |
//!
//! Not here: whether a log is complete, which other files prove (`recovery::completeness`).

use crate::disk::{SharedDisk, read_whole};
use crate::error::{CorruptionKind, LogError, UnprovenKind};
use crate::files::{BATCH_HEADER, BATCH_MAGIC, FileId, Header, PAGE};
use crate::identity::DatabaseId;
use crate::sectors::{self, CONTENTS, SECTOR, SectorState};
use crate::threads::on_threads;
use catalog::{CommitOrder, Epoch, Reader};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// All records of this logger up to this number are in this batch or earlier ones.
    pub completed: CommitOrder,
    /// All records of any logger up to this number were durable with this batch.
    pub vouched: CommitOrder,
    /// Its records.
    pub records: Records,
    /// The file that has it.
    pub file: PathBuf,
    /// Offset of the batch in the file, in bytes.
    pub offset: u64,
}

/// The records of a batch, inside the bytes read from its file.
#[derive(Clone)]
pub struct Records {
    file: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl std::ops::Deref for Records {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.file[self.range.clone()]
    }
}

impl PartialEq for Records {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Records {}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.range.len())
    }
}

/// How a log ends.
#[derive(Clone, Debug)]
pub enum LogTail {
    /// With a complete batch.
    Clean,
    /// With a batch that a crash has torn.
    Torn {
        /// The file of the torn batch.
        file: PathBuf,
        /// Offset of the torn batch, in bytes.
        offset: u64,
    },
    /// With a damaged or missing file or batch, or one of another log.
    Damaged(LogError),
}

/// The log of one logger in one incarnation.
#[derive(Clone, Debug)]
pub struct LoggerLog {
    /// The incarnation.
    pub incarnation: u64,
    /// The logger's index, and the number of loggers.
    pub logger: (u32, u32),
    /// The database that wrote it; unknown before format version 4.
    pub database: DatabaseId,
    /// The semantics number of the executor that wrote it.
    pub semantics: u32,
    /// Its batches.
    pub batches: Vec<Batch>,
    /// The number of its last batch; 0 when it has none.
    pub last_batch: u64,
    /// For each logger, the newest batch that a batch of this log names as durable.
    pub known: Vec<u64>,
    /// How it ends.
    pub tail: LogTail,
    /// Its files, oldest first.
    pub files: Vec<PathBuf>,
    /// The sequences of its first and last file.
    pub sequences: (u64, u64),
    /// End of the last file's batches, in bytes.
    pub end: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
}

impl LoggerLog {
    fn new(id: FileId, device: u32) -> Self {
        Self {
            incarnation: id.incarnation,
            logger: (id.logger(device), 0),
            database: DatabaseId::default(),
            semantics: 0,
            batches: Vec::new(),
            last_batch: 0,
            known: Vec::new(),
            tail: LogTail::Clean,
            files: Vec::new(),
            sequences: (id.sequence, id.sequence.saturating_sub(1)),
            end: 0,
            bytes_read: 0,
        }
    }

    /// Adds a file that is the next one of this log.
    ///
    /// # Errors
    /// It has no header, or is another file.
    fn add_file(&mut self, id: FileId, read: ReadFile, path: &Path) -> Result<(), LogError> {
        let ReadFile { header, batches, last_batch, known, tail, end, bytes } = read;
        self.bytes_read += bytes;
        self.begin_file(id, &header?, path)?;
        self.batches.extend(batches);
        self.last_batch = last_batch;
        raise_all(&mut self.known, &known);
        (self.tail, self.end) = (tail, end);
        Ok(())
    }

    /// Starts a file with its header, unless the file is not the next one of this log.
    fn begin_file(&mut self, id: FileId, header: &Header, path: &Path) -> Result<(), LogError> {
        if header.logger != self.logger.0 {
            let kind = UnprovenKind::OtherLogger { found: header.logger, expected: self.logger.0 };
            return Err(LogError::unproven(path, 0, kind));
        }
        if header.id != id {
            let kind = CorruptionKind::Malformed("the header is of another file");
            return Err(LogError::corrupt(path, 0, kind));
        }
        if self.files.is_empty() {
            self.database = header.database;
            self.semantics = header.semantics;
            self.last_batch = header.first_batch.saturating_sub(1);
        } else {
            self.database.admit(header.database, path)?;
        }
        if id.sequence != self.sequences.1 + 1 {
            let missing = FileId { sequence: self.sequences.1 + 1, ..id };
            let missing = missing.path(path.parent().unwrap_or(Path::new(".")));
            return Err(LogError::unproven(&missing, 0, UnprovenKind::Missing { by: path.into() }));
        }
        if header.first_batch != self.last_batch + 1 {
            let kind = CorruptionKind::Hole { expected: self.last_batch + 1, actual: header.first_batch };
            return Err(LogError::corrupt(path, 0, kind));
        }
        if let LogTail::Torn { file, offset } = &self.tail {
            // A later file exists, so this batch had been made durable.
            return Err(LogError::corrupt(file, *offset, CorruptionKind::Checksum));
        }
        self.logger.1 = self.logger.1.max(header.loggers);
        self.sequences.1 = id.sequence;
        self.files.push(path.into());
        Ok(())
    }

    /// Returns the damage after its last batch.
    pub fn damage(&self) -> Option<&LogError> {
        match &self.tail {
            LogTail::Damaged(error) => Some(error),
            LogTail::Clean | LogTail::Torn { .. } => None,
        }
    }

    /// Returns the number up to which the log is complete.
    pub fn completed(&self) -> CommitOrder {
        self.batches.last().map_or(CommitOrder(0), |batch| batch.completed)
    }

    fn vouched(&self) -> CommitOrder {
        self.batches.iter().map(|batch| batch.vouched).max().unwrap_or_default()
    }
}

/// Returns the number up to which an incarnation's logs are durable. Each log is complete to that number, or
/// one log vouches for the rest. Paper: Poplar §5 (RSNe). Differs: vouching.
pub fn durable_up_to<'l>(logs: impl IntoIterator<Item = &'l LoggerLog>) -> CommitOrder {
    let (mut least, mut vouched) = (None, CommitOrder(0));
    for log in logs {
        least = Some(least.map_or(log.completed(), |least: CommitOrder| least.min(log.completed())));
        vouched = vouched.max(log.vouched());
    }
    least.unwrap_or_default().max(vouched)
}

enum Found {
    Batch { batch: RawBatch, end: usize },
    End,
    Torn,
}

/// A batch inside its file.
struct RawBatch {
    number: u64,
    completed: CommitOrder,
    vouched: CommitOrder,
    /// The newest durable batch of each logger.
    known: Vec<u64>,
    records: Range<usize>,
}

/// Returns the log files of a folder, oldest first.
fn log_files(disk: &SharedDisk, folder: &Path) -> Result<Vec<(FileId, PathBuf)>, LogError> {
    let listed = disk.list(folder).map_err(|error| LogError::io("list", folder, error))?;
    let mut files: Vec<_> = listed.into_iter().filter_map(|path| Some((FileId::of(&path)?, path))).collect();
    files.sort();
    Ok(files)
}

/// Reads all log files of a device, one result per incarnation and logger, oldest first. `device` is its
/// index among the devices.
///
/// # Errors
/// The disk fails. Damage is no error; it ends its log.
pub fn read_device(disk: &SharedDisk, folder: &Path, device: u32) -> Result<Vec<LoggerLog>, LogError> {
    read_device_where(disk, folder, device, 1, |_| true)
}

/// Reads only the files that `is_needed` selects, on several threads; otherwise as `read_device`.
///
/// # Errors
/// As `read_device`.
pub fn read_device_where(
    disk: &SharedDisk,
    folder: &Path,
    device: u32,
    threads: usize,
    mut is_needed: impl FnMut(FileId) -> bool,
) -> Result<Vec<LoggerLog>, LogError> {
    let mut files = log_files(disk, folder)?;
    files.retain(|(id, _)| is_needed(*id));
    let read = on_threads(threads, files.len(), |file| ReadFile::of(disk, &files[file].1));
    let mut logs: Vec<LoggerLog> = Vec::new();
    for ((id, path), read) in files.into_iter().zip(read) {
        let key = (id.incarnation, id.logger(device));
        let is_new = logs.last().is_none_or(|log| (log.incarnation, log.logger.0) != key);
        if !is_new && logs.last().is_some_and(|log| log.damage().is_some()) {
            continue;
        }
        let Some(read) = read? else { continue };
        if is_new {
            logs.push(LoggerLog::new(id, device));
        }
        let Some(log) = logs.last_mut() else { continue };
        if let Err(error) = log.add_file(id, read, &path) {
            log.tail = LogTail::Damaged(error);
        }
    }
    Ok(logs)
}

/// Reads how the logs of a folder end in an incarnation: each logger's last file that has batches.
///
/// # Errors
/// The disk fails; a file is damaged.
pub fn read_ends(
    disk: &SharedDisk,
    folder: &Path,
    device: u32,
    incarnation: u64,
) -> Result<Vec<LoggerLog>, LogError> {
    let files = log_files(disk, folder)?;
    let mut ends: Vec<LoggerLog> = Vec::new();
    for (id, path) in files.into_iter().rev().filter(|(id, _)| id.incarnation == incarnation) {
        let place = ends.iter().position(|end| end.logger.0 == id.logger(device));
        if place.is_some_and(|place| !ends[place].batches.is_empty()) {
            continue;
        }
        let Some(read) = ReadFile::of(disk, &path)? else { continue };
        let mut end = LoggerLog::new(id, device);
        end.add_file(id, read, &path)?;
        if let Some(error) = end.damage() {
            return Err(error.clone());
        }
        match place {
            Some(place) => ends[place] = end,
            None => ends.push(end),
        }
    }
    Ok(ends)
}

/// A file that is read by itself: as if the file before it ended where its header says.
struct ReadFile {
    /// The header, or why it is not one.
    header: Result<Header, LogError>,
    batches: Vec<Batch>,
    /// The number of its last batch, or of the last one before it.
    last_batch: u64,
    /// For each logger, the newest batch that a batch names as durable.
    known: Vec<u64>,
    /// How its batches end.
    tail: LogTail,
    /// End of its batches, in bytes.
    end: u64,
    /// Its length, in bytes.
    bytes: u64,
}

impl ReadFile {
    /// Reads a file; returns `None` for one that was never used.
    ///
    /// # Errors
    /// The disk fails. Damage is no error here.
    fn of(disk: &SharedDisk, path: &Path) -> Result<Option<Self>, LogError> {
        let bytes = read_whole(&**disk, path).map_err(|error| LogError::io("read", path, error))?;
        let length = bytes.len() as u64;
        let header = match Header::read(path, &bytes) {
            Ok(None) => return Ok(None),
            Ok(Some(header)) => Ok(header),
            Err(error) => Err(error),
        };
        let last_batch = header.as_ref().map_or(0, |header| header.first_batch.saturating_sub(1));
        let (batches, known, tail) = (Vec::new(), Vec::new(), LogTail::Clean);
        let mut read = Self { header, batches, last_batch, known, tail, end: PAGE as u64, bytes: length };
        if let Ok(header) = read.header.clone() {
            read.add_batches(path, bytes, &header);
        }
        Ok(Some(read))
    }

    /// Reads the batches in place.
    fn add_batches(&mut self, path: &Path, mut bytes: Vec<u8>, header: &Header) {
        let mut offset = PAGE;
        let mut found = Vec::new();
        while offset + SECTOR <= bytes.len() {
            match read_next(path, &mut bytes, offset, header, self.last_batch + 1) {
                Ok(Found::Batch { batch, end }) => {
                    self.last_batch = batch.number;
                    raise_all(&mut self.known, &batch.known);
                    found.push((batch, offset));
                    offset = end;
                    continue;
                }
                Ok(Found::Torn) => self.tail = LogTail::Torn { file: path.into(), offset: offset as u64 },
                Ok(Found::End) => {}
                Err(error) => self.tail = LogTail::Damaged(error),
            }
            break;
        }
        self.end = offset as u64;
        let file = Arc::new(bytes);
        self.batches.extend(found.into_iter().map(|(batch, offset)| {
            let RawBatch { completed, vouched, records, .. } = batch;
            let records = Records { file: Arc::clone(&file), range: records };
            Batch { completed, vouched, records, file: path.into(), offset: offset as u64 }
        }));
    }
}

/// Raises each number to that at the same place of `to`.
fn raise_all(numbers: &mut Vec<u64>, to: &[u64]) {
    numbers.resize(numbers.len().max(to.len()), 0);
    numbers.iter_mut().zip(to).for_each(|(number, to)| *number = (*number).max(*to));
}

/// Reads the next batch. Refuses one that is not the successor of the last one, or that follows the last one.
fn read_next(
    path: &Path,
    bytes: &mut [u8],
    offset: usize,
    header: &Header,
    expected: u64,
) -> Result<Found, LogError> {
    let found = read_batch(path, bytes, offset, header)?;
    match &found {
        Found::Batch { batch, .. } if batch.number != expected => {
            let kind = CorruptionKind::Hole { expected, actual: batch.number };
            Err(LogError::corrupt(path, offset as u64, kind))
        }
        Found::Batch { .. } => Ok(found),
        Found::End | Found::Torn => {
            refuse_later_batch(path, bytes, offset, header, expected)?;
            Ok(found)
        }
    }
}

/// Reads a batch and removes the checksums between its sectors in place.
fn read_batch(path: &Path, bytes: &mut [u8], offset: usize, header: &Header) -> Result<Found, LogError> {
    let salt = header.salt;
    let damaged = |at: usize| LogError::corrupt(path, at as u64, CorruptionKind::Checksum);
    let first = &bytes[offset..offset + SECTOR];
    match sectors::judge(first, salt, (offset / SECTOR) as u64) {
        SectorState::Damaged => return Err(damaged(offset)),
        SectorState::Zero => {
            // Searches for sectors of a batch whose first sector was lost.
            let mut at = offset + SECTOR;
            let mut torn = false;
            while let Some(sector) = bytes.get(at..at + SECTOR) {
                match sectors::judge(sector, salt, (at / SECTOR) as u64) {
                    SectorState::Damaged => return Err(damaged(at)),
                    SectorState::Valid => torn = true,
                    SectorState::Zero if (at - offset).is_multiple_of(header.alignment) && !torn => break,
                    SectorState::Zero => {}
                }
                at += SECTOR;
                if torn {
                    break;
                }
            }
            return Ok(if torn { Found::Torn } else { Found::End });
        }
        SectorState::Valid => {}
    }
    let malformed = |_| LogError::corrupt(path, offset as u64, CorruptionKind::Malformed("no batch"));
    let mut reader = Reader::new(&first[..CONTENTS]);
    let magic = u32::from_le_bytes(reader.array().map_err(malformed)?);
    let length = u32::from_le_bytes(reader.array().map_err(malformed)?) as usize;
    let number = u64::from_le_bytes(reader.array().map_err(malformed)?);
    let mut word = || reader.array().map(u64::from_le_bytes).map_err(malformed);
    let (completed, vouched) = match header.version {
        3.. => (CommitOrder(word()?), CommitOrder(word()?)),
        _ => (CommitOrder::last_of(Epoch(word()?)), CommitOrder(0)),
    };
    let (list, header_bytes) = match header.version {
        4.. => {
            let list = u16::from_le_bytes(reader.array().map_err(malformed)?) as usize;
            (list, BATCH_HEADER + list)
        }
        3 => (0, BATCH_HEADER - 2),
        _ => (0, BATCH_HEADER - 10),
    };
    let end = offset + sectors::count(header_bytes + length) * SECTOR;
    if magic != BATCH_MAGIC {
        // The sector is of an earlier batch whose beginning was lost.
        return Ok(Found::Torn);
    }
    if end > bytes.len() {
        let kind = CorruptionKind::Malformed("a batch is longer than its file");
        return Err(LogError::corrupt(path, offset as u64, kind));
    }
    let mut torn = false;
    for at in (offset..end).step_by(SECTOR) {
        match sectors::judge(&bytes[at..at + SECTOR], salt, (at / SECTOR) as u64) {
            SectorState::Valid => {}
            SectorState::Zero => torn = true,
            SectorState::Damaged => return Err(damaged(at)),
        }
    }
    if torn {
        return Ok(Found::Torn);
    }
    for (place, at) in (offset..end).step_by(SECTOR).enumerate().skip(1) {
        bytes.copy_within(at..at + CONTENTS, offset + place * CONTENTS);
    }
    let start = offset + header_bytes;
    let mut list = Reader::new(&bytes[start - list..start]);
    let mut known = Vec::new();
    while list.remaining() > 0 {
        known.push(list.varint().map_err(malformed)?);
    }
    let batch = RawBatch { number, completed, vouched, known, records: start..start + length };
    Ok(Found::Batch { batch, end: end.next_multiple_of(header.alignment) })
}

/// Refuses any batch after the end of the log. A later number would show that the torn batch had been
/// durable.
fn refuse_later_batch(
    path: &Path,
    bytes: &[u8],
    offset: usize,
    header: &Header,
    expected: u64,
) -> Result<(), LogError> {
    for at in (offset + header.alignment..bytes.len().saturating_sub(SECTOR)).step_by(header.alignment) {
        let sector = &bytes[at..at + SECTOR];
        if sectors::judge(sector, header.salt, (at / SECTOR) as u64) != SectorState::Valid {
            continue;
        }
        let word = |range: std::ops::Range<usize>| sector[range].try_into().ok();
        let magic = word(0..4).map(u32::from_le_bytes);
        let number = sector[8..16].try_into().map(u64::from_le_bytes).unwrap_or(0);
        if magic == Some(BATCH_MAGIC) && number > expected {
            return Err(LogError::corrupt(path, offset as u64, CorruptionKind::Checksum));
        }
    }
    Ok(())
}
