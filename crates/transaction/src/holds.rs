//! Rows and keys that running transactions hold, and the transactions that wait for them.
//!
//! A transaction of several statements holds each row from the statement on that writes it or selects it FOR
//! UPDATE. A record that a transaction has inserted names the transaction's worker until the transaction
//! ends. A transaction that comes to such a row or key undoes its statement and waits until the holder has
//! ended. Validation alone decides what commits; holds only make lost races rare.
//!
//! Example:
//! 1. A (worker 1) updates row r: `hold` gives r to A.
//! 2. B (worker 2) updates r: `hold` says that it is foreign. B undoes its statement, and `wait` puts B into
//!    the queue of r.
//! 3. C waits behind B.
//! 4. A ends: `release` gives r to B and wakes it. B runs its statement again; C goes on waiting, now for B.
//!
//! Invariants: 1. a row has one holder, and a released row goes to the transaction that has waited longest.
//! 2. transactions that wait form no cycle: the wait that would close one is refused. 3. a transaction that
//! waits is woken when its blocker ends.
//! Held by: this file's tests, and `crates/reprise/tests/suite/waiting.rs`.
//! Not here: how a client's thread or task waits (`crates/reprise/src/session/waiting.rs`).

#[cfg(test)]
mod tests;

use crate::heat::Heat;
use crossbeam_utils::CachePadded;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use storage::Slot;

const SHARD_BITS: u32 = 6;
const FILTER_BITS: u32 = 10;

/// The transaction that another one has to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blocker {
    /// The one that holds the row at an address.
    Row(u64),
    /// The one that its worker has numbered so.
    Transaction {
        /// The worker.
        worker: Slot,
        /// How many transactions with inserts the worker has ended before.
        number: u64,
    },
}

/// The transactions that wait would wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadlock;

/// Whose a row is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holder {
    /// The asking transaction's from now on.
    Newly,
    /// The asking transaction's already.
    Already,
    Foreign,
}

#[derive(Debug)]
struct HeldRow {
    holder: Slot,
    /// The transactions that wait for the row, in the order in which they came.
    queue: VecDeque<(Slot, Waker)>,
}

/// The end of a worker's transaction, as others wait for it.
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

/// Held rows, and transactions that wait.
#[derive(Debug)]
pub struct Holds {
    /// Held rows by a hash of their address. Most transactions find 0 there, and go on.
    filter: Box<[AtomicU32]>,
    rows: Box<[Mutex<HashMap<u64, HeldRow>>]>,
    ends: Box<[CachePadded<End>]>,
    waits: Mutex<Waits>,
    pub(crate) heat: Heat,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The high bits of an address' hash.
pub(crate) fn hash(address: u64, bits: u32) -> usize {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - bits)) as usize
}

impl Holds {
    /// Nothing is held. There is room for the transactions of a number of workers.
    pub fn new(workers: usize) -> Self {
        Self {
            filter: (0..1 << FILTER_BITS).map(|_| AtomicU32::default()).collect(),
            rows: (0..1 << SHARD_BITS).map(|_| Mutex::default()).collect(),
            ends: (0..workers).map(|_| CachePadded::default()).collect(),
            waits: Mutex::default(),
            heat: Heat::new(),
        }
    }

