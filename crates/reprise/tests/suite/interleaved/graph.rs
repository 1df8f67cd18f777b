//! A graph of transactions and moments: which comes before which.

use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use std::collections::HashMap;

/// Edges carry why one comes before the other.
#[derive(Default)]
pub struct Order {
    graph: DiGraph<String, ()>,
    why: HashMap<(usize, usize), String>,
    /// The nodes that come after each one, as bits.
    after: Vec<Vec<u64>>,
}

impl Order {
    pub fn add_node(&mut self, name: String) -> usize {
        self.graph.add_node(name).index()
    }

    /// Whether the edge is new.
    pub fn add_edge(&mut self, from: usize, to: usize, why: impl FnOnce() -> String) -> bool {
        if from == to || self.why.contains_key(&(from, to)) {
            return false;
        }
        self.why.insert((from, to), why());
        self.graph.add_edge(NodeIndex::new(from), NodeIndex::new(to), ());
        true
    }

    pub fn is_before(&self, one: usize, other: usize) -> bool {
        self.after[one][other / 64] >> (other % 64) & 1 == 1
    }

    /// Finds out which comes before which.
    ///
    /// # Errors
    /// A cycle, edge by edge.
    pub fn close(&mut self) -> Result<(), String> {
        let components = tarjan_scc(&self.graph);
        if let Some(cycle) = components.iter().find(|own| own.len() > 1) {
            return Err(self.tell(cycle));
        }
        let words = self.graph.node_count().div_ceil(64);
        self.after = vec![vec![0; words]; self.graph.node_count()];
        // Components come with those that are reached first.
        for node in components.into_iter().flatten() {
            let mut after = vec![0; words];
            for next in self.graph.neighbors(node) {
                after[next.index() / 64] |= 1 << (next.index() % 64);
                after.iter_mut().zip(&self.after[next.index()]).for_each(|(own, other)| *own |= other);
            }
            self.after[node.index()] = after;
        }
        Ok(())
    }

    /// A shortest cycle among nodes that all reach each other.
    fn tell(&self, component: &[NodeIndex]) -> String {
        let start = component[0];
        let (mut from, mut queue) = (HashMap::new(), std::collections::VecDeque::from([start]));
        while let Some(node) = queue.pop_front() {
            for next in self.graph.neighbors(node).filter(|next| component.contains(next)) {
                if next == start {
                    let mut path = vec![start, node];
                    while path[path.len() - 1] != start {
                        path.push(from[&path[path.len() - 1]]);
                    }
                    path.reverse();
                    let tell = |pair: &[NodeIndex]| {
                        let why = &self.why[&(pair[0].index(), pair[1].index())];
                        format!("\n  {} before {}: {why}", self.graph[pair[0]], self.graph[pair[1]])
                    };
                    return format!("a cycle:{}", path.windows(2).map(tell).collect::<String>());
                }
                from.entry(next).or_insert_with(|| {
                    queue.push_back(next);
                    node
                });
            }
        }
        unreachable!("a component of several nodes has a cycle")
    }
}
