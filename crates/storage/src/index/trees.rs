//! Selects the tree shape that fits an index's keys. Values are plain integers here.

use super::fingers::Approach;
use super::key::{Fixed, Probe, Variable};
use super::tree::Tree;
use super::{Direction, Entries, Fingers, InsertOutcome, KeyRange, LeafChange, LeafObservation};
use crate::memory::Freed;
use crate::{Guard, Memory, OutOfMemory};
use std::sync::Arc;

/// A tree from keys to integers.
#[derive(Debug)]
pub(super) struct Trees {
    shape: Shape,
    /// The memory of its nodes.
    memory: Arc<Memory>,
}

#[derive(Debug)]
enum Shape {
    One(Tree<Fixed<1>>),
    Two(Tree<Fixed<2>>),
    Three(Tree<Fixed<3>>),
    Four(Tree<Fixed<4>>),
    Variable(Tree<Variable>),
}

macro_rules! with_tree {
    ($self:expr, $guard:expr, $tree:ident => $body:expr) => {{
        assert!($guard.protects(&$self.memory), "an index is of its own database");
        match &$self.shape {
            Shape::One($tree) => $body,
            Shape::Two($tree) => $body,
            Shape::Three($tree) => $body,
            Shape::Four($tree) => $body,
            Shape::Variable($tree) => $body,
        }
    }};
}

impl Trees {
    pub(super) fn new(key_length: Option<usize>, guard: &Guard) -> Result<Self, OutOfMemory> {
        let shape = match key_length {
            Some(0..=8) => Shape::One(Tree::new(guard)?),
            Some(9..=16) => Shape::Two(Tree::new(guard)?),
            Some(17..=24) => Shape::Three(Tree::new(guard)?),
            Some(25..=32) => Shape::Four(Tree::new(guard)?),
            _ => Shape::Variable(Tree::new(guard)?),
        };
        Ok(Self { shape, memory: Arc::clone(guard.memory()) })
    }

    #[inline]
    pub(super) fn approach(&self, key: &Probe<'_>, guard: &Guard) -> Option<Approach> {
        with_tree!(self, guard, tree => tree.approach(key, guard))
    }

    #[inline]
    pub(super) fn arrive(&self, approach: &Approach, key: &Probe<'_>, guard: &Guard) -> Option<Option<u64>> {
        with_tree!(self, guard, tree => tree.arrive(approach, key, guard))
    }

    #[inline]
    pub(super) fn get(&self, key: &Probe<'_>, guard: &Guard) -> (Option<u64>, LeafObservation) {
        with_tree!(self, guard, tree => tree.get(key, guard))
    }

    #[inline]
    pub(super) fn insert(
        &self,
        key: &[u8],
        value: u64,
        guard: &Guard,
        fingers: &mut Fingers,
        on_change: &mut impl FnMut(LeafChange),
    ) -> Result<InsertOutcome, OutOfMemory> {
        with_tree!(self, guard, tree => tree.insert(key, value, guard, fingers, on_change))
    }

    /// Removes a key and returns its value. Calls `on_change`, which returns whether the leaf must stay; any
    /// other empty leaf leaves the tree.
    pub(super) fn remove_own(
        &self,
        key: &[u8],
        expected: Option<u64>,
        guard: &Guard,
        on_change: &mut impl FnMut(LeafChange) -> bool,
    ) -> Option<u64> {
        with_tree!(self, guard, tree => tree.remove_own(key, expected, guard, on_change))
    }

    /// Frees all nodes and keys, and the blocks that `visit` adds for each value.
    ///
    /// # Safety
    /// No thread uses the tree, now or later.
    pub(super) unsafe fn take_apart(&mut self, freed: &mut Freed, visit: impl FnMut(u64, &mut Freed)) {
        // SAFETY: passed on.
        unsafe {
            match &mut self.shape {
                Shape::One(tree) => tree.take_apart(freed, visit),
                Shape::Two(tree) => tree.take_apart(freed, visit),
                Shape::Three(tree) => tree.take_apart(freed, visit),
                Shape::Four(tree) => tree.take_apart(freed, visit),
                Shape::Variable(tree) => tree.take_apart(freed, visit),
            }
        }
    }

    pub(super) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    pub(super) fn estimated_length(&self, guard: &Guard) -> u64 {
        with_tree!(self, guard, tree => tree.estimated_length(guard))
    }

    pub(super) fn split_keys(&self, parts: usize, guard: &Guard) -> Vec<Vec<u8>> {
        let all = with_tree!(self, guard, tree => tree.separators(parts, guard));
        let cuts = parts.min(all.len() + 1);
        (1..cuts).map(|cut| all[cut * (all.len() + 1) / cuts - 1].clone()).collect()
    }

    pub(super) fn read_leaf(
        &self,
        range: &mut KeyRange,
        direction: Direction,
        entries: &mut Entries,
        guard: &Guard,
    ) -> (LeafObservation, bool) {
        with_tree!(self, guard, tree => tree.read_leaf(range, direction, entries, guard))
    }
}
