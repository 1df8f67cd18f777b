//! Records of transactions that change definitions and write rows, too; and records that lie in files of
//! their own.
//!
//! Definitions and writes: time (i64), seed (u64), length of the statements (u32), the statements' text, then
//! writes as a write-set record has them. All statements come before all writes.
//! A large record: incarnation (u64), number (u64), the kind that it is (u8), its length (u64), its CRC-32C
//! (u32); `large` has the rest.

use super::writes::WritesRecord;
use super::{BODY_FROM, RecordKind, StatementRecord, begin};
use catalog::{DecodeError, Reader};

/// Definitions, and what the same transaction wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DefinitionsRecord<'a> {
    /// Its statements, one after the other, each ended by a semicolon.
    pub definitions: StatementRecord<'a>,
    /// What it wrote.
    pub writes: WritesRecord<'a>,
}

impl<'a> DefinitionsRecord<'a> {
    /// Begins the record: writes are appended behind, as to a write-set record.
    pub fn begin(definitions: StatementRecord<'_>, buffer: &mut Vec<u8>) {
        begin(RecordKind::Definitions, buffer);
        buffer.extend_from_slice(&definitions.timestamp_us.to_le_bytes());
        buffer.extend_from_slice(&definitions.seed.to_le_bytes());
        buffer.extend_from_slice(&(definitions.text.len() as u32).to_le_bytes());
        buffer.extend_from_slice(definitions.text.as_bytes());
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let timestamp_us = i64::from_le_bytes(reader.array()?);
        let seed = u64::from_le_bytes(reader.array()?);
        let length = u32::from_le_bytes(reader.array()?) as usize;
        let text = std::str::from_utf8(reader.take(length)?).map_err(|_| DecodeError)?;
        let definitions = StatementRecord { timestamp_us, seed, text, written: None };
        Ok(Self { definitions, writes: WritesRecord::read(reader)? })
    }
}

/// A record that lies in a file of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LargeRecord {
    /// Who wrote it.
    pub incarnation: u64,
    /// The file's number.
    pub number: u64,
    /// What it is.
    pub kind: RecordKind,
    /// Its bytes, from behind the number on.
    pub length: u64,
    /// Their CRC-32C.
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

/// What an unsealed record is, and what stands behind its number.
pub(crate) fn take_body(record: &[u8]) -> (RecordKind, &[u8]) {
    let kind = RecordKind::of(record[BODY_FROM - 9]).expect("a record that was begun here");
    (kind, &record[BODY_FROM..])
}
