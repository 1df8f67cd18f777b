//! `aries`: a physiological log replayed in three passes: analysis, redo of all operations, undo of those of
//! transactions that did not commit.
//! Paper: command logging §IV-B; ARIES (Mohan et al., TODS 1992). Differs: checkpoints are consistent, so
//! there is no dirty page table and redo begins at the checkpoint; tuples are independent, so redo is
//! shuffled by table and key (the paper's parallel redo by partition); an aborted transaction has written
//! nothing, because it logs before it writes, so redo leaves it out.
//!
//! A transaction is a loser when its operations count and its outcome is not in the log: it was committing at
//! the crash. It held locks then, so it is the last writer of each of its rows until recovery undoes it.
//! Before the database opens, it logs the abort of each loser, one after the other
//! (`reprise::Database::open`). So an interrupted recovery goes on where it stopped, and the writes of later
//! transactions are never undone. One record compensates all operations of a transaction: from then on redo
//! leaves them out, like those of any aborted transaction.
//! Held by: `losers_are_undone`, `undo_goes_on_where_it_was` (crates/reprise/tests/suite/losers.rs).

use super::context::{Replay, ReplayContext, Replayed};
use super::divergence::unknown_record;
use super::tuples::{Select, Shuffle, Shuffled, TupleWrite, TupleWriter, build_indexes, each_segment, sweep};
use crate::{LogContents, RecoveryError};
use catalog::CommitOrder;
use checkpoint::{CheckpointError, Indexes, Load};
use logging::content::{Operation, Outcome, Record, RecordKind};
use std::collections::BTreeMap;

/// The method.
pub(super) struct Aries;

impl Replay for Aries {
    fn load(&mut self, checkpoint: &Load<'_>) -> Result<(), CheckpointError> {
        checkpoint.rows(&Indexes::Primary)
    }

    fn run_all(&mut self, context: &mut ReplayContext<'_>) -> Result<Replayed, RecoveryError> {
        let fates = Fates::of(context.log, context.from);
        let mut shuffled = Shuffled::default();
        each_segment(context, |range, context| {
            Shuffle { context, select: &fates }.replay(range, &mut shuffled)
        })?;
        let mut writer = TupleWriter::new(context.worker()?);
        writer.stay();
        for (transaction, operations) in fates.losers.iter().rev() {
            let mut operations = operations.iter().rev();
            operations.try_for_each(|operation| writer.undo(*transaction, operation, &context.tables))?;
        }
        writer.leave();
        shuffled.add(writer.take_tombstones());
        sweep(shuffled.tombstones, context)?;
        build_indexes(context)?;
        Ok(Replayed { undone: fates.losers.into_keys().rev().collect(), ..Replayed::default() })
    }
}

/// The fates of the log's transactions.
struct Fates<'l> {
    /// By record of the log, whether it is an operation to redo: one of a transaction that committed, or that
    /// is to be undone.
    redone: Vec<bool>,
    /// The operations of transactions that count and whose outcome is not in the log.
    losers: BTreeMap<CommitOrder, Vec<Operation<'l>>>,
}

impl<'l> Fates<'l> {
    /// The pass of analysis. Operations of transactions that ended before `from` are in the checkpoint, or
    /// were aborted.
    fn of(log: &'l LogContents, from: CommitOrder) -> Self {
        let indexes = |kind| (0..log.len()).filter(move |index| log.kind(*index) == kind);
        let fate = |index| match log.record(index).1 {
            Record::Outcome(Outcome { transaction, committed }) => Some((transaction, committed)),
            _ => None,
        };
        let mut ended: Vec<(CommitOrder, bool)> = indexes(RecordKind::Outcome).filter_map(fate).collect();
        ended.sort_unstable();
        // Operations are in the order of their transactions too, so one pass goes through both.
        let mut ended = ended.into_iter().peekable();
        let mut fates = Self { redone: vec![false; log.len()], losers: BTreeMap::new() };
        for index in indexes(RecordKind::Operation) {
            let (transaction, Record::Operation(operation)) = log.record(index) else { continue };
            while ended.next_if(|(other, _)| *other < transaction).is_some() {}
            let fate = ended.peek().filter(|(other, _)| *other == transaction);
            fates.redone[index] = match fate {
                Some((_, committed)) => *committed,
                None => transaction >= from,
            };
            if fate.is_none() && transaction >= from {
                fates.losers.entry(transaction).or_default().push(operation);
            }
        }
        fates
    }
}

/// The pass of redo.
impl Select for &Fates<'_> {
    fn select<'l>(
        &self,
        index: usize,
        order: CommitOrder,
        record: Record<'l>,
        add: &mut dyn FnMut(CommitOrder, TupleWrite<'l>),
    ) -> Result<(), RecoveryError> {
        match record {
            Record::Writes(writes) => {
                writes.writes().for_each(|(_, write)| add(order, TupleWrite::Write(write)));
            }
            Record::Operation(operation) if self.redone[index] => {
                add(order, TupleWrite::Operation(operation))
            }
            Record::Operation(_) | Record::Outcome(_) => {}
            _ => return Err(unknown_record(order)),
        }
        Ok(())
    }
}
