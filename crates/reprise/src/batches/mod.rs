//! Batches of calls, which executors run from dependency graphs: `--concurrency dgcc`.
//! Paper: DistDGCC §2.1. Differs: a vertex is a whole call, which an executor runs as a transaction of its
//! own over the workspace that all schemes share. So one that fails is undone before any call that depends on
//! it begins, and no failure cascades.
//!
//! 1. Sessions submit calls (`submit`), and wait for their outcomes (`ticket`).
//! 2. An executor that has nothing to run takes all calls that wait, and builds their graph (`plan`,
//!    `building`), alone or with further ones, while the rest still run the batch before. So a batch is as
//!    large as the load makes it, unless `Config::batch_wait` lets calls wait for further ones.
//! 3. The batch begins (`executor`): it closes the gate to the commits of all other transactions, keeps
//!    definitions from changing, and draws the numbers of all its calls. A call's number is its place.
//! 4. Executors take vertices that wait for no other, each first those that its own vertices have released,
//!    then those of other executors.
//! 5. Once all vertices are done, each executor that took part makes the records of its vertices. The last
//!    one ends the batch: the numbers may become durable, and the gate opens.
//!
//! So a batch is durable as a whole or not at all: until it ends, no logger passes its first number.
//!
//! A call that meets a row which a transaction outside of the batch holds is given back to its session, which
//! runs and waits as under any other scheme. So do calls of procedures that the analysis does not know,
//! statements, and transactions of several statements, beside batches.
//!
//! Under sequencings whose numbers follow from reads and writes (`ssn`, `gsn`), each call is numbered and
//! logged when it commits, as outside of batches.
//!
//! Invariants: 1. the outcome of a batch is that of its calls one after the other. Held by:
//! `batches_equal_one_thread`. 2. a recovered state has all of a batch or nothing: a part is refused
//! (`BrokenBatch`).
//! Not here: what a call reserves (`procedure::analysis`), graphs (`schedule::graph`).

mod building;
mod executor;
mod plan;
mod ticket;

pub(crate) use ticket::Ticket;

use crate::Error;
use crate::definitions::{Version, hold};
use crate::inner::Inner;
use crate::recovering::Recovering;
use crate::worker::{Refused, Worker};
use building::{Building, Tasks};
use catalog::{CommitOrder, ProcedureId, TableId};
use crossbeam_deque::{Injector, Stealer};
use executor::Executor;
use logging::Commit as CommitPoint;
use plan::Plan;
use procedure::analysis::Updated;
use procedure::{Interrupts, Notice, Notification, SqlError};
use schedule::graph::Graph;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use storage::Worker as Home;
use ticket::Promise;
use transaction::{EndedBatch, Gate};

/// The most calls of a batch while rows are recovered on demand: all of its commits wait for the rows of each
/// of its calls.
const MOST_WHILE_RECOVERING: usize = 32;

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
        notices: Vec<Notice>,
    },
    /// It did not run, because the definitions have changed.
    Outdated(SubmittedCall),
    /// It was undone, or did not run, and runs outside of batches: it has to wait for another transaction,
    /// takes much, or was withdrawn.
    Alone(SubmittedCall),
}

/// The answer of a call that has committed.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) commit: CommitPoint,
    /// The outputs, as `catalog::encode_value` writes them.
    pub(crate) outputs: Vec<u8>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) notifications: Vec<Notification>,
}

/// A call of a batch, until it has run.
#[derive(Debug)]
struct Waiting {
    call: SubmittedCall,
    promise: Promise,
}

/// A batch whose order is known.
struct Batch {
    /// The low bits of its number among the batches.
    number: u32,
    /// The commit order of its first vertex; `None` where vertices are numbered when they commit.
    first: Option<CommitOrder>,
    plan: Arc<Plan>,
    /// What its calls may update.
    updated: Updated,
    /// By vertex; taken by the executor that runs it. `None`: the batch has given the call back.
    calls: Vec<Mutex<Option<Waiting>>>,
    graph: Graph,
    /// The number of vertices that no executor has reported as done.
    left: AtomicUsize,
    /// By vertex, whether it has committed writes.
    has_record: Box<[AtomicBool]>,
    /// Executors that have run vertices, and have not made their records.
    took_part: AtomicUsize,
    /// By log, the number of records in a log of batches.
    records: Box<[AtomicU32]>,
}

