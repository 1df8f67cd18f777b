//! A foreign key with its two tables: looks up referenced and referencing rows.

use crate::execution::constraint_modes::ConstraintModes;
use crate::query::Buffer;
use crate::{Check, Expression, Failure, NestedScans, ScanRange, SqlError};
use catalog::{Arena, Datum, Deferral, ForeignKey, ReferenceAction, Table, successor};
use std::sync::Arc;

/// A foreign key, with the tables of both ends.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Its name.
    pub name: String,
    /// The table that has it.
    pub table: Arc<Table>,
    /// The referencing columns, in the order of the parent's index.
    pub columns: Vec<usize>,
    /// The table that is referenced.
    pub parent: Arc<Table>,
    /// The referenced columns, in the same order.
    pub parent_columns: Vec<usize>,
    /// Position of the unique index of the referenced columns.
    pub parent_index: usize,
    /// The action when a referenced row is deleted.
    pub on_delete: ReferenceAction,
    /// The action when the key of a referenced row changes.
    pub on_update: ReferenceAction,
    /// When rows are checked.
    pub deferral: Deferral,
    /// Position of an index of the table whose first columns are the referencing columns, in any order.
    by_index: Option<usize>,
    /// The new values of the columns when the referenced row is deleted or its key changes.
    pub change: KeyChange,
}

/// The new values of the columns of a foreign key, and the constraints of a row with these values. The
/// registers hold the row, then the referenced columns of its parent.
#[derive(Clone, Debug, Default)]
pub struct KeyChange {
    /// Number of registers.
    pub registers: usize,
    /// The values of the columns that follow from the parent's columns.
    pub values: Vec<Expression>,
    /// The defaults of the columns.
    pub defaults: Vec<Expression>,
    /// Generated columns, and their values of the row.
    pub generated: Vec<(usize, Expression)>,
    /// The CHECK constraints on the row.
    pub checks: Vec<Check>,
    /// Whether the defaults depend on the time or on random values.
    pub depends_on_call: bool,
    /// The error of every change of a row, if the change cannot be executed.
    pub refused: Option<Box<SqlError>>,
}

impl Reference {
    pub(super) fn new(
        table: &Arc<Table>,
        key: &ForeignKey,
        parent: &Arc<Table>,
        change: impl FnOnce(&Self) -> KeyChange,
    ) -> Option<Self> {
        let parent_index = parent.unique_index_of(&key.parent_columns)?;
        let parent_columns = parent.indexes[parent_index].columns.clone();
        let position = |column: &usize| key.parent_columns.iter().position(|referenced| referenced == column);
        let order: Vec<usize> = parent_columns.iter().map(position).collect::<Option<_>>()?;
        let columns: Vec<usize> = order.iter().map(|position| key.columns[*position]).collect();
        let by_index = table.indexes.iter().position(|index| {
            let first = index.columns.get(..columns.len());
            first.is_some_and(|first| columns.iter().all(|column| first.contains(column)))
        });
        let mut reference = Self {
            name: key.name.clone(),
            table: Arc::clone(table),
            columns,
            parent: Arc::clone(parent),
            parent_columns,
            parent_index,
            on_delete: key.on_delete,
            on_update: key.on_update,
            deferral: key.deferral,
            by_index,
            change: KeyChange::default(),
        };
        reference.change = change(&reference);
        Some(reference)
    }

    /// Returns the values of the referencing columns in a row.
    fn values_of(&self, row: &[Datum]) -> Vec<Datum> {
        self.columns.iter().map(|column| row[*column]).collect()
    }

    /// Checks that the row which a row references exists.
    ///
    /// # Errors
    /// `23503`: it does not exist. A conflict.
    pub fn require<D: NestedScans>(
        &self,
        row: &[Datum],
        arena: &mut Arena,
        data: &mut D,
    ) -> Result<(), Failure> {
        let values = self.values_of(row);
        if values.iter().any(|value| value.is_null()) || self.has_parent(&values, arena, data)? {
            return Ok(());
        }
        Err(self.missing(&values, arena).into())
    }

    /// Returns whether a row still has the referencing values that the statement wrote. A foreign key's
    /// action may have deleted the row or changed the values; the new values are then checked by that action.
    pub(super) fn is_current<D: NestedScans>(
        &self,
        row: &[Datum],
        arena: &mut Arena,
        data: &mut D,
    ) -> Result<bool, Failure> {
        let table = &self.table;
        let primary = &table.primary().columns;
        let values: Vec<Datum> = primary.iter().map(|column| row[*column]).collect();
        let key = key_prefix(table, primary, &values, 0, arena);
        let Some(found) = data.find(table, &key)? else { return Ok(false) };
        let slots: Vec<_> = self.columns.iter().map(|column| table.layout.slots()[*column]).collect();
        let mut values = vec![Datum::Null; slots.len()];
        if !data.read(found, &slots, arena, &mut values)? {
            return Ok(false);
        }
        Ok(self.encoded(&values, arena) == self.encoded(&self.values_of(row), arena))
    }

