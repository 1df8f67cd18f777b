//! Deferrable UNIQUE and PRIMARY KEY constraints: at most one row has the key at the end of a statement, or
//! of the transaction that defers the check.
//!
//! Storage allows duplicates in the index of such a key. The check reads the rows that have the key, so two
//! transactions that write the same key never both commit. Held by:
//! `crates/reprise/tests/suite/deferrable_keys.rs`.

use super::reference::{each_of, key_prefix};
use super::violations::Violated;
use crate::execution::constraint_modes::ConstraintModes;
use crate::{Failure, NestedScans};
use catalog::{Arena, Datum, Deferral, Table};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A deferrable UNIQUE or PRIMARY KEY constraint.
#[derive(Clone, Debug)]
pub struct DeferrableKey {
    /// Its name, without its schema.
    pub name: String,
    /// The table that has it.
    pub table: Arc<Table>,
    /// Position of its index in the table.
    pub index: usize,
}

impl DeferrableKey {
    /// Returns the deferrable keys of a table.
    pub(super) fn of(table: &Arc<Table>) -> Vec<Self> {
        let indexes = table.indexes.iter().enumerate().filter(|(_, index)| index.is_deferrable());
        let key = |(position, index): (usize, &catalog::Index)| Self {
            name: table.short_constraint(&index.name).into(),
            table: Arc::clone(table),
            index: position,
        };
        indexes.map(key).collect()
    }

    /// Returns when it is checked.
    pub fn deferral(&self) -> Deferral {
        self.table.indexes[self.index].rules.deferral
    }

    /// Returns whether it is checked at the end of the transaction.
    pub fn is_deferred(&self, modes: &ConstraintModes) -> bool {
        modes.defers(self.deferral(), self.table.id, &self.name)
    }

    /// Returns the beginning of the index's keys that belong to the key of a row; `None` if its NULLs allow
    /// any number of such rows.
    pub fn prefix(&self, row: &[Datum], arena: &Arena) -> Option<Vec<u8>> {
        let index = &self.table.indexes[self.index];
        let values: Vec<Datum> = index.columns.iter().map(|column| row[*column]).collect();
        let counts = index.rules.nulls_equal || !values.iter().any(|value| value.is_null());
        counts.then(|| key_prefix(&self.table, &index.columns, &values, self.index, arena))
    }

    /// Checks that at most one row has the key of each of these rows, which were written.
    ///
    /// # Errors
    /// `23505`: two rows have the key. A conflict.
    pub fn check<'r, D: NestedScans>(
        &self,
        rows: impl Iterator<Item = &'r [Datum]> + Clone,
        arena: &Arena,
        data: &mut D,
    ) -> Result<(), Failure> {
        let mut written: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        for prefix in rows.clone().filter_map(|row| self.prefix(row, arena)) {
            *written.entry(prefix).or_default() += 1;
        }
        let mut doubled = BTreeMap::new();
        for row in rows {
            let Some(prefix) = self.prefix(row, arena) else { continue };
            // The error names the first row that, when it was written, was not alone.
            match doubled.get(&prefix) {
                Some(false) => continue,
                Some(true) => return Err(Violated::Unique(self.index).error(&self.table, row, arena).into()),
                None => {}
            }
            let found = self.count(&prefix, data)?;
            if found > 1 && found > written[&prefix] {
                return Err(Violated::Unique(self.index).error(&self.table, row, arena).into());
            }
            doubled.insert(prefix, found > 1);
        }
        Ok(())
    }

    /// Counts the rows whose keys begin with a prefix.
    fn count<D: NestedScans>(&self, prefix: &[u8], data: &mut D) -> Result<usize, Failure> {
        let (mut found, mut arena) = (0, Arena::default());
        each_of(&self.table, self.index, prefix, data, |row, data| {
            found += usize::from(data.read(row, &[], &mut arena, &mut [])?);
            Ok(true)
        })?;
        Ok(found)
    }
}
