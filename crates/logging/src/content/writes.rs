//! Write-set records: the writes of a transaction, by table and primary key. A logical log consists of them;
//! in other logs they represent transactions that are not logged as calls.
//! Paper: PACMAN §§2.2, 4.5 (logical logging, ad-hoc transactions); command logging §IV-A (differential
//! logging).
//!
//! Payload: a sequence of writes. A write: kind (u8: 1 = insert, 2 = update, 3 = delete, 4 = insert of an
//! image, 5 = update to an image), table (varint), length of the remaining bytes (varint), then the columns
//! or the image. An insert has all columns in order. An update and a delete have the primary key's columns in
//! its order; an update then has the changed columns, each as index (varint) and value. An image is the row's
//! words as `catalog::RowLayout` lays them out, little-endian.

use super::{Images, RecordKind, append, begin};
use catalog::{
    Arena, Datum, DecodeError, Reader, RowChange, RowLayout, Table, TableId, decode_value, encode_value,
    put_varint, skip_value,
};

const INSERT: u8 = 1;
const UPDATE: u8 = 2;
const DELETE: u8 = 3;
const INSERT_IMAGE: u8 = 4;
const UPDATE_IMAGE: u8 = 5;
/// Maximum size of kind, table and length, in bytes.
const WRITE_HEADER: usize = 11;

/// A write set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WritesRecord<'a> {
    writes: &'a [u8],
}

/// One write of a write set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write<'a> {
    /// The kind of the change.
    pub change: RowChange,
    /// The table of the row.
    pub table: TableId,
    images: Images,
    body: &'a [u8],
}

/// Writes a record, write by write.
#[derive(Default, Debug)]
pub struct WritesBuilder {
    body: Vec<u8>,
}

/// Appends a row's words as bytes.
pub(super) fn put_words(words: impl Iterator<Item = u64>, out: &mut Vec<u8>) {
    words.for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

/// Returns the words of an image.
pub(super) fn words_of(image: &[u8]) -> impl ExactSizeIterator<Item = u64> {
    image.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
}

/// Checks that bytes can be an image of a row of a table.
pub(super) fn check_image(image: &[u8], table: &Table) -> Result<(), DecodeError> {
    let whole = image.len().is_multiple_of(8) && image.len() / 8 >= table.layout.fixed_words();
    if whole { Ok(()) } else { Err(DecodeError) }
}

/// Encodes the primary key of a row whose columns are read in sequence: either all of them in order, or the
/// key's columns first.
pub(super) fn read_key(
    reader: &mut Reader<'_>,
    key_first: bool,
    table: &Table,
    (arena, row): (&mut Arena, &mut Vec<Datum>),
    key: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    let columns = &table.primary().columns;
    let ty = |column: usize| table.columns[column].ty;
    if key_first {
        for column in columns {
            let value = decode_value(ty(*column), reader, arena)?;
            table.encode_key_column(*column, value, arena, key);
        }
        return Ok(());
    }
    row.clear();
    let last = columns.iter().copied().max().unwrap_or(0);
    for column in 0..=last {
        row.push(if columns.contains(&column) {
            decode_value(ty(column), reader, arena)?
        } else {
            skip_value(ty(column), reader)?;
            Datum::Null
        });
    }
    columns.iter().for_each(|column| table.encode_key_column(*column, row[*column], arena, key));
    Ok(())
}

/// Encodes the primary key of an image.
pub(super) fn key_of_image(
    image: &[u8],
    table: &Table,
    arena: &mut Arena,
    key: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    check_image(image, table)?;
    let word = |at: usize| u64::from_le_bytes(image[at * 8..at * 8 + 8].try_into().expect("eight bytes"));
    for column in &table.primary().columns {
        let slot = table.layout.slots()[*column];
        let value = RowLayout::decode(slot, image.len() / 8, word, arena);
        table.encode_key_column(*column, value, arena, key);
    }
    Ok(())
}

/// Reads all columns of an image.
pub(super) fn decode_image(
    image: &[u8],
    table: &Table,
    arena: &mut Arena,
    row: &mut Vec<Datum>,
) -> Result<(), DecodeError> {
    check_image(image, table)?;
    let word = |at: usize| u64::from_le_bytes(image[at * 8..at * 8 + 8].try_into().expect("eight bytes"));
    let columns = table.layout.slots().iter();
    row.extend(columns.map(|slot| RowLayout::decode(*slot, image.len() / 8, word, arena)));
    Ok(())
}

/// Begins the record of a vertex's writes at the end of a buffer, and returns its start.
pub fn append_batch_writes(buffer: &mut Vec<u8>) -> usize {
    append(RecordKind::BatchWrites, buffer)
}

impl WritesBuilder {
    /// Begins a record in a buffer.
    pub fn begin(buffer: &mut Vec<u8>) {
        begin(RecordKind::Writes, buffer);
    }

    /// Returns the maximum size of the write of an image of this many words, in bytes.
    pub fn image_bytes(words: usize) -> usize {
        WRITE_HEADER + words * 8
    }

    fn put(buffer: &mut Vec<u8>, kind: u8, table: TableId, length: usize) {
        buffer.push(kind);
        put_varint(table.0.into(), buffer);
        put_varint(length as u64, buffer);
    }

    /// Appends a write. `row` has a datum for every column. Of an update, only the key's columns and those in
    /// `changed` are used.
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
            encode_value(row[column], table.columns[column].ty, arena, body);
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
        let kind = match change {
            RowChange::Insert => INSERT,
            RowChange::Update => UPDATE,
            RowChange::Delete => DELETE,
        };
        Self::put(buffer, kind, table.id, self.body.len());
        buffer.extend_from_slice(&self.body);
    }

    /// Appends an insert of a row of these words, or an update to it.
    pub fn push_image(
        buffer: &mut Vec<u8>,
        change: RowChange,
        table: TableId,
        words: impl ExactSizeIterator<Item = u64>,
    ) {
        let kind = if change == RowChange::Insert { INSERT_IMAGE } else { UPDATE_IMAGE };
        Self::put(buffer, kind, table, words.len() * 8);
        put_words(words, buffer);
    }
}

