//! A record: one row's state word, its words, and the older versions that open snapshots may need.
//! Paper: Silo §4.4 (version word with lock and absence flags, validated reads, in-place writes).
//! Layout in words: state, newest older version, address of the row buffer, then the record's first row
//! buffer. A row buffer is its capacity (in the low half of a word) followed by that many words. A row that
//! outgrows its buffer moves to a new one. In the first buffer, the high half of the capacity word is the
//! record's slot plus one, or 0 without a slot. An older version is its state, the address of the next older
//! one, and a row buffer. The word of the newest older version also counts the record's holders in its upper
//! 16 bits; its lowest bit is set while a worker changes the list.
//!
//! Three types name a record. `Record<'g>` is a record under the guard that found it. `Handle` is a
//! transaction's note of a record, valid in the same stay only. `Held` keeps a record from being freed, and
//! so outlives stays.
//!
//! Invariants: 1. row words, row address and older versions change only under the lock, and the state changes
//! before the lock is released. A read between two equal unlocked states therefore saw one version. Held by:
//! `readers_see_whole_versions`. 2. a buffer's capacity never changes, so a racing reader stays inside it. 3.
//! the numbers of older versions descend, and an open snapshot finds its version among them or in the record.
//! Held by: `every_snapshot_finds_its_version`. 4. each index entry, each `Held` and each slot of a
//! `SlotArray` that names a record holds it. The worker that removes the last holder frees the record, so no
//! reachable record is ever freed. Held by: `a_record_is_freed_with_its_last_holder`.
//!
//! Memory safety rests on 2, 4 and the guard alone. A writer without the lock corrupts a row but never a
//! pointer: the thread that exchanges the word that names a buffer or an older version is the one that
//! retires it.
#![allow(unsafe_code)]

mod array;
mod columns;
mod older;
mod state;
#[cfg(test)]
mod tests;

pub use array::SlotArray;
pub use state::{NewState, RecordState};

use crate::memory::Freed;
use crate::worker::Stay;
use crate::{Guard, OutOfMemory};
use catalog::{Arena, ColumnSlot, Datum, RowLayout};
use state::{ABSENT, DEAD, LOCKED, QUEUED};
use std::cmp::Ordering as Comparison;
use std::hash::{Hash, Hasher};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

const HEADER_WORDS: usize = 3;
/// Words of an older version before its row buffer.
const OLDER_HEADER: u64 = 2;
const CAPACITY: u64 = u32::MAX as u64;
const SLOT_SHIFT: u32 = 32;
/// Position of the holder count in the word of the newest older version.
const HOLDERS_SHIFT: u32 = 48;
const HOLDER: u64 = 1 << HOLDERS_SHIFT;
/// At this many holders the count saturates, and the record is never freed.
const COUNTLESS: u64 = u64::MAX >> HOLDERS_SHIFT;
/// A worker changes the list of older versions.
const LISTING: u64 = 1;
const OLDER: u64 = (HOLDER - 1) & !LISTING;

/// One new column value of an update.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// The column's location.
    pub slot: ColumnSlot,
    /// Its new value.
    pub datum: Datum,
}

/// Number of times a reader looks at a locked record before it yields the core.
const LOOKS: u32 = 256;

/// Waits before the next look at a locked record. A transaction locks a record only for its commit.
#[inline]
pub fn look_again(looks: &mut u32) {
    *looks += 1;
    if looks.is_multiple_of(LOOKS) { std::thread::yield_now() } else { std::hint::spin_loop() }
}

/// The words of a row. They may change under a reader that does not hold the record's lock.
#[derive(Clone, Copy, Debug)]
pub struct RowWords<'a>(&'a [AtomicU64]);

impl<'a> RowWords<'a> {
    /// Returns the number of words of the row's memory; the row may be shorter.
    pub fn capacity(self) -> usize {
        self.0.len()
    }

