//! The recovery of the database that a statement runs in: the columns of `reprise_recovery`.

use catalog::{Arena, Datum, ScalarType};

/// What the recovery at the opening of a database has done, and what it has still to do. Times count from the
/// begin of the opening, in seconds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RecoveryProgress {
    /// The method that replays the log, as the command line names it.
    pub method: String,
    /// Number of transactions of the log that are replayed.
    pub transactions: u64,
    /// Size of what is recovered after the opening, on demand, in bytes of the checkpoint and of the log.
    pub bytes: u64,
    /// How much of it is left.
    pub bytes_left: u64,
    /// When the database took work.
    pub open_s: f64,
    /// When the first transaction that wrote was durable; `None` before that.
    pub first_commit_s: Option<f64>,
    /// When all rows were recovered; `None` before that.
    pub recovered_s: Option<f64>,
    /// Number of transactions that were served before that.
    pub served: u64,
}

/// Knows the recovery of a database.
pub trait RecoverySource: Send + Sync {
    /// Returns what it has done so far.
    fn progress(&self) -> RecoveryProgress;
}

/// A column of `reprise_recovery`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs)]
pub enum RecoveryColumn {
    State,
    Method,
    Transactions,
    Bytes,
    BytesLeft,
    OpenSeconds,
    FirstCommitSeconds,
    RecoveredSeconds,
    Served,
}

impl RecoveryColumn {
    /// All columns, with their names and types.
    pub const ALL: [(&str, ScalarType, Self); 9] = [
        ("state", ScalarType::Text, Self::State),
        ("method", ScalarType::Text, Self::Method),
        ("transactions", ScalarType::BigInt, Self::Transactions),
        ("bytes", ScalarType::BigInt, Self::Bytes),
        ("bytes_left", ScalarType::BigInt, Self::BytesLeft),
        ("open_s", ScalarType::Double, Self::OpenSeconds),
        ("first_commit_s", ScalarType::Double, Self::FirstCommitSeconds),
        ("recovered_s", ScalarType::Double, Self::RecoveredSeconds),
        ("served", ScalarType::BigInt, Self::Served),
    ];

    /// Returns the value at a moment.
    pub(crate) fn value(self, now: &RecoveryProgress, arena: &mut Arena) -> Datum {
        let seconds = |seconds: Option<f64>| seconds.map_or(Datum::Null, Datum::Double);
        let text = match self {
            Self::State if now.recovered_s.is_some() => "recovered",
            Self::State => "recovering",
            Self::Method => &now.method,
            Self::Transactions => return Datum::Int(now.transactions as i64),
            Self::Bytes => return Datum::Int(now.bytes as i64),
            Self::BytesLeft => return Datum::Int(now.bytes_left as i64),
            Self::OpenSeconds => return Datum::Double(now.open_s),
            Self::FirstCommitSeconds => return seconds(now.first_commit_s),
            Self::RecoveredSeconds => return seconds(now.recovered_s),
            Self::Served => return Datum::Int(now.served as i64),
        };
        arena.push_bytes(text.as_bytes())
    }
}