impl Batch {
    fn new(plan: Arc<Plan>, calls: Vec<Option<Waiting>>, graph: Graph, logs: usize) -> Self {
        let called = calls.iter().flatten().map(|waiting| waiting.call.procedure);
        Self {
            number: 0,
            first: None,
            updated: plan.updated(called),
            plan,
            left: AtomicUsize::new(calls.len()),
            has_record: calls.iter().map(|_| AtomicBool::new(false)).collect(),
            took_part: AtomicUsize::new(0),
            records: (0..logs).map(|_| AtomicU32::new(0)).collect(),
            calls: calls.into_iter().map(Mutex::new).collect(),
            graph,
        }
    }

    /// Returns the commit order of a vertex.
    fn order_of(&self, vertex: u32) -> Option<CommitOrder> {
        self.first.map(|first| CommitOrder(first.0 + u64::from(vertex)))
    }

    /// Gives all calls back to their sessions: none of them has run.
    fn give_back(&self, outcome: impl Fn(SubmittedCall) -> Outcome) {
        for waiting in &self.calls {
            if let Some(Waiting { call, promise }) = hold(waiting).take() {
                promise.resolve(outcome(call));
            }
        }
    }
}

impl EndedBatch for Batch {
    fn first(&self) -> CommitOrder {
        self.first.expect("the vertices of a batch with records have numbers")
    }

    fn last(&self) -> CommitOrder {
        CommitOrder(self.first().0 + self.calls.len() as u64 - 1)
    }

    fn later(&self, vertex: u32, later: &mut Vec<u32>) {
        later.clear();
        let (mut looked_at, mut left) = (HashSet::new(), vec![vertex]);
        while let Some(earlier) = left.pop() {
            for next in self.graph.later_than(earlier) {
                if self.has_record[next as usize].load(Ordering::Relaxed) {
                    later.push(next);
                } else if looked_at.insert(next) {
                    left.push(next);
                }
            }
        }
        later.sort_unstable();
        later.dedup();
    }

    fn commits(&self) -> u32 {
        self.has_record.iter().filter(|own| own.load(Ordering::Relaxed)).count() as u32
    }

    fn updated(&self, table: TableId) -> &[usize] {
        self.updated.columns(table)
    }
}

/// The number of a batch, and a vertex of it.
type Task = u64;

fn task(batch: u32, vertex: u32) -> Task {
    Task::from(batch) << 32 | Task::from(vertex)
}

/// How far a graph is after a task.
enum Built {
    /// All tasks are done.
    Whole(Building),
    /// Some are not; the executor goes on with this one, if there is one to take.
    InPart(Option<(Arc<Building>, usize)>),
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
    /// The most calls of a batch, once all rows are recovered.
    most_calls: usize,
    recovering: Arc<Recovering>,
    /// The longest time that a call waits for further calls of its batch.
    longest_wait: Duration,
    gate: Arc<Gate>,
    /// For each executor a worker that is active and commits from the begin of a batch to its end. The
    /// records of the executor's vertices go to its logger, also when another worker takes its place.
    homes: Mutex<Vec<Home>>,
}

#[derive(Default)]
struct State {
    submitted: Vec<Waiting>,
    /// When the first of them was submitted, where calls wait for further ones.
    first_submitted: Option<Instant>,
    /// Whether the graph of the next batch is being built.
    is_resolving: bool,
    /// What is left to do for that graph, once an executor has begun it.
    building: Option<Tasks>,
    /// The batch that runs after the running one.
    next: Option<Batch>,
    phase: Phase,
    running: Option<Arc<Batch>>,
    /// The number of batches so far.
    count: u32,
    stops: bool,
}

/// Where the running batch is.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    /// No batch runs.
    #[default]
    Idle,
    /// An executor lets a batch begin.
    Begins,
    /// Executors run its vertices.
    Runs,
    /// Executors make its records.
    Ends,
}

/// What an executor does next.
enum Work {
    /// It begins the graph of these calls.
    Resolve(Vec<Waiting>),
    /// It runs a task of the graph that is being built.
    Build(Arc<Building>, usize),
    /// It lets a batch begin.
    Begin(Batch),
    /// It runs vertices.
    Run,
    /// It makes the records of its vertices of a batch.
    End(Arc<Batch>),
    /// It ends.
    Stop,
}

