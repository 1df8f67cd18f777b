//! The errors of log, checkpoint and pepoch files.

use crate::identity::DatabaseId;
use catalog::CommitOrder;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// The kind of a corruption.
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
    /// A number in a sequence is missing.
    #[error("batch {expected} is missing: the next one is {actual}")]
    Hole {
        /// Number expected.
        expected: u64,
        /// Number found.
        actual: u64,
    },
    /// The contents are malformed.
    #[error("{0}")]
    Malformed(&'static str),
    /// The file has a format version that this program does not know.
    #[error("the file has format version {0}, which this program does not know")]
    UnknownVersion(u32),
}

/// Why the files do not prove that a file is complete and belongs to the database.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum UnprovenKind {
    /// The file does not exist, or is empty.
    #[error("is missing or empty, but {} shows that it was written", by.display())]
    Missing {
        /// The file that names it.
        by: PathBuf,
    },
    /// The log ends before a batch that was durable.
    #[error("ends with batch {found}, but {} shows that batch {named} was durable", by.display())]
    EndsEarly {
        /// The last batch found.
        found: u64,
        /// The last batch that another file names.
        named: u64,
        /// The file that names it.
        by: PathBuf,
    },
    /// The file is an earlier version of itself.
    #[error("is older than {}", than.display())]
    Outdated {
        /// A file that was written later.
        than: PathBuf,
    },
    /// The file belongs to another database.
    #[error("belongs to database {found}, not to {expected}")]
    Foreign {
        /// The database of the file.
        found: DatabaseId,
        /// The database of the folder.
        expected: DatabaseId,
    },
    /// The file or device belongs to another logger.
    #[error("belongs to logger {found}, not to logger {expected}")]
    OtherLogger {
        /// The logger of the file.
        found: u32,
        /// The logger of the device.
        expected: u32,
    },
    /// A device of a database that has never written a log has a log.
    #[error("is a log of another database: this one has never been open")]
    Unexpected,
    /// The file belongs to another checkpoint, or is another part of it.
    #[error("is no part of the checkpoint that {} describes", by.display())]
    OtherCheckpoint {
        /// The manifest.
        by: PathBuf,
    },
    /// A batch of calls is durable as a whole, but the log has only a part of it.
    #[error("has only a part of the batch of calls that has the commit order {}", order.0)]
    BrokenBatch {
        /// The order of one of its calls.
        order: CommitOrder,
    },
    /// The log must be replayed, but this release's executor has other semantics.
    #[error("must be replayed under semantics {written}, but this release has semantics {known}")]
    OtherSemantics {
        /// The semantics number in the log.
        written: u32,
        /// The number of this release.
        known: u32,
    },
}

/// An error of the log. Cheap to clone: all commits that wait for the log get it.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum LogError {
    /// The operating system refused an operation.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// The attempted operation.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        error: Arc<io::Error>,
    },
    /// A file is corrupt.
    #[error("{} is damaged at byte {offset}: {kind}", file.display())]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// Offset of the corruption, in bytes.
        offset: u64,
        /// The kind of the corruption.
        kind: CorruptionKind,
    },
    /// The files do not prove that the database is complete and that they belong together.
    #[error("{} {kind}", file.display())]
    Unproven {
        /// The file.
        file: PathBuf,
        /// Offset at which the proof fails, in bytes; 0 for the whole file.
        offset: u64,
        /// The cause.
        kind: UnprovenKind,
    },
    /// The database stopped accepting commits after a failed write.
    #[error(
        "commits are stopped, because the log could not be written ({0}); what was acknowledged is safe: \
         close the database, mend the cause, and open it again"
    )]
    Poisoned(Arc<LogError>),
    /// The log can't grow for now: the disk is full, or no descriptor is left. The transaction has not begun
    /// to commit.
    #[error(
        "commits are refused for now, because the log can't grow ({0}); nothing of this one has happened"
    )]
    NoRoom(Arc<LogError>),
    /// A logger has waited for room longer than its patience. The transaction may become durable later.
    #[error(
        "the log can't be written for now ({0}); what this answer would show is not durable, and is lost \
         if the database ends before it is"
    )]
    Stalled(Arc<LogError>),
    /// A record is larger than a log buffer or a log file.
    #[error("the arguments take {bytes} bytes in the log, more than the {limit} that fit")]
    RecordTooLarge {
        /// Its size, in bytes.
        bytes: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The configured log files are too small.
    #[error("log files of {bytes} bytes are too small: {least} is the least")]
    FilesTooSmall {
        /// The configured size, in bytes.
        bytes: u64,
        /// The minimum size, in bytes.
        least: u64,
    },
}

