//! The records of the logs that count, found batch by batch.

use super::{Address, FoundBatch};
use crate::RecoveryError;
use catalog::{CommitOrder, DecodeError, Reader};
use logging::content::{self, LargeRecord, Outcome, Record, RecordKind, Stamp};
use logging::{Batch, CorruptionKind, LogError, LoggerLog, UnprovenKind};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Bytes of records that a thread indexes at a time.
const PART: usize = 4 << 20;

/// Consecutive batches of a log.
pub(super) struct Part {
    pub(super) log: usize,
    batches: Range<usize>,
}

/// Divides logs into parts of about the same size.
pub(super) fn parts_of(logs: &[LoggerLog]) -> Vec<Part> {
    let mut parts = Vec::new();
    for (number, log) in logs.iter().enumerate() {
        let (mut first, mut bytes) = (0, 0);
        for (batch, own) in log.batches.iter().enumerate() {
            bytes += own.records.len();
            if bytes >= PART || batch + 1 == log.batches.len() {
                parts.push(Part { log: number, batches: first..batch + 1 });
                (first, bytes) = (batch + 1, 0);
            }
        }
    }
    parts
}

/// Which records count.
pub(super) struct Counted<'c> {
    /// The bound of the checkpoint.
    pub(super) from: CommitOrder,
    /// The cut of every incarnation.
    pub(super) cuts: &'c BTreeMap<u64, CommitOrder>,
    /// The last order before a missing file.
    pub(super) complete: CommitOrder,
}

/// The records of a part of a log that count.
#[derive(Default)]
pub(super) struct Index {
    /// The greatest order, of any record.
    pub(super) last: CommitOrder,
    pub(super) addresses: Vec<Address>,
    pub(super) kinds: BTreeSet<RecordKind>,
    pub(super) batches: Vec<FoundBatch>,
    /// Number of committed transactions.
    pub(super) transactions: u64,
    /// Size of the records, in bytes.
    pub(super) record_bytes: u64,
    /// Number of transactions past the cut that are no vertices.
    pub(super) discarded: u64,
    pub(super) large: Vec<(LargeRecord, Address)>,
    /// Transactions whose commit after the checkpoint is an outcome of its own.
    pub(super) committed: Vec<CommitOrder>,
    /// Vertices with records whose batches do not count.
    pub(super) left_out: Vec<CommitOrder>,
}

impl Index {
    /// Finds the records of a part that count.
    ///
    /// # Errors
    /// A record is malformed, or was written for another executor.
    pub(super) fn of(logs: &[LoggerLog], part: &Part, counted: &Counted<'_>) -> Result<Self, RecoveryError> {
        let (log, mut index) = (&logs[part.log], Self::default());
        for number in part.batches.clone() {
            let batch = &log.batches[number];
            index.last = index.last.max(batch.completed).max(batch.vouched);
            let mut reader = Reader::new(&batch.records);
            while reader.remaining() > 0 {
                let offset = batch.records.len() - reader.remaining();
                let (stamp, kind, record) = content::read(&mut reader).map_err(|_| {
                    let kind = CorruptionKind::Malformed("a record of this batch is malformed");
                    LogError::corrupt(&batch.file, batch.offset, kind)
                })?;
                let bytes = batch.records.len() - reader.remaining() - offset;
                let (log_number, batch_number) = (part.log as u32, number as u32);
                let (order, offset) = (stamp.order, offset as u32);
                let address = Address { order, log: log_number, batch: batch_number, offset, kind, stage: 0 };
                if counted.is_cut(log, stamp) {
                    index.leave_out(address, &record);
                } else if order >= counted.from || is_an_operation(kind, &record) {
                    // An operation is logged before its transaction draws the order of its commit.
                    if order >= counted.from {
                        check_semantics(log, batch)?;
                    }
                    index.record_bytes += bytes as u64;
                    index.add(address, &record).map_err(|_| {
                        let kind = CorruptionKind::Malformed("a record of this batch has too many stages");
                        LogError::corrupt(&batch.file, batch.offset, kind)
                    })?;
                }
                index.last = index.last.max(order);
            }
        }
        Ok(index)
    }

    fn leave_out(&mut self, address: Address, record: &Record<'_>) {
        if is_of_batch(address.kind) {
            self.left_out.push(address.order);
        } else {
            self.discarded += u64::from(is_a_commit(record));
        }
    }

    fn add(&mut self, address: Address, record: &Record<'_>) -> Result<(), DecodeError> {
        self.transactions += u64::from(is_a_commit(record) && !is_of_batch(address.kind));
        match record {
            Record::Large(large) => {
                self.large.push((*large, address));
                return Ok(());
            }
            Record::Outcome(Outcome { transaction, committed: true }) => self.committed.push(*transaction),
            Record::BatchEnd(end) => {
                let (last, records) = (address.order, end.records);
                self.transactions += u64::from(end.commits);
                // One that does not fit its order has no records either, which `check_batches` finds.
                let first = end.first(last).unwrap_or(last);
                self.batches.push(FoundBatch { first, last, records });
                return Ok(());
            }
            _ => {}
        }
        address.add_to(record, &mut self.kinds, &mut self.addresses)
    }
}

impl Counted<'_> {
    /// Returns whether a transaction is past the cut of its incarnation, or may follow a missing one.
    fn is_cut(&self, log: &LoggerLog, stamp: Stamp) -> bool {
        stamp.order > self.cuts[&log.incarnation] && !stamp.alone || stamp.order > self.complete
    }
}

/// Refuses records that were written for another executor.
fn check_semantics(log: &LoggerLog, batch: &Batch) -> Result<(), LogError> {
    let (written, known) = (log.semantics, procedure::SEMANTICS);
    if written == known {
        return Ok(());
    }
    Err(LogError::unproven(&batch.file, batch.offset, UnprovenKind::OtherSemantics { written, known }))
}

/// Returns whether a record is one of a vertex. A vertex may have no record, or several; the end of its batch
/// tells how many have committed.
pub(super) fn is_of_batch(kind: RecordKind) -> bool {
    matches!(kind, RecordKind::Vertex | RecordKind::BatchWrites)
}

/// Returns whether a record says that a transaction committed.
fn is_a_commit(record: &Record<'_>) -> bool {
    match record {
        Record::Outcome(outcome) => outcome.committed,
        Record::Operation(_) | Record::BatchEnd(_) => false,
        Record::Large(large) => large.kind != RecordKind::Operation,
        _ => true,
    }
}

/// Returns whether a record is an operation, or refers to one.
fn is_an_operation(kind: RecordKind, record: &Record<'_>) -> bool {
    match record {
        Record::Large(large) => large.kind == RecordKind::Operation,
        _ => kind == RecordKind::Operation,
    }
}
