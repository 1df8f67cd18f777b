//! What the executor needs of the state it runs on. Implemented at run time by `transaction`, in replay by
//! `recovery`.

use crate::{Failure, SqlError};
use catalog::{Arena, ColumnSlot, CommitOrder, Datum, Table, TableId};
use std::hash::Hash;

/// Keys from `lower` on and below `upper` of one of a table's indexes.
#[derive(Clone, Copy, Debug)]
pub struct ScanRange<'a> {
    /// The index's place in the table's definition.
    pub index: usize,
    /// The least key.
    pub lower: &'a [u8],
    /// The least key above; none when the index has no end there.
    pub upper: Option<&'a [u8]>,
    /// Whether keys descend.
    pub backward: bool,
}

/// Rows that stand in registers, by the numbers that stand there. Numbers rise from transaction to
/// transaction, so that one of an earlier transaction names no row of a later one.
#[derive(Clone, Debug)]
pub struct KeptRows<R> {
    rows: Vec<R>,
    first: i64,
}

impl<R> Default for KeptRows<R> {
    fn default() -> Self {
        Self { rows: Vec::new(), first: 0 }
    }
}

impl<R: Copy> KeptRows<R> {
    /// Forgets all of them.
    #[inline]
    pub fn clear(&mut self) {
        self.first += self.rows.len() as i64;
        self.rows.clear();
    }

    /// Keeps a row; its number.
    pub fn keep(&mut self, row: R) -> i64 {
        self.rows.push(row);
        self.first + self.rows.len() as i64 - 1
    }

    /// The row of a number.
    pub fn get(&self, number: i64) -> Option<R> {
        self.rows.get(usize::try_from(number.checked_sub(self.first)?).ok()?).copied()
    }
}

/// Access to rows, one operation at a time. A row handle is valid until the transaction ends.
pub trait DataAccess {
    /// A row that was found. Equal to another one when both are the same row.
    type Row: Copy + Eq + Hash;

    /// Keeps a row until the transaction ends; its number, which may stand in a register.
    fn keep(&mut self, row: Self::Row) -> i64;

    /// The row that was kept under a number, in this transaction.
    fn kept(&self, number: i64) -> Option<Self::Row>;

    /// Lays the scan in progress aside, so that another one can be opened.
    fn enter_scan(&mut self);

    /// Takes up the scan again that was laid aside last.
    fn leave_scan(&mut self);

    /// Forgets what was expected.
    fn expect_nothing(&mut self) {}

    /// Announces that the row with a primary key will be looked for after those announced before. A hint: the
    /// key may have no row, and may never be looked for.
    fn expect(&mut self, table: &Table, key: &[u8]) {
        let _ = (table, key);
    }

    /// Begins to load all expected rows, so that their cache misses overlap.
    fn load_expected(&mut self) {}

    /// The row with a primary key.
    ///
    /// # Errors
    /// A conflict.
    fn find(&mut self, table: &Table, key: &[u8]) -> Result<Option<Self::Row>, Failure>;

    /// Announces that the rows of a table that are found from now on are to be written; `None` ends this. A
    /// transaction that locks what it reads locks them exclusively at once.
    #[inline]
    fn will_write(&mut self, table: Option<TableId>) {
        let _ = table;
    }

    /// Says whether what follows fails with `Conflict::Held` where it would wait for another transaction:
    /// NOWAIT.
    fn never_wait(&mut self, never_waits: bool) {
        let _ = never_waits;
    }

    /// Has other transactions wait before they write a row, where transactions wait for each other at all:
    /// FOR UPDATE.
    ///
    /// # Errors
    /// Another one has it; a conflict.
    fn hold(&mut self, table: TableId, row: Self::Row) -> Result<(), Failure> {
        let _ = (table, row);
        Ok(())
    }

    /// Begins a scan; an earlier one ends.
    ///
    /// # Errors
    /// A conflict.
    fn open_scan(&mut self, table: &Table, range: ScanRange<'_>) -> Result<(), Failure>;

    /// The next row of the scan.
    ///
    /// # Errors
    /// A conflict.
    fn next_row(&mut self) -> Result<Option<Self::Row>, Failure>;

    /// Reads columns of one version of a row into `out`; false when the row is not there (any more).
    ///
    /// # Errors
    /// A conflict.
    fn read(
        &mut self,
        row: Self::Row,
        columns: &[ColumnSlot],
        arena: &mut Arena,
        out: &mut [Datum],
    ) -> Result<bool, Failure>;

    /// Adds a row, one datum a column.
    ///
    /// # Errors
    /// A conflict; `23505` when its key or a unique column's value is taken.
    fn insert(&mut self, table: &Table, row: &[Datum], arena: &Arena) -> Result<(), Failure>;

    /// Changes columns (by place in the table) of a row that was read.
    ///
    /// # Errors
    /// A conflict; `23505` when a unique column's value is taken.
    fn update(
        &mut self,
        table: &Table,
        row: Self::Row,
        changes: &[(usize, Datum)],
        arena: &Arena,
    ) -> Result<(), Failure>;

    /// Begins a part of the transaction that may be undone.
    fn begin_part(&mut self);

    /// Undoes the part that was begun last, which goes on.
    ///
    /// # Errors
    /// A conflict.
    fn undo_part(&mut self) -> Result<(), Failure>;

    /// Ends the part that was begun last: it stays.
    fn end_part(&mut self);

    /// Ends the transaction, as if its statements so far had been all, and begins another one.
    ///
    /// # Errors
    /// It can't end here; it lost a race.
    fn end_transaction(&mut self, commit: bool) -> Result<(), Failure> {
        let _ = commit;
        Err(SqlError::new("2D000", "invalid transaction termination").into())
    }

    /// Rows are about to wait for their client: shared memory is let go until `resume`, where that is
    /// possible. Returns the greatest number of what was read so far: the rows must not be sent before
    /// everything up to it is durable.
    ///
    /// # Errors
    /// What was read must not be sent.
    fn rest(&mut self) -> Result<CommitOrder, Failure> {
        Ok(CommitOrder(0))
    }

    /// Goes on after `rest`.
    fn resume(&mut self) {}

    /// Whether what was read so far no longer holds, so that the attempt must fail. Asked at intervals by
    /// attempts that loop: one that saw states of different moments may loop for ever.
    fn is_doomed(&self) -> bool {
        false
    }

    /// Deletes a row that was read.
    ///
    /// # Errors
    /// A conflict.
    fn delete(&mut self, table: &Table, row: Self::Row) -> Result<(), Failure>;
}

/// The row whose number stands in a register.
///
/// # Errors
/// It was kept by another transaction.
pub(crate) fn row_of<D: DataAccess>(number: Datum, data: &D) -> Result<D::Row, Failure> {
    let Datum::Int(number) = number else { unreachable!("rows stand in registers as numbers") };
    data.kept(number).ok_or_else(|| SqlError::new("XX000", "a row of another transaction is used").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_names_a_row_of_its_transaction() {
        let mut kept = KeptRows::default();
        let (first, second) = (kept.keep('a'), kept.keep('b'));
        assert_eq!((kept.get(first), kept.get(second)), (Some('a'), Some('b')));
        kept.clear();
        let third = kept.keep('c');
        assert_eq!((kept.get(first), kept.get(second), kept.get(third)), (None, None, Some('c')));
        assert_eq!((kept.get(i64::MIN), kept.get(-1), kept.get(i64::MAX)), (None, None, None));
    }
}
