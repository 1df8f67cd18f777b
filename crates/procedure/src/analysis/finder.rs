//! Finds the reservations of a program. See `reservations`.

use super::granules::Footprint;
use super::pieces::KeyWitness;
use super::program::Program;
use super::reserved::{LoopValues, Reservation, ReservedLoop};
use super::resolve::{Given, Resolver};
use super::rounds::Rounds;
use super::step::Step;
use crate::{OperationId, Register};
use std::collections::BTreeSet;

/// Finds the reservations of a program.
pub(super) struct Finder<'p> {
    program: &'p Program,
    resolver: Resolver<'p>,
    /// Selects the operations whose reservations are collected.
    runs: &'p dyn Fn(OperationId) -> bool,
    /// The values that are known outside of all loops.
    given: Given<'p>,
    /// The loops around a step whose values are known, as indexes in `loops`.
    around: Vec<usize>,
    once: Vec<Reservation>,
    loops: Vec<ReservedLoop>,
    /// The values that are known in a round of the loop around a step, if that loop is in no other one.
    in_rounds: Option<InRounds<'p>>,
}

/// The values that are known in a round of a loop.
struct InRounds<'p> {
    variable: Register,
    resolver: Resolver<'p>,
    /// The operations that run at most once a round, and have recorded results.
    received: BTreeSet<OperationId>,
}

impl<'p> InRounds<'p> {
    /// Returns `None` if no results of the loop's operations are recorded.
    fn of(program: &'p Program, variable: Register, body: &[Step]) -> Option<Self> {
        let mut received = BTreeSet::new();
        add_once_a_round(body, &mut received);
        received.retain(|id| program.witnesses.contains_key(id));
        let resolver = || Resolver::of_round(program, Some(variable));
        (!received.is_empty()).then(|| Self { variable, resolver: resolver(), received })
    }
}

/// Collects the operations of steps that are in no loop among them.
fn add_once_a_round(steps: &[Step], operations: &mut BTreeSet<OperationId>) {
    for step in steps {
        match step {
            Step::Execute(id) => drop(operations.insert(*id)),
            Step::If { .. } | Step::Block { .. } => {
                step.bodies().into_iter().for_each(|body| add_once_a_round(body, operations));
            }
            _ => {}
        }
    }
}

/// The reservations of a program.
pub(super) struct FoundReservations {
    /// Those outside of all loops.
    pub(super) once: Vec<Reservation>,
    pub(super) loops: Vec<ReservedLoop>,
}

impl<'p> Finder<'p> {
    /// Finds the reservations of those operations of some steps that `runs` names. Where a variable is given,
    /// the steps are a round of its loop.
    pub(super) fn find(
        program: &'p Program,
        steps: &[Step],
        runs: &'p dyn Fn(OperationId) -> bool,
        given: Given<'p>,
    ) -> FoundReservations {
        let mut finder = Self {
            program,
            resolver: Resolver::of_round(program, given.variable),
            runs,
            given,
            around: Vec::new(),
            once: Vec::new(),
            loops: Vec::new(),
            in_rounds: None,
        };
        finder.add_steps(steps, given.variable.is_some());
        FoundReservations { once: finder.once, loops: finder.loops }
    }

    fn add_steps(&mut self, steps: &[Step], is_in_loop: bool) {
        for step in steps {
            if let Some(id) = step.operation().filter(|id| (self.runs)(*id)) {
                self.add_operation(id);
            }
            let values = self.values_of(step);
            let is_known = values.is_some();
            if let Some(values) = values {
                // The loop runs once, so each of its rounds takes the next recorded results.
                if let (LoopValues::Range(rounds), Step::ForRange { body, .. }, false) =
                    (&values, step, is_in_loop)
                {
                    self.in_rounds = InRounds::of(self.program, rounds.variable, body);
                }
                self.around.push(self.loops.len());
                self.loops.push(ReservedLoop {
                    values,
                    each: Vec::new(),
                    widened: Vec::new(),
                    with_results: Vec::new(),
                    received: Vec::new(),
                });
            }
            let is_loop = !matches!(step, Step::If { .. } | Step::Block { .. });
            step.bodies().into_iter().for_each(|body| self.add_steps(body, is_in_loop || is_loop));
            if is_known {
                self.around.pop();
            }
            if !is_in_loop && is_loop {
                self.in_rounds = None;
            }
        }
    }

    /// Returns the values of the variable of a loop; `None` if they are not known before the call runs, or if
    /// another step sets the variable, too.
    fn values_of(&self, step: &Step) -> Option<LoopValues> {
        let values = match step {
            Step::ForEach { variable, array, .. } => {
                let array = self.resolver.resolved(array, Given::ARGUMENTS)?.expression;
                LoopValues::Elements { variable: *variable, array }
            }
            _ => LoopValues::Range(Rounds::of(&self.resolver, step)?),
        };
        self.resolver.has_one_definition(values.variable()).then_some(values)
    }

    /// Adds the reservations of an operation, each where its prefix is longest: outside of all loops, or in
    /// the loop whose variable lengthens it.
    fn add_operation(&mut self, id: OperationId) {
        let operation = &self.program.operations[id.0 as usize];
        let reserved = |resolver: &Resolver<'_>, given: Given<'_>| {
            Reservation::of(Footprint::of(resolver, operation, given), operation)
        };
        let given =
            |variable: Option<Register>| Given { variable: variable.or(self.given.variable), ..self.given };
        let in_loop = |loop_index: &usize| {
            let variable = self.loops[*loop_index].values.variable();
            let each = reserved(&self.resolver, given(Some(variable)));
            let in_rounds = self.in_rounds.as_ref().filter(|rounds| rounds.variable == variable);
            let with_results = in_rounds.map_or_else(
                || each.clone(),
                |rounds| {
                    let results = |id: OperationId, register: Register| {
                        let recorded = self.program.witnesses.get(&id);
                        let is_recorded = recorded.is_some_and(|(_, all)| all.contains(&register));
                        is_recorded && rounds.received.contains(&id) || (self.given.results)(id, register)
                    };
                    reserved(&rounds.resolver, Given { results: &results, ..given(Some(variable)) })
                },
            );
            (each, with_results)
        };
        let in_loops: Vec<_> = self.around.iter().map(in_loop).collect();
        let length = |reservation: &Reservation| reservation.granule.prefix.len();
        for (index, wide) in reserved(&self.resolver, given(None)).into_iter().enumerate() {
            let of_loops = self.around.iter().zip(&in_loops);
            match of_loops.max_by_key(|(_, (_, reservations))| length(&reservations[index])) {
                Some((loop_index, (each, with_results))) if length(&with_results[index]) > length(&wide) => {
                    let after = with_results[index].granule.prefix.iter().flat_map(|value| value.after());
                    let in_rounds = self.in_rounds.iter().flat_map(|rounds| &rounds.received);
                    let in_rounds: BTreeSet<_> = in_rounds.copied().collect();
                    let received = after.filter(|id| in_rounds.contains(id));
                    let received =
                        received.filter_map(|id| self.program.witnesses.get(id)).map(KeyWitness::of);
                    let received: Vec<KeyWitness> = received.collect();
                    let reserved_loop = &mut self.loops[*loop_index];
                    reserved_loop.received.extend(received);
                    reserved_loop.each.push(each[index].clone());
                    reserved_loop.with_results.push(with_results[index].clone());
                    reserved_loop.widened.push(wide);
                }
                _ => self.once.push(wide),
            }
        }
    }
}
