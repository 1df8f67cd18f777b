//! A worker: one thread's slot among the epochs, its allocator and its retired blocks; and the guard that
//! every access to shared memory needs.
//! Source: crossbeam-epoch (`Guard`). Differs: a guard may belong to a transaction that lasts longer than any
//! borrow.
//!
//! * `Worker::enter` gives a guard that leaves when it is dropped. What is found through it (`Record<'g>`,
//!   `RowWords<'g>`) borrows it, so it cannot outlive it.
//! * A transaction that lasts from one call to the next has its worker `stay` until it `leave`s, which takes
//!   the worker exclusively: no borrow survives it. What such a transaction remembers are handles,
//!   observations and fingers. They hold the number of the stay in which they were made, and are of use under
//!   the guard of that very stay alone. Stays have numbers that no other stay of the process has, so neither
//!   another worker nor another database takes them for its own.
//! * All workers of a `Memory` share its `Epochs`, and an index refuses a guard of another memory. So a guard
//!   protects whatever is reached through it.
//!
//! Invariants: 1. a block is freed only when every worker that was active at its retirement has left. Held
//! by: `retired_blocks_wait_for_readers`. 2. a guard exists only while its worker is active. Held by:
//! `a_guard_leaves_when_it_is_dropped`.
#![allow(unsafe_code)]

use crate::memory::{Allocator, Memory, OutOfMemory};
use crate::record::{Handle, Record};
use crate::retired::Retired;
use crate::{Epochs, Slot};
use std::cell::RefCell;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of attempts of a commit to take memory beyond the limit before it concludes that the system has
/// none.
const ATTEMPTS_BEYOND_LIMIT: usize = 64;
/// Number of stay numbers that a worker reserves at once.
const STAYS_AT_ONCE: u64 = 1 << 20;
/// The next block of stay numbers to reserve. The least number is 1.
static NEXT_STAYS: AtomicU64 = AtomicU64::new(0);

/// The number of one stay: a period of a worker's activity, unique in the process. 0 is no stay.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Stay(u64);

/// The allocator and the retired blocks of a worker.
struct Blocks {
    allocator: Allocator,
    retired: Retired,
}

/// Proof that a worker is active: references into shared memory stay valid while it is borrowed.
///
/// A record does not outlive the guard that it was found under:
///
/// ```compile_fail,E0505
/// fn find(store: &storage::TableStore, worker: &mut storage::Worker) {
///     let guard = worker.enter();
///     let record = store.find(b"key", &guard);
///     drop(guard);
///     record.map(|record| record.stable_state());
/// }
/// ```
///
/// Nor does a row's memory:
///
/// ```compile_fail,E0515
/// fn row<'w>(store: &storage::TableStore, worker: &'w mut storage::Worker) -> Option<storage::RowWords<'w>> {
///     let guard = worker.enter();
///     store.find(b"key", &guard).ok().map(|record| record.row())
/// }
/// ```
///
/// A worker does not leave while a reference that it found is in use:
///
/// ```compile_fail,E0502
/// fn leave(store: &storage::TableStore, worker: &mut storage::Worker) {
///     worker.stay();
///     let record = store.find(b"key", worker.guard());
///     worker.leave();
///     record.map(|record| record.stable_state());
/// }
/// ```
///
/// A record is not made from an integer, and neither is a handle:
///
/// ```compile_fail,E0423
/// let record = storage::Record(0xdead_beef_u64);
/// ```
///
/// ```compile_fail,E0451
/// fn forged(handle: storage::Handle) -> storage::Handle {
///     storage::Handle { address: 0xdead_beef_u64, ..handle }
/// }
/// ```
pub struct Guard {
    epochs: Arc<Epochs>,
    memory: Arc<Memory>,
    slot: Slot,
    blocks: RefCell<Blocks>,
    stay: Stay,
}

/// One thread's access to storage.
pub struct Worker {
    /// Lent out only while the worker is active.
    guard: Guard,
    /// Stay numbers still unused: from the first up to, and without, the second.
    stays: (u64, u64),
}

// SAFETY: the pointers held are blocks that this worker alone owns (free or retired); nothing is
// thread-bound.
unsafe impl Send for Worker {}

