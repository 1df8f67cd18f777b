//! A look at some transactions of a run before it begins: which blocks hold so much work that they must be
//! cut finer.
//! Paper: PACMAN §4.4 (workload distribution). Differs: the paper gives cores to blocks in proportion to
//! their work; here threads take any ready task, so no partition may have more work than a thread's share.

use crate::divergence::Divergence;
use crate::plan::Planner;
use crate::programs::{Call, Cut, Partitions, Programs};
use crate::{Body, Transaction};

/// Maximum number of transactions that a run looks at before it begins.
pub const SAMPLED: usize = 512;
/// Pieces of more operations on average do not run round by round: the plan of each round would take too much
/// memory.
const MOST_ROUNDS: u64 = 256;

impl Programs {
    /// Decides which blocks are cut finer than by whole pieces and records: those with a partition that has
    /// more than a thread's share of the work. Returns the average number of operations of a whole piece,
    /// by program and block.
    pub(crate) fn sample<'b>(
        &mut self,
        sample: impl Iterator<Item = Transaction<'b>>,
    ) -> Result<Vec<Vec<f64>>, Divergence> {
        let blocks = self.partitions.len();
        let mut counts = vec![0u64; self.pieces.programs.len()];
        let mut sums = vec![vec![0u64; blocks]; self.pieces.programs.len()];
        let mut work: Vec<Vec<u64>> = self.partitions.iter().map(|block| vec![0; block.count]).collect();
        let mut planner = Planner::default();
        for Transaction { order, body } in sample {
            let Body::Call { program, record } = body else { continue };
            counts[program] += 1;
            self.load_for_planning(Call { order, program, record: &record }, &mut planner)?;
            for piece in &self.pieces.pieces[program] {
                let (block, count) = (piece.block, self.partitions[piece.block].count);
                // A loop may have any bounds, and the sum must not overflow.
                let operations = planner.weight_of(piece).min(1 << 32);
                sums[program][block] += operations;
                work[block][planner.partition_of(&piece.partition, count)] += operations;
            }
        }
        let all: u64 = work.iter().flatten().sum();
        let most = self.settings.most_partitions();
        for (block, partitions) in self.partitions.iter_mut().enumerate() {
            let hottest = work[block].iter().copied().max().unwrap_or(0);
            let is_too_much = hottest * self.settings.threads as u64 > all;
            let are_few = sums.iter().zip(&counts).all(|(sums, count)| sums[block] <= MOST_ROUNDS * count);
            if most == 1 || !is_too_much {
                continue;
            }
            let cuts = self.pieces.cuts[block];
            if are_few && cuts.rounds {
                *partitions = Partitions { count: most, cut: Cut::Rounds, is_deferred: false };
            } else if cuts.received {
                *partitions = Partitions { count: most, cut: Cut::Received, is_deferred: true };
            } else if cuts.keys {
                *partitions = Partitions { count: most, cut: Cut::Keys, is_deferred: cuts.keys_are_received };
            }
        }
        let averages = sums.iter().zip(&counts).map(|(sums, count)| {
            let average = |sum: &u64| if *count == 0 { 1.0 } else { *sum as f64 / *count as f64 };
            sums.iter().map(average).collect()
        });
        Ok(averages.collect())
    }
}
