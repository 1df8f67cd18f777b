//! The statements CREATE, ALTER and DROP TRIGGER, and ALTER TABLE … ENABLE and DISABLE TRIGGER.
//!
//! A table's definition has its triggers (`catalog`). The schema keeps a compiled function for each event of
//! a trigger (`function`). Statements that fire the trigger call the function of their event (`fired`).

mod fired;
mod function;
mod lowered;
mod order;
mod partitioned;

pub(crate) use fired::WrittenRow;
pub(crate) use lowered::Triggered;

use crate::StatementError;
use crate::binder::{Binder, Typed};
use crate::called_names::called_name;
use crate::definition::TableBuilder;
use crate::kept_text;
use crate::schema::{Schema, refused, unsupported};
use crate::source::Source;
use crate::subject::Subject;
use crate::types::object_name;
use catalog::{OnCommit, Table, Trigger, TriggerEvent, TriggerTiming};
use procedure::{Effect, Procedure, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

fn error_at(source: &Source, node: &SyntaxNode, code: &str, message: String) -> StatementError {
    source.error_at(node.text_range().start().into(), SqlError::new(code, message))
}

/// Returns the table of an ON clause.
fn table_of<'s>(
    schema: &'s Schema,
    relation: Option<ast::OnRelation>,
    source: &Source,
    node: &SyntaxNode,
) -> Result<&'s Arc<Table>, StatementError> {
    let binder = Binder::new(schema, source);
    let path = relation.and_then(|name| name.relation_name_ref()).and_then(|name| name.path_ref());
    let path = binder.part(path, node)?;
    let name = object_name(&path);
    if schema.view(&name).is_some() {
        let what =
            if schema.is_partition(&name) { "a trigger of a partition" } else { "a trigger of a view" };
        return Err(binder.unsupported(path.syntax(), what));
    }
    let table = schema.catalog().table(&name);
    let table = table.map_err(|_| {
        error_at(source, path.syntax(), "42P01", format!("relation \"{name}\" does not exist"))
    })?;
    binder.refuse_sequence(table, path.syntax())?;
    Ok(table)
}

/// Returns the events of a trigger and the columns of UPDATE OF.
fn events_of(
    create: &ast::CreateTrigger,
    table: &Table,
    binder: &Binder<'_>,
) -> Result<(Vec<TriggerEvent>, Vec<String>), StatementError> {
    let (mut events, mut columns) = (Vec::new(), Vec::new());
    if table.on_commit == OnCommit::Delete {
        return Err(binder.unsupported(create.syntax(), "a trigger of a table with ON COMMIT DELETE ROWS"));
    }
    let list = binder.part(create.trigger_event_list(), create.syntax())?;
    for written in list.trigger_events() {
        let node = list.syntax();
        let event = match written {
            ast::TriggerEvent::TriggerEventInsert(_) => TriggerEvent::Insert,
            ast::TriggerEvent::TriggerEventDelete(_) => TriggerEvent::Delete,
            ast::TriggerEvent::TriggerEventUpdate(update) => {
                for name in update.column_name_refs() {
                    let column = ast::normalize_name_node(name.syntax());
                    binder.column_of(table, &column, name.syntax())?;
                    if columns.contains(&column) {
                        let message = format!("column \"{column}\" specified more than once");
                        return Err(binder.error(name.syntax(), SqlError::new("42701", message)));
                    }
                    columns.push(column);
                }
                TriggerEvent::Update
            }
            ast::TriggerEvent::TriggerEventTruncate(truncate) => {
                return Err(binder.unsupported(truncate.syntax(), "a trigger of TRUNCATE"));
            }
        };
        if events.contains(&event) {
            return Err(binder.syntax(node, "duplicate trigger events specified"));
        }
        events.push(event);
    }
    events.sort_unstable();
    Ok((events, columns))
}

