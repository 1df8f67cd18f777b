//! The rules that partitions add to a write: its row fits a partition, and a row written through a partition
//! stays within it.
//!
//! As in PostgreSQL, a row finds its partition before other constraints are checked, but a leaf checks its
//! bound after them.

use crate::binder::Binder;
use crate::error::StatementError;
use crate::full_names::short;
use crate::schema::Schema;
use catalog::Table;
use procedure::{Check, CheckOwner, Expression, Register};
use squawk_syntax::SyntaxNode;
use std::sync::Arc;

impl Schema {
    /// Returns whether a view is a partition.
    pub(crate) fn is_partition(&self, name: &str) -> bool {
        self.partitions.members.contains_key(name)
    }

    /// Returns the root of a partition with the defaults of the partition; `None` if they are the same.
    pub(crate) fn with_defaults_of(&self, name: &str) -> Option<Arc<Table>> {
        let partition = self.partitions.members.get(name).filter(|own| !own.defaults.is_empty())?;
        let mut table = Table::clone(self.catalog.table(&partition.root).ok()?);
        partition.set_defaults(&mut table.columns);
        Some(Arc::new(table))
    }

    /// Returns whether a relation is divided into partitions.
    pub fn is_partitioned(&self, name: &str) -> bool {
        self.partitions.keys.contains_key(name)
    }
}

impl Binder<'_> {
    /// Adds the checks that a row of a table finds a partition, before other ones. `set` are the columns that
    /// the statement sets in an existing row; `None` for a new row.
    pub(crate) fn check_partitions(
        &mut self,
        table: &Table,
        registers: Register,
        set: Option<&[usize]>,
        node: &SyntaxNode,
    ) -> Result<Vec<Check>, StatementError> {
        let schema = self.schema;
        if !schema.is_partitioned(&table.name) {
            return Ok(Vec::new());
        }
        let sets_key = set.is_none_or(|set| {
            let is_key = |column: &usize| {
                schema.partitions.keyed_by(&table.name, &table.columns[*column].name).is_some()
            };
            // A trigger may set any column of the row.
            !table.triggers.is_empty() || set.iter().any(is_key)
        });
        if !sets_key {
            return Ok(Vec::new());
        }
        self.find_partitions(&table.name, table, registers, node)
    }

    /// Binds the conditions that a row finds a partition of a relation, and of those within it.
    fn find_partitions(
        &mut self,
        name: &str,
        table: &Table,
        registers: Register,
        node: &SyntaxNode,
    ) -> Result<Vec<Check>, StatementError> {
        let schema = self.schema;
        let mut checks = Vec::new();
        for divided in schema.partitions.divided_within(name) {
            let any = schema.condition_of_any(&divided);
            if any == "true" {
                continue;
            }
            let text = match schema.partition_condition(&divided) {
                Some(within) => format!("(NOT {within}) OR {any}"),
                None => any,
            };
            let condition = self.condition_of_row(&text, table, registers, node)?;
            let columns = schema.partitions.keys[&divided].columns.iter();
            let columns = columns.filter_map(|column| table.column(column)).collect();
            let (name, owner) = (divided, CheckOwner::Divided(columns));
            checks.push(Check { name, owner, condition });
        }
        Ok(checks)
    }

    fn condition_of_row(
        &mut self,
        text: &str,
        table: &Table,
        registers: Register,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        self.bind_definition(text, node, |binder, condition| {
            binder.over_row(table, registers, |binder| binder.bind_condition(condition))
        })
    }

    /// Makes the rules of a root those of a write through a partition.
    pub(crate) fn within_partition(
        &mut self,
        name: &str,
        table: &Table,
        registers: Register,
        checks: &mut Vec<Check>,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        checks.retain(|check| !matches!(check.owner, CheckOwner::Divided(_)));
        let text = self.schema.partition_condition(name).unwrap_or_else(|| "true".into());
        let condition = self.condition_of_row(&text, table, registers, node)?;
        let own = Check { name: name.to_owned(), owner: CheckOwner::Partition, condition };
        if !self.schema.is_partitioned(name) {
            checks.push(own);
            return Ok(());
        }
        let mut first = vec![own];
        first.append(&mut self.find_partitions(name, table, registers, node)?);
        checks.splice(0..0, first);
        Ok(())
    }

    /// Refuses ONLY before a partitioned relation, which has no rows of its own.
    pub(crate) fn refuse_only(&self, name: &str, node: &SyntaxNode) -> Result<(), StatementError> {
        match self.schema.is_partitioned(name) {
            true => {
                Err(self.unsupported(node, &format!("ONLY of the partitioned table \"{}\"", short(name))))
            }
            false => Ok(()),
        }
    }
}