    /// Returns the words that the row takes, without spare room. The caller must exclude writers.
    pub fn used(self, layout: &RowLayout) -> impl ExactSizeIterator<Item = u64> + use<'a> {
        let words = layout.used_words(|word| self.load(word)).min(self.0.len());
        self.0[..words].iter().map(|word| word.load(Ordering::Relaxed))
    }

    /// Returns one word.
    #[inline]
    pub fn load(self, word: usize) -> u64 {
        self.0[word].load(Ordering::Relaxed)
    }

    /// Returns one column.
    #[inline]
    pub fn column(self, slot: ColumnSlot, arena: &mut Arena) -> Datum {
        RowLayout::decode(slot, self.0.len(), |word| self.load(word), arena)
    }

    fn store(self, word: usize, value: u64) {
        self.0[word].store(value, Ordering::Relaxed);
    }

    fn copy_from(self, image: &[u64]) {
        for (word, value) in image.iter().enumerate() {
            self.store(word, *value);
        }
    }
}

/// An overwritten version of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OlderVersion<'a> {
    pub(crate) state: RecordState,
    pub(crate) row: RowWords<'a>,
}

/// A record of a table, under the guard that found it.
#[derive(Clone, Copy)]
pub struct Record<'g> {
    address: u64,
    guard: &'g Guard,
}

/// A transaction's note of a record, valid in the same stay only (`Guard::record`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Handle {
    pub(crate) address: u64,
    pub(crate) stay: Stay,
}

impl Handle {
    /// Returns the record's address, which names it uniquely while the record exists.
    #[inline]
    pub fn address(self) -> u64 {
        self.address
    }
}

/// Keeps a record from being freed, across stays, until `Held::release`. A `Held` that is merely dropped
/// keeps its record forever.
#[derive(Debug)]
pub struct Held {
    address: u64,
    /// The number of the record's memory.
    memory: u64,
}

impl Held {
    /// Returns the record.
    ///
    /// # Panics
    /// The guard is of another memory.
    #[inline]
    pub fn record<'g>(&self, guard: &'g Guard) -> Record<'g> {
        assert!(guard.memory().number() == self.memory, "a record is of its own database");
        // SAFETY: the record has been held since this was made, so it was not freed. If it were released
        // during this stay, the guard would still keep it.
        unsafe { Record::at(self.address, guard) }
    }

    /// Releases the record, which is freed if nothing else holds it.
    pub fn release(self, guard: &Guard) {
        let record = self.record(guard);
        // SAFETY: this value held it and is consumed.
        unsafe { record.release() };
    }
}

impl PartialEq for Record<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
    }
}

impl Eq for Record<'_> {}

impl PartialOrd for Record<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Comparison> {
        Some(self.cmp(other))
    }
}

impl Ord for Record<'_> {
    fn cmp(&self, other: &Self) -> Comparison {
        self.address.cmp(&other.address)
    }
}

impl Hash for Record<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address.hash(state);
    }
}

impl std::fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Record").field(&self.address).finish()
    }
}

impl<'g> Record<'g> {
    /// Returns the record at an address.
    ///
    /// # Safety
    /// It is the address of a record of the guard's memory, which was held at some moment of the guard's
    /// stay.
    #[inline]
    pub(crate) unsafe fn at(address: u64, guard: &'g Guard) -> Self {
        Self { address, guard }
    }

