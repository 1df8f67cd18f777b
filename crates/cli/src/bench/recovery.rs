//! `reprise bench recovery`: measures a recovery; also of `llr` and `plr` without the latches that make them
//! correct.
//! Paper: PACMAN §6.2.2, Figure 15.

use crate::options::{device, on_or_off};
use crate::{numbers, progress};
use anyhow::{Result, bail};
use checkpoint::{Check, Discard, Load, Manifest};
use clap::Args;
use logging::disk::SharedDisk;
use recovery::{Latches, Recovered, RecoveryConfig};
use reprise::{Compile, Config, LogIo, Method};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::Instant;

#[derive(Args)]
pub struct Arguments {
    /// The data folder, or the folder shadow-CONTENT of a shadow log in it.
    folder: PathBuf,
    /// Replay method, as in `recover`.
    #[arg(long, default_value = "auto")]
    method: Method,
    /// Number of threads. [default: one a core]
    #[arg(long, value_parser = numbers::threads())]
    threads: Option<usize>,
    /// How procedures run, as in `recover`.
    #[arg(long, value_name = "FORM", default_value = "native")]
    code: Compile,
    /// Whether llr and plr latch rows: on, off. Without latches the recovered state may be wrong; it is
    /// discarded.
    #[arg(long, default_value = "on", action = clap::ArgAction::Set, value_parser = on_or_off)]
    latches: bool,
    /// Megabytes (of 1,000,000 bytes) a second that each log device can read.
    #[arg(long, value_parser = numbers::device_rate())]
    device_rate: Option<f64>,
    /// Gibibytes that rows and indexes may take.
    #[arg(long = "memory-gib", value_name = "GIBIBYTES", default_value = "64")]
    #[arg(value_parser = numbers::memory_gib())]
    memory_bytes: usize,
    /// Print one JSON object on standard output.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    method: String,
    threads: usize,
    latches: bool,
    /// Duration of reading and checking the files of the checkpoint, without tables and indexes.
    checkpoint_reload_s: f64,
    checkpoint_load_s: f64,
    log_load_s: f64,
    replay_s: f64,
    total_s: f64,
    transactions: u64,
    replay_tps: f64,
    record_bytes: u64,
    log_bytes: u64,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    if !arguments.latches && !matches!(arguments.method, Method::Llr | Method::Plr) {
        bail!("only llr and plr latch rows, not {}: leave out --latches off", arguments.method);
    }
    let config = Config::default();
    let settings = RecoveryConfig {
        method: arguments.method,
        threads: arguments.threads.unwrap_or(config.checkpoint_threads),
        latches: if arguments.latches { Latches::On } else { Latches::Off },
        device: device(LogIo::Buffered, arguments.device_rate),
        memory_bytes: arguments.memory_bytes,
        compile: arguments.code,
        ..RecoveryConfig::default()
    };
    let folder = &arguments.folder;
    let _lock = reprise::read_alone(&config.disk, folder)?;
    let recovered = progress::watch(|progress| recovery::recover(&config.disk, folder, &settings, progress))?;
    let measured = &recovered.report;
    let report = Report {
        method: measured.method.to_string(),
        threads: measured.threads,
        latches: arguments.latches,
        checkpoint_reload_s: reload(&config.disk, folder, &recovered, settings.threads)?,
        checkpoint_load_s: measured.checkpoint_load_s,
        log_load_s: measured.log_load_s,
        replay_s: measured.replay_s,
        total_s: measured.total_s,
        transactions: measured.transactions,
        replay_tps: measured.replay_tps(),
        record_bytes: measured.record_bytes,
        log_bytes: measured.log_bytes,
    };
    if arguments.json {
        println!("{}", serde_json::to_string(&report)?);
        return Ok(());
    }
    println!(
        "{}, {} threads{}: checkpoint {:.3} s, log {:.3} s, replay {:.3} s ({:.0} transactions a second)",
        report.method,
        report.threads,
        if report.latches { "" } else { ", without latches" },
        report.checkpoint_load_s,
        report.log_load_s,
        report.replay_s,
        report.replay_tps
    );
    Ok(())
}

/// Reads the files of the checkpoint again and discards the rows; returns the duration in seconds.
fn reload(disk: &SharedDisk, folder: &Path, recovered: &Recovered, threads: usize) -> Result<f64> {
    let begun = Instant::now();
    if let Some(manifest) = &Manifest::read(disk, folder)? {
        let (tables, progress) = (&recovered.tables, &AtomicU64::new(0));
        let load = Load { disk, folder, manifest, tables, threads, check: Check::Checksums, progress };
        load.rows(&Discard)?;
    }
    Ok(begun.elapsed().as_secs_f64())
}
