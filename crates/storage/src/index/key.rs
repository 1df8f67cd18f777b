//! Representations of keys in tree nodes: one to four big-endian words, or a prefix word and a pointer to
//! bytes.
//!
//! Invariant: comparisons agree with the order of the key bytes. Held by:
//! `index::tests::trees_agree_with_a_map`.
#![allow(unsafe_code)]

use super::node::{SLOT_WORDS, Slots};
use crate::memory::Freed;
use crate::{Guard, OutOfMemory};
use std::cmp::Ordering;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// Maximum number of words of a key in a slot.
pub(super) const MAX_WORDS: usize = 4;

/// A search key.
pub(super) struct Probe<'a> {
    words: [u64; MAX_WORDS],
    bytes: &'a [u8],
}

impl<'a> Probe<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let mut words = [0; MAX_WORDS];
        let (whole, rest) = bytes.as_chunks::<8>();
        for (word, chunk) in words.iter_mut().zip(whole) {
            *word = u64::from_be_bytes(*chunk);
        }
        if !rest.is_empty()
            && let Some(word) = words.get_mut(whole.len())
        {
            let bits = 8 * rest.len();
            *word = match (rest, bytes.last_chunk()) {
                ([a, b, c, d], _) => u64::from(u32::from_be_bytes([*a, *b, *c, *d])) << 32,
                // The last word overlaps the word before it.
                (_, Some(last)) => u64::from_be_bytes(*last) << (64 - bits),
                (_, None) => rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)) << (64 - bits),
            };
        }
        Self { words, bytes }
    }

    /// Returns the probe of a key whose words are known.
    #[inline]
    fn of(key: &ShortKey, bytes: &'a [u8]) -> Self {
        Self { words: key.words, bytes }
    }

    /// Returns the first word of a key that has more than one; 0 for shorter keys.
    #[inline]
    pub(super) fn leading_word(&self) -> u64 {
        if self.bytes.len() > 8 { self.words[0] } else { 0 }
    }

    /// Returns the first words of the key, padded with zeros.
    #[inline]
    pub(super) fn words(&self) -> [u64; MAX_WORDS] {
        self.words
    }
}

/// A key of at most 32 bytes, by value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShortKey {
    words: [u64; MAX_WORDS],
    length: u8,
}

/// The bytes of a short key.
pub(super) type Buffer = [u8; 8 * MAX_WORDS];

impl ShortKey {
    /// Returns a key; `None` if it is longer.
    #[inline]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let length = bytes.len() as u8;
        (bytes.len() <= size_of::<Buffer>()).then(|| Self { words: Probe::new(bytes).words, length })
    }

    /// Returns its probe, with its bytes in a buffer.
    #[inline]
    pub(super) fn probe<'b>(&self, buffer: &'b mut Buffer) -> Probe<'b> {
        for (bytes, word) in buffer.chunks_exact_mut(8).zip(self.words) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        Probe::of(self, &buffer[..usize::from(self.length)])
    }
}

/// A key as a node holds it. If its shape has pointers, its bytes live as long as the stay in which it was
/// read.
#[derive(Debug)]
pub(super) struct Key<K>([u64; MAX_WORDS], PhantomData<K>);

impl<K> Clone for Key<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Key<K> {}

impl<K> Key<K> {
    /// Returns a key of these words.
    ///
    /// # Safety
    /// The words represent a key of this shape.
    #[inline]
    pub(super) unsafe fn of(words: [u64; MAX_WORDS]) -> Self {
        Self(words, PhantomData)
    }

    /// Returns its words.
    #[inline]
    pub(super) fn words(self) -> [u64; MAX_WORDS] {
        self.0
    }
}

/// One representation of keys.
pub(super) trait KeyShape: Sized {
    /// Number of words of a key in a slot.
    const WORDS: usize;
    /// Whether the words are the whole key.
    const WHOLE: bool;
    /// Number of slots of a node.
    const CAPACITY: usize = SLOT_WORDS / (Self::WORDS + 1);
    /// Whether leaves may be narrow: the first word of a key is then not its only one.
    const CAN_BE_NARROW: bool = Self::WHOLE && Self::WORDS > 1;
    /// Number of slots of a narrow leaf.
    const NARROW_CAPACITY: usize = SLOT_WORDS / Self::WORDS;

