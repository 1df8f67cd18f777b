//! Physical records: rows as they are afterwards, by table and slot. Rows are copied while they are locked;
//! those of a record that no buffer holds, before.

use super::ahead::Ahead;
use super::{Execution, Needs, Recorder};
use crate::RowWordCount;
use catalog::{RowChange, Table};
use logging::content::{SlotsBuilder, Stamp, seal};
use storage::{Guard, Record};

#[derive(Default)]
pub(super) struct SlotsRecorder {
    record: Vec<u8>,
    ahead: Ahead,
}

/// Most bytes of the record of this many rows, of this many words together.
fn most_bytes(rows: usize, words: usize) -> usize {
    SlotsBuilder::row_bytes(0) * (rows + 1) + words * 8
}

fn push(
    out: &mut Vec<u8>,
    change: RowChange,
    table: &Table,
    record: Record<'_>,
    words: impl ExactSizeIterator<Item = u64>,
) {
    let slot = record.slot().expect("rows have slots where a log names them so");
    match change {
        RowChange::Delete => SlotsBuilder::push_gone(out, table.id, slot),
        RowChange::Insert | RowChange::Update => SlotsBuilder::push_row(out, table.id, slot, words),
    }
}

impl Recorder for SlotsRecorder {
    fn needs(&self) -> Needs {
        Needs { rows: true, ..Needs::default() }
    }

    fn prepare(&mut self, execution: &Execution<'_>) -> usize {
        let Self { record: out, ahead } = self;
        SlotsBuilder::begin(out);
        ahead.begin();
        let RowWordCount { rows, words } = execution.workspace.row_words();
        if most_bytes(rows, words) > execution.largest {
            ahead.describe(execution, |row, record, image| {
                push(out, row.change, row.table, record, image.iter().copied());
            });
        }
        out.len()
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
        if !self.ahead.is_complete() {
            push(&mut self.record, change, table, record, record.row().used(&table.layout));
        }
    }

    fn bytes(&self) -> usize {
        self.record.len()
    }

    fn committed<'a>(&'a mut self, stamp: Stamp, _call: &'a mut Vec<u8>) -> &'a [u8] {
        seal(stamp, &mut self.record);
        &self.record
    }
}
