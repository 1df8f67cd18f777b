//! CREATE PROCEDURE, CREATE FUNCTION, and single statements as nameless procedures.

use crate::binder::{Binder, Body, Name, Variable};
use crate::error::StatementError;
use crate::nesting::check_tree;
use crate::plan::ResultColumn;
use crate::schema::Schema;
use crate::source::Source;
use crate::types::object_name;
use crate::types::without_limits;
use catalog::{Datum, ProcedureId, ScalarType, Type, value_from_datum};
use procedure::{
    Accesses, ByValueCause, CastContext, CompiledSlot, Expression, Machine, Mode, Opaque, Parameter,
    Procedure, Register, SqlError, Statement, Witnesses,
};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use squawk_syntax::plpgsql::Plpgsql;
use squawk_syntax::sql_body::SqlBody;
use squawk_syntax::syntax_error::SyntaxError;

/// A CREATE PROCEDURE or CREATE FUNCTION statement.
pub(crate) struct Routine {
    pub(crate) node: SyntaxNode,
    pub(crate) name: String,
    pub(crate) replace: bool,
    parameters: Option<ast::ParamList>,
    result: Option<ast::RetType>,
    options: Option<ast::FuncOptionList>,
    body: Option<RoutineBody>,
    is_function: bool,
}

/// The statements of a routine.
enum RoutineBody {
    Plpgsql(Plpgsql),
    /// A text in the language SQL.
    Sql(SqlBody),
    /// Statements in the language SQL, without quotes.
    Plain(ast::RoutineBody),
}

impl Routine {
    pub(crate) fn of(statement: &ast::Stmt) -> Option<Self> {
        let name = |path: Option<ast::Path>| {
            path.and_then(|path| path.segment()).map(|segment| segment.text()).unwrap_or_default()
        };
        match statement {
            ast::Stmt::CreateProcedure(create) => Some(Self {
                node: create.syntax().clone(),
                name: name(create.name().and_then(|name| name.path())),
                replace: create.or_replace().is_some(),
                parameters: create.param_list(),
                result: None,
                options: create.option_list(),
                body: RoutineBody::of(create.plpgsql(), create.sql_body(), create.body()),
                is_function: false,
            }),
            ast::Stmt::CreateFunction(create) => Some(Self {
                node: create.syntax().clone(),
                name: name(create.name().and_then(|name| name.path())),
                replace: create.or_replace().is_some(),
                parameters: create.param_list(),
                result: create.ret_type(),
                options: create.option_list(),
                body: RoutineBody::of(create.plpgsql(), create.sql_body(), create.body()),
                is_function: true,
            }),
            _ => None,
        }
    }

