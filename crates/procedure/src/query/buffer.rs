//! Buffers of rows that a query keeps. Their values are copies, outside of the machine's arena.

use crate::{Machine, Register, SqlError};
use catalog::{Arena, Datum};

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
