//! A tree node: 1,024 bytes of atomic words, the same for inner nodes and leaves and for every key shape.
//!
//! Layout: latch, shape (count, whether the node is narrow, level), leftmost child, prefix, then slots of
//! (key words, value). An inner slot's value is the child to the right of its key. A narrow leaf has keys
//! with one first word, which stands in the prefix and not in the slots, so that more of them fit.
//!
//! Invariants: 1. words change only under the latch. 2. the count never exceeds the capacity, torn reads
//! included, as count and narrowness are one word, which a reader reads once (`Slots`). 3. a pointer word
//! points to memory that outlives every reader that may have read it (epochs). An optimistic reader may
//! therefore see inconsistent words, but never leaves valid memory. Held by: `trees_agree_with_a_map`,
//! `threads_add_runs_between_each_other`.
#![allow(unsafe_code)]

use super::key::{Key, KeyShape, MAX_WORDS, Probe, Variable};
use crate::latch::{Latch, Version};
use crate::{Guard, OutOfMemory};
use std::cmp::Ordering;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

pub(super) const SLOT_WORDS: usize = 124;
pub(super) const NODE_BYTES: usize = 1024;
const CACHE_LINE: u64 = 64;
/// The bits of a shape that hold the number of slots.
const COUNT: u64 = 0xffff;
/// The bit of a shape that says that the node is narrow.
const NARROW: u64 = 1 << 16;
/// The position of the level in a shape.
const LEVEL_SHIFT: u32 = 32;

#[repr(C, align(64))]
pub(super) struct Node<K> {
    pub(super) latch: Latch,
    shape: AtomicU64,
    leftmost: AtomicU64,
    /// The first word of all keys of a narrow leaf.
    prefix: AtomicU64,
    slots: [AtomicU64; SLOT_WORDS],
    /// The representation of its keys.
    keys: PhantomData<K>,
}

const _: () = assert!(size_of::<Node<Variable>>() == NODE_BYTES);

/// A node's address, as its parent stores it.
pub(super) type NodeAddress = u64;

/// Prefetches all cache lines of a node at once. A search touches five or six of them one after the other,
/// and each read decides which line is next. (TPC-C replay: 16 lines are 22 % faster than the four that every
/// search touches, 8 lines 3 %.)
#[inline]
pub(super) fn prefetch_node(address: NodeAddress) {
    for line in 0..NODE_BYTES as u64 / CACHE_LINE {
        prefetch(address.wrapping_add(line * CACHE_LINE));
    }
}

/// Prefetches a record's first cache lines at once. The first of them holds the row's address; without the
/// prefetch, the reader would wait for it before it could load the row.
#[inline]
pub(crate) fn prefetch_record(address: u64) {
    for line in 0..6 {
        prefetch(address.wrapping_add(line * CACHE_LINE));
    }
}

/// Prefetches a cache line.
#[inline]
pub(super) fn prefetch(address: u64) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch of any address is harmless.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch(std::ptr::without_provenance::<i8>(address as usize), _MM_HINT_T0);
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = address;
}

impl<K: KeyShape> Node<K> {
    /// Creates an empty node.
    pub(super) fn create(level: u64, guard: &Guard) -> Result<&Self, OutOfMemory> {
        let block = guard.allocate(NODE_BYTES)?;
        // SAFETY: the block has the size and (from 64 bytes up) the alignment of a node, and all-zero is a
        // valid one.
        let node = unsafe {
            block.as_ptr().cast::<u8>().write_bytes(0, NODE_BYTES);
            &*block.as_ptr().cast::<Self>()
        };
        node.shape.store(level << LEVEL_SHIFT, Relaxed);
        Ok(node)
    }

    /// Returns the node at an address.
    ///
    /// # Safety
    /// The address was read from a tree of the guard's memory during the guard's stay.
    #[inline]
    pub(super) unsafe fn at(address: NodeAddress, _guard: &Guard) -> &Self {
        // SAFETY: by the contract it is a node that the guard keeps; all its words are atomics.
        unsafe { &*std::ptr::with_exposed_provenance::<Self>(address as usize) }
    }

