//! What happens while the disk is full, or no descriptor is left: the log can't make its next file for now.
//!
//! The logger tries again until it can: the bytes that it could not write are still in its buffer, and the
//! order of the log does not change. Commits are treated by where they are:
//!
//! | the transaction | what its client is told |
//! |---|---|
//! | has not appended its record | 53100 or 53000; nothing of it has happened, and trying again later is right |
//! | has appended it, and the current file has room for it | nothing special: the file was made in full before |
//! | has appended it, but the file has no room | waits for room; after `patience`, that the outcome is not known |
//!
//! The third case is rare: new transactions are refused while the file still has room for all that buffers
//! can hold, and wait when it is not known by then whether there will be a next file, unless files are
//! smaller than that. Such a transaction is visible to others, so it can't be taken back; an answer that
//! shows it waits, too. It is durable once there is room. If the process ends before, it is lost, and it was
//! never acknowledged.
//!
//! To write the same bytes again is safe after ENOSPC, EDQUOT, EMFILE and ENFILE, and after no other error:
//! all that a file may lack then was written since its last `sync`, and that is one batch, which is written
//! again as a whole.
//!
//! Invariants: 1. a record that was appended is written before any later one, or never. 2. no logger is
//! waited for by a checkpoint while it waits for room, as a checkpoint is what makes room.
//! Held by: `full_disk` (crates/reprise).

use crate::error::LogError;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// How long the first rest between two attempts is, and how long the longest.
const RESTS: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(500)];

/// What one logger lacks.
#[derive(Debug, Default)]
struct Lack {
    /// Why its next file can't be made ahead of its use.
    ahead: Option<LogError>,
    /// Why it can't write a batch, or begin its next file.
    now: Option<LogError>,
    /// Whether its file may not have room for all that its buffer can hold.
    is_low: bool,
    /// Whether it is not known yet whether there will be a next file, which its file had room to wait for.
    is_awaited: bool,
    /// Since when it has records that it can't write.
    stalled: Option<Instant>,
}

/// Which of a logger's threads lacks something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// The one that makes files ahead of their use.
    Ahead,
    /// The one that writes.
    Now,
}

impl Lack {
    fn error(&self) -> Option<&LogError> {
        self.now.as_ref().or(self.ahead.as_ref())
    }

    fn refuses(&self) -> bool {
        self.error().is_some() && (self.is_low || self.stalled.is_some())
    }

    /// Whether it may refuse soon.
    fn is_in_doubt(&self) -> bool {
        self.is_low && self.is_awaited
    }
}

#[derive(Debug, Default)]
struct State {
    lacks: BTreeMap<u32, Lack>,
    is_stopped: bool,
    /// Told when it becomes known whether there will be a next file.
    waiters: Vec<Waker>,
}

impl State {
    /// Whether it is not known yet whether transactions have to be refused.
    fn is_in_doubt(&self) -> bool {
        self.lacks.values().any(Lack::is_in_doubt) && !self.lacks.values().any(Lack::refuses)
    }
}

/// What the loggers of a log lack for now.
#[derive(Debug, Default)]
pub(crate) struct Shortage {
    /// Whether new transactions that write are refused, or may be soon.
    refuses: AtomicBool,
    state: Mutex<State>,
    /// Held while files are made that could not be made before, and while a checkpoint is written.
    attempts: Mutex<()>,
    /// How long a commit waits for a logger that has no room.
    patience: Duration,
}

impl Shortage {
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, ..Self::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what a logger lacks.
    fn update(&self, logger: u32, change: impl FnOnce(&mut Lack)) {
        let mut state = self.lock();
        change(state.lacks.entry(logger).or_default());
        let refuses = state.lacks.values().any(|lack| lack.refuses() || lack.is_in_doubt());
        self.refuses.store(refuses, Ordering::Release);
        let waiters = if state.is_in_doubt() { Vec::new() } else { std::mem::take(&mut state.waiters) };
        drop(state);
        waiters.into_iter().for_each(Waker::wake);
    }

    /// Whether it is not known yet if transactions that write are refused.
    #[inline]
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.refuses.load(Ordering::Acquire) && self.lock().is_in_doubt()
    }

    /// Whether it is known if a transaction has to be refused; otherwise `waker` is woken once it is.
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

    /// Refuses a transaction that would write. One that is not in a hurry has waited before until this is
    /// known (`poll_known`).
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

    /// Whether a commit should still be waited for.
    ///
    /// # Errors
    /// `Stalled`: a logger has waited for room for longer than `patience`, or at all where there is no
    /// patience.
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

    /// Takes note of whether a logger's file may not have room for all that its buffer can hold.
    pub(crate) fn set_low(&self, logger: u32, is_low: bool) {
        self.update(logger, |lack| lack.is_low = is_low);
    }

    /// Takes note of whether it is not known yet whether there will be a next file, which the file has room
    /// to wait for.
    pub(crate) fn set_awaited(&self, logger: u32, is_awaited: bool) {
        self.update(logger, |lack| lack.is_awaited = is_awaited);
    }

    /// Takes note of whether a logger waits for room, with records to write.
    pub(crate) fn set_stalled(&self, logger: u32, is_stalled: bool) {
        self.update(logger, |lack| lack.stalled = is_stalled.then(Instant::now));
    }

    /// Takes note of what a thread's last attempt came to. A logger that begins or ceases to lack something
    /// says so.
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
                logger, %error, "the log can't grow ({error}); once its file is full, transactions that write are refused"
            ),
            None if lacked && !lacks => tracing::info!(logger, "the log can grow again"),
            _ => {}
        }
    }

    /// Ends all attempts: a logger that has no room fails with what it lacks.
    pub(crate) fn stop(&self) {
        self.lock().is_stopped = true;
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    /// Keeps attempts from taking room from a checkpoint, for as long as the guard lives.
    pub(crate) fn rest(&self) -> MutexGuard<'_, ()> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rests between attempts: each twice as long as the one before.
pub(crate) struct Rests(Duration);

impl Default for Rests {
    fn default() -> Self {
        Self(RESTS[0])
    }
}

impl Rests {
    /// How long the next one is.
    pub(crate) fn next(&mut self) -> Duration {
        let rest = self.0;
        self.0 = (rest * 2).min(RESTS[1]);
        rest
    }
}
