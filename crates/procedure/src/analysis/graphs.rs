//! Local and global dependency graphs.
//! Paper: PACMAN §4.1 and Appendix B, Algorithms 1 and 2.
//!
//! Two operations are data-dependent if they touch the same table and at least one of them modifies it. An
//! operation is flow-dependent on the operations whose results it uses, or whose results decide whether it
//! runs (`need`).

use super::need::Need;
use super::program::Program;
use crate::OperationId;
use catalog::{Table, TableId};
use petgraph::Directed;
use petgraph::algo::tred::{dag_to_toposorted_adjacency_list, dag_transitive_reduction_closure};
use petgraph::algo::{condensation, toposort};
use petgraph::graph::{Graph, NodeIndex};
use petgraph::unionfind::UnionFind;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A part of a procedure that replay runs as one piece.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Slice {
    /// Index of its program among the analysed programs.
    pub program: usize,
    /// Its operations, in program order.
    pub operations: Vec<OperationId>,
}

/// The slices of one procedure and their order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalGraph {
    /// In an order in which they can run. Slices that could run at the same time are in program order.
    pub slices: Vec<Slice>,
    /// Pairs of indexes in `slices`: the first before the second.
    pub edges: BTreeSet<(usize, usize)>,
}

/// Slices that may touch the same data: one unit of scheduling.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// At most one slice of each procedure.
    pub slices: Vec<Slice>,
    /// The tables that it touches.
    pub tables: BTreeSet<TableId>,
}

/// The blocks of all procedures and their order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GlobalGraph {
    /// In an order in which they can run.
    pub blocks: Vec<Block>,
    /// Pairs of indexes in `blocks`: the first before the second. Edges that follow from two edges are left
    /// out.
    pub edges: BTreeSet<(usize, usize)>,
}

/// Merges nodes that depend on each other; returns the members of each node, and the edges between them.
fn contracted<T: Clone + Ord>(
    nodes: &[T],
    edges: impl IntoIterator<Item = (usize, usize)>,
) -> (Vec<Vec<T>>, BTreeSet<(usize, usize)>) {
    let mut graph: Graph<T, (), Directed> = Graph::new();
    let indices: Vec<NodeIndex> = nodes.iter().map(|node| graph.add_node(node.clone())).collect();
    for (from, to) in edges {
        graph.update_edge(indices[from], indices[to], ());
    }
    let mut dag = condensation(graph, true);
    dag.node_weights_mut().for_each(|members| members.sort());
    // A stable order in which the nodes can run: of the nodes that are ready, the least is next.
    let mut waiting: Vec<NodeIndex> = toposort(&dag, None).expect("a condensation has no cycle");
    let mut order: Vec<NodeIndex> = Vec::new();
    while !waiting.is_empty() {
        let ready =
            |node: &NodeIndex| dag.neighbors_directed(*node, petgraph::Incoming).all(|n| order.contains(&n));
        let next =
            waiting.iter().copied().filter(ready).min_by_key(|node| &dag[*node]).expect("a node is ready");
        waiting.retain(|node| *node != next);
        order.push(next);
    }
    let index_of =
        |node: NodeIndex| order.iter().position(|other| *other == node).expect("the order has every node");
    let edges = dag.edge_indices().filter_map(|edge| dag.edge_endpoints(edge));
    let edges = edges.map(|(from, to)| (index_of(from), index_of(to))).collect();
    (order.iter().map(|node| dag[*node].clone()).collect(), edges)
}

/// Groups members that `together` connects, directly or through further members; each group is in order.
fn grouped<T: Clone>(members: &[T], together: impl Fn(&T, &T) -> bool) -> Vec<Vec<T>> {
    let mut groups = UnionFind::<usize>::new(members.len());
    for (a, first) in members.iter().enumerate() {
        for (b, second) in members.iter().enumerate().skip(a + 1) {
            if together(first, second) {
                groups.union(a, b);
            }
        }
    }
    let labels = groups.into_labeling();
    let mut result: Vec<(usize, Vec<T>)> = Vec::new();
    for (member, label) in members.iter().zip(labels) {
        match result.iter_mut().find(|(other, _)| *other == label) {
            Some((_, group)) => group.push(member.clone()),
            None => result.push((label, vec![member.clone()])),
        }
    }
    result.into_iter().map(|(_, group)| group).collect()
}

impl LocalGraph {
    /// Algorithm 1: merges operations that are data-dependent into slices, adds an edge for every flow
    /// dependency between slices, and merges slices that depend on each other. Operations that are `free`
    /// belong to no slice: each slice that needs their results executes them. Witnesses belong to no slice
    /// either: the call's record has their results.
    pub fn of(program: &Program, index: usize, free: &dyn Fn(OperationId) -> bool) -> Self {
        let operation = |id: &OperationId| &program.operations[id.0 as usize];
        let data_dependent =
            |a: &OperationId, b: &OperationId| program.whole || operation(a).is_data_dependent(operation(b));
        let ids: Vec<OperationId> =
            program.operation_ids().filter(|id| program.whole || program.is_sliced(*id, free)).collect();
        Self::assembled(program, index, free, &ids, data_dependent)
    }

