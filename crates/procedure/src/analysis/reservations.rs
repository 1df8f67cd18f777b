//! Reservations: what a call may touch, as far as its record tells. A dependency graph orders calls by them
//! before any of the calls has run.
//! Paper: DistDGCC §2.1 (contention resolution comes before execution), which takes for granted that the keys
//! of a transaction are known.
//!
//! A reservation is a granule of an operation of the run-time form, checks and outputs included. Its values
//! follow from the arguments and from the variable of one loop around the operation; where a key follows from
//! a read, the granule ends before it, and covers more. Conditions are taken for true. So a call reserves all
//! that it may touch, and usually more.
//!
//! Invariant: every row that a call reads or writes, and every key that it looks for in vain, lies in one of
//! its reservations. Held by: `every_touched_row_is_reserved`.
//! Not here: the order of calls whose reservations conflict (`schedule::graph`).

use super::granules::{Footprint, Granule};
use super::program::Program;
use super::resolve::{Given, Resolver};
use super::rounds::Rounds;
use super::step::Step;
use crate::{
    ByValueCause, Call, Expression, Machine, Operation, OperationId, OperationKind, Procedure, Register,
};
use catalog::{Datum, DecodeError, Reader, TableId, decode_value};

/// A loop of more rounds reserves what its operations may touch in any round.
const MOST_ROUNDS: u32 = 1 << 12;

/// How a call uses what it reserves. Calls that use one thing in the same shared mode, `Read` or `Touch`, may
/// come in either order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReservationMode {
    /// It reads rows, or looks for keys.
    Read,
    /// It changes entries of an index that hold no unique key of it, or rows that it found otherwise. That
    /// matters to what reads by this index. Writes of one row meet in the primary index.
    Touch,
    /// It changes rows, or adds unique keys.
    Write,
}

impl ReservationMode {
    /// Returns whether the order of two uses of one thing matters.
    pub fn conflicts(self, other: Self) -> bool {
        self != other || self == Self::Write
    }
}

/// Something that a call may touch.
#[derive(Clone, Debug)]
pub struct Reservation {
    /// The rows or keys.
    pub granule: Granule,
    /// What the call does with them.
    pub mode: ReservationMode,
}

impl Reservation {
    /// Returns the reservations of an operation, always in the same order.
    fn of(footprint: Footprint) -> Vec<Self> {
        let Footprint { before, after, references, .. } = footprint;
        let found = before.into_iter().map(|granule| {
            let mode = match granule.writes {
                false => ReservationMode::Read,
                true if granule.index == 0 => ReservationMode::Write,
                true => ReservationMode::Touch,
            };
            Self { granule, mode }
        });
        let left = after.into_iter().map(|granule| {
            let has_unique_keys = granule.index == 0 || granule.table.indexes[granule.index].unique;
            Self {
                mode: if has_unique_keys { ReservationMode::Write } else { ReservationMode::Touch },
                granule,
            }
        });
        let referenced = references.into_iter().map(|granule| Self { granule, mode: ReservationMode::Read });
        found.chain(left).chain(referenced).collect()
    }
}

/// What the calls of a procedure may touch.
#[derive(Clone, Debug)]
pub struct Reservations {
    /// The register of each parameter that takes a value; `None` if nothing uses it.
    inputs: Vec<Option<Register>>,
    /// Number of registers.
    registers: usize,
    /// Those whose values do not depend on a loop.
    once: Vec<Reservation>,
    loops: Vec<ReservedLoop>,
    /// The tables and columns that updates change, those of called procedures included.
    updated: Vec<(TableId, usize)>,
}

/// A loop whose variable is part of keys.
#[derive(Clone, Debug)]
struct ReservedLoop {
    values: LoopValues,
    /// Those whose values follow from the variable.
    each: Vec<Reservation>,
    /// The same without the variable, for loops of very many rounds.
    widened: Vec<Reservation>,
}

/// The values of the variable of a loop.
#[derive(Clone, Debug)]
enum LoopValues {
    /// Those of a range of integers.
    Range(Rounds),
    /// The elements of an array.
    Elements {
        /// The register of the variable.
        variable: Register,
        /// The array, over the parameters.
        array: Expression,
    },
}

impl LoopValues {
    fn variable(&self) -> Register {
        match self {
            Self::Range(rounds) => rounds.variable,
            Self::Elements { variable, .. } => *variable,
        }
    }

    /// Returns the number of values. It is 0 if the loop fails before its first round.
    fn count(&self, machine: &mut Machine) -> u32 {
        match self {
            Self::Range(rounds) => rounds.count(machine),
            Self::Elements { array, .. } => match array.evaluate(machine) {
                Ok(Datum::Array(span)) => span.length,
                _ => 0,
            },
        }
    }

    fn value(&self, round: u32, machine: &mut Machine) -> Datum {
        match self {
            Self::Range(rounds) => rounds.value(round, machine),
            Self::Elements { array, .. } => match array.evaluate(machine) {
                Ok(Datum::Array(span)) => machine.frame.arena.elements(span)[round as usize],
                _ => Datum::Null,
            },
        }
    }
}

