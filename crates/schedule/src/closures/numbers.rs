//! The numbers of units. They ascend from transaction to transaction. Of a call, the pieces that run whole
//! come first, then the rounds of each other piece. Each of these has as many numbers as the piece with most
//! rounds needs, so a number tells its piece without a look at the call's arguments.

use procedure::analysis::{Piece, Pieces};
use std::ops::Range;
use std::sync::Arc;

/// The pieces of a program.
#[derive(Debug)]
struct Layout {
    /// The positions of the pieces that run whole, and of those that run in rounds.
    whole: Vec<usize>,
    in_rounds: Vec<usize>,
    /// By position, the place in its list.
    places: Vec<Listed>,
    /// By block, the position of its piece.
    positions: Vec<Option<usize>>,
}

#[derive(Clone, Copy, Debug)]
enum Listed {
    Whole(u32),
    InRounds(u32),
}

/// The layouts of all programs.
#[derive(Debug)]
pub(super) struct Layouts(Vec<Layout>);

impl Layouts {
    pub(super) fn of(pieces: &Pieces) -> Self {
        let layout = |of_program: &Vec<Arc<Piece>>| {
            let mut layout = Layout {
                whole: Vec::new(),
                in_rounds: Vec::new(),
                places: Vec::new(),
                positions: vec![None; pieces.before.len()],
            };
            for (position, piece) in of_program.iter().enumerate() {
                layout.positions[piece.block] = Some(position);
                let Layout { whole, in_rounds, places, .. } = &mut layout;
                if piece.rounds.is_some() {
                    places.push(Listed::InRounds(in_rounds.len() as u32));
                    in_rounds.push(position);
                } else {
                    places.push(Listed::Whole(whole.len() as u32));
                    whole.push(position);
                }
            }
            layout
        };
        Self(pieces.pieces.iter().map(layout).collect())
    }

    /// Returns the numbers of the units of a call, from a first one on; `rounds` is the largest number of
    /// rounds of its pieces. `None` if there is no such number.
    pub(super) fn of_call(&self, program: usize, first: u32, rounds: u32) -> Option<Range<u32>> {
        let Layout { whole, in_rounds, .. } = &self.0[program];
        let count = rounds.checked_mul(in_rounds.len() as u32)?.checked_add(whole.len() as u32)?;
        Some(first..first.checked_add(count)?)
    }

    /// Returns the numbers of the units of the piece at a position of a call's program.
    #[inline]
    pub(super) fn of_piece(&self, program: usize, of_call: &Range<u32>, position: usize) -> Range<u32> {
        let layout = &self.0[program];
        match layout.places[position] {
            Listed::Whole(place) => of_call.start + place..of_call.start + place + 1,
            Listed::InRounds(place) => {
                let rounds = layout.rounds(of_call);
                let first = of_call.start + layout.whole.len() as u32 + place * rounds;
                first..first + rounds
            }
        }
    }

    /// Returns the position of a block's piece in a program that has one.
    #[inline]
    pub(super) fn position(&self, program: usize, block: usize) -> Option<usize> {
        self.0[program].positions[block]
    }

    /// Returns the position of the piece of a unit of a call, and the number of its round.
    pub(super) fn place_of(&self, program: usize, of_call: &Range<u32>, unit: u32) -> (usize, u32) {
        let layout = &self.0[program];
        let (offset, whole) = (unit - of_call.start, layout.whole.len() as u32);
        if offset < whole {
            return (layout.whole[offset as usize], 0);
        }
        let (rounds, offset) = (layout.rounds(of_call), offset - whole);
        (layout.in_rounds[(offset / rounds) as usize], offset % rounds)
    }
}

impl Layout {
    /// Returns the number of rounds that each piece in rounds of a call has numbers for.
    fn rounds(&self, of_call: &Range<u32>) -> u32 {
        (of_call.len() - self.whole.len()) as u32 / self.in_rounds.len() as u32
    }
}

/// The numbers of the units of all transactions.
#[derive(Debug)]
pub(super) struct Numbers {
    pub(super) layouts: Layouts,
    /// By transaction, its first unit; last the number of units.
    firsts: Vec<u32>,
    /// By transaction, its program; `BY_VALUE` where there is none.
    programs: Vec<u32>,
}

/// Instead of the program of a transaction that was logged by value.
pub(super) const BY_VALUE: u32 = u32::MAX;

impl Numbers {
    /// Takes the first unit of each transaction, and last the number of units; and the program of each.
    pub(super) fn new(layouts: Layouts, firsts: Vec<u32>, programs: Vec<u32>) -> Self {
        Self { layouts, firsts, programs }
    }

    /// Returns the program of a transaction, unless it was logged by value.
    #[inline]
    pub(super) fn program(&self, transaction: u32) -> Option<usize> {
        let program = self.programs[transaction as usize];
        (program != BY_VALUE).then_some(program as usize)
    }

    /// Returns the number of units.
    pub(super) fn count(&self) -> usize {
        self.firsts.last().map_or(0, |units| *units as usize)
    }

    /// Returns the units of a transaction.
    #[inline]
    pub(super) fn of_transaction(&self, transaction: u32) -> Range<u32> {
        self.firsts[transaction as usize]..self.firsts[transaction as usize + 1]
    }

    /// Returns the transaction of a unit. `near` is the one of the last unit.
    pub(super) fn transaction_of(&self, unit: u32, near: u32) -> u32 {
        for near in [near, near + 1] {
            let range = self.firsts.get(near as usize).zip(self.firsts.get(near as usize + 1));
            if range.is_some_and(|(first, end)| (*first..*end).contains(&unit)) {
                return near;
            }
        }
        self.firsts.partition_point(|first| *first <= unit) as u32 - 1
    }
}
