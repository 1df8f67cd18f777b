//! Transactions of one call or statement: attempts, until one of them commits.
//!
//! An attempt that loses a race is repeated (`races`). A long attempt that only reads is repeated on a
//! snapshot.
//! Invariant: a failed or undone attempt has no effect. Held by: `serializability.rs`, `interleaved.rs`.

use super::{Awaited, Recorded, Refused, Request, Settings, Worker, serialization_failure};
use crate::Error;
use catalog::{CommitOrder, Reader};
use logging::content::{CallRecord, Later, StatementRecord};
use logging::{Commit, LogError};
use procedure::{Call, Conflict, Failure, SqlError, Witnessed, execute};
use std::sync::Arc;
use storage::Snapshot;
use transaction::{CommitError, Committed, LoggedBy, Outcome};

impl Worker {
    /// Begins a transaction under the current definitions. Returns false when they have changed: then the
    /// worker has taken them over, and no transaction is running.
    ///
    /// # Errors
    /// `55000`: loaded rows are in no checkpoint. `57014`: the statement was cancelled. Or the caller waits
    /// for definitions.
    #[inline]
    pub(crate) fn begin(&mut self, settings: &Settings) -> Result<bool, Error> {
        self.workspace.begin();
        if settings.is_in_batch || self.inner.definitions.is_current(self.version.number) {
            return Ok(true);
        }
        self.workspace.rollback_to_wait();
        if self.inner.definitions.is_changing() {
            // A transaction that runs alone may come to the rows that this one was given when it waited. It
            // may hold the definitions already.
            self.workspace.release_rows();
            self.await_end(Awaited::Definitions(Arc::clone(&self.inner)), None, settings)?;
        }
        self.inner.definitions.check_saved()?;
        self.refresh();
        Ok(false)
    }

    /// Runs a request as one transaction until it commits or fails. Returns `None` when the definitions have
    /// changed: then the request did not run, and the worker has taken the new definitions over.
    #[inline]
    pub(crate) fn run(
        &mut self,
        request: &Request<'_>,
        settings: &Settings,
    ) -> Result<Option<Commit>, Refused> {
        let is_call = matches!(request.recorded, Recorded::Call);
        if is_call && self.utilization.call_begins() == Some(true) {
            self.inner.logs.note_saturation();
        }
        let ran = self.run_to_end(request, settings);
        match ran {
            Ok(Some(_)) => self.forget_races(),
            _ => self.let_go_unless_busy(settings),
        }
        if is_call {
            self.utilization.call_ends();
        }
        ran
    }

    /// As `run`, but rows that an undone attempt holds stay held.
    #[inline]
    fn run_to_end(&mut self, request: &Request<'_>, settings: &Settings) -> Result<Option<Commit>, Refused> {
        let procedure = request.call.procedure;
        if settings.is_read_only {
            return self.run_on_snapshot(request, settings);
        }
        if !procedure.read_only {
            self.check_log(settings)?;
        }
        if procedure.ends_transactions {
            return self.run_in_steps(request, settings);
        }
        loop {
            self.load(request)?;
            if !self.begin(settings)? {
                return Ok(None);
            }
            self.workspace.hold_rows(self.holding());
            if procedure.read_only {
                self.workspace.only_reads();
            }
            self.pipeline.begin();
            let executed = self.execute(request.call).and_then(|()| self.check_deferred());
            let failure = match executed {
                Ok(()) => {
                    let written = self.machine.written();
                    let depends = self.machine.has_caught_shortage();
                    match self.commit(LoggedBy::Call { procedure, written, depends }) {
                        Ok(commit) => return Ok(Some(commit)),
                        Err(CommitError::Log(error)) => return Err(self.not_logged(error, settings)),
                        Err(CommitError::Conflict(conflict)) => Failure::Conflict(conflict),
                        Err(CommitError::Interrupted(error)) => return Err(self.failed(*error)),
                    }
                }
                Err(Failure::Error(error)) => match self.workspace.rollback_after_error() {
                    Ok(()) => return Err(self.failed(*error)),
                    Err(conflict) => Failure::Conflict(conflict),
                },
                Err(failure) => {
                    self.workspace.rollback_to_wait();
                    failure
                }
            };
            match failure {
                // A snapshot would wait for the end of the batch.
                Failure::Long if settings.is_in_batch => return Err(self.leave_batch()),
                Failure::Long => {
                    self.workspace.release_holds();
                    return self.run_on_snapshot(request, settings);
                }
                // The number of a vertex is of one attempt.
                Failure::Conflict(conflict) if settings.is_in_batch => {
                    self.count_conflict(conflict);
                    return Err(self.leave_batch());
                }
                _ if self.machine.has_sent_rows() => {
                    self.count_conflict(Conflict::Read);
                    return Err(serialization_failure(Conflict::Read).into());
                }
                Failure::Conflict(conflict) => self.before_retry(conflict, settings)?,
                failure => {
                    unreachable!("an attempt ends with an error, a conflict or on a snapshot: {failure}")
                }
            }
        }
    }

