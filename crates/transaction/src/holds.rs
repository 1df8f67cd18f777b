//! Locks that running transactions hold, and the transactions that wait for them.
//!
//! A lock has a name of 64 bits: under OCC the address of a record, under 2PL a hash of a granule's key. Two
//! granules of one name share the lock. A record that a transaction has inserted names the transaction's
//! worker until the transaction ends. A transaction that comes to a lock or record of another one undoes its
//! statement and waits until the holder has ended.
//!
//! Example:
//! 1. A (worker 1) updates row r: `hold` gives r to A.
//! 2. B (worker 2) updates r: `hold` says that it is foreign. B undoes its statement, and `wait` puts B into
//!    the queue of r.
//! 3. C waits behind B.
//! 4. A ends: `release` gives r to B and wakes it. B runs its statement again; C goes on waiting, now for B.
//!
//! Invariants: 1. no two holders of a lock have modes that conflict, and a released lock goes to the
//! transactions that have waited longest.
//! 2. transactions that wait form no cycle: the wait that would close one is refused. 3. a transaction that
//! waits is woken when its blocker ends.
//! Held by: this file's tests, and `crates/reprise/tests/suite/waiting.rs`.
//! Not here: how a client's thread or task waits (`crates/reprise/src/worker/races.rs`).

pub(crate) mod deadlocks;
mod lock;
mod mode;
#[cfg(test)]
mod tests;

pub use deadlocks::{DeadlockPolicy, Refusal};
pub(crate) use lock::Holder;
pub use mode::Mode;

use crate::heat::Heat;
use crossbeam_utils::CachePadded;
use deadlocks::Age;
use lock::Lock;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use storage::Slot;

const SHARD_BITS: u32 = 6;
const FILTER_BITS: u32 = 10;

/// The transaction that another one has to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blocker {
    /// The one that holds a lock.
    Lock {
        /// The lock's name.
        name: u64,
        /// The mode that the waiting transaction asks for.
        mode: Mode,
    },
    /// The one that its worker has numbered so.
    Transaction {
        /// The worker.
        worker: Slot,
        /// How many transactions with inserts the worker has ended before.
        number: u64,
    },
}

/// The end of a worker's transaction, which other transactions wait for.
#[derive(Debug, Default)]
struct End {
    /// Transactions with inserts that have ended.
    number: AtomicU64,
    is_awaited: AtomicBool,
    queue: Mutex<Vec<(Slot, Waker)>>,
}

/// What one transaction waits for.
#[derive(Clone, Copy, Debug)]
struct Wait {
    blocker: Blocker,
    /// Whether the transaction stays open while it waits.
    is_open: bool,
}

/// The transactions that wait.
#[derive(Debug, Default)]
struct Waits {
    /// What each of them waits for, by its worker.
    by_worker: HashMap<usize, Wait>,
    /// The worker whose transaction waits until no other one is open.
    for_all: Option<Slot>,
}

/// A transaction waits until no other one is open, until this is dropped.
#[must_use]
pub struct AwaitsAll<'a>(&'a Holds);

impl Drop for AwaitsAll<'_> {
    fn drop(&mut self) {
        lock(&self.0.waits).for_all = None;
    }
}

/// Held locks, and transactions that wait.
#[derive(Debug)]
pub struct Holds {
    /// Held locks by a hash of their name. Most transactions find 0 there, and go on.
    filter: Box<[AtomicU32]>,
    locks: Box<[Mutex<HashMap<u64, Lock, BuildNameHasher>>]>,
    ends: Box<[CachePadded<End>]>,
    waits: Mutex<Waits>,
    policy: &'static dyn DeadlockPolicy,
    /// The age of each worker's transaction that holds locks; 0 where none does.
    ages: Box<[CachePadded<AtomicU64>]>,
    last_age: AtomicU64,
    pub(crate) heat: Heat,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hashes the name of a lock, which is an address or a hash already.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct NameHasher(u64);

pub(crate) type BuildNameHasher = BuildHasherDefault<NameHasher>;

impl Hasher for NameHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, name: u64) {
        self.0 = (self.0 ^ name).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

/// The high bits of an address' hash.
pub(crate) fn hash(address: u64, bits: u32) -> usize {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - bits)) as usize
}

