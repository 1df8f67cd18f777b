//! The throughput and the latency of the last minutes, one sample a second.

use crate::metrics::{Counts, STATEMENTS, quantile};
use serde::Serialize;
use std::collections::VecDeque;
use std::time::Instant;

/// Most samples: ten minutes.
const MOST: usize = 600;

/// Amounts since the start of the server.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Totals {
    pub(crate) at: Instant,
    /// Milliseconds since 1970.
    pub(crate) at_ms: i64,
    pub(crate) counts: Counts,
    pub(crate) log_bytes: u64,
    pub(crate) log_batches: u64,
    pub(crate) clients: usize,
    pub(crate) memory_bytes: usize,
}

/// The rates between two calls of `History::add`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Sample {
    /// Counts the samples from 1.
    number: u64,
    /// Milliseconds since 1970.
    at_ms: i64,
    /// Acknowledged statements a second, by kind, in the order of `STATEMENTS`.
    statements: [f64; STATEMENTS.len()],
    /// Errors a second.
    errors: f64,
    /// The median of the statements' times, in seconds; `None` without a statement.
    p50_s: Option<f64>,
    p99_s: Option<f64>,
    /// Bytes of the log a second.
    log_bytes: f64,
    /// Durable batches of the log a second.
    log_batches: f64,
    clients: usize,
    memory_bytes: usize,
}

/// The newest samples.
#[derive(Default)]
pub(crate) struct History {
    last: Option<Totals>,
    /// The number of the newest sample.
    number: u64,
    samples: VecDeque<Sample>,
}

impl History {
    /// Adds the sample of the time since the last call. The first call adds none.
    pub(crate) fn add(&mut self, now: Totals) {
        let Some(before) = self.last.replace(now.clone()) else { return };
        let seconds = (now.at - before.at).as_secs_f64().max(1e-3);
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let counts = now.counts.since(&before.counts);
        let times = counts.times_of_all();
        self.number += 1;
        self.samples.push_back(Sample {
            number: self.number,
            at_ms: now.at_ms,
            statements: counts.times.map(|buckets| buckets.iter().sum::<u64>() as f64 / seconds),
            errors: counts.errors as f64 / seconds,
            p50_s: quantile(&times, 0.5),
            p99_s: quantile(&times, 0.99),
            log_bytes: rate(now.log_bytes, before.log_bytes),
            log_batches: rate(now.log_batches, before.log_batches),
            clients: now.clients,
            memory_bytes: now.memory_bytes,
        });
        if self.samples.len() > MOST {
            self.samples.pop_front();
        }
    }

    /// Returns the samples after the one with this number.
    pub(crate) fn after(&self, number: u64) -> Vec<Sample> {
        self.samples.iter().filter(|sample| sample.number > number).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn totals(at: Instant, calls: u64, log_bytes: u64) -> Totals {
        let mut counts = Counts::default();
        // Half of the calls take up to 25 µs, half up to 1 ms.
        (counts.times[4][0], counts.times[4][5]) = (calls / 2, calls - calls / 2);
        Totals { at, at_ms: 0, counts, log_bytes, log_batches: 0, clients: 1, memory_bytes: 0 }
    }

    #[test]
    fn samples_are_differences() {
        let (mut history, begin) = (History::default(), Instant::now());
        history.add(totals(begin, 100, 1000));
        assert!(history.after(0).is_empty(), "one moment has no rate");
        history.add(totals(begin + Duration::from_secs(2), 300, 5000));
        let samples = history.after(0);
        let [sample] = &samples[..] else { panic!("one sample: {samples:?}") };
        assert_eq!((sample.number, sample.statements[4], sample.log_bytes), (1, 100.0, 2000.0));
        assert!(sample.p50_s.unwrap() <= 25e-6 && sample.p99_s.unwrap() > 500e-6, "{sample:?}");
        history.add(totals(begin + Duration::from_secs(3), 300, 5000));
        let samples = history.after(1);
        assert_eq!((samples.len(), samples[0].statements[4], samples[0].p50_s), (1, 0.0, None));
    }

    #[test]
    fn old_samples_are_forgotten() {
        let (mut history, begin) = (History::default(), Instant::now());
        for second in 0..=MOST as u64 + 10 {
            history.add(totals(begin + Duration::from_secs(second), second, 0));
        }
        let samples = history.after(0);
        assert_eq!((samples.len(), samples[0].number), (MOST, 11));
        assert_eq!(history.after(MOST as u64 + 9).len(), 1);
    }
}
