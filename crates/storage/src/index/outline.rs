//! The outline of a tree: its upper levels, and its length as one path suggests it.
#![allow(unsafe_code)]

use super::key::KeyShape;
use super::node::Node;
use super::tree::{Tree, Visit, write_key};
use crate::Guard;

impl<K: KeyShape> Tree<K> {
    /// Returns separators of the upper levels, in order: at least `wanted`, unless the tree has fewer.
    pub(super) fn separators(&self, wanted: usize, guard: &Guard) -> Vec<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            let Some(root) = self.root(guard) else { continue };
            let mut level = vec![root];
            loop {
                let mut keys = Vec::new();
                let mut below = Vec::new();
                for visit in &level {
                    let node = visit.node;
                    let slots = node.slots();
                    let count = if node.level() == 0 { 0 } else { slots.count() };
                    for place in 0..count {
                        // SAFETY: read from a node of this tree, below its count.
                        unsafe { write_key(slots.key(place), &mut bytes) };
                        keys.push(bytes.clone());
                    }
                    if node.level() > 1 {
                        below.extend((0..=count).map(|place| slots.child(place)));
                    }
                    if !node.latch.validate(visit.version) {
                        keys.clear();
                        below.clear();
                        break;
                    }
                }
                if keys.len() >= wanted || below.is_empty() {
                    keys.sort();
                    return keys;
                }
                // SAFETY: validated above, so these named children of live nodes during the guard's stay.
                let visit = |child| {
                    let node = unsafe { Node::<K>::at(child, guard) };
                    node.latch.read().map(|version| Visit { node, version })
                };
                match below.into_iter().map(visit).collect::<Option<Vec<_>>>() {
                    Some(next) => level = next,
                    None => break,
                }
            }
        }
    }

    /// Estimates the number of keys by the nodes of one path.
    pub(super) fn estimated_length(&self, guard: &Guard) -> u64 {
        let mut product = 1;
        let mut at = self.root(guard);
        while let Some(Visit { node, version }) = at {
            let slots = node.slots();
            let count = slots.count();
            if node.level() == 0 {
                return product * count as u64;
            }
            product *= count as u64 + 1;
            let child = slots.child(count / 2);
            at = node.latch.validate(version).then_some(()).and_then(|()| {
                // SAFETY: validated, so it named a child of a live node during the guard's stay.
                let node = unsafe { Node::<K>::at(child, guard) };
                node.latch.read().map(|version| Visit { node, version })
            });
        }
        // Another thread changes the path.
        product
    }
}
