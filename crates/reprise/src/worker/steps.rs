//! Calls of procedures with COMMIT or ROLLBACK. Each step between them is one transaction, logged by value.

use super::{Refused, Request, Settings, Worker, serialization_failure};
use crate::Error;
use catalog::CommitOrder;
use logging::{Commit, Observed};
use procedure::{Conflict, ConstraintModes, Failure, ForeignKeys, SqlError, Whole, execute};
use std::sync::{Arc, Mutex, PoisonError};
use transaction::{CommitPipeline, LoggedBy, Workspace};

/// The state that the steps of a call share.
struct Steps {
    pipeline: CommitPipeline,
    /// All foreign keys, if some are checked at the end of each step.
    deferrable: Option<Arc<ForeignKeys>>,
    /// Number of committed steps. Their effects stay.
    committed: u64,
    /// The commit that must be durable before an answer shows the reads and writes of the steps.
    shown: Option<Commit>,
}

impl Steps {
    fn commit(&mut self, workspace: &mut Workspace) -> Result<(), Failure> {
        if let Some(keys) = &self.deferrable {
            let modes = ConstraintModes::default();
            workspace.check_deferred(keys, &modes, None)?;
        }
        match self.pipeline.commit(workspace, LoggedBy::Value) {
            Ok(outcome) => {
                self.committed += 1;
                self.show(outcome.commit);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn show(&mut self, commit: Commit) {
        self.shown = Some(self.shown.map_or(commit, |shown| shown.and(commit)));
    }

    /// Returns the numbers of the transactions whose values the next step may use through variables.
    fn observed(&self) -> Observed {
        let foreign = |shown: &Commit| if shown.alone { CommitOrder(0) } else { shown.number };
        let shown = self.shown.as_ref();
        shown.map_or_else(Observed::default, |shown| Observed { last: shown.number, foreign: foreign(shown) })
    }
}

impl Worker {
    /// Runs a procedure with COMMIT or ROLLBACK. Returns `None` when the definitions have changed before its
    /// begin.
    pub(super) fn run_in_steps(
        &mut self,
        request: &Request<'_>,
        settings: &Settings,
    ) -> Result<Option<Commit>, Refused> {
        loop {
            self.load(request)?;
            if !self.begin(settings)? {
                return Ok(None);
            }
            self.workspace.hold_rows(self.holding());
            let steps = self.begin_steps();
            let shared = Arc::clone(&steps);
            let can_run_again = move || shared.lock().unwrap_or_else(PoisonError::into_inner).committed == 0;
            self.workspace.wait_in_place_by(Some(self.waits_in_place(can_run_again, settings)));
            let arguments = self.arguments.iter().copied();
            let ran = execute(request.call, arguments, &mut self.machine, &mut self.workspace, &mut Whole);
            self.workspace.end_transactions_by(None);
            self.workspace.wait_in_place_by(None);
            let mut steps = steps.lock().unwrap_or_else(PoisonError::into_inner);
            let observed = self.workspace.last_observed();
            let ran = match ran {
                Ok(()) => steps.commit(&mut self.workspace),
                // An invalid read set may have caused the error; then the conflict counts.
                Err(Failure::Error(error)) if self.workspace.worker().is_active() => Err(self
                    .workspace
                    .rollback_after_error()
                    .err()
                    .map_or(Failure::Error(error), Failure::from)),
                Err(failure) => Err(failure),
            };
            if steps.committed == 0 && matches!(ran, Err(Failure::Conflict(Conflict::Held))) {
                // Its wait was refused, so it waits without rows, and runs again.
                self.workspace.rollback_to_wait();
                self.workspace.release_all_but_awaited();
            }
            self.workspace.rollback_if_running();
            self.tally.committed += steps.committed;
            steps.shown.filter(|_| steps.committed > 0).inspect(|own| self.inner.recovering.committed(*own));
            self.after_call();
            let refused = |error| {
                let shown = steps.shown.map_or(CommitOrder(0), |shown| shown.number);
                Refused { error: Box::new(error), shown: shown.max(observed) }
            };
            match ran {
                Ok(()) => return Ok(steps.shown),
                Err(Failure::Error(error)) => {
                    self.tally.failed += 1;
                    return Err(refused(Error::Sql(*error)));
                }
                // Committed steps stay, so the call cannot run again.
                Err(_) if steps.committed > 0 => {
                    self.count_conflict(Conflict::Read);
                    return Err(refused(serialization_failure(Conflict::Read)));
                }
                Err(failure) => {
                    drop(steps);
                    let conflict =
                        if let Failure::Conflict(conflict) = failure { conflict } else { Conflict::Read };
                    self.before_retry(conflict, settings)?;
                }
            }
        }
    }

    /// Makes the workspace commit or roll back at each COMMIT or ROLLBACK of the next call.
    fn begin_steps(&mut self) -> Arc<Mutex<Steps>> {
        let mut pipeline = self.new_pipeline();
        pipeline.begin();
        pipeline.interrupts = self.machine.interrupts().clone();
        let steps = Arc::new(Mutex::new(Steps {
            pipeline,
            deferrable: self.version.deferrable.clone(),
            committed: 0,
            shown: None,
        }));
        let (shared, inner, number) = (Arc::clone(&steps), Arc::clone(&self.inner), self.version.number);
        let end = move |workspace: &mut Workspace, commit: bool| {
            let mut steps = shared.lock().unwrap_or_else(PoisonError::into_inner);
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
                let message = "definitions changed between two transactions of a procedure";
                return Err(SqlError::new("40001", message).into());
            }
            steps.pipeline.begin();
            Ok(())
        };
        self.workspace.end_transactions_by(Some(Box::new(end)));
        steps
    }
}
