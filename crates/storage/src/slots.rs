//! Slots: a number for each record of a table, fixed while the record exists and reused afterwards. Physical
//! logs name rows by slots.
//!
//! Invariant: no two records of a table have one slot at a time. A deletion returns its record's slot when
//! the record leaves the indexes, after the deletion is durable; the slot's next record commits later.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Slots of a page.
const PAGE: usize = 1 << 16;
/// Pages of a table.
const PAGES: usize = 1 << 16;

/// A number for each slot of a table, 0 at first, in pages that are made when they are needed.
#[derive(Debug)]
pub struct SlotCells(Vec<OnceLock<Box<[AtomicU64]>>>);

impl Default for SlotCells {
    fn default() -> Self {
        Self((0..PAGES).map(|_| OnceLock::new()).collect())
    }
}

impl SlotCells {
    /// Returns the cell of a slot.
    pub fn cell(&self, slot: u32) -> &AtomicU64 {
        let make = || (0..PAGE).map(|_| AtomicU64::new(0)).collect();
        &self.0[slot as usize / PAGE].get_or_init(make)[slot as usize % PAGE]
    }

    /// Returns the pages in use, ascending.
    pub fn pages(&self) -> impl Iterator<Item = usize> {
        (0..PAGES).filter(|page| self.0[*page].get().is_some())
    }

    /// Returns the slots of a page with their cells.
    pub fn of_page(&self, page: usize) -> impl Iterator<Item = (u32, &AtomicU64)> {
        let cells = self.0[page].get().into_iter().flatten().enumerate();
        cells.map(move |(at, cell)| ((page * PAGE + at) as u32, cell))
    }
}

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
