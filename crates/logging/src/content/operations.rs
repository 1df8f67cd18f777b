//! Physiological records: each operation of a transaction with its before and after images, and the
//! transaction's outcome.
//! Paper: command logging §IV (Figure 2, differential logging). Differs: tuples have no pages, so there is no
//! dirty page table. Operations are logged while their rows are locked and before the transaction knows its
//! outcome, because only then has an optimistic transaction a before image.
//!
//! An operation's payload: kind (u8: 1 = insert, 2 = update of columns, 3 = delete, 4 = update of the row),
//! table (varint), then the columns; its order names the transaction. An insert and a delete have all columns
//! in order. An update of columns has the primary key's columns, then for each changed column its index
//! (varint), before image and after image. An update of the row has all columns before and all columns after.
//! An outcome's payload: the transaction (u64), whether it committed (u8).

use super::writes::read_key;
use super::{Images, RecordKind, append, begin, seal};
use catalog::{
    Arena, CommitOrder, Datum, DecodeError, Reader, RowChange, Table, TableId, decode_value, encode_value,
    put_varint,
};

const INSERT: u8 = 1;
const UPDATE: u8 = 2;
const DELETE: u8 = 3;
const UPDATE_ROW: u8 = 4;

/// The image of an operation to use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The after image.
    Redo,
    /// The before image.
    Undo,
}

/// An operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation<'a> {
    /// The table of the row.
    pub table: TableId,
    change: RowChange,
    images: Images,
    body: &'a [u8],
}

/// The outcome of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The transaction.
    pub transaction: CommitOrder,
    /// Whether it committed. A transaction that did not commit, or that recovery has undone, leaves no
    /// changes.
    pub committed: bool,
}

/// Writes the operations of a transaction, one record each.
#[derive(Debug)]
pub struct OperationsBuilder;

/// The before or after image of a row.
pub type Image<'a> = (&'a [Datum], &'a Arena);

fn put_columns(columns: impl Iterator<Item = usize>, table: &Table, image: Image<'_>, out: &mut Vec<u8>) {
    let (row, arena) = image;
    columns.for_each(|column| encode_value(row[column], table.columns[column].ty, arena, out));
}

impl OperationsBuilder {
    /// Appends the record of an operation. Images have a datum for every column. Of an update of columns,
    /// only the key's columns and those in `changed` are used.
    pub fn push(
        buffer: &mut Vec<u8>,
        transaction: CommitOrder,
        (change, images): (RowChange, Images),
        table: &Table,
        (before, after): (Image<'_>, Image<'_>),
        changed: &[usize],
    ) {
        let start = append(RecordKind::Operation, buffer);
        buffer.push(match (change, images) {
            (RowChange::Insert, _) => INSERT,
            (RowChange::Delete, _) => DELETE,
            (RowChange::Update, Images::Columns) => UPDATE,
            (RowChange::Update, Images::Rows) => UPDATE_ROW,
        });
        put_varint(table.id.0.into(), buffer);
        let all = 0..table.columns.len();
        match (change, images) {
            (RowChange::Insert, _) => put_columns(all, table, after, buffer),
            (RowChange::Delete, _) => put_columns(all, table, before, buffer),
            (RowChange::Update, Images::Columns) => {
                put_columns(table.primary().columns.iter().copied(), table, after, buffer);
                for column in changed.iter().copied() {
                    put_varint(column as u64, buffer);
                    put_columns(std::iter::once(column), table, before, buffer);
                    put_columns(std::iter::once(column), table, after, buffer);
                }
            }
            (RowChange::Update, Images::Rows) => {
                put_columns(all.clone(), table, before, buffer);
                put_columns(all, table, after, buffer);
            }
        }
        seal(transaction, &mut buffer[start..]);
    }
}

