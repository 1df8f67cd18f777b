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
//! On demand, the operations of losers are left out instead: each would be undone before any transaction sees
//! its row.
//! Held by: `losers_are_undone`, `undo_goes_on_where_it_was` (crates/reprise/tests/suite/losers.rs).

use super::context::{OnDemand, Replay, ReplayContext, Replayed};
use super::divergence::unknown_record;
use super::fates::Fates;
use super::tuples::{Select, Shuffle, Shuffled, TupleWrite, TupleWriter, build_indexes, each_segment, sweep};
use crate::RecoveryError;
use catalog::CommitOrder;
use checkpoint::{CheckpointError, Indexes, Load};
use logging::content::Record;

/// The method.
pub(super) struct Aries;

impl Replay for Aries {
    fn load(&mut self, checkpoint: &Load<'_>) -> Result<(), CheckpointError> {
        checkpoint.rows(&Indexes::Primary)
    }

    fn on_demand(&self) -> OnDemand {
        OnDemand::Writes { needs_whole_rows: false }
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
        context.undone = fates.undone();
        Ok(Replayed::default())
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
            Record::Operation(operation) if self.is_redone(index) => {
                add(order, TupleWrite::Operation(operation))
            }
            Record::Operation(_) | Record::Outcome(_) => {}
            _ => return Err(unknown_record(order)),
        }
        Ok(())
    }
}
