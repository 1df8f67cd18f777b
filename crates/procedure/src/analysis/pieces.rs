//! Pieces: the programs that replay runs, one for each slice of each block, and how a block's pieces fall into partitions.
//! Paper: PACMAN §4.2 (pieces and piece-sets), §4.3.1 (key spaces); DESIGN §4.5 (granules).
//!
//! A block is partitioned by columns that every operation of it binds by equality to what follows from the arguments alone,
//! and all operations of one slice to the same. Pieces with different values then touch no row in common, ranges
//! included, so their partitions may run at the same time; within a partition pieces run in commit order.

use super::need::Need;
use super::program::Program;
use super::{Analysis, Slice};
use crate::visit::Role;
use crate::{Code, Expression, Operation, OperationId, OperationKind, Part, Path, Register, Statement};
use catalog::{ScalarType, Table, TableId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A value that tells a piece's partition, and the column whose key encoding makes it comparable.
#[derive(Clone, Debug)]
pub struct PartitionValue {
    /// The value, over the parameters.
    pub value: Expression,
    /// The table.
    pub table: Arc<Table>,
    /// The column's place in it.
    pub column: usize,
}

/// One slice, ready to run.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The block that it is of.
    pub block: usize,
    /// For each parameter that takes a value, the register that this piece wants it in.
    pub inputs: Vec<Option<Register>>,
    /// What tells its partition; nothing where the block has one only.
    pub partition: Vec<PartitionValue>,
    /// The operations of other pieces whose results it receives.
    pub receives: Vec<OperationId>,
    /// The operations whose results it sends.
    pub sends: Vec<OperationId>,
    parts: Vec<Part>,
    body: Vec<Statement>,
    ahead: Vec<OperationId>,
}

/// The pieces of all programs.
#[derive(Clone, Debug)]
pub struct Pieces {
    /// The programs.
    pub programs: Vec<Program>,
    /// For each program its pieces, in an order in which they can run.
    pub pieces: Vec<Vec<Piece>>,
    /// For each block those that must run before it, directly.
    pub before: Vec<Vec<usize>>,
    /// For each block whether it falls into partitions.
    pub partitioned: Vec<bool>,
    /// For each program and operation, the registers that are sent.
    sent: Vec<Vec<Vec<Register>>>,
}

/// A slice with its block and what it needs.
type Needed<'a> = (usize, &'a Slice, Need);

impl Piece {
    /// What it does with an operation.
    #[inline]
    pub fn part(&self, id: OperationId) -> Part {
        self.parts[id.0 as usize]
    }
}

impl Pieces {
    /// What a piece of a program executes.
    pub fn code<'a>(&'a self, program: usize, piece: &'a Piece) -> Code<'a> {
        let operations = &self.programs[program].operations;
        Code { body: &piece.body, operations, ahead: &piece.ahead, sent: &self.sent[program] }
    }

    /// Makes the pieces of an analysis for replay.
    pub fn of(analysis: &Analysis) -> Self {
        let Analysis { programs, global, .. } = analysis;
        let positions: Vec<Vec<Position>> =
            global.blocks.iter().map(|block| positions(programs, &block.slices)).collect();
        let (mut sent, mut pieces) = (Vec::new(), Vec::new());
        for (place, program) in programs.iter().enumerate() {
            let mut needs: Vec<Needed<'_>> = Vec::new();
            for (block, own) in global.blocks.iter().enumerate() {
                let slices = own.slices.iter().filter(|slice| slice.program == place);
                needs.extend(slices.map(|slice| (block, slice, analysis.need_of(slice))));
            }
            sent.push(sent_registers(program, &needs));
            let make = |(block, slice, need): &Needed<'_>| {
                let others = needs.iter().filter(|(other, ..)| other != block);
                let wanted: BTreeSet<OperationId> =
                    others.flat_map(|(.., need)| need.sources.iter().copied()).collect();
                let partition = positions[*block].iter().map(|position| position.of_slice(program, slice));
                piece(program, *block, need, &wanted, partition.collect())
            };
            pieces.push(needs.iter().map(make).collect());
        }
        let before_block = |block: usize| {
            let edges = global.edges.iter().filter(|(_, to)| *to == block);
            edges.map(|(from, _)| *from).collect()
        };
        let before = (0..global.blocks.len()).map(before_block).collect();
        let partitioned = positions.iter().map(|positions| !positions.is_empty()).collect();
        Self { programs: programs.clone(), pieces, before, partitioned, sent }
    }
}

