//! The logs of an open database: its own, and shadow logs beside it that record the same transactions as something else.
//! Source: DESIGN §10 (shadow log).
//!
//! A shadow log lies in a folder `shadow-<content>` of the data folder, which is a data folder of its own: it can be
//! recovered like any other. It lasts for one incarnation, as the next one removes it or begins it anew.
//! Invariants: 1. a commit is acknowledged once it is durable in all logs. 2. the cut of the incarnation is the least of
//! all logs, as each names the others as companions (`logging::PepochFile`), so that all come to one state.
//! Held by: `a_crash_at_every_call_leaves_one_state` (crates/reprise/tests/suite/shadow_logs.rs).

use crate::opening::Lock;
use crate::{Config, Error};
use catalog::CommitOrder;
use checkpoint::{CheckpointError, Shadow};
use logging::content::{Images, InvalidContent, Stamp, seal};
use logging::{
    Commit, Content, DatabaseId, Incarnation, LargeFile, LargeRecords, Log, LogConfig, LogError, LogRange,
    LogStart, LogStatistics, LoggerTag, Numbering, PepochFile, PepochKeeper, Room,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use storage::{Epochs, Slot};
use transaction::Observed;

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
    pub(crate) fn of(config: &Config) -> Result<Self, Error> {
        let content = config.content;
        let images = config.images.unwrap_or(content.images());
        if content == Content::Physical && images == Images::Columns {
            return Err(InvalidContent::PhysicalColumns.into());
        }
        if !config.undo && content != Content::Physiological {
            return Err(InvalidContent::NothingToUndo(content).into());
        }
        config.sequencing.admits(content, images)?;
        for shadow in &config.shadow_logs {
            if *shadow == Content::Off || content == Content::Off {
                return Err(InvalidContent::EmptyShadow(*shadow).into());
            }
            config.sequencing.admits(*shadow, shadow.images())?;
        }
        Ok(Self { content, images, undo: config.undo })
    }

    fn shadow(content: Content) -> Self {
        Self { content, images: content.images(), undo: true }
    }
}

/// One log, and what it records.
pub(crate) struct RecordedLog {
    pub(crate) recorded: Recorded,
    pub(crate) log: Box<dyn Log>,
    pub(crate) large: LargeRecords,
}

/// The record of a definition for each log, and the file that holds it where it is too large for the log.
pub(crate) struct DefinitionRecords(Vec<(Vec<u8>, Option<LargeFile>)>);

/// The data folder of a shadow log.
struct ShadowFolder {
    folder: PathBuf,
    database: DatabaseId,
    pepoch: Arc<PepochKeeper>,
    /// What the last checkpoint in it needs of its log.
    ranges: Mutex<Vec<LogRange>>,
}

