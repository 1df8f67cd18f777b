//! The log: contents of records (`content`), their durability order and the acknowledgement of commits
//! (`sequencing`), writing to devices (`buffer`, `logger`, `files`) and reading from them (`reader`).
//!
//! All file I/O of the engine goes through `disk`, which has a real back end, one that fails, and one that
//! builds the state after a crash.

mod buffer;
pub mod content;
pub mod disk;
mod error;
mod files;
mod identity;
mod large;
mod log_set;
mod logger;
mod pepoch;
mod reader;
mod sealed;
mod sectors;
mod sequencing;
mod shortage;
mod sync;
mod threads;

pub use buffer::{Latched, LogBuffer, Room};
pub use content::Content;
pub use error::{CorruptionKind, LogError, UnprovenKind};
pub use files::{FileId, LogRange};
pub use identity::{DatabaseId, DeviceMarker, lock_device};
pub use large::{LargeFile, LargeRecords, read_large};
pub use log_set::{
    DefinitionRecords, FormattedLog, LogSet, LogSetStart, RecordFormat, companions, remove_shadows,
};
pub use logger::{LogConfig, LogStatistics};
pub use pepoch::{Incarnation, LogEnd, PepochFile, PepochKeeper};
pub use reader::{
    Batch, LogTail, LoggerLog, Records, durable_up_to, read_device, read_device_where, read_ends,
};
pub use sequencing::{
    AccessNumbers, Commit, CommitQueue, Csn, Drawn, Dsn, Footprint, Gsn, InvalidSequencing, Log, LogStart,
    LoggerTag, Lsn, Numbered, Numbering, Observed, Readable, Sequencing, Ssn, start,
};
pub use threads::on_threads;
