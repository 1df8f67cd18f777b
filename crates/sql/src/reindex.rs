//! REINDEX, which has no effect: indexes are ordered trees in memory, which never need to be built again.

use crate::StatementError;
use crate::schema::Schema;
use crate::source::Source;
use crate::subject::Subject;
use crate::system::DATABASE;
use crate::types::object_name;
use procedure::SqlError;
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

impl Schema {
    /// Checks the object and the options of a REINDEX. Returns the error of a role that does not own the
    /// object.
    ///
    /// # Errors
    /// `42P01`, `3F000`: the object does not exist. `42809`: it has another kind. `42704`: the tablespace
    /// does not exist. `42601`: an option is unknown.
    pub(crate) fn reindex(
        &self,
        reindex: &ast::Reindex,
        source: &Source,
    ) -> Result<Option<SqlError>, StatementError> {
        let node = reindex.syntax();
        let at = |node: &SyntaxNode, (code, message): (&str, String)| {
            source.error_at(node.text_range().start().into(), SqlError::new(code, message))
        };
        let options = reindex.reindex_option_list();
        for option in options.iter().flat_map(|list| list.syntax().children()) {
            let text = option.text().to_string().to_lowercase();
            let mut words = text.split_whitespace();
            let refused = match (words.next().unwrap_or_default(), words.next()) {
                ("verbose" | "concurrently", None | Some("on" | "off" | "true" | "false" | "1" | "0"))
                | ("tablespace", Some("pg_default")) => continue,
                (name @ ("verbose" | "concurrently"), _) => {
                    ("42601", format!("{name} requires a Boolean value"))
                }
                ("tablespace", name) => {
                    ("42704", format!("tablespace \"{}\" does not exist", name.unwrap_or_default()))
                }
                (name, _) => ("42601", format!("unrecognized REINDEX option \"{name}\"")),
            };
            return Err(at(&option, refused));
        }
        let target = reindex.reindex_target();
        let target = target.ok_or_else(|| at(node, ("42601", "this statement is incomplete".into())))?;
        let subject = self.reindexed(&target).map_err(|refused| at(target.syntax(), refused))?;
        Ok((!self.owns(self.acting, &subject)).then(|| self.not_owner(&subject)))
    }

    /// Returns the object of a REINDEX, or the SQLSTATE and the message of its error.
    fn reindexed(&self, target: &ast::ReindexTarget) -> Result<Subject, (&'static str, String)> {
        let missing = |name: &str| ("42P01", format!("relation \"{name}\" does not exist"));
        let of = |path: Option<ast::PathRef>| path.map(|path| object_name(&path)).unwrap_or_default();
        match target {
            ast::ReindexTarget::ReindexTargetTable(table) => {
                let name = of(table.table_name_ref().and_then(|name| name.path_ref()));
                match self.catalog().table(&name) {
                    Ok(table) if table.sequence.is_none() => Ok(Subject::Relation(name)),
                    Err(_) if self.system_relation(&name).is_some() => Ok(Subject::Database),
                    Err(_) if !self.relation_exists(&name) => Err(missing(&name)),
                    _ => Err(("42809", format!("\"{name}\" is not a table or materialized view"))),
                }
            }
            ast::ReindexTarget::ReindexTargetIndex(index) => {
                let name = of(index.index_ref().and_then(|name| name.path_ref()));
                match self.catalog().index(&name) {
                    Ok(_) => Ok(Subject::Relation(name)),
                    Err(_) if !self.relation_exists(&name) => Err(missing(&name)),
                    Err(_) => Err(("42809", format!("\"{name}\" is not an index"))),
                }
            }
            ast::ReindexTarget::ReindexTargetSchema(schema) => {
                let name = schema.schema_ref().map(|name| ast::normalize_name_node(name.syntax()));
                let name = name.unwrap_or_default();
                match self.has_namespace(&name) || matches!(&*name, "pg_catalog" | "information_schema") {
                    true => Ok(Subject::Namespace(name)),
                    false => Err(("3F000", format!("schema \"{name}\" does not exist"))),
                }
            }
            ast::ReindexTarget::ReindexTargetDatabase(database) => {
                current(database.database_ref().map(|name| ast::normalize_name_node(name.syntax())))
            }
            ast::ReindexTarget::ReindexTargetSystem(system) => {
                current(system.database_ref().map(|name| ast::normalize_name_node(name.syntax())))
            }
        }
    }
}

/// Returns the database if a name is its name, or the error of another name.
fn current(name: Option<String>) -> Result<Subject, (&'static str, String)> {
    match name.is_none_or(|name| name == DATABASE) {
        true => Ok(Subject::Database),
        false => Err(("0A000", "can only reindex the currently open database".into())),
    }
}
