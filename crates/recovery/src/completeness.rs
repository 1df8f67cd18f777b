//! Proves that no file of a database, and no piece of a file, is missing.
//! Paper: Poplar §5 accepts any logs. Differs: files name other files that must exist.
//!
//! | fact | evidence |
//! |---|---|
//! | the database and the logger of a device | its marker; headers of its files |
//! | the newest checkpoint | the pepoch file |
//! | the first file of a log | the manifest; the first file of all where there is no checkpoint |
//! | the newest file of a log | the pepoch file; the manifest |
//! | the last batch of a log | other loggers; the manifest; after the incarnation, the pepoch file |
//!
//! Invariant: evidence is written after the files that it names are durable, so a crash never makes it wrong.
//! Held by: `altered_files` (crates/reprise).
//! Not here: damage inside a file (`logging::reader`). docs/recovery.md has all cases.

use catalog::CommitOrder;
use checkpoint::Manifest;
use logging::disk::SharedDisk;
use logging::{DeviceMarker, FileId, LogError, LoggerLog, PepochFile, UnprovenKind};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A missing or damaged file. The log is complete up to an order only.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    pub(crate) error: LogError,
    pub(crate) complete: CommitOrder,
}

/// The files of a log that recovery needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Needed {
    /// Those from this sequence on.
    From(u64),
    /// None: the checkpoint holds all transactions of the log.
    Nothing,
    /// Unknown to the format of the checkpoint.
    Unknown,
}

/// The files that name other files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) devices: &'a [PathBuf],
    pub(crate) pepoch: &'a PepochFile,
    pub(crate) manifest: Option<&'a Manifest>,
}

/// A log that was found on a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundLog<'a> {
    pub(crate) device: usize,
    pub(crate) log: &'a LoggerLog,
}

/// The greatest number in any file, and that file.
#[derive(Default)]
struct Named {
    number: u64,
    by: PathBuf,
}

impl Named {
    fn raise(&mut self, number: u64, by: &Path) {
        if number > self.number {
            *self = Self { number, by: by.into() };
        }
    }
}

/// Returns a file of a database in a folder that has no pepoch file, or on its devices.
///
/// # Errors
/// The disk fails.
pub(crate) fn leftover(
    disk: &SharedDisk,
    folder: &Path,
    devices: &[PathBuf],
) -> Result<Option<PathBuf>, LogError> {
    let name =
        |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_log = |path: &PathBuf| FileId::of(path).is_some();
    let is_large = |name: &str| name.strip_prefix("large-").is_some_and(|rest| rest.contains('-'));
    let found = disk.list(folder).map_err(|error| LogError::io("list", folder, error))?;
    let is_ours = |path: &&PathBuf| {
        **path == Manifest::path(folder) || is_large(&name(path)) || name(path).starts_with("checkpoint-")
    };
    if let Some(file) = found.iter().find(is_ours) {
        return Ok(Some(file.clone()));
    }
    let configured = devices.iter().map(|device| (folder.join(device), true));
    for (device, is_configured) in configured.chain(found.into_iter().map(|folder| (folder, false))) {
        // A file in place of a folder has no files.
        let Ok(files) = disk.list(&device) else { continue };
        let marker = DeviceMarker::path(&device);
        let is_of_device = |path: &PathBuf| is_large(&name(path)) || name(path).starts_with("checkpoint-");
        let is_ours =
            |path: &&PathBuf| is_log(path) || **path == marker || is_configured && is_of_device(path);
        if let Some(file) = files.iter().find(is_ours) {
            return Ok(Some(file.clone()));
        }
    }
    Ok(None)
}

