//! The clock of commit orders and epochs, and each worker's published position.
//! Paper: Silo §4.1 (epochs). Differs: order and epoch are drawn from one word.
//!
//! Invariants:
//! 1. Once `open_from` has returned an order for a set of workers, none of them draws or still logs an
//!    earlier one; so `completed` epochs are complete. Held by: `a_completed_epoch_is_never_joined` (loom).
//! 2. No worker sees memory that was retired in an epoch before `oldest_active`. Held by:
//!    `an_active_reader_keeps_what_it_sees` (loom).

use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence, spin_loop};
use catalog::{CommitOrder, Epoch};
use crossbeam_utils::CachePadded;

const IDLE: u64 = u64::MAX;

/// A worker's index in the array of workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot(pub usize);

#[derive(Debug)]
struct WorkerState {
    taken: AtomicBool,
    /// Epoch in which the worker entered shared memory; `IDLE` while it is outside.
    active: AtomicU64,
    /// Lower bound of the orders that the worker may draw or still logs; `IDLE` outside a commit.
    committing: AtomicU64,
}

/// The clock and the workers.
#[derive(Debug)]
pub struct Epochs {
    clock: CachePadded<AtomicU64>,
    workers: Box<[CachePadded<WorkerState>]>,
    /// All slots that were ever taken lie below this. It never falls.
    registered: AtomicUsize,
}

/// Returns the first order of an epoch. Panics before the clock wraps, as a wrapped clock would free memory
/// that active workers see.
fn first_of(epoch: Epoch) -> u64 {
    assert!(epoch.0 < CommitOrder::EPOCH_LIMIT, "epoch {} is above all that orders can hold", epoch.0);
    CommitOrder::first_of(epoch).0
}

