//! How a block's pieces fall into partitions.
//! Paper: PACMAN §4.3.1 (key spaces). Differs: keys are compared as canonical values (`granules.rs`).
//!
//! A block is partitioned by columns that every operation of it binds by equality to what follows from the
//! arguments alone (and the number of the round, where rounds are replayed on their own), and all operations
//! of one slice to the same. Pieces with different values then touch no row in common, ranges included, so
//! their partitions may run at the same time; within a partition pieces run in commit order.
//!
//! Where operations of one slice bind the columns to several things, as those of a transfer do, its pieces
//! belong to several keys. Of a batch, the keys that no piece connects may then be replayed at the same time
//! (`key_columns`).

use super::Slice;
use super::granules::{CanonicalValue, bound_columns};
use super::program::Program;
use super::rounds::Rounds;
use crate::ir::visit::Role;
use crate::{Expression, Function, Operation, OperationKind, Register, Statement};
use catalog::{Index, Table, TableId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// This many assignments are followed back to the parameters.
const MOST_ASSIGNMENTS: usize = 16;

/// A value that tells a piece's partition, and a column that is bound to it.
#[derive(Clone, Debug)]
pub struct PartitionValue {
    /// The value.
    pub value: CanonicalValue,
    /// The table.
    pub table: Arc<Table>,
    /// The column's place in it.
    pub column: usize,
}

/// A slice with the rounds that it may fall into.
pub(super) type Rounded<'a> = (&'a Slice, Option<&'a Rounds>);

/// For each table of a block the column that stands for the same thing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Position(BTreeMap<TableId, usize>);

impl Position {
    /// The column of a table.
    pub(super) fn column_of(&self, table: TableId) -> usize {
        self.0[&table]
    }

    /// What a slice binds the position to.
    pub(super) fn of_slice(&self, program: &Program, (slice, rounds): Rounded<'_>) -> PartitionValue {
        let operation = &program.operations[slice.operations[0].0 as usize];
        let table = Arc::clone(operation.table());
        let column = self.0[&table.id];
        let value = bound_columns(program, operation, rounds)[&column].clone();
        PartitionValue { value, table, column }
    }
}

/// The columns by which a block falls into partitions; none when it does not.
pub(super) fn positions(
    programs: &[Program],
    slices: &[Rounded<'_>],
    by_value: &BTreeMap<TableId, Arc<Table>>,
) -> Vec<Position> {
    let bound = bound_by(programs, slices);
    let tables = common_columns(programs, slices, by_value, &bound).into_iter().collect::<Vec<_>>();
    let mut found: Vec<Position> = Vec::new();
    extend(&tables, &mut BTreeMap::new(), &bound, &mut found);
    found
}

/// The columns of each table of a block that tell which rows an operation may touch, where every operation
/// binds some: pieces that bind several of their values may touch the rows of several keys, and no others.
pub(super) fn key_columns(
    programs: &[Program],
    slices: &[Slice],
    by_value: &BTreeMap<TableId, Arc<Table>>,
) -> BTreeMap<TableId, Vec<usize>> {
    let slices: Vec<Rounded<'_>> = slices.iter().map(|slice| (slice, None)).collect();
    let common = common_columns(programs, &slices, by_value, &bound_by(programs, &slices));
    if common.values().any(BTreeSet::is_empty) {
        return BTreeMap::new();
    }
    common.into_iter().map(|(table, columns)| (table, columns.into_iter().collect())).collect()
}

/// The values that an operation binds columns to.
pub(super) fn key_of(program: &Program, operation: &Operation, columns: &[usize]) -> Vec<PartitionValue> {
    let bound = bound_columns(program, operation, None);
    let value = |column: &usize| PartitionValue {
        value: bound[column].clone(),
        table: Arc::clone(operation.table()),
        column: *column,
    };
    columns.iter().map(value).collect()
}

/// What the operations of slices bind.
fn bound_by(programs: &[Program], slices: &[Rounded<'_>]) -> Vec<Bound> {
    let of_slice = |(slice, rounds): &Rounded<'_>| {
        let program = &programs[slice.program];
        let operations = slice.operations.iter().map(|id| &program.operations[id.0 as usize]);
        let bound = |own: &Operation| (own.table().id, bound_columns(program, own, *rounds));
        operations.map(bound).collect()
    };
    slices.iter().map(of_slice).collect()
}

/// For each table of a block the columns that all operations bind, and that keep rows apart.
fn common_columns(
    programs: &[Program],
    slices: &[Rounded<'_>],
    by_value: &BTreeMap<TableId, Arc<Table>>,
    bound: &[Bound],
) -> BTreeMap<TableId, BTreeSet<usize>> {
    let mut tables: BTreeMap<TableId, BTreeSet<usize>> = BTreeMap::new();
    for (table, columns) in bound.iter().flatten() {
        let columns: BTreeSet<usize> = columns.keys().copied().collect();
        tables.entry(*table).or_insert_with(|| columns.clone()).retain(|column| columns.contains(column));
    }
    let all = slices.iter().flat_map(|(slice, _)| {
        slice.operations.iter().map(|id| &programs[slice.program].operations[id.0 as usize])
    });
    for operation in all {
        if let Some(columns) = tables.get_mut(&operation.table().id) {
            columns.retain(|column| {
                let by_value = by_value.contains_key(&operation.table().id);
                keeps_keys_apart(operation, *column)
                    && (!by_value || in_all_unique(operation.table(), *column))
            });
        }
    }
    if slices.iter().any(|(slice, _)| programs[slice.program].whole) {
        tables.values_mut().for_each(BTreeSet::clear);
    }
    tables
}

/// Whether rows with different values of a column never meet under one key of a unique index, whatever an
/// operation does: a key that one row leaves free may be another's, so a column of every unique index whose
/// keys come and go.
fn keeps_keys_apart(operation: &Operation, column: usize) -> bool {
    let table = operation.table();
    // No two rows are ever given one hidden key, and nothing changes it.
    let mut unique = unique_indexes(table).skip(usize::from(table.hidden_key));
    match &operation.kind {
        OperationKind::Select(_) => true,
        OperationKind::Query(_) => false,
        OperationKind::Insert { .. } | OperationKind::Delete { .. } => {
            unique.all(|index| index.columns.contains(&column))
        }
        OperationKind::Update { assignments, .. } => unique.all(|index| {
            let moves = assignments.iter().any(|(changed, ..)| index.columns.contains(changed));
            !moves || index.columns.contains(&column)
        }),
    }
}

/// The primary key and all unique indexes.
fn unique_indexes(table: &Table) -> impl Iterator<Item = &Index> {
    let indexes = table.indexes.iter().enumerate();
    indexes.filter(|(place, index)| *place == 0 || index.unique).map(|(_, index)| index)
}

pub(super) fn in_all_unique(table: &Table, column: usize) -> bool {
    unique_indexes(table).all(|index| index.columns.contains(&column))
}

/// What the operations of one slice bind.
type Bound = Vec<(TableId, BTreeMap<usize, CanonicalValue>)>;

/// Completes a choice of columns, one a table, in all ways in which every slice binds its operations to one
/// canonical value; no column is used twice.
fn extend(
    tables: &[(TableId, BTreeSet<usize>)],
    chosen: &mut BTreeMap<TableId, usize>,
    bound: &[Bound],
    found: &mut Vec<Position>,
) {
    let Some((table, columns)) = tables.get(chosen.len()) else {
        found.push(Position(chosen.clone()));
        return;
    };
    for column in columns {
        let is_free =
            |chosen: &TableId, column| found.iter().all(|position| position.0.get(chosen) != Some(column));
        let taken = !is_free(table, column) || chosen.iter().any(|(table, column)| !is_free(table, column));
        chosen.insert(*table, *column);
        if !taken && bound.iter().all(|operations| agrees(operations, chosen)) {
            extend(tables, chosen, bound, found);
        }
        chosen.remove(table);
    }
}

/// Whether a slice binds the chosen columns of all its operations to one canonical value.
fn agrees(operations: &Bound, chosen: &BTreeMap<TableId, usize>) -> bool {
    let value_of = |(table, columns): &(TableId, BTreeMap<usize, CanonicalValue>)| {
        chosen.get(table).map(|column| columns[column].clone())
    };
    let mut values = operations.iter().filter_map(value_of);
    let first = values.next();
    values.all(|value| Some(value) == first)
}

impl Program {
    /// An expression over the parameters and the call's time and seed that always has the same value as this
    /// one; `None` when none is found. `known` is a register that counts as a parameter.
    pub(super) fn resolved(&self, expression: &Expression, known: Option<Register>) -> Option<Expression> {
        self.resolved_within(expression, known, MOST_ASSIGNMENTS)
    }

    fn resolved_within(
        &self,
        expression: &Expression,
        known: Option<Register>,
        depth: usize,
    ) -> Option<Expression> {
        let (mut uses, mut depends_on_call) = (Vec::new(), false);
        expression.walk(&mut |part| match part {
            Expression::Register(register) => uses.push(*register),
            // The call's time is in its record.
            Expression::Function { function: Function::Now, .. } => {}
            Expression::Function { function, .. } => depends_on_call |= function.depends_on_call(),
            _ => {}
        });
        if depends_on_call {
            return None;
        }
        let mut result = expression.clone();
        for register in uses.into_iter().filter(|register| Some(*register) != known) {
            match self.definitions_of(register).as_slice() {
                [] if self.inputs.contains(&Some(register)) => {}
                // Nothing ever sets it.
                [] => substitute(&mut result, register, &Expression::NULL),
                [Some(value)] if !self.unset.contains(&register) && depth > 0 => {
                    let value = self.resolved_within(value, known, depth - 1)?;
                    substitute(&mut result, register, &value);
                }
                _ => return None,
            }
        }
        Some(result)
    }

    /// What is assigned to a register, wherever it is defined; `None` for a definition that is no assignment.
    fn definitions_of(&self, register: Register) -> Vec<Option<Expression>> {
        let mut found = Vec::new();
        for operation in &self.operations {
            operation.clone().visit_registers(&mut |role, defined| {
                if role == Role::Define && *defined == register {
                    found.push(None);
                }
            });
        }
        collect_definitions(&self.body, register, &mut found);
        found
    }
}

fn collect_definitions(statements: &[Statement], register: Register, found: &mut Vec<Option<Expression>>) {
    for statement in statements {
        match statement {
            Statement::Assign { target, value } if *target == register => found.push(Some(value.clone())),
            Statement::Assign { .. } => {}
            other => other.clone().visit_definitions(&mut |_, defined| {
                if *defined == register {
                    found.push(None);
                }
            }),
        }
        statement.bodies().into_iter().for_each(|body| collect_definitions(body, register, found));
    }
}

/// Puts an expression in place of a register.
fn substitute(expression: &mut Expression, register: Register, value: &Expression) {
    if *expression == Expression::Register(register) {
        *expression = value.clone();
        return;
    }
    expression.operands_mut().into_iter().for_each(|operand| substitute(operand, register, value));
}
