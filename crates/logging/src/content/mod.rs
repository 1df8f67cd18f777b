//! The contents of a transaction's records. One file per kind of content.
//!
//! A record, little-endian: length of the bytes behind it (u32), CRC-32C of the bytes behind that (u32), kind
//! (u8), commit order (u64), then the payload of the kind. The commit order is also the transaction's id; its
//! highest bit says that the transaction counts alone (`Stamp`). This is the only description of that layout.

mod batch;
mod command;
mod definitions;
mod operations;
mod slots;
mod stages;
mod writes;

pub use batch::{BatchEndRecord, Later, put_vertex};
pub use command::{CallRecord, StatementRecord, put_written};
pub(crate) use definitions::take_body;
pub use definitions::{DefinitionsRecord, LargeRecord};
pub use operations::{Operation, OperationsBuilder, Outcome, Side};
pub use slots::{SlotWrite, SlotsBuilder, SlotsRecord};
pub use stages::{Stage, StagesRecord};
pub use writes::{Write, WritesBuilder, WritesRecord, append_batch_writes};

use catalog::{CommitOrder, DecodeError, Reader};
use std::fmt;
use std::str::FromStr;

/// The content that a database logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Content {
    /// No records: commits are acknowledged at once and lost in a crash.
    Off,
    /// Procedure and arguments of each call.
    #[default]
    Command,
    /// A command or a write set for each transaction, as a bound on recovery time requires.
    Adaptive,
    /// After images by table and primary key.
    Logical,
    /// After images by table and slot.
    Physical,
    /// Each operation with its before and after images, and the outcome of its transaction.
    Physiological,
    /// For each row that a batch writes, its image after the batch.
    DependencyFine,
    /// Procedure and arguments of each call of a batch, and the calls of the batch that wait for it.
    DependencyCoarse,
}

/// The image of an updated row in a log by value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Images {
    /// The whole row.
    Rows,
    /// The changed columns.
    Columns,
}

/// The log does not support the content.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InvalidContent {
    /// Replay takes the newest record of a slot, in any order, so that record must hold the whole row.
    #[error(
        "physical records hold whole rows, because replay takes the newest of a slot alone: changed \
         columns are not supported"
    )]
    PhysicalColumns,
    /// The content has no before images to omit.
    #[error("only physiological logs can be written without what undo needs, not {0} ones")]
    NothingToUndo(Content),
    /// Records of batches need batches.
    #[error("{0} records are those of batches: take the concurrency control dgcc and the sequencing epoch")]
    NeedsBatches(Content),
    /// A shadow log is for comparison, so it needs contents.
    #[error("a shadow log is there to be compared: neither it ({0}) nor the log beside it can be off")]
    EmptyShadow(Content),
}

impl Content {
    /// All contents, as the command line names them.
    pub const NAMES: [(&str, Self); 8] = [
        ("off", Self::Off),
        ("command", Self::Command),
        ("adaptive", Self::Adaptive),
        ("logical", Self::Logical),
        ("physical", Self::Physical),
        ("physiological", Self::Physiological),
        ("dependency-fine", Self::DependencyFine),
        ("dependency-coarse", Self::DependencyCoarse),
    ];

    /// Returns the default images of updated rows.
    pub fn images(self) -> Images {
        match self {
            Self::Logical | Self::Physical => Images::Rows,
            _ => Images::Columns,
        }
    }

    /// Returns whether rows must have slots.
    pub fn needs_slots(self) -> bool {
        self == Self::Physical
    }

    /// Returns whether the records are those of batches.
    pub fn needs_batches(self) -> bool {
        matches!(self, Self::DependencyFine | Self::DependencyCoarse)
    }

    /// Returns whether one replay handles records of both kinds.
    pub fn mixes_with(self, kind: RecordKind) -> bool {
        match kind {
            // A database that logs nothing adds no records.
            _ if self == Self::Off => true,
            RecordKind::Definition | RecordKind::Large => true,
            RecordKind::Call | RecordKind::Statement => {
                matches!(self, Self::Command | Self::Adaptive | Self::DependencyCoarse)
            }
            RecordKind::Vertex => self == Self::DependencyCoarse,
            RecordKind::BatchWrites => self == Self::DependencyFine,
            RecordKind::BatchEnd => self.needs_batches(),
            RecordKind::Writes | RecordKind::Definitions | RecordKind::Stages => {
                !matches!(self, Self::Physical)
            }
            RecordKind::Slots => self == Self::Physical,
            RecordKind::Operation | RecordKind::Outcome => self == Self::Physiological,
        }
    }
}

