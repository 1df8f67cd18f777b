//! `reprise bench`: runs a workload and measures it.

mod recovery;
mod server;

use crate::clients::{self, Run, Until};
use crate::options::DatabaseOptions;
use crate::{numbers, progress};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use hdrhistogram::Histogram;
use reprise::Database;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use workload::Workload;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    special: Option<Special>,
    /// The workload: tpcc, smallbank, ycsb.
    #[arg(required = true)]
    workload: Option<String>,
    /// Client threads, each with a session.
    #[arg(long, default_value_t = 1, value_parser = numbers::from::<usize>(1, 240))]
    workers: usize,
    /// How long to run.
    #[arg(long, conflicts_with = "transactions", value_parser = numbers::seconds())]
    seconds: Option<f64>,
    /// How many transactions to run.
    #[arg(long, value_parser = numbers::from::<u64>(1, 1_000_000_000_000))]
    transactions: Option<u64>,
    /// Warehouses (tpcc), hundreds of thousands of customers (smallbank) or records (ycsb).
    #[arg(long, default_value_t = 1, value_parser = numbers::scale())]
    scale: u32,
    /// Which transactions; tpcc: full, write (or poplar), new-order; ycsb: a to f, write, hybrid, each with
    /// :LENGTH of scans and @uniform or @zipfian, as in hybrid:10@zipfian.
    #[arg(long, default_value = "full")]
    mix: String,
    /// How many transactions of a hundred are logged by value, chosen at random.
    #[arg(long, default_value_t = 0, value_parser = numbers::from::<u8>(0, 100))]
    ad_hoc: u8,
    /// Transactions a second to offer, instead of as many as possible.
    #[arg(long, value_parser = numbers::from(0.001, 1e9))]
    rate: Option<f64>,
    /// Seed of data and requests.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// The data folder, which must be new; a temporary one when left out.
    #[arg(long)]
    data: Option<PathBuf>,
    /// End by SIGKILL instead of a clean shutdown.
    #[arg(long, requires = "data")]
    crash: bool,
    /// Print one JSON object on standard output.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    database: DatabaseOptions,
}

#[derive(Subcommand)]
enum Special {
    /// Measure how long a recovery takes; reads only.
    Recovery(recovery::Arguments),
    /// Run a workload by CALL against a server that speaks PostgreSQL's protocol, this one or another.
    Server(server::Arguments),
}

#[derive(Serialize)]
struct Latency {
    p50: u64,
    p99: u64,
    p999: u64,
    max: u64,
    mean: u64,
}

impl From<&clients::Second> for Second {
    fn from(of: &clients::Second) -> Self {
        Self { committed: of.committed, mean_latency_us: of.latency_us / of.committed.max(1) }
    }
}

#[derive(Serialize)]
struct Report {
    workload: String,
    mix: String,
    scale: u32,
    workers: usize,
    log: String,
    sequencing: String,
    seed: u64,
    ad_hoc_percent: u8,
    seconds: f64,
    throughput_tps: f64,
    committed: u64,
    aborted: u64,
    conflicts: u64,
    log_bytes: u64,
    log_bytes_per_txn: f64,
    log_file_bytes: u64,
    log_batches: u64,
    log_flush_us: f64,
    /// By content.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    shadow_logs: BTreeMap<String, ShadowReport>,
    commit_latency_us: Latency,
    /// One entry a second.
    timeline: Vec<Second>,
    load_s: f64,
}

#[derive(Serialize)]
struct Second {
    committed: u64,
    mean_latency_us: u64,
}

#[derive(Serialize)]
struct ShadowReport {
    log_bytes: u64,
    log_bytes_per_txn: f64,
}

fn latency(histogram: &Histogram<u64>) -> Latency {
    Latency {
        p50: histogram.value_at_quantile(0.5),
        p99: histogram.value_at_quantile(0.99),
        p999: histogram.value_at_quantile(0.999),
        max: histogram.max(),
        mean: histogram.mean() as u64,
    }
}

/// Makes a database with a workload's tables, procedures and rows, durably.
pub fn prepare(db: &Database, workload: &dyn Workload, seed: u64) -> Result<()> {
    let mut session = db.session()?;
    for script in workload.definitions() {
        session.execute_script(script)?;
    }
    let bar = progress::bar("loading", 0);
    workload.load(db, seed, &|done, jobs| {
        bar.set_length(jobs as u64);
        bar.set_position(done as u64);
    })?;
    bar.finish_and_clear();
    db.checkpoint()?;
    Ok(())
}

