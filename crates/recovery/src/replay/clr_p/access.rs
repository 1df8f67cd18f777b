//! The access of replayed pieces: they read and write rows in place, without locks.
//!
//! The schedule gives every row to one thread at a time, in commit order, and only committed calls are
//! replayed. So there is no validation, no write set and no undo. All threads share the indexes, because
//! neighbouring keys may belong to different threads.
//! Invariant: every record is in each index exactly under the key of its row. Held by: the digests of
//! `crates/reprise/tests/suite/parallel_replay`, which reads the tables through their indexes afterwards.

use crate::RecoveryError;
use crate::replay::context::worker_of;
use catalog::{Arena, ChangedWord, ColumnSlot, CommitOrder, Datum, Table, TableId};
use procedure::{DataAccess, EncodedRow, Failure, Interrupts, LookAhead, ScanRange, SqlError, Violated};
use schedule::Access;
use storage::{
    Added, Change, Cursor, Direction, Fingers, Handle, Linked, NewState, OutOfMemory, RecordState, Worker,
};
use transaction::{Expectations, Intent, Place, Tables};

/// The access of one thread.
pub(crate) struct Direct {
    tables: Tables,
    pub(super) worker: Worker,
    /// The order of the transaction that is replayed.
    order: CommitOrder,
    cursor: Cursor,
    scanned: Option<(TableId, usize)>,
    expected: Expectations,
    fingers: Fingers,
    image: Vec<u64>,
    key: Vec<u8>,
    scratch: Arena,
    /// Why rows of the checkpoint could not be brought back.
    unreachable: Option<SqlError>,
}

fn out_of_memory(error: OutOfMemory) -> Failure {
    SqlError::new("53200", error.to_string()).into()
}

impl Direct {
    fn new(tables: Tables, worker: Worker) -> Self {
        Self {
            tables,
            worker,
            order: CommitOrder::default(),
            cursor: Cursor::default(),
            scanned: None,
            expected: Expectations::default(),
            fingers: Fingers::default(),
            image: Vec::new(),
            key: Vec::new(),
            scratch: Arena::default(),
            unreachable: None,
        }
    }

    /// Returns the access of one thread to tables.
    ///
    /// # Errors
    /// `NoWorker`.
    pub(crate) fn of(tables: &Tables) -> Result<Self, RecoveryError> {
        Ok(Self::new(tables.clone(), worker_of(tables)?))
    }

    /// Returns once the rows of a place of the checkpoint are in their table.
    fn recover(&mut self, table: &Table, place: Place<'_>) -> Result<(), Failure> {
        let recovered =
            self.tables.recover(table.id, place, Intent::Read, self.worker.guard(), &Interrupts::default());
        recovered.map_err(|error| {
            self.unreachable = Some(error.clone());
            error.into()
        })
    }

    /// Adds a record to an index under `self.key`; returns false when the key exists.
    fn link(&mut self, table: &Table, index: usize, record: Handle) -> Result<bool, Failure> {
        let Self { tables, worker, key, fingers, .. } = self;
        let record = worker.guard().record(record);
        let linked = tables.store(table.id).link(index, key, record, fingers, &mut |_| {});
        Ok(linked.map_err(out_of_memory)? == Linked::Added)
    }

    /// Adds a record under its primary key; returns `None` when the key exists.
    #[inline]
    fn add(&mut self, table: &Table, key: &[u8], image: &[u64]) -> Result<Option<Handle>, Failure> {
        let Self { tables, worker, fingers, order, .. } = self;
        let new = (image, NewState::committed(RecordState::present(*order)));
        let added = tables.store(table.id).add(key, new, worker.guard(), fingers, &mut |_| {});
        Ok(match added.map_err(out_of_memory)? {
            Added::New(record) => Some(record.handle()),
            Added::Exists(_) => None,
        })
    }

    /// Adds a new record to the secondary indexes.
    fn link_further(
        &mut self,
        table: &Table,
        record: Handle,
        row: &[Datum],
        arena: &Arena,
    ) -> Result<(), Failure> {
        for index in 1..table.indexes.len() {
            self.tables.store(table.id).key_of(index, row, arena, &mut self.key);
            if !self.link(table, index, record)? {
                return Err(Violated::Unique(index).error(table, row, arena).into());
            }
        }
        Ok(())
    }

    /// Puts the key of a record's row in an index into `self.key`.
    fn key_of_row(&mut self, table: &Table, index: usize, record: Handle) {
        self.scratch.clear();
        let row = self.worker.guard().record(record).row();
        self.tables.store(table.id).key_of_row(index, row, &mut self.scratch, &mut self.key);
    }
}

impl Access for Direct {
    fn stay(&mut self) {
        self.worker.stay();
    }

    fn leave(&mut self) {
        self.expected.clear();
        self.worker.leave();
        self.worker.reclaim();
    }

