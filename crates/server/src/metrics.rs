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
const STATEMENTS: [&str; 8] = ["SELECT", "INSERT", "UPDATE", "DELETE", "CALL", "COPY", "COMMIT", "other"];
const METADATA: Metadata<'static> = Metadata::new("reprise", Level::INFO, None);

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
        const TIMES: &str = "reprise_statement_seconds";
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
            errors: all.counter("reprise_errors_total", "Errors that were sent to clients"),
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

    /// Moves recorded times into buckets, so that their list does not grow between two requests.
    pub(crate) fn sum_up(&self) {
        self.handle.run_upkeep();
    }
}
