//! Static analysis of procedures: what of them replay needs, and which parts of them can run apart.
//! Paper: PACMAN §4.1, Appendix B; DESIGN §4.4.
//!
//! A procedure becomes a [`Program`] (calls replaced, one register a value), a program its replay form, the operations of a
//! replay form slices ([`LocalGraph`], Algorithm 1), and the slices of all procedures blocks ([`GlobalGraph`], Algorithm 2).

mod explain;
mod graphs;
mod need;
mod pieces;
mod program;
mod replay_form;

pub use explain::{ReplaySummary, describe};
pub use graphs::{Block, GlobalGraph, LocalGraph, Slice};
pub use pieces::{PartitionValue, Piece, Pieces};
pub use program::Program;

use crate::{OperationId, Procedure};
use catalog::TableId;
use std::collections::BTreeSet;

/// The analysis of a set of procedures.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// The replay forms of those that write, in the order given.
    pub programs: Vec<Program>,
    /// Their local graphs.
    pub local: Vec<LocalGraph>,
    /// The graph over all of them.
    pub global: GlobalGraph,
    /// The tables that they modify.
    modified: BTreeSet<TableId>,
}

impl Analysis {
    /// Analyses procedures. Those that only read leave nothing in the log and are left out.
    pub fn of<'p>(procedures: impl IntoIterator<Item = &'p Procedure>) -> Self {
        Self::with(procedures, false)
    }

    /// Analyses the procedures of a log for its replay: tables that none of them modifies are read freely anywhere.
    pub fn for_replay<'p>(procedures: impl IntoIterator<Item = &'p Procedure>) -> Self {
        Self::with(procedures, true)
    }

    fn with<'p>(procedures: impl IntoIterator<Item = &'p Procedure>, free_reads: bool) -> Self {
        let writing = procedures.into_iter().filter(|procedure| !procedure.read_only);
        let programs: Vec<Program> = writing.map(|procedure| Program::new(procedure).replay_form()).collect();
        let operations = programs.iter().flat_map(|program| &program.operations);
        let modified: BTreeSet<TableId> =
            operations.filter(|operation| operation.writes()).map(|operation| operation.table().id).collect();
        let is_free = |program: &Program, id: OperationId| {
            free_reads && !modified.contains(&program.operations[id.0 as usize].table().id)
        };
        let local: Vec<LocalGraph> = programs
            .iter()
            .enumerate()
            .map(|(place, program)| LocalGraph::of(program, place, &|id| is_free(program, id)))
            .collect();
        let global = GlobalGraph::of(&programs, &local);
        Self { programs, local, global, modified }
    }
}
