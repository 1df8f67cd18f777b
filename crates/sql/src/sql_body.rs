//! Routines in the language SQL: statements that run one after the other. The last one gives the result.
//! Source: PostgreSQL 15's documentation, "Query Language (SQL) Functions".

use crate::binder::{Binder, Typed};
use crate::call_statement::CalledProcedure;
use crate::error::StatementError;
use crate::name_conflicts::NameConflict;
use crate::opaque::found_type;
use crate::plan::select::Item;
use catalog::{ScalarType, Type};
use procedure::{CastContext, Expression, Function, Opaque, Parameter, Register, SqlError, Statement};
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
        let returns_rows = self.returns.is_some() && self.row_end.is_none();
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
                    let query = self.returned_query(&query_statement, &types)?;
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

    /// Checks that the columns of the last statement can be assigned to those of the result.
    ///
    /// # Errors
    /// `42P13`: they cannot, or there are too few or too many.
    pub(crate) fn check_result(
        &self,
        found: &[Type],
        expected: &[Type],
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let is_only = expected.len() == 1;
        if found.len() != expected.len() {
            let detail = match found.len() < expected.len() {
                _ if is_only => "Final statement must return exactly one column.",
                true => "Final statement returns too few columns.",
                false => "Final statement returns too many columns.",
            };
            return Err(self.mismatch(detail, node));
        }
        for (position, (from, to)) in found.iter().zip(expected).enumerate() {
            let is_printed = from.is_array() && to.scalar().is_some_and(ScalarType::is_text);
            if is_printed || CastContext::Assignment.allows_type(*from, *to) {
                continue;
            }
            let [from, to] = [*from, *to].map(|ty| Typed::Known(Expression::NULL, ty).shown_type());
            let detail = match is_only {
                true => format!("Actual return type is {from}."),
                false => {
                    format!("Final statement returns {from} instead of {to} at column {}.", position + 1)
                }
            };
            return Err(self.mismatch(&detail, node));
        }
        Ok(())
    }

    /// Returns the columns of the last statement as those of the result: of a function of rows, the only
    /// column may be such a row.
    ///
    /// # Errors
    /// `42P13`: the row has fewer or more fields.
    pub(crate) fn columns_of_result(
        &self,
        items: Vec<Item>,
        types: &[Type],
        node: &SyntaxNode,
    ) -> Result<Vec<Item>, StatementError> {
        let is_one = self.row_end.is_some() || types.len() > 1 || self.returned_domains.is_empty();
        if self.returns.is_none() || !is_one {
            return Ok(items);
        }
        let [(_, Typed::Known(row, Type::Scalar(ScalarType::Record)), item_node)] = items.as_slice() else {
            return Ok(items);
        };
        if let Expression::Function { function: Function::RowText, arguments } = row
            && arguments.len() != types.len()
        {
            return Err(self.mismatch("Actual return type is record.", node));
        }
        let column = |(position, ty): (usize, &Type)| {
            let value = self.part_of_row(row.clone(), position, types.len(), *ty, item_node)?;
            Ok((String::new(), Typed::Known(value, *ty), item_node.clone()))
        };
        types.iter().enumerate().map(column).collect()
    }

    /// Returns the error of a last statement that does not give the result.
    fn mismatch(&self, detail: &str, node: &SyntaxNode) -> StatementError {
        let only = match self.returns.as_deref() {
            Some([(_, only)]) => Some(*only),
            _ => self.result.map(|(_, ty)| ty),
        };
        let ty = only.map_or("record".into(), |ty| ty.to_string());
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
            let CalledProcedure { procedure, inputs: arguments, .. } = self.bind_called(call)?;
            if !targets.is_empty() {
                return Err(self.no_result(node));
            }
            if procedure.parameters.iter().any(Parameter::is_output) {
                let message = "calling procedures with output arguments is not supported in SQL functions";
                return Err(self.error(node, SqlError::new("0A000", message)));
            }
            self.note_call(&procedure);
            return Ok(vec![Statement::Call { procedure, arguments, outputs: Vec::new() }]);
        }
        let bound = self.bind_rows(node, |binder| binder.bind_accessing(statement))?;
        if targets.is_empty() {
            return self.discard(bound, node);
        }
        if bound.items.is_empty() {
            return Err(self.no_result(node));
        }
        let outputs = self.result_outputs(bound.items, targets, node)?;
        Ok(self.execute(bound.work, outputs, false, node))
    }

    /// Returns the assignments of the columns of the last statement to the targets.
    fn result_outputs(
        &mut self,
        items: Vec<Item>,
        targets: &[(Register, Type)],
        node: &SyntaxNode,
    ) -> Result<Vec<(Register, Expression)>, StatementError> {
        let types: Vec<Type> = targets.iter().map(|(_, ty)| *ty).collect();
        let is_present = match items.as_slice() {
            [(_, Typed::Known(row, Type::Scalar(ScalarType::Record)), _)] => {
                Expression::Not(Box::new(Expression::IsNull(Box::new(row.clone()))))
            }
            _ => Expression::boolean(true),
        };
        let items = self.columns_of_result(items, &types, node)?;
        let found: Vec<Type> = items.iter().map(|(_, item, _)| found_type(item)).collect();
        self.check_result(&found, &types, node)?;
        let mut outputs = Vec::new();
        for ((_, item, item_node), (target, ty)) in items.into_iter().zip(targets) {
            let value = self.coerce(item, *ty, CastContext::Assignment, &item_node)?;
            outputs.push((*target, self.checked_for(*target, value, node)?));
        }
        outputs.extend(self.row_end.map(|end| (end.is_present, is_present)));
        Ok(outputs)
    }

    /// Binds RETURN of a body that is not a literal.
    fn bind_sql_return(
        &mut self,
        end: &ast::ReturnStmt,
        targets: &[(Register, Type)],
    ) -> Result<Vec<Statement>, StatementError> {
        let node = end.syntax();
        let value = self.part(end.expr(), node)?;
        if targets.is_empty() {
            return Err(self.no_result(node));
        }
        let bound = self.bind(&value)?;
        let items = vec![(String::new(), bound, value.syntax().clone())];
        let outputs = self.result_outputs(items, targets, node)?;
        let assign = |(target, value)| Statement::Assign { target, value };
        Ok(outputs.into_iter().map(assign).collect())
    }
}
