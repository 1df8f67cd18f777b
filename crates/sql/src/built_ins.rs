//! Calls of built-in functions: the choice of an entry of the table, and the expression that it makes.

use crate::advisory_functions::is_advisory;
use crate::binder::{Binder, Typed};
use crate::conversions::fold;
use crate::error::StatementError;
use crate::full_names::short;
use crate::resolution::{Resolved, element_of, resolve};
use crate::system::{is_absent, type_named};
use catalog::{Datum, ScalarType, Type};
use procedure::{
    ArithmeticOperator, BuiltIn, ByValueCause, CastContext, CompareClass, CompareOperator, Draw, Expression,
    Form, Function, Kind, Procedure, SqlError, built_ins_named,
};
use squawk_syntax::SyntaxNode;

/// PostgreSQL's hint if no candidate, or more than one, takes the arguments.
pub(crate) const ADD_CASTS: &str = "You might need to add explicit type casts.";

/// Returns whether an expression is a row that has become JSON. The record of a row that a trigger's event
/// lacks is NULL, and so is the row of a call that returns NULL.
fn is_row_as_json(expression: &Expression) -> bool {
    match expression {
        Expression::Function { function: Function::RowJson, .. } | Expression::Constant(Datum::Null) => true,
        Expression::Case { branches, .. } => branches.iter().all(|(_, row)| is_row_as_json(row)),
        _ => false,
    }
}

