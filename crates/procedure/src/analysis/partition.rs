//! Finds the columns that partition the pieces of a block.
//! Paper: PACMAN §4.3.1 (key spaces). Differs: keys are compared as canonical values (`granules.rs`).
//!
//! A block is partitioned by columns that the granules of all its operations bind to values. The values
//! follow from the call's record (and the variable of the round, if rounds are replayed separately), or from
//! results that the piece receives from earlier blocks. All operations of one slice bind the same values.
//! Pieces with different values therefore touch no common row, ranges included, and their partitions may run
//! at the same time. Within a partition, pieces run in commit order.
//!
//! If operations of one slice bind different values, as those of a transfer do, its pieces belong to several
//! keys. Keys of a batch that no piece connects may be replayed at the same time (`key_columns`).

use super::Slice;
use super::granules::{CanonicalValue, Footprint};
use super::program::Program;
use super::resolve::{Given, Resolver};
use crate::{Operation, OperationId, OperationKind};
use catalog::{Index, Table, TableId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A value that determines a piece's partition, and a column that has it in every row that the piece touches.
#[derive(Clone, Debug)]
pub struct PartitionValue {
    /// The value.
    pub value: CanonicalValue,
    /// The table.
    pub table: Arc<Table>,
    /// The column's index in the table.
    pub column: usize,
}

/// The operations of a slice, each with the columns that have one value in all its rows.
pub(super) struct SliceColumns<'a> {
    is_whole: bool,
    operations: Vec<OperationColumns<'a>>,
}

struct OperationColumns<'a> {
    operation: &'a Operation,
    bound: BTreeMap<usize, CanonicalValue>,
}

impl<'a> SliceColumns<'a> {
    /// Returns the columns of a slice whose values follow from the given ones.
    pub(super) fn of(program: &'a Program, resolver: &Resolver<'a>, slice: &Slice, given: Given<'_>) -> Self {
        let columns = |id: &OperationId| {
            let operation = &program.operations[id.0 as usize];
            OperationColumns { operation, bound: Footprint::of(resolver, operation, given).columns }
        };
        Self { is_whole: program.whole, operations: slice.operations.iter().map(columns).collect() }
    }

    /// Returns the value that the slice binds the columns of a position to.
    pub(super) fn value_of(&self, position: &Position) -> PartitionValue {
        let first = &self.operations[0];
        first.value_of(position.0[&first.operation.table().id])
    }

    /// Returns the key of each operation: the values that it binds the given columns of its table to.
    pub(super) fn keys(&self, columns: &BTreeMap<TableId, Vec<usize>>) -> Vec<Vec<PartitionValue>> {
        let key = |touched: &OperationColumns<'_>| {
            let columns = columns.get(&touched.operation.table().id)?;
            Some(columns.iter().map(|column| touched.value_of(*column)).collect())
        };
        self.operations.iter().filter_map(key).collect()
    }
}

impl OperationColumns<'_> {
    fn value_of(&self, column: usize) -> PartitionValue {
        let table = Arc::clone(self.operation.table());
        PartitionValue { value: self.bound[&column].clone(), table, column }
    }
}

/// A column for each table of a block. Each slice binds all of them to one value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Position(BTreeMap<TableId, usize>);

impl Position {
    /// Returns the column of a table.
    pub(super) fn column_of(&self, table: TableId) -> usize {
        self.0[&table]
    }
}

