//! Referenced rows that go: the error of one that is still used, and the check at the end of a transaction.

use super::foreign_keys::Reference;
use crate::{Failure, NestedScans, SqlError};
use catalog::{Arena, Datum};

impl Reference {
    /// Returns the error of a referenced row that goes although rows reference it.
    pub(super) fn still_used(&self, key: &[Datum], arena: &Arena) -> SqlError {
        let Self { name, table, parent, parent_columns, .. } = self;
        let (own, user) = (parent.short_name(), table.short_name());
        let message = format!(
            "update or delete on table \"{own}\" violates foreign key constraint \"{name}\" \
            on table \"{user}\""
        );
        let key = parent.key_text(parent_columns, key, arena);
        let detail = format!("{key} is still referenced from table \"{user}\".");
        SqlError::new("23503", message).with_detail(detail).with_constraint(table, name)
    }

    /// Checks a row of the referenced table that a transaction has deleted or given another key, at its end:
    /// no row references the old key, or another row has it.
    ///
    /// # Errors
    /// `23503`: a row references it. A conflict.
    pub fn require_unused<D: NestedScans>(
        &self,
        row: &[Datum],
        arena: &mut Arena,
        data: &mut D,
    ) -> Result<(), Failure> {
        let key: Vec<Datum> = self.parent_columns.iter().map(|column| row[*column]).collect();
        if key.iter().any(|value| value.is_null()) || self.is_there(&key, arena, data)? {
            return Ok(());
        }
        match self.users(&key, arena, data)?.len() {
            0 => Ok(()),
            _ => Err(self.still_used(&key, arena).into()),
        }
    }
}
