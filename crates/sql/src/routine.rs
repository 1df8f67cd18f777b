//! CREATE PROCEDURE and CREATE FUNCTION.
//!
//! Not here: statements without a routine (`nameless`), the triggers that a trigger function is compiled for
//! (`trigger`).

use crate::actual::{Actual, is_polymorphic};
use crate::binder::{Binder, Body};
use crate::error::StatementError;
use crate::full_names::short;
use crate::name_conflicts::NameConflict;
use crate::nesting::check_tree;
use crate::routine_body::ParsedBody;
use crate::schema::Schema;
use crate::source::Source;
use crate::types::written_name;
use catalog::{ProcedureId, Table, Trigger, TriggerEvent, Type};
use procedure::{
    Accesses, CompiledSlot, Expression, Opaque, Parameter, Procedure, Raise, Register, SqlError, Statement,
    Witnesses,
};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use squawk_syntax::plpgsql::Plpgsql;
use squawk_syntax::sql_body::SqlBody;
use squawk_syntax::syntax_error::SyntaxError;
use std::ops::Range;
use std::sync::Arc;

/// A CREATE PROCEDURE or CREATE FUNCTION statement.
pub(crate) struct Routine {
    pub(crate) node: SyntaxNode,
    /// Its name in the catalog.
    pub(crate) name: String,
    pub(crate) replace: bool,
    pub(crate) parameters: Option<ast::ParamList>,
    pub(crate) result: Option<ast::RetType>,
    pub(crate) options: Option<ast::FuncOptionList>,
    body: Option<RoutineBody>,
    /// The first error in the text of the body.
    body_error: Option<SyntaxError>,
    pub(crate) is_function: bool,
    /// The types that a call has decided.
    pub(crate) actual: Option<Actual>,
}

/// The statements of a routine.
enum RoutineBody {
    Plpgsql(Plpgsql),
    /// A text in the language SQL.
    Sql(SqlBody),
    /// Statements in the language SQL, without quotes.
    Plain(ast::RoutineBody),
}

impl Source {
    /// Returns the first routine that the text creates.
    pub(crate) fn routine(&self) -> Option<Routine> {
        self.file.stmts().find_map(|statement| Routine::with_body(&statement, |own| self.body_of(own)))
    }
}

impl Routine {
    pub(crate) fn of(statement: &ast::Stmt) -> Option<Self> {
        Self::with_body(statement, ParsedBody::of)
    }

    /// As `of`, with a way to the body that is a text.
    fn with_body(statement: &ast::Stmt, body: impl FnOnce(&ast::Stmt) -> ParsedBody) -> Option<Self> {
        let (node, path, replace, parameters, result, options, plain) = match statement {
            ast::Stmt::CreateProcedure(create) => (
                create.syntax(),
                create.name().and_then(|name| name.path()),
                create.or_replace(),
                create.param_list(),
                None,
                create.option_list(),
                create.body(),
            ),
            ast::Stmt::CreateFunction(create) => (
                create.syntax(),
                create.name().and_then(|name| name.path()),
                create.or_replace(),
                create.param_list(),
                create.ret_type(),
                create.option_list(),
                create.body(),
            ),
            _ => return None,
        };
        let ParsedBody { plpgsql, sql, error } = body(statement);
        let text = plpgsql.map(RoutineBody::Plpgsql).or(sql.map(RoutineBody::Sql));
        Some(Self {
            node: node.clone(),
            name: path.as_ref().map(written_name).unwrap_or_default(),
            replace: replace.is_some(),
            parameters,
            result,
            options,
            body: text.or(plain.map(RoutineBody::Plain)),
            body_error: error,
            is_function: matches!(statement, ast::Stmt::CreateFunction(_)),
            actual: None,
        })
    }

    pub(crate) fn is_plpgsql(&self) -> bool {
        matches!(self.body, Some(RoutineBody::Plpgsql(_)))
    }

    /// Returns the tree of a body that is a text; `None` for any other body.
    pub(crate) fn body_tree(&self) -> Option<SyntaxNode> {
        match self.body.as_ref()? {
            RoutineBody::Plpgsql(body) => Some(body.tree().syntax().clone()),
            RoutineBody::Sql(body) => Some(body.tree().syntax().clone()),
            RoutineBody::Plain(_) => None,
        }
    }