/// The canonical values of a reservation of a call.
#[derive(Clone, Default, Debug)]
pub struct ReservedKey {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl ReservedKey {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether the reservation is a whole table.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the canonical forms of the first values, one after the other. No form is a prefix of another.
    pub fn prefix(&self, values: usize) -> &[u8] {
        let end = values.checked_sub(1).map_or(0, |last| self.ends[last] as usize);
        &self.bytes[..end]
    }

    /// Takes the values of a granule of the call whose inputs are in the registers. Returns false when a
    /// value cannot be computed: then the operation never runs.
    fn take(&mut self, granule: &Granule, machine: &mut Machine) -> bool {
        self.bytes.clear();
        self.ends.clear();
        granule.prefix.iter().all(|value| {
            let is_known = value.write(machine, &mut self.bytes);
            self.ends.push(self.bytes.len() as u32);
            is_known
        })
    }
}

impl Reservations {
    /// Analyses a procedure.
    ///
    /// # Errors
    /// The cause for which nothing is known of its calls before they run.
    pub fn of(procedure: &Procedure) -> Result<Self, ByValueCause> {
        let program = Program::new(procedure, false)?;
        let mut finder = Finder {
            resolver: Resolver::new(&program),
            operations: &program.operations,
            around: Vec::new(),
            once: Vec::new(),
            loops: Vec::new(),
        };
        finder.add_steps(&program.body);
        let Finder { once, mut loops, .. } = finder;
        loops.retain(|own| !own.each.is_empty());
        let updates = program.operations.iter().filter_map(|operation| match &operation.kind {
            OperationKind::Update { access, assignments, .. } => Some((access.table.id, assignments)),
            _ => None,
        });
        let columns = |(table, assignments): (TableId, &Vec<(usize, Register, Expression)>)| {
            assignments.iter().map(|(column, ..)| (table, *column)).collect::<Vec<_>>()
        };
        let updated = updates.flat_map(columns).collect();
        Ok(Self { inputs: program.inputs.clone(), registers: program.registers, once, loops, updated })
    }

    /// Returns the tables and columns that updates of a call may change.
    pub fn updated(&self) -> &[(TableId, usize)] {
        &self.updated
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
    /// is a buffer.
    pub fn for_each<'s>(
        &'s self,
        machine: &mut Machine,
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
        for own in &self.loops {
            let count = own.values.count(machine);
            if count > MOST_ROUNDS {
                reserve(&own.widened, machine);
                continue;
            }
            for round in 0..count {
                let value = own.values.value(round, machine);
                machine.set(own.values.variable(), value);
                reserve(&own.each, machine);
            }
        }
    }

    /// Returns everything that a call may reserve.
    pub fn iter(&self) -> impl Iterator<Item = &Reservation> {
        let of_loops = self.loops.iter().flat_map(|own| own.each.iter().chain(&own.widened));
        self.once.iter().chain(of_loops)
    }
}

/// Finds the reservations of a program.
struct Finder<'p> {
    resolver: Resolver<'p>,
    operations: &'p [Operation],
    /// The loops around a step whose values are known, as indexes in `loops`.
    around: Vec<usize>,
    once: Vec<Reservation>,
    loops: Vec<ReservedLoop>,
}

impl Finder<'_> {
    fn add_steps(&mut self, steps: &[Step]) {
        for step in steps {
            if let Some(id) = step.operation() {
                self.add_operation(id);
            }
            let values = self.values_of(step);
            let is_known = values.is_some();
            if let Some(values) = values {
                self.around.push(self.loops.len());
                self.loops.push(ReservedLoop { values, each: Vec::new(), widened: Vec::new() });
            }
            step.bodies().into_iter().for_each(|body| self.add_steps(body));
            if is_known {
                self.around.pop();
            }
        }
    }

    /// Returns the values of the variable of a loop; `None` if they are not known before the call runs, or if
    /// something else sets the variable, too.
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
        let operation = &self.operations[id.0 as usize];
        let reserved = |variable: Option<Register>| {
            let given = Given { variable, ..Given::ARGUMENTS };
            Reservation::of(Footprint::of(&self.resolver, operation, given))
        };
        let in_loops: Vec<Vec<Reservation>> =
            self.around.iter().map(|own| reserved(Some(self.loops[*own].values.variable()))).collect();
        let length = |reservation: &Reservation| reservation.granule.prefix.len();
        for (index, wide) in reserved(None).into_iter().enumerate() {
            let of_loops = self.around.iter().zip(&in_loops);
            match of_loops.max_by_key(|(_, own)| length(&own[index])) {
                Some((own, reservations)) if length(&reservations[index]) > length(&wide) => {
                    self.loops[*own].each.push(reservations[index].clone());
                    self.loops[*own].widened.push(wide);
                }
                _ => self.once.push(wide),
            }
        }
    }
}
