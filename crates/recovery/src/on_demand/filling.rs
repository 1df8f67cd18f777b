//! Granules, and how their rows go into the tables.

use super::slots::UsedSlots;
use crate::RecoveryError;
use catalog::CommitOrder;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use storage::{Guard, Linker, TableStore};

/// The states of a granule: it has rows that are not loaded; a thread loads it; all its rows are loaded.
pub(super) const WAITING: u8 = 0;
pub(super) const LOADING: u8 = 1;
pub(super) const LOADED: u8 = 2;

/// A range of the primary key of a table.
#[derive(Debug)]
pub(super) struct Granule {
    pub(super) state: AtomicU8,
    /// The number of its rows that are in the table.
    pub(super) loaded: AtomicU32,
    /// Its block: part, and number in the part.
    pub(super) block: Option<(u32, u32)>,
    /// Whether its block has rows of other granules, too.
    pub(super) shares_block: bool,
    /// The bytes that are read for it alone.
    pub(super) bytes: u64,
}

impl Granule {
    /// Claims it for this thread, if it is waiting; else returns its state.
    pub(super) fn try_claim(&self) -> Result<u8, u8> {
        // ORDERING: Acquire pairs with the Release in `Ends`: the rows of a loaded granule are there.
        self.state.compare_exchange(WAITING, LOADING, Ordering::Acquire, Ordering::Acquire)
    }
}

/// Puts the rows of a granule into their table, behind those that an earlier try has put there.
pub(super) struct Filling<'f> {
    store: &'f TableStore,
    granule: &'f Granule,
    /// Notes the slots of the rows.
    slots: Option<&'f UsedSlots>,
    guard: &'f Guard,
    indexes: usize,
    linker: Linker,
    arena: catalog::Arena,
    count: u32,
}

impl<'f> Filling<'f> {
    pub(super) fn new(
        store: &'f TableStore,
        granule: &'f Granule,
        slots: Option<&'f UsedSlots>,
        guard: &'f Guard,
    ) -> Self {
        let (indexes, linker) = (store.definition().indexes.len(), Linker::default());
        Self { store, granule, slots, guard, indexes, linker, arena: catalog::Arena::default(), count: 0 }
    }

    /// Writes the primary key of a row.
    pub(super) fn key_of(&mut self, words: &[u64], key: &mut Vec<u8>) {
        self.arena.clear();
        self.store.key_of_image(words, &mut self.arena, key);
    }

    /// Puts a row into its slot, or into a new one where the log has no slots.
    pub(super) fn put(
        &mut self,
        slot: Option<u32>,
        order: CommitOrder,
        words: &[u64],
        twice: impl FnOnce() -> RecoveryError,
    ) -> Result<(), RecoveryError> {
        self.count += 1;
        if self.count <= self.granule.loaded.load(Ordering::Relaxed) {
            return Ok(());
        }
        let Self { store, guard, indexes, linker, slots, .. } = self;
        let loaded = match (slots, slot) {
            (Some(used), Some(slot)) => {
                used.note(slot);
                store.load_into(Some(slot), words, order, *indexes, linker, guard)
            }
            _ => store.load(words, order, *indexes, linker, guard),
        };
        if !loaded.map_err(RecoveryError::OutOfMemory)? {
            return Err(twice());
        }
        self.granule.loaded.store(self.count, Ordering::Relaxed);
        Ok(())
    }
}
