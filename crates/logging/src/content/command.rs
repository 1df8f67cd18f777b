//! Command records: what was asked, not what it changed.
//! Paper: command logging (Malviya et al., ICDE 2014) Figure 1. Differs: the version of the procedure, and the call's
//! time and seed where the procedure asks for them, so that replay is deterministic across replacements.
//!
//! A call's payload: procedure (varint), version (varint), flags (u8: 1 = a time follows, 2 = a seed follows, 4 = witness
//! values stand at the end), time (i64, microseconds since 2000), seed (u64), then the arguments as `catalog::encode_value`
//! writes them, then the witness values: for each witness of the procedure the number of its values (varint) and they.
//! A statement's payload, and a definition's: time (i64), seed (u64), its text.

use super::{RecordKind, begin};
use catalog::{DecodeError, ProcedureId, Reader, put_varint};

const HAS_TIMESTAMP: u8 = 1;
const HAS_SEED: u8 = 2;
const HAS_WITNESSES: u8 = 4;

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
}

impl<'a> CallRecord<'a> {
    /// Writes the record; arguments and witness values may be appended until it is sealed.
    pub fn write(&self, buffer: &mut Vec<u8>) {
        begin(RecordKind::Call, buffer);
        put_varint(self.procedure.0.into(), buffer);
        put_varint(self.version.into(), buffer);
        let has_timestamp = if self.timestamp_us == 0 { 0 } else { HAS_TIMESTAMP };
        let has_seed = if self.seed == 0 { 0 } else { HAS_SEED };
        let has_witnesses = if self.witnessed { HAS_WITNESSES } else { 0 };
        buffer.push(has_timestamp | has_seed | has_witnesses);
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
        let arguments = reader.take(reader.remaining())?;
        Ok(Self { procedure, version, timestamp_us, seed, witnessed, arguments })
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
}

impl<'a> StatementRecord<'a> {
    /// Writes the record of a transaction of one statement.
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
        let text = std::str::from_utf8(reader.take(reader.remaining())?).map_err(|_| DecodeError)?;
        Ok(Self { timestamp_us, seed, text })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Record, read, seal};
    use super::*;
    use catalog::CommitOrder;

    #[test]
    fn records_come_back_and_damage_is_seen() {
        let call = CallRecord {
            procedure: ProcedureId(3),
            version: 7,
            timestamp_us: -5,
            seed: 0,
            witnessed: true,
            arguments: &[1, 2, 3],
        };
        let mut bytes = Vec::new();
        call.write(&mut bytes);
        seal(CommitOrder(99), &mut bytes);
        let read_back = read(&mut Reader::new(&bytes)).unwrap();
        assert_eq!(read_back, (CommitOrder(99).into(), RecordKind::Call, Record::Call(call)));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert!(read(&mut Reader::new(&damaged)).is_err(), "byte {at}, bit {bit}");
            }
        }
    }
}
