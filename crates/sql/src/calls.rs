//! Calls of built-in functions, aggregates, and functions of the schema.

use crate::aggregates::is_aggregate;
use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use crate::plan::Applied;
use crate::windows::is_window_function;
use catalog::ScalarType;
use procedure::{ByValueCause, Cast, Expression, Procedure, SqlError, Statement};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

impl Binder<'_> {
    pub(crate) fn bind_call(&mut self, call: &ast::CallExpr) -> Result<Typed, StatementError> {
        let node = call.syntax();
        if let Some(exists) = call.exists_fn() {
            let query = self.part(exists.select_variant(), node)?;
            return self.bind_exists(&query, node);
        }
        if let Some(extract) = call.extract_fn() {
            return self.bind_extract(&extract);
        }
        if let Some(result) = self.bind_keyword_call(call)? {
            return Ok(result);
        }
        let name = self.callee(call)?;
        self.refuse_procedure(&name, call.arg_list(), node)?;
        if let Some(row) = self.bind_row_call(call)? {
            return Ok(row);
        }
        if let Some(columns) = self.rows_in_list(&name, call)? {
            let (register, ty) = columns[0];
            return Ok(Typed::Known(Expression::Register(register), ty));
        }
        let list = self.part(call.arg_list(), node)?;
        if name == "make_interval" {
            return self.bind_make_interval(&list, node);
        }
        let names_some = list.args().any(|argument| argument.expr().is_none());
        if let Some(function) =
            self.schema.procedure(&name).filter(|procedure| procedure.result.is_some()).cloned()
            && (names_some || function.is_variadic())
        {
            let arguments = self.function_arguments(&function, Some(list), node)?;
            return self.lift_call(&function, arguments, node);
        }
        let has_array = list.args().any(|argument| argument.variadic_token().is_some());
        if let Some(template) = self.schema.procedure(&name).filter(|own| own.is_template).cloned()
            && (names_some || has_array)
        {
            let arguments = self.function_arguments(&template, Some(list), node)?;
            let function = self.placed_instance(&template, &arguments, None, node)?;
            return self.lift_call(&function, arguments, node);
        }
        if let Some(bound) = self.bind_variadic_call(&name, &list, node)? {
            return Ok(bound);
        }
        let arguments = self.plain_arguments(Some(list))?;
        if name == "grouping" {
            return self.bind_grouping_call(&arguments, node);
        }
        if let Some(within) = call.within_clause().filter(|_| !is_aggregate(&name)) {
            if is_window_function(&name) {
                return Err(self.unsupported(within.syntax(), "a hypothetical-set aggregate"));
            }
            let mut bound =
                arguments.iter().map(|argument| self.bind(argument)).collect::<Result<Vec<_>, _>>()?;
            for sort in self.bind_sort_list(within.order_by_clause())? {
                bound.push(self.bind(&sort.expression)?);
            }
            return Err(self.no_function(&name, &bound, node));
        }
        if call.over_clause().is_some() {
            return self.bind_window_call(&name, &arguments, call, node);
        }
        if is_aggregate(&name) {
            return self.bind_aggregate(&name, &arguments, call, node);
        }
        if let Some(filter) = call.filter_clause() {
            let message = format!("FILTER specified, but {name} is not an aggregate function");
            return Err(self.error(filter.syntax(), SqlError::new("42809", message)));
        }
        let bound: Vec<Typed> = match name.as_str() {
            "coalesce" => self.bind_alternatives(&arguments)?,
            _ => self.bind_arguments(&name, &arguments)?,
        };
        if let Some(result) = self.built_in(&name, bound.clone(), node)? {
            return Ok(result);
        }
        let mut function = self.schema.procedure(&name).cloned();
        if let Some(template) = function.clone().filter(|own| own.is_template) {
            function = Some(self.instance(&template, &bound, None, node)?);
        }
        match function {
            Some(function) if function.result.is_some() => {
                let arguments = self.inputs_by_position(&function, bound, node)?;
                self.lift_call(&function, arguments, node)
            }
            Some(function) if function.rows.is_some() => {
                let error = SqlError::new(
                    "0A000",
                    format!("{name} returns rows: a call of it outside FROM is not supported"),
                );
                Err(self.error(node, error.with_hint(format!("Use SELECT … FROM {name}(…)."))))
            }
            Some(function) if function.is_trigger => {
                let message = "trigger functions can only be called as triggers";
                Err(self.error(node, SqlError::new("0A000", message)))
            }
            _ => Err(self.no_function(&name, &bound, node)),
        }
    }

    /// Returns the arguments of a call without the placeholders of its results: leading parameters without a
    /// type, which JDBC sends for `{? = call …}`.
    pub(crate) fn without_results(&self, name: &str, arguments: Vec<ast::Expr>) -> Vec<ast::Expr> {
        let Some(procedure) = self.schema.procedure(name) else { return arguments };
        let surplus = arguments.len().saturating_sub(procedure.inputs().count());
        let is_untyped = |argument: &ast::Expr| {
            let text = argument.syntax().text().to_string();
            let position = text.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
            let position = position.and_then(|position| position.checked_sub(1));
            position.filter(|position| self.parameters.borrow().get(*position).is_some_and(Option::is_none))
        };
        let positions: Option<Vec<usize>> = arguments[..surplus].iter().map(is_untyped).collect();
        match positions {
            Some(positions) if surplus > 0 => {
                positions.into_iter().for_each(|position| {
                    self.parameter_as(position, ScalarType::Text.into());
                });
                arguments[surplus..].to_vec()
            }
            _ => arguments,
        }
    }

    /// Binds SUBSTRING(… FROM …), POSITION(… IN …), OVERLAY(… PLACING …) and TRIM(…); `None` for any other
    /// call.
    fn bind_keyword_call(&mut self, call: &ast::CallExpr) -> Result<Option<Typed>, StatementError> {
        let node = call.syntax();
        let (name, arguments): (&str, Vec<ast::Expr>) = if let Some(substring) = call.substring_fn()
            && let Some(ast::SubstringArgs::SubstringForFrom(form)) = substring.substring_args()
        {
            // FOR comes before FROM, which may be absent.
            let arguments = child_expressions(form.syntax());
            let mut bound =
                arguments.iter().map(|argument| self.bind(argument)).collect::<Result<Vec<_>, _>>()?;
            match bound.len() {
                3 => bound.swap(1, 2),
                _ => {
                    let first = Expression::Constant(catalog::Datum::Int(1));
                    bound.insert(1, Typed::Known(first, ScalarType::Integer.into()));
                }
            }
            return self.built_in("substring", bound, node);
        } else if let Some(substring) = call.substring_fn() {
            match substring.substring_args() {
                Some(
                    arguments @ (ast::SubstringArgs::SubstringExprs(_)
                    | ast::SubstringArgs::SubstringFromFor(_)),
                ) => ("substring", child_expressions(arguments.syntax())),
                _ => return Err(self.unsupported(node, "this form of SUBSTRING")),
            }
        } else if let Some(position) = call.position_fn() {
            let mut arguments = child_expressions(position.syntax());
            arguments.reverse();
            ("position", arguments)
        } else if let Some(object) = call.json_object_fn()
            && object.syntax().children().all(|child| ast::Expr::can_cast(child.kind()))
        {
            ("json_object", child_expressions(object.syntax()))
        } else if let Some(overlay) = call.overlay_fn() {
            let arguments = self.part(overlay.overlay_args(), node)?;
            ("overlay", child_expressions(arguments.syntax()))
        } else if let Some(trim) = call.trim_fn() {
            let name = match trim.trim_side().map(|side| side.syntax().text().to_string().to_lowercase()) {
                Some(side) if side == "leading" => "ltrim",
                Some(side) if side == "trailing" => "rtrim",
                _ => "btrim",
            };
            let mut arguments =
                trim.trim_args().map(|arguments| child_expressions(arguments.syntax())).unwrap_or_default();
            if arguments.len() == 2 {
                arguments.reverse();
            }
            (name, arguments)
        } else {
            return Ok(None);
        };
        let bound = arguments.iter().map(|argument| self.bind(argument)).collect::<Result<_, _>>()?;
        self.built_in(name, bound, node)
    }

    /// Lifts a call of a function of the schema: it becomes a statement before the current one, and its
    /// result a register.
    fn lift_call(
        &mut self,
        function: &Arc<Procedure>,
        arguments: Vec<Option<Typed>>,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        if self.queries.applied.is_some() {
            return self.apply_call(function, arguments, node);
        }
        if self.lifted.is_none() {
            let what = format!("a call of {} in this context", function.name);
            return Err(self.unsupported(node, &what));
        }
        let arguments = self.call_arguments(function, arguments, node)?;
        let Some((_, ty)) = function.result else {
            return Err(self.unsupported(node, "a procedure in an expression"));
        };
        let target = self.new_register(ty);
        self.note_result(function, target);
        self.note_call(function);
        let outputs = vec![(target, Cast::Same)];
        if let Some(lifted) = &mut self.lifted {
            lifted.push(Statement::Call { procedure: Arc::clone(function), arguments, outputs });
        }
        Ok(Typed::Known(Expression::Register(target), ty))
    }

    /// Binds a function call in a query: it is called for each row, before the expression is evaluated.
    fn apply_call(
        &mut self,
        function: &Arc<Procedure>,
        arguments: Vec<Option<Typed>>,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let arguments = self.call_arguments(function, arguments, node)?;
        let Some((_, ty)) = function.result else {
            return Err(self.unsupported(node, "a procedure in an expression"));
        };
        let target = self.new_register(ty);
        self.note_result(function, target);
        self.note_call(function);
        let procedure = Arc::clone(function);
        let applied = self.queries.applied.get_or_insert_default();
        applied.push(Applied::Call { procedure, arguments, target });
        Ok(Typed::Known(Expression::Register(target), ty))
    }

    /// Transfers the properties of a called procedure to its caller.
    pub(crate) fn note_call(&mut self, procedure: &Procedure) {
        self.callees.insert(procedure.name.clone());
        if !procedure.is_trigger {
            self.need_execute(&procedure.name);
        }
        self.uses_timestamp |= procedure.uses_timestamp;
        self.uses_seed |= procedure.uses_seed;
        self.writes |= !procedure.read_only;
        if procedure.by_value.is_some() {
            self.log_by_value(ByValueCause::Callee(procedure.name.clone()));
        }
        self.ends_transactions |= procedure.ends_transactions;
    }
}

fn child_expressions(node: &SyntaxNode) -> Vec<ast::Expr> {
    node.children().filter_map(ast::Expr::cast).collect()
}
