//! The log: what is recorded (`content`), in which order and when a commit may be acknowledged
//! (`sequencing`), how it gets onto devices (`buffer`, `logger`, `files`) and off them again (`reader`).
//!
//! All file I/O of the engine goes through `disk`, which has a real back end, one that fails, and one that
//! rebuilds what a crash can leave.

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
    Commit, CommitQueue, Drawn, Footprint, InvalidSequencing, Log, LogStart, LoggerTag, Numbered, Numbering,
    Observed, Sequencing, start,
};
