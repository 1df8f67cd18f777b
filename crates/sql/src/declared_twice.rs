//! Refuses a name that a block of PL/pgSQL declares twice.
//!
//! Held by: `attacked_a.slt` in `crates/workload/tests/sql`.

use crate::binder::Binder;
use crate::error::StatementError;
use squawk_syntax::ast::{self, AstNode};

impl Binder<'_> {
    /// Refuses a second declaration of a name in a block.
    ///
    /// # Errors
    /// `42601`: the block has declared the name.
    pub(crate) fn refuse_declared(&self, declaration: &ast::PlpgsqlDecl) -> Result<(), StatementError> {
        let name = match declaration {
            ast::PlpgsqlDecl::PlpgsqlVarDecl(variable) => variable.name(),
            ast::PlpgsqlDecl::PlpgsqlAliasDecl(alias) => alias.name(),
            ast::PlpgsqlDecl::PlpgsqlCursorDecl(cursor) => cursor.name(),
        };
        let Some(name) = name else { return Ok(()) };
        let own = ast::normalize_name_node(name.syntax());
        if self.scopes.last().is_none_or(|(_, names)| !names.contains_key(&own)) {
            return Ok(());
        }
        let message = format!("duplicate declaration at or near \"{}\"", name.syntax().text());
        Err(self.syntax(name.syntax(), &message))
    }
}
