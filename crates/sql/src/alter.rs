//! ALTER TABLE, ALTER INDEX.
//!
//! A change that needs no row, such as a new name, is applied to the definition of the table. A change for
//! which rows must be checked or converted creates a new table, with a new number, from the rows of the old
//! table. Each table number therefore has one row layout, and a log record has the layout of its table.

use crate::StatementError;
use crate::binder::{Binder, Typed};
use crate::definition::TableBuilder;
use crate::full_names::{in_schema_of, short};
use crate::generated_names::GeneratedName;
use crate::index::{IndexDefinition, remove_unused};
use crate::schema::{Schema, refused, unsupported};
use crate::sequence::SequenceChange;
use crate::session_schema::{is_session_schema, is_temporary_name};
use crate::source::{At, Source};
use crate::types::{is_assignable, made_name, object_name};
use catalog::{NewTable, Table};
use procedure::{CastContext, Effect, Expression, Notice, Rebuild, Register, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::collections::BTreeSet;
use std::sync::Arc;

mod columns;
mod existing_index;
mod identity;
mod tablespace;
mod validated;

/// The origin of a column's values.
#[derive(Clone)]
enum Origin {
    /// A column of the old table.
    Old(usize),
    /// A column of the old table, converted to another type, with USING if it is given.
    Converted(usize, Option<ast::Expr>),
    /// The default of an added column.
    Added(Option<String>),
    /// The default of a hidden key.
    Hidden,
}

/// Returns the name that a column of the old table has in the new one; `None` if it is gone.
fn new_name(name: &str, old: &Table, new: &Table, origins: &[Origin]) -> Option<String> {
    let before = old.column(name)?;
    let position = origins.iter().position(|origin| origin.old() == Some(before))?;
    Some(new.columns[position].name.clone())
}

impl Origin {
    /// Returns the column of the old table; `None` for a new column.
    fn old(&self) -> Option<usize> {
        match self {
            Self::Old(position) | Self::Converted(position, _) => Some(*position),
            Self::Added(_) | Self::Hidden => None,
        }
    }
}

/// A foreign key that is dropped with the key that it references: the names of its table and of the key.
type ForeignKeyName = (String, String);

/// Returns the turn of an action among the actions of a statement, as in PostgreSQL. Actions that drop a part
/// of the table are first, so that they do not move the columns of new constraints.
fn turn(action: &ast::AlterTableAction) -> u8 {
    use ast::{AlterColumnOption as Change, AlterTableAction as Action};
    match action {
        Action::DropColumn(_) | Action::DropConstraint(_) => 0,
        Action::AlterColumn(column) => match column.option() {
            Some(Change::DropDefault(_) | Change::DropNotNull(_) | Change::DropIdentity(_)) => 0,
            Some(Change::SetType(_)) => 1,
            Some(Change::SetNotNull(_)) => 3,
            _ => 4,
        },
        Action::AddConstraint(_) => 4,
        _ => 2,
    }
}

/// ALTER TABLE in progress.
struct Alteration<'a> {
    old: Arc<Table>,
    builder: TableBuilder<'a>,
    /// For each column, the origin of its values.
    origins: Vec<Origin>,
    /// Whether rows must be checked or converted.
    rebuilds: bool,
    /// The changes of sequences of identity columns, by the name of the column.
    sequences: Vec<(String, SequenceChange)>,
    notices: Vec<Notice>,
}

