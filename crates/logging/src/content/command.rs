//! Command records: what was asked, not what it changed.
//! Paper: command logging (Malviya et al., ICDE 2014) Figure 1. Differs: the version of the procedure, and the call's
//! time and seed where the procedure asks for them, so that replay is deterministic across replacements.
//!
//! A call's payload: procedure (varint), version (varint), flags (u8: 1 = a time follows, 2 = a seed follows, 4 = witness
//! values stand behind the arguments, 8 = the number of rows stands at the end), time (i64, microseconds since 2000), seed
//! (u64), then the arguments as `catalog::encode_value` writes them, then the witness values: for each witness of the procedure
//! the number of its values (varint) and they; last the number of rows.
//! A statement's payload: time (i64), seed (u64), its text, the byte 255, which no text holds, the number of rows. A
//! definition's: time, seed, text.
//!
//! The number of rows is how many the operations of the transaction inserted, updated and deleted. Replay must come to the same
//! number. It is read from the end: one byte below 255, or 255 behind eight bytes (u64). Calls and statements of format
//! versions 1 to 3 have none.

use super::{CHECKED_FROM, RecordKind, begin};
use catalog::{DecodeError, ProcedureId, Reader, put_varint};

const HAS_TIMESTAMP: u8 = 1;
const HAS_SEED: u8 = 2;
const HAS_WITNESSES: u8 = 4;
const HAS_ROWS: u8 = 8;

/// Stands between the text of a statement and its number of rows: no UTF-8 text holds it.
const END_OF_TEXT: u8 = u8::MAX;
/// The last byte of a number of rows that takes eight more.
const MANY_ROWS: u8 = u8::MAX;

/// Completes the record of a call or of a statement once it has run, behind its witness values.
#[inline]
pub fn put_rows_written(rows: u64, record: &mut Vec<u8>) {
    if record[CHECKED_FROM] == RecordKind::Statement as u8 {
        record.push(END_OF_TEXT);
    }
    match u8::try_from(rows) {
        Ok(few) if few != MANY_ROWS => record.push(few),
        _ => {
            record.extend_from_slice(&rows.to_le_bytes());
            record.push(MANY_ROWS);
        }
    }
}

/// Splits the number of rows from the end of what stands before it.
fn split_rows_written(bytes: &[u8]) -> Result<(&[u8], u64), DecodeError> {
    let (last, before) = bytes.split_last().ok_or(DecodeError)?;
    if *last != MANY_ROWS {
        return Ok((before, u64::from(*last)));
    }
    let (before, many) = before.split_last_chunk().ok_or(DecodeError)?;
    Ok((before, u64::from_le_bytes(*many)))
}

/// A call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallRecord<'a> {
    /// What was called.
    pub procedure: ProcedureId,
    /// Which version of it.
    pub version: u32,
    /// `now()`, in microseconds since 2000-01-01 UTC; 0 when the procedure does not ask.
    pub timestamp_us: i64,
    /// What `random()` follows from; 0 when the procedure does not ask.
    pub seed: u64,
    /// Whether witness values stand behind the arguments.
    pub witnessed: bool,
    /// The encoded arguments, and the witness values.
    pub arguments: &'a [u8],
    /// The number of rows that it wrote; `None` in logs of format version 3 and before.
    pub rows_written: Option<u64>,
}

impl<'a> CallRecord<'a> {
    /// Writes the record but for the number of rows: arguments and witness values may be appended, then `put_rows_written`
    /// completes it.
    pub fn write(&self, buffer: &mut Vec<u8>) {
        begin(RecordKind::Call, buffer);
        put_varint(self.procedure.0.into(), buffer);
        put_varint(self.version.into(), buffer);
        let has_timestamp = if self.timestamp_us == 0 { 0 } else { HAS_TIMESTAMP };
        let has_seed = if self.seed == 0 { 0 } else { HAS_SEED };
        let has_witnesses = if self.witnessed { HAS_WITNESSES } else { 0 };
        buffer.push(has_timestamp | has_seed | has_witnesses | HAS_ROWS);
        if self.timestamp_us != 0 {
            buffer.extend_from_slice(&self.timestamp_us.to_le_bytes());
        }
        if self.seed != 0 {
            buffer.extend_from_slice(&self.seed.to_le_bytes());
        }
        buffer.extend_from_slice(self.arguments);
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let small = |number: u64| u32::try_from(number).map_err(|_| DecodeError);
        let procedure = ProcedureId(small(reader.varint()?)?);
        let version = small(reader.varint()?)?;
        let [flags] = reader.array()?;
        let timestamp_us = if flags & HAS_TIMESTAMP == 0 { 0 } else { i64::from_le_bytes(reader.array()?) };
        let seed = if flags & HAS_SEED == 0 { 0 } else { u64::from_le_bytes(reader.array()?) };
        let witnessed = flags & HAS_WITNESSES != 0;
        let mut arguments = reader.take(reader.remaining())?;
        let mut rows_written = None;
        if flags & HAS_ROWS != 0 {
            let (before, rows) = split_rows_written(arguments)?;
            (arguments, rows_written) = (before, Some(rows));
        }
        Ok(Self { procedure, version, timestamp_us, seed, witnessed, arguments, rows_written })
    }
}

