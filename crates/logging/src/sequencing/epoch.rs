//! Sequencing by epochs: a commit is acknowledged when every logger has made its epoch durable.
//! Paper: SiloR §4; PACMAN §2.1. Differs: an epoch ends when a logger is ready to write, not by a timer, and the durable
//! epoch is part of the batch that makes it so.
//!
//! A batch begins as soon as the last one is durable, unless that would only cost: while nobody blocks for a commit and
//! some session submits as fast as it can, batches begin a little apart. Every batch costs that session time, and most
//! of all when the device's interrupts arrive on its core.
//!
//! Invariants: 1. a logger calls an epoch complete only when no worker that it serves is in it any more, and everything
//! they logged of it is in the batch or in earlier ones. 2. the durable epoch is the least of the loggers', and a logger
//! with nothing to write still writes a batch when another one has records of epochs past its own last.
//! Held by: `storage`'s model of epochs, and the crash tests of `crates/reprise`.

use crate::disk::SharedDisk;
use crate::error::LogError;
use crate::files::{FileMaker, RetiredFile};
use crate::logger::{BatchWriter, LogConfig, LogStatistics, Poison, Shared};
use catalog::Epoch;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use storage::{Epochs, Slot};

/// How long an idle logger sleeps before it looks again.
const IDLE: Duration = Duration::from_micros(200);
/// Pauses between two looks at where the workers stand: about a microsecond.
const LOOK_EVERY: u32 = 50;
/// How long a logger waits for workers to leave the epoch that it has ended.
const LEAVE: Duration = Duration::from_micros(50);

/// Least time between the beginnings of two batches while some session is saturated.
const SATURATED_FLOOR: Duration = Duration::from_millis(2);
/// For so long a session counts as saturated.
const SATURATED_FOR: Duration = Duration::from_millis(50);
/// Bytes of the smallest log file.
const LEAST_FILE: u64 = 32 << 10;

struct State {
    epochs: Arc<Epochs>,
    loggers: Vec<Arc<Shared>>,
    poison: Poison,
    durable: AtomicU64,
    /// The last epoch that any logger has, or is about to have, records of.
    logged: AtomicU64,
    stop: AtomicBool,
    started: Instant,
    /// Until when some session counts as saturated, in milliseconds since the start.
    saturated_until_ms: AtomicU64,
    waiters: AtomicUsize,
    lock: Mutex<()>,
    advanced: Condvar,
}

impl State {
    fn is_saturated(&self) -> bool {
        self.started.elapsed().as_millis() < self.saturated_until_ms.load(Ordering::Relaxed).into()
    }
}

/// The log of an open database.
pub struct EpochLog {
    state: Arc<State>,
    makers: Vec<FileMaker>,
    threads: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for EpochLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EpochLog").field("durable", &self.durable()).finish_non_exhaustive()
    }
}

impl EpochLog {
    /// Starts the loggers of an incarnation. `retired` are the files of earlier ones, with the last epoch of each, by device.
    ///
    /// # Errors
    /// A device is full, or fails; the files asked for are too small.
    pub fn start(
        config: &LogConfig,
        folders: &[PathBuf],
        disk: &SharedDisk,
        incarnation: u64,
        epochs: &Arc<Epochs>,
        retired: Vec<Vec<(PathBuf, Epoch)>>,
    ) -> Result<Self, LogError> {
        if config.file_bytes < LEAST_FILE {
            return Err(LogError::FilesTooSmall { bytes: config.file_bytes, least: LEAST_FILE });
        }
        let mut makers = Vec::new();
        let mut writers = Vec::new();
        let mut retired = retired.into_iter();
        for (logger, folder) in folders.iter().enumerate() {
            disk.create_folder(folder).map_err(|error| LogError::io("create", folder, error))?;
            let maker = FileMaker {
                disk: Arc::clone(disk),
                folder: folder.clone(),
                logger: logger as u32,
                loggers: folders.len() as u32,
                length: config.file_bytes,
            };
            let shared = Arc::new(Shared::new(maker.largest_batch()));
            let old = retired.next().unwrap_or_default().into_iter();
            shared.retired().extend(old.map(|(path, last_epoch)| RetiredFile { path, last_epoch }));
            writers.push(BatchWriter::new(maker.clone(), incarnation, Arc::clone(&shared))?);
            makers.push((maker, shared));
        }
        let start = epochs.current().0 - 1;
        let state = Arc::new(State {
            epochs: Arc::clone(epochs),
            loggers: makers.iter().map(|(_, shared)| Arc::clone(shared)).collect(),
            poison: Poison::default(),
            durable: AtomicU64::new(start),
            logged: AtomicU64::new(start),
            stop: AtomicBool::new(false),
            started: Instant::now(),
            saturated_until_ms: AtomicU64::new(0),
            waiters: AtomicUsize::new(0),
            lock: Mutex::default(),
            advanced: Condvar::new(),
        });
        let mut threads = Vec::new();
        for (number, writer) in writers.into_iter().enumerate() {
            let logger = Logger { number, state: Arc::clone(&state), writer, marked: Epoch(start) };
            let floor = config.flush_floor;
            state.loggers[number].durable.store(start, Ordering::Relaxed);
            let thread = std::thread::Builder::new()
                .name(format!("logger-{number}"))
                .spawn(move || logger.run(floor))
                .map_err(|error| LogError::io("start a thread for", Path::new("the log"), error))?;
            let _ = state.loggers[number].thread.set(thread.thread().clone());
            threads.push(thread);
        }
        Ok(Self { state, makers: makers.into_iter().map(|(maker, _)| maker).collect(), threads })
    }