impl Schema {
    pub(crate) fn alter_table(
        &mut self,
        alter: &ast::AlterTable,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let node = alter.syntax();
        let path = alter.table_relation_name().and_then(|name| name.table_name_ref());
        let Some(path) = path.and_then(|name| name.path_ref()) else {
            return Err(unsupported(source, node, "this form of ALTER TABLE"));
        };
        let name = object_name(&path);
        if let Some(effect) = self.alter_partitions(alter, &name, source)? {
            return Ok(effect);
        }
        let is_owner = |action| matches!(action, ast::AlterTableAction::OwnerTo(_));
        let old = match self.catalog.table(&name) {
            Err(_) if alter.if_exists().is_some() => {
                self.notices.skip_missing(&format!("relation \"{name}\""));
                return Ok(Effect::None);
            }
            Err(_) if self.view(&name).is_some() && alter.actions().all(is_owner) => {
                return Ok(Effect::None);
            }
            found => Arc::clone(found.map_err(|error| refused(source, path.syntax(), &error))?),
        };
        if let Some(effect) = self.rename_key(alter, &old, source)? {
            return Ok(effect);
        }
        let is_alone = alter.table_relation_name().is_some_and(|name| name.only_token().is_some());
        let adds = |action: ast::AlterTableAction| matches!(action, ast::AlterTableAction::AddColumn(_));
        if is_alone && self.is_partitioned(&name) && alter.actions().any(adds) {
            let error = SqlError::new("42P16", "column must be added to child tables too");
            return Err(source.error_at(node.text_range().start().into(), error));
        }
        self.drop_views_of_columns(alter, &old);
        let before = self.clone();
        let builder = TableBuilder::new(Binder::new(&before, source), NewTable::from(&*old));
        let origins = (0..old.columns.len()).map(Origin::Old).collect();
        let (notices, sequences, rebuilds) = (Vec::new(), Vec::new(), false);
        let mut alteration =
            Alteration { old: Arc::clone(&old), builder, origins, rebuilds, sequences, notices };
        let mut drops_references = Vec::new();
        let mut actions: Vec<_> = alter.actions().collect();
        if !actions.iter().cloned().all(is_owner) {
            alteration.builder.binder.refuse_sequence(&old, path.syntax())?;
        }
        let renames_constraint = matches!(actions[..], [ast::AlterTableAction::RenameConstraint(_)]);
        actions.sort_by_key(turn);
        for action in actions {
            alteration.act(&action, &mut drops_references)?;
        }
        let Alteration { builder, origins, mut rebuilds, sequences: changes, notices, .. } = alteration;
        notices.into_iter().for_each(|notice| self.notices.tell(notice));
        self.tell_dropped_triggers(&old, &builder.table);
        let new_keys = builder.new_foreign_keys();
        let (mut new, sequences) = builder.finish()?;
        rebuilds |= new.hidden_key != old.hidden_key || new.indexes.len() > old.indexes.len();
        if new.name != old.name {
            self.refuse_taken(&new.name, source, node)?;
            if rebuilds {
                return Err(unsupported(source, node, "RENAME together with other changes"));
            }
            let self_references = new.foreign_keys.iter_mut().filter(|key| key.parent == old.name);
            self_references.for_each(|key| key.parent.clone_from(&new.name));
        }
        let mut effects = Vec::new();
        for (user, key) in drops_references {
            self.notices.drops_also(format!("constraint {key} on table {user}"));
            effects.push(self.drop_reference(&user, &key, source, node)?);
        }
        for sequence in sequences {
            effects.push(self.add_table(sequence, source, node)?);
        }
        effects.extend(self.change_identities(&old, &changes, At { source, node })?);
        if !rebuilds {
            let mut changed = Table::clone(&old);
            changed.indexes.retain_mut(|index| {
                let now = new.indexes.iter().find(|known| known.name == index.name);
                now.inspect(|now| index.details.clone_from(&now.details)).is_some()
            });
            (changed.name, changed.columns, changed.checks) = (new.name, new.columns, new.checks);
            changed.triggers = new.triggers;
            // Indexes move with the table into another schema.
            for index in changed.indexes.iter_mut().skip(usize::from(changed.hidden_key)) {
                let moved = in_schema_of(&changed.name, short(&index.name).into());
                if moved != index.name {
                    self.refuse_taken(&moved, source, node)?;
                }
                index.name = moved;
            }
            if changed.hidden_key {
                changed.indexes[0].name = format!("{}.(row)", changed.name);
            }
            changed.foreign_keys = new.foreign_keys;
            let changed = self.catalog.redefine(&name, changed).map_err(|e| refused(source, node, &e))?;
            let column = |name: &str| new_name(name, &old, &changed, &origins);
            self.follow_names(&old, &changed, column, renames_constraint);
            effects.push(Effect::Redefine(changed));
            self.recompile(source, node)?;
            return Ok(Effect::All(effects));
        }
        effects.push(self.replace(&old, new, &origins, &new_keys, At { source, node })?);
        Ok(Effect::All(effects))
    }

