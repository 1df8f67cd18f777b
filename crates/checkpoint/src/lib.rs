//! Checkpoints: a consistent snapshot of all tables, written in parallel while transactions go on.
//! Source: DESIGN §7 (consistent), §6.1 (files readable by their owner only).
//!
//! A checkpoint is a manifest in the data folder and parts on the devices. The parts are written and made durable
//! first; replacing the manifest, in one step, publishes the checkpoint. The one before stays whole until then.
//! After a crash: the manifest names a complete checkpoint; parts that it does not name are left over and removed.

mod error;
mod loader;
mod manifest;
mod part;
mod writer;

pub use error::CheckpointError;
pub use loader::{Indexes, Rows, load};
pub use manifest::{Manifest, Part};
pub use part::PartRow;
pub use writer::{CheckpointSummary, write};
