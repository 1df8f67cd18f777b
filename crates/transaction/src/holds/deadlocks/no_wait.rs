//! No waiting: a transaction that holds a lock does not wait for another one.
//! Paper: Bernstein, Hadzilacos and Goodman, 1987, §3.4. Differs: a refused call
//! does not ask again and again. It waits for the lock without holding any.

use super::{Age, DeadlockPolicy, Refusal};

/// Refuses each wait of a transaction that holds locks.
#[derive(Debug)]
pub struct NoWait;

impl DeadlockPolicy for NoWait {
    fn refuses(&self, _: Age, _: Age) -> Option<Refusal> {
        Some(Refusal::NoWait)
    }
}
