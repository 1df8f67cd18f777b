//! Errors of recovery.

use crate::Method;
use checkpoint::CheckpointError;
use logging::LogError;
use logging::content::RecordKind;
use procedure::SqlError;
use schedule::Divergence;
use schedule::closures::ClosureError;
use sql::{ImageError, StatementError};
use thiserror::Error;

/// An error of recovery. Nothing on the disk has changed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum RecoveryError {
    /// The disk failed, or a log file is damaged.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Log files are missing or damaged. Recovery can go on with the state before them, if the loss is
    /// accepted.
    #[error(transparent)]
    Incomplete(LogError),
    /// The checkpoint could not be loaded.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A logger's files are missing.
    #[error(
        "the log of incarnation {incarnation} was written by {loggers} loggers, but only {found} of them \
         have files: is a log device missing?"
    )]
    MissingDevice {
        /// The opening of the database.
        incarnation: u64,
        /// Number of loggers of the incarnation.
        loggers: u32,
        /// Number of loggers with files.
        found: u32,
    },
    /// A definition of the checkpoint or of the log was refused.
    #[error(
        "a definition that an earlier release accepted is refused: {0}; open the folder with the release \
         that wrote it, and take a checkpoint there"
    )]
    Definition(StatementError),
    /// The definitions of the checkpoint are malformed.
    #[error("the checkpoint: {0}")]
    Definitions(ImageError),
    /// The execution of a logged transaction differs from its record.
    #[error(transparent)]
    Diverged(#[from] Divergence),
    /// The method does not replay a kind of record in the log.
    #[error("this method does not replay {holds}, which the log holds; {replays} does")]
    WrongMethod {
        /// The records in the log.
        holds: &'static str,
        /// A method that replays them.
        replays: &'static str,
    },
    /// The method replays only the newest write of a row, and the log holds only the changed columns.
    #[error(
        "this method replays only the newest write of each row, but the log holds only the changed columns; \
         llr-p replays it"
    )]
    ColumnsOnly,
    /// The rows of the checkpoint were read at different moments.
    #[error(
        "the checkpoint is fuzzy, so the last writer of each row must win: poplar, llr and plr replay the \
         log over it, {0} does not"
    )]
    FuzzyCheckpoint(Method),
    /// Two rows of a physical log have one key.
    #[error("two slots of \"{table}\" hold rows with the same key: the log does not fit the checkpoint")]
    SlotsDisagree {
        /// The table.
        table: String,
    },
    /// Rows and indexes do not fit the configured memory.
    #[error(transparent)]
    OutOfMemory(storage::OutOfMemory),
    /// Rows that a logged transaction reads or writes cannot be brought back now.
    #[error(transparent)]
    Unreachable(SqlError),
    /// All worker slots are taken.
    #[error("all workers are in use")]
    NoWorker,
}

impl From<ClosureError> for RecoveryError {
    fn from(error: ClosureError) -> Self {
        match error {
            ClosureError::Diverged(divergence) => Self::Diverged(divergence),
            ClosureError::Unreachable(error) => Self::Unreachable(error),
        }
    }
}

impl RecoveryError {
    fn of_files(&self) -> Option<&LogError> {
        match self {
            Self::Log(error) | Self::Incomplete(error) | Self::Checkpoint(CheckpointError::Disk(error)) => {
                Some(error)
            }
            _ => None,
        }
    }

    /// Returns the remedy, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        self.of_files().and_then(LogError::hint)
    }

    /// Returns whether recovery can go on with the state before the fault.
    pub fn can_be_accepted(&self) -> bool {
        matches!(self, Self::Incomplete(_))
    }

    /// Returns the error of a log with records that the method does not replay.
    pub(crate) fn holds(kind: RecordKind) -> Self {
        let (holds, replays) = match kind {
            RecordKind::Call | RecordKind::Statement => ("commands", "clr-p"),
            RecordKind::Writes
            | RecordKind::Definition
            | RecordKind::Definitions
            | RecordKind::Stages
            | RecordKind::Large => ("logical records", "llr-p"),
            RecordKind::Slots => ("physical records", "plr"),
            RecordKind::Operation | RecordKind::Outcome => ("physiological records", "aries"),
            RecordKind::Vertex | RecordKind::BatchWrites | RecordKind::BatchEnd => ("batches", "dependency"),
        };
        Self::WrongMethod { holds, replays }
    }
}
