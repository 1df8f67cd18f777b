//! Slots: a number for each record of a table, kept as long as the record is there and used again afterwards.
//! Physical logs name rows by them.
//!
//! Invariant: no two records of a table have one slot at a time. A slot is given back when its record leaves
//! the indexes, so after the deletion is durable, and the next record that has it commits later.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// The slots of a table.
#[derive(Debug, Default)]
pub struct Slots {
    next: AtomicU32,
    free: Mutex<Vec<u32>>,
}

impl Slots {
    /// Goes on after what a checkpoint and a log hold: `next` is above every slot in use, `free` are those
    /// below that are not. Nobody else is at work.
    pub fn resume(&self, next: u32, free: Vec<u32>) {
        self.next.store(next, Ordering::Relaxed);
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) = free;
    }

    /// A slot that no record has.
    ///
    /// # Panics
    /// After four billion.
    pub fn take(&self) -> u32 {
        // Whoever finds the list in use takes a new one instead of waiting.
        if let Ok(mut free) = self.free.try_lock()
            && let Some(slot) = free.pop()
        {
            return slot;
        }
        let slot = self.next.fetch_add(1, Ordering::Relaxed);
        assert!(slot < u32::MAX, "a table has at most four billion slots");
        slot
    }

    /// Takes a slot back.
    pub fn give_back(&self, slot: u32) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
    }
}
