//! Numbers of sequences that nobody else knows yet: those that the same statement or transaction has made.

use super::Tables;
use catalog::{Arena, CommitOrder, Datum, Sequence, TableId};
use procedure::{Sequences, SqlError};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use storage::{Guard, Linker, OutOfMemory};

/// A row of a sequence's table, with the memory that its values lie in.
type Row = ([Datum; 3], Arena);

/// Counts by sequences, each from its start.
#[derive(Debug)]
pub struct Counters {
    tables: Mutex<Tables>,
    /// The last number, and whether it was given.
    last: Mutex<BTreeMap<TableId, (i64, bool)>>,
}

impl Sequences for Counters {
    fn next(&self, sequence: TableId) -> Result<i64, SqlError> {
        let definition = self.definition(sequence);
        let mut last = self.lock();
        let number = match last.get(&sequence) {
            None => definition.start,
            Some((last, false)) => *last,
            Some((last, true)) => last.saturating_add(definition.increment),
        };
        if !(definition.least..=definition.greatest).contains(&number) {
            return Err(SqlError::new("2200H", "nextval: reached the end of a sequence"));
        }
        last.insert(sequence, (number, true));
        Ok(number)
    }

    fn set(&self, sequence: TableId, number: i64, is_called: bool) -> Result<(), SqlError> {
        let definition = self.definition(sequence);
        if !(definition.least..=definition.greatest).contains(&number) {
            let message = format!("setval: value {number} is out of bounds");
            return Err(SqlError::new("22003", message));
        }
        self.lock().insert(sequence, (number, is_called));
        Ok(())
    }
}

impl Counters {
    /// Nothing is counted yet.
    pub fn new(tables: Tables) -> Self {
        Self { tables: Mutex::new(tables), last: Mutex::default() }
    }

    /// Takes over changed definitions.
    pub fn set_tables(&self, tables: Tables) {
        *self.tables.lock().unwrap_or_else(PoisonError::into_inner) = tables;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TableId, (i64, bool)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn definition(&self, sequence: TableId) -> Sequence {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.store(sequence).definition().sequence.clone().expect("the table of a sequence")
    }

    /// The rows of sequences that were counted by.
    pub fn rows(&self, is_wanted: impl Fn(TableId) -> bool) -> Vec<(TableId, Row)> {
        let row = |(last, is_called): (i64, bool)| {
            let mut arena = Arena::default();
            (Sequence::row(last, is_called, &mut arena), arena)
        };
        let last = self.lock();
        last.iter().filter(|(id, _)| is_wanted(**id)).map(|(id, place)| (*id, row(*place))).collect()
    }

    /// Makes the sequences go on behind what was counted.
    pub(super) fn store(&self, guard: &Guard) -> Result<(), OutOfMemory> {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut image = Vec::new();
        for (sequence, (row, arena)) in self.rows(|_| true) {
            let store = tables.store(sequence);
            store.definition().layout.encode(&row, &arena, &mut image);
            store.load(&image, CommitOrder(0), 1, &mut Linker::default(), guard)?;
        }
        Ok(())
    }
}
