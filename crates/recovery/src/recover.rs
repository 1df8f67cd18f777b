//! The whole way back: checkpoint, logs, replay, and a report of it.

use crate::completeness::{Evidence, leftover};
use crate::log::load_logs;
use crate::replay::{self, Latches, Method, State};
use crate::{Progress, RecoveryError, Stage};
use catalog::{CommitOrder, Epoch};
use checkpoint::{Check, Consistency, Definitions, Manifest};
use logging::content::{RecordKind, StatementRecord};
use logging::disk::{DeviceOptions, SharedDisk};
use logging::{LogEnd, LogError, PepochFile, UnprovenKind};
use procedure::Effect;
use schedule::{Breakdown, Mode, ThreadTimes};
use sql::Schema;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use storage::{Epochs, Memory, Worker};
use transaction::Tables;

/// Transactions that a parallel replay plans at a time, where nothing else is asked for.
pub const REPLAY_BATCH: usize = 2048;

/// How to recover.
#[derive(Clone, Debug)]
pub struct RecoveryConfig {
    /// How the log is replayed.
    pub method: Method,
    /// How much `clr-p` does at a time.
    pub mode: Mode,
    /// Threads that load the checkpoint, and replay the log where the method can.
    pub threads: usize,
    /// Transactions that a parallel replay plans at a time.
    pub batch: usize,
    /// Whether `llr` and `plr` latch rows. Off only measures what latches cost: the state may be wrong.
    pub latches: Latches,
    /// Whether the rows of the checkpoint are compared with the digest that it was written with.
    pub verify: bool,
    /// What the log devices are like.
    pub device: DeviceOptions,
    /// Devices of a folder that is not there yet: files there, without a pepoch file in the folder, are
    /// refused.
    pub new_devices: Vec<PathBuf>,
    /// Whether to go on without what is missing, and everything after it, where the rest is a state that was.
    pub accept_data_loss: bool,
    /// Worker slots of the database.
    pub workers: usize,
    /// Bytes that rows and indexes may take.
    pub memory_bytes: usize,
    /// Bytes of memory that are kept faulted in ahead of use, from the beginning of recovery on.
    pub memory_ahead_bytes: usize,
}

impl Default for RecoveryConfig {
    fn default() -> Self {
        Self {
            method: Method::default(),
            mode: Mode::default(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            batch: REPLAY_BATCH,
            latches: Latches::On,
            verify: false,
            device: DeviceOptions::default(),
            new_devices: Vec::new(),
            accept_data_loss: false,
            workers: 256,
            memory_bytes: 64 << 30,
            memory_ahead_bytes: 256 << 20,
        }
    }
}

/// What was recovered, from where, in how long, and where the log was cut.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RecoveryReport {
    /// Which method replayed.
    pub method: Method,
    /// How much a parallel one did at a time.
    pub mode: Option<Mode>,
    /// Threads that loaded the checkpoint and replayed the log.
    pub threads: usize,
    /// The bound of the checkpoint, when there was one.
    pub checkpoint: Option<CommitOrder>,
    /// Rows that it held.
    pub checkpoint_rows: u64,
    /// Bytes of its parts.
    pub checkpoint_bytes: u64,
    /// Bytes of the log files.
    pub log_bytes: u64,
    /// Bytes of the records that were replayed.
    pub record_bytes: u64,
    /// Transactions replayed.
    pub transactions: u64,
    /// Transactions past the cut, never acknowledged.
    pub discarded: u64,
    /// Transactions whose operations were in the log and that were undone, as they had not committed.
    pub undone: u64,
    /// Everything up to this counts.
    pub cut: CommitOrder,
    /// Where the crash tore the log: file and offset.
    pub torn: Vec<(PathBuf, u64)>,
    /// What is missing, where that was accepted; everything after the cut is lost then.
    pub losses: Vec<String>,
    /// Seconds that loading the checkpoint took.
    pub checkpoint_load_s: f64,
    /// Seconds that reading the log took.
    pub log_load_s: f64,
    /// Seconds that replay took.
    pub replay_s: f64,
    /// Where the time of a parallel replay went.
    pub breakdown: Option<Breakdown>,
    /// Seconds in all.
    pub total_s: f64,
}

impl RecoveryReport {
    /// Transactions replayed a second.
    pub fn replay_tps(&self) -> f64 {
        if self.replay_s > 0.0 { self.transactions as f64 / self.replay_s } else { 0.0 }
    }
}

