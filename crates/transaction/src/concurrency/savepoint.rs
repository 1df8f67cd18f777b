//! Savepoints: a part of a transaction is undone, and the transaction goes on.
//!
//! What was done since is done back, in reverse, as the transaction itself could: so rows, index entries and the write set are as if
//! other statements had followed. A row that is written back to what it was stays in the write set.
//! Invariant: after `roll_back_to` the transaction sees what it saw when the savepoint was set.
//! Held by: `crates/reprise/tests/savepoints.rs`, which compares random histories with those that never were.

use super::Occ;
use crate::changes::Action;
use catalog::{Arena, Datum, Table, TableId};
use procedure::{DataAccess, Failure};
use storage::{Change, Handle};

/// A moment of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Savepoint {
    undo: usize,
    reads: usize,
    leaves: usize,
}

/// What does a change back.
enum Undo {
    /// The entry of a record is about this again.
    Action { record: Handle, action: Action },
    /// Columns have these values again.
    Columns { table: TableId, record: Handle, first: usize, count: usize },
    /// The row that goes again had these values in all columns before it went first.
    Image { table: TableId, record: Handle, first: usize },
}

/// What has happened since the oldest savepoint.
#[derive(Default)]
pub(super) struct UndoLog {
    /// Savepoints that are set.
    set: usize,
    undo: Vec<Undo>,
    values: Vec<(usize, Datum)>,
    arena: Arena,
}

impl UndoLog {
    pub(super) fn clear(&mut self) {
        self.set = 0;
        self.undo.clear();
        self.values.clear();
        self.arena.clear();
    }
}

impl Occ {
    /// Sets a savepoint. It is released, or all of the transaction ends.
    pub fn set_savepoint(&mut self) -> Savepoint {
        self.undo_log.set += 1;
        Savepoint { undo: self.undo_log.undo.len(), reads: self.reads.len(), leaves: self.leaves.len() }
    }

    /// Forgets the savepoint that was set last.
    pub fn release_savepoint(&mut self) {
        self.undo_log.set -= 1;
        if self.undo_log.set == 0 {
            self.undo_log.clear();
        }
    }

    /// Undoes everything since a savepoint, which stays set.
    ///
    /// # Errors
    /// A conflict: the whole transaction is to be rolled back.
    pub fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<(), Failure> {
        let set = std::mem::take(&mut self.undo_log.set);
        let arena = std::mem::take(&mut self.undo_log.arena);
        let mut undone = Ok(());
        while undone.is_ok() && self.undo_log.undo.len() > savepoint.undo {
            let Some(undo) = self.undo_log.undo.pop() else { break };
            undone = self.undo(&undo, &arena);
        }
        self.undo_log.arena = arena;
        self.undo_log.set = set;
        undone
    }

    /// As `roll_back_to`, and forgets what was read since, as nobody has learned of it.
    ///
    /// # Errors
    /// A conflict: the whole transaction is to be rolled back.
    pub fn forget_since(&mut self, savepoint: Savepoint) -> Result<(), Failure> {
        self.roll_back_to(savepoint)?;
        self.reads.truncate(savepoint.reads);
        // Own inserts may have split leaves that were observed before: those stand behind, and stay.
        if self.leaves.len() > savepoint.leaves && !self.has_inserted_since(savepoint) {
            self.leaves.truncate(savepoint.leaves);
        }
        Ok(())
    }

    fn has_inserted_since(&self, _savepoint: Savepoint) -> bool {
        !self.writes.entries.is_empty() && self.writes.entries.iter().any(|entry| entry.action.is_own())
    }

    fn undo(&mut self, undo: &Undo, arena: &Arena) -> Result<(), Failure> {
        match undo {
            Undo::Action { record, action } => {
                if let Some(entry) = self.writes.find(*record) {
                    self.writes.entries[entry].action = *action;
                }
                Ok(())
            }
            Undo::Columns { table, record, first, count } => {
                let values = self.undo_log.values[*first..first + count].to_vec();
                self.undo_log.values.truncate(*first);
                let definition = std::sync::Arc::clone(self.tables.store(*table).definition());
                self.update(&definition, *record, &values, arena)
            }
            Undo::Image { table, record, first } => {
                let values: Vec<Datum> =
                    self.undo_log.values.drain(*first..).map(|(_, value)| value).collect();
                self.restore_image(*table, *record, &values, arena)
            }
        }
    }

    /// Gives a row that is about to be gone again the values and index entries that it had; as it is gone, others may have its
    /// unique values.
    fn restore_image(
        &mut self,
        table: TableId,
        record: Handle,
        values: &[Datum],
        arena: &Arena,
    ) -> Result<(), Failure> {
        let definition = std::sync::Arc::clone(self.tables.store(table).definition());
        let slots = definition.layout.slots();
        let Some(entry) = self.writes.find(record) else { return Ok(()) };
        if !self.writes.entries[entry].action.is_own() {
            slots
                .iter()
                .zip(values)
                .for_each(|(slot, value)| self.writes.change(entry, *slot, *value, arena));
            return Ok(());
        }
        for index in 1..definition.indexes.len() {
            let mut key = Vec::new();
            self.tables.store(table).key_of(index, values, arena, &mut key);
            self.link(table, index, &key, record)?;
        }
        let changes = slots.iter().zip(values).map(|(slot, datum)| Change { slot: *slot, datum: *datum });
        self.worker.guard().record(record).apply(&definition.layout, changes, arena);
        Ok(())
    }

    /// A row that went comes again: remembers what it was.
    pub(super) fn before_image(&mut self, table: &Table, record: Handle) -> Result<(), Failure> {
        if self.undo_log.set > 0 {
            self.before_columns(table, record, 0..table.columns.len())?;
            if let Some(Undo::Columns { table, record, first, .. }) = self.undo_log.undo.pop() {
                self.undo_log.undo.push(Undo::Image { table, record, first });
            }
        }
        Ok(())
    }

    /// The action of a record's entry is about to change.
    pub(super) fn before_action(&mut self, record: Handle, action: Action) {
        if self.undo_log.set > 0 {
            self.undo_log.undo.push(Undo::Action { record, action });
        }
    }

    /// Columns of a row are about to change, which this transaction sees as it is.
    pub(super) fn before_columns(
        &mut self,
        table: &Table,
        record: Handle,
        columns: impl Iterator<Item = usize>,
    ) -> Result<(), Failure> {
        if self.undo_log.set == 0 {
            return Ok(());
        }
        let mut arena = std::mem::take(&mut self.undo_log.arena);
        let first = self.undo_log.values.len();
        let mut result = Ok(true);
        for column in columns {
            let mut value = [Datum::Null];
            let slot = table.layout.slots()[column];
            result = self.read(record, &[slot], &mut arena, &mut value);
            if !matches!(result, Ok(true)) {
                break;
            }
            self.undo_log.values.push((column, value[0]));
        }
        self.undo_log.arena = arena;
        let count = self.undo_log.values.len() - first;
        self.undo_log.undo.push(Undo::Columns { table: table.id, record, first, count });
        result.map(|_| ())
    }
}
