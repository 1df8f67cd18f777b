//! The server's counters and gauges, as Prometheus reads them.

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder as _, Unit};
use metrics_exporter_prometheus::{
    BuildError, Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use reprise::{AbortReason, Statistics};
use std::time::Duration;

/// Upper bounds of the statements' times, in seconds.
const SECONDS: [f64; 15] =
    [25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.5, 1.0, 10.0];
/// Statements that are counted apart, by their completions' first words; all others are "other".
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
}

struct Register(PrometheusRecorder);

impl Register {
    fn describe(&self, name: &'static str, unit: Option<Unit>, what: &'static str, is_counter: bool) {
        let name = KeyName::from_const_str(name);
        match is_counter {
            true => self.0.describe_counter(name, unit, what.into()),
            false => self.0.describe_gauge(name, unit, what.into()),
        }
    }

    fn counter(&self, name: &'static str, what: &'static str) -> Counter {
        self.describe(name, None, what, true);
        self.0.register_counter(&Key::from_static_name(name), &METADATA)
    }

    fn gauge(&self, name: &'static str, what: &'static str) -> Gauge {
        self.describe(name, None, what, false);
        self.0.register_gauge(&Key::from_static_name(name), &METADATA)
    }
}

impl Metrics {
    pub(crate) fn new() -> Result<Self, BuildError> {
        const TIMES: &str = "reprise_statement_seconds";
        const TRANSACTIONS: &str = "reprise_transactions_total";
        const ABORTS: &str = "reprise_aborts_total";
        let buckets = Matcher::Full(TIMES.into());
        let recorder = PrometheusBuilder::new().set_buckets_for_metric(buckets, &SECONDS)?.build_recorder();
        let handle = recorder.handle();
        let all = Register(recorder);
        let what = "Statements by what they are, and seconds until they were acknowledged";
        all.0.describe_histogram(KeyName::from_const_str(TIMES), Some(Unit::Seconds), what.into());
        let statement = |name| {
            let key = Key::from_parts(TIMES, vec![Label::new("statement", name)]);
            all.0.register_histogram(&key, &METADATA)
        };
        all.describe(TRANSACTIONS, None, "Transactions by how they ended; conflicts are tried again", true);
        let transaction = |outcome| {
            let key = Key::from_parts(TRANSACTIONS, vec![Label::new("outcome", outcome)]);
            all.0.register_counter(&key, &METADATA)
        };
        all.describe(
            ABORTS,
            None,
            "Attempts of transactions and statements that were undone, by reason",
            true,
        );
        let abort = |(reason, _)| {
            let key = Key::from_parts(ABORTS, vec![Label::new("reason", reason)]);
            all.0.register_counter(&key, &METADATA)
        };
        Ok(Self {
            statements: STATEMENTS.into_iter().map(statement).collect(),
            errors: all.counter("reprise_errors_total", "Errors that clients were told of"),
            connected: all.counter("reprise_connections_total", "Connections that were accepted"),
            connections: all.gauge("reprise_connections", "Connections that are open"),
            transactions: ["committed", "read", "failed", "conflict"].map(transaction),
            aborts: AbortReason::NAMES.map(abort),
            log_bytes: all.counter("reprise_log_bytes_total", "Bytes that were written to the log"),
            log_batches: all
                .counter("reprise_log_flushes_total", "Batches of the log that were made durable"),
            log_seconds: all.gauge("reprise_log_flush_seconds", "Seconds that the log's devices were busy"),
            memory: all.gauge("reprise_memory_bytes", "Bytes that rows and indexes take"),
            handle,
        })
    }

    pub(crate) fn connected(&self) {
        self.connected.increment(1);
    }

    pub(crate) fn failed(&self) {
        self.errors.increment(1);
    }

    /// A statement was acknowledged; `tag` is its completion.
    pub(crate) fn completed(&self, tag: &str, took: Duration) {
        let word = tag.split(' ').next().unwrap_or_default();
        let place = STATEMENTS.iter().position(|own| *own == word).unwrap_or(STATEMENTS.len() - 1);
        self.statements[place].record(took);
    }

    /// Everything, as Prometheus reads it.
    pub(crate) fn render(&self, connections: usize, statistics: Option<&Statistics>) -> String {
        self.connections.set(connections as f64);
        if let Some(own) = statistics {
            let outcomes = [own.committed, own.read, own.failed, own.conflicts];
            self.transactions.iter().zip(outcomes).for_each(|(counter, count)| counter.absolute(count));
            self.aborts
                .iter()
                .zip(own.aborts.iter())
                .for_each(|(counter, (_, count))| counter.absolute(count));
            self.log_bytes.absolute(own.log.file_bytes);
            self.log_batches.absolute(own.log.batches);
            self.log_seconds.set(own.log.flush_us as f64 / 1e6);
            self.memory.set(own.memory_bytes as f64);
        }
        self.handle.render()
    }

    /// Sums up what was recorded, so that it does not grow while nobody asks.
    pub(crate) fn sum_up(&self) {
        self.handle.run_upkeep();
    }
}
