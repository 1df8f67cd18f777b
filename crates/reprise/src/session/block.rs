//! Transactions of several statements: their begin, statements, savepoints and end.

use super::alone::Alone;
use super::staged::{Staged, StagedMark};
use super::{Access, Session, read_only};
use crate::worker::{Recorded, Request, serialization_failure};
use crate::{Commit, Error};
use catalog::now_us;
use logging::Commit as CommitPoint;
use procedure::{Call, Conflict, ConstraintModes, Failure, Procedure, SqlError};
use std::sync::Arc;
use storage::Snapshot;
use transaction::{CommitError, Holding, LoggedBy, Savepoint, Tables};

/// The state of a session's transaction of several statements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TransactionState {
    /// No such transaction is open: each statement is one transaction.
    #[default]
    None,
    /// A transaction is open.
    Open,
    /// A transaction is open, and a statement of it has failed: it can only be rolled back.
    Failed,
}

/// A read set of up to this many rows and index leaves is validated after each statement of its transaction.
const ALWAYS_CHECKED: usize = 4096;

/// A savepoint that a client has set.
struct NamedSavepoint {
    name: String,
    /// `None` in a READ ONLY transaction.
    savepoint: Option<Savepoint>,
    /// The definitions that the transaction had changed at the savepoint; `None` if there were none.
    definitions: Option<Box<StagedMark>>,
    /// SET CONSTRAINTS up to the savepoint.
    constraint_modes: ConstraintModes,
    /// The access mode of the transaction at the savepoint.
    access: Access,
    /// Whether LOCK TABLE ran the transaction alone at the savepoint.
    is_alone: bool,
}

/// The transaction of several statements.
#[derive(Default)]
pub(super) struct Block {
    pub(super) state: TransactionState,
    /// Whether the transaction has run a statement.
    pub(super) begun: bool,
    pub(super) timestamp_us: i64,
    pub(super) access: Access,
    /// The snapshot of a READ ONLY transaction; `None` in other transactions.
    pub(super) snapshot: Option<Snapshot>,
    /// The changed definitions; `None` if there are none.
    pub(super) staged: Option<Box<Staged>>,
    /// LOCK TABLE keeps all other transactions from beginning; `None` if none was executed.
    pub(super) alone: Option<Arc<Alone>>,
    /// Earlier private tables, which the transaction may have observed; first those that it had found.
    pub(super) retired: Vec<Tables>,
    /// Savepoints, oldest first.
    savepoints: Vec<NamedSavepoint>,
    /// The conflict to which the transaction was lost as a whole, its savepoints with it.
    lost_to: Option<Conflict>,
    /// Size of the read set, in rows and index leaves, when it was last valid.
    checked: usize,
}

impl Session {
    /// Returns whether the open transaction has changed definitions.
    pub fn changes_definitions(&self) -> bool {
        self.block.staged.is_some()
    }

    /// Checks that no transaction is open, for functions that run a separate one.
    ///
    /// # Errors
    /// `25001`: a transaction is open.
    #[inline]
    pub(super) fn refuse_in_block(&self) -> Result<(), Error> {
        if self.block.state == TransactionState::None {
            return Ok(());
        }
        let message = "cannot run a separate transaction while a transaction is open";
        let hint = "Execute a CALL statement, or end the transaction first.";
        Err(SqlError::new("25001", message).with_hint(hint).into())
    }

    /// Begins a transaction. The session's statements belong to it until `commit` or `rollback`.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// session.execute_script("CREATE TABLE t (id INT PRIMARY KEY)")?;
    /// session.begin()?;
    /// session.execute("INSERT INTO t VALUES (1)", params![])?;
    /// session.rollback();
    /// assert!(session.execute("SELECT id FROM t", params![])?.rows.is_empty());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `25001`: a transaction is open.
    pub fn begin(&mut self) -> Result<(), Error> {
        if self.block.state != TransactionState::None {
            let message = "there is already a transaction in progress";
            return Err(SqlError::new("25001", message).into());
        }
        self.begin_answer();
        self.forget_constraint_modes();
        self.block = Block { state: TransactionState::Open, access: self.access, ..Block::default() };
        Ok(())
    }