    /// Compiles against a schema.
    pub(crate) fn compile(
        &self,
        id: ProcedureId,
        version: u32,
        schema: &Schema,
        source: &Source,
    ) -> Result<Procedure, StatementError> {
        let mut binder = Binder::new(schema, source);
        binder.routine.clone_from(&self.name);
        self.check_options(&binder)?;
        let Some(body) = &self.body else {
            return Err(binder.unsupported(&self.node, "a routine without a body in plpgsql or sql"));
        };
        let parameters = self.bind_parameters(&mut binder)?;
        let result = self.bind_result(&mut binder, &parameters)?;
        binder.result = result;
        let mut statements = match body {
            RoutineBody::Plpgsql(body) => {
                binder.body = Some(Body::Plpgsql(body));
                self.check_body(body.errors().first(), body.tree().syntax(), &binder)?;
                let Some(block) = body.tree().block() else {
                    binder.body = None;
                    return Err(binder.syntax(&self.node, "the body has no BEGIN … END"));
                };
                vec![binder.bind_block(&block)?]
            }
            RoutineBody::Sql(body) => {
                binder.body = Some(Body::Sql(body));
                self.check_body(body.errors().first(), body.tree().syntax(), &binder)?;
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
        if self.is_strict() {
            statements.insert(0, end_at_null(&parameters));
        }
        if let (true, RoutineBody::Plpgsql(_), Some((target, _))) = (binder.is_void, body, result) {
            statements.insert(0, Statement::Assign { target, value: Expression::text("") });
        }
        if let Some(label) = binder.row_label {
            let row = binder.returned.iter().map(|register| Expression::Register(*register)).collect();
            statements = vec![Statement::Block { label, body: statements }];
            binder.push_opaque(Opaque::ReturnNext(row), &mut statements);
        }
        let parts = Parts { id, version, name: &self.name, parameters, result };
        Ok(finish(binder, statements, parts, source, &self.node))
    }

    /// Binds and declares the parameters. They can be qualified by the routine's name.
    fn bind_parameters(&self, binder: &mut Binder<'_>) -> Result<Vec<Parameter>, StatementError> {
        let mut parameters = Vec::new();
        for parameter in self.parameters.iter().flat_map(|list| list.params()) {
            parameters.push(bind_parameter(binder, &parameter)?);
        }
        binder.scopes.push((Some(self.name.clone()), Default::default()));
        for (place, parameter) in parameters.iter().enumerate() {
            let register = binder.new_register(parameter.ty);
            let variable = Variable { register, ty: parameter.ty, constant: false };
            binder.declare(format!("${}", place + 1), Name::Variable(variable));
            if !parameter.name.is_empty() {
                if parameters[..place].iter().any(|own| own.name == parameter.name) {
                    let message = format!("parameter name \"{}\" used more than once", parameter.name);
                    return Err(binder.error(&self.node, SqlError::new("42P13", message)));
                }
                binder.declare(parameter.name.clone(), Name::Variable(variable));
            }
        }
        Ok(parameters)
    }

    fn check_body(
        &self,
        error: Option<&SyntaxError>,
        tree: &SyntaxNode,
        binder: &Binder<'_>,
    ) -> Result<(), StatementError> {
        if let Some(error) = error {
            let offset = usize::from(error.range().start());
            return Err(binder.source.error_at(offset, SqlError::new("42601", error.message())));
        }
        check_tree(tree).map_err(|(_, error)| binder.error(&self.node, error))
    }

    /// Returns whether the routine is not called with NULL: its result is NULL then.
    fn is_strict(&self) -> bool {
        self.options.iter().flat_map(|list| list.options()).any(|option| {
            matches!(
                option,
                ast::FuncOption::StrictFuncOption(_) | ast::FuncOption::ReturnsNullOnNullInputFuncOption(_)
            )
        })
    }

    /// Binds SETOF: rows of one value, of a table's columns, or of the OUT parameters.
    fn bind_rows(
        &self,
        binder: &mut Binder<'_>,
        ty: &ast::FuncType,
        parameters: &[Parameter],
    ) -> Result<(), StatementError> {
        let outputs: Vec<_> = outputs_of(parameters).collect();
        if !outputs.is_empty() {
            binder.returned = outputs.iter().map(|(register, _)| *register).collect();
            binder.returns = Some(outputs.into_iter().map(|(_, own)| (own.name.clone(), own.ty)).collect());
            return Ok(());
        }
        let path = match ty {
            ast::FuncType::Type(ast::Type::PathType(path)) => path.path_ref(),
            _ => None,
        };
        let table = path.and_then(|path| binder.schema.catalog().table(&object_name(&path)).ok());
        binder.returns = Some(match table {
            Some(table) => {
                table.visible().iter().map(|column| (column.name.clone(), column.ty.into())).collect()
            }
            None => vec![(self.name.clone(), binder.bind_function_type(ty)?)],
        });
        Ok(())
    }

    fn bind_result(
        &self,
        binder: &mut Binder<'_>,
        parameters: &[Parameter],
    ) -> Result<Option<(Register, Type)>, StatementError> {
        let Some(result) = &self.result else {
            return if self.is_function { self.result_of_outputs(binder, parameters) } else { Ok(None) };
        };
        if let Some(list) = result.return_table_arg_list() {
            let mut columns = Vec::new();
            for column in list.args() {
                let name = binder.part(column.name(), column.syntax())?;
                let ty = binder.part(column.func_type(), column.syntax())?;
                columns.push((ast::normalize_name_node(name.syntax()), binder.bind_function_type(&ty)?));
            }
            for (name, ty) in &columns {
                let register = binder.new_register(*ty);
                binder.returned.push(register);
                let variable = Variable { register, ty: *ty, constant: false };
                binder.declare(name.clone(), Name::Variable(variable));
            }
            binder.returns = Some(columns);
            return Ok(None);
        }
        let ty = binder.part(result.func_type(), result.syntax())?;
        let text = ty.syntax().text().to_string().to_lowercase();
        if text == "void" {
            binder.is_void = true;
            let ty = ScalarType::Text.into();
            return Ok(Some((binder.new_register(ty), ty)));
        }
        if text == "record" {
            return self.result_of_outputs(binder, parameters);
        }
        if text == "trigger" {
            return Err(binder.unsupported(ty.syntax(), "RETURNS trigger"));
        }
        if text.starts_with("setof") {
            self.bind_rows(binder, &ty, parameters)?;
            return Ok(None);
        }
        let own = without_limits(binder.bind_function_type(&ty)?);
        let mut outputs = outputs_of(parameters);
        match (outputs.next(), outputs.next()) {
            (None, _) => Ok(Some((binder.new_register(own), own))),
            (Some((register, only)), None) if only.ty == own => Ok(Some((register, own))),
            (Some((_, only)), None) => {
                let message = format!("function result type must be {} because of OUT parameters", only.ty);
                Err(binder.error(ty.syntax(), SqlError::new("42P13", message)))
            }
            _ => {
                let message = "function result type must be record because of OUT parameters";
                Err(binder.error(ty.syntax(), SqlError::new("42P13", message)))
            }
        }
    }

    /// Returns the result of a function that has it in OUT parameters: the only one, or one row of several.
    fn result_of_outputs(
        &self,
        binder: &mut Binder<'_>,
        parameters: &[Parameter],
    ) -> Result<Option<(Register, Type)>, StatementError> {
        let outputs: Vec<_> = outputs_of(parameters).collect();
        match outputs.as_slice() {
            [] if self.result.is_some() => {
                Err(binder.unsupported(&self.node, "RETURNS record without OUT parameters"))
            }
            [] => {
                let error = SqlError::new("42P13", "function result type must be specified");
                Err(binder.error(&self.node, error))
            }
            [(register, only)] => Ok(Some((*register, only.ty))),
            _ => {
                binder.returned = outputs.iter().map(|(register, _)| *register).collect();
                let columns = outputs.iter().enumerate().map(|(place, (_, own))| {
                    let name =
                        if own.name.is_empty() { format!("column{}", place + 1) } else { own.name.clone() };
                    (name, own.ty)
                });
                binder.returns = Some(columns.collect());
                binder.row_label = Some(binder.new_label());
                Ok(None)
            }
        }
    }

    fn check_options(&self, binder: &Binder<'_>) -> Result<(), StatementError> {
        for option in self.options.iter().flat_map(|list| list.options()) {
            match option {
                ast::FuncOption::LanguageFuncOption(language) => {
                    let name = language.language_name().map(|language| language.name).unwrap_or_default();
                    if name != "plpgsql" && name != "sql" {
                        let what = format!("language {name} (use plpgsql or sql)");
                        return Err(binder.unsupported(language.syntax(), &what));
                    }
                }
                // There is one schema, so the path of schemas changes nothing.
                ast::FuncOption::SetFuncOption(own)
                    if own.syntax().text().to_string().to_lowercase().contains("search_path") => {}
                ast::FuncOption::SetFuncOption(_)
                | ast::FuncOption::WindowFuncOption(_)
                | ast::FuncOption::TransformFuncOption(_) => {
                    return Err(binder.unsupported(option.syntax(), "this option of a routine"));
                }
                _ => {}
            }
        }
        if !self.is_function && self.result.is_some() {
            return Err(binder.syntax(&self.node, "a procedure returns nothing: use OUT parameters"));
        }
        Ok(())
    }
}

impl RoutineBody {
    fn of(plpgsql: Option<Plpgsql>, sql: Option<SqlBody>, plain: Option<ast::RoutineBody>) -> Option<Self> {
        plpgsql.map(Self::Plpgsql).or(sql.map(Self::Sql)).or(plain.map(Self::Plain))
    }
}

/// Returns the OUT and INOUT parameters, with their registers.
fn outputs_of(parameters: &[Parameter]) -> impl Iterator<Item = (Register, &Parameter)> {
    let outputs = parameters.iter().enumerate().filter(|(_, own)| own.is_output());
    outputs.map(|(place, own)| (Register(place as u32), own))
}

/// Returns the statement that ends a strict routine if an argument is NULL.
fn end_at_null(parameters: &[Parameter]) -> Statement {
    let inputs = parameters.iter().enumerate().filter(|(_, own)| own.is_input());
    let is_null = |(place, _)| Expression::IsNull(Box::new(Expression::Register(Register(place as u32))));
    let condition = Expression::any(inputs.map(is_null).collect());
    Statement::If { condition, then: vec![Statement::Return], otherwise: Vec::new() }
}

fn bind_parameter(binder: &mut Binder<'_>, parameter: &ast::Param) -> Result<Parameter, StatementError> {
    let node = parameter.syntax();
    let mode = match parameter.mode() {
        None | Some(ast::ParamMode::ParamIn(_)) => Mode::In,
        Some(ast::ParamMode::ParamOut(_)) => Mode::Out,
        Some(ast::ParamMode::ParamInOut(_)) => Mode::InOut,
        Some(ast::ParamMode::ParamVariadic(_)) => return Err(binder.unsupported(node, "VARIADIC")),
    };
    let ty = binder.part(parameter.func_type(), node)?;
    let ty = binder.bind_function_type(&ty)?;
    let ty = without_limits(ty);
    let default = match parameter.param_default().and_then(|default| default.expr()) {
        None => None,
        Some(expression) => {
            let bound = binder.bind_as(&expression, ty, CastContext::Variable)?;
            if !bound.is_constant() {
                return Err(binder.unsupported(expression.syntax(), "a DEFAULT that is not a constant"));
            }
            let mut machine = Machine::default();
            let datum = bound.evaluate(&mut machine).unwrap_or(Datum::Null);
            Some(value_from_datum(datum, ty, &machine.frame.arena))
        }
    };
    let name = parameter.name().map(|name| ast::normalize_name_node(name.syntax())).unwrap_or_default();
    Ok(Parameter { name, ty, mode, default })
}

struct Parts<'a> {
    id: ProcedureId,
    version: u32,
    name: &'a str,
    parameters: Vec<Parameter>,
    result: Option<(Register, Type)>,
}

fn finish(
    binder: Binder<'_>,
    mut body: Vec<Statement>,
    parts: Parts<'_>,
    source: &Source,
    node: &SyntaxNode,
) -> Procedure {
    if let Some(found) = binder.found {
        body.insert(0, Statement::Assign { target: found, value: Expression::boolean(false) });
    }
    let accesses = Accesses { operations: &binder.operations, queries: &binder.procedure_queries };
    let ahead = procedure::plan_lookups(&mut body, accesses);
    // A function runs in the transaction of its caller, and so do the procedures that it calls.
    let is_function = parts.result.is_some() || binder.returns.is_some();
    let mut procedure = Procedure {
        id: parts.id,
        version: parts.version,
        name: parts.name.into(),
        parameters: parts.parameters,
        is_function,
        is_void: binder.is_void,
        result: parts.result,
        rows: binder.returns,
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
        compiled: CompiledSlot::default(),
    };
    procedure.witnesses = procedure::analysis::witnesses(&procedure);
    procedure
}

/// A compiled statement of a client.
pub(crate) struct Compiled {
    pub(crate) procedure: Procedure,
    pub(crate) parameters: Vec<Type>,
    pub(crate) columns: Vec<ResultColumn>,
}

/// Returns the number of parameters of a statement.
pub(crate) fn parameters_of(node: &SyntaxNode) -> usize {
    let literals = node.descendants().filter_map(ast::Literal::cast);
    let places = literals.filter_map(|literal| match literal.kind() {
        Some(ast::LitKind::PositionalParam(token)) => token.text()[1..].parse::<u16>().ok(),
        _ => None,
    });
    places.max().unwrap_or(0).into()
}

/// Compiles a query or a statement that writes, whose rows go to the client, as a procedure without a name.
/// Its calls are logged by value.
pub(crate) fn compile_for_client(
    statement: &ast::Stmt,
    schema: &Schema,
    source: &Source,
    types: &[Option<Type>],
) -> Result<Compiled, StatementError> {
    let mut binder = Binder::new(schema, source);
    let node = statement.syntax();
    binder.declare_parameters(parameters_of(node), types);
    binder.log_by_value(ByValueCause::Statement);
    binder.lifted = Some(Vec::new());
    let mut body = Vec::new();
    binder.bind_for_client(statement, &mut body)?;
    let mut statements = binder.lifted.take().unwrap_or_default();
    statements.append(&mut body);
    let parameters = binder.parameter_types(node)?;
    let parameter = |ty: &Type| Parameter { name: String::new(), ty: *ty, mode: Mode::In, default: None };
    let own = parameters.iter().map(parameter).collect();
    let parts = Parts { id: ProcedureId(u32::MAX), version: 0, name: "", parameters: own, result: None };
    let origins = std::mem::take(&mut binder.origins);
    let procedure = finish(binder, statements, parts, source, node);
    let columns = procedure.client_columns().iter().map(|column| origins.described(column)).collect();
    Ok(Compiled { procedure, parameters, columns })
}

/// Compiles the arguments of an EXECUTE as a procedure without a name, whose outputs are values of the given
/// types. Its calls are logged by value, because an argument may call a function that writes.
pub(crate) fn compile_arguments(
    execute: &ast::Execute,
    types: &[Type],
    schema: &Schema,
    source: &Source,
) -> Result<Procedure, StatementError> {
    let mut binder = Binder::new(schema, source);
    let node = execute.syntax();
    binder.log_by_value(ByValueCause::Statement);
    binder.lifted = Some(Vec::new());
    // The outputs of a procedure are in its first registers.
    let outputs: Vec<_> = types.iter().map(|ty| binder.new_register(*ty)).collect();
    let mut body = Vec::new();
    let arguments = execute.arg_list().into_iter().flat_map(|list| list.args());
    for (argument, (target, ty)) in arguments.zip(outputs.into_iter().zip(types)) {
        let expression = binder.part(argument.expr(), node)?;
        let bound = binder.bind(&expression)?;
        let value = binder.coerce(bound, *ty, CastContext::Explicit, expression.syntax())?;
        body.push(Statement::Assign { target, value });
    }
    let mut statements = binder.lifted.take().unwrap_or_default();
    statements.append(&mut body);
    let output = |ty: &Type| Parameter { name: String::new(), ty: *ty, mode: Mode::Out, default: None };
    let parameters = types.iter().map(output).collect();
    let parts = Parts { id: ProcedureId(u32::MAX), version: 0, name: "", parameters, result: None };
    Ok(finish(binder, statements, parts, source, node))
}

/// Compiles the block of a DO, given as a literal, as a procedure without a name. Its call is logged by
/// value.
pub(crate) fn compile_block(
    literal: &str,
    schema: &Schema,
    outer: &Source,
    node: &SyntaxNode,
) -> Result<Procedure, StatementError> {
    let text = format!("CREATE PROCEDURE inline_code_block() LANGUAGE plpgsql AS {literal}");
    let source = Source::parse(&text)?;
    let routine = source.file.stmts().find_map(|statement| Routine::of(&statement));
    let Some(routine) = routine else {
        let error = SqlError::new("42601", "DO needs a PL/pgSQL block");
        return Err(outer.error_at(node.text_range().start().into(), error));
    };
    let compiled = routine.compile(ProcedureId(u32::MAX), 0, schema, &source)?;
    Ok(Procedure { by_value: Some(ByValueCause::Statement), ..compiled })
}

/// Compiles a query, INSERT, UPDATE, DELETE or CALL as a procedure without a name or parameters.
pub(crate) fn compile_statement(
    statement: &ast::Stmt,
    schema: &Schema,
    source: &Source,
) -> Result<Procedure, StatementError> {
    let mut binder = Binder::new(schema, source);
    let node = statement.syntax();
    let mut body = Vec::new();
    binder.lifted = Some(Vec::new());
    let is_query = ast::SelectVariant::can_cast(node.kind());
    match statement {
        ast::Stmt::Insert(_) | ast::Stmt::Update(_) | ast::Stmt::Delete(_) => {
            binder.bind_for_client(statement, &mut body)?;
        }
        _ if is_query => binder.bind_for_client(statement, &mut body)?,
        ast::Stmt::Call(call) => {
            let path = binder.part(call.procedure_name_ref().and_then(|name| name.path_ref()), node)?;
            let name = crate::types::last_name(&path);
            let Some(procedure) = schema.procedure(&name).cloned() else {
                let message = format!("procedure {name} does not exist");
                return Err(binder.error(node, SqlError::new("42883", message)));
            };
            let arguments = binder.procedure_arguments(&procedure, call.arg_list(), node)?;
            let arguments = binder.call_arguments(&procedure, arguments, node)?;
            binder.note_call(&procedure);
            body.push(Statement::Call { procedure, arguments, outputs: Vec::new() });
        }
        _ => return Err(binder.unsupported(node, "this statement")),
    }
    let mut statements = binder.lifted.take().unwrap_or_default();
    statements.append(&mut body);
    let parts =
        Parts { id: ProcedureId(u32::MAX), version: 0, name: "", parameters: Vec::new(), result: None };
    Ok(finish(binder, statements, parts, source, node))
}
