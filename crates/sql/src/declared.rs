//! DECLARE CURSOR of a client.
//! Source: PostgreSQL 15, "DECLARE", and `transformDeclareCursorStmt` for the order of the checks.

use crate::StatementError;
use crate::binder::Binder;
use crate::cursors::{is_forward_only, locking_clause};
use crate::schema::Schema;
use crate::source::Source;
use catalog::Type;
use procedure::SqlError;
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// A DECLARE CURSOR.
#[derive(Clone, Debug)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// Whether it outlives its transaction (WITH HOLD).
    pub holds: bool,
    /// Whether it moves forward only (NO SCROLL).
    pub is_forward_only: bool,
    /// Whether a simple query receives its rows in binary format (BINARY).
    pub is_binary: bool,
    /// Its query, at its position in the statement: blanks stand before it.
    pub text: String,
}

/// Returns whether a query has a statement that writes.
fn writes(query: &SyntaxNode) -> bool {
    query.descendants().any(|node| {
        let kind = node.kind();
        ast::Insert::can_cast(kind)
            || ast::Update::can_cast(kind)
            || ast::Delete::can_cast(kind)
            || ast::Merge::can_cast(kind)
    })
}

/// Checks that the options of a cursor fit its query.
fn check(declare: &ast::Declare, query: &SyntaxNode) -> Result<(), SqlError> {
    if writes(query) {
        let message = "DECLARE CURSOR must not contain data-modifying statements in WITH";
        return Err(SqlError::new("0A000", message));
    }
    let Some(strength) = locking_clause(query).and_then(|clause| clause.lock_strength()) else {
        return Ok(());
    };
    let strength = match strength {
        ast::LockStrength::ForUpdate(_) => "FOR UPDATE",
        ast::LockStrength::ForNoKeyUpdate(_) => "FOR NO KEY UPDATE",
        ast::LockStrength::ForShare(_) => "FOR SHARE",
        ast::LockStrength::ForKeyShare(_) => "FOR KEY SHARE",
    };
    let refused = |code: &str, kind: &str, fault: &str, cursors: &str| {
        let error = SqlError::new(code, format!("DECLARE {kind} ... {strength} is not {fault}"));
        Err(error.with_detail(format!("{cursors} cursors must be READ ONLY.")))
    };
    if let Some(ast::CursorHold::WithHold(_)) = declare.cursor_hold() {
        return refused("0A000", "CURSOR WITH HOLD", "supported", "Holdable");
    }
    if let Some(ast::CursorScroll::Scroll(_)) = declare.cursor_scroll() {
        return refused("0A000", "SCROLL CURSOR", "supported", "Scrollable");
    }
    if let Some(ast::CursorSensitivity::Insensitive(_)) = declare.cursor_sensitivity() {
        return refused("42P11", "INSENSITIVE CURSOR", "valid", "Insensitive");
    }
    Ok(())
}

impl Schema {
    /// Returns a DECLARE CURSOR, and the types of the parameters of its query.
    ///
    /// # Errors
    /// `0A000` and `42P11`: its options do not fit its query. The errors of its query.
    pub(crate) fn declared(
        &self,
        declare: &ast::Declare,
        source: &Source,
        types: &[Option<Type>],
    ) -> Result<(Declared, Vec<Type>), StatementError> {
        let (binder, node) = (Binder::new(self, source), declare.syntax());
        let name = binder.part(declare.cursor(), node)?;
        let name = ast::normalize_name_node(name.syntax());
        let query = binder.part(declare.query(), node)?;
        let text = source.text_in_place(query.syntax());
        let parameters = self.prepare_parsed(&text, types)?.map(|query| query.parameters);
        check(declare, query.syntax()).map_err(|error| source.error_at(0, error))?;
        let declared = Declared {
            name,
            holds: matches!(declare.cursor_hold(), Some(ast::CursorHold::WithHold(_))),
            is_forward_only: is_forward_only(declare.cursor_scroll(), Some(query.syntax())),
            is_binary: declare.binary_token().is_some(),
            text,
        };
        Ok((declared, parameters.unwrap_or_default()))
    }
}
