//! Why a database could not be recovered.

use crate::Method;
use checkpoint::CheckpointError;
use logging::LogError;
use logging::content::RecordKind;
use schedule::Divergence;
use sql::{ImageError, StatementError};
use thiserror::Error;

/// An error of recovery. Nothing was changed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum RecoveryError {
    /// The disk failed, or a log file is damaged.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Log files are missing or damaged; recovery can go on with what came before, if that is accepted.
    #[error(transparent)]
    Incomplete(LogError),
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
    #[error(
        "a definition that was accepted once is refused now: {0}; open the folder with the release that wrote it, take a \
         checkpoint there, and come back"
    )]
    Definition(StatementError),
    /// The definitions of the checkpoint are not as any version of Reprise writes them.
    #[error("the checkpoint: {0}")]
    Definitions(ImageError),
    /// The execution of a logged transaction differs from its record.
    #[error(transparent)]
    Diverged(#[from] Divergence),
    /// The method does not replay what the log holds.
    #[error("this method does not replay logs that hold {holds}; {replays} does")]
    WrongMethod {
        /// What the log holds.
        holds: &'static str,
        /// Which method would.
        replays: &'static str,
    },
    /// The method takes the newest write of a row alone, and the log has columns.
    #[error(
        "this method takes the newest write of each row alone, but the log holds only the columns that changed; llr-p replays it"
    )]
    ColumnsOnly,
    /// The rows of the checkpoint are of different moments.
    #[error(
        "the checkpoint is a fuzzy one, upon which the last writer of each row wins: poplar, llr and plr replay that, {0} does not"
    )]
    FuzzyCheckpoint(Method),
    /// Two rows of a physical log have one key.
    #[error("two slots of {table} hold rows with one key: the log does not fit the checkpoint")]
    SlotsDisagree {
        /// Which table.
        table: String,
    },
    /// Rows and indexes do not fit the configured memory.
    #[error(transparent)]
    OutOfMemory(storage::OutOfMemory),
    /// All worker slots are taken.
    #[error("all worker slots are taken: raise the configured number of workers")]
    NoWorker,
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

    /// What an operator can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        self.of_files().and_then(LogError::hint)
    }

    /// Whether recovery can go on with what came before the fault.
    pub fn can_be_accepted(&self) -> bool {
        matches!(self, Self::Incomplete(_))
    }

    /// The log holds records that the method does not replay.
    pub(crate) fn holds(kind: RecordKind) -> Self {
        let (holds, replays) = match kind {
            RecordKind::Call | RecordKind::Statement => ("commands", "clr-p"),
            RecordKind::Writes | RecordKind::Definition | RecordKind::Definitions | RecordKind::Large => {
                ("logical records", "llr-p")
            }
            RecordKind::Slots => ("physical records", "plr"),
            RecordKind::Operation | RecordKind::Outcome => ("physiological records", "aries"),
        };
        Self::WrongMethod { holds, replays }
    }
}
