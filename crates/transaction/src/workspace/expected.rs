//! Rows that the running transaction said it will look for: found ahead, so that their cache misses overlap,
//! and then not looked for again.
//!
//! What is kept is only that a key had a record at some moment of this transaction, which is what `find` says
//! too; the record's version, read later, is validated as ever. That a key had none is not kept: an own
//! insert may change it.

use catalog::{Table, TableId};
use storage::{Approach, Guard, Handle};

use crate::Tables;

/// Looked for in another order than announced, this many are skipped at most.
const SKIPPED: usize = 4;

#[derive(Clone, Copy, Debug)]
enum Place {
    Unknown,
    Approached(Approach),
    Found(Handle),
}

#[derive(Clone, Copy, Debug)]
struct Expected {
    table: TableId,
    /// Where the key ends in `keys`; it begins where the one before ends.
    key_end: usize,
    place: Place,
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

    /// Announces a row, and begins to load the index leaf that names it.
    pub fn add(&mut self, table: &Table, key: &[u8], tables: &Tables, guard: &Guard) {
        let approach = tables.store(table.id).index_at(0).approach(key, guard);
        self.keys.extend_from_slice(key);
        let place = approach.map_or(Place::Unknown, Place::Approached);
        self.rows.push(Expected { table: table.id, key_end: self.keys.len(), place });
    }

    fn key(&self, place: usize) -> &[u8] {
        let start = place.checked_sub(1).map_or(0, |before| self.rows[before].key_end);
        &self.keys[start..self.rows[place].key_end]
    }

    /// Begins to load the announced rows.
    pub fn load(&mut self, tables: &Tables, guard: &Guard) {
        for place in 0..self.rows.len() {
            let Expected { table, place: Place::Approached(approach), .. } = self.rows[place] else {
                continue;
            };
            let found = tables.store(table).index_at(0).arrive(&approach, self.key(place), guard);
            self.rows[place].place = match found {
                Some(Some(record)) => {
                    record.prefetch();
                    Place::Found(record.handle())
                }
                _ => Place::Unknown,
            };
        }
    }

    /// The record of an announced row, if it was found.
    #[inline]
    pub fn take(&mut self, table: TableId, key: &[u8]) -> Option<Handle> {
        let end = self.rows.len().min(self.next + SKIPPED);
        for place in self.next..end {
            let expected = self.rows[place];
            if expected.table == table && self.key(place) == key {
                self.next = place + 1;
                return match expected.place {
                    Place::Found(record) => Some(record),
                    Place::Unknown | Place::Approached(_) => None,
                };
            }
        }
        None
    }
}
