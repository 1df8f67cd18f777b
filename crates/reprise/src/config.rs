//! The settings with which a database is opened.

use logging::content::Images;
use logging::disk::{DeviceOptions, RealDisk, SharedDisk};
use logging::{Content, LogConfig, Sequencing};
use native::Compile;
use recovery::{Method, RecoveryConfig, ReplayMode};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use transaction::{RecoveryTargets, Scheme};

/// The least default of `statement_bytes`, however small `memory_bytes` is.
const LEAST_STATEMENT: usize = 4 << 20;

/// Settings of a database. Start from `Config::default()` and change what you need.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The content of the log.
    pub content: Content,
    /// The images of updated rows in logs by value; `None` is the default of the content.
    pub images: Option<Images>,
    /// Whether physiological logs hold before images, for undo. Without them, a transaction's operations are
    /// logged when it commits, with after images only.
    pub undo: bool,
    /// The contents of shadow logs: further logs of the same transactions, for comparison.
    pub shadow_logs: Vec<Content>,
    /// Whether the records of calls hold witness values: results of reads that replay then need not repeat.
    pub record_witnesses: bool,
    /// What commit numbers mean, and when they are durable.
    pub sequencing: Sequencing,
    /// The scheme of concurrency control.
    pub concurrency: Scheme,
    /// Threads that run the calls of batches, under schemes that have batches.
    pub executors: usize,
    /// The most calls of a batch.
    pub batch_size: usize,
    /// The longest time that a call waits for further calls of its batch. Zero: a batch takes the calls that
    /// are there when its turn comes.
    pub batch_wait: Duration,
    /// Folders of the log devices, with one logger each. Relative paths start at the data folder. `None` is
    /// the devices that the database was created with; for a new database, the folder `log`.
    pub log_devices: Option<Vec<PathBuf>>,
    /// Size of a log file, in bytes.
    pub log_file_bytes: u64,
    /// Least time between two batches of a logger. Zero: a logger writes whenever it has records.
    pub flush_floor: Duration,
    /// The time that a commit waits for a full device. Then its client gets an error that says that the
    /// outcome is unknown.
    pub full_disk_patience: Duration,
    /// The longest recovery with an adaptive log. It decides which transactions are logged by value, and when
    /// a checkpoint is taken.
    pub recovery_target: Duration,
    /// The longest time until a first transaction commits after a crash, with an adaptive log. `None`: it is
    /// not bounded.
    pub first_commit_target: Option<Duration>,
    /// Time from one checkpoint to the next. `None`: checkpoints are taken on request, and when an adaptive
    /// log needs one.
    pub checkpoint_every: Option<Duration>,
    /// Threads that write and load checkpoints. They also replay the log if the method is parallel.
    pub checkpoint_threads: usize,
    /// The recovery method.
    pub method: Method,
    /// The steps of a parallel replay.
    pub mode: ReplayMode,
    /// Whether to open the newest provable state when files are missing or damaged, without everything after
    /// it. Each loss is in the report and in a log message.
    pub accept_data_loss: bool,
    /// Whether the database opens before all rows are recovered. A transaction that looks for rows which are
    /// not there yet brings them back first, from the checkpoint and the log. Logs of commands that `method`
    /// does not analyse, and coarse logs of batches, are replayed before the database opens.
    pub on_demand: bool,
    /// Threads that bring back the rows that no transaction looks for. Zero: until a checkpoint or digest
    /// needs them, nothing does.
    pub drain_threads: usize,
    /// When procedures are compiled to machine code.
    pub compile: Compile,
    /// Most sessions at one time. Checkpoints, sequences and loaders use further workers.
    pub workers: usize,
    /// Memory limit of the database, in bytes. It covers rows and indexes, and all other allocations if the
    /// program counts them (`memory::Metered`).
    pub memory_bytes: usize,
    /// Memory limit of a statement, in bytes; `None` is a quarter of `memory_bytes`, but at least 4 MiB.
    pub statement_bytes: Option<usize>,
    /// Bytes of memory that are faulted in ahead of use at least, because the first access to a page is slow.
    /// Where the database grows, as much as it took in the last seconds; 0: none.
    pub memory_ahead_bytes: usize,
    /// Properties of the log devices.
    pub device: DeviceOptions,
    /// The disk that holds all files.
    pub disk: SharedDisk,
}

/// Workers beyond those of sessions and checkpoints: for sequences, loaders and digests, and for sessions
/// that begin while earlier ones are still ending.
const FURTHER_WORKERS: usize = 8;

impl Config {
    /// Returns the bounds of a recovery. Where it is not on demand, nothing commits before its end.
    pub(crate) fn recovery_targets(&self) -> RecoveryTargets {
        let (recovered, first_commit) = (self.recovery_target, self.first_commit_target);
        match self.on_demand {
            true => RecoveryTargets { recovered, first_commit },
            false => RecoveryTargets {
                recovered: first_commit.map_or(recovered, |first| first.min(recovered)),
                first_commit: None,
            },
        }
    }

    /// Returns the settings of the recovery.
    pub(crate) fn recovery(&self) -> RecoveryConfig {
        RecoveryConfig {
            method: self.method,
            mode: self.mode,
            threads: self.checkpoint_threads,
            device: self.device,
            new_devices: self.new_devices(),
            accept_data_loss: self.accept_data_loss,
            on_demand: self.on_demand,
            compile: self.compile,
            workers: self.workers
                + self.drain_threads
                + self.checkpoint_threads * if self.on_demand { 2 } else { 1 }
                + self.batch_workers()
                + FURTHER_WORKERS,
            memory_bytes: self.memory_bytes,
            memory_ahead_bytes: self.ahead_bytes(),
            ..RecoveryConfig::default()
        }
    }

    /// Returns the number of workers of batches: two for each executor, and one for an executor that takes
    /// another's place.
    fn batch_workers(&self) -> usize {
        if self.concurrency.runs_batches() { self.executors.max(1) * 2 + 1 } else { 0 }
    }

    /// Returns the bytes that are faulted in ahead of use: at most a quarter of the limit, because statements
    /// may take all memory that rows leave.
    pub(crate) fn ahead_bytes(&self) -> usize {
        self.memory_ahead_bytes.min(self.memory_bytes / 4)
    }

    /// Returns the memory limit of a statement, in bytes.
    pub(crate) fn statement_bytes(&self) -> usize {
        self.statement_bytes.unwrap_or((self.memory_bytes / 4).max(LEAST_STATEMENT))
    }

    /// Returns the log devices of a new database.
    pub(crate) fn new_devices(&self) -> Vec<PathBuf> {
        self.log_devices.clone().unwrap_or_else(|| LogConfig::default().devices)
    }

    /// Returns the settings of the log.
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
            executors: recovery.threads,
            batch_size: 1024,
            batch_wait: Duration::ZERO,
            log_devices: None,
            log_file_bytes: 64 << 20,
            flush_floor: Duration::ZERO,
            full_disk_patience: LogConfig::default().full_disk_patience,
            recovery_target: Duration::from_secs(10),
            first_commit_target: None,
            checkpoint_every: None,
            checkpoint_threads: recovery.threads,
            method: Method::default(),
            mode: ReplayMode::default(),
            accept_data_loss: false,
            on_demand: true,
            drain_threads: recovery.threads.div_ceil(2),
            compile: recovery.compile,
            workers: recovery.workers,
            memory_bytes: recovery.memory_bytes,
            statement_bytes: None,
            memory_ahead_bytes: recovery.memory_ahead_bytes,
            device: DeviceOptions::default(),
            disk: Arc::new(RealDisk),
        }
    }
}
