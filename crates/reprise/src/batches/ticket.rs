//! Tickets: where a session waits for the outcome of a call of a batch, on its thread or by a waker.
//!
//! Invariants: 1. each ticket is resolved, also if an executor panics. 2. a call that its session has
//! withdrawn does not run; a call that runs cannot be withdrawn, so its session learns the outcome.
//! Held by: the tests below, `crates/server/tests/suite/batches.rs`.

use super::{Outcome, hold};
use crate::worker::waker_of;
use procedure::SqlError;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

/// Where a session waits for the outcome of a call.
#[derive(Default, Debug)]
pub(crate) struct Ticket(Mutex<State>);

#[derive(Default, Debug)]
struct State {
    stage: Stage,
    /// Wakes the session at the end of the call.
    waker: Option<Waker>,
}

/// The progress of a call.
#[derive(Default, Debug)]
enum Stage {
    /// No executor has begun to run it.
    #[default]
    Waits,
    /// An executor runs it.
    Runs,
    /// Its session has not taken the outcome.
    Ended(Outcome),
    /// Its session has taken the outcome, or has withdrawn the call.
    Closed,
}

impl Ticket {
    /// Changes the stage, unless an executor has begun the call or the session has withdrawn it.
    fn leave_queue(&self, stage: Stage) -> bool {
        let mut state = hold(&self.0);
        let waits = matches!(state.stage, Stage::Waits);
        if waits {
            state.stage = stage;
        }
        waits
    }

    /// Withdraws the call. Returns false if it runs or has ended: then it has an outcome.
    pub(crate) fn withdraw(&self) -> bool {
        self.leave_queue(Stage::Closed)
    }

    /// Gives the outcome. Returns the waker of a session that waits for it.
    fn resolve(&self, outcome: Outcome) -> Option<Waker> {
        let mut state = hold(&self.0);
        if matches!(state.stage, Stage::Closed) {
            return None;
        }
        state.stage = Stage::Ended(outcome);
        state.waker.take()
    }

    /// Takes the outcome; `None` if the call has not ended.
    pub(crate) fn take(&self) -> Option<Outcome> {
        let stage = &mut hold(&self.0).stage;
        match std::mem::replace(stage, Stage::Closed) {
            Stage::Ended(outcome) => Some(outcome),
            earlier => {
                *stage = earlier;
                None
            }
        }
    }

    /// Returns `Ready` when the call has ended or is withdrawn. Otherwise `waker` is woken at its end.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<()> {
        let mut state = hold(&self.0);
        if matches!(state.stage, Stage::Ended(_) | Stage::Closed) {
            return Poll::Ready(());
        }
        state.waker = Some(waker.clone());
        Poll::Pending
    }

    /// Waits on this thread until the call has ended, and takes the outcome.
    pub(crate) fn wait(&self) -> Outcome {
        if let Some(outcome) = self.take() {
            return outcome;
        }
        let waker = waker_of(std::thread::current());
        while self.poll(&waker).is_pending() {
            std::thread::park();
        }
        self.take().expect("only the session takes the outcome, and it has not withdrawn the call")
    }
}

/// The duty to resolve a ticket. One that is dropped says that the call failed, so that no session waits
/// forever for a thread that has panicked.
#[derive(Debug)]
pub(super) struct Promise(Option<Arc<Ticket>>);

impl Promise {
    pub(super) fn new(ticket: &Arc<Ticket>) -> Self {
        Self(Some(Arc::clone(ticket)))
    }

    /// Notes that an executor runs the call. Returns false if the session has withdrawn it.
    pub(super) fn begin(&self) -> bool {
        self.0.as_ref().is_some_and(|ticket| ticket.leave_queue(Stage::Runs))
    }

    /// Gives the outcome, and wakes the session.
    pub(super) fn resolve(self, outcome: Outcome) {
        self.resolve_later(outcome).into_iter().for_each(Waker::wake);
    }

    /// Gives the outcome. Returns the waker of the session, if that waits.
    #[must_use]
    pub(super) fn resolve_later(mut self, outcome: Outcome) -> Option<Waker> {
        self.0.take().and_then(|ticket| ticket.resolve(outcome))
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if let Some(ticket) = self.0.take() {
            let error =
                SqlError::new("XX000", "the batch of the call has panicked; the server's log says where");
            let outcome = Outcome::Failed { refused: error.into(), notices: Vec::new() };
            ticket.resolve(outcome).into_iter().for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed() -> Outcome {
        Outcome::Failed { refused: SqlError::new("22012", "division by zero").into(), notices: Vec::new() }
    }

    #[test]
    fn a_withdrawn_call_does_not_begin() {
        let ticket = Arc::new(Ticket::default());
        let promise = Promise::new(&ticket);
        assert!(ticket.withdraw());
        assert!(!promise.begin());
        promise.resolve(failed());
        assert!(ticket.take().is_none());
    }

    #[test]
    fn a_call_that_runs_is_not_withdrawn() {
        let ticket = Arc::new(Ticket::default());
        let promise = Promise::new(&ticket);
        assert!(promise.begin());
        assert!(!ticket.withdraw());
        promise.resolve(failed());
        assert!(!ticket.withdraw());
        assert!(matches!(ticket.take(), Some(Outcome::Failed { .. })));
        assert!(ticket.take().is_none());
    }

    #[test]
    fn a_thread_learns_of_a_panic() {
        let ticket = Arc::new(Ticket::default());
        let promise = Promise::new(&ticket);
        let waits = std::thread::spawn(move || ticket.wait());
        drop(promise);
        assert!(matches!(waits.join().expect("it returns"), Outcome::Failed { .. }));
    }
}
