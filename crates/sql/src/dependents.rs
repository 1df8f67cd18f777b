//! The objects that CASCADE drops besides those that a statement names.
//!
//! A dependent object is dropped by the statement that a user would write for it, so it follows the rules
//! of that statement. Example: DROP TYPE … CASCADE executes ALTER TABLE … DROP COLUMN for each column of the
//! type.

use crate::cascade::cascades;
use crate::error::StatementError;
use crate::kept_text;
use crate::quoted::{quoted, quoted_path};
use crate::schema::Schema;
use crate::source::{At, Source};
use catalog::{Column, Table, Trigger};
use procedure::Effect;
use squawk_syntax::ast::{self, AstNode};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Schema {
    /// Executes a statement that CASCADE implies, and tells which object it drops.
    fn also(&mut self, dropped: String, statement: &str, at: At<'_>) -> Result<Effect, StatementError> {
        self.notices.drops_also(dropped);
        let source = Source::parse(statement)?;
        let Some(statement) = source.file.stmts().next() else { return Ok(Effect::None) };
        let moved =
            |error: StatementError| at.source.error_at(at.node.text_range().start().into(), error.error);
        self.change_objects(&statement, &source).map_err(moved)
    }

    /// Drops a view, and those that use it.
    pub(crate) fn drop_view_also(&mut self, view: &str) {
        self.views.remove(view);
        self.notices.drops_also(format!("view {view}"));
        self.drop_broken_views();
    }

    /// Drops the views that can no longer be bound.
    pub(crate) fn drop_broken_views(&mut self) {
        while let Some((view, _)) = self.broken_view() {
            let name = view.name.clone();
            self.views.remove(&name);
            self.notices.drops_also(format!("view {name}"));
        }
    }

    /// Drops the views that use the columns which an ALTER TABLE drops with CASCADE.
    pub(crate) fn drop_views_of_columns(&mut self, alter: &ast::AlterTable, table: &Table) {
        for action in alter.actions() {
            let ast::AlterTableAction::DropColumn(drop) = action else { continue };
            let name = drop.column_name_ref().map(|name| ast::normalize_name_node(name.syntax()));
            let position = table.visible().iter().position(|column| Some(&column.name) == name.as_ref());
            let Some(position) = position.filter(|_| cascades(drop.syntax())) else { continue };
            while let Some(view) = self.view_using(table, position) {
                let view = view.name.clone();
                self.drop_view_also(&view);
            }
        }
    }

    /// Drops the columns that `is_of` selects, because their type is dropped.
    pub(crate) fn drop_columns_of_type(
        &mut self,
        is_of: impl Fn(&Column) -> bool,
        at: At<'_>,
    ) -> Result<Effect, StatementError> {
        let used = self.catalog.tables().map(|table| {
            let columns = table.visible().iter().filter(|column| is_of(column));
            (table.name.clone(), columns.map(|column| column.name.clone()).collect::<Vec<_>>())
        });
        let used: Vec<_> = used.filter(|(_, columns)| !columns.is_empty()).collect();
        let mut effects = Vec::new();
        for (table, columns) in used {
            for column in columns {
                let statement =
                    format!("ALTER TABLE {} DROP COLUMN {} CASCADE", quoted_path(&table), quoted(&column));
                effects.push(self.also(format!("column {column} of table {table}"), &statement, at)?);
            }
        }
        Ok(Effect::All(effects))
    }

    /// Drops the triggers, constraints and defaults that call a routine.
    pub(crate) fn drop_callers(&mut self, routine: &str, at: At<'_>) -> Result<Effect, StatementError> {
        let mut effects = Vec::new();
        loop {
            let user = self.catalog.tables().find_map(|table| {
                let part = TablePart::that_calls(table, routine)?;
                part.drop_statement(table).map(|statement| (part.of_table(table), statement))
            });
            let Some((dropped, statement)) = user else { return Ok(Effect::All(effects)) };
            effects.push(self.also(dropped, &statement, at)?);
        }
    }

    /// Drops the defaults that take numbers of a sequence. `dropped` are tables that go with it.
    pub(crate) fn drop_defaults_from(
        &mut self,
        sequence: &Arc<Table>,
        dropped: &BTreeSet<String>,
        at: At<'_>,
    ) -> Result<Effect, StatementError> {
        let mut effects = Vec::new();
        loop {
            let user =
                self.catalog.tables().filter(|table| !dropped.contains(&table.name)).find_map(|table| {
                    let column = self.column_drawing_from(table, sequence.id, at.source)?;
                    Some((TablePart::Default(table.columns[column].name.clone()), Arc::clone(table)))
                });
            let Some((part, table)) = user else { return Ok(Effect::All(effects)) };
            let statement = part.drop_statement(&table).unwrap_or_default();
            effects.push(self.also(part.of_table(&table), &statement, at)?);
        }
    }
}

/// A part of a table's definition that calls a function.
pub(crate) enum TablePart {
    Trigger(String),
    Constraint(String),
    /// The default of a column.
    Default(String),
    /// The expression of a generated column.
    Generated(String),
}

impl TablePart {
    /// Returns a part that calls a function; `None` if no part does.
    pub(crate) fn that_calls(table: &Table, function: &str) -> Option<Self> {
        let trigger = table.triggers.iter().find(|trigger| trigger.function == function);
        let trigger = trigger.map(|trigger| Self::Trigger(trigger.name.clone()));
        trigger.or_else(|| Self::whose_text_calls(table, function))
    }

    /// Returns a part with an expression that calls a function; `None` if there is none.
    pub(crate) fn whose_text_calls(table: &Table, function: &str) -> Option<Self> {
        let calls = |text: &str| kept_text::calls(text, function);
        if let Some((name, _)) = table.checks.iter().find(|(_, text)| calls(text)) {
            return Some(Self::Constraint(name.clone()));
        }
        let fires = |trigger: &&Trigger| trigger.condition.as_deref().is_some_and(calls);
        if let Some(trigger) = table.triggers.iter().find(fires) {
            return Some(Self::Trigger(trigger.name.clone()));
        }
        let column = table.columns.iter().find(|column| column.default.as_deref().is_some_and(calls))?;
        let part = if column.generated { Self::Generated } else { Self::Default };
        Some(part(column.name.clone()))
    }

    /// Returns the part as PostgreSQL names it.
    pub(crate) fn of_table(&self, table: &Table) -> String {
        let table = &table.name;
        match self {
            Self::Trigger(name) => format!("trigger {name} on table {table}"),
            Self::Constraint(name) => format!("constraint {name} on table {table}"),
            Self::Default(column) => format!("default value for column {column} of table {table}"),
            Self::Generated(column) => format!("column {column} of table {table}"),
        }
    }

    /// Returns the statement that drops the part; `None` for an expression of an index.
    fn drop_statement(&self, table: &Table) -> Option<String> {
        let path = quoted_path(&table.name);
        Some(match self {
            Self::Trigger(name) => format!("DROP TRIGGER {} ON {path}", quoted(name)),
            Self::Constraint(name) => format!("ALTER TABLE {path} DROP CONSTRAINT {}", quoted(name)),
            Self::Default(column) => format!("ALTER TABLE {path} ALTER {} DROP DEFAULT", quoted(column)),
            Self::Generated(column) => {
                table.visible().iter().find(|own| own.name == *column)?;
                format!("ALTER TABLE {path} DROP COLUMN {} CASCADE", quoted(column))
            }
        })
    }
}
