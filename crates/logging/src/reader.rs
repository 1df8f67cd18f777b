//! Reading a device: the batches of its log files, and how each incarnation's log ends.
//!
//! | what is found where a batch should begin or inside it | what it means |
//! |---|---|
//! | all sectors whole | a batch |
//! | header all zero, nothing after it | the end of the log |
//! | some sectors zero, the others whole, nothing after it | a torn tail: the crash came while it was written; it is cut |
//! | any sector neither whole nor zero | damage: an error that names file and offset |
//! | not whole, but a later batch or file follows | damage likewise: a batch is only written once the one before is durable |
//! | the file is shorter than its header says | damage likewise |
//! | a batch number is missing | damage likewise |

use crate::disk::{SharedDisk, read_whole};
use crate::error::{CorruptionKind, LogError};
use crate::files::{BATCH_HEADER, BATCH_MAGIC, FileId, Header, OLD_BATCH_HEADER, PAGE};
use crate::sectors::{self, CONTENTS, SECTOR, SectorState};
use catalog::{CommitOrder, Epoch, Reader};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// Up to this number all that the logger has is in this batch or before.
    pub completed: CommitOrder,
    /// Up to this number all that any logger has was durable with this batch.
    pub vouched: CommitOrder,
    /// Its records.
    pub records: Records,
    /// Which file it is in.
    pub file: PathBuf,
    /// Where it begins.
    pub offset: u64,
}

/// The records of a batch, inside what was read of its file.
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
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogTail {
    /// With a whole batch.
    Clean,
    /// A batch at this place was torn by a crash.
    Torn {
        /// Which file.
        file: PathBuf,
        /// Where the torn batch begins.
        offset: u64,
    },
}

/// What one logger wrote in one incarnation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoggerLog {
    /// Which incarnation.
    pub incarnation: u64,
    /// Which logger of how many.
    pub logger: (u32, u32),
    /// Its batches.
    pub batches: Vec<Batch>,
    /// How it ends.
    pub tail: LogTail,
    /// Its files, oldest first.
    pub files: Vec<PathBuf>,
    /// Bytes that were read.
    pub bytes_read: u64,
}

impl LoggerLog {
    fn new(header: &Header) -> Self {
        Self {
            incarnation: header.id.incarnation,
            logger: (header.logger, header.loggers),
            batches: Vec::new(),
            tail: LogTail::Clean,
            files: Vec::new(),
            bytes_read: 0,
        }
    }

    /// Up to which number it is complete.
    pub fn completed(&self) -> CommitOrder {
        self.batches.last().map_or(CommitOrder(0), |batch| batch.completed)
    }

    fn vouched(&self) -> CommitOrder {
        self.batches.iter().map(|batch| batch.vouched).max().unwrap_or_default()
    }
}

/// Up to which number everything is durable, as the logs of all loggers of an incarnation say: each is complete that far, or
/// one of them vouches for the others. Paper: Poplar §5 (RSNe). Differs: vouching.
pub fn durable_up_to<'l>(logs: impl IntoIterator<Item = &'l LoggerLog>) -> CommitOrder {
    let (mut least, mut vouched) = (None, CommitOrder(0));
    for log in logs {
        least = Some(least.map_or(log.completed(), |least: CommitOrder| least.min(log.completed())));
        vouched = vouched.max(log.vouched());
    }
    least.unwrap_or_default().max(vouched)
}

enum Found {
    Batch { number: u64, batch: RawBatch, end: usize },
    End,
    Torn,
}

/// A batch as it is in its file.
struct RawBatch {
    completed: CommitOrder,
    vouched: CommitOrder,
    records: Range<usize>,
}

/// The log files of a folder, oldest first.
fn log_files(disk: &SharedDisk, folder: &Path) -> Result<Vec<(FileId, PathBuf)>, LogError> {
    let listed = disk.list(folder).map_err(|error| LogError::io("list", folder, error))?;
    let mut files: Vec<_> = listed.into_iter().filter_map(|path| Some((FileId::of(&path)?, path))).collect();
    files.sort();
    Ok(files)
}

