//! What listens to commits: logs, each of which has its own moment at which it must know what is written.

use super::Occ;
use super::describe::{Described, Description};
use catalog::{CommitOrder, RowChange, Table};
use logging::{Numbering, Observed};
use storage::{Guard, Record};

/// Listens to the commits of one worker.
pub trait CommitLog {
    /// Whether `writing` is to be called.
    fn wants_operations(&self) -> bool {
        false
    }

    /// Whether `wrote` is to be called.
    fn wants_rows(&self) -> bool {
        false
    }

    /// Where numbers come from.
    fn numbering(&self) -> Numbering {
        Numbering::Clock
    }

    /// Draws the number of a transaction that is about to validate what it has read, where numbers come from the logs and
    /// follow reads, too. It must be above `floor`.
    fn draw(&mut self, floor: CommitOrder) -> CommitOrder {
        CommitOrder(floor.0 + 1)
    }

    /// Whether a number is of a transaction that this log surely has, if it has one of this worker that comes later.
    fn has_alone(&self, _number: CommitOrder) -> bool {
        false
    }

    /// Gives a transaction that commits its number, where numbers come from the logs: above all that was observed, and above
    /// `floor`. Its rows are written and locked.
    fn number(&mut self, observed: Observed, floor: CommitOrder) -> CommitOrder {
        CommitOrder(observed.last.max(floor).0 + 1)
    }

    /// All rows are locked that are about to be written: this many, of at most this many words together. False ends the attempt,
    /// which may be tried again: what the log has prepared for these rows no longer fits them.
    fn admits(&mut self, _rows: usize, _words: usize, _guard: &Guard) -> bool {
        true
    }

    /// The rows are locked, with an order that is before the transaction's own; whether it commits is not known yet. False
    /// ends the attempt, and the log has not heard of it.
    fn writing(&mut self, _order: CommitOrder, _writes: Writing<'_>) -> bool {
        true
    }

    /// A row is written, its record still locked; or gone.
    fn wrote(&mut self, _change: RowChange, _table: &Table, _record: Record<'_>) {}

    /// The transaction has committed; its epoch is not complete before this returns.
    fn committed(&mut self, order: CommitOrder);

    /// The transaction of a number that was drawn has not committed; its rows are still locked.
    fn aborted(&mut self, _order: CommitOrder) {}
}

/// What a transaction is about to write, with its rows locked.
#[derive(Clone, Copy, Debug)]
pub struct Writing<'a>(pub(super) &'a Occ);

impl Writing<'_> {
    /// Tells each row as it was and as it will be.
    pub fn describe(self, description: &mut Description, visit: impl FnMut(Described<'_>)) {
        self.0.describe_locked(description, visit);
    }
}

/// Nobody listens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence;

impl CommitLog for Silence {
    fn committed(&mut self, _order: CommitOrder) {}
}
