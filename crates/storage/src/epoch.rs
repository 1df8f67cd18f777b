//! The clock of commit orders and epochs, and what every worker publishes of where it stands.
//! Paper: Silo §4.1 (epochs). Differs: order and epoch are drawn from one word.
//!
//! Invariants:
//! 1. Once `open_from` has returned an order for a set of workers, none of them draws or still logs an
//!    earlier one; so `completed` epochs are complete. Held by: `a_completed_epoch_is_never_joined` (loom).
//! 2. Memory retired in an epoch before `oldest_active` is seen by no worker. Held by:
//!    `an_active_reader_keeps_what_it_sees` (loom).

use crate::sync::{AtomicBool, AtomicU64, Ordering, fence, spin_loop};
use catalog::{CommitOrder, Epoch};
use crossbeam_utils::CachePadded;

const IDLE: u64 = u64::MAX;

/// A worker's place among the workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot(pub usize);

#[derive(Debug)]
struct WorkerState {
    taken: AtomicBool,
    /// Epoch in which the worker began to look at shared memory.
    active: AtomicU64,
    /// Lower bound of the orders that the worker may draw or still logs.
    committing: AtomicU64,
}

/// The clock and the workers.
#[derive(Debug)]
pub struct Epochs {
    clock: CachePadded<AtomicU64>,
    workers: Box<[CachePadded<WorkerState>]>,
}

/// The first order of an epoch. A clock that wrapped would free what active workers see.
fn first_of(epoch: Epoch) -> u64 {
    assert!(epoch.0 < CommitOrder::EPOCH_LIMIT, "epoch {} is above all that orders can hold", epoch.0);
    CommitOrder::first_of(epoch).0
}

impl Epochs {
    /// A clock that stands at an epoch, with room for a number of workers.
    pub fn new(first: Epoch, workers: usize) -> Self {
        let worker = || {
            CachePadded::new(WorkerState {
                taken: AtomicBool::new(false),
                active: AtomicU64::new(IDLE),
                committing: AtomicU64::new(IDLE),
            })
        };
        Self {
            clock: CachePadded::new(AtomicU64::new(first_of(first))),
            workers: (0..workers).map(|_| worker()).collect(),
        }
    }

    /// Room for workers.
    pub fn capacity(&self) -> usize {
        self.workers.len()
    }

    /// Takes a free slot; `None` when all are taken.
    pub fn register(&self) -> Option<Slot> {
        self.workers.iter().position(|worker| !worker.taken.swap(true, Ordering::AcqRel)).map(Slot)
    }

    /// Gives a slot back.
    ///
    /// # Safety
    /// The caller has registered the slot, and uses it no more.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn unregister(&self, slot: Slot) {
        let worker = &self.workers[slot.0];
        debug_assert_eq!(worker.active.load(Ordering::Relaxed), IDLE);
        worker.taken.store(false, Ordering::Release);
    }

    /// The epoch of the clock.
    #[inline]
    pub fn current(&self) -> Epoch {
        CommitOrder(self.clock.load(Ordering::SeqCst)).epoch()
    }

    /// The order that will be drawn next.
    pub fn next_order(&self) -> CommitOrder {
        CommitOrder(self.clock.load(Ordering::SeqCst))
    }

    /// Ends an epoch, if the clock still stands in it, and returns the one that the clock is in now.
    pub fn advance_from(&self, epoch: Epoch) -> Epoch {
        let mut word = self.clock.load(Ordering::SeqCst);
        while CommitOrder(word).epoch() <= epoch {
            let next = first_of(Epoch(CommitOrder(word).epoch().0 + 1));
            match self.clock.compare_exchange(word, next, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return CommitOrder(next).epoch(),
                Err(changed) => word = changed,
            }
        }
        CommitOrder(word).epoch()
    }

    /// Moves the clock to an epoch that recovery found, or leaves it where it is when that is past.
    pub fn advance_to(&self, epoch: Epoch) {
        self.clock.fetch_max(first_of(epoch), Ordering::SeqCst);
    }

    /// Begins to look at shared memory.
    ///
    /// # Safety
    /// The caller has registered the slot, and holds no pointer into shared memory.
    #[allow(unsafe_code)]
    #[inline]
    pub(crate) unsafe fn enter(&self, slot: Slot) {
        let epoch = self.current().0;
        self.workers[slot.0].active.store(epoch, Ordering::SeqCst);
        // ORDERING: loads of shared pointers stay below the store; pairs with the fence in `oldest_active`.
        fence(Ordering::SeqCst);
    }

    /// Stops looking at shared memory.
    ///
    /// # Safety
    /// The caller has registered the slot, and holds no pointer into shared memory any more.
    #[allow(unsafe_code)]
    #[inline]
    pub(crate) unsafe fn exit(&self, slot: Slot) {
        self.workers[slot.0].active.store(IDLE, Ordering::Release);
    }

    /// Announces that an order will be drawn.
    #[inline]
    pub fn begin_commit(&self, slot: Slot) {
        let order = self.next_order().0;
        // ORDERING: SeqCst, before the draw: either `open_from` sees this, or the draw sees the clock that
        // `open_from` read before it looked here.
        self.workers[slot.0].committing.store(order, Ordering::SeqCst);
    }

    /// Draws the next place in the serial order. Between `begin_commit` and `end_commit` only.
    #[inline]
    pub fn draw(&self) -> CommitOrder {
        loop {
            let order = CommitOrder(self.clock.fetch_add(1, Ordering::SeqCst));
            if order.sequence() < CommitOrder::SEQUENCE_LIMIT {
                return order;
            }
            // Millions of commits in one epoch: the transaction that finds it so ends it.
            self.advance_from(order.epoch());
            spin_loop();
        }
    }

    /// The drawn order's record is where it belongs.
    #[inline]
    pub fn end_commit(&self, slot: Slot) {
        self.workers[slot.0].committing.store(IDLE, Ordering::SeqCst);
    }

    /// The least order that one of the workers that `serves` names may still draw or log.
    pub fn open_from(&self, serves: impl Fn(Slot) -> bool) -> CommitOrder {
        let mut open = self.next_order().0;
        for (index, worker) in self.workers.iter().enumerate() {
            if serves(Slot(index)) {
                open = open.min(worker.committing.load(Ordering::SeqCst));
            }
        }
        CommitOrder(open)
    }

    /// The last epoch that is complete for the workers that `serves` names: all their orders of it are drawn
    /// and logged.
    pub fn completed(&self, serves: impl Fn(Slot) -> bool) -> Epoch {
        Epoch(self.open_from(serves).epoch().0 - 1)
    }

    /// Whether no worker but one looks at shared memory. Who enters after this call sees what its caller
    /// wrote before.
    pub fn is_quiet(&self, but: Slot) -> bool {
        fence(Ordering::SeqCst);
        self.workers
            .iter()
            .enumerate()
            .all(|(index, worker)| index == but.0 || worker.active.load(Ordering::SeqCst) == IDLE)
    }

    /// The earliest epoch in which an active worker began; the current one when none is active.
    pub fn oldest_active(&self) -> Epoch {
        // ORDERING: what was unlinked before this call is seen by every worker that enters after it.
        fence(Ordering::SeqCst);
        let now = self.current().0;
        let oldest = self.workers.iter().map(|worker| worker.active.load(Ordering::SeqCst)).min();
        Epoch(oldest.unwrap_or(IDLE).min(now))
    }
}

