//! What pieces of one transaction hand to each other, kept for a whole piece-set.

use catalog::{Arena, Datum};
use procedure::analysis::Piece;
use procedure::{OperationId, Part, Tapes};

/// What the pieces of a piece-set sent of one operation.
#[derive(Default)]
pub(super) struct Tape {
    /// Transactions, ascending, and where the values of each begin.
    starts: Vec<(u32, u32)>,
    values: Vec<Datum>,
    arena: Arena,
}

impl Tape {
    /// Where the values of a transaction begin.
    fn start_of(&self, transaction: u32) -> usize {
        match self.starts.binary_search_by_key(&transaction, |(own, _)| *own) {
            Ok(place) => self.starts[place].1 as usize,
            Err(_) => self.values.len(),
        }
    }
}

/// A value brought from one arena into another.
fn copied(datum: Datum, from: &Arena, to: &mut Arena) -> Datum {
    match datum {
        Datum::Bytes(span) => to.push_bytes(from.bytes(span)),
        Datum::Wide(_) => from.decimal(datum, 0).map_or(Datum::Null, |decimal| to.push_decimal(decimal)),
        Datum::Array(span) => {
            let elements: Vec<Datum> =
                from.elements(span).iter().map(|element| copied(*element, from, to)).collect();
            to.push_array(&elements)
        }
        plain => plain,
    }
}

/// The tapes of one piece: what it sends goes to the end of `sent`, what it receives comes from where `received` stands.
pub(super) struct PieceTapes<'p, 't> {
    pub(super) transaction: u32,
    pub(super) piece: &'p Piece,
    /// For each operation of the program that is sent, its block and the tape of the piece-set there.
    pub(super) numbers: &'p [Option<(usize, usize)>],
    pub(super) sent: &'p mut [Tape],
    /// For each operation of the program, the tape it is received from, and the next value's place.
    pub(super) received: &'p mut Vec<Option<(&'t Tape, usize)>>,
    /// Something was received that nobody sent.
    pub(super) broken: bool,
}

impl<'t> PieceTapes<'_, 't> {
    /// Begins to receive an operation from a tape.
    pub(super) fn receive_from(&mut self, id: OperationId, tape: &'t Tape) {
        let place = id.0 as usize;
        if self.received.len() <= place {
            self.received.resize_with(place + 1, || None);
        }
        self.received[place] = Some((tape, tape.start_of(self.transaction)));
    }
}

impl Tapes for PieceTapes<'_, '_> {
    #[inline]
    fn part(&self, id: OperationId) -> Part {
        self.piece.part(id)
    }

    fn send(&mut self, id: OperationId, value: Datum, arena: &Arena) {
        let Some((_, number)) = self.numbers[id.0 as usize] else { return };
        let tape = &mut self.sent[number];
        if tape.starts.last().is_none_or(|(last, _)| *last != self.transaction) {
            tape.starts.push((self.transaction, tape.values.len() as u32));
        }
        let value = copied(value, arena, &mut tape.arena);
        tape.values.push(value);
    }

    fn receive(&mut self, id: OperationId, arena: &mut Arena) -> Datum {
        let next = self.received.get_mut(id.0 as usize).and_then(Option::as_mut);
        let value = next.and_then(|(tape, at)| {
            let value = tape.values.get(*at).copied();
            *at += 1;
            value.map(|value| copied(value, &tape.arena, arena))
        });
        self.broken |= value.is_none();
        value.unwrap_or(Datum::Null)
    }
}
