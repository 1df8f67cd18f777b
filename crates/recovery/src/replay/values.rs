//! Replay of transactions that were logged by value.
//! Paper: PACMAN §4.5. The writes go through the same access as those of procedures, so each method has them
//! under its own rules.

use super::{unfit, writes_diverged};
use crate::RecoveryError;
use catalog::{Arena, CommitOrder, Datum, DecodeError, RowChange, Table};
use logging::content::Write;
use procedure::{DataAccess, Failure, SqlError};
use transaction::Tables;

/// A row that leaves its unique keys before others may take them, and comes back with new ones.
struct Moved {
    write: usize,
    row: Vec<Datum>,
}

/// Buffers, kept from one transaction to the next.
#[derive(Default)]
pub(super) struct ValueWriter {
    arena: Arena,
    row: Vec<Datum>,
    changed: Vec<usize>,
    changes: Vec<(usize, Datum)>,
    key: Vec<u8>,
    moved: Vec<Moved>,
}

fn damaged(_: DecodeError) -> Failure {
    SqlError::new("XX001", "a recorded write does not fit its table").into()
}

impl ValueWriter {
    /// Does the writes of one transaction. What one row leaves another may take, so rows first leave their
    /// keys, those that change a unique one included; then rows change; then rows come.
    pub(super) fn write<D: DataAccess>(
        &mut self,
        order: CommitOrder,
        writes: &[Write<'_>],
        tables: &Tables,
        data: &mut D,
    ) -> Result<(), RecoveryError> {
        if writes.iter().any(|write| tables.by_id(write.table).is_none()) {
            return Err(unfit(order));
        }
        self.write_all(writes, tables, data).map_err(|failure| writes_diverged(order, &failure))
    }

    /// Announces the row that a write is about, unless it is new. `None` when the write does not fit its
    /// table.
    pub(super) fn announce<D: DataAccess>(
        &mut self,
        write: &Write<'_>,
        tables: &Tables,
        data: &mut D,
    ) -> Option<()> {
        if write.change == RowChange::Insert {
            return Some(());
        }
        let table = tables.by_id(write.table)?.definition();
        self.arena.clear();
        self.key.clear();
        write.key(table, (&mut self.arena, &mut self.row), &mut self.key).ok()?;
        data.expect(table, &self.key);
        Some(())
    }

    fn write_all<D: DataAccess>(
        &mut self,
        writes: &[Write<'_>],
        tables: &Tables,
        data: &mut D,
    ) -> Result<(), Failure> {
        self.arena.clear();
        self.moved.clear();
        for (place, write) in writes.iter().enumerate() {
            let table = tables.store(write.table).definition();
            let mut unique = table.indexes.iter().skip(1).filter(|index| index.unique).peekable();
            let may_leave = write.change == RowChange::Delete
                || write.change == RowChange::Update && unique.peek().is_some();
            if !may_leave {
                continue;
            }
            let mut moves = |changed: &[usize]| {
                unique.any(|index| index.columns.iter().any(|column| changed.contains(column)))
            };
            self.decode(write, table)?;
            if write.change == RowChange::Delete {
                let found = self.find(table, data)?;
                data.delete(table, found)?;
            } else if write.change == RowChange::Update && moves(&self.changed) {
                let found = self.find(table, data)?;
                let mut row = vec![Datum::Null; table.columns.len()];
                data.read(found, table.layout.slots(), &mut self.arena, &mut row)?;
                for column in &self.changed {
                    row[*column] = self.row[*column];
                }
                data.delete(table, found)?;
                self.moved.push(Moved { write: place, row });
            }
        }
        for (place, write) in writes.iter().enumerate() {
            if write.change != RowChange::Update || self.moved.iter().any(|moved| moved.write == place) {
                continue;
            }
            let table = tables.store(write.table).definition();
            self.decode(write, table)?;
            let found = self.find(table, data)?;
            self.changes.clear();
            self.changes.extend(self.changed.iter().map(|column| (*column, self.row[*column])));
            data.update(table, found, &self.changes, &self.arena)?;
        }
        for moved in &self.moved {
            let table = tables.store(writes[moved.write].table).definition();
            data.insert(table, &moved.row, &self.arena)?;
        }
        for write in writes.iter().filter(|write| write.change == RowChange::Insert) {
            let table = tables.store(write.table).definition();
            self.decode(write, table)?;
            data.insert(table, &self.row, &self.arena)?;
        }
        Ok(())
    }

    fn decode(&mut self, write: &Write<'_>, table: &Table) -> Result<(), Failure> {
        write.decode(table, &mut self.arena, &mut self.row, &mut self.changed).map_err(damaged)
    }

    /// The row that the decoded write is about.
    fn find<D: DataAccess>(&mut self, table: &Table, data: &mut D) -> Result<D::Row, Failure> {
        self.key.clear();
        for column in &table.primary().columns {
            table.encode_key_column(*column, self.row[*column], &self.arena, &mut self.key);
        }
        let found = data.find(table, &self.key)?;
        found.ok_or_else(|| {
            SqlError::new("XX001", format!("{} lacks a row that was written", table.name)).into()
        })
    }
}
