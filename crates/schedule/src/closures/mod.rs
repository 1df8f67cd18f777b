//! Closures: the transactions of a log in any order in which their rows are wanted.
//! Paper: DistDGCC §4.1 (on-demand recovery: a record is recovered with those that it depends on). Differs:
//! there the log holds dependencies; here they follow from the analysis of the procedures, as far as a call's
//! record tells its keys.
//!
//! A unit is a piece of a call, a round of a piece, or all writes of a transaction that was logged by value.
//!
//! 1. `Closures::new` goes over the transactions once, evaluates which granules each unit may touch, and
//!    lists the units of each granule in commit order (`nodes`). It executes nothing.
//! 2. A thread that is about to use a place of a table calls `Closures::require`. It runs the units that use
//!    the place in a way that matters, each after the earlier units that it meets in its granules, and after
//!    the units of its own transaction whose results it receives.
//! 3. `Closures::run_next` runs the units that are not wanted yet, as a run of all transactions would order
//!    them (`drain`).
//!
//! Several threads do this at the same time. A unit is claimed by one of them once nothing before it is left,
//! and a thread that has claimed a unit waits for none. So no two threads wait for each other.
//!
//! Invariant: two units that touch one row, one of them writing, run in commit order; a place has its final
//! rows once it was required. Held by: `on_demand.rs` and every random test of the log of commands, which
//! recovers on demand, too (crates/reprise/tests/suite/common).

mod drain;
mod indexes;
mod nodes;
mod numbers;
mod reserve;
mod results;
mod run;

pub use indexes::Expected;
pub use run::{ClosureError, Runner};

use crate::divergence::Divergence;
use crate::graph::entries::Use;
use crate::programs::Programs;
use crate::run::Access;
use crate::{Batch, Definitions, SAMPLED, Settings};
use catalog::{Table, TableId};
use drain::Drain;
use indexes::Indexes;
use nodes::{Nodes, Progress};
use numbers::{Layouts, Numbers};
use procedure::analysis::{PieceReservations, Pieces, ReservationMode};
use procedure::{Interrupts, Procedure};
use reserve::{Listed, Listing, NotListed, Sampled};
use results::Results;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The states of a unit: no thread runs it; a thread runs it; it cannot run; it has run after all units
/// before it at its nodes; it has run in the order of a partition, which may know more of its keys than its
/// nodes do, and so not after all of these units.
const WAITING: u8 = 0;
const RUNNING: u8 = 1;
const FAILED: u8 = 2;
const DONE: u8 = 3;
const DRAINED: u8 = 4;
/// The state of a number that no unit has.
const UNUSED: u8 = 5;

/// Transactions whose units run when their rows are wanted.
pub struct Closures<B> {
    /// Those of single units.
    programs: Programs,
    reservations: PieceReservations,
    transactions: Arc<B>,
    indexes: Indexes,
    nodes: Nodes,
    numbers: Numbers,
    /// By number.
    states: Vec<AtomicU8>,
    results: Results,
    /// Number of units, and of those that are not done.
    units: usize,
    left: AtomicUsize,
    drain: Drain<B>,
    /// Why a unit cannot run.
    failed: Mutex<Option<Divergence>>,
}

/// A part of a table that a thread is about to use.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// A primary key.
    Key(&'a [u8]),
    /// The keys of an index from the first one on, up to one behind the last.
    Range {
        /// Position among the table's indexes.
        index: usize,
        /// The first bytes of the first key.
        lower: &'a [u8],
        /// The first key behind; `None` for all keys.
        upper: Option<&'a [u8]>,
    },
    /// All rows.
    Table,
}

impl<B> fmt::Debug for Closures<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = self.left.load(Ordering::Relaxed);
        f.debug_struct("Closures").field("units", &self.units).field("left", &left).finish_non_exhaustive()
    }
}

