//! Finds the files of a database: pepoch file, manifest, and the logs up to the cut.
//! Invariant: the records found include all acknowledged transactions, or an error names the loss. Held by:
//! `altered_files` (crates/reprise).
//! Not here: the cases, which `completeness` and `log` decide; docs/recovery.md lists them.

use crate::completeness::{Evidence, leftover};
use crate::log::{LogContents, load_logs};
use crate::{RecoveryConfig, RecoveryError, RecoveryReport};
use catalog::CommitOrder;
use checkpoint::{Consistency, Manifest};
use logging::disk::SharedDisk;
use logging::{LogEnd, LogError, PepochFile, UnprovenKind};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files of a database.
pub(crate) struct Found<'a> {
    /// The disk, as its devices are configured.
    pub(crate) disk: SharedDisk,
    pub(crate) folder: &'a Path,
    pub(crate) devices: Vec<PathBuf>,
    pub(crate) pepoch: PepochFile,
    /// The checkpoint, if there is one.
    pub(crate) manifest: Option<Manifest>,
    /// The records that count.
    pub(crate) log: Arc<LogContents>,
}

/// Reads the files of a data folder, and proves that they are complete.
///
/// # Errors
/// The disk fails; a file is damaged, missing, or of another database.
pub(crate) fn find<'a>(
    disk: &SharedDisk,
    folder: &'a Path,
    config: &RecoveryConfig,
) -> Result<Found<'a>, RecoveryError> {
    let found = PepochFile::read(disk, folder)?;
    if found.is_none()
        && let Some(by) = leftover(disk, folder, &config.new_devices)?
    {
        return Err(LogError::unproven(&PepochFile::path(folder), 0, UnprovenKind::Missing { by }).into());
    }
    let manifest = if found.is_none() { None } else { Manifest::read(disk, folder)? };
    let pepoch = found.unwrap_or_default();
    let devices = pepoch.device_folders(folder);
    let disk = config.device.on(disk, &devices);
    let evidence = Evidence { folder, devices: &devices, pepoch: &pepoch, manifest: manifest.as_ref() };
    evidence.check_manifest()?;
    let log = load_logs(&disk, evidence, config.accept_data_loss, config.threads)?;
    Ok(Found { disk, folder, devices, pepoch, manifest, log: Arc::new(log) })
}

impl Found<'_> {
    /// Returns the bound of the checkpoint; replay begins there.
    pub(crate) fn bound(&self) -> CommitOrder {
        self.manifest.as_ref().map(|manifest| manifest.bound).unwrap_or_default()
    }

    /// Returns the consistency of the checkpoint.
    pub(crate) fn consistency(&self) -> Consistency {
        self.manifest.as_ref().map(|manifest| manifest.consistency).unwrap_or_default()
    }

    /// Returns the number of the checkpoint; 0 when there is none.
    pub(crate) fn checkpoint(&self) -> u64 {
        self.manifest.as_ref().map_or(0, |manifest| manifest.number)
    }

    /// Returns whether the checkpoint or a log has a format that cannot prove that it is complete.
    pub(crate) fn lacks_proof(&self) -> bool {
        self.manifest.as_ref().is_some_and(|manifest| manifest.logs.is_none())
            || self.log.logs().iter().any(|log| !log.database.is_known())
    }

    /// Returns the greatest order in any file, kept or cut.
    pub(crate) fn last(&self) -> CommitOrder {
        let in_checkpoint = self.manifest.as_ref().map(|manifest| manifest.last).unwrap_or_default();
        self.log.last.max(self.bound()).max(in_checkpoint)
    }

    /// Returns the incarnations with log files that have no batch, and that no other file names.
    pub(crate) fn incarnations_without_batches(&self) -> BTreeSet<u64> {
        // The manifest names the files of its incarnation and of earlier ones.
        let named = |manifest: &Manifest| manifest.logs.as_ref().map_or(u64::MAX, |logs| logs.incarnation);
        let named = self.manifest.as_ref().map_or(0, named);
        let has_no_batch = |(number, ends): &(&u64, &Vec<LogEnd>)| {
            **number > named && self.log.losses.is_empty() && ends.iter().all(|end| end.batch == 0)
        };
        self.log.ends.iter().filter(has_no_batch).map(|(number, _)| *number).collect()
    }

    /// Returns the report of the files.
    pub(crate) fn report(&self, config: &RecoveryConfig) -> RecoveryReport {
        let Self { manifest, log, .. } = self;
        let manifest = manifest.as_ref();
        let in_checkpoint = CommitOrder(self.bound().0.saturating_sub(1));
        RecoveryReport {
            threads: config.threads,
            checkpoint: manifest.map(|manifest| manifest.bound),
            checkpoint_rows: manifest.map_or(0, Manifest::rows),
            checkpoint_bytes: manifest.map_or(0, Manifest::bytes),
            log_bytes: log.bytes,
            record_bytes: log.record_bytes,
            transactions: log.transactions,
            discarded: log.discarded,
            cut: log.cuts.values().copied().max().unwrap_or_default().max(in_checkpoint),
            torn: log.torn(),
            losses: log.losses.iter().map(ToString::to_string).collect(),
            ..RecoveryReport::default()
        }
    }
}
