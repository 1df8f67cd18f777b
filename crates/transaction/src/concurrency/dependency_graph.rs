//! Vertices of dependency graphs: what a call reads and writes is ordered before it runs, so that nothing is
//! validated.
//! Paper: DistDGCC §2.1 (execution without locks).
//!
//! No other transaction commits writes while a batch runs (`crate::Gate`), and calls of the batch that touch
//! the same columns of a row run one after the other. A row that a transaction outside of the batch holds is
//! the exception: the call leaves the batch, and waits for it as under optimistic concurrency control.
//!
//! Invariant: a vertex sees the rows that the calls before it in its batch leave, and of no call after it.
//! Held by: `batches_equal_one_thread`, `every_touched_row_is_reserved`.
//! Not here: the graph (`schedule::graph`), what a call may touch (`procedure::analysis::Reservations`).

use super::{Concurrency, Optimistic};
use crate::{Tables, Workspace};
use catalog::{CommitOrder, TableId};
use procedure::{Conflict, Failure};
use storage::{Handle, Record, TableStore};

/// Calls that run in the order of a dependency graph.
#[derive(Debug)]
pub struct DependencyGraph;

impl Concurrency for DependencyGraph {
    fn may_write(&self, tables: &Tables, store: &TableStore, record: Record<'_>) -> bool {
        Optimistic.may_write(tables, store, record)
    }

    #[inline]
    fn read(&self, _: &mut Workspace, _: Handle) -> Result<(), Failure> {
        Ok(())
    }

    #[inline]
    fn write(&self, workspace: &mut Workspace, _: TableId, row: Handle) -> Result<(), Failure> {
        workspace.check_foreign(row)
    }

    fn share(&self, workspace: &mut Workspace, _: TableId, row: Handle) -> Result<(), Failure> {
        workspace.check_foreign_writer(row)
    }

    fn collide(&self, workspace: &mut Workspace, row: Handle) -> Result<(), Failure> {
        workspace.check_foreign(row)
    }

    fn validate(&self, _: &mut Workspace, _: Option<CommitOrder>) -> Result<(), Conflict> {
        Ok(())
    }

    fn reads_hold(&self, _: &Workspace) -> Result<(), Conflict> {
        Ok(())
    }
}
