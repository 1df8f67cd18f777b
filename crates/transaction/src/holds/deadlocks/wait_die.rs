//! Wait-die: a transaction waits for younger ones only. A refused transaction keeps its age when it runs
//! again, so that it is the oldest in the end.
//! Paper: Rosenkrantz, Stearns and Lewis, System Level Concurrency Control, 1978.

use super::{Age, DeadlockPolicy, Refusal};

/// Refuses the wait for an older transaction.
#[derive(Debug)]
pub struct WaitDie;

impl DeadlockPolicy for WaitDie {
    fn compares_ages(&self) -> bool {
        true
    }

    fn refuses(&self, waiting: Age, blocker: Age) -> Option<Refusal> {
        (waiting > blocker).then_some(Refusal::WaitDie)
    }
}
