//! Tapes: pieces of one call send results of operations to each other.
//!
//! A piece keeps the control flow of the whole procedure. It meets the operations of other pieces where those
//! pieces run them, equally often and in the same order. So the values that one piece sends for an operation
//! are those that the other pieces receive there, in order.

use crate::{OperationId, Register};
use catalog::{Arena, Datum, DecodeError, Reader, ScalarType, decode_value, encode_value, put_varint};

/// The part of a piece in an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Runs it.
    Run,
    /// Runs it, and sends its results to other pieces.
    Send,
    /// Receives the results that another piece has sent.
    Receive,
}

/// Sends and receives the results of operations.
pub trait Tapes {
    /// Returns the part of the piece in an operation.
    fn part(&self, id: OperationId) -> Part;

    /// Sends one value of an operation.
    fn send(&mut self, id: OperationId, value: Datum, arena: &Arena);

    /// Receives the next value of an operation, and copies it into an arena.
    fn receive(&mut self, id: OperationId, arena: &mut Arena) -> Datum;

    /// Notes the number of rows of an operation that ran.
    #[inline(always)]
    fn ran(&mut self, id: OperationId, rows: i64) {
        let _ = (id, rows);
    }
}

/// The tapes of a procedure that runs as a whole: it sends nothing.
#[derive(Clone, Copy, Debug)]
pub struct Whole;

impl Tapes for Whole {
    #[inline(always)]
    fn part(&self, _: OperationId) -> Part {
        Part::Run
    }

    fn send(&mut self, _: OperationId, _: Datum, _: &Arena) {}

    fn receive(&mut self, _: OperationId, _: &mut Arena) -> Datum {
        Datum::Null
    }
}

/// Records the witness values of a call while it runs.
#[derive(Default, Debug)]
pub struct WitnessRecorder {
    /// For each operation: whether it is a witness, the number of its values, and the encoded values.
    values: Vec<(bool, u64, Vec<u8>)>,
}

impl WitnessRecorder {
    /// Begins a call of a procedure with these `Procedure::witnesses`. They are empty if the witnesses of the
    /// call are not recorded.
    pub fn begin(&mut self, witnesses: &[Vec<Register>]) {
        self.values.resize_with(witnesses.len(), Default::default);
        for ((is_witness, count, bytes), registers) in self.values.iter_mut().zip(witnesses) {
            *is_witness = !registers.is_empty();
            *count = 0;
            bytes.clear();
        }
    }

    /// Returns the first witness whose values differ from those recorded with the call.
    pub fn first_difference(&self, recorded: &[u8]) -> Option<OperationId> {
        let mut reader = Reader::new(recorded);
        let mut last = None;
        for (index, (_, count, bytes)) in
            self.values.iter().enumerate().filter(|(_, (is_witness, ..))| *is_witness)
        {
            let id = OperationId(index as u32);
            if reader.varint() != Ok(*count) || reader.take(bytes.len()) != Ok(bytes) {
                return Some(id);
            }
            last = Some(id);
        }
        last.filter(|_| reader.remaining() > 0)
    }

    /// Appends the recorded values to a call's record.
    pub fn append_to(&self, record: &mut Vec<u8>) {
        for (_, count, bytes) in self.values.iter().filter(|(is_witness, ..)| *is_witness) {
            put_varint(*count, record);
            record.extend_from_slice(bytes);
        }
    }
}

impl Tapes for WitnessRecorder {
    #[inline(always)]
    fn part(&self, id: OperationId) -> Part {
        match self.values.get(id.0 as usize) {
            Some((true, ..)) => Part::Send,
            _ => Part::Run,
        }
    }

    fn send(&mut self, id: OperationId, value: Datum, arena: &Arena) {
        if let Some((_, count, bytes)) = self.values.get_mut(id.0 as usize) {
            *count += 1;
            encode_value(value, ScalarType::BigInt.into(), arena, bytes);
        }
    }

    fn receive(&mut self, _: OperationId, _: &mut Arena) -> Datum {
        Datum::Null
    }
}

/// The witness values of a recorded call.
#[derive(Default, Debug)]
pub struct WitnessValues {
    values: Vec<Datum>,
    starts: Vec<usize>,
}

impl WitnessValues {
    /// Reads the values that a `WitnessRecorder` has appended for a number of witnesses.
    ///
    /// # Errors
    /// The bytes are malformed.
    pub fn read(&mut self, reader: &mut Reader<'_>, witnesses: usize) -> Result<(), DecodeError> {
        self.values.clear();
        self.starts.clear();
        // Witness values are machine words, so the arena stays empty.
        let mut arena = Arena::default();
        for _ in 0..witnesses {
            self.starts.push(self.values.len());
            for _ in 0..reader.varint()? {
                self.values.push(decode_value(ScalarType::BigInt.into(), reader, &mut arena)?);
            }
        }
        if reader.remaining() > 0 { Err(DecodeError) } else { Ok(()) }
    }

    /// Returns the position of the first value of a witness.
    pub fn start(&self, witness: usize) -> usize {
        self.starts.get(witness).copied().unwrap_or(self.values.len())
    }

    /// Returns the position after the last value of a witness.
    pub fn end(&self, witness: usize) -> usize {
        self.start(witness + 1)
    }

    /// Returns the value at a position.
    pub fn get(&self, position: usize) -> Option<Datum> {
        self.values.get(position).copied()
    }
}
