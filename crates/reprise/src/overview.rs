//! What an operator wants to know of an open database: what is durable, its log devices, its last checkpoint,
//! and how long the next recovery would take.
//!
//! A recovery loads the checkpoint and replays the log behind it. Its time is predicted from what the
//! recovery at the opening has taken for each byte of both; an adaptive log knows what its records cost.
//! Nothing is predicted from less than `LEAST_MEASURED`.

use crate::Database;
use crate::inner::{Inner, TakenCheckpoint};
use catalog::Epoch;
use logging::{Content, LogStatistics};
use procedure::{Procedure, RecoveryProgress};
use recovery::RecoveryReport;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

/// The least bytes from which a rate is measured, and below which a part of a recovery takes no time.
const LEAST_MEASURED: u64 = 256 << 10;

/// The state of an open database.
#[derive(Clone, Debug)]
pub struct Overview {
    /// The last epoch that is durable in all logs; `None` without a log.
    pub durable_epoch: Option<Epoch>,
    /// The current epoch.
    pub epoch: Epoch,
    /// The amounts written since the opening, by log and folder: the main log first, then shadow logs.
    pub devices: Vec<LogDevice>,
    /// The last checkpoint; `None` if there is none.
    pub checkpoint: Option<LastCheckpoint>,
    /// Bytes of records in the main log that the last checkpoint does not hold.
    pub log_behind_bytes: u64,
    /// Predicted duration of a recovery after a crash now, in seconds; `None` where nothing like it was
    /// measured.
    pub predicted_recovery_s: Option<f64>,
}

/// A folder of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogDevice {
    /// The content of the log.
    pub content: Content,
    /// The folder.
    pub folder: PathBuf,
    /// The amounts written since the opening.
    pub written: LogStatistics,
}

/// The last checkpoint.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LastCheckpoint {
    /// Seconds since it was complete; `None` for one that was taken before the opening.
    pub age_s: Option<f64>,
    /// Duration of the checkpoint, in seconds; `None` for one that was taken before the opening.
    pub took_s: Option<f64>,
    /// Number of its rows.
    pub rows: u64,
    /// Size of its parts, in bytes.
    pub bytes: u64,
}

/// What a recovery has taken.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Rates {
    /// Seconds for each byte of a checkpoint; `None` if too little was measured.
    checkpoint: Option<f64>,
    /// Seconds for each byte of records; `None` if too little was measured.
    log: Option<f64>,
}

impl Rates {
    /// Returns the rates of the recovery at the opening, until all rows were there. What came back on demand
    /// did so after the opening, beside transactions.
    fn of(report: &RecoveryReport, progress: &RecoveryProgress) -> Self {
        let rate = |seconds: f64, bytes: u64| (bytes >= LEAST_MEASURED).then(|| seconds / bytes as f64);
        let RecoveryReport { checkpoint_load_s, log_load_s, replay_s, .. } = *report;
        if report.replays_on_demand {
            // Blocks of the checkpoint and calls of the log came back together.
            let whole = progress.recovered_s.and_then(|recovered_s| rate(recovered_s, progress.bytes));
            return Self { checkpoint: whole, log: whole };
        }
        let later_s = if report.on_demand {
            progress.recovered_s.map(|recovered_s| recovered_s - progress.open_s)
        } else {
            Some(0.0)
        };
        Self {
            checkpoint: later_s
                .and_then(|later_s| rate(checkpoint_load_s + later_s, report.checkpoint_bytes)),
            log: rate(log_load_s + replay_s, report.record_bytes),
        }
    }

    /// Returns the seconds of a recovery of a checkpoint and of records.
    fn predict(self, checkpoint_bytes: u64, log_bytes: u64) -> Option<f64> {
        let part = |bytes: u64, rate: Option<f64>| match rate {
            Some(rate) => Some(bytes as f64 * rate),
            None => (bytes < LEAST_MEASURED).then_some(0.0),
        };
        Some(part(checkpoint_bytes, self.checkpoint)? + part(log_bytes, self.log)?)
    }
}

impl Inner {
    /// Returns the bytes of records that the main log has received since the opening.
    pub(crate) fn logged_bytes(&self) -> u64 {
        self.logs.statistics().next().map_or(0, |(_, own)| own.record_bytes)
    }

    fn last_checkpoint(&self, report: &RecoveryReport) -> (Option<LastCheckpoint>, u64) {
        let logged = self.logged_bytes();
        let taken = self.last_checkpoint.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(TakenCheckpoint { at, summary, log_bytes }) = &*taken else {
            let RecoveryReport { checkpoint_rows: rows, checkpoint_bytes: bytes, .. } = *report;
            let before = LastCheckpoint { age_s: None, took_s: None, rows, bytes };
            return (report.checkpoint.map(|_| before), report.record_bytes + logged);
        };
        let last = LastCheckpoint {
            age_s: Some(at.elapsed().as_secs_f64()),
            took_s: Some(summary.elapsed.as_secs_f64()),
            rows: summary.rows,
            bytes: summary.bytes,
        };
        (Some(last), logged.saturating_sub(*log_bytes))
    }
}

