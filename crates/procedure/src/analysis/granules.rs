//! What an operation binds columns to, in a form that no column shapes: the granules that tell partitions
//! apart. Not in the papers, which take key spaces for granted (PACMAN §4.3.1).
//!
//! An operation names a column's value by an expression of the column's type: `id = k` of an INT column and a
//! BIGINT parameter is a conversion of `k`. A canonical value is what stands below conversions that keep the
//! value, with the scale that it has there. Rounding and cutting conversions stay: what counts is the value
//! as the column holds it.
//!
//! Invariants: 1. operations of one slice with equal canonical values touch rows whose columns hold equal
//! values;
//! 2. a call's canonical value and that of a row which it touches have one canonical form
//!    (`catalog::write_canonical`).
//! Held by: `tables_share_a_key_of_several_types`, `parallel_replay_equals_serial_replay`.

use super::program::Program;
use super::rounds::Rounds;
use crate::{Cast, Expression, Machine, Operation, OperationKind, Path};
use catalog::{Datum, Family, ScalarType, Table, normalized, write_canonical};
use std::collections::BTreeMap;

/// The value that an operation binds a column to.
#[derive(Clone, PartialEq, Debug)]
pub struct CanonicalValue {
    /// The value, over the parameters, and the variable of its rounds.
    value: Expression,
    family: Family,
    /// Digits after the point of the value, where it is held as a scaled integer.
    scale: u8,
}

impl CanonicalValue {
    /// The canonical value behind an expression of a column's type; `None` when the type has no canonical
    /// form.
    fn of(mut value: Expression, ty: ScalarType) -> Option<Self> {
        let family = ty.family()?;
        let mut scale = ty.fixed_scale().unwrap_or(0);
        loop {
            value = match value {
                // A value that has no place in the column's type is an error, or the operation meets no row.
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
                    return Some(Self { value, family, scale });
                }
                value => return Some(Self { value, family, scale }),
            };
        }
    }

    /// Appends the canonical form of the value that it has in a call whose arguments are in the registers;
    /// false when that can't be computed, as then the operation never ran.
    pub fn write(&self, machine: &mut Machine, out: &mut Vec<u8>) -> bool {
        let value = self.value.evaluate(machine);
        value.is_ok_and(|value| {
            write_canonical(value, self.scale, &machine.frame.arena, out);
            true
        })
    }
}

/// The columns that an operation binds by equality, or sets in a new row, to what follows from arguments
/// alone.
pub(super) fn bound_columns(
    program: &Program,
    operation: &Operation,
    rounds: Option<&Rounds>,
) -> BTreeMap<usize, CanonicalValue> {
    let variable = rounds.map(|rounds| rounds.variable);
    let mut bound = BTreeMap::new();
    let mut bind = |table: &Table, column: usize, value: &Expression| {
        let resolved = program.resolved(value, variable);
        if let Some(value) = resolved.and_then(|own| CanonicalValue::of(own, table.columns[column].ty)) {
            bound.insert(column, value);
        }
    };
    let access = match &operation.kind {
        OperationKind::Insert { table, values, .. } => {
            values.iter().enumerate().for_each(|(column, value)| bind(table, column, value));
            return bound;
        }
        OperationKind::Query(_) => return bound,
        OperationKind::Select(select) => &select.access,
        OperationKind::Update { access, .. } | OperationKind::Delete { access, .. } => access,
    };
    let table = &*access.table;
    match &access.path {
        Path::Point { key } => {
            table.primary().columns.iter().zip(key).for_each(|(column, value)| bind(table, *column, value));
        }
        Path::Range { key_columns, prefix, .. } => {
            key_columns.iter().zip(prefix).for_each(|(column, value)| bind(table, *column, value));
        }
    }
    if let OperationKind::Update { assignments, .. } = &operation.kind {
        // A row that moves from one partition to another belongs to none.
        for (column, ..) in assignments {
            bound.remove(column);
        }
    }
    bound
}
