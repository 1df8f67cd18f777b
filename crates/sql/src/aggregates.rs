//! Calls of aggregates.

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use catalog::{ScalarType, Type};
use procedure::{
    Aggregate, AggregateFunction, BuiltIn, CastContext, CompareClass, Expression, Form, Function, Kind,
    Register, SqlError, built_ins_named,
};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// An aggregate whose arguments have chosen it.
struct Chosen {
    function: AggregateFunction,
    result: Type,
    arguments: Vec<(Expression, ScalarType)>,
}

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

    /// Chooses an aggregate by the types of its arguments.
    fn chosen_aggregate(
        &self,
        name: &str,
        arguments: Vec<Typed>,
        node: &SyntaxNode,
    ) -> Result<Chosen, StatementError> {
        let entries: Vec<&BuiltIn> =
            built_ins_named(name).iter().copied().filter(|own| own.takes(arguments.len())).collect();
        let entry = self.chosen(name, &entries, &arguments, node)?;
        let Form::Aggregate(mut function) = entry.form else {
            return Err(self.no_function(name, &arguments, node));
        };
        let mut values = Vec::new();
        for (argument, kind) in arguments.into_iter().zip(entry.arguments) {
            values.push(match (argument, kind) {
                // A number keeps its scale, and a CHAR its length, because aggregates take them all.
                (Typed::Known(value, Type::Scalar(own)), Kind::Of(Type::Scalar(to)))
                    if own.is_exact() && to.is_exact() || own.base() == *to =>
                {
                    (value, own)
                }
                (argument, Kind::Of(ty)) => {
                    (self.coerce(argument, *ty, CastContext::Implicit, node)?, ty.element())
                }
                (argument, Kind::AnyAsJson) => {
                    function = function.over(is_structured(&argument));
                    (self.as_json(argument, node)?, ScalarType::Json)
                }
                (argument, _) => {
                    let (value, ty) = self.settle(argument, None, node)?;
                    (value, ty.element())
                }
            });
        }
        let own = values.first().map_or(ScalarType::BigInt, |(_, ty)| *ty);
        let result = match entry.result {
            // The least and the greatest value are values of the column.
            _ if matches!(function, AggregateFunction::Min | AggregateFunction::Max) => own.into(),
            Kind::Of(ty) => ty,
            _ => Type::Array(own),
        };
        Ok(Chosen { function, result, arguments: values })
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
        let bound = self.bind_arguments(name, arguments)?;
        let Chosen { function, result, mut arguments } = self.chosen_aggregate(name, bound, node)?;
        let separator = if arguments.len() > 1 { arguments.pop().map(|(value, _)| value) } else { None };
        let argument = arguments.pop();
        let ty = argument.as_ref().map(|(_, ty)| *ty);
        let filter = call.filter_clause().and_then(|clause| clause.expr());
        let filter = filter.map(|condition| self.bind_condition(&condition)).transpose()?;
        let mut order = Vec::new();
        let clause = list.syntax().descendants().find_map(ast::OrderByClause::cast);
        for sort in self.bind_sort_list(clause)? {
            let typed = self.bind(&sort.expression)?;
            let (value, ty) = self.settle(typed, None, node)?;
            self.check_compared(ty, "ordering", node)?;
            order.push(self.sort_key(value, ty, (sort.descending, sort.nulls_first)));
        }
        let distinct = matches!(list.all_or_distinct(), Some(ast::AllOrDistinct::Distinct(_)));
        if distinct && !order.is_empty() {
            return Err(self.unsupported(node, "DISTINCT and ORDER BY in one aggregate"));
        }
        if distinct && function.makes_json() {
            return Err(self.unsupported(node, "DISTINCT in an aggregate of JSON"));
        }
        if let (true, Some(ty)) = (distinct, ty) {
            self.check_compared(ty.into(), "equality", node)?;
        }
        let aggregate = Aggregate {
            function,
            scale: ty.and_then(ScalarType::fixed_scale).unwrap_or(0),
            class: CompareClass::of(ty.unwrap_or(ScalarType::BigInt)),
            argument: argument.map(|(expression, _)| expression),
            distinct,
            filter,
            separator,
            order,
            is_first: false,
            target: Register(u32::MAX),
        };
        Ok((aggregate, result))
    }
}

/// Returns whether a value is an array or a row, whose JSON begins a line in an aggregate.
fn is_structured(value: &Typed) -> bool {
    match value {
        Typed::Known(Expression::Function { function: Function::RowJson, .. }, _) => true,
        value => matches!(value.known_type(), Some(Type::Array(_))),
    }
}

/// Returns whether a function is an aggregate.
pub(crate) fn is_aggregate(name: &str) -> bool {
    built_ins_named(name).iter().any(|own| matches!(own.form, Form::Aggregate(_)))
}
