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
//! A replay has the reservations of pieces instead ([`PieceReservations`]). There keys follow from witness
//! values, too, and from the variable of a round.
//!
//! Most columns of most tables never change once their row is there. A call that reads only such columns may
//! run beside a call that updates the row. So the reservations of procedures are found together.
//!
//! Invariant: every row that a call reads or writes, and every key that it looks for in vain, lies in one of
//! its reservations. Held by: `every_touched_row_is_reserved`.
//! Not here: the order of calls whose reservations conflict (`schedule::graph`).

use super::Analysis;
use super::blocks::Needed;
use super::granules::{Footprint, Granule};
use super::pieces::{KeyWitness, Piece, Pieces};
use super::program::Program;
use super::resolve::{Given, Resolver};
use super::rounds::Rounds;
use super::step::Step;
use crate::{
    ByValueCause, Call, Expression, Machine, Operation, OperationId, OperationKind, Part, Procedure,
    Register, Witnessed,
};
use catalog::{Arena, Datum, DecodeError, Reader, Table, TableId, decode_value};
use std::collections::HashMap;
use std::sync::Arc;

/// A loop of more rounds reserves what its operations may touch in any round.
const MOST_ROUNDS: u32 = 1 << 12;

/// How a call uses what it reserves. Uses whose order does not matter are shared: their calls may come in any
/// order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReservationMode {
    /// It looks for keys, or reads columns that no call updates.
    ReadFixed,
    /// It reads columns that calls update.
    Read,
    /// It updates columns that are part of no key, of rows of an index that is not the primary one. Updates
    /// of one row meet in the primary index.
    Change,
    /// It adds or removes entries of an index that hold no unique key of it. Writes of one row meet in the
    /// primary index.
    Touch,
    /// It updates columns that are part of no key, of rows of the primary index.
    Update,
    /// It adds or removes rows or unique keys.
    Write,
}

impl ReservationMode {
    /// All modes, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::ReadFixed, Self::Read, Self::Change, Self::Touch, Self::Update, Self::Write];

    /// Returns whether the order of two uses of one thing matters.
    pub const fn conflicts(self, other: Self) -> bool {
        self.is_before(other) || other.is_before(self)
    }

    /// Half of the relation: each pair of modes that conflicts is here once, at least.
    const fn is_before(self, other: Self) -> bool {
        match self {
            Self::Write => true,
            Self::Update => !matches!(other, Self::ReadFixed),
            Self::Touch => matches!(other, Self::ReadFixed | Self::Read),
            Self::Change => matches!(other, Self::Read),
            Self::ReadFixed | Self::Read => false,
        }
    }
}

/// Something that a call may touch.
#[derive(Clone, Debug)]
pub struct Reservation {
    /// The rows or keys.
    pub granule: Granule,
    /// What the call does with them.
    pub mode: ReservationMode,
    /// The columns that it reads there.
    columns: Vec<usize>,
}

impl Reservation {
    /// Returns the reservations of an operation, always in the same order.
    fn of(footprint: Footprint, operation: &Operation) -> Vec<Self> {
        let Footprint { before, after, references, .. } = footprint;
        let keeps_keys = after.is_empty() && matches!(operation.kind, OperationKind::Update { .. });
        let columns = columns_read_by(operation);
        let found = before.into_iter().map(|granule| {
            let mode = match (granule.writes, granule.index, keeps_keys) {
                (false, ..) => ReservationMode::Read,
                (true, 0, true) => ReservationMode::Update,
                (true, 0, false) => ReservationMode::Write,
                (true, _, true) => ReservationMode::Change,
                (true, _, false) => ReservationMode::Touch,
            };
            Self { granule, mode, columns: columns.clone() }
        });
        let left = after.into_iter().map(|granule| {
            let has_unique_keys = granule.index == 0 || granule.table.indexes[granule.index].unique;
            let mode = if has_unique_keys { ReservationMode::Write } else { ReservationMode::Touch };
            Self { granule, mode, columns: Vec::new() }
        });
        let of_reference = |granule| Self { granule, mode: ReservationMode::Read, columns: Vec::new() };
        found.chain(left).chain(references.into_iter().map(of_reference)).collect()
    }

