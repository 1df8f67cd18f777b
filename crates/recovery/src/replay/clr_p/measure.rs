//! What a parallel replay came to: predicted when its batches were planned, and measured when they ran.
//! Paper: PACMAN §6.3.3 (time breakdown).

use procedure::analysis::Analysis;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Where the time of one thread went.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct ThreadTimes {
    /// Seconds of sorting transactions into piece-sets.
    pub planning_s: f64,
    /// Seconds of running pieces.
    pub execution_s: f64,
    /// Seconds of waiting for something to do.
    pub waiting_s: f64,
}

impl ThreadTimes {
    pub(super) fn add(&mut self, other: Self) {
        self.planning_s += other.planning_s;
        self.execution_s += other.execution_s;
        self.waiting_s += other.waiting_s;
    }
}

/// One block of the global graph: what was expected of it, and what it took.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BlockMeasures {
    /// Its slices, by procedure and number; the tables of a block of writes by value alone.
    pub slices: Vec<String>,
    /// Partitions that it fell into.
    pub partitions: usize,
    /// Pieces, rounds of pieces and writes by value.
    pub units: u64,
    /// Operations that they have.
    pub operations: u64,
    /// Operations of the partition that has most.
    pub hottest_operations: u64,
    /// Seconds of running them, over all threads.
    pub execution_s: f64,
    /// Seconds of the partition that took longest: it runs one unit after the other, so replay takes no less.
    pub hottest_s: f64,
}

/// Where the time of a parallel replay went.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct ReplayBreakdown {
    /// Seconds of analysing procedures.
    pub analysis_s: f64,
    /// By thread.
    pub threads: Vec<ThreadTimes>,
    /// By block.
    pub blocks: Vec<BlockMeasures>,
}

impl ReplayBreakdown {
    /// The times of all threads together.
    pub fn sum(&self) -> ThreadTimes {
        let mut sum = ThreadTimes::default();
        self.threads.iter().for_each(|times| sum.add(*times));
        sum
    }

    /// On how many cores the replay could be at work at a time: all operations over those of the hottest
    /// partition.
    pub fn predicted_parallelism(&self) -> f64 {
        let all: u64 = self.blocks.iter().map(|block| block.operations).sum();
        let hottest = self.blocks.iter().map(|block| block.hottest_operations).max();
        all as f64 / hottest.unwrap_or(0).max(1) as f64
    }

    /// The same, of the seconds that were measured.
    pub fn measured_parallelism(&self) -> f64 {
        let all: f64 = self.blocks.iter().map(|block| block.execution_s).sum();
        let hottest = self.blocks.iter().map(|block| block.hottest_s).fold(0.0, f64::max);
        if hottest > 0.0 { all / hottest } else { 1.0 }
    }

    pub(super) fn add_blocks(&mut self, blocks: Vec<BlockMeasures>) {
        for block in blocks {
            match self.blocks.iter_mut().find(|own| own.slices == block.slices) {
                Some(own) => {
                    own.units += block.units;
                    own.operations += block.operations;
                    own.hottest_operations += block.hottest_operations;
                    own.execution_s += block.execution_s;
                    own.hottest_s += block.hottest_s;
                }
                None => self.blocks.push(block),
            }
        }
    }
}

/// One partition of a block.
#[derive(Default)]
struct Granule {
    units: AtomicU64,
    operations: AtomicU64,
    nanoseconds: AtomicU64,
}

/// Counters of a segment, by block and partition.
#[derive(Default)]
pub(super) struct Measures(Vec<Vec<Granule>>);

impl Measures {
    /// For this many partitions of each block.
    pub(super) fn new(partitions: impl Iterator<Item = usize>) -> Self {
        let granules = |count| std::iter::repeat_with(Granule::default).take(count).collect();
        Self(partitions.map(granules).collect())
    }

    /// Counts units that were planned.
    pub(super) fn planned(&self, block: usize, partition: usize, units: u64, operations: u64) {
        let granule = &self.0[block][partition];
        granule.units.fetch_add(units, Ordering::Relaxed);
        granule.operations.fetch_add(operations, Ordering::Relaxed);
    }

    /// Counts the time of units that ran.
    pub(super) fn ran(&self, block: usize, partition: usize, time: Duration) {
        self.0[block][partition].nanoseconds.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    pub(super) fn report(&self, analysis: &Analysis) -> Vec<BlockMeasures> {
        let names = analysis.block_names();
        let report = |(place, granules): (usize, &Vec<Granule>)| {
            let sum = |of: fn(&Granule) -> &AtomicU64| -> u64 {
                granules.iter().map(|granule| of(granule).load(Ordering::Relaxed)).sum()
            };
            let most = |of: fn(&Granule) -> &AtomicU64| -> u64 {
                granules.iter().map(|granule| of(granule).load(Ordering::Relaxed)).max().unwrap_or(0)
            };
            BlockMeasures {
                slices: names[place].clone(),
                partitions: granules.len(),
                units: sum(|granule| &granule.units),
                operations: sum(|granule| &granule.operations),
                hottest_operations: most(|granule| &granule.operations),
                execution_s: sum(|granule| &granule.nanoseconds) as f64 * 1e-9,
                hottest_s: most(|granule| &granule.nanoseconds) as f64 * 1e-9,
            }
        };
        self.0.iter().enumerate().map(report).collect()
    }
}
