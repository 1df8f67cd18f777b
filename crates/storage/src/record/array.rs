//! Records by slot, for the replay of a physical log before the indexes exist.
//!
//! A slot that names a record holds it, as an index entry does.
#![allow(unsafe_code)]

use super::{NewState, Record};
use crate::{Added, Guard, Memory, OutOfMemory, SlotCells};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The records of a table by slot, in pages that are allocated on demand. Records that it still has when
/// dropped are freed with the memory.
#[derive(Debug)]
pub struct SlotArray {
    /// Every cell is the address of a record of the memory, which the cell holds, or 0.
    cells: SlotCells,
    memory: Arc<Memory>,
}

impl SlotArray {
    /// Returns an empty array, of the guard's memory.
    pub fn new(guard: &Guard) -> Self {
        Self { cells: SlotCells::default(), memory: Arc::clone(guard.memory()) }
    }

    fn record<'g>(&self, address: u64, guard: &'g Guard) -> Option<Record<'g>> {
        assert!(guard.protects(&self.memory), "slots are of their own database");
        // SAFETY: read from a cell in the guard's stay, so it is a record that the cell held then.
        (address != 0).then(|| unsafe { Record::at(address, guard) })
    }

    /// Returns the record of a slot.
    pub fn get<'g>(&self, slot: u32, guard: &'g Guard) -> Option<Record<'g>> {
        // ORDERING: Acquire pairs with the exchange in `add`: the record is whole.
        self.record(self.cells.cell(slot).load(Ordering::Acquire), guard)
    }

    /// Adds a row with a new record in a slot, unless the slot has one.
    ///
    /// # Errors
    /// Out of memory; nothing was added.
    pub fn add<'g>(
        &self,
        slot: u32,
        image: &[u64],
        state: NewState,
        guard: &'g Guard,
    ) -> Result<Added<'g>, OutOfMemory> {
        assert!(guard.protects(&self.memory), "slots are of their own database");
        let record = Record::create(image, state, guard)?;
        record.set_slot(slot);
        let cell = self.cells.cell(slot);
        let Err(other) = cell.compare_exchange(0, record.address(), Ordering::AcqRel, Ordering::Acquire)
        else {
            return Ok(Added::New(record));
        };
        // SAFETY: its creator holds it, and no other thread has seen it.
        unsafe { record.release() };
        Ok(self.record(other, guard).map_or(Added::New(record), Added::Exists))
    }

    /// Returns the pages in use.
    pub fn pages(&self) -> impl Iterator<Item = usize> {
        self.cells.pages()
    }

    /// Removes the records of a page, slot by slot, and passes each to `each`. Frees the records that `each`
    /// adds to no index.
    ///
    /// # Errors
    /// The error of `each`; later slots keep their records.
    pub fn drain<'g, E>(
        &self,
        page: usize,
        guard: &'g Guard,
        mut each: impl FnMut(u32, Option<Record<'g>>) -> Result<(), E>,
    ) -> Result<(), E> {
        for (slot, cell) in self.cells.of_page(page) {
            let record = self.record(cell.swap(0, Ordering::AcqRel), guard);
            let done = each(slot, record);
            if let Some(record) = record {
                // SAFETY: the cell held it until it was exchanged above.
                unsafe { record.release() };
            }
            done?;
        }
        Ok(())
    }
}