    /// Notes which columns calls update, by table.
    fn narrow(&mut self, updated: &Updated) {
        let of_table = updated.columns(self.granule.table.id);
        let is_fixed = !self.columns.iter().any(|column| of_table.contains(column));
        if is_fixed && self.mode == ReservationMode::Read {
            self.mode = ReservationMode::ReadFixed;
        }
    }
}

/// Returns the columns that an operation reads of the rows that it finds.
fn columns_read_by(operation: &Operation) -> Vec<usize> {
    let access = match &operation.kind {
        OperationKind::Select(select) => &select.access,
        OperationKind::Update { access, .. } | OperationKind::Delete { access, .. } => access,
        OperationKind::Insert { .. } => return Vec::new(),
    };
    let chosen = access
        .choices
        .iter()
        .flat_map(|choice| choice.branches.iter().map(|(_, column)| *column).chain([choice.otherwise]));
    access.columns.iter().copied().chain(chosen).collect()
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
    updated: Updated,
}

/// The columns that calls of a set of procedures may update.
#[derive(Clone, Default, Debug)]
pub struct Updated {
    /// By table, ascending.
    columns: HashMap<TableId, Vec<usize>>,
}

impl Updated {
    /// Returns the columns of a table that some call may update, ascending.
    pub fn columns(&self, table: TableId) -> &[usize] {
        self.columns.get(&table).map_or(&[], Vec::as_slice)
    }

    /// Adds what calls of another procedure may update.
    pub fn add_all(&mut self, other: &Self) {
        for (table, columns) in &other.columns {
            add_columns(self.columns.entry(*table).or_default(), columns.iter().copied());
        }
    }

    /// Adds what the operations of a program update. A program that deletes a row and inserts another one
    /// with its key updates all columns that are not part of the key.
    fn add(&mut self, operations: &[Operation]) {
        let deletes = |table: &Table| {
            let is_delete = |own: &Operation| matches!(own.kind, OperationKind::Delete { .. });
            operations.iter().any(|own| is_delete(own) && own.table().id == table.id)
        };
        for operation in operations {
            match &operation.kind {
                OperationKind::Update { access, assignments, .. } => {
                    let all = self.columns.entry(access.table.id).or_default();
                    add_columns(all, assignments.iter().map(|(column, ..)| *column));
                }
                OperationKind::Insert { table, .. } if deletes(table) => {
                    let key = &table.primary().columns;
                    let all = self.columns.entry(table.id).or_default();
                    add_columns(all, (0..table.columns.len()).filter(|own| !key.contains(own)));
                }
                _ => {}
            }
        }
    }
}

/// Adds columns to a list, which stays ascending.
fn add_columns(all: &mut Vec<usize>, columns: impl Iterator<Item = usize>) {
    all.extend(columns);
    all.sort_unstable();
    all.dedup();
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

    /// Takes the values of the key of a row in an index; none of the whole table.
    pub fn take_row(&mut self, columns: &[usize], table: &Table, row: &[Datum], arena: &Arena) {
        self.bytes.clear();
        self.ends.clear();
        for column in columns {
            table.write_canonical_column(*column, row[*column], arena, &mut self.bytes);
            self.ends.push(self.bytes.len() as u32);
        }
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
    /// Analyses procedures whose calls may be in one batch. Returns for each the reservations, or the cause
    /// for which nothing is known of its calls before they run.
    pub fn of_all<'p>(procedures: impl Iterator<Item = &'p Procedure>) -> Vec<Result<Self, ByValueCause>> {
        let of = |procedure| Program::new(procedure, Witnessed::Nothing).map(|program| Self::of(&program));
        let mut all: Vec<_> = procedures.map(of).collect();
        let mut updated = Updated::default();
        all.iter().flatten().for_each(|own: &Self| updated.add_all(&own.updated));
        all.iter_mut().flatten().for_each(|own| own.narrow(&updated));
        all
    }

    /// Returns what calls of the procedure may update.
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
        let mut finder = Finder {
            resolver: Resolver::of_round(program, given.variable),
            operations: &program.operations,
            runs,
            given,
            around: Vec::new(),
            once: Vec::new(),
            loops: Vec::new(),
        };
        finder.add_steps(steps);
        let Finder { once, mut loops, .. } = finder;
        loops.retain(|own| !own.each.is_empty());
        let mut updated = Updated::default();
        updated.add(&program.operations);
        Self { inputs: program.inputs.clone(), registers: program.registers, once, loops, updated }
    }

    fn narrow(&mut self, updated: &Updated) {
        let of_loops = self.loops.iter_mut().flat_map(|own| own.each.iter_mut().chain(&mut own.widened));
        self.once.iter_mut().chain(of_loops).for_each(|own| own.narrow(updated));
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

    /// Returns what a call reserves once.
    pub(super) fn once(&self) -> impl Iterator<Item = &Reservation> {
        self.once.iter()
    }

    /// Returns what a call reserves in each round of a loop.
    pub(super) fn of_rounds(&self) -> impl Iterator<Item = &Reservation> {
        self.loops.iter().flat_map(|own| &own.each)
    }

    /// Returns everything that a call may reserve.
    pub fn iter(&self) -> impl Iterator<Item = &Reservation> {
        let of_loops = self.loops.iter().flat_map(|own| own.each.iter().chain(&own.widened));
        self.once.iter().chain(of_loops)
    }
}