    /// Loads the arguments of a request for its next attempt, and begins its record.
    #[inline]
    pub(crate) fn load(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let Call { procedure, timestamp_us, seed } = request.call;
        self.machine.reset(timestamp_us, seed);
        let mut reader = Reader::new(request.arguments);
        procedure
            .read_arguments(&mut reader, &mut self.machine.frame.arena, &mut self.arguments)
            .map_err(|error| SqlError::new("08P01", format!("malformed arguments: {error}")))?;
        let pipeline = &mut self.pipeline;
        match request.recorded {
            Recorded::Call => {
                let is_logged = pipeline.records_calls();
                let is_witnessed = self.inner.config.record_witnesses
                    && is_logged
                    && !(pipeline.by_value || procedure.by_value.is_some())
                    && !procedure.witnesses.of(Witnessed::NEWEST).is_empty();
                let witnessed = if is_witnessed { Witnessed::NEWEST } else { Witnessed::Nothing };
                pipeline.witnesses.begin(procedure.witnesses.of(witnessed));
                let record = CallRecord {
                    procedure: procedure.id,
                    version: procedure.version,
                    timestamp_us,
                    seed,
                    witnessed,
                    arguments: if is_logged { request.arguments } else { &[] },
                    written: None,
                    later: Later::default(),
                };
                record.write(&mut pipeline.call);
            }
            Recorded::Statement(text) => {
                pipeline.witnesses.begin(&[]);
                StatementRecord { timestamp_us, seed, text, written: None }.write(&mut pipeline.call);
            }
            Recorded::Rows => pipeline.witnesses.begin(&[]),
        }
        Ok(())
    }

    /// Executes a loaded call in the running transaction.
    #[inline]
    pub(crate) fn execute(&mut self, call: Call<'_>) -> Result<(), Failure> {
        let arguments = self.arguments.iter().copied();
        let witnesses = &mut self.pipeline.witnesses;
        self.workspace.interrupted_by(self.machine.interrupts());
        execute(call, arguments, &mut self.machine, &mut self.workspace, witnesses)
    }

    /// Runs a procedure that only reads on a snapshot, without a time limit or conflicts. Returns `None` when
    /// the definitions have changed.
    fn run_on_snapshot(
        &mut self,
        request: &Request<'_>,
        settings: &Settings,
    ) -> Result<Option<Commit>, Refused> {
        self.load(request)?;
        if !self.begin(settings)? {
            return Ok(None);
        }
        let snapshot = self.snapshot();
        let (ran, last) = self.execute_on(request.call, &snapshot);
        drop(snapshot);
        match ran {
            Ok(()) => self.tally.read += 1,
            Err(_) => self.tally.failed += 1,
        }
        self.after_call();
        let refused = |error| Refused { error: Box::new(error), shown: last };
        match ran {
            Ok(()) => Ok(Some(self.pipeline.outcome_of_reads(last).commit)),
            Err(Failure::Error(error)) => Err(refused(Error::Sql(*error))),
            Err(_) => Err(refused(serialization_failure(Conflict::Read))),
        }
    }

