//! The gate between batches and everything else that writes: while a batch runs, only the batch commits
//! writes.
//! Paper: DistDGCC §2.1 runs nothing beside batches. Differs: statements, interactive transactions and calls
//! that the analysis does not know run at any time; only the commit of their writes waits for the end of the
//! running batch. So the numbers of a batch can be drawn before it runs, and its rows stay as they are until
//! its records are made.
//!
//! Invariants: 1. no commit passes while the gate is closed. 2. a commit waits for at most one batch: what
//! waits when the gate opens passes before it closes again. 3. a commit that waits ends when its statement is
//! cancelled or has no time left. Held by: `a_closed_gate_lets_no_commit_pass`,
//! `a_commit_waits_for_one_batch`, `a_cancelled_commit_does_not_wait`.

use procedure::{Interrupts, SqlError};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The longest time until a commit that waits learns of a cancel.
const CHECKED_EVERY: Duration = Duration::from_millis(20);

/// Runs a function that blocks the thread. A server's thread hands its other tasks over before that.
pub type BlocksBy = fn(&mut dyn FnMut());

/// The gate of a database.
#[derive(Default, Debug)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default, Debug)]
struct State {
    /// Whether a batch runs, or waits for the commits that have passed.
    is_closed: bool,
    /// How often the gate was opened.
    opened: u64,
    /// Commits that have passed and not ended.
    passed: usize,
    /// Commits that wait.
    waiting: usize,
}

/// A commit that has passed the gate, until it is dropped.
#[derive(Debug)]
pub struct Passed<'g>(&'g Gate);

impl Drop for Passed<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.passed -= 1;
        if state.passed == 0 {
            self.0.changed.notify_all();
        }
    }
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'g>(&self, state: MutexGuard<'g, State>) -> MutexGuard<'g, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns once a commit may pass.
    ///
    /// # Errors
    /// `57014`: the statement was cancelled, or its deadline has passed, while the commit waited.
    pub fn pass(&self, blocks_by: BlocksBy, interrupts: &Interrupts) -> Result<Passed<'_>, SqlError> {
        let mut state = self.state();
        if !state.is_closed {
            state.passed += 1;
            return Ok(Passed(self));
        }
        state.waiting += 1;
        let opened = state.opened;
        drop(state);
        let mut passes = Ok(());
        blocks_by(&mut || {
            let mut state = self.state();
            while state.opened == opened {
                passes = interrupts.check();
                if passes.is_err() {
                    state.waiting -= 1;
                    return;
                }
                let waited = self.changed.wait_timeout(state, CHECKED_EVERY);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        });
        passes.map(|()| Passed(self))
    }

    /// Closes the gate, and waits until no commit is behind it. One batch at a time does so.
    pub fn close(&self) {
        let mut state = self.state();
        debug_assert!(!state.is_closed, "one batch runs at a time");
        state.is_closed = true;
        while state.passed > 0 {
            state = self.wait(state);
        }
    }

    /// Opens the gate: the batch has ended.
    pub fn open(&self) {
        let mut state = self.state();
        state.is_closed = false;
        state.opened += 1;
        state.passed += std::mem::take(&mut state.waiting);
        drop(state);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    #[test]
    fn a_closed_gate_lets_no_commit_pass() {
        let (gate, is_closed, stops) = (Gate::default(), AtomicBool::new(false), AtomicBool::new(false));
        let commits = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stops.load(Ordering::SeqCst) {
                        let passed =
                            gate.pass(|wait| wait(), &Interrupts::default()).expect("nothing cancels it");
                        assert!(!is_closed.load(Ordering::SeqCst), "a commit has passed a closed gate");
                        commits.fetch_add(1, Ordering::SeqCst);
                        assert!(!is_closed.load(Ordering::SeqCst), "the gate was closed over a commit");
                        drop(passed);
                    }
                });
            }
            let mut rounds = 0;
            while rounds < 2_000 || commits.load(Ordering::SeqCst) == 0 {
                rounds += 1;
                gate.close();
                is_closed.store(true, Ordering::SeqCst);
                std::hint::spin_loop();
                is_closed.store(false, Ordering::SeqCst);
                gate.open();
            }
            stops.store(true, Ordering::SeqCst);
        });
    }

    #[test]
    fn a_commit_waits_for_one_batch() {
        let gate = Gate::default();
        gate.close();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| gate.pass(|wait| wait(), &Interrupts::default()).map(drop));
            while gate.state().waiting == 0 {
                std::thread::yield_now();
            }
            gate.open();
            // The next batch finds the commit behind the gate, even if its thread has not woken up.
            gate.close();
            waits.join().expect("it does not panic").expect("it passes");
        });
        assert_eq!(gate.state().passed, 0);
    }

    #[test]
    fn a_cancelled_commit_does_not_wait() {
        let (gate, flag) = (Gate::default(), Arc::new(AtomicBool::new(false)));
        let interrupts = Interrupts { cancelled: Some(Arc::clone(&flag)), deadline: None };
        gate.close();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| gate.pass(|wait| wait(), &interrupts).map(drop));
            while gate.state().waiting == 0 {
                std::thread::yield_now();
            }
            flag.store(true, Ordering::Relaxed);
            let refused = waits.join().expect("it does not panic").expect_err("it is cancelled");
            assert_eq!(refused.sqlstate, "57014");
        });
        // It is not behind the gate, so the next batch does not wait for it.
        gate.open();
        gate.close();
        let state = gate.state();
        assert_eq!((state.waiting, state.passed), (0, 0));
    }
}