    /// Commits the open transaction. It survives a crash once the commit is durable.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// session.execute_script("CREATE TABLE t (id INT PRIMARY KEY)")?;
    /// session.begin()?;
    /// session.execute("INSERT INTO t VALUES (1)", params![])?;
    /// session.execute("INSERT INTO t VALUES (2)", params![])?;
    /// session.commit()?.wait()?;
    /// assert_eq!(session.execute("SELECT id FROM t", params![])?.rows.len(), 2);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// 40001: the transaction lost a race. 25P02: a statement of it had failed. In both cases it was rolled
    /// back. 25P01: no transaction is open. `Error::Log`: the log failed.
    pub fn commit(&mut self) -> Result<Commit, Error> {
        match self.block.state {
            TransactionState::None => {
                Err(SqlError::new("25P01", "there is no transaction in progress").into())
            }
            TransactionState::Failed => {
                self.rollback();
                Err(failed_block())
            }
            TransactionState::Open => {
                let point = self.commit_open()?;
                Ok(Commit::new(&self.database, point))
            }
        }
    }

    pub(super) fn commit_open(&mut self) -> Result<CommitPoint, Error> {
        if self.block.begun && self.block.snapshot.is_none() {
            let checked = self.check_deferred().and_then(|()| {
                // Nothing is left to check of the rows that go now.
                self.worker.machine.services.constraint_modes.set_all(false);
                self.end_temporary_tables()
            });
            let checked = checked.inspect_err(|_| self.rollback());
            checked.map_err(|error| self.without_hidden_values(error))?;
        }
        self.forget_constraint_modes();
        let block = std::mem::take(&mut self.block);
        if !block.begun || block.snapshot.is_some() {
            return Ok(self.must_be_durable());
        }
        if let Some(staged) = block.staged {
            return self.commit_staged(staged, block.retired);
        }
        let worker = &mut self.worker;
        if !worker.workspace.writes_anything() && worker.workspace.observations() == block.checked {
            let number = worker.workspace.end_reads();
            worker.tally.read += 1;
            worker.after_call();
            let commit = worker.pipeline.outcome_of_reads(number).commit;
            return Ok(self.answers(commit));
        }
        match worker.commit(LoggedBy::Value) {
            Ok(commit) => Ok(self.answers(commit)),
            Err(CommitError::Log(error)) => {
                self.shows_what_was_read();
                Err(error.into())
            }
            Err(CommitError::Conflict(conflict)) => Err(worker.lost_at_commit(conflict)),
            Err(CommitError::Interrupted(error)) => {
                self.shows_what_was_read();
                Err(Error::Sql(*error))
            }
        }
    }

    /// Rolls the open transaction back. Does nothing if none is open.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// session.execute_script("CREATE TABLE t (id INT PRIMARY KEY)")?;
    /// session.begin()?;
    /// session.execute("INSERT INTO t VALUES (1)", params![])?;
    /// session.rollback();
    /// assert!(session.execute("SELECT * FROM t", params![])?.rows.is_empty());
    /// # Ok(()) }
    /// ```
    pub fn rollback(&mut self) {
        self.forget_constraint_modes();
        let mut block = std::mem::take(&mut self.block);
        if block.begun {
            self.worker.workspace.rollback_if_running();
            self.worker.after_call();
        } else {
            self.worker.let_go();
        }
        if let Some(staged) = &mut block.staged {
            staged.readmit_others(&self.worker.inner);
            self.worker.refresh();
        }
        self.free_private(&block.retired);
    }

    /// Makes an open transaction a failed one, because a statement of it has failed or was refused.
    pub fn fail_transaction(&mut self) {
        if self.block.state == TransactionState::Open {
            if self.block.savepoints.is_empty() {
                let Block { access, lost_to, .. } = self.block;
                self.rollback();
                // COMMIT or ROLLBACK AND CHAIN reads the access mode later.
                self.block.access = access;
                self.block.lost_to = lost_to;
            }
            self.block.state = TransactionState::Failed;
        }
    }

