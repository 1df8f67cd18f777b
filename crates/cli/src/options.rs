//! Options that several commands share.

use crate::numbers;
use clap::Args;
use reprise::{Compile, Config, Content, DeviceOptions, Images, LogIo, Scheme, Sequencing};
use std::path::PathBuf;
use std::time::Duration;
use workload::{Settings, Workload};

/// Settings of the database.
#[derive(Args, Clone, Debug)]
pub struct DatabaseOptions {
    /// Content of the log: off, command, adaptive, logical, physical, physiological; with --concurrency dgcc
    /// also dependency-fine, dependency-coarse.
    #[arg(long = "log", default_value = "command")]
    pub content: Content,
    /// Whether a log by value holds only the changed columns of an updated row: on, off. [default: on
    /// (physiological), off (logical, physical)]
    #[arg(long, action = clap::ArgAction::Set, value_parser = on_or_off)]
    pub differential: Option<bool>,
    /// Omit before images from a physiological log: operations are logged at commit, with after images only.
    #[arg(long)]
    pub no_undo: bool,
    /// Also write a log of this content, in the folder shadow-CONTENT, for comparison; repeatable.
    #[arg(long = "shadow-log", value_name = "CONTENT")]
    pub shadow_logs: Vec<Content>,
    /// Whether small results of scans are logged with a call, so that replay need not scan again: on, off.
    #[arg(long, default_value = "on", action = clap::ArgAction::Set, value_parser = on_or_off)]
    pub witness: bool,
    /// Order in which the log becomes durable: serial, epoch, ssn, gsn.
    #[arg(long, default_value = "epoch")]
    pub sequencing: Sequencing,
    /// How transactions are kept apart: occ (validation at commit), 2pl (locks, with deadlock detection),
    /// 2pl-wait-die, 2pl-no-wait, dgcc (batches of calls, ordered by a dependency graph before they run).
    #[arg(long, default_value = "occ")]
    pub concurrency: Scheme,
    /// How procedures run: native (compiled to machine code in the background, and interpreted until then),
    /// interpreted.
    #[arg(long, value_name = "FORM", default_value = "native")]
    pub code: Compile,
    /// With --concurrency dgcc: threads that run batches. The default is the number of cores.
    #[arg(long, default_value_t = Config::default().executors.min(64))]
    #[arg(value_parser = numbers::from::<usize>(1, 64))]
    pub executors: usize,
    /// With --concurrency dgcc: maximum number of calls of a batch. A batch takes the calls that wait when
    /// its turn comes, so a lightly loaded database has small batches.
    #[arg(long, default_value_t = 1024, value_parser = numbers::from::<usize>(1, 1 << 20))]
    pub batch_size: usize,
    /// With --concurrency dgcc: microseconds that a call waits for further calls of its batch, unless the
    /// batch is full.
    #[arg(long, default_value_t = 0, value_parser = numbers::from::<u64>(0, 10_000_000))]
    pub batch_wait: u64,
    /// The folder of a log device; repeatable, one log each. [default: log, in the data folder]
    #[arg(long = "log-device")]
    pub log_devices: Vec<PathBuf>,
    /// How log files are written: buffered, direct, memory:NANOSECONDS (emulated non-volatile memory with
    /// this delay for each write).
    #[arg(long, default_value = "buffered")]
    pub log_io: LogIo,
    /// Limit of each device, in megabytes (1,000,000 bytes) a second, for reads and writes. [default: none]
    #[arg(long, value_parser = numbers::device_rate())]
    pub device_rate: Option<f64>,
    /// With --log adaptive: maximum seconds of a recovery, until all rows are recovered.
    #[arg(long, default_value_t = 10.0, value_parser = numbers::seconds())]
    pub recovery_target: f64,
    /// With --log adaptive: maximum seconds until a first transaction commits after a crash. [default: none]
    #[arg(long, value_parser = numbers::seconds())]
    pub first_commit_target: Option<f64>,
    /// Seconds between two checkpoints. [default: no checkpoints]
    #[arg(long, value_parser = numbers::seconds())]
    pub checkpoint_every: Option<f64>,
    /// Minimum microseconds between the beginnings of two writes of a logger.
    #[arg(long, default_value_t = 0, value_parser = numbers::from::<u64>(0, 10_000_000))]
    pub flush_floor_us: u64,
    /// Size of a log file, in mebibytes.
    #[arg(long, default_value_t = 64, value_parser = numbers::from::<u64>(1, 16_384))]
    pub log_file_mib: u64,
    /// Least memory that is faulted in ahead of use, in mebibytes; 0: none.
    #[arg(long, default_value_t = 256, value_parser = numbers::from::<usize>(0, 16_777_216))]
    pub memory_ahead_mib: usize,
    /// Memory limit of the database, in gibibytes: rows, indexes, statements, results that wait for clients.
    /// A statement may take a quarter of it, unless its client sets work_mem.
    #[arg(long = "memory-gib", value_name = "GIBIBYTES", default_value = "64")]
    #[arg(value_parser = numbers::memory_gib())]
    pub memory_bytes: usize,
}

