//! Retries and waits of requests that lose a race or meet rows that other transactions hold.
//!
//! A transaction of one request runs again until it commits. After 8 lost races it holds the rows that it
//! writes, and after 24 also the rows that it reads, so that it commits in the end. A statement of a longer
//! transaction runs again while the earlier reads of the transaction are still valid.
//! Invariants: 1. a wait ends with the blocker, by `lock_timeout`, by the statement's deadline or by its
//! cancellation. 2. if the caller waits (`Settings::caller_waits`), the worker never does. 3. of transactions
//! in a deadlock, one fails (40P01) or releases its rows.
//! Held by: `crates/reprise/tests/suite/waiting.rs`.

use super::{Refused, Settings, Worker};
use crate::Error;
use crate::batches::Ticket;
use crate::definitions::Patience;
use crate::inner::Inner;
use procedure::{Conflict, Interrupts, SqlError};
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};
use storage::Slot;
use transaction::{AbortReason, Blocker, Holding, Holds, Refusal, WaitInPlace};

/// Time between two checks of a waiting thread's limits.
const TICK: Duration = Duration::from_millis(20);
/// After this many lost races in a row a worker yields to other threads before it tries again.
const PATIENCE: u32 = 8;
/// From this many lost races on, a transaction holds the rows that it writes.
const HOLDS_WRITTEN: u32 = 8;
/// From this many lost races on, it also holds the rows that it reads.
const HOLDS_READ: u32 = 24;
/// If the caller waits, it gets `Attempt::Busy` after each round of this many lost races, so that other tasks
/// run on its thread.
const ROUND: u32 = 16;
/// The longest wait of a reader for a hot row. It is short, because a client may leave the writing
/// transaction open.
const FOR_HOT: Duration = Duration::from_millis(100);
/// The SQLSTATE of a wait that took longer than `lock_timeout`.
const LOCK_TIMEOUT: &str = "55P03";
/// A statement of a longer transaction fails after more lost races than this.
const MOST_RETRIES: u32 = 256;

/// The cause of a wait before an undone statement runs again.
#[derive(Clone)]
pub(crate) enum Awaited {
    /// Lost races: other tasks run first.
    Turn,
    /// The transaction that holds a row or key.
    Blocker {
        blocker: Blocker,
        worker: Slot,
        /// Whether the statement's transaction stays open during the wait.
        is_open: bool,
        holds: Arc<Holds>,
    },
    /// Definitions that are being made.
    Definitions(Arc<Inner>),
    /// A log that may lack room for further records.
    Log(Arc<Inner>),
    /// A call that an executor runs in a batch.
    Batch(Arc<Ticket>),
}

/// The wait of a statement that was undone and must run again.
#[derive(Clone)]
#[must_use = "the statement was undone: run it again after the wait"]
pub struct Busy {
    awaited: Awaited,
    /// The latest time to run the statement again, even if the blocker has not ended.
    until: Option<Instant>,
}

impl std::fmt::Debug for Busy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let awaited: &dyn std::fmt::Debug = match &self.awaited {
            Awaited::Turn => &"other tasks",
            Awaited::Blocker { blocker, .. } => blocker,
            Awaited::Definitions(_) => &"definitions",
            Awaited::Log(_) => &"the log",
            Awaited::Batch(_) => &"a batch",
        };
        f.debug_tuple("Busy").field(awaited).finish()
    }
}

impl Busy {
    /// Returns the wait for a call that was submitted to a batch.
    pub(crate) fn in_batch(ticket: Arc<Ticket>) -> Self {
        Self { awaited: Awaited::Batch(ticket), until: None }
    }

    /// Returns `Ready` when the wait has ended. Otherwise `waker` is woken at its end.
    fn poll(&self, waker: &Waker) -> Poll<Result<(), Refusal>> {
        match &self.awaited {
            Awaited::Turn => Poll::Ready(Ok(())),
            Awaited::Blocker { blocker, worker, is_open, holds } => {
                match holds.wait(*blocker, *worker, *is_open, waker) {
                    Ok(true) => Poll::Pending,
                    Ok(false) => Poll::Ready(Ok(())),
                    Err(refusal) => Poll::Ready(Err(refusal)),
                }
            }
            Awaited::Definitions(inner) => inner.definitions.poll_made(waker).map(Ok),
            Awaited::Log(inner) => inner.logs.poll_known(waker).map(Ok),
            Awaited::Batch(ticket) => ticket.poll(waker).map(Ok),
        }
    }

