//! Makes the writes of transactions that were logged by value.
//! Paper: PACMAN §4.5. The writes go through the same access as those of procedures, so each scheme handles
//! them under its rules.

use crate::Definitions;
use crate::divergence::{Divergence, malformed_writes, writes_diverged};
use catalog::{Arena, CommitOrder, Datum, DecodeError, RowChange, Table};
use logging::content::Write;
use procedure::{DataAccess, Failure, LookAhead, SqlError};

/// A row that leaves its unique keys before another row takes them, and comes back with new ones.
struct Moved {
    /// The index of the write.
    write: usize,
    row: Vec<Datum>,
}

/// Makes writes by value. It keeps its buffers from one transaction to the next.
#[derive(Default)]
pub struct ValueWriter {
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
    /// Makes the writes of one transaction. A row may take a unique key that another row leaves, so deleted
    /// rows and rows whose unique keys change are removed first; then rows are updated; then rows are
    /// inserted.
    ///
    /// # Errors
    /// The writes do not fit the tables, or their rows.
    pub fn write<D: DataAccess>(
        &mut self,
        order: CommitOrder,
        writes: &[Write<'_>],
        definitions: &Definitions,
        data: &mut D,
    ) -> Result<(), Divergence> {
        if writes.iter().any(|write| definitions.get(write.table).is_none()) {
            return Err(malformed_writes(order));
        }
        self.write_all(writes, definitions, data).map_err(|failure| writes_diverged(order, &failure))
    }

    /// Announces the row of a write, unless it is an insert. Returns `None` when the write does not fit its
    /// table.
    pub fn announce<D: LookAhead>(
        &mut self,
        write: &Write<'_>,
        definitions: &Definitions,
        data: &mut D,
    ) -> Option<()> {
        if write.change == RowChange::Insert {
            return Some(());
        }
        let table = definitions.get(write.table)?;
        self.arena.clear();
        self.key.clear();
        write.key(table, (&mut self.arena, &mut self.row), &mut self.key).ok()?;
        data.expect(table, &self.key);
        Some(())
    }

    /// Finds the row of a write, whether it is there or not, so that a disk or memory that fails does so
    /// before anything is written. Returns `None` when the write does not fit its table.
    pub(crate) fn reach<D: DataAccess>(
        &mut self,
        write: &Write<'_>,
        definitions: &Definitions,
        data: &mut D,
    ) -> Option<Result<(), Failure>> {
        let table = definitions.get(write.table)?;
        self.arena.clear();
        self.key.clear();
        write.key(table, (&mut self.arena, &mut self.row), &mut self.key).ok()?;
        Some(data.find(table, &self.key).map(|_| ()))
    }

    fn write_all<D: DataAccess>(
        &mut self,
        writes: &[Write<'_>],
        definitions: &Definitions,
        data: &mut D,
    ) -> Result<(), Failure> {
        let table_of = |write: &Write<'_>| definitions.get(write.table).expect("all tables were looked up");
        self.arena.clear();
        self.moved.clear();
        for (index, write) in writes.iter().enumerate() {
            self.leave_keys(index, write, table_of(write), data)?;
        }
        for (index, write) in writes.iter().enumerate() {
            if write.change != RowChange::Update || self.moved.iter().any(|moved| moved.write == index) {
                continue;
            }
            let table = table_of(write);
            self.decode(write, table)?;
            let found = self.find(table, data)?;
            self.changes.clear();
            self.changes.extend(self.changed.iter().map(|column| (*column, self.row[*column])));
            data.update(table, found, &self.changes, &self.arena)?;
        }
        for moved in &self.moved {
            data.insert(table_of(&writes[moved.write]), &moved.row, &self.arena)?;
        }
        for write in writes.iter().filter(|write| write.change == RowChange::Insert) {
            let table = table_of(write);
            self.decode(write, table)?;
            data.insert(table, &self.row, &self.arena)?;
        }
        Ok(())
    }

    /// Removes the row of a delete, and of an update that changes a unique key.
    fn leave_keys<D: DataAccess>(
        &mut self,
        index: usize,
        write: &Write<'_>,
        table: &Table,
        data: &mut D,
    ) -> Result<(), Failure> {
        let mut unique = table.indexes.iter().skip(1).filter(|index| index.unique).peekable();
        let may_leave =
            write.change == RowChange::Delete || write.change == RowChange::Update && unique.peek().is_some();
        if !may_leave {
            return Ok(());
        }
        self.decode(write, table)?;
        if write.change == RowChange::Delete {
            let found = self.find(table, data)?;
            return data.delete(table, found);
        }
        if unique.any(|index| index.columns.iter().any(|column| self.changed.contains(column))) {
            let found = self.find(table, data)?;
            let mut row = vec![Datum::Null; table.columns.len()];
            data.read(found, table.layout.slots(), &mut self.arena, &mut row)?;
            for column in &self.changed {
                row[*column] = self.row[*column];
            }
            data.delete(table, found)?;
            self.moved.push(Moved { write: index, row });
        }
        Ok(())
    }

    fn decode(&mut self, write: &Write<'_>, table: &Table) -> Result<(), Failure> {
        write.decode(table, &mut self.arena, &mut self.row, &mut self.changed).map_err(damaged)
    }

    /// Finds the row of the decoded write.
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
