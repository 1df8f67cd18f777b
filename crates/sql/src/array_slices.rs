//! FOREACH … SLICE. An array has one dimension, so its only slice is the whole array.

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use catalog::{Datum, ScalarType, Type};
use procedure::{CastContext, Expression, Raise, SqlError, Statement};
use squawk_syntax::ast::{self, AstNode};

fn refused_if(condition: Expression, sqlstate: &str, message: &str) -> Statement {
    let raise = Statement::Raise(Box::new(Raise::error(sqlstate, message)));
    Statement::If { condition, then: vec![raise], otherwise: Vec::new() }
}

impl Binder<'_> {
    /// Binds FOREACH with a slice of at least one dimension.
    ///
    /// # Errors
    /// `42804`: the variable or the expression is no array.
    pub(crate) fn bind_for_slices(
        &mut self,
        repeat: &ast::PlpgsqlForEachStmt,
        dimensions: i64,
        out: &mut Vec<Statement>,
    ) -> Result<Statement, StatementError> {
        let node = repeat.syntax();
        let refused = |binder: &Self, message: &str| binder.error(node, SqlError::new("42804", message));
        let name = self.loop_variable(repeat.vars(), node)?;
        let variable = self.assignable(&name, None, node)?;
        let array = self.single_expression(repeat.array(), node)?;
        let Typed::Known(array, ty @ Type::Array(_)) = self.bind(&array)? else {
            return Err(refused(self, "FOREACH expression must yield an array"));
        };
        if !matches!(variable.ty, Type::Array(_)) {
            return Err(refused(self, "FOREACH ... SLICE loop variable must be of an array type"));
        }
        let slice = self.new_register(ty);
        out.push(Statement::Assign { target: slice, value: array });
        let register = || Expression::Register(slice);
        let is_null = Expression::IsNull(Box::new(register()));
        out.push(refused_if(is_null, "22004", "FOREACH expression must not be null"));
        let ndims = self.built_in("array_ndims", vec![Typed::Known(register(), ty)], node)?;
        let (ndims, _) = self.settle(self.part(ndims, node)?, None, node)?;
        let refusal = |valid| format!("slice dimension ({dimensions}) is out of the valid range 0..{valid}");
        out.push(refused_if(Expression::IsNull(Box::new(ndims)), "2202E", &refusal(0)));
        if dimensions > 1 {
            out.push(refused_if(Expression::boolean(true), "2202E", &refusal(1)));
        }
        let value = self.coerce(Typed::Known(register(), ty), variable.ty, CastContext::Variable, node)?;
        let (label, mut body) = self.bind_loop(repeat.label(), repeat.body(), node)?;
        body.insert(0, Statement::Assign { target: variable.register, value });
        let once = Expression::Constant(Datum::Int(1));
        Ok(Statement::ForRange {
            label,
            variable: self.new_register(ScalarType::Integer),
            from: once.clone(),
            to: once.clone(),
            step: once,
            reverse: false,
            ahead: Vec::new(),
            body,
        })
    }
}