    /// Opens a snapshot in the running transaction. Where batches run, it waits for the end of one.
    fn snapshot(&mut self) -> Snapshot {
        let tables = self.workspace.tables();
        let open = || tables.snapshots.open(&tables.epochs);
        if self.inner.gate.is_none() {
            return open();
        }
        let mut snapshot = None;
        (self.pipeline.blocks_by)(&mut || snapshot = Some(open()));
        snapshot.expect("the function has run")
    }

    /// Opens a snapshot under the current definitions. No transaction is running afterwards.
    ///
    /// # Errors
    /// As `begin`.
    pub(crate) fn open_snapshot(&mut self, settings: &Settings) -> Result<Snapshot, Error> {
        while !self.begin(settings)? {}
        let snapshot = self.snapshot();
        self.workspace.rollback();
        Ok(snapshot)
    }

    /// Executes a loaded call on a snapshot, and ends the running transaction, which only kept definitions
    /// from changing. Returns the result of the call, and the greatest commit number of the rows that it has
    /// read.
    pub(crate) fn execute_on(
        &mut self,
        call: Call<'_>,
        snapshot: &Snapshot,
    ) -> (Result<(), Failure>, CommitOrder) {
        let arguments = self.arguments.iter().copied();
        self.workspace.interrupted_by(self.machine.interrupts());
        let mut reader = self.workspace.reader(snapshot);
        let ran = execute(call, arguments, &mut self.machine, &mut reader, &mut self.pipeline.witnesses);
        let last = reader.last();
        self.workspace.rollback_if_running();
        (ran, last)
    }

    /// Checks the constraints that the running transaction has deferred to its end.
    ///
    /// # Errors
    /// `23503`: a row breaks one. A conflict.
    #[inline]
    pub(crate) fn check_deferred(&mut self) -> Result<(), Failure> {
        match self.version.deferrable.clone() {
            None => Ok(()),
            Some(keys) => {
                let modes = &self.machine.services.constraint_modes;
                self.workspace.check_deferred(&keys, modes, None)
            }
        }
    }

    /// Commits the running transaction, and counts it.
    #[inline]
    pub(crate) fn commit(&mut self, logged_by: LoggedBy<'_>) -> Result<Commit, CommitError> {
        if self.inner.gate.is_some() {
            self.pipeline.interrupts = self.machine.interrupts().clone();
        }
        let Outcome { committed, commit } = self.pipeline.commit(&mut self.workspace, logged_by)?;
        match committed {
            Committed::Wrote(_) => {
                self.tally.committed += 1;
                self.inner.recovering.committed(commit);
            }
            Committed::Read(_) => self.tally.read += 1,
        }
        self.after_call();
        Ok(commit)
    }

    /// Returns the error of a transaction that a log refuses. A vertex may be too large for its batch only.
    fn not_logged(&mut self, error: LogError, settings: &Settings) -> Refused {
        match error {
            LogError::RecordTooLarge { .. } if settings.is_in_batch => self.leave_batch(),
            // The error is an answer, and shows what the transaction has read.
            error => self.refused(error.into()),
        }
    }

    /// Counts a transaction that has failed, and was rolled back. Returns its error.
    fn failed(&mut self, error: SqlError) -> Refused {
        self.tally.failed += 1;
        let refused = self.refused(Error::Sql(error));
        self.after_call();
        refused
    }

    /// Returns an error that shows the reads of the last transaction.
    pub(crate) fn refused(&mut self, error: Error) -> Refused {
        Refused { error: Box::new(error), shown: self.workspace.last_observed() }
    }
}
