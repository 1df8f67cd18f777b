//! Records of transactions that change definitions and also write rows; and references to records in files of
//! their own.
//!
//! Payload of the first kind: time (i64), seed (u64), length of the statements (u32), the statements' text,
//! then writes as in a write-set record. All statements come before all writes.
//! Payload of the second kind: incarnation (u64), number (u64), kind (u8), length (u64) and CRC-32C (u32) of
//! the record in the file. `large` describes the file.

use super::writes::WritesRecord;
use super::{BODY_FROM, RecordKind, StatementRecord, begin};
use catalog::{DecodeError, Reader};

/// The definitions and the writes of one transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DefinitionsRecord<'a> {
    /// Its statements, concatenated, each ended by a semicolon.
    pub definitions: StatementRecord<'a>,
    /// Its writes.
    pub writes: WritesRecord<'a>,
}

impl<'a> DefinitionsRecord<'a> {
    /// Begins the record; the caller appends writes, as to a write-set record.
    pub fn begin(definitions: StatementRecord<'_>, buffer: &mut Vec<u8>) {
        begin(RecordKind::Definitions, buffer);
        buffer.extend_from_slice(&definitions.timestamp_us.to_le_bytes());
        buffer.extend_from_slice(&definitions.seed.to_le_bytes());
        buffer.extend_from_slice(&(definitions.text.len() as u32).to_le_bytes());
        buffer.extend_from_slice(definitions.text.as_bytes());
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { definitions: Self::read_definitions(reader)?, writes: WritesRecord::read(reader)? })
    }

    /// Reads a record that was read before, without checking its writes again.
    pub(super) fn read_again(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { definitions: Self::read_definitions(reader)?, writes: WritesRecord::read_again(reader)? })
    }

    fn read_definitions(reader: &mut Reader<'a>) -> Result<StatementRecord<'a>, DecodeError> {
        let timestamp_us = i64::from_le_bytes(reader.array()?);
        let seed = u64::from_le_bytes(reader.array()?);
        let length = u32::from_le_bytes(reader.array()?) as usize;
        let text = std::str::from_utf8(reader.take(length)?).map_err(|_| DecodeError)?;
        Ok(StatementRecord { timestamp_us, seed, text, written: None })
    }
}

/// A reference to a record in a file of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LargeRecord {
    /// The incarnation that wrote it.
    pub incarnation: u64,
    /// The file's number.
    pub number: u64,
    /// The kind of the record.
    pub kind: RecordKind,
    /// Length of the bytes behind its number.
    pub length: u64,
    /// CRC-32C of those bytes.
    pub checksum: u32,
}

impl LargeRecord {
    pub(crate) fn write(self, buffer: &mut Vec<u8>) {
        begin(RecordKind::Large, buffer);
        buffer.extend_from_slice(&self.incarnation.to_le_bytes());
        buffer.extend_from_slice(&self.number.to_le_bytes());
        buffer.push(self.kind as u8);
        buffer.extend_from_slice(&self.length.to_le_bytes());
        buffer.extend_from_slice(&self.checksum.to_le_bytes());
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let incarnation = u64::from_le_bytes(reader.array()?);
        let number = u64::from_le_bytes(reader.array()?);
        let [kind] = reader.array()?;
        let kind = RecordKind::of(kind)?;
        let length = u64::from_le_bytes(reader.array()?);
        let checksum = u32::from_le_bytes(reader.array()?);
        match kind {
            RecordKind::Large => Err(DecodeError),
            _ => Ok(Self { incarnation, number, kind, length, checksum }),
        }
    }
}

/// Returns the kind of an unsealed record, and the bytes behind its number.
pub(crate) fn take_body(record: &[u8]) -> (RecordKind, &[u8]) {
    let kind = RecordKind::of(record[BODY_FROM - 9]).expect("a record that was begun here");
    (kind, &record[BODY_FROM..])
}
