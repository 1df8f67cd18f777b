//! Constraints that a transaction checks at its end: foreign keys, for the rows of its write set.
//!
//! What statements have written in between does not count, so savepoints need no care, and a row that was
//! written twice is checked once. The checks are reads of the transaction, which its commit validates.
//! Held by: `crates/reprise/tests/suite/deferred.rs`.

use super::Workspace;
use super::write_set::Action;
use crate::Tables;
use catalog::{Arena, Datum, TableId};
use procedure::{ConstraintModes, Failure, ForeignKeys, Reference};
use std::sync::Arc;

/// A row that the transaction has written.
struct Written {
    table: TableId,
    /// The row before the transaction; `None` if there was none.
    before: Option<Vec<Datum>>,
    /// The row that the transaction leaves; `None` if it leaves none.
    after: Option<Vec<Datum>>,
}

impl Workspace {
    /// Returns whether the transaction has written rows of a table that a deferred foreign key concerns: rows
    /// with new values of its columns, or rows without the old ones.
    pub fn has_deferred(&self, table: TableId, keys: &ForeignKeys, modes: &ConstraintModes) -> bool {
        let deferred = |own: &&Reference| own.is_deferred(modes);
        let references: Vec<_> = keys.references_of(table).iter().filter(deferred).collect();
        let users: Vec<_> = keys.references_to(table).iter().filter(deferred).collect();
        if references.is_empty() && users.is_empty() {
            return false;
        }
        let definition = Arc::clone(self.tables.store(table).definition());
        let slots = definition.layout.slots();
        let entries = self.writes.entries.iter().enumerate();
        entries.filter(|(_, entry)| entry.table == table).any(|(place, entry)| {
            let changes = |columns: &[usize]| {
                self.writes.changes(place).any(|own| columns.iter().any(|column| slots[*column] == own.slot))
            };
            match entry.action {
                Action::Insert | Action::Revive => !references.is_empty(),
                Action::Delete => !users.is_empty(),
                Action::Update => {
                    references.iter().any(|own| changes(&own.columns))
                        || users.iter().any(|own| changes(&own.parent_columns))
                }
                Action::Cancel | Action::Unrevive => false,
            }
        })
    }

    /// Checks the foreign keys that `is_meant` names, for all rows that the transaction has written.
    ///
    /// # Errors
    /// `23503`: a row breaks one. A conflict.
    pub fn check_deferred(
        &mut self,
        keys: &ForeignKeys,
        is_meant: &dyn Fn(&Reference) -> bool,
    ) -> Result<(), Failure> {
        let mut arena = Arena::default();
        let concerned =
            |table: TableId| keys.references_of(table).iter().chain(keys.references_to(table)).any(is_meant);
        let written = self.written_rows(&concerned, &mut arena);
        for Written { table, before, after } in &written {
            if let Some(after) = after {
                for reference in keys.references_of(*table).iter().filter(|own| is_meant(own)) {
                    reference.require(after, &mut arena, self)?;
                }
            }
            if let Some(before) = before {
                for reference in keys.references_to(*table).iter().filter(|own| is_meant(own)) {
                    reference.require_unused(before, &mut arena, self)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the rows of some tables that the transaction has written.
    fn written_rows(&self, is_meant: &dyn Fn(TableId) -> bool, arena: &mut Arena) -> Vec<Written> {
        let mut written = Vec::new();
        for (place, entry) in self.writes.entries.iter().enumerate() {
            if Tables::is_set_aside(entry.table) || !is_meant(entry.table) {
                continue;
            }
            let table = Arc::clone(self.tables.store(entry.table).definition());
            let (record, slots) = (self.record(entry.record), table.layout.slots());
            // Another transaction may write the row at the same time; then this one fails later.
            let stored: Vec<Datum> = loop {
                let (state, mark) = (record.stable_state(), arena.mark());
                let row = slots.iter().map(|slot| record.row().column(*slot, arena)).collect();
                if record.is_state(state) {
                    break row;
                }
                arena.release(mark);
            };
            let changed = slots.iter().zip(&stored);
            let changed =
                changed.map(|(slot, stored)| self.writes.latest(place, *slot, arena).unwrap_or(*stored));
            let after: Vec<Datum> = changed.collect();
            let (before, after) = match entry.action {
                Action::Insert | Action::Revive => (None, Some(after)),
                Action::Update => (Some(stored), Some(after)),
                Action::Delete => (Some(stored), None),
                Action::Cancel | Action::Unrevive => continue,
            };
            written.push(Written { table: entry.table, before, after });
        }
        written
    }
}
