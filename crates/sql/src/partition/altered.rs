//! ALTER TABLE of partitions and of the keys of partitioned tables, and the indexes that partitions name.
//!
//! A partition has the indexes of its root. It may give them names, as dumps of PostgreSQL do.

use super::index_names::partition_index;
use crate::binder::Binder;
use crate::definition::TableBuilder;
use crate::error::StatementError;
use crate::full_names::{in_schema_of, short};
use crate::schema::{Schema, unsupported};
use crate::source::{At, Source};
use crate::types::{made_name, object_name};
use catalog::{NewTable, Table};
use procedure::{Effect, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

impl Schema {
    /// Executes an ALTER TABLE that concerns partitions; `None` for any other one.
    pub(crate) fn alter_partitions(
        &mut self,
        alter: &ast::AlterTable,
        name: &str,
        source: &Source,
    ) -> Result<Option<Effect>, StatementError> {
        let node = alter.syntax();
        let actions: Vec<_> = alter.actions().collect();
        match actions.as_slice() {
            [ast::AlterTableAction::AttachPartition(attach)] => {
                self.known_relation(name, source, node)?;
                return self.attach(name, attach, source).map(Some);
            }
            [ast::AlterTableAction::DetachPartition(detach)] => {
                self.known_relation(name, source, node)?;
                return self.detach(name, detach, source).map(Some);
            }
            _ => {}
        }
        let is_alone = alter.table_relation_name().is_some_and(|name| name.only_token().is_some());
        if self.is_partition(name) {
            for action in &actions {
                self.alter_partition(name, action, is_alone, source)?;
            }
            return Ok(Some(Effect::None));
        }
        let is_root = self.is_partitioned(name);
        for action in actions.iter().filter(|_| is_root) {
            self.check_change_of_key(name, action, source)?;
            self.keep_defaults(name, action, is_alone);
            if is_alone && is_primary_key(action) {
                self.partitions.members_of(name).for_each(|own| own.lacks_primary_key = true);
            }
        }
        Ok(None)
    }

    fn known_relation(&self, name: &str, source: &Source, node: &SyntaxNode) -> Result<(), StatementError> {
        match self.relation_exists(name) {
            true => Ok(()),
            false => {
                let error = SqlError::new("42P01", format!("relation \"{name}\" does not exist"));
                Err(source.error_at(node.text_range().start().into(), error))
            }
        }
    }

    /// Refuses to drop or convert a column by which a table is divided.
    fn check_change_of_key(
        &self,
        root: &str,
        action: &ast::AlterTableAction,
        source: &Source,
    ) -> Result<(), StatementError> {
        let (verb, column) = match action {
            ast::AlterTableAction::DropColumn(drop) => ("drop", drop.column_name_ref()),
            ast::AlterTableAction::AlterColumn(alter) => match alter.option() {
                Some(ast::AlterColumnOption::SetType(_)) => ("alter", alter.column_name_ref()),
                _ => return Ok(()),
            },
            _ => return Ok(()),
        };
        let Some(column) = column.map(|name| ast::normalize_name_node(name.syntax())) else { return Ok(()) };
        let Some(divided) = self.partitions.keyed_by(root, &column) else { return Ok(()) };
        let message = format!(
            "cannot {verb} column \"{column}\" because it is part of the partition key of relation \"{}\"",
            short(&divided)
        );
        let node = action.syntax();
        Err(source.error_at(node.text_range().start().into(), SqlError::new("42P16", message)))
    }

    /// Keeps the defaults of partitions from a change of that of their root, if ONLY stands before its name.
    /// Otherwise the partitions get the new one.
    fn keep_defaults(&mut self, root: &str, action: &ast::AlterTableAction, is_alone: bool) {
        let ast::AlterTableAction::AlterColumn(alter) = action else { return };
        let option = alter.option();
        if !matches!(
            option,
            Some(ast::AlterColumnOption::SetDefault(_) | ast::AlterColumnOption::DropDefault(_))
        ) {
            return;
        }
        let Some(name) = alter.column_name_ref().map(|name| ast::normalize_name_node(name.syntax())) else {
            return;
        };
        let Ok(table) = self.catalog.table(root) else { return };
        let Some(column) = table.column(&name) else { return };
        let default = table.columns[column].default.clone();
        for partition in self.partitions.members_of(root) {
            match is_alone {
                true => _ = partition.defaults.entry(name.clone()).or_insert_with(|| default.clone()),
                false => _ = partition.defaults.remove(&name),
            }
        }
    }

    /// Executes an action of ALTER TABLE of a partition.
    fn alter_partition(
        &mut self,
        name: &str,
        action: &ast::AlterTableAction,
        is_alone: bool,
        source: &Source,
    ) -> Result<(), StatementError> {
        use ast::AlterTableAction as Action;
        let node = action.syntax();
        let refuse = |code: &str, message: String| {
            Err(source.error_at(node.text_range().start().into(), SqlError::new(code, message)))
        };
        let named = |column: Option<ast::ColumnNameRef>| {
            column.map(|column| ast::normalize_name_node(column.syntax())).unwrap_or_default()
        };
        match action {
            Action::OwnerTo(_) | Action::ReplicaIdentity(_) | Action::ClusterOn(_) => Ok(()),
            Action::AddColumn(_) => refuse("42809", "cannot add column to a partition".into()),
            Action::DropColumn(drop) => {
                let column = named(drop.column_name_ref());
                refuse("42P16", format!("cannot drop inherited column \"{column}\""))
            }
            Action::RenameColumn(rename) => {
                let column = named(rename.column_name_ref());
                refuse("42P16", format!("cannot rename inherited column \"{column}\""))
            }
            Action::TableRenameTo(rename) => self.rename_partition(name, rename, source),
            Action::AlterColumn(alter) => self.alter_column_of_partition(name, alter, source),
            Action::AddConstraint(add) => {
                let Some(constraint) = add.constraint() else {
                    return Err(unsupported(source, node, "this constraint"));
                };
                self.key_of_partition(name, constraint.syntax(), is_alone, source)
            }
            _ => Err(unsupported(source, node, "this form of ALTER TABLE of a partition")),
        }
    }

    fn rename_partition(
        &mut self,
        name: &str,
        rename: &ast::TableRenameTo,
        source: &Source,
    ) -> Result<(), StatementError> {
        let node = rename.syntax();
        let binder = Binder::new(self, source);
        let path = binder.part(rename.table_name().and_then(|name| name.path()), node)?;
        let new = in_schema_of(name, made_name(&binder, &path)?);
        self.refuse_taken(&new, source, node)?;
        let Some(old) = self.partitions.table(name).cloned() else { return Ok(()) };
        let renamed = Table { name: new.clone(), ..Table::clone(&old) };
        self.views.remove(name);
        if let Some(partition) = self.partitions.members.remove(name) {
            self.partitions.members.insert(new, partition);
        }
        self.follow_names(&old, &renamed, |column| Some(column.to_owned()), false);
        self.recompile(source, node)
    }

    /// Changes the default of a column of a partition. Accepts NOT NULL that the root has.
    fn alter_column_of_partition(
        &mut self,
        partition: &str,
        alter: &ast::AlterColumn,
        source: &Source,
    ) -> Result<(), StatementError> {
        let node = alter.syntax();
        let binder = Binder::new(self, source);
        let root = binder.table(self.partitions.root_of(partition), node)?;
        let name = binder.part(alter.column_name_ref(), node)?;
        let name = ast::normalize_name_node(name.syntax());
        let column = &root.columns[binder.column_of(&root, &name, node)?];
        let default = match alter.option() {
            Some(ast::AlterColumnOption::SetNotNull(_)) if !column.nullable => return Ok(()),
            Some(ast::AlterColumnOption::SetStatistics(_)) => return Ok(()),
            Some(ast::AlterColumnOption::SetDefault(set))
                if !column.generated && column.identity.is_none() =>
            {
                let mut builder = TableBuilder::new(Binder::new(self, source), NewTable::from(&*root));
                let expression = builder.binder.part(set.expr(), node)?;
                let position = binder.column_of(&root, &name, node)?;
                builder.set_default(position, &expression)?;
                builder.table.columns[position].default.clone()
            }
            Some(ast::AlterColumnOption::DropDefault(_)) if !column.generated => None,
            _ => return Err(unsupported(source, node, "another column in a partition than in its table")),
        };
        if let Some(partition) = self.partitions.members.get_mut(partition) {
            Arc::make_mut(partition).defaults.insert(name, default);
        }
        self.recompile(source, node)
    }

    /// Names the key of the root that a constraint of a partition is.
    fn key_of_partition(
        &mut self,
        partition: &str,
        constraint: &SyntaxNode,
        is_alone: bool,
        source: &Source,
    ) -> Result<(), StatementError> {
        let at = At { source, node: constraint };
        let (columns, is_primary) = match ast::TableConstraint::cast(constraint.clone()) {
            Some(ast::TableConstraint::PrimaryKeyConstraint(key)) => (key.index_parameters(), true),
            Some(ast::TableConstraint::UniqueConstraint(key)) => (key.index_parameters(), false),
            _ => return Err(unsupported(source, constraint, "a constraint of a partition")),
        };
        let columns = columns.and_then(|parameters| parameters.column_list());
        let columns = columns.into_iter().flat_map(|list| list.column_name_refs());
        let columns: Vec<String> = columns.map(|name| ast::normalize_name_node(name.syntax())).collect();
        let name = constraint.descendants().find_map(ast::ConstraintNameClause::cast);
        let name = name.and_then(|clause| clause.constraint_name());
        let name = name.map(|name| ast::normalize_name_node(name.syntax()));
        let root = Binder::new(self, source).table(self.partitions.root_of(partition), constraint)?;
        let own = self.partitions.members.get(partition);
        if is_primary && !root.hidden_key && own.is_some_and(|own| !own.lacks_primary_key) {
            let message = format!("multiple primary keys for table \"{}\" are not allowed", short(partition));
            return Err(
                source.error_at(constraint.text_range().start().into(), SqlError::new("42P16", message))
            );
        }
        let is_meant = |(position, index): (usize, &catalog::Index)| {
            index.is_constraint
                && root.is_primary_key(position) == is_primary
                && self.has_columns(&root, index, &columns)
        };
        let known = root.indexes.iter().enumerate().position(is_meant);
        self.name_index(partition, name, known.map(|position| &root.indexes[position]), at)?;
        let named = if is_alone { vec![partition.to_owned()] } else { self.partitions.within(partition) };
        for name in named.iter().filter(|_| is_primary) {
            if let Some(own) = self.partitions.members.get_mut(name) {
                Arc::make_mut(own).lacks_primary_key = false;
            }
        }
        Ok(())
    }

    fn has_columns(&self, root: &Table, index: &catalog::Index, columns: &[String]) -> bool {
        let names = index.columns.iter().map(|column| &root.columns[*column].name);
        names.eq(columns.iter())
    }

    /// Gives a partition a name for an index of its root.
    fn name_index(
        &mut self,
        partition: &str,
        name: Option<String>,
        known: Option<&catalog::Index>,
        at: At<'_>,
    ) -> Result<(), StatementError> {
        let Some(known) = known else {
            let what = "an index or key of a partition that its partitioned table lacks";
            return Err(unsupported(at.source, at.node, what));
        };
        let name = match name {
            Some(name) => {
                let name = in_schema_of(partition, name);
                self.refuse_taken_relation(&name, at.source, at.node)?;
                name
            }
            None => {
                let root = Binder::new(self, at.source).table(self.partitions.root_of(partition), at.node)?;
                let made = partition_index(partition, &root, known);
                let base = made.base_in_schema();
                let is_shown = self
                    .partitions
                    .table(partition)
                    .is_some_and(|table| table.indexes.iter().any(|index| index.name == base));
                match is_shown {
                    true => base,
                    false => made.first_free_in_schema(|name| self.relation_exists(name)),
                }
            }
        };
        if let Some(member) = self.partitions.members.get_mut(partition) {
            Arc::make_mut(member).indexes.insert(name, known.name.clone());
        }
        self.renew_partitions();
        Ok(())
    }

    /// Executes CREATE INDEX on a partition; `None` for any other table.
    pub(crate) fn index_of_partition(
        &mut self,
        create: &ast::CreateIndex,
        source: &Source,
    ) -> Result<Option<Effect>, StatementError> {
        let path = create.table_relation_name().and_then(|name| name.table_name_ref());
        let partition = path.and_then(|name| name.path_ref()).map(|path| object_name(&path));
        let Some(partition) = partition.filter(|name| self.is_partition(name)) else { return Ok(None) };
        let node = create.syntax();
        let name = create.index().and_then(|index| index.path()).and_then(|path| path.segment());
        let name = name.map(|segment| segment.text());
        if let Some(name) = &name
            && create.if_not_exists().is_some()
            && self.relation_exists(&in_schema_of(&partition, name.clone()))
        {
            return Ok(Some(Effect::None));
        }
        let root = Binder::new(self, source).table(self.partitions.root_of(&partition), node)?;
        let items = create.partition_item_list().into_iter().flat_map(|list| list.partition_items());
        let columns: Option<Vec<String>> = items
            .map(|item| match item.expr() {
                Some(ast::Expr::NameRef(name)) => Some(name.text()),
                _ => None,
            })
            .collect();
        let is_meant = |index: &&catalog::Index| {
            index.is_key() == create.unique_token().is_some()
                && columns.as_ref().is_some_and(|columns| self.has_columns(&root, index, columns))
                && index.details.condition.is_some() == create.where_clause().is_some()
        };
        let known = root.indexes.iter().skip(usize::from(root.hidden_key)).find(is_meant);
        if create.where_clause().is_some() {
            return Err(unsupported(source, node, "an index of some rows of a partition"));
        }
        self.name_index(&partition, name, known, At { source, node })?;
        Ok(Some(Effect::None))
    }

    /// Executes ALTER INDEX … ATTACH PARTITION; `None` for any other ALTER INDEX.
    pub(crate) fn attach_index(
        &self,
        alter: &ast::AlterIndex,
        source: &Source,
    ) -> Result<Option<Effect>, StatementError> {
        let node = alter.syntax();
        let Some(attach) = node.descendants().find_map(ast::AttachIndexPartition::cast) else {
            return Ok(None);
        };
        let binder = Binder::new(self, source);
        let index = binder.part(alter.index_ref().and_then(|name| name.path_ref()), node)?;
        let own = binder.part(attach.index_ref().and_then(|name| name.path_ref()), node)?;
        let (index, own) = (object_name(&index), object_name(&own));
        let refuse = |error: SqlError| Err(binder.error(node, error));
        let (of, own_of) = match (self.shown_index(&index), self.shown_index(&own)) {
            (Some(of), Some(own_of)) => (of, own_of),
            (of, _) => {
                let (name, code) = if of.is_none() { (index, "42809") } else { (own, "42P17") };
                return match self.relation_exists(&name) {
                    true => refuse(SqlError::new(code, format!("\"{}\" is not an index", short(&name)))),
                    false => refuse(SqlError::new("42P01", format!("relation \"{name}\" does not exist"))),
                };
            }
        };
        if !self.is_partitioned(&of.table) {
            let message = format!(
                "ALTER action ATTACH PARTITION cannot be performed on relation \"{}\"",
                short(&index)
            );
            let detail = "This operation is not supported for indexes.";
            return refuse(SqlError::new("42809", message).with_detail(detail));
        }
        let detail = match self.partitions.members.get(&own_of.table) {
            Some(partition) if partition.parent == of.table => {
                if own_of.position == of.position {
                    return Ok(Some(Effect::None));
                }
                // Each index of a partition belongs to one of its table.
                format!("Another index is already attached for partition \"{}\".", short(&own_of.table))
            }
            _ => {
                let (own, table) = (short(&own), short(&of.table));
                format!("Index \"{own}\" is not an index on any partition of table \"{table}\".")
            }
        };
        let (own, index) = (short(&own), short(&index));
        let message = format!("cannot attach index \"{own}\" as a partition of index \"{index}\"");
        refuse(SqlError::new("55000", message).with_detail(detail))
    }

    /// Returns the table and position of an index of a table or partition.
    fn shown_index(&self, name: &str) -> Option<ShownIndex> {
        self.shown_tables().find_map(|table| {
            let position = table.indexes.iter().position(|index| index.name == name)?;
            Some(ShownIndex { table: table.name.clone(), position })
        })
    }
}

/// An index of a table or partition.
struct ShownIndex {
    table: String,
    position: usize,
}

/// Returns whether an action adds a primary key.
fn is_primary_key(action: &ast::AlterTableAction) -> bool {
    let ast::AlterTableAction::AddConstraint(add) = action else { return false };
    let constraint = add.constraint().and_then(|own| ast::TableConstraint::cast(own.syntax().clone()));
    matches!(constraint, Some(ast::TableConstraint::PrimaryKeyConstraint(_)))
}
