//! CREATE TABLE … PARTITION BY and PARTITION OF, and the views that partitions are.

use super::bound::partition_key;
use super::{Bound, Partition, Partitions, Renewed};
use crate::binder::Binder;
use crate::error::StatementError;
use crate::full_names::short;
use crate::quoted::{quoted, quoted_path};
use crate::schema::{Schema, View};
use crate::session_schema::is_temporary_name;
use crate::simple_view::CheckOption;
use crate::source::{At, Source};
use crate::types::{made_name, object_name};
use catalog::Table;
use procedure::{Effect, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Schema {
    /// Divides a stored table, or a partition, by PARTITION BY.
    pub(crate) fn divide(
        &mut self,
        name: &str,
        by: &ast::PartitionBy,
        source: &Source,
    ) -> Result<(), StatementError> {
        let root = self.partitions.root_of(name);
        let binder = Binder::new(self, source);
        if is_temporary_name(root) {
            return Err(binder.unsupported(by.syntax(), "a temporary partitioned table"));
        }
        let table = binder.table(root, by.syntax())?;
        let key = partition_key(by, &table, &binder)?;
        self.partitions.keys.insert(name.to_owned(), key);
        self.check_keys_of_partitions(&table, At { source, node: by.syntax() })
    }

    /// Refuses a unique index of a root that lacks a column by which it is divided.
    pub(crate) fn check_keys_of_partitions(&self, table: &Table, at: At<'_>) -> Result<(), StatementError> {
        for divided in self.partitions.divided_within(&table.name) {
            let key = &self.partitions.keys[&divided];
            let indexes = table.indexes.iter().enumerate().skip(usize::from(table.hidden_key));
            for (position, index) in indexes.filter(|(_, index)| index.is_key()) {
                let has =
                    |name: &&String| index.columns.iter().any(|column| table.columns[*column].name == **name);
                let Some(column) = key.columns.iter().find(|name| !has(name)) else { continue };
                let kind = if table.is_primary_key(position) { "PRIMARY KEY" } else { "UNIQUE" };
                let message = "unique constraint on partitioned table must include all partitioning columns";
                let error = SqlError::new("0A000", message).with_detail(format!(
                    "{kind} constraint on table \"{}\" lacks column \"{column}\" which is part of the \
                     partition key.",
                    short(&divided)
                ));
                return Err(at.source.error_at(at.node.text_range().start().into(), error));
            }
        }
        Ok(())
    }

    /// Executes CREATE TABLE … PARTITION OF.
    pub(crate) fn create_partition(
        &mut self,
        create: &ast::CreateTable,
        of: &ast::PartitionOf,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let node = create.syntax();
        let binder = Binder::new(self, source);
        let refused =
            |message: String, code: &str| Err(binder.error(of.syntax(), SqlError::new(code, message)));
        let path = binder.part(create.table_name().and_then(|name| name.path()), node)?;
        let name = made_name(&binder, &path)?;
        let parent = of.table_name_ref().and_then(|name| name.path_ref());
        let parent = object_name(&binder.part(parent, node)?);
        if !self.is_partitioned(&parent) {
            return match self.relation_exists(&parent) {
                true => refused(format!("\"{}\" is not partitioned", short(&parent)), "42P17"),
                false => refused(format!("relation \"{parent}\" does not exist"), "42P01"),
            };
        }
        if let Some(list) = create.table_arg_list().filter(|list| list.args().next().is_some()) {
            return Err(binder.unsupported(list.syntax(), "a column or constraint of a partition"));
        }
        if is_temporary_name(&name) || is_temporary_name(&parent) {
            return Err(binder.unsupported(of.syntax(), "a temporary partition"));
        }
        if let Some(persistence) = create.persistence()
            && !matches!(persistence, ast::Persistence::Unlogged(_))
        {
            return Err(binder.unsupported(persistence.syntax(), "a temporary table"));
        }
        self.refuse_taken(&name, source, node)?;
        let bound = self.read_bound(create.partition_type(), &parent, &name, At { source, node })?;
        let root = self.partitions.root_of(&parent).to_owned();
        self.partitions.members.insert(name.clone(), Arc::new(Partition::new(root, parent, bound)));
        if let Some(by) = create.partition_by() {
            self.divide(&name, &by, source)?;
        }
        self.renew_partitions();
        self.recompile(source, node)?;
        Ok(Effect::None)
    }

    /// Writes the views of partitions again, after a change of their roots or bounds. Keeps the views of
    /// which nothing has changed.
    pub(crate) fn renew_partitions(&mut self) {
        let Self { partitions, catalog, .. } = self;
        let mut last = partitions.members.values().map(|own| own.number).max().unwrap_or_default();
        for partition in partitions.members.values_mut() {
            if partition.number == 0 {
                last += 1;
                Arc::make_mut(partition).number = last;
            }
            let has = |of_root: &String| catalog.index(of_root).is_ok();
            if !partition.indexes.values().all(has) {
                Arc::make_mut(partition).indexes.retain(|_, of_root| has(of_root));
            }
            let Ok(root) = catalog.table(&partition.root) else { continue };
            let known = |name: &str| root.column(name).map(|column| &root.columns[column].default);
            let differs = |name: &String, own: &Option<String>| known(name).is_some_and(|known| known != own);
            if !partition.defaults.iter().all(|(name, own)| differs(name, own)) {
                Arc::make_mut(partition).defaults.retain(|name, own| differs(name, own));
            }
        }
        let Partitions { members, renewed, .. } = partitions;
        renewed.retain(|name, _| members.contains_key(name));
        let members = self.partitions.members.iter();
        let changed: Vec<String> =
            members.filter(|(name, own)| !self.is_renewed(name, own)).map(|(name, _)| name.clone()).collect();
        self.number_cut_indexes(&changed);
        let written = changed.iter().filter_map(|name| {
            let partition = self.partitions.members.get(name)?;
            let root = self.catalog.table(&partition.root).ok()?;
            let (table, view) = (self.table_of_partition(name, partition, root), self.written(name, root)?);
            let (table, root) = (Arc::new(table), Arc::clone(root));
            Some((view, Renewed { table, root, partition: Arc::clone(partition) }))
        });
        let written: Vec<_> = written.collect();
        for (view, renewed) in written {
            self.partitions.renewed.insert(view.name.clone(), renewed);
            self.views.insert(view.name.clone(), Arc::new(view));
        }
    }

    /// Returns whether the view of a partition is what it would be written as. That of a default partition,
    /// or within one, depends on other partitions.
    fn is_renewed(&self, name: &str, partition: &Arc<Partition>) -> bool {
        let Ok(root) = self.catalog.table(&partition.root) else { return false };
        let is_same =
            |known: &Renewed| Arc::ptr_eq(&known.root, root) && Arc::ptr_eq(&known.partition, partition);
        let parent = |own: &&Arc<Partition>| self.partitions.members.get(&own.parent);
        self.partitions.renewed.get(name).is_some_and(is_same)
            && std::iter::successors(Some(partition), parent).all(|own| own.bound != Bound::Default)
    }

    /// Returns the view of a partition.
    fn written(&self, name: &str, root: &Table) -> Option<View> {
        let columns: Vec<_> = root.visible().iter().map(|column| quoted(&column.name)).collect();
        let (columns, alias) = (columns.join(", "), quoted(root.short_name()));
        let condition = self.partition_condition(name)?;
        let from = format!("{} AS {alias} ({columns})", quoted_path(&root.name));
        let query = format!("SELECT {columns} FROM {from} WHERE {condition}");
        let (name, check) = (name.to_owned(), Some(CheckOption::Cascaded));
        Some(View { name, query, names: Vec::new(), invoker: None, check })
    }

    /// Drops partitions, whose rows `moved` deletes. `tables` are dropped with them.
    pub(crate) fn drop_partitions(
        &mut self,
        names: &[(String, SyntaxNode)],
        tables: &BTreeSet<String>,
        source: &Source,
    ) -> Result<(), StatementError> {
        for (name, node) in names {
            let root = self.partitions.root_of(name).to_owned();
            let user = self.catalog.references_to(&root).next();
            if let Some((user, key)) = user.filter(|_| !tables.contains(&root)) {
                let name = short(name);
                let message = format!("cannot drop table {name} because other objects depend on it");
                let error = SqlError::new("2BP01", message)
                    .with_detail(format!(
                        "constraint {} on table {} depends on table {name}",
                        key.name, user.name
                    ))
                    .with_hint("Drop the foreign key first.");
                return Err(source.error_at(node.text_range().start().into(), error));
            }
            self.remove_partition(name);
        }
        Ok(())
    }

    /// Forgets a partition, or the partitions of a root, and their views.
    pub(crate) fn remove_partition(&mut self, name: &str) {
        for removed in self.partitions.remove(name) {
            self.views.remove(&removed);
        }
        self.renew_partitions();
    }
}

impl Partitions {
    /// Follows an index of a root, or of a partition, with a new name.
    pub(crate) fn rename_index(&mut self, old: &str, new: &str) {
        let has = |own: &&mut Arc<Partition>| own.indexes.values().any(|of_root| of_root == old);
        for partition in self.members.values_mut().filter(has).map(Arc::make_mut) {
            let of_root = partition.indexes.values_mut().filter(|of_root| *of_root == old);
            of_root.for_each(|of_root| new.clone_into(of_root));
        }
    }

    /// Returns whether a partition has a name for an index.
    pub(crate) fn has_index(&self, name: &str) -> bool {
        self.members.values().any(|partition| partition.indexes.contains_key(name))
    }
}
