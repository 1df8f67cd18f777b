//! Calls of aggregates.

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use crate::operators::compare_class;
use catalog::{ScalarType, Type};
use procedure::{Aggregate, AggregateFunction, Expression, Register, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

impl Binder<'_> {
    pub(crate) fn bind_aggregate(
        &mut self,
        name: &str,
        arguments: &[ast::Expr],
        call: &ast::CallExpr,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let Some(outer) = self.aggregates.take() else {
            let message = format!("aggregate function {name} is not allowed here");
            return Err(self.error(node, SqlError::new("42803", message)));
        };
        let bind = |binder: &mut Self| binder.bind_aggregated(name, arguments, call, node);
        let bound = self.without_group_keys(|binder| binder.before_groups(node, bind));
        self.aggregates = Some(outer);
        let (mut aggregate, result) = bound?;
        let target = self.new_register(result);
        aggregate.target = target;
        if let Some(aggregates) = &mut self.aggregates {
            aggregates.push(aggregate);
        }
        Ok(Typed::Known(Expression::Register(target), result))
    }

    /// Binds an aggregate. Returns it without its target, and its type.
    fn bind_aggregated(
        &mut self,
        name: &str,
        arguments: &[ast::Expr],
        call: &ast::CallExpr,
        node: &SyntaxNode,
    ) -> Result<(Aggregate, Type), StatementError> {
        let list = self.part(call.arg_list(), node)?;
        let mut separator = None;
        let argument = match arguments {
            [] if name == "count" => None,
            [argument] => {
                let bound = self.bind(argument)?;
                Some(self.settle(bound, None, node)?)
            }
            [argument, between] if name == "string_agg" => {
                let value = self.bind_as(argument, ScalarType::Text)?;
                separator = Some(self.bind_as(between, ScalarType::Text)?);
                Some((value, ScalarType::Text.into()))
            }
            _ => {
                let message = format!("function {name} with {} arguments does not exist", arguments.len());
                return Err(self.error(node, SqlError::new("42883", message)));
            }
        };
        let ty = argument.as_ref().map(|(_, ty)| ty.element());
        let is_array = argument.as_ref().is_some_and(|(_, ty)| matches!(ty, Type::Array(_)));
        let (function, result): (_, Type) = match (name, ty) {
            ("count", _) => (AggregateFunction::Count, ScalarType::BigInt.into()),
            _ if is_array => return Err(self.unsupported(node, "this aggregate of arrays")),
            ("min", Some(ty)) => (AggregateFunction::Min, ty.into()),
            ("max", Some(ty)) => (AggregateFunction::Max, ty.into()),
            ("sum", Some(ScalarType::SmallInt | ScalarType::Integer)) => {
                (AggregateFunction::SumInt, ScalarType::BigInt.into())
            }
            ("sum", Some(ScalarType::Double)) => (AggregateFunction::SumDouble, ScalarType::Double.into()),
            ("avg", Some(ScalarType::Double)) => {
                (AggregateFunction::AverageDouble, ScalarType::Double.into())
            }
            ("sum", Some(ty)) if ty.is_exact() => {
                (AggregateFunction::SumDecimal, ScalarType::AnyNumeric.into())
            }
            ("avg", Some(ty)) if ty.is_exact() => {
                (AggregateFunction::AverageDecimal, ScalarType::AnyNumeric.into())
            }
            ("bool_and" | "every", Some(ScalarType::Boolean)) => {
                (AggregateFunction::BoolAnd, ScalarType::Boolean.into())
            }
            ("bool_or", Some(ScalarType::Boolean)) => (AggregateFunction::BoolOr, ScalarType::Boolean.into()),
            ("string_agg", Some(_)) if separator.is_some() => {
                (AggregateFunction::StringAgg, ScalarType::Text.into())
            }
            ("array_agg", Some(ty)) => (AggregateFunction::ArrayAgg, Type::Array(ty)),
            _ => {
                let message = format!("aggregate function {name} does not take this type");
                return Err(self.error(node, SqlError::new("42883", message)));
            }
        };
        let filter = call.filter_clause().and_then(|clause| clause.expr());
        let filter = filter.map(|condition| self.bind_condition(&condition)).transpose()?;
        let mut order = Vec::new();
        let clause = list.syntax().descendants().find_map(ast::OrderByClause::cast);
        for sort in self.bind_sort_list(clause)? {
            let typed = self.bind(&sort.expression)?;
            let (value, ty) = self.settle(typed, None, node)?;
            order.push(self.sort_key(value, ty, (sort.descending, sort.nulls_first)));
        }
        let distinct = matches!(list.all_or_distinct(), Some(ast::AllOrDistinct::Distinct(_)));
        if distinct && !order.is_empty() {
            return Err(self.unsupported(node, "DISTINCT and ORDER BY in one aggregate"));
        }
        let aggregate = Aggregate {
            function,
            scale: ty.and_then(ScalarType::fixed_scale).unwrap_or(0),
            class: compare_class(ty.unwrap_or(ScalarType::BigInt)),
            argument: argument.map(|(expression, _)| expression),
            distinct,
            filter,
            separator,
            order,
            target: Register(u32::MAX),
        };
        Ok((aggregate, result))
    }
}

/// Returns whether a function is an aggregate.
pub(crate) fn is_aggregate(name: &str) -> bool {
    matches!(
        name,
        "count"
            | "sum"
            | "avg"
            | "min"
            | "max"
            | "bool_and"
            | "every"
            | "bool_or"
            | "string_agg"
            | "array_agg"
    )
}