    fn shard(&self, address: u64) -> MutexGuard<'_, HashMap<u64, HeldRow>> {
        lock(&self.rows[hash(address, SHARD_BITS)])
    }

    fn count(&self, address: u64) -> &AtomicU32 {
        &self.filter[hash(address, FILTER_BITS)]
    }

    /// Whether another transaction than the worker's holds a row.
    #[inline]
    pub(crate) fn is_foreign(&self, address: u64, worker: Slot) -> bool {
        self.count(address).load(Ordering::Relaxed) > 0
            && self.holder_of(address).is_some_and(|own| own != worker)
    }

    fn holder_of(&self, address: u64) -> Option<Slot> {
        self.shard(address).get(&address).map(|row| row.holder)
    }

    /// Gives a row to the worker's transaction, unless another one holds it.
    pub(crate) fn hold(&self, address: u64, worker: Slot) -> Holder {
        match self.shard(address).entry(address) {
            Entry::Vacant(entry) => {
                entry.insert(HeldRow { holder: worker, queue: VecDeque::new() });
                self.count(address).fetch_add(1, Ordering::SeqCst);
                Holder::Newly
            }
            Entry::Occupied(entry) => match entry.get().holder == worker {
                true => Holder::Already,
                false => Holder::Foreign,
            },
        }
    }

    /// Takes a row from the worker's transaction, or the transaction from the row's queue.
    pub(crate) fn release(&self, address: u64, worker: Slot) {
        let mut shard = self.shard(address);
        let Some(row) = shard.get_mut(&address) else { return };
        if row.holder != worker {
            row.queue.retain(|(own, _)| *own != worker);
            return;
        }
        match row.queue.pop_front() {
            Some((next, waker)) => {
                row.holder = next;
                drop(shard);
                waker.wake();
            }
            None => {
                shard.remove(&address);
                self.count(address).fetch_sub(1, Ordering::SeqCst);
            }
        }
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
    /// ended already, or the row is the transaction's own by now. `is_open` says whether the transaction
    /// stays open while it waits.
    ///
    /// # Errors
    /// The blocker waits for this transaction, directly or not.
    pub fn wait(
        &self,
        blocker: Blocker,
        worker: Slot,
        is_open: bool,
        waker: &Waker,
    ) -> Result<bool, Deadlock> {
        let mut waits = lock(&self.waits);
        let wait = Wait { blocker, is_open };
        if self.closes_cycle(&waits, wait, worker) {
            waits.by_worker.remove(&worker.0);
            return Err(Deadlock);
        }
        let is_waiting = match blocker {
            Blocker::Row(address) => match self.shard(address).get_mut(&address) {
                Some(row) if row.holder != worker => {
                    match row.queue.iter_mut().find(|(own, _)| *own == worker) {
                        Some((_, own)) => own.clone_from(waker),
                        None => row.queue.push_back((worker, waker.clone())),
                    }
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
            Blocker::Row(address) => {
                self.shard(address).get(&address)?.queue.iter().find(is_own).map(|(_, own)| own.clone())
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

    /// The worker's transaction waits no longer. A row that it was given meanwhile stays its own until
    /// `release`.
    pub fn stop_waiting(&self, worker: Slot) {
        let Some(wait) = lock(&self.waits).by_worker.remove(&worker.0) else { return };
        match wait.blocker {
            Blocker::Row(address) => {
                if let Some(row) = self.shard(address).get_mut(&address) {
                    row.queue.retain(|(own, _)| *own != worker);
                }
            }
            Blocker::Transaction { worker: holder, .. } => {
                lock(&self.ends[holder.0].queue).retain(|(own, _)| *own != worker);
            }
        }
    }

    /// The worker whose transaction a blocker is, while it runs.
    fn worker_of(&self, blocker: Blocker) -> Option<Slot> {
        match blocker {
            Blocker::Row(address) => self.holder_of(address),
            Blocker::Transaction { worker, number } => (self.number(worker) == number).then_some(worker),
        }
    }

    /// Whether a worker's transaction would wait for itself. While `waits` is locked, no transaction on the
    /// way ends: those that wait would have to stop waiting first, and the last one is the asking
    /// transaction.
    fn closes_cycle(&self, waits: &Waits, wait: Wait, worker: Slot) -> bool {
        let mut next = self.worker_of(wait.blocker).filter(|holder| *holder != worker);
        let mut is_awaited = wait.is_open;
        for _ in 0..self.ends.len() {
            let Some(holder) = next else { return false };
            if is_awaited && waits.for_all == Some(holder) {
                return true;
            }
            let Some(wait) = waits.by_worker.get(&holder.0) else { return false };
            // Where an open transaction is on the way, that one is refused.
            is_awaited &= !wait.is_open;
            next = self.worker_of(wait.blocker);
            match next {
                Some(own) if own == worker => return true,
                // It was woken, and has not looked yet.
                Some(own) if own == holder => return false,
                _ => {}
            }
        }
        false
    }
}
