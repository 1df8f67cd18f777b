//! The records of transactions, one for each log of the database. One file a content.
//!
//! A worker's transaction is recorded in all logs inside its commit (`commit`): before the epoch of its
//! number ends, and with its rows locked where a record holds rows.

mod adaptive;
mod ahead;
mod batch_rows;
mod columns;
mod command;
mod costs;
mod operations;
mod rows;
mod slots;
mod vertices;

pub use costs::{Adaptive, FIRST_COMMIT_OF_REPLAY, Recovered, RecoveryTargets};

use crate::{RowWordCount, Tables, Workspace};
use adaptive::AdaptiveRecorder;
use batch_rows::BatchRowsRecorder;
use catalog::{CommitOrder, ProcedureId, RowChange, Table, TableId};
use columns::ColumnsRecorder;
use command::CommandRecorder;
use logging::content::{self, BatchEndRecord, Images, Stamp, seal};
use logging::{Content, FormattedLog, LargeFile, LogError, LogSet, Numbered, Numbering, Room};
use operations::OperationsRecorder;
use rows::RowsRecorder;
use slots::SlotsRecorder;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use storage::{Guard, Record, Slot};
use vertices::VerticesRecorder;

/// The usual length of records is an average over this many transactions.
const USUAL_OF: usize = 64;
/// Operations that no buffer holds together are appended in pieces of this part of a buffer, so that each
/// soon finds room.
const PIECES: usize = 4;

/// A transaction that has run and is about to commit.
#[derive(Clone, Copy)]
pub(crate) struct Execution<'a> {
    /// The procedure that was called; `None` for a transaction that is always recorded by value.
    pub(crate) procedure: Option<(ProcedureId, u32)>,
    /// How long it ran; `None` unless it was timed.
    pub(crate) time: Option<Duration>,
    /// The record of the call, but for its number.
    pub(crate) call: &'a [u8],
    /// Whether it is to be recorded by value.
    pub(crate) by_value: bool,
    /// Whether the transaction is a vertex of a batch.
    pub(crate) is_in_batch: bool,
    /// Bytes of the largest record that the log's buffers hold.
    pub(crate) largest: usize,
    pub(crate) workspace: &'a Workspace,
}

/// A batch whose vertices are all done.
pub trait EndedBatch {
    /// Returns the order of its first vertex; a vertex has the order of its place.
    fn first(&self) -> CommitOrder;

    /// Returns the order of its last vertex.
    fn last(&self) -> CommitOrder;

    /// Puts the vertices that wait for a vertex into `later`, ascending, each once: those that have a record,
    /// and in place of one without a record those that wait for it.
    fn later(&self, vertex: u32, later: &mut Vec<u32>);

    /// Returns the number of vertices that have committed writes.
    fn commits(&self) -> u32;

    /// Returns the columns of a table that some call of the batch may have changed, ascending.
    fn updated(&self, table: TableId) -> &[usize];
}