/// A guard whose worker leaves when it is dropped.
#[derive(Debug)]
pub struct ActiveGuard<'w>(&'w mut Worker);

impl Deref for ActiveGuard<'_> {
    type Target = Guard;

    #[inline]
    fn deref(&self) -> &Guard {
        &self.0.guard
    }
}

impl Drop for ActiveGuard<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("slot", &self.guard.slot).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("slot", &self.slot).field("stay", &self.stay).finish_non_exhaustive()
    }
}

impl Worker {
    /// Registers a worker; `None` when all slots are taken.
    ///
    /// # Panics
    /// Workers of other epochs use this memory.
    pub fn new(epochs: Arc<Epochs>, memory: Arc<Memory>) -> Option<Self> {
        assert!(memory.is_of(&epochs), "a memory is reclaimed by the epochs of its first worker");
        let slot = epochs.register()?;
        let mut allocator = Allocator::new(Arc::clone(&memory));
        let blocks = RefCell::new(Blocks { retired: allocator.inherit(), allocator });
        Some(Self { guard: Guard { epochs, memory, slot, blocks, stay: Stay::default() }, stays: (0, 0) })
    }

    /// Returns the worker's slot.
    pub fn slot(&self) -> Slot {
        self.guard.slot
    }

    /// Returns the clock.
    pub fn epochs(&self) -> &Epochs {
        &self.guard.epochs
    }

    /// Makes the worker active until the guard is dropped.
    #[inline]
    pub fn enter(&mut self) -> ActiveGuard<'_> {
        self.stay();
        ActiveGuard(self)
    }

    /// Makes the worker active until `leave`, or until the worker is dropped.
    #[inline]
    pub fn stay(&mut self) {
        debug_assert!(!self.is_active());
        let (mut next, mut end) = self.stays;
        if next == end {
            next = NEXT_STAYS.fetch_add(STAYS_AT_ONCE, Ordering::Relaxed);
            end = next + STAYS_AT_ONCE;
        }
        self.stays = (next + 1, end);
        // SAFETY: the slot is this worker's, and no reference of an earlier stay is borrowed any more.
        unsafe { self.guard.epochs.enter(self.guard.slot) };
        self.guard.stay = Stay(next + 1);
    }

    /// Ends the stay and makes its handles void.
    #[inline]
    pub fn leave(&mut self) {
        self.guard.stay = Stay::default();
        // SAFETY: the slot is this worker's. References found under the guard borrow the worker, which is
        // borrowed exclusively here.
        unsafe { self.guard.epochs.exit(self.guard.slot) };
    }

    /// Returns whether the worker is active.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.guard.stay != Stay::default()
    }

    /// Returns the guard of the stay.
    ///
    /// # Panics
    /// The worker is not active.
    #[inline]
    pub fn guard(&self) -> &Guard {
        assert!(self.is_active(), "shared memory is looked at by active workers only");
        &self.guard
    }

    /// Checks that the limit is not exceeded. A transaction calls it before operations whose commit cannot do
    /// without memory.
    ///
    /// # Errors
    /// The limit is exceeded.
    pub fn check_limit(&self) -> Result<(), OutOfMemory> {
        self.guard.memory.check_limit()
    }

    /// Checks that there is room for `bytes` of rows and `beside` bytes of other memory. A transaction calls
    /// it before its commit writes rows.
    ///
    /// # Errors
    /// The limit leaves too little room.
    pub fn check_room(&self, bytes: usize, beside: usize) -> Result<(), OutOfMemory> {
        let check = || self.guard.memory.check_room(bytes, beside);
        check().or_else(|_| {
            self.guard.reclaim();
            check()
        })
    }

    /// Returns the number of blocks that wait for readers to leave.
    pub fn retired(&self) -> usize {
        self.guard.blocks.borrow().retired.len()
    }

    /// Returns the size of those blocks, in bytes.
    pub fn retired_bytes(&self) -> usize {
        self.guard.blocks.borrow().retired.bytes()
    }

    /// Frees blocks that no worker can see any more. Cheap when there are none.
    pub fn reclaim(&mut self) {
        self.guard.reclaim();
    }

    /// Like `reclaim`, in a new epoch: frees all blocks unlinked until now, unless another worker is active.
    pub fn reclaim_all(&mut self) {
        let epochs = &self.guard.epochs;
        self.guard.blocks.borrow_mut().retired.stamp(epochs);
        epochs.advance_from(epochs.current());
        self.reclaim();
    }
}