impl FromStr for Content {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::NAMES.map(|(name, _)| name).join(", ");
        Self::NAMES
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, content)| *content)
            .ok_or_else(|| format!("unknown log content \"{text}\"; known are: {known}"))
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, content)| content == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

const LENGTH_BYTES: usize = 4;
const CHECKED_FROM: usize = 8;
const ORDER_AT: usize = 9;
/// Offset of the payload in a record, in bytes.
pub const BODY_FROM: usize = 17;

/// The kind of a record, with its code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum RecordKind {
    /// A call of a procedure.
    Call = 1,
    /// A transaction of a single statement.
    Statement = 2,
    /// The writes of a transaction, by table and primary key.
    Writes = 3,
    /// A definition.
    Definition = 4,
    /// The writes of a transaction, by table and slot.
    Slots = 5,
    /// An operation of a transaction; another record holds the outcome.
    Operation = 6,
    /// The outcome of a transaction whose operations are logged.
    Outcome = 7,
    /// The definitions and the writes of one transaction.
    Definitions = 8,
    /// A reference to a record in a file of its own.
    Large = 9,
    /// A call of a batch, with the calls that wait for it.
    Vertex = 10,
    /// The end of a batch.
    BatchEnd = 11,
    /// The writes of a vertex that its batch leaves, by table and primary key.
    BatchWrites = 12,
    /// Definitions and writes of one transaction, in turns.
    Stages = 13,
}

impl RecordKind {
    const ALL: [Self; 13] = [
        Self::Call,
        Self::Statement,
        Self::Writes,
        Self::Definition,
        Self::Slots,
        Self::Operation,
        Self::Outcome,
        Self::Definitions,
        Self::Large,
        Self::Vertex,
        Self::BatchEnd,
        Self::BatchWrites,
        Self::Stages,
    ];

    fn of(byte: u8) -> Result<Self, DecodeError> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte).ok_or(DecodeError)
    }
}

