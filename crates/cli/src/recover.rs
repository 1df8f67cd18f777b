//! `reprise recover`: recovers a data folder without changing it, and reports.

use crate::table::table;
use crate::{numbers, progress};
use anyhow::{Result, bail};
use clap::Args;
use recovery::{RecoveryConfig, ReplayBreakdown, ThreadTimes};
use reprise::{Compile, Config, Digest, Method, RecoveryReport, ReplayMode};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct Arguments {
    /// The data folder.
    folder: PathBuf,
    /// Replay method: auto; clr, clr-p (command); llr, llr-p, poplar (logical); plr (physical); aries
    /// (physiological); dependency (dependency-fine, dependency-coarse).
    #[arg(long, default_value = "auto")]
    method: Method,
    /// Schedule of clr-p: chopping, static, synchronous, pipelined.
    #[arg(long, default_value = "pipelined")]
    mode: ReplayMode,
    /// Threads that load the checkpoint and, where the method is parallel, replay the log. [default: one a
    /// core]
    #[arg(long, value_parser = numbers::threads())]
    threads: Option<usize>,
    /// How clr, clr-p and dependency run procedures: native, interpreted.
    #[arg(long, value_name = "FORM", default_value = "native")]
    code: Compile,
    /// Gibibytes that rows and indexes may take.
    #[arg(long = "memory-gib", value_name = "GIBIBYTES", default_value = "64")]
    #[arg(value_parser = numbers::memory_gib())]
    memory_bytes: usize,
    /// Make the cut durable and take a checkpoint, as opening the database does.
    #[arg(long)]
    write: bool,
    /// When files are missing or damaged: recover the newest state before the loss, and name the loss.
    #[arg(long)]
    accept_data_loss: bool,
    /// Show the expected and the measured work of each block of a parallel replay, and how long a replay on
    /// demand is expected to take.
    #[arg(long, conflicts_with = "json")]
    explain: bool,
    /// Compare the rows of the checkpoint with the digests in its manifest.
    #[arg(long)]
    verify: bool,
    /// Print one JSON object on standard output.
    #[arg(long)]
    json: bool,
}

/// A recovery as JSON.
#[derive(Serialize)]
pub struct Report {
    pub method: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    pub threads: usize,
    pub checkpoint_load_s: f64,
    pub log_load_s: f64,
    pub replay_s: f64,
    pub total_s: f64,
    pub expected_first_commit_s: f64,
    pub expected_recovered_s: f64,
    pub transactions: u64,
    pub replay_tps: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breakdown: Option<Breakdown>,
    pub discarded: u64,
    pub undone: u64,
    pub cut: u64,
    pub torn: Vec<(PathBuf, u64)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<String>,
    pub checkpoint_rows: u64,
    pub checkpoint_bytes: u64,
    pub log_bytes: u64,
    pub record_bytes: u64,
    pub digest: String,
    pub tables: BTreeMap<String, TableReport>,
}

/// The time of a parallel replay by block and thread, and its parallelism.
#[derive(Serialize)]
pub struct Breakdown {
    #[serde(flatten)]
    replay: ReplayBreakdown,
    predicted_parallelism: f64,
    measured_parallelism: f64,
}

impl From<&ReplayBreakdown> for Breakdown {
    fn from(replay: &ReplayBreakdown) -> Self {
        Self {
            replay: replay.clone(),
            predicted_parallelism: replay.predicted_parallelism(),
            measured_parallelism: replay.measured_parallelism(),
        }
    }
}

impl fmt::Display for Breakdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = table([
            "block",
            "slices",
            "partitions",
            "pieces",
            "operations",
            "of the hottest partition",
            "seconds",
            "of the slowest partition",
        ]);
        for (index, block) in self.replay.blocks.iter().enumerate() {
            table.add_row([
                (index + 1).to_string(),
                block.slices.join("\n"),
                block.partitions.to_string(),
                block.units.to_string(),
                block.operations.to_string(),
                block.hottest_operations.to_string(),
                format!("{:.3}", block.execution_s),
                format!("{:.3}", block.hottest_s),
            ]);
        }
        writeln!(f, "{table}")?;
        let hottest = self.replay.blocks.iter().enumerate().max_by_key(|(_, block)| block.hottest_operations);
        let slowest = self
            .replay
            .blocks
            .iter()
            .enumerate()
            .max_by(|(_, a), (_, b)| a.hottest_s.total_cmp(&b.hottest_s));
        let (Some((hottest, hot)), Some((slowest, slow))) = (hottest, slowest) else {
            return writeln!(f, "there was nothing to replay");
        };
        writeln!(
            f,
            "predicted: critical path of {} operations, in block {}; parallelism {:.1}",
            hot.hottest_operations,
            hottest + 1,
            self.predicted_parallelism
        )?;
        writeln!(
            f,
            "measured:  critical path of {:.3} s, in block {}; parallelism {:.1}",
            slow.hottest_s,
            slowest + 1,
            self.measured_parallelism
        )?;
        for (number, times) in self.replay.threads.iter().enumerate() {
            let ThreadTimes { planning_s, execution_s, waiting_s } = times;
            write!(f, "thread {}: executing {execution_s:.3} s, ", number + 1)?;
            writeln!(f, "planning {planning_s:.3} s, waiting {waiting_s:.3} s")?;
        }
        Ok(())
    }
}

