//! How statements read and write: the workspace remembers every read, and keeps every write aside until
//! commit.

use super::Workspace;
use super::keys::{NewRow, out_of_memory};
use super::looks::Look;
use super::scans::Scan;
use super::write_set::Action;
use crate::on_demand::{Intent, Place};
use catalog::{Arena, ColumnSlot, CommitOrder, Datum, Table, TableId};
use procedure::{
    Conflict, DataAccess, EncodedRow, Failure, HoldStrength, LookAhead, NestedScans, ScanRange,
    SkippingSearch, SqlError, TransactionControl,
};
use std::sync::Arc;
use storage::{Handle, look_again};

/// How often an insert looks for the end of a record that is leaving the index.
const MOST_LOOKS: u32 = 1 << 10;

impl DataAccess for Workspace {
    type Row = Handle;

    #[inline]
    fn find(&mut self, table: &Table, key: &[u8]) -> Result<Option<Handle>, Failure> {
        if self.is_locking && !self.skips(table.id) {
            let range = ScanRange { index: 0, lower: key, upper: Some(key), backward: false };
            self.discipline.look(self, table, range)?;
        }
        self.tables.recover(
            table.id,
            Place::Key(key),
            Intent::Read,
            self.worker.guard(),
            &self.interrupts,
        )?;
        let (store, guard) = (self.tables.store(table.id), self.worker.guard());
        let is_moving = self.has_moving_leaves();
        match self.expected.take(store, key, guard).map_or_else(|| store.find(key, guard), Ok) {
            Ok(record) => {
                record.prefetch();
                let row = record.handle();
                let is_absent = record.seems_absent() && self.is_observed_absent(table.id, row, Some(key))?;
                return Ok((!is_absent).then_some(row));
            }
            Err(leaf) if is_moving => {
                self.look(Look::at_absent_key(Arc::clone(self.tables.shared(table.id)), key, leaf));
            }
            Err(leaf) => self.observe(table.id, leaf),
        }
        Ok(None)
    }

    #[inline]
    fn will_write(&mut self, table: Option<TableId>) {
        self.writes_to = table;
    }

    fn open_scan(&mut self, table: &Table, range: ScanRange<'_>) -> Result<(), Failure> {
        if self.is_locking && !self.skips(table.id) {
            self.discipline.look(self, table, range)?;
        }
        self.tables.recover(
            table.id,
            Place::Range(range),
            Intent::Read,
            self.worker.guard(),
            &self.interrupts,
        )?;
        // Whose entry an entry is follows from its key.
        self.scans.current.open(table, range, range.index > 0);
        Ok(())
    }

    #[inline]
    fn next_row(&mut self) -> Result<Option<Handle>, Failure> {
        let Some(table) = self.scans.current.table else { return Ok(None) };
        loop {
            let guard = self.worker.guard();
            if let Some(record) = self.scans.current.cursor.next_buffered(guard) {
                let handle = record.handle();
                if record.seems_absent()
                    && self.scans.current.rival_of.is_none()
                    && self.is_observed_absent(table, handle, None)?
                {
                    continue;
                }
                if self.scans.current.index > 0 {
                    if self.is_locking && !self.skips(table) {
                        self.discipline.find_in(self, table, handle)?;
                    }
                    self.before_read(handle)?;
                    // Whether the entry counts follows from the row, so the row's version is part of what is
                    // read.
                    let (state, counts) = loop {
                        let record = self.worker.guard().record(handle);
                        let state = record.stable_state();
                        let counts = self.is_own_entry(handle, table);
                        if self.worker.guard().record(handle).is_state(state) {
                            break (state, counts);
                        }
                    };
                    if self.writes.find(handle).is_none() {
                        self.reads.push(handle, state);
                    }
                    if !counts {
                        if self.scans.current.rival_of.is_some_and(|own| own != handle) {
                            // A transaction that holds the row may be giving it this key.
                            self.discipline.collide(self, handle)?;
                        }
                        continue;
                    }
                }
                return Ok(Some(handle));
            }
            let unread = self.has_moving_leaves().then(|| self.scans.current.cursor.unread());
            let Scan { cursor, index, .. } = &mut self.scans.current;
            let Some(leaf) = cursor.read_leaf(self.tables.store(table).index_at(*index), guard) else {
                return Ok(None);
            };
            if self.reads.len() > self.reads_at_most {
                return Err(Failure::Long);
            }
            match unread {
                Some(unread) => {
                    let look = Look {
                        store: Arc::clone(self.tables.shared(table)),
                        index: *index,
                        range: cursor.read_since(unread),
                        leaf: Some(leaf),
                        found: cursor.records(guard).map(|record| record.handle()).collect(),
                    };
                    self.look(look);
                }
                None => self.observe(table, leaf),
            }
        }
    }

