//! Loggers that serve workers: each a thread with one buffer and one device, which writes a batch as soon as
//! the previous one is durable. The scheme decides up to which number a batch is complete.
//! Paper: SiloR §4.1 (loggers); Poplar §4.3, Algorithm 2. Differs: group commit is continuous, without a
//! timer.
//!
//! While no thread blocks for a commit and a session submits as fast as it can, batches begin at least 2 ms
//! apart. Every batch costs that session time, most of all when the device's interrupts arrive on its core.
//!
//! Invariant: the durable number is at most the least of the loggers', or a number that one of them vouched
//! for. A logger without records still writes a batch when the durable number would stand still without it.
//! Held by: `model.rs` (loom), and the crash tests of `crates/reprise`.

use super::durability::{Bounds, Durability, DurableBuffer};
use super::numbers::Dsn;
use super::{Commit, Log, LogStart, LoggerTag};
use crate::buffer::LogBuffer;
use crate::disk::make_folder;
use crate::error::LogError;
use crate::files::{FileMaker, LogRange, RetiredFile};
use crate::logger::{BatchWriter, LogStatistics, Shared};
use crate::pepoch::LogEnd;
use catalog::CommitOrder;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use storage::{Epochs, Slot};

/// Shortest and longest sleep of an idle logger between two looks, each twice as long as the previous one: a
/// server without work does nearly nothing. A thread that waits for a commit wakes the loggers; so a commit
/// without a waiting thread becomes durable later than it would by `IDLE[1]` at most.
const IDLE: [Duration; 2] = [Duration::from_micros(200), Duration::from_millis(10)];
/// Spins between two looks at the workers' positions: about a microsecond.
const LOOK_EVERY: u32 = 50;
/// Maximum wait of a logger for workers that are committing.
const LEAVE: Duration = Duration::from_micros(50);
/// Number of looks at a full buffer before a worker yields its core.
const PATIENCE: u32 = 16;
/// Minimum time between the starts of two batches while a session is saturated.
const SATURATED_FLOOR: Duration = Duration::from_millis(2);
/// Time for which a session counts as saturated.
const SATURATED_FOR: Duration = Duration::from_millis(50);

/// Decides up to which number a batch is complete.
pub(super) trait Scheme: 'static {
    /// Returns the bounds of the next batch.
    fn bounds(group: &Group, logger: usize) -> Bounds;
}

/// The state that workers and loggers share.
pub(super) struct Group {
    pub(super) epochs: Arc<Epochs>,
    loggers: Vec<Arc<Shared>>,
    durability: Arc<Durability>,
    /// The greatest number of a record that a logger has written, or is writing.
    logged: AtomicU64,
    stop: AtomicBool,
    started: Instant,
    /// End of the saturation of a session, in milliseconds since the start.
    saturated_until_ms: AtomicU64,
}

impl Group {
    fn is_saturated(&self) -> bool {
        self.started.elapsed().as_millis() < self.saturated_until_ms.load(Ordering::Relaxed).into()
    }

    fn of(&self, worker: Slot) -> &Shared {
        &self.loggers[worker.0 % self.loggers.len()]
    }

    /// Returns the least order that a worker of one logger, or of any, may still draw or log.
    pub(super) fn open_from(&self, logger: Option<usize>) -> CommitOrder {
        let loggers = self.loggers.len();
        self.epochs.open_from(|slot| logger.is_none_or(|logger| slot.0 % loggers == logger))
    }

    /// Waits at most `LEAVE` for a logger's workers that commit below an order.
    pub(super) fn wait_for(&self, logger: usize, order: CommitOrder) {
        let patience = Instant::now();
        while self.open_from(Some(logger)) < order && patience.elapsed() < LEAVE {
            // Each look takes cache lines from the workers, so this pauses between looks.
            (0..LOOK_EVERY).for_each(|_| std::hint::spin_loop());
        }
    }

    /// Returns the greatest number of any buffer, or that a commit waits for.
    pub(super) fn greatest_number(&self) -> CommitOrder {
        let numbers = self.loggers.iter().map(|logger| logger.lane.buffer.number());
        numbers.max().unwrap_or_default().max(CommitOrder(self.logged.load(Ordering::SeqCst)))
    }

    fn lanes(&self) -> impl Iterator<Item = &DurableBuffer> {
        self.loggers.iter().map(|logger| &logger.lane)
    }