    /// Returns whether a slot's key is less than a probe.
    fn is_below(slots: Slots<'_, Self>, slot: usize, probe: &Probe<'_>) -> bool;

    /// Returns whether a slot's key is greater than a probe.
    fn is_above(slots: Slots<'_, Self>, slot: usize, probe: &Probe<'_>) -> bool;

    /// Returns whether a slot's key equals a probe.
    fn is_equal(slots: Slots<'_, Self>, slot: usize, probe: &Probe<'_>) -> bool;

    /// As `is_below`, of a narrow leaf whose keys have the probe's first word.
    fn is_rest_below(_: Slots<'_, Self>, _: usize, _: &Probe<'_>) -> bool {
        unreachable!("no leaf of this shape is narrow")
    }

    /// As `is_equal`, of a narrow leaf whose keys have the probe's first word.
    fn is_rest_equal(_: Slots<'_, Self>, _: usize, _: &Probe<'_>) -> bool {
        unreachable!("no leaf of this shape is narrow")
    }

    /// Returns whether a probe lies above `lower` and below `upper`. For whole keys only.
    #[inline]
    fn lies_between(lower: &[u64; MAX_WORDS], probe: &Probe<'_>, upper: Option<&[u64; MAX_WORDS]>) -> bool {
        debug_assert!(Self::WHOLE);
        *lower < probe.words && upper.is_none_or(|upper| probe.words < *upper)
    }

    /// Returns the words of a new key.
    fn make(probe: &Probe<'_>, guard: &Guard) -> Result<Key<Self>, OutOfMemory>;

    /// Frees the block of a removed key once no reader can see it.
    ///
    /// # Safety
    /// The key has left its node, and is retired once.
    unsafe fn retire(key: Key<Self>, guard: &Guard);

    /// Frees the block of a key whose tree is no longer in use.
    ///
    /// # Safety
    /// The key is in one node, which is freed too, and no thread reads it again.
    unsafe fn free(key: Key<Self>, freed: &mut Freed);

    /// Compares two keys given as bytes, in the order of keys in nodes.
    fn compare_bytes(a: &[u8], b: &[u8]) -> Ordering;

    /// Appends the bytes of a key. Keys of whole words are padded with zeros.
    ///
    /// # Safety
    /// The key was read from a node of this shape during the stay of a guard that the caller has.
    unsafe fn append_bytes(key: Key<Self>, out: &mut Vec<u8>);
}

/// Keys of one length, up to `8 * W` bytes.
#[derive(Debug)]
pub(super) struct Fixed<const W: usize>;

impl<const W: usize> KeyShape for Fixed<W> {
    const WORDS: usize = W;
    const WHOLE: bool = true;

    #[inline]
    fn is_below(slots: Slots<'_, Self>, slot: usize, probe: &Probe<'_>) -> bool {
        let word = |index| (slots.word(slot, index), probe.words[index]);
        (0..W).rev().map(word).fold(false, |below, (own, other)| (own < other) | ((own == other) & below))
    }

    #[inline]
    fn is_above(slots: Slots<'_, Self>, slot: usize, probe: &Probe<'_>) -> bool {
        let word = |index| (slots.word(slot, index), probe.words[index]);
        (0..W).rev().map(word).fold(false, |above, (own, other)| (own > other) | ((own == other) & above))
    }

    #[inline]
    fn is_equal(slots: Slots<'_, Self>, slot: usize, probe: &Probe<'_>) -> bool {
        (0..W).all(|index| slots.word(slot, index) == probe.words[index])
    }

    #[inline]
    fn is_rest_below(slots: Slots<'_, Self>, slot: usize, probe: &Probe<'_>) -> bool {
        let word = |index| (slots.word(slot, index - 1), probe.words[index]);
        (1..W).rev().map(word).fold(false, |below, (own, other)| (own < other) | ((own == other) & below))
    }

    #[inline]
    fn is_rest_equal(slots: Slots<'_, Self>, slot: usize, probe: &Probe<'_>) -> bool {
        (1..W).all(|index| slots.word(slot, index - 1) == probe.words[index])
    }

