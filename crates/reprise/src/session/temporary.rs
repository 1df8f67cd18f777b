//! The temporary relations of a session: the names in its statements, ON COMMIT, and their end.
//!
//! ON COMMIT belongs to the transaction: a table is dropped, or its rows are deleted, before the commit of
//! the transaction. Where a statement is the transaction, that follows its commit: no other session sees the
//! table, and no recovery keeps it.
//! Held by: `crates/reprise/tests/suite/temporary.rs`.

use super::{Access, Session, TransactionState};
use crate::Error;
use crate::temporary::TemporarySchema;
use catalog::OnCommit;
use procedure::{Notice, Severity, SqlError};
use sql::{Kind, Resolved, Schema};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// For this long the transaction that ends temporary tables is repeated.
const LONGEST_ATTEMPTS: Duration = Duration::from_secs(30);

/// A session that is dropped waits for at most this long for another one that changes definitions.
const LONGEST_DROP: Duration = Duration::from_secs(10);

impl Session {
    /// Sets the temporary schema of later statements, that of the client which uses the session; `None` is
    /// that of the session.
    pub fn use_temporary(&mut self, temporary: Option<&Arc<TemporarySchema>>) {
        match (&self.temporary, temporary) {
            (None, None) => return,
            (Some(own), Some(new)) if Arc::ptr_eq(own, new) => {}
            _ => self.temporary = temporary.map(Arc::clone),
        }
        self.worker.set_temporary(self.temporary_name());
    }

    /// Returns the name of the temporary schema, if the session has needed one.
    pub(super) fn temporary_name(&self) -> Option<Arc<str>> {
        self.temporary.as_ref()?.name().map(Arc::clone)
    }

    /// Returns the number of the temporary schema, if the session has needed one.
    pub fn temporary_number(&self) -> Option<u32> {
        self.temporary.as_ref()?.number()
    }

    /// Prepares for a statement that may make a temporary relation, or name the temporary schema.
    pub(super) fn open_temporary_for(&mut self, text: &str) {
        if self.temporary_number().is_none() && Schema::may_be_temporary(text) {
            let inner = &self.worker.inner;
            let own = self.temporary.get_or_insert_with(|| Arc::new(TemporarySchema::new(inner)));
            own.open();
            self.worker.set_temporary(self.temporary_name());
        }
    }

    /// Returns whether the session has temporary relations.
    fn has_temporary(&self) -> bool {
        self.temporary_name().is_some_and(|name| self.worker.version.schema.has_namespace(&name))
    }

    /// Refuses a script or a call by name, whose texts are not resolved.
    ///
    /// # Errors
    /// `0A000`: the session has temporary relations, or the script names the schema of some.
    pub(super) fn refuse_temporary(&mut self, script: &str) -> Result<(), Error> {
        self.catch_up();
        if !self.has_temporary() && !script.to_ascii_lowercase().contains("pg_temp") {
            return Ok(());
        }
        let message = "scripts and calls by name are not available to a session with temporary tables";
        Err(SqlError::new("0A000", message).with_hint("Execute each statement.").into())
    }

    /// Returns a definition with the session's schema before the names of its temporary relations; `None` if
    /// it names none.
    pub(super) fn resolved(&mut self, text: &str) -> Result<Option<Resolved>, Error> {
        self.open_temporary_for(text);
        let Some(name) = self.temporary_name() else { return Ok(None) };
        Ok(self.worker.version.schema.resolved(text, &name)?)
    }

    pub(super) fn notice(&mut self, content: SqlError) {
        let notice = Notice { severity: Severity::Notice, content };
        self.worker.machine.services.notices.push(notice);
    }

