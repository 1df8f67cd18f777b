//! Blocks that are unlinked, but that other workers may still see: in the order in which they can be freed.
//!
//! An epoch is read once for many blocks, as a fence must come first.
//!
//! Invariant: a block's epoch is not older than the one in which it was unlinked. Held by: `stamp`, and
//! `worker::tests::retired_blocks_wait_for_readers`.

use crate::Epochs;
use catalog::Epoch;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};

/// The address of an unlinked block, and how many bytes it has.
type Block = (usize, usize);

/// The queue of one worker, or of a memory whose workers are gone.
#[derive(Default, Debug)]
pub(crate) struct Retired {
    blocks: VecDeque<Block>,
    /// How many blocks have an epoch: oldest first.
    stamps: VecDeque<(Epoch, usize)>,
    /// How many blocks, the newest, have none yet.
    fresh: usize,
    /// Of all blocks.
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

    /// How many bytes the blocks have.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many blocks there are.
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Gives the newest blocks their epoch.
    pub(crate) fn stamp(&mut self, epochs: &Epochs) {
        if self.fresh == 0 {
            return;
        }
        // ORDERING: the blocks are unlinked before the clock is read, so that a worker that begins in a later
        // epoch sees it.
        fence(Ordering::SeqCst);
        let fresh = std::mem::take(&mut self.fresh);
        self.add_stamp((epochs.current(), fresh));
    }

    fn add_stamp(&mut self, (epoch, count): (Epoch, usize)) {
        match self.stamps.back_mut() {
            // A later epoch than its own keeps a block longer, never shorter.
            Some((newest, blocks)) if *newest >= epoch => *blocks += count,
            _ => self.stamps.push_back((epoch, count)),
        }
    }

    /// Takes the oldest block, if it was unlinked before an epoch.
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

    /// Takes over the blocks of another worker, all of which have their epochs.
    pub(crate) fn append(&mut self, other: &mut Self) {
        debug_assert_eq!((self.fresh, other.fresh), (0, 0));
        self.blocks.append(&mut other.blocks);
        self.bytes += std::mem::take(&mut other.bytes);
        other.stamps.drain(..).for_each(|stamp| self.add_stamp(stamp));
    }
}
