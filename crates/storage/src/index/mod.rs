//! Ordered indexes: key bytes to records.
//!
//! The keys of an index decide its tree: one to four words if all keys have one length, else a prefix and a
//! pointer. Keys are unique; a non-unique index has the primary key at the end of its keys.
//!
//! An `Index` leads to records only, and each entry holds its record. A reader reads it under a guard.
//! Cursors, observations, approaches and fingers carry the number of their stay and are not valid in another
//! one.
#![allow(unsafe_code)]

mod fingers;
mod key;
pub(crate) mod node;
mod observation;
mod outline;
mod points;
mod search;
mod tree;
mod trees;

use crate::memory::Freed;
use crate::record::NewState;
use crate::worker::Stay;
use crate::{Guard, OutOfMemory, Record};
use catalog::Table;
use fingers::Approach;
pub use fingers::Fingers;
pub use key::ShortKey;
pub use observation::{LeafChange, LeafObservation};
use points::Points;
pub use search::Search;
use std::sync::atomic::{AtomicBool, Ordering};
use trees::Trees;

/// The outcome of an insert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum InsertOutcome {
    /// The key is new.
    Inserted,
    /// The key is in the tree already, with this value.
    Exists(u64),
}

/// The direction of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Backward,
}

/// Keys at or above `lower` and below `upper` (no bound when `None`).
#[derive(Clone, Default, Debug)]
pub struct KeyRange {
    /// The least key.
    pub lower: Vec<u8>,
    /// The least key above all of the range.
    pub upper: Option<Vec<u8>>,
}

impl KeyRange {
    /// Returns the keys that begin with some bytes.
    pub fn beginning_with(bytes: &[u8]) -> Self {
        let mut upper = bytes.to_vec();
        catalog::successor(&mut upper);
        Self { lower: bytes.to_vec(), upper: (!upper.is_empty()).then_some(upper) }
    }
}

/// The entries of a leaf inside a range, in the scan's order.
#[derive(Default, Debug)]
struct Entries {
    values: Vec<u64>,
    /// The entries' keys, concatenated, and the end of each. Filled only by a scan that wants keys.
    keys: Vec<u8>,
    key_ends: Vec<usize>,
    with_keys: bool,
}

impl Entries {
    fn clear(&mut self) {
        self.values.clear();
        self.keys.clear();
        self.key_ends.clear();
    }
}

/// A scan in progress. Its buffers are reused by the next scan.
#[derive(Debug)]
pub struct Cursor {
    range: KeyRange,
    direction: Direction,
    entries: Entries,
    position: usize,
    done: bool,
    /// The stay in which the entries were read.
    stay: Stay,
}

impl Default for Cursor {
    fn default() -> Self {
        Self {
            range: KeyRange::default(),
            direction: Direction::Forward,
            entries: Entries::default(),
            position: 0,
            done: true,
            stay: Stay::default(),
        }
    }
}

impl Cursor {
    /// Begins a scan from `lower` up to, and without, `upper` (no bound when `None`) that keeps each entry's
    /// key.
    pub fn open_with_keys(&mut self, lower: &[u8], upper: Option<&[u8]>, direction: Direction) {
        self.open(lower, upper, direction);
        self.entries.with_keys = true;
    }

    /// Begins a scan from `lower` up to, and without, `upper` (no bound when `None`).
    pub fn open(&mut self, lower: &[u8], upper: Option<&[u8]>, direction: Direction) {
        self.entries.with_keys = false;
        self.range.lower.clear();
        self.range.lower.extend_from_slice(lower);
        match (upper, &mut self.range.upper) {
            (None, own) => *own = None,
            (Some(upper), Some(own)) => {
                own.clear();
                own.extend_from_slice(upper);
            }
            (Some(upper), own) => *own = Some(upper.to_vec()),
        }
        self.direction = direction;
        self.entries.clear();
        self.position = 0;
        self.done = false;
    }

    /// Ends the scan.
    #[inline]
    pub fn close(&mut self) {
        self.entries.clear();
        self.position = 0;
        self.done = true;
    }

