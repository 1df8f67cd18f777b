//! A segment of the log as a source of transactions.

use crate::replay::context::ReplayContext;
use crate::replay::divergence::{undefined, unknown_record};
use crate::{LogContents, RecoveryError};
use catalog::{CommitOrder, ProcedureId};
use logging::content::{CallRecord, Record};
use procedure::Witnessed;
use schedule::{Batch, Body, Next, SAMPLED, Source, Transaction};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The program of a call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct ProgramKey {
    pub(super) procedure: ProcedureId,
    pub(super) version: u32,
    /// The witness values that the call's record has.
    pub(super) witnessed: Witnessed,
}

impl ProgramKey {
    pub(super) fn of(call: &CallRecord<'_>) -> Self {
        Self { procedure: call.procedure, version: call.version, witnessed: call.witnessed }
    }
}

/// Records of the log between which no definition changes.
pub(super) struct LogSource<'c> {
    context: &'c ReplayContext<'c>,
    range: Range<usize>,
    /// Number of transactions of a batch.
    batch: usize,
    /// The programs, ascending.
    programs: Vec<ProgramKey>,
    /// The index of the first record that is not claimed.
    next: AtomicUsize,
    /// Number of records of the whole log that are replayed.
    replayed: AtomicU64,
}

impl<'c> LogSource<'c> {
    /// `programs` ascend.
    pub(super) fn new(context: &'c ReplayContext<'c>, range: Range<usize>, programs: &[ProgramKey]) -> Self {
        let programs = programs.to_vec();
        let (next, replayed) = (AtomicUsize::new(range.start), AtomicU64::new(range.start as u64));
        Self { context, range, batch: context.config.batch.max(1), programs, next, replayed }
    }

    /// Returns some transactions of the whole range.
    pub(super) fn sample(&self) -> impl Iterator<Item = Transaction<'c>> {
        let step = self.range.len().div_ceil(SAMPLED).max(1);
        // A call of a procedure that is not defined is refused when its batch is read.
        self.range.clone().step_by(step).filter_map(|index| self.transaction(index).ok())
    }

    fn transaction(&self, index: usize) -> Result<Transaction<'c>, RecoveryError> {
        let (order, record) = self.context.log.record(index);
        Ok(Transaction { order, body: body_of(order, record, &self.programs)? })
    }
}

/// Returns what a transaction of the log does.
fn body_of<'l>(
    order: CommitOrder,
    record: Record<'l>,
    programs: &[ProgramKey],
) -> Result<Body<'l>, RecoveryError> {
    match record {
        Record::Call(record) => {
            let program = programs.binary_search(&ProgramKey::of(&record));
            let program = program.map_err(|_| undefined(order, record.procedure, record.version))?;
            Ok(Body::Call { program, record })
        }
        Record::Writes(writes) => Ok(Body::Writes(writes)),
        _ => Err(unknown_record(order)),
    }
}

/// The transactions of a segment, in any order.
#[derive(Debug)]
pub(crate) struct LogTransactions {
    log: Arc<LogContents>,
    range: Range<usize>,
    /// The programs, ascending.
    programs: Vec<ProgramKey>,
}

impl LogTransactions {
    /// `programs` has those of all calls of the range, and ascends.
    pub(super) fn new(log: &Arc<LogContents>, range: Range<usize>, programs: &[ProgramKey]) -> Self {
        Self { log: Arc::clone(log), range, programs: programs.to_vec() }
    }
}

impl Batch for LogTransactions {
    fn len(&self) -> usize {
        self.range.len()
    }

    fn get(&self, index: usize) -> Transaction<'_> {
        let (order, record) = self.log.record(self.range.start + index);
        let body = body_of(order, record, &self.programs);
        Transaction { order, body: body.expect("the records of the range were looked at before") }
    }
}

impl<'c> Source for LogSource<'c> {
    type Claim = Range<usize>;
    type Batch = Vec<Transaction<'c>>;
    type Error = RecoveryError;

    fn claim(&self, _waits: bool) -> Next<Range<usize>> {
        let first = self.next.fetch_add(self.batch, Ordering::Relaxed);
        if first >= self.range.end {
            return Next::End;
        }
        Next::Batch(first..(first + self.batch).min(self.range.end))
    }

    fn read(&self, claim: Range<usize>) -> Result<Self::Batch, RecoveryError> {
        claim.map(|index| self.transaction(index)).collect()
    }

    fn finished(&self, batch: &Self::Batch) {
        let count = batch.len() as u64;
        let ReplayContext { progress, tables, .. } = self.context;
        progress.set_done(self.replayed.fetch_add(count, Ordering::Relaxed) + count);
        tables.epochs.advance_from(tables.epochs.current());
    }
}