impl Shared {
    fn has_ready(&self) -> bool {
        !self.ready.is_empty() || self.deques.iter().any(|deque| !deque.is_empty())
    }

    /// Waits for something to do. `took_part` is the number of the batch of which the executor has run
    /// vertices, until it has made their records.
    fn next_work(&self, took_part: Option<u32>) -> Work {
        let mut state = hold(&self.state);
        loop {
            if self.has_ready() {
                return Work::Run;
            }
            if state.phase == Phase::Ends
                && let Some(batch) = state.running.as_ref().filter(|batch| took_part == Some(batch.number))
            {
                return Work::End(Arc::clone(batch));
            }
            if state.phase == Phase::Idle
                && let Some(next) = state.next.take()
            {
                state.phase = Phase::Begins;
                return Work::Begin(next);
            }
            if let Some((building, task)) = state.building.as_mut().and_then(Tasks::take) {
                return Work::Build(building, task);
            }
            let may_resolve = !state.is_resolving && state.next.is_none() && !state.submitted.is_empty();
            let wait = if may_resolve { self.left_to_wait(&state) } else { None };
            if may_resolve && wait.is_none() {
                return Work::Resolve(self.begin_to_resolve(&mut state));
            }
            if state.stops && state.phase == Phase::Idle {
                return Work::Stop;
            }
            // ORDERING: SeqCst pairs with `wake_one`: an executor that releases a vertex sees this sleeper,
            // or this sees the vertex.
            self.sleepers.fetch_add(1, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if !self.has_ready() {
                state = match wait {
                    None => self.has_work.wait(state).unwrap_or_else(PoisonError::into_inner),
                    Some(wait) => {
                        let waited = self.has_work.wait_timeout(state, wait);
                        waited.unwrap_or_else(PoisonError::into_inner).0
                    }
                };
            }
            self.sleepers.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Returns the most calls of the next batch.
    fn most_calls(&self) -> usize {
        match self.recovering.has_pending_rows() {
            true => self.most_calls.min(MOST_WHILE_RECOVERING),
            false => self.most_calls,
        }
    }

    /// Returns how long the calls that were submitted still wait for further ones; `None` if they do not.
    fn left_to_wait(&self, state: &State) -> Option<Duration> {
        let is_full = state.submitted.len() >= self.most_calls();
        let first = state.first_submitted.filter(|_| !is_full && !state.stops)?;
        self.longest_wait.checked_sub(first.elapsed()).filter(|left| !left.is_zero())
    }

    /// Takes the calls of the next batch.
    fn begin_to_resolve(&self, state: &mut State) -> Vec<Waiting> {
        state.is_resolving = true;
        let count = state.submitted.len().min(self.most_calls());
        let later = state.submitted.split_off(count);
        state.first_submitted = (!later.is_empty()).then(|| self.now()).flatten();
        std::mem::replace(&mut state.submitted, later)
    }

    /// Returns the time, where calls wait for further ones.
    fn now(&self) -> Option<Instant> {
        (!self.longest_wait.is_zero()).then(Instant::now)
    }

    /// Wakes an executor, if one sleeps.
    fn wake_one(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            let _state = hold(&self.state);
            self.has_work.notify_one();
        }
    }

    /// Changes the state, and wakes all executors.
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut hold(&self.state));
        self.has_work.notify_all();
    }

    /// Lets the executors build a graph. Returns its first task, for this executor.
    fn begin_to_build(&self, building: Building) -> (Arc<Building>, usize) {
        let has_more = building.chunks() > 1;
        let mut tasks = Tasks::new(building);
        let first = tasks.take().expect("a graph has a chunk");
        hold(&self.state).building = Some(tasks);
        if has_more {
            self.has_work.notify_all();
        }
        first
    }

    /// Notes that this executor has done a task of the graph that is being built, and has given the graph
    /// back.
    fn built(&self) -> Built {
        let mut state = hold(&self.state);
        let tasks = state.building.as_mut().expect("a graph is being built until its last task is done");
        let has_shards = tasks.note_done();
        if tasks.are_done() {
            let tasks = state.building.take().expect("it is there");
            return Built::Whole(tasks.into_building());
        }
        let next = tasks.take();
        drop(state);
        if has_shards {
            self.has_work.notify_all();
        }
        Built::InPart(next)
    }

