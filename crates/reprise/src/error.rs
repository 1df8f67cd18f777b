//! What a database can answer instead of a result.

use checkpoint::CheckpointError;
use logging::content::InvalidContent;
use logging::{InvalidSequencing, LogError};
use procedure::SqlError;
use recovery::RecoveryError;
use sql::{ImageError, StatementError};
use std::path::PathBuf;
use thiserror::Error;

/// An error of the database.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The transaction was refused or said so itself; nothing of it happened.
    #[error("{} (SQLSTATE {})", .0.message, .0.sqlstate)]
    Sql(SqlError),
    /// A statement was refused; nothing of it happened.
    #[error("{refused} (SQLSTATE {state})", refused = .0, state = .0.error.sqlstate)]
    Statement(StatementError),
    /// The log failed. Whether the transaction in hand is durable is not known, unless it is refused with
    /// `LogError::NoRoom`: then it has not happened.
    #[error(transparent)]
    Log(LogError),
    /// The database could not be recovered; nothing was changed.
    #[error("cannot recover: {0}")]
    Recovery(RecoveryError),
    /// A checkpoint could not be taken; the one before is still there.
    #[error("cannot take a checkpoint: {0}")]
    Checkpoint(CheckpointError),
    /// The definitions cannot be written into a checkpoint; the one before is still there.
    #[error("cannot take a checkpoint: {0}")]
    Definitions(ImageError),
    /// Another process has the folder.
    #[error("{} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// A folder that must hold a database holds none.
    #[error("{} holds no database: it has no pepoch file", .0.display())]
    NoDatabase(PathBuf),
    /// The folder that a backup is to be written into holds files.
    #[error("cannot write a backup: {} exists already; name a folder that is empty or does not exist", .0.display())]
    BackupTarget(PathBuf),
    /// A log device is locked.
    #[error("log device {} is in use by another database, or is named twice", .0.display())]
    DeviceInUse(PathBuf),
    /// All worker slots are taken.
    #[error("all {0} worker slots are taken: close sessions, or raise the configured number of workers")]
    TooManySessions(usize),
    /// The log can't hold what it is asked to.
    #[error(transparent)]
    InvalidContent(InvalidContent),
    /// The log can't be in the order that is asked for.
    #[error(transparent)]
    InvalidSequencing(InvalidSequencing),
    /// The folder was made with other log devices.
    #[error("the folder was made with the log devices {made:?}, not {asked:?}: open it with those")]
    OtherDevices {
        /// What the folder was made with.
        made: Vec<PathBuf>,
        /// What was asked for.
        asked: Vec<PathBuf>,
    },
}

impl Error {
    /// What an operator can do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Recovery(error) => error.hint(),
            Self::Log(error) | Self::Checkpoint(CheckpointError::Disk(error)) => error.hint(),
            Self::Sql(error) => error.hint.as_deref(),
            Self::Statement(error) => error.error.hint.as_deref(),
            Self::DeviceInUse(_) => Some("Give each logger of each database a folder of its own."),
            Self::OtherDevices { .. } => {
                Some("Mount or link devices that have moved where they were when the database was made.")
            }
            _ => None,
        }
    }

    /// Whether `Config::accept_data_loss` would open the database with what is left.
    pub fn can_be_accepted(&self) -> bool {
        matches!(self, Self::Recovery(error) if error.can_be_accepted())
    }

    /// Whether the disk is full, or no descriptor is left: it may succeed later.
    pub fn is_shortage(&self) -> bool {
        match self {
            Self::Log(error) | Self::Checkpoint(CheckpointError::Disk(error)) => error.is_shortage(),
            _ => false,
        }
    }

    /// PostgreSQL's code for it.
    pub fn sqlstate(&self) -> &str {
        match self {
            Self::Sql(error) => &error.sqlstate,
            Self::Statement(error) => &error.error.sqlstate,
            Self::Log(error) | Self::Checkpoint(CheckpointError::Disk(error)) => error.sqlstate(),
            Self::Checkpoint(_) => "58030",
            Self::Recovery(_) | Self::Definitions(_) => "XX001",
            Self::InUse(_) | Self::DeviceInUse(_) | Self::OtherDevices { .. } => "55006",
            Self::BackupTarget(_) => "58P02",
            Self::NoDatabase(_) => "58P01",
            Self::InvalidContent(_) | Self::InvalidSequencing(_) => "22023",
            Self::TooManySessions(_) => "53300",
        }
    }
}

impl From<SqlError> for Error {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}

impl From<StatementError> for Error {
    fn from(error: StatementError) -> Self {
        Self::Statement(error)
    }
}

impl From<LogError> for Error {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

impl From<InvalidSequencing> for Error {
    fn from(error: InvalidSequencing) -> Self {
        Self::InvalidSequencing(error)
    }
}

impl From<InvalidContent> for Error {
    fn from(error: InvalidContent) -> Self {
        Self::InvalidContent(error)
    }
}
