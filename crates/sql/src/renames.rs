//! Updates the references by name to a table and its parts when they are renamed: owners of sequences,
//! compiled triggers, comments, views (`followed`).
//!
//! Not here: foreign keys of other tables (`alter`).

use crate::schema::Schema;
use catalog::Table;
use std::sync::Arc;

impl Schema {
    /// Updates all references to a table by name. `column` returns the new name of a column; `None` if it is
    /// dropped.
    pub(crate) fn follow_names(
        &mut self,
        old: &Table,
        new: &Table,
        column: impl Fn(&str) -> Option<String>,
        renames_constraint: bool,
    ) {
        self.follow_in_views(old, new, &column);
        self.partitions.follow(&old.name, &new.name, &column);
        self.renew_partitions();
        self.rename_owner(old, new, &column);
        self.rename_table_of_triggers(&old.name, new);
        self.rename_comments(old, new, &column, renames_constraint);
    }

    /// Updates the owner of sequences whose table or column has a new name.
    fn rename_owner(&mut self, old: &Table, new: &Table, column: impl Fn(&str) -> Option<String>) {
        let renamed = |sequence_table: &Arc<Table>| {
            let (table, column_name) = sequence_table.sequence.as_ref()?.owner.as_ref()?;
            let owner = (new.name.clone(), column(column_name).unwrap_or_else(|| column_name.clone()));
            let is_changed = *table == old.name && (table, column_name) != (&owner.0, &owner.1);
            is_changed.then(|| (Table::clone(sequence_table), owner))
        };
        let owned: Vec<_> = self.catalog.tables().filter_map(renamed).collect();
        for (mut sequence_table, owner) in owned {
            sequence_table
                .sequence
                .as_mut()
                .into_iter()
                .for_each(|sequence| sequence.owner = Some(owner.clone()));
            // The name stays the same, so it cannot be taken.
            let name = sequence_table.name.clone();
            let _ = self.catalog.redefine(&name, sequence_table);
        }
    }
}