    /// Tells which triggers an alteration has dropped with a column.
    fn tell_dropped_triggers(&mut self, old: &Table, new: &NewTable) {
        let is_gone = |trigger: &&catalog::Trigger| new.triggers.iter().all(|own| own.name != trigger.name);
        for trigger in old.triggers.iter().filter(is_gone) {
            self.notices.drops_also(format!("trigger {} on table {}", trigger.name, old.short_name()));
        }
    }

    /// Replaces a table by another one with the rows of the old one.
    fn replace(
        &mut self,
        old: &Arc<Table>,
        new: NewTable,
        origins: &[Origin],
        new_keys: &BTreeSet<String>,
        at: At<'_>,
    ) -> Result<Effect, StatementError> {
        let rebuild = self.replaced(old, new, origins, new_keys, at)?;
        Ok(Effect::Rebuild(Arc::new(rebuild)))
    }

    fn replaced(
        &mut self,
        old: &Arc<Table>,
        mut new: NewTable,
        origins: &[Origin],
        new_keys: &BTreeSet<String>,
        at: At<'_>,
    ) -> Result<Rebuild, StatementError> {
        let At { source, node } = at;
        self.move_references(old, &mut new, origins, new_keys);
        let made = self.catalog.replace_table(&old.name, new);
        let made = made.map_err(|error| refused(source, node, &error))?;
        self.check_keys_of_partitions(&made, at)?;
        self.refuse_fired_triggers(&made, source, node)?;
        self.follow_names(old, &made, |name| new_name(name, old, &made, origins), false);
        self.forget_foreign_keys();
        let rebuild = self.rebuild(old, &made, origins, new_keys, at)?;
        self.recompile(source, node)?;
        Ok(rebuild)
    }

    /// Returns the conversion of a table's rows into the same rows, which are checked again.
    pub(crate) fn rebuild_same(&mut self, table: &Arc<Table>, at: At<'_>) -> Result<Rebuild, StatementError> {
        let origins: Vec<Origin> = (0..table.columns.len()).map(Origin::Old).collect();
        self.replaced(table, NewTable::from(&**table), &origins, &BTreeSet::new(), at)
    }

    /// Adds an index, and the hidden columns that it indexes.
    pub(crate) fn add_index(
        &mut self,
        definition: IndexDefinition,
        at: At<'_>,
    ) -> Result<Effect, StatementError> {
        let At { source, node } = at;
        let IndexDefinition { table, hidden, index } = definition;
        if hidden.is_empty() {
            let table = self.catalog.create_index(&table.name, index);
            let table = table.map_err(|error| refused(source, node, &error))?;
            self.check_keys_of_partitions(&table, at)?;
            self.recompile(source, node)?;
            return Ok(Effect::Redefine(table));
        }
        let mut new = NewTable::from(&*table);
        let mut origins: Vec<Origin> = (0..table.columns.len()).map(Origin::Old).collect();
        for column in hidden {
            let position = new.columns.len() - usize::from(new.hidden_key);
            new.insert_column(position, column);
            origins.insert(position, Origin::Added(None));
        }
        new.indexes.push(index);
        self.replace(&table, new, &origins, &BTreeSet::new(), at)
    }

    /// Drops an index, and the hidden columns that no other index uses.
    pub(crate) fn remove_index(
        &mut self,
        table: &Arc<Table>,
        position: usize,
        at: At<'_>,
    ) -> Result<Effect, StatementError> {
        let index = &table.indexes[position];
        if index.columns.iter().all(|column| !table.columns[*column].hidden) {
            let table = self.catalog.drop_index(&index.name);
            return Ok(Effect::Redefine(table.map_err(|error| refused(at.source, at.node, &error))?));
        }
        let mut new = NewTable::from(&**table);
        let mut origins: Vec<Origin> = (0..table.columns.len()).map(Origin::Old).collect();
        new.indexes.remove(position);
        for column in remove_unused(&mut new) {
            origins.remove(column);
        }
        self.replace(table, new, &origins, &BTreeSet::new(), at)
    }