    #[inline]
    fn make(probe: &Probe<'_>, _: &Guard) -> Result<Key<Self>, OutOfMemory> {
        Ok(Key(probe.words, PhantomData))
    }

    unsafe fn retire(_: Key<Self>, _: &Guard) {}

    unsafe fn free(_: Key<Self>, _: &mut Freed) {}

    fn compare_bytes(a: &[u8], b: &[u8]) -> Ordering {
        Probe::new(a).words[..W].cmp(&Probe::new(b).words[..W])
    }

    unsafe fn append_bytes(key: Key<Self>, out: &mut Vec<u8>) {
        for word in &key.0[..W] {
            out.extend_from_slice(&word.to_be_bytes());
        }
    }
}

/// Keys of any length: the slot holds the first eight bytes and a pointer to (length, bytes).
#[derive(Debug)]
pub(super) struct Variable;

/// Returns the bytes behind a pointer word.
///
/// # Safety
/// The word was read from a slot below the node's count, by `Node::pointer` or `Node::key`, after the worker
/// entered.
unsafe fn bytes_at<'g>(pointer: u64) -> &'g [u8] {
    let pointer = std::ptr::with_exposed_provenance::<u64>(pointer as usize);
    // SAFETY: written by `make`: a length and that many bytes, never changed, kept alive by epochs. They are
    // visible: the word was loaded with Acquire, and stored after the Release fence of the writer's
    // `try_lock`.
    unsafe { std::slice::from_raw_parts(pointer.add(1).cast(), *pointer as usize) }
}

impl Variable {
    #[inline]
    fn compare(slots: Slots<'_, Self>, slot: usize, probe: &Probe<'_>) -> Ordering {
        let prefix = slots.word(slot, 0);
        if prefix != probe.words[0] {
            return prefix.cmp(&probe.words[0]);
        }
        // SAFETY: read from a node by an active worker.
        unsafe { bytes_at(slots.pointer(slot, 1)) }.cmp(probe.bytes)
    }
}

impl KeyShape for Variable {
    const WORDS: usize = 2;
    const WHOLE: bool = false;

    fn is_below(slots: Slots<'_, Self>, slot: usize, probe: &Probe<'_>) -> bool {
        Self::compare(slots, slot, probe).is_lt()
    }

    fn is_above(slots: Slots<'_, Self>, slot: usize, probe: &Probe<'_>) -> bool {
        Self::compare(slots, slot, probe).is_gt()
    }

    fn is_equal(slots: Slots<'_, Self>, slot: usize, probe: &Probe<'_>) -> bool {
        Self::compare(slots, slot, probe).is_eq()
    }

    fn make(probe: &Probe<'_>, guard: &Guard) -> Result<Key<Self>, OutOfMemory> {
        let block = guard.allocate(8 + probe.bytes.len())?.as_ptr();
        // SAFETY: the block has room for the length and the bytes, and no other thread has seen it.
        unsafe {
            block.write(probe.bytes.len() as u64);
            let bytes = block.add(1).cast::<u8>();
            bytes.copy_from_nonoverlapping(probe.bytes.as_ptr(), probe.bytes.len());
        }
        Ok(Key([probe.words[0], block.expose_provenance() as u64, 0, 0], PhantomData))
    }

    unsafe fn retire(key: Key<Self>, guard: &Guard) {
        // SAFETY: the pointer word of a key that its caller took out of a node.
        let bytes = 8 + unsafe { bytes_at(key.0[1]) }.len();
        let block = std::ptr::with_exposed_provenance_mut(key.0[1] as usize);
        // SAFETY: allocated by `make` with this size; out of its node by the contract.
        unsafe { guard.retire(NonNull::new_unchecked(block), bytes) };
    }

    unsafe fn free(key: Key<Self>, freed: &mut Freed) {
        // SAFETY: the pointer word of a key of a node that is there; allocated by `make` with this size.
        unsafe { freed.add(key.0[1], 8 + bytes_at(key.0[1]).len()) };
    }

    fn compare_bytes(a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }

    unsafe fn append_bytes(key: Key<Self>, out: &mut Vec<u8>) {
        // SAFETY: passed on.
        out.extend_from_slice(unsafe { bytes_at(key.0[1]) });
    }
}
