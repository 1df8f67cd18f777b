//! Command records: a transaction's call or statement, instead of its changes.
//! Paper: command logging (Malviya et al., ICDE 2014) Figure 1. Differs: a record also holds the procedure's
//! version, and the call's time and seed if the procedure uses them, so that replay is deterministic after
//! the procedure was replaced.
//!
//! A call's payload: procedure (varint), version (varint), flags (u8: 1 = a time follows, 2 = a seed follows,
//! 4 = witness values follow the arguments, 8 = a write summary ends the record, 16 = these are the values of
//! `Witnessed::Keys`, 32 = of `Witnessed::Rounds`), time (i64, microseconds since 2000), seed (u64), then the
//! arguments as `catalog::encode_value` writes them, then for each witness of the procedure the number of its
//! values (varint) and the values; last the write summary.
//! A statement's payload: time (i64), seed (u64), its text, the byte 255, which no UTF-8 text contains, the
//! write summary. A definition's: time, seed, text.
//!
//! The write summary is the number of rows that the transaction's operations inserted, updated and deleted,
//! and a checksum of them (`catalog::Written`). Replay must write the same. It is decoded from the end. Its
//! last two bytes are a word (u16): the lower six bits are the number of rows, the upper ten the checksum. If
//! the six bits are 63, the number is in four bytes (u32) before the word. Calls and statements of format
//! versions 1 to 3 have no summary.

use super::{CHECKED_FROM, Later, RecordKind, begin};
use catalog::{CHECKSUM_BITS, DecodeError, ProcedureId, Reader, Written, put_varint};
use procedure::Witnessed;

const HAS_TIMESTAMP: u8 = 1;
const HAS_SEED: u8 = 2;
const HAS_WITNESSES: u8 = 4;
const HAS_WRITTEN: u8 = 8;
const HAS_KEYS: u8 = 16;
const HAS_ROUNDS: u8 = 32;

/// Separates the text of a statement from its write summary; no UTF-8 text contains this byte.
const END_OF_TEXT: u8 = u8::MAX;
/// Value of the six bits when the number of rows takes four bytes of its own.
const MANY_ROWS: u32 = 63;
const ROWS_BITS: u32 = u16::BITS - CHECKSUM_BITS;

/// Completes the record of an executed call or statement with its write summary.
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

/// Splits the write summary from the bytes before it.
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
    /// The called procedure.
    pub procedure: ProcedureId,
    /// The version of the procedure.
    pub version: u32,
    /// `now()`, in microseconds since 2000-01-01 UTC; 0 when the procedure does not use it.
    pub timestamp_us: i64,
    /// The seed of `random()`; 0 when the procedure does not use it.
    pub seed: u64,
    /// Which witness values follow the arguments.
    pub witnessed: Witnessed,
    /// The encoded arguments, and the witness values.
    pub arguments: &'a [u8],
    /// The write summary; `None` in logs of format version 3 and before.
    pub written: Option<Written>,
    /// The calls of its batch that wait for it; none in logs without batches.
    pub later: Later<'a>,
}

impl<'a> CallRecord<'a> {
    /// Writes the record without its write summary. The caller may append arguments and witness values, and
    /// completes it with `put_written`.
    pub fn write(&self, buffer: &mut Vec<u8>) {
        begin(RecordKind::Call, buffer);
        put_varint(self.procedure.0.into(), buffer);
        put_varint(self.version.into(), buffer);
        let has_timestamp = if self.timestamp_us == 0 { 0 } else { HAS_TIMESTAMP };
        let has_seed = if self.seed == 0 { 0 } else { HAS_SEED };
        let has_witnesses = match self.witnessed {
            Witnessed::Nothing => 0,
            Witnessed::Scans => HAS_WITNESSES,
            Witnessed::Keys => HAS_WITNESSES | HAS_KEYS,
            Witnessed::Rounds => HAS_WITNESSES | HAS_ROUNDS,
        };
        buffer.push(has_timestamp | has_seed | has_witnesses | HAS_WRITTEN);
        if self.timestamp_us != 0 {
            buffer.extend_from_slice(&self.timestamp_us.to_le_bytes());
        }
        if self.seed != 0 {
            buffer.extend_from_slice(&self.seed.to_le_bytes());
        }
        buffer.extend_from_slice(self.arguments);
    }

    pub(super) fn read(later: Later<'a>, reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let small = |number: u64| u32::try_from(number).map_err(|_| DecodeError);
        let procedure = ProcedureId(small(reader.varint()?)?);
        let version = small(reader.varint()?)?;
        let [flags] = reader.array()?;
        let timestamp_us = if flags & HAS_TIMESTAMP == 0 { 0 } else { i64::from_le_bytes(reader.array()?) };
        let seed = if flags & HAS_SEED == 0 { 0 } else { u64::from_le_bytes(reader.array()?) };
        let witnessed = match flags & (HAS_WITNESSES | HAS_KEYS | HAS_ROUNDS) {
            0 => Witnessed::Nothing,
            HAS_WITNESSES => Witnessed::Scans,
            flags if flags == HAS_WITNESSES | HAS_KEYS => Witnessed::Keys,
            flags if flags == HAS_WITNESSES | HAS_ROUNDS => Witnessed::Rounds,
            _ => return Err(DecodeError),
        };
        let mut arguments = reader.take(reader.remaining())?;
        let mut written = None;
        if flags & HAS_WRITTEN != 0 {
            let (before, own) = split_written(arguments)?;
            (arguments, written) = (before, Some(own));
        }
        Ok(Self { procedure, version, timestamp_us, seed, witnessed, arguments, written, later })
    }
}

/// A statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatementRecord<'a> {
    /// `now()`, in microseconds since 2000-01-01 UTC.
    pub timestamp_us: i64,
    /// The seed of `random()`.
    pub seed: u64,
    /// The statement.
    pub text: &'a str,
    /// The write summary; `None` for definitions, and in logs of format version 3 and before.
    pub written: Option<Written>,
}

impl<'a> StatementRecord<'a> {
    /// Writes the record of a single-statement transaction without its write summary; `put_written` completes
    /// it.
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
        let written = [(0, 0), (1, 1), (62, 1023), (63, 63), (64, 512), (u32::MAX, 1023)];
        let witnessed = [Witnessed::Nothing, Witnessed::Scans, Witnessed::Keys, Witnessed::Rounds];
        for ((rows, checksum), witnessed) in written.into_iter().zip(witnessed.into_iter().cycle()) {
            let written = Written { rows, checksum };
            let call = CallRecord {
                procedure: ProcedureId(3),
                version: 7,
                timestamp_us: -5,
                seed: 0,
                witnessed,
                arguments: &[1, 2, 3],
                written: Some(written),
                later: Later::default(),
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

    /// Records of format versions 1 to 3 have no write summary.
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
            witnessed: Witnessed::Scans,
            arguments: &[1, 2, 255],
            written: None,
            later: Later::default(),
        };
        assert_eq!(read_back(&mut bytes), Record::Call(call));
        let statement = StatementRecord { timestamp_us: 1, seed: 2, text: "DELETE FROM t", written: None };
        statement.write(&mut bytes);
        assert_eq!(read_back(&mut bytes), Record::Statement(statement));
    }
}
