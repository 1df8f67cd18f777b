//! Batches of calls, which executors run from dependency graphs: `--concurrency dgcc`.
//! Paper: DistDGCC §2.1. Differs: a vertex is a whole call, which an executor runs as a transaction of its
//! own over the workspace that all schemes share. Validation stays: it compares the call with transactions
//! outside of the batch, and a gap in the analysis would cost a retry, not a wrong result.
//!
//! 1. Sessions submit calls (`submit`), and wait for their outcomes.
//! 2. An executor that has nothing to run takes all calls that wait, and builds their graph (`plan`), while
//!    the rest still run the batch before. So a batch is as large as the load makes it.
//! 3. Once a batch is done, the next one begins. Executors take vertices that wait for no other, each first
//!    those that its own vertices have released, then those of other executors (`executor`).
//!
//! A call that meets a row which a transaction outside of the batch holds is given back to its session, which
//! runs and waits as under any other scheme. So do calls of procedures that the analysis does not know,
//! statements, and transactions of several statements, beside batches.
//!
//! Invariant: calls of one batch never conflict. Held by: `crates/reprise/tests/suite/batches.rs`, which
//! counts conflicts.
//! Not here: what a call reserves (`procedure::analysis`), graphs (`schedule::graph`).

mod executor;
mod plan;

use crate::Error;
use crate::definitions::{Version, hold};
use crate::inner::Inner;
use crate::worker::{Refused, Worker};
use catalog::ProcedureId;
use crossbeam_deque::{Injector, Stealer};
use executor::Executor;
use logging::Commit as CommitPoint;
use plan::Plan;
use procedure::{Interrupts, SqlError};
use schedule::graph::Graph;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A call that waits for a batch.
#[derive(Debug)]
pub(crate) struct SubmittedCall {
    pub(crate) procedure: ProcedureId,
    /// The number of the definitions that the session knows.
    pub(crate) version: u64,
    /// As `catalog::encode_value` writes them.
    pub(crate) arguments: Vec<u8>,
    pub(crate) timestamp_us: i64,
    pub(crate) seed: u64,
    /// Whether it is logged by value.
    pub(crate) by_value: bool,
    pub(crate) interrupts: Interrupts,
    pub(crate) lock_timeout: Option<Duration>,
}

/// What became of a call.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It has committed.
    Committed(Answer),
    /// It has failed, and has no effect.
    Failed {
        /// The error.
        refused: Refused,
        /// What RAISE has said before.
        notices: Vec<SqlError>,
    },
    /// It did not run, because the definitions have changed.
    Outdated(SubmittedCall),
    /// It was undone: it has to wait for a transaction outside of the batch, and then runs outside, too.
    Alone(SubmittedCall),
}

/// The answer of a call that has committed.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) commit: CommitPoint,
    /// The outputs, as `catalog::encode_value` writes them.
    pub(crate) outputs: Vec<u8>,
    pub(crate) notices: Vec<SqlError>,
}

/// Where a session waits for the outcome of a call.
#[derive(Default, Debug)]
pub(crate) struct Ticket {
    outcome: Mutex<Option<Outcome>>,
    is_there: Condvar,
}

impl Ticket {
    fn resolve(&self, outcome: Outcome) {
        *hold(&self.outcome) = Some(outcome);
        self.is_there.notify_one();
    }

