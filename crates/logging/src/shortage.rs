//! The shortage of a log: the disk is full, or no descriptor is left, so that the log can't make its next
//! file for now.
//!
//! The logger retries until it can. The unwritten bytes stay in its buffer, and the order of the log does not
//! change. The position of a commit decides its treatment:
//!
//! | the transaction | what its client is told |
//! |---|---|
//! | has not appended its record | 53100 or 53000; it is rolled back, and may be tried again later |
//! | has appended it, and the current file has room for it | success: the file was made in full before |
//! | has appended it, but the file has no room | waits; after `patience`, that the outcome is not known |
//!
//! The third case is rare. New transactions are refused while the file still has room for the full buffers;
//! they wait while it is unknown whether the next file can be made. Only files smaller than the buffers
//! escape this rule. Such a transaction is visible to other transactions, so it can't be undone; an answer
//! that shows it waits too. It becomes durable once there is room. If the process ends before, it is lost,
//! and it was never acknowledged.
//!
//! Writing the same bytes again is safe after ENOSPC, EDQUOT, EMFILE and ENFILE, and after no other error. A
//! file may then lack only bytes written since its last `sync`. They are one batch, which is written again as
//! a whole.
//!
//! Invariants: 1. an appended record is written before any later one, or never. 2. no checkpoint waits for a
//! logger that waits for room, because a checkpoint is what frees room.
//! Held by: `full_disk` (crates/reprise).

use crate::error::LogError;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// First and longest pause between two attempts.
const RESTS: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(500)];

/// The shortage of one logger.
#[derive(Debug, Default)]
struct Lack {
    /// Why its next file can't be made ahead of its use.
    ahead: Option<LogError>,
    /// Why it can't write a batch, or begin its next file.
    now: Option<LogError>,
    /// Whether its file may lack room for its full buffer.
    is_low: bool,
    /// Whether its file has room to wait for the next file, whose outcome is not known yet.
    is_awaited: bool,
    /// Since when it has records that it can't write.
    stalled: Option<Instant>,
}

/// The thread of a logger that lacks room or a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// The thread that makes files ahead of their use.
    Ahead,
    /// The thread that writes.
    Now,
}

impl Lack {
    fn error(&self) -> Option<&LogError> {
        self.now.as_ref().or(self.ahead.as_ref())
    }

    fn refuses(&self) -> bool {
        self.error().is_some() && (self.is_low || self.stalled.is_some())
    }

    /// Returns whether it may refuse transactions soon.
    fn is_in_doubt(&self) -> bool {
        self.is_low && self.is_awaited
    }
}

#[derive(Debug, Default)]
struct State {
    lacks: BTreeMap<u32, Lack>,
    is_stopped: bool,
    /// Woken when it becomes known whether the next file can be made.
    waiters: Vec<Waker>,
}

impl State {
    /// Returns whether it is still unknown if transactions must be refused.
    fn is_in_doubt(&self) -> bool {
        self.lacks.values().any(Lack::is_in_doubt) && !self.lacks.values().any(Lack::refuses)
    }
}

/// The shortages of a log's loggers.
#[derive(Debug, Default)]
pub(crate) struct Shortage {
    /// Whether new transactions that write are refused, or may be soon.
    refuses: AtomicBool,
    state: Mutex<State>,
    /// Locked while a file is made after a failed attempt, and while a checkpoint is written.
    attempts: Mutex<()>,
    /// How long a commit waits for a logger that lacks room.
    patience: Duration,
}

impl Shortage {
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, ..Self::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the shortage of a logger.
    fn update(&self, logger: u32, change: impl FnOnce(&mut Lack)) {
        let mut state = self.lock();
        change(state.lacks.entry(logger).or_default());
        let refuses = state.lacks.values().any(|lack| lack.refuses() || lack.is_in_doubt());
        self.refuses.store(refuses, Ordering::Release);
        let waiters = if state.is_in_doubt() { Vec::new() } else { std::mem::take(&mut state.waiters) };
        drop(state);
        waiters.into_iter().for_each(Waker::wake);
    }

