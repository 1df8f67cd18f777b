//! Slots, in which a running query keeps the results that it computes once.

use super::SlotId;
use super::buffer::Buffer;
use super::key::KeySet;
use super::table::HashTable;
use std::sync::Arc;

/// The content of a slot.
#[derive(Clone, Debug, Default)]
pub(crate) enum SlotContent {
    #[default]
    Nothing,
    Rows(Arc<Buffer>),
    Keys(Arc<KeySet>),
    Table(Arc<HashTable>),
    /// The hash join whose slot it is has looked up one row, without a table.
    Scanned,
    Flag(bool),
}

/// The slots of the queries in progress, innermost last.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    kept: Vec<SlotContent>,
    base: usize,
}

impl Slots {
    /// Adds the slots of a query that begins. Returns the base of the outer query, for `leave`.
    pub(super) fn enter(&mut self, slots: u32) -> usize {
        let outer = self.base;
        self.base = self.kept.len();
        self.kept.resize(self.base + slots as usize, SlotContent::Nothing);
        outer
    }

    pub(super) fn leave(&mut self, outer: usize) {
        self.kept.truncate(self.base);
        self.base = outer;
    }

    pub(super) fn get(&self, slot: SlotId) -> SlotContent {
        self.kept[self.base + slot.0 as usize].clone()
    }

    pub(super) fn set(&mut self, slot: SlotId, kept: SlotContent) {
        self.kept[self.base + slot.0 as usize] = kept;
    }

    /// Returns the number of slots and the base of the innermost query, for `return_to`.
    pub(crate) fn mark(&self) -> (usize, usize) {
        (self.kept.len(), self.base)
    }

    /// Leaves all queries that were entered since `mark` returned its result.
    pub(crate) fn return_to(&mut self, (kept, base): (usize, usize)) {
        self.kept.truncate(kept);
        self.base = base;
    }

    /// Removes all slots.
    pub(crate) fn clear(&mut self) {
        self.kept.clear();
        self.base = 0;
    }
}