impl Analysis {
    /// What a slice needs of its program.
    fn need_of(&self, slice: &Slice) -> Need {
        let program = &self.programs[slice.program];
        if program.whole {
            return Need::whole(program);
        }
        let is_free =
            |id: OperationId| !self.modified.contains(&program.operations[id.0 as usize].table().id);
        Need::of(program, slice.operations.iter().copied(), &is_free)
    }
}

/// The registers of each operation that other slices need.
fn sent_registers(program: &Program, needs: &[Needed<'_>]) -> Vec<Vec<Register>> {
    let of_operation = |id: OperationId| {
        let mut sent = Vec::new();
        program.operations[id.0 as usize].clone().visit_registers(&mut |role, register| {
            let wanted =
                |(.., need): &Needed<'_>| need.sources.contains(&id) && need.registers.contains(register);
            if role == Role::Define && needs.iter().any(wanted) && !sent.contains(register) {
                sent.push(*register);
            }
        });
        sent
    };
    program.operation_ids().map(of_operation).collect()
}

fn piece(
    program: &Program,
    block: usize,
    need: &Need,
    wanted: &BTreeSet<OperationId>,
    partition: Vec<PartitionValue>,
) -> Piece {
    let part = |id: OperationId| {
        if need.sources.contains(&id) {
            Part::Receive
        } else if wanted.contains(&id) && need.executed.contains(&id) {
            Part::Send
        } else {
            Part::Run
        }
    };
    let parts: Vec<Part> = program.operation_ids().map(part).collect();
    let with = |wanted: Part| program.operation_ids().filter(|id| parts[id.0 as usize] == wanted).collect();
    let mut body = need.body.clone();
    let runs = |id: OperationId| parts[id.0 as usize] != Part::Receive;
    let ahead = crate::ahead::plan_lookups_of(&mut body, &program.operations, &runs);
    Piece {
        block,
        inputs: program
            .inputs
            .iter()
            .map(|input| input.filter(|register| need.registers.contains(register)))
            .collect(),
        receives: with(Part::Receive),
        sends: with(Part::Send),
        partition,
        parts,
        body,
        ahead,
    }
}

/// For each table of a block the column that stands for the same thing.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Position(BTreeMap<TableId, usize>);

impl Position {
    /// What a slice binds the position to.
    fn of_slice(&self, program: &Program, slice: &Slice) -> PartitionValue {
        let operation = &program.operations[slice.operations[0].0 as usize];
        let table = Arc::clone(operation.table());
        let column = self.0[&table.id];
        let value = bound_columns(program, operation)[&column].clone();
        PartitionValue { value, table, column }
    }
}

/// The columns that an operation binds by equality, or sets in a new row, to what follows from arguments.
fn bound_columns(program: &Program, operation: &Operation) -> BTreeMap<usize, Expression> {
    let mut bound = BTreeMap::new();
    let mut bind = |table: &Table, column: usize, value: &Expression| {
        // Of doubles and decimals without a scale, equal values may be held in different ways.
        let exact = !matches!(table.columns[column].ty, ScalarType::Double | ScalarType::AnyNumeric);
        if exact && let Some(resolved) = program.resolved(value, 16) {
            bound.insert(column, resolved);
        }
    };
    let access = match &operation.kind {
        OperationKind::Insert { table, values, .. } => {
            values.iter().enumerate().for_each(|(column, value)| bind(table, column, value));
            return bound;
        }
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

/// The columns by which a block falls into partitions; none when it does not.
fn positions(programs: &[Program], slices: &[Slice]) -> Vec<Position> {
    if slices.iter().any(|slice| programs[slice.program].whole) {
        return Vec::new();
    }
    let bound: Vec<Bound> = slices
        .iter()
        .map(|slice| {
            let program = &programs[slice.program];
            let operations = slice.operations.iter().map(|id| &program.operations[id.0 as usize]);
            operations.map(|operation| (operation.table().id, bound_columns(program, operation))).collect()
        })
        .collect();
    let mut tables: BTreeMap<TableId, BTreeSet<usize>> = BTreeMap::new();
    for (table, columns) in bound.iter().flatten() {
        let columns: BTreeSet<usize> = columns.keys().copied().collect();
        tables.entry(*table).or_insert_with(|| columns.clone()).retain(|column| columns.contains(column));
    }
    let all = slices.iter().flat_map(|slice| {
        slice.operations.iter().map(|id| &programs[slice.program].operations[id.0 as usize])
    });
    for operation in all {
        if let Some(columns) = tables.get_mut(&operation.table().id) {
            columns.retain(|column| keeps_keys_apart(operation, *column));
        }
    }
    let tables: Vec<(TableId, BTreeSet<usize>)> = tables.into_iter().collect();
    let mut found: Vec<Position> = Vec::new();
    extend(&tables, &mut BTreeMap::new(), &bound, &mut found);
    found
}

/// Whether rows with different values of a column never meet under one key of a unique index, whatever an operation does: a
/// key that one row leaves free may be another's, so a column of every unique index whose keys come and go.
fn keeps_keys_apart(operation: &Operation, column: usize) -> bool {
    let table = operation.table();
    let mut unique = table.indexes.iter().enumerate().filter(|(place, index)| *place == 0 || index.unique);
    match &operation.kind {
        OperationKind::Select(_) => true,
        OperationKind::Insert { .. } | OperationKind::Delete { .. } => {
            unique.all(|(_, index)| index.columns.contains(&column))
        }
        OperationKind::Update { assignments, .. } => unique.all(|(_, index)| {
            let moves = assignments.iter().any(|(changed, ..)| index.columns.contains(changed));
            !moves || index.columns.contains(&column)
        }),
    }
}

/// What the operations of one slice bind.
type Bound = Vec<(TableId, BTreeMap<usize, Expression>)>;

/// Completes a choice of columns, one a table, in all ways in which every slice binds its operations to one expression;
/// no column is used twice.
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

/// Whether a slice binds the chosen columns of all its operations to one expression.
fn agrees(operations: &Bound, chosen: &BTreeMap<TableId, usize>) -> bool {
    let value_of = |(table, columns): &(TableId, BTreeMap<usize, Expression>)| {
        chosen.get(table).map(|column| columns[column].clone())
    };
    let mut values = operations.iter().filter_map(value_of);
    let first = values.next();
    values.all(|value| Some(value) == first)
}

impl Program {
    /// An expression over parameters that always has the same value as this one; `None` when none is found.
    fn resolved(&self, expression: &Expression, depth: usize) -> Option<Expression> {
        let (mut uses, mut depends_on_call) = (Vec::new(), false);
        expression.walk(&mut |part| match part {
            Expression::Register(register) => uses.push(*register),
            Expression::Function { function, .. } => depends_on_call |= function.depends_on_call(),
            _ => {}
        });
        if depends_on_call {
            return None;
        }
        let mut result = expression.clone();
        for register in uses {
            match self.definitions_of(register).as_slice() {
                [] if self.inputs.contains(&Some(register)) => {}
                [Some(value)] if !self.unset.contains(&register) && depth > 0 => {
                    let value = self.resolved(value, depth - 1)?;
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