/// Reads all log files of a folder, one result an incarnation and logger, oldest first.
///
/// # Errors
/// The disk fails; a file is damaged.
pub fn read_device(disk: &SharedDisk, folder: &Path) -> Result<Vec<LoggerLog>, LogError> {
    let files = log_files(disk, folder)?;
    let mut logs: Vec<LoggerLog> = Vec::new();
    let mut expected = None;
    for (id, path) in files {
        let bytes = read_whole(&**disk, &path).map_err(|error| LogError::io("read", &path, error))?;
        let Some(header) = Header::read(&path, &bytes)? else { continue };
        if header.id != id {
            let kind = CorruptionKind::Malformed("the header is of another file");
            return Err(LogError::corrupt(&path, 0, kind));
        }
        let own = (header.id.incarnation, header.logger);
        if logs.last().is_none_or(|log| (log.incarnation, log.logger.0) != own) {
            expected = None;
            logs.push(LoggerLog::new(&header));
        }
        let Some(log) = logs.last_mut() else { continue };
        if let LogTail::Torn { file, offset } = &log.tail {
            // A later file was begun, so the batch had been made durable.
            return Err(LogError::corrupt(file, *offset, CorruptionKind::Checksum));
        }
        if let Some(expected) = expected
            && expected != header.first_batch
        {
            let kind = CorruptionKind::Hole { expected, actual: header.first_batch };
            return Err(LogError::corrupt(&path, 0, kind));
        }
        log.bytes_read += bytes.len() as u64;
        expected = Some(read_file(&path, bytes, &header, log)?);
        log.files.push(path);
    }
    Ok(logs)
}

/// How the logs of a folder end in an incarnation: each logger's last file that has batches.
///
/// # Errors
/// The disk fails; a file is damaged.
pub fn read_ends(disk: &SharedDisk, folder: &Path, incarnation: u64) -> Result<Vec<LoggerLog>, LogError> {
    let files = log_files(disk, folder)?;
    let mut ends: Vec<LoggerLog> = Vec::new();
    for (_, path) in files.into_iter().rev().filter(|(id, _)| id.incarnation == incarnation) {
        let bytes = read_whole(&**disk, &path).map_err(|error| LogError::io("read", &path, error))?;
        let Some(header) = Header::read(&path, &bytes)? else { continue };
        let place = ends.iter().position(|end| end.logger.0 == header.logger).unwrap_or_else(|| {
            ends.push(LoggerLog::new(&header));
            ends.len() - 1
        });
        if ends[place].batches.is_empty() {
            read_file(&path, bytes, &header, &mut ends[place])?;
        }
    }
    Ok(ends)
}

/// Reads the batches of a file, where they are; returns the number of the batch that would be next.
fn read_file(path: &Path, mut bytes: Vec<u8>, header: &Header, log: &mut LoggerLog) -> Result<u64, LogError> {
    let mut offset = PAGE;
    let mut expected = header.first_batch;
    let mut found = Vec::new();
    while offset + SECTOR <= bytes.len() {
        match read_batch(path, &mut bytes, offset, header)? {
            Found::Batch { number, batch, end } => {
                if number != expected {
                    let kind = CorruptionKind::Hole { expected, actual: number };
                    return Err(LogError::corrupt(path, offset as u64, kind));
                }
                expected += 1;
                found.push((batch, offset));
                offset = end;
            }
            other => {
                refuse_later_batch(path, &bytes, offset, header, expected)?;
                if let Found::Torn = other {
                    log.tail = LogTail::Torn { file: path.into(), offset: offset as u64 };
                }
                break;
            }
        }
    }
    let file = Arc::new(bytes);
    log.batches.extend(found.into_iter().map(|(RawBatch { completed, vouched, records }, offset)| {
        let records = Records { file: Arc::clone(&file), range: records };
        Batch { completed, vouched, records, file: path.into(), offset: offset as u64 }
    }));
    Ok(expected)
}

/// Reads a batch, whose contents are then without gaps where they were.
fn read_batch(path: &Path, bytes: &mut [u8], offset: usize, header: &Header) -> Result<Found, LogError> {
    let salt = header.salt;
    let damaged = |at: usize| LogError::corrupt(path, at as u64, CorruptionKind::Checksum);
    let first = &bytes[offset..offset + SECTOR];
    match sectors::judge(first, salt, (offset / SECTOR) as u64) {
        SectorState::Damaged => return Err(damaged(offset)),
        SectorState::Zero => {
            // Sectors of a batch whose first one was lost?
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
    let (completed, vouched, header_bytes) = match header.version {
        3.. => (CommitOrder(word()?), CommitOrder(word()?), BATCH_HEADER),
        _ => (CommitOrder::last_of(Epoch(word()?)), CommitOrder(0), OLD_BATCH_HEADER),
    };
    let end = offset + sectors::count(header_bytes + length) * SECTOR;
    if magic != BATCH_MAGIC {
        // A sector of a batch that began earlier and whose beginning was lost.
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
    let batch = RawBatch { completed, vouched, records: start..start + length };
    Ok(Found::Batch { number, batch, end: end.next_multiple_of(header.alignment) })
}

/// After the end of the log nothing may follow: a batch with a later number shows that this one had been durable.
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
