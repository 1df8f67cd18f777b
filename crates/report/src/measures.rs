//! Numbers of the JSON that `bench`, `recover` and `bench recovery` print.

use crate::experiment::{Measure, SecondMeasure};
use serde_json::Value;

fn number(report: &Value, field: &str) -> Option<f64> {
    report[field].as_f64()
}

/// Transactions a second.
pub(crate) const THROUGHPUT: Measure = Measure {
    name: "throughput",
    unit: "thousand transactions a second",
    of: |report| Some(number(report, "throughput_tps")? / 1e3),
};

/// The mean latency of commits.
pub(crate) const LATENCY: Measure = Measure {
    name: "mean latency",
    unit: "ms",
    of: |report| Some(report["commit_latency_us"]["mean"].as_f64()? / 1e3),
};

/// The median latency of commits.
pub(crate) const MEDIAN_LATENCY: Measure = Measure {
    name: "median latency",
    unit: "ms",
    of: |report| Some(report["commit_latency_us"]["p50"].as_f64()? / 1e3),
};

/// Attempts that were undone, of all attempts.
pub(crate) const UNDONE: Measure = Measure {
    name: "undone attempts",
    unit: "%",
    of: |report| {
        let (conflicts, committed) = (number(report, "conflicts")?, number(report, "committed")?);
        Some(conflicts / (conflicts + committed).max(1.0) * 100.0)
    },
};

/// Bytes of the log a transaction that writes.
pub(crate) const LOG_BYTES: Measure =
    Measure { name: "log of a transaction", unit: "bytes", of: |report| number(report, "log_bytes_per_txn") };

/// Records of the log a minute.
pub(crate) const LOG_RATE: Measure = Measure {
    name: "log",
    unit: "GB a minute",
    of: |report| Some(number(report, "log_bytes")? / number(report, "seconds")? * 60.0 / 1e9),
};

/// Written log files a second.
pub(crate) const LOG_WRITTEN: Measure = Measure {
    name: "written log",
    unit: "MB a second",
    of: |report| Some(number(report, "log_file_bytes")? / number(report, "seconds")? / 1e6),
};

/// Written log files a second and device.
pub(crate) const DEVICE_WRITTEN: Measure = Measure {
    name: "written log of a device",
    unit: "MB a second",
    of: |report| Some((LOG_WRITTEN.of)(report)? / number(report, "log_devices")?.max(1.0)),
};

/// Seconds of loading the checkpoint.
pub(crate) const CHECKPOINT: Measure =
    Measure { name: "checkpoint", unit: "s", of: |report| number(report, "checkpoint_load_s") };

/// Seconds of reading the files of the checkpoint alone.
pub(crate) const CHECKPOINT_FILES: Measure = Measure {
    name: "files of the checkpoint",
    unit: "s",
    of: |report| number(report, "checkpoint_reload_s"),
};

/// Seconds of reading the log.
pub(crate) const LOG_LOADING: Measure =
    Measure { name: "log loading", unit: "s", of: |report| number(report, "log_load_s") };

/// Seconds of replay.
pub(crate) const REPLAY: Measure =
    Measure { name: "replay", unit: "s", of: |report| number(report, "replay_s") };

/// Seconds of reading and replaying the log.
pub(crate) const LOG_RECOVERY: Measure = Measure {
    name: "log recovery",
    unit: "s",
    of: |report| Some(number(report, "log_load_s")? + number(report, "replay_s")?),
};

/// Seconds of a recovery.
pub(crate) const RECOVERY: Measure =
    Measure { name: "recovery", unit: "s", of: |report| number(report, "total_s") };

/// Replayed transactions a second.
pub(crate) const REPLAYED: Measure = Measure {
    name: "replay",
    unit: "thousand transactions a second",
    of: |report| Some(number(report, "replay_tps")? / 1e3),
};

/// Returns the part of a field in the time of all threads of log recovery, in per cent. Loading the log takes
/// all threads.
fn part(report: &Value, field: Option<&str>) -> Option<f64> {
    let threads = report["breakdown"]["threads"].as_array()?;
    let sum = |field: &str| threads.iter().filter_map(|thread| thread[field].as_f64()).sum::<f64>();
    let loading = number(report, "log_load_s")? * threads.len() as f64;
    let all = loading + ["execution_s", "planning_s", "waiting_s"].into_iter().map(sum).sum::<f64>();
    Some(field.map_or(loading, sum) / all.max(f64::MIN_POSITIVE) * 100.0)
}

/// Where the time of the threads of a parallel replay goes.
pub(crate) const BREAKDOWN: &[Measure] = &[
    Measure { name: "loading the log", unit: "%", of: |report| part(report, None) },
    Measure { name: "executing", unit: "%", of: |report| part(report, Some("execution_s")) },
    Measure { name: "planning", unit: "%", of: |report| part(report, Some("planning_s")) },
    Measure { name: "waiting", unit: "%", of: |report| part(report, Some("waiting_s")) },
];

/// The three parts of a recovery.
pub(crate) const STAGES: &[Measure] = &[CHECKPOINT, LOG_LOADING, REPLAY];

/// Throughput and latency over time.
pub(crate) const TIMELINE: &[SecondMeasure] = &[
    SecondMeasure {
        name: "throughput",
        unit: "thousand transactions a second",
        field: "committed",
        factor: 1e-3,
    },
    SecondMeasure { name: "mean latency", unit: "ms", field: "mean_latency_us", factor: 1e-3 },
];
