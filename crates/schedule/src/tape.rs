//! Results that pieces of one transaction hand to each other, kept for a whole piece-set.

use crate::unit::Unit;
use catalog::{Arena, Datum};
use procedure::analysis::Piece;
use procedure::{OperationId, Part, Tapes, WitnessValues};
use std::sync::OnceLock;

/// The results of one operation, sent by the units of a partition.
#[derive(Default, Debug)]
pub(crate) struct Tape {
    /// Keys of units, ascending, with the index of the first value of each.
    starts: Vec<(u64, u32)>,
    values: Vec<Datum>,
    arena: Arena,
}

impl Tape {
    /// Removes all values, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.starts.clear();
        self.values.clear();
        self.arena.clear();
    }

    /// Returns all values, each with its arena.
    pub(crate) fn values(&self) -> impl Iterator<Item = (Datum, &Arena)> {
        self.values.iter().map(|value| (*value, &self.arena))
    }

    /// Adds a copy of a value, without its unit.
    pub(crate) fn push(&mut self, value: Datum, arena: &Arena) {
        let value = self.arena.adopt(value, arena);
        self.values.push(value);
    }

    /// Returns the indexes of a unit's first value and of the value behind its last.
    fn range_of(&self, key: u64) -> (usize, usize) {
        match self.starts.binary_search_by_key(&key, |(unit, _)| *unit) {
            Ok(index) => {
                let end = self.starts.get(index + 1).map_or(self.values.len(), |(_, next)| *next as usize);
                (self.starts[index].1 as usize, end)
            }
            Err(_) => (0, 0),
        }
    }
}

/// Where a piece receives the results of an operation from.
pub(crate) enum Received<'t> {
    /// The witness values of the call, from an index on.
    Witness(usize),
    /// The tapes of the units of another piece, unit after unit.
    Tapes {
        /// The tapes of the sending block, by partition.
        partitions: &'t [OnceLock<Vec<Tape>>],
        /// The number of the tape in each partition.
        tape: usize,
        /// The partitions of the units that are left.
        units: &'t [u8],
        /// The next unit.
        next: Unit,
        /// The tape that is being read, the index of its next value, and that behind its last.
        now: Option<(&'t Tape, usize, usize)>,
    },
    /// A copy of all results, and the index of the next one.
    Copied {
        /// The results, in their order.
        tape: Tape,
        /// The index of the next one.
        at: usize,
    },
}

impl<'t> Received<'t> {
    /// Begins to receive the results on a tape of a transaction's piece. `partitions` has the tapes of the
    /// piece's block, and `units` the partitions of the piece's units.
    #[inline]
    pub(crate) fn from_tapes(
        partitions: &'t [OnceLock<Vec<Tape>>],
        units: &'t [u8],
        tape: usize,
        transaction: u32,
    ) -> Self {
        Self::Tapes { partitions, tape, units, next: Unit { transaction, index: 0 }, now: None }
    }

    /// Begins to receive what a function puts on an empty tape. Takes the memory of an earlier copy.
    pub(crate) fn copied(earlier: Option<Self>, copy: impl FnOnce(&mut Tape)) -> Self {
        let mut tape = match earlier {
            Some(Self::Copied { tape, .. }) => tape,
            _ => Tape::default(),
        };
        tape.clear();
        copy(&mut tape);
        Self::Copied { tape, at: 0 }
    }

    /// Begins to receive witness values.
    pub(crate) fn from_witness(start: usize) -> Self {
        Self::Witness(start)
    }

    /// Returns whether exactly the witness values before an index have been taken.
    pub(crate) fn has_taken(&self, end: usize) -> bool {
        matches!(self, Self::Witness(at) if *at == end)
    }

    pub(crate) fn next(&mut self, witnesses: &WitnessValues, arena: &mut Arena) -> Option<Datum> {
        match self {
            Self::Witness(at) => {
                *at += 1;
                witnesses.get(*at - 1)
            }
            Self::Copied { tape, at } => {
                let value = *tape.values.get(*at)?;
                *at += 1;
                Some(arena.adopt(value, &tape.arena))
            }
            Self::Tapes { partitions, tape, units, next, now } => loop {
                if let Some((of, at, end)) = now
                    && at < end
                {
                    *at += 1;
                    return Some(arena.adopt(of.values[*at - 1], &of.arena));
                }
                let (partition, behind) = units.split_first()?;
                let of = partitions[usize::from(*partition)].get()?.get(*tape)?;
                let (start, end) = of.range_of(next.key());
                *now = Some((of, start, end));
                *units = behind;
                next.index += 1;
            },
        }
    }
}

/// The tapes of one unit: it sends to the end of `sent`, and receives from where `received` stands.
pub(crate) struct PieceTapes<'p, 't> {
    pub(crate) unit: Unit,
    pub(crate) piece: &'p Piece,
    /// By operation of the program, the block of the piece that sends it, and the number of its tape there.
    pub(crate) numbers: &'p [Option<(usize, usize)>],
    pub(crate) sent: &'p mut [Tape],
    /// By operation of the program, where it is received from.
    pub(crate) received: &'p mut [Option<Received<'t>>],
    pub(crate) witnesses: &'p WitnessValues,
    /// Whether the piece asked for a result that no piece sent.
    pub(crate) is_broken: bool,
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
        self.is_broken |= value.is_none();
        value.unwrap_or(Datum::Null)
    }
}
