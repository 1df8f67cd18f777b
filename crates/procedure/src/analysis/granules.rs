//! Granules: the rows that an operation may touch, as a table, an index, and values of the index' first
//! columns. Not in the papers, which assume that key spaces are known (PACMAN §4.3.1).
//!
//! An operation gives a column's value as an expression of the column's type: with an INT column and a BIGINT
//! parameter, `id = k` converts `k`. A canonical value is the operand of the conversions that keep the value,
//! with the scale of that operand. Conversions that round or cut stay, because the column holds the value
//! after them.
//!
//! A read has one granule, in the index that it searches. A write has a granule in every index of its table
//! for the rows before it, and another for the rows after it if it moves keys. It therefore conflicts with
//! every read of those rows, whichever index the read searches, and with every read that would have found a
//! row that did not exist. The prefix of a granule ends before the first column whose value does not follow
//! from known registers; an empty prefix is the whole table.
//!
//! Invariants: 1. every row that an operation touches lies in each of its granules for the rows before or
//! after it, evaluated from the call;
//! 2. two operations that touch one row or one unique key, of which one writes, have granules that conflict,
//!    unless operations between them have moved the row: then each of these conflicts with its neighbours;
//! 3. a call's canonical value and that of a row which it touches have one canonical form
//!    (`catalog::write_canonical`).
//! Held by: `every_row_lies_in_its_granule`, `operations_name_granules`,
//! `tables_share_a_key_of_several_types`, `parallel_replay_equals_serial_replay`.
//! Not here: which granules fall into one partition (`partition.rs`).

use super::graphs::LocalGraph;
use super::resolve::{Given, Resolved, Resolver};
use crate::{
    Access, Cast, Expression, Machine, Operation, OperationId, OperationKind, Path, Reference, Register,
};
use catalog::{Datum, Family, Table, TableId, Type, normalized, write_canonical};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How much of an index a granule covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GranuleKind {
    /// One key: every column of the index has a value.
    Point,
    /// The keys that begin with the values.
    Range,
    /// All keys of the table.
    Table,
}

/// When the values of a granule are known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Known {
    /// From the call's record: arguments, time, seed and witness values.
    Arguments,
    /// After these slices of the program's local graph have run.
    After(BTreeSet<usize>),
}

/// Rows that an operation may touch.
#[derive(Clone, Debug)]
pub struct Granule {
    /// The table.
    pub table: Arc<Table>,
    /// Position among the table's indexes.
    pub index: usize,
    /// Values of the first columns of the index.
    pub prefix: Vec<CanonicalValue>,
    /// How much of the index the prefix selects.
    pub kind: GranuleKind,
    /// Whether the operation changes the rows.
    pub writes: bool,
}

/// A granule of one call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extent {
    /// The table.
    pub table: TableId,
    /// Position among the table's indexes.
    pub index: usize,
    /// The canonical forms of its values, one after the other. No form is a prefix of another, so a prefix of
    /// these bytes is a prefix of the values.
    pub prefix: Vec<u8>,
    /// Whether the operation changes the rows.
    pub writes: bool,
}

impl Extent {
    /// Returns whether the order of two operations with these granules matters: one granule contains the
    /// other, and one of them is written.
    pub fn conflicts(&self, other: &Self) -> bool {
        (self.table, self.index) == (other.table, other.index)
            && (self.writes || other.writes)
            && (self.prefix.starts_with(&other.prefix) || other.prefix.starts_with(&self.prefix))
    }
}

impl Granule {
    fn new(table: &Arc<Table>, index: usize, bound: &Bound, writes: bool) -> Self {
        let columns = granule_columns(table, index);
        let prefix: Vec<_> = columns.iter().map_while(|column| bound.get(column).cloned()).collect();
        let kind = match prefix.len() {
            0 => GranuleKind::Table,
            named if named == columns.len() => GranuleKind::Point,
            _ => GranuleKind::Range,
        };
        Self { table: Arc::clone(table), index, prefix, kind, writes }
    }

    /// Returns the columns whose values are in the prefix.
    pub fn columns(&self) -> Vec<usize> {
        let mut columns = granule_columns(&self.table, self.index);
        columns.truncate(self.prefix.len());
        columns
    }

    /// Returns when its values are known to a program with this local graph.
    pub fn known(&self, graph: &LocalGraph) -> Known {
        let after = self.prefix.iter().flat_map(|value| &value.after);
        let slice = |id: &OperationId| graph.slices.iter().position(|slice| slice.operations.contains(id));
        let slices: BTreeSet<usize> = after.filter_map(slice).collect();
        if slices.is_empty() { Known::Arguments } else { Known::After(slices) }
    }

