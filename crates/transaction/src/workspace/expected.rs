//! Rows that the running transaction said it will look for: found ahead, so that their cache misses overlap,
//! and then not looked for again.
//!
//! What is kept is only that a key had a record at some moment of this transaction, which is what `find` says
//! too; the record's version, read later, is validated as ever. That a key had none is not kept: an own
//! insert may change it.

use catalog::{Table, TableId};
use storage::{Guard, Record, Search, TableStore};

use crate::Tables;

/// Looked for in another order than announced, this many are skipped at most.
const SKIPPED: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Expected {
    table: TableId,
    /// Where the key ends in `keys`; it begins where the one before ends.
    key_end: usize,
    search: Search,
}

/// The announced rows, in order.
#[derive(Default, Debug)]
pub struct Expectations {
    rows: Vec<Expected>,
    keys: Vec<u8>,
    next: usize,
}

impl Expectations {
    /// Forgets all of them.
    #[inline]
    pub fn clear(&mut self) {
        self.rows.clear();
        self.keys.clear();
        self.next = 0;
    }

    /// Announces a row, and begins to look for it.
    pub fn add(&mut self, table: &Table, key: &[u8], tables: &Tables, guard: &Guard) {
        let search = tables.store(table.id).index_at(0).begin(key, guard);
        self.keys.extend_from_slice(key);
        self.rows.push(Expected { table: table.id, key_end: self.keys.len(), search });
    }

    fn key(&self, place: usize) -> &[u8] {
        let start = place.checked_sub(1).map_or(0, |before| self.rows[before].key_end);
        &self.keys[start..self.rows[place].key_end]
    }

    /// Begins to load the announced rows.
    pub fn load(&mut self, tables: &Tables, guard: &Guard) {
        let mut goes_on = true;
        while goes_on {
            goes_on = false;
            for place in 0..self.rows.len() {
                let Expected { table, mut search, .. } = self.rows[place];
                goes_on |= tables.store(table).index_at(0).go_on(&mut search, self.key(place), guard);
                self.rows[place].search = search;
            }
        }
    }

    /// Returns the record of an announced row, if it was found.
    #[inline]
    pub fn take<'g>(&mut self, store: &TableStore, key: &[u8], guard: &'g Guard) -> Option<Record<'g>> {
        let end = self.rows.len().min(self.next + SKIPPED);
        for place in self.next..end {
            let Expected { table, search, .. } = self.rows[place];
            if table == store.definition().id && self.key(place) == key {
                self.next = place + 1;
                return store.index_at(0).end(search, key, guard);
            }
        }
        None
    }
}
