//! EXPLAIN ANALYZE: the measures of the nodes of a plan.

use std::collections::HashMap;
use std::time::Duration;

/// The rows, runs and times of a node.
#[derive(Clone, Copy, Default, Debug)]
pub struct Measures {
    /// Number of its rows, in all runs.
    pub rows: u64,
    /// Number of runs.
    pub runs: u64,
    /// The time until the first rows of its runs.
    pub first: Duration,
    /// The time of its runs, with that of the nodes below it.
    pub all: Duration,
}

/// The measures of the nodes of the plans of a statement, by the address of the node.
pub type Measured = HashMap<usize, Measures>;

impl Measures {
    /// Adds a run.
    pub(super) fn add(&mut self, run: &Self) {
        self.rows += run.rows;
        self.runs += 1;
        self.first += run.first;
        self.all += run.all;
    }

    /// Returns the mean number of rows of a run.
    pub(super) fn mean_rows(&self) -> u64 {
        (self.rows + self.runs / 2).checked_div(self.runs).unwrap_or(0)
    }

    /// Returns the mean times of a run in milliseconds: until its first row, and until its end.
    pub(super) fn mean_times(&self) -> [f64; 2] {
        let runs = self.runs.max(1) as f64;
        [self.first, self.all].map(|time| time.as_secs_f64() * 1e3 / runs)
    }
}