/// What the transactions of `Closures` run with.
#[derive(Debug)]
pub struct ClosureParts {
    /// The pieces of the procedures.
    pub pieces: Arc<Pieces>,
    /// What they may touch.
    pub reservations: PieceReservations,
    /// By program, the procedure.
    pub procedures: Vec<Arc<Procedure>>,
    /// The definitions of all tables.
    pub definitions: Definitions,
    /// The tables that transactions logged by value write.
    pub by_value: BTreeMap<TableId, Arc<Table>>,
    /// What requests are expected to want; units are listed so that they find few of them.
    pub expected: Vec<Expected>,
    /// How units run that no thread wants.
    pub settings: Settings,
    /// Number of transactions of a batch of these.
    pub batch: usize,
}

impl<B: Batch> Closures<B> {
    /// Lists the units of transactions by what they may touch, on a number of threads. Returns `None` if
    /// they have more units than can be numbered.
    ///
    /// # Errors
    /// The arguments of a call, or writes by value, do not fit.
    pub fn new(parts: ClosureParts, transactions: B) -> Result<Option<Self>, Divergence> {
        let ClosureParts { pieces, mut reservations, procedures, definitions, .. } = parts;
        let ClosureParts { by_value, expected, settings, batch, .. } = parts;
        let transactions = Arc::new(transactions);
        let sampled = (0..transactions.len()).step_by(transactions.len().div_ceil(SAMPLED).max(1));
        let sample = sampled.map(|index| transactions.get(index));
        let of_drain = (Arc::clone(&pieces), procedures.clone(), definitions.clone());
        let of_drain = Programs::new(of_drain.0, of_drain.1, of_drain.2, settings, sample)?;
        let programs = Programs::of_units(Arc::clone(&pieces), procedures, definitions);
        let of_units = reservations.units.iter().flatten().map(|unit| &unit.reservations);
        let indexes = Indexes::of(of_units, &by_value, &expected);
        let layouts = Layouts::of(&pieces);
        let listing = Listing {
            programs: &programs,
            reservations: &reservations,
            indexes: &indexes,
            layouts: &layouts,
            transactions: &*transactions,
        };
        let Sampled { widened, used } = reserve::sampled(&listing)?;
        let indexes = indexes.widened(&widened);
        reservations.shorten(|table, index| indexes.longest(table, index));
        let list = |indexes: &Indexes| {
            let (reservations, transactions) = (&reservations, &*transactions);
            let listing =
                Listing { programs: &programs, reservations, indexes, layouts: &layouts, transactions };
            reserve::list(&listing, settings.threads)
        };
        let narrowed = indexes.narrowed(&used);
        let (indexes, listed) = match list(&narrowed) {
            // The sample has not shown all.
            Err(NotListed::NoNode) => {
                let listed = list(&indexes);
                (indexes, listed)
            }
            listed => (narrowed, listed),
        };
        let listed = match listed {
            Ok(listed) => listed,
            Err(NotListed::Diverged(divergence)) => return Err(divergence),
            Err(NotListed::TooMany | NotListed::NoNode) => return Ok(None),
        };
        let Listed { nodes, firsts, programs: called, unused } = listed;
        let numbers = Numbers::new(layouts, firsts, called);
        let states: Vec<_> = (0..numbers.count()).map(|_| AtomicU8::new(WAITING)).collect();
        unused.iter().for_each(|number| states[*number as usize].store(UNUSED, Ordering::Relaxed));
        let is_unit = |number: &u32| states[*number as usize].load(Ordering::Relaxed) != UNUSED;
        let units = |transaction| numbers.of_transaction(transaction).filter(is_unit).count() as u32;
        let results = Results::new((0..transactions.len() as u32).map(units));
        Ok(Some(Self {
            programs,
            reservations,
            indexes,
            nodes,
            units: numbers.count() - unused.len(),
            left: AtomicUsize::new(numbers.count() - unused.len()),
            numbers,
            states,
            results,
            drain: Drain::new(of_drain, batch),
            transactions,
            failed: Mutex::default(),
        }))
    }

