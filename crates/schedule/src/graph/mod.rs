//! The dependency graph of a batch of calls: which call runs after which, so that the result is that of a
//! serial run in batch order.
//! Paper: DistDGCC §2.1 (contention resolution, temporal dependency). Differs: a vertex is a whole call,
//! whose logical dependencies are those of its program; what a call touches may be known only in part, so
//! vertices meet in granules of several lengths, as locks do in a hierarchy (Gray et al., 1976).
//!
//! 1. Calls reserve granules ([`Reserving`]). A reservation becomes an entry at the node of its granule, and
//!    one at the node of each shorter prefix that some procedure reserves. Chunks of a batch do this at the
//!    same time.
//! 2. The entries of a node, in batch order, give edges ([`GraphBuilder::build_shard`]). Nodes fall into
//!    shards by hash, so shards are built at the same time and share nothing.
//! 3. A vertex runs once it waits for no other ([`Graph::done`]).
//!
//! Keys are compared by hash. Two keys with one hash order calls that need no order, and do no other harm.
//!
//! Invariant: of two vertices with conflicting reservations there is a path from the earlier one to the later
//! one. Every edge leads to a later vertex, so the graph has no cycle.
//! Held by: `conflicting_calls_are_ordered`, `every_touched_row_is_reserved`.
//! Not here: what a call may touch (`procedure::analysis::Reservations`).

pub(crate) mod entries;
mod run;
mod shard;
#[cfg(test)]
mod tests;

pub use entries::{Entries, Reserving};
pub use run::{GraphSource, GraphWorker, run_graphs};

use shard::Shard;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The position of a call in its batch.
pub type Vertex = u32;

/// The graph of a batch while its parts are built, on several threads at the same time.
#[derive(Debug)]
pub struct GraphBuilder {
    vertices: usize,
    /// The entries of consecutive vertices, in batch order.
    chunks: Vec<OnceLock<Entries>>,
    shards: Vec<OnceLock<Shard>>,
}

impl GraphBuilder {
    /// Begins the graph of a batch, whose vertices reserve in a number of chunks, and whose nodes fall into a
    /// number of shards.
    pub fn new(vertices: usize, chunks: usize, shards: usize) -> Self {
        Self {
            vertices,
            chunks: (0..chunks).map(|_| OnceLock::new()).collect(),
            shards: (0..shards).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Gives the entries of a chunk.
    ///
    /// # Panics
    /// The chunk has been given before.
    pub fn set_chunk(&self, chunk: usize, entries: Entries) {
        let is_first = self.chunks[chunk].set(entries).is_ok();
        assert!(is_first, "the entries of a chunk are made once");
    }

    /// Builds the edges of the nodes of a shard. All chunks must be there.
    ///
    /// # Panics
    /// A chunk is missing, or the shard is built already.
    pub fn build_shard(&self, shard: usize) {
        let chunks = self.chunks.iter().map(|chunk| chunk.get().expect("a shard is built after the chunks"));
        let built = Shard::of(self.vertices, chunks.map(|chunk| chunk.of_shard(shard)));
        let is_first = self.shards[shard].set(built).is_ok();
        assert!(is_first, "a shard is built once");
    }

    /// Returns the graph. All shards must be built.
    ///
    /// # Panics
    /// A shard is missing.
    pub fn finish(self) -> Graph {
        let built = |shard: OnceLock<Shard>| shard.into_inner().expect("a graph has all its shards");
        Graph::of(self.vertices, self.shards.into_iter().map(built).collect())
    }
}

/// The dependency graph of a batch.
#[derive(Debug)]
pub struct Graph {
    shards: Vec<Shard>,
    /// By vertex, the number of edges from vertices that are not done.
    waits: Box<[AtomicU32]>,
}

impl Graph {
    fn of(vertices: usize, shards: Vec<Shard>) -> Self {
        let waits = |vertex: usize| shards.iter().map(|shard| shard.waits(vertex as Vertex)).sum();
        let waits = (0..vertices).map(|vertex| AtomicU32::new(waits(vertex))).collect();
        Self { shards, waits }
    }

    /// Returns the graph of edges that are known, each from an earlier vertex to a later one.
    ///
    /// # Panics
    /// An edge leads to no later vertex.
    pub fn of_edges(vertices: Vertex, edges: impl Iterator<Item = (Vertex, Vertex)>) -> Self {
        Self::of(vertices as usize, vec![Shard::of_edges(vertices, edges)])
    }

    /// Returns the number of vertices.
    pub fn len(&self) -> usize {
        self.waits.len()
    }

    /// Returns whether the batch has no calls.
    pub fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }

    /// Returns the vertices that wait for no other, in batch order. Before any vertex is done, these can run.
    pub fn ready(&self) -> impl Iterator<Item = Vertex> {
        let waits = self.waits.iter().zip(0..);
        waits.filter(|(waits, _)| waits.load(Ordering::Relaxed) == 0).map(|(_, vertex)| vertex)
    }

    /// Returns the vertices that wait for a vertex. One may come more than once.
    pub fn later_than(&self, vertex: Vertex) -> impl Iterator<Item = Vertex> {
        self.shards.iter().flat_map(move |shard| shard.later_than(vertex))
    }

    /// Notes that a vertex is done, and calls `ready` with each vertex that can run now. What the thread has
    /// done before this is visible to the thread that runs such a vertex.
    pub fn done(&self, vertex: Vertex, mut ready: impl FnMut(Vertex)) {
        for later in self.later_than(vertex) {
            // AcqRel: the last of the earlier vertices passes on what all of them have done.
            if self.waits[later as usize].fetch_sub(1, Ordering::AcqRel) == 1 {
                ready(later);
            }
        }
    }
}
