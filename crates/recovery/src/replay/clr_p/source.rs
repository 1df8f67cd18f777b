//! A segment of the log as a source of transactions.

use super::ProgramKey;
use crate::replay::divergence::undefined;
use crate::replay::unknown_record;
use crate::{LogContents, Progress, RecoveryError};
use catalog::CommitOrder;
use logging::content::Record;
use schedule::{Body, Next, SAMPLED, Source, Transaction};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use transaction::Tables;

/// Records of the log between which no definition changes.
pub(super) struct LogSource<'l> {
    log: &'l LogContents,
    range: Range<usize>,
    /// Transactions of a batch.
    batch: usize,
    /// The index of each program.
    programs: HashMap<ProgramKey, usize>,
    tables: &'l Tables,
    progress: &'l Progress,
    /// The first record that is not claimed.
    next: AtomicUsize,
    /// Records of the whole log that are replayed.
    replayed: AtomicU64,
}

impl<'l> LogSource<'l> {
    pub(super) fn new(
        log: &'l LogContents,
        range: Range<usize>,
        batch: usize,
        programs: &[ProgramKey],
        tables: &'l Tables,
        progress: &'l Progress,
    ) -> Self {
        let programs = programs.iter().enumerate().map(|(program, key)| (*key, program)).collect();
        let (next, replayed) = (AtomicUsize::new(range.start), AtomicU64::new(range.start as u64));
        Self { log, range, batch, programs, tables, progress, next, replayed }
    }

    /// Returns some transactions of the whole range.
    pub(super) fn sample(&self) -> impl Iterator<Item = Transaction<'l>> {
        let step = self.range.len().div_ceil(SAMPLED).max(1);
        // A call of a procedure that is not defined is refused when its batch is read.
        self.range.clone().step_by(step).filter_map(|index| self.transaction(index).ok())
    }

    fn transaction(&self, index: usize) -> Result<Transaction<'l>, RecoveryError> {
        let (order, record) = self.log.record(index);
        Ok(Transaction { order, body: self.body(order, record)? })
    }

    fn body(&self, order: CommitOrder, record: Record<'l>) -> Result<Body<'l>, RecoveryError> {
        match record {
            Record::Call(record) => {
                let program = self.programs.get(&(record.procedure, record.version, record.witnessed));
                let program = *program.ok_or_else(|| undefined(order, record.procedure, record.version))?;
                Ok(Body::Call { program, record })
            }
            Record::Writes(writes) => Ok(Body::Writes(writes)),
            _ => Err(unknown_record(order)),
        }
    }
}

impl<'l> Source for LogSource<'l> {
    type Claim = Range<usize>;
    type Batch = Vec<Transaction<'l>>;
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
        self.progress.set_done(self.replayed.fetch_add(count, Ordering::Relaxed) + count);
        self.tables.epochs.advance_from(self.tables.epochs.current());
    }
}