    /// SAVEPOINT.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// session.execute_script("CREATE TABLE t (id INT PRIMARY KEY)")?;
    /// session.begin()?;
    /// session.execute("INSERT INTO t VALUES (1)", params![])?;
    /// session.set_savepoint("before_second")?;
    /// session.execute("INSERT INTO t VALUES (2)", params![])?;
    /// session.roll_back_to_savepoint("before_second")?;
    /// session.release_savepoint("before_second")?;
    /// session.commit()?.wait()?;
    /// assert_eq!(session.execute("SELECT * FROM t", params![])?.rows.len(), 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `25P01`: no transaction is open. `Error::Log`: the log has failed.
    pub fn set_savepoint(&mut self, name: &str) -> Result<(), Error> {
        if self.block.state != TransactionState::Open {
            let message = "SAVEPOINT can only be used in transaction blocks";
            return Err(SqlError::new("25P01", message).into());
        }
        self.begin_in_block()?;
        let name = name.to_owned();
        let savepoint = self.block.snapshot.is_none().then(|| self.worker.workspace.set_savepoint());
        let definitions = self.mark_staged();
        self.block.savepoints.push(NamedSavepoint {
            name,
            savepoint,
            definitions,
            constraint_modes: self.worker.machine.services.constraint_modes.clone(),
            access: self.block.access,
            is_alone: self.block.alone.is_some(),
        });
        Ok(())
    }

    fn find_savepoint(&self, name: &str) -> Result<usize, Error> {
        let index = self.block.savepoints.iter().rposition(|savepoint| savepoint.name == name);
        index.ok_or_else(|| match self.block.lost_to {
            Some(conflict) => serialization_failure(conflict),
            None => SqlError::new("3B001", format!("savepoint \"{name}\" does not exist")).into(),
        })
    }

    /// RELEASE SAVEPOINT: removes the savepoint and all later ones.
    ///
    /// # Errors
    /// `3B001`: there is no such savepoint.
    pub fn release_savepoint(&mut self, name: &str) -> Result<(), Error> {
        let index = self.find_savepoint(name)?;
        if let Some(savepoint) = self.block.savepoints[index].savepoint {
            self.worker.workspace.release_savepoint(savepoint);
        }
        self.block.savepoints.truncate(index);
        Ok(())
    }

    /// ROLLBACK TO SAVEPOINT: undoes all later changes, and the transaction continues.
    ///
    /// # Errors
    /// `3B001`: there is no such savepoint. `40001`: the whole transaction was lost to another one.
    pub fn roll_back_to_savepoint(&mut self, name: &str) -> Result<(), Error> {
        let index = self.find_savepoint(name)?;
        self.block.savepoints.truncate(index + 1);
        let NamedSavepoint { savepoint, ref definitions, access, is_alone, .. } =
            self.block.savepoints[index];
        let definitions = definitions.clone();
        self.block.alone.take_if(|_| !is_alone);
        if let Some(savepoint) = savepoint {
            self.worker.workspace.roll_back_to(savepoint);
        }
        let modes = self.block.savepoints[index].constraint_modes.clone();
        self.worker.machine.services.constraint_modes = modes;
        self.roll_back_staged(definitions.as_deref());
        self.block.state = TransactionState::Open;
        self.block.access = access;
        Ok(())
    }

    /// Begins the transaction with its first statement.
    pub(super) fn begin_in_block(&mut self) -> Result<(), Error> {
        if self.block.begun {
            self.follow_rights();
            return Ok(());
        }
        let settings = self.settings();
        if self.block.access == Access::ReadOnly {
            self.block.snapshot = Some(self.worker.open_snapshot(&settings)?);
        } else {
            self.worker.inner.logs.check_failed()?;
            while !self.worker.begin(&settings)? {}
            self.worker.pipeline.begin();
            self.worker.workspace.hold_rows(Holding::Written);
        }
        self.block.begun = true;
        self.block.timestamp_us = now_us();
        Ok(())
    }

    /// Takes over changed roles and privileges in the open transaction, whose tables they leave alone.
    pub(super) fn follow_rights(&mut self) {
        let changed = match self.block.staged {
            None => self.worker.inner.definitions.with_objects_of(&self.worker.version),
            Some(_) => None,
        };
        if let Some(version) = changed {
            self.worker.enter_version(version);
        }
    }