/// A decoded record.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Record<'a> {
    /// A call of a procedure.
    Call(CallRecord<'a>),
    /// A transaction of a single statement. Logs of format version 1 also have definitions here.
    Statement(StatementRecord<'a>),
    /// The writes of a transaction, by table and primary key.
    Writes(WritesRecord<'a>),
    /// A definition.
    Definition(StatementRecord<'a>),
    /// The writes of a transaction, by table and slot.
    Slots(SlotsRecord<'a>),
    /// An operation of a transaction; another record holds the outcome. The record's order names the
    /// transaction.
    Operation(Operation<'a>),
    /// The outcome of a transaction whose operations are logged.
    Outcome(Outcome),
    /// The definitions and the writes of one transaction.
    Definitions(DefinitionsRecord<'a>),
    /// Definitions and writes of one transaction, in turns.
    Stages(StagesRecord<'a>),
    /// A reference to a record in a file of its own.
    Large(LargeRecord),
    /// The end of a batch. Its order is that of the last vertex.
    BatchEnd(BatchEndRecord),
}

/// Bit in a record's order that says that the record counts alone.
const ALONE: u64 = 1 << 63;

/// The number of a record, and whether it counts alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// The transaction's number.
    pub order: CommitOrder,
    /// Whether the transaction counts as soon as its own log is durable up to it: each version that it had
    /// read was durable when it committed. Poplar §5 (write-only transactions) is the case of an empty read
    /// set.
    pub alone: bool,
}

impl From<CommitOrder> for Stamp {
    fn from(order: CommitOrder) -> Self {
        Self { order, alone: false }
    }
}

impl Stamp {
    fn of(word: u64) -> Self {
        Self { order: CommitOrder(word & !ALONE), alone: word & ALONE != 0 }
    }

    fn word(self) -> u64 {
        self.order.0 | if self.alone { ALONE } else { 0 }
    }
}

/// Begins a record at the end of a buffer and returns its start; `seal` fills in the order.
fn append(kind: RecordKind, buffer: &mut Vec<u8>) -> usize {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; CHECKED_FROM]);
    buffer.push(kind as u8);
    buffer.extend_from_slice(&[0; 8]);
    start
}

/// Begins a record in a buffer, which is emptied.
fn begin(kind: RecordKind, buffer: &mut Vec<u8>) {
    buffer.clear();
    append(kind, buffer);
}

/// Completes a record: its number, length and checksum.
#[inline]
pub fn seal(stamp: impl Into<Stamp>, record: &mut [u8]) {
    record[ORDER_AT..ORDER_AT + 8].copy_from_slice(&stamp.into().word().to_le_bytes());
    let length = (record.len() - LENGTH_BYTES) as u32;
    record[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    let checksum = crc32c::crc32c(&record[CHECKED_FROM..]);
    record[LENGTH_BYTES..CHECKED_FROM].copy_from_slice(&checksum.to_le_bytes());
}

/// Returns how many bytes the first of several records takes; `None` when there is none.
pub fn length_of(records: &[u8]) -> Option<usize> {
    let length = records.first_chunk::<LENGTH_BYTES>()?;
    Some(LENGTH_BYTES + u32::from_le_bytes(*length) as usize)
}

/// Reads the next record of a batch: its number, kind and contents.
///
/// # Errors
/// Bytes that are no record.
pub fn read<'a>(reader: &mut Reader<'a>) -> Result<(Stamp, RecordKind, Record<'a>), DecodeError> {
    let length = u32::from_le_bytes(reader.array()?) as usize;
    let body = reader.take(length)?;
    let mut reader = Reader::new(body);
    let checksum = u32::from_le_bytes(reader.array()?);
    if checksum != crc32c::crc32c(body.get(4..).ok_or(DecodeError)?) {
        return Err(DecodeError);
    }
    read_body(&mut reader)
}

/// Reads a record that was read before, without checking it again.
///
/// # Errors
/// Bytes that are no record.
pub fn read_again<'a>(reader: &mut Reader<'a>) -> Result<(CommitOrder, Record<'a>), DecodeError> {
    let length = u32::from_le_bytes(reader.array()?) as usize;
    let mut reader = Reader::new(reader.take(length)?.get(4..).ok_or(DecodeError)?);
    let (stamp, kind) = read_head(&mut reader)?;
    Ok((stamp.order, read_as_again(kind, &mut reader)?))
}

fn read_head(reader: &mut Reader<'_>) -> Result<(Stamp, RecordKind), DecodeError> {
    let [kind] = reader.array()?;
    let stamp = Stamp::of(u64::from_le_bytes(reader.array()?));
    if stamp.order.epoch().0 >= CommitOrder::EPOCH_LIMIT {
        return Err(DecodeError);
    }
    Ok((stamp, RecordKind::of(kind)?))
}

fn read_body<'a>(reader: &mut Reader<'a>) -> Result<(Stamp, RecordKind, Record<'a>), DecodeError> {
    let (stamp, kind) = read_head(reader)?;
    Ok((stamp, kind, read_as(kind, reader)?))
}

/// Reads what stands behind a record's number, and was read before, without checking writes again: replay on
/// demand reads a record once for each of them.
///
/// # Errors
/// Bytes that are no such record.
pub fn read_as_again<'a>(kind: RecordKind, reader: &mut Reader<'a>) -> Result<Record<'a>, DecodeError> {
    Ok(match kind {
        RecordKind::Writes | RecordKind::BatchWrites => Record::Writes(WritesRecord::read_again(reader)?),
        RecordKind::Slots => Record::Slots(SlotsRecord::read_again(reader)?),
        RecordKind::Definitions => Record::Definitions(DefinitionsRecord::read_again(reader)?),
        RecordKind::Stages => Record::Stages(StagesRecord::read_again(reader)?),
        kind => read_as(kind, reader)?,
    })
}

/// Reads what stands behind a record's number.
///
/// # Errors
/// Bytes that are no such record.
pub fn read_as<'a>(kind: RecordKind, reader: &mut Reader<'a>) -> Result<Record<'a>, DecodeError> {
    Ok(match kind {
        RecordKind::Call => Record::Call(CallRecord::read(Later::default(), reader)?),
        RecordKind::Vertex => Record::Call(CallRecord::read(Later::read(reader)?, reader)?),
        RecordKind::BatchEnd => Record::BatchEnd(BatchEndRecord::read(reader)?),
        RecordKind::Statement => Record::Statement(StatementRecord::read(reader)?),
        RecordKind::Writes | RecordKind::BatchWrites => Record::Writes(WritesRecord::read(reader)?),
        RecordKind::Definition => Record::Definition(StatementRecord::read(reader)?),
        RecordKind::Slots => Record::Slots(SlotsRecord::read(reader)?),
        RecordKind::Operation => Record::Operation(Operation::read(reader)?),
        RecordKind::Outcome => Record::Outcome(Outcome::read(reader)?),
        RecordKind::Definitions => Record::Definitions(DefinitionsRecord::read(reader)?),
        RecordKind::Stages => Record::Stages(StagesRecord::read(reader)?),
        RecordKind::Large => Record::Large(LargeRecord::read(reader)?),
    })
}