/// Returns whether the file system, or a quota, has no room.
fn disk_is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Returns whether the process, or the system, has no descriptor left.
fn lacks_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

impl LogError {
    /// Wraps an I/O error.
    pub fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self::Io { action, path: path.into(), error: Arc::new(error) }
    }

    /// Returns whether the cause is a full disk or a lack of descriptors. The operation may succeed later.
    pub fn is_shortage(&self) -> bool {
        match self {
            Self::Io { error, .. } => disk_is_full(error) || lacks_descriptors(error),
            Self::NoRoom(error) | Self::Stalled(error) | Self::Poisoned(error) => error.is_shortage(),
            _ => false,
        }
    }

    /// Returns PostgreSQL's code.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            Self::Io { error, .. } if disk_is_full(error) => "53100",
            Self::Io { error, .. } if lacks_descriptors(error) => "53000",
            Self::NoRoom(error) | Self::Stalled(error) | Self::Poisoned(error) => error.sqlstate(),
            _ => "58030",
        }
    }

    /// Makes a corruption error at an offset of a file.
    pub fn corrupt(file: &Path, offset: u64, kind: CorruptionKind) -> Self {
        Self::Corrupt { file: file.into(), offset, kind }
    }

    /// Makes an error of a file that fails its proof.
    pub fn unproven(file: &Path, offset: u64, kind: UnprovenKind) -> Self {
        Self::Unproven { file: file.into(), offset, kind }
    }

    /// Returns whether the database can continue with the state before the fault, if its operator accepts the
    /// loss of the later records.
    pub fn can_be_accepted(&self) -> bool {
        matches!(
            self,
            Self::Corrupt { .. }
                | Self::Unproven { kind: UnprovenKind::Missing { .. } | UnprovenKind::EndsEarly { .. }, .. }
        )
    }

    /// Returns the remedy for an operator.
    pub fn hint(&self) -> Option<&'static str> {
        match self.sqlstate() {
            "53100" => return Some("Free disk space, or take a checkpoint, which frees the log behind it."),
            "53000" => return Some("Raise the limit of open files, or close connections."),
            _ => {}
        }
        let Self::Unproven { kind, .. } = self else {
            return matches!(self, Self::Corrupt { .. })
                .then_some("Restore the file from a copy taken at the same moment as the other files.");
        };
        Some(match kind {
            UnprovenKind::Missing { .. } | UnprovenKind::EndsEarly { .. } => {
                "Mount the device that holds the file, or restore all files of the database from one moment."
            }
            UnprovenKind::Outdated { .. }
            | UnprovenKind::OtherCheckpoint { .. }
            | UnprovenKind::BrokenBatch { .. } => {
                "Restore all files of the database, on all devices, from one moment."
            }
            UnprovenKind::Foreign { .. } | UnprovenKind::OtherLogger { .. } | UnprovenKind::Unexpected => {
                "Mount each device where it was when the database was made; a log device belongs to one \
                 database."
            }
            UnprovenKind::OtherSemantics { .. } => {
                "Open the database with the release that wrote it and stop it cleanly: its last checkpoint \
                 leaves nothing to replay."
            }
        })
    }
}