    #[inline]
    fn read(
        &mut self,
        record: Handle,
        columns: &[ColumnSlot],
        arena: &mut Arena,
        out: &mut [Datum],
    ) -> Result<bool, Failure> {
        let written = self.writes.find(record);
        let action = written.map(|entry| self.writes.entries[entry].action);
        if action.is_some_and(Action::removes) {
            return Ok(false);
        }
        let own = matches!(action, Some(Action::Insert | Action::Revive));
        if written.is_none() {
            self.before_read(record)?;
        }
        let handle = record;
        let record = self.worker.guard().record(handle);
        loop {
            let state = record.stable_state();
            if state.is_dead() && !self.is_in_batches {
                return Err(Conflict::Read.into());
            }
            // Between two vertices that touch it, nothing adds the key of a record again.
            if state.is_absent() && !own {
                self.reads.push(handle, state);
                return Ok(false);
            }
            let row = record.row();
            for (slot, datum) in columns.iter().zip(out.iter_mut()) {
                *datum = row.column(*slot, arena);
            }
            if !record.is_state(state) {
                continue;
            }
            match written {
                None => self.reads.push_values(handle, state, columns, out),
                Some(entry) => {
                    // Its earlier reads may have taken other columns.
                    if !own {
                        self.reads.push(handle, state);
                        if self.writes.keep_sums(entry) {
                            self.reads.keep_sums(handle);
                        }
                    }
                    for (slot, datum) in columns.iter().zip(out.iter_mut()) {
                        if let Some(new) = self.writes.latest(entry, *slot, arena) {
                            *datum = new;
                        }
                    }
                }
            }
            return Ok(true);
        }
    }

    fn insert(&mut self, table: &Table, row: &[Datum], arena: &Arena) -> Result<(), Failure> {
        let mut key = std::mem::take(&mut self.key);
        self.tables.store(table.id).key_of(0, row, arena, &mut key);
        let inserted = self.insert_under(table, &key, NewRow { values: row, arena }, None);
        self.key = key;
        inserted
    }

    fn insert_encoded(&mut self, table: &Table, row: EncodedRow<'_>) -> Result<(), Failure> {
        let EncodedRow { values, arena, image, key } = row;
        self.insert_under(table, key, NewRow { values, arena }, Some(image))
    }

    fn adds_to(&mut self, table: &Table, row: Handle, columns: &[usize]) {
        self.note_added(table, row, columns);
    }

    #[inline]
    fn update(
        &mut self,
        table: &Table,
        record: Handle,
        changes: &[(usize, Datum)],
        arena: &Arena,
    ) -> Result<(), Failure> {
        let updated = self.update_row(table, record, changes, arena);
        // They are of this update alone, also if it has failed.
        self.added.clear();
        updated
    }

    fn delete(&mut self, table: &Table, record: Handle) -> Result<(), Failure> {
        match self.writes.find(record) {
            Some(entry) => {
                let after = match self.writes.entries[entry].action {
                    Action::Insert | Action::Cancel => Action::Cancel,
                    Action::Revive | Action::Unrevive => Action::Unrevive,
                    Action::Update | Action::Delete => Action::Delete,
                };
                self.writes.set_action(entry, after);
            }
            None => {
                self.recover_row(table, record)?;
                self.discipline.write(self, table.id, record)?;
                self.writes.add(record, table.id, Action::Delete);
            }
        }
        Ok(())
    }
}

impl Workspace {
    /// Updates a row.
    #[inline]
    fn update_row(
        &mut self,
        table: &Table,
        record: Handle,
        changes: &[(usize, Datum)],
        arena: &Arena,
    ) -> Result<(), Failure> {
        self.worker.check_limit().map_err(out_of_memory)?;
        let entry = match self.writes.find(record) {
            Some(entry) => entry,
            None => {
                self.recover_row(table, record)?;
                self.discipline.write(self, table.id, record)?;
                self.writes.add(record, table.id, Action::Update)
            }
        };
        if self.writes.is_private(entry) {
            return self.change_own(table, record, changes, arena);
        }
        if table.indexes.len() > 1 {
            self.reindex(table, record, changes, arena)?;
        }
        let slots = table.layout.slots();
        for (column, datum) in changes {
            self.writes.change(entry, slots[*column], *datum, arena);
            if let Some((_, value)) = self.added.iter().find(|(own, _)| own == column) {
                self.writes.added_to(*value);
            }
        }
        self.ask_room()
    }

    /// Inserts a row under its primary key. It is encoded if there is no image of it.
    fn insert_under(
        &mut self,
        table: &Table,
        key: &[u8],
        row: NewRow<'_>,
        image: Option<&[u64]>,
    ) -> Result<(), Failure> {
        if self.is_locking {
            self.discipline.add_key(self, table, 0, key)?;
        }
        let NewRow { values, arena } = row;
        let mut looks = 0;
        let record = loop {
            match image {
                Some(image) => {
                    self.image.clear();
                    self.image.extend_from_slice(image);
                }
                None => table.layout.encode(values, arena, &mut self.image),
            }
            match self.add(table.id, key)? {
                (record, true) => break record,
                (existing, false) => match self.check_inserter(existing) {
                    // The record is gone, or goes just now.
                    Err(Failure::Conflict(Conflict::Insert)) if looks < MOST_LOOKS => look_again(&mut looks),
                    checked => return checked.and_then(|()| self.revive(table, existing, values, arena)),
                },
            }
        };
        self.writes.add(record, table.id, Action::Insert);
        // The record names this transaction from here on, whatever becomes of the rest.
        self.note_insert();
        self.inserted_bytes += self.image.len() * size_of::<u64>();
        self.ask_room()?;
        for index in 1..table.indexes.len() {
            let mut key = std::mem::take(&mut self.secondary_key);
            self.tables.store(table.id).key_of(index, values, arena, &mut key);
            let linked = self.link_secondary(table, index, NewRow { values, arena }, &key, record);
            self.secondary_key = key;
            linked?;
        }
        Ok(())
    }
}

