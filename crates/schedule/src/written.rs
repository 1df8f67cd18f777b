//! Whether the writes of calls are those that their records summarize.
//!
//! Every operation that writes is in one piece, and runs there as often as in the call; so the writes of all
//! pieces of a call add up to the writes of the call. Not seen here: right values that two calls wrote to one
//! row in the wrong order, and a wrong witness as such. This run does not make the read behind a witness;
//! `clr` makes it, and compares.
//!
//! Invariant: a batch is done only once the writes of its calls are those of their records. Held by:
//! `divergence_is_refused`, `values_that_differ_are_refused`.

use crate::divergence::{Divergence, RecordedCall, in_words};
use crate::plan::PlannedBatch;
use crate::programs::Programs;
use crate::{Batch, Body};
use catalog::Written;

impl Programs {
    /// Compares the writes of a batch's calls with their records. `sums` is a buffer.
    pub(crate) fn check_written<B: Batch>(
        &self,
        batch: &PlannedBatch<B>,
        sums: &mut Vec<Written>,
    ) -> Result<(), Divergence> {
        sums.clear();
        sums.resize(batch.transactions.len(), Written::default());
        for (block, written) in batch.written.iter().enumerate() {
            for (units, written) in batch.units(block).iter().zip(written) {
                let written = written.get().map_or(&[][..], Vec::as_slice);
                for (unit, written) in units.iter().zip(written) {
                    sums[unit.transaction as usize] += *written;
                }
            }
        }
        let differs = |(index, sum): &(usize, &Written)| match batch.transactions.get(*index).body {
            Body::Call { record, .. } => record.written.is_some_and(|recorded| recorded != **sum),
            Body::Writes(_) => false,
        };
        match sums.iter().enumerate().find(differs) {
            Some((transaction, sum)) => Err(self.wrote_otherwise(batch, transaction, *sum)),
            None => Ok(()),
        }
    }

    fn wrote_otherwise<B: Batch>(
        &self,
        batch: &PlannedBatch<B>,
        transaction: usize,
        sum: Written,
    ) -> Divergence {
        let of = batch.transactions.get(transaction);
        let Body::Call { program, record } = of.body else {
            unreachable!("only the records of calls summarize their writes")
        };
        let call = RecordedCall { order: of.order, procedure: &self.procedures[program], record: &record };
        let operations = &self.pieces.programs[program].operations;
        let written = self.pieces.pieces[program].iter().map(|piece| {
            let executed = piece.executes.iter().map(|id| &operations[id.0 as usize]);
            let writes = executed.filter(|operation| operation.writes());
            let name = writes.map(in_words).collect::<Vec<_>>().join(" and ");
            let of_partition = batch.units(piece.block).iter().zip(&batch.written[piece.block]);
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
