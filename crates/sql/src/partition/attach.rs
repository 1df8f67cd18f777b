//! ATTACH PARTITION and DETACH PARTITION: a table that becomes a partition, and the reverse.
//!
//! The definition of ATTACH gives the table another name. The statements of `moved` then copy its rows to the
//! root, and drop it. The definition of DETACH creates an empty table.

use super::Partition;
use super::index_names::partition_index;
use crate::binder::Binder;
use crate::error::StatementError;
use crate::full_names::short;
use crate::schema::{Schema, refused};
use crate::session_schema::is_temporary_name;
use crate::source::{At, Source};
use crate::types::object_name;
use catalog::{ForeignKey, Index, NewTable, Table};
use procedure::{Effect, SqlError};
use squawk_syntax::ast::{self, AstNode};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns the name of a table whose rows are about to become those of a partition.
pub(super) fn name_aside(name: &str) -> String {
    format!("{name} (attached)")
}

/// Returns the names of columns of a table.
fn names_of<'t>(table: &'t Table, columns: &[usize]) -> Vec<&'t str> {
    columns.iter().map(|column| table.columns[*column].name.as_str()).collect()
}

/// Returns whether an index of a table is one of another table.
fn is_same_index(table: &Table, index: &Index, other: &Table, known: &Index) -> bool {
    names_of(table, &index.columns) == names_of(other, &known.columns)
        && index.unique == known.unique
        && index.rules == known.rules
        && index.details.condition == known.details.condition
}

fn is_same_key(table: &Table, key: &ForeignKey, other: &Table, known: &ForeignKey) -> bool {
    names_of(table, &key.columns) == names_of(other, &known.columns)
        && key.parent == known.parent
        && key.parent_columns == known.parent_columns
}

impl Schema {
    /// Executes ATTACH PARTITION.
    pub(super) fn attach(
        &mut self,
        parent: &str,
        attach: &ast::AttachPartition,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let at = At { source, node: attach.syntax() };
        let name = self.partition_to_attach(parent, attach, at)?;
        let table = Binder::new(self, source).table(&name, at.node)?;
        let indexes = self.check_attached(&table, parent, at)?;
        let bound = self.read_bound(attach.partition_type(), parent, &name, at)?;
        let mut aside = Table::clone(&table);
        aside.name = name_aside(&name);
        if aside.hidden_key {
            aside.indexes[0].name = format!("{}.(row)", aside.name);
        }
        let aside = self.catalog.redefine(&name, aside).map_err(|error| refused(source, at.node, &error))?;
        let root = self.partitions.root_of(parent).to_owned();
        let of_root = Binder::new(self, source).table(&root, at.node)?;
        let own = table.visible().iter().map(|column| (column.name.clone(), column.default.clone()));
        let is_counted = |name: &str| {
            of_root.column(name).is_some_and(|column| of_root.columns[column].identity.is_some())
        };
        let defaults = own.filter(|(name, _)| !is_counted(name)).collect();
        self.partitions.members_of(&name).for_each(|within| within.root.clone_from(&root));
        let partition = Partition { indexes, defaults, ..Partition::new(root, parent.to_owned(), bound) };
        self.partitions.members.insert(name, Arc::new(partition));
        self.check_keys_of_partitions(&of_root, at)?;
        self.renew_partitions();
        self.recompile(source, at.node)?;
        Ok(Effect::Redefine(aside))
    }

    /// Returns the name of the table that ATTACH PARTITION names.
    pub(super) fn partition_to_attach(
        &self,
        parent: &str,
        attach: &ast::AttachPartition,
        at: At<'_>,
    ) -> Result<String, StatementError> {
        let binder = Binder::new(self, at.source);
        let path = binder.part(attach.table_name_ref().and_then(|name| name.path_ref()), at.node)?;
        let name = object_name(&path);
        let refuse =
            |code: &str, message: String| Err(binder.error(path.syntax(), SqlError::new(code, message)));
        if !self.is_partitioned(parent) {
            return refuse("42P17", format!("table \"{}\" is not partitioned", short(parent)));
        }
        if self.is_partition(&name) {
            return refuse("42809", format!("\"{}\" is already a partition", short(&name)));
        }
        if self.catalog.table(&name).is_err() && self.view(&name).is_none() {
            return refuse("42P01", format!("relation \"{name}\" does not exist"));
        }
        let table = binder.table(&name, path.syntax())?;
        binder.refuse_sequence(&table, path.syntax())?;
        if is_temporary_name(&name) {
            return Err(binder.unsupported(path.syntax(), "a temporary partition"));
        }
        Ok(name)
    }

    /// Checks that a table may become a partition. Returns the names of its indexes, with those of the root.
    fn check_attached(
        &self,
        table: &Table,
        parent: &str,
        at: At<'_>,
    ) -> Result<BTreeMap<String, String>, StatementError> {
        let binder = Binder::new(self, at.source);
        let root = binder.table(self.partitions.root_of(parent), at.node)?;
        self.check_columns(table, &root, parent, at)?;
        let error = |message: String| Err(binder.error(at.node, SqlError::new("42804", message)));
        if let Some((name, _)) = root.checks.iter().find(|own| !table.checks.contains(own)) {
            return error(format!("child table is missing constraint \"{name}\""));
        }
        let what = if table.checks.len() > root.checks.len() {
            Some("with a CHECK that the partitioned table lacks")
        } else if !table.triggers.is_empty() {
            Some("with triggers")
        } else if self.catalog.references_to(&table.name).next().is_some() {
            Some("that foreign keys reference")
        } else if self.catalog.tables().any(|own| {
            own.sequence.as_ref().and_then(|own| own.owner.as_ref()).is_some_and(|own| own.0 == table.name)
        }) {
            Some("with sequences")
        } else if table
            .foreign_keys
            .iter()
            .any(|key| !root.foreign_keys.iter().any(|known| is_same_key(table, key, &root, known)))
        {
            Some("with a foreign key that the partitioned table lacks")
        } else {
            None
        };
        if let Some(what) = what {
            return Err(binder.unsupported(at.node, &format!("ATTACH PARTITION of a table {what}")));
        }
        let mut names = BTreeMap::new();
        for index in table.indexes.iter().skip(usize::from(table.hidden_key)) {
            let known = root.indexes.iter().skip(usize::from(root.hidden_key));
            let mut known = known.filter(|known| is_same_index(table, index, &root, known));
            let Some(known) = known.next() else {
                let what = "ATTACH PARTITION of a table with an index that the partitioned table lacks";
                return Err(binder.unsupported(at.node, what));
            };
            names.insert(index.name.clone(), known.name.clone());
        }
        Ok(names)
    }

