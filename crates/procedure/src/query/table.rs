//! The hash table of a hash join.

use super::buffer::Buffer;
use crate::{Machine, Register, SqlError};
use std::collections::HashMap;

/// The rows of the build side, by key. Rows of one key keep their order.
#[derive(Debug)]
pub(crate) struct HashTable {
    rows: Buffer,
    /// The first and the last row of each key.
    ends: HashMap<Vec<u8>, [u32; 2]>,
    /// For each row, the next row of its key; `None` also for a row without a key.
    next: Vec<Option<u32>>,
}

impl HashTable {
    pub(super) fn new(width: usize) -> Self {
        Self { rows: Buffer::new(width), ends: HashMap::new(), next: Vec::new() }
    }

    /// Adds the row in the registers. A row without a key (`None`) matches no row.
    pub(super) fn add(
        &mut self,
        key: Option<&[u8]>,
        registers: &[Register],
        machine: &Machine,
    ) -> Result<(), SqlError> {
        let row = self.next.len() as u32;
        self.rows.push_registers(registers, machine)?;
        self.next.push(None);
        let Some(key) = key else { return Ok(()) };
        match self.ends.get_mut(key) {
            Some([_, last]) => {
                self.next[*last as usize] = Some(row);
                *last = row;
            }
            None => {
                self.ends.insert(key.to_vec(), [row; 2]);
            }
        }
        Ok(())
    }

    /// Returns whether a row has this key.
    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.ends.contains_key(key)
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        self.next.len()
    }

    /// Returns the rows of a key.
    pub(super) fn rows_of(&self, key: &[u8]) -> impl Iterator<Item = usize> {
        let first = self.ends.get(key).map(|[first, _]| *first);
        std::iter::successors(first, |row| self.next[*row as usize]).map(|row| row as usize)
    }

    /// Copies the values of a row into registers.
    pub(super) fn load(&self, row: usize, registers: &[Register], machine: &mut Machine) {
        self.rows.load(row, registers, machine);
    }
}