    /// Returns the range of a node of `body_tree` in the parsed text.
    pub(crate) fn range_in_body(&self, node: &SyntaxNode) -> Range<usize> {
        let range = match &self.body {
            Some(RoutineBody::Plpgsql(body)) => body.source_range(node.text_range()),
            Some(RoutineBody::Sql(body)) => body.source_range(node.text_range()),
            Some(RoutineBody::Plain(_)) | None => node.text_range(),
        };
        range.start().into()..range.end().into()
    }

    /// Returns whether the body is a text. Only other bodies keep what they name from being dropped.
    pub(crate) fn has_text(&self) -> bool {
        matches!(self.body, Some(RoutineBody::Plpgsql(_) | RoutineBody::Sql(_)))
    }

    /// Compiles against a schema.
    pub(crate) fn compile(
        &self,
        id: ProcedureId,
        version: u32,
        schema: &Schema,
        source: &Source,
    ) -> Result<Procedure, StatementError> {
        let definer = schema.definer_of(&self.name);
        if self.is_definer() && definer != schema.acting {
            let compiled = self.compile(id, version, &schema.acting_as(definer), source)?;
            return Ok(compiled);
        }
        let within = self.in_search_path(schema, source)?;
        let compiled = self.compile_body(id, version, within.as_ref().unwrap_or(schema), source)?;
        let is_definer = self.is_definer();
        // As in PostgreSQL, a procedure with SECURITY DEFINER cannot end the transaction.
        let ends_transactions = compiled.ends_transactions && !is_definer;
        Ok(Procedure { is_definer, ends_transactions, ..compiled })
    }

    fn compile_body(
        &self,
        id: ProcedureId,
        version: u32,
        schema: &Schema,
        source: &Source,
    ) -> Result<Procedure, StatementError> {
        let recursive = self.with_recursion(id, version, schema, source)?;
        let mut binder = Binder::new(recursive.as_ref().unwrap_or(schema), source);
        binder.actual.clone_from(&self.actual);
        let Some(body) = &self.body else {
            return Err(binder.unsupported(&self.node, "a routine without a body in plpgsql or sql"));
        };
        if self.returns_trigger() {
            self.check_options(&binder)?;
            return self.compile_trigger_function(id, version, binder, source);
        }
        if self.is_template() {
            return self.compile_template(id, version, binder, source);
        }
        let parameters = self.bind_signature(&mut binder)?;
        let result = binder.result;
        let mut statements = match body {
            RoutineBody::Plpgsql(body) => {
                let returns_value = result.is_some_and(|(target, _)| target.0 as usize >= parameters.len());
                binder.must_return = binder.returns_row || returns_value && !binder.is_void;
                let block = self.block(body, &mut binder)?;
                let mut statements = vec![binder.bind_block(&block)?];
                statements.extend(binder.end_of_function(&statements));
                statements
            }
            RoutineBody::Sql(body) => {
                binder.body = Some(Body::Sql(body));
                self.check_body(body.tree().syntax(), &binder)?;
                let tree = body.tree();
                let statements = tree.stmts().map(ast::RoutineBodyStmt::Stmt).collect();
                binder.bind_sql_body(statements, &parameters, tree.syntax())?
            }
            RoutineBody::Plain(body) => {
                let statements = match body {
                    ast::RoutineBody::AtomicBody(body) => body.routine_body_stmts().collect(),
                    ast::RoutineBody::ReturnStmt(end) => vec![ast::RoutineBodyStmt::ReturnStmt(end.clone())],
                };
                binder.bind_sql_body(statements, &parameters, body.syntax())?
            }
        };
        if let (Some(end), true) = (binder.row_end, self.is_plpgsql()) {
            // The row of OUT parameters is never NULL; RETURN decides for any other row.
            let value = if binder.returns_row { Expression::NULL } else { Expression::boolean(true) };
            statements.insert(0, Statement::Assign { target: end.is_present, value });
        }
        if self.is_strict() {
            statements.insert(0, binder.end_at_null(&parameters));
        }
        // As in PostgreSQL, an argument of a domain is checked although the routine is strict.
        statements.splice(0..0, std::mem::take(&mut binder.prologue));
        if let (true, RoutineBody::Plpgsql(_), Some((target, _))) = (binder.is_void, body, result) {
            statements.insert(0, Statement::Assign { target, value: Expression::text("") });
        }
        if let Some(end) = binder.row_end {
            let row = binder.returned.iter().copied().chain([end.is_present]);
            let row = row.map(Expression::Register).collect();
            statements = vec![Statement::Block { label: end.label, body: statements }];
            binder.push_opaque(Opaque::ReturnNext(row), &mut statements);
        }
        let parts = Parts { id, version, name: &self.name, parameters, result };
        Ok(finish(binder, statements, parts, source, &self.node))
    }

