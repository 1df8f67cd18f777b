//! From what was recovered to what runs: a new incarnation, rows as the log needs them, logs.

use crate::logs::{self, Logs, Recorded};
use crate::{Config, Error};
use checkpoint::Consistency;
use logging::disk::SharedDisk;
use logging::{Content, Incarnation, LogConfig, LogError, LogStart, Numbering, PepochFile};
use recovery::Recovered;
use std::any::Any;
use std::path::{Path, PathBuf};
use storage::Worker;

/// Makes the folder, and makes sure that no other process has it.
pub(crate) fn lock(disk: &SharedDisk, folder: &Path) -> Result<Box<dyn Any + Send + Sync>, Error> {
    disk.create_folder(folder).map_err(|error| LogError::io("create", folder, error))?;
    let path = folder.join("lock");
    disk.lock(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => Error::InUse(folder.into()),
        _ => LogError::io("lock", &path, error).into(),
    })
}

/// Makes rows as the logs to come name them. Returns whether those must go on from a checkpoint: one replay can't go over what
/// was logged before and what will be, or rows are named as no checkpoint names them yet.
pub(crate) fn suit(
    mut recovered: Recovered,
    recorded: Recorded,
    config: &Config,
) -> Result<(Recovered, bool), Error> {
    let mut contents = std::iter::once(config.content).chain(config.shadow_logs.iter().copied());
    let lacks_slots = contents.any(Content::needs_slots) && !recovered.tables.have_slots();
    if lacks_slots {
        let (epochs, memory) = (recovered.tables.epochs.clone(), recovered.tables.memory.clone());
        let mut worker = Worker::new(epochs, memory).ok_or(Error::TooManySessions(config.workers))?;
        recovered.tables = recovered.tables.with_slots(&mut worker);
    }
    let changes_content = recovered.kinds.iter().any(|kind| !recorded.content.mixes_with(*kind));
    recovered.tables = recovered.tables.numbered_by(config.sequencing.numbering());
    let is_fuzzy = recovered.consistency == Consistency::Fuzzy;
    let needs_snapshot = is_fuzzy && config.sequencing.numbering() != Numbering::Logs;
    let needs_checkpoint = lacks_slots || changes_content || needs_snapshot || !config.shadow_logs.is_empty();
    // An empty database is one for every log.
    let needs_checkpoint = needs_checkpoint && recovered.holds_anything();
    Ok((recovered, needs_checkpoint))
}

/// Starts the logs of an incarnation.
pub(crate) fn start_logs(
    recovered: &Recovered,
    recorded: Recorded,
    incarnation: u64,
    config: &Config,
    (folder, devices): (&Path, &[PathBuf]),
) -> Result<Logs, Error> {
    let disk = &config.disk;
    let epochs = &recovered.tables.epochs;
    logs::remove_shadows(config, folder)?;
    let log = config.log();
    let retired = recovered.log_files.clone();
    let start = LogStart { config: &log, folders: devices, disk, incarnation, epochs, retired };
    let own = (config.content != Content::Off).then_some((recorded, start));
    let large_files = recovered.large_files.clone();
    let logs = Logs::start(config, (folder, &recovered.pepoch), incarnation, epochs, own, large_files)?;
    for device in devices {
        disk.create_folder(device).map_err(|error| LogError::io("create", device, error))?;
    }
    Ok(logs)
}

/// Makes the cut durable before anything new can be logged (DESIGN §6.3, last trap).
pub(crate) fn begin_incarnation(
    mut recovered: Recovered,
    config: &Config,
    folder: &Path,
) -> Result<(Recovered, u64), Error> {
    let pepoch: &mut PepochFile = &mut recovered.pepoch;
    if pepoch.devices.is_empty() {
        pepoch.devices = config.log_devices.clone().unwrap_or_else(|| LogConfig::default().devices);
    } else if let Some(asked) = &config.log_devices
        && *asked != pepoch.devices
    {
        return Err(Error::OtherDevices { made: pepoch.devices.clone(), asked: asked.clone() });
    }
    config.sequencing.admits_devices(pepoch.devices.len())?;
    let number = pepoch.next();
    // Cuts of incarnations whose files are gone are not needed any more.
    let alive =
        |incarnation: &Incarnation| {
            recovered.log_files.iter().flatten().any(|(file, _)| {
                logging::FileId::of(file).is_some_and(|id| id.incarnation == incarnation.number)
            })
        };
    pepoch.incarnations.retain(alive);
    pepoch.companions = logs::companions(config);
    pepoch.incarnations.push(Incarnation { number, cut: None, loggers: 0 });
    pepoch.write(&config.disk, folder)?;
    Ok((recovered, number))
}
