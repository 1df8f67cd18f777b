//! A lock under random requests, upgrades and releases.

use super::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const WORKERS: usize = 5;
const MODES: [Mode; 4] = [Mode::INTENT_SHARED, Mode::INTENT_EXCLUSIVE, Mode::SHARED, Mode::EXCLUSIVE];

impl Lock {
    /// Requests the lock as `Holds::hold` and `Holds::wait` do.
    fn request(&mut self, worker: Slot, mode: Mode) {
        match self.is_free(worker, mode) {
            true => _ = self.add(worker, mode),
            false => self.enqueue(worker, mode, Waker::noop()),
        }
    }

    fn release(&mut self, worker: Slot) {
        self.holders.retain(|(holder, _)| *holder != worker);
        self.leave_queue(worker);
        self.grant();
    }

    fn is_waiting(&self, worker: Slot) -> bool {
        self.queue.iter().any(|waiter| waiter.worker == worker)
    }

    fn check(&self) {
        for (index, (worker, mode)) in self.holders.iter().enumerate() {
            let mut later = self.holders[index + 1..].iter();
            assert!(later.all(|(other, held)| other != worker && !held.conflicts(*mode)), "{self:?}");
        }
        let free = self.queue.iter().find(|waiter| self.is_free(waiter.worker, waiter.mode));
        assert!(free.is_none(), "{free:?} waits for no transaction: {self:?}");
    }
}

#[test]
fn no_transaction_waits_that_could_have_the_lock() {
    for seed in 0..2_000 {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut lock = Lock::default();
        for _ in 0..60 {
            let worker = Slot(random.random_range(0..WORKERS));
            match random.random_range(0..10) {
                // A transaction that waits does nothing else, but for giving up.
                0..7 if !lock.is_waiting(worker) => lock.request(worker, MODES[random.random_range(0..4)]),
                7 => {
                    lock.leave_queue(worker);
                    lock.grant();
                }
                8.. => lock.release(worker),
                _ => {}
            }
            lock.check();
        }
    }
}

/// A holds IX and waits for S, for H. C holds IS and waits for S before A, for both. When H ends, A goes on.
#[test]
fn an_upgrade_is_granted_behind_one_that_waits_for_it() {
    let [a, h, c] = [Slot(0), Slot(1), Slot(2)];
    let mut lock = Lock::default();
    lock.request(a, Mode::INTENT_EXCLUSIVE);
    lock.request(h, Mode::INTENT_EXCLUSIVE);
    lock.request(a, Mode::SHARED);
    lock.request(c, Mode::INTENT_SHARED);
    lock.request(c, Mode::SHARED);
    assert!(lock.is_waiting(a) && lock.is_waiting(c));
    lock.release(h);
    assert!(!lock.is_waiting(a) && lock.is_waiting(c));
    lock.release(a);
    assert!(!lock.is_waiting(c));
}
