//! The steps of an opening around recovery: the locks, the log devices, a new incarnation, rows in the form
//! that the log needs, and the logs.
//!
//! Invariant: the cut of recovery is durable before the first new record, so no record beyond it returns.
//! After a crash: a device has a marker only if the pepoch file knows its database (`take_devices`).

use crate::{Config, Error};
use catalog::CommitOrder;
use checkpoint::Consistency;
use logging::content::{Images, InvalidContent};
use logging::disk::{SharedDisk, make_folder};
use logging::{
    Content, DatabaseId, DeviceMarker, Incarnation, LogError, LogSet, LogSetStart, LogStart, PepochFile,
    PepochKeeper, RecordFormat, UnprovenKind, lock_device,
};
use recovery::Recovered;
use std::any::Any;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use storage::Worker;

/// The lock of a folder; other processes cannot open the folder while it lives.
pub type Lock = Box<dyn Any + Send + Sync>;

/// Creates the folder if it does not exist, and locks it.
///
/// # Errors
/// `InUse`: another process has the lock. `Log`: the operating system refuses.
pub(crate) fn lock(disk: &SharedDisk, folder: &Path) -> Result<Lock, Error> {
    make_folder(&**disk, folder).map_err(|error| LogError::io("create", folder, error))?;
    disk.lock(folder).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => Error::InUse(folder.into()),
        _ => LogError::io("lock", folder, error).into(),
    })
}

/// Locks a folder against openings while its files are read. `None`: the folder does not exist, or cannot be
/// locked.
///
/// # Errors
/// `InUse`: a process has the folder open. Files that are read while transactions write look damaged.
pub fn read_alone(disk: &SharedDisk, folder: &Path) -> Result<Option<Lock>, Error> {
    match disk.lock(folder) {
        Ok(lock) => Ok(Some(lock)),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Err(Error::InUse(folder.into())),
        Err(_) => Ok(None),
    }
}

/// Returns the format of the records that a configuration asks for.
///
/// # Errors
/// `InvalidContent` or `InvalidSequencing` when the settings contradict each other.
pub(crate) fn record_format(config: &Config) -> Result<RecordFormat, Error> {
    let content = config.content;
    let images = config.images.unwrap_or(content.images());
    if content == Content::Physical && images == Images::Columns {
        return Err(InvalidContent::PhysicalColumns.into());
    }
    if !config.undo && content != Content::Physiological {
        return Err(InvalidContent::NothingToUndo(content).into());
    }
    config.sequencing.admits(content, images)?;
    let mut contents = std::iter::once(content).chain(config.shadow_logs.iter().copied());
    if let Some(of_batches) = contents.find(|content| content.needs_batches())
        && !config.concurrency.runs_batches()
    {
        return Err(InvalidContent::NeedsBatches(of_batches).into());
    }
    for shadow in &config.shadow_logs {
        if *shadow == Content::Off || content == Content::Off {
            return Err(InvalidContent::EmptyShadow(*shadow).into());
        }
        config.sequencing.admits(*shadow, shadow.images())?;
    }
    Ok(RecordFormat { content, images, undo: config.undo })
}

