//! The logs of an open database: its main log, and shadow logs that record the same transactions with other
//! contents.
//!
//! Invariants: 1. a commit is acknowledged once it is durable in all logs. 2. the cut of the incarnation is
//! the least of all logs, because each log names the remaining ones as companions (`PepochFile`). All logs
//! therefore recover to one state.
//! Held by: `a_crash_at_every_call_leaves_one_state` (crates/reprise/tests/suite/shadow_logs.rs).

mod shadows;

use crate::buffer::Room;
use crate::content::{Content, Images, seal};
use crate::error::LogError;
use crate::files::LogRange;
use crate::identity::DatabaseId;
use crate::large::{LargeFile, LargeRecords};
use crate::logger::LogStatistics;
use crate::pepoch::PepochKeeper;
use crate::sequencing::{self, Commit, Csn, Log, LogStart, Numbered, Numbering, Sequencing};
use catalog::CommitOrder;
use shadows::Shadow;
use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};
use storage::{Epochs, Slot};

pub use shadows::{companions, remove_shadows};

/// The format of a log's records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordFormat {
    /// The content of a transaction's record.
    pub content: Content,
    /// The image of an updated row in records by value.
    pub images: Images,
    /// Whether physiological records hold the images that undo needs.
    pub undo: bool,
}

impl RecordFormat {
    /// Returns the usual format of a content.
    pub fn of(content: Content) -> Self {
        Self { content, images: content.images(), undo: true }
    }
}

/// One log, and the format of its records.
#[derive(Debug)]
pub struct FormattedLog {
    /// The format of its records.
    pub format: RecordFormat,
    /// The log.
    pub log: Box<dyn Log>,
    /// The records that its buffers cannot hold.
    pub large: LargeRecords,
}

/// The record of a definition for each log, with its file if it is too large for the log.
#[derive(Debug)]
pub struct DefinitionRecords(Vec<(Vec<u8>, Option<LargeFile>)>);

/// All logs of an open database, the main log first; empty when logging is off.
#[derive(Debug)]
pub struct LogSet {
    pub(crate) logs: Vec<FormattedLog>,
    numbering: &'static dyn Numbering,
    pepoch: Arc<PepochKeeper>,
    /// In the order of their logs.
    shadows: Vec<Shadow>,
    /// The number of the last definition. Every transaction that runs under it has observed it.
    defined: AtomicU64,
    /// Locks on the folder and its devices, held until the logs are closed.
    _locks: Vec<Box<dyn Any + Send + Sync>>,
}

/// The start state of the logs of an incarnation.
#[derive(Debug)]
pub struct LogSetStart<'a> {
    /// The data folder.
    pub folder: &'a Path,
    /// The order in which records become durable in all logs.
    pub sequencing: Sequencing,
    /// The format of the main log; `None` when logging is off.
    pub format: Option<RecordFormat>,
    /// The contents of the shadow logs.
    pub shadows: &'a [Content],
    /// The start state of the main log.
    pub own: LogStart<'a>,
    /// Files of large records of earlier incarnations, with the number of each.
    pub large_files: Vec<(PathBuf, CommitOrder)>,
    /// Locks on the folder and its devices, held until the logs are closed.
    pub locks: Vec<Box<dyn Any + Send + Sync>>,
}

impl LogSet {
    /// Starts the logs of an incarnation.
    ///
    /// # Errors
    /// A device is full, or fails; the files asked for are too small.
    pub fn start(start: LogSetStart<'_>) -> Result<Self, LogError> {
        let LogSetStart { folder, sequencing, format, shadows, own, large_files, locks } = start;
        let mut set = Self {
            logs: Vec::new(),
            numbering: format.map_or(Sequencing::default(), |_| sequencing).numbering(),
            pepoch: Arc::clone(own.pepoch),
            shadows: Vec::new(),
            defined: AtomicU64::new(0),
            _locks: locks,
        };
        for content in shadows {
            let (shadow, log) = Shadow::start(folder, *content, shadows, sequencing, &own)?;
            set.logs.push(log);
            set.shadows.push(shadow);
        }
        if let Some(format) = format {
            let first = own.folders.first().map_or(folder, PathBuf::as_path);
            let large = LargeRecords::new(own.disk, first, (own.database, own.incarnation), large_files)?;
            let log = sequencing::start(sequencing, own)?;
            set.logs.insert(0, FormattedLog { format, log, large });
        }
        Ok(set)
    }

