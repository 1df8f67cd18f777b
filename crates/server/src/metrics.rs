//! The server's counters and gauges, in the format of Prometheus.

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder as _, Unit};
use metrics_exporter_prometheus::{
    BuildError, Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use reprise::{AbortReason, Database};
use std::time::Duration;

/// Upper bounds of the buckets of statements' times, in seconds.
const SECONDS: [f64; 15] =
    [25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.5, 1.0, 10.0];
/// Kinds of statements, by the first word of the command tag; all other tags are "other".
pub(crate) const STATEMENTS: [&str; 8] =
    ["SELECT", "INSERT", "UPDATE", "DELETE", "CALL", "COPY", "COMMIT", "other"];
const METADATA: Metadata<'static> = Metadata::new("reprise", Level::INFO, None);

/// The name of the statements' times.
const TIMES: &str = "reprise_statement_seconds";
/// The name of the counter of errors.
const ERRORS: &str = "reprise_errors_total";

/// Numbers of acknowledged statements and of errors since the start.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Counts {
    /// Statements by kind, and by the bucket of their time: up to each of `SECONDS`, then longer ones.
    pub(crate) times: [[u64; SECONDS.len() + 1]; STATEMENTS.len()],
    pub(crate) errors: u64,
}

impl Counts {
    /// Reads the counts in the format of Prometheus, whose buckets are cumulative.
    fn read(text: &str) -> Self {
        let mut counts = Self::default();
        for (kind, name) in STATEMENTS.iter().enumerate() {
            let begin = format!("{TIMES}_bucket{{statement=\"{name}\",");
            let lines = text.lines().filter(|line| line.starts_with(&begin));
            let sums = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
            let mut before = 0;
            for (bucket, sum) in counts.times[kind].iter_mut().zip(sums) {
                *bucket = sum.saturating_sub(before);
                before = sum;
            }
        }
        let errors = text.lines().find_map(|line| line.strip_prefix(ERRORS)?.trim().parse().ok());
        Self { errors: errors.unwrap_or_default(), ..counts }
    }

    /// Returns the counts since an earlier moment.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let mut since = self.clone();
        since.errors = since.errors.saturating_sub(before.errors);
        for (count, before) in since.times.iter_mut().flatten().zip(before.times.iter().flatten()) {
            *count = count.saturating_sub(*before);
        }
        since
    }

    /// Returns the numbers of statements of all kinds, by the bucket of their time.
    pub(crate) fn times_of_all(&self) -> [u64; SECONDS.len() + 1] {
        std::array::from_fn(|bucket| self.times.iter().map(|times| times[bucket]).sum())
    }
}

/// Returns the time in seconds that a part of statements did not exceed, as if the times of each bucket lay
/// evenly in it; `None` without statements. A longer time than the last bound counts as that bound.
pub(crate) fn quantile(times: &[u64; SECONDS.len() + 1], part: f64) -> Option<f64> {
    let total: u64 = times.iter().sum();
    let mut left = total as f64 * part;
    let mut lower = 0.0;
    for (count, upper) in times.iter().zip(SECONDS) {
        if total > 0 && left <= *count as f64 {
            return Some(lower + (upper - lower) * left / (*count as f64).max(1.0));
        }
        left -= *count as f64;
        lower = upper;
    }
    (total > 0).then_some(lower)
}

/// The counters of a server.
pub(crate) struct Metrics {
    handle: PrometheusHandle,
    statements: Vec<Histogram>,
    errors: Counter,
    connected: Counter,
    connections: Gauge,
    transactions: [Counter; 4],
    aborts: [Counter; AbortReason::NAMES.len()],
    log_bytes: Counter,
    log_batches: Counter,
    log_seconds: Gauge,
    memory: Gauge,
    recovery: Gauge,
    recovery_seconds: [Gauge; 3],
    recovery_served: Counter,
}

struct Register(PrometheusRecorder);

impl Register {
    fn describe(&self, name: &'static str, unit: Option<Unit>, help: &'static str, is_counter: bool) {
        let name = KeyName::from_const_str(name);
        match is_counter {
            true => self.0.describe_counter(name, unit, help.into()),
            false => self.0.describe_gauge(name, unit, help.into()),
        }
    }

    fn counter(&self, name: &'static str, help: &'static str) -> Counter {
        self.describe(name, None, help, true);
        self.0.register_counter(&Key::from_static_name(name), &METADATA)
    }

    fn gauge(&self, name: &'static str, help: &'static str) -> Gauge {
        self.describe(name, None, help, false);
        self.0.register_gauge(&Key::from_static_name(name), &METADATA)
    }
}

