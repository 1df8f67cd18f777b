//! Write-set records: what a transaction changed, by table and primary key; for transactions that are not logged as calls.
//! Paper: PACMAN §4.5 (ad-hoc transactions).
//!
//! Payload: one write after the other. A write: kind (u8: 1 = insert, 2 = update, 3 = delete), table (varint), length of
//! the rest (varint); an insert has all columns in order; an update and a delete have the primary key's columns in its
//! order, and an update the changed columns then, each its place (varint) and value.

use super::{KIND_WRITES, begin};
use catalog::{
    Arena, Datum, DecodeError, Reader, RowChange, Table, TableId, decode_value, encode_value, put_varint,
};

const INSERT: u8 = 1;
const UPDATE: u8 = 2;
const DELETE: u8 = 3;

/// A write set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WritesRecord<'a> {
    writes: &'a [u8],
}

/// One write of a write set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write<'a> {
    /// What happened.
    pub change: RowChange,
    /// To a row of which table.
    pub table: TableId,
    body: &'a [u8],
}

/// Writes a record, write by write.
#[derive(Default, Debug)]
pub struct WritesBuilder {
    body: Vec<u8>,
}

impl WritesBuilder {
    /// Begins a record in a buffer.
    pub fn begin(buffer: &mut Vec<u8>) {
        begin(KIND_WRITES, buffer);
    }

    /// Appends a write. `row` has a datum for every column; of an update those in `changed` count, and the key's.
    pub fn push(
        &mut self,
        buffer: &mut Vec<u8>,
        change: RowChange,
        table: &Table,
        (row, arena): (&[Datum], &Arena),
        changed: &[usize],
    ) {
        self.body.clear();
        let put = |column: usize, body: &mut Vec<u8>| {
            encode_value(row[column], table.columns[column].ty.into(), arena, body);
        };
        if change == RowChange::Insert {
            (0..row.len()).for_each(|column| put(column, &mut self.body));
        } else {
            table.primary().columns.iter().for_each(|column| put(*column, &mut self.body));
        }
        if change == RowChange::Update {
            for column in changed {
                put_varint(*column as u64, &mut self.body);
                put(*column, &mut self.body);
            }
        }
        buffer.push(match change {
            RowChange::Insert => INSERT,
            RowChange::Update => UPDATE,
            RowChange::Delete => DELETE,
        });
        put_varint(table.id.0.into(), buffer);
        put_varint(self.body.len() as u64, buffer);
        buffer.extend_from_slice(&self.body);
    }
}

impl<'a> WritesRecord<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let record = Self { writes: reader.take(reader.remaining())? };
        let mut reader = Reader::new(record.writes);
        while reader.remaining() > 0 {
            Write::read(&mut reader)?;
        }
        Ok(record)
    }

    /// The writes, each with the byte where it begins.
    pub fn writes(self) -> impl Iterator<Item = (usize, Write<'a>)> {
        let mut reader = Reader::new(self.writes);
        std::iter::from_fn(move || {
            let at = self.writes.len() - reader.remaining();
            // All of them were read once with the record.
            Some((at, Write::read(&mut reader).ok()?))
        })
    }

    /// The write that begins at a byte.
    pub fn write_at(self, at: usize) -> Option<Write<'a>> {
        Write::read(&mut Reader::new(self.writes.get(at..)?)).ok()
    }
}

impl<'a> Write<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let [kind] = reader.array()?;
        let change = match kind {
            INSERT => RowChange::Insert,
            UPDATE => RowChange::Update,
            DELETE => RowChange::Delete,
            _ => return Err(DecodeError),
        };
        let table = TableId(u32::try_from(reader.varint()?).map_err(|_| DecodeError)?);
        let length = usize::try_from(reader.varint()?).map_err(|_| DecodeError)?;
        Ok(Self { change, table, body: reader.take(length)? })
    }

    /// Reads its values: `row` gets a datum for every column, NULL where none is given; `changed` the changed columns of an
    /// update.
    ///
    /// # Errors
    /// Bytes that no write to the table is written as.
    pub fn decode(
        &self,
        table: &Table,
        arena: &mut Arena,
        row: &mut Vec<Datum>,
        changed: &mut Vec<usize>,
    ) -> Result<(), DecodeError> {
        row.clear();
        changed.clear();
        let mut reader = Reader::new(self.body);
        if self.change == RowChange::Insert {
            for column in &table.columns {
                row.push(decode_value(column.ty.into(), &mut reader, arena)?);
            }
        } else {
            row.resize(table.columns.len(), Datum::Null);
            for column in &table.primary().columns {
                row[*column] = decode_value(table.columns[*column].ty.into(), &mut reader, arena)?;
            }
        }
        if self.change == RowChange::Update {
            while reader.remaining() > 0 {
                let column = usize::try_from(reader.varint()?).map_err(|_| DecodeError)?;
                let ty = table.columns.get(column).ok_or(DecodeError)?.ty;
                row[column] = decode_value(ty.into(), &mut reader, arena)?;
                changed.push(column);
            }
        }
        if reader.remaining() > 0 { Err(DecodeError) } else { Ok(()) }
    }
}
