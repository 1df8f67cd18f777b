//! The work of a run, estimated when its batches are planned and measured when they run.
//! Paper: PACMAN §6.3.3 (time breakdown).

use crate::programs::Partitions;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The time of one thread.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct ThreadTimes {
    /// Seconds of planning batches.
    pub planning_s: f64,
    /// Seconds of running pieces.
    pub execution_s: f64,
    /// Seconds of waiting for a task.
    pub waiting_s: f64,
}

impl ThreadTimes {
    pub(crate) fn add(&mut self, other: Self) {
        self.planning_s += other.planning_s;
        self.execution_s += other.execution_s;
        self.waiting_s += other.waiting_s;
    }
}

/// The estimated and the measured work of one block of the global graph.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BlockMeasures {
    /// The names of its slices, or of its table if only writes by value touch it.
    pub slices: Vec<String>,
    /// Number of partitions.
    pub partitions: usize,
    /// Whether units were assigned to partitions after earlier blocks, by keys that these sent.
    pub is_deferred: bool,
    /// Number of pieces, rounds of pieces and writes by value.
    pub units: u64,
    /// Estimated number of their operations.
    pub operations: u64,
    /// Estimated number of operations of the largest partition.
    pub hottest_operations: u64,
    /// Seconds of running the units, over all threads.
    pub execution_s: f64,
    /// Seconds of the slowest partition. Its units run one after the other, so the run takes no less.
    pub hottest_s: f64,
}

/// The time of one run, or of several under changing definitions.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Breakdown {
    /// Seconds of the analysis of procedures.
    pub analysis_s: f64,
    /// By thread.
    pub threads: Vec<ThreadTimes>,
    /// By block.
    pub blocks: Vec<BlockMeasures>,
}

impl Breakdown {
    /// Returns the time of all threads together.
    pub fn sum(&self) -> ThreadTimes {
        let mut sum = ThreadTimes::default();
        self.threads.iter().for_each(|times| sum.add(*times));
        sum
    }

    /// Returns the number of cores that the run can keep busy: all operations over those of the largest
    /// partition.
    pub fn predicted_parallelism(&self) -> f64 {
        let all: u64 = self.blocks.iter().map(|block| block.operations).sum();
        let hottest = self.blocks.iter().map(|block| block.hottest_operations).max();
        all as f64 / hottest.unwrap_or(0).max(1) as f64
    }

    /// Returns the same from the measured seconds.
    pub fn measured_parallelism(&self) -> f64 {
        let all: f64 = self.blocks.iter().map(|block| block.execution_s).sum();
        let hottest = self.blocks.iter().map(|block| block.hottest_s).fold(0.0, f64::max);
        if hottest > 0.0 { all / hottest } else { 1.0 }
    }

    /// Adds the measures of a run.
    pub fn add(&mut self, measured: Measured) {
        self.threads.resize(self.threads.len().max(measured.threads.len()), ThreadTimes::default());
        for (sum, times) in self.threads.iter_mut().zip(measured.threads) {
            sum.add(times);
        }
        for block in measured.blocks {
            match self.blocks.iter_mut().find(|known| known.slices == block.slices) {
                Some(known) => {
                    known.units += block.units;
                    known.operations += block.operations;
                    known.hottest_operations += block.hottest_operations;
                    known.execution_s += block.execution_s;
                    known.hottest_s += block.hottest_s;
                }
                None => self.blocks.push(block),
            }
        }
    }
}

/// The measures of one run.
#[derive(Debug)]
pub struct Measured {
    /// By thread.
    pub threads: Vec<ThreadTimes>,
    /// By block.
    pub blocks: Vec<BlockMeasures>,
}

/// The counters of one partition of a block.
#[derive(Default)]
struct Counters {
    units: AtomicU64,
    operations: AtomicU64,
    nanoseconds: AtomicU64,
}

/// The counters of a block.
struct BlockCounters {
    is_deferred: bool,
    partitions: Vec<Counters>,
}

/// The counters of a run, by block.
pub(crate) struct Measures(Vec<BlockCounters>);

impl Measures {
    /// Makes counters for the number of partitions of each block.
    pub(crate) fn new(blocks: &[Partitions]) -> Self {
        let counters = |block: &Partitions| BlockCounters {
            is_deferred: block.is_deferred,
            partitions: std::iter::repeat_with(Counters::default).take(block.count).collect(),
        };
        Self(blocks.iter().map(counters).collect())
    }

    /// Counts planned units.
    pub(crate) fn planned(&self, block: usize, partition: usize, units: u64, operations: u64) {
        let counters = &self.0[block].partitions[partition];
        counters.units.fetch_add(units, Ordering::Relaxed);
        counters.operations.fetch_add(operations, Ordering::Relaxed);
    }

    /// Counts the time of a partition.
    pub(crate) fn ran(&self, block: usize, partition: usize, time: Duration) {
        self.0[block].partitions[partition].nanoseconds.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Returns the measures of each block under its name.
    pub(crate) fn report(&self, names: &[Vec<String>]) -> Vec<BlockMeasures> {
        let report = |(block, counters): (usize, &BlockCounters)| {
            let BlockCounters { is_deferred, partitions } = counters;
            let sum = |of: fn(&Counters) -> &AtomicU64| -> u64 {
                partitions.iter().map(|counters| of(counters).load(Ordering::Relaxed)).sum()
            };
            let most = |of: fn(&Counters) -> &AtomicU64| -> u64 {
                partitions.iter().map(|counters| of(counters).load(Ordering::Relaxed)).max().unwrap_or(0)
            };
            BlockMeasures {
                slices: names[block].clone(),
                partitions: partitions.len(),
                is_deferred: *is_deferred,
                units: sum(|counters| &counters.units),
                operations: sum(|counters| &counters.operations),
                hottest_operations: most(|counters| &counters.operations),
                execution_s: sum(|counters| &counters.nanoseconds) as f64 * 1e-9,
                hottest_s: most(|counters| &counters.nanoseconds) as f64 * 1e-9,
            }
        };
        self.0.iter().enumerate().map(report).collect()
    }
}
