//! Values of the moment: relations and functions whose values the database, the server and the client's
//! session have when the statement runs.
//!
//! A statement that uses one is logged by value (`ByValueCause::Moment`), so no replay needs them.
//! Not here: relations and functions that follow from the definitions (`sql/system`).

use catalog::{Arena, Datum, ScalarType, Type};

/// A value of the moment.
#[derive(Clone, PartialEq, Debug)]
#[expect(missing_docs, reason = "the variants are those of `Datum`")]
pub enum LiveValue {
    Null,
    Bool(bool),
    /// An integer, or a timestamp in microseconds.
    Int(i64),
    Double(f64),
    Text(String),
    Texts(Vec<String>),
}

impl From<bool> for LiveValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for LiveValue {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u64> for LiveValue {
    fn from(value: u64) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<f64> for LiveValue {
    fn from(value: f64) -> Self {
        Self::Double(value)
    }
}

impl From<&str> for LiveValue {
    fn from(value: &str) -> Self {
        Self::Text(value.into())
    }
}

impl From<String> for LiveValue {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl<T: Into<Self>> From<Option<T>> for LiveValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl LiveValue {
    /// Returns the argument of a function as a value.
    pub(crate) fn of(value: Datum, arena: &Arena) -> Self {
        match value {
            Datum::Int(number) => Self::Int(number),
            Datum::Double(number) => Self::Double(number),
            Datum::Bytes(bytes) => Self::Text(String::from_utf8_lossy(arena.bytes(bytes)).into_owned()),
            _ => Self::Null,
        }
    }

