//! Which transactions an adaptive log records by value, and when a checkpoint is due, so that recovery stays
//! within a bound. Beyond the papers; compare Yao et al., Adaptive Logging (SIGMOD 2016), which chooses by
//! distributed dependencies.
//!
//! Recovery loads the checkpoint and replays the log since. A checkpoint of `S` bytes buys as many seconds of
//! replay as the bound `T` leaves for it, so a second has a price: `S / T` bytes. A procedure whose replay
//! takes `c` seconds as a command of `b` bytes, and `v` seconds as a write set of `B` bytes, is recorded by
//! value when `B - b` bytes are cheaper than `c - v` seconds. A smaller bound makes seconds dearer: more is
//! recorded by value, and checkpoints come more often. The log grows no more than that.
//!
//! `c` is what the procedure's own execution took, `v` follows from its writes, both by factors that were
//! measured (docs/results.md); `S` is what the last checkpoint took.
//! Held by: `crates/reprise/tests/suite/adaptive.rs`.

use catalog::ProcedureId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Replay of a command takes this many times as long as its execution did, which was beside commits and
/// loggers.
const REPLAY_OF_EXECUTION: f64 = 0.8;
/// Seconds to replay one write.
const WRITE_S: f64 = 0.45e-6;
/// Bytes of a log, or of a checkpoint, that one thread reads in a second.
const READ_BYTES_A_SECOND: f64 = 0.7e9;
/// A first transaction commits after this part of the time that the replay takes: the log is read, and what
/// its calls may touch is listed; then the calls run that the transaction depends on.
pub const FIRST_COMMIT_OF_REPLAY: f64 = 0.27;
/// What there is of the bound is used up to this part of it, as predictions err.
const USED: f64 = 0.8;
/// How much a new observation counts beside those before.
const NEWEST: f64 = 1.0 / 16.0;

/// What one procedure's transactions cost. Numbers are kept as bits of f64; who comes last wins, as all of
/// them are estimates.
#[derive(Debug, Default)]
pub(crate) struct Costs {
    command_s: AtomicU64,
    command_bytes: AtomicU64,
    value_s: AtomicU64,
    value_bytes: AtomicU64,
}

/// One transaction as it was observed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) execution: Duration,
    pub(crate) command_bytes: usize,
    pub(crate) writes: usize,
    pub(crate) value_bytes: usize,
}

/// Costs by procedure and its version; `None` has the transactions that are always recorded by value.
type CostsByProcedure = HashMap<Option<(ProcedureId, u32)>, Arc<Costs>>;

/// The bounds of a recovery.
#[derive(Clone, Copy, Debug)]
pub struct RecoveryTargets {
    /// The longest time until all rows are recovered.
    pub recovered: Duration,
    /// The longest time until a first transaction commits, where rows are recovered on demand.
    pub first_commit: Option<Duration>,
}

/// The recovery that opened a database.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recovered {
    /// Its threads, and those of the next recovery.
    pub threads: usize,
    /// How long it replayed the log.
    pub replay_s: f64,
    /// The size of the checkpoint that it loaded.
    pub checkpoint_bytes: u64,
}

/// What all sessions of an adaptive log share.
#[derive(Debug)]
pub struct Adaptive {
    target_s: f64,
    /// The longest replay after which a first transaction still commits in time.
    most_replay_s: f64,
    threads: f64,
    /// Nanoseconds of replay that were logged since the database was opened, on one thread.
    logged_ns: AtomicU64,
    /// Of these, what the last checkpoint holds.
    held_ns: AtomicU64,
    checkpoint_bytes: AtomicU64,
    checkpoint_ns: AtomicU64,
    procedures: RwLock<CostsByProcedure>,
}

fn get(number: &AtomicU64) -> f64 {
    f64::from_bits(number.load(Ordering::Relaxed))
}

fn mix(number: &AtomicU64, newest: f64) {
    let old = get(number);
    let mixed = if old == 0.0 { newest } else { old + (newest - old) * NEWEST };
    number.store(mixed.to_bits(), Ordering::Relaxed);
}

