//! The point cache of a primary index: from the hash of a key to its record, in one cache line.
//! Source: the adaptive hash index of InnoDB. Differs: it is filled by lookups only, holds one word a record,
//! and compares a key with the record's row.
//!
//! A table gets a point cache once its rows are often looked up one by one. A cell is the address of a record
//! below, and a tag of its key's hash above. The cache may lack any record. A reader that finds nothing in it
//! asks the tree.
//!
//! Invariants: 1. a cell that names a record holds it, and only the worker that exchanges the cell's word
//! releases that hold. So a reader may read every record that it finds here in its stay. 2. a record that is
//! not dead is the one that the tree has under the key of its row, because a record dies before it leaves the
//! tree. Held by: `workers_share_a_point_cache`, `a_point_cache_agrees_with_its_index`.
//!
//! A worker may name a record here while another one takes the record out of the tree. One of them then takes
//! it out of the cache: the first marks the record dead before it looks into the cache, the second looks at
//! the mark after it has written the cell. The same holds for a worker that writes a cell of a cache which
//! another worker replaces.
#![allow(unsafe_code)]

use super::key::{MAX_WORDS, Probe};
use super::node::prefetch;
use crate::memory::Freed;
use crate::{Guard, Record, RowWords};
use catalog::{ColumnKind, Table};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Cells of a bucket: one cache line.
const BUCKET: usize = 8;
/// The word before the first bucket is the number of cells; the rest of its cache line is unused.
const HEADER: usize = 8;
const TAG_SHIFT: u32 = 48;
const ADDRESS: u64 = (1 << TAG_SHIFT) - 1;
/// One of this many lookups in the tree is counted.
const COUNTED: u64 = 16;
/// A cache is made after at least this many lookups in the tree.
const FIRST_LOOKUPS: u64 = 1024;
/// There must have been a lookup for each group of rows of this size.
const ROWS_PER_LOOKUP: u64 = 32;
/// A cache takes at most this part of the memory that is left below the limit.
const PART_OF_MEMORY: usize = 8;
/// The factor that spreads the bits of keys.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A part of a key column that lies in one word of the key.
#[derive(Clone, Copy, Debug)]
struct KeyPart {
    row_word: usize,
    row_shift: u32,
    /// The bits of the part, at the low end.
    mask: u64,
    /// The sign bit, which keys flip.
    flip: u64,
    key_word: usize,
    key_shift: u32,
}

/// How the words of a key follow from the words of a row.
#[derive(Clone, Debug)]
struct KeyParts {
    parts: Vec<KeyPart>,
    words: usize,
}

impl KeyParts {
    /// Returns the parts of a table's primary key; `None` unless it consists of integers and fits a node.
    fn of(table: &Table) -> Option<Self> {
        let (mut parts, mut at) = (Vec::new(), 0);
        for column in &table.primary().columns {
            let slot = table.layout.slots()[*column];
            let bits = match slot.kind {
                _ if slot.null_bit.is_some() => return None,
                ColumnKind::Int8 => 8,
                ColumnKind::Int16 => 16,
                ColumnKind::Int32 => 32,
                ColumnKind::Int64 => 64,
                ColumnKind::Double | ColumnKind::Wide | ColumnKind::Variable | ColumnKind::Array => {
                    return None;
                }
            };
            // The key has the highest bits first.
            let mut left = bits;
            while left > 0 {
                let room = 64 - at % 64;
                let own = left.min(room);
                let is_signed = slot.kind != ColumnKind::Int8;
                parts.push(KeyPart {
                    row_word: slot.word(),
                    row_shift: slot.shift() + (left - own),
                    mask: u64::MAX >> (64 - own),
                    flip: if is_signed && left == bits { 1 << (own - 1) } else { 0 },
                    key_word: at as usize / 64,
                    key_shift: room - own,
                });
                (left, at) = (left - own, at + own);
            }
        }
        let words = at.div_ceil(64) as usize;
        (1..=MAX_WORDS).contains(&words).then_some(Self { parts, words })
    }

    /// Returns whether a row has a key.
    #[inline]
    fn is_key_of(&self, probe: &Probe<'_>, row: RowWords<'_>) -> bool {
        let mut words = [0; MAX_WORDS];
        for part in &self.parts {
            let bits = ((row.load(part.row_word) >> part.row_shift) ^ part.flip) & part.mask;
            words[part.key_word] |= bits << part.key_shift;
        }
        words == probe.words()
    }
}

/// The point cache of an index. It is empty until many keys were looked up.
#[derive(Debug)]
pub(super) struct Points {
    key: KeyParts,
    /// The address of the cells, or 0.
    cells: AtomicU64,
    /// Lookups in the tree since the cache was made; those that found a full bucket, once there is one.
    lookups: AtomicU64,
}

