//! Compiles a trigger's function for a table and an event.
//!
//! The columns of NEW and OLD are parameters. The function of a BEFORE ROW trigger returns the columns of the
//! new row, and whether the statement writes the row. TG_OP and the other TG variables are constants, so the
//! compiled function lacks the branches for other events.

use super::error_at;
use crate::StatementError;
use crate::binder::{Binder, Name, TriggerFrame, Typed, Variable};
use crate::called_names::called_name;
use crate::oids::table_oid;
use crate::quoted::quoted_path;
use crate::roles::variant::logged_for;
use crate::schema::{CompiledTrigger, Schema, unsupported};
use crate::source::Source;
use crate::unbound::is_missing_object;
use catalog::{
    Datum, ForeignKey, ReferenceAction, ScalarType, Table, Trigger, TriggerEvent, TriggerTiming, Type,
};
use procedure::query::{Plan, Query};
use procedure::{
    CastContext, Expression, Mode, OperationKind, Parameter, Procedure, Raise, Register, Role, SqlError,
    Statement,
};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// A write of a procedure: its table, the event of triggers, and the columns that an UPDATE sets.
struct Write<'p> {
    table: &'p Table,
    event: TriggerEvent,
    columns: Vec<usize>,
}

/// Returns whether the action of a foreign key fires a trigger of the referencing table.
pub(super) fn is_fired_by(trigger: &Trigger, key: &ForeignKey) -> bool {
    let deletes = key.on_delete == ReferenceAction::Cascade;
    let sets = |action: ReferenceAction| !action.refuses();
    let updates = sets(key.on_update) || sets(key.on_delete) && !deletes;
    deletes && trigger.events.contains(&TriggerEvent::Delete)
        || updates && trigger.events.contains(&TriggerEvent::Update)
}

/// Returns whether a statement fires a trigger. `set` are the columns that an UPDATE sets.
pub(super) fn fires<'n>(
    trigger: &Trigger,
    event: TriggerEvent,
    mut set: impl Iterator<Item = &'n String>,
) -> bool {
    trigger.enabled
        && trigger.events.contains(&event)
        && (event != TriggerEvent::Update
            || trigger.columns.is_empty()
            || set.any(|column| trigger.columns.contains(column)))
}

/// Returns the names of columns of a table.
pub(super) fn names_of<'t>(table: &'t Table, columns: &'t [usize]) -> impl Iterator<Item = &'t String> {
    columns.iter().filter_map(|column| table.columns.get(*column)).map(|column| &column.name)
}

/// Returns the writes of a procedure, without those of the routines that it calls.
fn writes_of(procedure: &Procedure) -> Vec<Write<'_>> {
    let mut all = Vec::new();
    for operation in &procedure.operations {
        let table = &**operation.table();
        let (event, columns) = match &operation.kind {
            OperationKind::Select(_) => continue,
            OperationKind::Insert { .. } => (TriggerEvent::Insert, Vec::new()),
            OperationKind::Delete { .. } => (TriggerEvent::Delete, Vec::new()),
            OperationKind::Update { assignments, .. } => {
                (TriggerEvent::Update, assignments.iter().map(|(column, ..)| *column).collect())
            }
        };
        all.push(Write { table, event, columns });
    }
    procedure.queries.iter().for_each(|statement| add_writes(&statement.query, &mut all));
    all
}

