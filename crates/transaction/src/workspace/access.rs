//! How statements read and write: the workspace remembers every read, and keeps every write aside until
//! commit.

use super::Workspace;
use super::write_set::{Action, Link};
use catalog::{Arena, ColumnSlot, CommitOrder, Datum, Table, TableId};
use procedure::{Conflict, DataAccess, Failure, ScanRange, SqlError};
use storage::{Added, Change, Finger, Handle, Linked, NewState, OutOfMemory, look_again};

/// How often an insert looks for the end of a record that is leaving the index.
const MOST_LOOKS: u32 = 1 << 10;

/// Where the transaction's last insert was.
#[derive(Default)]
pub(super) struct LastInsert {
    into: Option<(TableId, usize)>,
    finger: Finger,
}

impl LastInsert {
    #[inline]
    pub(super) fn forget(&mut self) {
        self.into = None;
    }

    /// The finger for an insert into an index.
    #[inline]
    fn finger_of(&mut self, table: TableId, index: usize) -> &mut Finger {
        if self.into != Some((table, index)) {
            *self = Self { into: Some((table, index)), finger: Finger::default() };
        }
        &mut self.finger
    }
}

pub(super) fn out_of_memory(error: OutOfMemory) -> Failure {
    SqlError::new("53200", error.to_string()).with_hint("Delete rows, or raise the memory limit.").into()
}

fn duplicate(table: &Table, index: usize) -> Failure {
    let index = &table.indexes[index];
    let columns: Vec<_> = index.columns.iter().map(|column| table.columns[*column].name.as_str()).collect();
    SqlError::new("23505", format!("duplicate key value violates unique constraint \"{}\"", index.name))
        .with_detail(format!("Key ({}) already exists.", columns.join(", ")))
        .with_constraint(table, &index.name)
        .into()
}

impl Workspace {
    /// Adds a record to an index; the record that is there already, if one is.
    pub(super) fn link(
        &mut self,
        table: TableId,
        index: usize,
        key: &[u8],
        record: Handle,
    ) -> Result<Option<Handle>, Failure> {
        let Self { tables, worker, leaves, inserted, .. } = self;
        let finger = inserted.finger_of(table, index);
        let mut on_change = |change| {
            leaves.follow(&change);
        };
        let record = worker.guard().record(record);
        match tables.store(table).link(index, key, record, finger, &mut on_change) {
            Ok(Linked::Added) => Ok(None),
            Ok(Linked::Exists(existing)) => Ok(Some(existing.handle())),
            // Another transaction has deleted it and cleaned up.
            Ok(Linked::Gone) => Err(Conflict::Read.into()),
            Err(error) => Err(out_of_memory(error)),
        }
    }

    /// Adds a record of `image` under its primary key; or the record that is there already. Whether it was
    /// added.
    fn add(&mut self, table: TableId, key: &[u8]) -> Result<(Handle, bool), Failure> {
        let Self { tables, worker, leaves, inserted, image, .. } = self;
        let finger = inserted.finger_of(table, 0);
        let mut on_change = |change| {
            leaves.follow(&change);
        };
        let new = (&**image, NewState::uncommitted(worker.slot()));
        match tables.store(table).add(key, new, worker.guard(), finger, &mut on_change) {
            Ok(Added::New(record)) => Ok((record.handle(), true)),
            Ok(Added::Exists(record)) => Ok((record.handle(), false)),
            Err(error) => Err(out_of_memory(error)),
        }
    }

    /// Adds a record to a secondary index under the key of a row, unless another row has its columns and the
    /// index is unique. An entry of another record under that very key is one that is just going. Returns
    /// whether the entry is new.
    fn link_secondary(
        &mut self,
        table: &Table,
        index: usize,
        (row, arena): (&[Datum], &Arena),
        key: &[u8],
        record: Handle,
    ) -> Result<bool, Failure> {
        if self.is_locking {
            self.discipline.add_key(self, table, index, key)?;
        }
        if table.indexes[index].unique && self.violates_unique(table, index, row, arena, record)? {
            return Err(duplicate(table, index));
        }
        match self.link(table.id, index, key, record)? {
            Some(other) if other != record => Err(Conflict::Insert.into()),
            existing => Ok(existing.is_none()),
        }
    }

