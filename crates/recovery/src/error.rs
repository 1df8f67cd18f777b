//! Why a database could not be recovered.

use catalog::CommitOrder;
use checkpoint::CheckpointError;
use logging::LogError;
use sql::StatementError;
use thiserror::Error;

/// An error of recovery. Nothing was changed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum RecoveryError {
    /// The disk failed, or a log file is damaged.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The checkpoint could not be loaded.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A logger's files are missing.
    #[error(
        "the log of incarnation {incarnation} was written by {loggers} loggers, but the files of only {found} are there: is a log device missing?"
    )]
    MissingDevice {
        /// Which opening of the database.
        incarnation: u64,
        /// How many loggers there were.
        loggers: u32,
        /// How many logs there are.
        found: u32,
    },
    /// A definition of the checkpoint or of the log was refused.
    #[error("a definition that was accepted once is refused now: {0}")]
    Definition(StatementError),
    /// A logged transaction did not commit again.
    #[error("transaction {order} ({what}) does not replay: {error}")]
    Diverged {
        /// Its place in the serial order.
        order: CommitOrder,
        /// The procedure or statement.
        what: String,
        /// What ended it.
        error: String,
    },
    /// All worker slots are taken.
    #[error("all worker slots are taken: raise the configured number of workers")]
    NoWorker,
}
