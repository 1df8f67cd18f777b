//! Unlinked blocks that other workers may still see, in the order in which they can be freed.
//!
//! The worker reads the epoch once for many blocks, because each read needs a fence.
//!
//! Invariant: a block's epoch is not older than the one in which it was unlinked. Held by: `stamp`, and
//! `worker::tests::retired_blocks_wait_for_readers`.

use crate::Epochs;
use catalog::Epoch;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};

/// The address of an unlinked block, and its size in bytes.
type Block = (usize, usize);

/// The queue of one worker, or of a memory whose workers were dropped.
#[derive(Default, Debug)]
pub(crate) struct Retired {
    blocks: VecDeque<Block>,
    /// Epochs and the number of blocks that each one covers, oldest first.
    stamps: VecDeque<(Epoch, usize)>,
    /// Number of the newest blocks, which have no epoch yet.
    fresh: usize,
    /// Total size of the blocks, in bytes.
    bytes: usize,
}

impl Retired {
    /// Adds a block that was just unlinked.
    #[inline]
    pub(crate) fn push(&mut self, block: NonNull<u64>, bytes: usize) {
        self.blocks.push_back((block.as_ptr().expose_provenance(), bytes));
        self.fresh += 1;
        self.bytes += bytes;
    }

    /// Returns the total size of the blocks, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of blocks.
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Assigns the current epoch to the newest blocks.
    pub(crate) fn stamp(&mut self, epochs: &Epochs) {
        if self.fresh == 0 {
            return;
        }
        // ORDERING: the fence puts the unlinking of the blocks before the read of the clock, so that a worker
        // that enters in a later epoch sees it.
        fence(Ordering::SeqCst);
        let fresh = std::mem::take(&mut self.fresh);
        self.add_stamp((epochs.current(), fresh));
    }

    fn add_stamp(&mut self, (epoch, count): (Epoch, usize)) {
        match self.stamps.back_mut() {
            // A later epoch keeps a block longer, never shorter.
            Some((newest, blocks)) if *newest >= epoch => *blocks += count,
            _ => self.stamps.push_back((epoch, count)),
        }
    }

    /// Takes the oldest block, if it was unlinked before the epoch `oldest`.
    pub(crate) fn pop_before(&mut self, oldest: Epoch) -> Option<(NonNull<u64>, usize)> {
        let (epoch, count) = self.stamps.front_mut()?;
        if *epoch >= oldest {
            return None;
        }
        *count -= 1;
        if *count == 0 {
            self.stamps.pop_front();
        }
        let (block, bytes) = self.blocks.pop_front()?;
        self.bytes -= bytes;
        let block = NonNull::new(std::ptr::with_exposed_provenance_mut(block)).expect("a block is not null");
        Some((block, bytes))
    }

    /// Takes over the blocks of another worker, which all have epochs.
    pub(crate) fn append(&mut self, other: &mut Self) {
        debug_assert_eq!((self.fresh, other.fresh), (0, 0));
        self.blocks.append(&mut other.blocks);
        self.bytes += std::mem::take(&mut other.bytes);
        other.stamps.drain(..).for_each(|stamp| self.add_stamp(stamp));
    }
}
