//! Sequencing without a centre: each buffer numbers its transactions above what they have read and overwrite.
//! Paper: Poplar §4.2 (SSN, Algorithm 1: `LogBuffer::latch`, `Latched::raise`, `Latched::take_room`), §4.3 (DSN and CSN,
//! Algorithm 2: `LogBuffer::take`, `DurableBuffer::flush`).
//!
//! Each closing segment is numbered as high as any other buffer has come, so that a buffer with little to do does not hold
//! back the rest; one with nothing to do is vouched for, or writes an empty batch (DESIGN §6.3, trap 1).
//!
//! Numbers carry the logger whose record counts alone (`LoggerTag`). What has read nothing but what is durable counts alone,
//! and so does what has read, beside that, only what counts alone in its own log, where it comes first: whether the one is
//! durable, the other is, too.
//!
//! Invariants: 1. everything of a buffer up to its durable number is durable. 2. a recovery that reads all loggers' last
//! batches comes to a number at least as great as any that was told to a client. Held by: the models of `model.rs` (loom),
//! and the crash tests of `crates/reprise`.

use super::durability::Bounds;
use super::group::{Group, Scheme};
use catalog::CommitOrder;

/// Bits of a number that say whose it is.
const TAG_BITS: u32 = 4;
/// Set where the transaction counts alone.
const ALONE: u64 = 1;

/// A logger as the numbers of its transactions name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoggerTag(u64);

impl LoggerTag {
    /// The tag of a logger; `None` when there are more than fit.
    pub fn of(logger: usize) -> Option<Self> {
        let tag = (logger as u64) << 1;
        (tag >> TAG_BITS == 0).then_some(Self(tag))
    }

    /// The least number of this logger that is above another one.
    #[inline]
    pub fn above(self, number: CommitOrder, alone: bool) -> CommitOrder {
        let next = (number.0 >> TAG_BITS) + 1;
        CommitOrder(next << TAG_BITS | self.0 | if alone { ALONE } else { 0 })
    }

    /// Whether a number is of a transaction that counts alone in the log of this logger.
    #[inline]
    pub fn has_alone(self, number: CommitOrder) -> bool {
        number.0 & ((1 << TAG_BITS) - 1) == self.0 | ALONE
    }
}

pub(super) struct Ssn;

impl Scheme for Ssn {
    fn bounds(group: &Group, _logger: usize) -> Bounds {
        // Memory is reclaimed by epochs.
        group.epochs.advance_from(group.epochs.current());
        Bounds { raise: group.greatest_number(), complete: None }
    }
}
