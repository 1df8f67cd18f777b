//! The report of a recovery.

use crate::{Method, ReplayBreakdown, ReplayMode, ThreadTimes};
use catalog::CommitOrder;
use std::fmt;
use std::path::PathBuf;
use transaction::FIRST_COMMIT_OF_REPLAY;

/// The origin, the size and the duration of a recovery, and the cut of the log.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RecoveryReport {
    /// The method that replayed the log.
    pub method: Method,
    /// The mode of a parallel replay of commands.
    pub mode: Option<ReplayMode>,
    /// Number of threads that loaded the checkpoint and replayed the log.
    pub threads: usize,
    /// The bound of the checkpoint; `None` when there was none.
    pub checkpoint: Option<CommitOrder>,
    /// Number of rows of the checkpoint.
    pub checkpoint_rows: u64,
    /// Size of the checkpoint's parts, in bytes.
    pub checkpoint_bytes: u64,
    /// Whether rows of the checkpoint are brought back when they are looked for.
    pub on_demand: bool,
    /// Whether the log is replayed then, too.
    pub replays_on_demand: bool,
    /// Size of the log files, in bytes.
    pub log_bytes: u64,
    /// Size of the replayed records, in bytes.
    pub record_bytes: u64,
    /// Number of transactions that are replayed.
    pub transactions: u64,
    /// Number of transactions past the cut; none of them was acknowledged.
    pub discarded: u64,
    /// Number of transactions that were undone: their operations were in the log, and they had not committed.
    pub undone: u64,
    /// The last order that counts.
    pub cut: CommitOrder,
    /// Where the crash tore the log: file, and offset in bytes.
    pub torn: Vec<(PathBuf, u64)>,
    /// The missing files that were accepted; all transactions after the cut are lost then.
    pub losses: Vec<String>,
    /// Duration of loading the checkpoint, or of finding the rows that come on demand, in seconds.
    pub checkpoint_load_s: f64,
    /// Duration of reading the log, in seconds.
    pub log_load_s: f64,
    /// Duration of replay, in seconds.
    pub replay_s: f64,
    /// The time of a parallel replay of commands.
    pub breakdown: Option<ReplayBreakdown>,
    /// Duration of the recovery, in seconds.
    pub total_s: f64,
}

/// A replay on demand takes this many times as long as one before the database opens (docs/results.md).
const ON_DEMAND_OF_CLOSED: f64 = 1.2;

impl RecoveryReport {
    /// Returns the number of transactions replayed per second.
    pub fn replay_tps(&self) -> f64 {
        if self.replay_s > 0.0 { self.transactions as f64 / self.replay_s } else { 0.0 }
    }

    /// Returns the seconds after which a first transaction would commit if commands were replayed on demand:
    /// the log is read, its calls are listed, and those run that the transaction depends on.
    pub fn expected_first_commit_s(&self) -> f64 {
        self.log_load_s + self.replay_s * FIRST_COMMIT_OF_REPLAY
    }

    /// Returns the seconds after which all rows would be recovered if commands were replayed on demand while
    /// clients ask for little.
    pub fn expected_recovered_s(&self) -> f64 {
        self.log_load_s + (self.checkpoint_load_s + self.replay_s) * ON_DEMAND_OF_CLOSED
    }

    /// Writes how the threads of a parallel replay spent their time.
    fn fmt_breakdown(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_threads = self.breakdown.as_ref().filter(|breakdown| !breakdown.threads.is_empty());
        let Some(breakdown) = of_threads else { return Ok(()) };
        let ThreadTimes { planning_s, execution_s, waiting_s } = breakdown.sum();
        let all = (planning_s + execution_s + waiting_s).max(f64::MIN_POSITIVE) / 100.0;
        let [executing, planning, waiting] =
            [execution_s, planning_s, waiting_s].map(|seconds| seconds / all);
        write!(f, "; {} threads: {executing:.0} % executing, ", breakdown.threads.len())?;
        write!(f, "{planning:.0} % planning, {waiting:.0} % waiting")
    }
}

impl fmt::Display for RecoveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "recovered in {:.2} s: ", self.total_s)?;
        match self.checkpoint {
            Some(bound) => {
                let how = if self.on_demand { ", on demand" } else { "" };
                write!(f, "checkpoint before {bound} ({} rows{how}), ", self.checkpoint_rows)?;
            }
            None => f.write_str("no checkpoint, ")?,
        }
        let how = if self.replays_on_demand { "to replay on demand" } else { "replayed" };
        write!(f, "{} transactions {how} by {}", self.transactions, self.method)?;
        if !self.replays_on_demand {
            write!(f, " ({:.0} a second", self.replay_tps())?;
            self.fmt_breakdown(f)?;
            f.write_str(")")?;
        }
        match self.cut {
            cut if cut == CommitOrder::last_of(cut.epoch()) => {
                write!(f, ", log cut after epoch {}", cut.epoch())?;
            }
            cut => write!(f, ", log cut after {cut}")?,
        }
        for (file, offset) in &self.torn {
            write!(f, ", torn at byte {offset} of {}", file.display())?;
        }
        if self.discarded > 0 {
            write!(f, ", {} never acknowledged transactions left out", self.discarded)?;
        }
        if self.undone > 0 {
            write!(f, ", {} uncommitted transactions undone", self.undone)?;
        }
        if self.losses.is_empty() {
            return f.write_str("; nothing acknowledged is missing");
        }
        write!(f, "; accepted as lost is everything after {}, because: {}", self.cut, self.losses.join("; "))
    }
}
