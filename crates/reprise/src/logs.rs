//! The logs of an open database: its own, and shadow logs beside it that record the same transactions as something else.
//! Source: DESIGN §10 (shadow log).
//!
//! A shadow log lies in a folder `shadow-<content>` of the data folder, which is a data folder of its own: it can be
//! recovered like any other. It lasts for one incarnation, as the next one removes it or begins it anew.
//! Invariants: 1. a commit is acknowledged once it is durable in all logs. 2. the cut of the incarnation is the least of
//! all logs, as each names the others as companions (`logging::PepochFile`), so that all come to one state.
//! Held by: `a_crash_at_every_call_leaves_one_state` (crates/reprise/tests/shadow_logs.rs).

use crate::{Config, Error};
use catalog::Epoch;
use logging::content::{Images, InvalidContent};
use logging::{Content, EpochLog, Incarnation, LogConfig, LogError, LogStatistics, PepochFile};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::{Epochs, Slot};

/// The log device of a shadow log.
const SHADOW_DEVICE: &str = "log";

/// What a log records, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Recorded {
    pub(crate) content: Content,
    pub(crate) images: Images,
    pub(crate) undo: bool,
}

impl Recorded {
    /// What a configuration asks for in the database's own log.
    ///
    /// # Errors
    /// It asks for what there is not.
    pub(crate) fn of(config: &Config) -> Result<Self, InvalidContent> {
        let content = config.content;
        let images = config.images.unwrap_or(content.images());
        if content == Content::Physical && images == Images::Columns {
            return Err(InvalidContent::PhysicalColumns);
        }
        if !config.undo && content != Content::Physiological {
            return Err(InvalidContent::NothingToUndo(content));
        }
        for shadow in &config.shadow_logs {
            if *shadow == Content::Off || content == Content::Off {
                return Err(InvalidContent::EmptyShadow(*shadow));
            }
        }
        Ok(Self { content, images, undo: config.undo })
    }

    fn shadow(content: Content) -> Self {
        Self { content, images: content.images(), undo: true }
    }
}

/// One log.
pub(crate) struct Log {
    pub(crate) recorded: Recorded,
    pub(crate) epochs: EpochLog,
}

/// All logs of an open database, its own first; none when nothing is logged.
#[derive(Default)]
pub(crate) struct Logs {
    logs: Vec<Log>,
    /// The data folders of the shadow logs.
    pub(crate) shadows: Vec<PathBuf>,
}

/// The data folder of a shadow log.
fn shadow_folder(folder: &Path, content: Content) -> PathBuf {
    folder.join(shadow_name(content))
}

fn shadow_name(content: Content) -> String {
    format!("shadow-{content}")
}

/// The companions of a database's own log, as its pepoch file names them.
pub(crate) fn companions(config: &Config) -> Vec<PathBuf> {
    config.shadow_logs.iter().map(|content| shadow_name(*content).into()).collect()
}

/// Removes the shadow logs of earlier incarnations.
pub(crate) fn remove_shadows(config: &Config, folder: &Path) -> Result<(), LogError> {
    let disk = &config.disk;
    for (_, content) in Content::NAMES {
        let shadow = shadow_folder(folder, content);
        let listed = disk.list(&shadow).map_err(|error| LogError::io("list", &shadow, error))?;
        if !listed.is_empty() {
            disk.remove(&shadow).map_err(|error| LogError::io("remove", &shadow, error))?;
        }
    }
    Ok(())
}

impl Logs {
    /// Starts the shadow logs of an incarnation; its own follows.
    pub(crate) fn start_shadows(
        config: &Config,
        folder: &Path,
        incarnation: u64,
        epochs: &Arc<Epochs>,
    ) -> Result<Self, Error> {
        let mut logs = Self::default();
        let log = LogConfig {
            devices: vec![SHADOW_DEVICE.into()],
            file_bytes: config.log_file_bytes,
            flush_floor: config.flush_floor,
        };
        for content in &config.shadow_logs {
            let shadow = shadow_folder(folder, *content);
            let device = shadow.join(SHADOW_DEVICE);
            let started = EpochLog::start(&log, &[device], &config.disk, incarnation, epochs, Vec::new())?;
            logs.logs.push(Log { recorded: Recorded::shadow(*content), epochs: started });
            logs.shadows.push(shadow);
        }
        Ok(logs)
    }