    /// Moves the references of other tables to the new columns.
    fn move_references(
        &mut self,
        old: &Table,
        new: &mut NewTable,
        origins: &[Origin],
        new_keys: &BTreeSet<String>,
    ) {
        let place_of = |column: &usize| {
            origins.iter().position(|origin| origin.old() == Some(*column)).unwrap_or(*column)
        };
        let keys = new.foreign_keys.iter_mut();
        for key in keys.filter(|key| key.parent == old.name && !new_keys.contains(&key.name)) {
            key.parent_columns = key.parent_columns.iter().map(place_of).collect();
        }
        let users: Vec<Arc<Table>> =
            self.catalog.references_to(&old.name).map(|(table, _)| Arc::clone(table)).collect();
        for user in users.into_iter().filter(|user| user.id != old.id) {
            let mut changed = Table::clone(&user);
            for key in changed.foreign_keys.iter_mut().filter(|key| key.parent == old.name) {
                key.parent_columns = key.parent_columns.iter().map(place_of).collect();
            }
            // The name stays the same, so it cannot be taken.
            let _ = self.catalog.redefine(&user.name, changed);
        }
    }

    /// Drops the foreign key of a table whose referenced key is dropped with CASCADE.
    fn drop_reference(
        &mut self,
        user: &str,
        key: &str,
        source: &Source,
        node: &SyntaxNode,
    ) -> Result<Effect, StatementError> {
        let at = |error| refused(source, node, &error);
        let mut changed = Table::clone(self.catalog.table(user).map_err(at)?);
        changed.foreign_keys.retain(|foreign_key| foreign_key.name != key);
        let changed = self.catalog.redefine(user, changed).map_err(at)?;
        Ok(Effect::Redefine(changed))
    }

    fn rebuild(
        &self,
        old: &Arc<Table>,
        new: &Arc<Table>,
        origins: &[Origin],
        new_keys: &BTreeSet<String>,
        at: At<'_>,
    ) -> Result<Rebuild, StatementError> {
        let At { source, node } = at;
        let mut binder = Binder::new(self, source);
        let old_registers = binder.row_registers(old);
        let new_registers = binder.row_registers(new);
        let mut values = Vec::new();
        for (position, column) in new.columns.iter().enumerate() {
            let value = match origins.get(position).cloned().unwrap_or(Origin::Hidden) {
                Origin::Old(own) => Expression::Register(Register(old_registers.0 + own as u32)),
                Origin::Hidden => binder.bind_default(new, position, node)?,
                Origin::Added(default) => binder.bind_default_text(default.as_deref(), column.ty, node)?,
                Origin::Converted(own, using) => {
                    let (ty, from) = (column.ty, old.columns[own].ty);
                    match using {
                        Some(using) => {
                            let bound = binder.over_row(old, old_registers, |inner| inner.bind(&using));
                            binder.coerce(bound?, ty, CastContext::Assignment, using.syntax())?
                        }
                        None => {
                            let register = Expression::Register(Register(old_registers.0 + own as u32));
                            if !is_assignable(from, ty) {
                                let message = format!(
                                    "column \"{}\" cannot be cast automatically to type {ty}",
                                    column.name
                                );
                                let hint =
                                    format!("You might need to specify \"USING {}::{ty}\".", column.name);
                                return Err(
                                    binder.error(node, SqlError::new("42804", message).with_hint(hint))
                                );
                            }
                            binder.coerce(Typed::Known(register, from), ty, CastContext::Assignment, node)?
                        }
                    }
                }
            };
            values.push(value);
        }
        let rules = binder.bind_plain_rules(new, new_registers, node)?;
        let (generated, checks) = (rules.generated, rules.conditions);
        let keys = self.foreign_keys();
        let references = keys.iter().flat_map(|keys| keys.references_of(new.id));
        let references = references.filter(|reference| new_keys.contains(&reference.name)).cloned().collect();
        let (old, new) = (Arc::clone(old), Arc::clone(new));
        let registers = binder.registers.len();
        Ok(Rebuild { old, new, registers, values, generated, checks, references })
    }
}

