//! `generate_subscripts`: the subscripts of an array, as rows.

use super::{Applied, Binder};
use crate::binder::Typed;
use crate::error::StatementError;
use catalog::{Datum, ScalarType, Type};
use procedure::query::{Plan, TableFunction};
use procedure::{ArithmeticOperator, CastContext, CompareOperator, Expression, Register, built_ins_named};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

impl Binder<'_> {
    /// Replaces an array and the number of a dimension by the first and the last subscript.
    pub(super) fn bounds_of_subscripts(
        &self,
        bound: &mut [(Expression, Type)],
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let arguments: Vec<Typed> =
            bound.iter().map(|(value, ty)| Typed::Known(value.clone(), *ty)).collect();
        let [(array, Type::Array(_)), (_, dimension)] = bound else {
            return Err(self.no_function("generate_subscripts", &arguments, node));
        };
        if !dimension.scalar().is_some_and(ScalarType::is_integer) {
            return Err(self.no_function("generate_subscripts", &arguments, node));
        }
        let integer =
            |value| Typed::Known(Expression::Constant(Datum::Int(value)), ScalarType::Integer.into());
        let entry = built_ins_named("array_upper").first().copied();
        let entry = self.part(entry, node)?;
        let upper = self.call_values(entry, entry.arguments, arguments, node)?;
        let starts_at = self.first_subscript(array);
        let behind = integer(1 - starts_at);
        let upper = self.arithmetic(ArithmeticOperator::Subtract, upper, behind, node)?;
        let ty = Type::from(ScalarType::Integer);
        let ends = [integer(starts_at), upper].map(|own| self.coerce(own, ty, CastContext::Explicit, node));
        for (place, end) in ends.into_iter().enumerate() {
            bound[place] = (end?, ty);
        }
        Ok(())
    }

    /// Returns the subscript of the first element of an array.
    fn first_subscript(&self, array: &Expression) -> i64 {
        let register = Self::register_of(array);
        i64::from(!register.is_some_and(|register| self.origins.is_vector(register)))
    }

    /// Binds `generate_subscripts` of an array beside `unnest` of the same array, in one list: the position
    /// of each element. `None` for any other list.
    pub(crate) fn subscripts_beside(
        &mut self,
        call: &ast::CallExpr,
    ) -> Result<Option<Typed>, StatementError> {
        let (node, arguments) = (call.syntax(), self.plain_arguments(call.arg_list())?);
        let [own, _] = arguments.as_slice() else { return Ok(None) };
        let unnest = format!("unnest({})", own.syntax().text());
        let Some(array_type) = self.bind(own)?.known_type() else { return Ok(None) };
        let fresh = self.new_register(ScalarType::BigInt);
        let mut functions = self.queries.applied.iter_mut().flatten().filter_map(|applied| match applied {
            Applied::Rows { text, plan, columns } if text.ends_with(&unnest) => Some((plan, columns)),
            _ => None,
        });
        let Some((plan, columns)) = functions.next() else { return Ok(None) };
        let Plan::Function { ordinality, arguments, .. } = &mut **plan else { return Ok(None) };
        let register = *ordinality.get_or_insert_with(|| {
            columns.push((fresh, ScalarType::BigInt.into()));
            fresh
        });
        let array = arguments[0].clone();
        let behind = Expression::Constant(Datum::Int(1 - self.first_subscript(&array)));
        let behind = Typed::Known(behind, ScalarType::BigInt.into());
        let position = Typed::Known(Expression::Register(register), ScalarType::BigInt.into());
        let entry = self.part(built_ins_named("cardinality").first().copied(), node)?;
        let length = self.call_values(entry, entry.arguments, vec![Typed::Known(array, array_type)], node)?;
        let (class, operands) = self.comparable(position.clone(), length, node)?;
        let is_element = Expression::Compare { operator: CompareOperator::LessOrEqual, class, operands };
        let value = self.arithmetic(ArithmeticOperator::Subtract, position, behind, node)?;
        let ty = Type::from(ScalarType::Integer);
        let value = self.coerce(value, ty, CastContext::Explicit, node)?;
        // Another array of the list may be longer.
        let value =
            Expression::Case { branches: vec![(is_element, value)], otherwise: Box::new(Expression::NULL) };
        Ok(Some(Typed::Known(value, ty)))
    }

    /// Binds a further function of rows in a list: `unnest` beside `unnest`, which go in step.
    pub(super) fn beside_unnest(
        &mut self,
        name: &str,
        call: &ast::CallExpr,
    ) -> Result<Vec<(Register, Type)>, StatementError> {
        let node = call.syntax();
        let refused = "a second function of rows in one list";
        let own = self.plain_arguments(call.arg_list())?;
        let ("unnest", [array]) = (name, own.as_slice()) else { return Err(self.unsupported(node, refused)) };
        let Typed::Known(array, Type::Array(element)) = self.bind(array)? else {
            return Err(self.unsupported(node, refused));
        };
        let fresh = self.new_register(element);
        let mut functions = self.queries.applied.iter_mut().flatten().filter_map(|applied| match applied {
            Applied::Rows { plan, columns, .. } => Some((plan, columns)),
            _ => None,
        });
        match functions.next().map(|(plan, columns)| (&mut **plan, columns)) {
            Some((Plan::Function { function: TableFunction::Unnest, arguments, registers, .. }, columns)) => {
                arguments.push(array);
                registers.push(fresh);
                columns.push((fresh, element.into()));
                Ok(vec![(fresh, element.into())])
            }
            _ => Err(self.unsupported(node, refused)),
        }
    }
}
