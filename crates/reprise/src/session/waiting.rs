//! Statements that lose a race, or come to rows of other transactions: how often they run again, and what
//! they wait for.
//!
//! A transaction of its own runs again until it commits. After some lost races it holds the rows that it
//! writes, after more those that it reads, so that it commits in the end. A statement of a longer transaction
//! runs again as long as what the transaction has read before holds.
//! Invariants: 1. a wait ends with the blocker, by `lock_timeout`, by the statement's deadline or by its
//! cancellation. 2. `try_prepared` never waits: its caller does. 3. of transactions that wait for each other
//! one fails (40P01), or lets its rows go.
//! Held by: `crates/reprise/tests/suite/waiting.rs`.

use super::{Session, TransactionState};
use crate::Error;
use crate::database::Inner;
use crate::definitions::Patience;
use procedure::{Conflict, Interrupts, SqlError};
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};
use storage::Slot;
use transaction::{AbortReason, Blocker, Holding, Holds, Refusal, WaitInPlace};

/// A thread that waits looks at its limits this often.
const TICK: Duration = Duration::from_millis(20);
/// The SQLSTATE of a wait that took longer than `lock_timeout`.
const LOCK_TIMEOUT: &str = "55P03";
/// After this many lost races in a row a session lets other threads run before it tries again.
const PATIENCE: u32 = 8;
/// From this many lost races on a transaction holds what it writes.
const HOLDS_WRITTEN: u32 = 8;
/// From this many on it holds what it reads.
const HOLDS_READ: u32 = 24;
/// A caller that waits itself is asked to let others run after each round of this many lost races.
const ROUND: u32 = 16;
/// The longest wait for a hot row that is only read: readers do not wait for a transaction that its client
/// leaves open.
const FOR_HOT: Duration = Duration::from_millis(100);
/// A statement of a longer transaction that has lost this many races fails.
const MOST_RETRIES: u32 = 256;

/// What a statement that was undone waits for.
#[derive(Clone)]
pub(super) enum Awaited {
    /// It has lost races, and lets others run.
    Others,
    /// The transaction that holds a row or key.
    Blocker {
        blocker: Blocker,
        worker: Slot,
        /// Whether the statement is of a transaction that stays open meanwhile.
        is_open: bool,
        holds: Arc<Holds>,
    },
    /// Definitions that are being made.
    Definitions(Arc<Inner>),
    /// A log of which it is not known whether it can grow.
    Log(Arc<Inner>),
}

/// What a statement that was undone, and can be run again, waits for.
#[derive(Clone)]
#[must_use = "the statement has not happened: run it again, later"]
pub struct Busy {
    awaited: Awaited,
    /// When the statement is run again at the latest, whether or not what it waits for has come.
    until: Option<Instant>,
}

impl std::fmt::Debug for Busy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let awaited: &dyn std::fmt::Debug = match &self.awaited {
            Awaited::Others => &"others",
            Awaited::Blocker { blocker, .. } => blocker,
            Awaited::Definitions(_) => &"definitions",
            Awaited::Log(_) => &"the log",
        };
        f.debug_tuple("Busy").field(awaited).finish()
    }
}

impl Busy {
    /// Whether what is awaited has come. `waker` is woken when it does.
    fn poll(&self, waker: &Waker) -> Poll<Result<(), Refusal>> {
        match &self.awaited {
            Awaited::Others => Poll::Ready(Ok(())),
            Awaited::Blocker { blocker, worker, is_open, holds } => {
                match holds.wait(*blocker, *worker, *is_open, waker) {
                    Ok(true) => Poll::Pending,
                    Ok(false) => Poll::Ready(Ok(())),
                    Err(refusal) => Poll::Ready(Err(refusal)),
                }
            }
            Awaited::Definitions(inner) => inner.definitions.poll_made(waker).map(Ok),
            Awaited::Log(inner) => inner.logs.poll_known(waker).map(Ok),
        }
    }

