//! Fingers: where a worker has inserted last, so that a run of ascending inserts descends once.
//! Source: finger search (Guibas et al., STOC 1977).
//!
//! A worker often inserts behind several keys in turn: orders of one customer after orders of another one. So
//! it has a finger for each first word of keys, as long as they do not share a cell.

use super::key::{MAX_WORDS, Probe};
use super::node::NodeAddress;
use crate::latch::Version;
use crate::worker::Stay;

/// Number of cells.
const CELLS: usize = 64;

/// The parent and the leaf of a key, valid while the parent does not change, in the same stay only.
#[derive(Clone, Copy, Debug)]
pub struct Approach {
    pub(super) parent: NodeAddress,
    pub(super) version: Version,
    pub(super) leaf: NodeAddress,
    /// The number of their tree.
    pub(super) tree: u64,
    pub(super) stay: Stay,
}

/// The position of a worker's last insert.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finger {
    pub(super) approach: Approach,
    pub(super) last: [u64; MAX_WORDS],
    pub(super) fence: Option<[u64; MAX_WORDS]>,
}

/// The positions of a worker's last inserts. Each counts in its index and in its stay only.
#[derive(Default, Debug)]
pub struct Fingers {
    /// Empty until the first insert.
    cells: Vec<Option<Finger>>,
}

impl Fingers {
    /// Returns the cell of the inserts into a tree beside a key.
    #[inline]
    pub(super) fn cell(&mut self, tree: u64, probe: &Probe<'_>) -> &mut Option<Finger> {
        if self.cells.is_empty() {
            self.cells.resize(CELLS, None);
        }
        let mixed = (tree << 32 ^ probe.leading_word()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &mut self.cells[(mixed >> (u64::BITS - CELLS.trailing_zeros())) as usize]
    }
}
