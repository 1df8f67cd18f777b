//! Sequencing by numbers that also follow reads. Each worker has a log of its own and writes it itself when
//! its transactions end.
//! Paper: Poplar §3.3, §6.1 (NVM-D, after Wang and Johnson, VLDB 2014). Differs: a worker that writes its log
//! vouches for workers that have no records to write, because they may stay idle.
//!
//! A number is drawn before the read set is validated; its record takes room afterwards. Until then, the
//! buffer is complete up to just below the number.
//!
//! Invariant: for each log, the durable number is at most the number to which the log is complete, or to
//! which it was vouched for while it was settled.
//! Held by: `model.rs` (loom), and the crash tests of `crates/reprise`.

use super::durability::{Bounds, Durability, DurableBuffer};
use super::numbering::{Drawn, Footprint, Numbered, Numbering};
use super::numbers::{Csn, Dsn, Gsn};
use super::{Commit, Entry, InvalidSequencing, Log, LogStart};
use crate::buffer::LogBuffer;
use crate::content::Content;
use crate::disk::{SharedDisk, make_folder};
use crate::error::LogError;
use crate::files::{FileMaker, LogRange, RetiredFile};
use crate::identity::DatabaseId;
use crate::log_set::LogSet;
use crate::logger::{BatchWriter, LogStatistics, Shared};
use crate::pepoch::{LogEnd, PepochKeeper};
use crate::shortage::Stage;
use catalog::CommitOrder;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use storage::{Epochs, Slot};

/// Pause of a thread between two looks at the logs of other workers.
const LOOK_AGAIN: Duration = Duration::from_micros(50);

/// The log of a worker.
struct WorkerLog {
    shared: Arc<Shared>,
    maker: FileMaker,
    /// The writer of its batches, and the durable batches of all logs as its last batch names them.
    writer: Mutex<(BatchWriter, Vec<u64>)>,
    /// Whether its worker gave up writing its records for want of room. The worker may be idle from then on,
    /// or gone, so another thread writes them as soon as there is room.
    is_left: AtomicBool,
}

/// The logs of all workers.
pub(super) struct GsnLog {
    disk: SharedDisk,
    folders: Vec<PathBuf>,
    file_bytes: u64,
    database: DatabaseId,
    pepoch: Arc<PepochKeeper>,
    incarnation: u64,
    epochs: Arc<Epochs>,
    durability: Arc<Durability>,
    patience: Duration,
    /// In the order of their creation.
    logs: Box<[OnceLock<WorkerLog>]>,
    /// The index of each worker's log.
    places: Box<[OnceLock<usize>]>,
    /// Number of logs; locked while one is created.
    made: Mutex<usize>,
    /// Files of earlier incarnations.
    retired: Mutex<Vec<RetiredFile>>,
}