impl Evidence<'_> {
    /// Returns the bound of the checkpoint; the first of all orders where there is none.
    pub(crate) fn bound(&self) -> CommitOrder {
        self.manifest.map(|manifest| manifest.bound).unwrap_or_default()
    }

    /// Returns the files that recovery needs of the log of a logger in an incarnation.
    pub(crate) fn needed(&self, incarnation: u64, logger: u32) -> Needed {
        let Some(manifest) = self.manifest else { return Needed::From(1) };
        let Some(logs) = &manifest.logs else { return Needed::Unknown };
        match logs.ranges.iter().find(|range| range.is_of(incarnation, logger)) {
            Some(range) => Needed::From(range.first_file),
            None if incarnation < logs.incarnation => Needed::Nothing,
            None => Needed::From(1),
        }
    }

    /// Refuses a checkpoint that is not the newest, or of another database, and a pepoch file that is older
    /// than the checkpoint.
    ///
    /// # Errors
    /// `Missing`, `Outdated`, `Foreign`.
    pub(crate) fn check_manifest(&self) -> Result<(), LogError> {
        let (path, pepoch) = (Manifest::path(self.folder), PepochFile::path(self.folder));
        let Some(manifest) = self.manifest else {
            return match self.pepoch.checkpoint {
                0 => Ok(()),
                _ => Err(LogError::unproven(&path, 0, UnprovenKind::Missing { by: pepoch })),
            };
        };
        self.pepoch.database.admit(manifest.database, &path)?;
        let newest = self.pepoch.incarnations.last().map_or(0, |newest| newest.number);
        if manifest.logs.as_ref().is_some_and(|logs| logs.incarnation > newest) {
            return Err(LogError::unproven(&pepoch, 0, UnprovenKind::Outdated { than: path }));
        }
        if manifest.number < self.pepoch.checkpoint {
            return Err(LogError::unproven(&path, 0, UnprovenKind::Outdated { than: pepoch }));
        }
        Ok(())
    }

    /// Checks the markers of all devices; returns the missing ones.
    ///
    /// # Errors
    /// A marker is damaged, or of another database or logger; the disk fails.
    pub(crate) fn check_markers(&self, disk: &SharedDisk) -> Result<Vec<Loss>, LogError> {
        let (database, loggers) = (self.pepoch.database, self.devices.len() as u32);
        let mut losses = Vec::new();
        for (logger, device) in self.devices.iter().enumerate() {
            let expected = DeviceMarker { database, logger: logger as u32, loggers };
            let pepoch = PepochFile::path(self.folder);
            match DeviceMarker::read(disk, device)? {
                Some(_) if !database.is_known() => {
                    let than = DeviceMarker::path(device);
                    return Err(LogError::unproven(&pepoch, 0, UnprovenKind::Outdated { than }));
                }
                Some(found) => expected.admit(found, device)?,
                None if self.pepoch.is_unmarked || !database.is_known() => {}
                None => {
                    let kind = UnprovenKind::Missing { by: pepoch };
                    let error = LogError::unproven(&DeviceMarker::path(device), 0, kind);
                    // The logs tell whether any other file of the device is missing.
                    losses.push(Loss { error, complete: CommitOrder(u64::MAX) });
                }
            }
        }
        Ok(losses)
    }

    /// Returns the missing and damaged files of the logs. `ended` returns the order up to which all
    /// incarnations before one count.
    ///
    /// # Errors
    /// A log is of another database or device, or of an incarnation that the pepoch file does not know.
    pub(crate) fn check_logs(
        &self,
        logs: &[FoundLog<'_>],
        ended: impl Fn(u64) -> CommitOrder,
    ) -> Result<Vec<Loss>, LogError> {
        self.check_origins(logs)?;
        let listed = self.pepoch.incarnations.iter().map(|own| own.number);
        let ranges = self.manifest.iter().filter_map(|manifest| manifest.logs.as_ref());
        let ranges: Vec<_> = ranges.flat_map(|logs| &logs.ranges).collect();
        let found = logs.iter().map(|found| found.log.incarnation);
        let incarnations: BTreeSet<u64> =
            listed.chain(ranges.iter().map(|range| range.incarnation)).chain(found).collect();
        let mut losses = Vec::new();
        for incarnation in incarnations {
            let logs: Vec<_> = logs.iter().filter(|found| found.log.incarnation == incarnation).collect();
            let known = self.pepoch.of(incarnation);
            let in_pepoch = known.map_or(0, |known| known.loggers);
            let in_ends = known.into_iter().flat_map(|known| &known.ends).map(|end| end.logger + 1);
            let in_ranges = ranges.iter().filter(|range| range.incarnation == incarnation);
            let in_ranges = in_ranges.map(|range| range.logger + 1);
            let in_logs = logs.iter().map(|found| found.log.logger.0 + 1);
            let loggers = in_ends.chain(in_ranges).chain(in_logs).max().unwrap_or(0).max(in_pepoch);
            for logger in 0..loggers {
                losses.extend(self.check_log(incarnation, logger, &logs, ended(incarnation)));
            }
        }
        Ok(losses)
    }

    /// Refuses logs of other databases, devices and incarnations.
    fn check_origins(&self, logs: &[FoundLog<'_>]) -> Result<(), LogError> {
        let newest = self.pepoch.incarnations.last().map_or(0, |newest| newest.number);
        for FoundLog { device, log } in logs {
            let Some(file) = log.files.first() else { continue };
            self.pepoch.database.admit(log.database, file)?;
            let expected = log.logger.0 as usize % self.devices.len().max(1);
            if expected != *device {
                let kind = UnprovenKind::OtherLogger { found: log.logger.0, expected: *device as u32 };
                return Err(LogError::unproven(file, 0, kind));
            }
            let is_listed = self.pepoch.of(log.incarnation).is_some();
            if !is_listed && (log.incarnation > newest || self.pepoch.database.is_known()) {
                let kind = UnprovenKind::Outdated { than: file.clone() };
                return Err(LogError::unproven(&PepochFile::path(self.folder), 0, kind));
            }
        }
        Ok(())
    }

    /// Returns the path of a file. `logs` are those of the incarnation; their names tell the form of the
    /// path.
    fn path_of(&self, incarnation: u64, logger: u32, sequence: u64, logs: &[&FoundLog<'_>]) -> PathBuf {
        let has_worker = |found: &&FoundLog<'_>| {
            found.log.files.first().and_then(|file| FileId::of(file)).is_some_and(|id| id.worker.is_some())
        };
        let shares = logs.iter().any(has_worker) || logger as usize >= self.devices.len();
        let id = FileId { incarnation, worker: shares.then_some(logger), sequence };
        let device = logger as usize % self.devices.len().max(1);
        id.path(self.devices.get(device).map_or(self.folder, PathBuf::as_path))
    }

    /// Returns the first missing or damaged file of a log.
    fn check_log(
        &self,
        incarnation: u64,
        logger: u32,
        logs: &[&FoundLog<'_>],
        ended: CommitOrder,
    ) -> Option<Loss> {
        let needed = self.needed(incarnation, logger);
        if needed == Needed::Nothing {
            return None;
        }
        let (pepoch, manifest) = (PepochFile::path(self.folder), Manifest::path(self.folder));
        let known = self.pepoch.of(incarnation);
        let (mut file, mut batch) = (Named::default(), Named::default());
        if known.is_some_and(|known| known.loggers > logger && known.cut.is_none()) {
            file.raise(1, &pepoch);
        }
        if let Some(end) = known.and_then(|known| known.end_of(logger)).filter(|_| needed != Needed::Unknown)
        {
            file.raise(end.file, &pepoch);
            batch.raise(end.batch, &pepoch);
        }
        let ranges = self.manifest.and_then(|manifest| manifest.logs.as_ref()).map(|logs| &logs.ranges);
        if let Some(range) = ranges.into_iter().flatten().find(|range| range.is_of(incarnation, logger)) {
            file.raise(range.last_file, &manifest);
            batch.raise(range.last_batch, &manifest);
        }
        for FoundLog { log: other, .. } in logs.iter().filter(|found| found.log.logger.0 != logger) {
            let by = other.files.last().map_or(&pepoch, |file| file);
            batch.raise(other.known.get(logger as usize).copied().unwrap_or(0), by);
        }
        let missing = |sequence: u64, by: &Path, complete| {
            let path = self.path_of(incarnation, logger, sequence, logs);
            let error = LogError::unproven(&path, 0, UnprovenKind::Missing { by: by.into() });
            Some(Loss { error, complete })
        };
        let first = if let Needed::From(first) = needed { first } else { 0 };
        let Some(FoundLog { log, .. }) = logs.iter().find(|found| found.log.logger.0 == logger) else {
            let by = if file.number > 0 { file.by } else { batch.by };
            return if by.as_os_str().is_empty() { None } else { missing(first.max(1), &by, ended) };
        };
        let complete = log.completed().max(ended);
        if let Some(error) = log.damage() {
            return Some(Loss { error: error.clone(), complete });
        }
        if log.sequences.0 > first && first > 0 {
            let by = if self.manifest.is_some() { &manifest } else { &log.files[0] };
            return missing(first, by, ended);
        }
        if file.number > log.sequences.1 {
            return missing(log.sequences.1 + 1, &file.by, complete);
        }
        if batch.number > log.last_batch {
            let last = log.files.last().map_or_else(PathBuf::new, Clone::clone);
            let kind = UnprovenKind::EndsEarly { found: log.last_batch, named: batch.number, by: batch.by };
            return Some(Loss { error: LogError::unproven(&last, log.end, kind), complete });
        }
        None
    }
}
