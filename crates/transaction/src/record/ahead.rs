//! Records of rows that no log buffer holds: they are described before the rows are locked, so that they can
//! be written into a file of their own while other workers go on.
//!
//! Invariant: such a record is logged only if each row is then as it was when it was described (`holds`).
//! Held by: `crates/reprise/tests/suite/large_transactions.rs`.

use super::Execution;
use crate::{Described, Description};
use storage::{Guard, Handle, Record, RecordState};

#[derive(Default)]
pub(super) struct Ahead {
    /// The rows that were described, as they were; none when the record is made as the rows are written.
    described: Vec<(Handle, RecordState)>,
    description: Description,
    image: Vec<u64>,
}

impl Ahead {
    /// A record begins: it is made as rows are written.
    pub(super) fn begin(&mut self) {
        self.described.clear();
    }

    /// Whether the record is complete before the rows are written.
    pub(super) fn is_complete(&self) -> bool {
        !self.described.is_empty()
    }

    /// Tells the rows that are about to be written, and the words of those that are not deleted.
    pub(super) fn describe(
        &mut self,
        execution: &Execution<'_>,
        mut visit: impl FnMut(Described<'_>, Record<'_>, &[u64]),
    ) {
        let Self { described, description, image } = self;
        execution.workspace.describe_rows(description, |row, record, state| {
            described.push((record.handle(), state));
            image.clear();
            if row.change != catalog::RowChange::Delete {
                row.table.layout.encode(row.after, row.arena, image);
            }
            visit(row, record, image);
        });
    }

    /// Whether the rows, which are locked now, are as they were described.
    pub(super) fn holds(&self, guard: &Guard) -> bool {
        let mut described = self.described.iter();
        described.all(|(record, state)| guard.record(*record).is_state_under_lock(*state))
    }
}
