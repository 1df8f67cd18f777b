//! Rows that recovery brings back when an access first looks for them.
//! Paper: DistDGCC §4.1 (on-demand recovery).
//!
//! Invariant: an access observes a place of an index only after all rows that belong there are in all indexes
//! of their table. So every look for a key, every scan and every insert asks first. A row may be in one index
//! and not yet in another one, until the call has returned.
//! Recovery may execute calls of the log later than transactions that have nothing to do with them. So an
//! access also asks before it writes: what it changes must be read by no such call.
//! Held by: `rows_are_there_when_they_are_looked_for` (crates/reprise/tests/suite/on_demand).

use catalog::TableId;
use procedure::{Interrupts, ScanRange, SqlError};
use std::fmt::Debug;
use storage::{Guard, Worker};

/// Where an access looks in a table.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// At a primary key.
    Key(&'a [u8]),
    /// At a range of an index.
    Range(ScanRange<'a>),
    /// At all rows.
    Table,
}

/// What an access is about to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Intent {
    /// It reads rows, or looks for them.
    Read,
    /// It adds, changes or removes a row, or its entry in an index.
    Write,
}

/// The rows that recovery has still to bring back.
pub trait RowsOnDemand: Debug + Send + Sync {
    /// Returns whether some are left.
    fn is_pending(&self) -> bool;

    /// Returns once the rows of a place are in all indexes of their table, as recovery leaves them; for a
    /// write, once recovery will also not read them any more.
    ///
    /// # Errors
    /// `58030`: the disk fails; `XX001`: a file is damaged; `53200`: memory is short; `57014`: interrupted.
    /// Another call may succeed.
    fn recover(
        &self,
        table: TableId,
        place: Place<'_>,
        intent: Intent,
        guard: &Guard,
        interrupts: &Interrupts,
    ) -> Result<(), SqlError>;

    /// Returns once all rows are in the tables. Nothing interrupts it.
    ///
    /// # Errors
    /// As `recover`.
    fn recover_all(&self, worker: &mut Worker) -> Result<(), SqlError>;
}
