//! The recovery of the database that a statement runs in: the row of `reprise_recovery`.

use super::live::LiveValue;

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

impl RecoveryProgress {
    /// Returns the row of `reprise_recovery`.
    pub fn row(self) -> Vec<LiveValue> {
        let state = if self.recovered_s.is_some() { "recovered" } else { "recovering" };
        vec![
            state.into(),
            self.method.into(),
            self.transactions.into(),
            self.bytes.into(),
            self.bytes_left.into(),
            self.open_s.into(),
            self.first_commit_s.into(),
            self.recovered_s.into(),
            self.served.into(),
        ]
    }
}