impl fmt::Display for RecoveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "recovered in {:.2} s: ", self.total_s)?;
        match self.checkpoint {
            Some(bound) => write!(f, "checkpoint before {bound} ({} rows), ", self.checkpoint_rows)?,
            None => f.write_str("no checkpoint, ")?,
        }
        write!(f, "{} transactions replayed by {} ", self.transactions, self.method)?;
        write!(f, "({:.0} a second", self.replay_tps())?;
        if let Some(breakdown) = self.breakdown.as_ref().filter(|own| !own.threads.is_empty()) {
            let ThreadTimes { planning_s, execution_s, waiting_s } = breakdown.sum();
            let all = (planning_s + execution_s + waiting_s).max(f64::MIN_POSITIVE) / 100.0;
            let percent = [execution_s, planning_s, waiting_s].map(|seconds| seconds / all);
            let threads = breakdown.threads.len();
            let [executing, planning, waiting] = percent;
            write!(
                f,
                "; {threads} threads: {executing:.0} % executing, {planning:.0} % planning, {waiting:.0} % waiting"
            )?;
        }
        match self.cut {
            cut if cut == CommitOrder::last_of(cut.epoch()) => {
                write!(f, "), log cut after epoch {}", cut.epoch())?;
            }
            cut => write!(f, "), log cut after {cut}")?,
        }
        for (file, offset) in &self.torn {
            write!(f, ", torn at byte {offset} of {}", file.display())?;
        }
        if self.discarded > 0 {
            write!(f, ", {} never acknowledged transactions left out", self.discarded)?;
        }
        if self.undone > 0 {
            write!(f, ", {} uncommitted transactions undone", self.undone)?;
        }
        if self.losses.is_empty() {
            return f.write_str("; nothing acknowledged is missing");
        }
        write!(f, "; accepted as lost is everything after {}, because: {}", self.cut, self.losses.join("; "))
    }
}

/// A database as it was at the cut.
#[derive(Debug)]
pub struct Recovered {
    /// Its definitions.
    pub schema: Schema,
    /// Its data.
    pub tables: Tables,
    /// The pepoch file as it was found, cuts of all incarnations filled in.
    pub pepoch: PepochFile,
    /// Log files by device, with the greatest order that each may hold.
    pub log_files: Vec<Vec<(PathBuf, CommitOrder)>>,
    /// Incarnations that have log files without a batch, of which no other file tells that there is one.
    pub empty: BTreeSet<u64>,
    /// Files of records that lie in files of their own, with the orders of those.
    pub large_files: Vec<(PathBuf, CommitOrder)>,
    /// What the records were that were replayed.
    pub kinds: BTreeSet<RecordKind>,
    /// Of which moment the checkpoint was.
    pub consistency: Consistency,
    /// The number of the checkpoint; 0 when there was none.
    pub checkpoint: u64,
    /// Whether logs or checkpoint are of formats that cannot prove that they are complete.
    pub lacks_proof: bool,
    /// Transactions that were undone, in the order in which they were. That they are is to be logged before
    /// anything else.
    pub undone: Vec<CommitOrder>,
    /// How it went.
    pub report: RecoveryReport,
}

impl Recovered {
    /// Whether there was anything.
    pub fn holds_anything(&self) -> bool {
        self.report.checkpoint.is_some() || !self.kinds.is_empty()
    }
}

