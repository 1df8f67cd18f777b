//! `reprise demo`: kills a database under load, recovers it, and checks that nothing is missing.
//!
//! A child process loads TPC-C and runs it with checkpoints and a log of each content. This process notes the
//! acknowledgements, kills the child with SIGKILL, recovers each log by each method, and looks for every
//! acknowledged transaction. At last it kills the child once more, and works on while the database recovers
//! (`opening`).

mod child;
mod opening;

use crate::numbers;
use crate::options::DatabaseOptions;
use crate::recover::{self, Report};
use crate::table::table;
use anyhow::{Context, Result, bail};
use opening::Opened;
use recovery::RecoveryConfig;
use reprise::{Config, Content, Database, Method, Value};
use serde::Serialize;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use workload::Workload;

#[derive(clap::Args)]
pub struct Arguments {
    /// Seconds of transactions before the kill.
    #[arg(long, default_value_t = 5.0, value_parser = numbers::seconds())]
    seconds: f64,
    /// Number of cycles, each of which kills, recovers and checks.
    #[arg(long, default_value_t = 1, value_parser = numbers::from::<u32>(1, 1_000_000))]
    cycles: u32,
    /// Warehouses.
    #[arg(long, default_value_t = 2, value_parser = numbers::scale())]
    scale: u32,
    /// Seed of data and requests.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// The data folder, which is kept. [default: a temporary folder]
    #[arg(long)]
    data: Option<PathBuf>,
    /// Print one JSON object on standard output.
    #[arg(long)]
    json: bool,
    /// Run the workload in this folder until killed.
    #[arg(long, hide = true)]
    child: Option<PathBuf>,
    #[command(flatten)]
    database: DatabaseOptions,
}

#[derive(Serialize)]
struct Recovered {
    log: String,
    #[serde(flatten)]
    report: Report,
}

#[derive(Serialize)]
struct Outcome {
    cycles: u32,
    acknowledged: u64,
    checked: u64,
    missing: u64,
    /// One for each log and method.
    recoveries: Vec<Recovered>,
    identical: bool,
    conditions: String,
    killed_after_s: f64,
    /// The last kill; `None` if something was wrong before.
    opened: Option<Opened>,
}

impl Outcome {
    /// Returns whether nothing is missing, and all states are right.
    fn is_whole(&self) -> bool {
        self.missing == 0 && self.identical && self.conditions == "ok"
    }
}

/// The contents of the shadow logs.
const SHADOWS: [Content; 3] = [Content::Logical, Content::Physical, Content::Physiological];

type Trace = (String, Vec<Value>);

/// The process to end and the folder to remove when the demo is interrupted.
#[derive(Default)]
struct Cleanup {
    child: Option<u32>,
    folder: Option<PathBuf>,
}

