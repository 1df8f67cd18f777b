//! RETURN, and the end of a function's body, which PostgreSQL does not let a call reach without RETURN.

use crate::binder::Binder;
use crate::error::StatementError;
use procedure::{CastContext, Expression, Label, Raise, Severity, SqlError, Statement};
use squawk_syntax::ast::{self, AstNode};

impl Binder<'_> {
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
            (Some(value), result) if self.row_label.is_some() || result.is_some() && !self.must_return => {
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
        out.push(self.row_label.map_or(Statement::Return, Statement::Exit));
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
            Statement::Exit(label) => self.row_label == Some(*label),
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