/// Recovers a data folder; reads only.
///
/// # Errors
/// The disk fails; a file is damaged; a device is missing; memory is short. Nothing was changed.
pub fn recover(
    disk: &SharedDisk,
    folder: &Path,
    config: &RecoveryConfig,
    progress: &Progress,
) -> Result<Recovered, RecoveryError> {
    let begun = Instant::now();
    let mut report = RecoveryReport { threads: config.threads, ..RecoveryReport::default() };
    let found = PepochFile::read(disk, folder)?;
    if found.is_none()
        && let Some(by) = leftover(disk, folder, &config.new_devices)?
    {
        return Err(LogError::unproven(&PepochFile::path(folder), 0, UnprovenKind::Missing { by }).into());
    }
    let manifest = if found.is_none() { None } else { Manifest::read(disk, folder)? };
    let mut pepoch = found.unwrap_or_default();
    let folders = pepoch.device_folders(folder);
    let disk = &config.device.on(disk, &folders);
    let from = manifest.as_ref().map(|manifest| manifest.bound).unwrap_or_default();
    let lacks_proof = manifest.as_ref().is_some_and(|manifest| manifest.logs.is_none());
    let checkpoint = manifest.as_ref().map_or(0, |manifest| manifest.number);
    let last_in_checkpoint = manifest.as_ref().map(|manifest| manifest.last).unwrap_or_default();
    let epochs = Arc::new(Epochs::new(Epoch(1), config.workers));
    let memory = Arc::new(Memory::new(config.memory_bytes));
    if config.memory_ahead_bytes > 0 {
        memory.keep_ready(config.memory_ahead_bytes);
    }
    // Each thread that loads or replays, and the one that applies definitions.
    memory.allow_beyond_limit(2 * config.threads.max(2 * folders.len()) + 1);

    progress.begin(Stage::Log, 0);
    let reading = Instant::now();
    let evidence = Evidence { folder, devices: &folders, pepoch: &pepoch, manifest: manifest.as_ref() };
    evidence.check_manifest()?;
    let mut log = load_logs(disk, evidence, from, config.accept_data_loss)?;
    let lacks_proof = lacks_proof || log.logs().iter().any(|log| !log.database.is_known());
    report.losses = log.losses.iter().map(ToString::to_string).collect();
    report.log_load_s = reading.elapsed().as_secs_f64();
    report.log_bytes = log.bytes;
    report.record_bytes = log.record_bytes;
    report.discarded = log.discarded;
    report.torn = log.torn();
    report.transactions = log.transactions;
    let consistency = manifest.as_ref().map(|manifest| manifest.consistency).unwrap_or_default();
    let method = config.method.chosen(&log.kinds, consistency)?;
    log.arrange(method == Method::Poplar);
    report.method = method;

    // The manifest tells of files of its incarnation and of earlier ones.
    let told = manifest.as_ref().map_or(0, |own| own.logs.as_ref().map_or(u64::MAX, |logs| logs.incarnation));
    let has_no_batch = |(number, ends): &(&u64, &Vec<LogEnd>)| {
        **number > told && log.losses.is_empty() && ends.iter().all(|end| end.batch == 0)
    };
    let empty = log.ends.iter().filter(has_no_batch).map(|(number, _)| *number).collect();

    let loading = Instant::now();
    let mut state = State::new(method, Tables::new(epochs, Arc::clone(&memory)));
    if let Some(manifest) = manifest {
        progress.begin(Stage::Checkpoint, manifest.parts.iter().map(|part| part.bytes).sum());
        (state.schema, state.tables) = define(&manifest.definitions, state.tables)?;
        // Two a device at least: one waits for it while the other one works.
        let threads = config.threads.max(2 * folders.len());
        let check = if config.verify { Check::Digests } else { Check::Checksums };
        state.load(method, (disk, folder), &manifest, (threads, check), progress)?;
        report.checkpoint = Some(manifest.bound);
        report.checkpoint_rows = manifest.parts.iter().map(|part| part.rows).sum();
        report.checkpoint_bytes = manifest.parts.iter().map(|part| part.bytes).sum();
        state.tables.epochs.advance_to(from.epoch());
    }
    report.checkpoint_load_s = loading.elapsed().as_secs_f64();

    let replaying = Instant::now();
    let (state, replayed) = state.replay(method, (&log, from), config, progress)?;
    memory.allow_beyond_limit(0);
    report.replay_s = replaying.elapsed().as_secs_f64();
    report.breakdown = replayed.breakdown;
    report.mode = replayed.mode;
    report.undone = replayed.undone.len() as u64;
    let State { schema, tables, .. } = state;

    for incarnation in &mut pepoch.incarnations {
        let cut = log.cuts.get(&incarnation.number).copied();
        incarnation.cut = incarnation.cut.or(cut).or(Some(CommitOrder(0))).map(|cut| cut.min(log.complete));
        if !incarnation.is_over() {
            incarnation.ends =
                log.ends.remove(&incarnation.number).unwrap_or(std::mem::take(&mut incarnation.ends));
        }
    }
    let in_checkpoint = CommitOrder(from.0.saturating_sub(1));
    report.cut = log.cuts.values().copied().max().unwrap_or_default().max(in_checkpoint);
    // New epochs begin above everything that any file mentions, kept or cut.
    tables.epochs.advance_to(Epoch(log.last.max(from).max(last_in_checkpoint).epoch().0 + 1));
    progress.begin(Stage::Done, 0);
    report.total_s = begun.elapsed().as_secs_f64();
    Ok(Recovered {
        schema,
        tables,
        pepoch,
        log_files: log.files,
        empty,
        large_files: log.large_files,
        kinds: log.kinds,
        consistency,
        checkpoint,
        lacks_proof,
        undone: replayed.undone,
        report,
    })
}

/// Makes the empty tables of a checkpoint.
fn define(definitions: &Definitions, mut tables: Tables) -> Result<(Schema, Tables), RecoveryError> {
    let mut worker =
        Worker::new(tables.epochs.clone(), tables.memory.clone()).ok_or(RecoveryError::NoWorker)?;
    let statements = match definitions {
        Definitions::Image(image) => {
            let schema = Schema::from_image(image).map_err(RecoveryError::Definitions)?;
            let record = StatementRecord { timestamp_us: 0, seed: 0, text: "", written: None };
            let made = schema.catalog().tables().map(|table| Effect::CreateTable(Arc::clone(table)));
            replay::define(CommitOrder(0), &record, &Effect::All(made.collect()), &mut tables, &mut worker)?;
            return Ok((schema, tables));
        }
        Definitions::Statements(statements) => statements,
    };
    let mut schema = Schema::default();
    for statement in statements {
        let (changed, effect) = schema.apply(statement).map_err(RecoveryError::Definition)?;
        let record = StatementRecord { timestamp_us: 0, seed: 0, text: statement, written: None };
        replay::define(CommitOrder(0), &record, &effect, &mut tables, &mut worker)?;
        schema = changed;
    }
    Ok((schema, tables))
}