/// A statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatementRecord<'a> {
    /// `now()`, in microseconds since 2000-01-01 UTC.
    pub timestamp_us: i64,
    /// What `random()` follows from.
    pub seed: u64,
    /// The statement.
    pub text: &'a str,
    /// The number of rows that it wrote; `None` of definitions, and in logs of format version 3 and before.
    pub rows_written: Option<u64>,
}

impl<'a> StatementRecord<'a> {
    /// Writes the record of a transaction of one statement but for the number of rows: `put_rows_written` completes it.
    pub fn write(&self, buffer: &mut Vec<u8>) {
        self.write_as(RecordKind::Statement, buffer);
    }

    /// Writes the record of a definition.
    pub fn write_definition(&self, buffer: &mut Vec<u8>) {
        self.write_as(RecordKind::Definition, buffer);
    }

    fn write_as(&self, kind: RecordKind, buffer: &mut Vec<u8>) {
        begin(kind, buffer);
        buffer.extend_from_slice(&self.timestamp_us.to_le_bytes());
        buffer.extend_from_slice(&self.seed.to_le_bytes());
        buffer.extend_from_slice(self.text.as_bytes());
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let timestamp_us = i64::from_le_bytes(reader.array()?);
        let seed = u64::from_le_bytes(reader.array()?);
        let bytes = reader.take(reader.remaining())?;
        let (text, rows_written) = match bytes.iter().position(|byte| *byte == END_OF_TEXT) {
            Some(end) => {
                let (none, rows) = split_rows_written(&bytes[end + 1..])?;
                (&bytes[..end], Some(rows).filter(|_| none.is_empty()))
            }
            None => (bytes, None),
        };
        let text = std::str::from_utf8(text).map_err(|_| DecodeError)?;
        Ok(Self { timestamp_us, seed, text, rows_written })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Record, read, seal};
    use super::*;
    use catalog::CommitOrder;

    fn read_back(bytes: &mut [u8]) -> Record<'_> {
        seal(CommitOrder(99), bytes);
        let (stamp, _, record) = read(&mut Reader::new(bytes)).unwrap();
        assert_eq!(stamp, CommitOrder(99).into());
        record
    }

    #[test]
    fn records_come_back_and_damage_is_seen() {
        for rows in [0, 1, 254, 255, 256, u64::MAX] {
            let call = CallRecord {
                procedure: ProcedureId(3),
                version: 7,
                timestamp_us: -5,
                seed: 0,
                witnessed: true,
                arguments: &[1, 2, 3],
                rows_written: Some(rows),
            };
            let mut bytes = Vec::new();
            call.write(&mut bytes);
            put_rows_written(rows, &mut bytes);
            assert_eq!(read_back(&mut bytes), Record::Call(call));
            for at in 0..bytes.len() {
                for bit in 0..8 {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= 1 << bit;
                    assert!(read(&mut Reader::new(&damaged)).is_err(), "byte {at}, bit {bit}");
                }
            }
            let text = "UPDATE t SET name = 'Über'";
            let statement = StatementRecord { timestamp_us: 1, seed: 2, text, rows_written: Some(rows) };
            statement.write(&mut bytes);
            put_rows_written(rows, &mut bytes);
            assert_eq!(read_back(&mut bytes), Record::Statement(statement));
        }
    }

    /// Records of format versions 1 to 3 say nothing of rows.
    #[test]
    fn older_records_have_no_number_of_rows() {
        let mut bytes = Vec::new();
        begin(RecordKind::Call, &mut bytes);
        bytes.extend_from_slice(&[3, 7, HAS_WITNESSES, 1, 2, 255]);
        let call = CallRecord {
            procedure: ProcedureId(3),
            version: 7,
            timestamp_us: 0,
            seed: 0,
            witnessed: true,
            arguments: &[1, 2, 255],
            rows_written: None,
        };
        assert_eq!(read_back(&mut bytes), Record::Call(call));
        let statement =
            StatementRecord { timestamp_us: 1, seed: 2, text: "DELETE FROM t", rows_written: None };
        statement.write(&mut bytes);
        assert_eq!(read_back(&mut bytes), Record::Statement(statement));
    }
}
