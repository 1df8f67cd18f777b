//! Fine dependency records: for each row that a batch writes, its image after the batch, by table and primary
//! key. Outside of batches, the columns that a transaction changes.
//! Paper: DistDGCC §3.1, and §5.3 (an image makes the earlier updates of its row superfluous). Differs:
//! records have images instead of functions, so no record needs a value that another vertex has read: an edge
//! within a batch never has records at both ends, and edges between batches follow from table and key.
//!
//! 1. While a batch runs, each executor notes the rows that its vertices write.
//! 2. Once all vertices are done, it makes the records of its vertices. Of an update, only that of the last
//!    writer of a row is kept; its image has each column that some call of the batch may have changed.
//! 3. Of an insert, the record has the row as the batch leaves it; of a delete, the key. Both are always
//!    kept, so that each record of a row finds the row as the record before left it.
//! 4. Later vertices may have made the rows of a vertex larger than when it committed. So a vertex whose rows
//!    have become large has several records, each of some rows.
//!
//! Invariant: no record is larger than a log's buffer: a vertex commits only if all its rows together, as
//! they are then, take half of it at most.
//! Held by: `batches_equal_one_thread`, `rows_that_grow_in_a_batch_fit_the_log` (crates/reprise).

use super::columns::ColumnsRecorder;
use super::{EndedBatch, Execution, Needs, PIECES, Recorder};
use crate::Tables;
use catalog::{Arena, CommitOrder, Datum, RowChange, Table, TableId};
use logging::content::{Stamp, WritesBuilder, append_batch_writes, seal};
use storage::{Guard, Held, Record};

/// A row that a vertex has written.
struct Written {
    order: CommitOrder,
    change: RowChange,
    table: TableId,
    row: Held,
}

#[derive(Default)]
pub(super) struct BatchRowsRecorder {
    columns: ColumnsRecorder,
    is_in_batch: bool,
    written: Vec<Written>,
    /// The rows of the running transaction.
    noted: Vec<(RowChange, TableId, Held)>,
    writes: WritesBuilder,
    row: Vec<Datum>,
    arena: Arena,
}

impl Recorder for BatchRowsRecorder {
    fn needs(&self) -> Needs {
        Needs { rows: true, ..Needs::default() }
    }

    fn prepare(&mut self, execution: &Execution<'_>) -> usize {
        self.is_in_batch = execution.is_in_batch;
        if self.is_in_batch {
            // The images of all columns are the most that the record may have.
            let words = execution.workspace.row_words();
            return WritesBuilder::image_bytes(0) * (words.rows + 1) + words.words * 16;
        }
        self.columns.prepare(execution)
    }

    fn prepared<'a>(&'a mut self, call: &'a mut Vec<u8>) -> Option<&'a mut Vec<u8>> {
        if self.is_in_batch { None } else { self.columns.prepared(call) }
    }

    fn row_written(&mut self, change: RowChange, table: &Table, record: Record<'_>) {
        if self.is_in_batch {
            let row = record.held().expect("a locked row has holders");
            self.noted.push((change, table.id, row));
        }
    }

    fn bytes(&self) -> usize {
        if self.is_in_batch { 0 } else { self.columns.bytes() }
    }

    fn committed<'a>(&'a mut self, stamp: Stamp, call: &'a mut Vec<u8>) -> &'a [u8] {
        self.columns.committed(stamp, call)
    }

    fn keep(&mut self, order: CommitOrder, _call: &mut Vec<u8>) -> bool {
        let written = self.noted.drain(..);
        self.written.extend(written.map(|(change, table, row)| Written { order, change, table, row }));
        true
    }

    fn end_batch(
        &mut self,
        batch: &dyn EndedBatch,
        tables: &Tables,
        guard: &Guard,
        largest: usize,
        out: &mut Vec<u8>,
    ) -> usize {
        let mut written = std::mem::take(&mut self.written);
        let (mut records, mut started) = (0, None);
        for Written { order, change, table, row } in written.drain(..) {
            let record = row.record(guard);
            let is_last = record.stable_state().order() == order;
            if change != RowChange::Update || is_last {
                let goes_on =
                    |(of, start): (CommitOrder, usize)| of == order && out.len() - start < largest / PIECES;
                if !started.is_some_and(goes_on) {
                    seal_started(started, out);
                    started = Some((order, append_batch_writes(out)));
                    records += 1;
                }
                self.put(change, tables.store(table).definition(), record, batch, out);
            }
            row.release(guard);
        }
        seal_started(started, out);
        self.written = written;
        records
    }
}

/// Completes the record that was begun last: its order, and where it starts.
fn seal_started(started: Option<(CommitOrder, usize)>, out: &mut [u8]) {
    if let Some((order, start)) = started {
        seal(order, &mut out[start..]);
    }
}

impl BatchRowsRecorder {
    /// Appends the write of a row, which no transaction changes now.
    fn put(
        &mut self,
        change: RowChange,
        table: &Table,
        record: Record<'_>,
        batch: &dyn EndedBatch,
        out: &mut Vec<u8>,
    ) {
        let row = record.row();
        if change == RowChange::Insert {
            WritesBuilder::push_image(out, change, table.id, row.used(&table.layout));
            return;
        }
        let Self { writes, row: values, arena, .. } = self;
        arena.clear();
        values.clear();
        values.resize(table.columns.len(), Datum::Null);
        let changed = match change {
            RowChange::Update => batch.updated(table.id),
            _ => &[],
        };
        for column in table.primary().columns.iter().chain(changed) {
            values[*column] = row.column(table.layout.slots()[*column], arena);
        }
        writes.push(out, change, table, (values, arena), changed);
    }
}
