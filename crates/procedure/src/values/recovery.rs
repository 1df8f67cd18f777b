//! The recovery of the database that a statement runs in: the row of `reprise_recovery`.

use super::live::LiveValue;

/// The progress of the recovery at the opening of a database. Times are seconds from its begin.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RecoveryProgress {
    /// The method that replays the log, as the command line names it.
    pub method: String,
    /// Number of transactions of the log that are replayed.
    pub transactions: u64,
    /// Bytes of the checkpoint and of the log that are recovered after the opening, on demand.
    pub bytes: u64,
    /// Those of `bytes` that are not recovered yet.
    pub bytes_left: u64,
    /// When the database accepted transactions.
    pub open_s: f64,
    /// When the first transaction that wrote was durable; `None` before that.
    pub first_commit_s: Option<f64>,
    /// When all rows were recovered; `None` before that.
    pub recovered_s: Option<f64>,
    /// Number of transactions that were served before all rows were recovered.
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
