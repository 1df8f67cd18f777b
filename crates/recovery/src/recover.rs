//! Recovery of a data folder: find, prepare, replay.

use crate::find::{Found, find};
use crate::on_demand::Pending;
use crate::prepare::{empty_tables, prepare};
use crate::replay::{ReplayContext, Replayed};
use crate::{LogContents, Progress, RecoveryConfig, RecoveryError, RecoveryReport, Stage};
use catalog::{CommitOrder, Epoch};
use checkpoint::Consistency;
use logging::PepochFile;
use logging::content::RecordKind;
use logging::disk::SharedDisk;
use sql::Schema;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use transaction::Tables;

/// A database in the state at the cut.
#[derive(Debug)]
pub struct Recovered {
    /// Its definitions.
    pub schema: Schema,
    /// Its data.
    pub tables: Tables,
    /// The pepoch file that was found, with the cuts of all incarnations filled in.
    pub pepoch: PepochFile,
    /// The rows that are brought back when a transaction looks for them. Until all are, the memory limit
    /// allows for them.
    pub rows: Option<Arc<dyn Pending>>,
    /// The log files by device, each with an upper bound of the orders in it.
    pub log_files: Vec<Vec<(PathBuf, CommitOrder)>>,
    /// The incarnations with log files that have no batch, and that no other file names.
    pub empty: BTreeSet<u64>,
    /// The files of large records, with the orders of these.
    pub large_files: Vec<(PathBuf, CommitOrder)>,
    /// The kinds of the replayed records.
    pub kinds: BTreeSet<RecordKind>,
    /// The consistency of the checkpoint.
    pub consistency: Consistency,
    /// The number of the checkpoint; 0 when there was none.
    pub checkpoint: u64,
    /// Whether logs or checkpoint have formats that cannot prove that they are complete.
    pub lacks_proof: bool,
    /// The transactions that were undone, in this order. The database logs their aborts before any other
    /// record.
    pub undone: Vec<CommitOrder>,
    /// The report.
    pub report: RecoveryReport,
}

impl Recovered {
    /// Returns whether the folder had a checkpoint or a record.
    pub fn holds_anything(&self) -> bool {
        self.report.checkpoint.is_some() || !self.kinds.is_empty()
    }
}

/// Recovers a data folder. Only reads: nothing on the disk changes.
///
/// # Errors
/// The disk fails; a file is damaged; a device is missing; memory is short.
pub fn recover(
    disk: &SharedDisk,
    folder: &Path,
    config: &RecoveryConfig,
    progress: &Progress,
) -> Result<Recovered, RecoveryError> {
    let begun = Instant::now();
    let tables = empty_tables(config);
    progress.begin(Stage::Log, 0);
    let mut found = find(disk, folder, config)?;
    let log_load_s = begun.elapsed().as_secs_f64();
    let method = config.method.chosen(&found.log.kinds, found.consistency())?;
    let log = Arc::get_mut(&mut found.log).expect("nothing else has it");
    log.arrange(method.is_by_device(), config.threads);
    let mut report = found.report(config);
    (report.method, report.log_load_s) = (method, log_load_s);

    let loading = Instant::now();
    let mut replay = method.replay(&found.log.kinds);
    let tables = if method.has_slots() { tables.slotted() } else { tables };
    let mut context = prepare(&found, tables, &mut *replay, config, progress)?;
    report.on_demand = context.rows.is_some() && found.manifest.is_some();
    report.checkpoint_load_s = loading.elapsed().as_secs_f64();

    let replaying = Instant::now();
    let has_writes = context.rows.as_ref().is_some_and(|rows| rows.replays());
    let replayed = if has_writes { Replayed::default() } else { replay.run_all(&mut context)? };
    let ReplayContext { schema, mut tables, rows, undone, .. } = context;
    let mut rows = rows.map(|rows| rows as Arc<dyn Pending>);
    if let Some(commands) = replayed.commands {
        tables = tables.recovered_on_demand(commands.clone());
        rows = Some(commands);
    }
    match &rows {
        Some(rows) => rows.limit_at_end(&tables.memory),
        None => tables.memory.allow_beyond_limit(0),
    }
    report.replays_on_demand = rows.as_ref().is_some_and(|rows| rows.replays());
    report.replay_s = replaying.elapsed().as_secs_f64();
    report.breakdown = replayed.breakdown;
    report.mode = replayed.mode;
    report.undone = undone.len() as u64;

    // New epochs begin above every order in any file, kept or cut.
    tables.epochs.advance_to(Epoch(found.last().epoch().0 + 1));
    let (empty, consistency) = (found.incarnations_without_batches(), found.consistency());
    let (checkpoint, lacks_proof) = (found.checkpoint(), found.lacks_proof());
    let Found { log, pepoch, .. } = found;
    let pepoch = with_cuts(pepoch, &log);
    progress.begin(Stage::Done, 0);
    report.total_s = begun.elapsed().as_secs_f64();
    Ok(Recovered {
        schema,
        tables,
        rows,
        pepoch,
        log_files: log.files.clone(),
        empty,
        large_files: log.large_files.clone(),
        kinds: log.kinds.clone(),
        consistency,
        checkpoint,
        lacks_proof,
        undone,
        report,
    })
}

/// Fills in the cuts and ends of the incarnations.
fn with_cuts(mut pepoch: PepochFile, log: &LogContents) -> PepochFile {
    for incarnation in &mut pepoch.incarnations {
        let cut = log.cuts.get(&incarnation.number).copied();
        incarnation.cut = incarnation.cut.or(cut).or(Some(CommitOrder(0))).map(|cut| cut.min(log.complete));
        if !incarnation.is_over()
            && let Some(ends) = log.ends.get(&incarnation.number)
        {
            incarnation.ends.clone_from(ends);
        }
    }
    pepoch
}