    /// Waits until the call has run.
    pub(crate) fn wait(&self) -> Outcome {
        let mut outcome = hold(&self.outcome);
        loop {
            match outcome.take() {
                Some(outcome) => return outcome,
                None => outcome = self.is_there.wait(outcome).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// A call of a batch, until it has run.
#[derive(Debug)]
struct Waiting {
    call: SubmittedCall,
    ticket: Arc<Ticket>,
}

/// A batch whose order is known.
struct Batch {
    /// The low bits of its number among the batches.
    number: u32,
    plan: Arc<Plan>,
    /// By vertex; taken by the executor that runs it.
    calls: Vec<Mutex<Option<Waiting>>>,
    graph: Graph,
    /// The number of vertices that are not done.
    left: AtomicUsize,
}

/// The number of a batch, and a vertex of it.
type Task = u64;

fn task(batch: u32, vertex: u32) -> Task {
    Task::from(batch) << 32 | Task::from(vertex)
}

/// What sessions and executors share.
struct Shared {
    state: Mutex<State>,
    /// Signalled when there is something to do for executors.
    has_work: Condvar,
    /// The executors that wait for a signal.
    sleepers: AtomicUsize,
    /// Vertices of the running batch that wait for no other; vertices that executors have released lie in
    /// their own deques.
    ready: Injector<Task>,
    deques: Vec<Stealer<Task>>,
    /// The most calls of a batch.
    most_calls: usize,
}

#[derive(Default)]
struct State {
    submitted: Vec<Waiting>,
    /// Whether an executor builds the graph of the next batch.
    is_resolving: bool,
    /// The batch that runs after the running one.
    next: Option<Arc<Batch>>,
    running: Option<Arc<Batch>>,
    /// The number of batches so far.
    count: u32,
    stops: bool,
}

/// What an executor does next.
enum Work {
    /// It builds the graph of these calls.
    Resolve(Vec<Waiting>),
    /// It runs vertices.
    Run,
    /// It ends.
    Stop,
}

impl Shared {
    fn has_ready(&self) -> bool {
        !self.ready.is_empty() || self.deques.iter().any(|deque| !deque.is_empty())
    }

    /// Waits for something to do.
    fn next_work(&self) -> Work {
        let mut state = hold(&self.state);
        loop {
            if self.has_ready() {
                return Work::Run;
            }
            if !state.is_resolving && state.next.is_none() && !state.submitted.is_empty() {
                state.is_resolving = true;
                let count = state.submitted.len().min(self.most_calls);
                let later = state.submitted.split_off(count);
                return Work::Resolve(std::mem::replace(&mut state.submitted, later));
            }
            if state.stops {
                return Work::Stop;
            }
            // ORDERING: SeqCst pairs with `wake_one`: an executor that releases a vertex sees this sleeper,
            // or this sees the vertex.
            self.sleepers.fetch_add(1, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if !self.has_ready() {
                state = self.has_work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            self.sleepers.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Wakes an executor, if one sleeps.
    fn wake_one(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            let _state = hold(&self.state);
            self.has_work.notify_one();
        }
    }

    /// Takes a batch whose graph is built. `None`: none of its calls runs.
    fn resolved(&self, batch: Option<Batch>) {
        let mut state = hold(&self.state);
        state.is_resolving = false;
        if let Some(mut batch) = batch {
            state.count = state.count.wrapping_add(1);
            batch.number = state.count;
            state.next = Some(Arc::new(batch));
            if state.running.is_none() {
                self.begin_next(&mut state);
            }
        }
        drop(state);
        self.has_work.notify_all();
    }

    /// Notes that all vertices of the running batch are done.
    fn finished(&self) {
        let mut state = hold(&self.state);
        state.running = None;
        self.begin_next(&mut state);
        drop(state);
        self.has_work.notify_all();
    }

    fn begin_next(&self, state: &mut State) {
        state.running = state.next.take();
        if let Some(batch) = &state.running {
            batch.graph.ready().for_each(|vertex| self.ready.push(task(batch.number, vertex)));
        }
    }
}

/// The executors of a database.
pub(crate) struct Batches {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batches").field("executors", &self.threads.len()).finish_non_exhaustive()
    }
}

impl Batches {
    /// Starts executors; `None` under schemes that run each call at once.
    ///
    /// # Errors
    /// The system gives no thread, or there are too few workers.
    pub(crate) fn start(inner: &Arc<Inner>) -> Result<Option<Arc<Self>>, Error> {
        if !inner.config.concurrency.runs_batches() {
            return Ok(None);
        }
        let count = inner.config.executors.max(1);
        let deques: Vec<_> = (0..count).map(|_| crossbeam_deque::Worker::new_lifo()).collect();
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            has_work: Condvar::new(),
            sleepers: AtomicUsize::new(0),
            ready: Injector::new(),
            deques: deques.iter().map(crossbeam_deque::Worker::stealer).collect(),
            most_calls: inner.config.batch_size.max(1),
        });
        let mut batches = Self { shared: Arc::clone(&shared), threads: Vec::new() };
        for (number, deque) in deques.into_iter().enumerate() {
            let worker = Worker::new(Arc::clone(inner))?;
            let executor = Executor::new(worker, Arc::clone(&shared), deque);
            let thread = std::thread::Builder::new().name(format!("executor-{number}"));
            let thread = thread.spawn(move || executor.run()).map_err(|error| {
                SqlError::new("53000", format!("the system gives no thread for an executor: {error}"))
            })?;
            batches.threads.push(thread);
        }
        Ok(Some(Arc::new(batches)))
    }

    /// Submits a call.
    pub(crate) fn submit(&self, call: SubmittedCall) -> Arc<Ticket> {
        let ticket = Arc::new(Ticket::default());
        let waiting = Waiting { call, ticket: Arc::clone(&ticket) };
        let is_first = {
            let mut state = hold(&self.shared.state);
            state.submitted.push(waiting);
            state.submitted.len() == 1
        };
        if is_first {
            self.shared.has_work.notify_one();
        }
        ticket
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        hold(&self.shared.state).stops = true;
        self.shared.has_work.notify_all();
        for thread in self.threads.drain(..) {
            // The last handle of a database may lie in a call that an executor drops.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}
