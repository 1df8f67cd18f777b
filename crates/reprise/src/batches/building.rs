//! The graph of the next batch, which executors build together.
//! Paper: DistDGCC §2.1 (parallel construction).
//!
//! 1. Executors reserve what the calls of a chunk may touch, chunk by chunk.
//! 2. Once all chunks have their reservations, executors make the edges, each of one shard of the granules.
//!
//! The tasks are numbered: first the chunks, then the shards.
//! Not here: which edges there are (`schedule::graph`), which executor takes which task (`super::Shared`).

use super::plan::{Buffers, Plan};
use super::{Batch, Waiting, hold};
use schedule::graph::{Entries, GraphBuilder, Vertex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A chunk has at least this many calls: a task costs as much as the reservations of some calls.
const LEAST_CHUNK: usize = 128;

/// The graph of a batch while it is built.
pub(super) struct Building {
    plan: Arc<Plan>,
    /// By chunk, its calls; `None` in place of those that the batch does not run.
    chunks: Vec<Mutex<Vec<Option<Waiting>>>>,
    /// Number of calls of each chunk but the last.
    chunk_size: usize,
    builder: GraphBuilder,
    has_failed: AtomicBool,
}

impl Building {
    /// Begins the graph of calls, which up to `threads` threads build.
    pub(super) fn new(plan: Arc<Plan>, calls: Vec<Waiting>, threads: usize) -> Self {
        let count = calls.len();
        let chunks = (count / LEAST_CHUNK).clamp(1, threads);
        let chunk_size = count.div_ceil(chunks).max(1);
        let mut calls = calls.into_iter().map(Some);
        let chunk = |_| Mutex::new(calls.by_ref().take(chunk_size).collect());
        Self {
            plan,
            chunks: (0..chunks).map(chunk).collect(),
            chunk_size,
            builder: GraphBuilder::new(count, chunks, chunks),
            has_failed: AtomicBool::new(false),
        }
    }

    /// Returns the number of chunks. There are as many shards.
    pub(super) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Runs a task. If it panics, all calls fail.
    pub(super) fn run(&self, task: usize, buffers: &mut Buffers) {
        let ran = catch_unwind(AssertUnwindSafe(|| match task.checked_sub(self.chunks()) {
            None => self.reserve(task, buffers),
            Some(shard) => self.builder.build_shard(shard),
        }));
        if ran.is_err() {
            self.has_failed.store(true, Ordering::Relaxed);
        }
    }

    fn reserve(&self, chunk: usize, buffers: &mut Buffers) {
        let mut entries = Entries::new(self.chunks());
        let first = (chunk * self.chunk_size) as Vertex;
        for (vertex, slot) in (first..).zip(hold(&self.chunks[chunk]).iter_mut()) {
            let Some(waiting) = slot.take() else { continue };
            *slot = self.plan.reserve(vertex, waiting, buffers, &mut entries);
        }
        self.builder.set_chunk(chunk, entries);
    }

    /// Returns the batch once all tasks are done; `None` if it has no call to run.
    pub(super) fn finish(self, logs: usize) -> Option<Batch> {
        if self.has_failed.load(Ordering::Relaxed) {
            return None;
        }
        let calls_of = |chunk: Mutex<_>| chunk.into_inner().unwrap_or_else(PoisonError::into_inner);
        let calls: Vec<Option<Waiting>> = self.chunks.into_iter().flat_map(calls_of).collect();
        let is_empty = calls.iter().all(Option::is_none);
        (!is_empty).then(|| Batch::new(self.plan, calls, self.builder.finish(), logs))
    }
}

/// The tasks of a graph that is being built.
pub(super) struct Tasks {
    building: Arc<Building>,
    next: usize,
    done: usize,
}

impl Tasks {
    pub(super) fn new(building: Building) -> Self {
        Self { building: Arc::new(building), next: 0, done: 0 }
    }

    /// Takes the next task. Shards wait for all chunks.
    pub(super) fn take(&mut self) -> Option<(Arc<Building>, usize)> {
        let chunks = self.building.chunks();
        let last = if self.done < chunks { chunks } else { 2 * chunks };
        (self.next < last).then(|| {
            self.next += 1;
            (Arc::clone(&self.building), self.next - 1)
        })
    }

    /// Notes that a task is done. Returns whether there are several shards now that executors can build.
    pub(super) fn note_done(&mut self) -> bool {
        self.done += 1;
        self.done == self.building.chunks() && self.done > 1
    }

    /// Returns whether all tasks are done.
    pub(super) fn are_done(&self) -> bool {
        self.done == 2 * self.building.chunks()
    }

    /// Returns the graph, all of whose tasks are done and given back.
    pub(super) fn into_building(self) -> Building {
        Arc::into_inner(self.building).expect("each task gives the graph back before it is done")
    }
}