    /// Returns whether the result is a RECORD whose columns each call defines.
    pub(crate) fn returns_record(&self) -> bool {
        let ty = self.result.as_ref().and_then(|result| result.func_type());
        let text = ty.map(|ty| ty.syntax().text().to_string().to_lowercase()).unwrap_or_default();
        let is_output = |own: &ast::Param| {
            matches!(own.mode(), Some(ast::ParamMode::ParamOut(_) | ast::ParamMode::ParamInOut(_)))
        };
        let has_outputs = self.parameters.iter().flat_map(|list| list.params()).any(|own| is_output(&own));
        let words: Vec<&str> = text.split_whitespace().collect();
        matches!(words.as_slice(), ["record"] | ["setof", "record"]) && !has_outputs
    }

    /// Returns whether calls decide types of the routine, and none has yet.
    pub(crate) fn is_template(&self) -> bool {
        let parameters = self.parameters.iter().flat_map(|list| list.params());
        let mut types = parameters.filter_map(|own| own.func_type());
        let name = |ty: ast::FuncType| ty.syntax().text().to_string().to_lowercase();
        self.actual.is_none() && (self.returns_record() || types.any(|ty| is_polymorphic(&name(ty))))
    }

    /// Compiles a template by itself, as a function that refuses every call.
    fn compile_template<'b>(
        &'b self,
        id: ProcedureId,
        version: u32,
        mut binder: Binder<'b>,
        source: &Source,
    ) -> Result<Procedure, StatementError> {
        if !self.is_function {
            return Err(binder.unsupported(&self.node, "a procedure with polymorphic parameters"));
        }
        self.check_options(&binder)?;
        let parameters = self.bind_parameters(&mut binder)?;
        if let Some(RoutineBody::Plpgsql(body)) = &self.body {
            self.block(body, &mut binder)?;
        }
        let refusal = Raise::error("0A000", "the types of this function are not known in this context");
        let refusal = Statement::Raise(Box::new(refusal));
        let parts = Parts { id, version, name: &self.name, parameters, result: None };
        let compiled = finish(binder, vec![refusal], parts, source, &self.node);
        Ok(Procedure { is_function: true, is_template: true, ..compiled })
    }

    /// Compiles the procedure that stands for the routine in its body: a call of the routine by its name.
    pub(crate) fn compile_recursion(
        &self,
        id: ProcedureId,
        version: u32,
        schema: &Schema,
        source: &Source,
    ) -> Result<Procedure, StatementError> {
        let mut binder = Binder::new(schema, source);
        if self.is_template() {
            return self.compile_template(id, version, binder, source);
        }
        let parameters = self.bind_signature(&mut binder)?;
        let parts = Parts { id, version, name: &self.name, parameters, result: binder.result };
        let compiled = finish(binder, Vec::new(), parts, source, &self.node);
        let inputs = compiled.inputs().map(|(position, _)| Register(position as u32)).collect();
        let outputs = compiled.outputs().map(|(_, register, _)| register).collect();
        let call = Opaque::Recursion { name: self.name.clone(), inputs, outputs };
        let by_value = Some(call.cause());
        Ok(Procedure { body: vec![Statement::Opaque(Box::new(call))], by_value, ..compiled })
    }

    /// Returns the definitions in which the routine calls itself by its name; `None` if its text does not
    /// name it again.
    fn with_recursion(
        &self,
        id: ProcedureId,
        version: u32,
        schema: &Schema,
        source: &Source,
    ) -> Result<Option<Schema>, StatementError> {
        let (text, name) = (source.text_of(&self.node).to_lowercase(), short(&self.name).to_lowercase());
        if text.matches(&name).count() < 2
            || self.returns_trigger()
            || self.is_template()
            || self.actual.is_some()
        {
            return Ok(None);
        }
        let mut recursive = schema.clone();
        let recursion = self.compile_recursion(id, version, schema, source)?;
        recursive.procedures.insert(self.name.clone(), Arc::new(recursion));
        Ok(Some(recursive))
    }

    /// Compiles a routine whose body could not be bound: a call of it raises the error.
    pub(crate) fn compile_unbound(
        &self,
        id: ProcedureId,
        version: u32,
        schema: &Schema,
        source: &Source,
        error: &SqlError,
    ) -> Result<Procedure, StatementError> {
        let mut binder = Binder::new(schema, source);
        let parameters = self.bind_signature(&mut binder)?;
        let result = binder.result;
        let raise = Statement::Raise(Box::new(Raise::error(&error.sqlstate, &error.message)));
        let parts = Parts { id, version, name: &self.name, parameters, result };
        Ok(finish(binder, vec![raise], parts, source, &self.node))
    }

    /// Binds everything but the body: options, parameters, and the result of the binder.
    fn bind_signature(&self, binder: &mut Binder<'_>) -> Result<Vec<Parameter>, StatementError> {
        self.check_options(binder)?;
        let parameters = self.bind_parameters(binder)?;
        binder.result = self.bind_result(binder, &parameters)?;
        Ok(parameters)
    }

    /// Returns the block of a body in PL/pgSQL, after a check of its syntax.
    fn block<'b>(
        &self,
        body: &'b Plpgsql,
        binder: &mut Binder<'b>,
    ) -> Result<ast::PlpgsqlBlock, StatementError> {
        binder.body = Some(Body::Plpgsql(body));
        binder.name_conflict = NameConflict::of(&body.tree().syntax().text().to_string());
        self.check_body(body.tree().syntax(), binder)?;
        body.tree().block().ok_or_else(|| {
            binder.body = None;
            binder.syntax(&self.node, "the body has no BEGIN … END")
        })
    }

    fn returns_trigger(&self) -> bool {
        let ty = self.result.as_ref().and_then(|result| result.func_type());
        ty.is_some_and(|ty| ty.syntax().text().to_string().eq_ignore_ascii_case("trigger"))
    }

    /// Compiles a trigger function by itself, as a function that refuses every call. Its statements are bound
    /// for the tables of its triggers.
    fn compile_trigger_function<'b>(
        &'b self,
        id: ProcedureId,
        version: u32,
        mut binder: Binder<'b>,
        source: &Source,
    ) -> Result<Procedure, StatementError> {
        if self.parameters.iter().any(|list| list.params().next().is_some()) {
            let message = "trigger functions cannot have declared arguments";
            let hint = "The arguments of the trigger can be accessed through TG_NARGS and TG_ARGV instead.";
            let error = SqlError::new("42P13", message).with_hint(hint);
            return Err(binder.error(&self.node, error));
        }
        let Some(RoutineBody::Plpgsql(body)) = &self.body else {
            let message = "SQL functions cannot return type trigger";
            return Err(binder.error(&self.node, SqlError::new("42P13", message)));
        };
        self.block(body, &mut binder)?;
        let refusal = Raise::error("0A000", "trigger functions can only be called as triggers");
        let refusal = Statement::Raise(Box::new(refusal));
        let parts = Parts { id, version, name: &self.name, parameters: Vec::new(), result: None };
        let compiled = finish(binder, vec![refusal], parts, source, &self.node);
        Ok(Procedure { is_function: true, is_trigger: true, ..compiled })
    }

    /// Compiles a trigger function for an event of a trigger's table.
    pub(crate) fn compile_fired(
        &self,
        table: &Table,
        trigger: &Trigger,
        event: TriggerEvent,
        schema: &Schema,
        source: &Source,
    ) -> Result<Procedure, StatementError> {
        let definer = schema.definer_of(&self.name);
        if self.is_definer() && definer != schema.acting {
            return self.compile_fired(table, trigger, event, &schema.acting_as(definer), source);
        }
        let within = self.in_search_path(schema, source)?;
        let mut binder = Binder::new(within.as_ref().unwrap_or(schema), source);
        let Some(RoutineBody::Plpgsql(body)) = &self.body else {
            return Err(binder.unsupported(&self.node, "a trigger function that is not in plpgsql"));
        };
        let parameters = binder.declare_trigger(table, trigger, event);
        let mut statements = match &trigger.condition {
            Some(text) => binder.bind_when(text, &self.node)?,
            None => Vec::new(),
        };
        statements.append(&mut binder.declare_partition(table, trigger, event, &self.node)?);
        let block = self.block(body, &mut binder)?;
        statements.push(binder.bind_block(&block)?);
        statements.push(binder.end_of_trigger());
        let id = ProcedureId(u32::MAX);
        let parts = Parts { id, version: 0, name: &self.name, parameters, result: None };
        let compiled = finish(binder, statements, parts, source, &self.node);
        let is_definer = self.is_definer();
        Ok(Procedure {
            is_function: true,
            is_trigger: true,
            ends_transactions: false,
            is_definer,
            ..compiled
        })
    }

    fn check_body(&self, tree: &SyntaxNode, binder: &Binder<'_>) -> Result<(), StatementError> {
        if let Some(error) = &self.body_error {
            let offset = usize::from(error.range().start());
            let sqlstate = match error.message() {
                "FETCH statement cannot return multiple rows" => "0A000",
                _ => "42601",
            };
            return Err(binder.source.error_at(offset, SqlError::new(sqlstate, error.message())));
        }
        check_tree(tree).map_err(|(_, error)| binder.error(&self.node, error))
    }

    /// Returns whether the routine is STRICT: if an argument is NULL, the result is NULL, and the body does
    /// not run.
    fn is_strict(&self) -> bool {
        self.options.iter().flat_map(|list| list.options()).any(|option| {
            matches!(
                option,
                ast::FuncOption::StrictFuncOption(_) | ast::FuncOption::ReturnsNullOnNullInputFuncOption(_)
            )
        })
    }

    /// Returns whether the routine runs with the rights of its owner.
    fn is_definer(&self) -> bool {
        let options = self.options.iter().flat_map(|list| list.options());
        let mut texts = options.map(|option| option.syntax().text().to_string().to_lowercase());
        texts.any(|text| text.contains("security") && text.contains("definer"))
    }
}

