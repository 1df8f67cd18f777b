//! Checkpoints: all tables, written in parallel while transactions run. A consistent checkpoint shows one
//! moment; a fuzzy one reads each row at a moment of its own.
//! Paper: Poplar §5 (fuzzy).
//!
//! A checkpoint is a manifest in the data folder and parts on the devices. The parts are written and made
//! durable first; replacing the manifest, in one step, publishes the checkpoint. The previous checkpoint
//! stays complete until then.
//! After a crash: the manifest names a complete checkpoint; parts that it does not name are removed.

mod block;
mod directory;
mod error;
mod loader;
mod manifest;
mod part;
mod writer;

pub use error::CheckpointError;
pub use loader::{Check, Discard, Indexes, Load, Rows};
pub use manifest::{Consistency, Definitions, Manifest, NeededLogs, Part};
pub use part::{PartBlocks, PartRow};
pub use writer::{CheckpointSummary, Contents, Destination, Log, Shadow, write};
