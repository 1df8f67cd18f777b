//! Index maintenance: the entries that inserts and updates add to indexes, and unique keys.
//!
//! An entry is published when its statement runs. Going back takes it away again (`super::savepoint`).

use super::Workspace;
use super::write_set::{Action, Link};
use crate::on_demand::{Intent, Place};
use catalog::{Arena, Datum, Index, Table, TableId};
use procedure::{Conflict, DataAccess, Failure, NestedScans, ScanRange, SqlError, Violated};
use storage::{Added, Change, Handle, KeyRange, Linked, NewState, OutOfMemory};

pub(super) fn out_of_memory(error: OutOfMemory) -> Failure {
    SqlError::new("53200", error.to_string()).with_hint("Delete rows, or raise the memory limit.").into()
}

/// A row that a statement writes.
#[derive(Clone, Copy)]
pub(super) struct NewRow<'a> {
    pub(super) values: &'a [Datum],
    /// Where its texts and numerics lie.
    pub(super) arena: &'a Arena,
}

impl Workspace {
    /// Adds a record to an index; the record that is there already, if one is.
    fn link(
        &mut self,
        table: TableId,
        index: usize,
        key: &[u8],
        record: Handle,
    ) -> Result<Option<Handle>, Failure> {
        let Self { tables, worker, leaves, fingers, .. } = self;
        let guard = worker.guard();
        let mut on_change = |change| {
            leaves.follow(&change, guard);
        };
        let record = guard.record(record);
        match tables.store(table).link(index, key, record, fingers, &mut on_change) {
            Ok(Linked::Added) => Ok(None),
            Ok(Linked::Exists(existing)) => Ok(Some(existing.handle())),
            // Another transaction has deleted it and cleaned up.
            Ok(Linked::Gone) => Err(Conflict::Read.into()),
            Err(error) => Err(out_of_memory(error)),
        }
    }

    /// Adds a record of `image` under its primary key; or the record that is there already. Whether it was
    /// added.
    pub(super) fn add(&mut self, table: TableId, key: &[u8]) -> Result<(Handle, bool), Failure> {
        let Self { tables, worker, leaves, fingers, image, interrupts, .. } = self;
        tables.recover(table, Place::Key(key), Intent::Write, worker.guard(), interrupts)?;
        let guard = worker.guard();
        let mut on_change = |change| {
            leaves.follow(&change, guard);
        };
        let new = (&**image, NewState::uncommitted(worker.slot()));
        match tables.store(table).add(key, new, guard, fingers, &mut on_change) {
            Ok(Added::New(record)) => Ok((record.handle(), true)),
            Ok(Added::Exists(record)) => Ok((record.handle(), false)),
            Err(error) => Err(out_of_memory(error)),
        }
    }

    /// Adds a record to a secondary index under the key of a row, unless another row has its columns and the
    /// index is unique. An entry of another record under that very key is one that is just going. Returns
    /// whether the entry is new.
    pub(super) fn link_secondary(
        &mut self,
        table: &Table,
        index: usize,
        row: NewRow<'_>,
        key: &[u8],
        record: Handle,
    ) -> Result<bool, Failure> {
        if self.is_locking {
            self.discipline.add_key(self, table, index, key)?;
        }
        if table.indexes[index].is_key() && self.violates_unique(table, index, row, record)? {
            return Err(Violated::Unique(index).error(table, row.values, row.arena).into());
        }
        self.recover_entry(table.id, index, key)?;
        match self.link(table.id, index, key, record)? {
            Some(other) if other != record => Err(Conflict::Insert.into()),
            existing => Ok(existing.is_none()),
        }
    }

    /// Returns once recovery does not look for an entry of an index any more, which is about to be written.
    fn recover_entry(&self, table: TableId, index: usize, key: &[u8]) -> Result<(), Failure> {
        if !self.tables.has_pending_rows() {
            return Ok(());
        }
        let KeyRange { lower, upper } = &KeyRange::beginning_with(key);
        let place = Place::Range(ScanRange { index, lower, upper: upper.as_deref(), backward: false });
        Ok(self.tables.recover(table, place, Intent::Write, self.worker.guard(), &self.interrupts)?)
    }

    /// Returns once recovery does not read a row any more, which is about to be changed or removed.
    pub(super) fn recover_row(&mut self, table: &Table, record: Handle) -> Result<(), Failure> {
        if !self.tables.has_pending_rows() {
            return Ok(());
        }
        let mut key = Vec::new();
        for index in 0..table.indexes.len() {
            self.scratch.clear();
            let row = self.worker.guard().record(record).row();
            self.tables.store(table.id).key_of_row(index, row, &mut self.scratch, &mut key);
            self.recover_entry(table.id, index, &key)?;
        }
        Ok(())
    }

