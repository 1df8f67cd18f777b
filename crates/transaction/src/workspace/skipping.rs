//! Searches for rows that no other transaction holds: SKIP LOCKED.
//!
//! What such a search finds is no state of the table, because it leaves out what other transactions are about
//! to write. So its reads need not hold at commit, except those of the rows that it returns: these the
//! transaction holds. A search that reads other tables, too, keeps its reads, apart from those of the rows that
//! it leaves out. An answer still waits until what the search has read is durable.
//!
//! Invariant: no two transactions that are open at one time are given the same row, unless both hold it FOR
//! SHARE. Held by: `a_job_is_given_to_one_worker` (crates/reprise/tests/suite/skipping.rs).

use super::Workspace;
use super::leaves::LeavesMark;
use super::reads::Read;
use catalog::{CommitOrder, TableId};
use procedure::{Conflict, Failure, HoldStrength, SkippingSearch};
use storage::Handle;

/// A search.
#[derive(Debug)]
pub(super) struct Search {
    tables: Vec<TableId>,
    is_alone: bool,
    /// The number of reads before it.
    reads: usize,
    leaves: LeavesMark,
    /// The rows that it holds for the result in hand.
    held: Vec<Handle>,
    /// The rows that it leaves out.
    left_out: Vec<Handle>,
}

impl Workspace {
    /// Returns whether the row that is read next belongs to a search.
    #[inline]
    pub(super) fn is_searching(&self) -> bool {
        self.search.is_some()
    }

    /// Returns whether a search is in progress that leaves out rows of a table.
    #[inline]
    pub(super) fn skips(&self, table: TableId) -> bool {
        self.search.as_ref().is_some_and(|search| search.tables.contains(&table))
    }

    pub(super) fn begin_search(&mut self, search: SkippingSearch<'_>) {
        let SkippingSearch { tables, is_alone } = search;
        self.search = Some(Search {
            tables: tables.to_vec(),
            is_alone,
            reads: self.reads.len(),
            leaves: self.leaves.mark(),
            held: Vec::new(),
            left_out: Vec::new(),
        });
    }

    /// Holds a row that the search has found; false if it is left out.
    pub(super) fn hold_found(
        &mut self,
        table: TableId,
        row: Handle,
        strength: HoldStrength,
    ) -> Result<bool, Failure> {
        use procedure::TransactionControl;
        let holds = self.count_holds();
        self.set_never_waits(true);
        let held = self.hold(table, row, strength);
        self.set_never_waits(false);
        let is_held = match held {
            Ok(()) => self.is_as_found(row),
            Err(Failure::Conflict(Conflict::Held)) => {
                self.forget_blocker();
                false
            }
            // Its holder before has changed it.
            Err(Failure::Conflict(Conflict::Read)) => {
                self.release_holds_from(holds);
                false
            }
            Err(failure) => return Err(failure),
        };
        if let Some(search) = &mut self.search {
            if is_held { search.held.push(row) } else { search.left_out.push(row) }
        }
        Ok(is_held)
    }

    /// Returns whether a row is what the search has read of it, or the transaction has written it. Under
    /// two-phase locking the search has read it without a lock.
    fn is_as_found(&self, row: Handle) -> bool {
        let since = self.search.as_ref().map_or(0, |search| search.reads);
        let read = self.reads.since(since).iter().rev().find(|read| read.record == row);
        self.writes.find(row).is_some() || read.is_none_or(|read| self.record(row).is_state(read.state))
    }

    /// Forgets what the search has read, except of the rows that it holds.
    pub(super) fn end_search(&mut self) {
        let Some(search) = self.search.take() else { return };
        let orders = self.reads.since(search.reads).iter().map(Read::order);
        self.last_read = orders.fold(self.last_read, CommitOrder::max);
        self.looked_through = self.looked_through.min(search.reads);
        match search.is_alone {
            true => {
                self.reads.retain_since(search.reads, |read| search.held.contains(&read.record));
                self.leaves.forget_since(search.leaves);
            }
            false => self.reads.retain_since(search.reads, |read| !search.left_out.contains(&read.record)),
        }
    }
}