    /// Returns the granule of a call whose arguments, and results that its values use, are in the registers;
    /// `None` when a value cannot be computed: then the operation never ran.
    pub fn extent(&self, machine: &mut Machine) -> Option<Extent> {
        let mut prefix = Vec::new();
        let is_known = self.prefix.iter().all(|value| value.write(machine, &mut prefix));
        let Self { table, index, writes, .. } = self;
        is_known.then(|| Extent { table: table.id, index: *index, prefix, writes: *writes })
    }
}

/// Returns the columns that granules of an index have values of, in order: for a unique index its columns,
/// because they identify a row; for another index also those of the primary key.
pub fn granule_columns(table: &Table, index: usize) -> Vec<usize> {
    let keyed = &table.indexes[index];
    if index == 0 || keyed.unique { keyed.columns.clone() } else { table.key_columns(keyed) }
}

/// Returns the first of these columns, up to the first one whose type has no canonical form.
pub fn key_columns(table: &Table, index: usize) -> Vec<usize> {
    let mut columns = granule_columns(table, index);
    let end = columns.iter().position(|column| table.columns[*column].ty.family().is_none());
    columns.truncate(end.unwrap_or(columns.len()));
    columns
}

/// The value of a column in all rows that an operation may touch.
#[derive(Clone, PartialEq, Debug)]
pub struct CanonicalValue {
    /// The value, over known registers.
    value: Expression,
    family: Family,
    /// Digits after the point of the value, if it is a scaled integer.
    scale: u8,
    /// The operations whose results the value uses. Their registers hold them when it is evaluated.
    after: BTreeSet<OperationId>,
}

impl CanonicalValue {
    /// Returns the canonical value of an expression of a column's type; `None` if the type has no canonical
    /// form.
    fn of(resolved: Resolved, ty: Type) -> Option<Self> {
        let Resolved { expression: mut value, after } = resolved;
        let family = ty.family()?;
        let mut scale = ty.fixed_scale().unwrap_or(0);
        loop {
            value = match value {
                // A value outside the column's type is an error, or the operation finds no row.
                Expression::Cast { cast: Cast::Same | Cast::Key { .. } | Cast::Range { .. }, operand } => {
                    *operand
                }
                Expression::Cast { cast: Cast::Rescale { multiply, divide: 1, .. }, operand } => {
                    scale -= multiply.ilog10() as u8;
                    *operand
                }
                Expression::Constant(Datum::Int(mantissa)) => {
                    let (mantissa, scale) = normalized(mantissa, scale);
                    let value = Expression::Constant(Datum::Int(mantissa));
                    return Some(Self { value, family, scale, after });
                }
                value => return Some(Self { value, family, scale, after }),
            };
        }
    }

    /// Returns whether it uses one of some registers.
    pub(super) fn uses(&self, registers: &BTreeSet<Register>) -> bool {
        let mut found = false;
        self.value.walk(&mut |part| {
            found |= matches!(part, Expression::Register(register) if registers.contains(register));
        });
        found
    }

    /// Returns the operations whose results it uses.
    pub fn after(&self) -> &BTreeSet<OperationId> {
        &self.after
    }

    /// Appends the canonical form of the value of a call whose arguments, and results of `after`, are in the
    /// registers. Returns false when the value cannot be computed: then the operation never ran.
    pub fn write(&self, machine: &mut Machine, out: &mut Vec<u8>) -> bool {
        let value = self.value.evaluate(machine);
        value.is_ok_and(|value| {
            write_canonical(value, self.scale, &machine.frame.arena, out);
            true
        })
    }
}

/// Columns that have one value in all rows of an operation.
type Bound = BTreeMap<usize, CanonicalValue>;

/// The granules of an operation.
#[derive(Clone, Debug, Default)]
pub struct Footprint {
    /// The rows that it finds, before it.
    pub before: Vec<Granule>,
    /// The rows after it: those of an insert, and of an update that moves keys.
    pub after: Vec<Granule>,
    /// The rows that an inserted row references.
    pub references: Vec<Granule>,
    /// The columns that have one value in all rows before and after it, in a prefix or not.
    pub(super) columns: Bound,
}