    /// Returns whether records of other loggers are not durable because this logger lags behind.
    fn needs_a_mark(&self, logger: usize) -> bool {
        let logged = CommitOrder(self.logged.load(Ordering::SeqCst));
        let own = self.loggers[logger].lane.durable();
        !self.durability.number().covers(logged) && !own.covers(logged)
    }
}

/// The loggers of an open database.
pub(super) struct LoggerGroup {
    group: Arc<Group>,
    makers: Vec<FileMaker>,
    incarnation: u64,
    threads: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for LoggerGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoggerGroup").field("durability", &self.group.durability).finish_non_exhaustive()
    }
}

impl LoggerGroup {
    /// Starts a logger for each device.
    pub(super) fn start<S: Scheme>(start: LogStart<'_>) -> Result<Self, LogError> {
        let number = start.number();
        let LogStart { config, folders, disk, database, pepoch, incarnation, epochs, retired, empty } = start;
        let durability = Arc::new(Durability::patient(number, config.full_disk_patience));
        let (mut makers, mut loggers, mut writers) = (Vec::new(), Vec::new(), Vec::new());
        for (logger, folder) in folders.iter().enumerate() {
            make_folder(&**disk, folder).map_err(|error| LogError::io("create", folder, error))?;
            let maker = FileMaker {
                disk: Arc::clone(disk),
                folder: folder.clone(),
                logger: logger as u32,
                loggers: folders.len() as u32,
                shares_folder: false,
                most_loggers: folders.len(),
                length: config.file_bytes,
                database,
                pepoch: Arc::clone(pepoch),
                durability: Arc::clone(&durability),
                // Nothing but this logger waits for its thread.
                gives_up_after: None,
            };
            let shared = Arc::new(Shared::new(maker.largest_batch(), number));
            let old = retired.get(logger).map(Vec::as_slice).unwrap_or_default();
            shared.retired().extend(RetiredFile::of_device(logger, old));
            empty.get(logger).into_iter().flatten().try_for_each(|file| maker.recycle(file))?;
            writers.push(BatchWriter::new(maker.clone(), incarnation, Arc::clone(&shared))?);
            makers.push(maker);
            loggers.push(shared);
        }
        let group = Arc::new(Group {
            epochs: Arc::clone(epochs),
            loggers,
            durability,
            logged: AtomicU64::new(number.0),
            stop: AtomicBool::new(false),
            started: Instant::now(),
            saturated_until_ms: AtomicU64::new(0),
        });
        let mut threads = Vec::new();
        for (number, writer) in writers.into_iter().enumerate() {
            let logger = Logger { number, group: Arc::clone(&group), writer };
            let floor = config.flush_floor;
            let thread = std::thread::Builder::new()
                .name(format!("logger-{number}"))
                .spawn(move || logger.run::<S>(floor))
                .map_err(|error| LogError::io("start a thread for", Path::new("the log"), error))?;
            let _ = group.loggers[number].thread.set(thread.thread().clone());
            threads.push(thread);
        }
        Ok(Self { group, makers, incarnation, threads })
    }

    fn wake_all(&self) {
        self.group.loggers.iter().for_each(|logger| logger.wake());
    }
}

impl Log for LoggerGroup {
    #[inline]
    fn buffer(&self, worker: Slot) -> &LogBuffer {
        &self.group.of(worker).lane.buffer
    }

    fn tag(&self, worker: Slot) -> Option<LoggerTag> {
        LoggerTag::of(worker.0 % self.group.loggers.len())
    }

    fn largest_record(&self) -> usize {
        self.group.loggers[0].lane.buffer.capacity()
    }

    fn make_room(&self, worker: Slot) -> Result<(), LogError> {
        self.group.durability.poison.check()?;
        let logger = self.group.of(worker);
        for _ in 0..PATIENCE {
            if !logger.lane.buffer.is_empty() {
                std::hint::spin_loop();
            }
        }
        logger.wake();
        match self.group.durability.shortage.admit() {
            Ok(()) => std::thread::yield_now(),
            // The transaction has its number, so it can't be refused. The logger waits for room, which takes
            // longer than a write.
            Err(_) => std::thread::sleep(IDLE[0]),
        }
        Ok(())
    }

    fn durability(&self) -> &Durability {
        &self.group.durability
    }

    #[inline]
    fn durable_of(&self, worker: Slot) -> Dsn {
        self.group.of(worker).lane.durable()
    }

    fn wait(&self, commit: Commit) -> Result<(), LogError> {
        let log: &dyn Log = self;
        self.group.durability.wait_until(|| log.is_durable(commit), || self.wake_all())
    }

