//! Command records: what was asked, not what it changed.
//! Paper: command logging (Malviya et al., ICDE 2014) Figure 1. Differs: the version of the procedure, and
//! the call's time and seed where the procedure asks for them, so that replay is deterministic across
//! replacements.
//!
//! A call's payload: procedure (varint), version (varint), flags (u8: 1 = a time follows, 2 = a seed follows,
//! 4 = witness values stand behind the arguments, 8 = what it has written stands at the end), time (i64,
//! microseconds since 2000), seed (u64), then the arguments as `catalog::encode_value` writes them, then the
//! witness values: for each witness of the procedure the number of its values (varint) and they; last what it
//! has written.
//! A statement's payload: time (i64), seed (u64), its text, the byte 255, which no text holds, what it has
//! written. A definition's: time, seed, text.
//!
//! What a transaction has written is the number of rows that its operations inserted, updated and deleted,
//! and a checksum of them (`catalog::Written`). Replay must write the same. It is read from the end: a word
//! (u16) of which the lower six bits are the number of rows, or 63 where four bytes (u32) with the number
//! stand before the word; the upper ten are the checksum. Calls and statements of format versions 1 to 3 have
//! neither.

use super::{CHECKED_FROM, RecordKind, begin};
use catalog::{CHECKSUM_BITS, DecodeError, ProcedureId, Reader, Written, put_varint};

const HAS_TIMESTAMP: u8 = 1;
const HAS_SEED: u8 = 2;
const HAS_WITNESSES: u8 = 4;
const HAS_WRITTEN: u8 = 8;

/// Stands between the text of a statement and what it has written: no UTF-8 text holds it.
const END_OF_TEXT: u8 = u8::MAX;
/// Stands for a number of rows that takes four bytes of its own.
const MANY_ROWS: u32 = 63;
const ROWS_BITS: u32 = u16::BITS - CHECKSUM_BITS;

/// Completes the record of a call or of a statement once it has run, behind its witness values.
#[inline]
pub fn put_written(written: Written, record: &mut Vec<u8>) {
    if record[CHECKED_FROM] == RecordKind::Statement as u8 {
        record.push(END_OF_TEXT);
    }
    if written.rows >= MANY_ROWS {
        record.extend_from_slice(&written.rows.to_le_bytes());
    }
    let word = written.rows.min(MANY_ROWS) as u16 | written.checksum << ROWS_BITS;
    record.extend_from_slice(&word.to_le_bytes());
}

/// Splits what was written from the end of what stands before it.
fn split_written(bytes: &[u8]) -> Result<(&[u8], Written), DecodeError> {
    let (mut before, word) = bytes.split_last_chunk().ok_or(DecodeError)?;
    let word = u16::from_le_bytes(*word);
    let mut rows = u32::from(word) & MANY_ROWS;
    if rows == MANY_ROWS {
        let many;
        (before, many) = before.split_last_chunk().ok_or(DecodeError)?;
        rows = u32::from_le_bytes(*many);
    }
    Ok((before, Written { rows, checksum: word >> ROWS_BITS }))
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
    /// What it has written; `None` in logs of format version 3 and before.
    pub written: Option<Written>,
}

impl<'a> CallRecord<'a> {
    /// Writes the record but for what the call has written: arguments and witness values may be appended,
    /// then `put_written` completes it.
    pub fn write(&self, buffer: &mut Vec<u8>) {
        begin(RecordKind::Call, buffer);
        put_varint(self.procedure.0.into(), buffer);
        put_varint(self.version.into(), buffer);
        let has_timestamp = if self.timestamp_us == 0 { 0 } else { HAS_TIMESTAMP };
        let has_seed = if self.seed == 0 { 0 } else { HAS_SEED };
        let has_witnesses = if self.witnessed { HAS_WITNESSES } else { 0 };
        buffer.push(has_timestamp | has_seed | has_witnesses | HAS_WRITTEN);
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
        let mut written = None;
        if flags & HAS_WRITTEN != 0 {
            let (before, own) = split_written(arguments)?;
            (arguments, written) = (before, Some(own));
        }
        Ok(Self { procedure, version, timestamp_us, seed, witnessed, arguments, written })
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
    /// What it has written; `None` of definitions, and in logs of format version 3 and before.
    pub written: Option<Written>,
}

impl<'a> StatementRecord<'a> {
    /// Writes the record of a transaction of one statement but for what it has written: `put_written`
    /// completes it.
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
        let (text, written) = match bytes.iter().position(|byte| *byte == END_OF_TEXT) {
            Some(end) => {
                let (none, written) = split_written(&bytes[end + 1..])?;
                (&bytes[..end], Some(written).filter(|_| none.is_empty()))
            }
            None => (bytes, None),
        };
        let text = std::str::from_utf8(text).map_err(|_| DecodeError)?;
        Ok(Self { timestamp_us, seed, text, written })
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
        for (rows, checksum) in [(0, 0), (1, 1), (62, 1023), (63, 63), (64, 512), (u32::MAX, 1023)] {
            let written = Written { rows, checksum };
            let call = CallRecord {
                procedure: ProcedureId(3),
                version: 7,
                timestamp_us: -5,
                seed: 0,
                witnessed: true,
                arguments: &[1, 2, 3],
                written: Some(written),
            };
            let mut bytes = Vec::new();
            call.write(&mut bytes);
            put_written(written, &mut bytes);
            assert_eq!(read_back(&mut bytes), Record::Call(call));
            for at in 0..bytes.len() {
                for bit in 0..8 {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= 1 << bit;
                    assert!(read(&mut Reader::new(&damaged)).is_err(), "byte {at}, bit {bit}");
                }
            }
            let text = "UPDATE t SET name = 'Über'";
            let statement = StatementRecord { timestamp_us: 1, seed: 2, text, written: Some(written) };
            statement.write(&mut bytes);
            put_written(written, &mut bytes);
            assert_eq!(read_back(&mut bytes), Record::Statement(statement));
        }
    }

    /// Records of format versions 1 to 3 do not say what was written.
    #[test]
    fn older_records_do_not_say_what_was_written() {
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
            written: None,
        };
        assert_eq!(read_back(&mut bytes), Record::Call(call));
        let statement = StatementRecord { timestamp_us: 1, seed: 2, text: "DELETE FROM t", written: None };
        statement.write(&mut bytes);
        assert_eq!(read_back(&mut bytes), Record::Statement(statement));
    }
}
