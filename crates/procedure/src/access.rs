//! What the executor needs of the state it runs on. Implemented at run time by `transaction`, in replay by `recovery`.

use crate::{Failure, SqlError};
use catalog::{Arena, ColumnSlot, CommitOrder, Datum, Table};

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

/// Access to rows, one operation at a time. A row handle is valid until the transaction ends.
pub trait DataAccess {
    /// A row that was found.
    type Row: Copy;

    /// Where a row is, as a number.
    fn address_of(row: Self::Row) -> u64;

    /// The row at an address, which `address_of` gave in this transaction.
    fn row_at(address: u64) -> Self::Row;

    /// Lays the scan in progress aside, so that another one can be opened.
    fn enter_scan(&mut self);

    /// Takes up the scan again that was laid aside last.
    fn leave_scan(&mut self);

    /// Forgets what was expected.
    fn expect_nothing(&mut self) {}

    /// Announces that the row with a primary key will be looked for after those announced before. A hint: the key may
    /// have no row, and may never be looked for.
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

    /// Has other transactions wait before they write a row, where transactions wait for each other at all: FOR UPDATE.
    ///
    /// # Errors
    /// Another one has it; a conflict.
    fn hold(&mut self, row: Self::Row) -> Result<(), Failure> {
        let _ = row;
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

    /// Rows are about to wait for their client: shared memory is let go until `resume`, where that is possible. Returns the
    /// greatest number of what was read so far: the rows must not be sent before everything up to it is durable.
    ///
    /// # Errors
    /// What was read must not be sent.
    fn rest(&mut self) -> Result<CommitOrder, Failure> {
        Ok(CommitOrder(0))
    }

    /// Goes on after `rest`.
    fn resume(&mut self) {}

    /// Whether what was read so far no longer holds, so that the attempt must fail. Asked now and then by attempts that
    /// loop: one that saw states of different moments may loop for ever.
    fn is_doomed(&self) -> bool {
        false
    }

    /// Deletes a row that was read.
    ///
    /// # Errors
    /// A conflict.
    fn delete(&mut self, table: &Table, row: Self::Row) -> Result<(), Failure>;
}
