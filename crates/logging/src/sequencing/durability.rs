//! The durable number of a whole log, and the threads and tasks that wait for it.
//! Paper: Poplar §4.3 (CSN). Differs: a logger may vouch for loggers that have no records to write (`vouch`),
//! which saves them a batch.

use super::numbers::{Csn, Dsn};
use crate::buffer::LogBuffer;
use crate::error::LogError;
use crate::logger::{BatchEnds, Poison};
use crate::shortage::Shortage;
use crate::sync::{AtomicU64, Ordering};
use catalog::CommitOrder;
use std::sync::atomic::fence;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

/// Interval at which a waiting thread checks again, even if it was not woken.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The number up to which all logs are durable.
#[derive(Default)]
pub struct Durability {
    number: AtomicU64,
    pub(crate) poison: Poison,
    /// The shortages of the loggers.
    pub(crate) shortage: Shortage,
    /// Number of blocked threads and of tasks to wake.
    waiters: AtomicU64,
    waiting: Mutex<Waiting>,
    advanced: Condvar,
}

/// What waits for a durable number.
#[derive(Default)]
struct Waiting {
    tasks: Vec<WaitingTask>,
    /// Number of threads that block on `advanced`. Without one, no system call is made.
    threads: usize,
}

/// A task that is woken once its number is durable.
struct WaitingTask {
    number: CommitOrder,
    waker: Waker,
}

impl std::fmt::Debug for Durability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Durability").field(&self.number()).finish()
    }
}

impl Durability {
    pub(crate) fn from(start: CommitOrder) -> Self {
        Self { number: AtomicU64::new(start.0), ..Self::default() }
    }

    /// As `from`; `patience` is how long a commit waits for a logger that lacks room.
    pub(crate) fn patient(start: CommitOrder, patience: Duration) -> Self {
        Self { shortage: Shortage::new(patience), ..Self::from(start) }
    }

    /// Checks whether a commit should continue to wait.
    ///
    /// # Errors
    /// The log has failed, or has lacked room for longer than its patience.
    pub(crate) fn check(&self) -> Result<(), LogError> {
        self.poison.check()?;
        self.shortage.check_stall(true)
    }

    /// As `check`, but without patience for a logger that lacks room.
    ///
    /// # Errors
    /// The log has failed, or a logger lacks room.
    pub(crate) fn check_at_once(&self) -> Result<(), LogError> {
        self.poison.check()?;
        self.shortage.check_stall(false)
    }

    /// Returns the number up to which the logs of all loggers are durable.
    #[inline]
    pub fn number(&self) -> Csn {
        Csn(CommitOrder(self.number.load(Ordering::Acquire)))
    }

    /// Raises the durable number; it never falls.
    pub(crate) fn advance(&self, number: Csn) {
        self.number.fetch_max(number.order().0, Ordering::AcqRel);
        self.announce();
    }

    /// Stops the log for good.
    pub(crate) fn fail(&self, error: LogError) {
        self.poison.set(error);
        self.announce();
    }

    pub(crate) fn announce(&self) {
        // ORDERING: pairs with the fence in `wake_later`: either this thread sees the new waiter, or the
        // waiter sees the new durable number.
        fence(Ordering::SeqCst);
        if !self.has_waiters() {
            return;
        }
        let failed = self.check().is_err();
        let (woken, threads) = {
            let mut waiting = self.lock_waiting();
            let durable = self.number();
            let is_over = |task: &mut WaitingTask| durable.covers(task.number) || failed;
            (waiting.tasks.extract_if(.., is_over).collect::<Vec<_>>(), waiting.threads)
        };
        // A thread that is about to block has held the mutex since it looked at the number.
        if threads > 0 {
            self.advanced.notify_all();
        }
        self.waiters.fetch_sub(woken.len() as u64, Ordering::SeqCst);
        woken.into_iter().for_each(|task| task.waker.wake());
    }

    fn lock_waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes a task once the log is durable up to a number, or has failed; with 0, at every advance. The
    /// caller checks the state again after this call.
    pub(crate) fn wake_later(&self, number: CommitOrder, waker: &Waker) {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let task = WaitingTask { number, waker: waker.clone() };
        self.lock_waiting().tasks.push(task);
        fence(Ordering::SeqCst);
    }

    pub(crate) fn has_waiters(&self) -> bool {
        self.waiters.load(Ordering::SeqCst) > 0
    }

