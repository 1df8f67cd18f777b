//! Whether calls wrote as many rows as their records say.
//!
//! Every operation that writes is of one piece, and runs there as often as it did in the call; so the rows of all pieces of a
//! call add up to those of the call. A divergence that changes values alone, and not how many rows a later call writes, is not
//! seen here. Nor is a wrong witness as such: replay is spared the read behind it; `clr` makes the read and compares.
//!
//! Invariant: a batch is done only once the rows of its calls are those of their records. Held by: `divergence_is_refused`.

use super::Segment;
use super::plan::{Batch, Logged};
use crate::RecoveryError;
use crate::replay::divergence::{ReplayedCall, in_words};

impl Segment<'_, '_> {
    /// Compares the rows that a batch's calls wrote with their records. `sums` is worked with.
    pub(super) fn check_rows(&self, batch: &Batch<'_>, sums: &mut Vec<u64>) -> Result<(), RecoveryError> {
        sums.clear();
        sums.resize(batch.transactions.len(), 0);
        for (units, written) in batch.units.iter().zip(&batch.written) {
            for (units, written) in units.iter().zip(written) {
                let written = written.get().map_or(&[][..], Vec::as_slice);
                for (unit, rows) in units.iter().zip(written) {
                    sums[unit.transaction as usize] += u64::from(*rows);
                }
            }
        }
        let miscounted = sums.iter().zip(&batch.transactions).position(|(sum, transaction)| {
            matches!(&transaction.logged, Logged::Call { call, .. } if call.rows_written.is_some_and(|own| own != *sum))
        });
        match miscounted {
            Some(place) => Err(self.miscounted(batch, place, sums[place])),
            None => Ok(()),
        }
    }

    fn miscounted(&self, batch: &Batch<'_>, transaction: usize, sum: u64) -> RecoveryError {
        let of = &batch.transactions[transaction];
        let Logged::Call { program, call } = &of.logged else {
            unreachable!("calls alone have a number of rows")
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
                    .map(|(_, rows)| u64::from(*rows))
            });
            (name, rows.sum())
        });
        call.miscounted(sum, written.filter(|(name, _)| !name.is_empty()))
    }
}
