//! Transaction chopping, the decomposition that PACMAN is compared with.
//! Source: Shasha et al., Transaction chopping: algorithms and performance studies (TODS 1995), §3: two
//! operations of a transaction belong to one piece when they are connected over conflicts with other
//! transactions, each taken as a whole, as else siblings and conflicts would form a cycle. Any number of
//! calls of one procedure may run, so every procedure has another instance of itself among the others. PACMAN
//! §6.3.1.

use super::graphs::LocalGraph;
use super::program::Program;
use crate::{Operation, OperationId};
use petgraph::unionfind::UnionFind;

impl LocalGraph {
    /// The finest chopping of a program among others, as slices.
    pub(super) fn chopped(programs: &[Program], place: usize, free: &dyn Fn(OperationId) -> bool) -> Self {
        let program = &programs[place];
        let ids: Vec<OperationId> =
            program.operation_ids().filter(|id| program.whole || program.is_sliced(*id, free)).collect();
        let operation = |id: &OperationId| &program.operations[id.0 as usize];
        let conflicts = |own: &Operation, others: &Program| {
            program.whole
                || others.whole
                || others.operations.iter().any(|other| own.is_data_dependent(other))
        };
        // Nodes: the other transactions, then the operations of this one.
        let mut connected = UnionFind::<usize>::new(programs.len() + ids.len());
        for (other, others) in programs.iter().enumerate() {
            for (another, rest) in programs.iter().enumerate() {
                if others.operations.iter().any(|own| conflicts(own, rest)) {
                    connected.union(other, another);
                }
            }
            for (own, id) in ids.iter().enumerate() {
                if conflicts(operation(id), others) {
                    connected.union(other, programs.len() + own);
                }
            }
        }
        let piece = |id: &OperationId| {
            let own = ids.iter().position(|own| own == id).expect("it is one of them");
            connected.find(programs.len() + own)
        };
        Self::assembled(program, place, free, &ids, |a, b| piece(a) == piece(b))
    }
}
