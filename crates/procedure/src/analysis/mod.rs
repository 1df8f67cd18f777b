//! Static analysis of procedures: the part of each that replay needs, and the slices that may run separately.
//! Paper: PACMAN §4.1, Appendix B.
//!
//! A procedure becomes a [`Program`] (calls inlined, one register a value), and a program its replay form.
//! The operations of a replay form become slices ([`LocalGraph`], Algorithm 1), and the slices of all
//! procedures become blocks ([`GlobalGraph`], Algorithm 2).

mod blocks;
mod chopping;
mod draws;
mod explain;
mod finder;
mod granules;
mod graphs;
mod lookups;
mod need;
mod partition;
mod pieces;
mod program;
mod replay_form;
mod reservations;
mod reserved;
mod resolve;
mod rounds;
mod step;
mod weight;
mod witness;

pub use blocks::Cuts;
pub use explain::{ReplaySummary, describe};
pub use granules::{CanonicalValue, Extent, Footprint, Granule, GranuleKind, Known, key_columns};
pub use graphs::{Block, GlobalGraph, LocalGraph, Slice};
pub use partition::PartitionValue;
pub use pieces::{KeyWitness, Piece, Pieces, ValueBlock};
pub use program::Program;
pub use reservations::{PieceReservations, Reservations, UnitReservations};
pub use reserved::{Reservation, ReservationMode, ReservedKey, Updated};
pub use rounds::Rounds;
pub use step::Step;
pub use weight::Weight;
pub use witness::witnesses;

use crate::{OperationId, Procedure, Register, Witnessed};

use catalog::{Table, TableId};
use resolve::{Given, Resolver};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How procedures are decomposed into slices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Decomposition {
    /// PACMAN: Algorithms 1 and 2.
    #[default]
    Slices,
    /// Transaction chopping, with which PACMAN is compared (§6.3.1).
    Chopping,
}

/// Facts of a log whose procedures are analysed.
#[derive(Clone, Debug, Default)]
pub struct LogFacts {
    /// Tables that transactions logged by value write.
    pub written_by_value: BTreeMap<TableId, Arc<Table>>,
}

/// The analysis of a set of procedures.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// The replay forms of the procedures that write, in the order given.
    pub programs: Vec<Program>,
    /// Their local graphs.
    pub local: Vec<LocalGraph>,
    /// The graph over all of them.
    pub global: GlobalGraph,
    /// The tables that the log modifies; every other table is constant. `None` without a log.
    modified: Option<BTreeSet<TableId>>,
    /// Reads of constant tables, by program, that belong to slices because keys follow from them.
    key_reads: BTreeSet<(usize, OperationId)>,
    /// The tables that transactions logged by value write.
    written_by_value: BTreeMap<TableId, Arc<Table>>,
}

impl Analysis {
    /// Analyses procedures. It leaves out those that only read, because their calls are not logged, and those
    /// whose calls are logged by value.
    pub fn of<'p>(procedures: impl IntoIterator<Item = &'p Procedure>) -> Self {
        let writing = procedures.into_iter().filter(|procedure| !procedure.read_only);
        let programs = writing
            .flat_map(|procedure| Program::new(procedure, Witnessed::Nothing))
            .map(|program| program.replay_form());
        let programs = programs.collect();
        Self::with(programs, BTreeMap::new(), None, Decomposition::Slices)
    }

    /// Analyses the procedures of a log for its replay, each with what its calls have recorded. None of
    /// them may be logged by value. Any piece may read tables that the log does not modify.
    pub fn for_replay<'p>(
        procedures: impl IntoIterator<Item = (&'p Procedure, Witnessed)>,
        facts: LogFacts,
        decomposition: Decomposition,
    ) -> Self {
        let programs: Vec<Program> = procedures
            .into_iter()
            .flat_map(|(procedure, witnessed)| Program::new(procedure, witnessed))
            .map(|program| program.replay_form())
            .collect();
        let mut modified: BTreeSet<TableId> = facts.written_by_value.keys().copied().collect();
        let operations = programs.iter().flat_map(|program| &program.operations);
        modified
            .extend(operations.filter(|operation| operation.writes()).map(|operation| operation.table().id));
        let mut analysis = Self::with(programs, facts.written_by_value, Some(modified), decomposition);
        if decomposition == Decomposition::Slices {
            analysis.slice_key_reads();
        }
        analysis
    }

    fn with(
        programs: Vec<Program>,
        written_by_value: BTreeMap<TableId, Arc<Table>>,
        modified: Option<BTreeSet<TableId>>,
        decomposition: Decomposition,
    ) -> Self {
        let global = GlobalGraph { blocks: Vec::new(), edges: BTreeSet::new() };
        let (local, key_reads) = (Vec::new(), BTreeSet::new());
        let mut analysis = Self { programs, local, global, modified, key_reads, written_by_value };
        analysis.decompose(decomposition);
        analysis
    }

    /// Decomposes the programs into slices and blocks.
    fn decompose(&mut self, decomposition: Decomposition) {
        let local_graph = |program: usize| {
            let is_free = |id| self.is_free(program, id);
            match decomposition {
                Decomposition::Slices => LocalGraph::of(&self.programs[program], program, &is_free),
                Decomposition::Chopping => LocalGraph::chopped(&self.programs, program, &is_free),
            }
        };
        let local: Vec<LocalGraph> = (0..self.programs.len()).map(local_graph).collect();
        self.global = GlobalGraph::of(&self.programs, &local, &self.written_by_value);
        self.local = local;
    }

    /// Makes slices of the reads of constant tables that keys follow from. The keys of these slices may
    /// follow from further reads, so this repeats until it finds no new ones.
    fn slice_key_reads(&mut self) {
        loop {
            let found = self.key_reads();
            if found.is_subset(&self.key_reads) {
                return;
            }
            self.key_reads.extend(found);
            self.decompose(Decomposition::Slices);
        }
    }

    /// Returns whether an operation of a program may run in any piece that needs its results, because no
    /// transaction of the log changes the table that it reads.
    fn is_free(&self, program: usize, id: OperationId) -> bool {
        let table = self.programs[program].operations[id.0 as usize].table().id;
        let is_constant = self.modified.as_ref().is_some_and(|modified| !modified.contains(&table));
        is_constant && !self.key_reads.contains(&(program, id))
    }

    /// Returns the granules of an operation of a program. Their values may follow from results of operations
    /// in other slices.
    pub fn footprint(&self, program: usize, id: OperationId) -> Footprint {
        let analysed = &self.programs[program];
        let slice_of = |id: OperationId| {
            let slices = &self.local[program].slices;
            slices.iter().position(|slice| slice.operations.contains(&id))
        };
        let results = |source: OperationId, register: Register| match analysed.witnesses.get(&source) {
            Some((_, recorded)) => recorded.contains(&register),
            None => slice_of(source).is_some() && slice_of(source) != slice_of(id),
        };
        let given = Given { variable: None, results: &results };
        Footprint::of(&Resolver::new(analysed), &analysed.operations[id.0 as usize], given)
    }
}