/// All logs of an open database, its own first; none when nothing is logged.
pub(crate) struct Logs {
    logs: Vec<RecordedLog>,
    pub(crate) numbering: Numbering,
    pepoch: Arc<PepochKeeper>,
    /// In the order of their logs.
    shadows: Vec<ShadowFolder>,
    /// The number of the last definition: every transaction that runs under it has observed it.
    defined: AtomicU64,
    /// What keeps other databases from the folder and its devices, until everything is written.
    _locks: Vec<Lock>,
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

/// The pepoch file of a shadow log, which is published later.
fn shadow_pepoch(
    config: &Config,
    shadow: &Path,
    content: Content,
    incarnation: u64,
) -> (DatabaseId, Arc<PepochKeeper>) {
    let database = DatabaseId::random();
    let others = config.shadow_logs.iter().filter(|other| **other != content);
    let siblings = others.map(|content| Path::new("..").join(shadow_name(*content)));
    let file = PepochFile {
        database,
        // Nothing but a log of the same incarnation is ever looked for in it.
        is_unmarked: true,
        incarnations: vec![Incarnation { number: incarnation, ..Incarnation::default() }],
        devices: vec![SHADOW_DEVICE.into()],
        companions: std::iter::once("..".into()).chain(siblings).collect(),
        ..PepochFile::default()
    };
    (database, PepochKeeper::new(&config.disk, shadow, file, false))
}

impl Logs {
    /// Starts the logs of an incarnation. `own` is where the database's own log begins, and what it records; `None` when
    /// nothing is logged.
    pub(crate) fn start(
        config: &Config,
        (folder, database, pepoch): (&Path, DatabaseId, &Arc<PepochKeeper>),
        incarnation: u64,
        epochs: &Arc<Epochs>,
        own: Option<(Recorded, LogStart<'_>)>,
        large_files: Vec<(PathBuf, CommitOrder)>,
        locks: Vec<Lock>,
    ) -> Result<Self, Error> {
        let mut logs = Self {
            logs: Vec::new(),
            numbering: own.as_ref().map_or(Numbering::Clock, |_| config.sequencing.numbering()),
            pepoch: Arc::clone(pepoch),
            shadows: Vec::new(),
            defined: AtomicU64::new(0),
            _locks: locks,
        };
        let shadow_log = LogConfig { devices: vec![SHADOW_DEVICE.into()], ..config.log() };
        for content in &config.shadow_logs {
            let shadow = shadow_folder(folder, *content);
            let (database, pepoch) = shadow_pepoch(config, &shadow, *content, incarnation);
            let start = LogStart {
                config: &shadow_log,
                folders: &[shadow.join(SHADOW_DEVICE)],
                disk: &config.disk,
                database,
                pepoch: &pepoch,
                incarnation,
                epochs,
                retired: Vec::new(),
                empty: Vec::new(),
            };
            let log = logging::start(config.sequencing, start)?;
            let device = shadow.join(SHADOW_DEVICE);
            let large = LargeRecords::new(&config.disk, &device, (database, incarnation), Vec::new())?;
            logs.logs.push(RecordedLog { recorded: Recorded::shadow(*content), log, large });
            logs.shadows.push(ShadowFolder { folder: shadow, database, pepoch, ranges: Mutex::default() });
        }
        if let Some((recorded, start)) = own {
            let first = start.folders.first().map(PathBuf::as_path).unwrap_or(folder);
            let large = (database, incarnation);
            let large = LargeRecords::new(&config.disk, first, large, large_files)?;
            let log = logging::start(config.sequencing, start)?;
            logs.logs.insert(0, RecordedLog { recorded, log, large });
        }
        Ok(logs)
    }

    /// Makes the shadow logs' folders data folders, once what they begin with is durable.
    pub(crate) fn publish_shadows(&self) -> Result<(), LogError> {
        self.shadows.iter().try_for_each(|shadow| shadow.pepoch.publish())
    }

    /// Prepares for the records of a worker, before its first.
    ///
    /// # Errors
    /// A device is full, or fails.
    pub(crate) fn add_worker(&self, worker: Slot) -> Result<(), LogError> {
        self.logs.iter().try_for_each(|own| own.log.add_worker(worker))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &RecordedLog> {
        self.logs.iter()
    }

    pub(crate) fn at(&self, place: usize) -> &dyn Log {
        &*self.logs[place].log
    }

    /// The records of a log that no buffer holds.
    pub(crate) fn large(&self, place: usize) -> &LargeRecords {
        &self.logs[place].large
    }

    /// Up to which number everything is durable in all logs; `None` when nothing is logged.
    #[inline]
    pub(crate) fn durable(&self) -> Option<CommitOrder> {
        self.logs.iter().map(|own| own.log.durable()).min()
    }

    /// Whether a commit may be acknowledged.
    #[inline]
    pub(crate) fn is_durable(&self, commit: Commit) -> bool {
        self.logs.iter().all(|own| own.log.is_durable(commit))
    }

    /// Returns once a commit may be acknowledged.
    ///
    /// # Errors
    /// A log has failed before that.
    pub(crate) fn wait(&self, commit: Commit) -> Result<(), LogError> {
        self.logs.iter().try_for_each(|own| own.log.wait(commit))
    }

    /// Whether a commit may be acknowledged; where not, the task is woken when that may have changed.
    ///
    /// # Errors
    /// A log has failed before that.
    pub(crate) fn poll(&self, commit: Commit, waker: &Waker) -> Result<bool, LogError> {
        for own in &self.logs {
            if !own.log.poll(commit, waker)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the number of the last definition: every answer shows it.
    #[inline]
    pub(crate) fn defined(&self) -> CommitOrder {
        CommitOrder(self.defined.load(Ordering::Relaxed))
    }

    /// Returns a number that no transaction so far is above, and makes it one that can be waited for.
    pub(crate) fn newest(&self, epochs: &Epochs) -> CommitOrder {
        let drawn = CommitOrder(epochs.next_order().0 - 1);
        let newest = match self.numbering {
            Numbering::Clock => drawn,
            Numbering::Logs | Numbering::LogsAndReads => {
                self.logs.iter().fold(drawn, |greatest, own| greatest.max(own.log.newest()))
            }
        };
        self.logs.iter().for_each(|own| own.log.expect(newest));
        newest
    }

    /// Returns once everything up to a number is durable, whether or not anything has it.
    ///
    /// # Errors
    /// A log has failed before that.
    pub(crate) fn complete(&self, number: CommitOrder) -> Result<(), LogError> {
        self.logs.iter().try_for_each(|own| own.log.complete(number))
    }

    /// Whether the logs work, though one may lack room for now.
    ///
    /// # Errors
    /// A log has failed.
    pub(crate) fn check_failed(&self) -> Result<(), LogError> {
        self.logs.iter().try_for_each(|own| own.log.check_failed())
    }

    /// Whether it is known if the logs can grow; otherwise `waker` is woken once more is known.
    pub(crate) fn poll_known(&self, waker: &Waker) -> Poll<()> {
        let is_known = |own: &RecordedLog| own.log.poll_known(waker).is_ready();
        if self.logs.iter().all(is_known) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Whether it is not known yet if transactions that write are refused for now.
    #[inline]
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.logs.iter().any(|own| own.log.is_in_doubt())
    }

    /// Keeps logs that lack room from taking it from a checkpoint, for as long as the guards live.
    pub(crate) fn leave_room(&self) -> Vec<impl Sized + '_> {
        self.logs.iter().map(|own| own.log.leave_room()).collect()
    }

    /// Whether commits are accepted.
    ///
    /// # Errors
    /// A log has failed, or can't grow for now.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), LogError> {
        self.logs.iter().try_for_each(|own| own.log.check())
    }

    /// Refuses a record that no buffer holds.
    ///
    /// # Errors
    /// `RecordTooLarge`.
    #[inline]
    pub(crate) fn check_size(&self, bytes: usize) -> Result<(), LogError> {
        self.logs.iter().try_for_each(|own| own.log.check_size(bytes))
    }

    /// Draws a worker's next number from the logs, above `floor`; its record follows, or `undraw`.
    pub(crate) fn draw(&self, worker: Slot, floor: CommitOrder) -> CommitOrder {
        let latched: Vec<_> = self.logs.iter().map(|own| own.log.buffer(worker).latch()).collect();
        let greatest = latched.iter().map(|own| own.number()).max().unwrap_or_default();
        let number = CommitOrder(greatest.max(floor).0 + 1);
        for own in &latched {
            own.raise(number);
            own.begin_draw(number);
        }
        number
    }

    /// The record of the number that was drawn last will never come.
    pub(crate) fn undraw(&self, worker: Slot) {
        self.logs.iter().for_each(|own| own.log.buffer(worker).latch().end_draw());
    }

    /// The logger of a worker, where its numbers name it: where there is one log, as what counts must be in all of them.
    pub(crate) fn tag(&self, worker: Slot) -> Option<LoggerTag> {
        match &*self.logs {
            [own] if self.numbering == Numbering::Logs => own.log.tag(worker),
            _ => None,
        }
    }

    /// Takes a worker's next number from the logs, above what was observed and above `floor`, and with it room for the records;
    /// `bytes` tells how long that of each log is. Paper: Poplar Algorithm 1, lines 5–12.
    pub(crate) fn number(
        &self,
        (worker, tag): (Slot, Option<LoggerTag>),
        (observed, floor): (Observed, CommitOrder),
        bytes: impl Fn(usize) -> usize,
        rooms: &mut Vec<Room>,
    ) -> (Stamp, Result<(), LogError>) {
        // What is durable now is so in every recovery; with logs to compare all that counts must be in all of them.
        let defined = self.defined();
        let alone = self.logs.len() == 1 && self.logs[0].log.durable() >= observed.foreign.max(defined);
        let above = observed.last.max(defined).max(floor);
        let next = |greatest: CommitOrder| match tag {
            Some(tag) => tag.above(greatest.max(above), alone),
            None => CommitOrder(greatest.max(above).0 + 1),
        };
        loop {
            rooms.clear();
            let order = match &*self.logs {
                [own] => {
                    let latched = own.log.buffer(worker).latch();
                    rooms.extend(latched.take_room(bytes(0)));
                    latched.raise(next(latched.number()))
                }
                logs => {
                    let latched: Vec<_> = logs.iter().map(|own| own.log.buffer(worker).latch()).collect();
                    let greatest = latched.iter().map(|own| own.number()).max().unwrap_or_default();
                    let order = next(greatest);
                    latched.iter().for_each(|own| {
                        own.raise(order);
                    });
                    if latched.iter().enumerate().all(|(place, own)| own.has_room(bytes(place))) {
                        let all = latched.iter().enumerate();
                        rooms.extend(all.filter_map(|(place, own)| own.take_room(bytes(place))));
                    }
                    order
                }
            };
            let stamp = Stamp { order, alone };
            if rooms.len() == self.logs.len() {
                return (stamp, Ok(()));
            }
            let made = self.logs.iter().try_for_each(|own| own.log.make_room(worker));
            if made.is_err() {
                rooms.clear();
                return (stamp, made);
            }
        }
    }

    /// Copies a record into the room that was taken for it.
    pub(crate) fn fill(&self, place: usize, worker: Slot, room: Room, record: &[u8]) {
        self.logs[place].log.buffer(worker).fill(room, record);
    }

    /// A worker's transaction has ended, its rows are unlocked.
    ///
    /// # Errors
    /// A log has failed.
    #[inline]
    pub(crate) fn ended(&self, worker: Slot) -> Result<(), LogError> {
        self.logs.iter().try_for_each(|own| own.log.ended(worker))
    }

    /// Makes the record of a definition ready for each log: one that is too large for a log goes to a file of its own.
    ///
    /// # Errors
    /// The disk is full, or fails; there is no file then.
    pub(crate) fn prepare_definition(&self, record: &[u8]) -> Result<DefinitionRecords, LogError> {
        let mut prepared = DefinitionRecords(Vec::new());
        for own in self.logs.iter() {
            let mut record = record.to_vec();
            let file = match own.log.check_size(record.len()) {
                Ok(()) => None,
                Err(_) => match own.large.put(&mut record) {
                    Ok(file) => Some(file),
                    Err(error) => {
                        self.forget_definition(prepared);
                        return Err(error);
                    }
                },
            };
            prepared.0.push((record, file));
        }
        Ok(prepared)
    }

    /// The definition is not made after all.
    pub(crate) fn forget_definition(&self, records: DefinitionRecords) {
        for (own, (_, file)) in self.logs.iter().zip(records.0) {
            file.into_iter().for_each(|file| own.large.forget(file));
        }
    }

    /// Appends the records of a definition to all logs, with a number above all earlier ones and below all later ones; `with` does
    /// with that number what else the records stand for. No other transaction runs.
    ///
    /// # Errors
    /// A log has failed.
    pub(crate) fn define(
        &self,
        worker: Slot,
        epochs: &Epochs,
        records: DefinitionRecords,
        with: impl FnOnce(CommitOrder),
    ) -> (CommitOrder, Result<(), LogError>) {
        epochs.advance_from(epochs.current());
        epochs.begin_commit(worker);
        let order = match self.numbering {
            Numbering::Clock => epochs.draw(),
            Numbering::Logs | Numbering::LogsAndReads => {
                self.draw(worker, CommitOrder(epochs.next_order().0 - 1))
            }
        };
        self.defined.fetch_max(order.0, Ordering::Relaxed);
        with(order);
        let mut logs = self.logs.iter().zip(records.0);
        let appended = logs.try_for_each(|(own, (mut record, file))| {
            seal(order, &mut record);
            file.into_iter().for_each(|file| own.large.keep(file, order));
            own.log.append(worker, &record, order)
        });
        epochs.end_commit(worker);
        epochs.advance_from(epochs.current());
        (order, appended.and_then(|()| self.ended(worker)))
    }

    /// Tells that some session submits as fast as it can.
    pub(crate) fn note_saturation(&self) {
        self.logs.iter().for_each(|own| own.log.note_saturation());
    }

    /// Recycles the files that the newest checkpoint does not need, as `needed` says of the database's own log. What is numbered
    /// before `bound` is in the checkpoint.
    ///
    /// # Errors
    /// A device fails.
    pub(crate) fn release(&self, needed: &[LogRange], bound: CommitOrder) -> Result<(), LogError> {
        if let Some(own) = self.logs.first() {
            own.log.release(needed)?;
        }
        for (own, shadow) in self.logs.iter().skip(1).zip(&self.shadows) {
            own.log.release(&shadow.ranges.lock().unwrap_or_else(PoisonError::into_inner))?;
        }
        self.logs.iter().try_for_each(|own| own.large.release_before(bound))
    }

    /// What was written since the database was opened, by log.
    pub(crate) fn statistics(&self) -> impl Iterator<Item = (Content, LogStatistics)> {
        self.logs.iter().map(|own| (own.recorded.content, own.log.statistics()))
    }
}

impl checkpoint::Log for Logs {
    fn durable(&self) -> CommitOrder {
        Self::durable(self).unwrap_or_default()
    }

    fn complete(&self, number: CommitOrder) -> Result<(), LogError> {
        Self::complete(self, number)
    }

    fn ranges_from(&self, bound: CommitOrder) -> Vec<LogRange> {
        self.logs.first().map_or(Vec::new(), |own| own.log.ranges_from(bound))
    }

    fn publish_in_shadows(
        &self,
        bound: CommitOrder,
        publish: &dyn Fn(Shadow<'_>) -> Result<(), CheckpointError>,
    ) -> Result<(), CheckpointError> {
        self.logs.iter().skip(1).zip(&self.shadows).try_for_each(|(own, shadow)| {
            let mut ranges = shadow.ranges.lock().unwrap_or_else(PoisonError::into_inner);
            *ranges = own.log.ranges_from(bound);
            publish(Shadow { folder: &shadow.folder, database: shadow.database, ranges: &ranges })
        })
    }

    fn checkpointed(&self, number: u64) -> Result<(), LogError> {
        let shadows = self.shadows.iter().map(|shadow| &shadow.pepoch);
        let mut files = std::iter::once(&self.pepoch).chain(shadows);
        files.try_for_each(|pepoch| pepoch.update(|file| file.checkpoint = number))
    }
}

impl Drop for Logs {
    /// Writes how the logs end, so that a closed database proves that nothing of it is missing. Without it, after an error, the
    /// next opening takes the logs as a crash leaves them.
    fn drop(&mut self) {
        let shadows = self.shadows.iter().map(|shadow| &shadow.pepoch);
        let files = std::iter::once(&self.pepoch).chain(shadows);
        for (own, pepoch) in self.logs.iter_mut().zip(files) {
            if let Some(ends) = own.log.close() {
                let _ = pepoch.update_newest(|newest| newest.ends = ends);
            }
        }
    }
}