pub(crate) struct Parts<'a> {
    pub(crate) id: ProcedureId,
    pub(crate) version: u32,
    pub(crate) name: &'a str,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) result: Option<(Register, Type)>,
}

pub(crate) fn finish(
    mut binder: Binder<'_>,
    mut body: Vec<Statement>,
    parts: Parts<'_>,
    source: &Source,
    node: &SyntaxNode,
) -> Procedure {
    // The privileges that the declarations need.
    binder.lifted = None;
    binder.refuse_from(0, &mut body);
    if let Some(found) = binder.found {
        body.insert(0, Statement::Assign { target: found, value: Expression::boolean(false) });
    }
    let accesses = Accesses { operations: &binder.operations, queries: &binder.procedure_queries };
    let ahead = procedure::plan_lookups(&mut body, accesses);
    // A function runs in the transaction of its caller, and so do the procedures that it calls.
    let is_function = parts.result.is_some() || binder.returns.is_some();
    let domain = parts.result.and_then(|(register, _)| binder.domains.remove(&register));
    let domains = if domain.is_some() { vec![domain] } else { binder.returned_domains };
    let mut procedure = Procedure {
        id: parts.id,
        version: parts.version,
        name: parts.name.into(),
        parameters: parts.parameters,
        is_function,
        is_void: binder.is_void,
        is_trigger: false,
        is_template: false,
        result: parts.result,
        rows: binder.returns,
        is_row: binder.row_end.is_some(),
        registers: binder.registers,
        body,
        operations: binder.operations,
        queries: binder.procedure_queries,
        ahead,
        uses_timestamp: binder.uses_timestamp,
        uses_seed: binder.uses_seed,
        read_only: !binder.writes,
        by_value: binder.by_value,
        ends_transactions: binder.ends_transactions && !is_function,
        callees: binder.callees,
        witnesses: Witnesses::default(),
        source: source.text_of(node).into(),
        is_definer: false,
        follows_role: binder.follows_role,
        reads_catalog: binder.reads_catalog,
        is_refused: binder.is_refused,
        domains,
        compiled: CompiledSlot::default(),
    };
    procedure.witnesses = procedure::analysis::witnesses(&procedure);
    procedure
}
