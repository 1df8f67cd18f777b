//! Slots: a number for each record of a table, fixed while the record exists and reused afterwards. Physical
//! logs name rows by slots.
//!
//! Invariant: no two records of a table have one slot at a time. A deletion returns its record's slot when
//! the record leaves the indexes, after the deletion is durable; the slot's next record commits later.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// The slots of a table.
#[derive(Debug, Default)]
pub struct Slots {
    next: AtomicU32,
    free: Mutex<Vec<u32>>,
}

impl Slots {
    /// Continues after a checkpoint and a log: `next` is above every slot in use, and `free` lists the unused
    /// slots below it. No other thread uses the table.
    pub fn resume(&self, next: u32, free: Vec<u32>) {
        self.next.store(next, Ordering::Relaxed);
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) = free;
    }

    /// Returns a slot that no record has.
    ///
    /// # Panics
    /// All `u32::MAX` slots are taken.
    pub fn take(&self) -> u32 {
        // A worker that finds the list locked, or empty, takes a new slot instead of waiting.
        if let Ok(mut free) = self.free.try_lock()
            && let Some(slot) = free.pop()
        {
            return slot;
        }
        let slot = self.next.fetch_add(1, Ordering::Relaxed);
        assert!(slot < u32::MAX, "a table has at most four billion slots");
        slot
    }

    /// Adds unused slots to the free list.
    pub fn add_free(&self, unused: impl Iterator<Item = u32>) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).extend(unused);
    }

    /// Returns a slot to the free list.
    pub fn give_back(&self, slot: u32) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
    }
}
