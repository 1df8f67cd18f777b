//! An executor: a thread that builds graphs of batches and runs their vertices.

use super::building::Building;
use super::plan::{Buffers, Plan};
use super::{Answer, Batch, Built, Outcome, Phase, Shared, SubmittedCall, Task, Waiting, Work, hold, task};
use crate::worker::{Recorded, Request, Settings, Worker};
use catalog::{CommitOrder, encode_value};
use crossbeam_deque::{Steal, Worker as Deque};
use logging::LogError;
use procedure::{Call, SqlError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use storage::Slot;

/// An executor wakes sessions after this many calls that committed. No commit of a batch is acknowledged
/// before the batch has ended, so nothing is gained by waking each session at once: it would only take the
/// core.
const WOKEN_TOGETHER: usize = 64;

/// A thread that runs calls of batches.
pub(super) struct Executor {
    worker: Worker,
    /// The worker to whose logger the records of its vertices go.
    home: Slot,
    shared: Arc<Shared>,
    /// Vertices that vertices of this executor have released.
    deque: Deque<Task>,
    /// The batch of the last vertex.
    batch: Option<Arc<Batch>>,
    /// The number of the batch of which it has run vertices, until it has made their records.
    took_part: Option<u32>,
    plan: Option<Arc<Plan>>,
    buffers: Buffers,
    /// The outputs of the last call.
    outputs: Vec<u8>,
    /// Sessions to wake, whose calls have ended.
    wakers: Vec<Waker>,
}

impl Executor {
    pub(super) fn new(mut worker: Worker, home: Slot, shared: Arc<Shared>, deque: Deque<Task>) -> Self {
        Self::prepare(&mut worker, home);
        Self {
            worker,
            home,
            shared,
            deque,
            batch: None,
            took_part: None,
            plan: None,
            buffers: Buffers::default(),
            outputs: Vec::new(),
            wakers: Vec::new(),
        }
    }

    /// Makes a worker one whose transactions are vertices.
    fn prepare(worker: &mut Worker, home: Slot) {
        worker.pipeline.enter_batch(home);
        worker.workspace.enter_batches();
    }

    /// Works until the database closes.
    pub(super) fn run(mut self) {
        loop {
            match self.shared.next_work(self.took_part) {
                Work::Resolve(calls) => self.resolve(calls),
                Work::Build(building, task) => self.build(building, task),
                Work::Begin(batch) => self.begin(batch),
                Work::Run => self.run_vertices(),
                Work::End(batch) => self.end(&batch),
                Work::Stop => return,
            }
        }
    }

    /// Begins the graph of calls, and builds it as far as no other executor does. If that panics, the calls
    /// fail.
    fn resolve(&mut self, calls: Vec<Waiting>) {
        let begun = catch_unwind(AssertUnwindSafe(|| {
            let newest = calls.iter().map(|waiting| waiting.call.version).max();
            if self.plan.as_ref().map(|plan| plan.version) != newest {
                self.plan = Some(Arc::new(Plan::of(&self.worker.inner.definitions.current())));
            }
            let plan = Arc::clone(self.plan.as_ref().expect("it is made above"));
            Building::new(plan, calls, self.shared.deques.len())
        }));
        match begun.map(|building| self.shared.begin_to_build(building)) {
            Ok((building, task)) => self.build(building, task),
            Err(_) => self.shared.resolved(None),
        }
    }

    /// Runs a task of the graph of the next batch, then further ones. The last one ends the graph.
    fn build(&mut self, building: Arc<Building>, task: usize) {
        let mut taken = Some((building, task));
        while let Some((building, task)) = taken.take() {
            building.run(task, &mut self.buffers);
            drop(building);
            match self.shared.built() {
                Built::Whole(building) => {
                    let logs = self.worker.inner.logs.iter().count();
                    let batch = catch_unwind(AssertUnwindSafe(|| building.finish(logs)));
                    self.shared.resolved(batch.unwrap_or_default());
                }
                Built::InPart(next) => taken = next,
            }
        }
    }

    fn begin(&mut self, mut batch: Batch) {
        let inner = &self.worker.inner;
        if self.shared.begin(&mut batch, inner) {
            return self.shared.run(batch);
        }
        // A session that runs its call alone waits for definitions that are being made.
        let is_outdated = inner.definitions.current().number != batch.plan.version;
        batch.give_back(|call| if is_outdated { Outcome::Outdated(call) } else { Outcome::Alone(call) });
        self.shared.idle();
    }

    /// Makes the records of its vertices of a batch. The last executor that took part ends the batch.
    fn end(&mut self, batch: &Batch) {
        (self.took_part, self.batch) = (None, None);
        let Worker { pipeline, workspace, .. } = &mut self.worker;
        let has_numbers = batch.first.is_some();
        check_ended(match has_numbers {
            true => pipeline.end_batch(workspace, batch, &batch.records),
            false => pipeline.end_vertices(),
        });
        // While no vertex runs: the removal of a deleted row would undo a vertex that has looked for it.
        self.worker.collect_garbage();
        self.worker.publish();
        let pipeline = &mut self.worker.pipeline;
        // AcqRel: the last one ends the batch after the records of every other executor.
        if batch.took_part.fetch_sub(1, Ordering::AcqRel) == 1 {
            if has_numbers {
                check_ended(pipeline.put_batch_end(batch, &batch.records));
            }
            self.shared.end();
        }
    }

    /// Runs vertices until there is none that can run.
    fn run_vertices(&mut self) {
        let mut done = 0;
        while let Some(task) = self.take() {
            self.run_vertex(task);
            done += 1;
        }
        if let Some(batch) = self.batch.as_ref().filter(|_| done > 0)
            // AcqRel: executors make records after all that every other executor has done.
            && batch.left.fetch_sub(done, Ordering::AcqRel) == done
        {
            self.shared.change(|state| state.phase = Phase::Ends);
        }
        self.wake_sessions();
    }

    fn wake_sessions(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }

    /// Takes a vertex that can run; with one that waits for no other, further ones of these.
    fn take(&self) -> Option<Task> {
        if let Some(own) = self.deque.pop() {
            return Some(own);
        }
        loop {
            let stolen = || self.shared.deques.iter().map(|deque| deque.steal()).collect::<Steal<_>>();
            match self.shared.ready.steal_batch_and_pop(&self.deque).or_else(stolen) {
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
        // Counting references to the batch would cost each vertex a write that all executors contend for.
        let batch = self.batch.take().expect("a vertex belongs to the running batch");
        if self.took_part != Some(number) {
            self.took_part = Some(number);
            batch.took_part.fetch_add(1, Ordering::Relaxed);
        }
        let taken = hold(&batch.calls[vertex as usize]).take();
        // The batch does not run a call that it has given back.
        let ended = taken.map(|Waiting { call, promise }| {
            let order = batch.order_of(vertex);
            let outcome = match promise.begin() {
                true => self.run_or_report(&batch, order, call),
                false => Outcome::Alone(call),
            };
            if let Outcome::Committed(answer) = &outcome
                && Some(answer.commit.number) == order
            {
                batch.has_record[vertex as usize].store(true, Ordering::Relaxed);
            }
            (promise, outcome)
        });
        let mut released = 0;
        batch.graph.done(vertex, |later| {
            self.deque.push(task(number, later));
            released += 1;
        });
        if let Some((promise, outcome)) = ended {
            let is_committed = matches!(outcome, Outcome::Committed(_));
            self.wakers.extend(promise.resolve_later(outcome));
            if !is_committed || self.wakers.len() >= WOKEN_TOGETHER {
                self.wake_sessions();
            }
        }
        // This executor takes one of them itself.
        (1..released).for_each(|_| self.shared.wake_one());
        self.batch = Some(batch);
    }

    /// Runs a call as a transaction. One that panics fails, with all that it has done undone, and the
    /// executor goes on with another worker.
    fn run_or_report(&mut self, batch: &Batch, order: Option<CommitOrder>, call: SubmittedCall) -> Outcome {
        let ran = catch_unwind(AssertUnwindSafe(|| self.run_call(batch, order, call)));
        ran.unwrap_or_else(|_| {
            let inner = Arc::clone(&self.worker.inner);
            // A worker rolls back when it is dropped.
            match Worker::new(inner) {
                Ok(mut worker) => {
                    Self::prepare(&mut worker, self.home);
                    worker.pipeline.take_over(&mut self.worker.pipeline);
                    self.worker = worker;
                }
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
    fn run_call(&mut self, batch: &Batch, order: Option<CommitOrder>, call: SubmittedCall) -> Outcome {
        let worker = &mut self.worker;
        if worker.version.number != call.version {
            worker.refresh();
            if worker.version.number != call.version {
                return Outcome::Outdated(call);
            }
        }
        let procedure = batch.plan.procedure(call.procedure);
        worker.machine.interrupted_by(call.interrupts.clone());
        worker.pipeline.number_vertex(order);
        let settings = Settings {
            is_read_only: false,
            is_in_block: false,
            is_in_batch: true,
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
                self.outputs.clear();
                let machine = &worker.machine;
                for (_, register, ty) in procedure.outputs() {
                    encode_value(machine.get(register), ty, &machine.frame.arena, &mut self.outputs);
                }
                let (outputs, notices) = (self.outputs.clone(), worker.take_notices());
                let notifications = worker.machine.services.take_notifications(false);
                Outcome::Committed(Answer { commit, outputs, notices, notifications })
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

/// Takes what became of records of a batch, whose calls have committed. A log that has failed refuses the
/// next transaction, and acknowledges none of these. Any other error would leave a log that lacks a part of
/// the batch.
fn check_ended(ended: Result<(), LogError>) {
    if let Err(error @ LogError::RecordTooLarge { .. }) = ended {
        tracing::error!(%error, "a batch cannot be logged; the process aborts; recovery follows: {error}");
        std::process::abort();
    }
}
