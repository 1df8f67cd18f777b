//! A logger: one buffer, one device, and one thread that makes a batch durable as soon as the previous one
//! is.
//! Paper: SiloR §4.1 (loggers). Differs: group commit is continuous, without a timer.
//!
//! After a failed write or fdatasync the logger stops for good. It never retries the bytes that were not
//! durable, and all commits that wait get the error. A lack of room is not such a failure (`shortage`).

use crate::buffer::LogBuffer;
use crate::disk::DiskFile;
use crate::error::LogError;
use crate::files::{
    BATCH_HEADER, BATCH_MAGIC, FileId, FileMaker, LEAST_FILE, LogRange, PAGE, Pace, ReadyFile, RetiredFile,
};
use crate::pepoch::LogEnd;
use crate::sectors::{self, SECTOR};
use crate::sequencing::DurableBuffer;
use crate::shortage::{Rests, Stage};
use catalog::{CommitOrder, put_varint};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Pace that the file maker is asked for.
const STEADY: u8 = 0;
const HURRY: u8 = 1;
const STOP: u8 = 2;
/// Pause after every part of a file that is made ahead of its use.
const PREPARE_REST: Duration = Duration::from_millis(2);
/// Interval at which a logger that waits for a file checks whether to continue waiting.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The configuration of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogConfig {
    /// One folder per logger.
    pub devices: Vec<PathBuf>,
    /// Size of a log file, in bytes.
    pub file_bytes: u64,
    /// Minimum time between the starts of two batches.
    pub flush_floor: Duration,
    /// How long a commit waits while a device is full.
    pub full_disk_patience: Duration,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            devices: vec!["log".into()],
            file_bytes: 64 << 20,
            flush_floor: Duration::ZERO,
            full_disk_patience: Duration::from_secs(30),
        }
    }
}

impl LogConfig {
    /// Refuses log files below the minimum size.
    pub(crate) fn check(&self) -> Result<(), LogError> {
        if self.file_bytes < LEAST_FILE {
            return Err(LogError::FilesTooSmall { bytes: self.file_bytes, least: LEAST_FILE });
        }
        Ok(())
    }
}

/// The amounts written since the database was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogStatistics {
    /// Bytes of records.
    pub record_bytes: u64,
    /// Bytes written, with headers and padding.
    pub file_bytes: u64,
    /// Batches, each one write and one fdatasync.
    pub batches: u64,
    /// Microseconds spent in fdatasync and write.
    pub flush_us: u64,
}

impl LogStatistics {
    /// Adds the amounts of another log.
    pub(crate) fn add(&mut self, other: Self) {
        self.record_bytes += other.record_bytes;
        self.file_bytes += other.file_bytes;
        self.batches += other.batches;
        self.flush_us += other.flush_us;
    }
}

/// The state that workers and the logger's thread share.
pub(crate) struct Shared {
    pub(crate) lane: DurableBuffer,
    pub(crate) thread: OnceLock<std::thread::Thread>,
    /// Full files, and files of earlier incarnations.
    pub(crate) retired: Mutex<Vec<RetiredFile>>,
    /// The sequence of the current file; it changes under the lock of `retired`.
    sequence: AtomicU64,
    pub(crate) record_bytes: AtomicU64,
    pub(crate) file_bytes: AtomicU64,
    /// The number of the last durable batch.
    pub(crate) batches: AtomicU64,
    pub(crate) flush_us: AtomicU64,
}

impl Shared {
    pub(crate) fn new(largest_batch: usize, start: CommitOrder) -> Self {
        Self {
            lane: DurableBuffer::new(LogBuffer::new(largest_batch, start)),
            thread: OnceLock::new(),
            retired: Mutex::default(),
            sequence: AtomicU64::new(1),
            record_bytes: AtomicU64::new(0),
            file_bytes: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            flush_us: AtomicU64::new(0),
        }
    }

    /// Returns the ranges of this log, and of earlier incarnations' logs on the device, that a checkpoint
    /// with this bound needs. All records below the bound are durable.
    pub(crate) fn ranges_from(&self, bound: CommitOrder, incarnation: u64, logger: u32) -> Vec<LogRange> {
        let retired = self.retired();
        let sequence = self.sequence.load(Ordering::Relaxed);
        let last_batch = self.batches.load(Ordering::Acquire);
        let current = LogRange { incarnation, logger, first_file: sequence, last_file: sequence, last_batch };
        let mut ranges = vec![current];
        for file in retired.iter().filter(|file| file.last >= bound) {
            LogRange::add(&mut ranges, file);
        }
        ranges
    }

