//! Routines in the language SQL: statements that run one after the other. The last one gives the result.
//! Source: PostgreSQL 15's documentation, "Query Language (SQL) Functions".

use crate::binder::Binder;
use crate::error::StatementError;
use crate::name_conflicts::NameConflict;
use catalog::Type;
use procedure::{CastContext, Opaque, Parameter, Register, SqlError, Statement};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

impl Binder<'_> {
    /// Binds the statements of a routine in the language SQL.
    pub(crate) fn bind_sql_body(
        &mut self,
        statements: Vec<ast::RoutineBodyStmt>,
        parameters: &[Parameter],
        node: &SyntaxNode,
    ) -> Result<Vec<Statement>, StatementError> {
        self.name_conflict = NameConflict::Column;
        let (mut body, count) = (Vec::new(), statements.len());
        let targets = self.result_targets(parameters);
        let returns_rows = self.returns.is_some() && self.row_label.is_none();
        if count == 0 && (!targets.is_empty() || returns_rows) {
            return Err(self.no_result(node));
        }
        for (position, statement) in statements.into_iter().enumerate() {
            self.lifted = Some(Vec::new());
            let is_last = position + 1 == count;
            let mut bound = match statement {
                ast::RoutineBodyStmt::ReturnStmt(end) => self.bind_sql_return(&end, &targets)?,
                ast::RoutineBodyStmt::Stmt(query_statement) if is_last && returns_rows => {
                    let types: Vec<Type> = self.returns.iter().flatten().map(|(_, ty)| *ty).collect();
                    let (query, _) = self.rows_query(&query_statement, Some(&types))?;
                    let mut bound = Vec::new();
                    self.push_opaque(Opaque::ReturnQuery(query), &mut bound);
                    bound
                }
                ast::RoutineBodyStmt::Stmt(inner) => {
                    self.bind_sql_statement(&inner, if is_last { &targets } else { &[] })?
                }
            };
            self.refuse_from(0, &mut bound);
            body.append(&mut self.lifted.take().unwrap_or_default());
            body.append(&mut bound);
        }
        Ok(body)
    }

    /// Returns the registers that the last statement sets.
    fn result_targets(&self, parameters: &[Parameter]) -> Vec<(Register, Type)> {
        match self.result {
            _ if self.is_void => Vec::new(),
            Some(result) => vec![result],
            None if self.returns_row => {
                let types = self.returned.iter().map(|register| self.registers[register.0 as usize]);
                self.returned.iter().copied().zip(types).collect()
            }
            None => {
                let outputs = parameters.iter().enumerate().filter(|(_, parameter)| parameter.is_output());
                outputs.map(|(position, parameter)| (Register(position as u32), parameter.ty)).collect()
            }
        }
    }

    /// Returns the error of a last statement that does not give the result.
    fn mismatch(&self, detail: &str, node: &SyntaxNode) -> StatementError {
        let ty = self.result.map_or("record".into(), |(_, ty)| ty.to_string());
        let error =
            SqlError::new("42P13", format!("return type mismatch in function declared to return {ty}"));
        self.error(node, error.with_detail(detail))
    }

    fn no_result(&self, node: &SyntaxNode) -> StatementError {
        let detail = "Function's final statement must be SELECT or INSERT/UPDATE/DELETE RETURNING.";
        self.mismatch(detail, node)
    }

    /// Binds a statement whose first row is assigned to targets; without targets its rows are discarded.
    fn bind_sql_statement(
        &mut self,
        statement: &ast::Stmt,
        targets: &[(Register, Type)],
    ) -> Result<Vec<Statement>, StatementError> {
        let node = statement.syntax();
        if let ast::Stmt::Call(call) = statement {
            let mut bound = Vec::new();
            self.bind_call_statement(call, &mut bound)?;
            return if targets.is_empty() { Ok(bound) } else { Err(self.no_result(node)) };
        }
        let bound = self.bind_rows(node, |binder| binder.bind_accessing(statement))?;
        if targets.is_empty() {
            return self.discard(bound, node);
        }
        if bound.items.is_empty() {
            return Err(self.no_result(node));
        }
        if bound.items.len() != targets.len() {
            let detail = match targets {
                [_] => "Final statement must return exactly one column.",
                _ if bound.items.len() < targets.len() => "Final statement returns too few columns.",
                _ => "Final statement returns too many columns.",
            };
            return Err(self.mismatch(detail, node));
        }
        let mut outputs = Vec::new();
        for ((_, item, item_node), (target, ty)) in bound.items.into_iter().zip(targets) {
            let value = self.coerce(item, *ty, CastContext::Assignment, &item_node)?;
            outputs.push((*target, self.checked_for(*target, value, node)?));
        }
        Ok(self.execute(bound.work, outputs, false, node))
    }

    /// Binds RETURN of a body that is not a literal.
    fn bind_sql_return(
        &mut self,
        end: &ast::ReturnStmt,
        targets: &[(Register, Type)],
    ) -> Result<Vec<Statement>, StatementError> {
        let node = end.syntax();
        let value = self.part(end.expr(), node)?;
        match targets {
            [(target, ty)] => {
                let value = self.bind_as(&value, *ty, CastContext::Assignment)?;
                let value = self.checked_for(*target, value, node)?;
                Ok(vec![Statement::Assign { target: *target, value }])
            }
            _ => Err(self.no_result(node)),
        }
    }
}
