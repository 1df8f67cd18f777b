//! FETCH and MOVE of a client.
//! Source: PostgreSQL 15, "FETCH".

use crate::StatementError;
use crate::binder::Binder;
use crate::schema::Schema;
use crate::source::Source;
use procedure::{CastContext, Machine, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// A movement of a client's cursor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Movement {
    /// Over this many rows forward, or back if it is negative; 0: the current row once more.
    By(i64),
    /// To the row with a number, from 1, or from the end if it is negative; 0: before the first row.
    To(i64),
    /// To the row at this distance.
    Away(i64),
}

impl Schema {
    /// Returns the cursor of a FETCH or MOVE, and its movement.
    pub(crate) fn fetched(
        &self,
        cursor: Option<ast::CursorRef>,
        action: Option<ast::CursorAction>,
        source: &Source,
        node: &SyntaxNode,
    ) -> Result<(String, Movement), StatementError> {
        let binder = Binder::new(self, source);
        let name = binder.part(cursor, node)?;
        let name = ast::normalize_name_node(name.syntax());
        let number = |expression: Option<ast::Expr>| match expression {
            None => Ok(1),
            Some(expression) => {
                let mut binder = Binder::new(self, source);
                let count =
                    binder.bind_as(&expression, catalog::ScalarType::BigInt, CastContext::Assignment)?;
                let count = count.evaluate(&mut Machine::default());
                match count.map_err(|error| binder.error(node, *error))? {
                    catalog::Datum::Int(count) => Ok(count.max(-i64::MAX)),
                    _ => Err(binder.error(node, SqlError::new("22004", "the number of rows is NULL"))),
                }
            }
        };
        let movement = match action {
            None | Some(ast::CursorAction::Next(_)) => Movement::By(1),
            Some(ast::CursorAction::Prior(_)) => Movement::By(-1),
            Some(ast::CursorAction::First(_)) => Movement::To(1),
            Some(ast::CursorAction::Last(_)) => Movement::To(-1),
            Some(ast::CursorAction::All(_)) => Movement::By(i64::MAX),
            Some(ast::CursorAction::Forward(own)) if own.all_token().is_some() => Movement::By(i64::MAX),
            Some(ast::CursorAction::Backward(own)) if own.all_token().is_some() => Movement::By(-i64::MAX),
            Some(ast::CursorAction::Forward(own)) => Movement::By(number(own.expr())?),
            Some(ast::CursorAction::Backward(own)) => Movement::By(-number(own.expr())?),
            Some(ast::CursorAction::Absolute(own)) => Movement::To(number(own.expr())?),
            Some(ast::CursorAction::Relative(own)) => Movement::Away(number(own.expr())?),
            Some(ast::CursorAction::Expr(count)) => Movement::By(number(Some(count))?),
        };
        Ok((name, movement))
    }
}
