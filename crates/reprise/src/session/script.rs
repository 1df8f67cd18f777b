//! Scripts and definitions: statements as text, with one transaction per statement.

use super::{Access, Session};
use crate::Error;
use crate::definitions::{Applied, Making, hold};
use crate::sequences::Taking;
use crate::worker::{Recorded, Request, Worker, room_for, serialization_failure};
use catalog::{CommitOrder, now_us};
use logging::Commit as CommitPoint;
use logging::content::StatementRecord;
use procedure::{Call, Effect, SqlError};
use sql::Schema;
use std::sync::Arc;
use transaction::{CommitError, Tables};

/// Returns a definition without the role that makes it.
fn without_role(statement: &str) -> &str {
    let rest = statement.strip_prefix("SET ROLE ").and_then(|rest| rest.split_once(";\n"));
    rest.map_or(statement, |(_, rest)| rest)
}

impl Session {
    /// Executes a script of statements, with one transaction per statement: definitions, INSERT, UPDATE,
    /// DELETE, CALL. All are durable when it returns.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// session.execute_script("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2);")?;
    /// let script = "INSERT INTO t VALUES (3);\nINSERT INTO u VALUES (1);";
    /// let error = session.execute_script(script).unwrap_err();
    /// assert!(error.to_string().starts_with("line 2"), "{error}");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The error of the first statement that fails, with its line and column in the script. Earlier
    /// statements are committed and durable, later ones did not run. 25001: a transaction is open, and no
    /// statement ran.
    pub fn execute_script(&mut self, script: &str) -> Result<(), Error> {
        self.refuse_temporary(script)?;
        let inner = Arc::clone(&self.worker.inner);
        let room = room_for(script, &inner.account)?;
        let statements = Schema::split(script)?;
        drop(room);
        let mut shown = self.nothing_shown();
        for (statement, line, column) in statements {
            let ran = if Schema::may_fill(&statement) {
                let zone = self.zone().cloned();
                self.refuse_in_block().and_then(|()| self.fill(&statement, zone.as_ref(), false)).map(|_| ())
            } else if inner.definitions.current().schema.may_move(&statement) {
                self.refuse_in_block().and_then(|()| self.run_moves(&statement, false))
            } else {
                self.run_statement(&statement).map(|_| ())
            };
            let ran = ran.map_err(|error| match error {
                Error::Statement(error) => Error::Statement(error.inside(line, column)),
                other => other,
            });
            shown = shown.and(self.must_be_durable());
            if let Err(error) = ran {
                inner.logs.wait(shown)?;
                return Err(error);
            }
        }
        Ok(inner.logs.wait(shown)?)
    }

    /// Sets whether later statements check the bodies of routines. Without the check, a routine may name
    /// tables, columns and routines that do not exist yet: its body is bound once they do, and until then a
    /// call raises the error. The check is on in a new session.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// session.check_bodies(false);
    /// session.execute_script(
    ///     "CREATE PROCEDURE empty() LANGUAGE plpgsql AS $$ BEGIN DELETE FROM t; END $$",
    /// )?;
    /// assert_eq!(session.call("empty", &[]).unwrap_err().sqlstate(), "42P01"); // undefined_table
    /// session.execute_script("CREATE TABLE t (id INT PRIMARY KEY)")?;
    /// session.call("empty", &[])?;
    /// # Ok(()) }
    /// ```
    pub fn check_bodies(&mut self, checks: bool) {
        self.checks_bodies = checks;
    }

    /// Runs a statement as one transaction.
    pub(super) fn run_statement(&mut self, statement: &str) -> Result<CommitPoint, Error> {
        self.refuse_other_role()?;
        self.worker.machine.services.notices.clear();
        match sql::needs_verifier(statement) {
            true => self.run_made(&sql::with_verifier(statement, crate::verifier)?),
            false => self.run_made(statement),
        }
    }

    /// As `run_statement`, for a statement without a password.
    pub(super) fn run_made(&mut self, statement: &str) -> Result<CommitPoint, Error> {
        self.refuse_in_block()?;
        self.worker.inner.logs.check_failed()?;
        self.begin_answer();
        if self.access == Access::ReadOnly
            && let Some(prepared) = self.prepare_typed(without_role(statement), &[])?
        {
            self.refuse_writes(&prepared)?;
        }
        let (timestamp_us, seed) = (now_us(), self.next_seed());
        loop {
            let inner = Arc::clone(&self.worker.inner);
            let room = room_for(statement, &inner.account)?;
            let applied = inner.definitions.applied(statement, self.checks_bodies)?;
            drop(room);
            let Effect::Run(procedure) = &applied.effect else {
                let record = StatementRecord { timestamp_us, seed, text: statement, written: None };
                return self.define(&record, applied);
            };
            if self.zone().is_some() {
                let error = SqlError::new("0A000", "a script in another time zone than UTC is not supported");
                return Err(error.with_hint("Execute each statement.").into());
            }
            self.worker.refresh();
            let call = Call { procedure, timestamp_us, seed };
            let request = Request { call, arguments: &[], recorded: Recorded::Statement(statement) };
            if let Some(commit) = self.run_request(&request)? {
                return Ok(commit);
            }
        }
    }

    /// Changes definitions as one transaction.
    fn define(&mut self, statement: &StatementRecord<'_>, applied: Applied) -> Result<CommitPoint, Error> {
        let mut applied = Some(applied);
        let inner = Arc::clone(&self.worker.inner);
        let patience = self.worker.patience(&self.settings());
        // A definition that changes nothing draws no number.
        let mut commit = CommitPoint { number: CommitOrder(0), ..self.nothing_shown() };
        self.check_log()?;
        let mut record = Vec::new();
        statement.write_definition(&mut record);
        inner.logs.check_size(record.len())?;
        let notices = loop {
            self.hold_definitions()?;
            // No snapshot is opened while definitions change.
            let alone = hold(&inner.maintenance);
            let mut has_begun = false;
            let prepare = |effect: &Effect, tables: &Tables| {
                has_begun = true;
                Taking { inner: &inner, tables }.give_back_for(effect)
            };
            let making = Making {
                checks_bodies: self.checks_bodies,
                runs_beside: inner.can_define_beside(),
                applied: &mut applied,
            };
            let Worker { workspace, pipeline, .. } = &mut self.worker;
            let changed = inner.definitions.change(statement, making, workspace, prepare, |workspace| {
                commit = pipeline.commit_definitions(workspace, &record).map_err(|error| match error {
                    CommitError::Conflict(conflict) => serialization_failure(conflict),
                    CommitError::Log(error) => error.into(),
                    CommitError::Interrupted(error) => Error::Sql(*error),
                })?;
                Ok(())
            });
            // A change that is cancelled while it waits for open transactions has read no row, and its answer
            // need not wait for a batch to become durable.
            if changed.is_err() && has_begun {
                self.definitions_failed();
            }
            // Open transactions may want to change definitions, or need maintenance.
            drop(alone);
            self.worker.let_go();
            match changed? {
                Some(notices) => break notices,
                None => patience.pause()?,
            }
        };
        self.worker.machine.services.notices.extend(notices);
        self.worker.refresh();
        self.worker.machine.frame.affected = 0;
        Ok(self.answers(commit))
    }

    /// Rolls a change of definitions back.
    pub(super) fn definitions_failed(&mut self) {
        self.worker.workspace.rollback_if_running();
        // Definitions read rows without adding them to the read set.
        self.shows_everything();
    }
}
