//! The process that the demo kills. It runs a workload and writes every acknowledgement to standard output.
//!
//! An acknowledged transaction is one line: `ack`, then ` ;procedure argument …` for each of its traces. The
//! line is written after the commit is durable.

use super::Arguments;
use crate::bench::prepare;
use crate::clients::{self, Acknowledged, Run, Until};
use anyhow::{Context, Result};
use reprise::{Database, Value};
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;
use workload::Workload;

/// The line that the child writes before the first transaction.
pub const READY: &str = "ready";

/// Longer than the demo lets its child live.
const FOREVER: Duration = Duration::from_secs(3600);

/// Runs until the process is killed.
pub fn run(folder: &Path, arguments: &Arguments, workload: &dyn Workload) -> Result<()> {
    let mut config = super::config(arguments);
    config.shadow_logs = super::SHADOWS.to_vec();
    let db = Database::open(folder, config)?;
    eprintln!("{}", db.recovery_report());
    if db.recovery_report().checkpoint.is_none() {
        prepare(&db, workload, arguments.seed)?;
    }
    println!("{READY}");
    let out = Mutex::new(std::io::stdout());
    let acknowledged = |call: Acknowledged<'_>| {
        let mut line = String::from("ack");
        for trace in workload.trace(call.request, call.row) {
            let _ = write!(line, " ;{}", trace.procedure);
            for argument in &trace.arguments {
                let _ = write!(line, " {argument}");
            }
        }
        line.push('\n');
        let mut out = out.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if out.write_all(line.as_bytes()).is_err() {
            // The parent has ended.
            std::process::exit(1);
        }
    };
    // Each cycle has other requests.
    let seed = arguments.seed ^ u64::from(std::process::id());
    let clients = std::thread::available_parallelism().map_or(1, usize::from);
    let until = Until::Elapsed(FOREVER);
    let run = Run { clients, until, seed, rate: None, ad_hoc_percent: 0, under_way: 0 };
    clients::run(&db, workload, run, Some(&acknowledged)).context("the workload stopped")?;
    Ok(())
}

/// Returns the traces of a line; `None` when the line is no acknowledgement.
pub fn traces(line: &str) -> Option<Vec<(String, Vec<Value>)>> {
    let mut parts = line.split(" ;");
    if parts.next()? != "ack" {
        return None;
    }
    parts
        .map(|part| {
            let mut words = part.split(' ');
            let procedure = words.next()?.to_owned();
            let arguments = words.map(|word| word.parse().ok().map(Value::Int)).collect::<Option<_>>()?;
            Some((procedure, arguments))
        })
        .collect()
}
