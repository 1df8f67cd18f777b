//! Newtypes of the numbers that must never be mixed up.
//!
//! Invariant: a `CommitOrder` holds its epoch in the high bits and the place inside the epoch in the
//! low 24, so that a cut by epoch is a prefix of the order. Held by: `epoch_is_a_prefix_of_the_order`.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A table's number, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct TableId(pub u32);

/// An index's number, never reused; the primary key of a table is an index too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct IndexId(pub u32);

/// A procedure's number, the same for all its versions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ProcedureId(pub u32);

/// A period of group commit: durability, memory reclamation and snapshots advance by epochs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A transaction's place in the serial order: epoch in the high bits, sequence below.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CommitOrder(pub u64);

impl CommitOrder {
    /// Bits that number the transactions inside one epoch.
    pub const SEQUENCE_BITS: u32 = 24;
    /// Orders of one epoch are kept below half of what fits, so that concurrent draws never carry into the
    /// epoch.
    pub const SEQUENCE_LIMIT: u64 = 1 << (Self::SEQUENCE_BITS - 1);
    /// Bits that a commit order uses in all; the four above are flags of a record's version word.
    pub const BITS: u32 = 60;
    /// Epochs stay below this.
    pub const EPOCH_LIMIT: u64 = 1 << (Self::BITS - Self::SEQUENCE_BITS);

    /// The first place of an epoch.
    pub const fn first_of(epoch: Epoch) -> Self {
        Self(epoch.0 << Self::SEQUENCE_BITS)
    }

    /// The last place of an epoch.
    pub const fn last_of(epoch: Epoch) -> Self {
        Self(Self::first_of(Epoch(epoch.0 + 1)).0 - 1)
    }

    /// The epoch that this place lies in.
    pub const fn epoch(self) -> Epoch {
        Epoch(self.0 >> Self::SEQUENCE_BITS)
    }

    /// The place inside the epoch.
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
