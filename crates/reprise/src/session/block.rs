//! Transactions of several statements: where they begin and end, and their savepoints.

use super::staged::Staged;
use super::{Access, Session, read_only, serialization_failure};
use crate::Error;
use catalog::{Value, now_us};
use logging::Commit;
use procedure::{Call, Conflict, Failure, Procedure, SqlError, execute};
use storage::Snapshot;
use transaction::{CommitError, Holding, LoggedBy, Savepoint};

/// Where a session stands with transactions of several statements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TransactionState {
    /// Each statement is a transaction of its own.
    #[default]
    None,
    /// One is open.
    Open,
    /// One is open, and a statement of it has failed: it can only be rolled back.
    Failed,
}

/// Up to this many rows and index leaves, all that a transaction has observed is looked through after each of
/// its statements.
const ALWAYS_CHECKED: usize = 4096;

/// A savepoint that a client has set.
struct NamedSavepoint {
    name: String,
    /// `None` in a READ ONLY transaction.
    savepoint: Option<Savepoint>,
    /// How many definitions the transaction had changed.
    definitions: usize,
    /// What the transaction was allowed to do.
    access: Access,
}

/// The transaction of several statements.
#[derive(Default)]
pub(super) struct Block {
    pub(super) state: TransactionState,
    /// Whether it has run a statement.
    pub(super) begun: bool,
    pub(super) timestamp_us: i64,
    pub(super) access: Access,
    /// What it reads, where it has begun as READ ONLY.
    snapshot: Option<Snapshot>,
    /// What it has changed of the definitions.
    pub(super) staged: Option<Box<Staged>>,
    /// Savepoints, the last one last.
    savepoints: Vec<NamedSavepoint>,
    /// Rows and index leaves that it had observed when all of them were found to hold.
    checked: usize,
}

impl Session {
    /// Where the session stands.
    pub fn transaction_state(&self) -> TransactionState {
        self.block.state
    }

    /// Whether the open transaction has changed definitions.
    pub fn changes_definitions(&self) -> bool {
        self.block.staged.is_some()
    }

    /// Refuses what is a transaction of its own while another one is open.
    #[inline]
    pub(super) fn refuse_in_block(&self) -> Result<(), Error> {
        if self.block.state == TransactionState::None {
            return Ok(());
        }
        let message = "a transaction is open: this function would run a transaction of its own";
        let hint = "Run a CALL by `query` or `run_prepared`, or end the transaction first.";
        Err(SqlError::new("25001", message).with_hint(hint).into())
    }

    /// Begins a transaction of several statements: those that `query`, `run_prepared` and their like run
    /// until `commit_block`.
    pub fn begin_block(&mut self) {
        self.begin_answer();
        if self.block.state == TransactionState::None {
            self.block = Block { state: TransactionState::Open, access: self.access, ..Block::default() };
        }
    }

    /// Ends the transaction. What must be durable before that is acknowledged; nothing when it was rolled
    /// back, as a statement of it had failed, or when it did nothing.
    ///
    /// # Errors
    /// It lost a race (40001): nothing of it happened. Or the log failed.
    pub fn commit_block(&mut self) -> Result<Option<Commit>, Error> {
        if self.block.state != TransactionState::Open {
            self.rollback_block();
        }
        let block = std::mem::take(&mut self.block);
        if !block.begun || block.snapshot.is_some() {
            return Ok(None);
        }
        if let Some(staged) = block.staged {
            return self.commit_staged(&staged).map(Some);
        }
        if !self.workspace.writes_anything() && self.workspace.observations() == block.checked {
            let number = self.workspace.end_reads();
            self.read += 1;
            self.after_call();
            return Ok(Some(self.answers(self.pipeline.outcome_of_reads(number).commit)));
        }
        match self.commit(LoggedBy::Value) {
            Ok(commit) => Ok(Some(commit)),
            Err(CommitError::Log(error)) => Err(error.into()),
            Err(CommitError::Conflict(conflict)) => Err(self.lost_at_commit(conflict)),
        }
    }

    /// Ends the transaction as if it had never been.
    pub fn rollback_block(&mut self) {
        let block = std::mem::take(&mut self.block);
        if block.begun {
            self.workspace.rollback_if_running();
            self.after_call();
        }
        if block.staged.is_some() {
            self.refresh();
        }
    }

