//! How far the recovery at the opening is, while the database works.
//!
//! Seen in `reprise_recovery`, by `Database::recovery_progress`, and in the log once all rows are recovered.

use logging::{Commit, LogSet};
use procedure::RecoveryProgress;
use recovery::{Pending, RecoveryReport};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use transaction::Adaptive;

/// The moments of a recovery, and what was served meanwhile.
pub(crate) struct Recovering {
    /// When the opening began.
    begun: Instant,
    method: String,
    transactions: u64,
    /// What is recovered after the opening; `None` where nothing is.
    rows: Option<Arc<dyn Pending>>,
    /// Its size, in bytes.
    bytes: u64,
    adaptive: Arc<Adaptive>,
    /// The first commit of a transaction that wrote.
    first: OnceLock<Commit>,
    open_s: OnceLock<f64>,
    first_commit_s: OnceLock<f64>,
    recovered_s: OnceLock<f64>,
    served: AtomicU64,
    /// Whether rows are left.
    is_running: AtomicBool,
    /// Whether no commit is known to be durable yet.
    awaits_first: AtomicBool,
}

impl Recovering {
    pub(crate) fn new(
        begun: Instant,
        report: &RecoveryReport,
        rows: Option<Arc<dyn Pending>>,
        adaptive: Arc<Adaptive>,
    ) -> Self {
        Self {
            begun,
            method: report.method.to_string(),
            transactions: report.transactions,
            bytes: rows.as_ref().map_or(0, |rows| rows.bytes_left()),
            adaptive,
            is_running: AtomicBool::new(rows.is_some()),
            rows,
            first: OnceLock::new(),
            open_s: OnceLock::new(),
            first_commit_s: OnceLock::new(),
            recovered_s: OnceLock::new(),
            served: AtomicU64::new(0),
            awaits_first: AtomicBool::new(true),
        }
    }

    fn elapsed_s(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Notes that the database takes work.
    pub(crate) fn opened(&self) {
        let now = *self.open_s.get_or_init(|| self.elapsed_s());
        if self.rows.is_none() {
            self.recovered_s.get_or_init(|| now);
        }
    }

    /// Returns whether rows are left, so that workers publish their counts at once.
    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        self.is_running.load(Ordering::Relaxed)
    }

    /// Returns whether a transaction may have to wait for rows.
    pub(crate) fn has_pending_rows(&self) -> bool {
        self.rows.as_ref().is_some_and(|rows| rows.is_pending())
    }

    /// Notes that transactions have ended while rows were left.
    pub(crate) fn served(&self, count: u64) {
        self.served.fetch_add(count, Ordering::Relaxed);
    }

    /// Notes the commit of a transaction that wrote.
    #[inline]
    pub(crate) fn committed(&self, commit: Commit) {
        if self.awaits_first.load(Ordering::Relaxed) {
            self.first.get_or_init(|| commit);
        }
    }

    /// Notes that a commit is acknowledged.
    #[inline]
    pub(crate) fn acknowledged(&self, logs: &LogSet) {
        if self.awaits_first.load(Ordering::Relaxed) {
            self.look_at_first(logs);
        }
    }

    #[cold]
    fn look_at_first(&self, logs: &LogSet) {
        if self.first.get().is_some_and(|first| logs.is_durable(*first)) {
            self.first_commit_s.get_or_init(|| self.elapsed_s());
            self.awaits_first.store(false, Ordering::Relaxed);
        }
    }

    /// Notes that all rows are recovered, and says so in the log.
    pub(crate) fn ended(&self) {
        if !self.is_running.swap(false, Ordering::Relaxed) {
            return;
        }
        let seconds = *self.recovered_s.get_or_init(|| self.elapsed_s());
        let RecoveryProgress { open_s, served, first_commit_s, .. } = self.so_far();
        // Transactions ran beside it, so this is more than the replay took.
        self.adaptive.replayed(seconds - open_s);
        let first = match first_commit_s {
            Some(first) => format!("its first commit came after {first:.2} s"),
            None => "it committed nothing yet".to_owned(),
        };
        tracing::info!(
            seconds,
            open_s,
            first_commit_s,
            served,
            bytes = self.bytes,
            "all rows are recovered, {seconds:.2} s after the opening began: the database took work after \
             {open_s:.2} s, {first}, and it served {served} transactions meanwhile"
        );
    }

    fn so_far(&self) -> RecoveryProgress {
        RecoveryProgress {
            method: self.method.clone(),
            transactions: self.transactions,
            bytes: self.bytes,
            bytes_left: self.rows.as_ref().map_or(0, |rows| rows.bytes_left()),
            open_s: self.open_s.get().copied().unwrap_or_else(|| self.elapsed_s()),
            first_commit_s: self.first_commit_s.get().copied(),
            recovered_s: self.recovered_s.get().copied(),
            served: self.served.load(Ordering::Relaxed),
        }
    }
}

impl Recovering {
    /// Returns what the recovery has done so far.
    pub(crate) fn progress(&self) -> RecoveryProgress {
        if !self.has_pending_rows() {
            // Where no thread drains, no other one says so.
            self.ended();
        }
        self.so_far()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use transaction::{Recovered, RecoveryTargets};

    /// What is replayed after the opening is replayed again by the next recovery, until a checkpoint.
    #[test]
    fn a_recovery_on_demand_counts_for_the_next_one() {
        let recovered = Recovered { threads: 2, ..Recovered::default() };
        let targets = RecoveryTargets { recovered: Duration::from_secs(1), first_commit: None };
        let adaptive = Arc::new(Adaptive::new(targets, recovered));
        let recovering =
            Recovering::new(Instant::now(), &RecoveryReport::default(), None, Arc::clone(&adaptive));
        recovering.is_running.store(true, Ordering::Relaxed);
        recovering.open_s.get_or_init(|| 0.0);
        std::thread::sleep(Duration::from_millis(1));
        recovering.ended();
        assert!(adaptive.logged_ns() >= 2_000_000, "two threads, a millisecond");
    }
}
