//! Physical records: the writes of a transaction, by table and slot. A row keeps its slot while it exists.
//! Paper: PACMAN §§2.2, 6.1 (physical logging). Differs: rows have one version, so a record names one place,
//! not those of the old and the new version.
//!
//! Payload: a sequence of writes. A write: kind (u8: 1 = the slot has this row, 2 = the slot is empty), table
//! (varint), slot (varint), and for a row the number of its words (varint) and the words, as
//! `catalog::RowLayout` lays them out.

use super::writes::{check_image, key_of_image, put_words, words_of};
use super::{RecordKind, begin};
use catalog::{Arena, DecodeError, Reader, Table, TableId, put_varint};

const ROW: u8 = 1;
const GONE: u8 = 2;
/// Maximum size of kind, table, slot and number of words, in bytes.
const WRITE_HEADER: usize = 16;

/// The writes of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotsRecord<'a> {
    writes: &'a [u8],
}

/// One write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotWrite<'a> {
    /// The table.
    pub table: TableId,
    /// The slot.
    pub slot: u32,
    /// The row's words; `None` when the row was deleted.
    image: Option<&'a [u8]>,
}

/// Writes a record, write by write.
#[derive(Default, Debug)]
pub struct SlotsBuilder;

impl SlotsBuilder {
    /// Begins a record in a buffer.
    pub fn begin(buffer: &mut Vec<u8>) {
        begin(RecordKind::Slots, buffer);
    }

    /// Returns the maximum size of the write of a row of this many words, in bytes.
    pub fn row_bytes(words: usize) -> usize {
        WRITE_HEADER + words * 8
    }

    /// Appends the write of a row of these words to a slot.
    pub fn push_row(
        buffer: &mut Vec<u8>,
        table: TableId,
        slot: u32,
        words: impl ExactSizeIterator<Item = u64>,
    ) {
        buffer.push(ROW);
        put_varint(table.0.into(), buffer);
        put_varint(slot.into(), buffer);
        put_varint(words.len() as u64, buffer);
        put_words(words, buffer);
    }

    /// Appends the deletion of a slot's row.
    pub fn push_gone(buffer: &mut Vec<u8>, table: TableId, slot: u32) {
        buffer.push(GONE);
        put_varint(table.0.into(), buffer);
        put_varint(slot.into(), buffer);
    }
}

impl<'a> SlotsRecord<'a> {
    /// Reads a record that was read before, without checking its writes again.
    pub(super) fn read_again(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { writes: reader.take(reader.remaining())? })
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let record = Self::read_again(reader)?;
        let mut reader = Reader::new(record.writes);
        while reader.remaining() > 0 {
            SlotWrite::read(&mut reader)?;
        }
        Ok(record)
    }

    /// Returns the writes, in the order in which the transaction first touched each row.
    pub fn writes(self) -> impl Iterator<Item = SlotWrite<'a>> {
        self.placed().map(|(_, write)| write)
    }

    /// Returns the writes, each with its offset.
    pub fn placed(self) -> impl Iterator<Item = (usize, SlotWrite<'a>)> {
        let mut reader = Reader::new(self.writes);
        // All writes were checked when the record was read.
        std::iter::from_fn(move || {
            let offset = self.writes.len() - reader.remaining();
            SlotWrite::read(&mut reader).ok().map(|write| (offset, write))
        })
    }

    /// Returns the write at an offset; `None` if none begins there.
    pub fn write_at(self, offset: usize) -> Option<SlotWrite<'a>> {
        SlotWrite::read(&mut Reader::new(self.writes.get(offset..)?)).ok()
    }
}

impl<'a> SlotWrite<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let [kind] = reader.array()?;
        let small = |number: u64| u32::try_from(number).map_err(|_| DecodeError);
        let table = TableId(small(reader.varint()?)?);
        let slot = small(reader.varint()?)?;
        let image = match kind {
            ROW => {
                let bytes = usize::try_from(reader.varint()?).ok().and_then(|words| words.checked_mul(8));
                Some(reader.take(bytes.ok_or(DecodeError)?)?)
            }
            GONE => None,
            _ => return Err(DecodeError),
        };
        Ok(Self { table, slot, image })
    }

    /// Returns the size of the row, in bytes; 0 when it was deleted.
    pub fn bytes(&self) -> usize {
        self.image.map_or(0, <[u8]>::len)
    }

    /// Appends the primary key of the row to `key`. Returns false when it was deleted.
    ///
    /// # Errors
    /// The row is too short for the table.
    pub fn key(&self, table: &Table, arena: &mut Arena, key: &mut Vec<u8>) -> Result<bool, DecodeError> {
        let Some(image) = self.image else { return Ok(false) };
        key_of_image(image, table, arena, key).map(|()| true)
    }

    /// Returns the words of the row; `None` when it was deleted.
    ///
    /// # Errors
    /// The row is too short for the table.
    pub fn image(
        &self,
        table: &Table,
    ) -> Result<Option<impl ExactSizeIterator<Item = u64> + 'a>, DecodeError> {
        let Some(image) = self.image else { return Ok(None) };
        check_image(image, table)?;
        Ok(Some(words_of(image)))
    }
}
