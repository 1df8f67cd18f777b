//! Sequences: their definitions, and the numbers that follow a position.

use crate::{Arena, Datum, ScalarType};
use serde::{Deserialize, Serialize};

/// A sequence's definition. A row of its table holds its position.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sequence {
    /// The type of its numbers.
    pub ty: ScalarType,
    /// The first number.
    pub start: i64,
    /// The difference of two successive numbers.
    pub increment: i64,
    /// The minimum.
    pub least: i64,
    /// The maximum.
    pub greatest: i64,
    /// Whether it restarts after its last number.
    pub cycles: bool,
    /// The table and column that own it, as OWNED BY says.
    pub owner: Option<(String, String)>,
    /// The first number after the last RESTART; `None`: that of `start`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<i64>,
}

/// A sequence's position: a number, and whether `nextval` has returned it (`is_called` in PostgreSQL). A
/// number that was not returned yet is the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequencePlace {
    /// The number.
    pub number: i64,
    /// Whether the number was returned.
    pub is_given: bool,
}

impl Sequence {
    /// Returns the position before the first number.
    pub fn beginning(&self) -> SequencePlace {
        SequencePlace { number: self.restart.unwrap_or(self.start), is_given: false }
    }

    /// Returns the number `steps` steps after another one. The result must be within the bounds.
    pub fn number_after(&self, number: i64, steps: u64) -> i64 {
        // Intermediate results may overflow; the final one does not.
        number.wrapping_add(self.increment.wrapping_mul(steps as i64))
    }

    /// Returns the first number after a position and how many follow, at most `wanted`; `None` when the
    /// sequence is exhausted.
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
    /// Returns the position as the row of the sequence's table.
    pub fn row(self, arena: &mut Arena) -> [Datum; 3] {
        [Datum::Int(self.number), Datum::boolean(self.is_given), arena.push_bytes(&[0; 16])]
    }

    /// Returns the position that a row of the sequence's table holds.
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
        let (ty, owner, restart) = (ScalarType::BigInt, None, None);
        let own =
            Sequence { ty, start: 1, increment: 3, least: 1, greatest: 10, cycles: false, owner, restart };
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