/// Makes the records of one log. `call` is the record of the call, complete but for its number.
pub(crate) trait Recorder: Send {
    /// What the recorder has to be told.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Begins the record of a transaction that has run. Returns its bytes, as far as they are known.
    fn prepare(&mut self, execution: &Execution<'_>) -> usize;

    /// Returns whether the prepared record holds the call, and nothing of the rows that are written.
    fn holds_call(&self) -> bool {
        false
    }

    /// Returns the record of the transaction that has run, where all of it is known but its number.
    fn prepared<'a>(&'a mut self, _call: &'a mut Vec<u8>) -> Option<&'a mut Vec<u8>> {
        None
    }

    /// Returns whether the record fits the rows, which are locked now. A record that is not complete yet must
    /// not be longer than `largest`.
    fn fits(&self, _written: RowWordCount, _largest: usize, _guard: &Guard) -> bool {
        true
    }

    /// Takes the operations of a transaction whose rows are locked, with a number that is not above its own.
    fn take_operations(&mut self, _order: CommitOrder, _occ: &Workspace) {}

    /// Returns the records of these operations, one after the other.
    fn operations(&self) -> &[u8] {
        &[]
    }

    /// Takes a row that was written or deleted, its record still locked.
    fn row_written(&mut self, _change: RowChange, _table: &Table, _record: Record<'_>) {}

    /// Returns the bytes of the record, once all rows are written. Asked where a number comes with room for
    /// the record.
    fn bytes(&self) -> usize {
        0
    }

    /// Returns the record of the transaction, which has committed.
    fn committed<'a>(&'a mut self, stamp: Stamp, call: &'a mut Vec<u8>) -> &'a [u8];

    /// Keeps what it needs for the record of a vertex, which has committed, until the batch ends. Returns
    /// false if the record is complete now, as that of any other transaction.
    fn keep(&mut self, _order: CommitOrder, _call: &mut Vec<u8>) -> bool {
        false
    }

    /// Appends the sealed records of all vertices that it has kept, none larger than `largest`. Returns their
    /// number.
    fn end_batch(
        &mut self,
        _batch: &dyn EndedBatch,
        _tables: &Tables,
        _guard: &Guard,
        _largest: usize,
        _out: &mut Vec<u8>,
    ) -> usize {
        0
    }

    /// Returns the record of the abort of a transaction whose operations were recorded.
    fn aborted(&mut self, _order: CommitOrder) -> &[u8] {
        &[]
    }
}

/// What recorders have to be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Needs {
    /// The record of the call.
    pub(crate) calls: bool,
    /// Operations, before it is known whether the transaction commits.
    pub(crate) operations: bool,
    /// Each row that is written.
    pub(crate) rows: bool,
    /// How long transactions run.
    pub(crate) times: bool,
}

impl Needs {
    fn and(self, other: Self) -> Self {
        Self {
            calls: self.calls || other.calls,
            operations: self.operations || other.operations,
            rows: self.rows || other.rows,
            times: self.times || other.times,
        }
    }
}

fn recorder(log: &FormattedLog, adaptive: &Arc<Adaptive>) -> Box<dyn Recorder> {
    let format = log.format;
    match (format.content, format.images) {
        (Content::Adaptive, _) => Box::new(AdaptiveRecorder::new(Arc::clone(adaptive))),
        (Content::Physical, _) => Box::new(SlotsRecorder::default()),
        (Content::Physiological, images) if format.undo => Box::new(OperationsRecorder::new(images)),
        (Content::Logical | Content::Physiological, Images::Rows) => Box::new(RowsRecorder::default()),
        (Content::Logical | Content::Physiological, Images::Columns) => Box::new(ColumnsRecorder::default()),
        (Content::DependencyFine, _) => Box::new(BatchRowsRecorder::default()),
        (Content::DependencyCoarse, _) => Box::new(VerticesRecorder::default()),
        _ => Box::new(CommandRecorder::default()),
    }
}

/// The records of one worker's transactions, in all logs.
pub(crate) struct Records {
    recorders: Vec<Box<dyn Recorder>>,
    /// The worker to whose logger the records go.
    worker: Slot,
    /// By log, sealed records of vertices of the running batch, one after the other.
    kept: Vec<Vec<u8>>,
    pub(crate) needs: Needs,
    /// Room for the records of the running commit, by log, where it comes with the number.
    rooms: Vec<Room>,
    /// Bytes of records whose room comes with their numbers: more than most of the last `USUAL_OF`.
    usual_bytes: usize,
    /// Files of large records of the running transaction, by log.
    large: Large,
}

/// Files of the large records of a transaction, each with the index of its log.
struct Large {
    logs: Arc<LogSet>,
    files: Vec<(usize, LargeFile)>,
}

impl Large {
    fn put(&mut self, log: usize, record: &mut Vec<u8>) -> Result<(), LogError> {
        self.files.push((log, self.logs.large(log).put(record)?));
        Ok(())
    }

    /// The transaction has committed, or its operations are in the log.
    fn keep(&mut self, order: CommitOrder) {
        for (log, file) in self.files.drain(..) {
            self.logs.large(log).keep(file, order);
        }
    }

    /// The transaction of the files has not committed.
    fn forget(&mut self) {
        for (log, file) in self.files.drain(..) {
            self.logs.large(log).forget(file);
        }
    }
}

impl Drop for Large {
    fn drop(&mut self) {
        self.forget();
    }
}

impl Records {
    pub(crate) fn new(logs: &Arc<LogSet>, adaptive: &Arc<Adaptive>, worker: Slot) -> Self {
        let recorders = logs.iter().map(|log| recorder(log, adaptive)).collect();
        Self::of(logs, recorders, worker)
    }