    /// Returns the guard that found the record.
    #[inline]
    pub fn guard(self) -> &'g Guard {
        self.guard
    }

    /// Returns the record as a transaction notes it.
    #[inline]
    pub fn handle(self) -> Handle {
        Handle { address: self.address, stay: self.guard.stay() }
    }

    /// Returns the record's address, which names it uniquely while the record exists.
    #[inline]
    pub fn address(self) -> u64 {
        self.address
    }

    /// Creates a record with a row image and a state. Its creator is its only holder.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn create(image: &[u64], state: NewState, guard: &'g Guard) -> Result<Self, OutOfMemory> {
        let block = guard.allocate((HEADER_WORDS + 1 + image.len()) * 8)?.as_ptr();
        // SAFETY: the block has room for header, capacity and image, and no other thread has seen it.
        unsafe {
            block.write(state.0);
            block.add(1).write(HOLDER);
            block.add(2).write(block.add(HEADER_WORDS).expose_provenance() as u64);
            block.add(HEADER_WORDS).write(image.len() as u64);
            block.add(HEADER_WORDS + 1).copy_from_nonoverlapping(image.as_ptr(), image.len());
        }
        Ok(Self { address: block.expose_provenance() as u64, guard })
    }

    /// Adds a holder. Returns false if the record has none left, because it is about to be freed.
    #[must_use]
    pub(crate) fn hold(self) -> bool {
        let more = |word: u64| match word >> HOLDERS_SHIFT {
            0 => None,
            COUNTLESS => Some(word),
            _ => Some(word + HOLDER),
        };
        self.word(1).fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).is_ok()
    }

    /// Holds the record across stays; `None` when it is about to be freed.
    pub fn held(self) -> Option<Held> {
        self.hold().then(|| Held { address: self.address, memory: self.guard.memory().number() })
    }

    /// Removes a holder. The last one frees the record once no worker can see it.
    ///
    /// # Safety
    /// The caller holds the record and no longer uses it.
    pub(crate) unsafe fn release(self) {
        let less = |word: u64| match word >> HOLDERS_SHIFT {
            0 | COUNTLESS => None,
            _ => Some(word - HOLDER),
        };
        let before = self.word(1).fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
        if before.is_ok_and(|word| word >> HOLDERS_SHIFT == 1) {
            // SAFETY: the record has no holder, so it never gets one again, and only one thread sees the
            // count become 0.
            unsafe { self.retire() };
        }
    }

    /// Removes a holder of a record that has other holders. A record that loses its last one here is freed
    /// with the memory.
    ///
    /// # Safety
    /// The address is of a record that the caller holds and no longer uses.
    pub(crate) unsafe fn forget_holder(address: u64) {
        let pointer = std::ptr::with_exposed_provenance::<AtomicU64>(address as usize);
        let less = |word: u64| match word >> HOLDERS_SHIFT {
            0 | 1 | COUNTLESS => None,
            _ => Some(word - HOLDER),
        };
        // SAFETY: the record exists, because the caller holds it.
        let _ = unsafe { (*pointer.add(1)).fetch_update(Ordering::AcqRel, Ordering::Relaxed, less) };
    }

    /// Removes a holder of the record at an address, and frees the record at once if that was the last.
    ///
    /// # Safety
    /// The address is of a record that the caller holds and no longer uses, and no thread reads a record of
    /// its table, now or later.
    pub(crate) unsafe fn release_alone(address: u64, freed: &mut Freed) {
        let word = |block: u64, index: usize| {
            let pointer = std::ptr::with_exposed_provenance::<AtomicU64>(block as usize);
            // SAFETY: the record exists, because the caller holds it; so do the older versions and the buffer
            // that it names.
            unsafe { &*pointer.add(index) }
        };
        let capacity = |buffer: u64| (word(buffer, 0).load(Ordering::Relaxed) & CAPACITY) as usize;
        let less = |word: u64| match word >> HOLDERS_SHIFT {
            0 | COUNTLESS => None,
            _ => Some(word - HOLDER),
        };
        let before = word(address, 1).fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
        let Some(before) = before.ok().filter(|before| before >> HOLDERS_SHIFT == 1) else { return };
        let mut older = before & OLDER;
        while older != 0 {
            let next = word(older, 1).load(Ordering::Relaxed);
            let bytes = (OLDER_HEADER as usize + 1 + capacity(older + OLDER_HEADER * 8)) * 8;
            // SAFETY: allocated by `keep_older` with this size; no thread can reach the record that named it.
            unsafe { freed.add(older, bytes) };
            older = next;
        }
        let (own, buffer) = (address + HEADER_WORDS as u64 * 8, word(address, 2).load(Ordering::Relaxed));
        let record_bytes = (HEADER_WORDS + 1 + capacity(own)) * 8;
        // SAFETY: allocated by `write_image` and `create` with these sizes; no thread holds the record.
        unsafe {
            if buffer != own {
                freed.add(buffer, (1 + capacity(buffer)) * 8);
            }
            freed.add(address, record_bytes);
        }
    }

    #[inline]
    fn word(self, index: usize) -> &'g AtomicU64 {
        let pointer = std::ptr::with_exposed_provenance::<AtomicU64>(self.address as usize);
        // SAFETY: a record was held during its guard's stay, and the guard keeps it until the stay ends. All
        // its words are atomics, and `index` is one of the header's.
        unsafe { &*pointer.add(index) }
    }

    /// # Safety
    /// A row buffer was at this address during the guard's stay: a capacity, never changed, and that many
    /// words.
    unsafe fn buffer_at(self, address: u64) -> RowWords<'g> {
        let pointer = std::ptr::with_exposed_provenance::<AtomicU64>(address as usize);
        // SAFETY: by the contract the buffer exists, and the guard keeps it.
        unsafe {
            let capacity = ((*pointer).load(Ordering::Relaxed) & CAPACITY) as usize;
            RowWords(std::slice::from_raw_parts(pointer.add(1), capacity))
        }
    }

    /// Returns the record's slot, if its table has slots.
    #[inline]
    pub fn slot(self) -> Option<u32> {
        (self.word(HEADER_WORDS).load(Ordering::Relaxed) >> SLOT_SHIFT).checked_sub(1).map(|slot| slot as u32)
    }

    /// Sets the record's slot. The record is not shared yet, or no other thread uses the table.
    pub(crate) fn set_slot(self, slot: u32) {
        let word = self.word(HEADER_WORDS);
        let capacity = word.load(Ordering::Relaxed) & CAPACITY;
        word.store(capacity | (u64::from(slot) + 1) << SLOT_SHIFT, Ordering::Relaxed);
    }

    fn own_buffer(self) -> u64 {
        self.address + HEADER_WORDS as u64 * 8
    }

    /// Returns the row's words.
    #[inline]
    pub fn row(self) -> RowWords<'g> {
        // SAFETY: the word names a buffer until another one replaces it, and only then the buffer is retired.
        // ORDERING: Acquire pairs with the Release in `write_image`: the buffer's capacity is visible.
        unsafe { self.buffer_at(self.word(2).load(Ordering::Acquire)) }
    }

    /// Prefetches the record and the beginning of its row.
    #[inline]
    pub fn prefetch(self) {
        crate::index::node::prefetch_record(self.address);
    }

    /// Returns the state once the lock is free.
    #[inline]
    pub fn stable_state(self) -> RecordState {
        let mut looks = 0;
        loop {
            let word = self.word(0).load(Ordering::Acquire);
            if word & LOCKED == 0 {
                return RecordState(word);
            }
            look_again(&mut looks);
        }
    }

    /// Returns the state, unless the record is locked.
    #[inline]
    pub fn unlocked_state(self) -> Option<RecordState> {
        let word = self.word(0).load(Ordering::Acquire);
        (word & LOCKED == 0).then_some(RecordState(word))
    }

    /// Returns whether the state, lock included, equals `state`. If so, the words read since then were of one
    /// version. The cleanup flag does not count.
    #[inline]
    pub fn is_state(self, state: RecordState) -> bool {
        // ORDERING: the row reads before stay above; pairs with the fence in `try_lock`.
        fence(Ordering::Acquire);
        (self.word(0).load(Ordering::Relaxed) ^ state.0) & !QUEUED == 0
    }

    /// Returns whether the state equals `state`, apart from a lock that the caller itself holds.
    #[inline]
    pub fn is_state_under_lock(self, state: RecordState) -> bool {
        (self.word(0).load(Ordering::Acquire) ^ state.0) & !(LOCKED | QUEUED) == 0
    }

    /// Returns whether the row seems to be absent, or is being inserted or deleted.
    #[inline]
    pub fn seems_absent(self) -> bool {
        self.word(0).load(Ordering::Relaxed) & ABSENT != 0
    }

    /// Returns whether the record, absent in a state, has only left its indexes since.
    pub fn has_died_in(self, state: RecordState) -> bool {
        let now = RecordState(self.word(0).load(Ordering::Acquire));
        now.is_dead() && state.is_absent() && now.order() == state.order()
    }

    /// Locks the record, unless another thread has locked it.
    #[inline]
    pub fn try_lock(self) -> Option<RecordState> {
        let word = self.word(0).load(Ordering::Relaxed);
        let locked = word & LOCKED == 0
            && self
                .word(0)
                .compare_exchange(word, word | LOCKED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        // ORDERING: row writes stay below the locked word; pairs with the fence in `is_state`.
        fence(Ordering::Release);
        locked.then_some(RecordState(word))
    }

    /// Returns the state of a record that the caller has locked.
    pub fn locked_state(self) -> RecordState {
        RecordState(self.word(0).load(Ordering::Relaxed) & !LOCKED)
    }

    /// Sets the state and releases the lock.
    #[inline]
    pub fn unlock(self, state: RecordState) {
        self.word(0).store(state.0, Ordering::Release);
    }

    /// Marks a locked record as leaving its indexes and releases the lock.
    pub fn unlock_dead(self) {
        let word = self.word(0).load(Ordering::Relaxed);
        self.word(0).store(word & !LOCKED | ABSENT | DEAD, Ordering::Release);
    }

    /// Replaces the row by an image. The caller holds the lock, or the record is not shared yet.
    pub fn write_image(self, image: &[u64]) {
        let row = self.row();
        if image.len() <= row.capacity() {
            row.copy_from(image);
            return;
        }
        let capacity = image.len() + image.len() / 4;
        let block = self.guard.allocate_beyond_limit((1 + capacity) * 8).as_ptr();
        // SAFETY: the block has room for the capacity and its words, and no other thread has seen it.
        unsafe {
            block.write(capacity as u64);
            block.add(1).copy_from_nonoverlapping(image.as_ptr(), image.len());
            block.add(1 + image.len()).write_bytes(0, capacity - image.len());
        }
        // ORDERING: Release: the capacity is visible to a reader that finds the buffer.
        let old = self.word(2).swap(block.expose_provenance() as u64, Ordering::AcqRel);
        // SAFETY: exchanged above, by this caller alone.
        unsafe { self.retire_buffer(old) };
    }

    /// Frees a row buffer, unless it is the record's first.
    ///
    /// # Safety
    /// The record named the buffer until the caller exchanged it.
    unsafe fn retire_buffer(self, address: u64) {
        if address != self.own_buffer() {
            let block = std::ptr::with_exposed_provenance_mut(address as usize);
            // SAFETY: allocated by `write_image` with this size; no word names it any more, by the contract.
            unsafe {
                let capacity = self.buffer_at(address).capacity();
                self.guard.retire(NonNull::new_unchecked(block), (1 + capacity) * 8);
            }
        }
    }

    /// Frees the record and its blocks once no worker can see it.
    ///
    /// # Safety
    /// The record has no holder, and this is called once.
    unsafe fn retire(self) {
        self.drop_older(|_, _| false, |_| {});
        // A worker that still sees the record and makes its row grow finds the first buffer here, so no
        // buffer is freed twice.
        let buffer = self.word(2).swap(self.own_buffer(), Ordering::AcqRel);
        // SAFETY: exchanged above, by this caller alone. The first buffer exists as long as the record.
        let own = unsafe {
            self.retire_buffer(buffer);
            self.buffer_at(self.own_buffer()).capacity()
        };
        let block = std::ptr::with_exposed_provenance_mut(self.address as usize);
        // SAFETY: allocated by `create` with this size; no holder names it any more, by the contract.
        unsafe { self.guard.retire(NonNull::new_unchecked(block), (HEADER_WORDS + 1 + own) * 8) };
    }
}
