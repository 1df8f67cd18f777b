//! The body of a routine that is a text, parsed.

use squawk_syntax::ast;
use squawk_syntax::plpgsql::Plpgsql;
use squawk_syntax::sql_body::SqlBody;
use squawk_syntax::syntax_error::SyntaxError;

/// The body of a routine, if it is a text.
#[derive(Clone)]
pub(crate) struct ParsedBody {
    pub(crate) plpgsql: Option<Plpgsql>,
    pub(crate) sql: Option<SqlBody>,
    /// The first error in the text.
    pub(crate) error: Option<SyntaxError>,
}

impl ParsedBody {
    pub(crate) fn of(statement: &ast::Stmt) -> Self {
        let (plpgsql, sql) = match statement {
            ast::Stmt::CreateProcedure(create) => (create.plpgsql(), create.sql_body()),
            ast::Stmt::CreateFunction(create) => (create.plpgsql(), create.sql_body()),
            _ => (None, None),
        };
        let errors = plpgsql.as_ref().map(Plpgsql::errors).or(sql.as_ref().map(SqlBody::errors));
        let error = errors.and_then(|errors| errors.into_iter().next());
        Self { plpgsql, sql, error }
    }
}
