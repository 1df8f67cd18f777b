//! The advisory locks of all connections.
//!
//! A connection may take a lock several times, and releases it as often. A lock belongs to the connection or
//! to its transaction. A connection that waits tries again after each release of any lock.
//! Invariants: 1. a lock that one connection holds exclusively is held by no other one. 2. connections that
//! wait for each other's advisory locks form no cycle: the wait that would close one is refused.
//! Held by: `crates/server/tests/suite/advisory.rs`.
//! Not here: cycles of waits that go through a row or key as well, which only a timeout ends.

use crate::hold;
use reprise::SqlError;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// The process number of the connection that holds or awaits a lock.
pub(crate) type Owner = i32;

/// The key of a lock: one number, or two. Keys of the two kinds are never equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Key {
    One(i64),
    Two(i32, i32),
}

/// How a lock is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mode {
    pub(crate) is_shared: bool,
    /// Whether the end of the transaction releases it.
    pub(crate) of_transaction: bool,
}

/// How often one connection holds a lock, by mode: exclusively, shared.
#[derive(Default)]
struct Holds {
    by_connection: [u32; 2],
    by_transaction: [u32; 2],
}

impl Holds {
    fn any(&self, is_shared: bool) -> bool {
        let index = usize::from(is_shared);
        self.by_connection[index] + self.by_transaction[index] > 0
    }

    fn is_empty(&self) -> bool {
        !self.any(false) && !self.any(true)
    }
}

#[derive(Default)]
struct State {
    locks: HashMap<Key, HashMap<Owner, Holds>>,
    /// The lock that each waiting connection requests.
    waits: HashMap<Owner, (Key, Mode)>,
}

impl State {
    /// Returns the connections whose holds conflict with a request.
    fn rivals(&self, owner: Owner, key: Key, mode: Mode) -> impl Iterator<Item = Owner> {
        let holders = self.locks.get(&key).into_iter().flatten();
        let rivals = holders.filter(move |(other, holds)| {
            **other != owner && (holds.any(false) || !mode.is_shared && holds.any(true))
        });
        rivals.map(|(other, _)| *other)
    }

    /// Returns whether a wait would close a cycle.
    fn closes_cycle(&self, owner: Owner, key: Key, mode: Mode) -> bool {
        let (mut seen, mut pending) = (HashSet::new(), vec![(owner, key, mode)]);
        while let Some((waiting, key, mode)) = pending.pop() {
            for rival in self.rivals(waiting, key, mode) {
                if rival == owner {
                    return true;
                }
                if let Some((key, mode)) = self.waits.get(&rival).filter(|_| seen.insert(rival)) {
                    pending.push((rival, *key, *mode));
                }
            }
        }
        false
    }

    /// Changes the holds of a connection, and removes empty entries.
    fn release(&mut self, owner: Owner, mut change: impl FnMut(&mut Holds)) {
        self.locks.retain(|_, holders| {
            if let Some(holds) = holders.get_mut(&owner) {
                change(holds);
                if holds.is_empty() {
                    holders.remove(&owner);
                }
            }
            !holders.is_empty()
        });
    }
}

/// The advisory locks of a server.
#[derive(Default)]
pub(crate) struct AdvisoryLocks {
    state: Mutex<State>,
    released: Notify,
}

/// A lock that a connection holds or waits for, as `pg_locks` shows it.
pub(crate) struct LockEntry {
    pub(crate) key: Key,
    pub(crate) owner: Owner,
    pub(crate) is_shared: bool,
    pub(crate) is_granted: bool,
}

impl Key {
    /// Returns the key as `pg_locks` shows it: two halves, and 1 for one number or 2 for two.
    pub(crate) fn parts(self) -> (i64, i64, i64) {
        match self {
            Self::One(key) => ((key >> 32) & 0xffff_ffff, key & 0xffff_ffff, 1),
            Self::Two(class, object) => (i64::from(class as u32), i64::from(object as u32), 2),
        }
    }
}