impl Database {
    /// Returns what an operator wants to know of the database.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// let db = Database::open(folder.path(), Config::default())?;
    /// db.session()?.execute_script("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1);")?;
    /// assert!(db.overview().log_behind_bytes > 0);
    /// db.checkpoint()?;
    /// let overview = db.overview();
    /// assert_eq!((overview.checkpoint.map(|last| last.rows), overview.log_behind_bytes), (Some(1), 0));
    /// assert_eq!(overview.devices.len(), 1);
    /// # Ok(()) }
    /// ```
    pub fn overview(&self) -> Overview {
        let inner = &*self.inner;
        let report = self.recovery_report();
        let (checkpoint, log_behind_bytes) = inner.last_checkpoint(report);
        let predicted_recovery_s = match inner.config.content {
            Content::Adaptive => Some(inner.adaptive.predicted_s()),
            _ => {
                let bytes = checkpoint.map_or(0, |last| last.bytes);
                Rates::of(report, &inner.recovering.progress()).predict(bytes, log_behind_bytes)
            }
        };
        let devices = inner.logs.devices().flat_map(|(content, folders)| {
            folders.into_iter().map(move |(folder, written)| LogDevice { content, folder, written })
        });
        Overview {
            durable_epoch: inner.logs.durable().map(|own| own.order().epoch()),
            epoch: inner.definitions.current().tables.epochs.current(),
            devices: devices.collect(),
            checkpoint,
            log_behind_bytes,
            predicted_recovery_s,
        }
    }

    /// Calls a function with the current definitions. They may not be durable yet.
    pub fn with_definitions<T>(&self, act: impl FnOnce(&sql::Schema) -> T) -> T {
        act(&self.inner.definitions.current().schema)
    }

    /// Returns the procedures and functions, and the number of the definitions, which changes with them.
    pub fn procedures(&self) -> (u64, Vec<Arc<Procedure>>) {
        let version = self.inner.definitions.current();
        (version.number, version.schema.procedures().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::CrashingDisk;
    use crate::{Config, Sequencing, params};

    const MEBIBYTE: u64 = 1 << 20;

    /// Whatever writes the logs, each device is there once, and all of them have written what the log has.
    #[test]
    fn devices_have_written_what_the_log_has() {
        for (name, sequencing) in Sequencing::NAMES {
            let mut config = Config { sequencing, memory_ahead_bytes: 0, ..Config::default() };
            config.disk = Arc::new(CrashingDisk::default());
            let devices: &[&str] = if sequencing.admits_devices(2).is_ok() { &["a", "b"] } else { &["a"] };
            config.log_devices = Some(devices.iter().map(PathBuf::from).collect());
            config.log_file_bytes = 1 << 20;
            if sequencing.admits(config.content, config.content.images()).is_err() {
                config.content = Content::Logical;
            }
            let db = Database::open("data", config).unwrap();
            let mut sessions: Vec<_> = (0..3).map(|_| db.session().unwrap()).collect();
            sessions[0].execute_script("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
            for (id, session) in sessions.iter_mut().enumerate() {
                session
                    .execute("INSERT INTO t VALUES ($1)", params![id as i32])
                    .unwrap()
                    .commit
                    .wait()
                    .unwrap();
            }
            drop(sessions);
            let folders = |overview: &Overview| -> Vec<PathBuf> {
                overview.devices.iter().map(|device| device.folder.clone()).collect()
            };
            // The loggers write on; so the amounts of both stand still before they are compared.
            let overview = loop {
                let (before, written) = (db.overview(), db.log_statistics());
                if before.devices == db.overview().devices && written == db.log_statistics() {
                    break before;
                }
            };
            let expected: Vec<_> = devices.iter().map(|device| PathBuf::from("data").join(device)).collect();
            assert_eq!(folders(&overview), expected, "{name}");
            let bytes: u64 = overview.devices.iter().map(|device| device.written.record_bytes).sum();
            assert_eq!(bytes, db.log_statistics()[0].1.record_bytes, "{name}");
            assert!(bytes > 0 && bytes == overview.log_behind_bytes, "{name}");
        }
    }

    fn report() -> RecoveryReport {
        RecoveryReport {
            checkpoint_bytes: 4 * MEBIBYTE,
            checkpoint_load_s: 2.0,
            record_bytes: 2 * MEBIBYTE,
            log_load_s: 1.0,
            replay_s: 3.0,
            ..RecoveryReport::default()
        }
    }

    #[test]
    fn a_recovery_is_predicted_by_the_last_one() {
        let rates = Rates::of(&report(), &RecoveryProgress::default());
        assert_eq!(rates.predict(8 * MEBIBYTE, MEBIBYTE), Some(4.0 + 2.0));
        assert_eq!(rates.predict(0, 0), Some(0.0));
    }

    #[test]
    fn nothing_is_predicted_from_little() {
        let little = RecoveryReport { checkpoint_bytes: 9, record_bytes: 9, ..report() };
        let rates = Rates::of(&little, &RecoveryProgress::default());
        assert_eq!(rates.predict(MEBIBYTE, 0), None);
        assert_eq!(rates.predict(0, MEBIBYTE), None);
        assert_eq!(rates.predict(LEAST_MEASURED - 1, LEAST_MEASURED - 1), Some(0.0));
    }

    #[test]
    fn what_comes_on_demand_is_measured_once_it_is_there() {
        let report = RecoveryReport { on_demand: true, ..report() };
        let at_opening = RecoveryProgress { bytes: 6 * MEBIBYTE, open_s: 6.0, ..RecoveryProgress::default() };
        let recovered = RecoveryProgress { recovered_s: Some(12.0), ..at_opening.clone() };
        let rates = [&at_opening, &recovered].map(|progress| Rates::of(&report, progress));
        assert_eq!(rates.map(|rates| rates.predict(MEBIBYTE, 0)), [None, Some((2.0 + 6.0) / 4.0)]);
        assert_eq!(rates.map(|rates| rates.predict(0, MEBIBYTE)), [Some(2.0); 2], "the log was replayed");
        let report = RecoveryReport { replays_on_demand: true, replay_s: 0.0, ..report };
        let rates = [&at_opening, &recovered].map(|progress| Rates::of(&report, progress));
        assert_eq!(rates.map(|rates| rates.predict(MEBIBYTE, MEBIBYTE)), [None, Some(4.0)]);
    }
}