impl Metrics {
    pub(crate) fn new() -> Result<Self, BuildError> {
        const TRANSACTIONS: &str = "reprise_transactions_total";
        const ABORTS: &str = "reprise_aborts_total";
        const MOMENTS: &str = "reprise_recovery_seconds";
        let buckets = Matcher::Full(TIMES.into());
        let recorder = PrometheusBuilder::new().set_buckets_for_metric(buckets, &SECONDS)?.build_recorder();
        let handle = recorder.handle();
        let all = Register(recorder);
        let help = "Statements by kind, and seconds until they were acknowledged";
        all.0.describe_histogram(KeyName::from_const_str(TIMES), Some(Unit::Seconds), help.into());
        let statement = |name| {
            let key = Key::from_parts(TIMES, vec![Label::new("statement", name)]);
            all.0.register_histogram(&key, &METADATA)
        };
        all.describe(TRANSACTIONS, None, "Transactions by outcome; conflicts are attempts", true);
        let transaction = |outcome| {
            let key = Key::from_parts(TRANSACTIONS, vec![Label::new("outcome", outcome)]);
            all.0.register_counter(&key, &METADATA)
        };
        all.describe(ABORTS, None, "Undone attempts of transactions and statements, by reason", true);
        let abort = |(reason, _)| {
            let key = Key::from_parts(ABORTS, vec![Label::new("reason", reason)]);
            all.0.register_counter(&key, &METADATA)
        };
        all.describe(MOMENTS, None, "Seconds from the begin of the opening; 0 before the moment", false);
        let moment = |moment| {
            let key = Key::from_parts(MOMENTS, vec![Label::new("moment", moment)]);
            all.0.register_gauge(&key, &METADATA)
        };
        Ok(Self {
            statements: STATEMENTS.into_iter().map(statement).collect(),
            errors: all.counter(ERRORS, "Errors that were sent to clients"),
            connected: all.counter("reprise_connections_total", "Accepted connections"),
            connections: all.gauge("reprise_connections", "Connections of authenticated clients"),
            transactions: ["committed", "read", "failed", "conflict"].map(transaction),
            aborts: AbortReason::NAMES.map(abort),
            log_bytes: all.counter("reprise_log_bytes_total", "Bytes written to the log"),
            log_batches: all.counter("reprise_log_flushes_total", "Durable batches of the log"),
            log_seconds: all.gauge("reprise_log_flush_seconds", "Seconds that the log's devices were busy"),
            memory: all.gauge("reprise_memory_bytes", "Bytes of rows and indexes"),
            recovery: all.gauge(
                "reprise_recovery_bytes",
                "Bytes of the checkpoint and of the log whose rows are not back yet",
            ),
            recovery_seconds: ["open", "first commit", "recovered"].map(moment),
            recovery_served: all.counter(
                "reprise_recovery_served_total",
                "Transactions that were served before all rows were back",
            ),
            handle,
        })
    }

    pub(crate) fn connected(&self) {
        self.connected.increment(1);
    }

    pub(crate) fn failed(&self) {
        self.errors.increment(1);
    }

    /// Records the time of an acknowledged statement, by its command tag.
    pub(crate) fn completed(&self, tag: &str, took: Duration) {
        let word = tag.split(' ').next().unwrap_or_default();
        let index = STATEMENTS.iter().position(|kind| *kind == word).unwrap_or(STATEMENTS.len() - 1);
        self.statements[index].record(took);
    }

    /// Returns all metrics in the format of Prometheus. `None`: the database is not open yet.
    pub(crate) fn render(&self, connections: usize, database: Option<&Database>) -> String {
        self.connections.set(connections as f64);
        if let Some(database) = database {
            let counts = database.statistics();
            let outcomes = [counts.committed, counts.read, counts.failed, counts.conflicts];
            self.transactions.iter().zip(outcomes).for_each(|(counter, count)| counter.absolute(count));
            self.aborts
                .iter()
                .zip(counts.aborts.iter())
                .for_each(|(counter, (_, count))| counter.absolute(count));
            self.log_bytes.absolute(counts.log.file_bytes);
            self.log_batches.absolute(counts.log.batches);
            self.log_seconds.set(counts.log.flush_us as f64 / 1e6);
            self.memory.set(counts.memory_bytes as f64);
            let recovery = database.recovery_progress();
            let moments = [Some(recovery.open_s), recovery.first_commit_s, recovery.recovered_s];
            let moments = moments.map(Option::unwrap_or_default);
            self.recovery_seconds.iter().zip(moments).for_each(|(gauge, seconds)| gauge.set(seconds));
            self.recovery.set(recovery.bytes_left as f64);
            self.recovery_served.absolute(recovery.served);
        }
        self.handle.render()
    }

    /// Returns the counts, and moves recorded times into buckets, so that their list does not grow.
    pub(crate) fn counts(&self) -> Counts {
        Counts::read(&self.handle.render())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_prometheus() {
        let metrics = Metrics::new().unwrap();
        metrics.completed("CALL", Duration::from_micros(20));
        metrics.completed("CALL", Duration::from_micros(700));
        metrics.completed("INSERT 0 1", Duration::from_secs(60));
        metrics.completed("CREATE TABLE", Duration::from_micros(25));
        metrics.failed();
        let first = metrics.counts();
        let mut expected = Counts { errors: 1, ..Counts::default() };
        (expected.times[4][0], expected.times[4][5]) = (1, 1);
        (expected.times[1][15], expected.times[7][0]) = (1, 1);
        assert_eq!(first, expected);
        metrics.completed("SELECT 5", Duration::from_millis(1));
        let mut expected = Counts::default();
        expected.times[0][5] = 1;
        assert_eq!(metrics.counts().since(&first), expected);
    }

    #[test]
    fn quantiles_lie_in_their_buckets() {
        let times = |buckets: &[(usize, u64)]| {
            let mut times = [0; SECONDS.len() + 1];
            buckets.iter().for_each(|(bucket, count)| times[*bucket] = *count);
            times
        };
        assert_eq!(quantile(&times(&[]), 0.5), None);
        let is_near = |times: &[u64; SECONDS.len() + 1], part, expected: f64| {
            quantile(times, part).is_some_and(|value: f64| (value - expected).abs() < 1e-9)
        };
        assert!(is_near(&times(&[(0, 4)]), 0.5, 12.5e-6));
        let two = times(&[(0, 98), (5, 2)]);
        assert!(is_near(&two, 0.49, 12.5e-6) && is_near(&two, 0.99, 750e-6));
        assert_eq!(quantile(&times(&[(15, 1)]), 0.5), Some(10.0));
    }
}