    /// Makes slices of operations that belong together, with an edge for every flow dependency between them.
    /// Slices that depend on each other become one.
    pub(super) fn assembled(
        program: &Program,
        index: usize,
        free: &dyn Fn(OperationId) -> bool,
        ids: &[OperationId],
        together: impl Fn(&OperationId, &OperationId) -> bool,
    ) -> Self {
        let groups = grouped(ids, together);
        let group_of =
            |id: OperationId| groups.iter().position(|group| group.contains(&id)).expect("of a group");
        let mut edges = BTreeSet::new();
        for id in ids.iter().copied().filter(|_| !program.whole) {
            let sources = Need::of(program, [id], free).sources.into_iter();
            for source in sources.filter(|source| !program.witnesses.contains_key(source)) {
                edges.insert((group_of(source), group_of(id)));
            }
        }
        let (merged, edges) = contracted(&groups, edges);
        let slices = merged.into_iter().map(|groups| {
            let mut operations = groups.concat();
            operations.sort();
            Slice { program: index, operations }
        });
        Self { slices: slices.collect(), edges }
    }
}

impl GlobalGraph {
    /// Algorithm 2: merges slices of all procedures that are data-dependent into blocks, adds the edges of
    /// the local graphs, merges blocks that depend on each other, and in each block the slices of one
    /// procedure.
    /// Differs: slices that touch a table which the log writes by value are data-dependent, too: the writes
    /// by value to a table run in one block, and every read of the table must stay in order with them.
    pub fn of(
        programs: &[Program],
        local: &[LocalGraph],
        written_by_value: &BTreeMap<TableId, Arc<Table>>,
    ) -> Self {
        let slices: Vec<Slice> = local.iter().flat_map(|graph| graph.slices.iter().cloned()).collect();
        let data_dependent = |a: &Slice, b: &Slice| {
            let operation =
                |slice: &Slice, id: OperationId| &programs[slice.program].operations[id.0 as usize];
            a.operations.iter().any(|first| {
                let first = operation(a, *first);
                b.operations.iter().any(|second| {
                    let (second, table) = (operation(b, *second), first.table().id);
                    let is_written_by_value = || written_by_value.contains_key(&table);
                    first.is_data_dependent(second) || second.table().id == table && is_written_by_value()
                })
            })
        };
        let groups = grouped(&slices, data_dependent);
        let group_of =
            |slice: &Slice| groups.iter().position(|group| group.contains(slice)).expect("of a group");
        let edges = local.iter().flat_map(|graph| {
            graph
                .edges
                .iter()
                .map(|(from, to)| (group_of(&graph.slices[*from]), group_of(&graph.slices[*to])))
        });
        let (merged, edges) = contracted(&groups, edges);
        let blocks = merged.into_iter().map(|groups| {
            let mut slices: Vec<Slice> = Vec::new();
            for slice in groups.concat() {
                match slices.iter_mut().find(|known| known.program == slice.program) {
                    Some(known) => known.operations.extend(slice.operations),
                    None => slices.push(slice),
                }
            }
            slices.iter_mut().for_each(|slice| slice.operations.sort());
            slices.sort();
            let tables = slices.iter().flat_map(|slice| {
                slice.operations.iter().map(|id| programs[slice.program].operations[id.0 as usize].table().id)
            });
            Block { tables: tables.collect(), slices }
        });
        let blocks: Vec<Block> = blocks.collect();
        Self { edges: reduced(blocks.len(), &edges), blocks }
    }
}

/// Returns the edges that do not follow from two other edges (transitive reduction).
fn reduced(nodes: usize, edges: &BTreeSet<(usize, usize)>) -> BTreeSet<(usize, usize)> {
    let mut graph: Graph<(), (), Directed, usize> = Graph::default();
    (0..nodes).for_each(|_| {
        graph.add_node(());
    });
    for (from, to) in edges.iter().filter(|(from, to)| from != to) {
        graph.update_edge(NodeIndex::new(*from), NodeIndex::new(*to), ());
    }
    let order = toposort(&graph, None).expect("blocks have no cycle");
    let (list, _) = dag_to_toposorted_adjacency_list::<_, usize>(&graph, &order);
    let (reduction, _) = dag_transitive_reduction_closure(&list);
    let nodes = reduction.edge_indices().filter_map(|edge| reduction.edge_endpoints(edge));
    nodes.map(|(from, to)| (order[from].index(), order[to].index())).collect()
}
