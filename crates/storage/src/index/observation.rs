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
        let LeafObservation { mut leaf, mut version, stay } = *self;
        if stay != guard.stay() {
            return false;
        }
        loop {
            // The shape of the keys does not matter, because only the latch and the successor are read.
            // SAFETY: the leaf was read from its tree in the guard's stay, so the guard keeps it. It also
            // keeps the leaf's successor, which was in the tree later than the leaf.
            let node = unsafe { Node::<Fixed<1>>::at(leaf, guard) };
            match node.latch.since(version) {
                Since::NothingAdded => return true,
                Since::Added => return false,
                Since::LeftTree => match node.successor() {
                    Some(successor) => (leaf, version) = successor,
                    None => return false,
                },
            }
        }
    }

    /// Follows a change by the observer itself. Returns true if this observation was of the leaf just before
    /// the change; it then stands for the leaf just after it.
    pub fn follow(&mut self, change: &LeafChange) -> bool {
        let is_of_leaf = self.leaf == change.leaf && self.stay == change.stay;
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
    stay: Stay,
}

impl LeafChange {
    pub(super) fn of(leaf: u64, before: Version, after: Version, guard: &Guard) -> Self {
        Self { leaf, before, after, sibling: None, stay: guard.stay() }
    }

    /// Returns this change of a leaf that was split, with the new leaf.
    pub(super) fn with_sibling(self, sibling: Option<(u64, Version)>) -> Self {
        Self { sibling, ..self }
    }

    /// Returns the new leaf that a split moved keys to. A transaction that had observed the old leaf has
    /// observed this one too.
    pub fn sibling(&self) -> Option<LeafObservation> {
        self.sibling.map(|(leaf, version)| LeafObservation { leaf, version, stay: self.stay })
    }
}
