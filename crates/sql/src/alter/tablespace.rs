//! SET TABLESPACE: has no effect, because there is one tablespace.

use super::Alteration;
use crate::error::StatementError;
use squawk_syntax::ast::{self, AstNode};

impl Alteration<'_> {
    /// Checks the name of a tablespace.
    ///
    /// # Errors
    /// `42704`: it is not `pg_default`.
    pub(super) fn set_tablespace(&mut self, set: &ast::SetTablespace) -> Result<(), StatementError> {
        let node = set.syntax();
        let name = self.builder.binder.part(set.tablespace_ref(), node)?;
        match ast::normalize_name_node(name.syntax()).as_str() {
            "pg_default" => Ok(()),
            other => self.error(node, "42704", format!("tablespace \"{other}\" does not exist")),
        }
    }
}
