//! A tree node: 1,024 bytes of atomic words, the same for inner nodes and leaves and for every key shape.
//!
//! Layout: latch, shape (count in the low half, level in the high half), leftmost child, spare, then slots of
//! (key words, value). An inner slot's value is the child to the right of its key.
//!
//! Invariants: 1. words change only under the latch. 2. `count` never exceeds the capacity, torn reads
//! included, as it is one word. 3. a pointer word points to memory that outlives every reader that may have
//! read it (epochs). An optimistic reader may therefore see inconsistent words, but never leaves valid
//! memory.
#![allow(unsafe_code)]

use super::key::{Key, KeyShape, MAX_WORDS, Probe, Variable};
use crate::latch::Latch;
use crate::{Guard, OutOfMemory};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

pub(super) const SLOT_WORDS: usize = 124;
pub(super) const NODE_BYTES: usize = 1024;
const CACHE_LINE: u64 = 64;

#[repr(C, align(64))]
pub(super) struct Node<K> {
    pub(super) latch: Latch,
    shape: AtomicU64,
    leftmost: AtomicU64,
    spare: AtomicU64,
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
        node.shape.store(level << 32, Relaxed);
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

    #[inline]
    pub(super) fn count(&self) -> usize {
        // ORDERING: Acquire pairs with the Release in `set_count`: the slots below it are filled.
        self.shape.load(Acquire) as u32 as usize
    }

    #[inline]
    pub(super) fn level(&self) -> u64 {
        self.shape.load(Relaxed) >> 32
    }

    pub(super) fn set_count(&self, count: usize) {
        self.shape.store(self.level() << 32 | count as u64, Release);
    }

    pub(super) fn set_leftmost(&self, child: NodeAddress) {
        self.leftmost.store(child, Relaxed);
    }

    #[inline]
    pub(super) fn word(&self, index: usize) -> u64 {
        self.slots[index].load(Relaxed)
    }

    /// Returns a word that points to a block. The block's contents are visible from here on.
    #[inline]
    pub(super) fn pointer(&self, index: usize) -> u64 {
        self.slots[index].load(Acquire)
    }

    /// Returns the key of a slot.
    #[inline]
    pub(super) fn key(&self, slot: usize) -> Key<K> {
        let mut words = [0; MAX_WORDS];
        for (index, word) in words.iter_mut().enumerate().take(K::WORDS) {
            let place = slot * (K::WORDS + 1) + index;
            *word = if K::WHOLE { self.word(place) } else { self.pointer(place) };
        }
        // SAFETY: slots hold keys of this shape only, because `store` takes no other keys.
        unsafe { Key::of(words) }
    }

    /// Returns the value of a slot: a record in a leaf, the child on the right in an inner node.
    #[inline]
    pub(super) fn value(&self, slot: usize) -> u64 {
        self.word(slot * (K::WORDS + 1) + K::WORDS)
    }

    /// Returns the child at an index below `count + 1`.
    #[inline]
    pub(super) fn child(&self, place: usize) -> NodeAddress {
        if place == 0 { self.leftmost.load(Relaxed) } else { self.value(place - 1) }
    }

    fn store(&self, slot: usize, key: Key<K>, value: u64) {
        let start = slot * (K::WORDS + 1);
        for (index, word) in key.words().iter().enumerate().take(K::WORDS) {
            self.slots[start + index].store(*word, Relaxed);
        }
        self.slots[start + K::WORDS].store(value, Relaxed);
    }

    /// Inserts a slot. The caller holds the latch, and the node is not full.
    pub(super) fn insert_slot(&self, slot: usize, key: Key<K>, value: u64) {
        let count = self.count();
        let stride = K::WORDS + 1;
        for index in (slot * stride..count * stride).rev() {
            self.slots[index + stride].store(self.word(index), Relaxed);
        }
        self.store(slot, key, value);
        self.set_count(count + 1);
    }

    /// Removes a slot. The caller holds the latch.
    pub(super) fn remove_slot(&self, slot: usize) {
        let count = self.count();
        let stride = K::WORDS + 1;
        for index in slot * stride..(count - 1) * stride {
            self.slots[index].store(self.word(index + stride), Relaxed);
        }
        self.set_count(count - 1);
    }

    /// Moves the slots from `from` on to an empty node. The caller holds both latches.
    pub(super) fn move_tail(&self, from: usize, right: &Self) {
        let count = self.count();
        for slot in from..count {
            right.store(slot - from, self.key(slot), self.value(slot));
        }
        right.set_count(count - from);
        self.set_count(from);
    }

    /// Returns the first slot whose key is not below the probe.
    #[inline]
    pub(super) fn lower_bound(&self, count: usize, probe: &Probe<'_>) -> usize {
        self.partition_point(count, |slot| K::is_below(self, slot, probe))
    }

    /// Returns the first slot whose key is above the probe.
    #[inline]
    pub(super) fn upper_bound(&self, count: usize, probe: &Probe<'_>) -> usize {
        self.partition_point(count, |slot| !K::is_above(self, slot, probe))
    }

    #[inline]
    fn partition_point(&self, count: usize, before: impl Fn(usize) -> bool) -> usize {
        let (mut low, mut high) = (0, count.min(K::CAPACITY));
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
