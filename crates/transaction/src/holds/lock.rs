//! One lock: its holders, and the queue of the transactions that wait for it.
//!
//! Invariants: 1. no two holders have modes that conflict. 2. a transaction does not overtake one that waits
//! in a conflicting mode, unless it holds the lock already.
//! 3. no transaction waits that could have the lock.
//! Held by: `tests.rs` and `lock/tests.rs`.

#[cfg(test)]
mod tests;

use super::mode::Mode;
use std::collections::VecDeque;
use std::task::Waker;
use storage::Slot;

/// Whose a lock is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holder {
    /// The asking transaction's from now on.
    Newly,
    /// The asking transaction's already.
    Already,
    Foreign,
}

/// A transaction in the queue of a lock.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) worker: Slot,
    mode: Mode,
    pub(super) waker: Waker,
}

#[derive(Debug, Default)]
pub(super) struct Lock {
    pub(super) holders: Vec<(Slot, Mode)>,
    /// The transactions that wait for the lock, in the order in which they came; before them those that hold
    /// it in another mode.
    pub(super) queue: VecDeque<Waiter>,
}

impl Lock {
    /// Returns a lock that a worker's transaction holds.
    pub(super) fn of(worker: Slot, mode: Mode) -> Self {
        Self { holders: vec![(worker, mode)], queue: VecDeque::new() }
    }

    fn held_by(&self, worker: Slot) -> Option<Mode> {
        self.holders.iter().find(|(holder, _)| *holder == worker).map(|(_, mode)| *mode)
    }

    pub(super) fn covers(&self, worker: Slot, mode: Mode) -> bool {
        self.held_by(worker).is_some_and(|held| held.covers(mode))
    }

    /// Returns the transactions that a worker's transaction has to wait for: holders in a conflicting mode;
    /// for one that does not hold the lock, conflicting ones before it in the queue, too.
    pub(super) fn blockers(&self, worker: Slot, mode: Mode) -> impl Iterator<Item = Slot> {
        let is_covered = self.covers(worker, mode);
        let ahead = match self.held_by(worker) {
            Some(_) => 0,
            None => self.queue.iter().position(|waiter| waiter.worker == worker).unwrap_or(self.queue.len()),
        };
        let waiters = self.queue.iter().take(ahead).map(|waiter| (waiter.worker, waiter.mode));
        let all = self.holders.iter().copied().chain(waiters);
        all.filter(move |(other, held)| !is_covered && *other != worker && held.conflicts(mode))
            .map(|(other, _)| other)
    }

    pub(super) fn is_free(&self, worker: Slot, mode: Mode) -> bool {
        self.blockers(worker, mode).next().is_none()
    }

    pub(super) fn add(&mut self, worker: Slot, mode: Mode) -> Holder {
        self.leave_queue(worker);
        match self.holders.iter_mut().find(|(holder, _)| *holder == worker) {
            Some((_, held)) => {
                *held = held.and(mode);
                Holder::Already
            }
            None => {
                self.holders.push((worker, mode));
                Holder::Newly
            }
        }
    }

    pub(super) fn enqueue(&mut self, worker: Slot, mode: Mode, waker: &Waker) {
        match self.queue.iter_mut().find(|waiter| waiter.worker == worker) {
            Some(waiter) => {
                waiter.mode = waiter.mode.and(mode);
                waiter.waker.clone_from(waker);
            }
            None => {
                let waiter = Waiter { worker, mode, waker: waker.clone() };
                match self.held_by(worker) {
                    Some(_) => self.queue.push_front(waiter),
                    None => self.queue.push_back(waiter),
                }
            }
        }
    }

    pub(super) fn leave_queue(&mut self, worker: Slot) {
        self.queue.retain(|waiter| waiter.worker != worker);
    }

    /// Gives the lock to each transaction in the queue that can have it; returns their wakers. One that holds
    /// the lock already may be free while one before it is not: it waits for holders only.
    pub(super) fn grant(&mut self) -> Vec<Waker> {
        let (mut woken, mut index) = (Vec::new(), 0);
        while let Some(next) = self.queue.get(index) {
            if !self.is_free(next.worker, next.mode) {
                index += 1;
                continue;
            }
            let Some(Waiter { worker, mode, waker }) = self.queue.remove(index) else { break };
            self.add(worker, mode);
            woken.push(waker);
        }
        woken
    }
}
