//! What a transaction does that would wait while it holds locks: one file a policy.
//! Source: Bernstein, Hadzilacos and Goodman, Concurrency Control and Recovery in Database Systems, 1987, §3.
//!
//! A refused transaction lets all its locks go. One that can run again then waits for the lock that it asked
//! for, with no lock in its hands; an open transaction of a client fails.
//! Invariant: under each policy, transactions that wait form no cycle. The cycle search (`Holds::wait`) runs
//! under all of them, because a queue may place an older transaction behind a younger one, and because a
//! transaction that changes definitions waits for each open one.
//! Held by: `crate::holds::tests` and `crates/reprise/tests/suite/waiting.rs`.

mod detect;
mod no_wait;
mod wait_die;

pub use detect::Detect;
pub use no_wait::NoWait;
pub use wait_die::WaitDie;

use std::fmt;

/// Why a transaction that holds locks does not wait for another lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The wait would close a cycle.
    Deadlock,
    /// The policy `no-wait` lets no transaction wait that holds a lock.
    NoWait,
    /// The policy `wait-die` lets no transaction wait for an older one.
    WaitDie,
}

/// The age of a transaction that holds locks: the less, the older.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Age(pub(super) u64);

/// A policy against deadlocks.
pub trait DeadlockPolicy: Sync + fmt::Debug {
    /// Returns whether the policy compares ages, so that transactions draw them.
    fn compares_ages(&self) -> bool {
        false
    }

    /// Returns the refusal of a transaction that holds locks and would wait for another transaction.
    fn refuses(&self, waiting: Age, blocker: Age) -> Option<Refusal>;
}