    /// Returns the records that these recorders make, one a log.
    pub(crate) fn of(logs: &Arc<LogSet>, recorders: Vec<Box<dyn Recorder>>, worker: Slot) -> Self {
        let needs = recorders.iter().fold(Needs::default(), |needs, own| needs.and(own.needs()));
        let large = Large { logs: Arc::clone(logs), files: Vec::new() };
        let kept = recorders.iter().map(|_| Vec::new()).collect();
        Self { recorders, worker, kept, needs, rooms: Vec::new(), usual_bytes: 0, large }
    }

    /// Says to which worker's logger the records go.
    pub(crate) fn go_to(&mut self, worker: Slot) {
        self.worker = worker;
    }

    /// Whether all records hold calls, which may still change.
    #[inline]
    pub(crate) fn hold_calls(&self) -> bool {
        self.large.files.is_empty() && self.recorders.iter().all(|own| own.holds_call())
    }

    /// Whether nothing is logged.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.recorders.is_empty()
    }

    /// Begins the record of each log, writes records that no buffer holds into files, and waits until each
    /// log has room. A worker waits here and not later, because it has locked nothing yet.
    #[inline]
    pub(crate) fn describe(
        &mut self,
        logs: &LogSet,
        call: &mut Vec<u8>,
        execution: Execution<'_>,
    ) -> Result<(), LogError> {
        self.large.forget();
        let Self { recorders, large, usual_bytes, worker, .. } = self;
        for (index, recorder) in recorders.iter_mut().enumerate() {
            let log = logs.at(index);
            let largest = log.largest_record();
            let mut bytes = recorder.prepare(&Execution { call: &*call, largest, ..execution });
            if execution.is_in_batch {
                // The edges of a vertex take the other half of a buffer at most. A batch waits for room once
                // it has ended.
                log.check_size(bytes * 2)?;
                continue;
            }
            if bytes > largest
                && let Some(record) = recorder.prepared(call)
            {
                large.put(index, record)?;
                bytes = record.len();
            }
            log.check_size(bytes)?;
            // The length of the record is known now, or is guessed from the last ones.
            let expected = bytes.max(recorder.bytes()).max(*usual_bytes).min(largest / 2);
            log.wait_for_room(*worker, expected)?;
        }
        Ok(())
    }

    /// Returns whether the records fit the rows, which are locked now.
    pub(crate) fn fit(&self, logs: &LogSet, workspace: &Workspace) -> bool {
        let (written, guard) = (workspace.row_words(), workspace.guard());
        let mut recorders = self.recorders.iter().enumerate();
        recorders.all(|(index, recorder)| recorder.fits(written, logs.at(index).largest_record(), guard))
    }

    /// Appends the records of operations: in pieces where no buffer holds all of them, and after a file of
    /// its own is written for each that no buffer holds.
    pub(crate) fn append_operations(
        &mut self,
        logs: &LogSet,
        order: CommitOrder,
        workspace: &Workspace,
    ) -> Result<(), LogError> {
        let Self { recorders, worker, large, .. } = self;
        recorders.iter_mut().for_each(|recorder| recorder.take_operations(order, workspace));
        let mut pieces = Vec::new();
        for (index, recorder) in recorders.iter().enumerate() {
            let (records, largest) = (recorder.operations(), logs.at(index).largest_record());
            if records.len() <= largest {
                pieces.push((index, Cow::Borrowed(records)));
                continue;
            }
            for piece in cut(records, largest / PIECES) {
                let mut piece = Cow::Borrowed(piece);
                if piece.len() > largest {
                    large.put(index, piece.to_mut())?;
                    seal(order, piece.to_mut());
                }
                pieces.push((index, piece));
            }
        }
        let mut pieces = pieces.iter().filter(|(_, piece)| !piece.is_empty());
        pieces.try_for_each(|(index, piece)| logs.at(*index).append(*worker, piece, order))
    }

    /// Takes a row that was written or deleted, its record still locked.
    #[inline]
    pub(crate) fn row_written(&mut self, change: RowChange, table: &Table, record: Record<'_>) {
        self.recorders.iter_mut().for_each(|recorder| recorder.row_written(change, table, record));
    }

    /// Numbers the transaction, and takes room for its record in each log.
    pub(crate) fn number(
        &mut self,
        numbering: &dyn Numbering,
        by: Numbered<'_>,
        workspace: &Workspace,
        floor: CommitOrder,
    ) -> (Stamp, Result<(), LogError>) {
        let Self { recorders, rooms, .. } = self;
        numbering.after_validation(by, workspace, floor, &|index| recorders[index].bytes(), rooms)
    }

