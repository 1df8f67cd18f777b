//! The state of the server, as the page shows it.

use super::history::Sample;
use crate::metrics::STATEMENTS;
use crate::presence::PageSession;
use crate::{Server, hold};
use catalog::{now_us, unix_ms};
use procedure::Procedure;
use reprise::{Database, LastCheckpoint, LogDevice};
use serde::Serialize;
use std::sync::Arc;

/// The newest sample and definitions that the page has already.
pub(super) struct PageVersion {
    /// The number of its newest sample; 0 for none.
    pub(super) sample: u64,
    /// The number of the definitions whose procedures it shows.
    pub(super) definitions: Option<u64>,
}

#[derive(Serialize)]
pub(super) struct State {
    version: &'static str,
    /// `starting`, `ready` or `stopping`.
    state: &'static str,
    /// Milliseconds since 1970.
    now_ms: i64,
    started_ms: i64,
    /// The work of recovery, while the server starts.
    progress: Option<RecoveryStage>,
    clients: usize,
    /// The kinds of statements, in the order of each sample's rates.
    statements: [&'static str; STATEMENTS.len()],
    samples: Vec<Sample>,
    sessions: Vec<PageSession>,
    /// `None` until the database is open.
    database: Option<DatabaseState>,
}

#[derive(Serialize)]
struct RecoveryStage {
    doing: &'static str,
    done: u64,
    total: u64,
}

/// The state of the open database.
#[derive(Serialize)]
struct DatabaseState {
    committed: u64,
    read: u64,
    failed: u64,
    conflicts: u64,
    /// Bytes of rows and indexes.
    memory_bytes: usize,
    epoch: u64,
    durable_epoch: Option<u64>,
    devices: Vec<Device>,
    /// The error of a failed log.
    log_error: Option<String>,
    checkpoint: Option<Checkpoint>,
    log_behind_bytes: u64,
    predicted_recovery_s: Option<f64>,
    recovery: Recovery,
    /// The number of the definitions.
    definitions: u64,
    /// `None` if the page has them already.
    procedures: Option<Vec<Routine>>,
}

#[derive(Serialize)]
struct Device {
    content: String,
    folder: String,
    bytes: u64,
    batches: u64,
    /// Seconds in which the device wrote and synchronized.
    busy_s: f64,
}

#[derive(Serialize)]
struct Checkpoint {
    age_s: Option<f64>,
    took_s: Option<f64>,
    rows: u64,
    bytes: u64,
}

/// The recovery at the opening.
#[derive(Serialize)]
struct Recovery {
    method: String,
    transactions: u64,
    checkpoint_rows: u64,
    checkpoint_bytes: u64,
    log_bytes: u64,
    /// Bytes that are recovered on demand.
    bytes: u64,
    /// Those of `bytes` that are not recovered yet.
    bytes_left: u64,
    open_s: f64,
    first_commit_s: Option<f64>,
    recovered_s: Option<f64>,
    served: u64,
}

/// A procedure or function.
#[derive(Serialize)]
struct Routine {
    id: u32,
    name: String,
    kind: &'static str,
    parameters: usize,
    operations: usize,
    /// `command`, `values`, or `nothing`.
    logged: &'static str,
    /// The cause for which its calls are logged by value.
    cause: Option<String>,
    is_compiled: bool,
}

impl From<LogDevice> for Device {
    fn from(LogDevice { content, folder, written }: LogDevice) -> Self {
        Self {
            content: content.to_string(),
            folder: folder.display().to_string(),
            bytes: written.file_bytes,
            batches: written.batches,
            busy_s: written.flush_us as f64 / 1e6,
        }
    }
}

impl From<LastCheckpoint> for Checkpoint {
    fn from(LastCheckpoint { age_s, took_s, rows, bytes }: LastCheckpoint) -> Self {
        Self { age_s, took_s, rows, bytes }
    }
}

impl Recovery {
    fn of(database: &Database) -> Self {
        let (report, progress) = (database.recovery_report(), database.recovery_progress());
        Self {
            method: progress.method,
            transactions: progress.transactions,
            checkpoint_rows: report.checkpoint_rows,
            checkpoint_bytes: report.checkpoint_bytes,
            log_bytes: report.log_bytes,
            bytes: progress.bytes,
            bytes_left: progress.bytes_left,
            open_s: progress.open_s,
            first_commit_s: progress.first_commit_s,
            recovered_s: progress.recovered_s,
            served: progress.served,
        }
    }
}

impl Routine {
    fn of(procedure: &Arc<Procedure>) -> Self {
        let kind = match (procedure.is_trigger, procedure.is_function) {
            (true, _) => "trigger function",
            (false, true) => "function",
            (false, false) => "procedure",
        };
        let logged = match (procedure.read_only, &procedure.by_value) {
            (true, _) => "nothing",
            (false, None) => "command",
            (false, Some(_)) => "values",
        };
        let cause = procedure.by_value.as_ref().filter(|_| !procedure.read_only);
        Self {
            id: procedure.id.0,
            name: procedure.name.clone(),
            kind,
            parameters: procedure.parameters.len(),
            operations: procedure.operations.len() + procedure.queries.len(),
            logged,
            cause: cause.map(ToString::to_string),
            is_compiled: procedure.compiled.get().is_some(),
        }
    }
}

impl DatabaseState {
    fn of(database: &Database, known: &PageVersion) -> Self {
        let (counts, overview) = (database.statistics(), database.overview());
        let (definitions, procedures) = database.procedures();
        let is_known = known.definitions == Some(definitions);
        let procedures = (!is_known).then(|| {
            let mut routines: Vec<_> = procedures.iter().map(Routine::of).collect();
            routines.sort_by(|left, right| (&left.name, left.id).cmp(&(&right.name, right.id)));
            routines
        });
        Self {
            committed: counts.committed,
            read: counts.read,
            failed: counts.failed,
            conflicts: counts.conflicts,
            memory_bytes: counts.memory_bytes,
            epoch: overview.epoch.0,
            durable_epoch: overview.durable_epoch.map(|epoch| epoch.0),
            devices: overview.devices.into_iter().map(Device::from).collect(),
            log_error: database.check_log().err().map(|error| error.to_string()),
            checkpoint: overview.checkpoint.map(Checkpoint::from),
            log_behind_bytes: overview.log_behind_bytes,
            predicted_recovery_s: overview.predicted_recovery_s,
            recovery: Recovery::of(database),
            definitions,
            procedures,
        }
    }
}

/// Returns the state of a server, without the samples and procedures that the page has already.
pub(super) fn state(server: &Server, known: &PageVersion) -> State {
    let database = server.database();
    let state = match (server.is_stopping(), database) {
        (true, _) => "stopping",
        (false, None) => "starting",
        (false, Some(_)) => "ready",
    };
    let (stage, done, total) = server.progress().now();
    let progress = database.is_none().then(|| RecoveryStage { doing: stage.doing(), done, total });
    let mut sessions: Vec<_> =
        server.connections.all().iter().map(|connection| connection.presence.on_page()).collect();
    sessions.sort_by_key(|session| session.started_ms);
    State {
        version: env!("CARGO_PKG_VERSION"),
        state,
        now_ms: unix_ms(now_us()),
        started_ms: unix_ms(server.started_us),
        progress,
        clients: server.connected(),
        statements: STATEMENTS,
        samples: hold(&server.page.history).after(known.sample),
        sessions,
        database: database.map(|database| DatabaseState::of(database, known)),
    }
}
