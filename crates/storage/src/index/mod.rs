//! Ordered indexes: key bytes to records.
//!
//! Which tree holds an index follows from its keys: one to four words where all keys have one length, a
//! prefix and a pointer otherwise. Every index maps unique keys; a non-unique index has the primary key at
//! the end of its keys.
//!
//! `Index` leads to records and nothing else, and an entry of it holds its record. What is read through it is
//! read under a guard; what is kept of it (cursors, observations, approaches, fingers) names the stay, and is
//! worth nothing in another one.
#![allow(unsafe_code)]

mod key;
pub(crate) mod node;
mod tree;
mod trees;

use crate::latch::Version;
use crate::record::NewState;
use crate::worker::Stay;
use crate::{Guard, OutOfMemory, Record};
use std::sync::atomic::{AtomicBool, Ordering};
pub use tree::Approach;
use trees::Trees;

/// What a reader saw of a leaf: that it held what it held at a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeafObservation {
    leaf: u64,
    version: Version,
    stay: Stay,
}

impl LeafObservation {
    /// Whether the leaf's keys are surely still the same. Nothing is known in another stay than the
    /// observer's.
    #[inline]
    pub fn is_valid(&self, guard: &Guard) -> bool {
        tree::is_unchanged(self, guard)
    }

    /// Follows a change that the observer itself made: true when this observation was of the changed leaf as
    /// it was just before, and now stands for it as it is just after.
    pub fn follow(&mut self, change: &LeafChange) -> bool {
        let own = self.leaf == change.leaf && self.version == change.before && self.stay == change.stay;
        if own {
            self.version = change.after;
        }
        own
    }
}

/// A change of a leaf by its own transaction.
#[derive(Clone, Copy, Debug)]
pub struct LeafChange {
    leaf: u64,
    before: Version,
    after: Version,
    sibling: Option<(u64, Version)>,
    stay: Stay,
}

impl LeafChange {
    fn of(leaf: u64, before: Version, after: Version, guard: &Guard) -> Self {
        Self { leaf, before, after, sibling: None, stay: guard.stay() }
    }

    /// The new leaf that a split moved keys to: a transaction that had observed the old one has observed this
    /// one too.
    pub fn sibling(&self) -> Option<LeafObservation> {
        self.sibling.map(|(leaf, version)| LeafObservation { leaf, version, stay: self.stay })
    }
}

/// What became of an insert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum InsertOutcome {
    /// The key is new.
    Inserted,
    /// The key was there, with this value.
    Exists(u64),
}

/// The order of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Backward,
}

/// Keys from `lower` on, below `upper`.
#[derive(Clone, Default, Debug)]
struct Range {
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
}

/// The entries of a leaf that lie in a range, in the scan's order.
#[derive(Default, Debug)]
struct Entries {
    values: Vec<u64>,
    /// The entries' keys one after the other, and where each ends; where they are wanted.
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

/// A scan in progress; its buffers are kept from one scan to the next.
#[derive(Debug)]
pub struct Cursor {
    range: Range,
    direction: Direction,
    entries: Entries,
    position: usize,
    done: bool,
    /// In which the entries were read.
    stay: Stay,
}

impl Default for Cursor {
    fn default() -> Self {
        Self {
            range: Range::default(),
            direction: Direction::Forward,
            entries: Entries::default(),
            position: 0,
            done: true,
            stay: Stay::default(),
        }
    }
}

impl Cursor {
    /// Begins a scan of the keys from `lower` on and below `upper` (no bound when `None`) that remembers each
    /// entry's key.
    pub fn open_with_keys(&mut self, lower: &[u8], upper: Option<&[u8]>, direction: Direction) {
        self.open(lower, upper, direction);
        self.entries.with_keys = true;
    }

    /// Begins a scan of the keys from `lower` on and below `upper` (no bound when `None`).
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

    /// The next record, without looking further than the leaf that was read last; the one behind it is
    /// fetched ahead.
    ///
    /// # Panics
    /// The leaf was read in another stay, and the cursor has not looked again.
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

