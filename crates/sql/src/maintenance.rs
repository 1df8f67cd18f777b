//! VACUUM and ANALYZE, which have no effect: the tables that they name exist, and a role is told which of
//! them it may not treat.

use crate::binder::Binder;
use crate::error::StatementError;
use crate::notices::notice;
use crate::schema::Schema;
use crate::source::Source;
use crate::subject::Subject;
use crate::types::{object_name, short};
use procedure::{Notice, Severity};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

impl Schema {
    /// Returns the warnings of a VACUUM or ANALYZE: one for each table that the acting role does not own.
    ///
    /// # Errors
    /// `42P01`: a table does not exist.
    pub(crate) fn skipped_by_maintenance(
        &self,
        statement: &SyntaxNode,
        verb: &str,
        source: &Source,
    ) -> Result<Vec<Notice>, StatementError> {
        let binder = Binder::new(self, source);
        let mut warnings = Vec::new();
        for target in statement.descendants().filter_map(ast::TableRelationName::cast) {
            let path = target.table_name_ref().and_then(|name| name.path_ref());
            let name = object_name(&binder.part(path, target.syntax())?);
            if self.system_relation(&name).is_some() {
                continue;
            }
            if self.view(&name).is_none() {
                binder.table(&name, target.syntax())?;
            }
            if !self.owns(self.acting, &Subject::Relation(name.clone())) {
                let message =
                    format!("skipping \"{}\" --- only table or database owner can {verb} it", short(&name));
                warnings.push(notice(Severity::Warning, "01000", message));
            }
        }
        Ok(warnings)
    }
}
