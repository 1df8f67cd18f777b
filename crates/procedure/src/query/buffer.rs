//! Buffers of rows that a query keeps. Their values are copies, outside of the machine's arena.

use super::key::KeySet;
use crate::{Machine, Register, SqlError};
use catalog::{Arena, Datum};
use std::sync::Arc;

/// Maximum size of a buffer's arena, in bytes, before a row is added: a span has a 32-bit offset.
const MOST_BYTES: usize = 3 << 30;

/// Rows of one width.
#[derive(Debug)]
pub(crate) struct Buffer {
    width: usize,
    rows: usize,
    values: Vec<Datum>,
    pub(crate) arena: Arena,
}

impl Buffer {
    pub(crate) fn new(width: usize) -> Self {
        Self { width, rows: 0, values: Vec::new(), arena: Arena::default() }
    }

    /// Adds a row of values that lie in the machine's arena.
    pub(crate) fn push(
        &mut self,
        values: impl IntoIterator<Item = Datum>,
        from: &Arena,
    ) -> Result<(), SqlError> {
        if self.arena.bytes_used() > MOST_BYTES {
            let error = SqlError::new("53200", "out of memory: a query keeps more than 3 GiB of rows");
            return Err(error.with_hint("Sort, group or join fewer rows."));
        }
        for value in values {
            let value = self.arena.adopt(value, from);
            self.values.push(value);
        }
        self.rows += 1;
        debug_assert_eq!(self.values.len(), self.rows * self.width);
        Ok(())
    }

    /// Adds the row that registers hold.
    pub(crate) fn push_registers(
        &mut self,
        registers: &[Register],
        machine: &Machine,
    ) -> Result<(), SqlError> {
        self.push(registers.iter().map(|register| machine.get(*register)), &machine.frame.arena)
    }

    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Returns a row. Its values lie in this buffer's arena.
    pub(crate) fn row(&self, row: usize) -> &[Datum] {
        &self.values[row * self.width..][..self.width]
    }

    /// Copies the first values of a row into registers.
    pub(crate) fn load(&self, row: usize, registers: &[Register], machine: &mut Machine) {
        for (register, value) in registers.iter().zip(self.row(row)) {
            let value = machine.frame.arena.adopt(*value, &self.arena);
            machine.set(*register, value);
        }
    }
}

/// The content of a slot.
#[derive(Clone, Debug, Default)]
pub(crate) enum Kept {
    #[default]
    Nothing,
    Rows(Arc<Buffer>),
    Keys(Arc<KeySet>),
    Flag(bool),
}

/// The slots of the queries in progress, innermost last.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    kept: Vec<Kept>,
    base: usize,
}

impl Slots {
    /// Adds the slots of a query that begins. Returns the base of the outer query, for `leave`.
    pub(super) fn enter(&mut self, slots: u32) -> usize {
        let outer = self.base;
        self.base = self.kept.len();
        self.kept.resize(self.base + slots as usize, Kept::Nothing);
        outer
    }

    pub(super) fn leave(&mut self, outer: usize) {
        self.kept.truncate(self.base);
        self.base = outer;
    }

    pub(super) fn get(&self, slot: super::SlotId) -> Kept {
        self.kept[self.base + slot.0 as usize].clone()
    }

    pub(super) fn set(&mut self, slot: super::SlotId, kept: Kept) {
        self.kept[self.base + slot.0 as usize] = kept;
    }

    /// Returns the number of slots and the base of the innermost query, for `come_back_to`.
    pub(crate) fn place(&self) -> (usize, usize) {
        (self.kept.len(), self.base)
    }

    /// Leaves all queries that were entered since `place` returned its result.
    pub(crate) fn come_back_to(&mut self, (kept, base): (usize, usize)) {
        self.kept.truncate(kept);
        self.base = base;
    }

    /// Removes all slots.
    pub(crate) fn clear(&mut self) {
        self.kept.clear();
        self.base = 0;
    }
}