pub fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.special {
        Some(Special::Recovery(own)) => return recovery::run(own),
        Some(Special::Server(own)) => return server::run(own),
        None => {}
    }
    let name = arguments.workload.as_deref().context("no workload is named")?;
    let workload = match workload::by_name(name, arguments.scale, &arguments.mix) {
        Ok(workload) => workload,
        Err(message) => bail!(message),
    };
    let temporary = tempfile::tempdir().context("cannot make a temporary folder")?;
    let folder = arguments.data.clone().unwrap_or_else(|| temporary.path().join("data"));
    let db = Database::open(&folder, arguments.database.config())?;
    let loading = std::time::Instant::now();
    prepare(&db, &*workload, arguments.seed)
        .with_context(|| format!("cannot load {} into {}", workload.name(), folder.display()))?;
    let load_s = loading.elapsed().as_secs_f64();
    db.wait_for_memory();
    let (before, logs_before) = (db.statistics(), db.log_statistics());
    let until = match (arguments.seconds, arguments.transactions) {
        (_, Some(transactions)) => Until::Transactions(transactions),
        (seconds, None) => Until::Elapsed(Duration::from_secs_f64(seconds.unwrap_or(10.0))),
    };
    let run = Run {
        clients: arguments.workers,
        until,
        seed: arguments.seed,
        rate: arguments.rate,
        ad_hoc_percent: arguments.ad_hoc,
    };
    let measured = clients::run(&db, &*workload, run, &|_, _, _| {}, false)?;
    let after = db.statistics();
    let writes = (after.committed - before.committed).max(1);
    let log_bytes = after.log.record_bytes - before.log.record_bytes;
    let batches = after.log.batches - before.log.batches;
    let seconds = measured.elapsed.as_secs_f64();
    let shadows = logs_before.iter().zip(db.log_statistics()).skip(1);
    let shadow_logs = shadows.map(|((content, before), (_, after))| {
        let log_bytes = after.record_bytes - before.record_bytes;
        let report = ShadowReport { log_bytes, log_bytes_per_txn: log_bytes as f64 / writes as f64 };
        (content.to_string(), report)
    });
    let report = Report {
        shadow_logs: shadow_logs.collect(),
        workload: name.into(),
        mix: arguments.mix.clone(),
        scale: arguments.scale,
        workers: arguments.workers,
        log: arguments.database.content.to_string(),
        sequencing: arguments.database.sequencing.to_string(),
        seed: arguments.seed,
        ad_hoc_percent: arguments.ad_hoc,
        seconds,
        throughput_tps: measured.committed as f64 / seconds,
        committed: measured.committed,
        aborted: measured.aborted,
        conflicts: after.conflicts - before.conflicts,
        log_bytes,
        log_bytes_per_txn: log_bytes as f64 / writes as f64,
        log_file_bytes: after.log.file_bytes - before.log.file_bytes,
        log_batches: batches,
        log_flush_us: (after.log.flush_us - before.log.flush_us) as f64 / batches.max(1) as f64,
        commit_latency_us: latency(&measured.latency_us),
        timeline: measured.timeline.0.iter().map(Second::from).collect(),
        load_s,
    };
    if arguments.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print_report(&report);
    }
    if arguments.crash {
        crash();
    }
    Ok(())
}

fn print_report(report: &Report) {
    println!(
        "{} {} x{}, {} workers, log {}: {:.0} transactions a second",
        report.workload, report.mix, report.scale, report.workers, report.log, report.throughput_tps
    );
    print_outcomes((report.committed, report.aborted, report.conflicts));
    println!(
        "log: {:.1} bytes a transaction that writes, {} batches of {:.0} us",
        report.log_bytes_per_txn, report.log_batches, report.log_flush_us
    );
    for (content, shadow) in &report.shadow_logs {
        println!("shadow log {content}: {:.1} bytes a transaction that writes", shadow.log_bytes_per_txn);
    }
    print_latency("commit latency", &report.commit_latency_us);
}

fn print_outcomes((committed, aborted, conflicts): (u64, u64, u64)) {
    println!("committed {committed}, aborted {aborted}, retried after conflicts {conflicts}");
}

fn print_latency(of: &str, latency: &Latency) {
    println!("{of}: p50 {} us, p99 {} us, p99.9 {} us", latency.p50, latency.p99, latency.p999);
}

/// Ends this process as a power cut would end it.
fn crash() -> ! {
    use std::io::Write;
    let _ = std::io::stdout().flush();
    let own = std::process::id().to_string();
    let _ = std::process::Command::new("kill").args(["-9", &own]).status();
    std::process::abort()
}
