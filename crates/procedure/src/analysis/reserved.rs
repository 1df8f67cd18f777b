//! One reservation, its mode, its values, and the loops around it. See `reservations`.

use super::granules::{Footprint, Granule};
use super::pieces::KeyWitness;
use super::rounds::Rounds;
use crate::{Expression, Machine, Operation, OperationKind, Register, WitnessValues};
use catalog::{Arena, Datum, Table, TableId};
use std::collections::{BTreeSet, HashMap};

/// How a call uses its reservation. Calls whose modes do not conflict may run in any order.
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

    /// Returns whether the order of two calls with these modes on one key matters.
    pub const fn conflicts(self, other: Self) -> bool {
        self.is_before(other) || other.is_before(self)
    }

    /// Half of the relation: each conflicting pair of modes is here in one order, at least.
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

/// A granule that a call may touch, and its mode.
#[derive(Clone, Debug)]
pub struct Reservation {
    /// The rows or keys.
    pub granule: Granule,
    /// How the call uses them.
    pub mode: ReservationMode,
    /// The columns that it reads there.
    columns: Vec<usize>,
}

impl Reservation {
    /// Returns the reservations of an operation, always in the same order.
    pub(super) fn of(footprint: Footprint, operation: &Operation) -> Vec<Self> {
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

    /// Shortens the granule to the length that counts in its index; returns false if the index does not.
    fn shorten(&mut self, longest: &impl Fn(TableId, usize) -> Option<usize>) -> bool {
        let longest = longest(self.granule.table.id, self.granule.index);
        self.granule.prefix.truncate(longest.unwrap_or(0));
        longest.is_some()
    }

    /// Returns whether it reserves the same granule in the same mode.
    fn is_as(&self, other: &Self) -> bool {
        let index = |reservation: &Self| (reservation.granule.table.id, reservation.granule.index);
        self.mode == other.mode && index(self) == index(other) && self.granule.prefix == other.granule.prefix
    }

    /// Narrows the mode to `ReadFixed` if calls update none of the columns that it reads.
    pub(super) fn narrow(&mut self, updated: &Updated) {
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

/// The columns that calls of a set of procedures may update.
#[derive(Clone, Default, Debug)]
pub struct Updated {
    /// By table, ascending.
    pub(super) columns: HashMap<TableId, Vec<usize>>,
}

impl Updated {
    /// Returns the columns of a table that some call may update, ascending.
    pub fn columns(&self, table: TableId) -> &[usize] {
        self.columns.get(&table).map_or(&[], Vec::as_slice)
    }

    /// Adds the columns that calls of another procedure may update.
    pub fn add_all(&mut self, other: &Self) {
        for (table, columns) in &other.columns {
            add_columns(self.columns.entry(*table).or_default(), columns.iter().copied());
        }
    }

    /// Adds the columns that the operations of a program update. A program that deletes a row and
    /// inserts another one with its key updates all columns that are not part of the key.
    pub(super) fn add(&mut self, operations: &[Operation]) {
        let deletes = |table: &Table| {
            let is_delete = |operation: &Operation| matches!(operation.kind, OperationKind::Delete { .. });
            operations.iter().any(|operation| is_delete(operation) && operation.table().id == table.id)
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
                    add_columns(all, (0..table.columns.len()).filter(|column| !key.contains(column)));
                }
                _ => {}
            }
        }
    }
}

/// Adds columns to a list, which stays ascending.
pub(super) fn add_columns(all: &mut Vec<usize>, columns: impl Iterator<Item = usize>) {
    all.extend(columns);
    all.sort_unstable();
    all.dedup();
}

/// A loop whose variable is part of keys.
#[derive(Clone, Debug)]
pub(super) struct ReservedLoop {
    pub(super) values: LoopValues,
    /// Those whose values follow from the variable.
    pub(super) each: Vec<Reservation>,
    /// The same without the variable, for loops of more than `MOST_ROUNDS` rounds.
    pub(super) widened: Vec<Reservation>,
    /// The same with results of operations that run at most once a round, where the record has them.
    pub(super) with_results: Vec<Reservation>,
    /// The witnesses that have these results.
    pub(super) received: Vec<KeyWitness>,
}

/// Shortens the granules of reservations to the lengths that count, and drops those that do not count.
pub(super) fn shorten(
    reservations: &mut Vec<Reservation>,
    longest: &impl Fn(TableId, usize) -> Option<usize>,
) {
    reservations.retain_mut(|reservation| reservation.shorten(longest));
}

impl ReservedLoop {
    /// Shortens the granules to the lengths that count, and drops those that do not count. Moves those to
    /// `once` that are then the same in every round, with results or without.
    pub(super) fn shorten(
        &mut self,
        longest: &impl Fn(TableId, usize) -> Option<usize>,
        once: &mut Vec<Reservation>,
    ) {
        shorten(&mut self.widened, longest);
        let mut varying: BTreeSet<Register> = self.received.iter().flat_map(KeyWitness::registers).collect();
        varying.insert(self.values.variable());
        let with_results = std::mem::take(&mut self.with_results);
        for (mut each, mut with) in std::mem::take(&mut self.each).into_iter().zip(with_results) {
            if !each.shorten(longest) | !with.shorten(longest) {
                continue;
            }
            let varies = each.granule.prefix.iter().any(|value| value.uses(&varying));
            if varies || !each.is_as(&with) {
                self.each.push(each);
                self.with_results.push(with);
            } else if !once.iter().any(|reservation| reservation.is_as(&each)) {
                once.push(each);
            }
        }
    }

    /// Returns whether the record has the results of every round.
    pub(super) fn has_results(&self, rounds: u32, witnesses: Option<&WitnessValues>) -> bool {
        let has = |values| self.received.iter().all(|witness| witness.is_in_each_of(rounds, values));
        !self.received.is_empty() && witnesses.is_some_and(has)
    }
}

/// The values of the variable of a loop.
#[derive(Clone, Debug)]
pub(super) enum LoopValues {
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
    pub(super) fn variable(&self) -> Register {
        match self {
            Self::Range(rounds) => rounds.variable,
            Self::Elements { variable, .. } => *variable,
        }
    }

    /// Returns the number of values. It is 0 if the loop fails before its first round.
    pub(super) fn count(&self, machine: &mut Machine) -> u32 {
        match self {
            Self::Range(rounds) => rounds.count(machine),
            Self::Elements { array, .. } => match array.evaluate(machine) {
                Ok(Datum::Array(span)) => span.length,
                _ => 0,
            },
        }
    }

    pub(super) fn value(&self, round: u32, machine: &mut Machine) -> Datum {
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
    pub(super) fn take(&mut self, granule: &Granule, machine: &mut Machine) -> bool {
        self.bytes.clear();
        self.ends.clear();
        granule.prefix.iter().all(|value| {
            let is_known = value.write(machine, &mut self.bytes);
            self.ends.push(self.bytes.len() as u32);
            is_known
        })
    }
}