    /// Copies a sealed record into the buffer of the worker's logger. Waits only while that is full.
    ///
    /// # Errors
    /// The log has failed.
    #[inline]
    pub fn append(&self, slot: Slot, record: &[u8], epoch: Epoch) -> Result<(), LogError> {
        let logger = &self.state.loggers[slot.0 % self.state.loggers.len()];
        let mut tries = 0u32;
        while !logger.buffer.try_append(record, epoch) {
            self.state.poison.check()?;
            tries += 1;
            if tries > 16 {
                logger.wake();
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// Returns once the buffer of the worker's logger has room for a record, though another worker may take it.
    ///
    /// # Errors
    /// The log has failed.
    #[inline]
    pub fn wait_for_room(&self, slot: Slot, bytes: usize) -> Result<(), LogError> {
        let logger = &self.state.loggers[slot.0 % self.state.loggers.len()];
        while !logger.buffer.has_room(bytes) {
            self.state.poison.check()?;
            logger.wake();
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Whether commits are accepted.
    ///
    /// # Errors
    /// The log has failed.
    #[inline]
    pub fn check(&self) -> Result<(), LogError> {
        self.state.poison.check()
    }

    /// Tells that some session is saturated: it submits as fast as it can.
    pub fn note_saturation(&self) {
        let until = self.state.started.elapsed() + SATURATED_FOR;
        self.state.saturated_until_ms.store(until.as_millis() as u64, Ordering::Relaxed);
    }

    /// Refuses a record that no buffer holds.
    ///
    /// # Errors
    /// `RecordTooLarge`.
    pub fn check_size(&self, bytes: usize) -> Result<(), LogError> {
        let limit = self.state.loggers[0].buffer.capacity();
        if bytes > limit {
            return Err(LogError::RecordTooLarge { bytes, limit });
        }
        Ok(())
    }

    /// The last epoch whose commits are acknowledged.
    #[inline]
    pub fn durable(&self) -> Epoch {
        Epoch(self.state.durable.load(Ordering::Acquire))
    }

    /// Returns once an epoch is durable.
    ///
    /// # Errors
    /// The log has failed before that.
    pub fn wait(&self, epoch: Epoch) -> Result<(), LogError> {
        if self.durable() >= epoch {
            return Ok(());
        }
        self.state.waiters.fetch_add(1, Ordering::SeqCst);
        self.state.loggers.iter().for_each(|logger| logger.wake());
        let mut guard = self.state.lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let result = loop {
            if self.durable() >= epoch {
                break Ok(());
            }
            if let Err(error) = self.check() {
                break Err(error);
            }
            let waited = self.state.advanced.wait_timeout(guard, Duration::from_millis(10));
            guard = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        };
        drop(guard);
        self.state.waiters.fetch_sub(1, Ordering::SeqCst);
        result
    }

    /// Returns once an epoch is complete and durable, whether or not anything was logged in it.
    ///
    /// # Errors
    /// The log has failed before that.
    pub fn complete(&self, epoch: Epoch) -> Result<(), LogError> {
        self.state.logged.fetch_max(epoch.0, Ordering::SeqCst);
        self.wait(epoch)
    }

    /// Recycles the files whose records all belong to epochs before one, as a checkpoint holds them.
    ///
    /// # Errors
    /// A device fails.
    pub fn release_before(&self, epoch: Epoch) -> Result<(), LogError> {
        for (logger, maker) in self.state.loggers.iter().zip(&self.makers) {
            let mut retired = logger.retired();
            let (gone, kept): (Vec<_>, Vec<_>) = retired.drain(..).partition(|file| file.last_epoch < epoch);
            *retired = kept;
            for file in gone {
                maker.recycle(&file.path)?;
            }
        }
        Ok(())
    }

    /// What was written since the database was opened, all loggers together.
    pub fn statistics(&self) -> LogStatistics {
        let mut sum = LogStatistics::default();
        for logger in &self.state.loggers {
            sum.record_bytes += logger.record_bytes.load(Ordering::Relaxed);
            sum.file_bytes += logger.file_bytes.load(Ordering::Relaxed);
            sum.batches += logger.batches.load(Ordering::Relaxed);
            sum.flush_us += logger.flush_us.load(Ordering::Relaxed);
        }
        sum
    }
}

impl Drop for EpochLog {
    /// Makes everything durable that is in the buffers, and ends the loggers.
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

struct Logger {
    number: usize,
    state: Arc<State>,
    writer: BatchWriter,
    /// The last epoch that a batch of this logger calls complete.
    marked: Epoch,
}

impl Logger {
    fn run(mut self, floor: Duration) {
        let shared = Arc::clone(&self.state.loggers[self.number]);
        loop {
            let stopping = self.state.stop.load(Ordering::Acquire);
            let begun = Instant::now();
            if shared.buffer.is_empty() && !self.others_need_a_mark() {
                if stopping {
                    return;
                }
                std::thread::park_timeout(IDLE);
                continue;
            }
            if let Err(error) = self.flush(&shared) {
                self.state.poison.set(error);
                self.announce();
                return;
            }
            let taken = begun.elapsed();
            shared.flush_us.fetch_add(taken.as_micros() as u64, Ordering::Relaxed);
            let floor = if self.state.is_saturated() { floor.max(SATURATED_FLOOR) } else { floor };
            let rest = floor.saturating_sub(taken);
            // Whoever blocks for a commit ends the rest: it has given its core away.
            if !rest.is_zero() && !stopping && self.state.waiters.load(Ordering::SeqCst) == 0 {
                std::thread::park_timeout(rest);
            }
        }
    }

    /// Whether other loggers have records of epochs that this one has not called complete.
    fn others_need_a_mark(&self) -> bool {
        self.state.logged.load(Ordering::SeqCst) > self.marked.0
    }

    fn completed(&self) -> Epoch {
        let (loggers, number) = (self.state.loggers.len(), self.number);
        self.state.epochs.completed(|slot| slot.0 % loggers == number)
    }

    fn flush(&mut self, shared: &Shared) -> Result<(), LogError> {
        let ended = self.state.epochs.current();
        self.state.epochs.advance_from(ended);
        // Workers leave an epoch within a microsecond, unless they are not running; then the next batch has it.
        let patience = Instant::now();
        let mut completed = self.completed();
        while completed < ended && patience.elapsed() < LEAVE {
            // Looking takes the workers' cache lines away from them, so not too often.
            (0..LOOK_EVERY).for_each(|_| std::hint::spin_loop());
            completed = self.completed();
        }
        let completed = completed.max(self.marked);
        let writer = &mut self.writer;
        let (state, loggers) = (&self.state, &self.state.loggers);
        shared.buffer.take(|records, last| {
            if state.logged.fetch_max(last.0, Ordering::SeqCst) < last.0 {
                let others = loggers.iter().filter(|logger| !std::ptr::eq(&raw const ***logger, shared));
                others.for_each(|logger| logger.wake());
            }
            writer.write(records, completed, last)
        })?;
        self.marked = completed;
        shared.durable.store(completed.0, Ordering::Release);
        self.announce();
        Ok(())
    }

    /// Publishes the durable epoch and wakes who waits for it.
    fn announce(&self) {
        let least = self.state.loggers.iter().map(|logger| logger.durable.load(Ordering::Acquire)).min();
        self.state.durable.fetch_max(least.unwrap_or(0), Ordering::AcqRel);
        if self.state.waiters.load(Ordering::SeqCst) > 0 {
            let _guard = self.state.lock.lock();
            self.state.advanced.notify_all();
        }
    }
}
