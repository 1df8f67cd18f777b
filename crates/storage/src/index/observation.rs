//! What a transaction has observed of an index: leaves, in the versions in which it has read them. Its guard
//! against phantoms.
//! Source: Silo §4.6 (leaf versions). Differs: only keys that were added count.
//!
//! Not here: the changes of leaves (`tree`).
#![allow(unsafe_code)]

use super::key::Fixed;
use super::node::Node;
use crate::Guard;
use crate::latch::{Since, Version};
use crate::worker::Stay;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of leaves that have left their trees, and have a successor.
static DEPARTURES: AtomicU64 = AtomicU64::new(0);

/// Counts a leaf that leaves its tree. The caller holds the latch of its parent.
pub(super) fn count_departure() {
    // ORDERING: the Release of the parent's latch makes it visible to a thread that reaches the successor.
    DEPARTURES.fetch_add(1, Ordering::Relaxed);
}

/// A reader's observation of a leaf: the version at which it read the leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeafObservation {
    pub(super) leaf: u64,
    pub(super) version: Version,
    pub(super) stay: Stay,
}

impl LeafObservation {
    /// Returns whether no key was added to the leaf since the observation; false in any other stay. A key
    /// that was removed belongs to a record that its readers have noted.
    #[inline]
    pub fn is_valid(&self, guard: &Guard) -> bool {
        self.stay == guard.stay() && { *self }.settle(guard) == Since::NothingAdded
    }

    /// Goes on to the leaf where the keys of the observed one belong, if that one has left its tree; returns
    /// what has happened to the leaf that is then observed. The observation is of the guard's stay.
    fn settle(&mut self, guard: &Guard) -> Since {
        loop {
            // The shape of the keys does not matter, because only the latch and the successor are read.
            // SAFETY: the leaf was read from its tree in the guard's stay, so the guard keeps it. It also
            // keeps the leaf's successor, which was in the tree later than the leaf.
            let node = unsafe { Node::<Fixed<1>>::at(self.leaf, guard) };
            match (node.latch.since(self.version), node.successor()) {
                (Since::LeftTree, Some((leaf, version))) => (self.leaf, self.version) = (leaf, version),
                (since, _) => return since,
            }
        }
    }

    /// Follows a change by the observer itself. Returns true if this observation was of the leaf just before
    /// the change; it then stands for the leaf just after it. If observed leaves may have left their tree
    /// since the observer's last change (`LeafChange::departures`), pass `may_have_left`.
    pub fn follow(&mut self, change: &LeafChange, may_have_left: bool, guard: &Guard) -> bool {
        if self.stay != change.stay {
            return false;
        }
        if may_have_left && self.leaf != change.leaf {
            self.settle(guard);
        }
        let is_of_leaf = self.leaf == change.leaf;
        let own = is_of_leaf && self.version.has_the_additions_of(change.before);
        if own {
            self.version = change.after;
        }
        own
    }
}

/// A change that a transaction makes to a leaf.
#[derive(Clone, Copy, Debug)]
pub struct LeafChange {
    pub(super) leaf: u64,
    before: Version,
    after: Version,
    sibling: Option<(u64, Version)>,
    departures: u64,
    stay: Stay,
}

impl LeafChange {
    pub(super) fn of(leaf: u64, before: Version, after: Version, guard: &Guard) -> Self {
        let departures = DEPARTURES.load(Ordering::Relaxed);
        Self { leaf, before, after, sibling: None, departures, stay: guard.stay() }
    }

    /// Returns this change of a leaf that was split, with the new leaf.
    pub(super) fn with_sibling(self, sibling: Option<(u64, Version)>) -> Self {
        Self { sibling, ..self }
    }

    /// Returns how many leaves have left their trees before the change, in the whole process. (Each has told
    /// so before its parent was unlocked, through which the change has reached its leaf.)
    pub fn departures(&self) -> u64 {
        self.departures
    }

    /// Returns the new leaf that a split moved keys to. A transaction that had observed the old leaf has
    /// observed this one too.
    pub fn sibling(&self) -> Option<LeafObservation> {
        self.sibling.map(|(leaf, version)| LeafObservation { leaf, version, stay: self.stay })
    }
}
