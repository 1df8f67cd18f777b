//! Rows written in place, at once and without latches: by the one thread that has them, in commit order.

use super::{Tombstones, TupleWrite};
use crate::RecoveryError;
use crate::replay::{unfit, writes_diverged};
use catalog::{Arena, CommitOrder, Datum, RowChange, Table, TableId};
use logging::content::{Operation, Side};
use storage::{Added, Change, Finger, Handle, NewState, Record, RecordState, TableStore, Worker};
use transaction::Tables;

/// What one thread writes with.
pub(in crate::replay) struct TupleWriter {
    pub(in crate::replay) worker: Worker,
    arena: Arena,
    row: Vec<Datum>,
    changed: Vec<usize>,
    image: Vec<u64>,
    inserted: Option<TableId>,
    finger: Finger,
    /// Rows that are gone, whose records are still there.
    pub(super) tombstones: Tombstones,
}

impl TupleWriter {
    pub(in crate::replay) fn new(tables: &Tables) -> Result<Self, RecoveryError> {
        let worker = Worker::new(tables.epochs.clone(), tables.memory.clone());
        Ok(Self {
            worker: worker.ok_or(RecoveryError::NoWorker)?,
            arena: Arena::default(),
            row: Vec::new(),
            changed: Vec::new(),
            image: Vec::new(),
            inserted: None,
            finger: Finger::default(),
            tombstones: Tombstones::new(),
        })
    }

    /// Begins to write.
    pub(in crate::replay) fn stay(&mut self) {
        self.worker.stay();
    }

    /// Lets memory go that nobody sees any more.
    pub(in crate::replay) fn leave(&mut self) {
        self.inserted = None;
        self.worker.leave();
        self.worker.reclaim();
    }

    /// The rows that it has removed, and those that it was given as such.
    pub(in crate::replay) fn take_tombstones(&mut self) -> Tombstones {
        std::mem::take(&mut self.tombstones)
    }

    /// Does one write to the row with a primary key, whose record may be known already.
    pub(in crate::replay) fn write(
        &mut self,
        order: CommitOrder,
        write: &TupleWrite<'_>,
        (store, key): (&TableStore, &[u8]),
        found: Option<Handle>,
    ) -> Result<(), RecoveryError> {
        let table = &**store.definition();
        match write.change() {
            RowChange::Delete => return self.delete(order, (store, key), found),
            change => {
                if write.image(table, &mut self.image).map_err(|_| unfit(order))? {
                    return self.put_image(order, change, (store, key), found);
                }
            }
        }
        self.arena.clear();
        let Self { arena, row, changed, .. } = self;
        write.decode(table, arena, row, changed).map_err(|_| unfit(order))?;
        self.put_decoded(order, write.change(), (store, key), found)
    }

    /// Takes an operation of a transaction back.
    pub(in crate::replay) fn undo(
        &mut self,
        transaction: CommitOrder,
        operation: &Operation<'_>,
        tables: &Tables,
    ) -> Result<(), RecoveryError> {
        let damaged = |_| unfit(transaction);
        let store = tables.by_id(operation.table).ok_or_else(|| unfit(transaction))?;
        let table = &**store.definition();
        let mut key = Vec::new();
        self.arena.clear();
        let Self { arena, row, changed, .. } = self;
        operation.key(table, (arena, row), &mut key).map_err(damaged)?;
        operation.decode(Side::Undo, table, arena, row, changed).map_err(damaged)?;
        match operation.change(Side::Undo) {
            RowChange::Delete => self.delete(transaction, (store, &key), None),
            change => self.put_decoded(transaction, change, (store, &key), None),
        }
    }

    fn find(
        &self,
        (store, key): (&TableStore, &[u8]),
        found: Option<Handle>,
        order: CommitOrder,
    ) -> Result<Record<'_>, RecoveryError> {
        let guard = self.worker.guard();
        let record = found.map(|found| guard.record(found)).or_else(|| store.find(key, guard).0);
        record.ok_or_else(|| {
            writes_diverged(order, &format!("{} lacks a row that was written", store.definition().name))
        })
    }

    fn delete(
        &mut self,
        order: CommitOrder,
        at: (&TableStore, &[u8]),
        found: Option<Handle>,
    ) -> Result<(), RecoveryError> {
        let record = self.find(at, found, order)?;
        record.unlock(RecordState::absent(order));
        let held = record.held();
        self.tombstones.extend(held.map(|held| (at.0.definition().id, held)));
        Ok(())
    }

    /// Writes `self.image`.
    fn put_image(
        &mut self,
        order: CommitOrder,
        change: RowChange,
        (store, key): (&TableStore, &[u8]),
        found: Option<Handle>,
    ) -> Result<(), RecoveryError> {
        let record = match (found, change) {
            (Some(found), _) => self.worker.guard().record(found),
            (None, RowChange::Insert) => match self.insert((store, key), order)? {
                Some(existing) => self.worker.guard().record(existing),
                None => return Ok(()),
            },
            (None, _) => self.find((store, key), None, order)?,
        };
        record.write_image(&self.image);
        record.unlock(RecordState::present(order));
        Ok(())
    }

    /// Writes the columns that are decoded.
    fn put_decoded(
        &mut self,
        order: CommitOrder,
        change: RowChange,
        (store, key): (&TableStore, &[u8]),
        found: Option<Handle>,
    ) -> Result<(), RecoveryError> {
        let layout = &store.definition().layout;
        if change == RowChange::Insert {
            layout.encode(&self.row, &self.arena, &mut self.image);
            return self.put_image(order, change, (store, key), found);
        }
        let record = self.find((store, key), found, order)?;
        let slots = layout.slots();
        let Self { arena, row, changed, .. } = &*self;
        let changes = changed.iter().map(|column| Change { slot: slots[*column], datum: row[*column] });
        record.apply(layout, changes, arena);
        record.unlock(RecordState::present(order));
        Ok(())
    }

    /// Adds a record of `self.image`; returns the one that is there already, if one is.
    fn insert(
        &mut self,
        (store, key): (&TableStore, &[u8]),
        order: CommitOrder,
    ) -> Result<Option<Handle>, RecoveryError> {
        let failed = |error: storage::OutOfMemory| writes_diverged(order, &error);
        let id = store.definition().id;
        if self.inserted != Some(id) {
            self.inserted = Some(id);
            self.finger = Finger::default();
        }
        let Self { worker, finger, image, .. } = self;
        let new = (&**image, NewState::committed(RecordState::present(order)));
        match store.add(key, new, worker.guard(), finger, &mut |_| {}).map_err(failed)? {
            Added::New(_) => Ok(None),
            Added::Exists(existing) => Ok(Some(existing.handle())),
        }
    }
}

/// Appends the primary key of a write's row.
pub(super) fn key_of(
    write: &TupleWrite<'_>,
    table: &Table,
    scratch: (&mut Arena, &mut Vec<Datum>),
    key: &mut Vec<u8>,
    order: CommitOrder,
) -> Result<(), RecoveryError> {
    scratch.0.clear();
    write.key(table, scratch, key).map_err(|_| unfit(order))
}
