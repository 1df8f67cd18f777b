//! Records of transactions whose definitions and writes take turns: a definition may need the rows that the
//! transaction wrote before it.
//!
//! Payload: time (i64), seed (u64), then stages. A stage: kind (u8: 1 = statements, 2 = writes), length
//! (u32), then the text of statements, each ended by a semicolon, or writes as in a write-set record.
//! Invariant: replay runs the stages in their order, and no other transaction between them. Held by:
//! `crates/reprise/tests/suite/migrations.rs`.

use super::writes::WritesRecord;
use super::{RecordKind, StatementRecord, begin};
use catalog::{DecodeError, Reader};

const STATEMENTS: u8 = 1;
const WRITES: u8 = 2;

/// The stages of one transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StagesRecord<'a> {
    timestamp_us: i64,
    seed: u64,
    stages: &'a [u8],
}

/// One stage of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage<'a> {
    /// Definitions, as one text.
    Definitions(StatementRecord<'a>),
    /// Writes under the definitions before them.
    Writes(WritesRecord<'a>),
}

impl<'a> StagesRecord<'a> {
    /// Begins the record; the caller appends stages.
    pub fn begin(timestamp_us: i64, seed: u64, buffer: &mut Vec<u8>) {
        begin(RecordKind::Stages, buffer);
        buffer.extend_from_slice(&timestamp_us.to_le_bytes());
        buffer.extend_from_slice(&seed.to_le_bytes());
    }

    fn put(kind: u8, bytes: &[u8], buffer: &mut Vec<u8>) {
        buffer.push(kind);
        buffer.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        buffer.extend_from_slice(bytes);
    }

    /// Appends a stage of definitions.
    pub fn put_definitions(text: &str, buffer: &mut Vec<u8>) {
        Self::put(STATEMENTS, text.as_bytes(), buffer);
    }

    /// Appends a stage of writes, which `WritesBuilder` has made.
    pub fn put_writes(writes: &[u8], buffer: &mut Vec<u8>) {
        Self::put(WRITES, writes, buffer);
    }

    fn read_head(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let timestamp_us = i64::from_le_bytes(reader.array()?);
        let seed = u64::from_le_bytes(reader.array()?);
        Ok(Self { timestamp_us, seed, stages: reader.take(reader.remaining())? })
    }

    fn read_stage(&self, reader: &mut Reader<'a>, again: bool) -> Result<Stage<'a>, DecodeError> {
        let [kind] = reader.array()?;
        let length = u32::from_le_bytes(reader.array()?) as usize;
        let bytes = reader.take(length)?;
        let Self { timestamp_us, seed, .. } = *self;
        match kind {
            STATEMENTS => {
                let text = std::str::from_utf8(bytes).map_err(|_| DecodeError)?;
                Ok(Stage::Definitions(StatementRecord { timestamp_us, seed, text, written: None }))
            }
            WRITES if again => Ok(Stage::Writes(WritesRecord::read_again(&mut Reader::new(bytes))?)),
            WRITES => Ok(Stage::Writes(WritesRecord::read(&mut Reader::new(bytes))?)),
            _ => Err(DecodeError),
        }
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let record = Self::read_head(reader)?;
        let mut stages = Reader::new(record.stages);
        while stages.remaining() > 0 {
            record.read_stage(&mut stages, false)?;
        }
        Ok(record)
    }

    /// Reads a record that was read before, without checking its stages again.
    pub(super) fn read_again(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Self::read_head(reader)
    }

    /// Returns the stages, in order.
    pub fn stages(self) -> impl Iterator<Item = Stage<'a>> {
        let mut reader = Reader::new(self.stages);
        // All stages were checked when the record was read.
        std::iter::from_fn(move || self.read_stage(&mut reader, true).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{BODY_FROM, Record, read_as};

    #[test]
    fn stages_come_back_in_their_order() {
        let mut record = Vec::new();
        StagesRecord::begin(7, 9, &mut record);
        // A delete from table 3 of a row whose key is one byte.
        let writes = [3, 3, 1, 5];
        StagesRecord::put_writes(&writes, &mut record);
        StagesRecord::put_definitions("CREATE TABLE t (a INT);", &mut record);
        StagesRecord::put_definitions("DROP TABLE t;", &mut record);
        let body = &record[BODY_FROM..];
        let read = read_as(RecordKind::Stages, &mut Reader::new(body)).unwrap();
        let Record::Stages(read) = read else { panic!("{read:?}") };
        let stages: Vec<_> = read.stages().collect();
        let text =
            |text| Stage::Definitions(StatementRecord { timestamp_us: 7, seed: 9, text, written: None });
        assert!(matches!(stages[0], Stage::Writes(writes) if writes.writes().count() == 1));
        assert_eq!(stages[1..], [text("CREATE TABLE t (a INT);"), text("DROP TABLE t;")]);
        for cut in 17..body.len() {
            let cut_record = read_as(RecordKind::Stages, &mut Reader::new(&body[..cut]));
            let whole = [16 + 5 + 4, 16 + 5 + 4 + 5 + 23].contains(&cut);
            assert_eq!(cut_record.is_ok(), whole, "cut at {cut}");
        }
    }
}
