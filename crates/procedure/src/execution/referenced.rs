//! Referenced rows that are deleted or change their key: the error if rows still reference one, and the check
//! at the end of a transaction.

use super::reference::Reference;
use crate::{Failure, NestedScans, SqlError};
use catalog::{Arena, Datum};

impl Reference {
    /// Returns the error of the deletion or change of a row that rows still reference.
    pub(super) fn still_used(&self, key: &[Datum], arena: &Arena) -> SqlError {
        let Self { name, table, parent, parent_columns, .. } = self;
        let (referenced, user) = (parent.short_name(), table.short_name());
        let message = format!(
            "update or delete on table \"{referenced}\" violates foreign key constraint \"{name}\" \
            on table \"{user}\""
        );
        let key = parent.key_text(parent_columns, key, arena);
        let detail = format!("{key} is still referenced from table \"{user}\".");
        SqlError::new("23503", message).with_detail(detail).with_constraint(table, name)
    }

    /// Checks, at the end of a transaction, a row of the referenced table that the transaction has deleted or
    /// given another key: no row references the old key, or another row has it.
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
        if key.iter().any(|value| value.is_null()) || self.has_parent(&key, arena, data)? {
            return Ok(());
        }
        match self.users(&key, arena, data)?.len() {
            0 => Ok(()),
            _ => Err(self.still_used(&key, arena).into()),
        }
    }
}
