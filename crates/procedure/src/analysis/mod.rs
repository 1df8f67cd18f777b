//! Static analysis of procedures: what of them replay needs, and which parts of them can run apart.
//! Paper: PACMAN §4.1, Appendix B; DESIGN §4.4.
//!
//! A procedure becomes a [`Program`] (calls replaced, one register a value), a program its replay form, the operations of a
//! replay form slices ([`LocalGraph`], Algorithm 1), and the slices of all procedures blocks ([`GlobalGraph`], Algorithm 2).

mod explain;
mod graphs;
mod need;
mod program;
mod replay_form;

pub use explain::{ReplaySummary, describe};
pub use graphs::{Block, GlobalGraph, LocalGraph, Slice};
pub use program::Program;

use crate::Procedure;

/// The analysis of a set of procedures.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// The replay forms of those that write, in the order given.
    pub programs: Vec<Program>,
    /// Their local graphs.
    pub local: Vec<LocalGraph>,
    /// The graph over all of them.
    pub global: GlobalGraph,
}

impl Analysis {
    /// Analyses procedures. Those that only read leave nothing in the log and are left out.
    pub fn of<'p>(procedures: impl IntoIterator<Item = &'p Procedure>) -> Self {
        let writing = procedures.into_iter().filter(|procedure| !procedure.read_only);
        let programs: Vec<Program> = writing.map(|procedure| Program::new(procedure).replay_form()).collect();
        let local: Vec<LocalGraph> =
            programs.iter().enumerate().map(|(place, program)| LocalGraph::of(program, place)).collect();
        let global = GlobalGraph::of(&programs, &local);
        Self { programs, local, global }
    }
}
