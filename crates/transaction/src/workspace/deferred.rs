//! Constraints that a transaction checks at its end, for the rows of its write set: foreign keys and unique
//! keys.
//!
//! What statements have written in between does not count, so savepoints need no care, and a row that was
//! written twice is checked once. The checks are reads of the transaction, which its commit validates.
//! Held by: `crates/reprise/tests/suite/deferred.rs` and `deferrable_keys.rs`.

use super::Workspace;
use super::write_set::Action;
use crate::Tables;
use catalog::{Arena, Datum, TableId};
use procedure::{ConstraintModes, DeferrableKey, Failure, ForeignKeys, Reference};
use std::sync::Arc;

/// A row that the transaction has written.
struct Written {
    table: TableId,
    /// The row before the transaction; `None` if there was none.
    before: Option<Vec<Datum>>,
    /// The row that the transaction leaves; `None` if it leaves none.
    after: Option<Vec<Datum>>,
}

impl Written {
    /// Returns the row that the transaction leaves, if it has another value of a key than before.
    fn with_another(&self, key: &DeferrableKey, arena: &Arena) -> Option<&[Datum]> {
        let after = self.after.as_deref()?;
        let before = self.before.as_deref().and_then(|before| key.prefix(before, arena));
        (before.is_none() || key.prefix(after, arena) != before).then_some(after)
    }
}

impl Workspace {
    /// Returns whether the transaction has written rows of a table that a deferred constraint concerns: rows
    /// with new values of its columns, or rows without the values that a foreign key references.
    pub fn has_deferred(&self, table: TableId, keys: &ForeignKeys, modes: &ConstraintModes) -> bool {
        let deferred = |own: &&Reference| own.is_deferred(modes);
        let references: Vec<_> = keys.references_of(table).iter().filter(deferred).collect();
        let users: Vec<_> = keys.references_to(table).iter().filter(deferred).collect();
        let unique = keys.deferrable_keys_of(table).iter();
        let unique: Vec<_> = unique.filter(|own| own.is_deferred(modes)).collect();
        if references.is_empty() && users.is_empty() && unique.is_empty() {
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
                Action::Insert | Action::Revive => !references.is_empty() || !unique.is_empty(),
                Action::Delete => !users.is_empty(),
                Action::Update => {
                    references.iter().any(|own| changes(&own.columns))
                        || users.iter().any(|own| changes(&own.parent_columns))
                        || unique.iter().any(|own| changes(&definition.indexes[own.index].columns))
                }
                Action::Cancel | Action::Unrevive => false,
            }
        })
    }

    /// Checks the constraints that `before` defers and `after` does not, for all rows that the transaction
    /// has written. At the end of the transaction there is no `after`.
    ///
    /// # Errors
    /// `23503`, `23505`: a row breaks one. A conflict.
    pub fn check_deferred(
        &mut self,
        keys: &ForeignKeys,
        before: &ConstraintModes,
        after: Option<&ConstraintModes>,
    ) -> Result<(), Failure> {
        let mut arena = Arena::default();
        let is_meant =
            |own: &Reference| own.is_deferred(before) && !after.is_some_and(|now| own.is_deferred(now));
        let is_checked =
            |own: &&DeferrableKey| own.is_deferred(before) && !after.is_some_and(|now| own.is_deferred(now));
        let concerned = |table: TableId| {
            keys.deferrable_keys_of(table).iter().any(|own| is_checked(&own))
                || keys.references_of(table).iter().chain(keys.references_to(table)).any(is_meant)
        };
        let written = self.written_rows(&concerned, &mut arena);
        let mut tables: Vec<TableId> = written.iter().map(|row| row.table).collect();
        tables.sort_unstable();
        tables.dedup();
        for table in tables {
            for key in keys.deferrable_keys_of(table).iter().filter(is_checked) {
                let rows = written.iter().filter(|row| row.table == table);
                let rows = rows.filter_map(|row| row.with_another(key, &arena));
                key.check(rows, &arena, self)?;
            }
        }
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