impl Alteration<'_> {
    fn error<T>(&self, node: &SyntaxNode, code: &str, message: String) -> Result<T, StatementError> {
        Err(self.builder.binder.error(node, SqlError::new(code, message)))
    }

    fn column(&self, name: Option<ast::ColumnNameRef>, node: &SyntaxNode) -> Result<usize, StatementError> {
        let name = self.builder.binder.part(name, node)?;
        let text = ast::normalize_name_node(name.syntax());
        match self.builder.table.columns.iter().position(|column| column.name == text) {
            Some(position) => Ok(position),
            None => {
                let table = &self.builder.table.name;
                let message = format!("column \"{text}\" of relation \"{table}\" does not exist");
                self.error(name.syntax(), "42703", message)
            }
        }
    }

    fn act(
        &mut self,
        action: &ast::AlterTableAction,
        drops_references: &mut Vec<ForeignKeyName>,
    ) -> Result<(), StatementError> {
        use ast::AlterTableAction as Action;
        let node = action.syntax();
        let cascades = node.children().any(|child| ast::Cascade::can_cast(child.kind()));
        match action {
            Action::AddColumn(add) => self.add_column(add),
            Action::DropColumn(drop) => {
                if drop.if_exists().is_some() && self.column(drop.column_name_ref(), node).is_err() {
                    let column = drop
                        .column_name_ref()
                        .map(|name| ast::normalize_name_node(name.syntax()))
                        .unwrap_or_default();
                    self.skip_missing(&format!("column \"{column}\""));
                    return Ok(());
                }
                let position = self.column(drop.column_name_ref(), node)?;
                self.drop_column(position, cascades, drops_references, node)
            }
            Action::AlterColumn(alter) => self.alter_column(alter),
            Action::AddConstraint(add) => {
                let constraint = self.builder.binder.part(add.constraint(), node)?;
                let Some(constraint) = ast::TableConstraint::cast(constraint.syntax().clone()) else {
                    return Err(self.builder.binder.unsupported(node, "this constraint"));
                };
                self.rebuilds = true;
                match self.add_key_of_index(&constraint)? {
                    true => Ok(()),
                    false => self.builder.table_constraint(&constraint),
                }
            }
            Action::DropConstraint(drop) => {
                let name = self.builder.binder.part(drop.constraint_name_ref(), node)?;
                let name = name.path_ref().map(|path| object_name(&path)).unwrap_or_default();
                self.drop_constraint(&name, (cascades, drop.if_exists().is_some()), drops_references, node)
            }
            Action::EnableTrigger(action) => self.builder.enable(action.trigger_target(), true, node),
            Action::DisableTrigger(action) => self.builder.enable(action.trigger_target(), false, node),
            Action::RenameColumn(rename) => {
                let position = self.column(rename.column_name_ref(), node)?;
                let new = self.builder.binder.part(rename.column_name(), node)?.text();
                self.rename_column(position, new, node)
            }
            Action::RenameConstraint(rename) => {
                let old = rename.constraint_name_ref().and_then(|name| name.path_ref());
                let old = old.map(|path| object_name(&path)).unwrap_or_default();
                let new = self.builder.binder.part(rename.constraint_name(), node)?;
                let new = Some(ast::normalize_name_node(new.syntax()));
                let unused = GeneratedName::new("", &[], "");
                let new = self.builder.constraint_name(new, &unused, node)?;
                let table = &mut self.builder.table;
                let checks = table.checks.iter_mut().map(|(name, _)| name);
                let keys = table.foreign_keys.iter_mut().map(|key| &mut key.name);
                match checks.chain(keys).find(|name| **name == old) {
                    Some(name) => *name = new,
                    None => {
                        let message = format!(
                            "constraint \"{old}\" for table \"{}\" does not exist",
                            short(&table.name)
                        );
                        return self.error(node, "42704", message);
                    }
                }
                Ok(())
            }
            Action::TableRenameTo(rename) => {
                let name = rename.table_name().and_then(|name| name.path());
                let name = self.builder.binder.part(name, node)?;
                let name = made_name(&self.builder.binder, &name)?;
                let name = in_schema_of(&self.builder.table.name, name);
                self.builder.binder.schema.refuse_taken_relation(&name, self.builder.binder.source, node)?;
                self.builder.table.name = name;
                Ok(())
            }
            Action::SetSchema(set) => {
                let schema = self.builder.binder.part(set.schema_ref(), node)?;
                let schema = ast::normalize_name_node(schema.syntax());
                let old = &self.builder.table.name;
                if is_session_schema(&schema) || schema == "pg_temp" || is_temporary_name(old) {
                    let message = "cannot move objects into or out of temporary schemas";
                    return self.error(node, "0A000", message.into());
                }
                if !self.builder.binder.schema.has_namespace(&schema) {
                    return self.error(node, "3F000", format!("schema \"{schema}\" does not exist"));
                }
                let name = self.builder.short_name().to_owned();
                self.builder.table.name = if schema == "public" { name } else { format!("{schema}.{name}") };
                Ok(())
            }
            Action::ValidateConstraint(validate) => self.validate_constraint(validate),
            Action::OwnerTo(_)
            | Action::SetLogged(_)
            | Action::SetUnlogged(_)
            | Action::SetOptions(_)
            | Action::ResetOptions(_)
            | Action::ClusterOn(_)
            | Action::SetWithoutCluster(_)
            | Action::ReplicaIdentity(_) => Ok(()),
            Action::SetTablespace(set) => self.set_tablespace(set),
            other => Err(self.builder.binder.unsupported(other.syntax(), "this form of ALTER TABLE")),
        }
    }

    /// Returns the foreign keys that reference columns of the old table: the table of each, and its name.
    fn users_of(&self, is_meant: impl Fn(&[usize]) -> bool) -> Vec<ForeignKeyName> {
        let referencing = self.builder.binder.schema.catalog().references_to(&self.old.name);
        let referencing = referencing.filter(|(table, _)| table.id != self.old.id);
        let referencing = referencing.map(|(table, key)| (&table.name, key));
        // Foreign keys of the table itself count unless an earlier action has dropped them.
        let self_references =
            self.builder.table.foreign_keys.iter().filter(|key| key.parent == self.old.name);
        let all = referencing.chain(self_references.map(|key| (&self.old.name, key)));
        let meant = all.filter(|(_, key)| is_meant(&key.parent_columns));
        meant.map(|(table, key)| (table.clone(), key.name.clone())).collect()
    }

    fn drop_index_of_constraint(
        &mut self,
        position: usize,
        cascades: bool,
        drops_references: &mut Vec<ForeignKeyName>,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let index = self.builder.table.indexes[position].clone();
        // If several keys have the same columns, foreign keys depend on the first key.
        let needed =
            |columns: &[usize]| self.old.unique_index_of(columns).map(|position| &self.old.indexes[position]);
        let users = self
            .users_of(|columns| needed(columns).is_some_and(|needed_index| needed_index.name == index.name));
        if let (Some((user, _)), false) = (users.first(), cascades) {
            let message = format!(
                "cannot drop constraint {} on table {} because a foreign key of table {user} depends on it",
                index.name, self.builder.table.name
            );
            return self.error(node, "2BP01", message);
        }
        let (self_references, users): (Vec<_>, Vec<_>) =
            users.into_iter().partition(|(user, _)| *user == self.old.name);
        self.builder
            .table
            .foreign_keys
            .retain(|key| !self_references.iter().any(|(_, name)| *name == key.name));
        drops_references.extend(users);
        self.builder.table.indexes.remove(position);
        // Without a primary key, rows get a hidden key.
        self.rebuilds |= position == 0;
        if position == 0 {
            self.builder.primary_is_gone = true;
        }
        Ok(())
    }

    fn drop_constraint(
        &mut self,
        name: &str,
        (cascades, if_exists): (bool, bool),
        drops_references: &mut Vec<ForeignKeyName>,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let table = &mut self.builder.table;
        if let Some(position) = table.checks.iter().position(|(check_name, _)| check_name == name) {
            table.checks.remove(position);
        } else if let Some(position) = table.foreign_keys.iter().position(|key| key.name == name) {
            table.foreign_keys.remove(position);
        } else if let Some(position) =
            table.indexes.iter().position(|index| index.is_constraint && short(&index.name) == name)
        {
            return self.drop_index_of_constraint(position, cascades, drops_references, node);
        } else if if_exists {
            self.skip_missing(&format!("constraint \"{name}\""));
        } else {
            let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
            return self.error(node, "42704", message);
        }
        Ok(())
    }
}
