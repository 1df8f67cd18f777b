//! Newtypes of numbers that must not be confused.
//!
//! Invariant: a `CommitOrder` has its epoch in the high bits and the sequence inside the epoch in the low 24,
//! so that a cut by epoch is a prefix of the order. Held by: `epoch_is_a_prefix_of_the_order`.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A table's number, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct TableId(pub u32);

/// An index's number, never reused. The primary key of a table is an index too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct IndexId(pub u32);

/// A procedure's number; all its versions share it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ProcedureId(pub u32);

/// A period of group commit. Durability, memory reclamation and snapshots advance by epochs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A transaction's position in the serial order: the epoch in the high bits, the sequence below.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CommitOrder(pub u64);

impl CommitOrder {
    /// Bits that number the transactions inside one epoch.
    pub const SEQUENCE_BITS: u32 = 24;
    /// Workers advance the epoch when its sequence reaches this limit, half of the field, so that concurrent
    /// draws never carry into the epoch.
    pub const SEQUENCE_LIMIT: u64 = 1 << (Self::SEQUENCE_BITS - 1);
    /// Width of a commit order in bits. A record's version word keeps flags in the four bits above.
    pub const BITS: u32 = 60;
    /// Epochs are below this limit.
    pub const EPOCH_LIMIT: u64 = 1 << (Self::BITS - Self::SEQUENCE_BITS);

    /// Returns the first order of an epoch.
    pub const fn first_of(epoch: Epoch) -> Self {
        Self(epoch.0 << Self::SEQUENCE_BITS)
    }

    /// Returns the last order of an epoch.
    pub const fn last_of(epoch: Epoch) -> Self {
        Self(Self::first_of(Epoch(epoch.0 + 1)).0 - 1)
    }

    /// Returns the epoch of this order.
    pub const fn epoch(self) -> Epoch {
        Epoch(self.0 >> Self::SEQUENCE_BITS)
    }

    /// Returns the sequence inside the epoch.
    pub const fn sequence(self) -> u64 {
        self.0 & ((1 << Self::SEQUENCE_BITS) - 1)
    }
}

impl fmt::Display for CommitOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch(), self.sequence())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoch_is_a_prefix_of_the_order() {
        let last_of_seven = CommitOrder::last_of(Epoch(7));
        assert_eq!(last_of_seven.epoch(), Epoch(7));
        assert!(last_of_seven < CommitOrder::first_of(Epoch(8)));
        assert_eq!(last_of_seven.to_string(), "7.16777215");
    }
}
