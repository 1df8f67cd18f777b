//! The number of rows of tables, and the memory that they take.
//!
//! Commits keep no counts, so this reads a snapshot, as a digest does.

use crate::Tables;
use catalog::TableId;
use storage::{Cursor, Direction, Worker};

/// The rows of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableCensus {
    /// The table.
    pub table: TableId,
    /// Number of rows.
    pub rows: u64,
    /// Bytes of the rows in memory; without indexes, and without the headers of rows.
    pub bytes: u64,
}

impl Tables {
    /// Counts the rows of the tables that `is_wanted` accepts. `None`: no worker is free.
    pub fn census(&self, is_wanted: impl Fn(TableId) -> bool) -> Option<Vec<TableCensus>> {
        let mut worker = Worker::new(self.epochs.clone(), self.memory.clone())?;
        let snapshot = self.snapshots.open(&self.epochs);
        let mut all = Vec::new();
        for store in self.iter().filter(|store| is_wanted(store.definition().id)) {
            let mut own = TableCensus { table: store.definition().id, rows: 0, bytes: 0 };
            let mut cursor = Cursor::default();
            cursor.open(&[], None, Direction::Forward);
            loop {
                let guard = worker.enter();
                let more = cursor.read_leaf(store.index_at(0), &guard).is_some();
                while let Some(record) = cursor.next_buffered(&guard) {
                    if let (_, Some(words)) = record.read_at(snapshot.bound(), |row| row.capacity()) {
                        own.rows += 1;
                        own.bytes += 8 * words as u64;
                    }
                }
                if !more {
                    break;
                }
            }
            all.push(own);
        }
        Some(all)
    }
}
