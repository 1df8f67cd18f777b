//! Chooses the index path to the rows of a WHERE clause. The remaining conditions become a filter.
//!
//! Conditions of the form `column operator value`, with a value that does not depend on the row, are
//! candidates. The score of an index is the number of columns that equalities bind, then the bounds on the
//! next column, then whether the index has the wanted order.
//! Invariant: the path is exact for a condition that it uses, so the condition is not checked again, unless
//! the candidate says that it is wider (`Candidate::is_wider`).

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use catalog::{Datum, Decimal, ScalarType, Table, Type};
use procedure::{Bound, Cast, CastContext, CompareOperator, Expression, Path, ZonedCast};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast;

/// `column operator value`.
#[derive(Clone)]
pub(crate) struct Candidate {
    pub(crate) column: usize,
    pub(crate) operator: CompareOperator,
    pub(crate) value: Expression,
    /// Further columns and their values, if rows are compared.
    pub(crate) further: Vec<(usize, Expression)>,
    /// Whether the compared rows must differ.
    pub(crate) is_strict: bool,
    /// Index of the conjunct that it comes from.
    pub(crate) conjunct: usize,
    /// Whether rows may satisfy it that do not satisfy the conjunct.
    pub(crate) is_wider: bool,
}

/// Returns whether a bound for a column is wider than its condition: local times are not in the order of the
/// timestamps of a zone.
pub(crate) fn is_wider(value: &Typed, column: Type) -> bool {
    let is_local = column.scalar().is_some_and(|ty| ty.is_timestamp() && !ty.is_zoned());
    is_local && value.known_type().and_then(Type::scalar).is_some_and(ScalarType::is_zoned)
}

/// The order that a query wants: columns, and whether they descend.
pub(crate) type WantedOrder = Vec<(usize, bool)>;

impl Candidate {
    /// Returns the condition as a bound of a range, with the values of further columns that follow in the
    /// index.
    fn as_bound(&self, next: &[usize]) -> Bound {
        let further = self
            .further
            .iter()
            .zip(next)
            .take_while(|((further_column, _), column)| further_column == *column);
        let further: Vec<Expression> = further.map(|((_, value), _)| value.clone()).collect();
        let is_strict = self.is_strict && further.len() == self.further.len();
        Bound { value: self.value.clone(), further, inclusive: !is_strict }
    }
}

