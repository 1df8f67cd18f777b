//! Constants in ORDER BY, GROUP BY and DISTINCT ON: an integer is a position in the SELECT list.
//! Source: PostgreSQL 15, `findTargetlistEntrySQL92`.
//!
//! Held by: `attacked_a.slt` in `crates/workload/tests/sql`.

use super::Binder;
use crate::error::StatementError;
use procedure::SqlError;
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// A position in a SELECT list, from 1, as the statement has it.
#[derive(Clone, Copy)]
pub(super) struct Position(i32);

impl Position {
    /// Returns the item at the position.
    pub(super) fn of<T>(self, list: &[T]) -> Option<&T> {
        list.get(usize::try_from(self.0).ok()?.checked_sub(1)?)
    }
}

/// Returns an expression without the parentheses around it.
pub(crate) fn bare(expression: ast::Expr) -> ast::Expr {
    match &expression {
        ast::Expr::ParenExpr(paren) => paren.expr().map_or(expression.clone(), bare),
        _ => expression,
    }
}

/// Returns the constant of an expression, which may be in parentheses, and whether a minus precedes it.
fn constant_of(expression: &ast::Expr) -> Option<(ast::LitKind, bool)> {
    match expression {
        ast::Expr::Literal(literal) => Some((literal.kind()?, false)),
        ast::Expr::ParenExpr(paren) => constant_of(&paren.expr()?),
        ast::Expr::PrefixExpr(prefix) if prefix.syntax().first_token()?.text() == "-" => {
            let operand = prefix.syntax().children().find_map(ast::Expr::cast)?;
            let (kind, is_negative) = constant_of(&operand)?;
            let is_number = matches!(kind, ast::LitKind::IntNumber(_) | ast::LitKind::NumericNumber(_));
            is_number.then_some((kind, !is_negative))
        }
        _ => None,
    }
}

impl Binder<'_> {
    /// Returns the position that an expression of a clause is; `None` if it is no constant.
    ///
    /// # Errors
    /// `42601`: it is another constant.
    pub(super) fn position_in_list(
        &self,
        expression: &ast::Expr,
        clause: &str,
    ) -> Result<Option<Position>, StatementError> {
        let Some((kind, is_negative)) = constant_of(expression) else { return Ok(None) };
        let position = match kind {
            ast::LitKind::Default(_)
            | ast::LitKind::Off(_)
            | ast::LitKind::On(_)
            | ast::LitKind::PositionalParam(_) => return Ok(None),
            ast::LitKind::IntNumber(token) => token.text().parse::<i32>().ok(),
            _ => None,
        };
        match position {
            Some(position) => Ok(Some(Position(if is_negative { -position } else { position }))),
            None => Err(self.syntax(expression.syntax(), &format!("non-integer constant in {clause}"))),
        }
    }

    /// Returns the error of a position that the SELECT list does not have.
    pub(super) fn no_position(&self, position: Position, clause: &str, node: &SyntaxNode) -> StatementError {
        let message = format!("{clause} position {} is not in select list", position.0);
        self.error(node, SqlError::new("42P10", message))
    }
}
