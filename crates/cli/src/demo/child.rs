//! The process that the demo kills: it runs a workload and tells of every acknowledgement on its standard
//! output.
//!
//! One line an acknowledged transaction: `ack`, then for each trace that it left ` ;procedure argument …`.
//! The line is written after the commit is durable, never before.

use super::Arguments;
use crate::bench::prepare;
use crate::clients::{self, Run, Until};
use anyhow::{Context, Result};
use reprise::{Database, Value};
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;
use workload::{Request, Workload};

/// What the child says once transactions are about to run.
pub const READY: &str = "ready";

/// Longer than any parent lets a child live.
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
    let acknowledged = |_: usize, request: &Request, row: &reprise::Row| {
        let mut line = String::from("ack");
        for trace in workload.trace(request, row) {
            let _ = write!(line, " ;{}", trace.procedure);
            for argument in &trace.arguments {
                let _ = write!(line, " {argument}");
            }
        }
        line.push('\n');
        let mut out = out.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if out.write_all(line.as_bytes()).is_err() {
            // The parent is gone, and so is the reason to go on.
            std::process::exit(1);
        }
    };
    // Another run asks for other things.
    let seed = arguments.seed ^ u64::from(std::process::id());
    let clients = std::thread::available_parallelism().map_or(1, usize::from);
    let run = Run { clients, until: Until::Elapsed(FOREVER), seed, rate: None, ad_hoc_percent: 0 };
    clients::run(&db, workload, run, &acknowledged, true).context("the workload stopped")?;
    Ok(())
}

/// The traces of a line; `None` when the line is no acknowledgement.
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