    /// Returns the node at an address, of a tree that no other thread uses.
    ///
    /// # Safety
    /// The tree names it, and no thread changes the tree as long as the node is borrowed.
    pub(super) unsafe fn alone<'t>(address: NodeAddress) -> &'t Self {
        // SAFETY: by the contract it is a node, and no thread frees it.
        unsafe { &*std::ptr::with_exposed_provenance::<Self>(address as usize) }
    }

    pub(super) fn address(&self) -> NodeAddress {
        std::ptr::from_ref(self).expose_provenance() as u64
    }

    /// Frees the node once no reader can see it.
    ///
    /// # Safety
    /// The node has been unlinked, by this worker.
    pub(super) unsafe fn retire(&self, guard: &Guard) {
        let pointer = std::ptr::with_exposed_provenance_mut(self.address() as usize);
        // SAFETY: created with this size; unlinked by the contract.
        unsafe { guard.retire(NonNull::new_unchecked(pointer), NODE_BYTES) };
    }

    /// Frees a node that was never linked.
    ///
    /// # Safety
    /// No other thread has seen the node.
    pub(super) unsafe fn free(&self, guard: &Guard) {
        let pointer = std::ptr::with_exposed_provenance_mut(self.address() as usize);
        // SAFETY: created with this size; never shared by the contract.
        unsafe { guard.free(NonNull::new_unchecked(pointer), NODE_BYTES) };
    }

    /// Returns the slots as they are now.
    #[inline]
    pub(super) fn slots(&self) -> Slots<'_, K> {
        // ORDERING: Acquire pairs with the Release in `set_shape`: the slots below the count are filled.
        let shape = self.shape.load(Acquire);
        let is_narrow = K::CAN_BE_NARROW && shape & NARROW != 0;
        Slots { node: self, count: (shape & COUNT) as usize, is_narrow }
    }

    #[inline]
    pub(super) fn level(&self) -> u64 {
        self.shape.load(Relaxed) >> LEVEL_SHIFT
    }

    /// An empty node is wide.
    fn set_shape(&self, count: usize, is_narrow: bool) {
        let narrow = if is_narrow && count > 0 { NARROW } else { 0 };
        self.shape.store(self.level() << LEVEL_SHIFT | narrow | count as u64, Release);
    }

    /// Sets the number of slots; those behind it are gone. The caller holds the latch.
    pub(super) fn truncate(&self, count: usize) {
        self.set_shape(count, self.slots().is_narrow);
    }

    pub(super) fn set_leftmost(&self, child: NodeAddress) {
        self.leftmost.store(child, Relaxed);
    }

    /// Notes where the keys of an empty leaf belong that leaves its tree: to another leaf, which had this
    /// version before any of them could be added to it. The caller holds the latch.
    pub(super) fn set_successor(&self, leaf: &Self, version: Version) {
        // These words are no pointers of a leaf's keys, so a reader of an older version may read them.
        self.prefix.store(version.word(), Relaxed);
        self.leftmost.store(leaf.address(), Relaxed);
    }

    /// Returns the successor of a leaf that has left its tree, if it has one.
    pub(super) fn successor(&self) -> Option<(NodeAddress, Version)> {
        let leaf = self.leftmost.load(Relaxed);
        (leaf != 0).then(|| (leaf, Version::of_word(self.prefix.load(Relaxed))))
    }

    #[inline]
    fn word(&self, index: usize) -> u64 {
        self.slots[index].load(Relaxed)
    }

    /// Returns the leftmost child of an inner node.
    fn leftmost(&self) -> NodeAddress {
        self.leftmost.load(Relaxed)
    }

    /// Inserts a slot. The caller holds the latch, and has found the node with room for the key.
    pub(super) fn insert_slot(&self, slot: usize, key: Key<K>, value: u64) {
        let mut slots = self.slots();
        if slots.is_narrow && key.words()[0] != self.prefix.load(Relaxed) {
            self.set_narrow(false);
            slots = self.slots();
        }
        let (count, stride) = (slots.count, slots.stride());
        for index in (slot * stride..count * stride).rev() {
            self.slots[index + stride].store(self.word(index), Relaxed);
        }
        slots.store(slot, key, value);
        // The count is the lowest part of the shape.
        self.shape.store(self.shape.load(Relaxed) + 1, Release);
    }

    /// Removes a slot. The caller holds the latch.
    pub(super) fn remove_slot(&self, slot: usize) {
        let slots = self.slots();
        let (count, stride) = (slots.count, slots.stride());
        for index in slot * stride..(count - 1) * stride {
            self.slots[index].store(self.word(index + stride), Relaxed);
        }
        self.set_shape(count - 1, slots.is_narrow);
    }

    /// Moves the slots from `from` on to an empty node. Leaves whose keys have one first word are narrow
    /// afterwards. The caller holds both latches.
    pub(super) fn move_tail(&self, from: usize, right: &Self) {
        let slots = self.slots();
        right.prefix.store(self.prefix.load(Relaxed), Relaxed);
        let moved = Slots { node: right, ..slots };
        for slot in from..slots.count {
            moved.store(slot - from, slots.key(slot), slots.value(slot));
        }
        right.set_shape(slots.count - from, slots.is_narrow);
        self.truncate(from);
        [self, right].into_iter().for_each(|node| node.set_narrow(true));
    }

    /// Rewrites the slots of a leaf in the other form; a wide leaf stays wide if the first words of its keys
    /// differ. The caller holds the latch.
    fn set_narrow(&self, is_narrow: bool) {
        let old = self.slots();
        if !K::CAN_BE_NARROW || self.level() > 0 || old.count == 0 || old.is_narrow == is_narrow {
            return;
        }
        let prefix = old.key(0).words()[0];
        if is_narrow && old.key(old.count - 1).words()[0] != prefix {
            return;
        }
        self.prefix.store(prefix, Relaxed);
        let new = Slots { is_narrow, ..old };
        let rewrite = |slot| new.store(slot, old.key(slot), old.value(slot));
        // A slot is read before another one is written over it.
        if is_narrow {
            (0..old.count).for_each(rewrite)
        } else {
            (0..old.count).rev().for_each(rewrite)
        }
        self.set_shape(old.count, is_narrow);
    }
}