impl Guard {
    /// Returns the worker's slot.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// Returns the clock.
    pub fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    #[inline]
    pub(crate) fn stay(&self) -> Stay {
        self.stay
    }

    /// Returns whether this guard protects the blocks of a memory.
    #[inline]
    pub(crate) fn protects(&self, memory: &Arc<Memory>) -> bool {
        Arc::ptr_eq(&self.memory, memory)
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Returns the record of a handle of this stay.
    ///
    /// # Panics
    /// The handle is of another stay, or of another worker.
    #[inline]
    pub fn record(&self, handle: Handle) -> Record<'_> {
        self.reach(handle).unwrap_or_else(|| foreign())
    }

    /// Returns the record of a handle; `None` if the handle is of another stay.
    #[inline]
    pub fn reach(&self, handle: Handle) -> Option<Record<'_>> {
        // SAFETY: the handle's record was found in the stay that the handle names. That is this stay, which
        // cannot end while this guard is borrowed.
        (handle.stay == self.stay()).then(|| unsafe { Record::at(handle.address, self) })
    }

    /// Frees blocks that no worker can see any more.
    fn reclaim(&self) {
        let Blocks { allocator, retired } = &mut *self.blocks.borrow_mut();
        if retired.len() == 0 {
            return;
        }
        retired.stamp(&self.epochs);
        let oldest = self.epochs.oldest_active();
        while let Some((block, bytes)) = retired.pop_before(oldest) {
            // SAFETY: unlinked in an earlier epoch than any active worker began in (Epochs, invariant 2).
            unsafe { allocator.free(block, bytes) };
        }
    }

    pub(crate) fn allocate(&self, bytes: usize) -> Result<NonNull<u64>, OutOfMemory> {
        let allocate = || self.blocks.borrow_mut().allocator.allocate(bytes);
        allocate().or_else(|_| {
            self.reclaim();
            allocate()
        })
    }

    /// Allocates a block even beyond the limit, for commits that can no longer fail.
    pub(crate) fn allocate_beyond_limit(&self, bytes: usize) -> NonNull<u64> {
        let allocator = &mut self.blocks.borrow_mut().allocator;
        for _ in 0..ATTEMPTS_BEYOND_LIMIT {
            if let Ok(block) = allocator.allocate(bytes) {
                return block;
            }
            // Another worker may use up the raised limit first.
            self.memory.raise_limit(bytes);
        }
        allocator.allocate(bytes).expect("the system has no memory left")
    }

    /// Frees a block once no worker can still see it.
    ///
    /// # Safety
    /// `block` was allocated with this many bytes, is unlinked, and is retired once.
    pub(crate) unsafe fn retire(&self, block: NonNull<u64>, bytes: usize) {
        self.blocks.borrow_mut().retired.push(block, bytes);
    }

    /// Frees a block that was never shared.
    ///
    /// # Safety
    /// `block` was allocated with this many bytes and no other thread has seen it.
    pub(crate) unsafe fn free(&self, block: NonNull<u64>, bytes: usize) {
        // SAFETY: passed on.
        unsafe { self.blocks.borrow_mut().allocator.free(block, bytes) };
    }
}

