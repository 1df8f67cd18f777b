//! The values of bounds: constants that are evaluated once, kept as texts, and written as SQL.
//! Source: PostgreSQL 15, `get_const_expr` in ruleutils.c.

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use crate::schema::Schema;
use crate::source::Source;
use catalog::{Datum, Numeric, ScalarType, Type, output_text};
use procedure::{CastContext, Machine, SqlError};
use squawk_syntax::ast::{self, AstNode};
use std::cmp::Ordering;

/// Returns a text as a literal.
pub(crate) fn in_quotes(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Returns whether a value needs no quotes, as PostgreSQL writes it.
fn is_bare(text: &str, ty: Type) -> bool {
    match ty.scalar() {
        Some(ScalarType::Boolean) => true,
        Some(ScalarType::Integer) => !text.starts_with('-'),
        Some(ScalarType::Numeric { .. } | ScalarType::AnyNumeric) => {
            text.starts_with(|first: char| first.is_ascii_digit()) && text.contains(['.', 'e', 'E'])
        }
        _ => false,
    }
}

/// Returns a value as FOR VALUES has it.
pub(super) fn plain(text: &str, ty: Type) -> String {
    if is_bare(text, ty) { text.to_owned() } else { in_quotes(text) }
}

/// Returns a value as an expression of its type.
pub(crate) fn typed(text: &str, ty: Type) -> String {
    let has_label = matches!(ty.scalar(), Some(ScalarType::Numeric { .. })) || !is_bare(text, ty);
    if has_label { format!("{}::{ty}", plain(text, ty)) } else { text.to_owned() }
}

/// Compares two values of a type by their texts; `None` if that takes more than their bytes.
fn order_of_texts(left: &str, right: &str, ty: Type) -> Option<Ordering> {
    let is_plain = |text: &str| text.find('-') == Some(4) && !text.ends_with("BC");
    match ty.scalar()? {
        ScalarType::Text | ScalarType::Varchar(_) | ScalarType::Uuid => Some(left.cmp(right)),
        // Years of four digits before other parts of the same lengths.
        ScalarType::Date | ScalarType::Timestamp if is_plain(left) && is_plain(right) => {
            Some(left.cmp(right))
        }
        ScalarType::Numeric { .. } | ScalarType::AnyNumeric => {
            let (left, right): (Numeric, Numeric) = (left.parse().ok()?, right.parse().ok()?);
            Some(left.compare(&right))
        }
        _ => None,
    }
}

impl Schema {
    /// Evaluates a bound's value for a column of a type. Returns its text; `None` for NULL.
    ///
    /// # Errors
    /// `0A000`: it is no constant. The errors of its evaluation.
    pub(crate) fn value_of_bound(
        &self,
        expression: &ast::Expr,
        ty: Type,
        source: &Source,
    ) -> Result<Option<String>, StatementError> {
        let mut binder = Binder::new(self, source);
        let node = expression.syntax();
        let bound = binder.bind_as(expression, ty, CastContext::Assignment).map_err(|error| {
            let message = "cannot use column reference in partition bound expression";
            match error.error.sqlstate == "42703" {
                true => binder.error(node, SqlError::new("0A000", message)),
                false => error,
            }
        })?;
        if !bound.is_constant() {
            return Err(binder.unsupported(node, "a bound of a partition that is no constant"));
        }
        let mut machine = Machine::default();
        let value = bound.evaluate(&mut machine).map_err(|error| binder.error(node, *error))?;
        if value.is_null() {
            return Ok(None);
        }
        if ty.scalar() == Some(ScalarType::Boolean) {
            return Ok(Some((value != Datum::Int(0)).to_string()));
        }
        Ok(Some(output_text(value, ty, &machine.frame.arena)))
    }

    /// Compares two values of a type, given as texts.
    ///
    /// # Errors
    /// `0A000`: the values of the type have no order.
    pub(super) fn compare_values(
        &self,
        left: &str,
        right: &str,
        ty: Type,
    ) -> Result<Ordering, StatementError> {
        let numbers = left.parse::<i64>().ok().zip(right.parse::<i64>().ok());
        if let Some((left, right)) = numbers.filter(|_| ty.scalar().is_some_and(ScalarType::is_integer)) {
            return Ok(left.cmp(&right));
        }
        if let Some(order) = order_of_texts(left, right, ty) {
            return Ok(order);
        }
        let is = |operator: &str| {
            let text = format!("SELECT {} {operator} {}", typed(left, ty), typed(right, ty));
            let source = Source::parse(&text)?;
            let target = source.file.syntax().descendants().find_map(ast::Target::cast);
            let mut binder = Binder::new(self, &source);
            binder.is_kept_text = true;
            let expression = binder.part(target.and_then(|target| target.expr()), source.file.syntax())?;
            let Typed::Known(bound, _) = binder.bind(&expression)? else { return Ok(false) };
            let value = bound.evaluate(&mut Machine::default());
            Ok(value.is_ok_and(|value| value == Datum::Int(1)))
        };
        Ok(match (is("=")?, is("<")?) {
            (true, _) => Ordering::Equal,
            (_, true) => Ordering::Less,
            _ => Ordering::Greater,
        })
    }
}