    /// Takes note that a statement has failed, whether or not it ran: an open transaction has failed with it.
    pub fn fail_block(&mut self) {
        if self.block.state == TransactionState::Open {
            if self.block.savepoints.is_empty() {
                let access = self.block.access;
                self.rollback_block();
                // A transaction that is chained to this one has its modes.
                self.block.access = access;
            }
            self.block.state = TransactionState::Failed;
        }
    }

    /// SAVEPOINT.
    ///
    /// # Errors
    /// `25P01` when no transaction is open; the log has failed.
    pub fn set_savepoint(&mut self, name: &str) -> Result<(), Error> {
        if self.block.state != TransactionState::Open {
            let message = "SAVEPOINT can only be used in transaction blocks";
            return Err(SqlError::new("25P01", message).into());
        }
        self.begin_in_block()?;
        let name = name.to_owned();
        let savepoint = self.block.snapshot.is_none().then(|| self.workspace.set_savepoint());
        let definitions = self.block.staged.as_ref().map_or(0, |own| own.len());
        self.block.savepoints.push(NamedSavepoint {
            name,
            savepoint,
            definitions,
            access: self.block.access,
        });
        Ok(())
    }

    fn find_savepoint(&self, name: &str) -> Result<usize, Error> {
        let place = self.block.savepoints.iter().rposition(|own| own.name == name);
        place.ok_or_else(|| SqlError::new("3B001", format!("savepoint \"{name}\" does not exist")).into())
    }

    /// RELEASE SAVEPOINT: it and all later ones are forgotten.
    ///
    /// # Errors
    /// `3B001` when there is no such savepoint.
    pub fn release_savepoint(&mut self, name: &str) -> Result<(), Error> {
        let place = self.find_savepoint(name)?;
        if let Some(savepoint) = self.block.savepoints[place].savepoint {
            self.workspace.release_savepoint(savepoint);
        }
        self.block.savepoints.truncate(place);
        Ok(())
    }

    /// ROLLBACK TO SAVEPOINT: what came after it has not happened, and the transaction goes on.
    ///
    /// # Errors
    /// `3B001` when there is no such savepoint; `0A000` when definitions have changed since.
    pub fn roll_back_to_savepoint(&mut self, name: &str) -> Result<(), Error> {
        let place = self.find_savepoint(name)?;
        let NamedSavepoint { savepoint, definitions, access, .. } = self.block.savepoints[place];
        if self.block.staged.as_ref().map_or(0, |own| own.len()) != definitions {
            let message = "rolling back to a savepoint before definitions have changed is not supported";
            return Err(SqlError::new("0A000", message).with_hint("Roll the whole transaction back.").into());
        }
        self.block.savepoints.truncate(place + 1);
        if let Some(savepoint) = savepoint {
            self.workspace.roll_back_to(savepoint);
        }
        self.block.state = TransactionState::Open;
        self.block.access = access;
        Ok(())
    }

    /// Begins the transaction with its first statement.
    pub(super) fn begin_in_block(&mut self) -> Result<(), Error> {
        if self.block.begun {
            return Ok(());
        }
        if self.block.access == Access::ReadOnly {
            self.block.snapshot = Some(self.open_snapshot()?);
        } else {
            self.inner.logs.check_failed()?;
            while !self.begin()? {}
            self.pipeline.begin();
            self.workspace.hold_rows(Holding::Written);
        }
        self.block.begun = true;
        self.block.timestamp_us = now_us();
        Ok(())
    }

