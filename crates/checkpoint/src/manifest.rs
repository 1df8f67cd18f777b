//! The manifest: the parts of the newest checkpoint, and the definitions at its time.
//!
//! Layout: magic (8 bytes), format version (u32), database of the data folder (16 bytes), database that wrote
//! the parts (16 bytes), then varints: commit order bound, number of the checkpoint, its consistency (0
//! consistent, 1 fuzzy), incarnation, greatest number that it holds, ranges of logs (count, then incarnation,
//! logger, first file, last file and last batch of each), definitions (length and text of an image,
//! `sql::Schema::to_image`), parts (count, then table, rows, bytes, CRC-32C, digest of the rows (16 bytes),
//! length and path of each), and the CRC-32C of everything before (u32). This is the only description of that
//! layout.
//!
//! | version | differs from the next one |
//! |---|---|
//! | 1 | no consistency: it is consistent |
//! | 2 | no databases, incarnation, greatest number, ranges, CRC-32C and digests of parts; statements (count, then length and text of each) instead of an image |

use crate::{CheckpointError, Shadow};
use catalog::{CommitOrder, DecodeError, Reader, TableId, put_varint};
use logging::disk::{SharedDisk, read_whole, replace};
use logging::{CorruptionKind, DatabaseId, LogError, LogRange};
use std::path::{Path, PathBuf};

const NAME: &str = "checkpoint";
const MAGIC: &[u8; 8] = b"RPRSCKP\n";
const VERSION: u32 = 3;
const OLDEST_VERSION: u32 = 1;

/// One file of rows of one table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The table of the rows.
    pub table: TableId,
    /// Number of rows.
    pub rows: u64,
    /// Length of the file.
    pub bytes: u64,
    /// CRC-32C of the file after its header; unknown before version 3 of the manifest.
    pub checksum: Option<u32>,
    /// The digest of its rows (`storage::TableDigest::hash`); unknown before version 3 of the manifest.
    pub digest: Option<u128>,
    /// Path of the file, relative to the data folder.
    pub path: PathBuf,
}

/// The moment at which the rows of a checkpoint are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Consistency {
    /// One moment for all: the checkpoint holds exactly the transactions ordered before its bound.
    #[default]
    Consistent,
    /// A moment of its own for each row, which carries its number. The checkpoint holds all transactions
    /// numbered before its bound, and some later ones; replay lets the last writer of each row win.
    Fuzzy,
}

/// The definitions at the time of a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Definitions {
    /// An image of the definitions (`sql::Schema::to_image`).
    Image(String),
    /// All statements that made or changed a definition, in order: format versions 1 and 2.
    Statements(Vec<String>),
}

/// The logs that a checkpoint needs, known since format version 3.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NeededLogs {
    /// The incarnation that took the checkpoint.
    pub incarnation: u64,
    /// The ranges of logs that recovery needs beside the checkpoint. Logs of earlier incarnations that are
    /// not named are not needed.
    pub ranges: Vec<LogRange>,
}

/// A checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    /// The database of the data folder; unknown before version 3.
    pub database: DatabaseId,
    /// The database whose parts these are. It differs in data folders of shadow logs.
    pub parts_of: DatabaseId,
    /// The logs that recovery needs; unknown before version 3.
    pub logs: Option<NeededLogs>,
    /// The greatest number of a transaction that it holds.
    pub last: CommitOrder,
    /// The moment of its rows.
    pub consistency: Consistency,
    /// Upper bound of the transactions that it holds completely; replay begins here.
    pub bound: CommitOrder,
    /// Number of the checkpoint, ascending.
    pub number: u64,
    /// Tables, procedures and views.
    pub definitions: Definitions,
    /// The rows.
    pub parts: Vec<Part>,
}

