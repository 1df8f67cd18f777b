//! Searches for rows that no other transaction holds: SKIP LOCKED.
//!
//! What such a search finds is no state of the table, because it leaves out what other transactions are about
//! to write. So its reads need not hold at commit, except those of the rows that it returns: these the
//! transaction holds. A search that reads other tables, too, keeps its reads, apart from those of the rows
//! that it leaves out. An answer still waits until what the search has read is durable.
//!
//! Invariant: no two transactions that are open at one time are given the same row, unless both hold it FOR
//! SHARE. Held by: `a_job_is_given_to_one_worker` (crates/reprise/tests/suite/skipping.rs).

use super::Workspace;
use super::leaves::LeavesMark;
use super::reads::Read;
use catalog::{CommitOrder, TableId};
use procedure::{Conflict, Failure, HoldStrength, SkippingSearch, TransactionControl};
use storage::Handle;

/// A search.
#[derive(Debug)]
pub(super) struct Search {
    tables: Vec<TableId>,
    is_alone: bool,
    /// Whether its result is being used.
    is_paused: bool,
    /// The number of reads before it.
    reads: usize,
    leaves: LeavesMark,
    /// What it has read, as far as that is in the read set no longer. A sort reads all rows before the first
    /// one is held.
    seen: Vec<Read>,
    /// The rows that it holds since it was resumed.
    held: Vec<Handle>,
    /// The rows that it leaves out.
    left_out: Vec<Handle>,
}

impl Workspace {
    /// Returns whether the row that is read next belongs to a search.
    #[inline]
    pub(super) fn is_searching(&self) -> bool {
        self.searches.last().is_some_and(|search| !search.is_paused)
    }

    /// Returns whether a search is in progress that leaves out rows of a table.
    #[inline]
    pub(super) fn skips(&self, table: TableId) -> bool {
        self.searches.last().is_some_and(|search| !search.is_paused && search.tables.contains(&table))
    }

    pub(super) fn begin_search(&mut self, search: SkippingSearch<'_>) {
        let SkippingSearch { tables, is_alone } = search;
        self.searches.push(Search {
            tables: tables.to_vec(),
            is_alone,
            is_paused: false,
            reads: self.reads.len(),
            leaves: self.leaves.mark(),
            seen: Vec::new(),
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
        let holds = self.count_holds();
        let (mut reads, seen) = self.reads_by_search(row);
        reads.extend(&seen);
        self.set_never_waits(true);
        let held = self.hold(table, row, strength);
        self.set_never_waits(false);
        let is_held = match held {
            // Under two-phase locking the search has read it without a lock. It reads a row that it finds
            // by an index twice: the entry belongs to the first version, the values to the second one.
            Ok(()) => {
                let now = self.record(row);
                self.writes.find(row).is_some() || reads.iter().all(|read| now.is_state(read.state))
            }
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
        if is_held {
            seen.into_iter().for_each(|read| self.reads.push_again(read));
        }
        if let Some(search) = self.searches.last_mut() {
            if is_held { search.held.push(row) } else { search.left_out.push(row) }
        }
        Ok(is_held)
    }

    /// Returns what the search has read of a row: what is in the read set, and what is not.
    fn reads_by_search(&self, row: Handle) -> (Vec<Read>, Vec<Read>) {
        let Some(search) = self.searches.last() else { return Default::default() };
        let own = |reads: &[Read]| reads.iter().filter(|read| read.record == row).copied().collect();
        (own(self.reads.since(search.reads)), own(&search.seen))
    }

    /// Takes out of the read set what the search has read, except of the rows that it holds.
    pub(super) fn pause_search(&mut self) {
        let Some(mut search) = self.searches.pop() else { return };
        if !search.is_paused {
            let orders = self.reads.since(search.reads).iter().map(Read::order);
            self.last_read = orders.fold(self.last_read, CommitOrder::max);
            self.looked_through = self.looked_through.min(search.reads);
            if search.is_alone {
                search.seen.extend_from_slice(self.reads.since(search.reads));
                self.reads.retain_since(search.reads, |read| search.held.contains(&read.record));
                self.leaves.forget_since(search.leaves);
            } else {
                self.reads.retain_since(search.reads, |read| !search.left_out.contains(&read.record));
            }
            search.is_paused = true;
        }
        self.searches.push(search);
    }

    pub(super) fn resume_search(&mut self) {
        let (reads, leaves) = (self.reads.len(), self.leaves.mark());
        if let Some(search) = self.searches.last_mut() {
            search.is_paused = false;
            search.held.clear();
            if search.is_alone {
                (search.reads, search.leaves) = (reads, leaves);
            }
        }
    }

    pub(super) fn end_search(&mut self) {
        self.pause_search();
        self.searches.pop();
    }
}