/// Brings the recovered rows into the form that the new logs need: slots, numbering, concurrency control.
/// Returns whether the new logs must begin with a checkpoint. An empty database needs none. Otherwise the
/// causes are: rows get slots that no checkpoint holds; one replay cannot handle the old and the new records;
/// the checkpoint is fuzzy, but the new numbers are serial; the folder has an older format; there are shadow
/// logs. An accepted loss always needs a checkpoint.
pub(crate) fn suit(
    mut recovered: Recovered,
    format: RecordFormat,
    config: &Config,
) -> Result<(Recovered, bool), Error> {
    let mut contents = std::iter::once(config.content).chain(config.shadow_logs.iter().copied());
    let needs_slots = contents.any(Content::needs_slots);
    let lacks_slots = needs_slots && !recovered.tables.have_slots();
    if !needs_slots {
        recovered.tables = recovered.tables.unslotted();
    }
    if lacks_slots {
        recovered.tables.recover_all()?;
        let (epochs, memory) = (recovered.tables.epochs.clone(), recovered.tables.memory.clone());
        let mut worker = Worker::new(epochs, memory).ok_or(Error::TooManySessions(config.workers))?;
        recovered.tables = recovered.tables.with_slots(&mut worker);
    }
    let changes_content = recovered.kinds.iter().any(|kind| !format.content.mixes_with(*kind));
    recovered.tables = recovered.tables.numbered_by(config.sequencing.numbering());
    recovered.tables = recovered.tables.controlled_by(config.concurrency);
    let is_fuzzy = recovered.consistency == Consistency::Fuzzy;
    let needs_snapshot = is_fuzzy && config.sequencing.numbering().is_serial();
    // After the checkpoint, a folder of an older format has this format.
    let is_old = recovered.lacks_proof;
    let needs_checkpoint =
        lacks_slots || changes_content || needs_snapshot || is_old || !config.shadow_logs.is_empty();
    // An empty database suits every log.
    let needs_checkpoint = needs_checkpoint && recovered.holds_anything();
    // After the checkpoint, no recovery looks for the accepted losses again.
    let needs_checkpoint = needs_checkpoint || !recovered.report.losses.is_empty();
    Ok((recovered, needs_checkpoint))
}

/// From this many incarnations with log files on, an opening takes a checkpoint.
const MOST_INCARNATIONS: usize = 8;

/// Returns whether log files of at least `MOST_INCARNATIONS` incarnations exist. A checkpoint then saves
/// later openings from reading them again: each incarnation leaves at least one file.
pub(crate) fn is_scattered(recovered: &Recovered) -> bool {
    let files = recovered.log_files.iter().flatten();
    let incarnations = files.filter_map(|(file, _)| logging::FileId::of(file)).map(|id| id.incarnation);
    incarnations.collect::<BTreeSet<_>>().difference(&recovered.empty).count() >= MOST_INCARNATIONS
}

/// Starts the logs of an incarnation.
pub(crate) fn start_logs(
    recovered: &Recovered,
    format: RecordFormat,
    incarnation: u64,
    config: &Config,
    (folder, devices): (&Path, &[PathBuf]),
    locks: Vec<Lock>,
) -> Result<LogSet, Error> {
    let disk = &config.disk;
    let epochs = &recovered.tables.epochs;
    logging::remove_shadows(disk, folder)?;
    let log = config.log();
    let is_empty = |(file, _): &(PathBuf, CommitOrder)| {
        logging::FileId::of(file).is_some_and(|id| recovered.empty.contains(&id.incarnation))
    };
    let files = recovered.log_files.iter().cloned();
    let (empty, retired): (Vec<Vec<_>>, Vec<Vec<_>>) =
        files.map(|files| files.into_iter().partition(is_empty)).unzip();
    let empty = empty.into_iter().map(|files| files.into_iter().map(|(file, _)| file).collect()).collect();
    let database = recovered.pepoch.database;
    let pepoch = &PepochKeeper::new(disk, folder, recovered.pepoch.clone(), true);
    let own = LogStart {
        config: &log,
        folders: devices,
        disk,
        database,
        pepoch,
        incarnation,
        epochs,
        retired,
        empty,
    };
    let start = LogSetStart {
        folder,
        sequencing: config.sequencing,
        format: (config.content != Content::Off).then_some(format),
        shadows: &config.shadow_logs,
        own,
        large_files: recovered.large_files.clone(),
        locks,
    };
    Ok(LogSet::start(start)?)
}

/// Refuses log devices other than the devices that the pepoch file names. This precedes recovery, which reads
/// the named devices and would miss the files of a moved device.
pub(crate) fn check_devices(config: &Config, folder: &Path) -> Result<(), Error> {
    let Some(asked) = &config.log_devices else { return Ok(()) };
    match PepochFile::read(&config.disk, folder)? {
        Some(pepoch) if !pepoch.devices.is_empty() && *asked != pepoch.devices => {
            Err(Error::OtherDevices { made: pepoch.devices, asked: asked.clone() })
        }
        _ => Ok(()),
    }
}

