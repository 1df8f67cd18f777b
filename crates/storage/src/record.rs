//! A record: one row's state word, its words, and the older versions that open snapshots may need.
//! Paper: Silo §4.4 (version word with lock and absence flags, validated reads, in-place writes).
//!
//! Layout in words: state, newest older version, address of the row buffer, then the record's own row buffer.
//! A row buffer is its capacity (in the low half of a word) followed by that many words; a row that outgrows
//! its buffer moves to a new one. The high half of the own buffer's first word is the record's slot plus one,
//! 0 where it has none. An older version is its state, the address of the one before it, and a row buffer.
//! The word of the newest one also has, in its upper 16 bits, how many hold the record, and in its lowest bit
//! whether a worker changes the list.
//!
//! Three things name a record. `Record<'g>` is a record under the guard that found it. `Handle` is what a
//! transaction remembers of it, worth something in the same stay alone. `Held` keeps a record from being
//! freed, and so outlives stays.
//!
//! Invariants: 1. row words, row address and older versions change only under the lock, and the state changes
//! before the lock is released, so a read between two equal unlocked states saw one version. Held by:
//! `readers_see_whole_versions`. 2. a buffer's capacity never changes, so a racing reader stays inside it. 3.
//! the numbers of older versions descend, and an open snapshot finds its version among them or in the record.
//! Held by: `every_snapshot_finds_its_version`. 4. each index entry, each `Held` and each slot of a
//! `SlotArray` that names a record holds it, and the worker that takes the last of them away frees it: so
//! nothing that can be reached is ever freed. Held by: `a_record_is_freed_with_its_last_holder`.
//!
//! Safety rests on 2, 4 and the guard alone. A writer without the lock makes a wrong row, not a wild pointer:
//! each buffer and each older version is retired by the thread that has exchanged the word that named it.
#![allow(unsafe_code)]

mod array;
mod columns;
mod older;
#[cfg(test)]
mod tests;

pub use array::SlotArray;

use crate::memory::Freed;
use crate::worker::Stay;
use crate::{Guard, OutOfMemory, Slot};
use catalog::{Arena, ColumnSlot, CommitOrder, Datum, RowLayout};
use std::cmp::Ordering as Comparison;
use std::hash::{Hash, Hasher};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

const LOCKED: u64 = 1 << 63;
const ABSENT: u64 = 1 << 62;
const DEAD: u64 = 1 << 61;
/// The record is in some worker's list of what to clean up.
const QUEUED: u64 = 1 << 60;
const _: () = assert!(CommitOrder::BITS == 60);

const HEADER_WORDS: usize = 3;
/// Words of an older version before its row buffer.
const OLDER_HEADER: u64 = 2;
const CAPACITY: u64 = u32::MAX as u64;
const SLOT_SHIFT: u32 = 32;
/// Of the word of the newest older version: how many hold the record.
const HOLDERS_SHIFT: u32 = 48;
const HOLDER: u64 = 1 << HOLDERS_SHIFT;
/// This many holders, or more: they are not counted any longer, and the record is never freed.
const COUNTLESS: u64 = u64::MAX >> HOLDERS_SHIFT;
/// A worker changes the list of older versions.
const LISTING: u64 = 1;
const OLDER: u64 = (HOLDER - 1) & !LISTING;

/// A record's version: the order of the transaction that wrote it, and whether there is a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordState(u64);

impl RecordState {
    /// The state after a transaction wrote a row.
    pub fn present(order: CommitOrder) -> Self {
        Self(order.0)
    }

    /// The state after a transaction deleted the row.
    pub fn absent(order: CommitOrder) -> Self {
        Self(order.0 | ABSENT)
    }

    /// The order of the transaction that wrote this version.
    #[inline]
    pub fn order(self) -> CommitOrder {
        CommitOrder(self.0 & (QUEUED - 1))
    }

    /// Whether there is no row.
    #[inline]
    pub fn is_absent(self) -> bool {
        self.0 & ABSENT != 0
    }

    /// This state, queued for cleaning or not.
    #[must_use]
    pub fn with_queued(self, queued: bool) -> Self {
        Self(if queued { self.0 | QUEUED } else { self.0 & !QUEUED })
    }

    /// Whether some worker will look at the record again to clean it up.
    pub fn is_queued(self) -> bool {
        self.0 & QUEUED != 0
    }

    /// Whether the record has held a committed row, ever.
    #[inline]
    pub fn was_present(self) -> bool {
        self.order().0 > 0 && self.inserter().is_none()
    }