    /// Makes the shadow logs' folders data folders, once their first contents are durable.
    ///
    /// # Errors
    /// The disk is full, or fails.
    pub fn publish_shadows(&self) -> Result<(), LogError> {
        self.shadows.iter().try_for_each(Shadow::publish)
    }

    /// Prepares for the records of a worker, before its first.
    ///
    /// # Errors
    /// A device is full, or fails.
    pub fn add_worker(&self, worker: Slot) -> Result<(), LogError> {
        self.logs.iter().try_for_each(|own| own.log.add_worker(worker))
    }

    /// Returns the logs, the database's own first.
    pub fn iter(&self) -> impl Iterator<Item = &FormattedLog> {
        self.logs.iter()
    }

    /// Returns the log of an index.
    #[inline]
    pub fn at(&self, index: usize) -> &dyn Log {
        &*self.logs[index].log
    }

    /// Returns the large records of a log.
    pub fn large(&self, place: usize) -> &LargeRecords {
        &self.logs[place].large
    }

    /// Returns the number up to which all logs are durable; `None` when logging is off.
    #[inline]
    pub fn durable(&self) -> Option<Csn> {
        self.logs.iter().map(|own| own.log.durable()).min()
    }

    /// Returns whether a commit may be acknowledged.
    #[inline]
    pub fn is_durable(&self, commit: Commit) -> bool {
        self.logs.iter().all(|own| own.log.is_durable(commit))
    }

    /// Returns once a commit may be acknowledged.
    ///
    /// # Errors
    /// A log has failed before that.
    pub fn wait(&self, commit: Commit) -> Result<(), LogError> {
        self.logs.iter().try_for_each(|own| own.log.wait(commit))
    }

