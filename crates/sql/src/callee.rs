//! The routine that a call names: of its schema, or, without a schema, of the system or of `public`.
//! Source: PostgreSQL 15, "The Schema Search Path". `public` is the only schema of the path.
//!
//! Held by: `routine_schemas.slt` in `crates/workload/tests/sql`.

use crate::binder::Binder;
use crate::called_names::called_name;
use crate::error::StatementError;
use crate::types::last_name;
use procedure::{SqlError, built_ins_named};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// The functions of the built-in extensions, which PostgreSQL has in the schema of the extension.
const OF_EXTENSIONS: [&str; 3] = ["digest", "gen_random_uuid", "uuid_generate_v4"];

fn is_of_system(schema: &str) -> bool {
    matches!(schema, "pg_catalog" | "information_schema")
}

impl Binder<'_> {
    fn check_schema(&self, schema: &str, node: &SyntaxNode) -> Result<(), StatementError> {
        if is_of_system(schema) || self.schema.has_namespace(schema) {
            return Ok(());
        }
        Err(self.error(node, SqlError::new("3F000", format!("schema \"{schema}\" does not exist"))))
    }

    /// Returns the name of a call's function. Only a name without a schema can be that of a built-in
    /// function.
    ///
    /// # Errors
    /// `3F000`: there is no such schema. Those of `check_argument_names`.
    pub(crate) fn callee(&self, call: &ast::CallExpr) -> Result<String, StatementError> {
        let node = call.syntax();
        self.check_argument_names(call.arg_list().as_ref())?;
        let Some(name) = called_name(call) else { return Err(self.unsupported(node, "this kind of call")) };
        let Some((schema, function)) = name.split_once('.') else { return Ok(name) };
        self.check_schema(schema, node)?;
        let is_own = self.schema.procedure(&name).is_some();
        let is_built_in = match is_of_system(schema) {
            true => self.schema.procedure(function).is_none() || !built_ins_named(function).is_empty(),
            false => !is_own && OF_EXTENSIONS.contains(&function),
        };
        Ok(if is_built_in { function.to_owned() } else { name })
    }

    /// Refuses a name of a routine in a schema that does not exist.
    ///
    /// # Errors
    /// `3F000`: there is no such schema.
    pub(crate) fn check_qualifier(
        &self,
        path: &ast::PathRef,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        path.qualifier().map_or(Ok(()), |schema| self.check_schema(&last_name(&schema), node))
    }
}