impl Points {
    /// Returns the empty cache of a table's primary index; `None` if its keys are not cached.
    pub(super) fn of(table: &Table) -> Option<Self> {
        let key = KeyParts::of(table)?;
        Some(Self { key, cells: AtomicU64::new(0), lookups: AtomicU64::new(0) })
    }

    /// Returns the hash of a key; `None` while there is no cache.
    #[inline]
    pub(super) fn hash(&self, probe: &Probe<'_>) -> Option<u64> {
        (self.cells.load(Ordering::Relaxed) != 0).then(|| self.hash_of(probe))
    }

    #[inline]
    fn hash_of(&self, probe: &Probe<'_>) -> u64 {
        let spread = |hash: u64, word: &u64| {
            let product = u128::from(hash ^ word) * u128::from(SPREAD);
            (product as u64) ^ (product >> 64) as u64
        };
        probe.words()[..self.key.words].iter().fold(SPREAD, spread)
    }

    /// Returns the cells.
    #[inline]
    fn cells<'g>(&self, _guard: &'g Guard) -> &'g [AtomicU64] {
        // ORDERING: Acquire pairs with the exchange in `replace`: the cells are empty, their number is there.
        let address = self.cells.load(Ordering::Acquire);
        // SAFETY: the cells are retired only after another address has replaced theirs.
        unsafe { cells_at(address) }
    }

    #[inline]
    fn bucket<'g>(&self, hash: u64, guard: &'g Guard) -> &'g [AtomicU64] {
        let cells = self.cells(guard);
        let bucket = hash as usize & (cells.len() / BUCKET).wrapping_sub(1);
        cells.get(bucket * BUCKET..bucket * BUCKET + BUCKET).unwrap_or_default()
    }

    /// Begins to load the bucket of a hash.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64, guard: &Guard) {
        prefetch(self.bucket(hash, guard).as_ptr().addr() as u64);
    }

    /// Returns the records that may have a key with this hash.
    #[inline]
    fn candidates<'g>(&self, hash: u64, guard: &'g Guard) -> impl Iterator<Item = Record<'g>> {
        self.bucket(hash, guard).iter().filter_map(move |cell| {
            // ORDERING: Acquire pairs with the exchange in `add`: the record is whole.
            let word = cell.load(Ordering::Acquire);
            // SAFETY: the cell held the record when it was read, in the guard's stay.
            (word != 0 && word >> TAG_SHIFT == hash >> TAG_SHIFT)
                .then(|| unsafe { Record::at(word & ADDRESS, guard) })
        })
    }

    /// Returns a record that probably has a key with this hash.
    #[inline]
    pub(super) fn guess<'g>(&self, hash: u64, guard: &'g Guard) -> Option<Record<'g>> {
        self.candidates(hash, guard).next()
    }

    /// Returns whether a record has a key, and is in the tree.
    #[inline]
    pub(super) fn confirms(&self, record: Record<'_>, probe: &Probe<'_>) -> bool {
        self.key.is_key_of(probe, record.row()) && !record.locked_state().is_dead()
    }

    /// Returns the record of a key, if the cache has it.
    #[inline]
    pub(super) fn find<'g>(&self, probe: &Probe<'_>, guard: &'g Guard) -> Option<Record<'g>> {
        let hash = self.hash(probe)?;
        self.candidates(hash, guard).find(|record| self.confirms(*record, probe))
    }

    /// Notes that a lookup has found a record in the tree. `rows` estimates the number of rows.
    #[inline]
    pub(super) fn learn(&self, probe: &Probe<'_>, record: Record<'_>, rows: impl FnOnce() -> u64) {
        let hash = self.hash_of(probe);
        let is_full = self.cells.load(Ordering::Relaxed) == 0 || self.add(hash, record);
        if is_full && hash & (COUNTED - 1) == 0 {
            let lookups = self.lookups.fetch_add(COUNTED, Ordering::Relaxed) + COUNTED;
            if lookups.is_multiple_of(FIRST_LOOKUPS) {
                self.consider(lookups, rows(), record.guard());
            }
        }
    }

    /// Makes a cache, or a larger one, if enough lookups have gone to the tree.
    #[cold]
    fn consider(&self, lookups: u64, rows: u64, guard: &Guard) {
        let old = self.cells.load(Ordering::Acquire);
        // SAFETY: the cells are retired only after another address has replaced theirs.
        let cells = unsafe { cells_at(old) };
        if lookups < rows.max(cells.len() as u64) / ROWS_PER_LOOKUP {
            return;
        }
        let wanted = (rows + rows / 2).max(BUCKET as u64).next_power_of_two() as usize;
        self.lookups.store(0, Ordering::Relaxed);
        if wanted > cells.len() {
            self.replace(old, wanted, guard);
        }
    }

    /// Replaces the cells by more, which are empty. Without memory, the cache stays as it is.
    fn replace(&self, old: u64, count: usize, guard: &Guard) {
        let bytes = (HEADER + count) * size_of::<u64>();
        if !guard.memory().has_room(bytes.saturating_mul(PART_OF_MEMORY)) {
            return;
        }
        let Ok(block) = guard.allocate(bytes) else { return };
        // SAFETY: the block has this size, and no other thread has seen it.
        unsafe {
            block.as_ptr().write_bytes(0, HEADER + count);
            block.write(count as u64);
        }
        let new = block.as_ptr().expose_provenance() as u64;
        if self.cells.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            // SAFETY: allocated above with this size, and never shared.
            unsafe { guard.free(block, bytes) };
            return;
        }
        // ORDERING: pairs with the fence in `add`.
        fence(Ordering::SeqCst);
        // SAFETY: the address was the cache's until it was exchanged above, in this stay.
        let cells = unsafe { cells_at(old) };
        cells.iter().for_each(|cell| clear(cell, cell.load(Ordering::Relaxed), guard));
        let Some(block) = NonNull::new(std::ptr::with_exposed_provenance_mut(old as usize)) else { return };
        // SAFETY: allocated here with this size; exchanged above, by this caller alone.
        unsafe { guard.retire(block, (HEADER + cells.len()) * size_of::<u64>()) };
    }

    /// Adds a record. Returns whether it has taken the place of another one.
    fn add(&self, hash: u64, record: Record<'_>) -> bool {
        let guard = record.guard();
        let array = self.cells.load(Ordering::Relaxed);
        let bucket = self.bucket(hash, guard);
        let word = hash >> TAG_SHIFT << TAG_SHIFT | record.address();
        if record.address() > ADDRESS || bucket.iter().any(|cell| cell.load(Ordering::Relaxed) == word) {
            return false;
        }
        let free = bucket.iter().find(|cell| cell.load(Ordering::Relaxed) == 0);
        // The bits above those of the bucket.
        let other = bucket.get((hash >> (TAG_SHIFT - BUCKET.ilog2())) as usize % BUCKET);
        let Some(cell) = free.or(other).filter(|_| record.hold()) else { return false };
        let before = cell.swap(word, Ordering::AcqRel);
        if let Some(address) = named(before) {
            // SAFETY: the cell held it until it was exchanged above.
            unsafe { Record::at(address, guard).release() };
        }
        // ORDERING: pairs with the fences in `forget` and `replace`.
        fence(Ordering::SeqCst);
        if record.locked_state().is_dead() || self.cells.load(Ordering::Relaxed) != array {
            clear(cell, word, guard);
        }
        before != 0
    }

    /// Takes a record out that is dead and has left the tree.
    pub(super) fn forget(&self, key: &[u8], record: Record<'_>) {
        let Some(hash) = self.hash(&Probe::new(key)) else { return };
        // ORDERING: pairs with the fence in `add`.
        fence(Ordering::SeqCst);
        for cell in self.bucket(hash, record.guard()) {
            let word = cell.load(Ordering::Relaxed);
            if word & ADDRESS == record.address() {
                clear(cell, word, record.guard());
            }
        }
    }

    /// Frees the cells, and passes each record that they hold to `release`.
    ///
    /// # Safety
    /// No thread uses the index, now or later.
    pub(super) unsafe fn take_apart(&mut self, freed: &mut Freed, release: impl Fn(u64, &mut Freed)) {
        let address = *self.cells.get_mut();
        if address == 0 {
            return;
        }
        // SAFETY: the cells exist, because the address is the cache's.
        let cells = unsafe { cells_at(address) };
        cells
            .iter()
            .filter_map(|cell| named(cell.load(Ordering::Relaxed)))
            .for_each(|own| release(own, freed));
        // SAFETY: allocated by `replace` with this size; no thread reads them again, by the contract.
        unsafe { freed.add(address, (HEADER + cells.len()) * size_of::<u64>()) };
    }
}

/// Returns the cells at an address; none at 0.
///
/// # Safety
/// The address was a cache's at some moment of a guard's stay that outlives the cells.
#[inline]
unsafe fn cells_at<'g>(address: u64) -> &'g [AtomicU64] {
    let Some(start) = NonNull::new(std::ptr::with_exposed_provenance_mut::<u64>(address as usize)) else {
        return &[];
    };
    // SAFETY: `replace` has written the number of cells, which never changes, and all cells are atomics.
    unsafe { std::slice::from_raw_parts(start.as_ptr().add(HEADER).cast(), *start.as_ptr() as usize) }
}

/// Returns the address of the record that a cell's word names.
#[inline]
fn named(word: u64) -> Option<u64> {
    (word != 0).then_some(word & ADDRESS)
}

/// Empties a cell and releases its record, unless its word has changed.
fn clear(cell: &AtomicU64, word: u64, guard: &Guard) {
    if let Some(address) = named(word)
        && cell.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    {
        // SAFETY: the cell held it until it was exchanged above.
        unsafe { Record::at(address, guard).release() };
    }
}

#[cfg(test)]
mod tests;
