//! What is recorded of a transaction. One file a kind of content.
//!
//! A record, little-endian: length of what follows (u32), CRC-32C of the rest (u32), kind (u8), commit order
//! (u64), which is the transaction's id too and whose highest bit says that it counts alone (`Stamp`), then
//! the payload of the kind. This is the only description of that layout.

mod command;
mod definitions;
mod operations;
mod slots;
mod writes;

pub use command::{CallRecord, StatementRecord, put_written};
pub(crate) use definitions::take_body;
pub use definitions::{DefinitionsRecord, LargeRecord};
pub use operations::{Operation, OperationsBuilder, Outcome, Side};
pub use slots::{SlotWrite, SlotsBuilder, SlotsRecord};
pub use writes::{Write, WritesBuilder, WritesRecord};

use catalog::{CommitOrder, DecodeError, Reader};
use std::fmt;
use std::str::FromStr;

/// Which content a database logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Content {
    /// Nothing: commits are acknowledged at once and lost in a crash.
    Off,
    /// What was asked: procedure and arguments.
    #[default]
    Command,
    /// What was asked or what it changed, of each transaction what a bound on recovery asks for.
    Adaptive,
    /// After images by table and primary key.
    Logical,
    /// After images by table and slot.
    Physical,
    /// Each operation with what was before and after it, and what became of its transaction.
    Physiological,
}

/// What a log by value holds of a row that was updated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Images {
    /// All of it.
    Rows,
    /// The columns that changed.
    Columns,
}

/// What a log can't hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InvalidContent {
    /// Physical records are found by slot, in any order, so the last one must be the whole row.
    #[error(
        "physical records hold whole rows, because replay takes the newest of a slot alone: changed columns are not supported"
    )]
    PhysicalColumns,
    /// There is nothing to leave out.
    #[error("only physiological logs can be written without what undo needs, not {0} ones")]
    NothingToUndo(Content),
    /// A log beside another is for comparison.
    #[error("a shadow log is there to be compared: neither it ({0}) nor the log beside it can be off")]
    EmptyShadow(Content),
}

impl Content {
    /// All of them, as the command line names them.
    pub const NAMES: [(&str, Self); 6] = [
        ("off", Self::Off),
        ("command", Self::Command),
        ("adaptive", Self::Adaptive),
        ("logical", Self::Logical),
        ("physical", Self::Physical),
        ("physiological", Self::Physiological),
    ];

    /// What it holds of updated rows where nothing else is asked for.
    pub fn images(self) -> Images {
        match self {
            Self::Logical | Self::Physical => Images::Rows,
            _ => Images::Columns,
        }
    }

    /// Whether rows must have slots.
    pub fn needs_slots(self) -> bool {
        self == Self::Physical
    }

    /// Whether one replay can go over records of both.
    pub fn mixes_with(self, kind: RecordKind) -> bool {
        match kind {
            // What logs nothing adds nothing that would not fit.
            _ if self == Self::Off => true,
            RecordKind::Definition | RecordKind::Large => true,
            RecordKind::Call | RecordKind::Statement => matches!(self, Self::Command | Self::Adaptive),
            RecordKind::Writes | RecordKind::Definitions => !matches!(self, Self::Physical),
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
/// Where the payload of a record begins.
pub const BODY_FROM: usize = 17;

/// What a record is, by the byte that says so.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum RecordKind {
    /// A call of a procedure.
    Call = 1,
    /// A transaction of one statement.
    Statement = 2,
    /// A transaction by what it wrote, by table and primary key.
    Writes = 3,
    /// A definition.
    Definition = 4,
    /// A transaction by what it wrote, by table and slot.
    Slots = 5,
    /// An operation of a transaction whose fate another record tells.
    Operation = 6,
    /// The fate of a transaction whose operations are logged.
    Outcome = 7,
    /// Definitions, and what the same transaction wrote.
    Definitions = 8,
    /// A record that lies in a file of its own.
    Large = 9,
}

impl RecordKind {
    const ALL: [Self; 9] = [
        Self::Call,
        Self::Statement,
        Self::Writes,
        Self::Definition,
        Self::Slots,
        Self::Operation,
        Self::Outcome,
        Self::Definitions,
        Self::Large,
    ];

    fn of(byte: u8) -> Result<Self, DecodeError> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte).ok_or(DecodeError)
    }
}

/// A record as it was read.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Record<'a> {
    /// A call of a procedure.
    Call(CallRecord<'a>),
    /// A transaction of one statement. Logs of format version 1 have definitions here too.
    Statement(StatementRecord<'a>),
    /// A transaction by what it wrote, by table and primary key.
    Writes(WritesRecord<'a>),
    /// A definition.
    Definition(StatementRecord<'a>),
    /// A transaction by what it wrote, by table and slot.
    Slots(SlotsRecord<'a>),
    /// An operation of a transaction whose fate another record tells. The record's order names the
    /// transaction.
    Operation(Operation<'a>),
    /// The fate of a transaction whose operations are logged.
    Outcome(Outcome),
    /// Definitions, and what the same transaction wrote.
    Definitions(DefinitionsRecord<'a>),
    /// A record that lies in a file of its own.
    Large(LargeRecord),
}

/// A record that counts alone has this bit in its order.
const ALONE: u64 = 1 << 63;

/// What a record is numbered with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// The transaction's number.
    pub order: CommitOrder,
    /// Whether it counts as soon as its own log is durable up to it: everything that it had read was durable
    /// when it committed. Poplar §5 (write-only transactions), and more: what has read nothing is of this
    /// kind.
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

/// Begins a record at the end of a buffer, and returns where; the order is filled in by `seal`.
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
    let (stamp, _, record) = read_body(&mut reader)?;
    Ok((stamp.order, record))
}

fn read_body<'a>(reader: &mut Reader<'a>) -> Result<(Stamp, RecordKind, Record<'a>), DecodeError> {
    let [kind] = reader.array()?;
    let stamp = Stamp::of(u64::from_le_bytes(reader.array()?));
    if stamp.order.epoch().0 >= CommitOrder::EPOCH_LIMIT {
        return Err(DecodeError);
    }
    let kind = RecordKind::of(kind)?;
    Ok((stamp, kind, read_as(kind, reader)?))
}

/// Reads what stands behind a record's number.
///
/// # Errors
/// Bytes that are no such record.
pub fn read_as<'a>(kind: RecordKind, reader: &mut Reader<'a>) -> Result<Record<'a>, DecodeError> {
    Ok(match kind {
        RecordKind::Call => Record::Call(CallRecord::read(reader)?),
        RecordKind::Statement => Record::Statement(StatementRecord::read(reader)?),
        RecordKind::Writes => Record::Writes(WritesRecord::read(reader)?),
        RecordKind::Definition => Record::Definition(StatementRecord::read(reader)?),
        RecordKind::Slots => Record::Slots(SlotsRecord::read(reader)?),
        RecordKind::Operation => Record::Operation(Operation::read(reader)?),
        RecordKind::Outcome => Record::Outcome(Outcome::read(reader)?),
        RecordKind::Definitions => Record::Definitions(DefinitionsRecord::read(reader)?),
        RecordKind::Large => Record::Large(LargeRecord::read(reader)?),
    })
}