/// The slots of a node as they were at one moment. What a reader takes from them counts once the node's
/// version is validated.
pub(super) struct Slots<'n, K> {
    node: &'n Node<K>,
    count: usize,
    is_narrow: bool,
}

impl<K> Clone for Slots<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Slots<'_, K> {}

impl<K: KeyShape> Slots<'_, K> {
    /// Returns the number of slots.
    #[inline]
    pub(super) fn count(self) -> usize {
        self.count
    }

    /// Returns whether there is no room for another key. A wide node has room for fewer keys.
    #[inline]
    pub(super) fn is_full(self) -> bool {
        self.count >= if self.is_narrow { K::NARROW_CAPACITY } else { K::CAPACITY }
    }

    /// Returns whether there is no room for a key, which makes a narrow leaf wide if its first word differs.
    #[inline]
    pub(super) fn is_full_for(self, probe: &Probe<'_>) -> bool {
        self.is_full() || self.is_narrow && self.count >= K::CAPACITY && !self.has_prefix_of(probe)
    }

    fn has_prefix_of(self, probe: &Probe<'_>) -> bool {
        self.node.prefix.load(Relaxed) == probe.words()[0]
    }

    #[inline]
    fn stride(self) -> usize {
        K::WORDS + usize::from(!self.is_narrow)
    }

    /// Returns a word of a slot.
    #[inline]
    pub(super) fn word(self, slot: usize, index: usize) -> u64 {
        self.node.word(slot * self.stride() + index)
    }

    /// Returns a word of a slot that points to a block. The block's contents are visible from here on.
    #[inline]
    pub(super) fn pointer(self, slot: usize, index: usize) -> u64 {
        self.node.slots[slot * self.stride() + index].load(Acquire)
    }

    /// Returns the first word of all keys; `None` if each slot has its own.
    #[inline]
    pub(super) fn prefix(self) -> Option<u64> {
        self.is_narrow.then(|| self.node.prefix.load(Relaxed))
    }

    /// Returns the key of a slot.
    #[inline]
    pub(super) fn key(self, slot: usize) -> Key<K> {
        let mut words = [0; MAX_WORDS];
        match self.prefix() {
            Some(prefix) => {
                words[0] = prefix;
                for (index, word) in words.iter_mut().enumerate().take(K::WORDS).skip(1) {
                    *word = self.word(slot, index - 1);
                }
            }
            None => {
                for (index, word) in words.iter_mut().enumerate().take(K::WORDS) {
                    *word = if K::WHOLE { self.word(slot, index) } else { self.pointer(slot, index) };
                }
            }
        }
        // SAFETY: slots hold keys of this shape only, because `store` takes no other keys.
        unsafe { Key::of(words) }
    }

    /// Returns the value of a slot: a record in a leaf, the child on the right in an inner node.
    #[inline]
    pub(super) fn value(self, slot: usize) -> u64 {
        let stride = self.stride();
        self.node.word(slot * stride + stride - 1)
    }

    /// Returns the child at an index below `count + 1`.
    #[inline]
    pub(super) fn child(self, place: usize) -> NodeAddress {
        if place == 0 { self.node.leftmost() } else { self.value(place - 1) }
    }

    /// Returns the place of a child.
    pub(super) fn place_of(self, child: NodeAddress) -> Option<usize> {
        (0..=self.count).find(|place| self.child(*place) == child)
    }

    /// Writes a slot. The caller holds the latch.
    fn store(self, slot: usize, key: Key<K>, value: u64) {
        let (stride, words) = (self.stride(), key.words());
        let words = &words[usize::from(self.is_narrow)..K::WORDS];
        for (index, word) in words.iter().chain([&value]).enumerate() {
            self.node.slots[slot * stride + index].store(*word, Relaxed);
        }
    }

    /// Returns the first slot whose key is not below the probe.
    #[inline]
    pub(super) fn lower_bound(self, probe: &Probe<'_>) -> usize {
        match self.prefix().map(|prefix| prefix.cmp(&probe.words()[0])) {
            Some(Ordering::Less) => self.count,
            Some(Ordering::Equal) => self.partition_point(|slot| K::is_rest_below(self, slot, probe)),
            Some(Ordering::Greater) => 0,
            None => self.partition_point(|slot| K::is_below(self, slot, probe)),
        }
    }

    /// As `lower_bound`, for a key that is probably above all keys here.
    #[inline]
    pub(super) fn lower_bound_from_end(self, probe: &Probe<'_>) -> usize {
        let is_behind = match (self.count.checked_sub(1), self.is_narrow) {
            (None, _) => true,
            (Some(last), true) => self.has_prefix_of(probe) && K::is_rest_below(self, last, probe),
            (Some(last), false) => K::is_below(self, last, probe),
        };
        if is_behind { self.count } else { self.lower_bound(probe) }
    }

    /// Returns the first slot whose key is above the probe.
    #[inline]
    pub(super) fn upper_bound(self, probe: &Probe<'_>) -> usize {
        debug_assert!(!self.is_narrow, "descents look for children, and inner nodes are wide");
        self.partition_point(|slot| !K::is_above(self, slot, probe))
    }

    /// Returns the slot of a key.
    #[inline]
    pub(super) fn find(self, probe: &Probe<'_>) -> Option<usize> {
        let slot = self.lower_bound(probe);
        self.is_at(slot, probe).then_some(slot)
    }

    /// Returns whether a slot, or none behind the last one, has a key.
    #[inline]
    pub(super) fn is_at(self, slot: usize, probe: &Probe<'_>) -> bool {
        slot < self.count
            && match self.is_narrow {
                true => self.has_prefix_of(probe) && K::is_rest_equal(self, slot, probe),
                false => K::is_equal(self, slot, probe),
            }
    }

    #[inline]
    fn partition_point(self, before: impl Fn(usize) -> bool) -> usize {
        let most = if self.is_narrow { K::NARROW_CAPACITY } else { K::CAPACITY };
        let (mut low, mut high) = (0, self.count.min(most));
        while low < high {
            let middle = (low + high) / 2;
            if before(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}
