//! How pieces read and write: in place, at once, and without locks.
//!
//! The schedule gives every row to one thread at a time, in commit order, and only committed calls are replayed. So
//! nothing is validated, nothing is kept aside until commit, and nothing is ever undone. Indexes are shared by all threads,
//! as neighbouring keys may belong to different ones.
//! Invariant: every record is in each index exactly under the key of its row. Held by: the digests of
//! `crates/reprise/tests/suite/parallel_replay`, which reads the tables over their indexes afterwards.

use catalog::{Arena, ColumnSlot, CommitOrder, Datum, Table, TableId};
use procedure::{DataAccess, Failure, ScanRange, SqlError};
use storage::{Change, Cursor, Direction, Finger, OutOfMemory, Record, RecordState, TableStore, Worker};
use transaction::{Expectations, Tables};

/// One thread's access to the tables.
pub(super) struct Direct {
    tables: Tables,
    pub(super) worker: Worker,
    /// The order of the transaction that is replayed.
    pub(super) order: CommitOrder,
    cursor: Cursor,
    scanned: Option<(TableId, usize)>,
    expected: Expectations,
    inserted: Option<(TableId, usize)>,
    finger: Finger,
    image: Vec<u64>,
    key: Vec<u8>,
    scratch: Arena,
}

fn out_of_memory(error: OutOfMemory) -> Failure {
    SqlError::new("53200", error.to_string()).into()
}

impl Direct {
    pub(super) fn new(tables: Tables, worker: Worker) -> Self {
        Self {
            tables,
            worker,
            order: CommitOrder::default(),
            cursor: Cursor::default(),
            scanned: None,
            expected: Expectations::default(),
            inserted: None,
            finger: Finger::default(),
            image: Vec::new(),
            key: Vec::new(),
            scratch: Arena::default(),
        }
    }

    /// Begins to replay pieces.
    pub(super) fn enter(&mut self) {
        self.worker.enter();
    }

    /// Lets memory go that nobody sees any more. Between pieces.
    pub(super) fn exit(&mut self) {
        self.expected.clear();
        self.inserted = None;
        self.worker.exit();
        self.worker.reclaim();
    }

    fn link(&mut self, table: &Table, index: usize, record: Record) -> Result<Option<Record>, Failure> {
        if self.inserted != Some((table.id, index)) {
            self.inserted = Some((table.id, index));
            self.finger = Finger::default();
        }
        let Self { tables, worker, key, finger, .. } = self;
        let linked = tables.store(table.id).link(index, key, record, worker, finger, &mut |_| {});
        linked.map_err(out_of_memory)
    }

    /// The key of a record's row in an index, into `self.key`.
    fn key_of_row(&mut self, table: &Table, index: usize, record: Record) {
        self.scratch.clear();
        self.tables.store(table.id).key_of_row(index, record.row(), &mut self.scratch, &mut self.key);
    }
}

impl DataAccess for Direct {
    fn begin_part(&mut self) {}

    fn undo_part(&mut self) -> Result<(), Failure> {
        unreachable!("a procedure whose parts may be undone is logged by value")
    }

    fn end_part(&mut self) {}

    type Row = Record;

    fn address_of(row: Record) -> u64 {
        row.address()
    }

    fn row_at(address: u64) -> Record {
        TableStore::record(address)
    }

    fn enter_scan(&mut self) {
        unreachable!("pieces have one scan at a time: procedures with queries are logged by value")
    }

    fn leave_scan(&mut self) {}

    fn expect_nothing(&mut self) {
        self.expected.clear();
    }

    fn expect(&mut self, table: &Table, key: &[u8]) {
        self.expected.add(table, key, &self.tables, &self.worker);
    }

    fn load_expected(&mut self) {
        self.expected.load(&self.tables, &self.worker);
    }

    #[inline]
    fn find(&mut self, table: &Table, key: &[u8]) -> Result<Option<Record>, Failure> {
        // A record that was found ahead may have been deleted since, and its key be another's.
        if let Some(record) = self.expected.take(table.id, key).filter(|own| !own.locked_state().is_dead()) {
            return Ok(Some(record));
        }
        let (record, _) = self.tables.store(table.id).find(key, &self.worker);
        if let Some(record) = record {
            record.prefetch();
        }
        Ok(record)
    }

    fn open_scan(&mut self, table: &Table, range: ScanRange<'_>) -> Result<(), Failure> {
        let direction = if range.backward { Direction::Backward } else { Direction::Forward };
        self.cursor.open(range.lower, range.upper, direction);
        self.scanned = Some((table.id, range.index));
        Ok(())
    }

    #[inline]
    fn next_row(&mut self) -> Result<Option<Record>, Failure> {
        let Some((table, index)) = self.scanned else { return Ok(None) };
        loop {
            if let Some(address) = self.cursor.next_buffered() {
                if let Some(ahead) = self.cursor.buffered().get(1) {
                    TableStore::record(*ahead).prefetch();
                }
                return Ok(Some(TableStore::record(address)));
            }
            if self.cursor.read_leaf(self.tables.store(table).index_at(index)).is_none() {
                return Ok(None);
            }
        }
    }

    #[inline]
    fn read(
        &mut self,
        record: Record,
        columns: &[ColumnSlot],
        arena: &mut Arena,
        out: &mut [Datum],
    ) -> Result<bool, Failure> {
        if record.locked_state().is_absent() {
            return Ok(false);
        }
        let row = record.row();
        for (slot, datum) in columns.iter().zip(out.iter_mut()) {
            *datum = row.column(*slot, arena);
        }
        Ok(true)
    }

    fn insert(&mut self, table: &Table, row: &[Datum], arena: &Arena) -> Result<(), Failure> {
        table.layout.encode(row, arena, &mut self.image);
        let created = self.tables.store(table.id).create(&self.image, &mut self.worker);
        let record = created.map_err(out_of_memory)?;
        record.unlock(RecordState::present(self.order));
        for index in 0..table.indexes.len() {
            self.tables.store(table.id).key_of(index, row, arena, &mut self.key);
            if self.link(table, index, record)?.is_some() {
                let name = &table.indexes[index].name;
                let message = format!("duplicate key value violates unique constraint \"{name}\"");
                return Err(SqlError::new("23505", message).into());
            }
        }
        Ok(())
    }

    #[inline]
    fn update(
        &mut self,
        table: &Table,
        record: Record,
        changes: &[(usize, Datum)],
        arena: &Arena,
    ) -> Result<(), Failure> {
        let moves = |index: &usize| {
            let columns = &table.indexes[*index].columns;
            changes.iter().any(|(column, _)| columns.contains(column))
        };
        let mut moved = Vec::new();
        for index in (1..table.indexes.len()).filter(moves) {
            self.key_of_row(table, index, record);
            moved.push((index, self.key.clone()));
        }
        let slots = table.layout.slots();
        let new = changes.iter().map(|(column, datum)| Change { slot: slots[*column], datum: *datum });
        record.apply(&table.layout, new, arena, &mut self.worker);
        record.unlock(RecordState::present(self.order));
        for (index, old) in moved {
            self.key_of_row(table, index, record);
            if self.key != old {
                self.tables.store(table.id).index_at(index).remove(&old, &mut self.worker);
                self.link(table, index, record)?;
            }
        }
        Ok(())
    }

    fn delete(&mut self, table: &Table, record: Record) -> Result<(), Failure> {
        record.unlock_dead();
        self.inserted = None;
        let Self { tables, worker, scratch, .. } = self;
        scratch.clear();
        tables.store(table.id).unlink(record, scratch, worker, &mut |_| false);
        Ok(())
    }
}