/// The size of a workload and the form of its requests.
#[derive(Args, Clone, Debug)]
pub struct WorkloadOptions {
    /// Size: warehouses (tpcc), 100,000 customers (smallbank), 100,000 records (ycsb).
    #[arg(long, default_value_t = 1, value_parser = numbers::scale())]
    pub scale: u32,
    /// Mix of transactions. tpcc: full, write (or poplar), new-order. ycsb: a to f, write, hybrid, each with
    /// :LENGTH of scans and @uniform or @zipfian, as in hybrid:10@zipfian.
    #[arg(long, default_value = "full")]
    pub mix: String,
    /// ycsb, mixes a, b, c and f: operations of a transaction, on different keys.
    #[arg(long, default_value_t = 1, value_parser = numbers::from::<usize>(1, 1000))]
    pub operations: usize,
    /// ycsb: exponent of the Zipfian distribution of keys. [default: 0.99; write and hybrid have uniform
    /// keys]
    #[arg(long, value_parser = numbers::from(0.0, 10.0))]
    pub skew: Option<f64>,
}

impl WorkloadOptions {
    /// Returns the workload of a name.
    pub fn workload(&self, name: &str) -> anyhow::Result<Box<dyn Workload>> {
        let Self { scale, mix, operations, skew } = self.clone();
        Settings { scale, mix, operations, skew }.workload(name).map_err(anyhow::Error::msg)
    }
}

pub fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("\"{text}\" is neither on nor off")),
    }
}

/// Returns the options of log devices.
pub fn device(io: LogIo, megabytes_per_second: Option<f64>) -> DeviceOptions {
    DeviceOptions { io, rate: megabytes_per_second.map(|rate| (rate * 1e6).max(1.0) as u64) }
}

impl DatabaseOptions {
    /// Returns the number of calls that a client of a benchmark has under way, so that there are batches to
    /// run; 0 where each call runs at once.
    pub fn calls_under_way(&self) -> usize {
        if self.concurrency.runs_batches() { self.batch_size } else { 0 }
    }

    /// Returns the configuration that these settings describe.
    pub fn config(&self) -> Config {
        let mut config = Config::default();
        config.content = self.content;
        config.images = self.differential.map(|columns| if columns { Images::Columns } else { Images::Rows });
        config.undo = !self.no_undo;
        config.shadow_logs = self.shadow_logs.clone();
        config.record_witnesses = self.witness;
        config.sequencing = self.sequencing;
        config.concurrency = self.concurrency;
        config.compile = self.code;
        config.executors = self.executors;
        config.batch_size = self.batch_size;
        config.batch_wait = Duration::from_micros(self.batch_wait);
        if !self.log_devices.is_empty() {
            let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
            config.log_devices = Some(self.log_devices.iter().map(absolute).collect());
        }
        config.device = device(self.log_io, self.device_rate);
        config.recovery_target = Duration::from_secs_f64(self.recovery_target);
        config.first_commit_target = self.first_commit_target.map(Duration::from_secs_f64);
        config.checkpoint_every = self.checkpoint_every.map(Duration::from_secs_f64);
        config.flush_floor = Duration::from_micros(self.flush_floor_us);
        config.log_file_bytes = self.log_file_mib << 20;
        config.memory_ahead_bytes = self.memory_ahead_mib << 20;
        config.memory_bytes = self.memory_bytes;
        config
    }
}