impl Costs {
    /// Takes an observation in.
    pub(crate) fn observe(&self, sample: Sample) {
        let read = |bytes: usize| bytes as f64 / READ_BYTES_A_SECOND;
        let Sample { execution, command_bytes, writes, value_bytes } = sample;
        mix(&self.command_s, execution.as_secs_f64() * REPLAY_OF_EXECUTION + read(command_bytes));
        mix(&self.command_bytes, command_bytes as f64);
        mix(&self.value_s, writes as f64 * WRITE_S + read(value_bytes));
        mix(&self.value_bytes, value_bytes as f64);
    }

    /// Nanoseconds that the replay of a transaction takes.
    pub(crate) fn replay_ns(&self, by_value: bool) -> u64 {
        (get(if by_value { &self.value_s } else { &self.command_s }) * 1e9) as u64
    }
}

impl Adaptive {
    /// A recovery that has just been goes on counting, until the next checkpoint.
    pub fn new(targets: RecoveryTargets, recovered: Recovered) -> Self {
        let of_first = |target: Duration| target.as_secs_f64() * USED / FIRST_COMMIT_OF_REPLAY;
        let adaptive = Self {
            target_s: targets.recovered.as_secs_f64(),
            most_replay_s: targets.first_commit.map_or(f64::INFINITY, of_first),
            threads: recovered.threads.max(1) as f64,
            logged_ns: AtomicU64::new(0),
            held_ns: AtomicU64::new(0),
            checkpoint_bytes: AtomicU64::new(recovered.checkpoint_bytes),
            checkpoint_ns: AtomicU64::new(0),
            procedures: RwLock::default(),
        };
        adaptive.replayed(recovered.replay_s);
        adaptive
    }

    /// Adds seconds in which all threads have replayed the log, which the next recovery replays again.
    pub fn replayed(&self, seconds: f64) {
        self.add((seconds * self.threads * 1e9) as u64);
    }

    /// The costs of a procedure.
    pub(crate) fn costs(&self, procedure: Option<(ProcedureId, u32)>) -> Arc<Costs> {
        let known = self.procedures.read().unwrap_or_else(PoisonError::into_inner).get(&procedure).cloned();
        known.unwrap_or_else(|| {
            let mut procedures = self.procedures.write().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(procedures.entry(procedure).or_default())
        })
    }

    /// Seconds that loading the last checkpoint takes.
    fn load_s(&self) -> f64 {
        self.checkpoint_bytes.load(Ordering::Relaxed) as f64 / READ_BYTES_A_SECOND / self.threads
    }

    /// Seconds of the bounds that are there for replay.
    fn left_s(&self) -> f64 {
        (self.target_s * USED - self.load_s()).max(self.target_s / 100.0).min(self.most_replay_s)
    }

    /// Whether a procedure's transactions are recorded by value.
    pub(crate) fn prefers_value(&self, costs: &Costs) -> bool {
        let saved_s = (get(&costs.command_s) - get(&costs.value_s)) / self.threads;
        let more_bytes = get(&costs.value_bytes) - get(&costs.command_bytes);
        let bytes_a_second = self.checkpoint_bytes.load(Ordering::Relaxed) as f64 / self.left_s();
        saved_s > 0.0 && saved_s * bytes_a_second > more_bytes
    }

    /// Adds what a session has logged.
    pub(crate) fn add(&self, replay_ns: u64) {
        self.logged_ns.fetch_add(replay_ns, Ordering::Relaxed);
    }

    /// What was logged so far.
    pub fn logged_ns(&self) -> u64 {
        self.logged_ns.load(Ordering::Relaxed)
    }

