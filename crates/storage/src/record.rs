//! A record: one row's state word, its words, and the older versions that open snapshots may need.
//! Paper: Silo §4.4 (version word with lock and absence flags, validated reads, in-place writes).
//!
//! Layout in words: state, newest older version, address of the row buffer, then the record's own row buffer. A row
//! buffer is its capacity (in the low half of a word) followed by that many words; a row that outgrows its buffer moves to
//! a new one. The high half of the own buffer's first word is the record's slot plus one, 0 where it has none.
//! An older version is its state, the address of the one before it, and a row buffer.
//!
//! Invariants: 1. row words, row address and older versions change only under the lock, and the state changes before
//! the lock is released, so a read between two equal unlocked states saw one version. Held by:
//! `readers_see_whole_versions`. 2. a buffer's capacity never changes, so a racing reader stays inside it. 3. the numbers of
//! older versions descend, and an open snapshot finds its version among them or in the record. Held by:
//! `every_snapshot_finds_its_version`.
#![allow(unsafe_code)]

use crate::{OutOfMemory, Worker};
use catalog::{Arena, ColumnKind, ColumnSlot, CommitOrder, Datum, RowLayout};
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
        self.order().0 > 0
    }

    /// Whether the record is leaving its indexes, never to come back.
    #[inline]
    pub fn is_dead(self) -> bool {
        self.0 & DEAD != 0
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

/// A record of a table. A handle: valid while the worker that found it is active.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Record(u64);

impl Record {
    pub(crate) fn from_address(address: u64) -> Self {
        Self(address)
    }

    /// The record as indexes hold it.
    pub fn address(self) -> u64 {
        self.0
    }

    /// Makes a record that holds a row image but counts as absent until its transaction commits.
    ///
    /// # Errors
    /// Out of memory.
    pub fn create(image: &[u64], worker: &mut Worker) -> Result<Self, OutOfMemory> {
        let block = worker.allocate((HEADER_WORDS + 1 + image.len()) * 8)?.as_ptr();
        // SAFETY: the block has room for header, capacity and image, and nobody else has it.
        unsafe {
            block.write(ABSENT);
            block.add(1).write(0);
            block.add(2).write(block.add(HEADER_WORDS).expose_provenance() as u64);
            block.add(HEADER_WORDS).write(image.len() as u64);
            block.add(HEADER_WORDS + 1).copy_from_nonoverlapping(image.as_ptr(), image.len());
        }
        Ok(Self(block.expose_provenance() as u64))
    }

    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        let pointer = std::ptr::with_exposed_provenance::<AtomicU64>(self.0 as usize);
        // SAFETY: a record handle is only made from a live record; epochs keep it alive for its finder. All its
        // words are atomics.
        unsafe { &*pointer.add(index) }
    }

    fn buffer_at<'g>(address: u64) -> RowWords<'g> {
        let pointer = std::ptr::with_exposed_provenance::<AtomicU64>(address as usize);
        // SAFETY: the address of a row buffer: a capacity, never changed, and that many words; kept alive by epochs.
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
        self.0 + HEADER_WORDS as u64 * 8
    }

    /// The row's words.
    #[inline]
    pub fn row<'g>(self) -> RowWords<'g> {
        // ORDERING: Acquire pairs with the Release in `write_image`: the buffer's capacity is visible.
        Self::buffer_at(self.word(2).load(Ordering::Acquire))
    }

    /// Begins to load the record's first cache lines, all at once: the row's address is in the first of them, so
    /// without this the others would wait for it.
    #[inline]
    pub fn prefetch(self) {
        for line in 0..6 {
            crate::index::node::prefetch(self.0 + line * 64);
        }
    }

    /// The state, once nobody holds the lock.
    #[inline]
    pub fn stable_state(self) -> RecordState {
        loop {
            let word = self.word(0).load(Ordering::Acquire);
            if word & LOCKED == 0 {
                return RecordState(word);
            }
            std::hint::spin_loop();
        }
    }

    /// Whether the state, lock included, is still as it was read: what was read in between was one version. That somebody has
    /// cleaned up behind older ones says nothing of it.
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

    /// Takes the lock, unless somebody has it.
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

    /// The older versions that are kept, the newest first.
    pub(crate) fn older<'g>(self) -> impl Iterator<Item = OlderVersion<'g>> {
        // ORDERING: Acquire pairs with the Release in `keep_older`: what stands in the block is visible.
        let mut next = self.word(1).load(Ordering::Acquire);
        std::iter::from_fn(move || {
            let address = std::mem::take(&mut next);
            if address == 0 {
                return None;
            }
            let pointer = std::ptr::with_exposed_provenance::<AtomicU64>(address as usize);
            // SAFETY: written by `keep_older`: a state, a link and a row buffer, kept alive by epochs.
            let state = unsafe {
                next = (*pointer.add(1)).load(Ordering::Acquire);
                RecordState((*pointer).load(Ordering::Relaxed))
            };
            Some(OlderVersion { state, row: Self::buffer_at(address + OLDER_HEADER * 8) })
        })
    }

    /// Keeps the current version for snapshots that end before `newest`, if it belongs to one of them. The lock is held;
    /// memory for it is taken beyond the limit, as a commit can't fail any more.
    pub fn keep_older(self, newest: CommitOrder, worker: &mut Worker) {
        let state = self.locked_state();
        if state.order() >= newest {
            return;
        }
        let row = self.row();
        let words = if state.is_absent() { 0 } else { row.capacity() };
        let block = worker.allocate_beyond_limit((OLDER_HEADER as usize + 1 + words) * 8).as_ptr();
        // SAFETY: the block has room for header, capacity and words, and nobody else has it.
        unsafe {
            block.write(state.0);
            block.add(1).write(self.word(1).load(Ordering::Relaxed));
            block.add(2).write(words as u64);
            for word in 0..words {
                block.add(3 + word).write(row.load(word));
            }
        }
        self.word(1).store(block.expose_provenance() as u64, Ordering::Release);
    }

    /// Whether an older version is kept.
    #[inline]
    pub fn has_older(self) -> bool {
        self.word(1).load(Ordering::Relaxed) != 0
    }

    /// Forgets the older versions that nobody needs, as `is_needed` says of a version's number and that of the one that took its
    /// place; `dropped` sees those of them that are rows. The lock is held.
    pub fn drop_older(
        self,
        is_needed: impl Fn(CommitOrder, CommitOrder) -> bool,
        mut dropped: impl FnMut(RowWords<'_>),
        worker: &mut Worker,
    ) {
        let (mut link, mut successor) = (self.word(1), self.locked_state().order());
        loop {
            let address = link.load(Ordering::Relaxed);
            if address == 0 {
                return;
            }
            let pointer = std::ptr::with_exposed_provenance_mut::<AtomicU64>(address as usize);
            // SAFETY: as in `older`.
            let (state, next) =
                unsafe { (RecordState((*pointer).load(Ordering::Relaxed)), &*pointer.add(1)) };
            if is_needed(state.order(), successor) {
                link = next;
            } else {
                let row = Self::buffer_at(address + OLDER_HEADER * 8);
                if !state.is_absent() {
                    dropped(row);
                }
                // ORDERING: Release: whoever comes along finds what `next` leads to.
                link.store(next.load(Ordering::Relaxed), Ordering::Release);
                let bytes = (OLDER_HEADER as usize + 1 + row.capacity()) * 8;
                // SAFETY: allocated by `keep_older` with this size, unlinked just now.
                unsafe { worker.retire(NonNull::new_unchecked(pointer.cast()), bytes) };
            }
            successor = state.order();
        }
    }

    /// Replaces the row by an image. The lock is held, or the record is not shared yet.
    pub fn write_image(self, image: &[u64], worker: &mut Worker) {
        let row = self.row();
        if image.len() <= row.capacity() {
            row.copy_from(image);
            return;
        }
        let old = self.word(2).load(Ordering::Relaxed);
        let capacity = image.len() + image.len() / 4;
        let block = worker.allocate_beyond_limit((1 + capacity) * 8).as_ptr();
        // SAFETY: the block has room for the capacity and its words, and nobody else has it.
        unsafe {
            block.write(capacity as u64);
            block.add(1).copy_from_nonoverlapping(image.as_ptr(), image.len());
            block.add(1 + image.len()).write_bytes(0, capacity - image.len());
        }
        self.word(2).store(block.expose_provenance() as u64, Ordering::Release);
        if old != self.own_buffer() {
            let block = std::ptr::with_exposed_provenance_mut(old as usize);
            // SAFETY: a buffer allocated here earlier with this size, unlinked just now.
            unsafe { worker.retire(NonNull::new_unchecked(block), (1 + row.capacity()) * 8) };
        }
    }

    /// Applies an update's changes, in order. The lock is held, or the record is not shared yet.
    pub fn apply(
        self,
        layout: &RowLayout,
        changes: impl Iterator<Item = Change> + Clone,
        arena: &Arena,
        worker: &mut Worker,
    ) {
        let row = self.row();
        let mut outgrown = false;
        for Change { slot, datum } in changes.clone() {
            outgrown |= !write_in_place(row, slot, datum, arena);
        }
        if outgrown {
            let image = rebuilt_image(row, layout, changes, arena);
            self.write_image(&image, worker);
        }
    }

    /// Frees the record with all that belongs to it, once nobody can see it.
    pub fn retire(self, worker: &mut Worker) {
        self.drop_older(|_, _| false, |_| {}, worker);
        let row = self.row();
        let buffer = self.word(2).load(Ordering::Relaxed);
        let own = Self::buffer_at(self.own_buffer()).capacity();
        let block = std::ptr::with_exposed_provenance_mut(self.0 as usize);
        // SAFETY: allocated by `create` and `write_image` with these sizes; the record is dead and unlinked.
        unsafe {
            if buffer != self.own_buffer() {
                let block = std::ptr::with_exposed_provenance_mut(buffer as usize);
                worker.retire(NonNull::new_unchecked(block), (1 + row.capacity()) * 8);
            }
            worker.retire(NonNull::new_unchecked(block), (HEADER_WORDS + 1 + own) * 8);
        }
    }
}

fn set_null(row: RowWords<'_>, slot: ColumnSlot, null: bool) {
    if let Some(bit) = slot.null_bit {
        let (word, mask) = (bit as usize / 64, 1 << (bit % 64));
        let old = row.load(word);
        row.store(word, if null { old | mask } else { old & !mask });
    }
}

/// Writes one column where it is; false when its bytes need more room than they had.
fn write_in_place(row: RowWords<'_>, slot: ColumnSlot, datum: Datum, arena: &Arena) -> bool {
    let word = slot.word();
    match datum {
        Datum::Bytes(span) => {
            let bytes = arena.bytes(span);
            let old = row.load(word);
            let (start, old_length) = (old as u32 as usize / 8, (old >> 32) as usize);
            if bytes.len().div_ceil(8) > old_length.div_ceil(8) {
                return false;
            }
            row.store(word, old & 0xffff_ffff | (bytes.len() as u64) << 32);
            for (index, word) in catalog::words_of(bytes).enumerate() {
                row.store(start + index, word);
            }
        }
        Datum::Double(value) => row.store(word, value.to_bits()),
        Datum::Int(_) | Datum::Wide(_) if slot.kind == ColumnKind::Wide => {
            if let Some(decimal) = arena.decimal(datum, 0) {
                row.store(word, decimal.mantissa as u64);
                row.store(word + 1, (decimal.mantissa >> 64) as u64);
                row.store(word + 2, decimal.scale.into());
            }
        }
        Datum::Int(value) => row.store(word, slot.deposit(row.load(word), value)),
        Datum::Null | Datum::Wide(_) | Datum::Array(_) => {}
    }
    set_null(row, slot, datum.is_null());
    true
}

/// The row with all changes, packed anew.
fn rebuilt_image(
    row: RowWords<'_>,
    layout: &RowLayout,
    changes: impl Iterator<Item = Change> + Clone,
    arena: &Arena,
) -> Vec<u64> {
    let mut merged = Arena::default();
    let datums: Vec<Datum> = layout
        .slots()
        .iter()
        .map(|slot| match changes.clone().filter(|change| change.slot == *slot).last() {
            Some(change) => merged.adopt(change.datum, arena),
            None => row.column(*slot, &mut merged),
        })
        .collect();
    let mut image = Vec::new();
    layout.encode(&datums, &merged, &mut image);
    image
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Epochs, Memory};
    use catalog::{Epoch, ScalarType};
    use std::sync::Arc;

    #[test]
    fn readers_see_whole_versions() {
        let epochs = Arc::new(Epochs::new(Epoch(1), 3));
        let memory = Arc::new(Memory::new(1 << 30));
        let make = || Worker::new(Arc::clone(&epochs), Arc::clone(&memory)).unwrap();
        let layout = RowLayout::new(&[
            (ScalarType::BigInt, false),
            (ScalarType::Text, true),
            (ScalarType::Integer, true),
        ]);
        let (mut writer, mut reader) = (make(), make());
        writer.enter();
        let mut arena = Arena::default();
        let text = arena.push_bytes(b"0");
        let mut image = Vec::new();
        layout.encode(&[Datum::Int(0), text, Datum::Int(0)], &arena, &mut image);
        let record = Record::create(&image, &mut writer).unwrap();
        assert!(record.stable_state().is_absent());
        record.try_lock().unwrap();
        record.unlock(RecordState::present(CommitOrder(0)));
        writer.exit();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 1..20_000u64 {
                    writer.enter();
                    while record.try_lock().is_none() {}
                    let mut arena = Arena::default();
                    // Lengths rise and fall, so rows are written in place, rebuilt, and moved.
                    let digits = n.to_string().repeat(1 + n as usize % 40);
                    let text = if n % 7 == 0 { Datum::Null } else { arena.push_bytes(digits.as_bytes()) };
                    let slots = layout.slots();
                    let changes = [
                        Change { slot: slots[0], datum: Datum::Int(n as i64) },
                        Change { slot: slots[1], datum: text },
                        Change { slot: slots[2], datum: Datum::Int(-(n as i64)) },
                    ];
                    record.apply(&layout, changes.into_iter(), &arena, &mut writer);
                    record.unlock(RecordState::present(CommitOrder(n)));
                    writer.exit();
                    if n % 16 == 0 {
                        epochs.advance_from(epochs.current());
                        writer.reclaim();
                    }
                }
            });
            scope.spawn(|| {
                let mut last = 0;
                while last < 19_999 {
                    reader.enter();
                    let mut arena = Arena::default();
                    let state = record.stable_state();
                    let row = record.row();
                    let read: Vec<_> =
                        layout.slots().iter().map(|slot| row.column(*slot, &mut arena)).collect();
                    if record.is_state(state) {
                        last = state.order().0;
                        assert_eq!(read[0], Datum::Int(last as i64));
                        assert_eq!(read[2], Datum::Int(-(last as i64)));
                        let expected = last.to_string().repeat(1 + last as usize % 40);
                        if last == 0 || last % 7 != 0 {
                            assert_eq!(arena.datum_bytes(read[1]), expected.as_bytes());
                        } else {
                            assert_eq!(read[1], Datum::Null);
                        }
                    }
                    reader.exit();
                }
            });
        });
    }
}
