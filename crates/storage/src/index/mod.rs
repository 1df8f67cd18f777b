//! Ordered indexes: key bytes to records.
//!
//! Which tree holds an index follows from its keys: one to four words where all keys have one length, a prefix and a
//! pointer otherwise. Every index maps unique keys; a non-unique index has the primary key at the end of its keys.

mod key;
pub(crate) mod node;
mod tree;

use crate::latch::Version;
use crate::{OutOfMemory, Worker};
use key::{Fixed, Variable};
pub use tree::Approach;
use tree::Tree;

/// What a reader saw of a leaf: that it held what it held at a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeafObservation {
    leaf: u64,
    version: Version,
}

impl LeafObservation {
    /// Whether the leaf's keys are still the same. To be asked by the worker that observed it, before it leaves.
    #[inline]
    pub fn is_valid(&self) -> bool {
        tree::is_unchanged(self.leaf, self.version)
    }

    /// Follows a change that the observer itself made: true when this observation was of the changed leaf as it was
    /// just before, and now stands for it as it is just after.
    pub fn follow(&mut self, change: &LeafChange) -> bool {
        let own = self.leaf == change.leaf && self.version == change.before;
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
}

impl LeafChange {
    /// The new leaf that a split moved keys to: whoever had observed the old one has observed this one too.
    pub fn sibling(&self) -> Option<LeafObservation> {
        self.sibling.map(|(leaf, version)| LeafObservation { leaf, version })
    }
}

/// What became of an insert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InsertOutcome {
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
}

impl Default for Cursor {
    fn default() -> Self {
        Self {
            range: Range::default(),
            direction: Direction::Forward,
            entries: Entries::default(),
            position: 0,
            done: true,
        }
    }
}

impl Cursor {
    /// Begins a scan of the keys from `lower` on and below `upper` (no bound when `None`) that remembers each entry's key.
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

    /// The next value, without looking further than the leaf that was read last.
    #[inline]
    pub fn next_buffered(&mut self) -> Option<u64> {
        let value = self.entries.values.get(self.position).copied();
        self.position += usize::from(value.is_some());
        value
    }

    /// Whether the entry that was returned last stands under a key. Fixed keys are padded with zeros in their nodes.
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

    /// The values that are read but not yet returned.
    pub fn buffered(&self) -> &[u64] {
        &self.entries.values[self.position..]
    }

    /// Reads the next leaf; `None` at the end of the range.
    pub fn read_leaf(&mut self, index: &Index) -> Option<LeafObservation> {
        if self.done {
            return None;
        }
        self.entries.clear();
        self.position = 0;
        let (observation, done) = index.read_leaf(&mut self.range, self.direction, &mut self.entries);
        self.done = done;
        Some(observation)
    }
}

/// Where the last insert into an index was. To be used with that index alone, and forgotten when the worker leaves.
#[derive(Default, Debug)]
pub struct Finger(Option<tree::Finger>);

/// An ordered index.
#[derive(Debug)]
pub struct Index(Shape);

#[derive(Debug)]
enum Shape {
    One(Tree<Fixed<1>>),
    Two(Tree<Fixed<2>>),
    Three(Tree<Fixed<3>>),
    Four(Tree<Fixed<4>>),
    Variable(Tree<Variable>),
}

macro_rules! with_tree {
    ($self:expr, $tree:ident => $body:expr) => {
        match &$self.0 {
            Shape::One($tree) => $body,
            Shape::Two($tree) => $body,
            Shape::Three($tree) => $body,
            Shape::Four($tree) => $body,
            Shape::Variable($tree) => $body,
        }
    };
}

impl Index {
    /// An empty index; `key_length` is the bytes of its keys when all have the same number of them.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(key_length: Option<usize>, worker: &mut Worker) -> Result<Self, OutOfMemory> {
        Ok(Self(match key_length {
            Some(0..=8) => Shape::One(Tree::new(worker)?),
            Some(9..=16) => Shape::Two(Tree::new(worker)?),
            Some(17..=24) => Shape::Three(Tree::new(worker)?),
            Some(25..=32) => Shape::Four(Tree::new(worker)?),
            _ => Shape::Variable(Tree::new(worker)?),
        }))
    }

    /// Finds the leaf where a key is or would be and begins to load it, without waiting for it. `None` when that came to
    /// nothing. The worker is active.
    #[inline]
    pub fn approach(&self, key: &[u8], worker: &Worker) -> Option<Approach> {
        debug_assert!(worker.is_active());
        with_tree!(self, tree => tree.approach(key))
    }

    /// The value of the key that was approached, by this worker since it entered; `None` when `get` has to tell.
    #[inline]
    pub fn arrive(&self, approach: &Approach, key: &[u8], worker: &Worker) -> Option<Option<u64>> {
        debug_assert!(worker.is_active());
        with_tree!(self, tree => tree.arrive(approach, key))
    }

    /// The value of a key, and what was observed of the leaf where it is or would be. The worker is active.
    #[inline]
    pub fn get(&self, key: &[u8], worker: &Worker) -> (Option<u64>, LeafObservation) {
        debug_assert!(worker.is_active());
        with_tree!(self, tree => tree.get(key))
    }

    /// Adds a key, unless it is there; `finger` speeds up a run of ascending inserts. Every change of a leaf is told to `on_change`. The worker is active.
    ///
    /// # Errors
    /// Out of memory; nothing was added.
    #[inline]
    pub fn insert(
        &self,
        key: &[u8],
        value: u64,
        worker: &mut Worker,
        finger: &mut Finger,
        on_change: &mut impl FnMut(LeafChange),
    ) -> Result<InsertOutcome, OutOfMemory> {
        debug_assert!(worker.is_active());
        with_tree!(self, tree => tree.insert(key, value, worker, &mut finger.0, on_change))
    }

    /// Removes a key and returns its value. The worker is active.
    pub fn remove(&self, key: &[u8], worker: &mut Worker) -> Option<u64> {
        debug_assert!(worker.is_active());
        with_tree!(self, tree => tree.remove(key, worker))
    }

    /// Removes a key. The change of its leaf is told to `on_change`, which says whether the running transaction has observed the leaf:
    /// then it stays, even when it is empty now. The worker is active.
    pub fn remove_own(
        &self,
        key: &[u8],
        worker: &mut Worker,
        on_change: &mut impl FnMut(LeafChange) -> bool,
    ) {
        debug_assert!(worker.is_active());
        with_tree!(self, tree => tree.remove_own(key, worker, on_change));
    }

    /// Keys that cut the index into at most `parts` ranges of about the same size, in order.
    pub fn split_keys(&self, parts: usize) -> Vec<Vec<u8>> {
        let all = with_tree!(self, tree => tree.separators(parts));
        let cuts = parts.min(all.len() + 1);
        (1..cuts).map(|cut| all[cut * (all.len() + 1) / cuts - 1].clone()).collect()
    }

    fn read_leaf(
        &self,
        range: &mut Range,
        direction: Direction,
        entries: &mut Entries,
    ) -> (LeafObservation, bool) {
        with_tree!(self, tree => tree.read_leaf(range, direction, entries))
    }
}

#[cfg(test)]
mod tests;
