//! Conversions of values: of literals to the type that the context wants, of known values by the casts that
//! the context allows, of branches to a common type.

use crate::binder::{Binder, Body, Typed};
use crate::error::StatementError;
use crate::resolution::wider;
use crate::types::is_assignable;
use catalog::{
    Arena, Column, Datum, ScalarType, SessionZone, Type, Value, ValueError, array_elements, datum_from_value,
};
use procedure::{Cast, CastContext, Expression, Function, Machine, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

/// Maximum memory for the evaluation of a constant expression, in bytes.
const LARGEST_FOLDED: usize = 1 << 20;

/// Returns whether a function, an operator or a cast has a NULL, so that it is NULL whatever its further
/// operands are. As in PostgreSQL, they are not evaluated then, unless they are constants.
fn is_null_by_argument(expression: &Expression) -> bool {
    let arguments: &[Expression] = match expression {
        Expression::Function { function, arguments } if !function.is_applied_to_null(arguments.len()) => {
            arguments
        }
        Expression::Arithmetic { operands, .. } | Expression::Compare { operands, .. } => &operands[..],
        Expression::Cast { operand, .. } => std::slice::from_ref(operand),
        _ => return false,
    };
    let is_value = |argument: &Expression| {
        matches!(argument, Expression::Constant(_) | Expression::Bytes(_) | Expression::Numeric(_))
            || !argument.is_constant()
    };
    arguments.contains(&Expression::NULL) && arguments.iter().all(is_value)
}

/// Replaces a constant expression by its value. It stays if its evaluation fails.
pub(crate) fn fold(expression: Expression) -> Expression {
    if is_null_by_argument(&expression) {
        return Expression::NULL;
    }
    if matches!(expression, Expression::Constant(_) | Expression::Bytes(_) | Expression::Numeric(_))
        || !expression.is_constant()
    {
        return expression;
    }
    let mut machine = Machine::default();
    // A longer value is computed at run time, in the memory of the statement.
    machine.limit_memory(None, LARGEST_FOLDED);
    machine.reset(0, 0);
    match expression.evaluate(&mut machine) {
        Ok(datum) => constant(datum, &machine.frame.arena).unwrap_or(expression),
        Err(_) => expression,
    }
}

fn constant(datum: Datum, arena: &Arena) -> Option<Expression> {
    Some(match datum {
        Datum::Null | Datum::Int(_) | Datum::Double(_) => Expression::Constant(datum),
        Datum::Bytes(span) => Expression::Bytes(arena.bytes(span).into()),
        Datum::Wide(_) => Expression::Numeric(arena.numeric(datum, 0)?),
        Datum::Array(_) => return None,
    })
}

impl Binder<'_> {
    /// Gives a literal the type that the context wants; `other` is the type on the other side of an operator.
    pub(crate) fn settle(
        &self,
        typed: Typed,
        other: Option<Type>,
        node: &SyntaxNode,
    ) -> Result<(Expression, Type), StatementError> {
        match typed {
            Typed::Known(expression, ty) => Ok((expression, ty)),
            Typed::Parameter(position) => {
                let ty = other.unwrap_or(ScalarType::Text.into());
                match self.parameter_as(position, ty) {
                    Typed::Known(expression, ty) => Ok((expression, ty)),
                    _ => unreachable!("a parameter with a type is known"),
                }
            }
            literal => {
                let ty = match other {
                    // A literal that is compared with a text of limited length is not cut to that length.
                    Some(Type::Scalar(scalar)) if scalar.is_text() => match scalar {
                        ScalarType::Char(_) => ScalarType::Char(u32::MAX).into(),
                        _ => ScalarType::Text.into(),
                    },
                    // A literal that is compared with a decimal or a timestamp keeps its digits.
                    Some(Type::Scalar(scalar)) if scalar.is_numeric() => ScalarType::AnyNumeric.into(),
                    Some(Type::Scalar(scalar)) if scalar.is_timestamp() => scalar.unlimited().into(),
                    Some(ty @ Type::Array(_)) => ty.base(),
                    Some(ty) => ty,
                    None => ScalarType::Text.into(),
                };
                Ok((self.coerce(literal, ty, CastContext::Implicit, node)?, ty))
            }
        }
    }

    /// Converts a value to a type, by the casts that the context allows.
    pub(crate) fn coerce(
        &self,
        typed: Typed,
        to: Type,
        context: CastContext,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        match typed {
            Typed::Null => Ok(Expression::NULL),
            Typed::Parameter(position) => self.coerce(self.parameter_as(position, to), to, context, node),
            Typed::Literal(text) => match (self.literal(&text, to, context, node)?, to) {
                (Ok(value), _) => Ok(value),
                // In a routine the error is raised when the statement runs, because a handler may catch it.
                (Err(_), Type::Scalar(to)) if matches!(self.body, Some(Body::Plpgsql(_))) => {
                    let operand = Box::new(Expression::text(&text));
                    Ok(Expression::Cast { cast: Cast::FromText(to), operand })
                }
                (Err(_), Type::Array(element)) if matches!(self.body, Some(Body::Plpgsql(_))) => {
                    Ok(read_array(Expression::text(&text), element))
                }
                (Err(error), _) => {
                    let place = self.literal_in(node, &text);
                    Err(self.error(place.as_ref().unwrap_or(node), error.into()))
                }
            },
            Typed::Known(array, from @ Type::Array(_))
                if to.scalar().is_some_and(ScalarType::is_text) && context > CastContext::Implicit =>
            {
                let printed = self.printed_array(Typed::Known(array, from), node)?;
                self.coerce(printed, to, context, node)
            }
            Typed::Known(text, Type::Scalar(from))
                if from.is_text() && to.is_array() && context >= CastContext::Explicit =>
            {
                let (read, element) = (to.base(), to.element());
                let array = read_array(text, read.element());
                match element == element.base() {
                    true => Ok(fold(array)),
                    false => self.coerce(Typed::Known(array, read), to, context, node),
                }
            }
            Typed::Known(expression, from) => {
                let casts = match (from, to) {
                    (Type::Scalar(from), Type::Scalar(to)) | (Type::Array(from), Type::Array(to)) => {
                        context.casts(from, to)
                    }
                    _ => None,
                };
                let is_array = matches!(to, Type::Array(_));
                let cast = |expression, cast| match (cast, is_array) {
                    (Cast::Same, _) => expression,
                    (cast, false) => fold(Expression::Cast { cast, operand: Box::new(expression) }),
                    (cast, true) => {
                        let function = Function::CastElements(cast);
                        Expression::Function { function, arguments: vec![expression] }
                    }
                };
                let casts = casts.ok_or_else(|| self.no_cast(from, to, context, node))?;
                self.note_zone(casts.iter().flatten().any(|cast| cast.depends_on_zone()));
                Ok(casts.into_iter().flatten().fold(expression, cast))
            }
        }
    }

    /// Returns a literal as a value of a type, in the zone of the statement.
    fn literal(
        &self,
        text: &str,
        to: Type,
        context: CastContext,
        node: &SyntaxNode,
    ) -> Result<Result<Expression, ValueError>, StatementError> {
        if let Some(read) = self.literal_of_routine(text, to, context) {
            return Ok(Ok(read));
        }
        let zone = self.zone_of_literal(text, to, node)?;
        Ok(literal_as(text.to_owned(), to, context, zone))
    }

    /// Returns the place of a literal within a node; `None` if no literal there, or several, have the text.
    fn literal_in(&self, node: &SyntaxNode, text: &str) -> Option<SyntaxNode> {
        let is_it = |own: &ast::Literal| matches!(self.string_of(own), Ok(Some(own)) if own == text);
        let mut places = node.descendants().filter_map(ast::Literal::cast).filter(is_it);
        let first = places.next()?;
        places.next().is_none().then(|| first.syntax().clone())
    }

    /// Converts a value that is assigned to a column.
    pub(crate) fn coerce_to_column(
        &self,
        typed: Typed,
        column: &Column,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        let from = typed.known_type();
        if let Some(from) = from
            && !is_assignable(from, column.ty)
        {
            let found = typed.shown_type();
            let message = format!(
                "column \"{}\" is of type {} but expression is of type {found}",
                column.name,
                column.ty.base()
            );
            let hint = "You will need to rewrite or cast the expression.";
            return Err(self.error(node, SqlError::new("42804", message).with_hint(hint)));
        }
        self.coerce(typed, column.ty, CastContext::Assignment, node)
    }

    /// Converts a default to the type of its column. As in PostgreSQL, the limits of the type are checked
    /// when the default is used.
    pub(crate) fn coerce_default(
        &self,
        typed: Typed,
        to: Type,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        let base = to.base();
        let typed = match typed {
            Typed::Literal(_) if base != to => {
                let read = self.coerce(typed, base, CastContext::Assignment, node)?;
                Typed::Known(read, base)
            }
            typed => typed,
        };
        self.coerce(typed, to, CastContext::Assignment, node)
    }

    fn no_cast(&self, from: Type, to: Type, context: CastContext, node: &SyntaxNode) -> StatementError {
        let [from, to] = [from, to].map(|ty| Typed::Known(Expression::NULL, ty).shown_type());
        let error = match context {
            CastContext::Explicit => SqlError::new("42846", format!("cannot cast type {from} to {to}")),
            _ => SqlError::new("42804", format!("cannot convert type {from} to {to}"))
                .with_hint("You will need to rewrite or cast the expression."),
        };
        self.error(node, error)
    }

    /// Converts the branches of a construct, such as CASE, to a common type.
    pub(crate) fn unify(
        &self,
        construct: &str,
        items: Vec<Typed>,
        node: &SyntaxNode,
    ) -> Result<(Vec<Expression>, Type), StatementError> {
        let mut common: Option<Type> = None;
        for ty in items.iter().filter_map(Typed::known_type) {
            let wider = match (common, ty) {
                (None, ty) => Some(ty),
                (Some(Type::Scalar(a)), Type::Scalar(b)) => wider(a, b).map(Type::Scalar),
                (Some(Type::Array(a)), Type::Array(b)) if a.base() == b.base() => Some(Type::Array(a)),
                _ => None,
            };
            let shown = |ty: Type| Typed::Known(Expression::NULL, ty).shown_type();
            common = Some(wider.ok_or_else(|| {
                let (first, ty) = (common.map(shown).unwrap_or_default(), shown(ty));
                let message = format!("{construct} types {first} and {ty} cannot be matched");
                self.error(node, SqlError::new("42804", message))
            })?);
        }
        // A literal is not cut or rounded to the length or scale of another branch.
        let is_open = |item: &Typed| matches!(item, Typed::Literal(_) | Typed::Parameter(_));
        let ty = match common.unwrap_or(ScalarType::Text.into()) {
            Type::Scalar(ty) if items.iter().any(is_open) => Type::Scalar(ty.base()),
            ty => ty,
        };
        let items = items.into_iter().map(|item| self.coerce(item, ty, CastContext::Implicit, node));
        Ok((items.collect::<Result<_, _>>()?, ty))
    }
}

