//! Calls of procedures that end transactions themselves: each step is a transaction of its own, logged by
//! value.

use super::{Session, serialization_failure};
use crate::Error;
use catalog::CommitOrder;
use logging::{Commit, Observed};
use procedure::{Call, Conflict, Failure, Procedure, SqlError, Whole, execute};
use std::sync::{Arc, Mutex, PoisonError};
use transaction::{CommitError, CommitPipeline, LoggedBy, Workspace};

/// What the steps of a call share.
struct Steps {
    pipeline: CommitPipeline,
    /// Steps that have committed: what they did stays.
    committed: u64,
    /// What must be durable before an answer shows what they have read and written.
    shown: Option<Commit>,
}

impl Steps {
    fn commit(&mut self, workspace: &mut Workspace) -> Result<(), Failure> {
        match self.pipeline.commit(workspace, LoggedBy::Value) {
            Ok(outcome) => {
                self.committed += 1;
                self.show(outcome.commit);
                Ok(())
            }
            Err(CommitError::Log(error)) => Err(SqlError::new(error.sqlstate(), error.to_string()).into()),
            Err(CommitError::Conflict(conflict)) => Err(conflict.into()),
        }
    }

    fn show(&mut self, commit: Commit) {
        self.shown = Some(self.shown.map_or(commit, |shown| shown.and(commit)));
    }

    /// What the next step may have values of.
    fn observed(&self) -> Observed {
        let foreign = |shown: &Commit| if shown.alone { CommitOrder(0) } else { shown.number };
        let shown = self.shown.as_ref();
        shown.map_or_else(Observed::default, |own| Observed { last: own.number, foreign: foreign(own) })
    }
}

impl Session {
    /// Runs such a procedure; `None` when the definitions have changed before it began.
    pub(super) fn run_in_steps(
        &mut self,
        call: Call<'_>,
        bind: impl Fn(&mut Self, &Procedure) -> Result<(), Error>,
    ) -> Result<Option<Commit>, Error> {
        loop {
            self.machine.reset(call.timestamp_us, call.seed);
            bind(self, call.procedure)?;
            if !self.begin()? {
                return Ok(None);
            }
            self.workspace.hold_rows(self.holding());
            let mut pipeline = self.new_pipeline();
            pipeline.begin();
            let steps = Steps { pipeline, committed: 0, shown: None };
            let steps = Arc::new(Mutex::new(steps));
            let (own, inner, number) = (Arc::clone(&steps), Arc::clone(&self.inner), self.version.number);
            self.workspace.end_transactions_by(Some(Box::new(
                move |workspace: &mut Workspace, commit: bool| {
                    let mut steps = own.lock().unwrap_or_else(PoisonError::into_inner);
                    match commit {
                        true => steps.commit(workspace)?,
                        false => {
                            steps.show(Commit::of_all(workspace.last_observed()));
                            workspace.rollback();
                        }
                    }
                    workspace.begin();
                    workspace.carry(steps.observed());
                    if !inner.definitions.is_current(number) {
                        let message = "definitions have changed between two transactions of a procedure";
                        return Err(SqlError::new("40001", message).into());
                    }
                    steps.pipeline.begin();
                    Ok(())
                },
            )));
            self.workspace.wait_in_place_by(Some(self.waits_in_place()));
            let arguments = self.arguments.iter().copied();
            let ran = execute(call, arguments, &mut self.machine, &mut self.workspace, &mut Whole);
            self.workspace.end_transactions_by(None);
            self.workspace.wait_in_place_by(None);
            let mut steps = steps.lock().unwrap_or_else(PoisonError::into_inner);
            self.shows_what_was_read();
            let ran = match ran {
                Ok(()) => steps.commit(&mut self.workspace),
                // What failed may have seen states of different moments.
                Err(Failure::Error(error)) if self.workspace.worker().is_active() => Err(self
                    .workspace
                    .rollback_after_error()
                    .err()
                    .map_or(Failure::Error(error), Failure::from)),
                Err(failure) => Err(failure),
            };
            self.workspace.rollback_if_running();
            self.committed += steps.committed;
            self.after_call();
            match ran {
                Ok(()) => return Ok(steps.shown.map(|shown| self.answers(shown))),
                Err(Failure::Error(error)) => {
                    self.failed += 1;
                    steps.shown.inspect(|shown| self.shows(shown.number));
                    return Err(Error::Sql(*error));
                }
                // What has committed stays, so the call can't begin anew.
                Err(_) if steps.committed > 0 => {
                    self.count_conflict(Conflict::Read);
                    return Err(serialization_failure(Conflict::Read));
                }
                Err(failure) => {
                    drop(steps);
                    let conflict = if let Failure::Conflict(own) = failure { own } else { Conflict::Read };
                    self.before_retry(conflict)?;
                }
            }
        }
    }
}
