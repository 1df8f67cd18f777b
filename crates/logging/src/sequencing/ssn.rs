//! Sequencing without a centre: each buffer numbers its transactions above what they have read and overwrite.
//! Paper: Poplar §4.2 (SSN, Algorithm 1: `LogBuffer::latch`, `Latched::raise`, `Latched::take_room`), §4.3 (DSN and CSN,
//! Algorithm 2: `LogBuffer::take`, `DurableBuffer::flush`).
//!
//! Each closing segment is numbered as high as any other buffer has come, so that a buffer with little to do does not hold
//! back the rest; one with nothing to do is vouched for, or writes an empty batch (DESIGN §6.3, trap 1).
//!
//! Invariants: 1. everything of a buffer up to its durable number is durable. 2. a recovery that reads all loggers' last
//! batches comes to a number at least as great as any that was told to a client. Held by: the models of `model.rs` (loom),
//! and the crash tests of `crates/reprise`.

use super::durability::Bounds;
use super::group::{Group, Scheme};

pub(super) struct Ssn;

impl Scheme for Ssn {
    fn bounds(group: &Group, _logger: usize) -> Bounds {
        // Memory is reclaimed by epochs.
        group.epochs.advance_from(group.epochs.current());
        Bounds { raise: group.greatest_number(), complete: None }
    }
}