    /// Whether another row has the same columns of a unique index. For a deferrable key no row counts yet,
    /// but the transaction waits for each other writer of the key; else neither would pass validation.
    fn violates_unique(
        &mut self,
        table: &Table,
        index: usize,
        row: NewRow<'_>,
        own: Handle,
    ) -> Result<bool, Failure> {
        let Index { columns, rules, .. } = &table.indexes[index];
        if !rules.nulls_equal && columns.iter().any(|column| row.values[*column].is_null()) {
            return Ok(false);
        }
        let mut lower = Vec::new();
        for column in columns {
            table.encode_key_column(*column, row.values[*column], row.arena, &mut lower);
        }
        let KeyRange { lower, upper } = &KeyRange::beginning_with(&lower);
        let (reads, leaves) = (self.reads.len(), self.leaves.mark());
        loop {
            self.enter_scan();
            let range = ScanRange { index, lower, upper: upper.as_deref(), backward: false };
            let found = self.finds_other(table, range, own);
            self.leave_scan();
            match found {
                // It has waited for the inserter, which has ended: what is there now? Nothing has followed
                // from what was seen before.
                Err(Failure::Conflict(Conflict::Insert)) if self.waits_in_place() => {
                    self.reads.truncate(reads);
                    self.leaves.forget_since(leaves);
                }
                found => return found,
            }
        }
    }

    /// Whether there is a row in a range beside one.
    fn finds_other(&mut self, table: &Table, range: ScanRange<'_>, own: Handle) -> Result<bool, Failure> {
        self.open_scan(table, range)?;
        self.scans.current.rival_of = Some(own);
        let mut scratch = Arena::default();
        while let Some(found) = self.next_row()? {
            if found == own {
                continue;
            }
            if self.read(found, &[], &mut scratch, &mut [])? {
                if !table.indexes[range.index].unique {
                    continue;
                }
                // Unless the transaction that holds it deletes it, or gives it another key.
                self.discipline.collide(self, found)?;
                return Ok(true);
            }
            if self.writes.find(found).is_none()
                && let Some(inserter) = self.record(found).stable_state().inserter()
            {
                return Err(self.blocked_by_inserter(found, inserter));
            }
        }
        Ok(false)
    }

    /// Whether the entry of a secondary index that the scan just returned is the one of the record's row, as
    /// this transaction sees it. While a transaction that changes the key is under way, the record has two
    /// entries.
    pub(super) fn is_own_entry(&mut self, record: Handle, table: TableId) -> bool {
        let (store, row) = (self.tables.store(table), self.worker.guard().record(record).row());
        let table = store.definition();
        let arena = &mut self.scratch;
        arena.clear();
        let entry = self.writes.find(record);
        self.key.clear();
        for column in store.key_columns(self.scans.current.index).iter().copied() {
            let slot = table.layout.slots()[column];
            let datum = entry
                .and_then(|entry| self.writes.latest(entry, slot, arena))
                .unwrap_or_else(|| row.column(slot, arena));
            table.encode_key_column(column, datum, arena, &mut self.key);
        }
        self.scans.current.cursor.last_is_under(&self.key)
    }

    /// Removes an index entry of a record that no other transaction sees.
    fn remove_own(&mut self, table: &Table, index: usize, key: &[u8], record: Handle) {
        let Self { tables, worker, leaves, .. } = self;
        let index = tables.store(table.id).index_at(index);
        let guard = worker.guard();
        index.remove_entry(key, guard.record(record), &mut |change| leaves.follow(&change, guard));
    }

    /// Publishes the index entries of an update that changes indexed columns.
    pub(super) fn reindex(
        &mut self,
        table: &Table,
        record: Handle,
        changes: &[(usize, Datum)],
        arena: &Arena,
    ) -> Result<(), Failure> {
        let changed = |index: &usize| {
            let columns = &table.indexes[*index].columns;
            changes.iter().any(|(column, _)| columns.contains(column))
        };
        let touched: Vec<usize> = (1..table.indexes.len()).filter(changed).collect();
        if touched.is_empty() {
            return Ok(());
        }
        let slots = table.layout.slots();
        let mut merged = Arena::default();
        let mut old = vec![Datum::Null; slots.len()];
        if !self.read(record, slots, &mut merged, &mut old)? {
            return Err(Conflict::Read.into());
        }
        let mut new = old.clone();
        for (column, datum) in changes {
            new[*column] = merged.adopt(*datum, arena);
        }
        let is_private = self.writes.find(record).is_some_and(|entry| self.writes.is_private(entry));
        for index in touched {
            let (mut before, mut after) = (Vec::new(), Vec::new());
            let store = self.tables.store(table.id);
            store.key_of(index, &old, &merged, &mut before);
            store.key_of(index, &new, &merged, &mut after);
            if before == after {
                continue;
            }
            let is_new =
                self.link_secondary(table, index, NewRow { values: &new, arena: &merged }, &after, record)?;
            if is_private {
                self.remove_own(table, index, &before, record);
            } else {
                self.writes.add_link(Link { record, table: table.id, index, key: after }, is_new);
            }
        }
        Ok(())
    }

