//! What pieces of one transaction hand to each other, kept for a whole piece-set.

use super::plan::{Batch, Unit};
use catalog::{Arena, Datum};
use procedure::analysis::Piece;
use procedure::{OperationId, Part, Tapes, WitnessValues};
use std::sync::OnceLock;

/// What the units of a partition sent of one operation.
#[derive(Default)]
pub(super) struct Tape {
    /// Keys of units, ascending, and where the values of each begin.
    starts: Vec<(u64, u32)>,
    values: Vec<Datum>,
    arena: Arena,
}

impl Tape {
    /// Where the values of a unit begin and end.
    fn range_of(&self, key: u64) -> (usize, usize) {
        match self.starts.binary_search_by_key(&key, |(own, _)| *own) {
            Ok(place) => {
                let end = self.starts.get(place + 1).map_or(self.values.len(), |(_, next)| *next as usize);
                (self.starts[place].1 as usize, end)
            }
            Err(_) => (0, 0),
        }
    }
}

/// Where a piece receives an operation's results from.
pub(super) enum Received<'t> {
    /// The witness values of the call, from a place on.
    Witness(usize),
    /// What the parts of another piece sent, part after part.
    Tapes {
        /// Of the sending block, by partition.
        partitions: &'t [OnceLock<Vec<Tape>>],
        /// The number of the tape in each.
        tape: usize,
        /// The partitions of the parts that are left.
        parts: &'t [u8],
        /// The next part.
        next: Unit,
        /// The part that is being received, and what is left of it.
        now: Option<(&'t Tape, usize, usize)>,
    },
}

impl<'t> Received<'t> {
    /// Begins to receive what a transaction's piece of a block sent.
    pub(super) fn from_tapes(batch: &'t Batch<'_>, block: usize, tape: usize, transaction: u32) -> Self {
        let (partitions, parts) = (&batch.sent[block], batch.parts_of(block, transaction));
        Self::Tapes { partitions, tape, parts, next: Unit { transaction, part: 0 }, now: None }
    }

    /// Begins to receive witness values.
    pub(super) fn from_witness(start: usize) -> Self {
        Self::Witness(start)
    }

    /// Whether the witness values up to a place have been taken, and no others.
    pub(super) fn has_taken(&self, end: usize) -> bool {
        matches!(self, Self::Witness(at) if *at == end)
    }

    fn next(&mut self, witnesses: &WitnessValues, arena: &mut Arena) -> Option<Datum> {
        match self {
            Self::Witness(at) => {
                *at += 1;
                witnesses.get(*at - 1)
            }
            Self::Tapes { partitions, tape, parts, next, now } => loop {
                if let Some((of, at, end)) = now
                    && at < end
                {
                    *at += 1;
                    return Some(arena.adopt(of.values[*at - 1], &of.arena));
                }
                let (partition, rest) = parts.split_first()?;
                let of = partitions[usize::from(*partition)].get()?.get(*tape)?;
                let (start, end) = of.range_of(next.key());
                *now = Some((of, start, end));
                *parts = rest;
                next.part += 1;
            },
        }
    }
}

/// The tapes of one unit: what it sends goes to the end of `sent`, what it receives comes from where
/// `received` stands.
pub(super) struct PieceTapes<'p, 't> {
    pub(super) unit: Unit,
    pub(super) piece: &'p Piece,
    /// For each operation of the program that is sent, its block and the tape of the piece-set there.
    pub(super) numbers: &'p [Option<(usize, usize)>],
    pub(super) sent: &'p mut [Tape],
    /// For each operation of the program, where it is received from.
    pub(super) received: &'p mut [Option<Received<'t>>],
    pub(super) witnesses: &'p WitnessValues,
    /// Something was received that nobody sent.
    pub(super) broken: bool,
}

impl Tapes for PieceTapes<'_, '_> {
    #[inline]
    fn part(&self, id: OperationId) -> Part {
        self.piece.part(id)
    }

    fn send(&mut self, id: OperationId, value: Datum, arena: &Arena) {
        let Some((_, number)) = self.numbers[id.0 as usize] else { return };
        let tape = &mut self.sent[number];
        let key = self.unit.key();
        if tape.starts.last().is_none_or(|(last, _)| *last != key) {
            tape.starts.push((key, tape.values.len() as u32));
        }
        let value = tape.arena.adopt(value, arena);
        tape.values.push(value);
    }

    fn receive(&mut self, id: OperationId, arena: &mut Arena) -> Datum {
        let received = self.received.get_mut(id.0 as usize).and_then(Option::as_mut);
        let value = received.and_then(|received| received.next(self.witnesses, arena));
        self.broken |= value.is_none();
        value.unwrap_or(Datum::Null)
    }
}