impl Footprint {
    /// Returns the granules of an operation, with values that follow from the given ones.
    pub(super) fn of(resolver: &Resolver<'_>, operation: &Operation, given: Given<'_>) -> Self {
        let bind = |table: &Table, column: usize, value: &Expression| {
            let resolved = resolver.resolved(value, given)?;
            Some((column, CanonicalValue::of(resolved, table.columns[column].ty)?))
        };
        let found = |access: &Access| -> Bound {
            let (columns, values): (Vec<usize>, _) = match &access.path {
                Path::Point { key } => (access.table.primary().columns.clone(), key),
                Path::Range { key_columns, prefix, .. } => (key_columns.clone(), prefix),
            };
            let bound = columns.iter().zip(values);
            bound.filter_map(|(column, value)| bind(&access.table, *column, value)).collect()
        };
        let written = |table: &Arc<Table>, bound: &Bound| -> Vec<Granule> {
            (0..table.indexes.len()).map(|index| Granule::new(table, index, bound, true)).collect()
        };
        match &operation.kind {
            OperationKind::Select(select) => {
                let index = match &select.access.path {
                    Path::Point { .. } => 0,
                    Path::Range { index, .. } => *index,
                };
                let bound = found(&select.access);
                let read = Granule::new(&select.access.table, index, &bound, false);
                Self { before: vec![read], columns: bound, ..Self::default() }
            }
            OperationKind::Insert { table, values, references, .. } => {
                let values = values.iter().enumerate();
                let bound: Bound = values.filter_map(|(column, value)| bind(table, column, value)).collect();
                let references = references.iter().map(|reference| referenced(reference, &bound)).collect();
                let after = written(table, &bound);
                Self { after, references, columns: bound, ..Self::default() }
            }
            OperationKind::Update { access, assignments, .. } => {
                let table = &access.table;
                let found = found(access);
                let before = written(table, &found);
                let mut bound = found.clone();
                let is_key =
                    |column: &usize| table.indexes.iter().any(|index| index.columns.contains(column));
                let moves = assignments.iter().any(|(column, ..)| is_key(column));
                for (column, _, value) in assignments {
                    bound.remove(column);
                    bound.extend(bind(table, *column, value));
                }
                let after = if moves { written(table, &bound) } else { Vec::new() };
                let mut columns = found;
                columns.retain(|column, value| bound.get(column) == Some(value));
                Self { before, after, columns, ..Self::default() }
            }
            OperationKind::Delete { access, .. } => {
                let bound = found(access);
                Self { before: written(&access.table, &bound), columns: bound, ..Self::default() }
            }
        }
    }

    /// Returns all granules.
    pub fn iter(&self) -> impl Iterator<Item = &Granule> {
        self.before.iter().chain(&self.after).chain(&self.references)
    }
}

/// Returns the granule of the row that a new row with these values references.
fn referenced(reference: &Reference, bound: &Bound) -> Granule {
    let Reference { parent, parent_columns, columns, parent_index, .. } = reference;
    let values = parent_columns.iter().zip(columns);
    let of_parent = values.filter_map(|(to, from)| Some((*to, bound.get(from)?.clone()))).collect();
    Granule::new(parent, *parent_index, &of_parent, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(table: u32, index: usize, values: &[i64], writes: bool) -> Extent {
        let mut prefix = Vec::new();
        let arena = catalog::Arena::default();
        values.iter().for_each(|value| write_canonical(Datum::Int(*value), 0, &arena, &mut prefix));
        Extent { table: TableId(table), index, prefix, writes }
    }

    #[test]
    fn granules_conflict_when_one_contains_the_other_and_one_is_written() {
        let written = extent(1, 0, &[3, 7], true);
        for (other, expected) in [
            (extent(1, 0, &[3, 7], false), true),
            (extent(1, 0, &[3, 7], true), true),
            (extent(1, 0, &[3], false), true),
            (extent(1, 0, &[], false), true),
            (extent(1, 0, &[3, 7, 1], false), true),
            (extent(1, 0, &[3, 8], true), false),
            (extent(1, 0, &[4], true), false),
            (extent(1, 0, &[7, 3], true), false),
            (extent(1, 1, &[3, 7], true), false),
            (extent(2, 0, &[3, 7], true), false),
        ] {
            assert_eq!(written.conflicts(&other), expected, "{other:?}");
            assert_eq!(other.conflicts(&written), expected, "{other:?}");
        }
        assert!(!extent(1, 0, &[3], false).conflicts(&extent(1, 0, &[3], false)), "two reads");
    }
}
