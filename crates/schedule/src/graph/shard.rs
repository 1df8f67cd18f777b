//! The edges of the nodes of a shard.
//!
//! A node remembers, by use, the vertices that a later one may have to wait for. A vertex takes the place of
//! earlier ones if whatever has to wait for them waits for it, too: a write that of all earlier ones, an
//! update that of reads and updates. Shared uses leave each other in place, so a node that alternates between
//! them has an edge for each pair.

use super::Vertex;
use super::entries::{Entry, Use};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The end of a list.
const NONE: u32 = u32::MAX;

/// Hashes what is a hash already.
#[derive(Default)]
struct IsHash(u64);

impl Hasher for IsHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a node is a number");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Lists of vertices in one buffer, each named by its newest element.
#[derive(Default, Debug)]
struct Lists {
    cells: Vec<Cell>,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    vertex: Vertex,
    next: u32,
}

impl Lists {
    /// Adds a vertex to a list, unless it is the newest element.
    fn add(&mut self, list: &mut u32, vertex: Vertex) -> bool {
        if self.cells.get(*list as usize).is_some_and(|newest| newest.vertex == vertex) {
            return false;
        }
        self.cells.push(Cell { vertex, next: *list });
        *list = self.cells.len() as u32 - 1;
        true
    }

    /// Returns the vertices of a list, newest first.
    fn iter(&self, list: u32) -> impl Iterator<Item = Vertex> {
        let cell = |at: u32| self.cells.get(at as usize).copied();
        std::iter::successors(cell(list), move |last| cell(last.next)).map(|cell| cell.vertex)
    }
}

/// The vertices that a later one may have to wait for at a node, by use. Most nodes have one use or two.
#[derive(Clone, Copy, Debug)]
struct Users {
    of: Use,
    /// The list of the vertices.
    list: u32,
    /// The users with another use of the same node.
    next: u32,
}

/// The edges of the nodes of a shard.
#[derive(Debug)]
pub(super) struct Shard {
    /// By vertex, the list of the vertices that wait for it.
    later: Vec<u32>,
    lists: Lists,
    /// By vertex, the number of vertices that it waits for.
    waits: Vec<u32>,
}

impl Shard {
    /// Makes the edges between vertices. `chunks` has the entries of the shard's nodes in batch order.
    pub(super) fn of<'e>(vertices: usize, chunks: impl Iterator<Item = &'e [Entry]> + Clone) -> Self {
        let lists = Lists::default();
        let mut shard = Self { later: vec![NONE; vertices], lists, waits: vec![0; vertices] };
        let entries = chunks.clone().map(<[_]>::len).sum();
        let mut nodes: HashMap<u64, u32, BuildHasherDefault<IsHash>> =
            HashMap::with_capacity_and_hasher(entries, BuildHasherDefault::default());
        let (mut all, mut earlier) = (Vec::<Users>::with_capacity(entries), Lists::default());
        for entry in chunks.flatten() {
            let (conflicting, replaced) = (entry.of.conflicting(), entry.of.replaced());
            let first = nodes.entry(entry.node).or_insert(NONE);
            let (mut own, mut next) = (None, *first);
            while let Some(users) = all.get_mut(next as usize) {
                if users.of.is_in(conflicting) {
                    earlier.iter(users.list).for_each(|vertex| shard.add_edge(vertex, entry.vertex));
                }
                if users.of.is_in(replaced) {
                    users.list = NONE;
                }
                if users.of == entry.of {
                    own = Some(next);
                }
                next = users.next;
            }
            let own = own.unwrap_or_else(|| {
                all.push(Users { of: entry.of, list: NONE, next: *first });
                *first = all.len() as u32 - 1;
                *first
            });
            earlier.add(&mut all[own as usize].list, entry.vertex);
        }
        shard
    }

    /// Makes the shard of edges that are known.
    pub(super) fn of_edges(vertices: Vertex, edges: impl Iterator<Item = (Vertex, Vertex)>) -> Self {
        let count = vertices as usize;
        let mut shard = Self { later: vec![NONE; count], lists: Lists::default(), waits: vec![0; count] };
        for (earlier, later) in edges {
            assert!(earlier < later && later < vertices, "an edge leads to a later vertex");
            shard.add_edge(earlier, later);
        }
        shard
    }

    /// Adds an edge. Edges from one vertex come in the order of their later vertices, so one that is there
    /// already is the newest of its list.
    fn add_edge(&mut self, earlier: Vertex, later: Vertex) {
        if earlier != later && self.lists.add(&mut self.later[earlier as usize], later) {
            self.waits[later as usize] += 1;
        }
    }

    /// Returns the number of vertices that a vertex waits for.
    pub(super) fn waits(&self, vertex: Vertex) -> u32 {
        self.waits[vertex as usize]
    }

    /// Returns the vertices that wait for a vertex.
    pub(super) fn later_than(&self, vertex: Vertex) -> impl Iterator<Item = Vertex> {
        self.lists.iter(self.later[vertex as usize])
    }
}
