//! Arguments of procedures and functions of the schema: by position, by name, or omitted if there is a
//! default.

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use crate::full_names::short;
use catalog::Type;
use procedure::{BuiltIn, CastContext, Expression, Parameter, Procedure, SqlError, built_ins_named};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::collections::BTreeSet;

/// Returns whether an argument becomes a value of a type by an implicit conversion.
pub(crate) fn fits(argument: &Typed, ty: Type) -> bool {
    argument.known_type().is_none_or(|from| CastContext::Implicit.allows_type(from, ty))
}

/// Returns whether a routine takes arguments as its input parameters.
pub(crate) fn takes_inputs(procedure: &Procedure, arguments: &[Option<Typed>]) -> bool {
    let takes = |(parameter, argument): (&Parameter, &Option<Typed>)| match argument {
        Some(argument) => fits(argument, parameter.ty),
        None => parameter.has_default(),
    };
    procedure.inputs().map(|(_, parameter)| parameter).zip(arguments).all(takes)
}

impl Binder<'_> {
    /// Returns the arguments of a built-in function; refuses arguments by name.
    pub(crate) fn plain_arguments(
        &self,
        list: Option<ast::ArgList>,
    ) -> Result<Vec<ast::Expr>, StatementError> {
        let mut plain = Vec::new();
        for argument in list.into_iter().flat_map(|list| list.args()) {
            if argument.variadic_token().is_some() {
                return Err(self.unsupported(argument.syntax(), "VARIADIC for this function"));
            }
            match argument.func_arg_expr() {
                Some(ast::FuncArgExpr::Expr(expression)) => plain.push(expression),
                Some(ast::FuncArgExpr::NamedArg(named)) => {
                    return Err(self.unsupported(named.syntax(), "an argument by name for this function"));
                }
                None => {}
            }
        }
        Ok(plain)
    }

    /// Binds a call of a built-in function whose last argument is `VARIADIC array`; `None` for any other
    /// call.
    pub(crate) fn bind_variadic_call(
        &mut self,
        name: &str,
        list: &ast::ArgList,
        node: &SyntaxNode,
    ) -> Result<Option<Typed>, StatementError> {
        if !list.args().any(|argument| argument.variadic_token().is_some()) {
            return Ok(None);
        }
        let mut arguments: Vec<ast::Expr> = list.args().filter_map(|argument| argument.expr()).collect();
        let entries = built_ins_named(name);
        let is_for_variadic =
            |entry: &&BuiltIn| entry.is_for_variadic && entry.arguments.len() == arguments.len();
        let by_array: Vec<&BuiltIn> = entries.iter().copied().filter(is_for_variadic).collect();
        if !by_array.is_empty() || !entries.iter().any(|entry| entry.is_variadic) {
            let bound = arguments.iter().map(|own| self.bind(own)).collect::<Result<Vec<_>, _>>()?;
            let entry = self.chosen(name, &by_array, &bound, node)?;
            return self.call_values(entry, entry.arguments, bound, node).map(Some);
        }
        match arguments.pop() {
            Some(ast::Expr::ArrayExpr(array)) if array.select_variant().is_none() => {
                arguments.extend(array.exprs());
                let bound = self.bind_arguments(name, &arguments)?;
                self.built_in(name, bound, node)
            }
            _ => Err(self.unsupported(node, "VARIADIC with an array that is not written as ARRAY[…]")),
        }
    }

    /// Refuses an argument by position behind one by name, two by the same name, and one behind VARIADIC, as
    /// PostgreSQL's parser does.
    ///
    /// # Errors
    /// `42601`: there is such an argument.
    pub(crate) fn check_argument_names(&self, list: Option<&ast::ArgList>) -> Result<(), StatementError> {
        let (mut names, mut has_array) = (BTreeSet::new(), false);
        for argument in list.iter().flat_map(|list| list.args()) {
            if has_array {
                return Err(self.syntax(argument.syntax(), "an argument follows a VARIADIC argument"));
            }
            has_array = argument.variadic_token().is_some();
            match argument.func_arg_expr() {
                Some(ast::FuncArgExpr::NamedArg(named)) => {
                    let name = self.part(named.name(), argument.syntax())?;
                    let name = ast::normalize_name_node(name.syntax());
                    if names.contains(&name) {
                        let message = format!("argument name \"{name}\" used more than once");
                        return Err(self.error(argument.syntax(), SqlError::new("42601", message)));
                    }
                    names.insert(name);
                }
                Some(ast::FuncArgExpr::Expr(_)) if !names.is_empty() => {
                    let message = "positional argument cannot follow named argument";
                    return Err(self.syntax(argument.syntax(), message));
                }
                Some(ast::FuncArgExpr::Expr(_)) | None => {}
            }
        }
        Ok(())
    }

    /// Returns the arguments of a call in the order of the parameters; `None` for an omitted argument.
    pub(crate) fn placed_arguments(
        &self,
        procedure: &Procedure,
        parameters: &[&Parameter],
        list: Option<ast::ArgList>,
        node: &SyntaxNode,
    ) -> Result<Vec<Option<ast::Expr>>, StatementError> {
        self.check_argument_names(list.as_ref())?;
        let mut placed: Vec<Option<ast::Expr>> = vec![None; parameters.len()];
        let mut next = 0;
        for argument in list.into_iter().flat_map(|list| list.args()) {
            let argument_node = argument.syntax();
            let (position, expression) = match self.part(argument.func_arg_expr(), argument_node)? {
                ast::FuncArgExpr::Expr(expression) => {
                    next += 1;
                    (next - 1, expression)
                }
                ast::FuncArgExpr::NamedArg(named) => {
                    let name = self.part(named.name(), argument_node)?;
                    let name = ast::normalize_name_node(name.syntax());
                    let Some(position) = parameters.iter().position(|parameter| parameter.name == name)
                    else {
                        let message = format!("{} has no parameter \"{name}\"", procedure.name);
                        return Err(self.error(argument_node, SqlError::new("42883", message)));
                    };
                    (position, self.part(named.expr(), argument_node)?)
                }
            };
            match placed.get_mut(position) {
                Some(free @ None) => *free = Some(expression),
                Some(Some(_)) => {
                    let message = format!("parameter \"{}\" has two arguments", parameters[position].name);
                    return Err(self.error(argument_node, SqlError::new("42883", message)));
                }
                None => {
                    let message =
                        format!("\"{}\" takes {} arguments, not {next}", procedure.name, parameters.len());
                    return Err(self.error(node, SqlError::new("42883", message)));
                }
            }
        }
        Ok(placed)
    }

    /// Binds the arguments of a function of the schema.
    pub(crate) fn function_arguments(
        &mut self,
        procedure: &Procedure,
        list: Option<ast::ArgList>,
        node: &SyntaxNode,
    ) -> Result<Vec<Option<Typed>>, StatementError> {
        let inputs: Vec<_> = procedure.inputs().map(|(_, parameter)| parameter).collect();
        self.placed_values(procedure, &inputs, list, node)
    }

    /// Binds the arguments for parameters of a routine. The arguments of OUT parameters are not evaluated.
    pub(crate) fn placed_values(
        &mut self,
        procedure: &Procedure,
        parameters: &[&Parameter],
        list: Option<ast::ArgList>,
        node: &SyntaxNode,
    ) -> Result<Vec<Option<Typed>>, StatementError> {
        if list.as_ref().is_some_and(|list| list.star_token().is_some()) {
            let name = short(&procedure.name);
            let message = format!("{name}(*) specified, but {name} is not an aggregate function");
            return Err(self.error(node, SqlError::new("42809", message)));
        }
        let has_array = list.iter().flat_map(ast::ArgList::args).any(|own| own.variadic_token().is_some());
        let is_named = |own: &ast::Arg| matches!(own.func_arg_expr(), Some(ast::FuncArgExpr::NamedArg(_)));
        if !has_array && !list.iter().flat_map(|own| own.args()).any(|own| is_named(&own)) {
            let written = self.plain_arguments(list)?;
            let mut bound = Vec::new();
            for (position, own) in written.iter().enumerate() {
                bound.push(self.bind_argument(parameters.get(position).copied(), own)?);
            }
            return self.by_position(procedure, parameters, bound, node);
        }
        if has_array && !procedure.is_variadic() {
            return Err(self.no_function(&procedure.name, &[], node));
        }
        if !has_array && procedure.is_variadic() {
            let shown = self.shown_call(&procedure.name, list, node)?;
            return Err(match procedure.is_function {
                true => self.no_function_of(&shown, node),
                false => self.no_procedure_of(&shown, node),
            });
        }
        let placed = self.placed_arguments(procedure, parameters, list, node)?;
        let bind = |(own, parameter): (Option<ast::Expr>, &&Parameter)| {
            own.map(|own| self.bind_argument(Some(parameter), &own)).transpose()
        };
        placed.into_iter().zip(parameters).map(bind).collect()
    }

    /// Binds an argument. The calls and subqueries in that of an OUT parameter do not run.
    fn bind_argument(
        &mut self,
        parameter: Option<&Parameter>,
        argument: &ast::Expr,
    ) -> Result<Typed, StatementError> {
        if parameter.is_none_or(Parameter::is_input) {
            return self.bind(argument);
        }
        let lifted = self.lifted.replace(Vec::new());
        let bound = self.bind(argument);
        self.lifted = lifted;
        bound
    }

    /// Returns a call as an error shows it: the name of the routine, with the names and types of arguments.
    pub(crate) fn shown_call(
        &mut self,
        name: &str,
        list: Option<ast::ArgList>,
        node: &SyntaxNode,
    ) -> Result<String, StatementError> {
        let mut shown = Vec::new();
        for argument in list.into_iter().flat_map(|list| list.args()) {
            let (label, expression) = match argument.func_arg_expr() {
                Some(ast::FuncArgExpr::NamedArg(named)) => {
                    let name = self.part(named.name(), node)?;
                    (format!("{} => ", ast::normalize_name_node(name.syntax())), named.expr())
                }
                Some(ast::FuncArgExpr::Expr(expression)) => (String::new(), Some(expression)),
                None => continue,
            };
            let bound = self.bind(&self.part(expression, node)?)?;
            shown.push(format!("{label}{}", bound.shown_type()));
        }
        Ok(format!("{}({})", short(name), shown.join(", ")))
    }

    /// Assigns bound arguments to the input parameters by position.
    pub(crate) fn inputs_by_position(
        &self,
        procedure: &Procedure,
        arguments: Vec<Typed>,
        node: &SyntaxNode,
    ) -> Result<Vec<Option<Typed>>, StatementError> {
        let inputs: Vec<_> = procedure.inputs().map(|(_, parameter)| parameter).collect();
        self.by_position(procedure, &inputs, arguments, node)
    }

    /// Assigns bound arguments to parameters by position.
    pub(crate) fn by_position(
        &self,
        procedure: &Procedure,
        parameters: &[&Parameter],
        mut arguments: Vec<Typed>,
        node: &SyntaxNode,
    ) -> Result<Vec<Option<Typed>>, StatementError> {
        let count = parameters.len();
        if procedure.is_variadic()
            && arguments.len() >= count
            && let Some(last) = parameters.last()
        {
            let element = Type::Scalar(last.ty.element());
            if !arguments[count - 1..].iter().all(|own| fits(own, element)) {
                return Err(self.no_routine(procedure, &arguments, node));
            }
            let elements = arguments.split_off(count - 1).into_iter();
            let elements = elements.map(|own| self.coerce(own, element, CastContext::Implicit, node));
            let array = Expression::Array(elements.collect::<Result<_, _>>()?);
            arguments.push(Typed::Known(array, last.ty));
        }
        if arguments.len() > count {
            return Err(self.no_routine(procedure, &arguments, node));
        }
        let mut placed: Vec<_> = arguments.into_iter().map(Some).collect();
        placed.resize(count, None);
        Ok(placed)
    }

    /// Returns the values of the input parameters, with defaults for omitted arguments.
    pub(crate) fn call_arguments(
        &mut self,
        procedure: &Procedure,
        arguments: Vec<Option<Typed>>,
        node: &SyntaxNode,
    ) -> Result<Vec<Expression>, StatementError> {
        if !takes_inputs(procedure, &arguments) {
            let given: Vec<_> = arguments.into_iter().flatten().collect();
            return Err(self.no_routine(procedure, &given, node));
        }
        let mut bound = Vec::new();
        for ((_, parameter), argument) in procedure.inputs().zip(arguments) {
            let argument = match (argument, &parameter.computed, &parameter.default) {
                (Some(argument), ..) => argument,
                (None, None, Some(default)) if *default != catalog::Value::Null => {
                    Typed::Literal(default.to_string())
                }
                (None, None, _) => Typed::Null,
                (None, Some(computed), _) => {
                    bound.push(self.bind_default_text(Some(computed), parameter.ty, node)?);
                    continue;
                }
            };
            bound.push(self.coerce(argument, parameter.ty, CastContext::Implicit, node)?);
        }
        Ok(bound)
    }
}