    pub(crate) fn datum(&self, arena: &mut Arena) -> Datum {
        match self {
            Self::Null => Datum::Null,
            Self::Bool(value) => Datum::boolean(*value),
            Self::Int(number) => Datum::Int(*number),
            Self::Double(number) => Datum::Double(*number),
            Self::Text(text) => arena.push_bytes(text.as_bytes()),
            Self::Texts(texts) => {
                let all: Vec<_> = texts.iter().map(|text| arena.push_bytes(text.as_bytes())).collect();
                arena.push_array(&all)
            }
        }
    }
}

const BOOL: Type = Type::Scalar(ScalarType::Boolean);
const INT4: Type = Type::Scalar(ScalarType::Integer);
const INT8: Type = Type::Scalar(ScalarType::BigInt);
const FLOAT8: Type = Type::Scalar(ScalarType::Double);
const TEXT: Type = Type::Scalar(ScalarType::Text);
const TIME: Type = Type::Scalar(ScalarType::Timestamptz);

/// A relation of the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LiveRelation {
    /// `reprise_recovery`: the progress of the recovery at the opening.
    Recovery,
    /// `reprise_log`: a row for each log.
    Log,
    /// `reprise_checkpoints`: the checkpoint that a recovery would load.
    Checkpoints,
    /// `pg_settings`: the settings of the session.
    Settings,
    /// `pg_stat_activity`: the sessions of the server.
    Activity,
    /// `pg_locks`: the advisory locks of the server.
    Locks,
    /// `reprise_tables`: the number of rows of each table, and their bytes in memory.
    Tables,
    /// `reprise_counts`: the counts of the database since its opening, as one row.
    Counts,
}

/// A column: its name and its type.
pub type LiveColumn = (&'static str, Type);

impl LiveRelation {
    /// Returns the columns.
    pub fn columns(self) -> &'static [LiveColumn] {
        match self {
            Self::Recovery => RECOVERY,
            Self::Log => LOG,
            Self::Checkpoints => CHECKPOINTS,
            Self::Settings => SETTINGS,
            Self::Activity => ACTIVITY,
            Self::Locks => LOCKS,
            Self::Tables => &[("oid", INT4), ("rows", INT8), ("bytes", INT8)],
            Self::Counts => COUNTS,
        }
    }
}

const RECOVERY: &[LiveColumn] = &[
    ("state", TEXT),
    ("method", TEXT),
    ("transactions", INT8),
    ("bytes", INT8),
    ("bytes_left", INT8),
    ("open_s", FLOAT8),
    ("first_commit_s", FLOAT8),
    ("recovered_s", FLOAT8),
    ("served", INT8),
];

const LOG: &[LiveColumn] = &[
    ("content", TEXT),
    ("devices", Type::Array(ScalarType::Text)),
    ("durable_epoch", INT8),
    ("file_bytes", INT8),
    ("record_bytes", INT8),
    ("flushes", INT8),
    ("flush_s", FLOAT8),
];

const CHECKPOINTS: &[LiveColumn] =
    &[("number", INT8), ("consistency", TEXT), ("epoch", INT8), ("rows", INT8), ("bytes", INT8)];

const SETTINGS: &[LiveColumn] = &[
    ("name", TEXT),
    ("setting", TEXT),
    ("unit", TEXT),
    ("category", TEXT),
    ("short_desc", TEXT),
    ("extra_desc", TEXT),
    ("context", TEXT),
    ("vartype", TEXT),
    ("source", TEXT),
    ("min_val", TEXT),
    ("max_val", TEXT),
    ("enumvals", Type::Array(ScalarType::Text)),
    ("boot_val", TEXT),
    ("reset_val", TEXT),
    ("sourcefile", TEXT),
    ("sourceline", INT4),
    ("pending_restart", BOOL),
];

const ACTIVITY: &[LiveColumn] = &[
    ("datid", INT4),
    ("datname", TEXT),
    ("pid", INT4),
    ("leader_pid", INT4),
    ("usesysid", INT4),
    ("usename", TEXT),
    ("application_name", TEXT),
    ("client_addr", TEXT),
    ("client_hostname", TEXT),
    ("client_port", INT4),
    ("backend_start", TIME),
    ("xact_start", TIME),
    ("query_start", TIME),
    ("state_change", TIME),
    ("wait_event_type", TEXT),
    ("wait_event", TEXT),
    ("state", TEXT),
    ("backend_xid", INT8),
    ("backend_xmin", INT8),
    ("query_id", INT8),
    ("query", TEXT),
    ("backend_type", TEXT),
];

const LOCKS: &[LiveColumn] = &[
    ("locktype", TEXT),
    ("database", INT4),
    ("relation", INT4),
    ("page", INT4),
    ("tuple", INT4),
    ("virtualxid", TEXT),
    ("transactionid", INT8),
    ("classid", INT8),
    ("objid", INT8),
    ("objsubid", INT4),
    ("virtualtransaction", TEXT),
    ("pid", INT4),
    ("mode", TEXT),
    ("granted", BOOL),
    ("fastpath", BOOL),
    ("waitstart", TIME),
];

const COUNTS: &[LiveColumn] = &[("committed", INT8), ("failed", INT8), ("conflicts", INT8), ("bytes", INT8)];

/// A function of the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names are PostgreSQL's")]
pub enum LiveFunction {
    CurrentSetting,
    /// The role as which the client has logged in.
    SessionUser,
    SetConfig,
    BackendPid,
    CancelBackend,
    TerminateBackend,
    CurrentTransaction,
    StartTime,
    /// Whether `search_path` lacks `public`.
    HidesPublic,
    ClientAddress,
    ClientPort,
    ServerAddress,
    ServerPort,
    DatabaseSize,
    /// The bytes of a table's rows.
    TableSize,
    /// The bytes of indexes, which are not known.
    IndexSize,
    /// `pg_notify`. The statement keeps its notifications; the client's session may refuse them.
    Notify,
}

/// A source of values of the moment: the database, or a client's session.
pub trait Surroundings: Send + Sync {
    /// Returns the rows of a relation; `None` if this source has none.
    fn rows(&self, relation: LiveRelation) -> Option<Vec<Vec<LiveValue>>>;

    /// Returns the value of a function; `None` if this source has none.
    ///
    /// # Errors
    /// The error of the function.
    fn value(
        &self,
        function: LiveFunction,
        arguments: &[LiveValue],
    ) -> Option<Result<LiveValue, crate::SqlError>>;

    /// Keeps the settings of the session, so that `undo_settings` can restore them.
    fn keep_settings(&self) {}

    /// Restores the settings that the running statement has kept after the first `count`, oldest first.
    fn undo_settings(&self, count: usize) {
        let _ = count;
    }
}
