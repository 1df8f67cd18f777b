//! Which transactions of a physiological log committed, and which recovery undoes.

use crate::LogContents;
use catalog::CommitOrder;
use logging::content::{Operation, Outcome, Record, RecordKind};
use std::collections::BTreeMap;

/// The fates of the log's transactions.
pub(crate) struct Fates<'l> {
    /// By record of the log, whether it is an operation of a transaction that committed, or that is to be
    /// undone.
    counts: Vec<bool>,
    /// The operations of transactions that count and whose outcome is not in the log.
    pub(super) losers: BTreeMap<CommitOrder, Vec<Operation<'l>>>,
}

impl<'l> Fates<'l> {
    /// The pass of analysis. Operations of transactions that ended before `from` are in the checkpoint, or
    /// were aborted.
    pub(crate) fn of(log: &'l LogContents, from: CommitOrder) -> Self {
        let indexes = |kind| (0..log.len()).filter(move |index| log.kind(*index) == kind);
        let fate = |index| match log.record(index).1 {
            Record::Outcome(Outcome { transaction, committed }) => Some((transaction, committed)),
            _ => None,
        };
        let mut ended: Vec<(CommitOrder, bool)> = indexes(RecordKind::Outcome).filter_map(fate).collect();
        ended.sort_unstable();
        // Operations are in the order of their transactions too, so one pass goes through both.
        let mut ended = ended.into_iter().peekable();
        let mut fates = Self { counts: vec![false; log.len()], losers: BTreeMap::new() };
        for index in indexes(RecordKind::Operation) {
            let transaction = log.order(index);
            while ended.next_if(|(other, _)| *other < transaction).is_some() {}
            let fate = ended.peek().filter(|(other, _)| *other == transaction);
            fates.counts[index] = match fate {
                Some((_, committed)) => *committed,
                None => transaction >= from,
            };
            if fate.is_none()
                && transaction >= from
                && let Record::Operation(operation) = log.record(index).1
            {
                fates.losers.entry(transaction).or_default().push(operation);
            }
        }
        fates
    }

    /// Returns whether a record is an operation that a pass of redo does, before losers are undone.
    pub(super) fn is_redone(&self, index: usize) -> bool {
        self.counts[index]
    }

    /// Returns whether a record is an operation that leaves nothing: of a transaction that did not commit.
    pub(crate) fn is_void(&self, index: usize, log: &LogContents) -> bool {
        log.kind(index) == RecordKind::Operation
            && (!self.counts[index] || self.losers.contains_key(&log.order(index)))
    }

    /// Returns the transactions to undo, in this order.
    pub(crate) fn undone(&self) -> Vec<CommitOrder> {
        self.losers.keys().rev().copied().collect()
    }
}
