//! Logical records of rows: each as it is afterwards, by table and primary key. Rows are copied while they
//! are locked, because other transactions may write the columns that the transaction does not write. Rows of
//! a record that no buffer holds are copied before.

use super::ahead::Ahead;
use super::{Execution, Needs, Recorder};
use crate::RowWordCount;
use catalog::{Arena, Datum, RowChange, Table};
use logging::content::{Stamp, WritesBuilder, seal};
use storage::{Guard, Record};

#[derive(Default)]
pub(super) struct RowsRecorder {
    record: Vec<u8>,
    writes: WritesBuilder,
    row: Vec<Datum>,
    arena: Arena,
    ahead: Ahead,
}

/// Most bytes of the record of this many rows, of this many words together.
fn most_bytes(rows: usize, words: usize) -> usize {
    // Keys, which deletes have in another form, are never longer than twice their words and a varint.
    WritesBuilder::image_bytes(0) * (rows + 1) + words * 16
}

impl Recorder for RowsRecorder {
    fn needs(&self) -> Needs {
        Needs { rows: true, ..Needs::default() }
    }

    fn prepare(&mut self, execution: &Execution<'_>) -> usize {
        let Self { record, writes, ahead, .. } = self;
        WritesBuilder::begin(record);
        ahead.begin();
        let RowWordCount { rows, words } = execution.workspace.row_words();
        if most_bytes(rows, words) > execution.largest {
            ahead.describe(execution, |row, _, image| match row.change {
                RowChange::Delete => writes.push(record, row.change, row.table, (row.after, row.arena), &[]),
                _ => WritesBuilder::push_image(record, row.change, row.table.id, image.iter().copied()),
            });
        }
        record.len()
    }

    fn prepared<'a>(&'a mut self, _call: &'a mut Vec<u8>) -> Option<&'a mut Vec<u8>> {
        self.ahead.is_complete().then_some(&mut self.record)
    }

    fn fits(&self, written: RowWordCount, largest: usize, guard: &Guard) -> bool {
        if self.ahead.is_complete() {
            self.ahead.holds(guard)
        } else {
            most_bytes(written.rows, written.words) <= largest
        }
    }

    fn row_written(&mut self, change: RowChange, table: &Table, record: Record<'_>) {
        if self.ahead.is_complete() {
            return;
        }
        let row = record.row();
        if change != RowChange::Delete {
            WritesBuilder::push_image(&mut self.record, change, table.id, row.used(&table.layout));
            return;
        }
        let Self { record: out, writes, row: key, arena, .. } = self;
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

    fn committed<'a>(&'a mut self, stamp: Stamp, _call: &'a mut Vec<u8>) -> &'a [u8] {
        seal(stamp, &mut self.record);
        &self.record
    }
}
