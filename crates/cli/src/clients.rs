//! Clients that run a workload. Each is a thread with a session and many calls in flight, which are
//! acknowledged when they are durable.

use hdrhistogram::Histogram;
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use reprise::{CommitQueue, Database, Error, Executed, Row, Session, StartedCall};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use workload::{Request, Workload};

/// Maximum latency that is recorded, in microseconds.
const LONGEST_US: u64 = 60_000_000;
/// Maximum number of a client's calls in flight; at this number it waits for the log.
const IN_FLIGHT: usize = 100_000;

/// The moment at which the clients stop.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After a time.
    Elapsed(Duration),
    /// After a number of transactions of all clients together.
    Transactions(u64),
}

/// The load of a run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub clients: usize,
    pub until: Until,
    pub seed: u64,
    /// Transactions a second of all clients together; `None` offers as many as possible.
    pub rate: Option<f64>,
    /// Percentage of transactions that are logged by value.
    pub ad_hoc_percent: u8,
    /// Calls that a client has begun and not ended, where calls run in batches.
    pub under_way: usize,
}

/// The result of a run.
pub struct Measured {
    pub committed: u64,
    pub aborted: u64,
    /// By how much the committed calls have changed the workload's sum.
    pub added: i64,
    pub elapsed: Duration,
    pub latency_us: Histogram<u64>,
    pub timeline: Timeline,
}

/// The acknowledgements in each second of a run.
#[derive(Clone, Default)]
pub struct Timeline(pub Vec<Second>);

/// One second of a run.
#[derive(Clone, Copy, Default)]
pub struct Second {
    pub committed: u64,
    /// Sum of the latencies of these transactions.
    pub latency_us: u64,
}

impl Timeline {
    pub fn add(&mut self, second: usize, added: Second) {
        if self.0.len() <= second {
            self.0.resize(second + 1, Second::default());
        }
        self.0[second].committed += added.committed;
        self.0[second].latency_us += added.latency_us;
    }
}

/// A call whose commit is durable.
pub struct Acknowledged<'a> {
    pub request: &'a Request,
    pub row: &'a Row,
}

/// Receives every acknowledged call.
pub type Listener<'a> = &'a (dyn Fn(Acknowledged<'_>) + Sync);

/// What all clients share.
struct Shared<'a> {
    db: &'a Database,
    workload: &'a dyn Workload,
    run: Run,
    listener: Option<Listener<'a>>,
    stop: AtomicBool,
    /// Number of transactions begun so far, when the run ends after a number of them.
    started: AtomicU64,
}

/// Runs clients. The listener, where there is one, is told of every acknowledged call.
pub fn run(
    db: &Database,
    workload: &dyn Workload,
    run: Run,
    listener: Option<Listener<'_>>,
) -> Result<Measured, Error> {
    let (stop, started) = (AtomicBool::new(false), AtomicU64::new(0));
    let shared = Shared { db, workload, run, listener, stop, started };
    let begun = Instant::now();
    let results: Vec<Result<ClientResult, Error>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..run.clients)
            .map(|number| {
                let shared = &shared;
                std::thread::Builder::new()
                    .name(format!("client-{number}"))
                    .spawn_scoped(scope, move || Client::new(shared, number)?.run())
                    .expect("a thread for a client")
            })
            .collect();
        if let Until::Elapsed(time) = run.until {
            std::thread::sleep(time);
            shared.stop.store(true, Ordering::Relaxed);
        }
        running.into_iter().map(|thread| thread.join().expect("a client does not panic")).collect()
    });
    let elapsed = begun.elapsed();
    let timeline = Timeline::default();
    let mut measured =
        Measured { committed: 0, aborted: 0, added: 0, elapsed, latency_us: histogram(), timeline };
    for result in results {
        let result = result?;
        measured.committed += result.committed;
        measured.aborted += result.aborted;
        measured.added += result.added;
        let _ = measured.latency_us.add(result.latency_us);
        for (number, second) in result.timeline.0.into_iter().enumerate() {
            measured.timeline.add(number, second);
        }
    }
    Ok(measured)
}

pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_US, 3).expect("valid bounds")
}

struct ClientResult {
    committed: u64,
    aborted: u64,
    added: i64,
    latency_us: Histogram<u64>,
    timeline: Timeline,
}

/// A call that has begun.
struct Begun {
    at: Instant,
    request: Request,
    call: StartedCall,
}

struct InFlight {
    begun: Instant,
    /// The request and its row, for the listener.
    trace: Option<(Request, Row)>,
}