    #[inline]
    fn begin(&mut self, order: CommitOrder) {
        self.order = order;
    }

    fn take_unreachable(&mut self) -> Option<SqlError> {
        self.unreachable.take()
    }
}

impl DataAccess for Direct {
    type Row = Handle;

    #[inline]
    fn find(&mut self, table: &Table, key: &[u8]) -> Result<Option<Handle>, Failure> {
        self.recover(table, Place::Key(key))?;
        let (store, guard) = (self.tables.store(table.id), self.worker.guard());
        // The record that was found ahead may be deleted by now, and another record may have its key.
        let found = self.expected.take(store, key, guard).filter(|record| !record.locked_state().is_dead());
        if let Some(found) = found {
            return Ok(Some(found.handle()));
        }
        Ok(store.find(key, guard).ok().map(|record| {
            record.prefetch();
            record.handle()
        }))
    }

    fn open_scan(&mut self, table: &Table, range: ScanRange<'_>) -> Result<(), Failure> {
        self.recover(table, Place::Range(range))?;
        let direction = if range.backward { Direction::Backward } else { Direction::Forward };
        self.cursor.open(range.lower, range.upper, direction);
        self.scanned = Some((table.id, range.index));
        Ok(())
    }

    #[inline]
    fn next_row(&mut self) -> Result<Option<Handle>, Failure> {
        let Some((table, index)) = self.scanned else { return Ok(None) };
        let guard = self.worker.guard();
        loop {
            if let Some(record) = self.cursor.next_buffered(guard) {
                return Ok(Some(record.handle()));
            }
            if self.cursor.read_leaf(self.tables.store(table).index_at(index), guard).is_none() {
                return Ok(None);
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
        let record = self.worker.guard().record(record);
        if record.locked_state().is_absent() {
            return Ok(false);
        }
        let row = record.row();
        for (slot, datum) in columns.iter().zip(out.iter_mut()) {
            *datum = row.column(*slot, arena);
        }
        Ok(true)
    }

    fn insert(&mut self, table: &Table, row: &[Datum], arena: &Arena) -> Result<(), Failure> {
        let (mut image, mut key) = (std::mem::take(&mut self.image), std::mem::take(&mut self.key));
        table.layout.encode(row, arena, &mut image);
        self.tables.store(table.id).key_of(0, row, arena, &mut key);
        let added = self.add(table, &key, &image);
        (self.image, self.key) = (image, key);
        let record = added?.ok_or_else(|| Violated::Unique(0).error(table, row, arena))?;
        self.link_further(table, record, row, arena)
    }

    #[inline]
    fn insert_encoded(&mut self, table: &Table, row: EncodedRow<'_>) -> Result<(), Failure> {
        let violated = || Violated::Unique(0).error(table, row.values, row.arena);
        let record = self.add(table, row.key, row.image)?.ok_or_else(violated)?;
        self.link_further(table, record, row.values, row.arena)
    }

    #[inline]
    fn update(
        &mut self,
        table: &Table,
        record: Handle,
        changes: &[(usize, Datum)],
        arena: &Arena,
    ) -> Result<(), Failure> {
        let moves = |index: &usize| {
            let columns = &table.indexes[*index].columns;
            changes.iter().any(|(column, _)| columns.contains(column))
        };
        let mut moved = Vec::new();
        for index in (1..table.indexes.len()).filter(moves) {
            self.key_of_row(table, index, record);
            moved.push((index, self.key.clone()));
        }
        let slots = table.layout.slots();
        let new = changes.iter().map(|(column, datum)| Change { slot: slots[*column], datum: *datum });
        let written = self.worker.guard().record(record);
        written.apply(&table.layout, new, arena);
        written.unlock(RecordState::present(self.order));
        for (index, old) in moved {
            self.key_of_row(table, index, record);
            if self.key != old {
                self.tables.store(table.id).index_at(index).remove(&old, self.worker.guard());
                self.link(table, index, record)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn update_words(&mut self, record: Handle, words: &[ChangedWord]) -> Result<bool, Failure> {
        let record = self.worker.guard().record(record);
        record.change_words(words);
        record.unlock(RecordState::present(self.order));
        Ok(true)
    }

    fn delete(&mut self, table: &Table, record: Handle) -> Result<(), Failure> {
        let Self { tables, worker, scratch, .. } = self;
        let record = worker.guard().record(record);
        record.unlock_dead();
        scratch.clear();
        tables.store(table.id).unlink(record, scratch, &mut |_| false);
        Ok(())
    }
}

impl LookAhead for Direct {
    fn expect_nothing(&mut self) {
        self.expected.clear();
    }

    fn expect(&mut self, table: &Table, key: &[u8]) {
        self.expected.add(table, key, &self.tables, self.worker.guard());
    }

    fn load_expected(&mut self) {
        self.expected.load(&self.tables, self.worker.guard());
    }
}