impl<'a> WritesRecord<'a> {
    /// Reads a record that was read before, without checking its writes again.
    pub(super) fn read_again(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { writes: reader.take(reader.remaining())? })
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let record = Self::read_again(reader)?;
        let mut reader = Reader::new(record.writes);
        while reader.remaining() > 0 {
            Write::read(&mut reader)?;
        }
        Ok(record)
    }

    /// Returns the writes, each with its offset in bytes.
    pub fn writes(self) -> impl Iterator<Item = (usize, Write<'a>)> {
        let mut reader = Reader::new(self.writes);
        std::iter::from_fn(move || {
            let at = self.writes.len() - reader.remaining();
            // All writes were checked when the record was read.
            Some((at, Write::read(&mut reader).ok()?))
        })
    }

    /// Returns the write at an offset.
    pub fn write_at(self, at: usize) -> Option<Write<'a>> {
        Write::read(&mut Reader::new(self.writes.get(at..)?)).ok()
    }
}

impl<'a> Write<'a> {
    /// Returns the size of its columns or of its image, in bytes.
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let [kind] = reader.array()?;
        let (change, images) = match kind {
            INSERT => (RowChange::Insert, Images::Columns),
            UPDATE => (RowChange::Update, Images::Columns),
            DELETE => (RowChange::Delete, Images::Columns),
            INSERT_IMAGE => (RowChange::Insert, Images::Rows),
            UPDATE_IMAGE => (RowChange::Update, Images::Rows),
            _ => return Err(DecodeError),
        };
        let table = TableId(u32::try_from(reader.varint()?).map_err(|_| DecodeError)?);
        let length = usize::try_from(reader.varint()?).map_err(|_| DecodeError)?;
        Ok(Self { change, table, images, body: reader.take(length)? })
    }

    /// Returns the words of the row after the write, if the write has an image.
    ///
    /// # Errors
    /// The row is too short for the table.
    pub fn image(
        &self,
        table: &Table,
    ) -> Result<Option<impl ExactSizeIterator<Item = u64> + 'a>, DecodeError> {
        if self.images == Images::Columns {
            return Ok(None);
        }
        check_image(self.body, table)?;
        Ok(Some(words_of(self.body)))
    }

    /// Appends the primary key of its row to `key`; overwrites `scratch`.
    ///
    /// # Errors
    /// The bytes are not a write to the table.
    pub fn key(
        &self,
        table: &Table,
        scratch: (&mut Arena, &mut Vec<Datum>),
        key: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        if self.images == Images::Rows {
            return key_of_image(self.body, table, scratch.0, key);
        }
        read_key(&mut Reader::new(self.body), self.change != RowChange::Insert, table, scratch, key)
    }

    /// Reads the values. `row` gets a datum for every column, NULL where none is given; `changed` gets the
    /// columns that an update sets.
    ///
    /// # Errors
    /// The bytes are not a write to the table.
    pub fn decode(
        &self,
        table: &Table,
        arena: &mut Arena,
        row: &mut Vec<Datum>,
        changed: &mut Vec<usize>,
    ) -> Result<(), DecodeError> {
        row.clear();
        changed.clear();
        if self.images == Images::Rows {
            decode_image(self.body, table, arena, row)?;
            if self.change == RowChange::Update {
                let keys = &table.primary().columns;
                changed.extend((0..row.len()).filter(|column| !keys.contains(column)));
            }
            return Ok(());
        }
        let mut reader = Reader::new(self.body);
        if self.change == RowChange::Insert {
            for column in &table.columns {
                row.push(decode_value(column.ty, &mut reader, arena)?);
            }
        } else {
            row.resize(table.columns.len(), Datum::Null);
            for column in &table.primary().columns {
                row[*column] = decode_value(table.columns[*column].ty, &mut reader, arena)?;
            }
        }
        if self.change == RowChange::Update {
            while reader.remaining() > 0 {
                let column = usize::try_from(reader.varint()?).map_err(|_| DecodeError)?;
                let ty = table.columns.get(column).ok_or(DecodeError)?.ty;
                row[column] = decode_value(ty, &mut reader, arena)?;
                changed.push(column);
            }
        }
        if reader.remaining() > 0 { Err(DecodeError) } else { Ok(()) }
    }
}
