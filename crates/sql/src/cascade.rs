//! The clause CASCADE of a statement.
//!
//! Not here: what it drops (`dependents`).

use crate::error::StatementError;
use procedure::SqlError;
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// Returns whether a statement, or an action of an ALTER, has CASCADE.
pub(crate) fn cascades(node: &SyntaxNode) -> bool {
    node.descendants().any(|child| ast::Cascade::can_cast(child.kind()))
}

/// Returns the error of a CASCADE to an object that it cannot drop.
pub(crate) fn unsupported_cascade(error: StatementError) -> StatementError {
    let StatementError { line, column, error } = error;
    let message = "CASCADE to an object of this kind is not supported";
    let detail = error.detail.clone().unwrap_or_else(|| error.message.clone());
    let refused = SqlError::new("0A000", message).with_detail(detail);
    StatementError { line, column, error: refused.with_hint("Drop the dependent object first.") }
}