    /// Returns the next record of the leaf that was read last, and prefetches the record behind it.
    ///
    /// # Panics
    /// The leaf was read in another stay, and `look_again` was not called.
    #[inline]
    pub fn next_buffered<'g>(&mut self, guard: &'g Guard) -> Option<Record<'g>> {
        let value = self.next_value()?;
        assert!(self.stay == guard.stay(), "what a cursor has read ahead is of the stay in which it did");
        if let Some(ahead) = self.entries.values.get(self.position + 1) {
            node::prefetch_record(*ahead);
        }
        // SAFETY: read from an index of the guard's memory, which leads to records that it holds, in the
        // guard's stay.
        Some(unsafe { Record::at(value, guard) })
    }

    #[inline]
    fn next_value(&mut self) -> Option<u64> {
        let value = self.entries.values.get(self.position).copied();
        self.position += usize::from(value.is_some());
        value
    }

    /// Returns whether the entry returned last has this key. Nodes pad fixed keys with zeros.
    pub fn last_is_under(&self, key: &[u8]) -> bool {
        let Some(last) = self.position.checked_sub(1) else { return false };
        let start = last.checked_sub(1).map_or(0, |before| self.entries.key_ends[before]);
        let entry = &self.entries.keys[start..self.entries.key_ends[last]];
        entry.strip_prefix(key).is_some_and(|padding| padding.iter().all(|byte| *byte == 0))
    }

    /// Drops the entries read but not yet returned, so that the cursor reads them again. The scan must keep
    /// keys.
    pub fn look_again(&mut self) {
        if self.position < self.entries.values.len() {
            debug_assert!(self.entries.with_keys && self.position > 0);
            let key = |place: usize| {
                let start = place.checked_sub(1).map_or(0, |before| self.entries.key_ends[before]);
                self.entries.keys[start..self.entries.key_ends[place]].to_vec()
            };
            match self.direction {
                Direction::Forward => self.range.lower = key(self.position),
                Direction::Backward => self.range.upper = Some(key(self.position - 1)),
            }
            self.done = false;
        }
        self.entries.clear();
        self.position = 0;
    }

    /// Returns the keys that are still to be read.
    pub fn unread(&self) -> KeyRange {
        self.range.clone()
    }

    /// Returns the keys that were read since these were still to be read.
    pub fn read_since(&self, unread: KeyRange) -> KeyRange {
        match self.direction {
            _ if self.done => unread,
            Direction::Forward => KeyRange { upper: Some(self.range.lower.clone()), ..unread },
            Direction::Backward => KeyRange { lower: self.range.upper.clone().unwrap_or_default(), ..unread },
        }
    }

    /// Returns the records of the leaf that was read last.
    ///
    /// # Panics
    /// As `next_buffered`.
    pub fn records<'g>(&self, guard: &'g Guard) -> impl Iterator<Item = Record<'g>> {
        assert!(self.stay == guard.stay(), "what a cursor has read ahead is of the stay in which it did");
        // SAFETY: as in `next_buffered`.
        self.entries.values.iter().map(move |value| unsafe { Record::at(*value, guard) })
    }

    /// Reads the next leaf; `None` at the end of the range.
    pub fn read_leaf(&mut self, index: &Index, guard: &Guard) -> Option<LeafObservation> {
        self.read_leaf_of(&index.trees, guard)
    }

    fn read_leaf_of(&mut self, trees: &Trees, guard: &Guard) -> Option<LeafObservation> {
        if self.done {
            return None;
        }
        self.entries.clear();
        self.position = 0;
        self.stay = guard.stay();
        let (observation, done) = trees.read_leaf(&mut self.range, self.direction, &mut self.entries, guard);
        self.done = done;
        Some(observation)
    }
}

/// An ordered index of records.
#[derive(Debug)]
pub struct Index {
    /// Each value is the address of a record of the same memory; the entry holds the record.
    trees: Trees,
    /// The records of some keys, where the index is a primary one whose keys are cached.
    points: Option<Points>,
    /// Whether the table no longer uses this index.
    abandoned: AtomicBool,
    /// Whether the database has dropped the table.
    goes_with_table: AtomicBool,
}

impl Drop for Index {
    fn drop(&mut self) {
        if *self.goes_with_table.get_mut() {
            // SAFETY: no worker sees the table any more. Workers that could see it shared the index, as a
            // part of the tables that they used; workers that entered later do not find the table. Each entry
            // held its record.
            unsafe { self.take_apart(|value, freed| Record::release_alone(value, freed)) };
        } else if *self.abandoned.get_mut() {
            // SAFETY: no worker sees the entries any more, as above. Each held its record, which workers may
            // still reach through another index.
            unsafe { self.take_apart(|value, _| Record::forget_holder(value)) };
        }
    }
}

/// The outcome of adding a record to an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Linked<'g> {
    /// The index has the record.
    Added,
    /// The key leads to this record already; it may be the same one.
    Exists(Record<'g>),
    /// The record has left its last index, so no index takes it any more.
    Gone,
}