/// Returns the positions that partition a block; empty if there are none.
pub(super) fn positions(
    slices: &[SliceColumns<'_>],
    by_value: &BTreeMap<TableId, Arc<Table>>,
) -> Vec<Position> {
    let tables = common_columns(slices, by_value).into_iter().collect::<Vec<_>>();
    let mut found: Vec<Position> = Vec::new();
    extend(&tables, &mut BTreeMap::new(), slices, &mut found);
    found
}

/// Returns, for each table of a block, the key columns: every operation binds them, so it touches only rows
/// of the key that it binds. Empty if a table of the block has no such column.
pub(super) fn key_columns(
    slices: &[SliceColumns<'_>],
    by_value: &BTreeMap<TableId, Arc<Table>>,
) -> BTreeMap<TableId, Vec<usize>> {
    let common = common_columns(slices, by_value);
    if common.values().any(BTreeSet::is_empty) {
        return BTreeMap::new();
    }
    common.into_iter().map(|(table, columns)| (table, columns.into_iter().collect())).collect()
}

/// Returns, for each table of a block, the columns that all operations bind and that keep keys apart.
fn common_columns(
    slices: &[SliceColumns<'_>],
    by_value: &BTreeMap<TableId, Arc<Table>>,
) -> BTreeMap<TableId, BTreeSet<usize>> {
    let mut tables: BTreeMap<TableId, BTreeSet<usize>> = BTreeMap::new();
    for touched in slices.iter().flat_map(|slice| &slice.operations) {
        let table = touched.operation.table();
        let columns = tables.entry(table.id).or_insert_with(|| touched.bound.keys().copied().collect());
        let is_by_value = by_value.contains_key(&table.id);
        columns.retain(|column| {
            touched.bound.contains_key(column)
                && keeps_keys_apart(touched.operation, *column)
                && (!is_by_value || in_all_unique(table, *column))
        });
    }
    if slices.iter().any(|slice| slice.is_whole) {
        tables.values_mut().for_each(BTreeSet::clear);
    }
    tables
}

/// Returns whether an operation cannot bring rows with different values of a column under the same unique
/// key. A key that one row gives up may be taken by another row, so the column must be part of every unique
/// index whose keys the operation adds or removes.
fn keeps_keys_apart(operation: &Operation, column: usize) -> bool {
    let table = operation.table();
    // Two rows never get the same hidden key, and no operation changes a hidden key.
    let mut unique = unique_indexes(table).skip(usize::from(table.hidden_key));
    match &operation.kind {
        OperationKind::Select(_) => true,
        OperationKind::Insert { .. } | OperationKind::Delete { .. } => {
            unique.all(|index| index.columns.contains(&column))
        }
        OperationKind::Update { assignments, .. } => unique.all(|index| {
            let moves = assignments.iter().any(|(changed, ..)| index.columns.contains(changed));
            !moves || index.columns.contains(&column)
        }),
    }
}

/// Returns the primary key and all unique indexes.
fn unique_indexes(table: &Table) -> impl Iterator<Item = &Index> {
    let indexes = table.indexes.iter().enumerate();
    indexes.filter(|(position, index)| *position == 0 || index.unique).map(|(_, index)| index)
}

/// Returns whether all unique indexes of a table contain a column.
pub(super) fn in_all_unique(table: &Table, column: usize) -> bool {
    unique_indexes(table).all(|index| index.columns.contains(&column))
}

/// Extends a choice of one column per table to positions, in all ways in which every slice binds the columns
/// of its operations to one canonical value. No column is in two positions.
fn extend(
    tables: &[(TableId, BTreeSet<usize>)],
    chosen: &mut BTreeMap<TableId, usize>,
    slices: &[SliceColumns<'_>],
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
        if !taken && slices.iter().all(|slice| agrees(slice, chosen)) {
            extend(tables, chosen, slices, found);
        }
        chosen.remove(table);
    }
}

/// Returns whether a slice binds the chosen columns of all its operations to one canonical value.
fn agrees(slice: &SliceColumns<'_>, chosen: &BTreeMap<TableId, usize>) -> bool {
    let value_of = |touched: &OperationColumns<'_>| {
        Some(touched.bound[chosen.get(&touched.operation.table().id)?].clone())
    };
    let mut values = slice.operations.iter().filter_map(value_of);
    let first = values.next();
    values.all(|value| Some(value) == first)
}
