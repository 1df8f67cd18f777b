//! Reservations: the granules that a call may touch, from its record alone. A dependency graph orders calls
//! by them before any of the calls has run.
//! Paper: DistDGCC §2.1 (contention resolution comes before execution), which assumes that the keys of a
//! transaction are known.
//!
//! A reservation is a granule of an operation of the run-time form, checks and outputs included. Its values
//! follow from the arguments and from the variable of one loop around the operation; where a key follows from
//! a read, the granule ends before it, and covers more. Conditions count as true. So a call reserves all
//! that it may touch, and usually more.
//!
//! A replay has the reservations of pieces instead ([`PieceReservations`]). There keys follow from witness
//! values, too, and from the variable of a round.
//!
//! Most columns never change after their row was inserted. A call that reads only such columns may run beside
//! a call that updates the row. The reservations of procedures are therefore found together.
//!
//! Invariant: every row that a call reads or writes, and every key that it looks for in vain, lies in one of
//! its reservations. Held by: `every_touched_row_is_reserved`.
//! Not here: the order of calls whose reservations conflict (`schedule::graph`).

use super::Analysis;
use super::blocks::Needed;
use super::finder::{Finder, FoundReservations};
use super::pieces::{KeyWitness, Piece, Pieces};
use super::program::Program;
use super::reserved::{Reservation, ReservedKey, ReservedLoop, Updated, add_columns, shorten};
use super::resolve::{Given, Resolver};
use super::step::Step;
use crate::{ByValueCause, Call, Machine, OperationId, Part, Procedure, Register, WitnessValues, Witnessed};
use catalog::{DecodeError, Reader, TableId, decode_value};
use std::sync::Arc;

/// A loop of more rounds reserves what its operations may touch in any round.
const MOST_ROUNDS: u32 = 1 << 12;

/// The reservations of the calls of a procedure.
#[derive(Clone, Debug)]
pub struct Reservations {
    /// The register of each parameter that takes a value; `None` if nothing uses it.
    inputs: Vec<Option<Register>>,
    /// Number of registers.
    registers: usize,
    /// Those whose values do not depend on a loop.
    once: Vec<Reservation>,
    loops: Vec<ReservedLoop>,
    updated: Updated,
}

impl Reservations {
    /// Analyses procedures whose calls may be in one batch. Returns for each the reservations, or the cause
    /// for which nothing is known of its calls before they run.
    pub fn of_all<'p>(procedures: impl Iterator<Item = &'p Procedure>) -> Vec<Result<Self, ByValueCause>> {
        let of = |procedure| Program::new(procedure, Witnessed::Nothing).map(|program| Self::of(&program));
        let mut all: Vec<_> = procedures.map(of).collect();
        let mut updated = Updated::default();
        all.iter().flatten().for_each(|reservations: &Self| updated.add_all(&reservations.updated));
        all.iter_mut().flatten().for_each(|reservations| reservations.narrow(&updated));
        all
    }

    /// Returns the columns that calls of the procedure may update.
    pub fn updated(&self) -> &Updated {
        &self.updated
    }

    fn of(program: &Program) -> Self {
        Self::of_steps(program, &program.body, &|_| true, Given::ARGUMENTS)
    }

    /// Finds the reservations of those operations of some steps that `runs` names.
    fn of_steps(
        program: &Program,
        steps: &[Step],
        runs: &dyn Fn(OperationId) -> bool,
        given: Given<'_>,
    ) -> Self {
        let FoundReservations { once, mut loops } = Finder::find(program, steps, runs, given);
        loops.retain(|reserved| !reserved.each.is_empty());
        let mut updated = Updated::default();
        updated.add(&program.operations);
        Self { inputs: program.inputs.clone(), registers: program.registers, once, loops, updated }
    }

    fn shorten(&mut self, longest: &impl Fn(TableId, usize) -> Option<usize>) {
        shorten(&mut self.once, longest);
        self.loops.iter_mut().for_each(|reserved| reserved.shorten(longest, &mut self.once));
        self.loops.retain(|reserved| !reserved.each.is_empty());
    }

    fn narrow(&mut self, updated: &Updated) {
        let of_loops = self.loops.iter_mut().flat_map(|reserved| {
            reserved.each.iter_mut().chain(&mut reserved.widened).chain(&mut reserved.with_results)
        });
        self.once.iter_mut().chain(of_loops).for_each(|reservation| reservation.narrow(updated));
    }

    /// Puts the arguments of a call of the procedure into the registers of a machine, from its record.
    ///
    /// # Errors
    /// The arguments do not fit the procedure.
    pub fn load(&self, call: Call<'_>, arguments: &[u8], machine: &mut Machine) -> Result<(), DecodeError> {
        machine.begin_piece(self.registers, call.timestamp_us, call.seed);
        let mut reader = Reader::new(arguments);
        for ((_, parameter), register) in call.procedure.inputs().zip(&self.inputs) {
            let value = decode_value(parameter.ty, &mut reader, &mut machine.frame.arena)?;
            if let Some(register) = register {
                machine.set(*register, value);
            }
        }
        Ok(())
    }

    /// Visits the reservations of the call whose arguments are in the registers, each with its values. `key`
    /// is a buffer; `witnesses` has the recorded results, if the call has run before.
    pub fn for_each<'s>(
        &'s self,
        machine: &mut Machine,
        witnesses: Option<&WitnessValues>,
        key: &mut ReservedKey,
        mut visit: impl FnMut(&'s Reservation, &ReservedKey),
    ) {
        let mut reserve = |reservations: &'s [Reservation], machine: &mut Machine| {
            for reservation in reservations {
                if key.take(&reservation.granule, machine) {
                    visit(reservation, key);
                }
            }
        };
        reserve(&self.once, machine);
        for reserved in &self.loops {
            let count = reserved.values.count(machine);
            if count > MOST_ROUNDS {
                reserve(&reserved.widened, machine);
                continue;
            }
            let has_results = reserved.has_results(count, witnesses);
            for round in 0..count {
                let value = reserved.values.value(round, machine);
                machine.set(reserved.values.variable(), value);
                if let Some(values) = witnesses.filter(|_| has_results) {
                    reserved.received.iter().for_each(|witness| witness.load_round(values, round, machine));
                }
                reserve(if has_results { &reserved.with_results } else { &reserved.each }, machine);
            }
        }
    }

    /// Returns the reservations of a call outside of loops.
    pub(super) fn once(&self) -> impl Iterator<Item = &Reservation> {
        self.once.iter()
    }

    /// Returns the reservations of a call in each round of a loop.
    pub(super) fn of_rounds(&self) -> impl Iterator<Item = &Reservation> {
        self.loops.iter().flat_map(|reserved| &reserved.each)
    }

    /// Returns the reservations of a call whose loops have at most `MOST_ROUNDS` rounds.
    pub fn iter_usual(&self) -> impl Iterator<Item = &Reservation> {
        self.once().chain(self.of_rounds())
    }

    /// Returns all reservations that a call may have.
    pub fn iter(&self) -> impl Iterator<Item = &Reservation> {
        let of_loops = self.loops.iter().flat_map(|reserved| {
            let with_results = reserved.with_results.iter().filter(|_| !reserved.received.is_empty());
            reserved.each.iter().chain(&reserved.widened).chain(with_results)
        });
        self.once.iter().chain(of_loops)
    }
}