/// One table of a digest.
#[derive(Serialize)]
pub struct TableReport {
    pub rows: u64,
    pub hash: String,
}

impl Report {
    pub fn new(report: &RecoveryReport, digest: &Digest) -> Self {
        let tables = digest.tables.iter().map(|(name, table)| {
            (name.clone(), TableReport { rows: table.rows, hash: format!("{:032x}", table.hash) })
        });
        Self {
            method: report.method.to_string(),
            mode: report.mode.map(|mode| mode.to_string()),
            threads: report.threads,
            checkpoint_load_s: report.checkpoint_load_s,
            log_load_s: report.log_load_s,
            replay_s: report.replay_s,
            total_s: report.total_s,
            expected_first_commit_s: report.expected_first_commit_s(),
            expected_recovered_s: report.expected_recovered_s(),
            transactions: report.transactions,
            replay_tps: report.replay_tps(),
            breakdown: report.breakdown.as_ref().map(Breakdown::from),
            discarded: report.discarded,
            undone: report.undone,
            cut: report.cut.0,
            torn: report.torn.clone(),
            losses: report.losses.clone(),
            checkpoint_rows: report.checkpoint_rows,
            checkpoint_bytes: report.checkpoint_bytes,
            log_bytes: report.log_bytes,
            record_bytes: report.record_bytes,
            digest: digest.to_string(),
            tables: tables.collect(),
        }
    }
}

/// Recovers a folder without changing it.
pub fn recover(folder: &Path, settings: &RecoveryConfig) -> Result<Report> {
    let config = Config::default();
    let _lock = reprise::read_alone(&config.disk, folder)?;
    let recovered = progress::watch(|progress| recovery::recover(&config.disk, folder, settings, progress))?;
    if !recovered.pepoch.database.is_known() && recovered.pepoch.incarnations.is_empty() {
        bail!("{} holds no database", folder.display());
    }
    let Some(digest) = recovered.tables.digest() else { bail!("all workers of the database are in use") };
    eprintln!("{}", recovered.report);
    Ok(Report::new(&recovered.report, &digest))
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let settings = RecoveryConfig {
        method: arguments.method,
        mode: arguments.mode,
        threads: arguments.threads.unwrap_or(Config::default().checkpoint_threads),
        memory_bytes: arguments.memory_bytes,
        verify: arguments.verify,
        accept_data_loss: arguments.accept_data_loss,
        compile: arguments.code,
        ..RecoveryConfig::default()
    };
    let report = recover(&arguments.folder, &settings)?;
    if arguments.write {
        let mut config = Config::default();
        (config.method, config.mode) = (arguments.method, arguments.mode);
        config.accept_data_loss = arguments.accept_data_loss;
        config.memory_bytes = arguments.memory_bytes;
        config.compile = arguments.code;
        // The checkpoint needs all rows.
        config.on_demand = false;
        reprise::Database::open(&arguments.folder, config)?.checkpoint()?;
    }
    if arguments.explain {
        match &report.breakdown {
            Some(breakdown) => {
                print!("{breakdown}");
                let (first, all) = (report.expected_first_commit_s, report.expected_recovered_s);
                println!("expected on demand: a first commit after {first:.2} s, all rows after {all:.2} s");
            }
            None => bail!("--explain shows replays by clr-p, and this log was replayed by {}", report.method),
        }
    }
    if arguments.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        println!("digest {}", report.digest);
        for (name, table) in &report.tables {
            println!("  {name}: {} rows, {}", table.rows, table.hash);
        }
    }
    Ok(())
}