impl LookAhead for Workspace {
    fn expect_nothing(&mut self) {
        self.expected.clear();
    }

    fn expect(&mut self, table: &Table, key: &[u8]) {
        // Recovery may still remove a record and add another one with its key, until the key is looked for.
        if !self.tables.has_pending_rows() {
            self.expected.add(table, key, &self.tables, self.worker.guard());
        }
    }

    fn load_expected(&mut self) {
        self.expected.load(&self.tables, self.worker.guard());
    }
}

impl NestedScans for Workspace {
    fn keep(&mut self, row: Handle) -> i64 {
        self.kept.keep(row)
    }

    fn kept(&self, number: i64) -> Option<Handle> {
        self.kept.get(number)
    }

    fn enter_scan(&mut self) {
        self.scans.enter();
    }

    fn leave_scan(&mut self) {
        self.scans.leave();
    }
}

impl TransactionControl for Workspace {
    fn never_wait(&mut self, never_waits: bool) {
        self.set_never_waits(never_waits);
    }

    fn hold(&mut self, table: TableId, row: Handle, strength: HoldStrength) -> Result<(), Failure> {
        match (self.writes.find(row), strength) {
            (Some(_), _) => Ok(()),
            (None, HoldStrength::Exclusive) => self.discipline.write(self, table, row),
            (None, HoldStrength::Shared) => self.discipline.share(self, table, row),
        }
    }

    fn begin_skipping(&mut self, search: SkippingSearch<'_>) {
        self.begin_search(search);
    }

    fn hold_unless_locked(
        &mut self,
        table: TableId,
        row: Handle,
        strength: HoldStrength,
    ) -> Result<bool, Failure> {
        self.hold_found(table, row, strength)
    }

    fn pause_skipping(&mut self) {
        self.pause_search();
    }

    fn resume_skipping(&mut self) {
        self.resume_search();
    }

    fn end_skipping(&mut self) {
        self.end_search();
    }

    fn begin_part(&mut self) {
        let mut savepoint = self.set_savepoint();
        // The part itself goes on after it was undone.
        savepoint.parts += 1;
        self.parts.push(savepoint);
    }

    fn undo_part(&mut self) -> Result<(), Failure> {
        if let Some(savepoint) = self.parts.last().copied() {
            self.roll_back_to(savepoint);
        }
        Ok(())
    }

    fn end_part(&mut self) {
        if let Some(savepoint) = self.parts.pop() {
            self.release_savepoint(savepoint);
        }
    }

    fn end_transaction(&mut self, commit: bool) -> Result<(), Failure> {
        let refused = || SqlError::new("2D000", "invalid transaction termination");
        if !self.parts.is_empty() {
            let message = if commit { "cannot commit" } else { "cannot roll back" };
            return Err(SqlError::new("2D000", format!("{message} while a subtransaction is active")).into());
        }
        if self.scans.depth() > 0 {
            return Err(refused().into());
        }
        let mut end = self.end_transaction.take().ok_or_else(|| {
            refused().with_hint("Only a procedure that is called outside of a transaction ends transactions.")
        })?;
        let ended = end(self, commit);
        self.end_transaction = Some(end);
        ended
    }

    fn rest(&mut self) -> Result<CommitOrder, Failure> {
        if self.reads_at_most == usize::MAX { Ok(self.last_observed()) } else { Err(Failure::Long) }
    }

    fn is_doomed(&self) -> bool {
        self.reads_hold().is_err()
    }
}

impl Workspace {
    /// Returns whether a row is absent in a way that stays valid when its record leaves the index: the
    /// transaction has observed the leaf in which the key would be added again. A lookup passes the key; the
    /// leaf of a scan is observed already. `false` if the row is there, or must be read by its version.
    #[cold]
    fn is_observed_absent(
        &mut self,
        table: TableId,
        row: Handle,
        key: Option<&[u8]>,
    ) -> Result<bool, Failure> {
        let is_by_version = self.is_in_batches || self.is_locking || self.has_moving_leaves();
        if is_by_version || self.writes.find(row).is_some() {
            return Ok(false);
        }
        self.before_read(row)?;
        if let Some(key) = key {
            let index = self.tables.store(table).index_at(0);
            let (found, leaf) = index.observe(key, self.worker.guard());
            if found.is_some_and(|found| found.handle() != row) {
                return Ok(false);
            }
            self.observe(table, leaf);
        }
        let state = self.record(row).stable_state();
        let is_absent = state.is_absent() && state.inserter().is_none();
        if is_absent {
            self.reads.push_absence(row, state);
        }
        Ok(is_absent)
    }
}
