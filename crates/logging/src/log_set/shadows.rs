//! Shadow logs. Each lies in a folder `shadow-<content>` of the data folder; that folder is itself a data
//! folder and can be recovered like any other. A shadow log lasts for one incarnation: the next one removes
//! it, or begins it anew.

use super::{FormattedLog, RecordFormat};
use crate::content::Content;
use crate::disk::SharedDisk;
use crate::error::LogError;
use crate::files::LogRange;
use crate::identity::DatabaseId;
use crate::large::LargeRecords;
use crate::logger::LogConfig;
use crate::pepoch::{Incarnation, PepochFile, PepochKeeper};
use crate::sequencing::{self, LogStart, Sequencing};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The log device of a shadow log.
const DEVICE: &str = "log";

fn name_of(content: Content) -> String {
    format!("shadow-{content}")
}

/// Returns the companions of a main log, as its pepoch file names them.
pub fn companions(shadows: &[Content]) -> Vec<PathBuf> {
    shadows.iter().map(|content| name_of(*content).into()).collect()
}

/// Removes the shadow logs of earlier incarnations from a data folder.
///
/// # Errors
/// The disk fails.
pub fn remove_shadows(disk: &SharedDisk, folder: &Path) -> Result<(), LogError> {
    for (_, content) in Content::NAMES {
        let shadow = folder.join(name_of(content));
        let listed = disk.list(&shadow).map_err(|error| LogError::io("list", &shadow, error))?;
        if !listed.is_empty() {
            disk.remove(&shadow).map_err(|error| LogError::io("remove", &shadow, error))?;
        }
    }
    Ok(())
}

/// The data folder of a shadow log.
#[derive(Debug)]
pub(super) struct Shadow {
    pub(super) folder: PathBuf,
    pub(super) database: DatabaseId,
    pub(super) pepoch: Arc<PepochKeeper>,
    /// The ranges of its log that its newest checkpoint needs.
    ranges: Mutex<Vec<LogRange>>,
}

impl Shadow {
    /// Starts the shadow log of a content beside a main log, which starts at `own`.
    pub(super) fn start(
        folder: &Path,
        content: Content,
        all: &[Content],
        sequencing: Sequencing,
        own: &LogStart<'_>,
    ) -> Result<(Self, FormattedLog), LogError> {
        let folder = folder.join(name_of(content));
        let siblings = all.iter().filter(|sibling| **sibling != content);
        let siblings = siblings.map(|sibling| Path::new("..").join(name_of(*sibling)));
        let (database, device) = (DatabaseId::random(), folder.join(DEVICE));
        let file = PepochFile {
            database,
            // Recovery looks only for a log of the same incarnation in it.
            is_unmarked: true,
            incarnations: vec![Incarnation { number: own.incarnation, ..Incarnation::default() }],
            devices: vec![DEVICE.into()],
            companions: std::iter::once("..".into()).chain(siblings).collect(),
            ..PepochFile::default()
        };
        let pepoch = PepochKeeper::new(own.disk, &folder, file, false);
        let start = LogStart {
            config: &LogConfig { devices: vec![DEVICE.into()], ..own.config.clone() },
            folders: std::slice::from_ref(&device),
            disk: own.disk,
            database,
            pepoch: &pepoch,
            incarnation: own.incarnation,
            epochs: own.epochs,
            retired: Vec::new(),
            empty: Vec::new(),
        };
        let log = sequencing::start(sequencing, start)?;
        let large = LargeRecords::new(own.disk, &device, (database, own.incarnation), Vec::new())?;
        let log = FormattedLog { format: RecordFormat::of(content), log, large };
        Ok((Self { folder, database, pepoch, ranges: Mutex::default() }, log))
    }

    /// Makes the folder a data folder.
    pub(super) fn publish(&self) -> Result<(), LogError> {
        self.pepoch.publish()
    }

    pub(super) fn ranges(&self) -> MutexGuard<'_, Vec<LogRange>> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