    /// Runs a statement in the open transaction, with encoded arguments.
    pub(super) fn run_in_block(&mut self, procedure: &Procedure, arguments: &[u8]) -> Result<(), Error> {
        let (timestamp_us, seed) = (self.block.timestamp_us, self.next_seed());
        let call = Call { procedure, timestamp_us, seed };
        let request = Request { call, arguments, recorded: Recorded::Rows };
        if let Some(snapshot) = self.block.snapshot.take() {
            let ran = self.run_on(&snapshot, &request);
            self.block.snapshot = Some(snapshot);
            if ran.is_err() && self.worker.races.busy.is_none() {
                self.statement_failed();
            }
            return ran;
        }
        if self.block.access == Access::ReadOnly && !procedure.read_only {
            return Err(read_only::refused("a statement that writes"));
        }
        self.make_deferred_for(procedure)?;
        if !procedure.read_only {
            self.check_log()?;
        }
        let settings = self.settings();
        loop {
            self.worker.load(&request)?;
            let savepoint = self.worker.workspace.set_savepoint();
            let ran = self.worker.execute(call);
            self.shows_what_was_read();
            // Before an answer or an error is shown, the read set must be valid: it may mix states of
            // different moments.
            let ran = match ran {
                Ok(()) => self.check_reads().map_err(Failure::Conflict),
                Err(Failure::Error(error)) => match self.worker.workspace.reads_hold() {
                    Ok(()) => Err(Failure::Error(error)),
                    Err(conflict) => Err(Failure::Conflict(conflict)),
                },
                Err(failure) => Err(failure),
            };
            let conflict = match ran {
                Ok(()) => {
                    self.worker.workspace.release_savepoint(savepoint);
                    self.worker.forget_races();
                    return Ok(());
                }
                Err(Failure::Error(error)) => {
                    self.worker.workspace.release_savepoint(savepoint);
                    self.statement_failed();
                    return Err(Error::Sql(*error));
                }
                Err(Failure::Conflict(conflict)) => conflict,
                Err(_) => Conflict::Read,
            };
            if self.worker.machine.has_sent_rows() {
                return Err(self.lost(conflict));
            }
            self.worker.workspace.forget_since(savepoint);
            self.worker.workspace.release_savepoint(savepoint);
            self.worker.workspace.heat_blocker();
            // If the reads of earlier statements are no longer valid, another attempt fails in the same way.
            if let Err(conflict) = self.worker.workspace.reads_hold() {
                return Err(self.lost(conflict));
            }
            if let Err(error) = self.worker.before_retry(conflict, &settings) {
                // If the caller waits, the statement has not failed yet.
                if self.worker.races.busy.is_none() {
                    self.statement_failed();
                }
                return Err(error);
            }
        }
    }

    /// Validates the read set, so that the transaction's answers show the state of one moment. A large read
    /// set is validated again only when it has grown by an eighth.
    fn check_reads(&mut self) -> Result<(), Conflict> {
        let observed = self.worker.workspace.observations();
        if observed > ALWAYS_CHECKED && observed - self.block.checked.min(observed) < observed / 8 {
            return Ok(());
        }
        self.worker.workspace.reads_hold()?;
        self.block.checked = observed;
        Ok(())
    }

    /// Notes that a statement has failed. Undoes the changes since the last savepoint at once, so that no
    /// other transaction waits for them.
    pub(super) fn statement_failed(&mut self) {
        self.worker.tally.failed += 1;
        self.worker.forget_races();
        self.worker.workspace.stop_waiting();
        match self.block.savepoints.last() {
            Some(NamedSavepoint { savepoint: Some(last), definitions, is_alone, .. }) => {
                let definitions = definitions.clone();
                self.block.alone.take_if(|_| !is_alone);
                self.worker.workspace.roll_back_to(*last);
                // The writes that remain are to the tables of that moment.
                self.roll_back_staged(definitions.as_deref());
            }
            Some(_) => {}
            None => self.give_up(),
        }
    }

    /// Gives up a transaction that has lost a race, and returns its error.
    fn lost(&mut self, conflict: Conflict) -> Error {
        self.worker.tally.failed += 1;
        self.worker.workspace.tables().aborts.count(conflict);
        self.worker.forget_races();
        self.give_up();
        self.block.lost_to = Some(conflict);
        serialization_failure(conflict)
    }

    fn give_up(&mut self) {
        self.worker.workspace.rollback_if_running();
        self.block.savepoints.clear();
        self.block.snapshot = None;
        self.block.begun = false;
        self.block.alone = None;
        if let Some(staged) = &mut self.block.staged {
            staged.readmit_others(&self.worker.inner);
        }
    }
}

pub(super) fn failed_block() -> Error {
    let message = "current transaction is aborted, commands ignored until end of transaction block";
    Error::Sql(SqlError::new("25P02", message))
}
