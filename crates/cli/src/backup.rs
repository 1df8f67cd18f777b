//! `reprise backup` and `reprise restore`.

use crate::{control, numbers, progress};
use anyhow::{Context, Result};
use clap::Args;
use reprise::{Backup, Config, Error, copy_database};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct BackupArguments {
    /// The data folder; `reprise serve` may have it open.
    folder: PathBuf,
    /// Where the backup goes: a folder that is empty or does not exist.
    target: PathBuf,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
pub struct RestoreArguments {
    /// The backup.
    backup: PathBuf,
    /// The data folder to make: one that is empty or does not exist.
    folder: PathBuf,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct Output {
    /// Gibibytes that rows and indexes may take.
    #[arg(long = "memory-gib", value_name = "GIBIBYTES", default_value = "64", value_parser = numbers::memory_gib())]
    memory_bytes: usize,
    /// Print one JSON object on standard output.
    #[arg(long)]
    json: bool,
}

/// A backup as JSON.
#[derive(Serialize, Deserialize)]
pub struct Report {
    folder: PathBuf,
    rows: u64,
    bytes: u64,
    digest: String,
    seconds: f64,
}

impl From<&Backup> for Report {
    fn from(backup: &Backup) -> Self {
        Self {
            folder: backup.folder.clone(),
            rows: backup.rows,
            bytes: backup.bytes,
            digest: backup.digest.to_string(),
            seconds: backup.elapsed.as_secs_f64(),
        }
    }
}

impl Output {
    fn print(&self, report: &Report) -> Result<()> {
        if self.json {
            println!("{}", serde_json::to_string(report)?);
        } else {
            let Report { folder, rows, bytes, digest, seconds } = report;
            println!(
                "{}: {rows} rows, {bytes} bytes in {seconds:.2} s, read back and equal",
                folder.display()
            );
            println!("digest {digest}");
        }
        Ok(())
    }

    fn copy(&self, from: &Path, to: &Path) -> Result<Report, Error> {
        let mut config = Config::default();
        config.memory_bytes = self.memory_bytes;
        let backup = progress::watch(|progress| copy_database(from, to, &config, progress))?;
        Ok(Report::from(&backup))
    }
}

pub fn backup(arguments: &BackupArguments) -> Result<()> {
    let BackupArguments { folder, target, output } = arguments;
    let report = match control::request_backup(folder, target)? {
        Some(report) => report,
        None => match output.copy(folder, target) {
            Err(error @ Error::InUse(_)) => {
                let hint = "a program that embeds the database backs it up by Database::backup";
                return Err(error).context(hint);
            }
            copied => copied?,
        },
    };
    output.print(&report)
}

pub fn restore(arguments: &RestoreArguments) -> Result<()> {
    let RestoreArguments { backup, folder, output } = arguments;
    output.print(&output.copy(backup, folder)?)
}