impl Binder<'_> {
    /// Binds a call of a built-in function; `None` if no function with the name has that many arguments.
    pub(crate) fn built_in(
        &mut self,
        name: &str,
        arguments: Vec<Typed>,
        node: &SyntaxNode,
    ) -> Result<Option<Typed>, StatementError> {
        if let Some(construct) = self.construct(name, &arguments, node)? {
            return Ok(Some(construct));
        }
        let entries = built_ins_named(name).iter().copied();
        let entries: Vec<&BuiltIn> = entries.filter(|entry| entry.takes(arguments.len())).collect();
        let Some(first) = entries.first() else { return self.cast_call(name, arguments, node) };
        match first.form {
            Form::Session => return self.session_function(name, &arguments, node).map(Some),
            Form::Sequence(function) => return self.sequence_function(function, arguments, node).map(Some),
            _ => {}
        }
        let entry = match self.chosen(name, &entries, &arguments, node) {
            Ok(chosen) => chosen,
            // A function of the schema with the same name may take the arguments.
            Err(_) if self.schema.procedure(name).is_some() => return Ok(None),
            Err(error) => return Err(error),
        };
        let number = if name == "format_type" { arguments.first().cloned() } else { None };
        let called = self.call_entry(entry, arguments, node)?;
        match number {
            Some(number) => self.format_type(number, called, node).map(Some),
            None => Ok(Some(called)),
        }
    }

    /// Binds a cast that is written as a call of the type, such as `int4(x)`; `None` for any other call.
    fn cast_call(
        &self,
        name: &str,
        mut arguments: Vec<Typed>,
        node: &SyntaxNode,
    ) -> Result<Option<Typed>, StatementError> {
        let Some(ty) = type_named(name).filter(|_| arguments.len() == 1) else { return Ok(None) };
        let value = self.coerce(arguments.remove(0), ty.into(), CastContext::Explicit, node)?;
        Ok(Some(Typed::Known(value, ty.into())))
    }

    /// Chooses among the entries by the types of the arguments.
    pub(crate) fn chosen<'e>(
        &self,
        name: &str,
        entries: &[&'e BuiltIn],
        arguments: &[Typed],
        node: &SyntaxNode,
    ) -> Result<&'e BuiltIn, StatementError> {
        let types: Vec<_> = arguments.iter().map(Typed::known_type).collect();
        match resolve(entries, &types) {
            Resolved::One(position) if is_undetermined(entries[position], &types) => {
                Err(self.undetermined(node))
            }
            Resolved::One(position) => Ok(entries[position]),
            Resolved::None if entries.iter().any(|entry| would_nest(entry, &types)) => {
                Err(self.unsupported(node, "an array of arrays"))
            }
            Resolved::None => Err(self.no_function(name, arguments, node)),
            Resolved::Several if entries.iter().all(|entry| is_undetermined(entry, &types)) => {
                Err(self.undetermined(node))
            }
            Resolved::Several => {
                let message = format!("function {} is not unique", signature(name, arguments));
                let hint = format!("Could not choose a best candidate function. {ADD_CASTS}");
                Err(self.error(node, SqlError::new("42725", message).with_hint(hint)))
            }
        }
    }

    fn undetermined(&self, node: &SyntaxNode) -> StatementError {
        let message = "could not determine polymorphic type because input has type unknown";
        self.error(node, SqlError::new("42804", message))
    }

    /// Returns a CHAR with the blanks at its end, which its stored form does not have.
    fn padded(
        &self,
        value: Expression,
        length: u32,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        if length == u32::MAX {
            return Ok(value);
        }
        let text = Typed::Known(value, ScalarType::Text.into());
        let length =
            Typed::Known(Expression::Constant(Datum::Int(length.into())), ScalarType::Integer.into());
        let entries: Vec<&BuiltIn> = built_ins_named("rpad").to_vec();
        let arguments = vec![text, length];
        let entry = self.chosen("rpad", &entries[..1], &arguments, node)?;
        match self.call_values(entry, entry.arguments, arguments, node)? {
            Typed::Known(padded, _) => Ok(padded),
            _ => unreachable!("a call has a type"),
        }
    }

    /// Returns the error of a call of a function that does not exist.
    pub(crate) fn no_function(&self, name: &str, arguments: &[Typed], node: &SyntaxNode) -> StatementError {
        if is_advisory(name) {
            return self.unsupported(node, &format!("{name} outside of SELECT {name}(…)"));
        }
        if is_absent(name, arguments.len()) {
            return self.unsupported(node, &format!("function {name}"));
        }
        self.no_function_of(&signature(name, arguments), node)
    }

    /// Returns the error of a call that no function takes. `shown` has the types of the arguments.
    pub(crate) fn no_function_of(&self, shown: &str, node: &SyntaxNode) -> StatementError {
        let message = format!("function {shown} does not exist");
        let hint = format!("No function matches the given name and argument types. {ADD_CASTS}");
        self.error(node, SqlError::new("42883", message).with_hint(hint))
    }

    /// Returns the error of a call whose arguments a routine of the schema does not take.
    pub(crate) fn no_routine(
        &self,
        routine: &Procedure,
        arguments: &[Typed],
        node: &SyntaxNode,
    ) -> StatementError {
        let shown = signature(short(&routine.name), arguments);
        if routine.is_function {
            return self.no_function_of(&shown, node);
        }
        self.no_procedure_of(&shown, node)
    }

    /// Returns the error of a CALL that no procedure takes. `shown` has the types of the arguments.
    pub(crate) fn no_procedure_of(&self, shown: &str, node: &SyntaxNode) -> StatementError {
        let message = format!("procedure {shown} does not exist");
        let hint = format!("No procedure matches the given name and argument types. {ADD_CASTS}");
        self.error(node, SqlError::new("42883", message).with_hint(hint))
    }

    /// Binds the constructs that are written like functions: COALESCE, NULLIF, GREATEST, LEAST.
    fn construct(
        &mut self,
        name: &str,
        arguments: &[Typed],
        node: &SyntaxNode,
    ) -> Result<Option<Typed>, StatementError> {
        Ok(Some(match (name, arguments) {
            ("satisfies_hash_partition", [_, _, _, _, ..]) => self.satisfies_hash(arguments, node)?,
            ("age", [moment]) => self.bind_age(moment.clone(), node)?,
            ("coalesce", [_, ..]) => {
                let (items, ty) = self.unify("COALESCE", arguments.to_vec(), node)?;
                Typed::Known(Expression::Coalesce(items), ty)
            }
            ("nullif", [value, other]) => {
                // The result has the type that the operator takes: operators of dates and timestamps take two
                // types.
                let is_time =
                    |ty: &Type| ty.scalar().is_some_and(|ty| ty == ScalarType::Date || ty.is_timestamp());
                let ty = match [value.known_type(), other.known_type()].map(|ty| ty.filter(is_time)) {
                    [Some(ty), Some(_)] => ty,
                    _ => self.compared_type(value, other, node)?,
                };
                let value = match value {
                    Typed::Known(_, known) if *known == ty => value.clone(),
                    _ => Typed::Known(self.coerce(value.clone(), ty, CastContext::Implicit, node)?, ty),
                };
                let Typed::Known(converted, _) = value.clone() else {
                    unreachable!("the value is converted")
                };
                let (class, operands) = self.comparable(value, other.clone(), node)?;
                let equal = Expression::Compare { operator: CompareOperator::Equal, class, operands };
                let branches = vec![(equal, Expression::NULL)];
                Typed::Known(Expression::Case { branches, otherwise: Box::new(converted) }, ty)
            }
            ("greatest" | "least", [_, ..]) => {
                let (items, ty) = self.unify(&name.to_uppercase(), arguments.to_vec(), node)?;
                let class = CompareClass::of_type(ty);
                let function =
                    if name == "greatest" { Function::Greatest(class) } else { Function::Least(class) };
                Typed::Known(fold(Expression::Function { function, arguments: items }), ty)
            }
            ("row_to_json", [json @ Typed::Known(row, ty)])
                if *ty == ScalarType::Json.into() && is_row_as_json(row) =>
            {
                json.clone()
            }
            _ => return Ok(None),
        }))
    }

    /// Makes the expression of an entry.
    fn call_entry(
        &mut self,
        entry: &'static BuiltIn,
        mut arguments: Vec<Typed>,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let name = entry.name;
        match entry.form {
            Form::Values(_) => {
                let kinds = (0..arguments.len()).filter_map(|position| entry.argument(position));
                self.call_values(entry, &kinds.collect::<Vec<_>>(), arguments, node)
            }
            Form::Live(function) => {
                self.log_by_value(ByValueCause::Moment);
                let kinds: Vec<_> = entry.arguments.to_vec();
                let (arguments, ty) = self.arguments_of_entry(entry, &kinds, arguments, node)?;
                let function = Function::Live(function);
                Ok(Typed::Known(Expression::Function { function, arguments }, ty))
            }
            Form::Now => Ok(self.now(ScalarType::Timestamptz)),
            Form::Draw(draw) => Ok(self.draw(draw)),
            Form::Operator(_) => {
                let right = arguments.pop().unwrap_or(Typed::Null);
                let left = arguments.pop().unwrap_or(Typed::Null);
                self.arithmetic(ArithmeticOperator::Remainder, left, right, node)
            }
            Form::Unrepeatable => {
                let message = format!(
                    "{name}() has a different value at every call, so recovery could not replay its callers"
                );
                let hint = "Use now(), which is logged with the call, or pass the value as an argument.";
                Err(self.error(node, SqlError::new("0A000", message).with_hint(hint)))
            }
            Form::Window(_) => {
                let message = format!("window function {name} requires an OVER clause");
                Err(self.error(node, SqlError::new("42809", message)))
            }
            Form::Rows(_) | Form::Elements(_) => {
                Err(self.unsupported(node, &format!("the rows of {name} in this context")))
            }
            _ => Err(self.unsupported(node, &format!("{name} in this context"))),
        }
    }

    /// Makes the expression of a function of its arguments. The kinds are those of the arguments.
    pub(crate) fn call_values(
        &self,
        entry: &'static BuiltIn,
        kinds: &[Kind],
        arguments: Vec<Typed>,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let (values, element) = self.converted_arguments(kinds, arguments, node)?;
        let function = Function::BuiltIn { built_in: entry, element };
        self.note_zone(function.depends_on_zone());
        let expression = fold(Expression::Function { function, arguments: values });
        Ok(Typed::Known(expression, type_of(entry.result, element).unwrap_or(ScalarType::Text.into())))
    }

    /// Converts arguments to the types that an entry takes. Returns them with the type of the result.
    pub(crate) fn arguments_of_entry(
        &self,
        entry: &BuiltIn,
        kinds: &[Kind],
        arguments: Vec<Typed>,
        node: &SyntaxNode,
    ) -> Result<(Vec<Expression>, Type), StatementError> {
        let (values, element) = self.converted_arguments(kinds, arguments, node)?;
        Ok((values, type_of(entry.result, element).unwrap_or(ScalarType::Text.into())))
    }

    /// Converts arguments. Returns them with the type for which polymorphic kinds stand.
    fn converted_arguments(
        &self,
        kinds: &[Kind],
        arguments: Vec<Typed>,
        node: &SyntaxNode,
    ) -> Result<(Vec<Expression>, ScalarType), StatementError> {
        let types: Vec<_> = arguments.iter().map(Typed::known_type).collect();
        let element = element_of(kinds, &types).unwrap_or(ScalarType::Text);
        let mut values = Vec::new();
        for (argument, kind) in arguments.into_iter().zip(kinds) {
            if let (Kind::BPCHAR, Typed::Known(value, Type::Scalar(ScalarType::Char(length)))) =
                (*kind, &argument)
            {
                values.push(self.padded(value.clone(), *length, node)?);
                continue;
            }
            let argument = match (*kind, argument) {
                (Kind::Relation, Typed::Literal(name)) => {
                    let number = self.object_number("regclass", &name, node)?;
                    Typed::Known(Expression::Constant(Datum::Int(number)), ScalarType::BigInt.into())
                }
                (_, argument) => argument,
            };
            values.push(match type_of(*kind, element) {
                Some(ty) => self.coerce(argument, ty, CastContext::Implicit, node)?,
                None if *kind == Kind::AnyNonArray => {
                    self.coerce(argument, ScalarType::Text.into(), CastContext::Explicit, node)?
                }
                None if *kind == Kind::AnyAsJson => self.as_json(argument, node)?,
                None => self.as_printed(argument, node)?,
            });
        }
        Ok((values, element))
    }

    /// Calls the built-in function of an operator or of another part of the grammar.
    pub(crate) fn call_built_in(
        &mut self,
        name: &str,
        arguments: Vec<Typed>,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let bound = self.built_in(name, arguments, node)?;
        self.part(bound, node)
    }

    /// Binds a random value.
    pub(crate) fn draw(&mut self, draw: Draw) -> Typed {
        self.uses_seed = true;
        self.uses_timestamp |= draw == Draw::RowIdentity;
        let ty = if draw == Draw::Random { ScalarType::Double } else { ScalarType::Uuid };
        let function = Function::Next(draw);
        Typed::Known(Expression::Function { function, arguments: Vec::new() }, ty.into())
    }

    /// Returns an array as text, in braces.
    pub(crate) fn printed_array(&self, array: Typed, node: &SyntaxNode) -> Result<Typed, StatementError> {
        let entry = self.part(built_ins_named("array_out").first().copied(), node)?;
        self.call_values(entry, entry.arguments, vec![array], node)
    }

    /// Returns a value as text, as the output of its type shows it. It differs from a cast for booleans.
    pub(crate) fn as_printed(&self, value: Typed, node: &SyntaxNode) -> Result<Expression, StatementError> {
        match value {
            Typed::Known(value, Type::Scalar(ScalarType::Boolean)) => {
                let is_false = Expression::Not(Box::new(value.clone()));
                let branches = vec![(value, Expression::text("t")), (is_false, Expression::text("f"))];
                Ok(fold(Expression::Case { branches, otherwise: Box::new(Expression::NULL) }))
            }
            Typed::Known(value, Type::Scalar(ScalarType::Char(length))) => self.padded(value, length, node),
            other => self.coerce(other, ScalarType::Text.into(), CastContext::Explicit, node),
        }
    }
}

