//! LOCK TABLE.
//!
//! A transaction that has run a statement keeps the definitions as they are until it ends. So a mode that
//! conflicts with changes of definitions and with modes that are not supported is a statement that does
//! nothing else.

use crate::StatementError;
use crate::binder::Binder;
use crate::roles::acl::{DELETE, INSERT, SELECT, TRUNCATE, UPDATE};
use crate::schema::Schema;
use crate::source::Source;
use crate::types::object_name;
use procedure::{Procedure, SqlError};
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

impl Schema {
    /// Compiles a LOCK TABLE. Also returns the error of a role that may not lock a table.
    ///
    /// # Errors
    /// `42P01`: a table does not exist. `0A000`: the mode is not supported.
    pub(crate) fn lock(
        &self,
        lock: &ast::Lock,
        source: &Source,
    ) -> Result<(Arc<Procedure>, Option<SqlError>), StatementError> {
        let (mut binder, node) = (Binder::new(self, source), lock.syntax());
        let mode = lock.lock_mode_clause().map(|clause| source.text_of(clause.syntax()).to_uppercase());
        let mode = mode.unwrap_or_default();
        let words: Vec<&str> =
            mode.split_whitespace().filter(|word| !matches!(*word, "IN" | "MODE")).collect();
        let privileges = UPDATE | DELETE | TRUNCATE | INSERT;
        let privileges = match words.as_slice() {
            ["ACCESS", "SHARE"] => privileges | SELECT,
            ["ROW", "SHARE" | "EXCLUSIVE"] => privileges,
            _ => {
                let what = "LOCK TABLE in a mode other than ACCESS SHARE, ROW SHARE and ROW EXCLUSIVE";
                return Err(binder.unsupported(node, what));
            }
        };
        for relation in lock.relation_list().into_iter().flat_map(|list| list.relation_names()) {
            let path = relation.relation_name_ref().and_then(|name_ref| name_ref.path_ref());
            let path = binder.part(path, node)?;
            let name = object_name(&path);
            if self.view(&name).is_none() {
                binder.table(&name, path.syntax())?;
            }
            binder.need_object(&name, privileges);
        }
        let procedure = Arc::new(self.block("$$ BEGIN NULL; END $$", source, node)?);
        Ok((procedure, binder.refusal()))
    }
}
