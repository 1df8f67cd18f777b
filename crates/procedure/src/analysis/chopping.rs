//! Transaction chopping, the decomposition that PACMAN is compared with.
//! Source: Shasha et al., Transaction chopping: algorithms and performance studies (TODS 1995), §3; PACMAN
//! §6.3.1.
//!
//! Two operations of a transaction belong to one piece if conflicts connect them over other transactions,
//! each taken as a whole. Otherwise sibling edges and conflict edges would form a cycle. Several calls of one
//! procedure may run at the same time, so the other transactions include a second instance of each procedure.

use super::graphs::LocalGraph;
use super::program::Program;
use crate::{Operation, OperationId};
use petgraph::unionfind::UnionFind;

impl LocalGraph {
    /// Returns the finest chopping of a program, as slices.
    pub(super) fn chopped(
        programs: &[Program],
        program_index: usize,
        free: &dyn Fn(OperationId) -> bool,
    ) -> Self {
        let program = &programs[program_index];
        let ids: Vec<OperationId> =
            program.operation_ids().filter(|id| program.whole || program.is_sliced(*id, free)).collect();
        let operation = |id: &OperationId| &program.operations[id.0 as usize];
        let conflicts = |operation: &Operation, transaction: &Program| {
            program.whole
                || transaction.whole
                || transaction.operations.iter().any(|other| operation.is_data_dependent(other))
        };
        // Nodes: the other transactions, then the operations of this one.
        let mut connected = UnionFind::<usize>::new(programs.len() + ids.len());
        for (first, transaction) in programs.iter().enumerate() {
            for (second, other) in programs.iter().enumerate() {
                if transaction.operations.iter().any(|operation| conflicts(operation, other)) {
                    connected.union(first, second);
                }
            }
            for (index, id) in ids.iter().enumerate() {
                if conflicts(operation(id), transaction) {
                    connected.union(first, programs.len() + index);
                }
            }
        }
        let piece = |id: &OperationId| {
            let index = ids.iter().position(|known| known == id).expect("the operation is sliced");
            connected.find(programs.len() + index)
        };
        Self::assembled(program, program_index, free, &ids, |a, b| piece(a) == piece(b))
    }
}
