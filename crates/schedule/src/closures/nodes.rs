//! The units that use each granule, in commit order.

use super::indexes::Indexes;
use crate::graph::entries::{Entry, Use, Uses};
use std::sync::atomic::{AtomicU32, Ordering};

/// Buckets of an index. Their nodes are sorted at the same time.
pub(super) const BUCKETS: usize = 64;

/// Returns the bucket of a node of an index.
pub(super) fn bucket_of(index: u32, node: u64) -> usize {
    index as usize * BUCKETS + (node >> 58) as usize
}

/// The nodes of a bucket.
#[derive(Default, Debug)]
pub(super) struct Bucket {
    /// The nodes, ascending.
    nodes: Vec<u64>,
    /// By node, the place of its first entry; last the number of entries.
    starts: Vec<u32>,
    /// By node, the uses of all its entries.
    uses_of: Vec<Uses>,
    /// By node, the place of the first entry whose unit may not be done.
    next: Vec<AtomicU32>,
    /// By entry: its unit, and the number of the use. The entries of a node are in commit order.
    units: Vec<u32>,
    uses: Vec<u8>,
}

/// The entries of one node.
#[derive(Clone, Copy)]
pub(super) struct NodeEntries<'b> {
    bucket: &'b Bucket,
    node: usize,
}

impl Bucket {
    /// Sorts the entries of units; those of a node come in commit order.
    pub(super) fn of(mut entries: Vec<Entry>) -> Self {
        entries.sort_unstable_by_key(|entry| (entry.node, entry.vertex, entry.of.number()));
        let mut bucket = Self::default();
        for entry in &entries {
            if bucket.nodes.last() != Some(&entry.node) {
                bucket.nodes.push(entry.node);
                bucket.starts.push(bucket.units.len() as u32);
                bucket.next.push(AtomicU32::new(bucket.units.len() as u32));
                bucket.uses_of.push(0);
            }
            *bucket.uses_of.last_mut().expect("the node of the entry") |= 1 << entry.of.number();
            bucket.units.push(entry.vertex);
            bucket.uses.push(entry.of.number() as u8);
        }
        bucket.starts.push(bucket.units.len() as u32);
        bucket
    }

    /// Returns the entries of a node, if it has any.
    pub(super) fn entries(&self, node: u64) -> Option<NodeEntries<'_>> {
        let node = self.nodes.binary_search(&node).ok()?;
        Some(NodeEntries { bucket: self, node })
    }

    /// Returns the units of all entries.
    pub(super) fn units(&self) -> &[u32] {
        &self.units
    }
}

impl<'b> NodeEntries<'b> {
    /// Calls `found` with the units before `unit` that a use has to come after and that are not done, in
    /// descending order. `is_done` tells of a unit.
    pub(super) fn before(
        self,
        unit: u32,
        of: Use,
        is_done: impl Fn(u32) -> bool,
        mut found: impl FnMut(u32),
    ) {
        let Self { bucket: Bucket { starts, uses_of, next, units, uses, .. }, node } = self;
        let conflicting = of.conflicting();
        if uses_of[node] & conflicting == 0 {
            return;
        }
        // ORDERING: Acquire pairs with the Release below: who sees that units are done sees their rows.
        let first = next[node].load(Ordering::Acquire) as usize;
        let end = starts[node + 1] as usize;
        let mut at = first;
        while at < end && units[at] < unit && is_done(units[at]) {
            at += 1;
        }
        if at > first {
            next[node].fetch_max(at as u32, Ordering::Release);
        }
        let behind = at + units[at..end].partition_point(|own| *own < unit);
        for place in (at..behind).rev() {
            let own = Use::of(usize::from(uses[place]));
            if !is_done(units[place]) {
                if own.is_in(conflicting) {
                    found(units[place]);
                }
            } else if conflicting & !own.conflicting() == 0 {
                // It ran after all units that the use has to come after.
                break;
            }
        }
    }
}

/// The nodes of all indexes.
#[derive(Debug)]
pub(super) struct Nodes {
    pub(super) buckets: Vec<Bucket>,
}

impl Nodes {
    /// Returns the entries of a node of an index, if it has any.
    pub(super) fn entries(&self, index: u32, node: u64) -> Option<NodeEntries<'_>> {
        self.buckets[bucket_of(index, node)].entries(node)
    }

    /// Returns the units that use an index, ascending.
    pub(super) fn units_of(&self, indexes: &Indexes, table: catalog::TableId) -> Vec<u32> {
        let of_index = |index: u32| {
            let first = bucket_of(index, 0);
            self.buckets[first..first + BUCKETS].iter().flat_map(|bucket| bucket.units().iter().copied())
        };
        let mut units: Vec<u32> = indexes.of_table(table).flat_map(of_index).collect();
        units.sort_unstable();
        units.dedup();
        units
    }
}
