//! The index leaves that the running transaction has observed: its guard against phantoms.
//! Source: Silo §4.6 (leaf versions).
//!
//! Invariant: a leaf that only the transaction itself has changed since it observed it stays valid; after a
//! split, both halves are observed. Held by: `own_changes_of_an_observed_index_are_no_conflict`
//! (crates/reprise), `interleaved.rs` (crates/reprise).

use storage::{Guard, LeafChange, LeafObservation};

/// A moment in the list of observed leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LeavesMark {
    observed: usize,
    splits: usize,
}

/// The observed leaves, in the order of their observation.
#[derive(Default, Debug)]
pub(crate) struct Leaves {
    observed: Vec<LeafObservation>,
    /// How many halves of observed leaves were added behind their order.
    splits: usize,
}

impl Leaves {
    pub(super) fn clear(&mut self) {
        self.observed.clear();
        self.splits = 0;
    }

    pub(super) fn observe(&mut self, leaf: LeafObservation) {
        if self.observed.last() != Some(&leaf) {
            self.observed.push(leaf);
        }
    }

    /// Whether no other transaction has changed the keys of an observed leaf.
    pub(crate) fn are_valid(&self, guard: &Guard) -> bool {
        self.observed.iter().all(|leaf| leaf.is_valid(guard))
    }

    /// Follows a change of a leaf by the transaction itself; returns whether the leaf is observed.
    pub(super) fn follow(&mut self, change: &LeafChange) -> bool {
        let mut is_observed = false;
        for leaf in &mut self.observed {
            is_observed |= leaf.follow(change);
        }
        if let (true, Some(sibling)) = (is_observed, change.sibling()) {
            self.observed.push(sibling);
            self.splits += 1;
        }
        is_observed
    }

    pub(super) fn len(&self) -> usize {
        self.observed.len()
    }

    pub(super) fn mark(&self) -> LeavesMark {
        LeavesMark { observed: self.observed.len(), splits: self.splits }
    }

    /// Forgets what was observed since a mark. After a split all of it stays: the halves of leaves that were
    /// observed before the mark are among it.
    pub(super) fn forget_since(&mut self, mark: LeavesMark) {
        if self.splits == mark.splits {
            self.observed.truncate(mark.observed);
        }
    }
}