    /// Whether another row has the same columns of a unique index.
    fn violates_unique(
        &mut self,
        table: &Table,
        index: usize,
        row: &[Datum],
        arena: &Arena,
        own: Handle,
    ) -> Result<bool, Failure> {
        let columns = &table.indexes[index].columns;
        if columns.iter().any(|column| row[*column].is_null()) {
            return Ok(false);
        }
        let mut lower = Vec::new();
        for column in columns {
            table.encode_key_column(*column, row[*column], arena, &mut lower);
        }
        let mut upper = lower.clone();
        catalog::successor(&mut upper);
        let upper = (!upper.is_empty()).then_some(upper.as_slice());
        let (reads, leaves) = (self.reads.len(), self.leaves.mark());
        loop {
            self.enter_scan();
            let range = ScanRange { index, lower: &lower, upper, backward: false };
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
    fn is_own_entry(&mut self, record: Handle, table: TableId) -> bool {
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
        index.remove_entry(key, worker.guard().record(record), &mut |change| leaves.follow(&change));
    }

    /// Publishes the index entries of an update that changes indexed columns.
    fn reindex(
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
            let is_new = self.link_secondary(table, index, (&new, &merged), &after, record)?;
            if is_private {
                self.remove_own(table, index, &before, record);
            } else {
                self.writes.add_link(Link { record, table: table.id, index, key: after }, is_new);
            }
        }
        Ok(())
    }

    /// Makes sure that no other transaction is inserting a record, and that it is not leaving the index.
    fn check_inserter(&mut self, record: Handle) -> Result<(), Failure> {
        let state = self.record(record).stable_state();
        match state.inserter() {
            _ if self.writes.find(record).is_some() => Ok(()),
            Some(inserter) => Err(self.blocked_by_inserter(record, inserter)),
            None if state.is_dead() => Err(Conflict::Insert.into()),
            None => Ok(()),
        }
    }

    /// Puts a row into a record that is there but absent.
    fn revive(&mut self, table: &Table, record: Handle, row: &[Datum], arena: &Arena) -> Result<(), Failure> {
        let entry = match self.writes.find(record) {
            Some(entry) => {
                let before = self.writes.entries[entry].action;
                let after = match before {
                    Action::Delete => Action::Update,
                    Action::Unrevive => Action::Revive,
                    Action::Cancel => Action::Insert,
                    Action::Insert | Action::Revive | Action::Update => return Err(duplicate(table, 0)),
                };
                self.writes.set_action(entry, after);
                entry
            }
            None => {
                let state = self.record(record).stable_state();
                if state.is_dead() || state.inserter().is_some() {
                    return Err(Conflict::Insert.into());
                }
                self.reads.push((record, state));
                if !state.is_absent() {
                    // Unless the transaction that holds it deletes it.
                    self.discipline.collide(self, record)?;
                    return Err(duplicate(table, 0));
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
            let is_new = self.link_secondary(table, index, (row, arena), &key, record)?;
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
            self.link_secondary(table, index, (row, arena), &after, record)?;
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
    fn change_own(
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

impl DataAccess for Workspace {
    type Row = Handle;

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

    fn expect_nothing(&mut self) {
        self.expected.clear();
    }

    fn expect(&mut self, table: &Table, key: &[u8]) {
        self.expected.add(table, key, &self.tables, self.worker.guard());
    }

    fn load_expected(&mut self) {
        self.expected.load(&self.tables, self.worker.guard());
    }

    #[inline]
    fn find(&mut self, table: &Table, key: &[u8]) -> Result<Option<Handle>, Failure> {
        if self.is_locking {
            let range = ScanRange { index: 0, lower: key, upper: Some(key), backward: false };
            self.discipline.look(self, table, range)?;
        }
        if let Some(record) = self.expected.take(table.id, key) {
            return Ok(Some(record));
        }
        let (record, leaf) = self.tables.store(table.id).find(key, self.worker.guard());
        let Some(record) = record else {
            self.observe(table.id, leaf);
            return Ok(None);
        };
        record.prefetch();
        Ok(Some(record.handle()))
    }

    fn never_wait(&mut self, never_waits: bool) {
        self.set_never_waits(never_waits);
    }

    fn hold(&mut self, table: TableId, row: Handle) -> Result<(), Failure> {
        match self.writes.find(row) {
            Some(_) => Ok(()),
            None => self.discipline.write(self, table, row),
        }
    }

    fn open_scan(&mut self, table: &Table, range: ScanRange<'_>) -> Result<(), Failure> {
        if self.is_locking {
            self.discipline.look(self, table, range)?;
        }
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
                if self.scans.current.index > 0 {
                    if self.is_locking {
                        self.discipline.find_in(self, table, handle)?;
                    }
                    self.before_read(handle)?;
                    let record = self.worker.guard().record(handle);
                    // Whether the entry counts follows from the row, so the row's version is part of what is
                    // read.
                    let state = record.stable_state();
                    let counts = self.is_own_entry(handle, table);
                    if self.writes.find(handle).is_none() {
                        self.reads.push((handle, state));
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
            match self
                .scans
                .current
                .cursor
                .read_leaf(self.tables.store(table).index_at(self.scans.current.index), guard)
            {
                Some(leaf) => {
                    if self.reads.len() > self.reads_at_most {
                        return Err(Failure::Long);
                    }
                    self.observe(table, leaf);
                }
                None => return Ok(None),
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
            if state.is_dead() {
                return Err(Conflict::Read.into());
            }
            if state.is_absent() && !own {
                self.reads.push((handle, state));
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
                None => self.reads.push((handle, state)),
                Some(entry) => {
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
        if self.is_locking
            && let Err(failure) = self.discipline.add_key(self, table, 0, &key)
        {
            self.key = key;
            return Err(failure);
        }
        let mut looks = 0;
        let record = loop {
            table.layout.encode(row, arena, &mut self.image);
            match self.add(table.id, &key) {
                Ok((record, true)) => break record,
                Ok((existing, false)) => match self.check_inserter(existing) {
                    // The record is gone, or goes just now.
                    Err(Failure::Conflict(Conflict::Insert)) if looks < MOST_LOOKS => look_again(&mut looks),
                    checked => {
                        self.key = key;
                        return checked.and_then(|()| self.revive(table, existing, row, arena));
                    }
                },
                Err(failure) => {
                    self.key = key;
                    return Err(failure);
                }
            }
        };
        self.key = key;
        self.writes.add(record, table.id, Action::Insert);
        // The record names this transaction from here on, whatever becomes of the rest.
        self.note_insert();
        self.inserted_bytes += self.image.len() * size_of::<u64>();
        self.ask_room()?;
        for index in 1..table.indexes.len() {
            let mut key = std::mem::take(&mut self.key);
            self.tables.store(table.id).key_of(index, row, arena, &mut key);
            let linked = self.link_secondary(table, index, (row, arena), &key, record);
            self.key = key;
            linked?;
        }
        Ok(())
    }

    #[inline]
    fn update(
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
        }
        self.ask_room()
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
                self.discipline.write(self, table.id, record)?;
                self.writes.add(record, table.id, Action::Delete);
            }
        }
        Ok(())
    }
}