    /// Returns whether the statement is a call that was not undone, but joins a batch. Limits of waits for
    /// other transactions do not apply to it.
    pub fn is_in_batch(&self) -> bool {
        matches!(self.awaited, Awaited::Batch(_))
    }

    /// Takes the statement back before the caller gives it up. Returns false if it is a call whose batch runs
    /// it or has run it: then the caller must wait, and run the statement again to learn the outcome.
    pub fn withdraw(&self) -> bool {
        match &self.awaited {
            Awaited::Batch(ticket) => ticket.withdraw(),
            _ => true,
        }
    }

    /// Returns the latest time to run the statement again; `None` if only `released` ends the wait.
    pub fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Waits until the statement can run again. A caller that stops waiting earlier must call
    /// `Session::stop_waiting`.
    ///
    /// # Errors
    /// A refusal: the transaction must not wait while it holds rows. See `Session::break_deadlock`.
    pub async fn released(&self) -> Result<(), Refusal> {
        // Yields once, even if the wait has already ended, so that other tasks run first and the caller sees
        // the statement's deadline and cancellation.
        let mut has_yielded = false;
        std::future::poll_fn(|context| match self.poll(context.waker()) {
            Poll::Ready(Ok(())) if !std::mem::replace(&mut has_yielded, true) => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            polled => polled,
        })
        .await
    }
}

/// The lost races and the wait of the current request.
#[derive(Default)]
pub(crate) struct Races {
    /// Lost races in a row.
    lost: u32,
    /// Whether the request has met a row that another transaction holds.
    was_held: bool,
    /// The wait that the caller does instead of the worker.
    pub(crate) busy: Option<Busy>,
    /// The end of the request's waits for hot rows that it only reads.
    hot_until: Option<Instant>,
}

impl Races {
    /// Returns whether the current request has lost a race, or has met a held row.
    pub(crate) fn have_begun(&self) -> bool {
        self.lost > 0 || self.was_held
    }
}

/// Returns a waker that unparks a thread.
pub(crate) fn waker_of(thread: Thread) -> Waker {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    Waker::from(Arc::new(Unpark(thread)))
}

fn refused(refusal: Refusal) -> SqlError {
    let (sqlstate, message) = match refusal {
        Refusal::Deadlock => ("40P01", "deadlock detected"),
        Refusal::NoWait => ("40001", "could not serialize access: a row or key is locked"),
        Refusal::WaitDie => {
            ("40001", "could not serialize access: an older transaction has locked a row or key")
        }
    };
    let hint = "Run the transaction again. Transactions that lock the same rows in the same order do not \
                wait for each other.";
    SqlError::new(sqlstate, message).with_hint(hint)
}

/// Waits on this thread until a statement can run again. The inner result is an error if the wait is refused.
///
/// # Errors
/// `55P03`: the time limit has passed. `57014`: the statement was cancelled.
fn wait_on_thread(
    busy: &Busy,
    interrupts: &Interrupts,
    limit: Option<Duration>,
) -> Result<Result<(), Refusal>, SqlError> {
    let waker = waker_of(std::thread::current());
    let limit = limit.map(|limit| Instant::now() + limit);
    loop {
        match busy.poll(&waker) {
            Poll::Ready(ended) => return Ok(ended),
            Poll::Pending => std::thread::park_timeout(TICK),
        }
        interrupts.check()?;
        if busy.until.is_some_and(|until| Instant::now() >= until) {
            return Ok(Ok(()));
        }
        if limit.is_some_and(|limit| Instant::now() >= limit) {
            return Err(SqlError::new(LOCK_TIMEOUT, "canceling statement due to lock timeout"));
        }
    }
}

