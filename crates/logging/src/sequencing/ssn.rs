//! Sequencing without a centre: each buffer numbers its transactions above the versions that they read and
//! overwrite.
//! Paper: Poplar §4.2 (SSN, Algorithm 1: `Poplar::after_validation`), §4.3 (DSN and CSN, Algorithm 2:
//! `LogBuffer::take`, `DurableBuffer::flush`).
//!
//! Each closing segment is numbered at least as high as any other buffer, so that a slow buffer does not hold
//! back the rest. An idle buffer is vouched for, or writes an empty batch.
//!
//! Numbers carry the logger whose record counts alone (`LoggerTag`). A transaction counts alone if each
//! version that it read is durable, or is of a transaction that counts alone in the same log. That
//! transaction comes first in the log, so it is durable whenever the reader is.
//!
//! Invariants: 1. all records of a buffer up to its durable number are durable. 2. a recovery from all
//! loggers' last batches reaches a number at least as great as any that a client was told. Held by: the
//! models of `model.rs` (loom), and the crash tests of `crates/reprise`.

use super::durability::Bounds;
use super::group::{Group, LoggerGroup, Scheme};
use super::numbering::{Drawn, Footprint, Numbered, Numbering, Observed};
use super::numbers::Ssn;
use super::{Entry, InvalidSequencing};
use crate::buffer::Room;
use crate::content::{Content, Images, Stamp};
use crate::error::LogError;
use crate::log_set::LogSet;
use catalog::CommitOrder;
use storage::Slot;

/// Width of the logger's tag in a number, in bits.
const TAG_BITS: u32 = 4;
/// Bit that is set if the transaction counts alone.
const ALONE: u64 = 1;

/// A logger's tag in the numbers of its transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoggerTag(u64);

impl LoggerTag {
    /// Returns the tag of a logger; `None` when the logger's index does not fit.
    pub fn of(logger: usize) -> Option<Self> {
        let tag = (logger as u64) << 1;
        (tag >> TAG_BITS == 0).then_some(Self(tag))
    }

    /// Returns the least number of this logger above `number`.
    #[inline]
    pub fn above(self, number: CommitOrder, alone: bool) -> CommitOrder {
        let next = (number.0 >> TAG_BITS) + 1;
        CommitOrder(next << TAG_BITS | self.0 | if alone { ALONE } else { 0 })
    }

    /// Returns whether a number is of a transaction that counts alone in this logger's log.
    #[inline]
    pub fn has_alone(self, number: CommitOrder) -> bool {
        number.0 & ((1 << TAG_BITS) - 1) == self.0 | ALONE
    }
}

/// The sequencing `ssn`.
pub(super) const SSN: Entry = Entry {
    name: "ssn",
    numbering: &Poplar,
    start: |start| Ok(Box::new(LoggerGroup::start::<Poplar>(start)?)),
    refuses: |content, images| match content {
        Content::Command | Content::Adaptive | Content::Physiological => {
            Some(InvalidSequencing::SsnOrdersNoReads(content))
        }
        _ if content.needs_batches() => Some(InvalidSequencing::EpochOfBatches(content)),
        Content::Logical if images == Images::Columns => Some(InvalidSequencing::SsnOfColumns),
        _ => None,
    },
    most_devices: usize::MAX,
};

#[derive(Debug)]
pub(crate) struct Poplar;

impl Scheme for Poplar {
    fn bounds(group: &Group, _logger: usize) -> Bounds {
        // Memory is reclaimed by epochs.
        group.epochs.advance_from(group.epochs.current());
        Bounds { raise: group.greatest_number(), complete: None }
    }
}

/// Returns the numbers that a transaction has observed. Paper: Poplar Algorithm 1, lines 1–4.
fn observed(footprint: &dyn Footprint, tag: Option<LoggerTag>) -> Observed {
    let mut observed = footprint.carried();
    footprint.for_each_version(&mut |number| {
        observed.add(number, tag.is_some_and(|tag| tag.has_alone(number)));
    });
    // Index entries do not name a log, so their deletion counts as another log's.
    footprint.for_each_vacated(&mut |number| observed.add(number, false));
    observed
}

impl Numbering for Poplar {
    fn is_serial(&self) -> bool {
        false
    }

    /// Returns the tag of a worker's logger if there is one log. With shadow logs, a record must be durable
    /// in all of them to count.
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
        // Lines 5–12. A version that is durable now is in every recovery. With shadow logs, a record must be
        // durable in all of them to count.
        let defined = logs.defined();
        let alone = logs.logs.len() == 1 && logs.logs[0].log.durable().covers(observed.foreign.max(defined));
        let above = observed.last.max(defined).max(floor);
        let next = |greatest: CommitOrder| match tag {
            Some(tag) => Ssn(tag.above(greatest.max(above), alone)),
            None => Ssn(CommitOrder(greatest.max(above).0 + 1)),
        };
        loop {
            let order = logs.number_with_room(worker, next, bytes, rooms).order();
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
        by.logs.draw(by.worker, super::before(by.epochs)).order()
    }

    fn newest(&self, logs: &LogSet, clock: CommitOrder) -> CommitOrder {
        logs.greatest(clock)
    }
}

impl LogSet {
    /// Raises the number of a worker's buffer to `next` in all logs, and takes room for its records if all
    /// logs have room.
    fn number_with_room(
        &self,
        worker: Slot,
        next: impl Fn(CommitOrder) -> Ssn,
        bytes: &dyn Fn(usize) -> usize,
        rooms: &mut Vec<Room>,
    ) -> Ssn {
        rooms.clear();
        if let [own] = &*self.logs {
            let latched = own.log.buffer(worker).latch();
            rooms.extend(latched.take_room(bytes(0)));
            return Ssn(latched.raise(next(latched.number()).order()));
        }
        let latched: Vec<_> = self.logs.iter().map(|own| own.log.buffer(worker).latch()).collect();
        let order = next(latched.iter().map(|own| own.number()).max().unwrap_or_default());
        latched.iter().for_each(|own| {
            own.raise(order.order());
        });
        if latched.iter().enumerate().all(|(index, own)| own.has_room(bytes(index))) {
            rooms.extend(latched.iter().enumerate().filter_map(|(index, own)| own.take_room(bytes(index))));
        }
        order
    }
}