impl std::fmt::Debug for GsnLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GsnLog").field("durability", &self.durability).finish_non_exhaustive()
    }
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GsnLog {
    pub(super) fn start(start: LogStart<'_>) -> Result<Self, LogError> {
        for folder in start.folders {
            make_folder(&**start.disk, folder).map_err(|error| LogError::io("create", folder, error))?;
        }
        for file in start.empty.iter().flatten() {
            start.disk.remove(file).map_err(|error| LogError::io("remove", file, error))?;
        }
        let retired = start.retired.iter().enumerate();
        let retired = retired.flat_map(|(device, files)| RetiredFile::of_device(device, files)).collect();
        let workers = start.epochs.capacity();
        Ok(Self {
            disk: Arc::clone(start.disk),
            folders: start.folders.to_vec(),
            file_bytes: start.config.file_bytes,
            database: start.database,
            pepoch: Arc::clone(start.pepoch),
            incarnation: start.incarnation,
            epochs: Arc::clone(start.epochs),
            durability: Arc::new(Durability::patient(start.number(), start.config.full_disk_patience)),
            patience: start.config.full_disk_patience,
            logs: (0..workers).map(|_| OnceLock::new()).collect(),
            places: (0..workers).map(|_| OnceLock::new()).collect(),
            made: Mutex::new(0),
            retired: Mutex::new(retired),
        })
    }

    fn all(&self) -> impl Iterator<Item = &WorkerLog> {
        self.logs.iter().map_while(OnceLock::get)
    }

    #[inline]
    fn of(&self, worker: Slot) -> &WorkerLog {
        let place = self.places[worker.0].get().expect("a worker's log is made before its first transaction");
        self.logs[*place].get().expect("a place is given to a log that is made")
    }

    fn greatest_number(&self) -> CommitOrder {
        let numbers = self.all().map(|log| log.shared.lane.buffer.number());
        numbers.max().unwrap_or_default().max(self.durability.number().order())
    }

    fn lanes(&self) -> impl Iterator<Item = &DurableBuffer> {
        self.all().map(|log| &log.shared.lane)
    }

    /// Writes the records of a log, or an empty batch, and publishes the durable number: at least `raise`
    /// when no other log has records to write.
    fn flush(&self, own: &WorkerLog, raise: CommitOrder) -> Result<(), LogError> {
        self.flush_with(own, hold(&own.writer), raise, self.patience)
    }

    /// As `flush`, with the log's writer; gives up after `patience` if there is no room.
    fn flush_with(
        &self,
        own: &WorkerLog,
        mut writer: MutexGuard<'_, (BatchWriter, Vec<u64>)>,
        raise: CommitOrder,
        patience: Duration,
    ) -> Result<(), LogError> {
        let (batches, known) = &mut *writer;
        batches.give_up_after(patience);
        self.durability.poison.check()?;
        self.epochs.advance_from(self.epochs.current());
        let bounds = Bounds { raise: self.greatest_number().max(raise), complete: None };
        let write = |records: &[u8], ends| {
            known.clear();
            known.extend(self.all().map(|log| log.shared.batches.load(Ordering::Acquire)));
            batches.write(records, ends, known.iter().copied())
        };
        let flushed = own.shared.lane.flush(|| self.lanes(), bounds, &self.durability, write);
        self.note_left(own, flushed.as_ref().err().filter(|error| error.is_shortage()));
        flushed.map_err(|error| match error.is_shortage() {
            // The records are still in the buffer.
            true => LogError::Stalled(Arc::new(error)),
            false => {
                self.durability.fail(error.clone());
                error
            }
        })
    }

    /// Notes whether the records of a log are left for want of room. The log counts as stalled until they are
    /// written.
    fn note_left(&self, own: &WorkerLog, lack: Option<&LogError>) {
        if own.is_left.swap(lack.is_some(), Ordering::AcqRel) || lack.is_some() {
            self.durability.shortage.set_error(own.maker.logger, Stage::Now, lack);
            self.durability.shortage.set_stalled(own.maker.logger, lack.is_some());
        }
    }

    /// Writes empty batches into a log until all logs are durable up to a number.
    fn complete_by(&self, own: &WorkerLog, number: CommitOrder, is_patient: bool) -> Result<(), LogError> {
        let patience = if is_patient { self.patience } else { Duration::ZERO };
        while !self.durability.number().covers(number) {
            self.write_what_is_left();
            self.durability.poison.check()?;
            self.durability.shortage.check_stall(is_patient)?;
            if own.shared.lane.vouch(number, self.lanes()) < number {
                // Another worker is about to write the missing records.
                std::thread::sleep(LOOK_AGAIN);
                continue;
            }
            self.flush_with(own, hold(&own.writer), number, patience)?;
        }
        Ok(())
    }
}

