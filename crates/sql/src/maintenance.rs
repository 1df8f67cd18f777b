//! Maintenance: backups by CALL; and VACUUM and ANALYZE, which have no effect: the tables that they name
//! exist, and a role is told which of them it may not treat.

use crate::binder::Binder;
use crate::error::StatementError;
use crate::full_names::short;
use crate::notices::notice;
use crate::schema::Schema;
use crate::source::Source;
use crate::subject::Subject;
use crate::types::object_name;
use procedure::{CastContext, Machine, Notice, Severity, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// The built-in procedure that makes a backup.
const BACKUP: &str = "reprise_backup";

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

    /// Returns whether a CALL is of the built-in `reprise_backup`. A procedure of the same name hides
    /// the built-in.
    pub(crate) fn is_backup(&self, call: &ast::Call) -> bool {
        let path = call.procedure_name_ref().and_then(|name| name.path_ref());
        path.is_some_and(|path| object_name(&path) == BACKUP) && self.procedure(BACKUP).is_none()
    }

    /// Returns the argument of `reprise_backup`, an expression of constants.
    pub(crate) fn backup_name(&self, call: &ast::Call, source: &Source) -> Result<String, StatementError> {
        let (mut binder, node) = (Binder::new(self, source), call.syntax());
        let list = call.arg_list();
        let mut arguments = list.into_iter().flat_map(|list| list.args()).map(|argument| argument.expr());
        let (Some(Some(argument)), None) = (arguments.next(), arguments.next()) else {
            let error = SqlError::new("42883", format!("{BACKUP} takes one argument"));
            return Err(binder.error(node, error.with_hint("Give the name of the backup.")));
        };
        let value = binder.bind_as(&argument, catalog::ScalarType::Text, CastContext::Explicit)?;
        let mut machine = Machine::default();
        let value = value.evaluate(&mut machine).map_err(|error| binder.error(node, *error))?;
        match value {
            catalog::Datum::Bytes(name) => {
                Ok(String::from_utf8_lossy(machine.frame.arena.bytes(name)).into_owned())
            }
            _ => {
                let message = format!("the argument of {BACKUP} must not be NULL");
                Err(binder.error(node, SqlError::new("22004", message)))
            }
        }
    }
}
