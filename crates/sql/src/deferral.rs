//! SET CONSTRAINTS: finds the named constraints.

use crate::error::StatementError;
use crate::schema::Schema;
use crate::source::Source;
use catalog::{Deferral, TableId};
use procedure::SqlError;
use squawk_syntax::ast::{self, AstNode};

/// SET CONSTRAINTS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetConstraints {
    /// The constraints, by table and name; `None`: all.
    pub constraints: Option<Vec<(TableId, String)>>,
    /// Whether the statement says DEFERRED, rather than IMMEDIATE.
    pub deferred: bool,
}

impl Schema {
    /// Binds SET CONSTRAINTS. A name denotes the constraints of this name of all tables in its schema.
    pub(crate) fn set_constraints(
        &self,
        set: &ast::SetConstraints,
        source: &Source,
    ) -> Result<SetConstraints, StatementError> {
        let deferred = matches!(set.constraint_timing(), Some(ast::ConstraintTiming::Deferred(_)));
        if set.all_token().is_some() {
            return Ok(SetConstraints { constraints: None, deferred });
        }
        let mut constraints = Vec::new();
        for name in set.constraint_name_refs() {
            let text = source.text_of(name.syntax());
            let mut parts: Vec<String> = text.split('.').map(|part| folded(part.trim())).collect();
            let constraint = parts.pop().unwrap_or_default();
            let schema = parts.pop().unwrap_or_else(|| "public".into());
            let error = |code: &str, message: String| {
                Err(source.error_at(name.syntax().text_range().start().into(), SqlError::new(code, message)))
            };
            let all = self.constraints();
            let named =
                all.iter().filter(|known| known.name == constraint && schema_of(&known.table.name) == schema);
            let named: Vec<_> = named.collect();
            if named.is_empty() {
                return error("42704", format!("constraint \"{constraint}\" does not exist"));
            }
            if named.iter().any(|known| known.deferral == Deferral::Never) {
                return error("42809", format!("constraint \"{constraint}\" is not deferrable"));
            }
            constraints.extend(named.iter().map(|known| (known.table.id, constraint.clone())));
        }
        Ok(SetConstraints { constraints: Some(constraints), deferred })
    }
}

/// Returns a name as it is stored.
fn folded(name: &str) -> String {
    match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => name.to_lowercase(),
    }
}

fn schema_of(table: &str) -> &str {
    table.split_once('.').map_or("public", |(schema, _)| schema)
}
