//! Clients that run a workload: each a thread with a session, many calls in flight, acknowledged as they
//! become durable.

use hdrhistogram::Histogram;
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use reprise::{CommitQueue, Database, Error, Row};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use workload::{Request, Workload};

/// Latencies are recorded from this to this many microseconds.
const LONGEST_US: u64 = 60_000_000;
/// Calls in flight of a client; beyond that it waits for the log.
const IN_FLIGHT: usize = 100_000;

/// When clients stop.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After a time.
    Elapsed(Duration),
    /// After a number of transactions, all clients together.
    Transactions(u64),
}

/// How a run is driven.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub clients: usize,
    pub until: Until,
    pub seed: u64,
    /// Transactions a second, all clients together; as many as possible when `None`.
    pub rate: Option<f64>,
    /// Of a hundred transactions, this many are logged by value.
    pub ad_hoc_percent: u8,
}

/// What a run measured.
pub struct Measured {
    pub committed: u64,
    pub aborted: u64,
    pub elapsed: Duration,
    pub latency_us: Histogram<u64>,
    pub timeline: Timeline,
}

/// What was acknowledged in each second of a run.
#[derive(Clone, Default)]
pub struct Timeline(pub Vec<Second>);

/// One second of a run.
#[derive(Clone, Copy, Default)]
pub struct Second {
    /// Transactions.
    pub committed: u64,
    /// The sum of their latencies.
    pub latency_us: u64,
}

impl Timeline {
    fn add(&mut self, second: usize, own: Second) {
        if self.0.len() <= second {
            self.0.resize(second + 1, Second::default());
        }
        self.0[second].committed += own.committed;
        self.0[second].latency_us += own.latency_us;
    }
}

struct Shared {
    stop: AtomicBool,
    started: AtomicU64,
}

/// Runs clients; `acknowledged` is told of every request whose commit is durable.
pub fn run(
    db: &Database,
    workload: &dyn Workload,
    run: Run,
    acknowledged: &(dyn Fn(usize, &Request, &Row) + Sync),
    traced: bool,
) -> Result<Measured, Error> {
    let shared = Shared { stop: AtomicBool::new(false), started: AtomicU64::new(0) };
    let begun = Instant::now();
    let results: Vec<Result<ClientResult, Error>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..run.clients)
            .map(|number| {
                let shared = &shared;
                let work = move || client(db, workload, run, number, shared, acknowledged, traced);
                std::thread::Builder::new()
                    .name(format!("client-{number}"))
                    .spawn_scoped(scope, work)
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
    let mut measured = Measured { committed: 0, aborted: 0, elapsed, latency_us: histogram(), timeline };
    for result in results {
        let own = result?;
        measured.committed += own.committed;
        measured.aborted += own.aborted;
        let _ = measured.latency_us.add(own.latency_us);
        for (second, own) in own.timeline.0.into_iter().enumerate() {
            measured.timeline.add(second, own);
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
    latency_us: Histogram<u64>,
    timeline: Timeline,
}

struct InFlight {
    begun: Instant,
    trace: Option<(Request, Row)>,
}

fn client(
    db: &Database,
    workload: &dyn Workload,
    run: Run,
    number: usize,
    shared: &Shared,
    acknowledged: &(dyn Fn(usize, &Request, &Row) + Sync),
    traced: bool,
) -> Result<ClientResult, Error> {
    let mut session = db.session()?;
    let mut inputs = workload.client(number, run.clients, run.seed);
    let mut lots = SmallRng::seed_from_u64(run.seed ^ number as u64);
    let mut result =
        ClientResult { committed: 0, aborted: 0, latency_us: histogram(), timeline: Timeline::default() };
    let started = Instant::now();
    let mut pending: CommitQueue<InFlight> = CommitQueue::default();
    let mut request = Request::default();
    let interval = run.rate.map(|rate| Duration::from_secs_f64(run.clients as f64 / rate));
    let mut due = Instant::now();
    let settle = |pending: &mut CommitQueue<InFlight>, result: &mut ClientResult| {
        let mut now = None;
        while let Some(done) = pending.pop_durable(|commit| db.is_durable(commit)) {
            let now = *now.get_or_insert_with(Instant::now);
            result.committed += 1;
            let latency_us = (now - done.begun).as_micros() as u64;
            let _ = result.latency_us.record(latency_us);
            result.timeline.add((now - started).as_secs() as usize, Second { committed: 1, latency_us });
            if let Some((request, row)) = done.trace {
                acknowledged(number, &request, &row);
            }
        }
    };
    loop {
        let enough = match run.until {
            Until::Elapsed(_) => shared.stop.load(Ordering::Relaxed),
            Until::Transactions(limit) => shared.started.fetch_add(1, Ordering::Relaxed) >= limit,
        };
        if enough {
            break;
        }
        if let Some(interval) = interval {
            while Instant::now() < due {
                settle(&mut pending, &mut result);
                // Loggers may need the core.
                std::thread::yield_now();
            }
            due += interval;
        }
        inputs.next(&mut request);
        if run.ad_hoc_percent > 0 {
            session.log_by_value(lots.random_range(0..100) < run.ad_hoc_percent);
        }
        let begun = Instant::now();
        match session.submit_commit(request.procedure, &request.arguments) {
            Ok(commit) => {
                let trace = traced.then(|| (request.clone(), session.row()));
                pending.push(commit, InFlight { begun, trace });
            }
            Err(Error::Sql(_)) => result.aborted += 1,
            Err(error) => return Err(error),
        }
        settle(&mut pending, &mut result);
        if let (true, Some(first)) = (pending.len() >= IN_FLIGHT, pending.first()) {
            session.wait_for(first)?;
        }
    }
    while let Some(first) = pending.first() {
        session.wait_for(first)?;
        settle(&mut pending, &mut result);
    }
    Ok(result)
}