    /// Executes DISCARD TEMP: drops the temporary relations of the session, and those that sessions which are
    /// gone have left.
    ///
    /// # Errors
    /// As a definition.
    pub fn discard_temporary(&mut self) -> Result<(), Error> {
        self.catch_up();
        let own = self.temporary_name();
        let left = self.worker.inner.session_numbers.left_behind(&self.worker.version.schema);
        let own = own.filter(|name| self.worker.version.schema.has_namespace(name));
        let all: Vec<&str> = own.iter().map(|name| &**name).chain(left.iter().map(String::as_str)).collect();
        if all.is_empty() {
            return Ok(());
        }
        let text = format!("DROP SCHEMA IF EXISTS {} CASCADE", all.join(", "));
        if self.block.state == TransactionState::Open {
            self.begin_in_block()?;
            return self.stage(&text).inspect_err(|_| self.shows_everything());
        }
        let access = std::mem::replace(&mut self.access, Access::ReadWrite);
        let dropped = self.run_made(&text);
        self.access = access;
        dropped.map(|_| ())
    }

    /// Drops the tables with ON COMMIT DROP, and deletes the rows of those with ON COMMIT DELETE ROWS, in the
    /// open transaction.
    ///
    /// # Errors
    /// As the statements.
    pub(super) fn end_temporary_tables(&mut self) -> Result<(), Error> {
        let Some(name) = self.temporary_name() else { return Ok(()) };
        let ending = self.worker.version.schema.ending_with_transactions(&name);
        let mut dropped = Vec::new();
        for (table, path, on_commit) in ending {
            match on_commit {
                OnCommit::Drop => dropped.push(path),
                _ if self.has_rows(table.id) => self.empty(&path)?,
                _ => {}
            }
        }
        match dropped.is_empty() {
            true => Ok(()),
            false => self.stage(&format!("DROP TABLE {} CASCADE", dropped.join(", "))),
        }
    }

    fn empty(&mut self, path: &str) -> Result<(), Error> {
        let prepared = self.worker.version.schema.prepare(&format!("DELETE FROM {path}"), &[])?;
        match prepared.map(|prepared| prepared.kind) {
            Some(Kind::Run(procedure)) => self.run_in_block(&procedure, &[]),
            _ => Ok(()),
        }
    }

    /// Ends the temporary tables after a statement that was a transaction, in one of its own. The statement
    /// has committed, so whatever happens here is no error of it.
    pub(super) fn end_temporary_tables_of_statement(&mut self) {
        if self.block.state != TransactionState::None {
            return;
        }
        let Some(name) = self.temporary_name() else { return };
        if self.worker.version.schema.ending_with_transactions(&name).is_empty() {
            return;
        }
        // What the client is to be told of the statement.
        let notices = self.worker.take_notices();
        let notifications = self.worker.machine.services.take_notifications(false);
        let shown = self.must_be_durable();
        // The caller's wait would repeat the statement.
        let by_caller = std::mem::replace(&mut self.waiting.by_caller, false);
        let access = std::mem::replace(&mut self.access, Access::ReadWrite);
        let blocks_by = self.worker.pipeline.blocks_by;
        blocks_by(&mut || self.repeat_end_in_own_transaction());
        self.access = access;
        self.waiting.by_caller = by_caller;
        self.worker.races.busy = None;
        self.answer = self.answer.and(shown);
        self.worker.machine.services.take_messages(notices, &notifications);
    }

    fn repeat_end_in_own_transaction(&mut self) {
        let begun = Instant::now();
        while let Err(error) = self.end_in_own_transaction() {
            if begun.elapsed() > LONGEST_ATTEMPTS || error.sqlstate() == "57014" {
                tracing::warn!(%error, "rows of temporary tables stay until the next commit: {error}");
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn end_in_own_transaction(&mut self) -> Result<(), Error> {
        self.catch_up();
        self.begin()?;
        let ended = self.begin_in_block().and_then(|()| self.commit_open());
        if ended.is_err() {
            self.rollback();
        }
        ended.map(|_| ())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The client of a shared session ends its temporary relations itself.
        let is_own = self.temporary.as_ref().is_some_and(|own| Arc::strong_count(own) == 1);
        if !is_own || self.temporary_number().is_none() || std::thread::panicking() {
            return;
        }
        self.rollback();
        self.set_lock_timeout(Some(LONGEST_DROP));
        if let Err(error) = self.discard_temporary() {
            tracing::warn!(%error, "temporary tables stay until another session ends: {error}");
        }
    }
}
