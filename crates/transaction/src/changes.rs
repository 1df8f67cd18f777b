//! What a transaction will write: entries by record, new column values in lists behind them.
//!
//! Values are copied out of the executor's arena, which is emptied between attempts. All buffers are kept from one
//! transaction to the next.

use catalog::{Arena, ColumnSlot, Datum, TableId};
use storage::{Change, Handle};

const END: u32 = u32::MAX;

/// What happens to a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// The row that the record holds, absent so far, becomes present. The record is the transaction's own.
    Insert,
    /// An own insert was deleted again: nothing becomes of the record.
    Cancel,
    /// A deleted record gets a new row, which the list of changes gives whole.
    Revive,
    /// A revival was deleted again.
    Unrevive,
    /// Columns change.
    Update,
    /// The row goes.
    Delete,
}

impl Action {
    /// Whether the record is the transaction's own: seen by others only as absent.
    pub(crate) fn is_own(self) -> bool {
        matches!(self, Self::Insert | Self::Cancel)
    }

    /// Whether there is no row after this.
    pub(crate) fn removes(self) -> bool {
        matches!(self, Self::Cancel | Self::Unrevive | Self::Delete)
    }
}

/// One record of the write set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) record: Handle,
    pub(crate) table: TableId,
    pub(crate) action: Action,
    first: u32,
    last: u32,
}

/// An entry that was added to a secondary index for a changed key of a record that others see.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) record: Handle,
    pub(crate) table: TableId,
    pub(crate) index: usize,
    pub(crate) key: Vec<u8>,
}

/// The write set.
#[derive(Default, Debug)]
pub(crate) struct WriteSet {
    pub(crate) entries: Vec<Entry>,
    pub(crate) links: Vec<Link>,
    changes: Vec<(Change, u32)>,
    pub(crate) arena: Arena,
    /// Open addressing from records to entries; cells of earlier generations are free.
    cells: Vec<(u64, u32, u32)>,
    generation: u32,
}

fn hash(record: Handle) -> usize {
    (record.address().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

impl WriteSet {
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.links.clear();
        self.changes.clear();
        self.arena.clear();
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.cells.fill((0, 0, 0));
            self.generation = 1;
        }
    }

    /// The entry of a record.
    #[inline]
    pub(crate) fn find(&self, record: Handle) -> Option<usize> {
        if self.entries.is_empty() {
            return None;
        }
        let mask = self.cells.len() - 1;
        let mut at = hash(record) & mask;
        loop {
            let (address, entry, generation) = self.cells[at];
            if generation != self.generation {
                return None;
            }
            if address == record.address() {
                return Some(entry as usize);
            }
            at = (at + 1) & mask;
        }
    }

    fn occupy(&mut self, record: Handle, entry: u32) {
        let mask = self.cells.len() - 1;
        let mut at = hash(record) & mask;
        while self.cells[at].2 == self.generation {
            at = (at + 1) & mask;
        }
        self.cells[at] = (record.address(), entry, self.generation);
    }

    /// Adds the first entry of a record.
    pub(crate) fn add(&mut self, record: Handle, table: TableId, action: Action) -> usize {
        let entry = self.entries.len();
        self.entries.push(Entry { record, table, action, first: END, last: END });
        if self.entries.len() * 2 > self.cells.len() {
            self.cells = vec![(0, 0, 0); (self.cells.len() * 2).max(64)];
            self.generation = 1;
            for place in 0..=entry {
                self.occupy(self.entries[place].record, place as u32);
            }
        } else {
            self.occupy(record, entry as u32);
        }
        entry
    }

    /// Appends a new column value to an entry.
    pub(crate) fn change(&mut self, entry: usize, slot: ColumnSlot, datum: Datum, from: &Arena) {
        let datum = self.arena.adopt(datum, from);
        let at = self.changes.len() as u32;
        self.changes.push((Change { slot, datum }, END));
        let entry = &mut self.entries[entry];
        match entry.last {
            END => entry.first = at,
            last => self.changes[last as usize].1 = at,
        }
        entry.last = at;
    }

    /// The new column values of an entry, oldest first.
    pub(crate) fn changes(&self, entry: usize) -> Changes<'_> {
        Changes { changes: &self.changes, next: self.entries[entry].first }
    }

    /// The last new value of a column, brought into another arena.
    pub(crate) fn latest(&self, entry: usize, slot: ColumnSlot, to: &mut Arena) -> Option<Datum> {
        let change = self.changes(entry).filter(|change| change.slot == slot).last()?;
        Some(to.adopt(change.datum, &self.arena))
    }
}

/// An entry's list of changes.
#[derive(Clone)]
pub(crate) struct Changes<'a> {
    changes: &'a [(Change, u32)],
    next: u32,
}

impl Iterator for Changes<'_> {
    type Item = Change;

    fn next(&mut self) -> Option<Change> {
        let (change, next) = *self.changes.get(self.next as usize)?;
        self.next = next;
        Some(change)
    }
}
