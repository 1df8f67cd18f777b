//! Savepoints: a part of a transaction is undone, and the transaction goes on.
//!
//! Going back to a savepoint shortens the write set to what it was (`WriteSet::go_back_to`), after the index
//! entries and records that the part has published are taken back. Nothing is written over: so at commit an
//! undone part writes nothing. What the part has read stays in the read set, because its client knows it. A
//! statement that is run again after it has waited for a row has told its client nothing: its reads are
//! forgotten, and with them all that followed from them.
//! Invariants: 1. after `roll_back_to` the transaction sees what it saw when the savepoint was set. 2. every
//! record in the write set that other transactions see is in the read set.
//! Held by: `crates/reprise/tests/suite/savepoints.rs` (random histories against those that never were),
//! `holding.rs` and `interleaved.rs`.

#[cfg(test)]
mod tests;

use super::Workspace;
use super::leaves::LeavesMark;
use storage::{Record, RecordState};

/// A moment of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Savepoint {
    /// The position of its mark among those of the write set.
    mark: usize,
    reads: usize,
    leaves: LeavesMark,
    /// Parts of procedures that had begun.
    pub(super) parts: usize,
    /// Scans that were in progress.
    scans: usize,
    /// Rows that were held.
    holds: usize,
}

/// Locks a record that no transaction holds for long.
fn lock(record: Record<'_>) -> RecordState {
    loop {
        match record.try_lock() {
            Some(state) => return state,
            None => std::hint::spin_loop(),
        }
    }
}

impl Workspace {
    /// Sets a savepoint. It is released, or all of the transaction ends.
    pub fn set_savepoint(&mut self) -> Savepoint {
        Savepoint {
            mark: self.writes.set_mark(),
            reads: self.reads.len(),
            leaves: self.leaves.mark(),
            parts: self.parts.len(),
            scans: self.scans.depth(),
            holds: self.count_holds(),
        }
    }

    /// Forgets a savepoint and those that were set after it: what came after them stays.
    pub fn release_savepoint(&mut self, savepoint: Savepoint) {
        self.writes.forget_marks(savepoint.mark);
    }

    /// Undoes everything since a savepoint, which stays set. Rows that are held since are let go.
    pub fn roll_back_to(&mut self, savepoint: Savepoint) {
        let undone = &self.writes.entries[self.writes.mark(savepoint.mark).entries..];
        let has_inserted = undone.iter().any(|entry| entry.action.is_own());
        self.undo_since(savepoint);
        if !self.is_locking {
            self.release_holds_from(savepoint.holds);
        }
        if has_inserted {
            self.inserts_ended();
        }
    }

    fn undo_since(&mut self, savepoint: Savepoint) {
        self.scans.come_back_to(savepoint.scans);
        self.parts.truncate(savepoint.parts);
        let mark = self.writes.mark(savepoint.mark);
        self.take_back(mark.entries, mark.links);
        self.writes.go_back_to(savepoint.mark);
        // Both may name records that are dead now.
        self.expected.clear();
    }

    /// Undoes everything since a savepoint, which stays set, and forgets what was read since. No client may
    /// have been told of it. Rows that are held since stay held, and transactions that wait for a record that
    /// was inserted since go on waiting: the statement is run again.
    pub fn forget_since(&mut self, savepoint: Savepoint) {
        self.undo_since(savepoint);
        self.reads.truncate(savepoint.reads);
        self.looked_through = self.looked_through.min(savepoint.reads);
        self.leaves.forget_since(savepoint.leaves);
    }

    /// Takes index entries and inserted records back that the write set names from two positions on.
    pub(super) fn take_back(&mut self, entries: usize, links: usize) {
        // Links first: while they are there, other transactions find the record by them, so it must not be
        // freed.
        for position in (links..self.writes.links.len()).rev() {
            let state = lock(self.record(self.writes.links[position].record));
            let is_outdated = self.is_outdated(position);
            let Self { tables, worker, leaves, writes, .. } = self;
            let (link, guard) = (&writes.links[position], worker.guard());
            if is_outdated {
                let index = tables.store(link.table).index_at(link.index);
                // A row that is newer than this one may have the key meanwhile.
                let record = guard.record(link.record);
                index.remove_entry(&link.key, record, &mut |change| leaves.follow(&change, guard));
            }
            guard.record(link.record).unlock(state);
        }
        for position in (entries..self.writes.entries.len()).rev() {
            let entry = self.writes.entries[position];
            if entry.action.is_own() {
                let Self { tables, worker, leaves, scratch, .. } = self;
                let guard = worker.guard();
                let record = guard.record(entry.record);
                lock(record);
                record.unlock_dead();
                let store = tables.store(entry.table);
                tables.unlink(store, record, scratch, &mut |change| leaves.follow(&change, guard));
            }
        }
    }
}
