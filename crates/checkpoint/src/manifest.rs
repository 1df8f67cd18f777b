//! The manifest: which parts make up the newest checkpoint, and the definitions at its time.
//!
//! Layout: magic (8 bytes), format version (u32), then varints: commit order bound, number of the checkpoint, since version 2
//! its consistency (0 consistent, 1 fuzzy), statements (count, then length and text of each), parts (count, then of each its
//! table, rows, bytes, since version 3 the digest of its rows (16 bytes), length and text of its path), and the CRC-32C of
//! everything before (u32). This is the only description of that layout.

use crate::CheckpointError;
use catalog::{CommitOrder, DecodeError, Reader, TableId, put_varint};
use logging::disk::{SharedDisk, read_whole, replace};
use logging::{CorruptionKind, LogError};
use std::path::{Path, PathBuf};

const NAME: &str = "checkpoint";
const MAGIC: &[u8; 8] = b"RPRSCKP\n";
/// Version 1 knew consistent checkpoints only; version 2 had no digests.
const VERSION: u32 = 3;
const OLDEST_VERSION: u32 = 1;

/// One file of rows of one table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// Whose rows.
    pub table: TableId,
    /// How many.
    pub rows: u64,
    /// Length of the file.
    pub bytes: u64,
    /// The digest of its rows (`storage::TableDigest::hash`); `None` in manifests before version 3.
    pub digest: Option<u128>,
    /// Where it is, seen from the data folder.
    pub path: PathBuf,
}

/// Of which moment the rows of a checkpoint are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Consistency {
    /// All of one: the checkpoint holds exactly the transactions ordered before its bound.
    #[default]
    Consistent,
    /// Each of its own, with its number: the checkpoint holds everything numbered before its bound, and some of what came
    /// later; replay lets the last writer of each row win.
    Fuzzy,
}

/// A checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    /// Of which moment its rows are.
    pub consistency: Consistency,
    /// It holds the transactions ordered before this; replay begins here.
    pub bound: CommitOrder,
    /// Counts checkpoints.
    pub number: u64,
    /// All definitions so far, as the statements that made them, in order.
    pub statements: Vec<String>,
    /// The rows.
    pub parts: Vec<Part>,
}

impl Manifest {
    /// The same checkpoint for a data folder inside this one.
    pub(crate) fn as_seen_from_inside(&self) -> Self {
        let outer = |part: &Part| Part { path: Path::new("..").join(&part.path), ..part.clone() };
        Self { parts: self.parts.iter().map(outer).collect(), ..self.clone() }
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        let text = |text: &str, bytes: &mut Vec<u8>| {
            put_varint(text.len() as u64, bytes);
            bytes.extend_from_slice(text.as_bytes());
        };
        put_varint(self.bound.0, &mut bytes);
        put_varint(self.number, &mut bytes);
        put_varint((self.consistency == Consistency::Fuzzy).into(), &mut bytes);
        put_varint(self.statements.len() as u64, &mut bytes);
        for statement in &self.statements {
            text(statement, &mut bytes);
        }
        put_varint(self.parts.len() as u64, &mut bytes);
        for part in &self.parts {
            put_varint(part.table.0.into(), &mut bytes);
            put_varint(part.rows, &mut bytes);
            put_varint(part.bytes, &mut bytes);
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
        let mut reader = Reader::new(bytes);
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
        let statements = (0..reader.varint()?).map(|_| text(&mut reader)).collect::<Result<_, _>>()?;
        let parts = (0..reader.varint()?)
            .map(|_| {
                Ok(Part {
                    table: TableId(u32::try_from(reader.varint()?).map_err(|_| DecodeError)?),
                    rows: reader.varint()?,
                    bytes: reader.varint()?,
                    digest: if version < 3 { None } else { Some(u128::from_le_bytes(reader.array()?)) },
                    path: text(&mut reader)?.into(),
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { consistency, bound, number, statements, parts })
    }

    /// Reads the manifest of a data folder; `None` when no checkpoint was published yet.
    ///
    /// # Errors
    /// The disk fails; the manifest is damaged.
    pub fn read(disk: &SharedDisk, folder: &Path) -> Result<Option<Self>, CheckpointError> {
        let path = folder.join(NAME);
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

    /// Publishes the checkpoint. Its parts are durable.
    ///
    /// # Errors
    /// The disk is full, or fails; the checkpoint before is then still there.
    pub fn publish(&self, disk: &SharedDisk, folder: &Path) -> Result<(), CheckpointError> {
        let path = folder.join(NAME);
        replace(&**disk, &path, &self.encode()).map_err(|error| LogError::io("write", &path, error).into())
    }
}
