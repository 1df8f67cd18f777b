//! The units that use each granule, in commit order.

use super::indexes::Indexes;
use crate::graph::entries::{Use, Uses};
use std::sync::atomic::{AtomicU32, Ordering};

/// The first bits of a node, which tell its bucket.
const BUCKET_BITS: u32 = 6;
/// Buckets of an index. Their nodes are sorted at the same time.
pub(super) const BUCKETS: usize = 1 << BUCKET_BITS;
/// The next bits of a node, which tell it in its bucket. Nodes that share all of them are one: then units
/// that need no order have one, which is their order in the log.
const NODE_BITS: u32 = 28;
/// Bits of the number of a use.
const USE_BITS: u32 = 4;
const _: () = assert!(Use::COUNT <= 1 << USE_BITS && u32::BITS + NODE_BITS + USE_BITS == u64::BITS);

/// Returns the bucket of a node of an index.
pub(super) fn bucket_of(index: u32, node: u64) -> usize {
    index as usize * BUCKETS + (node >> (u64::BITS - BUCKET_BITS)) as usize
}

/// Returns what tells a node in its bucket.
fn in_bucket(node: u64) -> u32 {
    (node << BUCKET_BITS >> (u64::BITS - NODE_BITS)) as u32
}

/// A use of a node by a unit, in one word: node, unit and use, in the order in which they are sorted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Packed(u64);

impl Packed {
    pub(super) fn new(node: u64, unit: u32, of: Use) -> Self {
        let node = u64::from(in_bucket(node)) << (u32::BITS + USE_BITS);
        Self(node | u64::from(unit) << USE_BITS | of.number() as u64)
    }

    /// Returns it for a unit with a number that is greater by `units`.
    pub(super) fn after(self, units: u32) -> Self {
        Self(self.0 + (u64::from(units) << USE_BITS))
    }

    fn node(self) -> u32 {
        (self.0 >> (u32::BITS + USE_BITS)) as u32
    }

    fn unit(self) -> u32 {
        (self.0 >> USE_BITS) as u32
    }

    fn number(self) -> u8 {
        self.0 as u8 & ((1 << USE_BITS) - 1)
    }
}

/// A node: a granule of an index.
#[derive(Debug)]
struct Node {
    /// What tells it in its bucket.
    hash: u32,
    /// The place of its first entry. Its last one stands before the first one of the next node.
    start: u32,
    /// The place of the first entry whose unit may not be done.
    next: AtomicU32,
    /// The uses of all its entries.
    uses: Uses,
}

/// The nodes of a bucket.
#[derive(Default, Debug)]
pub(super) struct Bucket {
    /// The nodes, ascending by hash; last one that has no entries.
    nodes: Vec<Node>,
    /// By entry: its unit, and the number of the use. The entries of a node are in commit order.
    units: Vec<u32>,
    uses: Vec<u8>,
}

/// How a unit has run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    /// It has not.
    Left,
    /// After all units that it comes after at its nodes.
    Done,
    /// In another order that is as good for its rows.
    Drained,
}

/// The entries of one node.
#[derive(Clone, Copy)]
struct NodeEntries<'b> {
    bucket: &'b Bucket,
    node: usize,
}

impl Bucket {
    /// Sorts the entries of units; those of a node come in commit order.
    pub(super) fn of(mut entries: Vec<Packed>) -> Self {
        entries.sort_unstable();
        let nodes = entries.chunk_by(|a, b| a.node() == b.node()).count() + 1;
        let mut bucket = Self {
            nodes: Vec::with_capacity(nodes),
            units: entries.iter().map(|entry| entry.unit()).collect(),
            uses: entries.iter().map(|entry| entry.number()).collect(),
        };
        let mut start = 0;
        for of_node in entries.chunk_by(|a, b| a.node() == b.node()) {
            let uses = of_node.iter().fold(0, |uses, entry| uses | 1 << entry.number());
            bucket.nodes.push(Node { hash: of_node[0].node(), start, next: AtomicU32::new(start), uses });
            start += of_node.len() as u32;
        }
        bucket.nodes.push(Node { hash: u32::MAX, start, next: AtomicU32::new(start), uses: 0 });
        bucket
    }

    /// Returns the entries of a node, if it has any.
    fn entries(&self, node: u64) -> Option<NodeEntries<'_>> {
        let node = self.place_of(node)?;
        Some(NodeEntries { bucket: self, node })
    }

    /// Returns the place of a node. Nodes are hashes, so it is near where their share of the space says.
    fn place_of(&self, node: u64) -> Option<usize> {
        let (nodes, hash) = (self.nodes.split_last()?.1, in_bucket(node));
        let mut place = ((u64::from(hash) * nodes.len() as u64) >> NODE_BITS) as usize;
        while nodes.get(place)?.hash < hash {
            place += 1;
        }
        while place > 0 && nodes[place - 1].hash >= hash {
            place -= 1;
        }
        (nodes[place].hash == hash).then_some(place)
    }

    /// Returns the units of all entries.
    pub(super) fn units(&self) -> &[u32] {
        &self.units
    }
}

impl NodeEntries<'_> {
    /// Calls `found` with the units before `unit` that a use has to come after and that are not done, in
    /// descending order. `progress` tells how a unit has run.
    fn before(self, unit: u32, of: Use, progress: impl Fn(u32) -> Progress, mut found: impl FnMut(u32)) {
        let Self { bucket: Bucket { nodes, units, uses }, node } = self;
        let (Node { next, uses: all, .. }, conflicting) = (&nodes[node], of.conflicting());
        if all & conflicting == 0 {
            return;
        }
        // ORDERING: Acquire pairs with the Release below: who sees that units are done sees their rows.
        let first = next.load(Ordering::Acquire) as usize;
        let end = nodes[node + 1].start as usize;
        let mut at = first;
        while at < end && units[at] < unit && progress(units[at]) != Progress::Left {
            at += 1;
        }
        if at > first {
            next.fetch_max(at as u32, Ordering::Release);
        }
        // Where units run in commit order, nothing before this one is left.
        if at == end || units[at] >= unit {
            return;
        }
        let behind = at + units[at..end].partition_point(|own| *own < unit);
        for place in (at..behind).rev() {
            let own = Use::of(usize::from(uses[place]));
            match progress(units[place]) {
                Progress::Left if own.is_in(conflicting) => found(units[place]),
                // It ran after all units that the use has to come after.
                Progress::Done if conflicting & !own.conflicting() == 0 => break,
                _ => {}
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
    /// Adds the units before `unit` at a node of an index, as `NodeEntries::before` finds them.
    pub(super) fn before(
        &self,
        index: u32,
        node: u64,
        of: Use,
        unit: u32,
        progress: impl Fn(u32) -> Progress,
        found: &mut Vec<u32>,
    ) {
        if let Some(entries) = self.buckets[bucket_of(index, node)].entries(node) {
            entries.before(unit, of, progress, |unit| found.push(unit));
        }
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