fn read_array(text: Expression, element: ScalarType) -> Expression {
    Expression::Function { function: Function::ReadArray(element), arguments: vec![text] }
}

/// Returns a literal as a constant of a type, read in a zone; `None` is UTC.
fn literal_as(
    text: String,
    to: Type,
    context: CastContext,
    zone: Option<&Arc<SessionZone>>,
) -> Result<Expression, ValueError> {
    let value = match (to, context) {
        // An explicit cast cuts a text that is too long.
        (Type::Array(ScalarType::Varchar(n) | ScalarType::Char(n)), CastContext::Explicit) => {
            let cut = |text: String| Value::Text(text.chars().take(n as usize).collect());
            let elements = array_elements(&text)?;
            Value::Array(elements.into_iter().map(|element| element.map_or(Value::Null, cut)).collect())
        }
        (Type::Array(_), _) => array_literal(&text)?,
        (Type::Scalar(ScalarType::Varchar(n) | ScalarType::Char(n)), CastContext::Explicit) => {
            Value::Text(text.chars().take(n as usize).collect())
        }
        _ => Value::Text(text),
    };
    let mut arena = Arena::default();
    arena.set_zone(zone.cloned());
    let datum = datum_from_value(&value, to, &mut arena)?;
    let constant = |datum| constant(datum, &arena).unwrap_or(Expression::NULL);
    Ok(match datum {
        Datum::Array(span) => Expression::Array(arena.elements(span).iter().copied().map(constant).collect()),
        datum => constant(datum),
    })
}

/// Reads `{1,2,NULL}` as an array of texts, which are converted to the element type later.
fn array_literal(text: &str) -> Result<Value, ValueError> {
    let elements = array_elements(text)?;
    Ok(Value::Array(elements.into_iter().map(|element| element.map_or(Value::Null, Value::Text)).collect()))
}
