//! The end of the demo: a database that was killed under load opens before its rows are recovered, and works
//! meanwhile.

use super::{Arguments, Trace, look_for};
use crate::opening::{Worked, one_a_core, work};
use crate::recover;
use anyhow::Result;
use recovery::RecoveryConfig;
use reprise::{Database, Method};
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};
use workload::Workload;

/// The heights of a slice in a line of text.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What a database did while it recovered. Times count from the begin of its opening.
#[derive(Serialize)]
pub struct Opened {
    /// Seconds until it took work.
    open_s: f64,
    /// Seconds until a transaction was durable.
    first_commit_s: f64,
    /// Seconds until all rows were recovered.
    drained_s: f64,
    /// Transactions that were acknowledged in between.
    served: u64,
    /// The same, in each slice of 100 ms.
    slices: Vec<u64>,
    /// Their latency in milliseconds: the median, and what 99 % stay below.
    p50_ms: f64,
    p99_ms: f64,
    /// Rows that acknowledged transactions have left, and those of them that are not there.
    pub checked: u64,
    pub missing: u64,
    /// Whether a serial replay of all logs comes to the state of the database.
    pub identical: bool,
}

/// Opens the database in a folder, runs the workload until all rows are recovered, and checks the state.
pub fn open_under_load(
    arguments: &Arguments,
    folder: &Path,
    workload: &dyn Workload,
    ledger: &[Vec<Trace>],
) -> Result<Opened> {
    let mut config = arguments.database.config();
    config.on_demand = true;
    let begun = Instant::now();
    let db = Database::open(folder, config)?;
    let run = one_a_core(arguments.seed ^ (u64::from(std::process::id()) << 20));
    let Worked { progress, slices, latency_us, .. } = work(&db, workload, run, begun, Duration::ZERO)?;
    let (checked, missing) = look_for(&db, ledger)?;
    let digest = db.digest()?.to_string();
    drop(db);
    let settings = RecoveryConfig {
        method: Method::of(arguments.database.content)[0],
        threads: 1,
        memory_bytes: arguments.database.memory_bytes,
        ..RecoveryConfig::default()
    };
    let identical = recover::recover(folder, &settings)?.digest == digest;
    let ms = |quantile| latency_us.value_at_quantile(quantile) as f64 / 1e3;
    Ok(Opened {
        open_s: progress.open_s,
        first_commit_s: progress.first_commit_s.unwrap_or_default(),
        drained_s: progress.recovered_s.unwrap_or_default(),
        served: slices.iter().sum(),
        p50_ms: ms(0.5),
        p99_ms: ms(0.99),
        slices,
        checked,
        missing,
        identical,
    })
}

impl Opened {
    /// Returns whether nothing is missing, and the state is right.
    pub fn is_whole(&self) -> bool {
        self.missing == 0 && self.identical
    }

    pub fn print(&self) {
        let Self { open_s, first_commit_s, drained_s, served, p50_ms, p99_ms, checked, missing, .. } = self;
        println!();
        println!("killed once more, and opened on demand:");
        println!("open for transactions after:  {open_s:.2} s");
        println!("first commit after:           {first_commit_s:.2} s");
        println!("all rows recovered after:     {drained_s:.2} s");
        println!(
            "served meanwhile:             {served} transactions, p50 {p50_ms:.1} ms, p99 {p99_ms:.1} ms"
        );
        println!("in each 0.1 s:                {}", self.drawn());
        println!("looked for afterwards:        {checked} rows, {missing} missing");
        println!("state against serial replay:  {}", if self.identical { "identical" } else { "DIFFERENT" });
    }

    /// Returns the transactions of each slice as a line of bars.
    fn drawn(&self) -> String {
        let most = self.slices.iter().copied().max().unwrap_or(0).max(1);
        let height = |count: &u64| HEIGHTS[(count * (HEIGHTS.len() as u64 - 1)).div_ceil(most) as usize];
        self.slices.iter().map(height).collect()
    }
}
