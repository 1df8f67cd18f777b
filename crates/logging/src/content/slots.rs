//! Physical records: what a transaction changed, by table and slot, the place that a row keeps as long as it
//! is there.
//! Paper: PACMAN §§2.2, 6.1 (physical logging). Differs: rows have one version, so a record names one place,
//! not the old version's and the new one's.
//!
//! Payload: one write after the other. A write: kind (u8: 1 = the row is this, 2 = there is none), table
//! (varint), slot (varint), and for a row the number of its words (varint) and they, as `catalog::RowLayout`
//! lays them out.

use super::writes::{check_image, put_words, words_of};
use super::{RecordKind, begin};
use catalog::{DecodeError, Reader, Table, TableId, put_varint};

const ROW: u8 = 1;
const GONE: u8 = 2;
/// Bytes of kind, table, slot and number of words.
const WRITE_HEADER: usize = 16;

/// What a transaction wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotsRecord<'a> {
    writes: &'a [u8],
}

/// One write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotWrite<'a> {
    /// To which table.
    pub table: TableId,
    /// To which of its slots.
    pub slot: u32,
    /// `None` when the row is gone.
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

    /// Most bytes of a row of this many words with what stands before it.
    pub fn row_bytes(words: usize) -> usize {
        WRITE_HEADER + words * 8
    }

    /// Appends that a slot holds a row of these words.
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

    /// Appends that a slot holds no row any more.
    pub fn push_gone(buffer: &mut Vec<u8>, table: TableId, slot: u32) {
        buffer.push(GONE);
        put_varint(table.0.into(), buffer);
        put_varint(slot.into(), buffer);
    }
}

impl<'a> SlotsRecord<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let record = Self { writes: reader.take(reader.remaining())? };
        let mut reader = Reader::new(record.writes);
        while reader.remaining() > 0 {
            SlotWrite::read(&mut reader)?;
        }
        Ok(record)
    }

    /// The writes, in the order in which the transaction first touched each row.
    pub fn writes(self) -> impl Iterator<Item = SlotWrite<'a>> {
        let mut reader = Reader::new(self.writes);
        // All of them were read once with the record.
        std::iter::from_fn(move || SlotWrite::read(&mut reader).ok())
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

    /// The words of the row; `None` when it is gone.
    ///
    /// # Errors
    /// They are too few for a row of the table.
    pub fn image(
        &self,
        table: &Table,
    ) -> Result<Option<impl ExactSizeIterator<Item = u64> + 'a>, DecodeError> {
        let Some(image) = self.image else { return Ok(None) };
        check_image(image, table)?;
        Ok(Some(words_of(image)))
    }
}
