//! The values in the details of errors: a role that may not read them is not told.
//! Source: PostgreSQL 15, `BuildIndexValueDescription` and `ri_ReportViolation`.
//!
//! The row of a violated NOT NULL or CHECK is shown to roles that may read the whole table. PostgreSQL shows
//! any other role the columns that it may read.

use super::acl::{RoleId, SELECT};
use crate::schema::Schema;
use catalog::Table;
use procedure::SqlError;
use std::sync::Arc;

impl Schema {
    /// Returns an error without values that a role may not read.
    #[must_use]
    pub fn without_hidden_values(&self, role: u32, error: SqlError) -> SqlError {
        let (Some(object), Some(_)) = (&error.object, &error.detail) else { return error };
        let table = match object.schema.as_str() {
            "public" => object.table.clone(),
            schema => format!("{schema}.{}", object.table),
        };
        let Ok(table) = self.catalog.table(&table) else { return error };
        let reads = |table: &Table, columns: &[usize]| self.reads_columns(role, table, columns);
        let detail = match error.sqlstate.as_str() {
            "23505" => {
                let index =
                    table.indexes.iter().find(|own| table.short_constraint(&own.name) == object.constraint);
                match index.is_some_and(|index| reads(table, &index.columns)) {
                    true => return error,
                    false => None,
                }
            }
            "23503" => match self.hidden_detail(role, table, &object.constraint, &error) {
                Some(detail) => Some(detail),
                None => return error,
            },
            "23502" | "23514" => match reads(table, &(0..table.columns.len()).collect::<Vec<_>>()) {
                true => return error,
                false => None,
            },
            _ => return error,
        };
        SqlError { detail, ..error }
    }

    /// Returns whether a role may read columns of a table.
    fn reads_columns(&self, role: RoleId, table: &Table, columns: &[usize]) -> bool {
        let names: Vec<String> = columns.iter().map(|place| table.columns[*place].name.clone()).collect();
        self.may_use_columns(role, &table.name, SELECT, &names)
    }

    /// Returns the detail of a violated foreign key without its values; `None` if the role may read them.
    fn hidden_detail(
        &self,
        role: RoleId,
        table: &Arc<Table>,
        name: &str,
        error: &SqlError,
    ) -> Option<String> {
        let key = table.foreign_keys.iter().find(|key| key.name == name)?;
        let is_removal = error.message.starts_with("update or delete");
        let (read, columns) = match is_removal {
            true => (self.catalog.table(&key.parent).ok()?, &key.parent_columns),
            false => (table, &key.columns),
        };
        if self.reads_columns(role, read, columns) {
            return None;
        }
        let parent = crate::full_names::short(&key.parent);
        Some(match is_removal {
            true => format!("Key is still referenced from table \"{}\".", table.short_name()),
            false => format!("Key is not present in table \"{parent}\"."),
        })
    }
}
