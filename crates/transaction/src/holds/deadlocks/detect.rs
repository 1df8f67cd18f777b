//! Detection: a transaction waits, unless its wait would close a cycle.
//! Paper: Gray et al., 1976. The search is `Holds::closes_cycle`, which runs before each wait.

use super::{Age, DeadlockPolicy, Refusal};

/// Refuses the wait that closes a cycle.
#[derive(Debug)]
pub struct Detect;

impl DeadlockPolicy for Detect {
    fn refuses(&self, _: Age, _: Age) -> Option<Refusal> {
        None
    }
}