/// Returns the error of a transaction that lost a race and is not retried.
pub(crate) fn serialization_failure(conflict: Conflict) -> Error {
    let error = SqlError::new("40001", "could not serialize access due to concurrent update");
    let error = SqlError { detail: Some(format!("{conflict}.")), ..error };
    Error::Sql(error.with_hint("The transaction might succeed if retried."))
}

impl Worker {
    /// Releases the rows of a request that has ended or does not run again.
    pub(crate) fn let_go(&mut self) {
        self.workspace.release_holds();
        self.forget_races();
    }

    /// As `let_go`, unless the request runs again after a wait of the caller, or belongs to a longer
    /// transaction.
    #[cold]
    pub(crate) fn let_go_unless_busy(&mut self, settings: &Settings) {
        if self.races.busy.is_none() && !settings.is_in_block {
            self.let_go();
        }
    }

    /// Releases the rows of a transaction of one request whose wait was refused. Then it can wait again.
    ///
    /// # Errors
    /// `40P01` or `40001`: the request belongs to a longer transaction, which fails.
    pub(crate) fn let_rows_go(&mut self, refusal: Refusal, settings: &Settings) -> Result<(), Error> {
        self.workspace.tables().aborts.count(refusal);
        if settings.is_in_block {
            return Err(refused(refusal).into());
        }
        self.workspace.release_all_but_awaited();
        Ok(())
    }

    /// Returns the wait of a statement whose transaction is undone. One of several steps was rolled back
    /// after it met its blocker, and holds nothing, also not a position in a queue.
    pub(crate) fn waits_without_transaction(&mut self, mut busy: Busy) -> Busy {
        if let Awaited::Blocker { blocker, is_open, .. } = &mut busy.awaited {
            *is_open = false;
            self.workspace.will_wait_for(*blocker);
        }
        busy
    }

    /// Returns the limits of a definition's wait for transactions to end.
    pub(crate) fn patience(&self, settings: &Settings) -> Patience {
        self.patience_of(settings.lock_timeout)
    }

    /// As `patience`, with a limit of its own; `None` is the default one.
    pub(crate) fn patience_of(&self, limit: Option<Duration>) -> Patience {
        Patience::new(self.machine.interrupts().clone(), limit)
    }

    /// Returns which rows the next attempt holds.
    pub(super) fn holding(&self) -> Holding {
        match self.races.lost {
            HOLDS_READ.. => Holding::Read,
            HOLDS_WRITTEN.. => Holding::Written,
            _ if self.races.was_held => Holding::Written,
            _ => Holding::Nothing,
        }
    }

    /// Forgets the races of a request that has ended.
    #[inline]
    pub(crate) fn forget_races(&mut self) {
        (self.races.lost, self.races.was_held) = (0, false);
        if self.races.hot_until.take().is_some() {
            self.workspace.ignore_heat(false);
        }
    }

    /// Counts a lost race, and waits until the request can run again. If the caller waits, sets
    /// `Races::busy`.
    ///
    /// # Errors
    /// `57014`, `55P03`, `40001`: the request was cancelled, has waited too long, or has lost too many races.
    /// Or the caller waits.
    #[cold]
    pub(crate) fn before_retry(&mut self, conflict: Conflict, settings: &Settings) -> Result<(), Error> {
        self.count_conflict(conflict);
        self.machine.interrupts().check()?;
        let is_held = conflict == Conflict::Held;
        let blocker = self.workspace.blocker().filter(|_| is_held);
        if is_held {
            self.races.was_held = true;
        } else {
            self.races.lost += 1;
            if settings.is_in_block && self.races.lost > MOST_RETRIES {
                return Err(serialization_failure(conflict));
            }
        }
        if let Some(blocker) = blocker {
            let holds = Arc::clone(&self.workspace.tables().holds);
            // A wait for a hot row is short, so it does not count as a wait of an open transaction.
            let is_open = settings.is_in_block && !self.workspace.was_hot();
            let awaited = Awaited::Blocker { blocker, worker: self.workspace.slot(), is_open, holds };
            if !self.workspace.was_hot() {
                return self.await_end(awaited, None, settings);
            }
            let until = *self.races.hot_until.get_or_insert_with(|| Instant::now() + FOR_HOT);
            if Instant::now() >= until {
                self.workspace.ignore_heat(true);
                return Ok(());
            }
            return self.await_end(awaited, Some(until), settings);
        }
        if is_held || settings.caller_waits && self.races.lost.is_multiple_of(ROUND) {
            return self.await_end(Awaited::Turn, None, settings);
        }
        back_off(self.races.lost);
        Ok(())
    }

