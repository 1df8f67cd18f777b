//! A workload that runs while a database recovers.

use crate::clients::{self, Run, Timeline, Until};
use anyhow::Result;
use hdrhistogram::Histogram;
use reprise::{Database, RecoveryProgress};
use std::time::{Duration, Instant};
use workload::Workload;

/// Clients run for this time, then the recovery is looked at, and they run again with other requests.
const SLICE: Duration = Duration::from_millis(100);

/// What clients did while a database recovered, and after that.
pub struct Worked {
    pub progress: RecoveryProgress,
    /// The acknowledged transactions of each slice before all rows were recovered.
    pub slices: Vec<u64>,
    /// The latency of these transactions.
    pub latency_us: Histogram<u64>,
    /// The acknowledged transactions of each second since the begin of the opening.
    pub timeline: Timeline,
}

/// Returns clients that submit as fast as they can, one a core.
pub fn one_a_core(seed: u64) -> Run {
    Run {
        clients: std::thread::available_parallelism().map_or(1, usize::from),
        until: Until::Elapsed(SLICE),
        seed,
        rate: None,
        ad_hoc_percent: 0,
        under_way: 0,
    }
}

/// Runs a workload, slice by slice, until all rows are recovered and a transaction has committed, and then
/// for some time. `begun` is the begin of the opening.
pub fn work(
    db: &Database,
    workload: &dyn Workload,
    run: Run,
    begun: Instant,
    behind: Duration,
) -> Result<Worked> {
    let (mut slices, mut latency_us) = (Vec::new(), clients::histogram());
    let (mut timeline, mut recovered, mut slice) = (Timeline::default(), None::<Instant>, 0);
    loop {
        let progress = db.recovery_progress();
        let is_over = progress.recovered_s.is_some() && progress.first_commit_s.is_some();
        if is_over && recovered.get_or_insert_with(Instant::now).elapsed() >= behind {
            return Ok(Worked { progress, slices, latency_us, timeline });
        }
        let at = begun.elapsed().as_secs() as usize;
        let run = Run { seed: run.seed ^ slice, ..run };
        slice += 1;
        let measured = clients::run(db, workload, run, None)?;
        for (second, counts) in measured.timeline.0.into_iter().enumerate() {
            timeline.add(at + second, counts);
        }
        if recovered.is_none() {
            slices.push(measured.committed);
            latency_us.add(measured.latency_us)?;
        }
    }
}
