//! Logical records of rows: each as it is afterwards, by table and primary key. Rows are copied while they are locked, as
//! others may write the columns that the transaction does not.

use super::{Ran, Recorder};
use catalog::{Arena, Datum, RowChange, Table};
use logging::content::{Stamp, WritesBuilder, seal};
use storage::Record;

#[derive(Default)]
pub(super) struct RowsRecorder {
    record: Vec<u8>,
    writes: WritesBuilder,
    row: Vec<Datum>,
    arena: Arena,
}

impl Recorder for RowsRecorder {
    fn wants_rows(&self) -> bool {
        true
    }

    fn prepare(&mut self, _ran: &Ran<'_>) -> usize {
        WritesBuilder::begin(&mut self.record);
        self.record.len()
    }

    fn most_bytes(&self, rows: usize, words: usize) -> usize {
        // Keys, which deletes have in another form, are never longer than twice their words and a varint.
        self.record.len() + rows * WritesBuilder::image_bytes(0) + words * 16
    }

    fn wrote(&mut self, change: RowChange, table: &Table, record: Record<'_>) {
        let row = record.row();
        if change != RowChange::Delete {
            WritesBuilder::push_image(&mut self.record, change, table.id, row.used(&table.layout));
            return;
        }
        let Self { record: out, writes, row: key, arena } = self;
        arena.clear();
        key.clear();
        key.resize(table.columns.len(), Datum::Null);
        for column in &table.primary().columns {
            key[*column] = row.column(table.layout.slots()[*column], arena);
        }
        writes.push(out, change, table, (key, arena), &[]);
    }

    fn bytes(&self) -> usize {
        self.record.len()
    }

    fn committed<'a>(&'a mut self, stamp: Stamp, _asked: &'a mut Vec<u8>) -> &'a [u8] {
        seal(stamp, &mut self.record);
        &self.record
    }
}