fn add_writes<'p>(query: &'p Query, all: &mut Vec<Write<'p>>) {
    query.plan.walk(&mut |node| match node {
        Plan::Insert(insert) => {
            all.push(Write { table: &insert.table, event: TriggerEvent::Insert, columns: Vec::new() });
            if let Some(update) = insert.conflict.as_ref().and_then(|conflict| conflict.update.as_ref()) {
                let columns = update.assignments.iter().map(|(column, ..)| *column).collect();
                all.push(Write { table: &insert.table, event: TriggerEvent::Update, columns });
            }
        }
        Plan::Update(update) => {
            let columns = update.assignments.iter().map(|(column, _)| *column).collect();
            all.push(Write { table: &update.table, event: TriggerEvent::Update, columns });
        }
        Plan::Delete(delete) => {
            all.push(Write { table: &delete.table, event: TriggerEvent::Delete, columns: Vec::new() });
        }
        // The binder refuses MERGE into a table with triggers, so each trigger on the table counts as fired.
        Plan::Merge(merge) => {
            for event in [TriggerEvent::Insert, TriggerEvent::Update, TriggerEvent::Delete] {
                all.push(Write { table: &merge.table, event, columns: Vec::new() });
            }
        }
        _ => {}
    });
}

impl TriggerFrame {
    /// Returns the record that `coalesce(NEW, OLD)` has as its value, which is NULL if there is neither;
    /// `None` for any other expression.
    fn coalesced(&self, expression: &ast::Expr) -> Option<Option<String>> {
        let ast::Expr::CallExpr(call) = expression else { return None };
        called_name(call).filter(|name| name == "coalesce")?;
        let mut records = Vec::new();
        for argument in call.arg_list()?.args() {
            let ast::Expr::NameRef(name) = argument.expr()? else { return None };
            records.push(Some(name.text()).filter(|name| RECORDS.contains(&name.as_str()))?);
        }
        Some(records.into_iter().find(|name| !self.absent.contains(&name.as_str())))
    }
}

impl Schema {
    /// Returns the triggers that the writes of a procedure fire, with their tables. Leaves out those that
    /// writes of called routines fire.
    pub(crate) fn fired_by<'s>(
        &'s self,
        procedure: &'s Procedure,
    ) -> impl Iterator<Item = (&'s Arc<Table>, &'s Trigger)> {
        writes_of(procedure).into_iter().flat_map(|write| {
            // Since the procedure was compiled, the table may have a new name or number, and its columns may
            // have new names or positions.
            let same = |table: &&Arc<Table>| table.id == write.table.id || table.name == write.table.name;
            let tables: Vec<_> = self.catalog().tables().filter(same).collect();
            tables.into_iter().flat_map(move |table| {
                let set = || names_of(write.table, &write.columns).chain(names_of(table, &write.columns));
                let fired = table.triggers.iter().filter(|trigger| fires(trigger, write.event, set()));
                fired.map(|trigger| (table, trigger)).collect::<Vec<_>>()
            })
        })
    }

    /// Compiles the function of a trigger for each of its events.
    pub(crate) fn compile_trigger(
        &self,
        table: &Arc<Table>,
        trigger: &Trigger,
        source: &Source,
        node: &SyntaxNode,
    ) -> Result<CompiledTrigger, StatementError> {
        if let Some(column) = trigger.columns.iter().find(|column| table.column(column).is_none()) {
            let (trigger, table) = (&trigger.name, &table.name);
            let message = format!(
                "trigger \"{trigger}\" depends on column \"{column}\", which table \"{table}\" lacks"
            );
            let error = SqlError::new("2BP01", message).with_hint("Drop the trigger first.");
            return Err(source.error_at(node.text_range().start().into(), error));
        }
        // An error's line and column refer to the text of the function, not to the statement.
        let at = |error: StatementError| {
            let StatementError { line, column, error } = error;
            let position = format!("In function {}, line {line}, column {column}.", trigger.function);
            let detail =
                error.detail.clone().map_or(position.clone(), |detail| format!("{detail} {position}"));
            source.error_at(node.text_range().start().into(), error.with_detail(detail))
        };
        let Some(function) = self.procedure(&trigger.function) else {
            let message = format!("function {}() does not exist", trigger.function);
            return Err(error_at(source, node, "42883", message));
        };
        let function_source = self.trees.parse(&function.source)?;
        let compiled = self.compile_events(table, trigger, &function_source).map_err(at)?;
        compiled.ok_or_else(|| unsupported(source, node, "this routine"))
    }

    /// Compiles a function for each event of a trigger; `None` if the text has no routine.
    fn compile_events(
        &self,
        table: &Arc<Table>,
        trigger: &Trigger,
        function: &Source,
    ) -> Result<Option<CompiledTrigger>, StatementError> {
        let routine = function.routine();
        let Some(routine) = routine else { return Ok(None) };
        let compile = |event: &TriggerEvent| {
            let compiled = routine.compile_fired(table, trigger, *event, self, function)?;
            Ok((*event, Arc::new(logged_for(self.compiles_variants(), compiled))))
        };
        trigger.events.iter().map(compile).collect::<Result<_, _>>().map(Some)
    }

    /// As `compile_trigger`, of a trigger that is there already. If its function names what is gone, such
    /// as a column with a new name, the trigger's firing raises that error, as in PostgreSQL.
    pub(crate) fn compile_trigger_again(
        &self,
        table: &Arc<Table>,
        trigger: &Trigger,
        source: &Source,
        node: &SyntaxNode,
    ) -> Result<CompiledTrigger, StatementError> {
        match self.compile_trigger(table, trigger, source, node) {
            Err(refused) if is_missing_object(&refused) => {
                self.compile_failing_trigger(table, trigger, &refused.error).map_err(|_| refused)
            }
            compiled => compiled,
        }
    }

    /// Compiles a trigger whose firing raises an error: its function cannot be compiled for a session.
    pub(crate) fn compile_failing_trigger(
        &self,
        table: &Arc<Table>,
        trigger: &Trigger,
        error: &SqlError,
    ) -> Result<CompiledTrigger, StatementError> {
        let literal = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let (message, code) = (literal(&error.message), literal(&error.sqlstate));
        let body = format!("BEGIN RAISE EXCEPTION USING MESSAGE = {message}, ERRCODE = {code}; END");
        let name = quoted_path(&trigger.function);
        let text = format!("CREATE FUNCTION {name}() RETURNS TRIGGER LANGUAGE plpgsql AS {}", literal(&body));
        let source = Source::parse(&text)?;
        Ok(self.compile_events(table, trigger, &source)?.unwrap_or_default())
    }
}