    /// Returns whether all units have run.
    pub fn is_done(&self) -> bool {
        // ORDERING: Acquire pairs with the Release of the last unit: who sees that nothing is left sees all
        // rows.
        self.left.load(Ordering::Acquire) == 0
    }

    /// Returns the definition of a table.
    pub fn table(&self, id: TableId) -> Option<&Table> {
        self.programs.definitions.get(id)
    }

    /// Returns the number of units, and of those that have not run.
    pub fn units(&self) -> (usize, usize) {
        (self.units, self.left.load(Ordering::Relaxed))
    }

    /// Returns once all units have run that use a part of a table, as far as their order and the use matter.
    ///
    /// # Errors
    /// A unit cannot run; interrupted.
    pub fn require<A: Access>(
        &self,
        table: &Table,
        wanted: Wanted<'_>,
        writes: bool,
        runner: &mut Runner<A>,
        interrupts: &Interrupts,
    ) -> Result<(), ClosureError> {
        if self.is_done() {
            return Ok(());
        }
        let mode = if writes { ReservationMode::Write } else { ReservationMode::Read };
        if self.indexes.is_constant(table.id) {
            // Any unit may read it, at any time.
            return if writes { self.run_all(runner, interrupts) } else { Ok(()) };
        }
        let mut units = Vec::new();
        match self.nodes_of(table, wanted, writes) {
            Some(nodes) => {
                for (index, node, is_whole) in nodes {
                    let of = Use { mode, is_whole };
                    self.nodes.before(index, node, of, u32::MAX, |unit| self.progress_of(unit), &mut units);
                }
                units.sort_unstable();
            }
            None => units = self.nodes.units_of(&self.indexes, table.id),
        }
        self.run(units, runner, interrupts)
    }

    /// Returns the nodes whose units may meet a use of a part of a table; `None` for all of the table.
    fn nodes_of(&self, table: &Table, wanted: Wanted<'_>, writes: bool) -> Option<Vec<(u32, u64, bool)>> {
        let (index, lower, upper) = match wanted {
            Wanted::Key(key) => (0, key, Some(key)),
            Wanted::Range { index, lower, upper } => (index, lower, upper),
            Wanted::Table => return None,
        };
        let Some(number) = self.indexes.number(table.id, index) else {
            // Rows may come into an index in which units do not look; none comes where nothing is written.
            let is_met = self.indexes.of_table(table.id).next().is_some();
            return if is_met && !writes { None } else { Some(Vec::new()) };
        };
        let around = self.indexes.nodes_around(number, table, index, lower, upper);
        let nodes: Vec<_> = around.into_iter().map(|(node, is_whole)| (number, node, is_whole)).collect();
        (!nodes.is_empty()).then_some(nodes)
    }

    /// Returns once all units have run.
    ///
    /// # Errors
    /// As `require`.
    pub fn run_all<A: Access>(
        &self,
        runner: &mut Runner<A>,
        interrupts: &Interrupts,
    ) -> Result<(), ClosureError> {
        while self.run_next(runner)? {
            interrupts.check()?;
        }
        // What other threads run, or have failed to run, is left.
        self.run(0..self.states.len() as u32, runner, interrupts)
    }

    fn run<A: Access>(
        &self,
        units: impl IntoIterator<Item = u32>,
        runner: &mut Runner<A>,
        interrupts: &Interrupts,
    ) -> Result<(), ClosureError> {
        units.into_iter().try_for_each(|unit| self.run_closure(unit, runner, interrupts))
    }

    /// Returns how a unit has run.
    #[inline]
    fn progress_of(&self, unit: u32) -> Progress {
        // ORDERING: as `is_unit_done`.
        match self.states[unit as usize].load(Ordering::Acquire) {
            DONE => Progress::Done,
            DRAINED => Progress::Drained,
            _ => Progress::Left,
        }
    }

    #[inline]
    fn is_unit_done(&self, unit: u32) -> bool {
        // ORDERING: Acquire pairs with the Release of the thread that ran it.
        self.states[unit as usize].load(Ordering::Acquire) >= DONE
    }
}
