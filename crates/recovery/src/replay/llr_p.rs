//! `llr-p`: a logical log replayed without latches, its writes shuffled by table and primary key.
//! Paper: PACMAN §4.5, §6.2 (LLR-P).

use super::context::{OnDemand, Replay, ReplayContext, Replayed};
use super::divergence::unknown_record;
use super::tuples::{Select, Shuffle, Shuffled, TupleWrite, build_indexes, each_segment, sweep};
use crate::RecoveryError;
use catalog::CommitOrder;
use checkpoint::{CheckpointError, Indexes, Load};
use logging::content::Record;

/// The method.
pub(super) struct LlrP;

impl Replay for LlrP {
    fn load(&mut self, checkpoint: &Load<'_>) -> Result<(), CheckpointError> {
        checkpoint.rows(&Indexes::Primary)
    }

    fn on_demand(&self) -> OnDemand {
        OnDemand::Writes { needs_whole_rows: false }
    }

    fn run_all(&mut self, context: &mut ReplayContext<'_>) -> Result<Replayed, RecoveryError> {
        let mut shuffled = Shuffled::default();
        each_segment(context, |range, context| {
            Shuffle { context, select: AllWrites }.replay(range, &mut shuffled)
        })?;
        sweep(shuffled.tombstones, context)?;
        build_indexes(context)?;
        Ok(Replayed::default())
    }
}

/// Selects all writes.
struct AllWrites;

impl Select for AllWrites {
    fn select<'l>(
        &self,
        _index: usize,
        order: CommitOrder,
        record: Record<'l>,
        add: &mut dyn FnMut(CommitOrder, TupleWrite<'l>),
    ) -> Result<(), RecoveryError> {
        let Record::Writes(writes) = record else { return Err(unknown_record(order)) };
        writes.writes().for_each(|(_, write)| add(order, TupleWrite::Write(write)));
        Ok(())
    }
}