/// One client of a run.
struct Client<'a> {
    shared: &'a Shared<'a>,
    session: Session,
    inputs: Box<dyn workload::Client>,
    /// Decides which transactions are logged by value.
    lots: SmallRng,
    started: Instant,
    /// Oldest first.
    begun: VecDeque<Begun>,
    /// Requests of calls that have ended, whose memory is used again.
    spare: Vec<Request>,
    pending: CommitQueue<InFlight>,
    result: ClientResult,
}

impl<'a> Client<'a> {
    fn new(shared: &'a Shared<'a>, number: usize) -> Result<Self, Error> {
        let run = &shared.run;
        let timeline = Timeline::default();
        Ok(Self {
            shared,
            session: shared.db.session()?,
            inputs: shared.workload.client(number, run.clients, run.seed),
            lots: SmallRng::seed_from_u64(run.seed ^ number as u64),
            started: Instant::now(),
            begun: VecDeque::new(),
            spare: Vec::new(),
            pending: CommitQueue::default(),
            result: ClientResult { committed: 0, aborted: 0, added: 0, latency_us: histogram(), timeline },
        })
    }

    fn run(mut self) -> Result<ClientResult, Error> {
        let run = self.shared.run;
        let interval = run.rate.map(|rate| Duration::from_secs_f64(run.clients as f64 / rate));
        let mut due = Instant::now();
        let mut request = Request::default();
        while !self.is_over() {
            if let Some(interval) = interval {
                self.wait_until(due);
                due += interval;
            }
            self.inputs.next(&mut request);
            self.submit(&mut request)?;
            self.settle();
            if let (true, Some(first)) = (self.pending.len() >= IN_FLIGHT, self.pending.first()) {
                self.shared.db.wait(first)?;
            }
        }
        while let Some(begun) = self.begun.pop_front() {
            self.end(begun)?;
        }
        while let Some(first) = self.pending.first() {
            self.shared.db.wait(first)?;
            self.settle();
        }
        Ok(self.result)
    }

    /// Returns whether the client begins no further transaction. Counts the next one, if it begins one.
    fn is_over(&self) -> bool {
        match self.shared.run.until {
            Until::Elapsed(_) => self.shared.stop.load(Ordering::Relaxed),
            Until::Transactions(limit) => self.shared.started.fetch_add(1, Ordering::Relaxed) >= limit,
        }
    }

    fn wait_until(&mut self, due: Instant) {
        while Instant::now() < due {
            self.settle();
            // Loggers may need the core.
            std::thread::yield_now();
        }
    }

    /// Executes a request, which is acknowledged later.
    fn submit(&mut self, request: &mut Request) -> Result<(), Error> {
        let percent = self.shared.run.ad_hoc_percent;
        if percent > 0 {
            self.session.log_by_value(self.lots.random_range(0..100) < percent);
        }
        let at = Instant::now();
        if self.shared.run.under_way == 0 {
            let done = self.session.call(request.procedure, &request.arguments);
            return self.ended(done, at, request);
        }
        let call = self.session.begin_call(request.procedure, &request.arguments)?;
        let request = std::mem::replace(request, self.spare.pop().unwrap_or_default());
        self.begun.push_back(Begun { at, request, call });
        while self.begun.len() > self.shared.run.under_way
            && let Some(oldest) = self.begun.pop_front()
        {
            self.end(oldest)?;
        }
        Ok(())
    }

    /// Waits until a call has run.
    fn end(&mut self, Begun { at, request, call }: Begun) -> Result<(), Error> {
        let done = self.session.end_call(call);
        self.ended(done, at, &request)?;
        self.spare.push(request);
        Ok(())
    }

    /// Takes the answer of a call.
    fn ended(
        &mut self,
        done: Result<Executed, Error>,
        begun: Instant,
        request: &Request,
    ) -> Result<(), Error> {
        match done {
            Ok(done) => {
                let row = done.rows.into_iter().next().unwrap_or_default();
                self.result.added += self.shared.workload.added(request, &row);
                let trace = self.shared.listener.is_some().then(|| (request.clone(), row));
                self.pending.push(done.commit.point(), InFlight { begun, trace });
                Ok(())
            }
            Err(Error::Sql(_)) => {
                self.result.aborted += 1;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Acknowledges the calls that have become durable.
    fn settle(&mut self) {
        let mut now = None;
        while let Some(done) = self.pending.pop_durable(|commit| self.shared.db.is_durable(commit)) {
            let now = *now.get_or_insert_with(Instant::now);
            self.result.committed += 1;
            let latency_us = (now - done.begun).as_micros() as u64;
            let _ = self.result.latency_us.record(latency_us);
            let second = (now - self.started).as_secs() as usize;
            self.result.timeline.add(second, Second { committed: 1, latency_us });
            if let (Some((request, row)), Some(listener)) = (&done.trace, self.shared.listener) {
                listener(Acknowledged { request, row });
            }
        }
    }
}
