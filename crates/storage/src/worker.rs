//! A worker: one thread's place among the epochs, its allocator, and what it has unlinked but may not free yet.
//!
//! Invariant: a block is freed only when every worker that was active at its retirement has left.
//! Held by: `retired_blocks_wait_for_readers`.
#![allow(unsafe_code)]

use crate::memory::{Allocator, Memory, OutOfMemory};
use crate::{Epochs, Slot};
use catalog::Epoch;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;

struct Retired {
    epoch: Epoch,
    block: NonNull<u64>,
    bytes: usize,
}

/// One thread's access to storage.
pub struct Worker {
    epochs: Arc<Epochs>,
    memory: Arc<Memory>,
    slot: Slot,
    allocator: Allocator,
    retired: VecDeque<Retired>,
    active: bool,
}

// SAFETY: the pointers held are blocks that this worker alone owns (free or retired); nothing is thread-bound.
unsafe impl Send for Worker {}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl Worker {
    /// Registers a worker; `None` when all slots are taken.
    pub fn new(epochs: Arc<Epochs>, memory: Arc<Memory>) -> Option<Self> {
        let slot = epochs.register()?;
        let mut allocator = Allocator::new();
        allocator.inherit(&memory);
        Some(Self { epochs, memory, slot, allocator, retired: VecDeque::new(), active: false })
    }

    /// The worker's place.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// The clock.
    pub fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// Begins to look at shared memory: what is read from here on stays valid until `exit`.
    #[inline]
    pub fn enter(&mut self) {
        debug_assert!(!self.active);
        self.epochs.enter(self.slot);
        self.active = true;
    }

    /// Forgets all pointers into shared memory.
    #[inline]
    pub fn exit(&mut self) {
        self.epochs.exit(self.slot);
        self.active = false;
    }

    /// Whether the worker is between `enter` and `exit`.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.active
    }

    pub(crate) fn allocate(&mut self, bytes: usize) -> Result<NonNull<u64>, OutOfMemory> {
        self.allocator.allocate(bytes, &self.memory)
    }

    /// A block whether or not the limit allows it, for commits that can't fail any more.
    pub(crate) fn allocate_beyond_limit(&mut self, bytes: usize) -> NonNull<u64> {
        match self.allocator.allocate(bytes, &self.memory) {
            Ok(block) => block,
            Err(_) => self
                .memory
                .beyond_limit(|memory| self.allocator.allocate(bytes, memory))
                .expect("the system has no memory left"),
        }
    }

    /// Whether the limit is reached: asked by what will need memory that its commit can't do without.
    ///
    /// # Errors
    /// It is.
    pub fn check_limit(&self) -> Result<(), OutOfMemory> {
        self.memory.check_limit()
    }

    /// Frees a block once nobody can still see it.
    ///
    /// # Safety
    /// `block` was allocated with this many bytes, is unlinked, and is retired once.
    pub(crate) unsafe fn retire(&mut self, block: NonNull<u64>, bytes: usize) {
        self.retired.push_back(Retired { epoch: self.epochs.current(), block, bytes });
    }

    /// Frees a block that was never shared.
    ///
    /// # Safety
    /// `block` was allocated with this many bytes and nobody else has seen it.
    pub(crate) unsafe fn free(&mut self, block: NonNull<u64>, bytes: usize) {
        // SAFETY: passed on.
        unsafe { self.allocator.free(block, bytes, &self.memory) };
    }

    /// Blocks that wait for readers to leave.
    pub fn retired(&self) -> usize {
        self.retired.len()
    }

    /// Frees what nobody can see any more. Cheap when nothing is due.
    pub fn reclaim(&mut self) {
        let Some(first) = self.retired.front() else { return };
        let oldest = self.epochs.oldest_active();
        if first.epoch >= oldest {
            return;
        }
        while self.retired.front().is_some_and(|retired| retired.epoch < oldest) {
            let Some(Retired { block, bytes, .. }) = self.retired.pop_front() else { break };
            // SAFETY: unlinked in an earlier epoch than any active worker began in (Epochs, invariant 2).
            unsafe { self.allocator.free(block, bytes, &self.memory) };
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.active {
            self.exit();
        }
        // Retired blocks that someone may still see are left to the memory's end: they are few and bounded by the
        // worker's last epochs.
        self.epochs.advance_from(self.epochs.current());
        self.reclaim();
        self.allocator.hand_over(&self.memory);
        self.epochs.unregister(self.slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retired_blocks_wait_for_readers() {
        let epochs = Arc::new(Epochs::new(Epoch(1), 2));
        let memory = Arc::new(Memory::new(1 << 30));
        let mut writer = Worker::new(Arc::clone(&epochs), Arc::clone(&memory)).unwrap();
        let mut reader = Worker::new(Arc::clone(&epochs), memory).unwrap();
        reader.enter();
        let block = writer.allocate(100).unwrap();
        // SAFETY: allocated just above, never shared.
        unsafe { writer.retire(block, 100) };
        epochs.advance_from(Epoch(1));
        writer.reclaim();
        assert_eq!(writer.retired(), 1, "the reader began before the retirement");
        reader.exit();
        writer.reclaim();
        assert_eq!(writer.retired(), 0);
        assert_eq!(writer.allocate(100).unwrap(), block, "the block is used again");
    }
}
