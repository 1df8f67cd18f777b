//! Sequences: their definitions, and the numbers that come after a place.

use crate::{Arena, Datum, ScalarType};
use serde::{Deserialize, Serialize};

/// What the numbers of a sequence are. Its table holds up to where they are taken.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sequence {
    /// The type of its numbers.
    pub ty: ScalarType,
    /// The first number.
    pub start: i64,
    /// From one number to the next.
    pub increment: i64,
    /// The least.
    pub least: i64,
    /// The greatest.
    pub greatest: i64,
    /// Whether it begins again after the last.
    pub cycles: bool,
    /// The table and column that it goes with.
    pub owner: Option<(String, String)>,
}

/// Where a sequence stands: a number, and whether that number was given (`is_called` in PostgreSQL). One that
/// was not is the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequencePlace {
    /// The number.
    pub number: i64,
    /// Whether it was given.
    pub is_given: bool,
}

impl Sequence {
    /// Where it stands before its first number.
    pub fn beginning(&self) -> SequencePlace {
        SequencePlace { number: self.start, is_given: false }
    }

    /// The number that stands `steps` steps after another one; it is within the bounds.
    pub fn number_after(&self, number: i64, steps: u64) -> i64 {
        // What comes between may be beyond the numbers of this type, but the last one is not.
        number.wrapping_add(self.increment.wrapping_mul(steps as i64))
    }

    /// The first of the numbers after a place, and how many there are, up to a wanted number of them; `None`
    /// when there is none.
    pub fn numbers_after(&self, place: SequencePlace, wanted: u64) -> Option<(i64, u64)> {
        let is_inside = |number: &i64| (self.least..=self.greatest).contains(number);
        let (first, last) = match self.increment > 0 {
            true => (self.least, self.greatest),
            false => (self.greatest, self.least),
        };
        let next = match place.is_given {
            false => Some(place.number),
            true => place.number.checked_add(self.increment).filter(is_inside),
        };
        let next = next.or(self.cycles.then_some(first))?;
        let room = (next.abs_diff(last) / self.increment.unsigned_abs()).saturating_add(1);
        Some((next, room.min(wanted)))
    }
}

impl SequencePlace {
    /// The row of the sequence's table.
    pub fn row(self, arena: &mut Arena) -> [Datum; 3] {
        [Datum::Int(self.number), Datum::boolean(self.is_given), arena.push_bytes(&[0; 16])]
    }

    /// What a row of the sequence's table says.
    pub fn of_row(row: [Datum; 3]) -> Option<Self> {
        match row {
            [Datum::Int(number), is_given, _] => Some(Self { number, is_given: is_given.is_true() }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_at_the_bounds() {
        let (ty, owner) = (ScalarType::BigInt, None);
        let own = Sequence { ty, start: 1, increment: 3, least: 1, greatest: 10, cycles: false, owner };
        let given = |number| SequencePlace { number, is_given: true };
        assert_eq!(own.numbers_after(own.beginning(), 32), Some((1, 4)));
        assert_eq!(own.numbers_after(given(7), 32), Some((10, 1)));
        assert_eq!(own.numbers_after(given(10), 32), None);
        let around = Sequence { cycles: true, ..own.clone() };
        assert_eq!(around.numbers_after(given(10), 2), Some((1, 2)));
        let down = Sequence { increment: -1, least: i64::MIN, greatest: -1, start: -1, ..own };
        assert_eq!(down.numbers_after(given(i64::MIN), 2), None);
        assert_eq!(down.numbers_after(given(i64::MIN + 1), 2), Some((i64::MIN, 1)));
        let all = Sequence { least: i64::MIN, greatest: i64::MAX, start: i64::MIN, increment: 1, ..down };
        assert_eq!(all.numbers_after(all.beginning(), u64::MAX), Some((i64::MIN, u64::MAX)));
        assert_eq!(all.number_after(i64::MIN, u64::MAX), i64::MAX);
        let wide = Sequence { increment: i64::MAX, ..all };
        assert_eq!(wide.numbers_after(wide.beginning(), 32), Some((i64::MIN, 3)));
        assert_eq!(wide.number_after(i64::MIN, 2), i64::MAX - 1);
    }
}
