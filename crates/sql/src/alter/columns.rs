//! The actions of ALTER TABLE on columns.

use super::identity::IDENTITY;
use super::{Alteration, ForeignKeyName, Origin};
use crate::binder::Binder;
use crate::error::StatementError;
use crate::index::remove_unused;
use crate::kept_text;
use crate::notices::skipping;
use crate::quoted::quoted;
use crate::types::is_assignable;
use catalog::{Column, NewIndex, Trigger, Type};
use procedure::SqlError;
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

impl Alteration<'_> {
    /// Tells that a column is not of a kind.
    ///
    /// # Errors
    /// `55000`: without IF EXISTS.
    pub(super) fn is_no(
        &mut self,
        position: usize,
        kind: &str,
        if_exists: bool,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let (table, column) = (self.builder.short_name(), &self.builder.table.columns[position].name);
        let fact = format!("column \"{column}\" of relation \"{table}\" is not {kind}");
        if !if_exists {
            return self.error(node, "55000", fact);
        }
        self.notices.push(skipping("00000", &fact));
        Ok(())
    }

    /// Tells that IF EXISTS has found no column or constraint.
    pub(super) fn skip_missing(&mut self, object: &str) {
        let fact = format!("{object} of relation \"{}\" does not exist", self.builder.short_name());
        self.notices.push(skipping("00000", &fact));
    }

    pub(super) fn add_column(&mut self, add: &ast::AddColumn) -> Result<(), StatementError> {
        let node = add.syntax();
        let name = self.builder.binder.part(add.column_name(), node)?.text();
        if add.if_not_exists().is_some()
            && self.builder.table.columns.iter().any(|column| column.name == name)
        {
            let table = self.builder.short_name();
            let fact = format!("column \"{name}\" of relation \"{table}\" already exists");
            self.notices.push(skipping("42701", &fact));
            return Ok(());
        }
        let position = self.builder.add_column(name, add.ty(), node)?;
        self.origins.insert(position, Origin::Hidden);
        self.rebuilds = true;
        let mut constraints = Vec::new();
        for constraint in add.constraints() {
            match ast::ColumnConstraint::cast(constraint.syntax().clone()) {
                Some(constraint) => constraints.push(constraint),
                None => return Err(self.builder.binder.unsupported(node, "this constraint")),
            }
        }
        self.builder.check_column_rules(position, &constraints)?;
        for constraint in &constraints {
            self.builder.column_constraint(position, constraint)?;
        }
        self.builder.merge_keys();
        let added = &self.builder.table.columns[position];
        let default = self.builder.binder.schema.catalog().default_of(added).filter(|_| !added.generated);
        self.origins[position] = Origin::Added(default.map(str::to_owned));
        Ok(())
    }

    pub(super) fn drop_column(
        &mut self,
        position: usize,
        cascades: bool,
        drops_references: &mut Vec<ForeignKeyName>,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let name = self.builder.table.columns[position].name.clone();
        if let (Origin::Old(old), false) = (&self.origins[position], cascades) {
            self.refuse_drop_of_used(&name, *old, node)?;
        }
        self.drop_triggers_on(&name, cascades, node)?;
        self.builder.table.foreign_keys.retain(|key| !key.columns.contains(&position));
        let uses = |index: &NewIndex| {
            let condition = index.details.condition.as_ref();
            index.columns.contains(&position)
                || index.details.included.contains(&position)
                || condition.is_some_and(|text| kept_text::mentions(text, &name))
        };
        while let Some(index) = self.builder.table.indexes.iter().position(uses) {
            self.drop_index_of_constraint(index, cascades, drops_references, node)?;
        }
        // An index on an expression is dropped with a column that the expression reads.
        let columns = &self.builder.table.columns;
        let reads =
            |column: &Column| column.default.as_ref().is_some_and(|text| kept_text::mentions(text, &name));
        let gone: Vec<usize> =
            (0..columns.len()).filter(|own| columns[*own].hidden && reads(&columns[*own])).collect();
        self.builder.table.indexes.retain(|index| index.columns.iter().all(|column| !gone.contains(column)));
        for column in remove_unused(&mut self.builder.table) {
            self.origins.remove(column);
        }
        while let Some(user) = self.generated_from(&name) {
            if !cascades {
                let user = &self.builder.table.columns[user].name;
                let detail = format!("column {user} of table {{}} depends on column {name} of table {{}}");
                return Err(self.still_used(&name, &detail, node));
            }
            self.drop_column(user, cascades, drops_references, node)?;
        }
        let position =
            self.builder.table.columns.iter().position(|column| column.name == name).unwrap_or(position);
        let table = &mut self.builder.table;
        table.checks.retain(|(_, text)| !kept_text::mentions(text, &name));
        table.remove_column(position);
        self.origins.remove(position);
        self.rebuilds = true;
        Ok(())
    }

    /// Drops the triggers that depend on a column by UPDATE OF or WHEN.
    ///
    /// # Errors
    /// `2BP01`: there are some, without CASCADE.
    fn drop_triggers_on(
        &mut self,
        name: &str,
        cascades: bool,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let depends = |trigger: &Trigger| {
            let condition = trigger.condition.as_ref();
            trigger.columns.iter().any(|column| column == name)
                || condition.is_some_and(|text| kept_text::mentions(text, name))
        };
        let triggers = &mut self.builder.table.triggers;
        if let Some(user) = triggers.iter().find(|trigger| depends(trigger)).filter(|_| !cascades) {
            let detail =
                format!("trigger {} on table {{}} depends on column {name} of table {{}}", user.name);
            return Err(self.still_used(name, &detail, node));
        }
        triggers.retain(|trigger| !depends(trigger));
        Ok(())
    }

    /// Returns the error of a column that another object uses, with a detail that has `{}` for the table.
    fn still_used(&self, name: &str, detail: &str, node: &SyntaxNode) -> StatementError {
        let table = self.builder.short_name();
        let message =
            format!("cannot drop column {name} of table {table} because other objects depend on it");
        let error = SqlError::new("2BP01", message)
            .with_detail(detail.replace("{}", table))
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too.");
        self.builder.binder.error(node, error)
    }

    /// Refuses to drop a column that a view uses.
    fn refuse_drop_of_used(
        &self,
        name: &str,
        old_position: usize,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let Some(view) = self.builder.binder.schema.view_using(&self.old, old_position) else {
            return Ok(());
        };
        let detail = format!("view {} depends on column {name} of table {{}}", view.name);
        Err(self.still_used(name, &detail, node))
    }

    pub(super) fn alter_column(&mut self, alter: &ast::AlterColumn) -> Result<(), StatementError> {
        use ast::AlterColumnOption as Option_;
        let node = alter.syntax();
        let position = self.column(alter.column_name_ref(), node)?;
        let is_key = self.builder.known_primary().is_some_and(|key| key.columns.contains(&position));
        match self.builder.binder.part(alter.option(), node)? {
            Option_::SetDefault(set) => {
                self.refuse_identity(position, node)?;
                self.refuse_generated(position, node)?;
                let expression = self.builder.binder.part(set.expr(), node)?;
                self.builder.set_default(position, &expression)
            }
            Option_::DropDefault(_) => {
                self.refuse_identity(position, node)?;
                self.refuse_generated(position, node)?;
                self.builder.table.columns[position].default = None;
                Ok(())
            }
            Option_::DropExpression(drop) => self.drop_expression(position, &drop),
            Option_::AddGenerated(add) => self.add_identity(position, &add),
            Option_::SetGeneratedOptions(set) => self.set_identity(position, set.set_generated_options()),
            Option_::Restart(restart) => {
                let restart = ast::SetGeneratedOption::Restart(restart);
                self.set_identity(position, std::iter::once(restart))
            }
            Option_::DropIdentity(drop) => {
                let column = &mut self.builder.table.columns[position];
                if column.identity.is_none() {
                    return self.is_no(position, IDENTITY, drop.if_exists().is_some(), node);
                }
                (column.default, column.identity) = (None, None);
                Ok(())
            }
            Option_::SetNotNull(_) => {
                self.rebuilds |= self.builder.table.columns[position].nullable;
                self.builder.table.columns[position].nullable = false;
                Ok(())
            }
            Option_::DropNotNull(_) if is_key => {
                self.refuse_identity(position, node)?;
                let name = &self.builder.table.columns[position].name;
                self.error(node, "42P16", format!("column \"{name}\" is in a primary key"))
            }
            Option_::DropNotNull(_) => {
                self.rebuilds |= !self.builder.table.columns[position].nullable;
                self.builder.table.columns[position].nullable = true;
                Ok(())
            }
            Option_::SetType(set) => self.set_type(position, &set),
            Option_::SetStatistics(_) | Option_::SetStorage(_) | Option_::SetCompression(_) => Ok(()),
            other => Err(self.builder.binder.unsupported(other.syntax(), "this change of a column")),
        }
    }

    fn set_type(&mut self, position: usize, set: &ast::SetType) -> Result<(), StatementError> {
        let node = set.syntax();
        let ty = self.builder.binder.part(set.ty(), node)?;
        let ty = self.builder.binder.bind_type(&ty)?;
        let Origin::Old(old_position) = self.origins[position] else {
            return Err(self.builder.binder.unsupported(node, "changing a type twice"));
        };
        if !self.users_of(|columns| columns.contains(&old_position)).is_empty() || self.is_foreign(position) {
            let what = "changing the type of a column of a foreign key";
            return Err(self.builder.binder.unsupported(node, what));
        }
        let name = &self.builder.table.columns[position].name;
        if let Some(user) = self.generated_from(name) {
            let user = &self.builder.table.columns[user];
            if user.hidden {
                let what = "changing the type of a column that an index on an expression reads";
                return Err(self.builder.binder.unsupported(node, what));
            }
            let user = &user.name;
            let message = "cannot alter type of a column used by a generated column";
            let detail = format!("Column \"{name}\" is used by generated column \"{user}\".");
            let error = SqlError::new("0A000", message).with_detail(detail);
            return Err(self.builder.binder.error(node, error));
        }
        self.refuse_used_by_view(position, old_position, node)?;
        self.convert_default_of(position, ty, set.using_expr().is_some(), node)?;
        self.builder.table.columns[position].ty = ty;
        self.builder.table.columns[position].domain = None;
        self.origins[position] =
            Origin::Converted(old_position, set.using_expr().and_then(|using| using.expr()));
        self.rebuilds = true;
        Ok(())
    }

    fn refuse_used_by_view(
        &self,
        position: usize,
        old_position: usize,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let Some(view) = self.builder.binder.schema.view_using(&self.old, old_position) else {
            return Ok(());
        };
        let column = &self.builder.table.columns[position].name;
        let detail = format!("rule _RETURN on view {} depends on column \"{column}\"", view.name);
        let error = SqlError::new("0A000", "cannot alter type of a column used by a view or rule");
        Err(self.builder.binder.error(node, error.with_detail(detail)))
    }

    /// Keeps the type that a literal default had, and refuses a type to which the default cannot be assigned.
    /// Without USING, the values of the column must be assignable first.
    fn convert_default_of(
        &mut self,
        position: usize,
        ty: Type,
        has_using: bool,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let Column { name, ty: old, default: Some(default), generated: false, .. } =
            self.builder.table.columns[position].clone()
        else {
            return Ok(());
        };
        let type_of = |binder: &mut Binder<'_>, own: &ast::Expr| Ok(binder.bind(own)?.known_type());
        let known = self.builder.binder.bind_definition(&default, node, type_of)?;
        if !is_assignable(known.unwrap_or(old), ty) && (has_using || is_assignable(old, ty)) {
            let message = format!("default for column \"{name}\" cannot be cast automatically to type {ty}");
            return self.error(node, "42804", message);
        }
        if known.is_none() && old.base() != ty.base() {
            self.builder.table.columns[position].default = Some(format!("{default}::{}", old.base()));
        }
        Ok(())
    }

    fn drop_expression(&mut self, position: usize, drop: &ast::DropExpression) -> Result<(), StatementError> {
        let node = drop.syntax();
        let column = &mut self.builder.table.columns[position];
        if !std::mem::take(&mut column.generated) {
            return self.is_no(position, "a stored generated column", drop.if_exists().is_some(), node);
        }
        column.default = None;
        Ok(())
    }

    /// Returns the position of a generated column that is computed from a column.
    fn generated_from(&self, name: &str) -> Option<usize> {
        let uses = |text: &String| kept_text::mentions(text, name);
        let mut columns = self.builder.table.columns.iter();
        columns.position(|column| column.generated && column.default.as_ref().is_some_and(uses))
    }

    /// Refuses an action that an identity column does not take.
    fn refuse_identity(&self, position: usize, node: &SyntaxNode) -> Result<(), StatementError> {
        let column = &self.builder.table.columns[position];
        if column.identity.is_none() {
            return Ok(());
        }
        let (name, table) = (&column.name, self.builder.short_name());
        self.error(node, "42601", format!("column \"{name}\" of relation \"{table}\" is an identity column"))
    }

    fn refuse_generated(&self, position: usize, node: &SyntaxNode) -> Result<(), StatementError> {
        let column = &self.builder.table.columns[position];
        if !column.generated {
            return Ok(());
        }
        let (name, table) = (&column.name, self.builder.short_name());
        let message = format!("column \"{name}\" of relation \"{table}\" is a generated column");
        let hint = "Use ALTER TABLE ... ALTER COLUMN ... DROP EXPRESSION instead.";
        Err(self.builder.binder.error(node, SqlError::new("42601", message).with_hint(hint)))
    }

    fn is_foreign(&self, position: usize) -> bool {
        self.builder.table.foreign_keys.iter().any(|key| key.columns.contains(&position))
    }

    pub(super) fn rename_column(
        &mut self,
        position: usize,
        new: String,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        if self.builder.table.columns.iter().any(|column| column.name == new) {
            let message =
                format!("column \"{new}\" of relation \"{}\" already exists", self.builder.table.name);
            return self.error(node, "42701", message);
        }
        let table = &mut self.builder.table;
        let old = std::mem::replace(&mut table.columns[position].name, new.clone());
        let conditions = table.triggers.iter_mut().filter_map(|trigger| trigger.condition.as_mut());
        let of_indexes = table.indexes.iter_mut().filter_map(|index| index.details.condition.as_mut());
        let generated = table.columns.iter_mut().filter(|column| column.generated);
        let generated = generated.flat_map(|own| {
            // The hidden column of a partial index has the name of the column whose values it holds.
            let is_part = own.hidden && own.name == quoted(&old);
            if is_part {
                own.name = quoted(&new);
            }
            let shown = Some(&mut own.name).filter(|_| own.hidden && !is_part);
            own.default.as_mut().into_iter().chain(shown)
        });
        let conditions = conditions.chain(of_indexes).chain(generated);
        for text in table.checks.iter_mut().map(|(_, text)| text).chain(conditions) {
            *text = kept_text::renamed(text, &old, &new);
        }
        for column in table.triggers.iter_mut().flat_map(|trigger| &mut trigger.columns) {
            if *column == old {
                column.clone_from(&new);
            }
        }
        Ok(())
    }
}
