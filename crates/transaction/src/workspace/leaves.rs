//! The index leaves that the running transaction has observed: its guard against phantoms.
//! Source: Silo §4.6 (leaf versions).
//!
//! Invariant: a leaf that only the transaction itself has changed since it observed it stays valid; after a
//! split, both halves are observed. Held by: `own_changes_of_an_observed_index_are_no_conflict`
//! (crates/reprise), `interleaved.rs` (crates/reprise).

use super::looks::Look;
use super::write_set::WriteSet;
use std::mem;
use storage::{Guard, LeafChange, LeafObservation};

/// A moment in the list of observed leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LeavesMark {
    observed: usize,
    looks: usize,
    splits: usize,
}

/// The observed leaves, in the order of their observation.
#[derive(Default, Debug)]
pub(crate) struct Leaves {
    observed: Vec<LeafObservation>,
    /// What was observed while recovery adds rows; in place of `observed`.
    looks: Vec<Look>,
    /// `LeafChange::departures` of the last change of its own.
    departures: u64,
    /// How many halves of observed leaves were added behind their order.
    splits: usize,
}

impl Leaves {
    pub(super) fn clear(&mut self) {
        self.observed.clear();
        self.looks.clear();
        self.departures = 0;
        self.splits = 0;
    }

    pub(super) fn observe(&mut self, leaf: LeafObservation) {
        if self.observed.last() != Some(&leaf) {
            self.observed.push(leaf);
        }
    }

    pub(super) fn look(&mut self, look: Look) {
        self.looks.push(look);
    }

    /// Whether no other transaction has changed the keys of an observed leaf.
    pub(crate) fn are_valid(&self, writes: &WriteSet, guard: &Guard) -> bool {
        self.observed.iter().all(|leaf| leaf.is_valid(guard))
            && self.looks.iter().all(|look| look.is_valid(writes, guard))
    }

    /// Forgets the looks, which hold tables.
    pub(super) fn forget_looks(&mut self) {
        self.looks.clear();
    }

    /// Follows a change of a leaf by the transaction itself; returns whether the leaf is observed.
    pub(super) fn follow(&mut self, change: &LeafChange, guard: &Guard) -> bool {
        let may_have_left = mem::replace(&mut self.departures, change.departures()) != change.departures();
        self.looks.iter_mut().for_each(|look| look.follow(change, may_have_left, guard));
        let mut is_observed = false;
        for leaf in &mut self.observed {
            is_observed |= leaf.follow(change, may_have_left, guard);
        }
        if let (true, Some(sibling)) = (is_observed, change.sibling()) {
            self.observed.push(sibling);
            self.splits += 1;
        }
        is_observed
    }

    pub(super) fn len(&self) -> usize {
        self.observed.len() + self.looks.len()
    }

    pub(super) fn mark(&self) -> LeavesMark {
        LeavesMark { observed: self.observed.len(), looks: self.looks.len(), splits: self.splits }
    }

    /// Forgets what was observed since a mark. After a split all of it stays: the halves of leaves that were
    /// observed before the mark are among it.
    pub(super) fn forget_since(&mut self, mark: LeavesMark) {
        self.looks.truncate(mark.looks);
        if self.splits == mark.splits {
            self.observed.truncate(mark.observed);
        }
    }
}
