//! Comparisons of rows: `(a, b) = (1, 2)`, `(a, b) < (c, d)`, `(a, b) IN ((1, 2), (3, 4))`,
//! `(a, b) = (SELECT …)`.
//!
//! As in SQL, rows are compared by their first values that are not equal; the comparison is NULL if a
//! NULL precedes them.

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use crate::operators::boolean;
use procedure::{CompareOperator, Expression, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast;

/// Returns the values of a row, if an expression is one.
pub(crate) fn row_of(expression: &ast::Expr) -> Option<Vec<ast::Expr>> {
    match expression {
        ast::Expr::TupleExpr(row) => Some(row.exprs().collect()),
        ast::Expr::ParenExpr(paren) => paren.expr().as_ref().and_then(row_of),
        _ => None,
    }
}

impl Binder<'_> {
    /// Binds a comparison, if one side of it is a row.
    pub(crate) fn bind_row_comparison(
        &mut self,
        operator: CompareOperator,
        left: &ast::Expr,
        right: &ast::Expr,
        node: &SyntaxNode,
    ) -> Result<Option<Typed>, StatementError> {
        let Some(left) = row_of(left) else { return Ok(None) };
        if let ast::Expr::ParenExpr(paren) = right
            && let Some(query) = Self::query_of(paren)
        {
            let compare = |binder: &mut Self| {
                let left = binder.bind_row(&left)?;
                let right = binder.bind_row_query(&query, node)?;
                binder.check_columns(right.len(), left.len(), node)?;
                binder.compare_rows(operator, &left, &right, node).map(boolean)
            };
            return self.lifting(node, compare).map(Some);
        }
        let Some(right) = row_of(right) else { return Ok(None) };
        let (left, right) = (self.bind_row(&left)?, self.bind_row(&right)?);
        self.compare_rows(operator, &left, &right, node).map(|condition| Some(boolean(condition)))
    }

    /// Binds `(a, b) OVERLAPS (c, d)`.
    pub(crate) fn bind_overlaps(
        &mut self,
        left: &ast::Expr,
        right: &ast::Expr,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let mut ends = Vec::new();
        for (side, row) in [("left", left), ("right", right)] {
            let row = row_of(row).filter(|values| values.len() == 2).ok_or_else(|| {
                let message = format!("wrong number of parameters on {side} side of OVERLAPS expression");
                self.error(node, SqlError::new("42601", message))
            })?;
            ends.extend(self.bind_row(&row)?);
        }
        let called = self.built_in("overlaps", ends, node)?;
        called.ok_or_else(|| self.unsupported(node, "OVERLAPS of these values"))
    }

    /// Binds the values of a row.
    pub(crate) fn bind_row(&mut self, row: &[ast::Expr]) -> Result<Vec<Typed>, StatementError> {
        let items = self.row_items(row.iter().cloned());
        items.into_iter().map(|item| self.bind_row_item(item)).collect()
    }

    /// Refuses rows of different lengths.
    ///
    /// # Errors
    /// `42601`: the rows have different numbers of values.
    pub(crate) fn check_lengths(
        &self,
        left: usize,
        right: usize,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        if left == right {
            return Ok(());
        }
        Err(self.syntax(node, "unequal number of entries in row expressions"))
    }

    /// Returns the condition that a comparison of two rows holds.
    pub(crate) fn compare_rows(
        &self,
        operator: CompareOperator,
        left: &[Typed],
        right: &[Typed],
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        use CompareOperator as O;
        self.check_lengths(left.len(), right.len(), node)?;
        let compare = |operator: O, position: usize| {
            let compared =
                self.comparison(operator, left[position].clone(), right[position].clone(), node)?;
            self.bind_condition_of(compared, node)
        };
        let each = |operator| {
            (0..left.len()).map(|position| compare(operator, position)).collect::<Result<Vec<_>, _>>()
        };
        let strict = match operator {
            O::Equal => return Ok(Expression::all(each(operator)?)),
            O::NotEqual => return Ok(Expression::any(each(operator)?)),
            O::Less | O::LessOrEqual => O::Less,
            O::Greater | O::GreaterOrEqual => O::Greater,
        };
        let Some(last) = left.len().checked_sub(1) else {
            return Err(self.error(node, SqlError::new("0A000", "cannot compare rows of zero length")));
        };
        let mut condition = compare(operator, last)?;
        for position in (0..last).rev() {
            let behind = Expression::And(Box::new([compare(O::Equal, position)?, condition]));
            condition = Expression::Or(Box::new([compare(strict, position)?, behind]));
        }
        Ok(condition)
    }

    /// Binds `row IN (row, …)`.
    pub(crate) fn bind_row_in(
        &mut self,
        row: &[ast::Expr],
        items: &[ast::Expr],
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        let row = self.bind_row(row)?;
        let mut any = Vec::new();
        for item in items {
            let Some(item) = row_of(item) else {
                return Err(self.unsupported(node, "IN of a row and a value that is no row"));
            };
            let item = self.bind_row(&item)?;
            any.push(self.compare_rows(CompareOperator::Equal, &row, &item, node)?);
        }
        Ok(Expression::any(any))
    }
}
