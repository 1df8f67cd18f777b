//! Functions and operators of timestamps, dates and intervals. There are no interval values: an interval can
//! only be added to a timestamp or subtracted from one.

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use catalog::{ScalarType, Type};
use procedure::{CastContext, Expression, Function, Interval, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// An interval literal, and the factor of its multiplication.
pub(crate) struct WrittenInterval {
    interval: Interval,
    times: Option<ast::Expr>,
}

fn time(function: Function, arguments: Vec<Expression>, ty: ScalarType) -> Typed {
    Typed::Known(crate::conversions::fold(Expression::Function { function, arguments }), ty.into())
}

fn is_time(ty: Type) -> bool {
    matches!(ty, Type::Scalar(ty) if ty.is_timestamp() || ty == ScalarType::Date)
}

impl Binder<'_> {
    /// Returns the interval that an expression denotes: `INTERVAL '…'`, `'…'::interval`, or one of these
    /// times an integer. `None` for any other expression.
    pub(crate) fn written_interval(
        &self,
        expression: &ast::Expr,
    ) -> Result<Option<WrittenInterval>, StatementError> {
        match expression {
            ast::Expr::ParenExpr(paren) => match paren.expr() {
                Some(inner) => self.written_interval(&inner),
                None => Ok(None),
            },
            ast::Expr::BinExpr(binary) if matches!(binary.op(), Some(ast::BinOp::Star(_))) => {
                let (Some(left), Some(right)) = (binary.lhs(), binary.rhs()) else { return Ok(None) };
                for (one, other) in [(&left, &right), (&right, &left)] {
                    if let Some(own) = self.written_interval(one)?.filter(|own| own.times.is_none()) {
                        return Ok(Some(WrittenInterval { times: Some(other.clone()), ..own }));
                    }
                }
                Ok(None)
            }
            ast::Expr::CastExpr(cast) => {
                let ty = cast.ty().map(|ty| ty.syntax().text().to_string().to_lowercase());
                if ty.is_none_or(|ty| ty != "interval") {
                    return Ok(None);
                }
                let literal = match (cast.literal(), cast.expr()) {
                    (Some(literal), _) | (None, Some(ast::Expr::Literal(literal))) => literal,
                    _ => return Err(self.unsupported(cast.syntax(), "an interval that is not a literal")),
                };
                let Typed::Literal(text) = self.bind_literal(&literal)? else {
                    return Err(self.unsupported(cast.syntax(), "an interval that is not a literal"));
                };
                let interval = Interval::parse(&text).map_err(|error| self.error(cast.syntax(), error))?;
                Ok(Some(WrittenInterval { interval, times: None }))
            }
            _ => Ok(None),
        }
    }

    /// Binds a timestamp or date plus or minus an interval. As in PostgreSQL, the result is a timestamp.
    pub(crate) fn shifted(
        &mut self,
        base: &ast::Expr,
        by: WrittenInterval,
        is_earlier: bool,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let typed = self.bind(base)?;
        let (value, ty) = self.settle(typed, Some(ScalarType::Timestamptz.into()), base.syntax())?;
        let (value, ty) = self.shiftable(value, ty, node)?;
        let interval = self.signed(by.interval, is_earlier, node)?;
        let mut arguments = vec![value];
        if let Some(times) = by.times {
            arguments.push(self.bind_as(&times, ScalarType::BigInt, CastContext::Assignment)?);
        }
        Ok(time(Function::Later(interval), arguments, ty))
    }

    /// Returns a timestamp or date plus or minus an interval.
    pub(crate) fn shifted_value(
        &self,
        base: Typed,
        by: Interval,
        is_earlier: bool,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let (value, ty) = self.settle(base, Some(ScalarType::Timestamptz.into()), node)?;
        let (value, ty) = self.shiftable(value, ty, node)?;
        Ok(time(Function::Later(self.signed(by, is_earlier, node)?), vec![value], ty))
    }

    /// Returns the interval of a RANGE: written as an interval, or as a text alone.
    pub(crate) fn interval_offset(&self, expression: &ast::Expr) -> Result<Option<Interval>, StatementError> {
        if let ast::Expr::Literal(literal) = expression
            && let Typed::Literal(text) = self.bind_literal(literal)?
        {
            let interval = Interval::parse(&text).map_err(|error| self.error(literal.syntax(), error))?;
            return Ok(Some(interval));
        }
        let written = self.written_interval(expression)?;
        Ok(written.filter(|own| own.times.is_none()).map(|own| own.interval))
    }

    fn signed(
        &self,
        interval: Interval,
        is_negative: bool,
        node: &SyntaxNode,
    ) -> Result<Interval, StatementError> {
        let out_of_range = || self.error(node, SqlError::new("22008", "interval out of range"));
        if is_negative { interval.negated().ok_or_else(out_of_range) } else { Ok(interval) }
    }

    /// Returns a value to which an interval can be added.
    fn shiftable(
        &self,
        value: Expression,
        ty: Type,
        node: &SyntaxNode,
    ) -> Result<(Expression, ScalarType), StatementError> {
        Ok(match ty {
            Type::Scalar(ScalarType::Date) => (
                self.coerce(
                    Typed::Known(value, ty),
                    ScalarType::Timestamp.into(),
                    CastContext::Explicit,
                    node,
                )?,
                ScalarType::Timestamp,
            ),
            Type::Scalar(ty) if ty.is_timestamp() => (value, ty.unlimited()),
            _ => {
                let message = format!("an interval cannot be added to a value of type {ty}");
                return Err(self.error(node, SqlError::new("42883", message)));
            }
        })
    }

    /// Binds `timestamp AT TIME ZONE 'UTC'`; UTC is the only supported zone.
    pub(crate) fn in_zone(
        &mut self,
        time: &ast::Expr,
        zone: &ast::Expr,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let Typed::Literal(zone) = self.bind(zone)? else {
            return Err(self.unsupported(node, "a time zone that is not a literal"));
        };
        if !matches!(
            zone.to_lowercase().as_str(),
            "utc" | "gmt" | "z" | "zulu" | "etc/utc" | "etc/gmt" | "uct"
        ) {
            return Err(self.unsupported(node, "a time zone other than UTC"));
        }
        let typed = self.bind(time)?;
        let (value, ty) = self.settle(typed, Some(ScalarType::Timestamptz.into()), time.syntax())?;
        let value = self.as_moment(value, ty, node)?;
        // A date becomes its midnight in the session's zone.
        let is_local = ty.element().unlimited() == ScalarType::Timestamp;
        let ty = if is_local { ScalarType::Timestamptz } else { ScalarType::Timestamp };
        Ok(Typed::Known(value, ty.into()))
    }

    /// Binds `EXTRACT (field FROM value)`.
    pub(crate) fn bind_extract(&mut self, extract: &ast::ExtractFn) -> Result<Typed, StatementError> {
        let node = extract.syntax();
        let field = self.part(extract.extract_field(), node)?.syntax().text().to_string();
        let field = field.trim().trim_matches(['\'', '"']).to_owned();
        let value = self.part(extract.expr(), node)?;
        if let Some(seconds) = self.seconds_between(&field, &value)? {
            return Ok(seconds);
        }
        let arguments = vec![Typed::Literal(field), self.bind(&value)?];
        self.call_built_in("extract", arguments, node)
    }

    /// Binds the seconds between two timestamps: the only field of a difference that is supported. `None` for
    /// any other field or value.
    pub(crate) fn seconds_between(
        &mut self,
        field: &str,
        value: &ast::Expr,
    ) -> Result<Option<Typed>, StatementError> {
        let mut inner = value.clone();
        while let ast::Expr::ParenExpr(paren) = &inner {
            let Some(own) = paren.expr() else { break };
            inner = own;
        }
        let ast::Expr::BinExpr(binary) = &inner else { return Ok(None) };
        let (Some(left), Some(right), true) = (
            binary.lhs(),
            binary.rhs(),
            matches!(binary.op(), Some(ast::BinOp::Minus(_))) && field.eq_ignore_ascii_case("epoch"),
        ) else {
            return Ok(None);
        };
        if self.written_interval(&right)?.is_some() {
            return Ok(None);
        }
        let mut moments = Vec::new();
        for side in [left, right] {
            let typed = self.bind(&side)?;
            let (value, ty) = self.settle(typed, Some(ScalarType::Timestamptz.into()), side.syntax())?;
            moments.push(self.as_moment(value, ty, side.syntax())?);
        }
        Ok(Some(time(Function::SecondsBetween, moments, ScalarType::AnyNumeric)))
    }

    /// Converts a timestamp or date to a timestamp.
    fn as_moment(
        &self,
        value: Expression,
        ty: Type,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        if !is_time(ty) {
            return Err(self.error(node, SqlError::new("42883", format!("type {ty} is no timestamp"))));
        }
        match ty {
            Type::Scalar(ScalarType::Date) => self.coerce(
                Typed::Known(value, ty),
                ScalarType::Timestamp.into(),
                CastContext::Explicit,
                node,
            ),
            _ => Ok(value),
        }
    }
}
