//! The rows that a portal or a cursor keeps, and its movements over them.
//! Source: PostgreSQL 15, "FETCH", and `pquery.c` for the row at which a movement ends.

use bytes::BytesMut;
use reprise::SqlError;
use sql::Movement;
use std::ops::Range;

/// Rows, and the row at which the last movement ended.
pub(crate) struct KeptRows {
    /// The rows, as messages.
    messages: BytesMut,
    /// The end of each row in `messages`.
    ends: Vec<usize>,
    /// The current row, from 1; 0 before the first row, and one more than there are rows after the last one.
    at: usize,
    /// Whether it moves forward only (NO SCROLL, and portals of the protocol).
    is_forward_only: bool,
}

/// What a movement reaches.
#[derive(PartialEq, Eq, Debug)]
struct Reached {
    /// The rows, from 0.
    rows: Range<usize>,
    /// Whether the last of them comes first.
    is_backward: bool,
    /// The row at which the movement ends.
    at: usize,
}

/// Returns what a movement from row `at` reaches, of `count` rows.
fn reached(at: usize, count: usize, movement: Movement) -> Reached {
    let distance = |rows: i64| usize::try_from(rows.unsigned_abs()).unwrap_or(usize::MAX);
    // One row, or none where there is no such row.
    let only = |target: Option<usize>, is_backward| {
        let at = target.unwrap_or(0).min(count + 1);
        let is_row = (1..=count).contains(&at);
        Reached { rows: if is_row { at - 1..at } else { 0..0 }, is_backward, at }
    };
    match movement {
        Movement::By(0) | Movement::Away(0) => Reached { at, ..only(Some(at), false) },
        Movement::By(rows @ 1..) => {
            let end = at.saturating_add(distance(rows)).min(count + 1);
            Reached { rows: at.min(count)..end.min(count), is_backward: false, at: end }
        }
        Movement::By(rows) => {
            let end = at.saturating_sub(distance(rows));
            Reached { rows: end.max(1) - 1..at.max(1) - 1, is_backward: true, at: end }
        }
        Movement::To(row @ 0..) => only(Some(distance(row)), distance(row) < at),
        Movement::To(row) => {
            let target = (count + 1).checked_sub(distance(row));
            only(target, target.is_none_or(|target| target < at))
        }
        Movement::Away(rows @ 1..) => only(at.checked_add(distance(rows)), false),
        Movement::Away(rows) => only(at.checked_sub(distance(rows)), true),
    }
}

impl KeptRows {
    /// Keeps rows, given as messages.
    pub(super) fn new(messages: BytesMut, is_forward_only: bool) -> Self {
        let (mut ends, mut end) = (Vec::new(), 0);
        while end < messages.len() {
            let length = messages[end + 1..end + 5].try_into().expect("a row message has a length");
            end += 1 + u32::from_be_bytes(length) as usize;
            ends.push(end);
        }
        Self { messages, ends, at: 0, is_forward_only }
    }

    /// Bytes that the rows take.
    pub(super) fn capacity(&self) -> usize {
        self.messages.capacity()
    }

    /// Returns whether a movement forward reaches no row.
    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.ends.len()
    }

    /// Moves, and copies the rows on the way to `out`. Returns their number.
    ///
    /// # Errors
    /// `55000`: the movement goes back, and the rows move forward only.
    pub(super) fn take(&mut self, movement: Movement, out: Option<&mut BytesMut>) -> Result<usize, SqlError> {
        let Reached { rows, is_backward, at } = reached(self.at, self.ends.len(), movement);
        let is_again = matches!(movement, Movement::By(0) | Movement::Away(0)) && !rows.is_empty();
        if self.is_forward_only && (is_backward || is_again) {
            let error = SqlError::new("55000", "cursor can only scan forward");
            return Err(error.with_hint("Declare it with SCROLL option to enable backward scan."));
        }
        self.at = at;
        let count = rows.len();
        if let Some(out) = out {
            let start = |row: usize| row.checked_sub(1).map_or(0, |before| self.ends[before]);
            if is_backward {
                rows.rev().for_each(|row| out.extend_from_slice(&self.messages[start(row)..self.ends[row]]));
            } else if let Some(last) = rows.clone().last() {
                out.extend_from_slice(&self.messages[start(rows.start)..self.ends[last]]);
            }
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows that a movement reaches, in order, and where it ends.
    fn moved(at: usize, movement: Movement) -> (Vec<usize>, usize) {
        let Reached { rows, is_backward, at } = reached(at, 5, movement);
        let mut rows: Vec<_> = rows.map(|row| row + 1).collect();
        if is_backward {
            rows.reverse();
        }
        (rows, at)
    }

    #[test]
    fn a_movement_ends_at_its_last_row_or_outside() {
        assert_eq!(moved(0, Movement::By(2)), (vec![1, 2], 2));
        assert_eq!(moved(2, Movement::By(3)), (vec![3, 4, 5], 5));
        assert_eq!(moved(2, Movement::By(4)), (vec![3, 4, 5], 6));
        assert_eq!(moved(6, Movement::By(i64::MAX)), (vec![], 6));
        assert_eq!(moved(6, Movement::By(-2)), (vec![5, 4], 4));
        assert_eq!(moved(3, Movement::By(-2)), (vec![2, 1], 1));
        assert_eq!(moved(3, Movement::By(-i64::MAX)), (vec![2, 1], 0));
        assert_eq!(moved(0, Movement::By(-1)), (vec![], 0));
        assert_eq!(moved(3, Movement::By(0)), (vec![3], 3));
        assert_eq!(moved(6, Movement::By(0)), (vec![], 6));
    }

    #[test]
    fn a_movement_to_a_row_reaches_it_or_nothing() {
        assert_eq!(moved(2, Movement::To(4)), (vec![4], 4));
        assert_eq!(moved(2, Movement::To(-1)), (vec![5], 5));
        assert_eq!(moved(2, Movement::To(9)), (vec![], 6));
        assert_eq!(moved(2, Movement::To(-9)), (vec![], 0));
        assert_eq!(moved(2, Movement::To(0)), (vec![], 0));
        assert_eq!(moved(2, Movement::Away(2)), (vec![4], 4));
        assert_eq!(moved(2, Movement::Away(-1)), (vec![1], 1));
        assert_eq!(moved(2, Movement::Away(-5)), (vec![], 0));
        assert_eq!(moved(2, Movement::Away(7)), (vec![], 6));
        assert_eq!(moved(2, Movement::Away(0)), (vec![2], 2));
    }
}