impl AdvisoryLocks {
    /// Returns the locks that connections hold and wait for.
    pub(crate) fn shown(&self) -> Vec<LockEntry> {
        let state = hold(&self.state);
        let mut all = Vec::new();
        for (key, holders) in &state.locks {
            for (owner, holds) in holders {
                for is_shared in [false, true] {
                    if holds.any(is_shared) {
                        all.push(LockEntry { key: *key, owner: *owner, is_shared, is_granted: true });
                    }
                }
            }
        }
        for (owner, (key, mode)) in &state.waits {
            all.push(LockEntry { key: *key, owner: *owner, is_shared: mode.is_shared, is_granted: false });
        }
        all
    }

    /// Returns a future that ends when a lock is released after this call.
    pub(crate) fn released(&self) -> Notified<'_> {
        self.released.notified()
    }
}

/// The advisory locks of a connection; dropped, it releases them.
pub(crate) struct ConnectionLocks {
    all: Arc<AdvisoryLocks>,
    owner: Owner,
    /// Whether the connection has ever taken a lock, so that the release of none costs nothing.
    has_any: bool,
}

impl ConnectionLocks {
    pub(crate) fn new(all: Arc<AdvisoryLocks>, owner: i32) -> Self {
        Self { all, owner, has_any: false }
    }

    /// Takes a lock; false if another connection holds it.
    pub(crate) fn try_take(&mut self, key: Key, mode: Mode) -> bool {
        let mut state = hold(&self.all.state);
        if state.rivals(self.owner, key, mode).next().is_some() {
            return false;
        }
        self.has_any = true;
        let holds = state.locks.entry(key).or_default().entry(self.owner).or_default();
        let counts = if mode.of_transaction { &mut holds.by_transaction } else { &mut holds.by_connection };
        counts[usize::from(mode.is_shared)] += 1;
        true
    }

    /// Notes that the connection waits for a lock, until `stop_waiting`.
    ///
    /// # Errors
    /// `40P01`: connections would wait for each other.
    pub(crate) fn wait_for(&self, key: Key, mode: Mode) -> Result<(), SqlError> {
        let mut state = hold(&self.all.state);
        if state.closes_cycle(self.owner, key, mode) {
            let hint = "Take advisory locks in the same order everywhere.";
            return Err(SqlError::new("40P01", "deadlock detected").with_hint(hint));
        }
        state.waits.insert(self.owner, (key, mode));
        Ok(())
    }

    pub(crate) fn stop_waiting(&self) {
        hold(&self.all.state).waits.remove(&self.owner);
    }

    /// Releases a lock once; false if the connection does not hold it for itself.
    pub(crate) fn release(&self, key: Key, is_shared: bool) -> bool {
        let mut state = hold(&self.all.state);
        let holds = state.locks.get_mut(&key).and_then(|holders| holders.get_mut(&self.owner));
        let Some(count) = holds.map(|holds| &mut holds.by_connection[usize::from(is_shared)]) else {
            return false;
        };
        if *count == 0 {
            return false;
        }
        *count -= 1;
        state.release(self.owner, |_| {});
        drop(state);
        self.all.released.notify_waiters();
        true
    }

    /// Releases the locks that the connection holds for itself.
    pub(crate) fn release_all(&self) {
        self.release_where(|holds| holds.by_connection = [0; 2]);
    }

    /// Releases the locks of the transaction.
    pub(crate) fn transaction_ended(&self) {
        self.release_where(|holds| holds.by_transaction = [0; 2]);
    }

    fn release_where(&self, change: impl FnMut(&mut Holds)) {
        if self.has_any {
            hold(&self.all.state).release(self.owner, change);
            self.all.released.notify_waiters();
        }
    }
}

impl Drop for ConnectionLocks {
    fn drop(&mut self) {
        self.release_where(|holds| *holds = Holds::default());
    }
}