impl<'a> Operation<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let [kind] = reader.array()?;
        let (change, images) = match kind {
            INSERT => (RowChange::Insert, Images::Columns),
            UPDATE => (RowChange::Update, Images::Columns),
            DELETE => (RowChange::Delete, Images::Columns),
            UPDATE_ROW => (RowChange::Update, Images::Rows),
            _ => return Err(DecodeError),
        };
        let table = TableId(u32::try_from(reader.varint()?).map_err(|_| DecodeError)?);
        Ok(Self { table, change, images, body: reader.take(reader.remaining())? })
    }

    /// Returns the size of its columns, in bytes.
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    /// Returns whether it has all columns of the row after the change.
    pub fn is_whole(&self) -> bool {
        match self.change {
            RowChange::Insert => true,
            RowChange::Update => self.images == Images::Rows,
            RowChange::Delete => false,
        }
    }

    /// Returns the change that redo or undo makes.
    pub fn change(&self, side: Side) -> RowChange {
        match (self.change, side) {
            (change, Side::Redo) => change,
            (RowChange::Insert, Side::Undo) => RowChange::Delete,
            (RowChange::Update, Side::Undo) => RowChange::Update,
            (RowChange::Delete, Side::Undo) => RowChange::Insert,
        }
    }

    /// Appends the primary key of its row to `key`; overwrites `scratch`.
    ///
    /// # Errors
    /// The bytes are not an operation on the table.
    pub fn key(
        &self,
        table: &Table,
        scratch: (&mut Arena, &mut Vec<Datum>),
        key: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let key_first = (self.change, self.images) == (RowChange::Update, Images::Columns);
        read_key(&mut Reader::new(self.body), key_first, table, scratch, key)
    }

    /// Reads the image of one side. `row` gets a datum for every column, NULL where none is given; `changed`
    /// gets the columns that an update sets.
    ///
    /// # Errors
    /// The bytes are not an operation on the table.
    pub fn decode(
        &self,
        side: Side,
        table: &Table,
        arena: &mut Arena,
        row: &mut Vec<Datum>,
        changed: &mut Vec<usize>,
    ) -> Result<(), DecodeError> {
        row.clear();
        changed.clear();
        let mut reader = Reader::new(self.body);
        let mut value = |column: usize, arena: &mut Arena| {
            let ty = table.columns.get(column).ok_or(DecodeError)?.ty;
            decode_value(ty, &mut reader, arena)
        };
        match (self.change, self.images) {
            (RowChange::Update, Images::Columns) => {
                row.resize(table.columns.len(), Datum::Null);
                for column in &table.primary().columns {
                    row[*column] = value(*column, arena)?;
                }
                while reader.remaining() > 0 {
                    let column = usize::try_from(reader.varint()?).map_err(|_| DecodeError)?;
                    let ty = table.columns.get(column).ok_or(DecodeError)?.ty;
                    let before = decode_value(ty, &mut reader, arena)?;
                    let after = decode_value(ty, &mut reader, arena)?;
                    row[column] = if side == Side::Redo { after } else { before };
                    changed.push(column);
                }
            }
            (change, _) => {
                for column in 0..table.columns.len() {
                    row.push(value(column, arena)?);
                }
                if change == RowChange::Update {
                    if side == Side::Redo {
                        row.clear();
                    }
                    for column in 0..table.columns.len() {
                        let after = value(column, arena)?;
                        if side == Side::Redo {
                            row.push(after);
                        }
                    }
                    let keys = &table.primary().columns;
                    changed.extend((0..row.len()).filter(|column| !keys.contains(column)));
                }
            }
        }
        if reader.remaining() > 0 { Err(DecodeError) } else { Ok(()) }
    }
}

impl Outcome {
    /// Writes the record.
    pub fn write(self, buffer: &mut Vec<u8>) {
        begin(RecordKind::Outcome, buffer);
        buffer.extend_from_slice(&self.transaction.0.to_le_bytes());
        buffer.push(self.committed.into());
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let transaction = CommitOrder(u64::from_le_bytes(reader.array()?));
        let [committed] = reader.array()?;
        if reader.remaining() > 0 || committed > 1 {
            return Err(DecodeError);
        }
        Ok(Self { transaction, committed: committed == 1 })
    }
}
