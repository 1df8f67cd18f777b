//! `poplar`: a logical log replayed by all threads at once, each device's records in their order there, under
//! latches: the last writer of a row wins, by number. Nothing is sorted.
//! Paper: Poplar §5. Reading the log finds the records that count, from RSNs to RSNe and those that count
//! alone past that (`crate::log`). Differs: records are taken from a device's end backwards, because the last
//! writer then mostly comes first.

use super::context::{OnDemand, Replay, ReplayContext, Replayed};
use super::llr;
use crate::RecoveryError;
use checkpoint::{CheckpointError, Indexes, Load};

/// The method.
pub(super) struct Poplar;

impl Replay for Poplar {
    /// Loads a fuzzy checkpoint or a consistent one.
    fn load(&mut self, checkpoint: &Load<'_>) -> Result<(), CheckpointError> {
        checkpoint.rows(&Indexes::Primary)
    }

    fn on_demand(&self) -> OnDemand {
        OnDemand::Writes { needs_whole_rows: true }
    }

    fn run_all(&mut self, context: &mut ReplayContext<'_>) -> Result<Replayed, RecoveryError> {
        // The records are arranged by device (`LogContents::arrange`); `llr` writes rows the same way.
        llr::write_newest_first(context)
    }
}
