//! RETURN, and the end of a function's body, which PostgreSQL does not let a call reach without RETURN.

use crate::binder::{Binder, RowEnd};
use crate::error::StatementError;
use catalog::ScalarType;
use procedure::{CastContext, Expression, Label, Parameter, Raise, Register, Severity, SqlError, Statement};
use squawk_syntax::ast::{self, AstNode};
use std::collections::BTreeSet;

impl Binder<'_> {
    /// Declares that the function returns the row of its columns.
    pub(crate) fn declare_row_end(&mut self) {
        let is_present = self.new_register(ScalarType::Boolean);
        self.row_end = Some(RowEnd { label: self.new_label(), is_present });
    }

    /// Returns the statement that ends a strict routine if an argument is NULL. Its result is NULL.
    pub(crate) fn end_at_null(&self, parameters: &[Parameter]) -> Statement {
        let numbered = || parameters.iter().zip(0..).map(|(own, position)| (own, Register(position)));
        let inputs = numbered().filter(|(own, _)| own.is_input());
        let is_null = |(_, register)| Expression::IsNull(Box::new(Expression::Register(register)));
        let condition = Expression::any(inputs.map(is_null).collect());
        let outputs = numbered().filter(|(own, _)| own.is_output()).map(|(_, register)| register);
        let row = self.row_end.iter().flat_map(|end| self.returned.iter().copied().chain([end.is_present]));
        let set = |target| Statement::Assign { target, value: Expression::NULL };
        let mut then: Vec<_> = outputs.chain(row).collect::<BTreeSet<_>>().into_iter().map(set).collect();
        then.push(self.end_of_call());
        Statement::If { condition, then, otherwise: Vec::new() }
    }

    fn end_of_call(&self) -> Statement {
        self.row_end.map_or(Statement::Return, |end| Statement::Exit(end.label))
    }

    /// Binds RETURN.
    pub(crate) fn bind_return(
        &mut self,
        end: &ast::PlpgsqlReturnStmt,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = end.syntax();
        match (end.expr(), self.result) {
            (value, _) if self.trigger.is_some() => return self.bind_trigger_return(value, node, out),
            (None, _) if self.must_return => {
                return Err(self.syntax(node, "missing expression at or near \";\""));
            }
            (None, _) => {}
            (Some(value), _) if self.is_void => {
                return Err(self.no_return_value("function returning void", &value));
            }
            (Some(value), _) if self.returns_row => {
                let value = self.single_expression(Some(value), node)?;
                let returned = self.returned.clone();
                let types = returned.iter().map(|register| self.registers[register.0 as usize]);
                let targets: Vec<_> = returned.iter().copied().zip(types).collect();
                let mismatch = "returned record type does not match expected record type";
                self.assign_fields(&targets, &value, mismatch, out)?;
            }
            (Some(value), result) if self.row_end.is_some() || result.is_some() && !self.must_return => {
                return Err(self.no_return_value("function with OUT parameters", &value));
            }
            (Some(value), Some((target, ty))) => {
                let value = self.single_expression(Some(value), node)?;
                let value = self.bind_as(&value, ty, CastContext::Variable)?;
                let value = self.checked_for(target, value, node)?;
                out.push(Statement::Assign { target, value });
            }
            (Some(_), None) if self.returns.is_some() => {
                let error =
                    SqlError::new("42804", "RETURN cannot have a parameter in function returning set");
                return Err(self.error(node, error.with_hint("Use RETURN NEXT or RETURN QUERY.")));
            }
            (Some(value), None) if self.is_inline() => {
                return Err(self.no_return_value("function returning void", &value));
            }
            (Some(value), None) => {
                return Err(self.syntax(value.syntax(), "RETURN cannot have a parameter in a procedure"));
            }
        }
        out.push(self.end_of_call());
        Ok(())
    }

    /// Returns whether the body is that of a DO.
    fn is_inline(&self) -> bool {
        self.scopes.iter().any(|(name, _)| name.as_deref() == Some("inline_code_block"))
    }

    /// Returns the error of a RETURN that has a value in a function without one.
    fn no_return_value(&self, function: &str, value: &ast::PlpgsqlExpr) -> StatementError {
        let message = format!("RETURN cannot have a parameter in {function}");
        self.error(value.syntax(), SqlError::new("42804", message))
    }

    /// Returns the statement at the end of a body: an error, unless all ways through the body end before.
    pub(crate) fn end_of_function(&self, body: &[Statement]) -> Option<Statement> {
        if !self.must_return || self.always_ends(body) {
            return None;
        }
        let raise = Raise::error("2F005", "control reached end of function without RETURN");
        Some(Statement::Raise(Box::new(raise)))
    }

    fn always_ends(&self, body: &[Statement]) -> bool {
        body.iter().any(|statement| match statement {
            Statement::Return | Statement::RaiseAgain => true,
            Statement::Exit(label) => self.row_end.is_some_and(|end| end.label == *label),
            Statement::Raise(raise) => raise.severity == Severity::Exception,
            Statement::If { then, otherwise, .. } => self.always_ends(then) && self.always_ends(otherwise),
            Statement::Block { label, body } => self.always_ends(body) && !leaves(body, *label),
            Statement::While { label, condition, body } => {
                *condition == Expression::boolean(true) && !leaves(body, *label)
            }
            Statement::Guarded(guarded) => {
                let handlers = guarded.handlers.iter();
                self.always_ends(&guarded.body) && handlers.into_iter().all(|own| self.always_ends(&own.body))
            }
            _ => false,
        })
    }
}

/// Returns whether a statement of a body leaves the block or loop around it.
fn leaves(body: &[Statement], label: Label) -> bool {
    let mut leaves = false;
    Statement::walk(body, &mut |statement| {
        leaves |= matches!(statement, Statement::Exit(own) if *own == label);
    });
    leaves
}