    /// A checkpoint was taken that holds what was logged up to a point.
    pub fn checkpoint_taken(&self, logged_ns: u64, bytes: u64, elapsed: Duration) {
        self.held_ns.store(logged_ns, Ordering::Relaxed);
        self.checkpoint_bytes.store(bytes, Ordering::Relaxed);
        self.checkpoint_ns.store(elapsed.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Seconds that replay would take of what was logged since the last checkpoint.
    fn replay_s(&self) -> f64 {
        let since = self.logged_ns().saturating_sub(self.held_ns.load(Ordering::Relaxed));
        since as f64 / 1e9 / self.threads
    }

    /// Returns the seconds that a recovery now would take.
    pub fn predicted_s(&self) -> f64 {
        self.load_s() + self.replay_s()
    }

    /// Whether the next checkpoint must begin now to be there in time, where `replay_a_second` is how fast
    /// replay gets longer.
    pub fn needs_checkpoint(&self, replay_a_second: f64) -> bool {
        let taking = self.checkpoint_ns.load(Ordering::Relaxed) as f64 / 1e9;
        let replay_s = self.replay_s();
        replay_s > 0.0 && replay_s + taking * replay_a_second >= self.left_s()
    }

    /// How fast replay gets longer, in seconds a second, when so much was logged in a time.
    pub fn rate(&self, logged_ns: u64, elapsed: Duration) -> f64 {
        logged_ns as f64 / 1e9 / self.threads / elapsed.as_secs_f64().max(1e-9)
    }

    /// What can't be met: seconds that loading the checkpoint alone takes.
    pub fn is_out_of_reach(&self) -> Option<f64> {
        let load_s = self.load_s();
        (load_s > self.target_s * USED).then_some(load_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adaptive(target_s: f64) -> Adaptive {
        adaptive_for(target_s, None)
    }

    fn adaptive_for(target_s: f64, first_commit: Option<Duration>) -> Adaptive {
        let recovered = Recovered { threads: 2, ..Recovered::default() };
        let targets = RecoveryTargets { recovered: Duration::from_secs_f64(target_s), first_commit };
        Adaptive::new(targets, recovered)
    }

    fn observed(execution_us: u64, writes: usize) -> Sample {
        let execution = Duration::from_micros(execution_us);
        Sample { execution, command_bytes: 50, writes, value_bytes: writes * 60 }
    }

    #[test]
    fn a_smaller_bound_records_more_by_value() {
        // One that reads much and writes little, one that writes what it reads, and one that is between.
        let kinds = [observed(500, 1), observed(10, 20), observed(11, 6)];
        let by_value = |target: f64| {
            let adaptive = adaptive(target);
            adaptive.checkpoint_taken(0, 100 << 20, Duration::from_millis(300));
            kinds.map(|kind| {
                let costs = Costs::default();
                costs.observe(kind);
                adaptive.prefers_value(&costs)
            })
        };
        assert_eq!(by_value(1_000.0), [true, false, false]);
        assert_eq!(by_value(0.8), [true, false, true]);
    }

    #[test]
    fn a_checkpoint_is_due_before_a_first_commit_takes_too_long() {
        let adaptive = adaptive_for(100.0, Some(Duration::from_secs(1)));
        adaptive.add(5_000_000_000);
        assert!(!adaptive.needs_checkpoint(0.0), "2.5 s of replay, 0.7 s until a first commit");
        adaptive.add(1_000_000_000);
        assert!(adaptive.needs_checkpoint(0.0), "3 s of replay, 0.8 s until a first commit");
    }

    #[test]
    fn a_checkpoint_is_due_before_the_bound_is_used_up() {
        let adaptive = adaptive(2.0);
        assert!(!adaptive.needs_checkpoint(0.0), "nothing is logged");
        adaptive.add(3_000_000_000);
        assert!(!adaptive.needs_checkpoint(0.0), "1.5 s of replay");
        assert!(!adaptive.needs_checkpoint(1.0), "checkpoints take no time yet");
        adaptive.add(400_000_000);
        assert!(adaptive.needs_checkpoint(0.0), "1.7 s of replay");
        adaptive.checkpoint_taken(2_400_000_000, 1, Duration::from_millis(500));
        assert!(!adaptive.needs_checkpoint(0.0), "0.5 s of replay");
        assert!(adaptive.needs_checkpoint(2.5), "a checkpoint takes as long as 1.25 s more are logged in");
    }
}
