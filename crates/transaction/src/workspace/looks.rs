//! The index ranges that the running transaction has observed while recovery adds rows.
//!
//! Recovery adds no row to an observed range, because the access has asked for all of its rows first. But it
//! adds rows beside the range, to the same leaves. So a changed leaf is no conflict yet: validation reads the
//! range again.
//! Invariant: a look is valid if its range has no entry that another transaction has added since, whatever
//! the transaction itself did with its row.
//! Held by: `rows_that_come_back_are_no_conflict`, `a_row_that_is_added_meanwhile_is_a_conflict`,
//! `a_row_that_is_added_and_written_is_a_conflict` (crates/reprise/tests/suite/on_demand/conflicts.rs).

use super::write_set::{Action, Link, WriteSet};
use catalog::TableId;
use std::sync::Arc;
use storage::{Cursor, Direction, Guard, Handle, KeyRange, LeafChange, LeafObservation, TableStore};

/// A part of an index that was observed in one leaf.
#[derive(Debug)]
pub(super) struct Look {
    /// The table as it was then; the transaction may have changed its definition since.
    pub(super) store: Arc<TableStore>,
    pub(super) index: usize,
    pub(super) range: KeyRange,
    /// The leaf; `None` once the transaction itself has split it.
    pub(super) leaf: Option<LeafObservation>,
    /// The records that the range had entries of.
    pub(super) found: Vec<Handle>,
}

impl Look {
    /// What the transaction has observed that has not found a primary key.
    pub(super) fn at_absent_key(store: Arc<TableStore>, key: &[u8], leaf: LeafObservation) -> Self {
        let range = KeyRange::beginning_with(key);
        Self { store, index: 0, range, leaf: Some(leaf), found: Vec::new() }
    }

    pub(super) fn table(&self) -> TableId {
        self.store.definition().id
    }

    /// Follows a change of a leaf by the transaction itself.
    pub(super) fn follow(&mut self, change: &LeafChange, may_have_left: bool, guard: &Guard) {
        let follows = self.leaf.as_mut().is_some_and(|leaf| leaf.follow(change, may_have_left, guard));
        if follows && change.sibling().is_some() {
            self.leaf = None;
        }
    }

    /// Returns whether no other transaction has added an entry to the range.
    pub(super) fn is_valid(&self, writes: &WriteSet, guard: &Guard) -> bool {
        if self.leaf.is_some_and(|leaf| leaf.is_valid(guard)) {
            return true;
        }
        if self.found.iter().any(|found| guard.reach(*found).is_none()) {
            return false;
        }
        let KeyRange { lower, upper } = &self.range;
        let mut cursor = Cursor::default();
        cursor.open_with_keys(lower, upper.as_deref(), Direction::Forward);
        while cursor.read_leaf(self.store.index_at(self.index), guard).is_some() {
            while let Some(record) = cursor.next_buffered(guard) {
                let handle = record.handle();
                if !self.found.contains(&handle) && !self.is_own(handle, &cursor, writes) {
                    return false;
                }
            }
        }
        true
    }

    /// Returns whether the transaction itself has added the entry that the cursor has returned last: of a row
    /// that was not there when it wrote it, or under a new key of a row that was.
    fn is_own(&self, record: Handle, cursor: &Cursor, writes: &WriteSet) -> bool {
        let Some(entry) = writes.find(record) else { return false };
        let is_linked = |link: &Link| {
            (link.record, link.table, link.index) == (record, self.table(), self.index)
                && cursor.last_is_under(&link.key)
        };
        match writes.entries[entry].action {
            Action::Insert | Action::Cancel | Action::Revive | Action::Unrevive => true,
            Action::Update | Action::Delete => writes.links.iter().any(is_linked),
        }
    }
}
