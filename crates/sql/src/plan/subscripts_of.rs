//! Binds `generate_subscripts`, which returns the subscripts of an array as rows.

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use catalog::{Datum, ScalarType, Type};
use procedure::{ArithmeticOperator, CastContext, Expression, built_ins_named};
use squawk_syntax::SyntaxNode;

impl Binder<'_> {
    /// Returns the first and the last subscript of an array in a dimension.
    pub(super) fn bounds_of_subscripts(
        &self,
        arguments: Vec<Typed>,
        node: &SyntaxNode,
    ) -> Result<Vec<Typed>, StatementError> {
        let [Typed::Known(array, Type::Array(_)), dimension] = arguments.as_slice() else {
            return Err(self.no_function("generate_subscripts", &arguments, node));
        };
        let is_integer = |ty: Type| ty.scalar().is_some_and(ScalarType::is_integer);
        if !dimension.known_type().is_none_or(is_integer) {
            return Err(self.no_function("generate_subscripts", &arguments, node));
        }
        let starts_at = self.first_subscript(array);
        let integer =
            |value| Typed::Known(Expression::Constant(Datum::Int(value)), ScalarType::Integer.into());
        let entry = built_ins_named("array_upper").first().copied();
        let entry = self.part(entry, node)?;
        let upper = self.call_values(entry, entry.arguments, arguments, node)?;
        let shift = integer(1 - starts_at);
        let upper = self.arithmetic(ArithmeticOperator::Subtract, upper, shift, node)?;
        let ty = Type::from(ScalarType::Integer);
        let ends =
            [integer(starts_at), upper].map(|bound| self.coerce(bound, ty, CastContext::Explicit, node));
        ends.into_iter().map(|bound| Ok(Typed::Known(bound?, ty))).collect()
    }

    /// Returns the subscript of the first element of an array.
    fn first_subscript(&self, array: &Expression) -> i64 {
        let register = Self::register_of(array);
        i64::from(!register.is_some_and(|register| self.origins.is_vector(register)))
    }
}
