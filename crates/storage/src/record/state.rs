//! The state word of a record.

use crate::Slot;
use catalog::CommitOrder;

pub(super) const LOCKED: u64 = 1 << 63;
pub(super) const ABSENT: u64 = 1 << 62;
pub(super) const DEAD: u64 = 1 << 61;
/// The record is in a worker's cleanup list.
pub(super) const QUEUED: u64 = 1 << 60;
const _: () = assert!(CommitOrder::BITS == 60);

/// A record's version: the order of the transaction that wrote it, and whether the row exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordState(pub(super) u64);

impl RecordState {
    /// Returns the state after a transaction wrote a row.
    pub fn present(order: CommitOrder) -> Self {
        Self(order.0)
    }

    /// Returns the state after a transaction deleted the row.
    pub fn absent(order: CommitOrder) -> Self {
        Self(order.0 | ABSENT)
    }

    /// Returns the order of the transaction that wrote this version.
    #[inline]
    pub fn order(self) -> CommitOrder {
        CommitOrder(self.0 & (QUEUED - 1))
    }

    /// Returns whether the row is absent.
    #[inline]
    pub fn is_absent(self) -> bool {
        self.0 & ABSENT != 0
    }

    /// Returns this state with the cleanup flag set or cleared.
    #[must_use]
    pub fn with_queued(self, queued: bool) -> Self {
        Self(if queued { self.0 | QUEUED } else { self.0 & !QUEUED })
    }

    /// Returns whether a worker will visit the record again to clean it up.
    pub fn is_queued(self) -> bool {
        self.0 & QUEUED != 0
    }

    /// Returns whether the record has ever held a committed row.
    #[inline]
    pub fn was_present(self) -> bool {
        self.order().0 > 0 && self.inserter().is_none()
    }

    /// Returns the worker whose running transaction inserted the record.
    #[inline]
    pub fn inserter(self) -> Option<Slot> {
        let is_uncommitted = self.is_absent() && !self.is_dead() && self.order().epoch().0 == 0;
        is_uncommitted
            .then(|| self.order().sequence().checked_sub(1).map(|slot| Slot(slot as usize)))
            .flatten()
    }

    /// Returns whether the record is leaving its indexes for good.
    #[inline]
    pub fn is_dead(self) -> bool {
        self.0 & DEAD != 0
    }
}

/// The state of a new record when other workers first find it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewState(pub(super) u64);

impl NewState {
    /// Absent, and locked by its creator.
    pub const LOCKED: Self = Self(ABSENT | LOCKED);

    /// Returns the state of a row that is absent until a worker's transaction commits. The worker's slot
    /// stands in the place of the order, which it cannot equal, because commit orders begin with epoch 1.
    #[inline]
    pub fn uncommitted(worker: Slot) -> Self {
        Self(ABSENT | (worker.0 as u64 + 1))
    }

    /// Returns the state of a committed row.
    pub fn committed(state: RecordState) -> Self {
        Self(state.0)
    }
}