/// What the pieces of a replay may touch.
#[derive(Clone, Debug)]
pub struct PieceReservations {
    /// By program and piece, in the order of `Pieces::pieces`.
    pub units: Vec<Vec<UnitReservations>>,
    /// By program, the witnesses whose values they use.
    pub witnesses: Vec<Vec<KeyWitness>>,
}

/// What a unit of a piece may touch: the whole piece, or one of its rounds where it has rounds. The
/// variable's register then holds the value of the round.
#[derive(Clone, Debug)]
pub struct UnitReservations {
    /// The reservations.
    pub own: Reservations,
    /// The witnesses that every round receives once, whose values they use.
    pub of_round: Vec<KeyWitness>,
}

impl PieceReservations {
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
        let of_piece = |(own, piece): (&Needed<'_>, &Arc<Piece>)| {
            let program = &analysis.programs[own.slice.program];
            let rounds = piece.rounds.as_ref();
            // Rounds receive only what each of them receives once.
            let is_known = |id: &OperationId| rounds.is_none() || own.need.sources.contains(id);
            let results = |id: OperationId, register: Register| {
                let recorded = program.witnesses.get(&id);
                is_known(&id) && recorded.is_some_and(|(_, registers)| registers.contains(&register))
            };
            let variable = rounds.map(|rounds| rounds.variable);
            let given = Given { variable, results: &results };
            let steps = rounds.map_or(&own.need.body, |rounds| &rounds.body);
            let runs = |id: OperationId| piece.part(id) != Part::Receive && own.need.executed.contains(&id);
            let mut found = Reservations::of_steps(program, steps, &runs, given);
            found.narrow(&updated);
            let received = program.witnesses.iter().filter(|(id, _)| own.need.sources.contains(id));
            let of_round = received.filter(|_| rounds.is_some()).map(|(_, witness)| KeyWitness::of(witness));
            UnitReservations { own: found, of_round: of_round.collect() }
        };
        let of_program = |(program, pieces): (usize, &Vec<Arc<Piece>>)| {
            let own = needed.iter().filter(|own| own.slice.program == program);
            own.zip(pieces).map(of_piece).collect()
        };
        let witnesses = |program: &Program| program.witnesses.values().map(KeyWitness::of).collect();
        Self {
            units: pieces.pieces.iter().enumerate().map(of_program).collect(),
            witnesses: analysis.programs.iter().map(witnesses).collect(),
        }
    }
}

/// Finds the reservations of a program.
struct Finder<'p> {
    resolver: Resolver<'p>,
    operations: &'p [Operation],
    /// The operations whose reservations are wanted.
    runs: &'p dyn Fn(OperationId) -> bool,
    /// What is known outside of all loops.
    given: Given<'p>,
    /// The loops around a step whose values are known, as indexes in `loops`.
    around: Vec<usize>,
    once: Vec<Reservation>,
    loops: Vec<ReservedLoop>,
}

impl Finder<'_> {
    fn add_steps(&mut self, steps: &[Step]) {
        for step in steps {
            if let Some(id) = step.operation().filter(|id| (self.runs)(*id)) {
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
            let given = Given { variable: variable.or(self.given.variable), ..self.given };
            Reservation::of(Footprint::of(&self.resolver, operation, given), operation)
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