/// The reservations of the pieces of a replay.
#[derive(Clone, Debug)]
pub struct PieceReservations {
    /// By program and piece, in the order of `Pieces::pieces`.
    pub units: Vec<Vec<UnitReservations>>,
    /// By program, the witnesses whose values they use.
    pub witnesses: Vec<Vec<KeyWitness>>,
}

/// The reservations of a unit of a piece: the whole piece, or one of its rounds if it has rounds. The
/// variable's register then holds the value of the round.
#[derive(Clone, Debug)]
pub struct UnitReservations {
    /// The reservations.
    pub reservations: Reservations,
    /// The witnesses that every round receives once, whose values they use.
    pub of_round: Vec<KeyWitness>,
}

impl PieceReservations {
    /// Shortens granules to the longest length that counts in their index, and drops those of indexes that do
    /// not count. Reservations that are then the same in all rounds of a loop are evaluated once.
    pub fn shorten(&mut self, longest: impl Fn(TableId, usize) -> Option<usize>) {
        self.units.iter_mut().flatten().for_each(|unit| unit.reservations.shorten(&longest));
    }

    /// Finds the reservations of the pieces of an analysis for replay.
    pub fn of(analysis: &Analysis, pieces: &Pieces) -> Self {
        let resolvers: Vec<Resolver<'_>> = analysis.programs.iter().map(Resolver::new).collect();
        let needed = analysis.needed(&resolvers);
        let mut updated = Updated::default();
        analysis.programs.iter().for_each(|program| updated.add(&program.operations));
        for table in analysis.written_by_value.values() {
            let all = updated.columns.entry(table.id).or_default();
            add_columns(all, 0..table.columns.len());
        }
        let of_piece = |(needed, piece): (&Needed<'_>, &Arc<Piece>)| {
            let program = &analysis.programs[needed.slice.program];
            let rounds = piece.rounds.as_ref();
            // Only results that each round receives once are known in a round.
            let is_known = |id: &OperationId| rounds.is_none() || needed.need.sources.contains(id);
            let results = |id: OperationId, register: Register| {
                let recorded = program.witnesses.get(&id);
                is_known(&id) && recorded.is_some_and(|(_, registers)| registers.contains(&register))
            };
            let variable = rounds.map(|rounds| rounds.variable);
            let given = Given { variable, results: &results };
            let steps = rounds.map_or(&needed.need.body, |rounds| &rounds.body);
            let runs =
                |id: OperationId| piece.part(id) != Part::Receive && needed.need.executed.contains(&id);
            let mut found = Reservations::of_steps(program, steps, &runs, given);
            found.narrow(&updated);
            let received = program.witnesses.iter().filter(|(id, _)| needed.need.sources.contains(id));
            let of_round = received.filter(|_| rounds.is_some()).map(|(_, witness)| KeyWitness::of(witness));
            UnitReservations { reservations: found, of_round: of_round.collect() }
        };
        let of_program = |(program, pieces): (usize, &Vec<Arc<Piece>>)| {
            let slices = needed.iter().filter(|needed| needed.slice.program == program);
            slices.zip(pieces).map(of_piece).collect()
        };
        let witnesses = |program: &Program| program.witnesses.values().map(KeyWitness::of).collect();
        Self {
            units: pieces.pieces.iter().enumerate().map(of_program).collect(),
            witnesses: analysis.programs.iter().map(witnesses).collect(),
        }
    }
}