    /// Recycles the files that a checkpoint does not need.
    pub(crate) fn release(&self, needed: &[LogRange], maker: &FileMaker) -> Result<(), LogError> {
        let mut retired = self.retired();
        let (kept, gone): (Vec<_>, Vec<_>) =
            retired.drain(..).partition(|file| LogRange::include(needed, file));
        *retired = kept;
        gone.iter().try_for_each(|file| maker.recycle(&file.path))
    }

    /// Returns the end of the log, once the logger has stopped writing.
    pub(crate) fn end(&self, logger: u32) -> LogEnd {
        let file = self.sequence.load(Ordering::Relaxed);
        LogEnd { logger, file, batch: self.batches.load(Ordering::Acquire) }
    }

    pub(crate) fn statistics(&self) -> LogStatistics {
        LogStatistics {
            record_bytes: self.record_bytes.load(Ordering::Relaxed),
            file_bytes: self.file_bytes.load(Ordering::Relaxed),
            batches: self.batches.load(Ordering::Relaxed),
            flush_us: self.flush_us.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    pub(crate) fn retired(&self) -> std::sync::MutexGuard<'_, Vec<RetiredFile>> {
        self.retired.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

type Prepared = Result<Box<dyn DiskFile>, LogError>;

/// Makes a file as soon as there is room for it. `rest` is the pace while the file is made, `now` the pace
/// while there is no room.
fn prepare_patiently(maker: &FileMaker, rest: impl Fn() -> Pace, now: impl Fn() -> Pace) -> Prepared {
    let shortage = &maker.durability.shortage;
    let mut rests = Rests::default();
    let mut prepared = maker.prepare(rest);
    loop {
        match &prepared {
            Err(error) if error.is_shortage() && now() != Pace::Stop && !shortage.is_stopped() => {
                shortage.set_error(maker.logger, Stage::Ahead, Some(error));
                std::thread::park_timeout(rests.next());
                let _alone = shortage.rest();
                prepared = maker.prepare(|| match now() {
                    Pace::Stop => Pace::Stop,
                    _ => Pace::Hurry,
                });
            }
            _ => {
                shortage.set_error(maker.logger, Stage::Ahead, None);
                return prepared;
            }
        }
    }
}

/// The thread that makes files ahead of their use.
struct Preparer {
    request: SyncSender<()>,
    ahead: Receiver<Prepared>,
    pace: Arc<AtomicU8>,
    thread: JoinHandle<()>,
}

impl Preparer {
    fn start(maker: FileMaker) -> Result<Self, LogError> {
        let (request, requests) = sync_channel::<()>(1);
        let (done, ahead) = sync_channel::<Prepared>(1);
        let pace = Arc::new(AtomicU8::new(STEADY));
        let (asked, folder) = (Arc::clone(&pace), maker.folder.clone());
        let name = format!("log-files-{}", maker.logger);
        let run = move || {
            let now = || match asked.load(Ordering::Relaxed) {
                STEADY => Pace::Steady,
                HURRY => Pace::Hurry,
                _ => Pace::Stop,
            };
            let rest = || {
                if asked.load(Ordering::Relaxed) == STEADY {
                    std::thread::park_timeout(PREPARE_REST);
                }
                now()
            };
            while requests.recv().is_ok() {
                if done.send(prepare_patiently(&maker, rest, now)).is_err() {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(run)
            .map_err(|error| LogError::io("start a thread for", &folder, error))?;
        Ok(Self { request, ahead, pace, thread })
    }

    /// Returns the requested file as soon as possible. Without room for it, the log counts as stalled until
    /// then.
    fn take(&self, maker: &FileMaker) -> Option<Prepared> {
        if let Ok(ready) = self.ahead.try_recv() {
            self.pace.store(STEADY, Ordering::Relaxed);
            return Some(self.or_again(ready));
        }
        let shortage = &maker.durability.shortage;
        shortage.set_stalled(maker.logger, true);
        self.hurry();
        let begun = Instant::now();
        let prepared = loop {
            match self.ahead.recv_timeout(LOOK_AGAIN) {
                Ok(prepared) => {
                    shortage.set_stalled(maker.logger, false);
                    break Some(self.or_again(prepared));
                }
                Err(RecvTimeoutError::Disconnected) => break None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            // Tasks may wait for commits that time out.
            maker.durability.announce();
            let has_patience = maker.gives_up_after.is_none_or(|limit| begun.elapsed() < limit);
            if let (false, Err(error)) = (has_patience, shortage.check_stall(false)) {
                // It stays stalled until its records are written.
                break Some(Err(error));
            }
        };
        self.pace.store(STEADY, Ordering::Relaxed);
        prepared
    }

    /// Asks for the file again, if it could not be made.
    fn or_again(&self, prepared: Prepared) -> Prepared {
        prepared.inspect_err(|_| _ = self.request.try_send(()))
    }

    /// Asks for the file without pauses.
    fn hurry(&self) {
        self.pace.store(HURRY, Ordering::Relaxed);
        self.thread.thread().unpark();
    }

    /// Ends the thread and waits for it, because the next process that opens the folder makes a file of the
    /// same name.
    fn stop(self) {
        let Self { request, ahead, pace, thread } = self;
        pace.store(STOP, Ordering::Relaxed);
        thread.thread().unpark();
        drop((request, ahead));
        let _ = thread.join();
    }
}

/// The numbers up to which a batch completes the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BatchEnds {
    /// All records of this logger up to this number are in this batch or earlier ones.
    pub(crate) completed: CommitOrder,
    /// All records of any logger up to this number are durable with this batch.
    pub(crate) vouched: CommitOrder,
    /// No record of the batch has a greater number.
    pub(crate) last: CommitOrder,
}

/// Writes batches into files.
pub(crate) struct BatchWriter {
    maker: FileMaker,
    shared: Arc<Shared>,
    file: ReadyFile,
    id: FileId,
    offset: u64,
    next_batch: u64,
    preparer: Option<Preparer>,
    header: Vec<u8>,
    packed: Vec<u8>,
    /// No record of the file has a greater number.
    last: CommitOrder,
    /// Whether the file may lack room for the full buffer.
    is_low: bool,
}

impl BatchWriter {
    /// Makes the first file of an incarnation, and a thread that makes the next ones ahead of their use.
    pub(crate) fn new(maker: FileMaker, incarnation: u64, shared: Arc<Shared>) -> Result<Self, LogError> {
        let id = FileId { incarnation, worker: maker.worker(), sequence: 1 };
        let file = maker.first(id)?;
        let preparer = Some(Preparer::start(maker.clone())?);
        let mut writer = Self {
            maker,
            shared,
            file,
            id,
            offset: PAGE as u64,
            next_batch: 1,
            preparer,
            header: Vec::new(),
            packed: Vec::new(),
            last: CommitOrder(0),
            is_low: false,
        };
        writer.note_room();
        writer.prepare_next();
        Ok(writer)
    }

    /// Gives up a batch after this time without room for it.
    pub(crate) fn give_up_after(&mut self, patience: Duration) {
        self.maker.gives_up_after = Some(patience);
    }

    fn prepare_next(&self) {
        if let Some(preparer) = &self.preparer {
            // Files smaller than four segments have no room to wait for the next file.
            if self.file.length >= 4 * self.segment() {
                self.maker.durability.shortage.set_awaited(self.maker.logger, true);
            }
            // A full channel means that a file is already being made.
            let _ = preparer.request.try_send(());
        }
    }

    /// Makes records durable, and the numbers that they complete. The file must have room for the batch.
    /// `known` are the durable batches of all loggers.
    pub(crate) fn write(
        &mut self,
        records: &[u8],
        ends: BatchEnds,
        known: impl ExactSizeIterator<Item = u64>,
    ) -> Result<(), LogError> {
        let begun = Instant::now();
        self.describe(records, ends, known);
        let bytes = sectors::count(self.header.len() + records.len()) * SECTOR;
        let bytes = bytes.next_multiple_of(self.file.alignment) as u64;
        if self.offset + bytes > self.file.length {
            let limit = self.maker.largest_batch();
            if records.len() > limit {
                return Err(LogError::RecordTooLarge { bytes: records.len(), limit });
            }
            self.next_file()?;
        }
        self.last = self.last.max(ends.last).max(ends.completed);
        self.packed.clear();
        let first = self.offset / SECTOR as u64;
        sectors::pack(&[&self.header, records], self.file.salt, first, &mut self.packed);
        self.packed.resize(bytes as usize, 0);
        let (file, path) = (&self.file.file, &self.file.path);
        let write = || file.write_durably(self.offset, &self.packed);
        self.maker.persist(|| write().map_err(|error| LogError::io("write", path, error)))?;
        self.offset += bytes;
        self.note_room();
        self.next_batch += 1;
        self.shared.record_bytes.fetch_add(records.len() as u64, Ordering::Relaxed);
        self.shared.file_bytes.fetch_add(bytes, Ordering::Relaxed);
        // ORDERING: Release pairs with the Acquire of a logger that names this batch: the batch is durable by
        // then.
        self.shared.batches.fetch_add(1, Ordering::Release);
        self.shared.flush_us.fetch_add(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the maximum size of the batch for one segment of the buffer, in bytes.
    fn segment(&self) -> u64 {
        (sectors::count(self.shared.lane.buffer.capacity() + PAGE) * SECTOR + PAGE) as u64
    }

    /// Notes whether the file has room for the full buffer, whose segments become one batch each.
    fn note_room(&mut self) {
        let is_low = self.file.length - self.offset < 2 * self.segment();
        if std::mem::replace(&mut self.is_low, is_low) != is_low {
            self.maker.durability.shortage.set_low(self.maker.logger, is_low);
            let waits_for_it = is_low && self.file.length >= 4 * self.segment();
            self.preparer.as_ref().filter(|_| waits_for_it).inspect(|preparer| preparer.hurry());
        }
    }

    /// Writes the header of the next batch. `files.rs` describes it.
    fn describe(&mut self, records: &[u8], ends: BatchEnds, known: impl ExactSizeIterator<Item = u64>) {
        let header = &mut self.header;
        header.clear();
        header.extend_from_slice(&BATCH_MAGIC.to_le_bytes());
        header.extend_from_slice(&(records.len() as u32).to_le_bytes());
        header.extend_from_slice(&self.next_batch.to_le_bytes());
        header.extend_from_slice(&ends.completed.0.to_le_bytes());
        header.extend_from_slice(&ends.vouched.0.to_le_bytes());
        header.resize(BATCH_HEADER, 0);
        if known.len() > 1 {
            known.for_each(|batch| put_varint(batch, header));
        }
        let list = (header.len() - BATCH_HEADER) as u16;
        header[BATCH_HEADER - 2..BATCH_HEADER].copy_from_slice(&list.to_le_bytes());
    }

    /// Continues in the next file.
    fn next_file(&mut self) -> Result<(), LogError> {
        let prepared = match self.preparer.as_ref().and_then(|own| own.take(&self.maker)) {
            Some(prepared) => prepared?,
            None => self.maker.prepare(|| Pace::Steady)?,
        };
        let following = FileId { sequence: self.id.sequence + 1, ..self.id };
        // Another attempt makes another file of this name.
        let next = self.maker.finish(prepared, following, self.next_batch);
        let next = next.inspect_err(|_| self.prepare_next())?;
        let full = std::mem::replace(&mut self.file, next);
        let (id, logger) = (std::mem::replace(&mut self.id, following), self.maker.logger);
        let mut retired = self.shared.retired();
        retired.push(RetiredFile { path: full.path, id, logger, last: self.last });
        self.shared.sequence.store(self.id.sequence, Ordering::Relaxed);
        drop(retired);
        self.offset = PAGE as u64;
        self.note_room();
        self.prepare_next();
        Ok(())
    }
}

impl Drop for BatchWriter {
    fn drop(&mut self) {
        if let Some(preparer) = self.preparer.take() {
            preparer.stop();
        }
    }
}

/// Set when a logger has failed, with the error.
#[derive(Default)]
pub(crate) struct Poison {
    failed: AtomicBool,
    error: Mutex<Option<LogError>>,
}

impl Poison {
    #[inline]
    pub(crate) fn check(&self) -> Result<(), LogError> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let error = self.error.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match &*error {
            Some(error) => Err(LogError::Poisoned(Arc::new(error.clone()))),
            None => Ok(()),
        }
    }

    pub(crate) fn set(&self, error: LogError) {
        let mut first = self.error.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        first.get_or_insert(error);
        self.failed.store(true, Ordering::Release);
    }
}
