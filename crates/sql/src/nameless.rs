//! Statements of clients and scripts, which are compiled as procedures without a name.

use crate::binder::Binder;
use crate::error::StatementError;
use crate::plan::ResultColumn;
use crate::routine::{Parts, finish};
use crate::schema::Schema;
use crate::source::{Source, line_and_column};
use catalog::{ProcedureId, Type};
use procedure::query::OutputColumn;
use procedure::{ByValueCause, CastContext, Mode, Parameter, Procedure, SqlError, Statement};
use squawk_lexer::TokenKind;
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// A compiled statement of a client.
pub(crate) struct Compiled {
    pub(crate) procedure: Procedure,
    pub(crate) parameters: Vec<Type>,
    pub(crate) columns: Vec<ResultColumn>,
    /// The error of a statement that is not allowed.
    pub(crate) refused: Option<SqlError>,
}

/// Returns the number of parameters of a statement.
pub(crate) fn parameters_of(node: &SyntaxNode) -> usize {
    let literals = node.descendants().filter_map(ast::Literal::cast);
    let positions = literals.filter_map(|literal| match literal.kind() {
        Some(ast::LitKind::PositionalParam(token)) => token.text()[1..].parse::<u16>().ok(),
        _ => None,
    });
    positions.max().unwrap_or(0).into()
}

/// Returns the error of a text that has a parameter beyond the first `known`; `None` if it has none.
pub fn missing_parameter(text: &str, known: usize) -> Option<StatementError> {
    let mut offset = 0;
    for token in squawk_lexer::tokenize(text) {
        let word = offset..offset + token.len as usize;
        offset = word.end;
        if !matches!(token.kind, TokenKind::PositionalParam { .. }) {
            continue;
        }
        let name = &text[word.clone()];
        if !(1..=known).contains(&name[1..].parse().unwrap_or(0)) {
            let (line, column) = line_and_column(text, word.start);
            let error = SqlError::new("42P02", format!("there is no parameter {name}"));
            return Some(StatementError { line, column, error });
        }
    }
    None
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
    match statement {
        ast::Stmt::Call(call) => binder.bind_call_for_client(call, &mut body)?,
        _ => binder.bind_for_client(statement, &mut body)?,
    }
    let mut statements = binder.lifted.take().unwrap_or_default();
    statements.append(&mut body);
    let parameters = binder.parameter_types(node)?;
    let parameter = |ty: &Type| Parameter::new(String::new(), *ty, Mode::In);
    let inputs = parameters.iter().map(parameter).collect();
    let parts = Parts { id: ProcedureId(u32::MAX), version: 0, name: "", parameters: inputs, result: None };
    let origins = std::mem::take(&mut binder.origins);
    let refused = binder.refusal();
    let procedure = finish(binder, statements, parts, source, node);
    let described = |column: &OutputColumn| ResultColumn {
        domain: schema.domain_in(&origins, column.register).map(|domain| domain.name.clone()),
        ..origins.described(column)
    };
    let columns = procedure.client_columns().iter().map(described).collect();
    Ok(Compiled { procedure, parameters, columns, refused })
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
    let output = |ty: &Type| Parameter::new(String::new(), *ty, Mode::Out);
    let parameters = types.iter().map(output).collect();
    let parts = Parts { id: ProcedureId(u32::MAX), version: 0, name: "", parameters, result: None };
    Ok(finish(binder, statements, parts, source, node))
}

impl Schema {
    /// Compiles the block of a DO, given as a literal, as a procedure without a name. Its call is logged by
    /// value.
    pub(crate) fn block(
        &self,
        literal: &str,
        outer: &Source,
        node: &SyntaxNode,
    ) -> Result<Procedure, StatementError> {
        let text = format!("CREATE PROCEDURE inline_code_block() LANGUAGE plpgsql AS {literal}");
        let source = Source::parse(&text)?;
        let routine = source.routine();
        let Some(routine) = routine else {
            let error = SqlError::new("42601", "DO needs a PL/pgSQL block");
            return Err(outer.error_at(node.text_range().start().into(), error));
        };
        let compiled = routine.compile(ProcedureId(u32::MAX), 0, self, &source)?;
        Ok(Procedure { by_value: Some(ByValueCause::Statement), ..compiled })
    }
}

/// Compiles a query, INSERT, UPDATE, DELETE, MERGE or CALL as a procedure without a name or parameters.
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
        ast::Stmt::Insert(_) | ast::Stmt::Update(_) | ast::Stmt::Delete(_) | ast::Stmt::Merge(_) => {
            binder.bind_for_client(statement, &mut body)?;
        }
        _ if is_query => binder.bind_for_client(statement, &mut body)?,
        ast::Stmt::Call(call) => binder.bind_call_without_outputs(call, &mut body)?,
        _ => return Err(binder.unsupported(node, "this statement")),
    }
    let mut statements = binder.lifted.take().unwrap_or_default();
    statements.append(&mut body);
    let parts =
        Parts { id: ProcedureId(u32::MAX), version: 0, name: "", parameters: Vec::new(), result: None };
    Ok(finish(binder, statements, parts, source, node))
}
