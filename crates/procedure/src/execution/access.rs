//! The access that the executor needs to the database: to rows, ahead of reads, within queries, and to the
//! transaction in progress.
//!
//! A run-time transaction implements all traits. Replay of pieces implements `DataAccess` and `LookAhead`.

use crate::{Failure, SqlError};
use catalog::{Arena, ChangedWord, ColumnSlot, CommitOrder, Datum, Table, TableId};
use std::hash::Hash;

/// Keys from `lower` on and below `upper` of one of a table's indexes.
#[derive(Clone, Copy, Debug)]
pub struct ScanRange<'a> {
    /// Position of the index in the table's definition.
    pub index: usize,
    /// The least key.
    pub lower: &'a [u8],
    /// The exclusive upper bound; `None` if the range has no upper end.
    pub upper: Option<&'a [u8]>,
    /// Whether keys are visited in descending order.
    pub backward: bool,
}

/// The rows that registers name by number. Numbers rise from transaction to transaction, so a number of an
/// earlier transaction names no row of a later one.
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
    /// Removes all rows. Their numbers are not given again.
    #[inline]
    pub fn clear(&mut self) {
        self.first += self.rows.len() as i64;
        self.rows.clear();
    }

    /// Keeps a row. Returns its number.
    pub fn keep(&mut self, row: R) -> i64 {
        self.rows.push(row);
        self.first + self.rows.len() as i64 - 1
    }

    /// Returns the row with a number.
    pub fn get(&self, number: i64) -> Option<R> {
        self.rows.get(usize::try_from(number.checked_sub(self.first)?).ok()?).copied()
    }
}

/// A new row that compiled code has encoded.
#[derive(Clone, Copy, Debug)]
pub struct EncodedRow<'a> {
    /// A datum for each column, with the arena that they refer to.
    pub values: &'a [Datum],
    /// The arena.
    pub arena: &'a Arena,
    /// The row as its table's layout encodes it.
    pub image: &'a [u64],
    /// Its primary key.
    pub key: &'a [u8],
}

/// Access to rows, one operation at a time. A row handle is valid until the transaction ends.
pub trait DataAccess {
    /// A row that was found. Two handles are equal when they name the same row.
    type Row: Copy + Eq + Hash;

    /// Returns the row with a primary key.
    ///
    /// # Errors
    /// A conflict.
    fn find(&mut self, table: &Table, key: &[u8]) -> Result<Option<Self::Row>, Failure>;

    /// Announces that the rows of a table that are found from now on are to be written; `None` ends this. A
    /// transaction that locks the rows that it reads locks these exclusively at once.
    #[inline]
    fn will_write(&mut self, table: Option<TableId>) {
        let _ = table;
    }

    /// Begins a scan; an earlier one ends.
    ///
    /// # Errors
    /// A conflict.
    fn open_scan(&mut self, table: &Table, range: ScanRange<'_>) -> Result<(), Failure>;

    /// Returns the next row of the scan.
    ///
    /// # Errors
    /// A conflict.
    fn next_row(&mut self) -> Result<Option<Self::Row>, Failure>;

    /// Reads columns of a row into `out`, all of them from one state of the row. Returns false when the row
    /// is absent.
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

    /// Adds a row, with a datum for each column.
    ///
    /// # Errors
    /// A conflict; `23505` when its key or a unique column's value is taken.
    fn insert(&mut self, table: &Table, row: &[Datum], arena: &Arena) -> Result<(), Failure>;

    /// As `insert`, of a row that is encoded already.
    ///
    /// # Errors
    /// As `insert`.
    fn insert_encoded(&mut self, table: &Table, row: EncodedRow<'_>) -> Result<(), Failure> {
        self.insert(table, row.values, row.arena)
    }

    /// Announces that the next update of the row, which was just read, adds to these columns, and that
    /// nothing else follows from their values.
    fn adds_to(&mut self, table: &Table, row: Self::Row, columns: &[usize]) {
        let _ = (table, row, columns);
    }

    /// Changes columns of a row that was read; a column is named by its position in the table.
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

    /// Changes words of a row that was read, none of which holds a column of an index. Returns false if it
    /// has done nothing, because this access takes columns only.
    ///
    /// # Errors
    /// A conflict.
    #[inline]
    fn update_words(&mut self, row: Self::Row, words: &[ChangedWord]) -> Result<bool, Failure> {
        let _ = (row, words);
        Ok(false)
    }

    /// Deletes a row that was read.
    ///
    /// # Errors
    /// A conflict.
    fn delete(&mut self, table: &Table, row: Self::Row) -> Result<(), Failure>;
}

/// Looks rows up before they are read, so that their cache misses overlap. These are hints: a key may have no
/// row, or may never be read.
pub trait LookAhead {
    /// Discards the announced keys.
    fn expect_nothing(&mut self) {}