#[cold]
fn foreign() -> ! {
    panic!("a row was found by another transaction")
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.is_active() {
            self.leave();
        }
        self.reclaim_all();
        let Blocks { allocator, retired } = &mut *self.guard.blocks.borrow_mut();
        allocator.hand_over(retired);
        // SAFETY: the slot is this worker's, which no longer uses it.
        unsafe { self.guard.epochs.unregister(self.guard.slot) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::NewState;
    use catalog::Epoch;

    fn workers<const N: usize>() -> (Arc<Epochs>, [Worker; N]) {
        let (epochs, memory) = (Arc::new(Epochs::new(Epoch(1), N)), Arc::new(Memory::new(1 << 30)));
        let worker = |_| Worker::new(Arc::clone(&epochs), Arc::clone(&memory)).unwrap();
        let workers = std::array::from_fn(worker);
        (epochs, workers)
    }

    fn retire_block(worker: &mut Worker) -> NonNull<u64> {
        let guard = worker.enter();
        let block = guard.allocate(100).unwrap();
        // SAFETY: allocated just above, never shared.
        unsafe { guard.retire(block, 100) };
        block
    }

    #[test]
    fn retired_blocks_wait_for_readers() {
        let (epochs, [mut writer, mut reader]) = workers();
        let reading = reader.enter();
        let block = retire_block(&mut writer);
        writer.reclaim();
        epochs.advance_from(Epoch(1));
        writer.reclaim();
        assert_eq!(writer.retired(), 1, "the reader began before the retirement");
        drop(reading);
        writer.reclaim();
        assert_eq!(writer.retired(), 0);
        assert_eq!(writer.enter().allocate(100).unwrap(), block, "the block is used again");
    }

    #[test]
    fn retired_blocks_of_a_dropped_worker_go_to_the_next() {
        let (epochs, [mut writer, mut reader]) = workers();
        let memory = Arc::clone(&writer.guard.memory);
        let reading = reader.enter();
        let block = retire_block(&mut writer);
        drop(writer);
        let mut next = Worker::new(Arc::clone(&epochs), memory).unwrap();
        next.reclaim();
        assert_eq!(next.retired(), 1, "the reader began before the retirement");
        drop(reading);
        next.reclaim();
        assert_eq!(next.retired(), 0);
        assert_eq!(next.enter().allocate(100).unwrap(), block, "the block is used again");
    }

    #[test]
    fn a_commit_gets_a_block_of_any_size_beyond_the_limit() {
        for bytes in [8, 64 << 10, (64 << 10) + 8, 33 << 20] {
            let (epochs, memory) = (Arc::new(Epochs::new(Epoch(1), 1)), Arc::new(Memory::new(1)));
            let mut worker = Worker::new(epochs, memory).unwrap();
            let guard = worker.enter();
            assert!(guard.allocate(bytes).is_err());
            guard.allocate_beyond_limit(bytes);
            drop(guard);
            assert!(worker.check_limit().is_err(), "statements are told");
        }
    }

    #[test]
    fn a_guard_leaves_when_it_is_dropped() {
        let (epochs, [mut worker, other]) = workers();
        let is_quiet = || epochs.is_quiet(other.slot());
        let returns_early = |worker: &mut Worker| -> Option<()> {
            let _guard = worker.enter();
            assert!(!is_quiet());
            None?;
            unreachable!("it has returned");
        };
        assert_eq!(returns_early(&mut worker), None);
        assert!(is_quiet() && !worker.is_active());
        let panics = std::panic::AssertUnwindSafe(|| {
            let _guard = worker.enter();
            assert!(!is_quiet());
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(std::panic::catch_unwind(panics).is_err());
        assert!(is_quiet() && !worker.is_active());
        worker.stay();
        assert!(!is_quiet());
        drop(worker);
        assert!(is_quiet(), "a worker that is dropped leaves");
    }

    #[test]
    fn a_handle_is_of_its_stay_alone() {
        let (_, [mut worker, mut other]) = workers();
        worker.stay();
        let handle = Record::create(&[7], NewState::uncommitted(Slot(0)), worker.guard());
        let handle = handle.unwrap().handle();
        assert_eq!(worker.guard().record(handle).row().load(0), 7);
        assert!(other.enter().reach(handle).is_none(), "another worker's");
        worker.leave();
        assert!(worker.enter().reach(handle).is_none(), "the next stay's");
        // A session's worker moves between threads, also within a transaction.
        worker.stay();
        let handle = Record::create(&[8], NewState::uncommitted(Slot(0)), worker.guard());
        let handle = handle.unwrap().handle();
        let moved = std::thread::spawn(move || worker.guard().record(handle).row().load(0));
        assert_eq!(moved.join().unwrap(), 8);
    }

    #[test]
    #[should_panic(expected = "epochs of its first worker")]
    fn one_memory_is_not_of_two_clocks() {
        let memory = Arc::new(Memory::new(1 << 30));
        let _first = Worker::new(Arc::new(Epochs::new(Epoch(1), 1)), Arc::clone(&memory));
        let _second = Worker::new(Arc::new(Epochs::new(Epoch(1), 1)), memory);
    }
}