/// Returns whether no argument says which type the polymorphic types of an entry stand for.
fn is_undetermined(entry: &BuiltIn, types: &[Option<Type>]) -> bool {
    let is_polymorphic = |(position, _): &(usize, &Option<Type>)| {
        matches!(entry.argument(*position), Some(Kind::AnyElement | Kind::AnyArray | Kind::AnyEnum))
    };
    let mut polymorphic = types.iter().enumerate().filter(is_polymorphic).map(|(_, ty)| ty).peekable();
    polymorphic.peek().is_some() && polymorphic.all(Option::is_none)
}

/// Returns whether an entry would make an array of arrays of these arguments.
fn would_nest(entry: &BuiltIn, types: &[Option<Type>]) -> bool {
    let kinds = types.iter().enumerate().map(|(position, ty)| (entry.argument(position), ty));
    kinds
        .into_iter()
        .any(|pair| matches!(pair, (Some(Kind::AnyElement | Kind::AnyCompatible), Some(Type::Array(_)))))
}

/// Returns the type of an argument or result; `None` for a value of any type, which is printed.
fn type_of(kind: Kind, element: ScalarType) -> Option<Type> {
    Some(match kind {
        Kind::Of(ty) => ty,
        Kind::AnyElement | Kind::AnyCompatible | Kind::AnyEnum => element.into(),
        Kind::AnyArray | Kind::AnyCompatibleArray => Type::Array(element),
        Kind::Oid | Kind::Relation => ScalarType::Oid.into(),
        Kind::Any | Kind::AnyAsJson | Kind::AnyNonArray | Kind::Record | Kind::Void => return None,
    })
}

/// Returns a call as error messages show it: with the types of its arguments.
fn signature(name: &str, arguments: &[Typed]) -> String {
    let types: Vec<String> = arguments.iter().map(Typed::shown_type).collect();
    format!("{name}({})", types.join(", "))
}
