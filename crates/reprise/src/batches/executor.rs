//! An executor: a thread that builds graphs of batches and runs their vertices.

use super::plan::{Buffers, Plan};
use super::{Answer, Batch, Outcome, Shared, SubmittedCall, Task, Waiting, Work, hold, task};
use crate::worker::{Recorded, Request, Settings, Worker};
use catalog::encode_value;
use crossbeam_deque::{Steal, Worker as Deque};
use procedure::{Call, SqlError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A thread that runs calls of batches.
pub(super) struct Executor {
    worker: Worker,
    shared: Arc<Shared>,
    /// Vertices that vertices of this executor have released.
    deque: Deque<Task>,
    /// The batch of the last vertex.
    batch: Option<Arc<Batch>>,
    plan: Option<Arc<Plan>>,
    buffers: Buffers,
}

impl Executor {
    pub(super) fn new(worker: Worker, shared: Arc<Shared>, deque: Deque<Task>) -> Self {
        Self { worker, shared, deque, batch: None, plan: None, buffers: Buffers::default() }
    }

    /// Works until the database closes.
    pub(super) fn run(mut self) {
        loop {
            match self.shared.next_work() {
                Work::Resolve(calls) => self.resolve(calls),
                Work::Run => {
                    while let Some(task) = self.take() {
                        self.run_vertex(task);
                    }
                    self.worker.collect_garbage();
                }
                Work::Stop => return,
            }
        }
    }

    fn resolve(&mut self, calls: Vec<Waiting>) {
        let newest = calls.iter().map(|waiting| waiting.call.version).max();
        if self.plan.as_ref().map(|plan| plan.version) != newest {
            self.plan = Some(Arc::new(Plan::of(&self.worker.inner.definitions.current())));
        }
        let plan = self.plan.as_ref().expect("it is made above");
        let batch = plan.resolve(calls, &mut self.buffers);
        self.shared.resolved(batch);
    }

    /// Takes a vertex that can run.
    fn take(&self) -> Option<Task> {
        if let Some(own) = self.deque.pop() {
            return Some(own);
        }
        loop {
            let stolen = || self.shared.deques.iter().map(|deque| deque.steal()).collect::<Steal<_>>();
            match self.shared.ready.steal().or_else(stolen) {
                Steal::Success(task) => return Some(task),
                Steal::Empty => return None,
                Steal::Retry => {}
            }
        }
    }

    fn run_vertex(&mut self, next: Task) {
        let (number, vertex) = ((next >> 32) as u32, next as u32);
        if self.batch.as_ref().is_none_or(|batch| batch.number != number) {
            self.batch.clone_from(&hold(&self.shared.state).running);
        }
        let batch = Arc::clone(self.batch.as_ref().expect("a vertex belongs to the running batch"));
        let taken = hold(&batch.calls[vertex as usize]).take();
        let Waiting { call, ticket } = taken.expect("a vertex runs once");
        let outcome = self.run_or_report(&batch, call);
        let mut released = 0;
        batch.graph.done(vertex, |later| {
            self.deque.push(task(number, later));
            released += 1;
        });
        ticket.resolve(outcome);
        // This executor takes one of them itself.
        (1..released).for_each(|_| self.shared.wake_one());
        // AcqRel: the last one ends the batch after all that every other executor has done.
        if batch.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.batch = None;
            self.shared.finished();
        }
    }

    /// Runs a call as a transaction. One that panics fails, with all that it has done undone, and the
    /// executor goes on with another worker.
    fn run_or_report(&mut self, batch: &Batch, call: SubmittedCall) -> Outcome {
        let ran = catch_unwind(AssertUnwindSafe(|| self.run_call(batch, call)));
        ran.unwrap_or_else(|_| {
            let inner = Arc::clone(&self.worker.inner);
            // A worker rolls back when it is dropped.
            match Worker::new(inner) {
                Ok(worker) => self.worker = worker,
                Err(error) => {
                    tracing::error!(%error, "an executor panicked and has no other worker: {error}");
                    std::process::abort();
                }
            }
            let error = SqlError::new("XX000", "the procedure has panicked; the server's log says where");
            Outcome::Failed { refused: error.into(), notices: Vec::new() }
        })
    }

    /// Runs a call as a transaction.
    fn run_call(&mut self, batch: &Batch, call: SubmittedCall) -> Outcome {
        let worker = &mut self.worker;
        if worker.version.number != call.version {
            worker.refresh();
            if worker.version.number != call.version {
                return Outcome::Outdated(call);
            }
        }
        let procedure = batch.plan.procedure(call.procedure);
        worker.machine.interrupted_by(call.interrupts.clone());
        worker.pipeline.by_value = call.by_value;
        let settings = Settings {
            is_read_only: false,
            is_in_block: false,
            caller_waits: true,
            lock_timeout: call.lock_timeout,
        };
        let SubmittedCall { timestamp_us, seed, .. } = call;
        let request = Request {
            call: Call { procedure, timestamp_us, seed },
            arguments: &call.arguments,
            recorded: Recorded::Call,
        };
        match worker.run(&request, &settings) {
            Ok(Some(commit)) => {
                let (machine, mut outputs) = (&worker.machine, Vec::new());
                for (_, register, ty) in procedure.outputs() {
                    encode_value(machine.get(register), ty, &machine.frame.arena, &mut outputs);
                }
                Outcome::Committed(Answer { commit, outputs, notices: worker.take_notices() })
            }
            Ok(None) => Outcome::Outdated(call),
            Err(refused) => {
                if worker.races.busy.take().is_none() {
                    return Outcome::Failed { refused, notices: worker.take_notices() };
                }
                worker.let_go();
                Outcome::Alone(call)
            }
        }
    }
}