    /// Appends the record of a transaction that has committed to each log.
    #[inline]
    pub(crate) fn append(&mut self, logs: &LogSet, stamp: Stamp, call: &mut Vec<u8>) -> Result<(), LogError> {
        self.large.keep(stamp.order);
        let mut result = Ok(());
        for (index, recorder) in self.recorders.iter_mut().enumerate() {
            let record = recorder.committed(stamp, call);
            if record.is_empty() {
                continue;
            }
            let appended = logs.at(index).append(self.worker, record, stamp.order);
            result = result.and(appended);
        }
        result
    }

    /// Keeps the record of a vertex, which has committed, until its batch ends.
    #[inline]
    pub(crate) fn keep(&mut self, order: CommitOrder, call: &mut Vec<u8>) {
        self.large.keep(order);
        for (recorder, kept) in self.recorders.iter_mut().zip(&mut self.kept) {
            if !recorder.keep(order, call) {
                kept.extend_from_slice(recorder.committed(order.into(), call));
            }
        }
    }

    /// Appends the records of the vertices of a batch that has ended. Adds to `counts`, by log, the records
    /// of logs of batches.
    pub(crate) fn end_batch(
        &mut self,
        logs: &LogSet,
        batch: &dyn EndedBatch,
        workspace: &mut Workspace,
        counts: &[AtomicU32],
    ) -> Result<(), LogError> {
        let (mut result, own, last) = (Ok(()), self.worker, batch.last());
        let tables = workspace.tables().clone();
        let guard = workspace.worker().enter();
        for (index, recorder) in self.recorders.iter_mut().enumerate() {
            let (kept, log) = (&mut self.kept[index], logs.at(index));
            let largest = log.largest_record();
            let records = recorder.end_batch(batch, &tables, &guard, largest, kept);
            counts[index].fetch_add(records as u32, Ordering::Relaxed);
            let appended = cut(kept, largest / PIECES).try_for_each(|piece| log.append(own, piece, last));
            result = result.and(appended);
            kept.clear();
        }
        result
    }

    /// Appends the end of a batch to each log of batches. `counts` has the numbers of records, by log.
    pub(crate) fn put_batch_end(
        &mut self,
        logs: &LogSet,
        batch: &dyn EndedBatch,
        counts: &[AtomicU32],
    ) -> Result<(), LogError> {
        let (mut record, last) = (Vec::new(), batch.last());
        let (vertices, commits) = ((last.0 - batch.first().0) as u32 + 1, batch.commits());
        for (index, log) in logs.iter().enumerate() {
            let records = counts[index].load(Ordering::Relaxed);
            if log.format.content.needs_batches() && records > 0 {
                BatchEndRecord { vertices, commits, records }.write(&mut record);
                seal(last, &mut record);
                log.log.append(self.worker, &record, last)?;
            }
        }
        Ok(())
    }

    /// Copies the record of a transaction that has committed into the room that was taken with its number.
    pub(crate) fn fill(&mut self, logs: &LogSet, stamp: Stamp, call: &mut Vec<u8>) {
        self.large.keep(stamp.order);
        let Self { recorders, worker, rooms, usual_bytes, .. } = self;
        for (index, room) in rooms.drain(..).enumerate() {
            *usual_bytes = (*usual_bytes - *usual_bytes / USUAL_OF).max(room.bytes() * 2);
            logs.fill(index, *worker, room, recorders[index].committed(stamp, call));
        }
    }

    /// Appends the record of the abort of a transaction whose operations were appended: recovery reads these
    /// before it knows that the transaction has not committed.
    pub(crate) fn aborted(&mut self, logs: &LogSet, order: CommitOrder) {
        if !self.needs.operations {
            return;
        }
        self.large.keep(order);
        for (index, recorder) in self.recorders.iter_mut().enumerate() {
            let record = recorder.aborted(order);
            if !record.is_empty() {
                // A log that fails here refuses the next transaction.
                let _ = logs.at(index).append(self.worker, record, order);
            }
        }
    }
}

/// Cuts records that stand one after the other into pieces of at most this many bytes; a longer record is a
/// piece of its own.
fn cut(mut records: &[u8], most: usize) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let mut end = 0;
        while let Some(length) = content::length_of(&records[end..])
            && (end == 0 || end + length <= most)
        {
            end += length;
        }
        let (piece, rest) = records.split_at(end);
        records = rest;
        (end > 0).then_some(piece)
    })
}