/// Returns the indexes of the parameters that a procedure without queries sets.
pub(super) fn set_by(procedure: &Procedure) -> BTreeSet<usize> {
    let mut set = BTreeSet::new();
    let mut note = |register: Register| {
        set.extend(Some(register.0 as usize).filter(|index| *index < procedure.parameters.len()));
    };
    Statement::walk(&procedure.body, &mut |statement| match statement {
        Statement::Assign { target, .. } => note(*target),
        Statement::AssignElement { array, .. } => note(*array),
        Statement::ForRange { variable, .. } => note(*variable),
        Statement::ForEach { variable, .. } => note(*variable),
        Statement::Call { outputs, .. } => outputs.iter().for_each(|(target, _)| note(*target)),
        _ => {}
    });
    for operation in &procedure.operations {
        operation.clone().visit_registers(&mut |role, register| {
            if role == Role::Define {
                note(*register);
            }
        });
    }
    set
}

/// The records of a trigger function, in the order of the parameters.
const RECORDS: [&str; 2] = ["new", "old"];

/// Returns whether an event has a record: NEW or OLD.
pub(super) fn has_record(record: &str, event: TriggerEvent) -> bool {
    match event {
        TriggerEvent::Insert => record == "new",
        TriggerEvent::Update => true,
        TriggerEvent::Delete => record == "old",
    }
}