    /// Adds the database's own log.
    pub(crate) fn add_own(&mut self, recorded: Recorded, epochs: EpochLog) {
        self.logs.insert(0, Log { recorded, epochs });
    }

    /// Makes the shadow logs' folders data folders, once what they begin with is durable.
    pub(crate) fn publish_shadows(&self, config: &Config, incarnation: u64) -> Result<(), LogError> {
        for (place, shadow) in self.shadows.iter().enumerate() {
            let others = config.shadow_logs.iter().enumerate().filter(|(other, _)| *other != place);
            let siblings = others.map(|(_, content)| Path::new("..").join(shadow_name(*content)));
            let pepoch = PepochFile {
                incarnations: vec![Incarnation { number: incarnation, cut: None }],
                devices: vec![SHADOW_DEVICE.into()],
                companions: std::iter::once("..".into()).chain(siblings).collect(),
            };
            pepoch.write(&config.disk, shadow)?;
        }
        Ok(())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Log> {
        self.logs.iter()
    }

    pub(crate) fn at(&self, place: usize) -> &EpochLog {
        &self.logs[place].epochs
    }

    /// The last epoch whose commits are acknowledged; `None` when nothing is logged.
    #[inline]
    pub(crate) fn durable(&self) -> Option<Epoch> {
        self.logs.iter().map(|log| log.epochs.durable()).min()
    }

    /// Returns once an epoch is durable.
    ///
    /// # Errors
    /// A log has failed before that.
    pub(crate) fn wait(&self, epoch: Epoch) -> Result<(), LogError> {
        self.logs.iter().try_for_each(|log| log.epochs.wait(epoch))
    }

    /// Returns once an epoch is complete and durable, whether or not anything was logged in it.
    ///
    /// # Errors
    /// A log has failed before that.
    pub(crate) fn complete(&self, epoch: Epoch) -> Result<(), LogError> {
        self.logs.iter().try_for_each(|log| log.epochs.complete(epoch))
    }

    /// Whether commits are accepted.
    ///
    /// # Errors
    /// A log has failed.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), LogError> {
        self.logs.iter().try_for_each(|log| log.epochs.check())
    }

    /// Refuses a record that no buffer holds.
    ///
    /// # Errors
    /// `RecordTooLarge`.
    #[inline]
    pub(crate) fn check_size(&self, bytes: usize) -> Result<(), LogError> {
        self.logs.iter().try_for_each(|log| log.epochs.check_size(bytes))
    }

    /// Appends a record to all logs.
    ///
    /// # Errors
    /// A log has failed.
    pub(crate) fn append(&self, slot: Slot, record: &[u8], epoch: Epoch) -> Result<(), LogError> {
        self.logs.iter().try_for_each(|log| log.epochs.append(slot, record, epoch))
    }

    /// Tells that some session submits as fast as it can.
    pub(crate) fn note_saturation(&self) {
        self.logs.iter().for_each(|log| log.epochs.note_saturation());
    }

    /// Recycles the files whose records all belong to epochs before one, as a checkpoint holds them.
    ///
    /// # Errors
    /// A device fails.
    pub(crate) fn release_before(&self, epoch: Epoch) -> Result<(), LogError> {
        self.logs.iter().try_for_each(|log| log.epochs.release_before(epoch))
    }

    /// What was written since the database was opened, by log.
    pub(crate) fn statistics(&self) -> impl Iterator<Item = (Content, LogStatistics)> {
        self.logs.iter().map(|log| (log.recorded.content, log.epochs.statistics()))
    }
}
