//! `reprise bench`: runs a workload and measures it.

mod opening;
mod recovery;
mod server;

use crate::clients::{self, Measured, Run, Until};
use crate::options::{DatabaseOptions, WorkloadOptions};
use crate::{numbers, progress};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use hdrhistogram::Histogram;
use reprise::{Content, Database, LogStatistics, Statistics, Value};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
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
    /// Seconds to run. [default: 10]
    #[arg(long, conflicts_with = "transactions", value_parser = numbers::seconds())]
    seconds: Option<f64>,
    /// Number of transactions to run.
    #[arg(long, value_parser = numbers::from::<u64>(1, 1_000_000_000_000))]
    transactions: Option<u64>,
    #[command(flatten)]
    requests: WorkloadOptions,
    /// Percentage of transactions, chosen at random, that are logged by value.
    #[arg(long, default_value_t = 0, value_parser = numbers::from::<u8>(0, 100))]
    ad_hoc: u8,
    /// Transactions a second. [default: as many as possible]
    #[arg(long, value_parser = numbers::from(0.001, 1e9))]
    rate: Option<f64>,
    /// Seed of data and requests.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// The data folder, which must be new. [default: a temporary folder]
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
    /// Run a workload on a copy of a data folder while it recovers.
    Opening(Box<opening::Arguments>),
    /// Measure how long a recovery takes; reads only.
    Recovery(recovery::Arguments),
    /// Run a workload by CALL against Reprise or another server that speaks PostgreSQL's protocol.
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
    fn from(second: &clients::Second) -> Self {
        let mean_latency_us = second.latency_us / second.committed.max(1);
        Self { committed: second.committed, mean_latency_us }
    }
}

#[derive(Serialize)]
struct Report {
    workload: String,
    mix: String,
    scale: u32,
    /// Operations of a transaction.
    operations: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    skew: Option<f64>,
    workers: usize,
    log: String,
    sequencing: String,
    concurrency: String,
    seed: u64,
    ad_hoc_percent: u8,
    seconds: f64,
    throughput_tps: f64,
    committed: u64,
    aborted: u64,
    conflicts: u64,
    /// Attempts that were undone, by reason.
    aborts: BTreeMap<&'static str, u64>,
    log_bytes: u64,
    log_bytes_per_txn: f64,
    log_file_bytes: u64,
    log_devices: usize,
    log_batches: u64,
    log_flush_us: f64,
    /// By the log's content.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    shadow_logs: BTreeMap<String, ShadowReport>,
    commit_latency_us: Latency,
    /// The sum of everything that the rows hold after the run, which has been checked; in Smallbank, of all
    /// balances, in cents.
    #[serde(skip_serializing_if = "Option::is_none")]
    sum: Option<i64>,
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

/// Fills a database with a workload's tables, procedures and rows, and takes a checkpoint.
pub fn prepare(db: &Database, workload: &dyn Workload, seed: u64) -> Result<()> {
    let mut session = db.session()?;
    for script in workload.definitions() {
        session.execute_script(script)?;
    }
    db.wait_for_code();
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
        Some(Special::Opening(arguments)) => opening::run(arguments),
        Some(Special::Recovery(arguments)) => recovery::run(arguments),
        Some(Special::Server(arguments)) => server::run(arguments),
        None => run_workload(arguments),
    }
}

