//! Logical records of columns: of an insert the row, of an update what changed, by table and primary key.

use super::{Execution, Recorder};
use crate::Description;
use logging::content::{Stamp, WritesBuilder, seal};

#[derive(Default)]
pub(super) struct ColumnsRecorder {
    record: Vec<u8>,
    writes: WritesBuilder,
    description: Description,
    count: usize,
}

impl ColumnsRecorder {
    /// Rows that the prepared record is of.
    pub(super) fn writes(&self) -> usize {
        self.count
    }
}

impl Recorder for ColumnsRecorder {
    fn prepare(&mut self, execution: &Execution<'_>) -> usize {
        let Self { record, writes, description, count } = self;
        WritesBuilder::begin(record);
        *count = 0;
        execution.workspace.describe_writes(description, |row| {
            *count += 1;
            writes.push(record, row.change, row.table, (row.after, row.arena), row.changed);
        });
        record.len()
    }

    fn prepared<'a>(&'a mut self, _call: &'a mut Vec<u8>) -> Option<&'a mut Vec<u8>> {
        Some(&mut self.record)
    }

    fn bytes(&self) -> usize {
        self.record.len()
    }

    fn committed<'a>(&'a mut self, stamp: Stamp, _call: &'a mut Vec<u8>) -> &'a [u8] {
        seal(stamp, &mut self.record);
        &self.record
    }
}
