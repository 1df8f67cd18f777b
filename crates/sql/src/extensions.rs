//! CREATE and DROP EXTENSION of built-in extensions, and the refusal of statements that define databases.

use crate::StatementError;
use crate::notices::skipping;
use crate::schema::Schema;
use crate::source::Source;
use procedure::{Notice, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// The built-in extensions. Each has at least the functions that most schemas use.
const EXTENSIONS: [&str; 3] = ["plpgsql", "pgcrypto", "uuid-ossp"];

/// Refuses CREATE, ALTER and DROP DATABASE.
///
/// # Errors
/// `0A000`: the statement is one of them; the server has one database.
pub(crate) fn only_database(statement: &ast::Stmt, source: &Source) -> Result<(), StatementError> {
    use ast::Stmt::{AlterDatabase, CreateDatabase, DropDatabase};
    if !matches!(statement, CreateDatabase(_) | AlterDatabase(_) | DropDatabase(_)) {
        return Ok(());
    }
    let error = SqlError::new("0A000", "the server has one database, \"postgres\"");
    let error = error.with_hint("Use schemas in this database, or start another server.");
    Err(source.error_at(statement.syntax().text_range().start().into(), error))
}

/// Returns the error of a role that changes an extension, which the first superuser owns.
pub(crate) fn must_own(name: &str) -> SqlError {
    SqlError::new("42501", format!("must be owner of extension {name}"))
}

/// Returns whether an extension is built in.
pub(crate) fn is_built_in(name: &str) -> bool {
    EXTENSIONS.contains(&name)
}

impl Schema {
    /// Checks CREATE EXTENSION and DROP EXTENSION, which then do nothing. Returns the command tag, and
    /// the notice about what it skips; `None` for any other statement.
    ///
    /// # Errors
    /// `0A000`: CREATE of an unknown extension, or DROP of a built-in one. `42704`: DROP of an unknown one.
    /// `42710`: CREATE of `plpgsql` without IF NOT EXISTS, because it always exists. `42501`: the acting role
    /// may not create or drop the extension.
    pub(crate) fn extension(
        &self,
        statement: &ast::Stmt,
        source: &Source,
    ) -> Result<Option<(&'static str, Option<Notice>)>, StatementError> {
        let refused =
            |node: &SyntaxNode, error| Err(source.error_at(node.text_range().start().into(), error));
        match statement {
            ast::Stmt::CreateExtension(create) => {
                let node = create.syntax();
                let name = create.extension().map(|name_node| ast::normalize_name_node(name_node.syntax()));
                let name = name.unwrap_or_default();
                if !is_built_in(&name) {
                    let error = SqlError::new("0A000", format!("extension \"{name}\" is not available"));
                    let hint =
                        format!("The functions of these extensions are built in: {}.", EXTENSIONS.join(", "));
                    return refused(node, error.with_hint(hint));
                }
                if name == "plpgsql" && create.if_not_exists().is_none() {
                    return refused(node, SqlError::new("42710", "extension \"plpgsql\" already exists"));
                }
                if name != "plpgsql" && !self.creates_on_database(self.acting) {
                    let message = format!("permission denied to create extension \"{name}\"");
                    let hint = "Must have CREATE privilege on current database to create this extension.";
                    return refused(node, SqlError::new("42501", message).with_hint(hint));
                }
                let skipped =
                    (name == "plpgsql").then(|| skipping("42710", "extension \"plpgsql\" already exists"));
                Ok(Some(("CREATE EXTENSION", skipped)))
            }
            ast::Stmt::DropExtension(drop) => {
                let names =
                    drop.extension_refs().map(|name_node| ast::normalize_name_node(name_node.syntax()));
                let mut skipped = None;
                for name in names {
                    let error = match is_built_in(&name) {
                        true if !self.is_superuser(self.acting) => must_own(&name),
                        true => SqlError::new(
                            "0A000",
                            format!("extension \"{name}\" is built in and cannot be dropped"),
                        ),
                        false if drop.if_exists().is_some() => {
                            let fact = format!("extension \"{name}\" does not exist");
                            skipped = Some(skipping("00000", &fact));
                            continue;
                        }
                        false => SqlError::new("42704", format!("extension \"{name}\" does not exist")),
                    };
                    return refused(drop.syntax(), error);
                }
                Ok(Some(("DROP EXTENSION", skipped)))
            }
            _ => Ok(None),
        }
    }
}
