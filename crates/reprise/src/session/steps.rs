//! Calls of procedures that end transactions themselves: each step is a transaction of its own, logged by value.

use super::{NAMELESS, Session, serialization_failure};
use crate::Error;
use crate::recording::Recording;
use logging::Commit;
use procedure::{Call, Conflict, Failure, Procedure, SqlError, Whole, execute};
use std::sync::{Arc, Mutex, PoisonError};
use transaction::{Committed, Occ};

/// What the steps of a call share.
struct Steps {
    recording: Recording,
    /// Steps that have committed: what they did stays.
    committed: u64,
    /// What must be durable before all of them are acknowledged.
    durable: Option<Commit>,
}

impl Steps {
    fn commit(&mut self, occ: &mut Occ) -> Result<(), Failure> {
        let failed = |error: Error| SqlError::new(error.sqlstate(), error.to_string());
        self.recording.prepare(&NAMELESS, occ).map_err(|error| failed(error.into()))?;
        let committed = occ.commit(&mut self.recording);
        if let Ok(Committed::Wrote(_)) = committed {
            self.recording.ended();
        }
        self.recording.take_result().map_err(|error| failed(error.into()))?;
        match committed {
            Ok(committed) => {
                self.committed += 1;
                let commit = self.recording.commit_of(committed);
                // The last step may depend on less than those before it.
                self.durable = Some(self.durable.map_or(commit, |earlier| earlier.and(commit)));
                Ok(())
            }
            Err(conflict) => Err(conflict.into()),
        }
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
            if !self.begin() {
                return Ok(None);
            }
            let slot = self.occ.worker().slot();
            let mut recording = Recording::new(Arc::clone(&self.inner.logs), &self.inner.adaptive, slot);
            recording.begin();
            let steps = Steps { recording, committed: 0, durable: None };
            let steps = Arc::new(Mutex::new(steps));
            let (own, inner, number) = (Arc::clone(&steps), Arc::clone(&self.inner), self.version.number);
            self.occ.end_transactions_by(Some(Box::new(move |occ: &mut Occ, commit: bool| {
                let mut steps = own.lock().unwrap_or_else(PoisonError::into_inner);
                match commit {
                    true => steps.commit(occ)?,
                    false => occ.rollback(),
                }
                occ.begin();
                if !inner.definitions.is_current(number) {
                    let message = "definitions have changed between two transactions of a procedure";
                    return Err(SqlError::new("40001", message).into());
                }
                steps.recording.begin();
                Ok(())
            })));
            let arguments = self.arguments.iter().copied();
            let ran = execute(call, arguments, &mut self.machine, &mut self.occ, &mut Whole);
            self.occ.end_transactions_by(None);
            let mut steps = steps.lock().unwrap_or_else(PoisonError::into_inner);
            let ran = ran.and_then(|()| steps.commit(&mut self.occ));
            self.occ.rollback_if_running();
            self.committed += steps.committed;
            self.after_call();
            match ran {
                Ok(()) => return Ok(steps.durable),
                Err(Failure::Error(error)) => {
                    self.failed += 1;
                    return Err(Error::Sql(*error));
                }
                // What has committed stays, so the call can't begin anew.
                Err(_) if steps.committed > 0 => {
                    self.conflicts += 1;
                    return Err(serialization_failure(Conflict::Read));
                }
                Err(_) => self.conflicts += 1,
            }
        }
    }
}