    fn poll(&self, commit: Commit, waker: &Waker) -> Result<bool, LogError> {
        let log: &dyn Log = self;
        if log.is_durable(commit) {
            return Ok(true);
        }
        let durability = &self.group.durability;
        let number = if commit.alone { CommitOrder(0) } else { commit.number };
        durability.wake_later(number, waker);
        if log.is_durable(commit) {
            return Ok(true);
        }
        durability.check()?;
        self.wake_all();
        Ok(false)
    }

    fn newest(&self) -> CommitOrder {
        self.group.greatest_number()
    }

    fn expect(&self, number: CommitOrder) {
        self.group.logged.fetch_max(number.0, Ordering::SeqCst);
    }

    fn complete(&self, number: CommitOrder) -> Result<(), LogError> {
        self.expect(number);
        self.group.durability.complete(number, || self.wake_all())
    }

    fn ranges_from(&self, bound: CommitOrder) -> Vec<LogRange> {
        let loggers = self.group.loggers.iter().enumerate();
        loggers
            .flat_map(|(number, logger)| logger.ranges_from(bound, self.incarnation, number as u32))
            .collect()
    }

    fn release(&self, needed: &[LogRange]) -> Result<(), LogError> {
        let mut loggers = self.group.loggers.iter().zip(&self.makers);
        loggers.try_for_each(|(logger, maker)| logger.release(needed, maker))
    }

    fn close(&mut self) -> Option<Vec<LogEnd>> {
        self.stop();
        let loggers = self.group.loggers.iter().enumerate();
        let is_whole = self.group.durability.poison.check().is_ok();
        is_whole.then(|| loggers.map(|(number, logger)| logger.end(number as u32)).collect())
    }

    fn note_saturation(&self) {
        let until = self.group.started.elapsed() + SATURATED_FOR;
        self.group.saturated_until_ms.store(until.as_millis() as u64, Ordering::Relaxed);
    }

    fn for_each_logger(&self, see: &mut dyn FnMut(&Path, LogStatistics)) {
        let loggers = self.group.loggers.iter().zip(&self.makers);
        loggers.for_each(|(logger, maker)| see(&maker.folder, logger.statistics()));
    }
}

impl Drop for LoggerGroup {
    fn drop(&mut self) {
        self.stop();
    }
}

impl LoggerGroup {
    /// Makes all buffered records durable and ends the loggers.
    fn stop(&mut self) {
        self.group.stop.store(true, Ordering::Release);
        self.group.durability.shortage.stop();
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

struct Logger {
    number: usize,
    group: Arc<Group>,
    writer: BatchWriter,
}

impl Logger {
    fn run<S: Scheme>(mut self, floor: Duration) {
        let group = Arc::clone(&self.group);
        let shared = &group.loggers[self.number];
        let mut idle = IDLE[0];
        loop {
            let stopping = group.stop.load(Ordering::Acquire);
            let begun = Instant::now();
            if shared.lane.buffer.is_empty() && !group.needs_a_mark(self.number) {
                if stopping {
                    return;
                }
                std::thread::park_timeout(idle);
                idle = (idle * 2).min(IDLE[1]);
                continue;
            }
            idle = IDLE[0];
            if let Err(error) = self.flush::<S>(shared) {
                group.durability.fail(error);
                return;
            }
            let floor = if group.is_saturated() { floor.max(SATURATED_FLOOR) } else { floor };
            // The floor ends early for a thread that blocks for a commit, because it has yielded its core;
            // not for another logger.
            let is_left_alone = || !group.stop.load(Ordering::Acquire) && !group.durability.has_waiters();
            while begun.elapsed() < floor && is_left_alone() {
                std::thread::park_timeout(floor.saturating_sub(begun.elapsed()));
            }
        }
    }

    /// Writes a batch, and wakes the other loggers if they hold up the durable number.
    fn flush<S: Scheme>(&mut self, shared: &Shared) -> Result<(), LogError> {
        let Self { number, group, writer } = self;
        let bounds = S::bounds(group, *number);
        shared.lane.flush(
            || group.lanes(),
            bounds,
            &group.durability,
            |records, ends| {
                if !records.is_empty() {
                    group.logged.fetch_max(ends.last.0, Ordering::SeqCst);
                }
                let known = group.loggers.iter().map(|logger| logger.batches.load(Ordering::Acquire));
                writer.write(records, ends, known)
            },
        )?;
        if !group.durability.number().covers(CommitOrder(group.logged.load(Ordering::SeqCst))) {
            group.loggers.iter().for_each(|logger| logger.wake());
        }
        Ok(())
    }
}