impl Epochs {
    /// Returns a clock at the epoch `first`, with slots for this many workers.
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
            registered: AtomicUsize::new(0),
        }
    }

    /// Returns the number of slots.
    pub fn capacity(&self) -> usize {
        self.workers.len()
    }

    /// Takes a free slot; `None` when all are taken.
    pub fn register(&self) -> Option<Slot> {
        let free = self.workers.iter().position(|worker| !worker.taken.swap(true, Ordering::AcqRel));
        free.map(|index| {
            self.registered.fetch_max(index + 1, Ordering::SeqCst);
            Slot(index)
        })
    }

    /// Returns the states of the slots that were ever taken.
    fn states(&self) -> &[CachePadded<WorkerState>] {
        // ORDERING: SeqCst, as are the stores of `active` and `committing`: a worker that this load misses
        // enters and commits after it, which is as if its state were read as `IDLE`.
        &self.workers[..self.registered.load(Ordering::SeqCst)]
    }

    /// Gives a slot back.
    ///
    /// # Safety
    /// The caller has registered the slot and no longer uses it.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn unregister(&self, slot: Slot) {
        let worker = &self.workers[slot.0];
        debug_assert_eq!(worker.active.load(Ordering::Relaxed), IDLE);
        worker.taken.store(false, Ordering::Release);
    }

    /// Returns the current epoch.
    #[inline]
    pub fn current(&self) -> Epoch {
        CommitOrder(self.clock.load(Ordering::SeqCst)).epoch()
    }

    /// Returns the order that will be drawn next.
    pub fn next_order(&self) -> CommitOrder {
        CommitOrder(self.clock.load(Ordering::SeqCst))
    }

    /// Ends `epoch` unless the clock has left it already. Returns the current epoch.
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

    /// Advances the clock to the epoch that recovery found, unless it is past that epoch.
    pub fn advance_to(&self, epoch: Epoch) {
        self.clock.fetch_max(first_of(epoch), Ordering::SeqCst);
    }

    /// Marks the slot's worker as active: it may read shared memory from here on.
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

    /// Marks the slot's worker as inactive.
    ///
    /// # Safety
    /// The caller has registered the slot and no longer holds a pointer into shared memory.
    #[allow(unsafe_code)]
    #[inline]
    pub(crate) unsafe fn exit(&self, slot: Slot) {
        self.workers[slot.0].active.store(IDLE, Ordering::Release);
    }

    /// Announces that the worker will draw an order.
    #[inline]
    pub fn begin_commit(&self, slot: Slot) {
        let order = self.next_order().0;
        // ORDERING: SeqCst, before the draw: either `open_from` sees this, or the draw sees the clock that
        // `open_from` read before it looked here.
        self.workers[slot.0].committing.store(order, Ordering::SeqCst);
    }

    /// Draws the next commit order. The worker calls it between `begin_commit` and `end_commit` only.
    #[inline]
    pub fn draw(&self) -> CommitOrder {
        loop {
            let order = CommitOrder(self.clock.fetch_add(1, Ordering::SeqCst));
            if order.sequence() < CommitOrder::SEQUENCE_LIMIT {
                return order;
            }
            // The epoch has used up its orders, so this transaction ends it and draws again.
            self.advance_from(order.epoch());
            spin_loop();
        }
    }

    /// Draws consecutive orders of one epoch, and returns the first. All workers that log one of them have
    /// called `begin_commit`. No other worker's `begin_commit` gets a position between the orders, so all of
    /// them count as drawn and logged at the same moment.
    ///
    /// # Panics
    /// An epoch does not have this many orders.
    pub fn draw_many(&self, count: u32) -> CommitOrder {
        assert!(u64::from(count) < CommitOrder::SEQUENCE_LIMIT, "an epoch has fewer orders than {count}");
        loop {
            let first = CommitOrder(self.clock.fetch_add(u64::from(count), Ordering::SeqCst));
            if first.sequence() + u64::from(count) <= CommitOrder::SEQUENCE_LIMIT {
                return first;
            }
            self.advance_from(first.epoch());
            spin_loop();
        }
    }

    /// Declares that the worker has drawn and logged its order.
    #[inline]
    pub fn end_commit(&self, slot: Slot) {
        self.workers[slot.0].committing.store(IDLE, Ordering::SeqCst);
    }

    /// Returns the least order that a worker may still draw or log, of the workers that `serves` selects.
    pub fn open_from(&self, serves: impl Fn(Slot) -> bool) -> CommitOrder {
        let mut open = self.next_order().0;
        for (index, worker) in self.states().iter().enumerate() {
            if serves(Slot(index)) {
                open = open.min(worker.committing.load(Ordering::SeqCst));
            }
        }
        CommitOrder(open)
    }

    /// Returns the last complete epoch of the workers that `serves` selects: they have drawn and logged all
    /// their orders of it.
    pub fn completed(&self, serves: impl Fn(Slot) -> bool) -> Epoch {
        Epoch(self.open_from(serves).epoch().0 - 1)
    }

    /// Returns whether all workers except `but` are inactive. A worker that enters later sees the caller's
    /// earlier writes.
    pub fn is_quiet(&self, but: Slot) -> bool {
        fence(Ordering::SeqCst);
        self.states()
            .iter()
            .enumerate()
            .all(|(index, worker)| index == but.0 || worker.active.load(Ordering::SeqCst) == IDLE)
    }

    /// Returns the earliest epoch in which an active worker entered; the current one when none is active.
    pub fn oldest_active(&self) -> Epoch {
        // ORDERING: every worker that enters after this fence sees the unlinks before it; pairs with the
        // fence in `enter`.
        fence(Ordering::SeqCst);
        let now = self.current().0;
        let oldest = self.states().iter().map(|worker| worker.active.load(Ordering::SeqCst)).min();
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
            // `link` points to memory while it is 1; `freed` is 1 once that memory is freed.
            let state = Arc::new((AtomicU64::new(1), AtomicU64::new(0)));
            let reader = {
                let (epochs, state) = (Arc::clone(&epochs), Arc::clone(&state));
                thread::spawn(move || {
                    // SAFETY: registered above, for this thread.
                    unsafe { epochs.enter(slot) };
                    if state.0.load(Ordering::Acquire) == 1 {
                        assert_eq!(state.1.load(Ordering::Acquire), 0, "read after free");
                    }
                    // SAFETY: the thread reads no shared memory from here on.
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
