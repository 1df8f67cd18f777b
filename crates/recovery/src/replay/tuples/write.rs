//! A write of one row in a log by value.

use catalog::{Arena, Datum, DecodeError, RowChange, Table, TableId};
use logging::content::{Operation, Side, Write};

/// A write of one row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TupleWrite<'l> {
    /// A write of a write-set record.
    Write(Write<'l>),
    /// An operation of a physiological log.
    Operation(Operation<'l>),
}

impl<'l> TupleWrite<'l> {
    pub(crate) fn table(&self) -> TableId {
        match self {
            Self::Write(write) => write.table,
            Self::Operation(operation) => operation.table,
        }
    }

    pub(crate) fn change(&self) -> RowChange {
        match self {
            Self::Write(write) => write.change,
            Self::Operation(operation) => operation.change(Side::Redo),
        }
    }

    /// Appends the primary key of its row. The arena and the row are buffers.
    pub(crate) fn key(
        &self,
        table: &Table,
        arena: &mut Arena,
        row: &mut Vec<Datum>,
        key: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        match self {
            Self::Write(write) => write.key(table, (arena, row), key),
            Self::Operation(operation) => operation.key(table, (arena, row), key),
        }
    }

    /// Returns the size of its columns or of its image, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Write(write) => write.bytes(),
            Self::Operation(operation) => operation.bytes(),
        }
    }

    /// Returns whether it has all columns of the row, so that the row before it is not needed.
    pub(crate) fn is_whole(&self, table: &Table) -> Result<bool, DecodeError> {
        match self {
            Self::Write(write) => Ok(write.change == RowChange::Insert || write.image(table)?.is_some()),
            Self::Operation(operation) => Ok(operation.is_whole()),
        }
    }

    /// Puts the words of the written row into `words`; returns false when the log does not have them.
    pub(crate) fn image(&self, table: &Table, words: &mut Vec<u64>) -> Result<bool, DecodeError> {
        let Self::Write(write) = self else { return Ok(false) };
        let Some(image) = write.image(table)? else { return Ok(false) };
        words.clear();
        words.extend(image);
        Ok(true)
    }

    pub(crate) fn decode(
        &self,
        table: &Table,
        arena: &mut Arena,
        row: &mut Vec<Datum>,
        changed: &mut Vec<usize>,
    ) -> Result<(), DecodeError> {
        match self {
            Self::Write(write) => write.decode(table, arena, row, changed),
            Self::Operation(operation) => operation.decode(Side::Redo, table, arena, row, changed),
        }
    }
}
