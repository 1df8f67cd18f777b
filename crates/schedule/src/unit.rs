//! Units: what runs as one, of one transaction.

/// A piece, a round of a piece, or a write by value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unit {
    /// The index of the transaction in the batch.
    pub(crate) transaction: u32,
    /// The number of the round, 0 for a whole piece; or the offset of the write, in bytes.
    pub(crate) index: u32,
}

impl Unit {
    /// Returns a number that ascends in the order in which units of a partition run.
    #[inline]
    pub(crate) fn key(self) -> u64 {
        u64::from(self.transaction) << 32 | u64::from(self.index)
    }
}
