//! The scans of a transaction.

use catalog::{Table, TableId};
use procedure::ScanRange;
use storage::{Cursor, Direction, Handle};

/// The scan in progress.
#[derive(Default)]
pub(crate) struct Scan {
    pub(crate) cursor: Cursor,
    pub(crate) table: Option<TableId>,
    pub(crate) index: usize,
    /// The row for which the scan looks for another one with its key.
    pub(crate) rival_of: Option<Handle>,
}

impl Scan {
    pub(crate) fn open(&mut self, table: &Table, range: ScanRange<'_>, with_keys: bool) {
        let direction = if range.backward { Direction::Backward } else { Direction::Forward };
        if with_keys {
            self.cursor.open_with_keys(range.lower, range.upper, direction);
        } else {
            self.cursor.open(range.lower, range.upper, direction);
        }
        self.table = Some(table.id);
        self.index = range.index;
        self.rival_of = None;
    }

    /// Ends the scan: what it has left unread is not to be looked at again.
    fn close(&mut self) {
        self.cursor.close();
        self.table = None;
    }
}

/// The scans of a transaction: one in progress, and those that it interrupts.
#[derive(Default)]
pub(crate) struct Scans {
    pub(crate) current: Scan,
    outer: Vec<Scan>,
    /// Scans whose buffers are used again.
    spare: Vec<Scan>,
}

impl Scans {
    pub(crate) fn enter(&mut self) {
        let mut inner = self.spare.pop().unwrap_or_default();
        inner.close();
        self.outer.push(std::mem::replace(&mut self.current, inner));
    }

    pub(crate) fn leave(&mut self) {
        if let Some(outer) = self.outer.pop() {
            self.spare.push(std::mem::replace(&mut self.current, outer));
        }
    }

    pub(crate) fn depth(&self) -> usize {
        self.outer.len()
    }

    /// Leaves those that were entered since there were this many.
    pub(crate) fn come_back_to(&mut self, depth: usize) {
        while self.outer.len() > depth {
            self.leave();
        }
    }

    /// Forgets what scans have read ahead.
    pub(crate) fn look_again(&mut self) {
        self.current.cursor.look_again();
        self.outer.iter_mut().for_each(|scan| scan.cursor.look_again());
    }

    /// Ends all of them, the one in progress too.
    pub(crate) fn reset(&mut self) {
        while !self.outer.is_empty() {
            self.leave();
        }
        self.current.close();
    }
}