impl Binder<'_> {
    /// Declares NEW, OLD and the constants of a trigger function. Returns its parameters.
    pub(crate) fn declare_trigger(
        &mut self,
        table: &Table,
        trigger: &Trigger,
        event: TriggerEvent,
    ) -> Vec<Parameter> {
        let returns = trigger.for_each_row && trigger.timing == TriggerTiming::Before;
        let (has, has_not): (Vec<_>, Vec<_>) =
            RECORDS.into_iter().partition(|record| trigger.for_each_row && has_record(record, event));
        self.scopes.push((Some(trigger.function.clone()), HashMap::new()));
        let mut parameters = Vec::new();
        let parameter = |ty, mode| Parameter::new(String::new(), ty, mode);
        let mut returned = Vec::new();
        for record in has {
            let mode = if record == "new" && returns { Mode::InOut } else { Mode::In };
            let fields = self.declare_record(record, table);
            parameters.extend(fields.iter().map(|field| parameter(field.ty, mode)));
            if mode == Mode::InOut {
                returned = fields;
            }
        }
        let is_written = returns.then(|| {
            parameters.push(parameter(ScalarType::Boolean.into(), Mode::Out));
            self.new_register(ScalarType::Boolean)
        });
        for record in &has_not {
            self.declare_record(record, table);
        }
        self.declare_constants(table, trigger, event);
        let arguments = trigger.arguments.clone();
        self.trigger = Some(TriggerFrame { returned, absent: has_not, is_written, arguments });
        parameters
    }

    /// Declares a record with the columns of a table. Returns its variables.
    fn declare_record(&mut self, record: &str, table: &Table) -> Vec<Variable> {
        let mut fields = Vec::new();
        for column in table.visible() {
            let ty = column.ty;
            let variable = Variable { register: self.new_register(ty), ty, constant: false };
            fields.push((column.name.clone(), variable));
        }
        let variables = fields.iter().map(|(_, variable)| *variable).collect();
        self.note_domains(table, &fields);
        self.declare(record.into(), Name::Row(fields));
        variables
    }

    fn declare_constants(&mut self, table: &Table, trigger: &Trigger, event: TriggerEvent) {
        let schema = table.name.rsplit_once('.').map_or("public", |(schema, _)| schema);
        let texts = [
            ("tg_op", event.to_string()),
            ("tg_name", trigger.name.clone()),
            ("tg_when", trigger.timing.to_string()),
            ("tg_level", if trigger.for_each_row { "ROW" } else { "STATEMENT" }.into()),
            ("tg_table_name", table.short_name().into()),
            ("tg_relname", table.short_name().into()),
            ("tg_table_schema", schema.into()),
        ];
        for (name, text) in texts {
            self.declare(name.into(), Name::Constant(Expression::text(&text), ScalarType::Text.into()));
        }
        let numbers = [
            ("tg_nargs", trigger.arguments.len() as i64, ScalarType::Integer),
            ("tg_relid", table_oid(table), ScalarType::BigInt),
        ];
        for (name, number, ty) in numbers {
            self.declare(name.into(), Name::Constant(Expression::Constant(Datum::Int(number)), ty.into()));
        }
        let arguments = match trigger.arguments.as_slice() {
            [] => Expression::NULL,
            texts => Expression::Array(texts.iter().map(|text| Expression::text(text)).collect()),
        };
        self.declare("tg_argv".into(), Name::Constant(arguments, Type::Array(ScalarType::Text)));
    }

    /// Binds WHEN. Returns the statements that end the call unless the condition is true.
    pub(crate) fn bind_when(
        &mut self,
        text: &str,
        node: &SyntaxNode,
    ) -> Result<Vec<Statement>, StatementError> {
        // The condition may refer to the records, but not to the constants of the function.
        let records =
            RECORDS.into_iter().filter_map(|record| Some((record.to_owned(), self.name(record)?.clone())));
        let scopes = vec![(None, records.collect())];
        let (condition, mut statements) = self.bind_definition(text, node, |inner, condition| {
            (inner.scopes, inner.lifted) = (scopes, Some(Vec::new()));
            inner.apart(|inner| inner.bind_condition(condition))
        })?;
        let otherwise = [self.written(true), vec![Statement::Return]].concat();
        statements.push(Statement::If { condition, then: Vec::new(), otherwise });
        Ok(statements)
    }

    /// Returns the statement that sets the output `is_written`; none if the function has no such output.
    fn written(&self, is_written: bool) -> Vec<Statement> {
        let target = self.trigger.as_ref().and_then(|frame| frame.is_written);
        let assign = |target| Statement::Assign { target, value: Expression::boolean(is_written) };
        target.map(assign).into_iter().collect()
    }

    /// Binds RETURN of a trigger function, whose value is a record or NULL.
    pub(crate) fn bind_trigger_return(
        &mut self,
        value: Option<ast::PlpgsqlExpr>,
        node: &SyntaxNode,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let value = self.single_expression(value, node)?;
        let Some(frame) = self.trigger.clone() else { return Ok(()) };
        let name = match &value {
            ast::Expr::NameRef(name) => Some(name.text()),
            ast::Expr::Literal(literal) if matches!(literal.kind(), Some(ast::LitKind::Null(_))) => None,
            other => {
                let what = "a row of expressions as the row of a trigger";
                frame.coalesced(other).ok_or_else(|| self.unsupported(value.syntax(), what))?
            }
        };
        let fields = name.as_ref().map(|name| match self.fields(name) {
            Some(fields) => Ok(fields.to_vec()),
            None => {
                let message = "cannot return non-composite value from function returning composite type";
                Err(self.error(value.syntax(), SqlError::new("42804", message)))
            }
        });
        let fields = fields.transpose()?.filter(|_| !name.is_some_and(|name| frame.absent.contains(&&*name)));
        out.extend(self.written(fields.is_some()));
        if let Some(fields) = fields {
            self.return_row(&frame.returned, &fields, value.syntax(), out)?;
        }
        out.push(Statement::Return);
        Ok(())
    }

    /// Assigns the fields of a record to the row that a trigger returns.
    fn return_row(
        &self,
        returned: &[Variable],
        fields: &[(String, Variable)],
        node: &SyntaxNode,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        if !returned.is_empty() && returned.len() != fields.len() {
            let message = "returned row structure does not match the structure of the triggering table";
            let detail = format!(
                "Number of returned columns ({}) does not match expected column count ({}).",
                fields.len(),
                returned.len()
            );
            return Err(self.error(node, SqlError::new("42804", message).with_detail(detail)));
        }
        for (target, (_, field)) in returned.iter().zip(fields) {
            if target.register != field.register {
                let value = Typed::Known(Expression::Register(field.register), field.ty);
                let value = self.coerce(value, target.ty, CastContext::Variable, node)?;
                out.push(Statement::Assign { target: target.register, value });
            }
        }
        Ok(())
    }

    /// Returns the statement at the end of a trigger function, which raises the error of a missing RETURN.
    pub(crate) fn end_of_trigger(&self) -> Statement {
        let message = "control reached end of trigger procedure without RETURN";
        Statement::Raise(Box::new(Raise::error("2F005", message)))
    }

    /// Returns whether an expression is TG_ARGV, whose elements count from 0.
    pub(crate) fn is_trigger_arguments(&self, array: &ast::Expr) -> bool {
        self.trigger.is_some() && matches!(array, ast::Expr::NameRef(name) if name.text() == "tg_argv")
    }

    /// Binds `TG_ARGV[n]` of a number; `None` for any other expression.
    pub(crate) fn trigger_argument(&self, index: &ast::IndexExpr) -> Option<Typed> {
        let frame = self.trigger.as_ref()?;
        if !self.is_trigger_arguments(&index.base()?) {
            return None;
        }
        let position = index.index()?.syntax().text().to_string().trim().parse::<usize>().ok()?;
        let text = frame.arguments.get(position);
        let value = text.map_or(Expression::NULL, |text| Expression::text(text));
        Some(Typed::Known(value, ScalarType::Text.into()))
    }
}