    /// Runs a statement in the open transaction.
    pub(super) fn run_in_block(&mut self, procedure: &Procedure, arguments: &[Value]) -> Result<(), Error> {
        if let Some(snapshot) = self.block.snapshot.take() {
            let ran = self.run_on(&snapshot, procedure, arguments);
            self.block.snapshot = Some(snapshot);
            if ran.is_err() && self.waiting.busy.is_none() {
                self.statement_failed();
            }
            return ran;
        }
        if self.block.access == Access::ReadOnly && !procedure.read_only {
            return Err(read_only::refused("a statement that writes"));
        }
        self.refuse_deferred(procedure)?;
        if !procedure.read_only {
            self.check_log()?;
        }
        if self.block.staged.as_ref().is_some_and(|own| own.defers_changes()) {
            // A text that is compiled now could name any table.
            self.machine.compile_by(None);
        }
        let (timestamp_us, seed) = (self.block.timestamp_us, self.next_seed());
        self.last = None;
        let call = Call { procedure, timestamp_us, seed };
        loop {
            self.machine.reset(timestamp_us, seed);
            self.bring_in(procedure, arguments)?;
            self.pipeline.witnesses.begin(&[]);
            let savepoint = self.workspace.set_savepoint();
            let arguments = self.arguments.iter().copied();
            let tapes = &mut self.pipeline.witnesses;
            let ran = execute(call, arguments, &mut self.machine, &mut self.workspace, tapes);
            self.shows_what_was_read();
            // What failed, or is about to be shown, may have seen states of different moments.
            let ran = match ran {
                Ok(()) => self.check_reads().map_err(Failure::Conflict),
                Err(Failure::Error(error)) => match self.workspace.reads_hold() {
                    Ok(()) => Err(Failure::Error(error)),
                    Err(conflict) => Err(Failure::Conflict(conflict)),
                },
                Err(failure) => Err(failure),
            };
            let conflict = match ran {
                Ok(()) => {
                    self.workspace.release_savepoint(savepoint);
                    self.forget_races();
                    return Ok(());
                }
                Err(Failure::Error(error)) => {
                    self.workspace.release_savepoint(savepoint);
                    self.statement_failed();
                    return Err(Error::Sql(*error));
                }
                Err(Failure::Conflict(conflict)) => conflict,
                Err(_) => Conflict::Read,
            };
            if self.machine.has_sent_rows() {
                return Err(self.lost(conflict));
            }
            self.workspace.forget_since(savepoint);
            self.workspace.release_savepoint(savepoint);
            self.workspace.heat_blocker();
            // What earlier statements have read has changed: to run this one again would fail in the same
            // way.
            if let Err(conflict) = self.workspace.reads_hold() {
                return Err(self.lost(conflict));
            }
            if let Err(error) = self.before_retry(conflict) {
                // Where the caller waits, the statement has not failed yet.
                if self.waiting.busy.is_none() {
                    self.statement_failed();
                }
                return Err(error);
            }
        }
    }

    /// Makes sure that all that the transaction has read holds at one moment, so that its answers show one
    /// state. A transaction that has read much is looked through when it has read an eighth more.
    fn check_reads(&mut self) -> Result<(), Conflict> {
        let observed = self.workspace.observations();
        if observed > ALWAYS_CHECKED && observed - self.block.checked.min(observed) < observed / 8 {
            return Ok(());
        }
        self.workspace.reads_hold()?;
        self.block.checked = observed;
        Ok(())
    }

    /// A statement has failed. What came behind the last savepoint is undone at once, so that no other
    /// transaction waits for it.
    pub(super) fn statement_failed(&mut self) {
        self.failed += 1;
        self.forget_races();
        self.workspace.stop_waiting();
        match self.block.savepoints.last() {
            Some(NamedSavepoint { savepoint: Some(last), .. }) => self.workspace.roll_back_to(*last),
            Some(_) => {}
            None => self.give_up(),
        }
    }

    /// The transaction has lost a race for good.
    fn lost(&mut self, conflict: Conflict) -> Error {
        self.failed += 1;
        self.workspace.tables().aborts.count(conflict);
        self.forget_races();
        self.give_up();
        serialization_failure(conflict)
    }

    /// Counts a commit that has lost a race.
    pub(super) fn lost_at_commit(&mut self, conflict: Conflict) -> Error {
        self.count_conflict(conflict);
        serialization_failure(conflict)
    }

    fn give_up(&mut self) {
        self.workspace.rollback_if_running();
        self.block.savepoints.clear();
        self.block.snapshot = None;
        self.block.begun = false;
    }
}

pub(super) fn failed_block() -> Error {
    let message = "current transaction is aborted, commands ignored until end of transaction block";
    Error::Sql(SqlError::new("25P02", message))
}
