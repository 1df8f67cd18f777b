//! Sequencing without a centre: each buffer numbers its transactions above what they have read and overwrite.
//! Paper: Poplar §4.2 (SSN, Algorithm 1: `Ssn::after_validation`), §4.3 (DSN and CSN,
//! Algorithm 2: `LogBuffer::take`, `DurableBuffer::flush`).
//!
//! Each closing segment is numbered as high as any other buffer has come, so that a buffer with little to do
//! does not hold back the rest; one with nothing to do is vouched for, or writes an empty batch.
//!
//! Numbers carry the logger whose record counts alone (`LoggerTag`). What has read nothing but what is
//! durable counts alone, and so does what has read, beside that, only what counts alone in its own log, where
//! it comes first: whether the one is durable, the other is, too.
//!
//! Invariants: 1. everything of a buffer up to its durable number is durable. 2. a recovery that reads all
//! loggers' last batches comes to a number at least as great as any that was told to a client. Held by: the
//! models of `model.rs` (loom), and the crash tests of `crates/reprise`.

use super::durability::Bounds;
use super::group::{Group, Scheme};
use super::numbering::{Drawn, Footprint, Numbered, Numbering, Observed};
use crate::buffer::Room;
use crate::content::Stamp;
use crate::error::LogError;
use crate::log_set::LogSet;
use catalog::CommitOrder;
use storage::Slot;

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

#[derive(Debug)]
pub(crate) struct Ssn;

impl Scheme for Ssn {
    fn bounds(group: &Group, _logger: usize) -> Bounds {
        // Memory is reclaimed by epochs.
        group.epochs.advance_from(group.epochs.current());
        Bounds { raise: group.greatest_number(), complete: None }
    }
}

/// Returns what a transaction has observed. Paper: Poplar Algorithm 1, lines 1–4.
fn observed(footprint: &dyn Footprint, tag: Option<LoggerTag>) -> Observed {
    let mut observed = footprint.carried();
    footprint.for_each_version(&mut |number| {
        observed.add(number, tag.is_some_and(|tag| tag.has_alone(number)));
    });
    // A deletion of index entries is in another log, as far as is known.
    footprint.for_each_vacated(&mut |number| observed.add(number, false));
    observed
}

impl Numbering for Ssn {
    fn is_serial(&self) -> bool {
        false
    }

    /// The logger of a worker, where there is one log: with shadow logs, what counts must be in all of them.
    fn tag(&self, logs: &LogSet, worker: Slot) -> Option<LoggerTag> {
        match &*logs.logs {
            [own] => own.log.tag(worker),
            _ => None,
        }
    }

    fn before_validation(&self, _by: Numbered<'_>, footprint: &dyn Footprint) -> Drawn {
        Drawn::Above(footprint.settled_floor())
    }

    /// Paper: Poplar Algorithm 1. Differs: the room of the record is taken once the rows are installed,
    /// because its length is known only then.
    fn after_validation(
        &self,
        by: Numbered<'_>,
        footprint: &dyn Footprint,
        floor: CommitOrder,
        bytes: &dyn Fn(usize) -> usize,
        rooms: &mut Vec<Room>,
    ) -> (Stamp, Result<(), LogError>) {
        let Numbered { logs, worker, tag, .. } = by;
        let observed = observed(footprint, tag);
        // Lines 5–12. What is durable now is so in every recovery; with logs to compare, all that counts must
        // be in all of them.
        let defined = logs.defined();
        let alone = logs.logs.len() == 1 && logs.logs[0].log.durable() >= observed.foreign.max(defined);
        let above = observed.last.max(defined).max(floor);
        let next = |greatest: CommitOrder| match tag {
            Some(tag) => tag.above(greatest.max(above), alone),
            None => CommitOrder(greatest.max(above).0 + 1),
        };
        loop {
            let order = logs.number_with_room(worker, next, bytes, rooms);
            let stamp = Stamp { order, alone };
            if rooms.len() == logs.logs.len() {
                return (stamp, Ok(()));
            }
            let made = logs.logs.iter().try_for_each(|own| own.log.make_room(worker));
            if made.is_err() {
                rooms.clear();
                return (stamp, made);
            }
        }
    }

    fn of_definition(&self, by: Numbered<'_>) -> CommitOrder {
        by.logs.draw(by.worker, super::before(by.epochs))
    }

    fn newest(&self, logs: &LogSet, clock: CommitOrder) -> CommitOrder {
        logs.greatest(clock)
    }
}

impl LogSet {
    /// Raises the number of a worker's buffer in all logs to the `next` one, and takes room for its records
    /// where all have it.
    fn number_with_room(
        &self,
        worker: Slot,
        next: impl Fn(CommitOrder) -> CommitOrder,
        bytes: &dyn Fn(usize) -> usize,
        rooms: &mut Vec<Room>,
    ) -> CommitOrder {
        rooms.clear();
        if let [own] = &*self.logs {
            let latched = own.log.buffer(worker).latch();
            rooms.extend(latched.take_room(bytes(0)));
            return latched.raise(next(latched.number()));
        }
        let latched: Vec<_> = self.logs.iter().map(|own| own.log.buffer(worker).latch()).collect();
        let order = next(latched.iter().map(|own| own.number()).max().unwrap_or_default());
        latched.iter().for_each(|own| {
            own.raise(order);
        });
        if latched.iter().enumerate().all(|(index, own)| own.has_room(bytes(index))) {
            rooms.extend(latched.iter().enumerate().filter_map(|(index, own)| own.take_room(bytes(index))));
        }
        order
    }
}
