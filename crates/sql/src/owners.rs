//! ALTER … OWNER TO, which dumps of PostgreSQL have for each object. There is one owner of all objects, so it
//! changes nothing; the object must exist.

use crate::StatementError;
use crate::schema::{Schema, unsupported};
use crate::source::Source;
use crate::types::{last_name, object_name};
use procedure::{Effect, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// Returns whether a statement only changes an owner.
fn changes_owner(node: &SyntaxNode) -> bool {
    node.children().any(|child| ast::OwnerTo::can_cast(child.kind()))
}

impl Schema {
    /// Executes ALTER SCHEMA, FUNCTION, PROCEDURE and VIEW.
    pub(crate) fn alter_owner(
        &self,
        statement: &ast::Stmt,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let node = statement.syntax();
        if !changes_owner(node) {
            return Err(unsupported(source, node, "this form of ALTER"));
        }
        let path = node.descendants().find_map(ast::PathRef::cast);
        let name = path.as_ref().map(object_name).unwrap_or_default();
        let (exists, code, what) = match statement {
            ast::Stmt::AlterSchema(own) => {
                let name = own.schema_ref().map(|own| ast::normalize_name_node(own.syntax()));
                let name = name.unwrap_or_default();
                (self.has_namespace(&name), "3F000", format!("schema \"{name}\""))
            }
            ast::Stmt::AlterView(_) => (self.view(&name).is_some(), "42P01", format!("relation \"{name}\"")),
            _ => {
                let name = path.as_ref().map(last_name).unwrap_or_default();
                (self.procedure(&name).is_some(), "42883", format!("function {name}"))
            }
        };
        match exists {
            true => Ok(Effect::None),
            false => {
                let error = SqlError::new(code, format!("{what} does not exist"));
                Err(source.error_at(node.text_range().start().into(), error))
            }
        }
    }
}
