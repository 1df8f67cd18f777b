//! Rows that the running transaction said it will look for: found ahead, so that their cache misses overlap,
//! and then not looked for again.
//!
//! What is kept is only that a key had a record at some moment of this transaction, which is what `find` says
//! too; the record's version, read later, is validated as ever. That a key had none is not kept: an own
//! insert may change it.

use catalog::{Table, TableId};
use storage::{Guard, Record, Search, ShortKey, TableStore};

use crate::Tables;

/// Looked for in another order than announced, this many are skipped at most.
const SKIPPED: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Expected {
    table: TableId,
    key: ShortKey,
    search: Search,
}

/// The announced rows, in order.
#[derive(Default, Debug)]
pub struct Expectations {
    rows: Vec<Expected>,
    next: usize,
}

impl Expectations {
    /// Forgets all of them.
    #[inline]
    pub fn clear(&mut self) {
        self.rows.clear();
        self.next = 0;
    }

    /// Announces a row, and begins to look for it. Long keys are not announced.
    pub fn add(&mut self, table: &Table, key: &[u8], tables: &Tables, guard: &Guard) {
        if let Some(key) = ShortKey::new(key) {
            let search = tables.store(table.id).index_at(0).begin(&key, guard);
            self.rows.push(Expected { table: table.id, key, search });
        }
    }

    /// Begins to load the announced rows.
    pub fn load(&mut self, tables: &Tables, guard: &Guard) {
        let mut goes_on = true;
        while goes_on {
            goes_on = false;
            for Expected { table, key, search } in &mut self.rows {
                goes_on |= tables.store(*table).index_at(0).go_on(search, key, guard);
            }
        }
    }

    /// Returns the record of an announced row, if it was found.
    #[inline]
    pub fn take<'g>(&mut self, store: &TableStore, key: &[u8], guard: &'g Guard) -> Option<Record<'g>> {
        let (key, table) = (ShortKey::new(key)?, store.definition().id);
        let end = self.rows.len().min(self.next + SKIPPED);
        for place in self.next..end {
            let expected = &self.rows[place];
            if expected.table == table && expected.key == key {
                self.next = place + 1;
                return store.index_at(0).end(&expected.search, &key, guard);
            }
        }
        None
    }
}
