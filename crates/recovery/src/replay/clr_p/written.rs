//! Whether calls wrote what their records say.
//!
//! Every operation that writes is of one piece, and runs there as often as it did in the call; so what all
//! pieces of a call have written adds up to what the call wrote. Not seen here: right values that two calls
//! wrote into one row in the wrong order, and a wrong witness as such. Replay is spared the read behind a
//! witness; `clr` makes the read and compares.
//!
//! Invariant: a batch is done only once its calls have written what their records say. Held by:
//! `divergence_is_refused`, `values_that_differ_are_refused`.

use super::Segment;
use super::plan::{Batch, Logged};
use crate::RecoveryError;
use crate::replay::divergence::{ReplayedCall, in_words};
use catalog::Written;

impl Segment<'_, '_> {
    /// Compares what a batch's calls wrote with their records. `sums` is worked with.
    pub(super) fn check_written(
        &self,
        batch: &Batch<'_>,
        sums: &mut Vec<Written>,
    ) -> Result<(), RecoveryError> {
        sums.clear();
        sums.resize(batch.transactions.len(), Written::default());
        for (units, written) in batch.units.iter().zip(&batch.written) {
            for (units, written) in units.iter().zip(written) {
                let written = written.get().map_or(&[][..], Vec::as_slice);
                for (unit, written) in units.iter().zip(written) {
                    sums[unit.transaction as usize] += *written;
                }
            }
        }
        let differs = sums.iter().zip(&batch.transactions).position(|(sum, transaction)| {
            matches!(&transaction.logged, Logged::Call { call, .. } if call.written.is_some_and(|own| own != *sum))
        });
        match differs {
            Some(place) => Err(self.wrote_otherwise(batch, place, sums[place])),
            None => Ok(()),
        }
    }

    fn wrote_otherwise(&self, batch: &Batch<'_>, transaction: usize, sum: Written) -> RecoveryError {
        let of = &batch.transactions[transaction];
        let Logged::Call { program, call } = &of.logged else {
            unreachable!("calls alone say what they have written")
        };
        let call = ReplayedCall { order: of.order, procedure: self.procedures[*program], record: call };
        let operations = &self.pieces.programs[*program].operations;
        let written = self.pieces.pieces[*program].iter().map(|piece| {
            let writes =
                piece.executes.iter().map(|id| &operations[id.0 as usize]).filter(|own| own.writes());
            let name = writes.map(in_words).collect::<Vec<_>>().join(" and ");
            let of_partition = batch.units[piece.block].iter().zip(&batch.written[piece.block]);
            let rows = of_partition.flat_map(|(units, written)| {
                let units = units.iter().zip(written.get().into_iter().flatten());
                units
                    .filter(|(unit, _)| unit.transaction as usize == transaction)
                    .map(|(_, written)| u64::from(written.rows))
            });
            (name, rows.sum())
        });
        call.wrote_otherwise(sum, written.filter(|(name, _)| !name.is_empty()))
    }
}