/// The outcome of adding a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Added<'g> {
    /// The row has this new record.
    New(Record<'g>),
    /// The key or slot has this record already.
    Exists(Record<'g>),
}

impl Index {
    /// Makes an empty index, at a position of a table's definition.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn new(table: &Table, place: usize, guard: &Guard) -> Result<Self, OutOfMemory> {
        let trees = Trees::new(table.fixed_key_length(&table.indexes[place]), guard)?;
        let points = (place == 0).then(|| Points::of(table)).flatten();
        Ok(Self::of(trees, points))
    }

    fn of(trees: Trees, points: Option<Points>) -> Self {
        let (abandoned, goes_with_table) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { trees, points, abandoned, goes_with_table }
    }

    /// Checks that a guard protects the index.
    #[inline]
    fn check(&self, guard: &Guard) {
        assert!(guard.protects(self.trees.memory()), "an index is of its own database");
    }

    /// Returns the record that the trees or the cache have named under a guard.
    #[inline]
    fn record_at<'g>(&self, value: u64, guard: &'g Guard) -> Record<'g> {
        self.check(guard);
        // SAFETY: private to the index, which passes values of its trees only. They lead to records of this
        // memory, and hold them.
        unsafe { Record::at(value, guard) }
    }

    /// Frees the nodes, the keys and the point cache. Passes each value of an entry or a cell to `release`.
    ///
    /// # Safety
    /// No thread uses the index, now or later.
    unsafe fn take_apart(&mut self, release: impl Fn(u64, &mut Freed)) {
        let mut freed = Freed::new();
        // SAFETY: passed on.
        unsafe {
            if let Some(points) = &mut self.points {
                points.take_apart(&mut freed, &release);
            }
            self.trees.take_apart(&mut freed, release);
        }
        self.trees.memory().take_back(freed);
    }

    /// Declares that the table no longer uses this index. When dropped, the index releases its records, so
    /// that each is freed with its last entry. An index that is dropped with its database skips this, because
    /// the memory is freed as a whole.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    /// Declares that the database has dropped the table. When dropped, the index frees its records.
    pub(crate) fn go_with_table(&self) {
        self.goes_with_table.store(true, Ordering::Relaxed);
    }

    /// Adds a record, unless its key is present. `fingers` speed up runs of ascending inserts. Calls
    /// `on_change` for every change of a leaf.
    ///
    /// # Errors
    /// Out of memory; nothing was added.
    #[inline]
    pub(crate) fn insert<'g>(
        &self,
        key: &[u8],
        record: Record<'g>,
        fingers: &mut Fingers,
        on_change: &mut impl FnMut(LeafChange),
    ) -> Result<Linked<'g>, OutOfMemory> {
        if !record.hold() {
            return Ok(Linked::Gone);
        }
        // SAFETY: held just above.
        let existing = unsafe { self.insert_held(key, record, fingers, on_change)? };
        Ok(existing.map_or(Linked::Added, Linked::Exists))
    }

    /// Adds a row with a new record, with or without a slot, unless the key is present.
    ///
    /// # Errors
    /// Out of memory; nothing was added.
    #[inline]
    pub(crate) fn insert_new<'g>(
        &self,
        key: &[u8],
        (image, slot, state): (&[u64], Option<u32>, NewState),
        guard: &'g Guard,
        fingers: &mut Fingers,
        on_change: &mut impl FnMut(LeafChange),
    ) -> Result<Added<'g>, OutOfMemory> {
        let record = Record::create(image, state, guard)?;
        slot.inspect(|slot| record.set_slot(*slot));
        // SAFETY: its maker holds it.
        let existing = unsafe { self.insert_held(key, record, fingers, on_change)? };
        Ok(existing.map_or(Added::New(record), Added::Exists))
    }

    /// Adds a record that the caller holds. The caller's hold passes to the new entry, or is released if the
    /// key is present. Returns the record that has the key already.
    ///
    /// # Safety
    /// The caller holds the record.
    #[inline]
    unsafe fn insert_held<'g>(
        &self,
        key: &[u8],
        record: Record<'g>,
        fingers: &mut Fingers,
        on_change: &mut impl FnMut(LeafChange),
    ) -> Result<Option<Record<'g>>, OutOfMemory> {
        let guard = record.guard();
        let inserted = self.trees.insert(key, record.address(), guard, fingers, on_change);
        if !matches!(inserted, Ok(InsertOutcome::Inserted)) {
            // SAFETY: the caller held it, by the contract, and no entry took over the hold.
            unsafe { record.release() };
        }
        Ok(match inserted? {
            InsertOutcome::Inserted => None,
            InsertOutcome::Exists(value) => Some(self.record_at(value, guard)),
        })
    }

    /// Removes a key. Frees its record once no worker can see it, if nothing else holds it. Returns whether
    /// the key was present.
    pub fn remove(&self, key: &[u8], guard: &Guard) -> bool {
        self.take(key, None, guard, &mut |_| false)
    }

    /// Removes a key, unless it leads to another record than `expected`.
    fn take(
        &self,
        key: &[u8],
        expected: Option<Record<'_>>,
        guard: &Guard,
        on_change: &mut impl FnMut(LeafChange) -> bool,
    ) -> bool {
        let removed = self.trees.remove_own(key, expected.map(Record::address), guard, on_change);
        removed.is_some_and(|value| {
            let record = self.record_at(value, guard);
            if let Some(points) = &self.points {
                points.forget(key, record);
            }
            // SAFETY: the entry held the record and was removed.
            unsafe { record.release() };
            true
        })
    }

    /// Removes a key if it leads to this record. Calls `on_change`, which returns whether the running
    /// transaction has observed the leaf; such a leaf stays even when it is empty. Frees the record once no
    /// worker can see it, if nothing else holds it. Returns whether the key led to the record.
    pub fn remove_entry(
        &self,
        key: &[u8],
        record: Record<'_>,
        on_change: &mut impl FnMut(LeafChange) -> bool,
    ) -> bool {
        self.take(key, Some(record), record.guard(), on_change)
    }

    /// Returns at most `parts - 1` keys that divide the index into ranges of about the same size, in order.
    pub fn split_keys(&self, parts: usize, guard: &Guard) -> Vec<Vec<u8>> {
        self.trees.split_keys(parts, guard)
    }
}

#[cfg(test)]
mod tests;
