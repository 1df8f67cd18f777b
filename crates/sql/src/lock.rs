//! LOCK TABLE.
//!
//! A transaction that has run a statement keeps the definitions as they are until it ends. So a mode that
//! conflicts with changes of definitions alone is a statement that does nothing else. In the other modes a
//! transaction runs alone.

use crate::StatementError;
use crate::binder::Binder;
use crate::roles::acl::{DELETE, INSERT, SELECT, TRUNCATE, UPDATE};
use crate::schema::Schema;
use crate::source::Source;
use crate::types::object_name;
use procedure::{Procedure, SqlError};
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

/// A LOCK TABLE whose transaction runs alone.
#[derive(Clone, Debug)]
pub struct TableLock {
    /// The first table.
    pub table: String,
    /// Whether the statement waits for other transactions: NOWAIT is not given.
    pub waits: bool,
}

/// What a LOCK TABLE does.
pub(crate) enum Locking {
    /// The transaction runs alone.
    Alone(TableLock),
    /// A statement that does nothing.
    Nothing(Arc<Procedure>),
}

impl Schema {
    /// Compiles a LOCK TABLE. Also returns the error of a role that may not lock a table.
    ///
    /// # Errors
    /// `42P01`: a table does not exist.
    pub(crate) fn lock(
        &self,
        lock: &ast::Lock,
        source: &Source,
    ) -> Result<(Locking, Option<SqlError>), StatementError> {
        let (mut binder, node) = (Binder::new(self, source), lock.syntax());
        let mode = lock.lock_mode_clause().map(|clause| source.text_of(clause.syntax()).to_uppercase());
        let mode = mode.unwrap_or_default();
        let words: Vec<&str> =
            mode.split_whitespace().filter(|word| !matches!(*word, "IN" | "MODE")).collect();
        let changes = UPDATE | DELETE | TRUNCATE;
        let (privileges, is_alone) = match words.as_slice() {
            ["ACCESS", "SHARE"] => (SELECT, false),
            ["ROW", "EXCLUSIVE"] => (changes | INSERT, false),
            ["ROW", "SHARE"] => (changes, false),
            _ => (changes, true),
        };
        let mut first = None;
        for relation in lock.relation_list().into_iter().flat_map(|list| list.relation_names()) {
            let path = relation.relation_name_ref().and_then(|name_ref| name_ref.path_ref());
            let path = binder.part(path, node)?;
            let name = object_name(&path);
            if self.view(&name).is_none() {
                binder.table(&name, path.syntax())?;
            }
            binder.need_object(&name, privileges);
            first.get_or_insert(name);
        }
        let locking = match first.filter(|_| is_alone) {
            Some(table) => Locking::Alone(TableLock { table, waits: lock.nowait().is_none() }),
            None => Locking::Nothing(Arc::new(self.block("$$ BEGIN NULL; END $$", source, node)?)),
        };
        Ok((locking, binder.refusal()))
    }
}
