//! `reprise bench opening`: opens a copy of a data folder, and runs a workload while it recovers.
//! Paper: DistDGCC §4.1, Figure 18.

use super::{Latency, Second, latency};
use crate::clients::Run;
use crate::opening::{Worked, one_a_core, work};
use crate::options::{DatabaseOptions, WorkloadOptions, on_or_off};
use crate::{numbers, progress};
use anyhow::{Context, Result};
use clap::Args;
use report::{Curve, Plot, draw_curves};
use reprise::{Config, Database};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[derive(Args)]
pub struct Arguments {
    /// The data folder of a run that ended by a crash. A copy of it is opened.
    folder: PathBuf,
    /// The workload that made it: tpcc, smallbank, ycsb.
    #[arg(long)]
    workload: String,
    #[command(flatten)]
    requests: WorkloadOptions,
    /// Whether the database opens before its rows are recovered: on, off.
    #[arg(long, default_value = "on", action = clap::ArgAction::Set, value_parser = on_or_off)]
    on_demand: bool,
    /// Threads that recover rows which no transaction looks for.
    #[arg(long, default_value_t = Config::default().drain_threads.min(64))]
    #[arg(value_parser = numbers::from::<usize>(1, 64))]
    drain_threads: usize,
    /// Client threads, each with a session. [default: one a core]
    #[arg(long, value_parser = numbers::from::<usize>(1, 240))]
    workers: Option<usize>,
    /// Seconds that clients run after all rows are recovered.
    #[arg(long, default_value_t = 2.0, value_parser = numbers::seconds())]
    seconds: f64,
    /// Seed of the requests.
    #[arg(long, default_value_t = 4711)]
    seed: u64,
    /// Draw throughput and latency over time into this file, as SVG.
    #[arg(long)]
    timeline: Option<PathBuf>,
    /// Print one JSON object on standard output.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    database: DatabaseOptions,
}

/// Times count from the begin of the opening, in seconds.
#[derive(Serialize)]
struct Report {
    method: String,
    transactions: u64,
    open_s: f64,
    first_commit_s: f64,
    recovered_s: f64,
    /// Transactions that were acknowledged before all rows were recovered, and their latency.
    served: u64,
    latency_us: Latency,
    /// One entry a second.
    timeline: Vec<Second>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let workload = arguments.requests.workload(&arguments.workload)?;
    let copy = tempfile::tempdir().context("cannot make a temporary folder")?;
    {
        let _lock = reprise::read_alone(&Config::default().disk, &arguments.folder)?;
        copy_folder(&arguments.folder, copy.path())
            .with_context(|| format!("cannot copy {}", arguments.folder.display()))?;
    }
    let mut config = arguments.database.config();
    (config.on_demand, config.drain_threads) = (arguments.on_demand, arguments.drain_threads);
    let begun = Instant::now();
    let db = progress::watch(|progress| Database::open_with(copy.path(), config, progress))?;
    let run = one_a_core(arguments.seed);
    let clients = arguments.workers.unwrap_or(run.clients);
    let run = Run { clients, under_way: arguments.database.calls_under_way(), ..run };
    let Worked { progress, slices, latency_us, timeline } =
        work(&db, &*workload, run, begun, Duration::from_secs_f64(arguments.seconds))?;
    let report = Report {
        method: progress.method,
        transactions: progress.transactions,
        open_s: progress.open_s,
        first_commit_s: progress.first_commit_s.unwrap_or_default(),
        recovered_s: progress.recovered_s.unwrap_or_default(),
        served: slices.iter().sum(),
        latency_us: latency(&latency_us),
        timeline: timeline.0.iter().map(Second::from).collect(),
    };
    if let Some(path) = &arguments.timeline {
        draw(&report.timeline, path)?;
    }
    if arguments.json {
        println!("{}", serde_json::to_string(&report)?);
        return Ok(());
    }
    println!(
        "{}, {} transactions: open after {:.2} s, first commit after {:.2} s, all rows recovered after \
         {:.2} s",
        report.method, report.transactions, report.open_s, report.first_commit_s, report.recovered_s
    );
    println!(
        "served meanwhile: {} transactions, p50 {:.1} ms, p99 {:.1} ms",
        report.served,
        report.latency_us.p50 as f64 / 1e3,
        report.latency_us.p99 as f64 / 1e3
    );
    Ok(())
}

/// Draws what each second has.
fn draw(timeline: &[Second], path: &Path) -> Result<()> {
    let plot = |title: &str, unit: &str, value: fn(&Second) -> f64| Plot {
        title: title.into(),
        x: "seconds from the begin of the opening".into(),
        y: unit.into(),
        curves: vec![Curve {
            name: String::new(),
            points: (1..).zip(timeline).map(|(at, second)| (f64::from(at), value(second))).collect(),
        }],
    };
    let plots = [
        plot("throughput", "thousand transactions a second", |second| second.committed as f64 / 1e3),
        plot("mean latency", "ms", |second| second.mean_latency_us as f64 / 1e3),
    ];
    Ok(draw_curves(&plots, 2, path)?)
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_folder(&entry.path(), &target)?,
            false => _ = std::fs::copy(entry.path(), target)?,
        }
    }
    Ok(())
}
