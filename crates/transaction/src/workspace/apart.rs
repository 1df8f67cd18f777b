//! Tables that a transaction has written and whose definition it then changes.
//!
//! A definition works on tables without pending writes. So a table with writes of the transaction is replaced
//! by a copy that has them as rows, in the tables of this transaction alone. The writes stay in the write set
//! as writes to the table before, which is set aside: a rollback undoes them there, through the indexes under
//! which they were made.
//! Invariants: 1. the copy has the rows that the transaction sees. 2. the entries of the write set name a
//! table with the indexes under which they were made. Held by: `crates/reprise/tests/suite/migrations.rs`.
//! Not here: which definitions need this, and the log (`reprise`).

use super::Workspace;
use super::write_set::Action;
use crate::tables::duplicate_in;
use catalog::{Arena, CommitOrder, Datum, Epoch, TableId};
use procedure::SqlError;
use std::sync::Arc;
use storage::{Linker, OutOfMemory, TableStore};

/// The order of rows that a transaction writes into its private tables. No reader depends on it: the version
/// of the definitions that has these tables is durable with the transaction.
const PRIVATE: CommitOrder = CommitOrder::first_of(Epoch(1));

fn out_of_memory(error: OutOfMemory) -> SqlError {
    SqlError::new("53200", error.to_string())
}

impl Workspace {
    /// Sets a table aside, with what the transaction has written to it: the transaction does not use it any
    /// more.
    pub fn set_aside(&mut self, table: TableId) {
        let number = self.tables.set_aside(&Arc::clone(self.tables.shared(table)));
        self.writes.renumber(table, number);
    }

    /// Sets a table aside, and goes on with a copy that has the transaction's writes as rows.
    ///
    /// # Errors
    /// `53200`: memory is short. `0A000`: the log names rows by slot. The table stays as it is.
    pub fn set_apart(&mut self, table: TableId) -> Result<(), SqlError> {
        self.tables.recover_table(table, self.worker.guard())?;
        let copy = self.copy_of(&Arc::clone(self.tables.shared(table)))?;
        self.set_aside(table);
        self.tables.set(copy);
        Ok(())
    }

    fn copy_of(&self, store: &TableStore) -> Result<TableStore, SqlError> {
        let Self { tables, worker, .. } = self;
        let (definition, guard) = (store.definition(), worker.guard());
        if tables.is_slotted() {
            let message =
                "a physical log does not support a change of a table that the transaction has written";
            return Err(SqlError::new("0A000", message));
        }
        let memory = Arc::clone(&tables.memory);
        let copy = TableStore::new(Arc::clone(definition), None, memory, guard).map_err(out_of_memory)?;
        let filled = self.fill_copy(store, &copy);
        if filled.is_err() {
            copy.abandon();
        }
        filled.map(|()| copy)
    }

    /// Puts the rows of a table, as the transaction sees them, into an empty one.
    fn fill_copy(&self, store: &TableStore, copy: &TableStore) -> Result<(), SqlError> {
        let Self { worker, writes, .. } = self;
        let (definition, guard) = (store.definition(), worker.guard());
        let (mut linker, mut arena, mut image) = (Linker::default(), Arena::default(), Vec::new());
        store.for_each_record(guard, |record| {
            let entry = writes.find(record.handle());
            let action = entry.map(|entry| writes.entries[entry].action);
            let state = record.stable_state();
            if action.map_or(state.is_absent(), Action::removes) {
                return Ok::<(), SqlError>(());
            }
            arena.clear();
            let column = |slot: &catalog::ColumnSlot| {
                let changed = entry.and_then(|entry| writes.latest(entry, *slot, &mut arena));
                changed.unwrap_or_else(|| record.row().column(*slot, &mut arena))
            };
            let row: Vec<Datum> = definition.layout.slots().iter().map(column).collect();
            definition.layout.encode(&row, &arena, &mut image);
            let order = if state.is_absent() { PRIVATE } else { state.order() };
            let loaded = copy.load(&image, order, 1, &mut linker, guard).map_err(out_of_memory)?;
            assert!(loaded, "the primary index has one record for each key");
            Ok(())
        })?;
        for place in 1..definition.indexes.len() {
            if let Err(duplicate) = copy.fill_new(place, guard).map_err(out_of_memory)? {
                return Err(duplicate_in(definition, duplicate));
            }
        }
        Ok(())
    }
}