    /// The worker whose transaction has inserted the record, while that transaction runs.
    #[inline]
    pub fn inserter(self) -> Option<Slot> {
        let is_uncommitted = self.is_absent() && !self.is_dead() && self.order().epoch().0 == 0;
        is_uncommitted
            .then(|| self.order().sequence().checked_sub(1).map(|slot| Slot(slot as usize)))
            .flatten()
    }

    /// Whether the record is leaving its indexes, never to come back.
    #[inline]
    pub fn is_dead(self) -> bool {
        self.0 & DEAD != 0
    }
}

/// What a record is to others from the moment on at which they find it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewState(u64);

impl NewState {
    /// Absent and locked by its maker.
    pub const LOCKED: Self = Self(ABSENT | LOCKED);

    /// Absent until the transaction of a worker commits. The worker's slot stands where the order will: the
    /// orders of commits begin with epoch 1.
    #[inline]
    pub fn uncommitted(worker: Slot) -> Self {
        Self(ABSENT | (worker.0 as u64 + 1))
    }

    /// Committed.
    pub fn committed(state: RecordState) -> Self {
        Self(state.0)
    }
}

/// One new column value of an update.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Which column.
    pub slot: ColumnSlot,
    /// Its new value.
    pub datum: Datum,
}

/// Looks at a locked record before it lets the thread that holds the lock run.
const LOOKS: u32 = 256;

/// Waits a moment for the lock of a record, which no transaction holds for longer than its commit.
#[inline]
pub fn look_again(looks: &mut u32) {
    *looks += 1;
    if looks.is_multiple_of(LOOKS) { std::thread::yield_now() } else { std::hint::spin_loop() }
}

/// The words of a row; they may change under a reader that does not hold the record's lock.
#[derive(Clone, Copy, Debug)]
pub struct RowWords<'a>(&'a [AtomicU64]);

impl<'a> RowWords<'a> {
    /// The words of the row's memory (the row itself may be shorter).
    pub fn capacity(self) -> usize {
        self.0.len()
    }

    /// The words that the row takes, without room to grow. To be asked while nobody writes.
    pub fn used(self, layout: &RowLayout) -> impl ExactSizeIterator<Item = u64> + use<'a> {
        let words = layout.used_words(|word| self.load(word)).min(self.0.len());
        self.0[..words].iter().map(|word| word.load(Ordering::Relaxed))
    }

    /// One word.
    #[inline]
    pub fn load(self, word: usize) -> u64 {
        self.0[word].load(Ordering::Relaxed)
    }

    /// One column.
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

/// A version of a record that was overwritten.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OlderVersion<'a> {
    pub(crate) state: RecordState,
    pub(crate) row: RowWords<'a>,
}

/// A record of a table, under the guard that it was found under.
#[derive(Clone, Copy)]
pub struct Record<'g> {
    address: u64,
    guard: &'g Guard,
}

/// What a transaction remembers of a record: of use to the guard of the same stay alone (`Guard::record`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Handle {
    pub(crate) address: u64,
    pub(crate) stay: Stay,
}

impl Handle {
    /// Where the record is, as a name that no other record has meanwhile.
    #[inline]
    pub fn address(self) -> u64 {
        self.address
    }
}

/// Keeps a record from being freed, through all stays, until it is let go (`Held::release`). One that is
/// merely dropped keeps it for ever.
#[derive(Debug)]
pub struct Held {
    address: u64,
    /// The number of its memory.
    memory: u64,
}

