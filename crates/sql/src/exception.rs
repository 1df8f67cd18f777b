//! Errors in PL/pgSQL: EXCEPTION, GET DIAGNOSTICS, ASSERT.

use crate::binder::{Binder, Name, Typed, Variable};
use crate::error::StatementError;
use catalog::ScalarType;
use procedure::{
    ByValueCause, CastContext, Expression, Function, Handler, Raise, Register, Severity, SqlError, Statement,
    sqlstates_of,
};
use squawk_syntax::ast::{self, AstNode};
use std::collections::HashMap;

/// The variables of a handler: SQLSTATE, SQLERRM, and those that only GET STACKED DIAGNOSTICS can read.
pub(crate) const STACKED: [&str; 9] =
    ["sqlstate", "sqlerrm", " detail", " hint", " schema", " table", " column", " constraint", " datatype"];

/// Returns the variable of a handler for an item of GET STACKED DIAGNOSTICS.
fn stacked(item: &str) -> Option<&'static str> {
    let position = match item {
        "returned_sqlstate" => 0,
        "message_text" => 1,
        "pg_exception_detail" => 2,
        "pg_exception_hint" => 3,
        "schema_name" => 4,
        "table_name" => 5,
        "column_name" => 6,
        "constraint_name" => 7,
        "pg_datatype_name" => 8,
        _ => return None,
    };
    STACKED.get(position).copied()
}

/// Returns whether a RAISE has no parameters, so that it raises the handled error again.
pub(crate) fn is_bare(raise: &ast::PlpgsqlRaiseStmt) -> bool {
    raise.syntax().text().to_string().trim().trim_end_matches(';').trim().eq_ignore_ascii_case("raise")
}

impl Binder<'_> {
    /// Binds an EXCEPTION clause. The analysis cannot tell which handler runs, so calls of the procedure are
    /// logged by value.
    pub(crate) fn bind_handlers(
        &mut self,
        section: &ast::PlpgsqlExceptionSection,
    ) -> Result<Vec<Handler>, StatementError> {
        self.log_by_value(ByValueCause::Handler);
        let mut handlers = Vec::new();
        for handler in section.handlers() {
            let mut states = Some(Vec::new());
            for condition in handler.conditions() {
                let text = condition.syntax().text().to_string();
                if text.trim().eq_ignore_ascii_case("OTHERS") {
                    states = None;
                    break;
                }
                let meant = sqlstates_of(&text);
                if meant.is_empty() {
                    let message = format!("unrecognized exception condition \"{}\"", text.trim());
                    return Err(self.error(condition.syntax(), SqlError::new("42704", message)));
                }
                states.iter_mut().for_each(|states| states.extend_from_slice(&meant));
            }
            self.scopes.push((None, HashMap::new()));
            let mut diagnostics = [Register(0); STACKED.len()];
            for (register, name) in diagnostics.iter_mut().zip(STACKED) {
                *register = self.new_register(ScalarType::Text);
                let ty = ScalarType::Text.into();
                self.declare(
                    name.into(),
                    Name::Variable(Variable { register: *register, ty, constant: true }),
                );
            }
            let body = self.bind_inner(handler.body(), handler.syntax());
            self.scopes.pop();
            handlers.push(Handler { states, diagnostics, body: body? });
        }
        Ok(handlers)
    }

    /// Binds GET DIAGNOSTICS.
    pub(crate) fn bind_diagnostics(
        &mut self,
        get: &ast::PlpgsqlGetDiagStmt,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = get.syntax();
        let is_stacked = get.area().is_some_and(|area| area.stacked_token().is_some());
        for item in get.items().into_iter().flat_map(|list| list.plpgsql_diag_items()) {
            let item_node = item.syntax();
            let target = item_node.children().find_map(ast::PlpgsqlDiagTarget::cast);
            let target = self.part(target.and_then(|target| target.name()), item_node)?;
            let target = self.assignable(&ast::normalize_name_node(target.syntax()), None, item_node)?;
            let kind = self.part(item.kind(), item_node)?;
            let kind = kind.syntax().text().to_string().to_lowercase();
            let (value, ty) = match (is_stacked, kind.as_str()) {
                (false, "row_count") => {
                    self.log_by_value(ByValueCause::RowCount);
                    let function = Function::RowCount;
                    (Expression::Function { function, arguments: Vec::new() }, ScalarType::BigInt)
                }
                (true, item) if let Some(name) = stacked(item) => {
                    let Some(variable) = self.variable(name) else {
                        let message = "GET STACKED DIAGNOSTICS cannot be used outside an exception handler";
                        return Err(self.error(node, SqlError::new("0Z002", message)));
                    };
                    (Expression::Register(variable.register), ScalarType::Text)
                }
                (true, "pg_exception_context") | (false, "pg_context") => {
                    (Expression::text(""), ScalarType::Text)
                }
                _ => return Err(self.unsupported(item_node, &format!("the diagnostics item {kind}"))),
            };
            let value =
                self.coerce(Typed::Known(value, ty.into()), target.ty, CastContext::Variable, item_node)?;
            out.push(Statement::Assign { target: target.register, value });
        }
        Ok(())
    }

    /// Binds ASSERT.
    pub(crate) fn bind_assert(
        &mut self,
        assert: &ast::PlpgsqlAssertStmt,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = assert.syntax();
        let mut parts = node.children().filter_map(ast::PlpgsqlExpr::cast);
        let condition = self.single_expression(parts.next(), node)?;
        let condition = self.bind_test(&condition)?;
        let message = match parts.next() {
            Some(message) => {
                let message = self.single_expression(Some(message), node)?;
                self.bind_as(&message, ScalarType::Text, CastContext::Explicit)?
            }
            None => Expression::text("assertion failed"),
        };
        let raise = Raise {
            severity: Severity::Exception,
            parts: vec![String::new(), String::new()],
            values: vec![message],
            sqlstate: Expression::text("P0004"),
            options: Vec::new(),
        };
        let otherwise = vec![Statement::Raise(Box::new(raise))];
        out.push(Statement::If { condition, then: Vec::new(), otherwise });
        Ok(())
    }
}
