//! The errors of a database, with their SQLSTATEs and hints.

use checkpoint::CheckpointError;
use logging::content::InvalidContent;
use logging::{InvalidSequencing, LogError};
use procedure::{ErrorObject, SqlError};
use recovery::RecoveryError;
use sql::{ImageError, StatementError};
use std::path::PathBuf;
use thiserror::Error;

/// An error of the database.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A statement or call failed, or raised an exception. It has no effect.
    #[error("{} (SQLSTATE {})", .0.message, .0.sqlstate)]
    Sql(SqlError),
    /// A statement was refused at a line and column of its text. It has no effect.
    #[error("{refused} (SQLSTATE {state})", refused = .0, state = .0.error.sqlstate)]
    Statement(StatementError),
    /// A prepared statement has rows or parameters of other types under the current definitions. Nothing has
    /// run. A statement that is prepared again runs.
    #[error("cached plan must not change result type")]
    Outdated,
    /// The log failed. It is unknown whether the current transaction is durable, except after
    /// `LogError::NoRoom`: then it has no effect.
    #[error(transparent)]
    Log(LogError),
    /// The database could not be recovered. No file was changed.
    #[error("cannot recover: {0}")]
    Recovery(RecoveryError),
    /// A checkpoint could not be taken. The previous one still exists.
    #[error("cannot take a checkpoint: {0}")]
    Checkpoint(CheckpointError),
    /// The definitions cannot be written into a checkpoint. The previous one still exists.
    #[error("cannot take a checkpoint: {0}")]
    Definitions(ImageError),
    /// Another process has the folder open.
    #[error("{} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// A folder that must hold a database holds none.
    #[error("{} holds no database: it has no pepoch file", .0.display())]
    NoDatabase(PathBuf),
    /// The target folder of a backup holds this file.
    #[error("cannot write a backup: {} already exists", .0.display())]
    BackupTarget(PathBuf),
    /// Another database holds the lock of a log device, or the configuration names the device twice.
    #[error("log device {} is in use by another database, or is named twice", .0.display())]
    DeviceInUse(PathBuf),
    /// All workers are in use.
    #[error("all {0} workers are in use")]
    TooManySessions(usize),
    /// The settings of the log's content contradict each other.
    #[error(transparent)]
    InvalidContent(InvalidContent),
    /// The sequencing does not support the content or the number of devices.
    #[error(transparent)]
    InvalidSequencing(InvalidSequencing),
    /// The database was created with other log devices.
    #[error("the folder was made with the log devices {made:?}, not {asked:?}")]
    OtherDevices {
        /// The devices that the pepoch file names.
        made: Vec<PathBuf>,
        /// The devices that the configuration names.
        asked: Vec<PathBuf>,
    },
}

impl Error {
    /// Returns the remedy, if there is one.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Recovery(error) => error.hint(),
            Self::Log(error) | Self::Checkpoint(CheckpointError::Disk(error)) => error.hint(),
            Self::Outdated => Some("Prepare the statement again."),
            Self::BackupTarget(_) => Some("Name a folder that is empty or does not exist."),
            Self::DeviceInUse(_) => Some("Give each logger of each database a separate folder."),
            Self::TooManySessions(_) => Some("Close sessions, or raise the configured number of workers."),
            Self::OtherDevices { .. } => Some(
                "Open the database with the devices of its creation. Mount or link moved devices at their \
                 former paths.",
            ),
            _ => self.sql().and_then(|error| error.hint.as_deref()),
        }
    }

    /// Returns further facts, if there are any.
    pub fn detail(&self) -> Option<&str> {
        self.sql().and_then(|error| error.detail.as_deref())
    }

    /// Returns the table, and the column or constraint, that the error is about, if it is about one.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// session.execute_script("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1);")?;
    /// let error = session.execute("INSERT INTO t VALUES (1)", params![]).unwrap_err();
    /// assert_eq!(error.detail(), Some("Key (id)=(1) already exists."));
    /// assert_eq!(error.object().map(|object| object.constraint.as_str()), Some("t_pkey"));
    /// # Ok(()) }
    /// ```
    pub fn object(&self) -> Option<&ErrorObject> {
        self.sql().and_then(|error| error.object.as_deref())
    }

    fn sql(&self) -> Option<&SqlError> {
        match self {
            Self::Sql(error) => Some(error),
            Self::Statement(error) => Some(&error.error),
            _ => None,
        }
    }

    /// Returns whether `Config::accept_data_loss` would open the newest state before the loss.
    pub fn can_be_accepted(&self) -> bool {
        matches!(self, Self::Recovery(error) if error.can_be_accepted())
    }

    /// Returns whether the disk is full or no file descriptor is free: a later attempt may succeed.
    pub fn is_shortage(&self) -> bool {
        match self {
            Self::Log(error) | Self::Checkpoint(CheckpointError::Disk(error)) => error.is_shortage(),
            _ => false,
        }
    }

    /// Returns the SQLSTATE, as PostgreSQL defines it.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// session.execute_script("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1);")?;
    /// let error = session.execute("INSERT INTO t VALUES (1)", params![]).unwrap_err();
    /// assert_eq!(error.sqlstate(), "23505"); // unique_violation
    /// # Ok(()) }
    /// ```
    pub fn sqlstate(&self) -> &str {
        match self {
            Self::Sql(error) => &error.sqlstate,
            Self::Statement(error) => &error.error.sqlstate,
            Self::Log(error) | Self::Checkpoint(CheckpointError::Disk(error)) => error.sqlstate(),
            Self::Checkpoint(_) => "58030",
            Self::Recovery(_) | Self::Definitions(_) => "XX001",
            Self::Outdated => "0A000",
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