    /// Makes sure that no other transaction is inserting a record, and that it is not leaving the index.
    pub(super) fn check_inserter(&mut self, record: Handle) -> Result<(), Failure> {
        let state = self.record(record).stable_state();
        match state.inserter() {
            _ if self.writes.find(record).is_some() => Ok(()),
            Some(inserter) => Err(self.blocked_by_inserter(record, inserter)),
            None if state.is_dead() => Err(Conflict::Insert.into()),
            None => Ok(()),
        }
    }

    /// Puts a row into a record that is there but absent.
    pub(super) fn revive(
        &mut self,
        table: &Table,
        record: Handle,
        row: &[Datum],
        arena: &Arena,
    ) -> Result<(), Failure> {
        let entry = match self.writes.find(record) {
            Some(entry) => {
                let before = self.writes.entries[entry].action;
                let after = match before {
                    Action::Delete => Action::Update,
                    Action::Unrevive => Action::Revive,
                    Action::Cancel => Action::Insert,
                    Action::Insert | Action::Revive | Action::Update => {
                        return Err(Violated::Unique(0).error(table, row, arena).into());
                    }
                };
                self.writes.set_action(entry, after);
                entry
            }
            None => {
                let state = self.record(record).stable_state();
                if state.is_dead() || state.inserter().is_some() {
                    return Err(Conflict::Insert.into());
                }
                self.reads.push(record, state);
                if !state.is_absent() {
                    // Unless the transaction that holds it deletes it.
                    self.discipline.collide(self, record)?;
                    return Err(Violated::Unique(0).error(table, row, arena).into());
                }
                self.discipline.write(self, table.id, record)?;
                self.writes.add(record, table.id, Action::Revive)
            }
        };
        if self.writes.is_private(entry) {
            return self.insert_again(table, record, row, arena);
        }
        for index in 1..table.indexes.len() {
            let mut key = Vec::new();
            self.tables.store(table.id).key_of(index, row, arena, &mut key);
            let is_new = self.link_secondary(table, index, NewRow { values: row, arena }, &key, record)?;
            self.writes.add_link(Link { record, table: table.id, index, key }, is_new);
        }
        for (slot, datum) in table.layout.slots().iter().zip(row) {
            self.writes.change(entry, *slot, *datum, arena);
        }
        Ok(())
    }

    /// Puts a row into an own record whose insert was undone, wherever that had got to.
    fn insert_again(
        &mut self,
        table: &Table,
        record: Handle,
        row: &[Datum],
        arena: &Arena,
    ) -> Result<(), Failure> {
        let mut scratch = Arena::default();
        for index in 1..table.indexes.len() {
            let (mut before, mut after) = (Vec::new(), Vec::new());
            let store = self.tables.store(table.id);
            store.key_of_row(index, self.record(record).row(), &mut scratch, &mut before);
            store.key_of(index, row, arena, &mut after);
            self.link_secondary(table, index, NewRow { values: row, arena }, &after, record)?;
            if before != after {
                self.remove_own(table, index, &before, record);
            }
        }
        let changes = table.layout.slots().iter().zip(row);
        let changes = changes.map(|(slot, datum)| Change { slot: *slot, datum: *datum });
        self.record(record).apply(&table.layout, changes, arena);
        Ok(())
    }

    /// Changes an own insert in its record.
    pub(super) fn change_own(
        &mut self,
        table: &Table,
        record: Handle,
        changes: &[(usize, Datum)],
        arena: &Arena,
    ) -> Result<(), Failure> {
        if table.indexes.len() > 1 {
            self.reindex(table, record, changes, arena)?;
        }
        let slots = table.layout.slots();
        let changes = changes.iter().map(|(column, datum)| Change { slot: slots[*column], datum: *datum });
        self.record(record).apply(&table.layout, changes, arena);
        Ok(())
    }
}
