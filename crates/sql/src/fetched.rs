//! FETCH and MOVE of a client.

use crate::StatementError;
use crate::binder::Binder;
use crate::schema::Schema;
use crate::source::Source;
use procedure::{CastContext, Machine, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

impl Schema {
    /// Returns the cursor of a FETCH or MOVE, and the number of rows; `None`: all remaining rows.
    pub(crate) fn fetched(
        &self,
        cursor: Option<ast::CursorRef>,
        action: Option<ast::CursorAction>,
        source: &Source,
        node: &SyntaxNode,
    ) -> Result<(String, Option<usize>), StatementError> {
        let mut binder = Binder::new(self, source);
        let name = binder.part(cursor, node)?;
        let name = ast::normalize_name_node(name.syntax());
        let expression = match &action {
            None | Some(ast::CursorAction::Next(_)) => return Ok((name, Some(1))),
            Some(ast::CursorAction::All(_)) => return Ok((name, None)),
            Some(ast::CursorAction::Forward(forward)) if forward.all_token().is_some() => {
                return Ok((name, None));
            }
            Some(ast::CursorAction::Forward(forward)) => match forward.expr() {
                None => return Ok((name, Some(1))),
                Some(count) => count,
            },
            Some(ast::CursorAction::Expr(count)) => count.clone(),
            Some(_) => {
                let error = SqlError::new("55000", "cursor can only scan forward");
                let hint = "Declare the cursor with the ORDER BY that you need.";
                return Err(binder.error(node, error.with_hint(hint)));
            }
        };
        let count = binder.bind_as(&expression, catalog::ScalarType::BigInt, CastContext::Assignment)?;
        let mut machine = Machine::default();
        let count = count.evaluate(&mut machine).map_err(|error| binder.error(node, *error))?;
        match count {
            catalog::Datum::Int(count) if count >= 0 => Ok((name, Some(usize::try_from(count).unwrap_or(0)))),
            _ => Err(binder.error(node, SqlError::new("55000", "cursor can only scan forward"))),
        }
    }
}
