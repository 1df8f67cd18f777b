//! What is recorded of a transaction. One file a kind of content.
//!
//! A record, little-endian: length of what follows (u32), CRC-32C of the rest (u32), kind (u8), commit order (u64),
//! which is the transaction's id too, then the payload of the kind. This is the only description of that layout.

mod command;
mod writes;

pub use command::{CallRecord, StatementRecord};
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
}

impl Content {
    /// All of them, as the command line names them.
    pub const NAMES: [(&str, Self); 2] = [("off", Self::Off), ("command", Self::Command)];
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

const KIND_CALL: u8 = 1;
const KIND_STATEMENT: u8 = 2;
const KIND_WRITES: u8 = 3;
const LENGTH_BYTES: usize = 4;
const CHECKED_FROM: usize = 8;
const ORDER_AT: usize = 9;

/// A record as it was read.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Record<'a> {
    /// A call of a procedure.
    Call(CallRecord<'a>),
    /// A statement: a definition, or a transaction of one statement.
    Statement(StatementRecord<'a>),
    /// A transaction by what it wrote.
    Writes(WritesRecord<'a>),
}

/// Begins a record in an empty buffer; the order is filled in by `seal`.
fn begin(kind: u8, buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.extend_from_slice(&[0; CHECKED_FROM]);
    buffer.push(kind);
    buffer.extend_from_slice(&[0; 8]);
}

/// Completes a record: its place in the serial order, length and checksum.
#[inline]
pub fn seal(order: CommitOrder, record: &mut [u8]) {
    record[ORDER_AT..ORDER_AT + 8].copy_from_slice(&order.0.to_le_bytes());
    let length = (record.len() - LENGTH_BYTES) as u32;
    record[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    let checksum = crc32c::crc32c(&record[CHECKED_FROM..]);
    record[LENGTH_BYTES..CHECKED_FROM].copy_from_slice(&checksum.to_le_bytes());
}

/// Reads the next record of a batch: its order and contents.
///
/// # Errors
/// Bytes that are no record.
pub fn read<'a>(reader: &mut Reader<'a>) -> Result<(CommitOrder, Record<'a>), DecodeError> {
    let length = u32::from_le_bytes(reader.array()?) as usize;
    let body = reader.take(length)?;
    let mut reader = Reader::new(body);
    let checksum = u32::from_le_bytes(reader.array()?);
    if checksum != crc32c::crc32c(body.get(4..).ok_or(DecodeError)?) {
        return Err(DecodeError);
    }
    parse(&mut reader)
}

/// Reads a record that was read before: its checksum is known to hold.
///
/// # Errors
/// Bytes that no record begins with.
pub fn read_again<'a>(reader: &mut Reader<'a>) -> Result<(CommitOrder, Record<'a>), DecodeError> {
    let length = u32::from_le_bytes(reader.array()?) as usize;
    let mut reader = Reader::new(reader.take(length)?);
    reader.array::<4>()?;
    parse(&mut reader)
}

fn parse<'a>(reader: &mut Reader<'a>) -> Result<(CommitOrder, Record<'a>), DecodeError> {
    let [kind] = reader.array()?;
    let order = CommitOrder(u64::from_le_bytes(reader.array()?));
    let record = match kind {
        KIND_CALL => Record::Call(CallRecord::read(reader)?),
        KIND_STATEMENT => Record::Statement(StatementRecord::read(reader)?),
        KIND_WRITES => Record::Writes(WritesRecord::read(reader)?),
        _ => return Err(DecodeError),
    };
    Ok((order, record))
}
