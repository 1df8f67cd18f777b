//! What can go wrong with a checkpoint.

use logging::LogError;
use storage::OutOfMemory;
use thiserror::Error;

/// An error of writing or loading a checkpoint.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The disk failed, or a file is damaged.
    #[error(transparent)]
    Disk(#[from] LogError),
    /// The rows do not fit the configured memory.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
    /// All worker slots are taken.
    #[error("all workers are in use")]
    NoWorker,
}
