//! Transactions of one call or statement: attempts, until one of them commits.
//!
//! An attempt that loses a race is repeated (`waiting`). One that only reads and takes long goes on on a
//! snapshot.
//! Invariant: a call that has failed, or is to be repeated, has left nothing. Held by: `serializability.rs`,
//! `interleaved.rs`.

use super::waiting::Awaited;
use super::{Access, Session, serialization_failure};
use crate::Error;
use logging::Commit;
use procedure::{Call, Conflict, Failure, Procedure, execute};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use transaction::{CommitError, Committed, LoggedBy, Outcome};

/// Sessions publish their counters after this many calls.
const PUBLISH_EVERY: u64 = 256;

impl Session {
    /// Begins a transaction under the current definitions; false when they have changed: the session's are
    /// then the new ones.
    ///
    /// # Errors
    /// `55000` while loaded rows are not in a checkpoint; `57014`. Or the caller waits until definitions are
    /// made.
    #[inline]
    pub(super) fn begin(&mut self) -> Result<bool, Error> {
        self.workspace.begin();
        if self.inner.definitions.is_current(self.version.number) {
            return Ok(true);
        }
        self.workspace.rollback();
        if self.inner.definitions.is_changing() {
            self.await_others(Awaited::Definitions(Arc::clone(&self.inner)), None)?;
        }
        self.inner.definitions.check_saved()?;
        self.refresh();
        Ok(false)
    }

    /// Runs a procedure until it commits or fails. `bind` prepares each attempt's arguments. `None` when the
    /// definitions have changed: then nothing was run, and the session's version is the new one.
    #[inline]
    pub(super) fn run(
        &mut self,
        call: Call<'_>,
        bind: impl Fn(&mut Self, &Procedure) -> Result<(), Error>,
    ) -> Result<Option<Commit>, Error> {
        let ran = self.run_to_end(call, bind);
        match ran {
            Ok(Some(_)) => self.forget_races(),
            _ => self.let_go_unless_busy(),
        }
        ran
    }

    /// As `run`. What an attempt holds that was undone stays held.
    #[inline]
    fn run_to_end(
        &mut self,
        call: Call<'_>,
        bind: impl Fn(&mut Self, &Procedure) -> Result<(), Error>,
    ) -> Result<Option<Commit>, Error> {
        let Call { procedure, timestamp_us, seed } = call;
        if self.access == Access::ReadOnly {
            return self.run_on_snapshot(call, bind);
        }
        if procedure.ends_transactions {
            return self.run_in_steps(call, bind);
        }
        loop {
            self.machine.reset(timestamp_us, seed);
            bind(self, procedure)?;
            if !self.begin()? {
                return Ok(None);
            }
            self.workspace.hold_rows(self.holding());
            let arguments = self.arguments.iter().copied();
            if procedure.read_only {
                self.workspace.only_reads();
            }
            self.pipeline.begin();
            let tapes = &mut self.pipeline.witnesses;
            let failure = match execute(call, arguments, &mut self.machine, &mut self.workspace, tapes) {
                Ok(()) => {
                    let written = self.machine.written();
                    let depends = self.machine.has_caught_shortage();
                    match self.commit(LoggedBy::Call { procedure, written, depends }) {
                        Ok(commit) => return Ok(Some(commit)),
                        Err(CommitError::Log(error)) => return Err(error.into()),
                        Err(CommitError::Conflict(conflict)) => Failure::Conflict(conflict),
                    }
                }
                Err(Failure::Error(error)) => {
                    self.shows_what_was_read();
                    match self.workspace.rollback_after_error() {
                        Ok(()) => Failure::Error(error),
                        Err(conflict) => Failure::Conflict(conflict),
                    }
                }
                Err(failure) => {
                    self.workspace.rollback_to_wait();
                    failure
                }
            };
            match failure {
                Failure::Error(error) => {
                    self.failed += 1;
                    self.after_call();
                    return Err(Error::Sql(*error));
                }
                Failure::Long => {
                    self.workspace.release_holds();
                    return self.run_on_snapshot(call, bind);
                }
                _ if self.machine.has_sent_rows() => {
                    self.count_conflict(Conflict::Read);
                    return Err(serialization_failure(Conflict::Read));
                }
                Failure::Conflict(conflict) => self.before_retry(conflict)?,
                failure => {
                    unreachable!("an attempt ends with an error, a conflict or on a snapshot: {failure}")
                }
            }
        }
    }

    /// Runs a procedure that only reads on a snapshot, where it can take as long as it likes. `None` when the
    /// definitions have changed.
    pub(super) fn run_on_snapshot(
        &mut self,
        call: Call<'_>,
        bind: impl Fn(&mut Self, &Procedure) -> Result<(), Error>,
    ) -> Result<Option<Commit>, Error> {
        self.machine.reset(call.timestamp_us, call.seed);
        bind(self, call.procedure)?;
        if !self.begin()? {
            return Ok(None);
        }
        let snapshot = {
            let tables = self.workspace.tables();
            tables.snapshots.open(&tables.epochs)
        };
        let (ran, last) = self.read_on(call, &snapshot);
        drop(snapshot);
        match ran {
            Ok(()) => self.read += 1,
            Err(_) => self.failed += 1,
        }
        self.after_call();
        let commit = self.answers(Commit { number: last, ..self.nothing_shown() });
        match ran {
            Ok(()) => Ok(Some(commit)),
            Err(Failure::Error(error)) => Err(Error::Sql(*error)),
            Err(_) => Err(serialization_failure(Conflict::Read)),
        }
    }

    /// Commits the transaction in hand, and counts it.
    #[inline]
    pub(super) fn commit(&mut self, logged_by: LoggedBy<'_>) -> Result<Commit, CommitError> {
        let Outcome { committed, commit } = match self.pipeline.commit(&mut self.workspace, logged_by) {
            Ok(outcome) => outcome,
            Err(error) => {
                // A refusal is an answer, and shows what the transaction has read.
                if matches!(error, CommitError::Log(_)) {
                    self.shows_what_was_read();
                }
                return Err(error);
            }
        };
        match committed {
            Committed::Wrote(_) => self.committed += 1,
            Committed::Read(_) => self.read += 1,
        }
        self.after_call();
        Ok(self.answers(commit))
    }

    #[inline]
    pub(super) fn after_call(&mut self) {
        let durable = self.inner.durable(self.workspace.worker());
        let (definitions, version) = (&self.inner.definitions, self.version.number);
        self.workspace.collect_garbage(durable, || definitions.is_current(version));
        self.since_publish += 1;
        if self.since_publish >= PUBLISH_EVERY {
            self.publish();
        }
    }

    pub(super) fn publish(&mut self) {
        self.since_publish = 0;
        let add = |counter: &std::sync::atomic::AtomicU64, own: &mut u64| {
            counter.fetch_add(std::mem::take(own), Ordering::Relaxed);
        };
        add(&self.inner.committed, &mut self.committed);
        add(&self.inner.read, &mut self.read);
        add(&self.inner.failed, &mut self.failed);
        add(&self.inner.conflicts, &mut self.conflicts);
        if self.inner.logs.durable().is_none() {
            // Without a logger nothing else ends epochs, and memory is reclaimed by epochs.
            let epochs = self.workspace.worker().epochs();
            epochs.advance_from(epochs.current());
        }
    }
}
