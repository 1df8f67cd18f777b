//! Calls that run in batches, on threads of executors (`crate::batches`).
//!
//! A session waits for its call on its thread. Where the caller waits instead (`Session::attempt`), the first
//! attempt submits the call, and the attempt after the wait takes the outcome.
//! The outputs of such a call go into the registers of the session's worker, as if that had run it.

use super::waiting::Submitted;
use super::{Session, TransactionState};
use crate::batches::{Answer, Outcome, SubmittedCall, Ticket};
use crate::definitions::unknown_procedure;
use crate::worker::{Busy, Known, Recorded, Refused, Request, serialization_failure};
use crate::{Error, Executed};
use catalog::{Arena, Reader, Value, decode_value, value_from_datum};
use logging::Commit as CommitPoint;
use procedure::{Call, Conflict, Procedure, SqlError};
use sql::{Kind, Prepared};
use std::sync::Arc;

/// A call that `Session::begin_call` has begun.
#[derive(Debug)]
#[must_use = "a call that was begun has an outcome: end it"]
pub struct StartedCall(Started);

#[derive(Debug)]
enum Started {
    /// It has run.
    Ended(Box<Result<Executed, Error>>),
    /// It waits for a batch, or runs.
    Submitted {
        ticket: Arc<Ticket>,
        known: Arc<Known>,
        /// The index of the procedure.
        index: usize,
    },
}

/// A call whose outcome the session has taken over.
enum Settled {
    /// It has committed.
    Ran(CommitPoint),
    /// The definitions have changed before it ran. These were its arguments.
    Outdated(Vec<u8>),
}

impl Session {
    /// Begins a call, as one transaction, without waiting for its end. Under `Scheme::DependencyGraph` the
    /// call joins the next batch, so a session can have many calls under way; they run in any order, as if
    /// each came from another session. Under other schemes the call runs at once.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, Scheme, Value, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// let mut config = Config::default();
    /// config.concurrency = Scheme::DependencyGraph;
    /// let db = Database::open(folder.path(), config)?;
    /// let mut session = db.session()?;
    /// session.execute_script(
    ///     "CREATE TABLE counter (id INT PRIMARY KEY, n INT NOT NULL); INSERT INTO counter VALUES (1, 0);
    ///      CREATE PROCEDURE count_one() LANGUAGE plpgsql AS $$
    ///      BEGIN UPDATE counter SET n = n + 1 WHERE id = 1; END $$",
    /// )?;
    /// let calls: Vec<_> = (0..100).map(|_| session.begin_call("count_one", params![])).collect();
    /// for call in calls {
    ///     session.end_call(call?)?;
    /// }
    /// let counted = session.execute("SELECT n FROM counter", params![])?;
    /// assert_eq!(counted.rows[0][0], Value::Int(100));
    /// assert_eq!(db.statistics().conflicts, 0);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As `call`, for what is known before the call runs.
    pub fn begin_call(&mut self, procedure: &str, arguments: &[Value]) -> Result<StartedCall, Error> {
        self.refuse_other_role()?;
        self.refuse_in_block()?;
        self.catch_up();
        let known = Arc::clone(&self.worker.known);
        let Some(index) = known.indexes.get(procedure).copied() else {
            return Err(unknown_procedure(procedure, &self.worker.version).into());
        };
        let called = &known.procedures[index].procedure;
        if !self.joins_batches(called) {
            return Ok(StartedCall(Started::Ended(Box::new(self.call(procedure, arguments)))));
        }
        let mut record = std::mem::take(&mut self.arguments);
        let encoded = self.encode_arguments(called, arguments, &mut record);
        let submitted = encoded.map(|()| {
            let call = self.new_call(called, true);
            self.submit(call, record.clone())
        });
        self.arguments = record;
        let ticket = submitted?;
        Ok(StartedCall(Started::Submitted { ticket, known, index }))
    }

    /// Ends a call that this session has begun: waits until it has run.
    ///
    /// # Errors
    /// As `call`.
    pub fn end_call(&mut self, started: StartedCall) -> Result<Executed, Error> {
        let (ticket, known, index) = match started.0 {
            Started::Ended(result) => return *result,
            Started::Submitted { ticket, known, index } => (ticket, known, index),
        };
        self.begin_answer();
        let called = &known.procedures[index];
        match self.settle(ticket.wait(), &called.procedure)? {
            Settled::Ran(point) => Ok(self.executed(called, point)),
            Settled::Outdated(arguments) => {
                let values = values_of(&called.procedure, &arguments)?;
                self.call(&called.procedure.name, &values)
            }
        }
    }

    /// Returns whether a call of a procedure runs in a batch now. A call that has met a held row outside of
    /// batches stays there: it may hold rows, and has its position in a queue.
    pub(super) fn joins_batches(&self, procedure: &Procedure) -> bool {
        self.batches.is_some()
            && self.block.state == TransactionState::None
            && !self.worker.races.have_begun()
            && !self.settings().is_read_only
            && procedure.by_value.is_none()
            && !self.worker.pipeline.by_value
    }