    /// Whether the entry that was returned last stands under a key. Fixed keys are padded with zeros in their
    /// nodes.
    pub fn last_is_under(&self, key: &[u8]) -> bool {
        let Some(last) = self.position.checked_sub(1) else { return false };
        let start = last.checked_sub(1).map_or(0, |before| self.entries.key_ends[before]);
        let entry = &self.entries.keys[start..self.entries.key_ends[last]];
        entry.strip_prefix(key).is_some_and(|padding| padding.iter().all(|byte| *byte == 0))
    }

    /// Forgets what is read but not yet returned: it is read again, by a scan that remembers keys.
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

/// Where the last insert into an index was. Of use with that index, in that stay.
#[derive(Default, Debug)]
pub struct Finger(Option<tree::Finger>);

/// An ordered index of records.
#[derive(Debug)]
pub struct Index {
    /// Every value is the address of a record of the same memory, which the entry holds.
    trees: Trees,
    /// Whether its table goes on without it.
    abandoned: AtomicBool,
    /// Whether the database goes on without its table.
    goes_with_table: AtomicBool,
}

impl Drop for Index {
    fn drop(&mut self) {
        if *self.goes_with_table.get_mut() {
            // SAFETY: no worker sees the table any more: those that could had a share in the index, as a part
            // of the tables that they used, and none that has begun since finds the table. Each entry held
            // its record.
            unsafe { self.trees.take_apart(|value, freed| Record::release_alone(value, freed)) };
        } else if *self.abandoned.get_mut() {
            // SAFETY: no worker sees the entries any more, as above. Each held its record, which workers may
            // find elsewhere.
            unsafe { self.trees.take_apart(|value, _| Record::forget_holder(value)) };
        }
    }
}

/// What became of a record that was to come into an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Linked<'g> {
    /// It is there.
    Added,
    /// Its key was there, with this record, which may be the same one.
    Exists(Record<'g>),
    /// It has left its last index, and comes into no other one.
    Gone,
}

/// What became of a row that was to be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Added<'g> {
    /// It has this new record.
    New(Record<'g>),
    /// This record is where it should go.
    Exists(Record<'g>),
}

impl Index {
    /// An empty index; `key_length` is the bytes of its keys when all have the same number of them.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn new(key_length: Option<usize>, guard: &Guard) -> Result<Self, OutOfMemory> {
        let (abandoned, goes_with_table) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { trees: Trees::new(key_length, guard)?, abandoned, goes_with_table })
    }

    /// Says that the table goes on without this index: when it is dropped, it lets its records go, so that
    /// they are freed with their other entries. (An index that goes with its database need not: everything
    /// goes with the memory.)
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    /// Says that the database goes on without the table: when the index is dropped, its records are freed.
    pub(crate) fn go_with_table(&self) {
        self.goes_with_table.store(true, Ordering::Relaxed);
    }

    /// Finds the leaf where a key is or would be and begins to load it, without waiting for it. `None` when
    /// that came to nothing.
    #[inline]
    pub fn approach(&self, key: &[u8], guard: &Guard) -> Option<Approach> {
        self.trees.approach(key, guard)
    }

