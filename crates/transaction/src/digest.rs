//! The digest of all tables, from a snapshot, so that transactions may go on meanwhile.

use crate::Tables;
use catalog::Arena;
use storage::{Cursor, Digest, Direction, TableDigest, Worker};

impl Tables {
    /// The digest of all tables as of now. `None` when all worker slots are taken.
    pub fn digest(&self) -> Option<Digest> {
        let mut worker = Worker::new(self.epochs.clone(), self.memory.clone())?;
        let snapshot = self.snapshots.open(&self.epochs);
        let (mut arena, mut scratch) = (Arena::default(), Vec::new());
        let mut tables = Vec::new();
        for store in self.iter() {
            let definition = store.definition();
            let mut digest = TableDigest::default();
            let mut cursor = Cursor::default();
            cursor.open(&[], None, Direction::Forward);
            loop {
                let guard = worker.enter();
                let more = cursor.read_leaf(store.index_at(0), &guard).is_some();
                while let Some(record) = cursor.next_buffered(&guard) {
                    let hash = record.read_at(snapshot.bound(), |row| {
                        arena.clear();
                        TableDigest::hash_row(definition, row, &mut arena, &mut scratch)
                    });
                    if let (_, Some(hash)) = hash {
                        digest.merge(&TableDigest { rows: 1, hash });
                    }
                }
                if !more {
                    break;
                }
            }
            tables.push((definition.name.clone(), digest));
        }
        tables.sort_by(|a, b| a.0.cmp(&b.0));
        Some(Digest { tables })
    }
}