fn run_workload(arguments: &Arguments) -> Result<()> {
    let name = arguments.workload.as_deref().context("no workload is named")?;
    let workload = arguments.requests.workload(name)?;
    // A run that ends by a crash would leave the temporary folder behind, so it has none beside --data.
    let temporary = match arguments.data {
        None => Some(tempfile::tempdir().context("cannot make a temporary folder")?),
        Some(_) => None,
    };
    let given = arguments.data.clone().or(temporary.as_ref().map(|folder| folder.path().join("data")));
    let folder = given.context("a run has a data folder")?;
    let db = Database::open(&folder, arguments.database.config())?;
    let loading = Instant::now();
    prepare(&db, &*workload, arguments.seed)
        .with_context(|| format!("cannot load {} into {}", workload.name(), folder.display()))?;
    let load_s = loading.elapsed().as_secs_f64();
    db.wait_for_memory();
    let sum_before = sum(&db, &*workload)?;
    let before = Counters::of(&db);
    let measured = clients::run(&db, &*workload, load(arguments), None)?;
    let mut report = report(arguments, &measured, &before, &Counters::of(&db), load_s);
    report.sum = sum(&db, &*workload)?;
    if let (Some(before), Some(after)) = (sum_before, report.sum) {
        check_sum(before, measured.added, after)?;
    }
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

/// Returns the sum of everything that the rows hold; `None` when the workload has no such sum.
fn sum(db: &Database, workload: &dyn Workload) -> Result<Option<i64>> {
    let Some(request) = workload.sum() else { return Ok(None) };
    let done = db.session()?.call(request.procedure, &request.arguments)?;
    match done.rows.first().map(|row| &row[0]) {
        Some(Value::Int(sum)) => Ok(Some(*sum)),
        _ => bail!("{} returns no sum", request.procedure),
    }
}

/// Compares the sum after a run with what the committed calls have added to it.
///
/// # Errors
/// They differ: calls have had other effects than they told, or have lost each other's updates.
fn check_sum(before: i64, added: i64, after: i64) -> Result<()> {
    if before + added != after {
        bail!("the state is wrong: it sums up to {after}, but was {before}, and the calls added {added}");
    }
    Ok(())
}

/// Returns the load that the flags ask for.
fn load(arguments: &Arguments) -> Run {
    let until = match (arguments.seconds, arguments.transactions) {
        (_, Some(transactions)) => Until::Transactions(transactions),
        (seconds, None) => Until::Elapsed(Duration::from_secs_f64(seconds.unwrap_or(10.0))),
    };
    Run {
        clients: arguments.workers,
        until,
        seed: arguments.seed,
        rate: arguments.rate,
        ad_hoc_percent: arguments.ad_hoc,
        under_way: arguments.database.calls_under_way(),
    }
}

/// The counters of a database at one moment.
struct Counters {
    database: Statistics,
    /// By content, the main log first.
    logs: Vec<(Content, LogStatistics)>,
}

impl Counters {
    fn of(db: &Database) -> Self {
        Self { database: db.statistics(), logs: db.log_statistics() }
    }
}

fn report(
    arguments: &Arguments,
    measured: &Measured,
    before: &Counters,
    after: &Counters,
    load_s: f64,
) -> Report {
    let writes = (after.database.committed - before.database.committed).max(1);
    let (log_before, log_after) = (&before.database.log, &after.database.log);
    let log_bytes = log_after.record_bytes - log_before.record_bytes;
    let batches = log_after.batches - log_before.batches;
    let seconds = measured.elapsed.as_secs_f64();
    let aborts = after.database.aborts.since(&before.database.aborts);
    let shadows = before.logs.iter().zip(&after.logs).skip(1);
    let shadow_logs = shadows.map(|((content, before), (_, after))| {
        let log_bytes = after.record_bytes - before.record_bytes;
        let report = ShadowReport { log_bytes, log_bytes_per_txn: log_bytes as f64 / writes as f64 };
        (content.to_string(), report)
    });
    Report {
        shadow_logs: shadow_logs.collect(),
        workload: arguments.workload.clone().unwrap_or_default(),
        mix: arguments.requests.mix.clone(),
        scale: arguments.requests.scale,
        operations: arguments.requests.operations,
        skew: arguments.requests.skew,
        workers: arguments.workers,
        log: arguments.database.content.to_string(),
        sequencing: arguments.database.sequencing.to_string(),
        concurrency: arguments.database.concurrency.to_string(),
        seed: arguments.seed,
        ad_hoc_percent: arguments.ad_hoc,
        seconds,
        throughput_tps: measured.committed as f64 / seconds,
        committed: measured.committed,
        aborted: measured.aborted,
        conflicts: after.database.conflicts - before.database.conflicts,
        aborts: aborts.iter().filter(|(_, count)| *count > 0).collect(),
        log_bytes,
        log_bytes_per_txn: log_bytes as f64 / writes as f64,
        log_file_bytes: log_after.file_bytes - log_before.file_bytes,
        log_devices: arguments.database.log_devices.len().max(1),
        log_batches: batches,
        log_flush_us: (log_after.flush_us - log_before.flush_us) as f64 / batches.max(1) as f64,
        commit_latency_us: latency(&measured.latency_us),
        sum: None,
        timeline: measured.timeline.0.iter().map(Second::from).collect(),
        load_s,
    }
}

fn print_report(report: &Report) {
    println!(
        "{} {} x{}, {} workers, log {}: {:.0} transactions a second",
        report.workload, report.mix, report.scale, report.workers, report.log, report.throughput_tps
    );
    print_outcomes(report.committed, report.aborted, report.conflicts);
    let reasons: Vec<_> = report.aborts.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    if !reasons.is_empty() {
        println!("attempts undone with {}: {}", report.concurrency, reasons.join(", "));
    }
    println!(
        "log: {:.1} bytes a transaction that writes, {} batches of {:.0} us",
        report.log_bytes_per_txn, report.log_batches, report.log_flush_us
    );
    for (content, shadow) in &report.shadow_logs {
        println!("shadow log {content}: {:.1} bytes a transaction that writes", shadow.log_bytes_per_txn);
    }
    print_latency("commit latency", &report.commit_latency_us);
    if let Some(sum) = report.sum {
        println!("the sum of all values is right: {sum}");
    }
}

fn print_outcomes(committed: u64, aborted: u64, conflicts: u64) {
    println!("committed {committed}, aborted {aborted}, retried after conflicts {conflicts}");
}

fn print_latency(name: &str, latency: &Latency) {
    println!("{name}: p50 {} us, p99 {} us, p99.9 {} us", latency.p50, latency.p99, latency.p999);
}

/// Ends this process by SIGKILL.
fn crash() -> ! {
    use std::io::Write;
    let _ = std::io::stdout().flush();
    let own = std::process::id().to_string();
    let _ = std::process::Command::new("kill").args(["-9", &own]).status();
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use super::*;
    use reprise::{Config, Row};
    use workload::{Client, Request};

    /// Smallbank whose deposits are said to add a cent more.
    struct Generous(Box<dyn Workload>);

    impl Workload for Generous {
        fn name(&self) -> &'static str {
            self.0.name()
        }

        fn definitions(&self) -> Vec<&'static str> {
            self.0.definitions()
        }

        fn load(
            &self,
            db: &Database,
            seed: u64,
            progress: &(dyn Fn(usize, usize) + Sync),
        ) -> Result<(), reprise::Error> {
            self.0.load(db, seed, progress)
        }

        fn client(&self, number: usize, clients: usize, seed: u64) -> Box<dyn Client> {
            self.0.client(number, clients, seed)
        }

        fn trace(&self, request: &Request, row: &Row) -> Vec<Request> {
            self.0.trace(request, row)
        }

        fn conditions(&self) -> Vec<Request> {
            self.0.conditions()
        }

        fn sum(&self) -> Option<Request> {
            self.0.sum()
        }

        fn added(&self, request: &Request, row: &Row) -> i64 {
            self.0.added(request, row) + i64::from(request.procedure == "deposit_checking")
        }
    }

    #[test]
    fn a_wrong_sum_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(folder.path(), Config::default()).unwrap();
        let smallbank = workload::by_name("smallbank", 1, "full").unwrap();
        prepare(&db, &*smallbank, 42).unwrap();
        let until = Until::Transactions(1_000);
        let run = Run { clients: 2, until, seed: 1, rate: None, ad_hoc_percent: 0, under_way: 0 };
        let check = |workload: &dyn Workload| {
            let before = sum(&db, workload).unwrap().unwrap();
            let measured = clients::run(&db, workload, run, None).unwrap();
            check_sum(before, measured.added, sum(&db, workload).unwrap().unwrap())
        };
        check(&*smallbank).unwrap();
        let error = check(&Generous(smallbank)).unwrap_err().to_string();
        assert!(error.contains("the state is wrong"), "{error}");
    }
}