impl Holds {
    /// Returns an empty table for the transactions of a number of workers.
    pub fn new(workers: usize, policy: &'static dyn DeadlockPolicy) -> Self {
        Self {
            filter: (0..1 << FILTER_BITS).map(|_| AtomicU32::default()).collect(),
            locks: (0..1 << SHARD_BITS).map(|_| Mutex::default()).collect(),
            ends: (0..workers).map(|_| CachePadded::default()).collect(),
            waits: Mutex::default(),
            policy,
            ages: (0..workers).map(|_| CachePadded::default()).collect(),
            last_age: AtomicU64::new(0),
            heat: Heat::new(),
        }
    }

    fn shard(&self, name: u64) -> MutexGuard<'_, HashMap<u64, Lock, BuildNameHasher>> {
        lock(&self.locks[hash(name, SHARD_BITS)])
    }

    fn count(&self, name: u64) -> &AtomicU32 {
        &self.filter[hash(name, FILTER_BITS)]
    }

    /// Returns whether another transaction than the worker's holds a lock.
    #[inline]
    pub(crate) fn is_foreign(&self, name: u64, worker: Slot) -> bool {
        self.count(name).load(Ordering::Relaxed) > 0 && self.has_other_holder(name, worker)
    }

    /// Returns whether another transaction than the worker's holds a lock in a mode that conflicts with this
    /// one.
    pub(crate) fn is_foreign_in(&self, name: u64, mode: Mode, worker: Slot) -> bool {
        self.is_foreign(name, worker) && {
            let shard = self.shard(name);
            let conflicts = |(holder, held): &(Slot, Mode)| *holder != worker && held.conflicts(mode);
            shard.get(&name).is_some_and(|lock| lock.holders.iter().any(conflicts))
        }
    }

    /// Returns whether a transaction holds a lock.
    pub(crate) fn is_held(&self, name: u64) -> bool {
        // A lock without holders is removed. The mutex orders this with each call of `hold`.
        self.shard(name).contains_key(&name)
    }

    fn has_other_holder(&self, name: u64, worker: Slot) -> bool {
        let shard = self.shard(name);
        shard.get(&name).is_some_and(|lock| lock.holders.iter().any(|(holder, _)| *holder != worker))
    }

    /// Gives a lock to the worker's transaction, unless another one is in the way.
    pub(crate) fn hold(&self, name: u64, mode: Mode, worker: Slot) -> Holder {
        match self.shard(name).entry(name) {
            Entry::Vacant(entry) => {
                entry.insert(Lock::of(worker, mode));
                self.count(name).fetch_add(1, Ordering::SeqCst);
                Holder::Newly
            }
            Entry::Occupied(mut entry) => match entry.get() {
                lock if lock.covers(worker, mode) => Holder::Already,
                lock if lock.is_free(worker, mode) => entry.get_mut().add(worker, mode),
                _ => Holder::Foreign,
            },
        }
    }

    /// Takes a lock from the worker's transaction, and the transaction from the lock's queue.
    pub(crate) fn release(&self, name: u64, worker: Slot) {
        self.change(name, |lock| {
            lock.holders.retain(|(holder, _)| *holder != worker);
            lock.leave_queue(worker);
        });
    }

    /// Changes a lock, and gives it to those that can have it then.
    fn change(&self, name: u64, change: impl FnOnce(&mut Lock)) {
        let mut shard = self.shard(name);
        let Some(lock) = shard.get_mut(&name) else { return };
        change(lock);
        let woken = lock.grant();
        if lock.holders.is_empty() {
            shard.remove(&name);
            self.count(name).fetch_sub(1, Ordering::SeqCst);
        }
        drop(shard);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Notes that a worker's transaction is about to take its first lock. Returns its age: `age`, unless the
    /// transaction has none yet (0).
    pub(crate) fn enter(&self, worker: Slot, age: u64) -> u64 {
        let age = match age {
            0 if self.policy.compares_ages() => self.last_age.fetch_add(1, Ordering::Relaxed) + 1,
            0 => 1,
            drawn => drawn,
        };
        self.ages[worker.0].store(age, Ordering::SeqCst);
        age
    }

    /// Notes that a worker's transaction holds no lock any more.
    pub(crate) fn leave(&self, worker: Slot) {
        self.ages[worker.0].store(0, Ordering::SeqCst);
    }

    /// Returns the age of a worker's transaction if it holds locks.
    fn age(&self, worker: Slot) -> Option<Age> {
        let age = self.ages[worker.0].load(Ordering::SeqCst);
        (age > 0).then_some(Age(age))
    }

    /// Returns why a worker's transaction may not wait. The policy decides first: it refuses some waits that
    /// would close a cycle, too.
    fn refusal(&self, waits: &Waits, wait: Wait, worker: Slot) -> Option<Refusal> {
        let by_policy = self.refusal_by_policy(wait, worker);
        by_policy.or_else(|| self.closes_cycle(waits, wait, worker).then_some(Refusal::Deadlock))
    }

    fn refusal_by_policy(&self, wait: Wait, worker: Slot) -> Option<Refusal> {
        // A transaction without locks is in no cycle, so any other one may wait for it, and it for any.
        let waiting = self.age(worker)?;
        let blockers = self.workers_of(wait.blocker, worker);
        blockers.into_iter().find_map(|blocker| self.policy.refuses(waiting, self.age(blocker)?))
    }

    /// How many transactions with inserts a worker has ended.
    pub(crate) fn number(&self, worker: Slot) -> u64 {
        self.ends[worker.0].number.load(Ordering::SeqCst)
    }

    /// The worker's transaction, which has inserted records, has ended: they name it no longer.
    #[inline]
    pub(crate) fn ended(&self, worker: Slot) {
        let end = &self.ends[worker.0];
        // ORDERING: SeqCst, before `is_awaited` is read; pairs with `await_end`, which writes that before it
        // reads the number. One of the two sees what the other has written.
        end.number.fetch_add(1, Ordering::SeqCst);
        if end.is_awaited.load(Ordering::SeqCst) {
            let mut queue = lock(&end.queue);
            end.is_awaited.store(false, Ordering::SeqCst);
            let woken = std::mem::take(&mut *queue);
            drop(queue);
            woken.into_iter().for_each(|(_, waker)| waker.wake());
        }
    }

    /// Has a waker called once the blocker of a worker's transaction has ended. Returns false when it has
    /// ended already, or the lock is the transaction's own by now. `is_open` says whether the transaction
    /// stays open while it waits.
    ///
    /// # Errors
    /// The blocker waits for this transaction, directly or not; or the policy lets no transaction wait that
    /// holds what this one holds.
    pub fn wait(
        &self,
        blocker: Blocker,
        worker: Slot,
        is_open: bool,
        waker: &Waker,
    ) -> Result<bool, Refusal> {
        let mut waits = lock(&self.waits);
        let wait = Wait { blocker, is_open };
        if let Some(refusal) = self.refusal(&waits, wait, worker) {
            waits.by_worker.remove(&worker.0);
            return Err(refusal);
        }
        let is_waiting = match blocker {
            Blocker::Lock { name, mode } => match self.shard(name).get_mut(&name) {
                Some(lock) if !lock.covers(worker, mode) && !lock.is_free(worker, mode) => {
                    lock.enqueue(worker, mode, waker);
                    true
                }
                _ => false,
            },
            Blocker::Transaction { worker: holder, number } => self.await_end(holder, number, worker, waker),
        };
        match is_waiting {
            true => waits.by_worker.insert(worker.0, wait),
            false => waits.by_worker.remove(&worker.0),
        };
        Ok(is_waiting)
    }

    /// The worker's transaction waits until no other one is open, as one that changes definitions does when
    /// it commits. An open transaction that waits for it, now or later, is refused by `wait`.
    pub fn await_all(&self, worker: Slot) -> AwaitsAll<'_> {
        let mut waits = lock(&self.waits);
        waits.for_all = Some(worker);
        let open = waits.by_worker.iter().filter(|(_, wait)| wait.is_open);
        let woken: Vec<Waker> =
            open.filter_map(|(waiting, wait)| self.waker_of(Slot(*waiting), wait.blocker)).collect();
        drop(waits);
        woken.into_iter().for_each(Waker::wake);
        AwaitsAll(self)
    }

    fn waker_of(&self, waiting: Slot, blocker: Blocker) -> Option<Waker> {
        let is_own = |(own, _): &&(Slot, Waker)| *own == waiting;
        match blocker {
            Blocker::Lock { name, .. } => {
                let shard = self.shard(name);
                let mut queue = shard.get(&name)?.queue.iter();
                queue.find(|waiter| waiter.worker == waiting).map(|waiter| waiter.waker.clone())
            }
            Blocker::Transaction { worker, .. } => {
                lock(&self.ends[worker.0].queue).iter().find(is_own).map(|(_, own)| own.clone())
            }
        }
    }

    fn await_end(&self, holder: Slot, number: u64, worker: Slot, waker: &Waker) -> bool {
        let end = &self.ends[holder.0];
        let mut queue = lock(&end.queue);
        queue.retain(|(own, _)| *own != worker);
        queue.push((worker, waker.clone()));
        end.is_awaited.store(true, Ordering::SeqCst);
        // ORDERING: SeqCst, after `is_awaited` is written; see `ended`.
        let is_running = end.number.load(Ordering::SeqCst) == number;
        if !is_running {
            queue.pop();
        }
        is_running
    }

    /// The worker's transaction waits no longer. A lock that it was given meanwhile stays its own until
    /// `release`.
    pub fn stop_waiting(&self, worker: Slot) {
        let Some(wait) = lock(&self.waits).by_worker.remove(&worker.0) else { return };
        match wait.blocker {
            Blocker::Lock { name, .. } => self.change(name, |lock| lock.leave_queue(worker)),
            Blocker::Transaction { worker: holder, .. } => {
                lock(&self.ends[holder.0].queue).retain(|(own, _)| *own != worker);
            }
        }
    }

    /// Returns the workers whose running transactions a worker's transaction would wait for.
    fn workers_of(&self, blocker: Blocker, waiting: Slot) -> Vec<Slot> {
        match blocker {
            Blocker::Lock { name, mode } => {
                let shard = self.shard(name);
                shard.get(&name).map_or_else(Vec::new, |lock| lock.blockers(waiting, mode).collect())
            }
            Blocker::Transaction { worker, number } => match self.number(worker) == number {
                true if worker != waiting => vec![worker],
                _ => Vec::new(),
            },
        }
    }

    /// Returns whether a worker's transaction would wait for itself. While `waits` is locked, no transaction
    /// on the way ends: those that wait would have to stop waiting first, and the last one is the asking
    /// transaction.
    fn closes_cycle(&self, waits: &Waits, wait: Wait, worker: Slot) -> bool {
        let awaited = |wait: Wait, of: Slot, is_awaited: bool| {
            self.workers_of(wait.blocker, of).into_iter().map(move |holder| (holder, is_awaited))
        };
        let mut next: Vec<(Slot, bool)> = awaited(wait, worker, wait.is_open).collect();
        let mut seen = HashSet::new();
        while let Some((holder, is_awaited)) = next.pop() {
            if holder == worker || is_awaited && waits.for_all == Some(holder) {
                return true;
            }
            if !seen.insert((holder.0, is_awaited)) {
                continue;
            }
            if let Some(wait) = waits.by_worker.get(&holder.0) {
                // Where an open transaction is on the way, that one is refused.
                next.extend(awaited(*wait, holder, is_awaited && !wait.is_open));
            }
        }
        false
    }
}