    /// Blocks until `holds` returns true, which batches becoming durable may cause. Runs `wake` once this
    /// thread is registered as a waiter.
    ///
    /// # Errors
    /// The log has failed before that, or has lacked room for longer than its patience.
    pub(crate) fn wait_until(&self, holds: impl Fn() -> bool, wake: impl FnOnce()) -> Result<(), LogError> {
        self.wait_while(|| self.check(), holds, wake)
    }

    /// Waits for a number, without patience for a logger that lacks room.
    ///
    /// # Errors
    /// The log has failed before that, or a logger lacks room.
    pub(crate) fn complete(&self, number: CommitOrder, wake: impl FnOnce()) -> Result<(), LogError> {
        self.wait_while(|| self.check_at_once(), || self.number().covers(number), wake)
    }

    fn wait_while(
        &self,
        check: impl Fn() -> Result<(), LogError>,
        holds: impl Fn() -> bool,
        wake: impl FnOnce(),
    ) -> Result<(), LogError> {
        if holds() {
            return Ok(());
        }
        self.waiters.fetch_add(1, Ordering::SeqCst);
        wake();
        let mut waiting = self.lock_waiting();
        waiting.threads += 1;
        let result = loop {
            if holds() {
                break Ok(());
            }
            if let Err(error) = check() {
                break Err(error);
            }
            let waited = self.advanced.wait_timeout(waiting, LOOK_AGAIN);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        };
        waiting.threads -= 1;
        drop(waiting);
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        result
    }
}

/// A buffer, and the number up to which it is durable.
pub(crate) struct DurableBuffer {
    pub(crate) buffer: LogBuffer,
    durable: AtomicU64,
}

/// The bounds known before a segment is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    /// The segment's number is at least this.
    pub(crate) raise: CommitOrder,
    /// The orders up to which the records of this logger, and of all loggers, are in their buffers; known
    /// where a clock draws numbers. `None`: both are the number at which the segment is closed.
    pub(crate) complete: Option<(CommitOrder, CommitOrder)>,
}

impl DurableBuffer {
    pub(crate) fn new(buffer: LogBuffer) -> Self {
        Self { durable: AtomicU64::new(buffer.number().0), buffer }
    }

    /// Returns the number up to which the buffer's records are durable.
    #[inline]
    pub(crate) fn durable(&self) -> Dsn {
        Dsn(CommitOrder(self.durable.load(Ordering::Acquire)))
    }

    /// Starts an empty buffer above a number.
    pub(crate) fn begin_above(&self, number: CommitOrder) {
        self.buffer.latch().raise(number);
        self.durable.store(number.0, Ordering::Release);
    }

    /// Writes a batch of the buffer's records and publishes what is durable with it. `all` are the buffers of
    /// all loggers, this one included. Paper: Poplar Algorithm 2 (advancing DSN, advancing CSN).
    pub(crate) fn flush<'b, I: Iterator<Item = &'b Self>>(
        &self,
        all: impl Fn() -> I,
        bounds: Bounds,
        durability: &Durability,
        write: impl FnOnce(&[u8], BatchEnds) -> Result<(), LogError>,
    ) -> Result<(), LogError> {
        let mut ends = BatchEnds {
            completed: self.durable().order(),
            vouched: durability.number().order(),
            last: CommitOrder(0),
        };
        self.buffer.take(bounds.raise, |records, closed_at| {
            let (own, of_all) = bounds.complete.unwrap_or((closed_at, closed_at));
            ends.completed = ends.completed.max(own);
            ends.vouched = ends.vouched.max(self.vouch(of_all, all()));
            ends.last = closed_at;
            write(records, ends)
        })?;
        self.durable.fetch_max(ends.completed.0, Ordering::AcqRel);
        let least = all().map(Self::durable).min().unwrap_or_default();
        durability.advance(Csn(least.order().max(ends.vouched)));
        Ok(())
    }

    /// Returns the number, at most `number`, up to which the buffers of all other loggers are durable. This
    /// logger may state it in the batch that it is about to write. Raises each settled buffer, so that its
    /// later records are numbered above `number`.
    pub(crate) fn vouch<'b>(&self, number: CommitOrder, all: impl Iterator<Item = &'b Self>) -> CommitOrder {
        all.filter(|other| !std::ptr::eq(*other, self)).fold(number, |least, other| {
            // This may be outdated once the latch is held, but then it is too low, which is safe.
            let durable = other.durable().order();
            let latched = other.buffer.latch();
            if latched.is_settled() {
                latched.raise(number);
                return least;
            }
            least.min(durable)
        })
    }
}
