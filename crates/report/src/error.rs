//! The errors of experiments.

use std::path::PathBuf;

/// An experiment that cannot run or be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// No experiment has the name.
    #[error("unknown figure \"{name}\"; known are: {known}")]
    UnknownFigure {
        /// The name.
        name: String,
        /// All names.
        known: String,
    },
    /// The folder of the results cannot be used.
    #[error("{}: results cannot be written there: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file of results cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file of results is not what an earlier run has written.
    #[error("{}: it is no file of results: {source}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: serde_json::Error,
    },
    /// A process has failed.
    #[error("`reprise {arguments}` failed: {message}")]
    Process {
        /// Its arguments.
        arguments: String,
        /// Its message.
        message: String,
    },
    /// Two recoveries of one log have come to different states.
    #[error("recoveries of one log have different states: {first}, and {second} by `reprise {arguments}`")]
    StatesDiffer {
        /// The digest of the first recovery.
        first: String,
        /// Another digest.
        second: String,
        /// The arguments of the recovery with the second digest.
        arguments: String,
    },
    /// The drawing failed.
    #[error("{}: it cannot be drawn: {message}", path.display())]
    Drawing {
        /// The file.
        path: PathBuf,
        /// The cause.
        message: String,
    },
}