    /// The record of the key that was approached, in this stay; `None` when `get` has to tell.
    #[inline]
    pub fn arrive<'g>(
        &self,
        approach: &Approach,
        key: &[u8],
        guard: &'g Guard,
    ) -> Option<Option<Record<'g>>> {
        let value = self.trees.arrive(approach, key, guard)?;
        // SAFETY: the tree leads to records of this memory that it holds.
        Some(value.map(|value| unsafe { Record::at(value, guard) }))
    }

    /// The record of a key, and what was observed of the leaf where it is or would be.
    #[inline]
    pub fn get<'g>(&self, key: &[u8], guard: &'g Guard) -> (Option<Record<'g>>, LeafObservation) {
        let (value, observed) = self.trees.get(key, guard);
        // SAFETY: the tree leads to records of this memory that it holds.
        (value.map(|value| unsafe { Record::at(value, guard) }), observed)
    }

    /// Adds a record, unless its key is there. `finger` speeds up a run of ascending inserts. Every change of
    /// a leaf is told to `on_change`.
    ///
    /// # Errors
    /// Out of memory; nothing was added.
    #[inline]
    pub(crate) fn insert<'g>(
        &self,
        key: &[u8],
        record: Record<'g>,
        finger: &mut Finger,
        on_change: &mut impl FnMut(LeafChange),
    ) -> Result<Linked<'g>, OutOfMemory> {
        if !record.hold() {
            return Ok(Linked::Gone);
        }
        // SAFETY: held just above.
        let existing = unsafe { self.insert_held(key, record, finger, on_change)? };
        Ok(existing.map_or(Linked::Added, Linked::Exists))
    }

    /// Adds a row with a new record, which has a slot or not, unless the key is there.
    ///
    /// # Errors
    /// Out of memory; nothing was added.
    #[inline]
    pub(crate) fn insert_new<'g>(
        &self,
        key: &[u8],
        (image, slot, state): (&[u64], Option<u32>, NewState),
        guard: &'g Guard,
        finger: &mut Finger,
        on_change: &mut impl FnMut(LeafChange),
    ) -> Result<Added<'g>, OutOfMemory> {
        let record = Record::create(image, state, guard)?;
        slot.inspect(|slot| record.set_slot(*slot));
        // SAFETY: its maker holds it.
        let existing = unsafe { self.insert_held(key, record, finger, on_change)? };
        Ok(existing.map_or(Added::New(record), Added::Exists))
    }

    /// Adds a record that the caller holds. Afterwards the entry holds it, or nothing does. The record that
    /// has the key already, if one does.
    ///
    /// # Safety
    /// The caller holds the record.
    #[inline]
    unsafe fn insert_held<'g>(
        &self,
        key: &[u8],
        record: Record<'g>,
        finger: &mut Finger,
        on_change: &mut impl FnMut(LeafChange),
    ) -> Result<Option<Record<'g>>, OutOfMemory> {
        let guard = record.guard();
        let inserted = self.trees.insert(key, record.address(), guard, finger, on_change);
        if !matches!(inserted, Ok(InsertOutcome::Inserted)) {
            // SAFETY: held by the caller, by the contract, and no entry does instead.
            unsafe { record.release() };
        }
        Ok(match inserted? {
            InsertOutcome::Inserted => None,
            // SAFETY: the tree leads to records of this memory that it holds.
            InsertOutcome::Exists(value) => Some(unsafe { Record::at(value, guard) }),
        })
    }

    /// Removes a key, and frees its record once no worker can see it, if nothing else holds it. Whether the
    /// key was there.
    pub fn remove(&self, key: &[u8], guard: &Guard) -> bool {
        self.take(key, None, guard, &mut |_| false)
    }

    /// Removes a key, unless it has another record than an expected one.
    fn take(
        &self,
        key: &[u8],
        expected: Option<Record<'_>>,
        guard: &Guard,
        on_change: &mut impl FnMut(LeafChange) -> bool,
    ) -> bool {
        let removed = self.trees.remove_own(key, expected.map(Record::address), guard, on_change);
        removed.is_some_and(|value| {
            // SAFETY: the entry held the record, and is gone.
            unsafe { Record::at(value, guard).release() };
            true
        })
    }

    /// Removes a key if it has this record. The change of its leaf is told to `on_change`, which says whether
    /// the running transaction has observed the leaf: then it stays, even when it is empty now. Frees the
    /// record once no worker can see it, if nothing else holds it. Returns whether the key had the record.
    pub fn remove_entry(
        &self,
        key: &[u8],
        record: Record<'_>,
        on_change: &mut impl FnMut(LeafChange) -> bool,
    ) -> bool {
        self.take(key, Some(record), record.guard(), on_change)
    }

    /// Keys that cut the index into at most `parts` ranges of about the same size, in order.
    pub fn split_keys(&self, parts: usize, guard: &Guard) -> Vec<Vec<u8>> {
        self.trees.split_keys(parts, guard)
    }
}

#[cfg(test)]
mod tests;
