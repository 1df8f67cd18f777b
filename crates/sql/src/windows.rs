//! Calls of window functions, and the windows of OVER and WINDOW.
//! Source: PostgreSQL 15's documentation, "Window Function Calls"; the checks are those of its
//! `transformWindowFuncCall` and `transformWindowDefinitions`.

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use crate::plan::windows::{Spec, WindowScope};
use catalog::{Datum, Numeric, ScalarType, Type};
use procedure::query::{Exclusion, Frame, FrameBound, FrameMode, FrameOffset, WindowCall, WindowValue};
use procedure::{
    BuiltIn, CastContext, CompareOperator, Expression, Form, Register, SqlError, built_ins_named,
};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// The window functions with a name.
fn window_functions(name: &str) -> Vec<&'static BuiltIn> {
    let entries = built_ins_named(name).iter().copied();
    entries.filter(|entry| matches!(entry.form, Form::Window(_))).collect()
}

/// Returns whether a function has no meaning outside of a window.
pub(crate) fn is_window_function(name: &str) -> bool {
    !window_functions(name).is_empty()
}

impl Binder<'_> {
    /// Binds expressions in which window functions are not allowed.
    pub(crate) fn without_windows<T>(&mut self, closed: WindowScope, bind: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.queries.windows, closed);
        let bound = bind(self);
        self.queries.windows = outer;
        bound
    }

    /// Binds a call with OVER.
    pub(crate) fn bind_window_call(
        &mut self,
        name: &str,
        arguments: &[ast::Expr],
        call: &ast::CallExpr,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let over = self.part(call.over_clause(), node)?;
        let is_aggregate = crate::aggregates::is_aggregate(name);
        if !is_aggregate && !is_window_function(name) {
            if built_ins_named(name).is_empty() && self.schema.procedure(name).is_none() {
                let bound =
                    arguments.iter().map(|argument| self.bind(argument)).collect::<Result<Vec<_>, _>>()?;
                return Err(self.no_function(name, &bound, node));
            }
            let message =
                format!("OVER specified, but {name} is not a window function nor an aggregate function");
            return Err(self.error(node, SqlError::new("42809", message)));
        }
        if let WindowScope::Closed(sqlstate, message) = self.queries.windows {
            return Err(self.error(node, SqlError::new(sqlstate, message)));
        }
        self.check_window_call(name, is_aggregate, call, node)?;
        let nested = WindowScope::closed("window function calls cannot be nested");
        let (value, ty) = self.without_windows(nested, |binder| {
            if is_aggregate {
                let (aggregate, ty) = binder.bind_aggregated(name, arguments, call, node)?;
                return Ok((WindowValue::Aggregate(Box::new(aggregate)), ty));
            }
            binder.bind_window_function(name, arguments, node)
        })?;
        let spec = self.window_of_over(&over)?;
        let frame = spec.frame.clone().unwrap_or_default();
        let mut call = WindowCall { value, frame, target: Register(u32::MAX) };
        call.retarget(self.computed_register(ty));
        let WindowScope::Open(windows) = &mut self.queries.windows else {
            unreachable!("window functions are allowed")
        };
        let target = windows.add(spec, call);
        Ok(Typed::Known(Expression::Register(target), ty))
    }

    /// Refuses the clauses that a call with OVER must not have.
    fn check_window_call(
        &self,
        name: &str,
        is_aggregate: bool,
        call: &ast::CallExpr,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let list = self.part(call.arg_list(), node)?;
        let refused = |message: &str| Err(self.error(node, SqlError::new("0A000", message)));
        if matches!(list.all_or_distinct(), Some(ast::AllOrDistinct::Distinct(_))) {
            return refused("DISTINCT is not implemented for window functions");
        }
        if crate::aggregates::order_of(&list).is_some() {
            return refused("aggregate ORDER BY is not implemented for window functions");
        }
        if call.filter_clause().is_some() && !is_aggregate {
            return refused("FILTER is not implemented for non-aggregate window functions");
        }
        if let Some(within) = call.within_clause() {
            let message = format!("OVER is not supported for ordered-set aggregate {name}");
            return Err(self.error(within.syntax(), SqlError::new("0A000", message)));
        }
        match call.null_treatment() {
            Some(treatment) => Err(self.unsupported(treatment.syntax(), "RESPECT or IGNORE NULLS")),
            None => Ok(()),
        }
    }

    /// Chooses a window function by the types of its arguments.
    fn bind_window_function(
        &mut self,
        name: &str,
        arguments: &[ast::Expr],
        node: &SyntaxNode,
    ) -> Result<(WindowValue, Type), StatementError> {
        let bound = arguments.iter().map(|argument| self.bind(argument)).collect::<Result<Vec<_>, _>>()?;
        let entries: Vec<_> =
            window_functions(name).into_iter().filter(|function| function.takes(bound.len())).collect();
        let entry = self.chosen(name, &entries, &bound, node)?;
        let Form::Window(function) = entry.form else { return Err(self.no_function(name, &bound, node)) };
        let (arguments, ty) = self.arguments_of_entry(entry, entry.arguments, bound, node)?;
        Ok((WindowValue::Function { function, arguments }, ty))
    }

    /// Returns the window that OVER names or describes.
    fn window_of_over(&mut self, over: &ast::OverClause) -> Result<Spec, StatementError> {
        let node = over.syntax();
        match over.over_target() {
            Some(ast::OverTarget::WindowRef(name)) => self.named_window(name.syntax()),
            Some(ast::OverTarget::OverWindowSpec(spec)) => self.bind_window(spec.window_spec(), node, true),
            None => Err(self.unsupported(node, "this kind of OVER")),
        }
    }

    fn named_window(&self, node: &SyntaxNode) -> Result<Spec, StatementError> {
        let name = ast::normalize_name_node(node);
        let WindowScope::Open(windows) = &self.queries.windows else {
            unreachable!("window functions are allowed")
        };
        match windows.named.iter().find(|(known, _)| *known == name) {
            Some((_, spec)) => Ok(spec.clone()),
            None => {
                let message = format!("window \"{name}\" does not exist");
                Err(self.error(node, SqlError::new("42704", message)))
            }
        }
    }

    /// Binds the windows of the clause WINDOW.
    pub(crate) fn bind_window_clause(
        &mut self,
        clause: Option<ast::WindowClause>,
    ) -> Result<(), StatementError> {
        for definition in clause.into_iter().flat_map(|clause| clause.window_defs()) {
            let node = definition.syntax();
            let name = self.part(definition.window(), node)?;
            let name = ast::normalize_name_node(name.syntax());
            let spec = self.bind_window(definition.window_spec(), node, false)?;
            let WindowScope::Open(windows) = &mut self.queries.windows else {
                unreachable!("window functions are allowed")
            };
            if windows.named.iter().any(|(known, _)| *known == name) {
                let message = format!("window \"{name}\" is already defined");
                return Err(self.error(node, SqlError::new("42P20", message)));
            }
            windows.named.push((name, spec));
        }
        Ok(())
    }

    /// Binds a window.
    fn bind_window(
        &mut self,
        spec: Option<ast::WindowSpec>,
        node: &SyntaxNode,
        is_over: bool,
    ) -> Result<Spec, StatementError> {
        let Some(spec) = spec else { return Ok(Spec::default()) };
        let (partition, order) = (spec.partition_by_clause(), spec.order_by_clause());
        let mut window = Spec::default();
        if let Some(reference) = spec.window_ref() {
            let name = ast::normalize_name_node(reference.syntax());
            window = self.named_window(reference.syntax())?;
            let refused = |message: String| SqlError::new("42P20", message);
            if partition.is_some() {
                let error = refused(format!("cannot override PARTITION BY clause of window \"{name}\""));
                return Err(self.error(node, error));
            }
            if order.is_some() && window.keys.len() > window.partitions {
                let error = refused(format!("cannot override ORDER BY clause of window \"{name}\""));
                return Err(self.error(node, error));
            }
            if window.frame.is_some() {
                let error = refused(format!("cannot copy window \"{name}\" because it has a frame clause"));
                let is_alone = is_over && order.is_none() && spec.frame_clause().is_none();
                let hint = "Omit the parentheses in this OVER clause.";
                return Err(self.error(node, if is_alone { error.with_hint(hint) } else { error }));
            }
        }
        let outside = WindowScope::closed("window functions are not allowed in window definitions");
        self.without_windows(outside, |binder| {
            for value in partition.into_iter().flat_map(|clause| clause.exprs()) {
                let typed = binder.bind(&value)?;
                let node = value.syntax().clone();
                let (value, ty) = binder.settle(typed, None, &node)?;
                binder.check_grouped(ty, &node)?;
                window.keys.push(binder.sort_key(value, ty, (false, false)));
                window.partitions += 1;
            }
            for sort in binder.bind_sort_list(order)? {
                let typed = binder.bind(&sort.expression)?;
                let (value, ty) = binder.settle(typed, None, sort.expression.syntax())?;
                binder.check_compared(ty, "ordering", sort.expression.syntax())?;
                window.keys.push(binder.sort_key(value, ty, (sort.descending, sort.nulls_first)));
                window.types.push(ty);
            }
            if let Some(clause) = spec.frame_clause() {
                window.frame = Some(binder.bind_frame(&clause, &window)?);
            }
            Ok(window)
        })
    }

    fn bind_frame(&mut self, clause: &ast::FrameClause, window: &Spec) -> Result<Frame, StatementError> {
        let node = clause.syntax();
        let mode = match self.part(clause.frame_units(), node)? {
            ast::FrameUnits::FrameRows(_) => FrameMode::Rows,
            ast::FrameUnits::FrameRange(_) => FrameMode::Range,
            ast::FrameUnits::FrameGroups(_) => FrameMode::Groups,
        };
        let bounds: Vec<ast::FrameBound> = match self.part(clause.frame_extent(), node)? {
            ast::FrameExtent::FrameBound(bound) => vec![bound],
            ast::FrameExtent::FrameBetween(between) => {
                between.syntax().children().filter_map(ast::FrameBound::cast).collect()
            }
        };
        let exclusion = match clause.frame_exclude().and_then(|exclude| exclude.frame_exclude_target()) {
            None | Some(ast::FrameExcludeTarget::NoOthers(_)) => Exclusion::NoOthers,
            Some(ast::FrameExcludeTarget::CurrentRow(_)) => Exclusion::CurrentRow,
            Some(ast::FrameExcludeTarget::Group(_)) => Exclusion::Group,
            Some(ast::FrameExcludeTarget::Ties(_)) => Exclusion::Ties,
        };
        if let Some(message) = invalid_bounds(&bounds) {
            return Err(self.error(node, SqlError::new("42P20", message)));
        }
        if mode == FrameMode::Groups && window.types.is_empty() {
            let error = SqlError::new("42P20", "GROUPS mode requires an ORDER BY clause");
            return Err(self.error(node, error));
        }
        let mut bound = Vec::new();
        for end in &bounds {
            bound.push(self.bind_frame_bound(end, mode, window)?);
        }
        let end = if bound.len() > 1 { bound.pop() } else { None };
        let (start, end) = (self.part(bound.pop(), node)?, end.unwrap_or(FrameBound::CurrentRow));
        Ok(Frame { mode, start, end, exclusion })
    }

    fn bind_frame_bound(
        &mut self,
        bound: &ast::FrameBound,
        mode: FrameMode,
        window: &Spec,
    ) -> Result<FrameBound, StatementError> {
        let node = bound.syntax();
        Ok(match bound {
            ast::FrameBound::UnboundedPreceding(_) => FrameBound::UnboundedPreceding,
            ast::FrameBound::CurrentRow(_) => FrameBound::CurrentRow,
            ast::FrameBound::UnboundedFollowing(_) => FrameBound::UnboundedFollowing,
            ast::FrameBound::ExprPreceding(bound) => {
                let offset = self.part(bound.expr(), node)?;
                FrameBound::Preceding(self.bind_frame_offset(&offset, mode, window, true)?)
            }
            ast::FrameBound::ExprFollowing(bound) => {
                let offset = self.part(bound.expr(), node)?;
                FrameBound::Following(self.bind_frame_offset(&offset, mode, window, false)?)
            }
        })
    }

    fn bind_frame_offset(
        &mut self,
        offset: &ast::Expr,
        mode: FrameMode,
        window: &Spec,
        precedes: bool,
    ) -> Result<FrameOffset, StatementError> {
        let node = offset.syntax();
        let mode = match mode {
            FrameMode::Rows => "ROWS",
            FrameMode::Groups => "GROUPS",
            FrameMode::Range => return self.bind_difference(offset, window, precedes),
        };
        let typed = self.bind_constant(offset, mode)?;
        let is_assigned = |ty: Type| {
            ty.scalar().is_some_and(|scalar| CastContext::Assignment.allows(scalar, ScalarType::BigInt))
        };
        if typed.known_type().is_some_and(|ty| !is_assigned(ty)) {
            let message = format!("argument of {mode} must be type bigint, not type {}", typed.shown_type());
            return Err(self.error(node, SqlError::new("42804", message)));
        }
        let count = self.coerce(typed, ScalarType::BigInt.into(), CastContext::Assignment, node)?;
        Ok(FrameOffset::Count(count))
    }

    /// Binds an expression that must not depend on a row of the SELECT.
    fn bind_constant(&mut self, value: &ast::Expr, clause: &str) -> Result<Typed, StatementError> {
        let (typed, refers) =
            self.without_group_keys(|binder| binder.referring(|binder| binder.bind(value)))?;
        if refers.relations != 0 {
            let message = format!("argument of {clause} must not contain variables");
            return Err(self.error(value.syntax(), SqlError::new("42P10", message)));
        }
        Ok(typed)
    }

    /// Binds the offset of a RANGE.
    fn bind_difference(
        &mut self,
        offset: &ast::Expr,
        window: &Spec,
        precedes: bool,
    ) -> Result<FrameOffset, StatementError> {
        let node = offset.syntax();
        let ([order], [ty]) = (&window.keys[window.partitions..], &window.types[..]) else {
            let message = "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
            return Err(self.error(node, SqlError::new("42P20", message)));
        };
        let key = Typed::Known(order.value.clone(), *ty);
        let is_less = precedes != order.descending;
        let (limit, is_negative) = match *ty {
            Type::Scalar(key_type) if key_type.is_timestamp() || key_type == ScalarType::Date => {
                self.bind_interval_offset(offset, key.clone(), is_less)?
            }
            Type::Scalar(key_type) if key_type.is_number() => {
                self.bind_number_offset(offset, order.value.clone(), key_type, is_less)?
            }
            ty => {
                let message =
                    format!("RANGE with offset PRECEDING/FOLLOWING is not supported for column type {ty}");
                return Err(self.error(node, SqlError::new("0A000", message)));
            }
        };
        let (class, operands) = self.comparable(key, limit, node)?;
        let [key, limit] = *operands;
        Ok(FrameOffset::Value { key, limit, class, is_negative })
    }

    fn bind_interval_offset(
        &mut self,
        offset: &ast::Expr,
        key: Typed,
        is_less: bool,
    ) -> Result<(Typed, Expression), StatementError> {
        let node = offset.syntax();
        let ty = ScalarType::Interval.into();
        let interval = match self.bind_constant(offset, "RANGE")? {
            known @ Typed::Known(..) if known.known_type() != Some(ty) => {
                return Err(self.unsupported(node, "a RANGE of times by an offset that is not an interval"));
            }
            known @ Typed::Known(..) => known,
            open => Typed::Known(self.coerce(open, ty, CastContext::Implicit, node)?, ty),
        };
        let zero = Typed::Literal("0".into());
        let is_negative = self.comparison(CompareOperator::Less, interval.clone(), zero, node)?;
        let (is_negative, _) = self.settle(is_negative, None, node)?;
        let limit = self.operator(if is_less { "-" } else { "+" }, vec![key, interval], node)?;
        Ok((limit, is_negative))
    }

    fn bind_number_offset(
        &mut self,
        offset: &ast::Expr,
        key: Expression,
        ty: ScalarType,
        is_less: bool,
    ) -> Result<(Typed, Expression), StatementError> {
        let node = offset.syntax();
        let typed = self.bind_constant(offset, "RANGE")?;
        // The limit of an integer may be no integer of its type.
        let wide = if ty.is_float() { ScalarType::Double } else { ScalarType::AnyNumeric };
        let takes = |scalar: ScalarType| match ty {
            _ if ty.is_integer() => scalar.is_integer(),
            _ => scalar.is_number() && CastContext::Implicit.allows(scalar, wide),
        };
        if let Some(offset_type) = typed.known_type()
            && !matches!(offset_type, Type::Scalar(offset_type) if takes(offset_type))
        {
            let message = format!(
                "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {} and offset \
                 type {}",
                ty.base(),
                typed.shown_type()
            );
            return Err(self.error(node, SqlError::new("0A000", message)));
        }
        let read_as = if ty.is_integer() { ScalarType::BigInt } else { wide };
        let typed = match typed {
            known @ Typed::Known(..) => known,
            literal => Typed::Known(
                self.coerce(literal, read_as.into(), CastContext::Implicit, node)?,
                read_as.into(),
            ),
        };
        let widened = |binder: &Self, own: Typed| {
            let value = binder.coerce(own, wide.into(), CastContext::Implicit, node)?;
            Ok::<_, StatementError>(Typed::Known(value, wide.into()))
        };
        let key = widened(self, Typed::Known(key, ty.into()))?;
        let typed = widened(self, typed)?;
        let zero = Typed::Known(Expression::Constant(Datum::Int(0)), ScalarType::Integer.into());
        let is_negative = self.comparison(CompareOperator::Less, typed.clone(), zero, node)?;
        let is_negative = self.bind_condition_of(is_negative, node)?;
        let nan = match wide {
            ScalarType::Double => Expression::Constant(Datum::Double(f64::NAN)),
            _ => Expression::Numeric(Numeric::NaN),
        };
        let nan = Typed::Known(nan, wide.into());
        let is_nan = self.comparison(CompareOperator::Equal, typed.clone(), nan, node)?;
        let is_nan = self.bind_condition_of(is_nan, node)?;
        let is_refused = Expression::Or(Box::new([is_negative, is_nan]));
        let limit = self.operator(if is_less { "-" } else { "+" }, vec![key, typed], node)?;
        Ok((limit, is_refused))
    }
}

/// Returns the error message for the bounds of a frame; `None` if they are valid.
fn invalid_bounds(bounds: &[ast::FrameBound]) -> Option<&'static str> {
    use ast::FrameBound as B;
    Some(match bounds {
        [B::UnboundedFollowing(_)] | [B::UnboundedFollowing(_), _] => {
            "frame start cannot be UNBOUNDED FOLLOWING"
        }
        [B::ExprFollowing(_)] => "frame starting from following row cannot end with current row",
        [_, B::UnboundedPreceding(_)] => "frame end cannot be UNBOUNDED PRECEDING",
        [B::CurrentRow(_), B::ExprPreceding(_)] => {
            "frame starting from current row cannot have preceding rows"
        }
        [B::ExprFollowing(_), B::ExprPreceding(_) | B::CurrentRow(_)] => {
            "frame starting from following row cannot have preceding rows"
        }
        _ => return None,
    })
}