    /// The vertex of a batch that was undone runs again outside of the batch.
    pub(super) fn leave_batch(&mut self) -> Refused {
        self.races.busy = Some(Busy { awaited: Awaited::Turn, until: None });
        serialization_failure(Conflict::Held).into()
    }

    /// Counts an undone attempt.
    pub(super) fn count_conflict(&mut self, conflict: Conflict) {
        self.tally.conflicts += 1;
        self.workspace.tables().aborts.count(conflict);
    }

    /// Counts a commit that has lost a race.
    pub(crate) fn lost_at_commit(&mut self, conflict: Conflict) -> Error {
        self.count_conflict(conflict);
        serialization_failure(conflict)
    }

    /// Waits until the request can run again, unless the caller waits.
    ///
    /// # Errors
    /// As `before_retry`.
    pub(super) fn await_end(
        &mut self,
        awaited: Awaited,
        until: Option<Instant>,
        settings: &Settings,
    ) -> Result<(), Error> {
        let busy = Busy { awaited, until };
        if settings.caller_waits {
            self.races.busy = Some(busy);
            // The caller sees `busy` instead of this error.
            return Err(serialization_failure(Conflict::Held));
        }
        let interrupts = self.machine.interrupts().clone();
        // `lock_timeout` limits waits for rows, keys and definitions, which open transactions hold, not those
        // for the log.
        let is_limited = matches!(busy.awaited, Awaited::Blocker { .. } | Awaited::Definitions(_));
        let limit = settings.lock_timeout.filter(|_| is_limited);
        let aborts = Arc::clone(&self.workspace.tables().aborts);
        while let Err(refusal) = wait_on_thread(&busy, &interrupts, limit).inspect_err(|error| {
            if error.sqlstate == LOCK_TIMEOUT {
                aborts.count(AbortReason::LockTimeout);
            }
        })? {
            // Without rows the request is not refused again.
            self.let_rows_go(refusal, settings)?;
            interrupts.check()?;
        }
        Ok(())
    }

    /// Returns a function that waits for other transactions inside a call. Where the wait is refused, and
    /// `can_run_again` says so, the attempt ends with `Conflict::Held`.
    pub(super) fn waits_in_place(
        &self,
        can_run_again: impl Fn() -> bool + Send + 'static,
        settings: &Settings,
    ) -> Box<WaitInPlace> {
        let (interrupts, limit) = (self.machine.interrupts().clone(), settings.lock_timeout);
        let (worker, holds) = (self.workspace.slot(), Arc::clone(&self.workspace.tables().holds));
        let aborts = Arc::clone(&self.workspace.tables().aborts);
        Box::new(move |blocker| {
            let awaited = Awaited::Blocker { blocker, worker, is_open: true, holds: Arc::clone(&holds) };
            let busy = Busy { awaited, until: None };
            let waited = wait_on_thread(&busy, &interrupts, limit);
            if !matches!(waited, Ok(Ok(()))) {
                holds.stop_waiting(worker);
            }
            waited?.map_err(|refusal| {
                aborts.count(refusal);
                if can_run_again() { Conflict::Held.into() } else { refused(refusal).into() }
            })
        })
    }
}

/// Spins 2^`lost` times, but at most 1024 times. Yields the thread after more than `PATIENCE` lost races.
fn back_off(lost: u32) {
    for _ in 0..1u32 << lost.min(10) {
        std::hint::spin_loop();
    }
    if lost > PATIENCE {
        std::thread::yield_now();
    }
}