    /// Takes a batch whose graph is built. `None`: none of its calls runs.
    fn resolved(&self, batch: Option<Batch>) {
        self.change(|state| {
            state.is_resolving = false;
            if let Some(mut batch) = batch {
                state.count = state.count.wrapping_add(1);
                batch.number = state.count;
                state.next = Some(batch);
            }
        });
    }

    /// Lets a batch begin: closes the gate, and draws its numbers. Returns false if its calls have other
    /// definitions than are current, or these are about to change: then no batch runs.
    fn begin(&self, batch: &mut Batch, inner: &Inner) -> bool {
        self.gate.close();
        let mut homes = hold(&self.homes);
        homes.iter_mut().for_each(Home::stay);
        if !inner.definitions.is_current(batch.plan.version) {
            homes.iter_mut().for_each(Home::leave);
            drop(homes);
            self.gate.open();
            return false;
        }
        if inner.logs.numbering().can_draw_ahead() {
            let epochs = homes[0].epochs();
            homes.iter().for_each(|home| epochs.begin_commit(home.slot()));
            batch.first = Some(epochs.draw_many(batch.calls.len() as u32));
        }
        true
    }

    /// Lets the executors run the vertices of a batch.
    fn run(&self, batch: Batch) {
        self.change(|state| {
            let batch = Arc::new(batch);
            batch.graph.ready().for_each(|vertex| self.ready.push(task(batch.number, vertex)));
            state.running = Some(batch);
            state.phase = Phase::Runs;
        });
    }

    /// Ends the running batch, whose records are in the buffers of the logs.
    fn end(&self) {
        let mut homes = hold(&self.homes);
        for home in homes.iter_mut() {
            home.epochs().end_commit(home.slot());
            home.leave();
        }
        drop(homes);
        self.gate.open();
        self.idle();
    }

    /// Notes that no batch runs.
    fn idle(&self) {
        self.change(|state| {
            state.running = None;
            state.phase = Phase::Idle;
        });
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
        let (count, tables) = (inner.config.executors.max(1), inner.definitions.current().tables.clone());
        let gate = inner.gate.clone().expect("a scheme with batches has a gate");
        let home = || -> Result<Home, Error> {
            let home = Home::new(tables.epochs.clone(), tables.memory.clone());
            let home = home.ok_or(Error::TooManySessions(inner.config.workers))?;
            inner.logs.add_worker(home.slot())?;
            Ok(home)
        };
        let homes = (0..count).map(|_| home()).collect::<Result<Vec<_>, _>>()?;
        let slots: Vec<_> = homes.iter().map(Home::slot).collect();
        // The edges of a vertex fit a quarter of a log's buffer: each takes at most three bytes.
        let largest = inner.logs.iter().map(|own| own.log.largest_record()).min().unwrap_or(usize::MAX);
        let most_calls = inner.config.batch_size.min(largest / 16).clamp(1, 1 << 20);
        let deques: Vec<_> = (0..count).map(|_| crossbeam_deque::Worker::new_lifo()).collect();
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            has_work: Condvar::new(),
            sleepers: AtomicUsize::new(0),
            ready: Injector::new(),
            deques: deques.iter().map(crossbeam_deque::Worker::stealer).collect(),
            most_calls,
            recovering: Arc::clone(&inner.recovering),
            longest_wait: inner.config.batch_wait,
            gate,
            homes: Mutex::new(homes),
        });
        let mut batches = Self { shared: Arc::clone(&shared), threads: Vec::new() };
        for (number, deque) in deques.into_iter().enumerate() {
            let worker = Worker::new(Arc::clone(inner))?;
            let executor = Executor::new(worker, slots[number], Arc::clone(&shared), deque);
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
        let waiting = Waiting { call, promise: Promise::new(&ticket) };
        let has_work = {
            let mut state = hold(&self.shared.state);
            state.submitted.push(waiting);
            let count = state.submitted.len();
            if count == 1 {
                state.first_submitted = self.shared.now();
            }
            count == 1 || count == self.shared.most_calls()
        };
        if has_work {
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