fn config(arguments: &Arguments) -> Config {
    let mut config = arguments.database.config();
    // This takes one or two checkpoints before the kill.
    config.checkpoint_every.get_or_insert(Duration::from_secs_f64((arguments.seconds / 2.5).max(0.1)));
    config
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let workload = match workload::by_name("tpcc", arguments.scale, "full") {
        Ok(workload) => workload,
        Err(message) => bail!(message),
    };
    if let Some(folder) = &arguments.child {
        child::run(folder, arguments, &*workload)?;
        return Ok(ExitCode::SUCCESS);
    }
    let cleanup = Arc::new(Mutex::new(Cleanup::default()));
    clean_up_on_interrupt(Arc::clone(&cleanup))?;
    let temporary = tempfile::tempdir().context("cannot make a temporary folder")?;
    let folder = match &arguments.data {
        Some(folder) => folder.clone(),
        None => {
            lock(&cleanup).folder = Some(temporary.path().into());
            temporary.path().join("data")
        }
    };
    let mut ledger: Vec<Vec<Trace>> = Vec::new();
    let mut outcome = Outcome {
        cycles: 0,
        acknowledged: 0,
        checked: 0,
        missing: 0,
        recoveries: Vec::new(),
        identical: true,
        conditions: "ok".into(),
        killed_after_s: arguments.seconds,
        opened: None,
    };
    for cycle in 1..=arguments.cycles {
        outcome.cycles = cycle;
        run_and_kill(arguments, &folder, &cleanup, &mut ledger, &mut outcome)?;
        recover_and_check(arguments, &folder, &*workload, &ledger, &mut outcome)?;
        if !outcome.is_whole() {
            break;
        }
    }
    if outcome.is_whole() {
        run_and_kill(arguments, &folder, &cleanup, &mut ledger, &mut outcome)?;
        outcome.opened = Some(opening::open_under_load(arguments, &folder, &*workload, &ledger)?);
    }
    lock(&cleanup).folder = None;
    let whole = outcome.is_whole() && outcome.opened.as_ref().is_some_and(Opened::is_whole);
    if arguments.json {
        println!("{}", serde_json::to_string(&outcome)?);
    } else {
        print_outcome(&outcome);
    }
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn lock(cleanup: &Mutex<Cleanup>) -> std::sync::MutexGuard<'_, Cleanup> {
    cleanup.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills the child and removes the temporary folder when the program is interrupted.
fn clean_up_on_interrupt(cleanup: Arc<Mutex<Cleanup>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let interrupts = {
        let _context = runtime.enter();
        signal(SignalKind::interrupt())
    };
    let mut interrupts = interrupts.context("cannot watch for Ctrl-C")?;
    let watch = move || {
        runtime.block_on(interrupts.recv());
        let cleanup = lock(&cleanup);
        if let Some(child) = cleanup.child {
            let _ = Command::new("kill").args(["-9", &child.to_string()]).status();
        }
        if let Some(folder) = &cleanup.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
        std::process::exit(130);
    };
    std::thread::Builder::new().name("interrupt".into()).spawn(watch)?;
    Ok(())
}

/// Starts the child, adds its acknowledgements to the ledger, and kills it.
fn run_and_kill(
    arguments: &Arguments,
    folder: &Path,
    cleanup: &Mutex<Cleanup>,
    ledger: &mut Vec<Vec<Trace>>,
    outcome: &mut Outcome,
) -> Result<()> {
    let mut child = spawn(arguments, folder)?;
    lock(cleanup).child = Some(child.id());
    let mut lines = BufReader::new(child.stdout.take().context("the child has no output")?);
    let mut line = String::new();
    while line.trim_end() != child::READY {
        line.clear();
        if lines.read_line(&mut line)? == 0 {
            let status = child.wait()?;
            bail!("the child ended before it was ready: {status}");
        }
    }
    eprintln!("transactions are running; the database is killed in {:.1} s", arguments.seconds);
    let deadline = Instant::now() + Duration::from_secs_f64(arguments.seconds);
    let killer = std::thread::spawn(move || {
        std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
        let _ = child.kill();
        child.wait()
    });
    loop {
        line.clear();
        if lines.read_line(&mut line)? == 0 || !line.ends_with('\n') {
            break;
        }
        let Some(traces) = child::traces(line.trim_end()) else {
            bail!("the child wrote an unknown line: {line:?}")
        };
        outcome.acknowledged += 1;
        if !traces.is_empty() {
            ledger.push(traces);
        }
    }
    killer.join().expect("the killer does not panic").context("cannot wait for the child")?;
    lock(cleanup).child = None;
    Ok(())
}

fn spawn(arguments: &Arguments, folder: &Path) -> Result<Child> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    command.arg("demo").arg("--child").arg(folder);
    command.args(["--scale", &arguments.scale.to_string(), "--seed", &arguments.seed.to_string()]);
    command.args(["--seconds", &arguments.seconds.to_string()]);
    for device in &arguments.database.log_devices {
        command.arg("--log-device").arg(device);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start the child")
}

/// Recovers by each method without changing anything, then opens the database and looks for every
/// acknowledged transaction.
fn recover_and_check(
    arguments: &Arguments,
    folder: &Path,
    workload: &dyn Workload,
    ledger: &[Vec<Trace>],
    outcome: &mut Outcome,
) -> Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let memory_bytes = arguments.database.memory_bytes;
    outcome.recoveries.clear();
    for content in std::iter::once(arguments.database.content).chain(SHADOWS) {
        let shadow = folder.join(format!("shadow-{content}"));
        let folder = if SHADOWS.contains(&content) { &shadow } else { folder };
        for method in Method::of(content) {
            let settings =
                RecoveryConfig { method: *method, threads, memory_bytes, ..RecoveryConfig::default() };
            let report = recover::recover(folder, &settings)?;
            outcome.recoveries.push(Recovered { log: content.to_string(), report });
        }
    }
    let first = &outcome.recoveries[0].report.digest;
    outcome.identical = outcome.recoveries.iter().all(|recovery| recovery.report.digest == *first);

    let db = Database::open(folder, arguments.database.config())?;
    outcome.identical &= db.digest()?.to_string() == *first;
    (outcome.checked, outcome.missing) = look_for(&db, ledger)?;
    let mut session = db.session()?;
    for condition in workload.conditions() {
        let done = session.call(condition.procedure, &condition.arguments)?;
        if done.rows[0][0] != Value::Int(0) {
            outcome.conditions = format!("{} {:?} is violated", condition.procedure, condition.arguments);
        }
    }
    Ok(())
}

/// Looks for the rows that acknowledged transactions have left; returns their number, and that of those that
/// are not there.
fn look_for(db: &Database, ledger: &[Vec<Trace>]) -> Result<(u64, u64)> {
    let (mut session, mut checked, mut missing) = (db.session()?, 0, 0);
    for (procedure, arguments) in ledger.iter().flatten() {
        checked += 1;
        if session.call(procedure, arguments)?.rows[0][0] != Value::Boolean(true) {
            missing += 1;
            eprintln!("missing: {procedure} {arguments:?}");
        }
    }
    Ok((checked, missing))
}

fn print_outcome(outcome: &Outcome) {
    let mut table =
        table(["log", "bytes each", "recovery", "load s", "replay s", "transactions", "a second", "digest"]);
    for Recovered { log, report } in &outcome.recoveries {
        table.add_row([
            log.clone(),
            format!("{:.0}", report.record_bytes as f64 / report.transactions.max(1) as f64),
            report.method.clone(),
            format!("{:.2}", report.checkpoint_load_s + report.log_load_s),
            format!("{:.2}", report.replay_s),
            report.transactions.to_string(),
            format!("{:.0}", report.replay_tps),
            report.digest.clone(),
        ]);
    }
    println!("{table}");
    if let [clr, parallel, ..] = outcome.recoveries.as_slice() {
        let (clr, parallel) = (&clr.report, &parallel.report);
        let times = parallel.replay_tps / clr.replay_tps;
        println!("{} replays:                {times:.1} times as fast as {}", parallel.method, clr.method);
    }
    println!("acknowledged before the kill: {}", outcome.acknowledged);
    println!("looked for afterwards:        {} rows, {} missing", outcome.checked, outcome.missing);
    println!("states of the recoveries:     {}", if outcome.identical { "identical" } else { "DIFFERENT" });
    println!("TPC-C conditions 1 to 4:      {}", outcome.conditions);
    outcome.opened.iter().for_each(Opened::print);
}
