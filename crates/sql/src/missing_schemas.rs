//! The error of a name in a schema that does not exist.
//! Source: PostgreSQL 15, `LookupExplicitNamespace`. Queries and writes report the relation instead.

use crate::error::StatementError;
use crate::schema::Schema;
use crate::source::Source;
use crate::types::last_name;
use procedure::SqlError;
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// Returns whether a node is a query, or a statement that writes.
fn reads_or_writes(node: &SyntaxNode) -> bool {
    let kind = node.kind();
    ast::SelectVariant::can_cast(kind)
        || ast::Insert::can_cast(kind)
        || ast::Update::can_cast(kind)
        || ast::Delete::can_cast(kind)
        || ast::Merge::can_cast(kind)
}

impl Schema {
    /// Returns the error of a schema that does not exist.
    fn missing_schema(&self, schema: &str) -> Option<SqlError> {
        let is_known =
            schema.starts_with("pg_") || schema == "information_schema" || self.has_namespace(schema);
        (!is_known).then(|| SqlError::new("3F000", format!("schema \"{schema}\" does not exist")))
    }

    /// Returns the error of a name in a text, such as `'s.t'::regclass`, whose schema does not exist.
    pub(crate) fn missing_schema_of(&self, path: &str) -> Option<SqlError> {
        let (schema, _) = path.split_once('.')?;
        // A dot within quotes, or in the types of a routine, ends no schema's name.
        if schema.contains('(') || schema.matches('"').count() % 2 == 1 {
            return None;
        }
        self.missing_schema(schema.trim_matches('"'))
    }

    /// Returns the error of a missing object, or that of its schema if the schema does not exist.
    pub(crate) fn or_missing_schema(
        &self,
        error: StatementError,
        statement: &ast::Stmt,
        source: &Source,
    ) -> StatementError {
        if !matches!(error.error.sqlstate.as_str(), "42P01" | "42704" | "42883") {
            return error;
        }
        for path in statement.syntax().descendants().filter_map(ast::PathRef::cast) {
            let Some(qualifier) = path.qualifier() else { continue };
            let is_meant = error.error.message.contains(&last_name(&path));
            if is_meant
                && let Some(missing) = self.missing_schema(&last_name(&qualifier))
                && !path.syntax().ancestors().any(|node| reads_or_writes(&node))
            {
                return source.error_at(path.syntax().text_range().start().into(), missing);
            }
        }
        error
    }
}