impl Binder<'_> {
    /// Returns a value as a key of a column's type; `None` if rounding or overflow could select other rows.
    pub(crate) fn key_value(
        &self,
        value: Typed,
        ty: Type,
        operator: CompareOperator,
        node: &SyntaxNode,
    ) -> Result<Option<Expression>, StatementError> {
        let Type::Scalar(ty) = ty else { return self.array_key(value, ty, node) };
        let (expression, from) = match value {
            Typed::Known(expression, Type::Scalar(from)) => (expression, from),
            Typed::Known(_, Type::Array(_)) => return Ok(None),
            Typed::Literal(_) if ty.is_text() => {
                // The literal is not cut to the column's length, because no row has a longer text.
                let wide = match ty {
                    ScalarType::Char(_) => ScalarType::Char(u32::MAX),
                    _ => ScalarType::Text,
                };
                return self.coerce(value, wide.into(), CastContext::Implicit, node).map(Some);
            }
            Typed::Parameter(position) => {
                return self.key_value(self.parameter_as(position, ty.into()), ty.into(), operator, node);
            }
            Typed::Literal(_) if ty.is_machine_numeric() => {
                // No row has a number with more digits than its type.
                let ScalarType::Numeric { precision, scale } = ty else { return Ok(None) };
                let wide = ScalarType::AnyNumeric.into();
                let Expression::Numeric(number) = self.coerce(value, wide, CastContext::Implicit, node)?
                else {
                    return Ok(None);
                };
                let number = number.short();
                let fitted =
                    |number: Decimal| number.fit(precision, scale).ok().filter(|held| *held == number);
                let held = number.and_then(fitted);
                let held = held.and_then(|held| i64::try_from(held.mantissa).ok());
                return Ok(held.map(|held| Expression::Constant(Datum::Int(held))));
            }
            Typed::Literal(_) if ty.is_timestamp() || ty.is_wide_numeric() => {
                return self.coerce(value, ty.unlimited().into(), CastContext::Implicit, node).map(Some);
            }
            literal => return self.coerce(literal, ty.into(), CastContext::Implicit, node).map(Some),
        };
        let exact = |cast: Cast| {
            Some(match cast {
                Cast::Same => expression.clone(),
                cast => Expression::Cast { cast, operand: Box::new(expression.clone()) },
            })
        };
        if from.is_text() && ty.is_text() {
            return Ok(Some(expression));
        }
        if from.is_integer() && ty.is_integer() {
            return Ok(match Cast::between(from, ty, false) {
                Some(Cast::Same) => Some(expression),
                _ if operator == CompareOperator::Equal => exact(Cast::to_key(ty)),
                _ => match expression {
                    Expression::Constant(Datum::Int(constant)) => {
                        let fits = match ty {
                            ScalarType::SmallInt => i16::try_from(constant).is_ok(),
                            _ => i32::try_from(constant).is_ok(),
                        };
                        fits.then_some(expression)
                    }
                    _ => None,
                },
            });
        }
        let whole = |ty: ScalarType| match ty {
            ScalarType::Numeric { precision, scale } => Some(i16::from(precision) - i16::from(scale)),
            ScalarType::SmallInt => Some(5),
            ScalarType::Integer => Some(10),
            _ => None,
        };
        if let (true, Some(digits), Some(room)) = (ty.is_machine_numeric(), whole(from), whole(ty)) {
            let lossless = from.fixed_scale() <= ty.fixed_scale() && digits <= room;
            return Ok(Cast::between(from, ty, false).filter(|_| lossless).and_then(exact));
        }
        // A REAL is held as a double.
        if ty.is_float() && from.is_float() {
            return Ok(Some(expression));
        }
        // Equal decimals have one key, whatever their scales.
        if ty.is_wide_numeric() && from.is_exact() {
            return Ok(Cast::between(from, ty.unlimited(), false).and_then(exact));
        }
        if from.is_zoned() && ty.is_timestamp() && !ty.is_zoned() {
            let is_upper = match operator {
                CompareOperator::Less | CompareOperator::LessOrEqual => true,
                CompareOperator::Greater | CompareOperator::GreaterOrEqual => false,
                _ => return Ok(None),
            };
            return Ok(exact(Cast::InZone(ZonedCast::ToBound { is_upper })));
        }
        // The value is not rounded to the column's precision, because no row has a finer timestamp.
        let held = if ty.is_timestamp() { ty.unlimited() } else { ty };
        if from == held
            || from.same_family(held) && !held.is_exact()
            || from == ScalarType::Date && held == ScalarType::Timestamp
        {
            return Ok(Cast::between(from, held, false).and_then(exact));
        }
        Ok(None)
    }

    /// Returns an array as a key; `None` if its elements have another representation.
    fn array_key(
        &self,
        value: Typed,
        ty: Type,
        node: &SyntaxNode,
    ) -> Result<Option<Expression>, StatementError> {
        Ok(match value {
            Typed::Known(expression, Type::Array(from)) => {
                let to = ty.element();
                let is_alike = from.base() == to.base();
                let is_wide = from.is_wide_numeric() && to.is_wide_numeric();
                (from == to || is_alike && (!to.is_exact() || is_wide)).then_some(expression)
            }
            Typed::Known(..) => None,
            open => Some(self.coerce(open, ty.base(), CastContext::Implicit, node)?)
                .filter(|_| !ty.element().is_machine_numeric()),
        })
    }
}

pub(crate) fn is_any(expression: &ast::Expr) -> bool {
    let is_quantified =
        |call: &ast::CallExpr| call.any_fn().is_some() || call.all_fn().is_some() || call.some_fn().is_some();
    matches!(expression, ast::Expr::CallExpr(call) if is_quantified(call))
}

/// Returns whether an expression is the constant TRUE, which changes no conjunction.
pub(crate) fn is_true(expression: &ast::Expr) -> bool {
    matches!(expression, ast::Expr::Literal(literal) if matches!(literal.kind(), Some(ast::LitKind::True(_))))
}