impl Log for GsnLog {
    fn add_worker(&self, worker: Slot) -> Result<(), LogError> {
        let mut made = hold(&self.made);
        if self.places[worker.0].get().is_some() {
            return Ok(());
        }
        let maker = FileMaker {
            disk: Arc::clone(&self.disk),
            folder: self.folders[*made % self.folders.len()].clone(),
            logger: *made as u32,
            loggers: *made as u32 + 1,
            shares_folder: true,
            most_loggers: self.logs.len(),
            length: self.file_bytes,
            database: self.database,
            pepoch: Arc::clone(&self.pepoch),
            durability: Arc::clone(&self.durability),
            // The worker itself waits, and blocks its session.
            gives_up_after: Some(self.patience),
        };
        let shared = Arc::new(Shared::new(maker.largest_batch(), CommitOrder(0)));
        let writer = BatchWriter::new(maker.clone(), self.incarnation, Arc::clone(&shared))?;
        let writer = Mutex::new((writer, Vec::new()));
        let is_left = AtomicBool::new(false);
        let log = self.logs[*made].get_or_init(|| WorkerLog { shared, maker, writer, is_left });
        // ORDERING: a session that vouches without seeing this log has raised its own number before (both
        // SeqCst). The numbers here begin above it, so above the number that the session vouched for.
        let start = self.greatest_number();
        log.shared.lane.begin_above(start);
        let _ = self.places[worker.0].set(*made);
        *made += 1;
        Ok(())
    }

    #[inline]
    fn buffer(&self, worker: Slot) -> &LogBuffer {
        &self.of(worker).shared.lane.buffer
    }

    fn largest_record(&self) -> usize {
        self.all().next().map_or(usize::MAX, |log| log.shared.lane.buffer.capacity())
    }

    fn make_room(&self, worker: Slot) -> Result<(), LogError> {
        self.flush(self.of(worker), CommitOrder(0))
    }

    #[inline]
    fn ended(&self, worker: Slot) -> Result<(), LogError> {
        let own = self.of(worker);
        if own.shared.lane.buffer.is_empty() {
            return Ok(());
        }
        self.flush(own, CommitOrder(0))
    }

    fn write_what_is_left(&self) {
        for log in self.all().filter(|log| log.is_left.load(Ordering::Acquire)) {
            if let Ok(writer) = log.writer.try_lock() {
                // If there is still no room, the shortage says so to all that wait.
                let _ = self.flush_with(log, writer, CommitOrder(0), Duration::ZERO);
            }
        }
    }

    fn durability(&self) -> &Durability {
        &self.durability
    }

    fn durable_of(&self, worker: Slot) -> Dsn {
        self.of(worker).shared.lane.durable()
    }

    fn wait(&self, commit: Commit) -> Result<(), LogError> {
        let log: &dyn Log = self;
        if log.is_durable(commit) {
            return Ok(());
        }
        match self.places.get(commit.worker.0).and_then(OnceLock::get) {
            Some(_) => self.complete_by(self.of(commit.worker), commit.number, true),
            None => self.complete(commit.number),
        }
    }

    fn newest(&self) -> CommitOrder {
        self.greatest_number()
    }

    fn complete(&self, number: CommitOrder) -> Result<(), LogError> {
        match self.all().next() {
            // Without patience, because this checkpoint is what frees room.
            Some(first) => self.complete_by(first, number, false),
            None => {
                self.durability.advance(Csn(number));
                Ok(())
            }
        }
    }

    fn ranges_from(&self, bound: CommitOrder) -> Vec<LogRange> {
        let mut ranges: Vec<_> = self
            .all()
            .flat_map(|log| log.shared.ranges_from(bound, self.incarnation, log.maker.logger))
            .collect();
        for file in hold(&self.retired).iter().filter(|file| file.last >= bound) {
            LogRange::add(&mut ranges, file);
        }
        ranges
    }