/// Creates and locks the folders of the log devices, and marks them as devices of this database.
pub(crate) fn take_devices(
    recovered: &mut Recovered,
    config: &Config,
    folder: &Path,
) -> Result<Vec<Lock>, Error> {
    let disk = &config.disk;
    let pepoch = &mut recovered.pepoch;
    if pepoch.devices.is_empty() {
        pepoch.devices = config.new_devices();
    }
    config.sequencing.admits_devices(pepoch.devices.len())?;
    let devices = pepoch.device_folders(folder);
    let mut locks = Vec::new();
    for device in &devices {
        make_folder(&**disk, device).map_err(|error| LogError::io("create", device, error))?;
        // The data folder is locked already.
        if device != folder {
            locks.push(lock_device(disk, device)?.ok_or_else(|| Error::DeviceInUse(device.clone()))?);
        }
    }
    let mut lacks_marker = !pepoch.database.is_known() || pepoch.is_unmarked;
    if !pepoch.database.is_known() {
        pepoch.database = DatabaseId::random();
    }
    let (database, loggers) = (pepoch.database, devices.len() as u32);
    let marker = |logger: usize| DeviceMarker { database, logger: logger as u32, loggers };
    for (logger, device) in devices.iter().enumerate() {
        match DeviceMarker::read(disk, device)? {
            Some(found) => marker(logger).admit(found, device)?,
            None => lacks_marker = true,
        }
    }
    if pepoch.incarnations.is_empty() && !pepoch.is_unmarked {
        refuse_other_logs(disk, &devices)?;
    }
    if lacks_marker {
        // The pepoch file precedes the markers, so that a crash between them leaves no marker of an unknown
        // database.
        pepoch.is_unmarked = true;
        pepoch.write(disk, folder)?;
        for (logger, device) in devices.iter().enumerate() {
            marker(logger).write(disk, device)?;
        }
        pepoch.is_unmarked = false;
    }
    Ok(locks)
}

/// Refuses devices with log files: a database that was never open has none.
fn refuse_other_logs(disk: &SharedDisk, devices: &[PathBuf]) -> Result<(), LogError> {
    for device in devices {
        let files = disk.list(device).map_err(|error| LogError::io("list", device, error))?;
        if let Some(file) = files.iter().find(|file| logging::FileId::of(file).is_some()) {
            return Err(LogError::unproven(file, 0, UnprovenKind::Unexpected));
        }
    }
    Ok(())
}

/// Makes the cut durable, and returns the number of the new incarnation. No record is logged before, so
/// records beyond the cut never return.
pub(crate) fn begin_incarnation(
    mut recovered: Recovered,
    config: &Config,
    folder: &Path,
) -> Result<(Recovered, u64), Error> {
    let pepoch: &mut PepochFile = &mut recovered.pepoch;
    let number = pepoch.next();
    // An incarnation without files needs no cut.
    let alive =
        |incarnation: &Incarnation| {
            recovered.log_files.iter().flatten().any(|(file, _)| {
                logging::FileId::of(file).is_some_and(|id| id.incarnation == incarnation.number)
            })
        };
    pepoch.incarnations.retain(alive);
    // The files of empty incarnations are about to be reused. From here on no file names them, so recovery
    // after a crash does not miss them.
    for incarnation in pepoch.incarnations.iter_mut().filter(|own| recovered.empty.contains(&own.number)) {
        (incarnation.ends, incarnation.loggers) = (Vec::new(), 0);
    }
    pepoch.companions = logging::companions(&config.shadow_logs);
    pepoch.checkpoint = recovered.checkpoint;
    pepoch.incarnations.push(Incarnation { number, ..Incarnation::default() });
    pepoch.write(&config.disk, folder)?;
    Ok((recovered, number))
}
