//! What can go wrong with log, checkpoint and pepoch files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// How bytes on a disk are wrong.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum CorruptionKind {
    /// A checksum does not match.
    #[error("the checksum does not match")]
    Checksum,
    /// The file ends before it should.
    #[error("the file is {actual} bytes long, but its header says {expected}")]
    Truncated {
        /// Length found.
        actual: u64,
        /// Length expected.
        expected: u64,
    },
    /// Something is missing in the middle.
    #[error("batch {expected} is missing: the next one is {actual}")]
    Hole {
        /// Number expected.
        expected: u64,
        /// Number found.
        actual: u64,
    },
    /// The contents make no sense.
    #[error("{0}")]
    Malformed(&'static str),
    /// The file was written by a version that this program does not know.
    #[error("the file has format version {0}, which this program does not know")]
    UnknownVersion(u32),
}

/// An error of the log. Cheap to clone: all who wait for a commit get it.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum LogError {
    /// The operating system refused an operation.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        error: Arc<io::Error>,
    },
    /// Bytes on a disk are wrong.
    #[error("{} is damaged at byte {offset}: {kind}", file.display())]
    Corrupt {
        /// Which file.
        file: PathBuf,
        /// Where in it.
        offset: u64,
        /// How.
        kind: CorruptionKind,
    },
    /// The database stopped accepting commits after a failed write.
    #[error(
        "commits are stopped, because the log could not be written ({0}); what was acknowledged is safe: close the database, mend the cause, and open it again"
    )]
    Poisoned(Arc<LogError>),
    /// A record is larger than a log buffer or a log file.
    #[error("the arguments take {bytes} bytes in the log, more than the {limit} that fit")]
    RecordTooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Log files of this size hold next to nothing.
    #[error("log files of {bytes} bytes are too small: {least} is the least")]
    FilesTooSmall {
        /// The size asked for.
        bytes: u64,
        /// The least size.
        least: u64,
    },
}

impl LogError {
    /// Wraps an I/O error.
    pub fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self::Io { action, path: path.into(), error: Arc::new(error) }
    }

    /// Bytes at an offset are wrong.
    pub fn corrupt(file: &Path, offset: u64, kind: CorruptionKind) -> Self {
        Self::Corrupt { file: file.into(), offset, kind }
    }
}
