//! Names of constraints: a name is unique within a table, and a generated name within a schema.

use super::TableBuilder;
use crate::StatementError;
use crate::full_names::{in_schema_of, short};
use crate::generated_names::GeneratedName;
use catalog::NewTable;
use procedure::SqlError;
use squawk_syntax::SyntaxNode;

impl TableBuilder<'_> {
    /// Returns the name of a new CHECK or foreign key: the given name, or a generated one.
    pub(crate) fn constraint_name(
        &self,
        name: Option<String>,
        made: &GeneratedName<'_>,
        node: &SyntaxNode,
    ) -> Result<String, StatementError> {
        if let Some(name) = name.as_deref().filter(|name| self.has_key(name)) {
            return Err(self.already_there(name, node));
        }
        let is_taken =
            |name: &str| self.has_key(name) || self.has_condition(name) || self.is_in_another_table(name);
        Ok(self.unused(name, node)?.unwrap_or_else(|| made.first_free(is_taken)))
    }

    fn already_there(&self, name: &str, node: &SyntaxNode) -> StatementError {
        let message = format!("constraint \"{name}\" for relation \"{}\" already exists", self.short_name());
        self.binder.error(node, SqlError::new("42710", message))
    }

    /// Returns the given name of a key, unless a CHECK or foreign key of the table has it. The catalog
    /// refuses a name that another index has.
    pub(super) fn unused(
        &self,
        name: Option<String>,
        node: &SyntaxNode,
    ) -> Result<Option<String>, StatementError> {
        match name {
            Some(name) if self.has_condition(&name) => Err(self.already_there(&name, node)),
            name => Ok(name),
        }
    }

    /// Returns whether the table has a key of this name.
    fn has_key(&self, name: &str) -> bool {
        let indexes = self.table.indexes.iter().filter(|index| index.is_constraint);
        let new = self.primary.iter().chain(&self.uniques).filter_map(|key| key.name.as_deref());
        indexes.map(|index| short(&index.name)).chain(new).any(|known| known == name)
    }

    /// Returns whether the table has a CHECK or a foreign key of this name.
    fn has_condition(&self, name: &str) -> bool {
        let NewTable { checks, foreign_keys, .. } = &self.table;
        let keys = foreign_keys.iter().chain(self.references.iter().map(|(key, ..)| key));
        checks.iter().map(|(known, _)| known).chain(keys.map(|key| &key.name)).any(|known| known == name)
    }

    /// Returns whether another table of the same schema has a CHECK or a foreign key of this name.
    fn is_in_another_table(&self, name: &str) -> bool {
        let tables = self.binder.schema.catalog().tables().filter(|other| {
            other.name != self.table.name
                && in_schema_of(&self.table.name, short(&other.name).into()) == other.name
        });
        tables.into_iter().any(|other| {
            let keys = other.foreign_keys.iter().map(|key| &key.name);
            other.checks.iter().map(|(known, _)| known).chain(keys).any(|known| known == name)
        })
    }

    /// Returns the name of a new key's index: the given name, or a generated one.
    pub(super) fn key_name(&self, name: Option<String>, made: &GeneratedName<'_>) -> String {
        let (table, schema) = (&self.table, self.binder.schema);
        if let Some(name) = name {
            return in_schema_of(&table.name, name);
        }
        // An index of this table does not count, because this statement may drop it.
        let is_elsewhere = |name: &str| match schema.catalog().index(name) {
            Ok((owner, _)) => owner.name != table.name,
            Err(_) => schema.relation_exists(name),
        };
        made.first_free_in_schema(|name| {
            let is_own = table.indexes.iter().any(|index| index.name == name);
            is_own
                || is_elsewhere(name)
                || self.has_condition(short(name))
                || self.is_in_another_table(short(name))
        })
    }
}