    /// Runs a call in a batch. Returns `None` when the definitions have changed: then it did not run, and the
    /// worker has taken the new definitions over.
    pub(super) fn run_in_batch(&mut self, request: &Request<'_>) -> Result<Option<CommitPoint>, Error> {
        let ticket = self.submit(request.call, request.arguments.to_vec());
        match self.settle(ticket.wait(), request.call.procedure)? {
            Settled::Ran(point) => Ok(Some(point)),
            Settled::Outdated(_) => {
                self.worker.refresh();
                Ok(None)
            }
        }
    }

    /// Lets the caller wait for a call that was submitted. The caller sees `Attempt::Busy` instead of the
    /// error that this returns.
    pub(super) fn await_batch(&mut self, submitted: Submitted) -> Error {
        self.worker.races.busy = Some(Busy::in_batch(Arc::clone(&submitted.ticket)));
        self.waiting.submitted = Some(submitted);
        serialization_failure(Conflict::Held)
    }

    /// Takes over the outcome of a call that was submitted. Returns the plan of its statement; `None` when
    /// the definitions have changed before the call ran.
    ///
    /// # Errors
    /// The call failed. Or it has not ended, and the caller waits.
    pub(super) fn resume_call(&mut self, submitted: Submitted) -> Result<Option<Arc<Prepared>>, Error> {
        let outcome = match self.waiting.by_caller {
            true => submitted.ticket.take(),
            false => Some(submitted.ticket.wait()),
        };
        let Some(outcome) = outcome else { return Err(self.await_batch(submitted)) };
        let Kind::Call(procedure, _) = &submitted.plan.kind else { unreachable!("only calls are submitted") };
        match self.settle(outcome, procedure)? {
            Settled::Ran(_) => Ok(Some(submitted.plan)),
            Settled::Outdated(_) => Ok(None),
        }
    }

    pub(super) fn submit(&self, call: Call<'_>, arguments: Vec<u8>) -> Arc<Ticket> {
        let batches = self.batches.as_ref().expect("only calls of batches are submitted");
        batches.submit(SubmittedCall {
            procedure: call.procedure.id,
            version: self.worker.version.number,
            arguments,
            timestamp_us: call.timestamp_us,
            seed: call.seed,
            interrupts: self.worker.machine.interrupts().clone(),
            lock_timeout: self.settings().lock_timeout,
        })
    }

    /// Takes over the outcome of a call.
    fn settle(&mut self, outcome: Outcome, procedure: &Procedure) -> Result<Settled, Error> {
        let call = match outcome {
            Outcome::Committed(Answer { commit, outputs, notices, notifications }) => {
                self.load_outputs(procedure, &outputs)?;
                self.worker.machine.services.take_messages(notices, &notifications);
                return Ok(Settled::Ran(self.answers(commit)));
            }
            Outcome::Failed { refused: Refused { error, shown }, notices } => {
                self.worker.machine.services.notices = notices;
                self.shows(shown);
                return Err(*error);
            }
            Outcome::Outdated(call) => return Ok(Settled::Outdated(call.arguments)),
            Outcome::Alone(call) => call,
        };
        let SubmittedCall { arguments, timestamp_us, seed, .. } = call;
        self.worker.machine.interrupts().check()?;
        let call = Call { procedure, timestamp_us, seed };
        let ran = self.run_request(&Request { call, arguments: &arguments, recorded: Recorded::Call })?;
        Ok(ran.map_or(Settled::Outdated(arguments), Settled::Ran))
    }

    /// Puts the outputs of a call into the registers.
    fn load_outputs(&mut self, procedure: &Procedure, outputs: &[u8]) -> Result<(), Error> {
        let machine = &mut self.worker.machine;
        machine.begin_piece(procedure.registers.len(), 0, 0);
        let mut reader = Reader::new(outputs);
        for (_, register, ty) in procedure.outputs() {
            let value = decode_value(ty, &mut reader, &mut machine.frame.arena);
            machine.set(register, value.map_err(|error| malformed(&error))?);
        }
        Ok(())
    }
}

/// Returns the arguments that a record has.
fn values_of(procedure: &Procedure, arguments: &[u8]) -> Result<Vec<Value>, Error> {
    let (mut arena, mut data) = (Arena::default(), Vec::new());
    procedure
        .read_arguments(&mut Reader::new(arguments), &mut arena, &mut data)
        .map_err(|error| malformed(&error))?;
    let values = procedure.inputs().zip(data);
    Ok(values.map(|((_, parameter), value)| value_from_datum(value, parameter.ty, &arena)).collect())
}

fn malformed(error: &dyn std::fmt::Display) -> Error {
    SqlError::new("XX000", format!("malformed values of a call in a batch: {error}")).into()
}
