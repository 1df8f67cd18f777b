//! `reprise recover`: recovers a data folder, reads only, and reports.

use crate::progress;
use anyhow::{Result, bail};
use clap::Args;
use reprise::rooms::recovery::{self, RecoveryConfig};
use reprise::{Config, Digest, Method, RecoveryReport};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Args)]
pub struct Arguments {
    /// The data folder.
    folder: PathBuf,
    /// How the log is replayed: clr.
    #[arg(long, default_value = "clr")]
    method: Method,
    /// Threads that load the checkpoint.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Gibibytes that rows and indexes may take.
    #[arg(long, default_value_t = 64)]
    memory_gib: usize,
    /// Make the cut durable and take a checkpoint, as opening the database does.
    #[arg(long)]
    write: bool,
    /// Print one JSON object on standard output.
    #[arg(long)]
    json: bool,
}

/// A recovery as JSON.
#[derive(Serialize)]
pub struct Report {
    pub method: String,
    pub threads: usize,
    pub checkpoint_load_s: f64,
    pub log_load_s: f64,
    pub replay_s: f64,
    pub total_s: f64,
    pub transactions: u64,
    pub replay_tps: f64,
    pub discarded: u64,
    pub cut: u64,
    pub torn: Vec<(PathBuf, u64)>,
    pub checkpoint_rows: u64,
    pub checkpoint_bytes: u64,
    pub log_bytes: u64,
    pub digest: String,
    pub tables: BTreeMap<String, TableReport>,
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
            threads: report.threads,
            checkpoint_load_s: report.checkpoint_load_s,
            log_load_s: report.log_load_s,
            replay_s: report.replay_s,
            total_s: report.total_s,
            transactions: report.transactions,
            replay_tps: report.replay_tps(),
            discarded: report.discarded,
            cut: report.cut.0,
            torn: report.torn.clone(),
            checkpoint_rows: report.checkpoint_rows,
            checkpoint_bytes: report.checkpoint_bytes,
            log_bytes: report.log_bytes,
            digest: digest.to_string(),
            tables: tables.collect(),
        }
    }
}

/// Recovers a folder without changing it.
pub fn recover(
    folder: &std::path::Path,
    method: Method,
    threads: usize,
    memory_gib: usize,
) -> Result<Report> {
    if !folder.join("pepoch").exists() {
        bail!("{} holds no database", folder.display());
    }
    let config = Config::default();
    let settings =
        RecoveryConfig { method, threads, workers: config.workers, memory_bytes: memory_gib << 30 };
    let recovered = progress::watch(|progress| recovery::recover(&config.disk, folder, &settings, progress))?;
    let Some(digest) = recovered.tables.digest() else { bail!("all worker slots are taken") };
    eprintln!("{}", recovered.report);
    Ok(Report::new(&recovered.report, &digest))
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let report = recover(&arguments.folder, arguments.method, arguments.threads, arguments.memory_gib)?;
    if arguments.write {
        let mut config = Config::default();
        config.method = arguments.method;
        config.memory_bytes = arguments.memory_gib << 30;
        reprise::Database::open(&arguments.folder, config)?.checkpoint()?;
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
