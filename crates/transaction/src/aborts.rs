//! Aborts by reason: how often an attempt of a transaction or statement was undone, and why.
//!
//! Not here: errors of statements, which are no aborts (`Statistics::failed`).

use crate::holds::Refusal;
use procedure::Conflict;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why an attempt was undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AbortReason {
    /// A row that it had read has changed.
    Read,
    /// A range that it had scanned, or a key that it had found absent, has changed.
    Phantom,
    /// Another commit kept a row of its write set locked.
    Write,
    /// Another transaction was inserting or deleting a key that it inserts.
    Insert,
    /// It met a lock of another transaction, and waits.
    Wait,
    /// Its wait would have closed a cycle.
    Deadlock,
    /// It held locks and would have waited for an older transaction.
    WaitDie,
    /// It held locks and would have waited.
    NoWait,
    /// It waited longer than `lock_timeout`.
    LockTimeout,
}

impl AbortReason {
    /// All reasons with their names in statistics, in the order of `self as usize`.
    pub const NAMES: [(&str, Self); 9] = [
        ("read", Self::Read),
        ("phantom", Self::Phantom),
        ("write", Self::Write),
        ("insert", Self::Insert),
        ("wait", Self::Wait),
        ("deadlock", Self::Deadlock),
        ("wait-die", Self::WaitDie),
        ("no-wait", Self::NoWait),
        ("lock-timeout", Self::LockTimeout),
    ];
}

impl From<Conflict> for AbortReason {
    fn from(conflict: Conflict) -> Self {
        match conflict {
            Conflict::Read => Self::Read,
            Conflict::Phantom => Self::Phantom,
            Conflict::Write => Self::Write,
            Conflict::Insert => Self::Insert,
            // `Held`, and what `Conflict` may hold in the future: another transaction is in the way.
            _ => Self::Wait,
        }
    }
}

impl From<Refusal> for AbortReason {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Deadlock => Self::Deadlock,
            Refusal::NoWait => Self::NoWait,
            Refusal::WaitDie => Self::WaitDie,
        }
    }
}

/// Numbers of aborts, one a reason.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Aborts([u64; AbortReason::NAMES.len()]);

impl Aborts {
    /// Returns the number of aborts for a reason.
    pub fn of(&self, reason: AbortReason) -> u64 {
        self.0[reason as usize]
    }

    /// Returns the name and number of each reason.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        AbortReason::NAMES.iter().zip(self.0).map(|((name, _), count)| (*name, count))
    }

    /// Returns the aborts since an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|reason| self.0[reason] - earlier.0[reason]))
    }
}

/// The aborts of all workers.
#[derive(Default, Debug)]
pub struct AbortCounters([AtomicU64; AbortReason::NAMES.len()]);

impl AbortCounters {
    /// Counts an abort.
    #[cold]
    pub fn count(&self, reason: impl Into<AbortReason>) {
        self.0[reason.into() as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the numbers so far.
    pub fn get(&self) -> Aborts {
        Aborts(std::array::from_fn(|reason| self.0[reason].load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_counted_under_its_name() {
        let counters = AbortCounters::default();
        for (place, (_, reason)) in AbortReason::NAMES.iter().enumerate() {
            (0..=place).for_each(|_| counters.count(*reason));
        }
        let aborts = counters.get();
        for (place, (name, reason)) in AbortReason::NAMES.iter().enumerate() {
            assert_eq!(aborts.of(*reason), place as u64 + 1);
            assert_eq!(aborts.iter().nth(place), Some((*name, place as u64 + 1)));
        }
        assert!(aborts.since(&aborts).iter().all(|(_, count)| count == 0));
    }
}