    fn release(&self, needed: &[LogRange]) -> Result<(), LogError> {
        let mut retired = hold(&self.retired);
        let (kept, gone): (Vec<_>, Vec<_>) =
            retired.drain(..).partition(|file| LogRange::include(needed, file));
        *retired = kept;
        for RetiredFile { path, .. } in gone {
            self.disk.remove(&path).map_err(|error| LogError::io("remove", &path, error))?;
        }
        // A log created after the checkpoint computed its ranges has none, so all of it is needed.
        let has_range =
            |log: &&WorkerLog| needed.iter().any(|range| range.is_of(self.incarnation, log.maker.logger));
        self.all().filter(has_range).try_for_each(|log| log.shared.release(needed, &log.maker))
    }

    fn close(&mut self) -> Option<Vec<LogEnd>> {
        self.stop();
        let is_whole = self.durability.poison.check().is_ok();
        is_whole.then(|| self.all().map(|log| log.shared.end(log.maker.logger)).collect())
    }

    fn for_each_logger(&self, see: &mut dyn FnMut(&Path, LogStatistics)) {
        self.all().for_each(|log| see(&log.maker.folder, log.shared.statistics()));
    }
}

impl Drop for GsnLog {
    fn drop(&mut self) {
        self.stop();
    }
}

impl GsnLog {
    /// Makes all buffered records durable. A failure here has no client left to report to.
    fn stop(&self) {
        self.durability.shortage.stop();
        for log in self.all().filter(|log| !log.shared.lane.buffer.is_empty()) {
            let _ = self.flush(log, CommitOrder(0));
        }
        let last = self.all().next().filter(|_| !self.durability.number().covers(self.greatest_number()));
        last.map(|log| self.flush(log, CommitOrder(0)));
    }
}

/// The sequencing `gsn`.
pub(super) const GSN: Entry = Entry {
    name: "gsn",
    numbering: &NvmD,
    start: |start| Ok(Box::new(GsnLog::start(start)?)),
    refuses: |content, _| match content {
        Content::Physiological => Some(InvalidSequencing::GsnOfOperations),
        _ if content.needs_batches() => Some(InvalidSequencing::EpochOfBatches(content)),
        _ => None,
    },
    most_devices: usize::MAX,
};

impl LogSet {
    /// Draws a worker's next number from the buffers of all logs, above `floor`; its record follows, or
    /// `undraw`.
    pub(super) fn draw(&self, worker: Slot, floor: CommitOrder) -> Gsn {
        let latched: Vec<_> = self.logs.iter().map(|own| own.log.buffer(worker).latch()).collect();
        let greatest = latched.iter().map(|own| own.number()).max().unwrap_or_default();
        let number = CommitOrder(greatest.max(floor).0 + 1);
        for own in &latched {
            own.raise(number);
            own.begin_draw(number);
        }
        Gsn(number)
    }

    /// Says that no record comes for the number that was drawn last.
    fn undraw(&self, worker: Slot) {
        self.logs.iter().for_each(|own| own.log.buffer(worker).latch().end_draw());
    }
}

/// Numbers above all versions that a transaction has read or overwrites, and above all transactions that have
/// read the overwritten versions.
#[derive(Debug)]
pub(crate) struct NvmD;

impl Numbering for NvmD {
    fn follows_readers(&self) -> bool {
        true
    }

    /// Paper: Poplar §3.3 (NVM-D).
    fn before_validation(&self, by: Numbered<'_>, footprint: &dyn Footprint) -> Drawn {
        let mut above = footprint.carried().last.max(super::before(by.epochs)).max(footprint.last_reader());
        footprint.for_each_version(&mut |number| above = above.max(number));
        footprint.for_each_vacated(&mut |number| above = above.max(number));
        let number = by.logs.draw(by.worker, above).order();
        footprint.note_reads(number);
        Drawn::Number(number)
    }

    fn aborted(&self, by: Numbered<'_>) {
        by.logs.undraw(by.worker);
    }

    fn of_definition(&self, by: Numbered<'_>) -> CommitOrder {
        by.logs.draw(by.worker, super::before(by.epochs)).order()
    }

    fn newest(&self, logs: &LogSet, clock: CommitOrder) -> CommitOrder {
        logs.greatest(clock)
    }
}