/// Splits a condition into its conjuncts.
pub(crate) fn split(condition: ast::Expr, conjuncts: &mut Vec<ast::Expr>) {
    match &condition {
        constant if is_true(constant) => return,
        ast::Expr::BinExpr(binary) if matches!(binary.op(), Some(ast::BinOp::And(_))) => {
            if let (Some(left), Some(right)) = (binary.lhs(), binary.rhs()) {
                split(left, conjuncts);
                split(right, conjuncts);
                return;
            }
        }
        ast::Expr::ParenExpr(paren) => {
            if let Some(inner) = paren.expr() {
                split(inner, conjuncts);
                return;
            }
        }
        _ => {}
    }
    conjuncts.push(condition);
}

pub(crate) fn mirrored(operator: CompareOperator) -> CompareOperator {
    match operator {
        CompareOperator::Less => CompareOperator::Greater,
        CompareOperator::LessOrEqual => CompareOperator::GreaterOrEqual,
        CompareOperator::Greater => CompareOperator::Less,
        CompareOperator::GreaterOrEqual => CompareOperator::LessOrEqual,
        other => other,
    }
}

/// Returns the best path, the conjuncts that it makes superfluous, and whether it provides the wanted order.
pub(crate) fn choose_path(
    table: &Table,
    candidates: &[Candidate],
    wanted: Option<&WantedOrder>,
) -> (Path, Vec<usize>, bool) {
    let equality = |column: usize| {
        candidates.iter().find(|c| c.column == column && c.operator == CompareOperator::Equal)
    };
    let primary = &table.primary().columns;
    if let Some(equalities) = primary.iter().map(|column| equality(*column)).collect::<Option<Vec<_>>>() {
        let key = equalities.iter().map(|candidate| candidate.value.clone()).collect();
        return (Path::Point { key }, equalities.iter().map(|c| c.conjunct).collect(), true);
    }
    let mut best: Option<(usize, Path, Vec<usize>, bool)> = None;
    for (index, definition) in table.indexes.iter().enumerate() {
        let columns = table.key_columns(definition);
        let equalities: Vec<_> = columns.iter().map_while(|column| equality(*column)).collect();
        let mut used: Vec<usize> = equalities.iter().map(|c| c.conjunct).collect();
        let mut end = |operators: [CompareOperator; 2]| {
            let column = *columns.get(equalities.len())?;
            let found = candidates.iter().find(|c| c.column == column && operators.contains(&c.operator))?;
            used.push(found.conjunct);
            Some(Box::new(found.as_bound(&columns[equalities.len() + 1..])))
        };
        let lower = end([CompareOperator::Greater, CompareOperator::GreaterOrEqual]);
        let upper = end([CompareOperator::Less, CompareOperator::LessOrEqual]);
        let backward =
            wanted.and_then(|wanted| given_order(table, &columns, equalities.len(), candidates, wanted));
        let ends = usize::from(lower.is_some()) + usize::from(upper.is_some());
        let score = equalities.len() * 8 + ends * 2 + usize::from(backward.is_some());
        if best.as_ref().is_none_or(|(most, ..)| score > *most) {
            let prefix = equalities.iter().map(|candidate| candidate.value.clone()).collect();
            let path = Path::Range {
                index,
                key_columns: columns.clone(),
                prefix,
                lower,
                upper,
                backward: backward.unwrap_or(false),
            };
            best = Some((score, path, used, backward.is_some()));
        }
    }
    let (_, path, used, ordered) = best.expect("a table has a primary key");
    (path, used, ordered)
}

/// Returns whether an index whose first columns are bound provides an order: `Some(true)` if it is read
/// backward, `None` if it does not provide the order.
fn given_order(
    table: &Table,
    columns: &[usize],
    bound: usize,
    candidates: &[Candidate],
    wanted: &WantedOrder,
) -> Option<bool> {
    let is_bound = |column: usize| {
        columns[..bound].contains(&column)
            || candidates.iter().any(|c| c.column == column && c.operator == CompareOperator::Equal)
    };
    let open: Vec<_> = wanted.iter().filter(|(column, _)| !is_bound(*column)).collect();
    let backward = open.first().is_some_and(|(_, descending)| *descending);
    let mut unbound = columns[bound..].iter().filter(|column| !is_bound(**column));
    for (column, descending) in open {
        if unbound.next() != Some(column) || *descending != backward || table.columns.len() <= *column {
            return None;
        }
    }
    Some(backward)
}