    /// When the statement is to be run again at the latest; `None` where it waits until `released`.
    pub fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Returns once the statement can be run again. Where the caller stops waiting before, it says so by
    /// `Session::stop_waiting`.
    ///
    /// # Errors
    /// The transaction must not wait with its locks in its hands: see `Session::break_deadlock`.
    pub async fn released(&self) -> Result<(), Refusal> {
        // Where nothing is left to wait for, other tasks run before the statement runs again: its client's
        // deadline and cancellation are seen then.
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

/// How a session waits, and what its statement has lost so far.
#[derive(Default)]
pub(super) struct Waiting {
    /// Races that the statement has lost in a row.
    lost: u32,
    /// Whether it has come to a row of another transaction.
    was_held: bool,
    /// Whether the caller waits, rather than this thread.
    pub(super) by_caller: bool,
    /// What the caller has to wait for.
    pub(super) busy: Option<Busy>,
    /// Whether a statement is to be run again.
    pub(super) is_pending: bool,
    /// The longest wait for one blocker; `None` is no limit.
    lock_timeout: Option<Duration>,
    /// When it stops waiting for hot rows that it only reads.
    hot_until: Option<Instant>,
}

fn waker_of(thread: Thread) -> Waker {
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

/// Waits on this thread until a statement can be run again, or a deadlock is found.
///
/// # Errors
/// `55P03` after the time limit, `57014`.
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

impl Session {
    /// Whether a statement was `Attempt::Busy` and has neither been run again nor given up.
    pub fn is_waiting(&self) -> bool {
        self.waiting.is_pending
    }

    /// Sets the longest wait for one transaction that holds a row or key; `None` is no limit.
    pub fn set_lock_timeout(&mut self, timeout: Option<Duration>) {
        self.waiting.lock_timeout = timeout;
    }

    /// Gives up a statement that was `Attempt::Busy`. An open transaction can only be rolled back then, or to
    /// a savepoint.
    pub fn stop_waiting(&mut self) {
        self.waiting.is_pending = false;
        if self.block.state == TransactionState::None {
            self.let_go();
        } else {
            self.statement_failed();
            self.fail_block();
        }
    }

    /// As `stop_waiting`, since the statement has waited longer than `lock_timeout`.
    pub fn time_out(&mut self) {
        self.workspace.tables().aborts.count(AbortReason::LockTimeout);
        self.stop_waiting();
    }

    /// A transaction of its own has ended, or does not run again.
    fn let_go(&mut self) {
        self.workspace.release_holds();
        self.forget_races();
    }

    /// As `let_go`, unless it is about to run again once the caller has waited, or is a statement of a longer
    /// transaction.
    #[cold]
    pub(super) fn let_go_unless_busy(&mut self) {
        if self.waiting.busy.is_none() && self.block.state == TransactionState::None {
            self.let_go();
        }
    }

    /// Lets go what the statement that was `Attempt::Busy` holds: `Busy::released` has refused its wait.
    /// A transaction of its own can wait again.
    ///
    /// # Errors
    /// `40P01` or `40001` in an open transaction, which has failed.
    pub fn break_deadlock(&mut self, refusal: Refusal) -> Result<(), Error> {
        self.let_rows_go(refusal).inspect_err(|_| self.stop_waiting())
    }

    fn let_rows_go(&mut self, refusal: Refusal) -> Result<(), Error> {
        self.workspace.tables().aborts.count(refusal);
        if self.block.state != TransactionState::None {
            return Err(refused(refusal).into());
        }
        self.workspace.release_all_but_awaited();
        Ok(())
    }

    /// How long a definition waits for transactions to end.
    pub(super) fn patience(&self) -> Patience {
        let patience = Patience::default();
        let limit = self.waiting.lock_timeout.unwrap_or(patience.limit);
        Patience { interrupts: self.machine.interrupts().clone(), limit }
    }

    /// The rows that the next attempt holds.
    pub(super) fn holding(&self) -> Holding {
        match self.waiting.lost {
            HOLDS_READ.. => Holding::Read,
            HOLDS_WRITTEN.. => Holding::Written,
            _ if self.waiting.was_held => Holding::Written,
            _ => Holding::Nothing,
        }
    }

    /// The statement has ended.
    #[inline]
    pub(super) fn forget_races(&mut self) {
        (self.waiting.lost, self.waiting.was_held) = (0, false);
        if self.waiting.hot_until.take().is_some() {
            self.workspace.ignore_heat(false);
        }
    }

    /// Takes note of a lost race, and waits until the statement can run again. Where the caller waits, `busy`
    /// says what for.
    ///
    /// # Errors
    /// It is not to run again: it was cancelled, it has waited or tried for too long. Or the caller waits.
    #[cold]
    pub(super) fn before_retry(&mut self, conflict: Conflict) -> Result<(), Error> {
        self.count_conflict(conflict);
        self.machine.interrupts().check()?;
        let is_held = conflict == Conflict::Held;
        let blocker = self.workspace.blocker().filter(|_| is_held);
        if is_held {
            self.waiting.was_held = true;
        } else {
            self.waiting.lost += 1;
            if self.block.state != TransactionState::None && self.waiting.lost > MOST_RETRIES {
                return Err(super::serialization_failure(conflict));
            }
        }
        if let Some(blocker) = blocker {
            let holds = Arc::clone(&self.workspace.tables().holds);
            // It does not wait long for a row that is hot.
            let is_open = self.block.state != TransactionState::None && !self.workspace.was_hot();
            let awaited = Awaited::Blocker { blocker, worker: self.workspace.slot(), is_open, holds };
            if !self.workspace.was_hot() {
                return self.await_others(awaited, None);
            }
            let until = *self.waiting.hot_until.get_or_insert_with(|| Instant::now() + FOR_HOT);
            if Instant::now() >= until {
                self.workspace.ignore_heat(true);
                return Ok(());
            }
            return self.await_others(awaited, Some(until));
        }
        if is_held || self.waiting.by_caller && self.waiting.lost.is_multiple_of(ROUND) {
            return self.await_others(Awaited::Others, None);
        }
        back_off(self.waiting.lost);
        Ok(())
    }

    /// Waits until the statement can run again, unless the caller does.
    ///
    /// # Errors
    /// As `before_retry`.
    pub(super) fn await_others(&mut self, awaited: Awaited, until: Option<Instant>) -> Result<(), Error> {
        let busy = Busy { awaited, until };
        if self.waiting.by_caller {
            self.waiting.busy = Some(busy);
            // The caller is told of `busy` instead.
            return Err(super::serialization_failure(Conflict::Held));
        }
        let interrupts = self.machine.interrupts().clone();
        // Definitions and the log are no locks.
        let limit = self.waiting.lock_timeout.filter(|_| matches!(busy.awaited, Awaited::Blocker { .. }));
        let aborts = Arc::clone(&self.workspace.tables().aborts);
        while let Err(refusal) = wait_on_thread(&busy, &interrupts, limit).inspect_err(|error| {
            if error.sqlstate == LOCK_TIMEOUT {
                aborts.count(AbortReason::LockTimeout);
            }
        })? {
            // It holds nothing afterwards, so that it is not refused again.
            self.let_rows_go(refusal)?;
            interrupts.check()?;
        }
        Ok(())
    }

    /// Counts an attempt that was undone.
    pub(super) fn count_conflict(&mut self, conflict: Conflict) {
        self.conflicts += 1;
        self.workspace.tables().aborts.count(conflict);
    }

    /// What waits for other transactions in the middle of a call that can't be run again.
    pub(super) fn waits_in_place(&self) -> Box<WaitInPlace> {
        let (interrupts, limit) = (self.machine.interrupts().clone(), self.waiting.lock_timeout);
        let (worker, holds) = (self.workspace.slot(), Arc::clone(&self.workspace.tables().holds));
        let aborts = Arc::clone(&self.workspace.tables().aborts);
        Box::new(move |blocker| {
            let awaited = Awaited::Blocker { blocker, worker, is_open: true, holds: Arc::clone(&holds) };
            let busy = Busy { awaited, until: None };
            let waited = wait_on_thread(&busy, &interrupts, limit);
            if !matches!(waited, Ok(Ok(()))) {
                holds.stop_waiting(worker);
            }
            Ok(waited?.map_err(|refusal| {
                aborts.count(refusal);
                refused(refusal)
            })?)
        })
    }
}

/// Waits a little longer after every lost race, and lets other threads run after some.
fn back_off(lost: u32) {
    for _ in 0..1u32 << lost.min(10) {
        std::hint::spin_loop();
    }
    if lost > PATIENCE {
        std::thread::yield_now();
    }
}
