//! The modes of locks: which of them conflict, and which imply each other.
//! Source: Gray et al., Granularity of Locks in a Shared Data Base, 1976.
//! Held by: `modes_conflict_as_published` (`tests.rs`).

/// The modes in which a transaction holds a lock: a set of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mode(u8);

impl Mode {
    /// The transaction holds shared locks on granules below this one.
    pub const INTENT_SHARED: Self = Self(1);
    /// The transaction holds exclusive locks on granules below this one.
    pub const INTENT_EXCLUSIVE: Self = Self(2);
    /// The transaction reads the granule.
    pub const SHARED: Self = Self(4);
    /// The transaction writes the granule.
    pub const EXCLUSIVE: Self = Self(8);

    /// Returns whether two transactions cannot hold these modes at one time.
    pub(in crate::holds) fn conflicts(self, other: Self) -> bool {
        let among = |mode: Self, all: u8| self.0 & mode.0 != 0 && other.0 & all != 0;
        among(Self::INTENT_SHARED, 8)
            || among(Self::INTENT_EXCLUSIVE, 4 | 8)
            || among(Self::SHARED, 2 | 8)
            || among(Self::EXCLUSIVE, 1 | 2 | 4 | 8)
    }

    /// Returns whether a transaction with these modes needs no other one for `mode`.
    pub(crate) fn covers(self, mode: Self) -> bool {
        let implied = match self.0 {
            held if held & 8 != 0 => 1 | 2 | 4 | 8,
            held if held & 4 != 0 => held | 1,
            held if held & 2 != 0 => held | 1,
            held => held,
        };
        implied & mode.0 == mode.0
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
