//! Calls of aggregates.

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use crate::plan::select::Sort;
use crate::plan::windows::WindowScope;
use crate::row_values::row_of;
use catalog::{ScalarType, Type};
use procedure::{
    Aggregate, AggregateFunction, BuiltIn, CastContext, CompareClass, Expression, Form, Kind, Register,
    SortKey, SqlError, built_ins_named,
};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// An aggregate, chosen by the types of its arguments.
struct ChosenAggregate {
    function: AggregateFunction,
    result: Type,
    arguments: Vec<(Expression, Type)>,
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
        let windows = "aggregate function calls cannot contain window function calls";
        let bind = |binder: &mut Self| {
            binder.without_windows(WindowScope::Closed("42803", windows), |inner| {
                inner.bind_aggregated(name, arguments, call, node)
            })
        };
        let bound = self.without_group_keys(|binder| binder.before_groups(node, bind));
        self.aggregates = Some(outer);
        let (mut aggregate, result) = bound?;
        let target = self.computed_register(result);
        aggregate.target = target;
        if let Some(aggregates) = &mut self.aggregates {
            aggregates.push(aggregate);
        }
        Ok(Typed::Known(Expression::Register(target), result))
    }

    /// Chooses an aggregate by the types of its arguments, of which the last one may be a row.
    fn chosen_aggregate(
        &self,
        name: &str,
        arguments: Vec<Typed>,
        is_row: bool,
        node: &SyntaxNode,
    ) -> Result<ChosenAggregate, StatementError> {
        let entries: Vec<&BuiltIn> =
            built_ins_named(name).iter().copied().filter(|entry| entry.takes(arguments.len())).collect();
        let entry = self.chosen(name, &entries, &arguments, node)?;
        let Form::Aggregate(mut function) = entry.form else {
            return Err(self.no_function(name, &arguments, node));
        };
        let mut values = Vec::new();
        for (argument, kind) in arguments.into_iter().zip(entry.arguments) {
            values.push(match (argument, kind) {
                // A number keeps its scale, and a CHAR its length: aggregates accept any scale and length.
                (Typed::Known(value, Type::Scalar(scalar)), Kind::Of(Type::Scalar(to)))
                    if scalar.is_exact() && to.is_exact() || scalar.base() == *to =>
                {
                    (value, scalar.into())
                }
                (argument, Kind::Of(ty)) => (self.coerce(argument, *ty, CastContext::Implicit, node)?, *ty),
                (argument, Kind::AnyAsJson) => {
                    // In JSON, an array or a row begins a line.
                    let is_array = argument.known_type().is_some_and(Type::is_array);
                    function = function.over(is_row || is_array);
                    (self.as_json(argument, node)?, ScalarType::Json.into())
                }
                (argument, _) => self.settle(argument, None, node)?,
            });
        }
        let argument_type = values.first().map_or(ScalarType::BigInt.into(), |(_, ty)| *ty);
        let result = match entry.result {
            // MIN and MAX return a value of the column, so their type is that of the column.
            _ if matches!(function, AggregateFunction::Min | AggregateFunction::Max) => argument_type,
            Kind::Of(ty) => ty,
            Kind::AnyArray if function.is_ordered_set() => {
                let value = values.last().map_or(argument_type, |(_, ty)| *ty);
                if matches!(value, Type::Array(_)) {
                    return Err(self.unsupported(node, "an array of arrays"));
                }
                Type::Array(value.element())
            }
            Kind::AnyElement => values.last().map_or(argument_type, |(_, ty)| *ty),
            _ => Type::Array(argument_type.element()),
        };
        Ok(ChosenAggregate { function, result, arguments: values })
    }

    /// Returns the order of WITHIN GROUP.
    fn within_group(&mut self, call: &ast::CallExpr) -> Result<Option<Sort>, StatementError> {
        let Some(within) = call.within_clause() else { return Ok(None) };
        let mut sorts = self.bind_sort_list(within.order_by_clause())?;
        match (sorts.pop(), sorts.is_empty()) {
            (Some(sort), true) => Ok(Some(sort)),
            _ => Err(self.unsupported(within.syntax(), "WITHIN GROUP with several values")),
        }
    }

    /// Refuses an aggregate that needs WITHIN GROUP, or must not have it.
    fn check_within(
        &self,
        name: &str,
        function: AggregateFunction,
        is_within: bool,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let message = match (function.is_ordered_set(), is_within) {
            (true, false) => format!("WITHIN GROUP is required for ordered-set aggregate {name}"),
            (false, true) => {
                format!("{name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP")
            }
            _ => return Ok(()),
        };
        Err(self.error(node, SqlError::new("42809", message)))
    }

    /// Completes the order of an aggregate with DISTINCT: as in PostgreSQL, its values are sorted.
    fn sort_distinct(
        &self,
        order: &mut Vec<SortKey>,
        argument: &Option<(Expression, Type)>,
        second: Option<&Expression>,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let Some((value, ty)) = argument else { return Ok(()) };
        if order.iter().any(|key| key.value != *value && Some(&key.value) != second) {
            let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
            return Err(self.error(node, SqlError::new("42P10", message)));
        }
        if !order.iter().any(|key| key.value == *value) {
            order.push(self.sort_key(value.clone(), *ty, (false, false)));
        }
        Ok(())
    }

    /// Binds an aggregate. Returns it without its target, and its type.
    pub(crate) fn bind_aggregated(
        &mut self,
        name: &str,
        arguments: &[ast::Expr],
        call: &ast::CallExpr,
        node: &SyntaxNode,
    ) -> Result<(Aggregate, Type), StatementError> {
        let list = self.part(call.arg_list(), node)?;
        let mut bound = self.bind_arguments(name, arguments)?;
        let within = self.within_group(call)?;
        if let Some(sort) = &within {
            bound.push(self.bind(&sort.expression)?);
        }
        let is_row = match arguments.last() {
            Some(argument) => row_of(argument).is_some() || self.names_row(argument)?,
            None => false,
        };
        let chosen = self.chosen_aggregate(name, bound, is_row, node)?;
        let ChosenAggregate { function, result, mut arguments } = chosen;
        self.check_within(name, function, within.is_some(), node)?;
        if within.is_some() {
            // The value of WITHIN GROUP is aggregated, and the arguments are the same for all rows.
            arguments.reverse();
        }
        let second = if arguments.len() > 1 { arguments.pop().map(|(value, _)| value) } else { None };
        let argument = arguments.pop();
        let ty = argument.as_ref().map(|(_, ty)| *ty);
        let filter = call.filter_clause().and_then(|clause| clause.expr());
        let filter = filter.map(|condition| self.bind_condition(&condition)).transpose()?;
        let mut order = Vec::new();
        for sort in self.bind_sort_list(order_of(&list))? {
            let typed = self.bind(&sort.expression)?;
            let (value, ty) = self.settle(typed, None, node)?;
            self.check_compared(ty, "ordering", node)?;
            order.push(self.sort_key(value, ty, (sort.descending, sort.nulls_first)));
        }
        let distinct = matches!(list.all_or_distinct(), Some(ast::AllOrDistinct::Distinct(_)));
        if let (Some(sort), Some((value, ty))) = (&within, &argument) {
            self.check_compared(*ty, "ordering", node)?;
            let direction = (sort.descending, sort.nulls_first);
            order.push(self.sort_key(value.clone(), *ty, direction));
        }
        if distinct && function.makes_json() {
            return Err(self.unsupported(node, "DISTINCT in an aggregate of JSON"));
        }
        if let (true, Some(ty)) = (distinct, ty) {
            self.check_compared(ty, "equality", node)?;
            self.sort_distinct(&mut order, &argument, second.as_ref(), node)?;
        }
        if !function.is_list() {
            order.clear();
        }
        let aggregate = Aggregate {
            function,
            scale: ty.and_then(Type::fixed_scale).unwrap_or(0),
            class: CompareClass::of_type(ty.unwrap_or(ScalarType::BigInt.into())),
            argument: argument.map(|(expression, _)| expression),
            distinct,
            filter,
            second,
            order,
            is_first: false,
            target: Register(u32::MAX),
        };
        Ok((aggregate, result))
    }
}

/// Returns the ORDER BY of a list of arguments.
pub(crate) fn order_of(list: &ast::ArgList) -> Option<ast::OrderByClause> {
    list.args().find_map(|argument| argument.syntax().children().find_map(ast::OrderByClause::cast))
}

/// Returns whether a function is an aggregate.
pub(crate) fn is_aggregate(name: &str) -> bool {
    built_ins_named(name).iter().any(|entry| matches!(entry.form, Form::Aggregate(_)))
}