    /// Returns whether it is still unknown if transactions that write are refused.
    #[inline]
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.refuses.load(Ordering::Acquire) && self.lock().is_in_doubt()
    }

    /// Returns whether it is known if transactions must be refused; otherwise wakes `waker` once it is.
    pub(crate) fn poll_known(&self, waker: &Waker) -> Poll<()> {
        if !self.refuses.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        let mut state = self.lock();
        if !state.is_in_doubt() {
            return Poll::Ready(());
        }
        if !state.waiters.iter().any(|own| own.will_wake(waker)) {
            state.waiters.push(waker.clone());
        }
        Poll::Pending
    }

    /// Refuses a transaction that would write, if there is a shortage. A session that can wait calls
    /// `poll_known` first.
    ///
    /// # Errors
    /// `NoRoom`.
    #[inline]
    pub(crate) fn admit(&self) -> Result<(), LogError> {
        if !self.refuses.load(Ordering::Acquire) {
            return Ok(());
        }
        let state = self.lock();
        let error = state.lacks.values().filter(|lack| lack.refuses()).find_map(Lack::error).cloned();
        error.map_or(Ok(()), |error| Err(LogError::NoRoom(Arc::new(error))))
    }

    /// Checks whether a commit should continue to wait.
    ///
    /// # Errors
    /// `Stalled`: a logger has waited for room longer than `patience`, or at all if `is_patient` is false.
    pub(crate) fn check_stall(&self, is_patient: bool) -> Result<(), LogError> {
        if !self.refuses.load(Ordering::Acquire) {
            return Ok(());
        }
        let patience = if is_patient { self.patience } else { Duration::ZERO };
        let state = self.lock();
        let has_stalled = |lack: &&Lack| lack.stalled.is_some_and(|since| since.elapsed() >= patience);
        let error = state.lacks.values().filter(has_stalled).find_map(Lack::error).cloned();
        error.map_or(Ok(()), |error| Err(LogError::Stalled(Arc::new(error))))
    }

    /// Notes whether a logger's file may lack room for its full buffer.
    pub(crate) fn set_low(&self, logger: u32, is_low: bool) {
        self.update(logger, |lack| lack.is_low = is_low);
    }

    /// Notes whether the next file's outcome is unknown while the file still has room to wait.
    pub(crate) fn set_awaited(&self, logger: u32, is_awaited: bool) {
        self.update(logger, |lack| lack.is_awaited = is_awaited);
    }

    /// Notes whether a logger with records to write waits for room.
    pub(crate) fn set_stalled(&self, logger: u32, is_stalled: bool) {
        self.update(logger, |lack| {
            lack.stalled = is_stalled.then(|| lack.stalled.unwrap_or_else(Instant::now));
        });
    }

    /// Notes the result of a thread's last attempt. Logs a message when a shortage begins or ends.
    pub(crate) fn set_error(&self, logger: u32, stage: Stage, error: Option<&LogError>) {
        let mut lacked = false;
        let mut lacks = false;
        self.update(logger, |lack| {
            lacked = lack.error().is_some();
            match stage {
                Stage::Ahead => {
                    lack.ahead = error.cloned();
                    lack.is_awaited = false;
                }
                Stage::Now => lack.now = error.cloned(),
            }
            lacks = lack.error().is_some();
        });
        match error {
            Some(error) if !lacked => tracing::warn!(
                logger, %error, "the log can't grow ({error}); once its file is full, transactions that \
                 write are refused"
            ),
            None if lacked && !lacks => tracing::info!(logger, "the log can grow again"),
            _ => {}
        }
    }

    /// Ends all attempts: a logger without room fails with its shortage.
    pub(crate) fn stop(&self) {
        self.lock().is_stopped = true;
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    /// Pauses all attempts for as long as the guard lives, so that a checkpoint gets the room.
    pub(crate) fn rest(&self) -> MutexGuard<'_, ()> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pauses between attempts, each twice as long as the previous one.
pub(crate) struct Rests(Duration);

impl Default for Rests {
    fn default() -> Self {
        Self(RESTS[0])
    }
}

impl Rests {
    /// Returns the next pause.
    pub(crate) fn next(&mut self) -> Duration {
        let rest = self.0;
        self.0 = (rest * 2).min(RESTS[1]);
        rest
    }
}
