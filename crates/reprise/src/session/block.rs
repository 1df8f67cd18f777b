//! Transactions of several statements: where they begin and end, and their savepoints.

use super::staged::Staged;
use super::statements::Busy;
use super::{NAMELESS, Session, serialization_failure};
use crate::Error;
use catalog::{Value, Written, now_us};
use logging::Commit;
use procedure::{Call, Conflict, Failure, Procedure, SqlError, execute};
use std::sync::Arc;
use transaction::Savepoint;

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

/// A savepoint that a client has set.
struct NamedSavepoint {
    name: String,
    savepoint: Savepoint,
    /// How many definitions the transaction had changed.
    definitions: usize,
}

/// The transaction of several statements.
#[derive(Default)]
pub(super) struct Block {
    pub(super) state: TransactionState,
    /// Whether it has run a statement.
    pub(super) begun: bool,
    timestamp_us: i64,
    /// What it has changed of the definitions.
    pub(super) staged: Option<Box<Staged>>,
    /// Savepoints, the last one last.
    savepoints: Vec<NamedSavepoint>,
    /// Why the statement in hand was not run.
    pub(super) busy: Option<Busy>,
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

    /// Begins a transaction of several statements: those that `query`, `run_prepared` and their like run until `commit_block`.
    pub fn begin_block(&mut self) {
        self.begin_answer();
        if self.block.state == TransactionState::None {
            self.block = Block { state: TransactionState::Open, ..Block::default() };
        }
    }

    /// Ends the transaction. What must be durable before that is acknowledged; nothing when it was rolled back, as a statement of
    /// it had failed, or when it did nothing.
    ///
    /// # Errors
    /// It lost a race (40001): nothing of it happened. Or the log failed.
    pub fn commit_block(&mut self) -> Result<Option<Commit>, Error> {
        if self.block.state != TransactionState::Open {
            self.rollback_block();
        }
        let block = std::mem::take(&mut self.block);
        if !block.begun {
            return Ok(None);
        }
        if let Some(staged) = block.staged {
            return self.commit_staged(&staged).map(Some);
        }
        if let Err(error) = self.recording.prepare(&NAMELESS, Written::default(), &self.occ) {
            self.occ.rollback();
            return Err(error.into());
        }
        match self.commit() {
            Ok(commit) => commit.map(Some),
            Err(Failure::Error(error)) => Err(Error::Sql(*error)),
            Err(Failure::Conflict(conflict)) => {
                self.conflicts += 1;
                Err(serialization_failure(conflict))
            }
            Err(_) => Err(serialization_failure(Conflict::Read)),
        }
    }

    /// Ends the transaction as if it had never been.
    pub fn rollback_block(&mut self) {
        let block = std::mem::take(&mut self.block);
        if block.begun {
            self.occ.rollback_if_running();
        }
        if block.staged.is_some() {
            self.refresh();
        }
    }

    /// Takes note that a statement has failed, whether or not it ran: an open transaction has failed with it.
    pub fn fail_block(&mut self) {
        if self.block.state == TransactionState::Open {
            if self.block.savepoints.is_empty() {
                self.rollback_block();
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
        let (name, savepoint) = (name.to_owned(), self.occ.set_savepoint());
        let definitions = self.block.staged.as_ref().map_or(0, |own| own.len());
        self.block.savepoints.push(NamedSavepoint { name, savepoint, definitions });
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
        self.occ.release_savepoint(self.block.savepoints[place].savepoint);
        self.block.savepoints.truncate(place);
        Ok(())
    }

    /// ROLLBACK TO SAVEPOINT: what came after it has not happened, and the transaction goes on.
    ///
    /// # Errors
    /// `3B001` when there is no such savepoint; `0A000` when definitions have changed since.
    pub fn roll_back_to_savepoint(&mut self, name: &str) -> Result<(), Error> {
        let place = self.find_savepoint(name)?;
        let NamedSavepoint { savepoint, definitions, .. } = self.block.savepoints[place];
        if self.block.staged.as_ref().map_or(0, |own| own.len()) != definitions {
            let message = "rolling back to a savepoint before definitions have changed is not supported";
            return Err(SqlError::new("0A000", message).with_hint("Roll the whole transaction back.").into());
        }
        self.block.savepoints.truncate(place + 1);
        self.occ.roll_back_to(savepoint);
        self.block.state = TransactionState::Open;
        Ok(())
    }

    /// Begins the transaction with its first statement.
    pub(super) fn begin_in_block(&mut self) -> Result<(), Error> {
        if self.block.begun {
            return Ok(());
        }
        self.check_log()?;
        while !self.begin()? {}
        self.recording.begin();
        self.occ.reserve_rows(true);
        self.block.begun = true;
        self.block.timestamp_us = now_us();
        Ok(())
    }

    pub(super) fn run_in_block(&mut self, procedure: &Procedure, arguments: &[Value]) -> Result<(), Error> {
        self.refuse_deferred(procedure)?;
        if self.block.staged.as_ref().is_some_and(|own| own.defers_changes()) {
            // Nobody knows which tables a text is going to name.
            self.machine.compile_by(None);
        }
        let (timestamp_us, seed) = (self.block.timestamp_us, self.next_seed());
        self.last = None;
        self.machine.reset(timestamp_us, seed);
        self.bring_in(procedure, arguments)?;
        self.recording.witnesses.begin(&[]);
        let call = Call { procedure, timestamp_us, seed };
        let arguments = self.arguments.iter().copied();
        let tapes = &mut self.recording.witnesses;
        let savepoint = self.occ.set_savepoint();
        let ran = execute(call, arguments, &mut self.machine, &mut self.occ, tapes);
        self.shows_what_was_read();
        let error = match ran {
            Ok(()) => {
                self.occ.release_savepoint(savepoint);
                return Ok(());
            }
            Err(Failure::Conflict(Conflict::Reserved(address))) if !self.machine.has_sent_rows() => {
                self.occ.forget_since(savepoint);
                self.occ.release_savepoint(savepoint);
                match self.occ.reads_hold() {
                    Ok(()) => {
                        let reservations = Arc::clone(&self.occ.tables().reservations);
                        let slot = self.occ.worker().slot();
                        self.block.busy = Some(Busy { address, slot, reservations });
                        return Err(serialization_failure(Conflict::Reserved(address)));
                    }
                    // What earlier statements have read has changed: to wait would be in vain.
                    Err(conflict) => serialization_failure(conflict),
                }
            }
            // What failed may have seen states of different moments.
            Err(Failure::Error(error)) => match self.occ.reads_hold() {
                Ok(()) if !self.block.savepoints.is_empty() => {
                    self.occ.release_savepoint(savepoint);
                    self.failed += 1;
                    return Err(Error::Sql(*error));
                }
                Ok(()) => Error::Sql(*error),
                Err(conflict) => serialization_failure(conflict),
            },
            Err(Failure::Conflict(conflict)) => serialization_failure(conflict),
            Err(_) => serialization_failure(Conflict::Read),
        };
        self.occ.rollback();
        self.block.savepoints.clear();
        self.block.begun = false;
        self.failed += 1;
        Err(error)
    }
}

pub(super) fn failed_block() -> Error {
    let message = "current transaction is aborted, commands ignored until end of transaction block";
    Error::Sql(SqlError::new("25P02", message))
}