/// Returns the name of a trigger's function and the arguments.
fn called(create: &ast::CreateTrigger, binder: &Binder<'_>) -> Result<(String, Vec<String>), StatementError> {
    let call = binder.part(create.call_expr(), create.syntax())?;
    let function = binder.part(called_name(&call), call.syntax())?;
    let mut arguments = Vec::new();
    for argument in call.arg_list().into_iter().flat_map(|list| list.args()) {
        let text = argument.syntax().text().to_string();
        arguments.push(match argument.expr() {
            Some(ast::Expr::Literal(literal)) => match binder.bind_literal(&literal)? {
                Typed::Literal(text) => text,
                _ => text,
            },
            _ => text,
        });
    }
    // As in PostgreSQL, only a function without parameters is looked for.
    let is_found = |own: &&Arc<Procedure>| {
        own.is_trigger || (own.is_function || own.is_template) && own.inputs().next().is_none()
    };
    let Some(procedure) = binder.schema.procedure(&function).filter(is_found) else {
        let message = format!("function {function}() does not exist");
        return Err(binder.error(call.syntax(), SqlError::new("42883", message)));
    };
    if !procedure.is_trigger {
        let message = format!("function {function} must return type trigger");
        return Err(binder.error(call.syntax(), SqlError::new("42P17", message)));
    }
    Ok((procedure.name.clone(), arguments))
}

/// Refuses the forms of CREATE TRIGGER that are not supported.
fn refuse_forms(create: &ast::CreateTrigger, binder: &Binder<'_>) -> Result<(), StatementError> {
    let node = create.syntax();
    for (present, what) in [
        (create.constraint_token().is_some(), "a constraint trigger"),
        (create.constraint_options().next().is_some(), "this option of a trigger"),
        (create.from_table().is_some(), "FROM in a trigger"),
        (create.referencing().is_some(), "REFERENCING"),
    ] {
        if present {
            return Err(binder.unsupported(node, what));
        }
    }
    Ok(())
}

/// Returns the trigger that CREATE TRIGGER defines.
fn trigger_definition(
    create: &ast::CreateTrigger,
    table: &Table,
    binder: &Binder<'_>,
) -> Result<Trigger, StatementError> {
    let node = create.syntax();
    refuse_forms(create, binder)?;
    let name = binder.part(create.trigger(), node)?;
    let timing = match binder.part(create.timing(), node)? {
        ast::Timing::TimingBefore(_) => TriggerTiming::Before,
        ast::Timing::TimingAfter(_) => TriggerTiming::After,
        ast::Timing::TimingInsteadOf(timing) => return Err(binder.unsupported(timing.syntax(), "INSTEAD OF")),
    };
    let (events, columns) = events_of(create, table, binder)?;
    let for_each_row = matches!(create.trigger_level(), Some(ast::TriggerLevel::ForEachRow(_)));
    let condition = create.when_condition().and_then(|when| when.expr());
    if let Some(condition) = &condition {
        if condition.syntax().descendants().any(|node| ast::SelectVariant::can_cast(node.kind())) {
            let message = "cannot use subquery in trigger WHEN condition";
            return Err(binder.error(condition.syntax(), SqlError::new("0A000", message)));
        }
        let text = kept_text::columns_in(binder.source.text_of(condition.syntax()));
        let names = |record: &str| text.iter().any(|name| name == record);
        let fault = match (names("old"), names("new")) {
            (true, _) | (_, true) if !for_each_row => {
                Some("statement trigger's WHEN condition cannot reference column values".to_owned())
            }
            (true, _) if events.contains(&TriggerEvent::Insert) => {
                Some("INSERT trigger's WHEN condition cannot reference OLD values".to_owned())
            }
            (_, true) if events.contains(&TriggerEvent::Delete) => {
                Some("DELETE trigger's WHEN condition cannot reference NEW values".to_owned())
            }
            _ => None,
        };
        if let Some(message) = fault {
            return Err(binder.error(condition.syntax(), SqlError::new("42P17", message)));
        }
    }
    let (function, arguments) = called(create, binder)?;
    Ok(Trigger {
        name: ast::normalize_name_node(name.syntax()),
        timing,
        events,
        columns,
        for_each_row,
        condition: condition.map(|expression| binder.source.text_of(expression.syntax()).to_owned()),
        function,
        arguments,
        enabled: true,
    })
}

