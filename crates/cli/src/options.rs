//! Options that several commands share.

use crate::numbers;
use clap::Args;
use reprise::{Config, Content, DeviceOptions, Images, LogIo, Scheme, Sequencing};
use std::path::PathBuf;
use std::time::Duration;

/// How the database is opened.
#[derive(Args, Clone, Debug)]
pub struct DatabaseOptions {
    /// What is logged: off, command, adaptive, logical, physical, physiological.
    #[arg(long = "log", default_value = "command")]
    pub content: Content,
    /// Whether logs by value hold the columns of an updated row that changed, or the whole row: on, off.
    /// [default: on (physiological), off (logical, physical)]
    #[arg(long, action = clap::ArgAction::Set, value_parser = on_or_off)]
    pub differential: Option<bool>,
    /// Leave out of a physiological log what undo needs: operations are logged at commit, after images only.
    #[arg(long)]
    pub no_undo: bool,
    /// A log of another content beside the database's own, in the folder shadow-CONTENT, to compare them;
    /// repeatable.
    #[arg(long = "shadow-log", value_name = "CONTENT")]
    pub shadow_logs: Vec<Content>,
    /// Whether few results of reads are logged with a call, so that replay need not read again: on, off.
    #[arg(long, default_value = "on", action = clap::ArgAction::Set, value_parser = on_or_off)]
    pub witness: bool,
    /// In which order the log is durable: serial, epoch, ssn, gsn.
    #[arg(long, default_value = "epoch")]
    pub sequencing: Sequencing,
    /// How transactions are kept apart: occ (validation at commit), 2pl (locks).
    #[arg(long, default_value = "occ")]
    pub concurrency: Scheme,
    /// A folder for a log of its own; repeatable. [default: log, in the data folder]
    #[arg(long = "log-device")]
    pub log_devices: Vec<PathBuf>,
    /// How the log files of devices are written: buffered, direct, memory:NANOSECONDS (emulated non-volatile
    /// memory, and how long a write takes to persist).
    #[arg(long, default_value = "buffered")]
    pub log_io: LogIo,
    /// Megabytes (of 1,000,000 bytes) a second that each device can write and read.
    #[arg(long, value_parser = numbers::device_rate())]
    pub device_rate: Option<f64>,
    /// With --log adaptive: seconds that a recovery may take.
    #[arg(long, default_value_t = 10.0, value_parser = numbers::seconds())]
    pub recovery_target: f64,
    /// Seconds between two checkpoints; without it none are taken.
    #[arg(long, value_parser = numbers::seconds())]
    pub checkpoint_every: Option<f64>,
    /// Microseconds that lie at least between the beginnings of two writes of a logger.
    #[arg(long, default_value_t = 0, value_parser = numbers::from::<u64>(0, 10_000_000))]
    pub flush_floor_us: u64,
    /// Mebibytes of a log file.
    #[arg(long, default_value_t = 64, value_parser = numbers::from::<u64>(1, 16_384))]
    pub log_file_mib: u64,
    /// Mebibytes of memory that are kept faulted in ahead of use.
    #[arg(long, default_value_t = 256, value_parser = numbers::from::<usize>(0, 16_777_216))]
    pub memory_ahead_mib: usize,
    /// Gibibytes that the database may take: rows, indexes, statements, results that wait for clients. A
    /// statement may take a quarter of it, unless its client sets work_mem.
    #[arg(long = "memory-gib", value_name = "GIBIBYTES", default_value = "64", value_parser = numbers::memory_gib())]
    pub memory_bytes: usize,
}

pub fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("\"{text}\" is neither on nor off")),
    }
}

/// Devices as options say.
pub fn device(io: LogIo, megabytes_per_second: Option<f64>) -> DeviceOptions {
    DeviceOptions { io, rate: megabytes_per_second.map(|rate| (rate * 1e6).max(1.0) as u64) }
}

impl DatabaseOptions {
    /// The configuration that they say.
    pub fn config(&self) -> Config {
        let mut config = Config::default();
        config.content = self.content;
        config.images = self.differential.map(|columns| if columns { Images::Columns } else { Images::Rows });
        config.undo = !self.no_undo;
        config.shadow_logs = self.shadow_logs.clone();
        config.record_witnesses = self.witness;
        config.sequencing = self.sequencing;
        config.concurrency = self.concurrency;
        if !self.log_devices.is_empty() {
            let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
            config.log_devices = Some(self.log_devices.iter().map(absolute).collect());
        }
        config.device = device(self.log_io, self.device_rate);
        config.recovery_target = Duration::from_secs_f64(self.recovery_target);
        config.checkpoint_every = self.checkpoint_every.map(Duration::from_secs_f64);
        config.flush_floor = Duration::from_micros(self.flush_floor_us);
        config.log_file_bytes = self.log_file_mib << 20;
        config.memory_ahead_bytes = self.memory_ahead_mib << 20;
        config.memory_bytes = self.memory_bytes;
        config
    }
}