#[cfg(all(test, not(loom)))]
#[allow(unsafe_code)]
mod tests {
    use super::*;

    #[test]
    fn orders_rise_and_carry_their_epoch() {
        let epochs = Epochs::new(Epoch(3), 2);
        let slot = epochs.register().unwrap();
        epochs.begin_commit(slot);
        let first = epochs.draw();
        assert_eq!(first.epoch(), Epoch(3));
        assert_eq!(epochs.advance_from(Epoch(3)), Epoch(4));
        assert_eq!(epochs.advance_from(Epoch(3)), Epoch(4), "an ended epoch ends once");
        assert_eq!(epochs.completed(|_| true), Epoch(2), "the worker may still log in 3");
        assert_eq!(epochs.completed(|other| other != slot), Epoch(3));
        epochs.end_commit(slot);
        assert_eq!(epochs.completed(|_| true), Epoch(3));
        assert!(epochs.draw() > first);
        // SAFETY: registered above.
        unsafe { epochs.unregister(slot) };
        assert!(epochs.register().is_some() && epochs.register().is_some());
        assert!(epochs.register().is_none());
    }
}

#[cfg(all(test, loom))]
#[allow(unsafe_code)]
mod tests {
    use super::*;
    use loom::{sync::Arc, thread};

    #[test]
    fn a_completed_epoch_is_never_joined() {
        loom::model(|| {
            let epochs = Arc::new(Epochs::new(Epoch(1), 1));
            let slot = epochs.register().expect("a slot");
            let logged = Arc::new(AtomicU64::new(0));
            let worker = {
                let (epochs, logged) = (Arc::clone(&epochs), Arc::clone(&logged));
                thread::spawn(move || {
                    epochs.begin_commit(slot);
                    let order = epochs.draw();
                    logged.store(order.0 + 1, Ordering::Relaxed);
                    epochs.end_commit(slot);
                    order
                })
            };
            epochs.advance_from(epochs.current());
            let completed = epochs.completed(|_| true);
            let seen = logged.load(Ordering::Relaxed);
            let order = worker.join().expect("the worker");
            if order.epoch() <= completed {
                assert_eq!(seen, order.0 + 1, "an order of a completed epoch was not logged");
            }
        });
    }

    #[test]
    fn an_active_reader_keeps_what_it_sees() {
        loom::model(|| {
            let epochs = Arc::new(Epochs::new(Epoch(1), 1));
            let slot = epochs.register().expect("a slot");
            // `link` points to memory while it is 1; `freed` says that the memory is gone.
            let state = Arc::new((AtomicU64::new(1), AtomicU64::new(0)));
            let reader = {
                let (epochs, state) = (Arc::clone(&epochs), Arc::clone(&state));
                thread::spawn(move || {
                    // SAFETY: registered above, for this thread.
                    unsafe { epochs.enter(slot) };
                    if state.0.load(Ordering::Acquire) == 1 {
                        assert_eq!(state.1.load(Ordering::Acquire), 0, "read after free");
                    }
                    // SAFETY: nothing is read any more.
                    unsafe { epochs.exit(slot) };
                })
            };
            state.0.store(0, Ordering::Release);
            let retired = epochs.current();
            epochs.advance_from(retired);
            if epochs.oldest_active() > retired {
                state.1.store(1, Ordering::Release);
            }
            reader.join().expect("the reader");
        });
    }
}
