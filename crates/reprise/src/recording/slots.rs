//! Physical records: rows as they are afterwards, by table and slot.

use super::{Ran, Recorder};
use catalog::{RowChange, Table};
use logging::content::{SlotsBuilder, Stamp, seal};
use storage::Record;

#[derive(Default)]
pub(super) struct SlotsRecorder {
    record: Vec<u8>,
}

impl Recorder for SlotsRecorder {
    fn wants_rows(&self) -> bool {
        true
    }

    fn prepare(&mut self, _ran: &Ran<'_>) -> usize {
        SlotsBuilder::begin(&mut self.record);
        self.record.len()
    }

    fn most_bytes(&self, rows: usize, words: usize) -> usize {
        self.record.len() + rows * SlotsBuilder::row_bytes(0) + words * 8
    }

    fn wrote(&mut self, change: RowChange, table: &Table, record: Record<'_>) {
        let slot = record.slot().expect("rows have slots where a log names them so");
        match change {
            RowChange::Delete => SlotsBuilder::push_gone(&mut self.record, table.id, slot),
            RowChange::Insert | RowChange::Update => {
                let words = record.row().used(&table.layout);
                SlotsBuilder::push_row(&mut self.record, table.id, slot, words);
            }
        }
    }

    fn bytes(&self) -> usize {
        self.record.len()
    }

    fn committed<'a>(&'a mut self, stamp: Stamp, _asked: &'a mut Vec<u8>) -> &'a [u8] {
        seal(stamp, &mut self.record);
        &self.record
    }
}