    fn check_columns(
        &self,
        table: &Table,
        root: &Table,
        parent: &str,
        at: At<'_>,
    ) -> Result<(), StatementError> {
        let binder = Binder::new(self, at.source);
        let (child, parent) = (table.short_name(), short(parent));
        let error = |message: String| binder.error(at.node, SqlError::new("42804", message));
        if let Some(own) = table.visible().iter().find(|own| root.column(&own.name).is_none()) {
            let message = format!(
                "table \"{child}\" contains column \"{}\" not found in parent \"{parent}\"",
                own.name
            );
            let detail = "The new partition may contain only the columns present in parent.";
            let error = SqlError::new("42804", message).with_detail(detail);
            return Err(binder.error(at.node, error));
        }
        for column in root.visible() {
            let name = &column.name;
            let Some(own) = table.visible().iter().find(|own| own.name == *name) else {
                return Err(error(format!("child table is missing column \"{name}\"")));
            };
            if own.ty != column.ty || own.domain != column.domain {
                return Err(error(format!(
                    "child table \"{child}\" has different type for column \"{name}\""
                )));
            }
            if own.nullable && !column.nullable {
                return Err(error(format!("column \"{name}\" in child table must be marked NOT NULL")));
            }
            let is_generated = own.generated || column.generated;
            let differs = if own.nullable != column.nullable {
                Some("is NOT NULL")
            } else if is_generated && (own.generated, &own.default) != (column.generated, &column.default) {
                Some("is generated in another way")
            } else if own.identity.is_some() {
                Some("is an identity")
            } else {
                None
            };
            if let Some(what) = differs {
                let what = format!("ATTACH PARTITION of a table whose column \"{name}\" {what}");
                return Err(binder.unsupported(at.node, &what));
            }
        }
        let names = |table: &Table| -> Vec<String> {
            table.visible().iter().map(|column| column.name.clone()).collect()
        };
        if names(table) != names(root) {
            let what = "ATTACH PARTITION of a table whose columns have another order";
            return Err(binder.unsupported(at.node, what));
        }
        Ok(())
    }

    /// Executes DETACH PARTITION.
    pub(super) fn detach(
        &mut self,
        parent: &str,
        detach: &ast::DetachPartition,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let at = At { source, node: detach.syntax() };
        let name = self.partition_to_detach(parent, detach, at)?;
        let partition = self.partitions.members[&name].clone();
        let root = Binder::new(self, source).table(&partition.root, at.node)?;
        self.remove_partition(&name);
        let mut new = NewTable::from(&*root);
        new.name.clone_from(&name);
        new.triggers.clear();
        for column in &mut new.columns {
            if column.identity.take().is_some() {
                column.default = None;
            }
        }
        partition.set_defaults(&mut new.columns);
        for (index, of_root) in new.indexes.iter_mut().zip(&root.indexes) {
            let known = partition.indexes.iter().find(|(_, name)| **name == of_root.name);
            let made = partition_index(&name, &root, of_root);
            index.name = match known {
                Some((own, _)) => own.clone(),
                None => made.first_free_in_schema(|name| self.relation_exists(name)),
            };
        }
        if new.hidden_key {
            new.indexes[0].name = format!("{name}.(row)");
        }
        let effect = self.add_table(new, source, at.node)?;
        self.recompile(source, at.node)?;
        Ok(effect)
    }

    /// Returns the name of the partition that DETACH PARTITION names.
    pub(super) fn partition_to_detach(
        &self,
        parent: &str,
        detach: &ast::DetachPartition,
        at: At<'_>,
    ) -> Result<String, StatementError> {
        let binder = Binder::new(self, at.source);
        let path = binder.part(detach.table_name_ref().and_then(|name| name.path_ref()), at.node)?;
        let name = object_name(&path);
        let refuse =
            |code: &str, message: String| Err(binder.error(path.syntax(), SqlError::new(code, message)));
        if let Some(option) = detach.detach_partition_option() {
            return Err(binder.unsupported(option.syntax(), "this form of DETACH PARTITION"));
        }
        if !self.is_partitioned(parent) {
            return refuse("42P17", format!("table \"{}\" is not partitioned", short(parent)));
        }
        if !self.relation_exists(&name) {
            return refuse("42P01", format!("relation \"{name}\" does not exist"));
        }
        if self.partitions.members.get(&name).is_none_or(|partition| partition.parent != parent) {
            let message =
                format!("relation \"{}\" is not a partition of relation \"{}\"", short(&name), short(parent));
            return refuse("42P01", message);
        }
        if self.is_partitioned(&name) {
            return Err(binder.unsupported(path.syntax(), "DETACH PARTITION of a partitioned table"));
        }
        Ok(name)
    }
}