    /// Returns whether a commit may be acknowledged. If not, wakes the task when that may have changed.
    ///
    /// # Errors
    /// A log has failed before that.
    pub fn poll(&self, commit: Commit, waker: &Waker) -> Result<bool, LogError> {
        for own in &self.logs {
            if !own.log.poll(commit, waker)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns how transactions are numbered.
    #[inline]
    pub fn numbering(&self) -> &'static dyn Numbering {
        self.numbering
    }

    /// Returns a number that no transaction so far is above, and makes it one that can be waited for.
    pub fn newest(&self, epochs: &Epochs) -> CommitOrder {
        let newest = self.numbering.newest(self, CommitOrder(epochs.next_order().0 - 1));
        self.logs.iter().for_each(|own| own.log.expect(newest));
        newest
    }

    /// Returns the number of the last definition: every answer shows it.
    #[inline]
    pub fn defined(&self) -> CommitOrder {
        CommitOrder(self.defined.load(Ordering::Relaxed))
    }

    /// Returns once all logs are durable up to a number, whether or not a transaction has it.
    ///
    /// # Errors
    /// A log has failed before that.
    pub fn complete(&self, number: CommitOrder) -> Result<(), LogError> {
        self.logs.iter().try_for_each(|own| own.log.complete(number))
    }

    /// Fails if a log has failed. A lack of room is not a failure.
    ///
    /// # Errors
    /// A log has failed.
    pub fn check_failed(&self) -> Result<(), LogError> {
        self.logs.iter().try_for_each(|own| own.log.check_failed())
    }

    /// Returns whether it is known if the logs can grow; otherwise wakes `waker` once more is known.
    pub fn poll_known(&self, waker: &Waker) -> Poll<()> {
        let is_known = |own: &FormattedLog| own.log.poll_known(waker).is_ready();
        if self.logs.iter().all(is_known) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Returns whether it is still unknown if transactions that write must be refused.
    #[inline]
    pub fn is_in_doubt(&self) -> bool {
        self.logs.iter().any(|own| own.log.is_in_doubt())
    }

    /// Keeps logs that lack room from taking a checkpoint's room, for as long as the guards live.
    pub fn leave_room(&self) -> Vec<impl Sized + '_> {
        self.logs.iter().map(|own| own.log.leave_room()).collect()
    }

    /// Fails unless commits are accepted.
    ///
    /// # Errors
    /// A log has failed, or can't grow for now.
    #[inline]
    pub fn check(&self) -> Result<(), LogError> {
        self.logs.iter().try_for_each(|own| own.log.check())
    }

    /// Refuses a record that no buffer holds.
    ///
    /// # Errors
    /// `RecordTooLarge`.
    #[inline]
    pub fn check_size(&self, bytes: usize) -> Result<(), LogError> {
        self.logs.iter().try_for_each(|own| own.log.check_size(bytes))
    }

    /// Copies a record into its room.
    pub fn fill(&self, place: usize, worker: Slot, room: Room, record: &[u8]) {
        self.logs[place].log.buffer(worker).fill(room, record);
    }

    /// Notes that a worker's transaction has ended and unlocked its rows.
    ///
    /// # Errors
    /// A log has failed.
    #[inline]
    pub fn ended(&self, worker: Slot) -> Result<(), LogError> {
        self.logs.iter().try_for_each(|own| own.log.ended(worker))
    }

    /// Prepares the record of a definition for each log. A record that is too large for a log goes to a file.
    ///
    /// # Errors
    /// The disk is full, or fails; there is no file then.
    pub fn prepare_definition(&self, record: &[u8]) -> Result<DefinitionRecords, LogError> {
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

    /// Discards the records of a definition that was abandoned.
    pub fn forget_definition(&self, records: DefinitionRecords) {
        for (own, (_, file)) in self.logs.iter().zip(records.0) {
            file.into_iter().for_each(|file| own.large.forget(file));
        }
    }

    /// Appends the records of a definition to all logs, with a number above all earlier ones and below all
    /// later ones. Calls `with` with that number to apply the definition. No other transaction runs.
    ///
    /// # Errors
    /// A log has failed.
    pub fn define(
        &self,
        worker: Slot,
        epochs: &Epochs,
        records: DefinitionRecords,
        with: impl FnOnce(CommitOrder),
    ) -> (CommitOrder, Result<(), LogError>) {
        epochs.advance_from(epochs.current());
        epochs.begin_commit(worker);
        let by = Numbered { logs: self, epochs, worker, tag: None };
        let order = self.numbering.of_definition(by);
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

    /// Notes that a session submits as fast as it can.
    pub fn note_saturation(&self) {
        self.logs.iter().for_each(|own| own.log.note_saturation());
    }

    /// Recycles the files that the newest checkpoint does not need. `needed` are the ranges of the main log;
    /// the checkpoint holds all records numbered before `bound`.
    ///
    /// # Errors
    /// A device fails.
    pub fn release(&self, needed: &[LogRange], bound: CommitOrder) -> Result<(), LogError> {
        if let Some(own) = self.logs.first() {
            own.log.release(needed)?;
        }
        for (own, shadow) in self.logs.iter().skip(1).zip(&self.shadows) {
            own.log.release(&shadow.ranges())?;
        }
        self.logs.iter().try_for_each(|own| own.large.release_before(bound))
    }

    /// Returns the amounts written since the database was opened, by log.
    pub fn statistics(&self) -> impl Iterator<Item = (Content, LogStatistics)> {
        self.logs.iter().map(|own| (own.format.content, own.log.statistics()))
    }

    /// Returns the amounts written since the database was opened, by log and folder.
    pub fn devices(&self) -> impl Iterator<Item = (Content, Vec<(PathBuf, LogStatistics)>)> {
        self.logs.iter().map(|own| (own.format.content, own.log.devices()))
    }
}

impl LogSet {
    /// Returns the ranges of the main log that recovery needs beside a checkpoint with this bound.
    pub fn ranges_from(&self, bound: CommitOrder) -> Vec<LogRange> {
        self.logs.first().map_or(Vec::new(), |own| own.log.ranges_from(bound))
    }

    /// Calls `publish` with the folder, the database and the needed ranges of each shadow log, for a
    /// checkpoint with this bound.
    ///
    /// # Errors
    /// That of `publish`.
    pub fn for_each_shadow<E>(
        &self,
        bound: CommitOrder,
        mut publish: impl FnMut(&Path, DatabaseId, &[LogRange]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.logs.iter().skip(1).zip(&self.shadows).try_for_each(|(own, shadow)| {
            let mut ranges = shadow.ranges();
            *ranges = own.log.ranges_from(bound);
            publish(&shadow.folder, shadow.database, &ranges)
        })
    }

    /// Writes into all pepoch files that a checkpoint is published.
    ///
    /// # Errors
    /// The disk is full, or fails.
    pub fn checkpointed(&self, number: u64) -> Result<(), LogError> {
        let shadows = self.shadows.iter().map(|shadow| &shadow.pepoch);
        let mut files = std::iter::once(&self.pepoch).chain(shadows);
        files.try_for_each(|pepoch| pepoch.update(|file| file.checkpoint = number))
    }
}

impl Drop for LogSet {
    /// Records the ends of the logs, so that a closed database proves that its logs are complete. If this
    /// fails, the next opening treats the logs as after a crash.
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
