//! A look at some of a segment's transactions before it is replayed: where the work is, and which blocks must
//! be cut finer so that all cores have some.
//! Paper: PACMAN §4.4 (workload distribution): there, cores are given to blocks in proportion to it; here
//! threads take whatever is ready, so what matters is that no partition has more work than a thread's share.

use super::plan::Planner;
use super::{Cut, How, Partitions, Segment};
use crate::RecoveryError;
use logging::content::Record;

/// This many transactions are looked at.
const SAMPLED: usize = 512;
/// Pieces of more operations on average are not replayed round by round: planning each round would take too
/// much memory.
const MOST_ROUNDS: u64 = 256;

impl Segment<'_, '_> {
    /// Decides which blocks are replayed round by round: those of which one partition has more than a
    /// thread's share of the work otherwise. Returns the operations of a whole piece on average, by program
    /// and block.
    pub(super) fn sample(&mut self, how: How) -> Result<Vec<Vec<f64>>, RecoveryError> {
        let blocks = self.partitions.len();
        let mut counts = vec![0u64; self.pieces.programs.len()];
        let mut sums = vec![vec![0u64; blocks]; self.pieces.programs.len()];
        let mut work: Vec<Vec<u64>> = self.partitions.iter().map(|own| vec![0; own.count]).collect();
        let mut planner = Planner::default();
        for place in self.range.clone().step_by(self.range.len().div_ceil(SAMPLED).max(1)) {
            let (order, Record::Call(call)) = self.log.record(place) else { continue };
            let key = (call.procedure, call.version, call.witnessed);
            let Some(program) = self.programs.get(&key).copied() else { continue };
            counts[program] += 1;
            self.load_for_planning((order, program, &call), &mut planner)?;
            for piece in &self.pieces.pieces[program] {
                let (block, count) = (piece.block, self.partitions[piece.block].count);
                // Bounds of loops may say anything; no sum of these overflows.
                let operations = planner.weight_of(piece).min(1 << 32);
                sums[program][block] += operations;
                work[block][planner.partition_of(&piece.partition, count)] += operations;
            }
        }
        let all: u64 = work.iter().flatten().sum();
        for (block, own) in self.partitions.iter_mut().enumerate() {
            let hottest = work[block].iter().copied().max().unwrap_or(0);
            let is_too_much = hottest * how.threads as u64 > all;
            let are_few = sums.iter().zip(&counts).all(|(sums, count)| sums[block] <= MOST_ROUNDS * count);
            if how.most_partitions() > 1 && is_too_much && are_few && self.pieces.in_rounds[block] {
                *own = Partitions { count: how.most_partitions(), cut: Cut::Rounds };
            } else if how.most_partitions() > 1 && is_too_much && self.pieces.keyed[block] {
                *own = Partitions { count: how.most_partitions(), cut: Cut::Keys };
            }
        }
        let averages = sums.iter().zip(&counts).map(|(sums, count)| {
            let average = |sum: &u64| if *count == 0 { 1.0 } else { *sum as f64 / *count as f64 };
            sums.iter().map(average).collect()
        });
        Ok(averages.collect())
    }
}