impl Schema {
    pub(crate) fn create_trigger(
        &mut self,
        create: &ast::CreateTrigger,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let node = create.syntax();
        let table = Arc::clone(table_of(self, create.on_relation(), source, node)?);
        let trigger = trigger_definition(create, &table, &Binder::new(self, source))?;
        let known = table.triggers.iter().position(|known| known.name == trigger.name);
        if known.is_some() && create.or_replace().is_none() {
            let (name, table) = (&trigger.name, table.short_name());
            let message = format!("trigger \"{name}\" for relation \"{table}\" already exists");
            return Err(error_at(source, node, "42710", message));
        }
        self.refuse_key_actions(&table, &trigger, source, node)?;
        // `with_triggers` compiles all routines again, in an order that depends on the writes of this
        // function.
        let compiled = self.compile_trigger(&table, &trigger, source, node)?;
        self.triggers.insert((table.name.clone(), trigger.name.clone()), compiled);
        self.with_triggers(&table, source, node, |triggers| {
            triggers.retain(|known| known.name != trigger.name);
            triggers.push(trigger);
            triggers.sort_by(|a, b| a.name.cmp(&b.name));
        })
    }

    /// Compiles the triggers of a replaced function again. The order of compilation depends on their writes.
    pub(crate) fn compile_triggers_of(
        &mut self,
        function: &str,
        source: &Source,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let tables: Vec<Arc<Table>> = self.catalog().tables().map(Arc::clone).collect();
        for table in tables {
            for trigger in table.triggers.iter().filter(|trigger| trigger.function == function) {
                let compiled = self.compile_trigger(&table, trigger, source, node)?;
                self.triggers.insert((table.name.clone(), trigger.name.clone()), compiled);
            }
        }
        Ok(())
    }

    /// Moves the compiled triggers of a table to its new name.
    pub(crate) fn rename_table_of_triggers(&mut self, old: &str, new: &Table) {
        for trigger in &new.triggers {
            if let Some(compiled) = self.triggers.remove(&(old.to_owned(), trigger.name.clone())) {
                self.triggers.insert((new.name.clone(), trigger.name.clone()), compiled);
            }
        }
    }

    /// Changes the triggers of a table.
    fn with_triggers(
        &mut self,
        table: &Table,
        source: &Source,
        node: &SyntaxNode,
        change: impl FnOnce(&mut Vec<Trigger>),
    ) -> Result<Effect, StatementError> {
        let mut changed = table.clone();
        change(&mut changed.triggers);
        let changed = self.catalog.redefine(&table.name, changed);
        let changed = changed.map_err(|error| refused(source, node, &error))?;
        self.recompile(source, node)?;
        Ok(Effect::Redefine(changed))
    }

    pub(crate) fn drop_trigger(
        &mut self,
        drop: &ast::DropTrigger,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let node = drop.syntax();
        let if_exists = drop.if_exists().is_some();
        let table = match table_of(self, drop.on_relation(), source, node) {
            Err(error) if if_exists && error.error.sqlstate == "42P01" => {
                self.notices.skip_missing_of(&error.error);
                return Ok(Effect::None);
            }
            found => Arc::clone(found?),
        };
        let name = Binder::new(self, source).part(drop.trigger_ref(), node)?;
        let name = ast::normalize_name_node(name.syntax());
        if !table.triggers.iter().any(|trigger| trigger.name == name) {
            let message = format!("trigger \"{name}\" for table \"{}\" does not exist", table.short_name());
            if if_exists {
                self.notices
                    .skip_missing(&format!("trigger \"{name}\" for relation \"{}\"", table.short_name()));
                return Ok(Effect::None);
            }
            return Err(error_at(source, node, "42704", message));
        }
        self.with_triggers(&table, source, node, |triggers| triggers.retain(|trigger| trigger.name != name))
    }

