//! Static analysis of procedures: what of them replay needs, and which parts of them can run apart.
//! Paper: PACMAN §4.1, Appendix B.
//!
//! A procedure becomes a [`Program`] (calls replaced, one register a value), a program its replay form, the
//! operations of a replay form slices ([`LocalGraph`], Algorithm 1), and the slices of all procedures blocks
//! ([`GlobalGraph`], Algorithm 2).

mod chopping;
mod draws;
mod explain;
mod granules;
mod graphs;
mod need;
mod partition;
mod pieces;
mod program;
mod replay_form;
mod rounds;
mod weight;
mod witness;

pub use explain::{ReplaySummary, describe};
pub use granules::CanonicalValue;
pub use graphs::{Block, GlobalGraph, LocalGraph, Slice};
pub use partition::PartitionValue;
pub use pieces::{Piece, Pieces, ValueBlock};
pub use program::Program;
pub use rounds::Rounds;
pub use weight::Weight;
pub use witness::witnesses;

use crate::{OperationId, Procedure};
use catalog::{Table, TableId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How procedures are taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Decomposition {
    /// PACMAN: Algorithms 1 and 2.
    #[default]
    Slices,
    /// Transaction chopping: what PACMAN is compared with (§6.3.1).
    Chopping,
}

/// What is known of a log whose procedures are analysed.
#[derive(Clone, Debug, Default)]
pub struct LogFacts {
    /// Tables that transactions logged by value write.
    pub written_by_value: BTreeMap<TableId, Arc<Table>>,
}

/// The analysis of a set of procedures.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// The replay forms of those that write, in the order given.
    pub programs: Vec<Program>,
    /// Their local graphs.
    pub local: Vec<LocalGraph>,
    /// The graph over all of them.
    pub global: GlobalGraph,
    /// The tables that the log modifies; those not among them are read freely. Unknown without a log.
    modified: Option<BTreeSet<TableId>>,
    /// The tables that transactions logged by value write.
    written_by_value: BTreeMap<TableId, Arc<Table>>,
}

impl Analysis {
    /// Analyses procedures. Those that only read leave nothing in the log and are left out, and so are those
    /// whose calls are logged by value.
    pub fn of<'p>(procedures: impl IntoIterator<Item = &'p Procedure>) -> Self {
        let writing = procedures.into_iter().filter(|own| !own.read_only && !own.by_value);
        let programs = writing.map(|procedure| Program::new(procedure, false).replay_form()).collect();
        Self::with(programs, BTreeMap::new(), &|_, _| false, Decomposition::Slices)
    }

    /// Analyses the procedures of a log for its replay, each with recorded witness values or without: tables
    /// that the log does not modify are read freely anywhere.
    pub fn for_replay<'p>(
        procedures: impl IntoIterator<Item = (&'p Procedure, bool)>,
        facts: LogFacts,
        decomposition: Decomposition,
    ) -> Self {
        let programs: Vec<Program> = procedures
            .into_iter()
            .map(|(procedure, witnessed)| Program::new(procedure, witnessed).replay_form())
            .collect();
        let mut modified: BTreeSet<TableId> = facts.written_by_value.keys().copied().collect();
        let operations = programs.iter().flat_map(|program| &program.operations);
        modified.extend(operations.filter(|operation| operation.writes()).map(|own| own.table().id));
        let is_free =
            |program: &Program, id| !modified.contains(&program.operations[as_place(id)].table().id);
        let mut analysis = Self::with(programs, facts.written_by_value, &is_free, decomposition);
        analysis.modified = Some(modified);
        analysis
    }

    fn with(
        programs: Vec<Program>,
        written_by_value: BTreeMap<TableId, Arc<Table>>,
        is_free: &dyn Fn(&Program, OperationId) -> bool,
        decomposition: Decomposition,
    ) -> Self {
        let local_graph = |(place, program): (usize, &Program)| {
            let is_free = |id| is_free(program, id);
            match decomposition {
                Decomposition::Slices => LocalGraph::of(program, place, &is_free),
                Decomposition::Chopping => LocalGraph::chopped(&programs, place, &is_free),
            }
        };
        let local: Vec<LocalGraph> = programs.iter().enumerate().map(local_graph).collect();
        let global = GlobalGraph::of(&programs, &local, &written_by_value);
        Self { programs, local, global, modified: None, written_by_value }
    }

    /// Whether an operation may run in any piece that needs its results, as nothing ever changes what it
    /// reads.
    fn is_free(&self, program: &Program, id: OperationId) -> bool {
        let table = program.operations[as_place(id)].table().id;
        self.modified.as_ref().is_some_and(|modified| !modified.contains(&table))
    }
}

fn as_place(id: OperationId) -> usize {
    id.0 as usize
}