impl Manifest {
    /// Returns the path of the manifest in a data folder.
    pub fn path(folder: &Path) -> PathBuf {
        folder.join(NAME)
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> u64 {
        self.parts.iter().map(|part| part.rows).sum()
    }

    /// Returns the size of all parts, in bytes.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// Returns the same checkpoint for the data folder of a shadow log inside this one.
    pub(crate) fn as_seen_from_inside(&self, shadow: Shadow<'_>) -> Self {
        let outer = |part: &Part| Part { path: Path::new("..").join(&part.path), ..part.clone() };
        let logs = self.logs.as_ref().map(|logs| NeededLogs { ranges: shadow.ranges.to_vec(), ..*logs });
        let parts = self.parts.iter().map(outer).collect();
        Self { database: shadow.database, logs, parts, ..self.clone() }
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.database.to_bytes());
        bytes.extend_from_slice(&self.parts_of.to_bytes());
        let text = |text: &str, bytes: &mut Vec<u8>| {
            put_varint(text.len() as u64, bytes);
            bytes.extend_from_slice(text.as_bytes());
        };
        put_varint(self.bound.0, &mut bytes);
        put_varint(self.number, &mut bytes);
        put_varint((self.consistency == Consistency::Fuzzy).into(), &mut bytes);
        let (incarnation, ranges) = match &self.logs {
            Some(logs) => (logs.incarnation, logs.ranges.as_slice()),
            None => (0, &[][..]),
        };
        put_varint(incarnation, &mut bytes);
        put_varint(self.last.0, &mut bytes);
        put_varint(ranges.len() as u64, &mut bytes);
        for range in ranges {
            let LogRange { incarnation, logger, first_file, last_file, last_batch } = *range;
            for number in [incarnation, logger.into(), first_file, last_file, last_batch] {
                put_varint(number, &mut bytes);
            }
        }
        match &self.definitions {
            Definitions::Image(image) => text(image, &mut bytes),
            Definitions::Statements(_) => unreachable!("checkpoints of older versions are not written again"),
        }
        put_varint(self.parts.len() as u64, &mut bytes);
        for part in &self.parts {
            put_varint(part.table.0.into(), &mut bytes);
            put_varint(part.rows, &mut bytes);
            put_varint(part.bytes, &mut bytes);
            put_varint(part.checksum.unwrap_or_default().into(), &mut bytes);
            bytes.extend_from_slice(&part.digest.unwrap_or_default().to_le_bytes());
            text(&part.path.to_string_lossy(), &mut bytes);
        }
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8], version: u32) -> Result<Self, DecodeError> {
        fn text(reader: &mut Reader<'_>) -> Result<String, DecodeError> {
            let length = usize::try_from(reader.varint()?).map_err(|_| DecodeError)?;
            String::from_utf8(reader.take(length)?.to_vec()).map_err(|_| DecodeError)
        }
        fn range(reader: &mut Reader<'_>) -> Result<LogRange, DecodeError> {
            Ok(LogRange {
                incarnation: reader.varint()?,
                logger: u32::try_from(reader.varint()?).map_err(|_| DecodeError)?,
                first_file: reader.varint()?,
                last_file: reader.varint()?,
                last_batch: reader.varint()?,
            })
        }
        let mut reader = Reader::new(bytes);
        let mut database = || Ok(DatabaseId::from_bytes(reader.array()?));
        let (database, parts_of) = match version {
            3.. => (database()?, database()?),
            _ => Default::default(),
        };
        let bound = CommitOrder(reader.varint()?);
        let number = reader.varint()?;
        let consistency = match version {
            1 => Consistency::Consistent,
            _ => match reader.varint()? {
                0 => Consistency::Consistent,
                1 => Consistency::Fuzzy,
                _ => return Err(DecodeError),
            },
        };
        let (mut logs, mut last) = (None, CommitOrder(bound.0.saturating_sub(1)));
        if version >= 3 {
            let incarnation = reader.varint()?;
            last = CommitOrder(reader.varint()?);
            let ranges = (0..reader.varint()?).map(|_| range(&mut reader)).collect::<Result<_, _>>()?;
            logs = (incarnation > 0).then_some(NeededLogs { incarnation, ranges });
        }
        let definitions = match version {
            3.. => Definitions::Image(text(&mut reader)?),
            _ => {
                let statements = (0..reader.varint()?).map(|_| text(&mut reader));
                Definitions::Statements(statements.collect::<Result<_, _>>()?)
            }
        };
        let parts = (0..reader.varint()?)
            .map(|_| {
                Ok(Part {
                    table: TableId(u32::try_from(reader.varint()?).map_err(|_| DecodeError)?),
                    rows: reader.varint()?,
                    bytes: reader.varint()?,
                    checksum: match version {
                        3.. => Some(u32::try_from(reader.varint()?).map_err(|_| DecodeError)?),
                        _ => None,
                    },
                    digest: match version {
                        3.. => Some(u128::from_le_bytes(reader.array()?)),
                        _ => None,
                    },
                    path: text(&mut reader)?.into(),
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { database, parts_of, logs, last, consistency, bound, number, definitions, parts })
    }

    /// Reads the manifest of a data folder; `None` when no checkpoint was published yet.
    ///
    /// # Errors
    /// The disk fails; the manifest is damaged.
    pub fn read(disk: &SharedDisk, folder: &Path) -> Result<Option<Self>, CheckpointError> {
        let path = Self::path(folder);
        let bytes = match read_whole(&**disk, &path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LogError::io("read", &path, error).into()),
        };
        let corrupt = |kind| CheckpointError::from(LogError::corrupt(&path, 0, kind));
        let (contents, checksum) = bytes.split_at(bytes.len().saturating_sub(4));
        if checksum != crc32c::crc32c(contents).to_le_bytes() {
            return Err(corrupt(CorruptionKind::Checksum));
        }
        let Some(rest) = contents.strip_prefix(MAGIC) else {
            return Err(corrupt(CorruptionKind::Malformed("this is no checkpoint manifest")));
        };
        let mut reader = Reader::new(rest);
        let malformed = |_| corrupt(CorruptionKind::Malformed("the manifest ends early"));
        let version = u32::from_le_bytes(reader.array().map_err(malformed)?);
        if !(OLDEST_VERSION..=VERSION).contains(&version) {
            return Err(corrupt(CorruptionKind::UnknownVersion(version)));
        }
        Self::decode(&rest[4..], version).map(Some).map_err(malformed)
    }

    /// Publishes the checkpoint. Its parts must be durable.
    ///
    /// # Errors
    /// The disk is full, or fails; the previous checkpoint is then unchanged.
    pub fn publish(&self, disk: &SharedDisk, folder: &Path) -> Result<(), CheckpointError> {
        let path = Self::path(folder);
        replace(&**disk, &path, &self.encode()).map_err(|error| LogError::io("write", &path, error).into())
    }
}
