//! Transactions that only read, on a snapshot: they never fail, and no transaction waits for them or fails
//! because of them.
//! Paper: Silo §4.9. Differs: the snapshot is taken when it is asked for, so it holds all that was
//! acknowledged before.
//!
//! Invariant: between `rest` and `resume` nothing points into shared memory: scans find their entries again
//! by key, and handles of before are worth nothing afterwards. Held by:
//! `crates/reprise/tests/suite/snapshots.rs`.

use crate::Tables;
use crate::Workspace;
use crate::on_demand::{Intent, Place};
use crate::workspace::Scans;
use catalog::{Arena, ColumnSlot, CommitOrder, Datum, Table, TableId};
use procedure::{
    DataAccess, Failure, Interrupts, KeptRows, LookAhead, NestedScans, ScanRange, SqlError,
    TransactionControl,
};
use storage::{Handle, Record, Snapshot, Worker};

/// Reads what a snapshot holds.
pub struct Reader<'a> {
    tables: &'a Tables,
    worker: &'a mut Worker,
    scans: &'a mut Scans,
    kept: &'a mut KeptRows<Handle>,
    interrupts: &'a Interrupts,
    snapshot: &'a Snapshot,
    /// Where scans were when parts of procedures began.
    parts: Vec<usize>,
    /// No transaction with a greater number wrote what was read.
    last: CommitOrder,
    key: Vec<u8>,
}

impl std::fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("snapshot", &self.snapshot).finish_non_exhaustive()
    }
}

impl Workspace {
    /// A reader for the transaction in hand, which has read nothing.
    pub fn reader<'a>(&'a mut self, snapshot: &'a Snapshot) -> Reader<'a> {
        let Self { tables, worker, scans, kept, interrupts, .. } = self;
        let (parts, last) = (Vec::new(), CommitOrder(0));
        Reader { tables, worker, scans, kept, interrupts, snapshot, parts, last, key: Vec::new() }
    }
}

impl Reader<'_> {
    /// No transaction with a greater number wrote what was read.
    pub fn last(&self) -> CommitOrder {
        self.last
    }

    /// Takes note of a look for a row that may be absent.
    fn looks_at(&mut self, table: TableId) {
        if let Some(numbers) = &self.tables.access_numbers {
            self.last = self.last.max(numbers.vacated_by(table));
        }
    }

    /// Writes the key that a record has in an index; `None` when it has no row. Either is an answer that
    /// depends on the row's writer.
    fn key_of(
        &self,
        record: Record<'_>,
        table: TableId,
        index: usize,
        key: &mut Vec<u8>,
    ) -> (CommitOrder, Option<()>) {
        let (store, mut arena) = (self.tables.store(table), Arena::default());
        record.read_at(self.snapshot.bound(), |row| store.key_of_row(index, row, &mut arena, key))
    }
}

fn only_reads(statement: &str) -> Failure {
    SqlError::new("25006", format!("cannot execute {statement} in a read-only transaction")).into()
}

impl DataAccess for Reader<'_> {
    type Row = Handle;

    fn find(&mut self, table: &Table, key: &[u8]) -> Result<Option<Handle>, Failure> {
        self.tables.recover(table.id, Place::Key(key), Intent::Read, self.worker.guard(), self.interrupts)?;
        let found = self.tables.store(table.id).find(key, self.worker.guard()).ok().map(Record::handle);
        if found.is_none() {
            self.looks_at(table.id);
        }
        Ok(found)
    }

    fn open_scan(&mut self, table: &Table, range: ScanRange<'_>) -> Result<(), Failure> {
        self.tables.recover(
            table.id,
            Place::Range(range),
            Intent::Read,
            self.worker.guard(),
            self.interrupts,
        )?;
        // The client may rest at any row, and the scan finds its place again by the key.
        self.scans.current.open(table, range, true);
        Ok(())
    }

    fn next_row(&mut self) -> Result<Option<Handle>, Failure> {
        let (Some(table), index) = (self.scans.current.table, self.scans.current.index) else {
            return Ok(None);
        };
        loop {
            let guard = self.worker.guard();
            if let Some(record) = self.scans.current.cursor.next_buffered(guard) {
                let mut key = std::mem::take(&mut self.key);
                let (order, counts) = match index {
                    0 => (CommitOrder(0), true),
                    _ => {
                        let (order, read) = self.key_of(record, table, index, &mut key);
                        (order, read.is_some() && self.scans.current.cursor.last_is_under(&key))
                    }
                };
                let handle = record.handle();
                self.key = key;
                self.last = self.last.max(order);
                if counts {
                    return Ok(Some(handle));
                }
            } else {
                let store = self.tables.store(table);
                if self.scans.current.cursor.read_leaf(store.index_at(index), guard).is_none() {
                    return Ok(None);
                }
                self.looks_at(table);
            }
        }
    }

    fn read(
        &mut self,
        record: Handle,
        columns: &[ColumnSlot],
        arena: &mut Arena,
        out: &mut [Datum],
    ) -> Result<bool, Failure> {
        let (order, read) = self.worker.guard().record(record).read_at(self.snapshot.bound(), |row| {
            for (slot, datum) in columns.iter().zip(out.iter_mut()) {
                *datum = row.column(*slot, arena);
            }
        });
        self.last = self.last.max(order);
        Ok(read.is_some())
    }

    fn insert(&mut self, _: &Table, _: &[Datum], _: &Arena) -> Result<(), Failure> {
        Err(only_reads("INSERT"))
    }

    fn update(&mut self, _: &Table, _: Handle, _: &[(usize, Datum)], _: &Arena) -> Result<(), Failure> {
        Err(only_reads("UPDATE"))
    }

    fn delete(&mut self, _: &Table, _: Handle) -> Result<(), Failure> {
        Err(only_reads("DELETE"))
    }
}

/// A snapshot ignores the hints.
impl LookAhead for Reader<'_> {}

impl NestedScans for Reader<'_> {
    fn keep(&mut self, row: Handle) -> i64 {
        self.kept.keep(row)
    }

    fn kept(&self, number: i64) -> Option<Handle> {
        self.kept.get(number)
    }

    fn enter_scan(&mut self) {
        self.scans.enter();
    }

    fn leave_scan(&mut self) {
        self.scans.leave();
    }
}

impl TransactionControl for Reader<'_> {
    fn begin_part(&mut self) {
        self.parts.push(self.scans.depth());
    }

    fn undo_part(&mut self) -> Result<(), Failure> {
        self.scans.come_back_to(self.parts.last().copied().unwrap_or(0));
        Ok(())
    }

    fn end_part(&mut self) {
        self.parts.pop();
    }

    fn rest(&mut self) -> Result<CommitOrder, Failure> {
        self.worker.leave();
        Ok(self.last)
    }

    fn resume(&mut self) {
        self.worker.stay();
        self.scans.look_again();
    }
}

#[cfg(test)]
mod tests;