    /// Executes ALTER TRIGGER … RENAME TO.
    pub(crate) fn alter_trigger(
        &mut self,
        alter: &ast::AlterTrigger,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let node = alter.syntax();
        let Some(ast::AlterTriggerAction::TriggerRenameTo(rename)) = alter.action() else {
            return Err(unsupported(source, node, "this form of ALTER TRIGGER"));
        };
        let table = Arc::clone(table_of(self, alter.on_relation(), source, node)?);
        let binder = Binder::new(self, source);
        let old = ast::normalize_name_node(binder.part(alter.trigger_ref(), node)?.syntax());
        let new = ast::normalize_name_node(binder.part(rename.trigger(), node)?.syntax());
        let has = |name: &String| table.triggers.iter().any(|trigger| trigger.name == *name);
        if !has(&old) {
            let message = format!("trigger \"{old}\" for table \"{}\" does not exist", table.short_name());
            return Err(error_at(source, node, "42704", message));
        }
        if has(&new) {
            let message = format!("trigger \"{new}\" for relation \"{}\" already exists", table.short_name());
            return Err(error_at(source, node, "42710", message));
        }
        if let Some(compiled) = self.triggers.remove(&(table.name.clone(), old.clone())) {
            self.triggers.insert((table.name.clone(), new.clone()), compiled);
        }
        let subject = |name: &String| Subject::Trigger(table.name.clone(), name.clone());
        self.rename_subject(&subject(&old), subject(&new));
        self.with_triggers(&table, source, node, |triggers| {
            triggers
                .iter_mut()
                .filter(|trigger| trigger.name == old)
                .for_each(|trigger| trigger.name.clone_from(&new));
            triggers.sort_by(|a, b| a.name.cmp(&b.name));
        })
    }

    /// Refuses a trigger that the action of a foreign key fires, which is not supported.
    fn refuse_key_actions(
        &self,
        table: &Table,
        trigger: &Trigger,
        source: &Source,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        match table.foreign_keys.iter().find(|key| function::is_fired_by(trigger, key)) {
            None => Ok(()),
            Some(key) => {
                let what = format!("a trigger that the action of foreign key \"{}\" fires", key.name);
                Err(unsupported(source, node, &what))
            }
        }
    }

    /// Refuses the foreign keys of a table if their actions fire its triggers.
    pub(crate) fn refuse_fired_triggers(
        &self,
        table: &Table,
        source: &Source,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        table.triggers.iter().try_for_each(|trigger| self.refuse_key_actions(table, trigger, source, node))
    }
}

impl TableBuilder<'_> {
    /// Executes ENABLE or DISABLE TRIGGER of one trigger, or of all triggers.
    ///
    /// # Errors
    /// `42704`: the table has no trigger of this name. `0A000`: DISABLE TRIGGER ALL of a table with foreign
    /// keys. In PostgreSQL, where foreign keys are triggers, it stops their checks.
    pub(crate) fn enable(
        &mut self,
        target: Option<ast::TriggerTarget>,
        enabled: bool,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let name = match &target {
            Some(ast::TriggerTarget::TriggerRef(trigger)) => Some(ast::normalize_name_node(trigger.syntax())),
            _ => None,
        };
        let catalog = self.binder.schema.catalog();
        let has_keys =
            !self.table.foreign_keys.is_empty() || catalog.references_to(&self.table.name).next().is_some();
        if !enabled && has_keys && matches!(target, Some(ast::TriggerTarget::All(_))) {
            let message = "DISABLE TRIGGER ALL of a table with foreign keys is not supported";
            let hint = "Foreign keys stay in force. Use DISABLE TRIGGER USER for the other triggers.";
            return Err(self.binder.error(node, SqlError::new("0A000", message).with_hint(hint)));
        }
        let is_meant = |trigger: &&mut Trigger| name.as_ref().is_none_or(|name| trigger.name == *name);
        let mut found = false;
        for trigger in self.table.triggers.iter_mut().filter(is_meant) {
            (trigger.enabled, found) = (enabled, true);
        }
        match name {
            Some(name) if !found => {
                let message = format!("trigger \"{name}\" for table \"{}\" does not exist", self.table.name);
                Err(self.binder.error(node, SqlError::new("42704", message)))
            }
            _ => Ok(()),
        }
    }
}
