//! `reprise backup` and `reprise restore`: copies of a data folder, each read back and compared.

use crate::control::{self, Report};
use crate::{numbers, progress};
use anyhow::{Context, Result};
use clap::Args;
use reprise::{Config, Error, copy_database};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct BackupArguments {
    /// The data folder; `reprise serve` may have it open.
    folder: PathBuf,
    /// The folder of the backup, which is empty or does not exist.
    target: PathBuf,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
pub struct RestoreArguments {
    /// The backup.
    backup: PathBuf,
    /// The new data folder, which is empty or does not exist.
    folder: PathBuf,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct Output {
    /// Gibibytes that rows and indexes may take.
    #[arg(long = "memory-gib", value_name = "GIBIBYTES", default_value = "64")]
    #[arg(value_parser = numbers::memory_gib())]
    memory_bytes: usize,
    /// Print one JSON object on standard output.
    #[arg(long)]
    json: bool,
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
                let hint = "the program that has the folder open makes backups by Database::backup";
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