    /// Announces that the row with a primary key will be read after those announced before.
    fn expect(&mut self, table: &Table, key: &[u8]) {
        let _ = (table, key);
    }

    /// Begins to load all announced rows.
    fn load_expected(&mut self) {}
}

/// Scans inside scans, and rows that registers name: plans of queries need them, single operations do not.
pub trait NestedScans: DataAccess {
    /// Keeps a row until the transaction ends. Returns its number, which a register can hold.
    fn keep(&mut self, row: Self::Row) -> i64;

    /// Returns the row that this transaction has kept under a number.
    fn kept(&self, number: i64) -> Option<Self::Row>;

    /// Suspends the scan in progress, so that another one can be opened.
    fn enter_scan(&mut self);

    /// Resumes the scan that was suspended last.
    fn leave_scan(&mut self);
}

/// Control over the transaction in progress. Replay has none: calls that need it are logged by value.
pub trait TransactionControl: NestedScans {
    /// Sets whether the next accesses fail with `Conflict::Held` instead of waiting for another transaction:
    /// NOWAIT.
    fn never_wait(&mut self, never_waits: bool) {
        let _ = never_waits;
    }

    /// Holds a row, so that other transactions wait before they write it: FOR UPDATE, FOR SHARE.
    ///
    /// # Errors
    /// Another transaction holds the row; a conflict.
    fn hold(&mut self, table: TableId, row: Self::Row, strength: HoldStrength) -> Result<(), Failure> {
        let _ = (table, row, strength);
        Ok(())
    }

    /// Begins a search for rows of these tables that no other transaction holds: SKIP LOCKED. Rows that it
    /// visits and does not hold do not join the read set.
    fn begin_skipping(&mut self, search: SkippingSearch<'_>) {
        let _ = search;
    }

    /// Holds a row that the search has found. Returns false if another transaction holds it, or has changed
    /// it since the search came to it.
    ///
    /// # Errors
    /// The statement was cancelled.
    fn hold_unless_locked(
        &mut self,
        table: TableId,
        row: Self::Row,
        strength: HoldStrength,
    ) -> Result<bool, Failure> {
        self.hold(table, row, strength).map(|()| true)
    }

    /// Interrupts the search, while the statement uses the row that was found.
    fn pause_skipping(&mut self) {}

    /// Continues the search.
    fn resume_skipping(&mut self) {}

    /// Ends the search.
    fn end_skipping(&mut self) {}

    /// Begins a subtransaction, which `undo_part` can undo.
    fn begin_part(&mut self);

    /// Undoes the writes of the innermost subtransaction, which stays open.
    ///
    /// # Errors
    /// A conflict.
    fn undo_part(&mut self) -> Result<(), Failure>;

    /// Ends the innermost subtransaction. Its writes stay.
    fn end_part(&mut self);

    /// Commits or rolls back the transaction, and begins the next one: COMMIT or ROLLBACK in a procedure.
    ///
    /// # Errors
    /// `2D000`: the transaction can't end here. A conflict.
    fn end_transaction(&mut self, commit: bool) -> Result<(), Failure> {
        let _ = commit;
        Err(SqlError::new("2D000", "invalid transaction termination").into())
    }

    /// Releases shared memory until `resume`, while rows wait for their client. Returns the greatest commit
    /// number that was read so far: rows may be sent once all commits up to it are durable.
    ///
    /// # Errors
    /// The rows read so far must not be sent.
    fn rest(&mut self) -> Result<CommitOrder, Failure> {
        Ok(CommitOrder(0))
    }

    /// Continues after `rest`.
    fn resume(&mut self) {}

    /// Returns whether validation would already fail. Loops call this at intervals, because an attempt
    /// that has read an inconsistent state may loop forever.
    fn is_doomed(&self) -> bool {
        false
    }
}

/// Which other transactions may hold a row at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HoldStrength {
    /// None: FOR UPDATE.
    Exclusive,
    /// Those that do not write it either: FOR SHARE.
    Shared,
}

/// A search for rows that no other transaction holds.
#[derive(Clone, Copy, Debug)]
pub struct SkippingSearch<'a> {
    /// The tables whose rows are held.
    pub tables: &'a [TableId],
    /// Whether the search reads nothing but these tables.
    pub is_alone: bool,
}

/// The access that a whole procedure needs.
pub trait Transaction: LookAhead + TransactionControl {}

impl<D: LookAhead + TransactionControl> Transaction for D {}

/// Returns the row whose number a register holds.
///
/// # Errors
/// `XX000`: an earlier transaction has kept the row.
pub(crate) fn row_of<D: NestedScans>(number: Datum, data: &D) -> Result<D::Row, Failure> {
    let Datum::Int(number) = number else { unreachable!("registers hold rows as numbers") };
    data.kept(number).ok_or_else(|| SqlError::new("XX000", "the row belongs to another transaction").into())
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