    /// Returns whether it is checked at the end of the transaction.
    pub fn is_deferred(&self, modes: &ConstraintModes) -> bool {
        modes.defers(self.deferral, self.table.id, &self.name)
    }

    /// Returns the error of a row whose referenced row does not exist.
    pub fn missing(&self, values: &[Datum], arena: &Arena) -> SqlError {
        let message = format!(
            "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
            self.table.short_name(),
            self.name
        );
        let key = self.table.key_text(&self.columns, values, arena);
        let detail = format!("{key} is not present in table \"{}\".", self.parent.short_name());
        SqlError::new("23503", message).with_detail(detail).with_constraint(&self.table, &self.name)
    }

    /// Returns the prefix of the key that a row with these values references, in the parent's unique index.
    pub fn parent_key(&self, values: &[Datum], arena: &Arena) -> Vec<u8> {
        key_prefix(&self.parent, &self.parent_columns, values, self.parent_index, arena)
    }

    /// Returns whether a row with the referenced key exists.
    pub(super) fn has_parent<D: NestedScans>(
        &self,
        values: &[Datum],
        arena: &mut Arena,
        data: &mut D,
    ) -> Result<bool, Failure> {
        let lower = self.parent_key(values, arena);
        if self.parent_index == 0 {
            return match data.find(&self.parent, &lower)? {
                Some(row) => data.read(row, &[], arena, &mut []),
                None => Ok(false),
            };
        }
        let mut found = false;
        each_of(&self.parent, self.parent_index, &lower, data, |row, data| {
            found |= data.read(row, &[], arena, &mut [])?;
            Ok(!found)
        })?;
        Ok(found)
    }

    /// Returns the rows that reference a key: the number of each row, and all of its columns.
    pub(super) fn users<D: NestedScans>(
        &self,
        values: &[Datum],
        arena: &mut Arena,
        data: &mut D,
    ) -> Result<Buffer, Failure> {
        let slots = self.table.layout.slots();
        let mut rows = Buffer::new(slots.len() + 1);
        let index = self.by_index.unwrap_or(0);
        let lower = match self.by_index {
            Some(index) => key_prefix(&self.table, &self.columns, values, index, arena),
            None => Vec::new(),
        };
        let mut row = vec![Datum::Null; slots.len()];
        // Keys of both tables are compared as the parent's index encodes them.
        let wanted = self.encoded(values, arena);
        each_of(&self.table, index, &lower, data, |found, data| {
            let mark = arena.mark();
            if data.read(found, slots, arena, &mut row)? {
                let referencing = self.values_of(&row);
                if !referencing.iter().any(|value| value.is_null())
                    && self.encoded(&referencing, arena) == wanted
                {
                    let number = Datum::Int(data.keep(found));
                    rows.push(std::iter::once(number).chain(row.iter().copied()), arena)?;
                }
            }
            arena.release(mark);
            Ok(true)
        })?;
        Ok(rows)
    }

    /// Returns values of the referenced columns as the parent's index encodes them.
    pub(super) fn encoded(&self, values: &[Datum], arena: &Arena) -> Vec<u8> {
        let mut key = Vec::new();
        for (column, value) in self.parent_columns.iter().zip(values) {
            self.parent.encode_key_column(*column, *value, arena, &mut key);
        }
        key
    }
}

/// Returns the prefix of an index's keys that belong to rows whose columns have these values.
pub(super) fn key_prefix(
    table: &Table,
    columns: &[usize],
    values: &[Datum],
    index: usize,
    arena: &Arena,
) -> Vec<u8> {
    let mut key = Vec::new();
    for column in &table.indexes[index].columns[..columns.len()] {
        let position = columns.iter().position(|known| known == column);
        let value = position.map_or(Datum::Null, |position| values[position]);
        table.encode_key_column(*column, value, arena, &mut key);
    }
    key
}

/// Visits the rows of an index whose keys begin with `lower`, until `each` returns false.
pub(super) fn each_of<D: NestedScans>(
    table: &Table,
    index: usize,
    lower: &[u8],
    data: &mut D,
    mut each: impl FnMut(D::Row, &mut D) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let mut upper = lower.to_vec();
    successor(&mut upper);
    let upper = (!upper.is_empty()).then_some(upper.as_slice());
    data.enter_scan();
    let mut run = || {
        data.open_scan(table, ScanRange { index, lower, upper, backward: false })?;
        while let Some(row) = data.next_row()? {
            if !each(row, data)? {
                break;
            }
        }
        Ok(())
    };
    let ran = run();
    data.leave_scan();
    ran
}
