//! How a database is opened.

use logging::content::Images;
use logging::disk::{DeviceOptions, RealDisk, SharedDisk};
use logging::{Content, LogConfig, Sequencing};
use recovery::{Method, RecoveryConfig, ReplayMode};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use transaction::Scheme;

/// A statement may take this many bytes, however little memory the database has.
const LEAST_STATEMENT: usize = 4 << 20;

/// Settings of a database. Start from `Config::default()` and change what you need.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// What is logged.
    pub content: Content,
    /// What logs by value hold of updated rows; `None` takes what suits the content.
    pub images: Option<Images>,
    /// Whether physiological logs hold what undo needs. Without it a transaction's operations are logged when
    /// it commits, after images only.
    pub undo: bool,
    /// Logs beside the database's own that record the same transactions as something else, to compare them.
    pub shadow_logs: Vec<Content>,
    /// Whether calls are logged with witness values: few results of reads, which replay then need not do
    /// again.
    pub record_witnesses: bool,
    /// In which order the log is durable.
    pub sequencing: Sequencing,
    /// How transactions are kept apart.
    pub concurrency: Scheme,
    /// Folders of the log devices, one logger each; relative ones lie in the data folder. `None` takes those
    /// that the folder was made with, `log` for a new one.
    pub log_devices: Option<Vec<PathBuf>>,
    /// Bytes of a log file.
    pub log_file_bytes: u64,
    /// Least time between two batches of a logger: zero writes whenever there is something.
    pub flush_floor: Duration,
    /// How long a commit waits for a device that is full, before its client is told that the outcome is not
    /// known.
    pub full_disk_patience: Duration,
    /// With adaptive logs: how long a recovery may take. What is logged by value, and when a checkpoint is
    /// taken, follows.
    pub recovery_target: Duration,
    /// How often a checkpoint is taken; `None` takes them only when asked.
    pub checkpoint_every: Option<Duration>,
    /// Threads that write and load checkpoints, and replay the log where the method can.
    pub checkpoint_threads: usize,
    /// How the log is replayed.
    pub method: Method,
    /// How much a parallel replay does at a time.
    pub mode: ReplayMode,
    /// Whether to open what is left when files are missing or damaged: the newest state that can be proved,
    /// without everything after it. Each loss is in the report and in a message.
    pub accept_data_loss: bool,
    /// Sessions at one time. Checkpoints, sequences and loaders have workers of their own.
    pub workers: usize,
    /// Bytes that the database may take: rows and indexes, and, where the program counts what it allocates
    /// (`rooms::memory::Metered`), everything else.
    pub memory_bytes: usize,
    /// Bytes that a statement may take; `None` is a quarter of `memory_bytes`.
    pub statement_bytes: Option<usize>,
    /// Bytes of memory that are kept faulted in ahead of use, because the first touch of a page is slow.
    pub memory_ahead_bytes: usize,
    /// What the log devices are like.
    pub device: DeviceOptions,
    /// Where files are.
    pub disk: SharedDisk,
}

/// Workers that no session takes: for sequences, a loader, a digest, and those that end just when others
/// begin.
const OWN_WORKERS: usize = 8;

impl Config {
    /// How a folder is recovered.
    pub(crate) fn recovery(&self) -> RecoveryConfig {
        RecoveryConfig {
            method: self.method,
            mode: self.mode,
            threads: self.checkpoint_threads,
            device: self.device,
            new_devices: self.new_devices(),
            accept_data_loss: self.accept_data_loss,
            workers: self.workers + self.checkpoint_threads + OWN_WORKERS,
            memory_bytes: self.memory_bytes,
            memory_ahead_bytes: self.ahead_bytes(),
            ..RecoveryConfig::default()
        }
    }

    /// Bytes that are kept faulted in: a quarter of all, at most, as statements may take as much as rows
    /// leave.
    pub(crate) fn ahead_bytes(&self) -> usize {
        self.memory_ahead_bytes.min(self.memory_bytes / 4)
    }

    /// Bytes that a statement may take.
    pub(crate) fn statement_bytes(&self) -> usize {
        self.statement_bytes.unwrap_or((self.memory_bytes / 4).max(LEAST_STATEMENT))
    }

    /// The devices of a new folder.
    pub(crate) fn new_devices(&self) -> Vec<PathBuf> {
        self.log_devices.clone().unwrap_or_else(|| LogConfig::default().devices)
    }

    /// How logs are written.
    pub(crate) fn log(&self) -> LogConfig {
        LogConfig {
            file_bytes: self.log_file_bytes,
            flush_floor: self.flush_floor,
            full_disk_patience: self.full_disk_patience,
            ..LogConfig::default()
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        let recovery = RecoveryConfig::default();
        Self {
            content: Content::default(),
            images: None,
            undo: true,
            shadow_logs: Vec::new(),
            record_witnesses: true,
            sequencing: Sequencing::default(),
            concurrency: Scheme::default(),
            log_devices: None,
            log_file_bytes: 64 << 20,
            flush_floor: Duration::ZERO,
            full_disk_patience: LogConfig::default().full_disk_patience,
            recovery_target: Duration::from_secs(10),
            checkpoint_every: None,
            checkpoint_threads: recovery.threads,
            method: Method::default(),
            mode: ReplayMode::default(),
            accept_data_loss: false,
            workers: recovery.workers,
            memory_bytes: recovery.memory_bytes,
            statement_bytes: None,
            memory_ahead_bytes: recovery.memory_ahead_bytes,
            device: DeviceOptions::default(),
            disk: Arc::new(RealDisk),
        }
    }
}