impl Held {
    /// The record.
    ///
    /// # Panics
    /// It is of another memory than the guard.
    #[inline]
    pub fn record<'g>(&self, guard: &'g Guard) -> Record<'g> {
        assert!(guard.memory().number() == self.memory, "a record is of its own database");
        // SAFETY: made of a record which is held since, so it is not freed; and were that to happen during
        // this stay, the guard would keep it.
        unsafe { Record::at(self.address, guard) }
    }

    /// Lets the record go. It is freed if nothing else holds it.
    pub fn release(self, guard: &Guard) {
        let record = self.record(guard);
        // SAFETY: this held it, and is gone.
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
    /// The record at an address.
    ///
    /// # Safety
    /// It is the address of a record of the guard's memory, which was held at some moment of the guard's
    /// stay.
    #[inline]
    pub(crate) unsafe fn at(address: u64, guard: &'g Guard) -> Self {
        Self { address, guard }
    }

    /// The guard that it was found under.
    #[inline]
    pub fn guard(self) -> &'g Guard {
        self.guard
    }

    /// The record as a transaction remembers it.
    #[inline]
    pub fn handle(self) -> Handle {
        Handle { address: self.address, stay: self.guard.stay() }
    }

    /// Where the record is, as a name that no other record has meanwhile.
    #[inline]
    pub fn address(self) -> u64 {
        self.address
    }

    /// Makes a record that holds a row image, in a state, and has one holder: its maker.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn create(image: &[u64], state: NewState, guard: &'g Guard) -> Result<Self, OutOfMemory> {
        let block = guard.allocate((HEADER_WORDS + 1 + image.len()) * 8)?.as_ptr();
        // SAFETY: the block has room for header, capacity and image, and nobody else has it.
        unsafe {
            block.write(state.0);
            block.add(1).write(HOLDER);
            block.add(2).write(block.add(HEADER_WORDS).expose_provenance() as u64);
            block.add(HEADER_WORDS).write(image.len() as u64);
            block.add(HEADER_WORDS + 1).copy_from_nonoverlapping(image.as_ptr(), image.len());
        }
        Ok(Self { address: block.expose_provenance() as u64, guard })
    }

    /// Holds the record once more, unless nothing holds it any longer, so that it is about to be freed.
    #[must_use]
    pub(crate) fn hold(self) -> bool {
        let more = |word: u64| match word >> HOLDERS_SHIFT {
            0 => None,
            COUNTLESS => Some(word),
            _ => Some(word + HOLDER),
        };
        self.word(1).fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).is_ok()
    }

    /// Holds the record through all stays; `None` when it is about to be freed.
    pub fn held(self) -> Option<Held> {
        self.hold().then(|| Held { address: self.address, memory: self.guard.memory().number() })
    }

    /// Lets the record go, and frees it once no worker can see it, if nothing else holds it.
    ///
    /// # Safety
    /// The caller holds it, and does so no more.
    pub(crate) unsafe fn release(self) {
        let less = |word: u64| match word >> HOLDERS_SHIFT {
            0 | COUNTLESS => None,
            _ => Some(word - HOLDER),
        };
        let before = self.word(1).fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
        if before.is_ok_and(|word| word >> HOLDERS_SHIFT == 1) {
            // SAFETY: nothing holds it, so nothing ever will again, and only one thread sees the count become
            // 0.
            unsafe { self.retire() };
        }
    }

    /// Lets a record go that others hold, too. One that nothing else holds stays until the memory goes.
    ///
    /// # Safety
    /// It is the address of a record that the caller holds, and does so no more.
    pub(crate) unsafe fn forget_holder(address: u64) {
        let pointer = std::ptr::with_exposed_provenance::<AtomicU64>(address as usize);
        let less = |word: u64| match word >> HOLDERS_SHIFT {
            0 | 1 | COUNTLESS => None,
            _ => Some(word - HOLDER),
        };
        // SAFETY: the record is there, as the caller holds it.
        let _ = unsafe { (*pointer.add(1)).fetch_update(Ordering::AcqRel, Ordering::Relaxed, less) };
    }

    /// Lets the record at an address go, and frees it at once if nothing else holds it.
    ///
    /// # Safety
    /// It is the address of a record that the caller holds, and does so no more; and no thread looks at a
    /// record of its table, now or later.
    pub(crate) unsafe fn release_alone(address: u64, freed: &mut Freed) {
        let word = |block: u64, index: usize| {
            let pointer = std::ptr::with_exposed_provenance::<AtomicU64>(block as usize);
            // SAFETY: the record is there, as the caller holds it; the older versions and the buffer that it
            // names are, too.
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
        // SAFETY: a record is only made of one that is held, and the guard keeps what was held during its
        // stay. All its words are atomics, and `index` is one of the header's.
        unsafe { &*pointer.add(index) }
    }

    /// # Safety
    /// A row buffer was at this address during the guard's stay: a capacity, never changed, and that many
    /// words.
    unsafe fn buffer_at(self, address: u64) -> RowWords<'g> {
        let pointer = std::ptr::with_exposed_provenance::<AtomicU64>(address as usize);
        // SAFETY: by the contract it is there, and the guard keeps it.
        unsafe {
            let capacity = ((*pointer).load(Ordering::Relaxed) & CAPACITY) as usize;
            RowWords(std::slice::from_raw_parts(pointer.add(1), capacity))
        }
    }

    /// The place that the record has among its table's, where places are given.
    #[inline]
    pub fn slot(self) -> Option<u32> {
        (self.word(HEADER_WORDS).load(Ordering::Relaxed) >> SLOT_SHIFT).checked_sub(1).map(|slot| slot as u32)
    }

    /// Gives the record its place among its table's. It is not shared yet, or nobody else is at work.
    pub(crate) fn set_slot(self, slot: u32) {
        let word = self.word(HEADER_WORDS);
        let capacity = word.load(Ordering::Relaxed) & CAPACITY;
        word.store(capacity | (u64::from(slot) + 1) << SLOT_SHIFT, Ordering::Relaxed);
    }

    fn own_buffer(self) -> u64 {
        self.address + HEADER_WORDS as u64 * 8
    }

    /// The row's words.
    #[inline]
    pub fn row(self) -> RowWords<'g> {
        // SAFETY: the word only ever names a buffer that is retired after another one is named in its place.
        // ORDERING: Acquire pairs with the Release in `write_image`: the buffer's capacity is visible.
        unsafe { self.buffer_at(self.word(2).load(Ordering::Acquire)) }
    }

    /// Begins to load the record and the beginning of its row.
    #[inline]
    pub fn prefetch(self) {
        crate::index::node::prefetch_record(self.address);
    }

    /// The state, once nobody holds the lock.
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

    /// Whether the state, lock included, is still as it was read: what was read in between was one version.
    /// That a worker has cleared older ones says nothing of it.
    #[inline]
    pub fn is_state(self, state: RecordState) -> bool {
        // ORDERING: the row reads before stay above; pairs with the fence in `try_lock`.
        fence(Ordering::Acquire);
        (self.word(0).load(Ordering::Relaxed) ^ state.0) & !QUEUED == 0
    }

    /// Whether the state is as it was read, disregarding a lock that the caller itself holds.
    #[inline]
    pub fn is_state_under_lock(self, state: RecordState) -> bool {
        (self.word(0).load(Ordering::Acquire) ^ state.0) & !(LOCKED | QUEUED) == 0
    }

    /// Takes the lock, unless another thread has it.
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

    /// The state of a record that the caller has locked.
    pub fn locked_state(self) -> RecordState {
        RecordState(self.word(0).load(Ordering::Relaxed) & !LOCKED)
    }

    /// Gives the record a state and releases the lock.
    #[inline]
    pub fn unlock(self, state: RecordState) {
        self.word(0).store(state.0, Ordering::Release);
    }

    /// Marks a locked record as leaving its indexes and releases the lock.
    pub fn unlock_dead(self) {
        let word = self.word(0).load(Ordering::Relaxed);
        self.word(0).store(word & !LOCKED | ABSENT | DEAD, Ordering::Release);
    }

    /// Replaces the row by an image. The lock is held, or the record is not shared yet.
    pub fn write_image(self, image: &[u64]) {
        let row = self.row();
        if image.len() <= row.capacity() {
            row.copy_from(image);
            return;
        }
        let capacity = image.len() + image.len() / 4;
        let block = self.guard.allocate_beyond_limit((1 + capacity) * 8).as_ptr();
        // SAFETY: the block has room for the capacity and its words, and nobody else has it.
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

    /// Frees a row buffer, unless it is the record's own.
    ///
    /// # Safety
    /// The record named the buffer until the caller exchanged it.
    unsafe fn retire_buffer(self, address: u64) {
        if address != self.own_buffer() {
            let block = std::ptr::with_exposed_provenance_mut(address as usize);
            // SAFETY: allocated by `write_image` with this size, named by nothing any more, by the contract.
            unsafe {
                let capacity = self.buffer_at(address).capacity();
                self.guard.retire(NonNull::new_unchecked(block), (1 + capacity) * 8);
            }
        }
    }

    /// Frees the record with all that belongs to it, once no worker can see it.
    ///
    /// # Safety
    /// Nothing holds it any more, and this is called once.
    unsafe fn retire(self) {
        self.drop_older(|_, _| false, |_| {});
        // A worker that still sees it and makes its row grow finds the own buffer here, and frees nothing
        // twice.
        let buffer = self.word(2).swap(self.own_buffer(), Ordering::AcqRel);
        // SAFETY: exchanged above, by this caller alone. The own buffer is there as long as the record.
        let own = unsafe {
            self.retire_buffer(buffer);
            self.buffer_at(self.own_buffer()).capacity()
        };
        let block = std::ptr::with_exposed_provenance_mut(self.address as usize);
        // SAFETY: allocated by `create` with this size; nothing leads to it any more, by the contract.
        unsafe { self.guard.retire(NonNull::new_unchecked(block), (HEADER_WORDS + 1 + own) * 8) };
    }
}
