//! Rows written in place, without latches and without undo, by the one thread that owns them, in commit
//! order.

use super::finish::Tombstones;
use super::write::TupleWrite;
use crate::RecoveryError;
use crate::replay::divergence::{unfit, writes_diverged};
use catalog::{Arena, CommitOrder, Datum, RowChange};
use logging::content::{Operation, Side};
use storage::{Added, Change, Fingers, Handle, NewState, Record, RecordState, TableStore, Worker};
use transaction::Tables;

/// Writes rows for one thread.
pub(in crate::replay) struct TupleWriter {
    pub(super) worker: Worker,
    arena: Arena,
    row: Vec<Datum>,
    changed: Vec<usize>,
    image: Vec<u64>,
    fingers: Fingers,
    /// Deleted rows whose records are still in the primary index.
    pub(super) tombstones: Tombstones,
}

/// The row of a write.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) store: &'a TableStore,
    /// Its primary key.
    pub(super) key: &'a [u8],
    /// Its record, if that is known already.
    pub(super) found: Option<Handle>,
}

impl TupleWriter {
    pub(in crate::replay) fn new(worker: Worker) -> Self {
        Self {
            worker,
            arena: Arena::default(),
            row: Vec::new(),
            changed: Vec::new(),
            image: Vec::new(),
            fingers: Fingers::default(),
            tombstones: Tombstones::new(),
        }
    }

    /// Begins to write.
    pub(in crate::replay) fn stay(&mut self) {
        self.worker.stay();
    }

    /// Ends writing, and gives back memory that no thread reads any more.
    pub(in crate::replay) fn leave(&mut self) {
        self.worker.leave();
        self.worker.reclaim();
    }

    /// Takes the tombstones of the deleted rows.
    pub(in crate::replay) fn take_tombstones(&mut self) -> Tombstones {
        std::mem::take(&mut self.tombstones)
    }

    /// Makes one write to its row.
    pub(super) fn write(
        &mut self,
        order: CommitOrder,
        write: &TupleWrite<'_>,
        target: Target<'_>,
    ) -> Result<(), RecoveryError> {
        let table = &**target.store.definition();
        match write.change() {
            RowChange::Delete => return self.delete(order, target),
            change => {
                if write.image(table, &mut self.image).map_err(|_| unfit(order))? {
                    return self.put_image(order, change, target);
                }
            }
        }
        self.arena.clear();
        let Self { arena, row, changed, .. } = self;
        write.decode(table, arena, row, changed).map_err(|_| unfit(order))?;
        self.put_decoded(order, write.change(), target)
    }

    /// Undoes an operation of a transaction.
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
        let target = Target { store, key: &key, found: None };
        match operation.change(Side::Undo) {
            RowChange::Delete => self.delete(transaction, target),
            change => self.put_decoded(transaction, change, target),
        }
    }

    fn find(&self, target: Target<'_>, order: CommitOrder) -> Result<Record<'_>, RecoveryError> {
        let Target { store, key, found } = target;
        let guard = self.worker.guard();
        let record = found.map(|found| guard.record(found)).or_else(|| store.find(key, guard).ok());
        record.ok_or_else(|| {
            writes_diverged(order, &format!("{} lacks a row that was written", store.definition().name))
        })
    }

    fn delete(&mut self, order: CommitOrder, target: Target<'_>) -> Result<(), RecoveryError> {
        let record = self.find(target, order)?;
        record.unlock(RecordState::absent(order));
        let held = record.held();
        self.tombstones.extend(held.map(|held| (target.store.definition().id, held)));
        Ok(())
    }

    /// Writes `self.image`.
    fn put_image(
        &mut self,
        order: CommitOrder,
        change: RowChange,
        target: Target<'_>,
    ) -> Result<(), RecoveryError> {
        let record = match (target.found, change) {
            (Some(found), _) => self.worker.guard().record(found),
            (None, RowChange::Insert) => match self.insert(target, order)? {
                Some(existing) => self.worker.guard().record(existing),
                None => return Ok(()),
            },
            (None, _) => self.find(target, order)?,
        };
        record.write_image(&self.image);
        record.unlock(RecordState::present(order));
        Ok(())
    }

    /// Writes the decoded columns.
    fn put_decoded(
        &mut self,
        order: CommitOrder,
        change: RowChange,
        target: Target<'_>,
    ) -> Result<(), RecoveryError> {
        let layout = &target.store.definition().layout;
        if change == RowChange::Insert {
            layout.encode(&self.row, &self.arena, &mut self.image);
            return self.put_image(order, change, target);
        }
        let record = self.find(target, order)?;
        let slots = layout.slots();
        let Self { arena, row, changed, .. } = &*self;
        let changes = changed.iter().map(|column| Change { slot: slots[*column], datum: row[*column] });
        record.apply(layout, changes, arena);
        record.unlock(RecordState::present(order));
        Ok(())
    }

    /// Adds a record of `self.image`; returns the existing record of the key, if there is one.
    fn insert(&mut self, target: Target<'_>, order: CommitOrder) -> Result<Option<Handle>, RecoveryError> {
        let Target { store, key, .. } = target;
        let failed = |error: storage::OutOfMemory| writes_diverged(order, &error);
        let Self { worker, fingers, image, .. } = self;
        let new = (&**image, NewState::committed(RecordState::present(order)));
        match store.add(key, new, worker.guard(), fingers, &mut |_| {}).map_err(failed)? {
            Added::New(_) => Ok(None),
            Added::Exists(existing) => Ok(Some(existing.handle())),
        }
    }
}
