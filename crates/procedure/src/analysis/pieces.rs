//! Pieces: the programs that replay runs, one for each slice of each block.
//! Paper: PACMAN §4.2 (pieces and piece-sets).

use super::need::Need;
use super::partition::{PartitionValue, Position, Rounded, in_all_unique, key_columns, key_of, positions};
use super::program::Program;
use super::rounds::{Rounds, only_loop, rounds};
use super::weight::Weight;
use super::{Analysis, Slice};
use crate::ir::visit::Role;
use crate::{Code, OperationId, Part, Register, Statement};
use catalog::TableId;
use std::collections::{BTreeMap, BTreeSet};

/// One slice, ready to run.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The block that it is of.
    pub block: usize,
    /// For each parameter that takes a value, the register that this piece wants it in.
    pub inputs: Vec<Option<Register>>,
    /// What tells the partition of a whole piece; nothing where its block has one only.
    pub partition: Vec<PartitionValue>,
    /// What tells the partition of a piece, or of each of its rounds, where blocks are cut by rounds.
    pub round_partition: Vec<PartitionValue>,
    /// The keys whose rows it may touch, where blocks are cut by connected keys.
    pub keys: Vec<Vec<PartitionValue>>,
    /// The operations of other pieces whose results it receives.
    pub receives: Vec<OperationId>,
    /// The operations whose results it sends.
    pub sends: Vec<OperationId>,
    /// The operations that it runs.
    pub executes: Vec<OperationId>,
    /// The rounds that replay can run on their own, each in its partition, where blocks are cut by rounds.
    pub rounds: Option<Rounds>,
    /// How many operations it runs.
    pub weight: Weight,
    parts: Vec<Part>,
    whole: Lookups,
    round: Lookups,
}

/// What tells the partition of a piece, in each way in which its block may be cut.
struct Partition {
    whole: Vec<PartitionValue>,
    in_rounds: Vec<PartitionValue>,
    keys: Vec<Vec<PartitionValue>>,
}

/// The columns by which a block falls into partitions: by whole pieces, and by rounds where these make them
/// more.
struct BlockPositions {
    whole: Vec<Position>,
    in_rounds: Vec<Position>,
    /// The columns of keys that pieces may connect.
    keys: BTreeMap<TableId, Vec<usize>>,
}

/// Statements, and what to look up ahead of them.
#[derive(Clone, Debug, Default)]
struct Lookups {
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
    /// For each block whether whole pieces of it fall into partitions.
    pub partitioned: Vec<bool>,
    /// For each block whether rounds of its pieces fall into more.
    pub in_rounds: Vec<bool>,
    /// For each block whether its pieces belong to keys, one or several.
    pub keyed: Vec<bool>,
    /// Where writes by value go.
    by_value: BTreeMap<TableId, ValueBlock>,
    /// For each program and operation, the registers that are sent.
    sent: Vec<Vec<Vec<Register>>>,
}

/// Where the writes go that transactions logged by value do to a table.
#[derive(Clone, Debug)]
pub struct ValueBlock {
    /// The block that the table is of.
    pub block: usize,
    /// The columns that tell a row's partition, where whole pieces have theirs; of the primary key.
    pub columns: Vec<usize>,
    /// The same, where rounds have theirs.
    pub round_columns: Vec<usize>,
    /// The columns of its key, where blocks are cut by connected keys.
    pub key_columns: Vec<usize>,
}

/// A slice with its block, what it needs, and the rounds that this may fall into.
struct Needed<'a> {
    block: usize,
    slice: &'a Slice,
    need: Need,
    rounds: Option<Rounds>,
}

impl Piece {
    /// Whether it looks rows up ahead while it runs, which does away with what was announced before.
    pub fn looks_up_in_loops(&self, round: bool) -> bool {
        fn any(statements: &[Statement]) -> bool {
            let own = |statement: &Statement| {
                matches!(statement, Statement::ForRange { ahead, .. } if !ahead.is_empty())
                    || statement.bodies().into_iter().any(any)
            };
            statements.iter().any(own)
        }
        any(if round { &self.round.body } else { &self.whole.body })
    }

    /// What it does with an operation.
    #[inline]
    pub fn part(&self, id: OperationId) -> Part {
        self.parts[id.0 as usize]
    }
}

impl Pieces {
    /// What a piece of a program executes: all of it, or one of its rounds.
    pub fn code<'a>(&'a self, program: usize, piece: &'a Piece, round: bool) -> Code<'a> {
        let operations = &self.programs[program].operations;
        let Lookups { body, ahead } = if round { &piece.round } else { &piece.whole };
        Code { body, operations, ahead, sent: &self.sent[program] }
    }

    /// Makes the pieces of an analysis for replay.
    pub fn of(analysis: &Analysis) -> Self {
        let Analysis { programs, global, .. } = analysis;
        let mut needed: Vec<Needed<'_>> = Vec::new();
        for (block, own) in global.blocks.iter().enumerate() {
            for slice in &own.slices {
                let need = analysis.need_of(slice);
                let rounds = rounds(&programs[slice.program], &need);
                needed.push(Needed { block, slice, need, rounds });
            }
        }
        let positions: Vec<BlockPositions> =
            (0..global.blocks.len()).map(|block| analysis.partition(block, &needed)).collect();
        let (mut sent, mut pieces) = (Vec::new(), Vec::new());
        for (place, program) in programs.iter().enumerate() {
            let own: Vec<&Needed<'_>> = needed.iter().filter(|own| own.slice.program == place).collect();
            sent.push(sent_registers(program, &own));
            let make = |one: &&Needed<'_>| {
                let others = own.iter().filter(|other| other.block != one.block);
                let wanted: BTreeSet<OperationId> =
                    others.flat_map(|other| other.need.sources.iter().copied()).collect();
                let BlockPositions { whole, in_rounds, keys } = &positions[one.block];
                let values = |positions: &[Position], rounds| {
                    positions.iter().map(|own| own.of_slice(program, (one.slice, rounds))).collect()
                };
                let keys_of = |id: &OperationId| {
                    let operation = &program.operations[id.0 as usize];
                    Some(key_of(program, operation, keys.get(&operation.table().id)?))
                };
                piece(
                    program,
                    one,
                    &wanted,
                    Partition {
                        whole: values(whole, None),
                        in_rounds: values(in_rounds, one.rounds.as_ref()),
                        keys: one.slice.operations.iter().filter_map(keys_of).collect(),
                    },
                )
            };
            pieces.push(own.iter().map(make).collect());
        }
        let before_block = |block: usize| {
            let edges = global.edges.iter().filter(|(_, to)| *to == block);
            edges.map(|(from, _)| *from).collect()
        };
        let mut made = Self {
            programs: programs.clone(),
            pieces,
            before: (0..global.blocks.len()).map(before_block).collect(),
            partitioned: positions.iter().map(|positions| !positions.whole.is_empty()).collect(),
            in_rounds: positions.iter().map(|positions| !positions.in_rounds.is_empty()).collect(),
            keyed: positions.iter().map(|positions| !positions.keys.is_empty()).collect(),
            by_value: BTreeMap::new(),
            sent,
        };
        made.place_writes_by_value(analysis, &positions);
        made
    }

    /// Finds the block of every table that is written by value; one that no slice touches gets a block of its
    /// own.
    fn place_writes_by_value(&mut self, analysis: &Analysis, positions: &[BlockPositions]) {
        for (id, table) in &analysis.written_by_value {
            let of_slices = analysis.global.blocks.iter().position(|block| block.tables.contains(id));
            let columns_of = |positions: &[Position]| -> Vec<usize> {
                positions.iter().map(|position| position.column_of(*id)).collect()
            };
            let (columns, round_columns, key_columns) = match of_slices {
                Some(block) => {
                    let BlockPositions { whole, in_rounds, keys } = &positions[block];
                    (columns_of(whole), columns_of(in_rounds), keys.get(id).cloned().unwrap_or_default())
                }
                None => {
                    let all = 0..table.columns.len();
                    let tells = |column: &usize| {
                        in_all_unique(table, *column) && table.columns[*column].ty.family().is_some()
                    };
                    (all.filter(tells).collect(), Vec::new(), Vec::new())
                }
            };
            let block = of_slices.unwrap_or(self.before.len());
            if of_slices.is_none() {
                self.before.push(Vec::new());
                self.partitioned.push(!columns.is_empty());
                self.in_rounds.push(false);
                self.keyed.push(false);
            }
            self.by_value.insert(*id, ValueBlock { block, columns, round_columns, key_columns });
        }
    }

    /// Where the writes by value to a table go.
    pub fn value_block(&self, table: TableId) -> Option<&ValueBlock> {
        self.by_value.get(&table)
    }
}

impl Analysis {
    /// The columns by which a block falls into partitions.
    fn partition(&self, block: usize, needed: &[Needed<'_>]) -> BlockPositions {
        let by = |in_rounds: bool| {
            let own = needed.iter().filter(|own| own.block == block);
            let slices: Vec<Rounded<'_>> =
                own.map(|own| (own.slice, own.rounds.as_ref().filter(|_| in_rounds))).collect();
            positions(&self.programs, &slices, &self.written_by_value)
        };
        let (whole, mut in_rounds) = (by(false), by(true));
        if in_rounds.len() <= whole.len() {
            in_rounds.clear();
        }
        let slices = &self.global.blocks[block].slices;
        BlockPositions { whole, in_rounds, keys: key_columns(&self.programs, slices, &self.written_by_value) }
    }

    /// What a slice needs of its program.
    fn need_of(&self, slice: &Slice) -> Need {
        let program = &self.programs[slice.program];
        if program.whole {
            return Need::whole(program);
        }
        Need::of(program, slice.operations.iter().copied(), &|id| self.is_free(program, id))
    }
}

/// The registers of each operation that other slices need.
fn sent_registers(program: &Program, needed: &[&Needed<'_>]) -> Vec<Vec<Register>> {
    let of_operation = |id: OperationId| {
        if let Some((_, registers)) = program.witnesses.get(&id) {
            return registers.clone();
        }
        let mut sent = Vec::new();
        program.operations[id.0 as usize].clone().visit_registers(&mut |role, register| {
            let wanted =
                |own: &&Needed<'_>| own.need.sources.contains(&id) && own.need.registers.contains(register);
            if role == Role::Define && needed.iter().any(wanted) && !sent.contains(register) {
                sent.push(*register);
            }
        });
        sent
    };
    program.operation_ids().map(of_operation).collect()
}

fn piece(
    program: &Program,
    Needed { block, need, rounds, .. }: &Needed<'_>,
    wanted: &BTreeSet<OperationId>,
    partition: Partition,
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
    let runs = |id: OperationId| parts[id.0 as usize] != Part::Receive;
    let lookups = |mut body: Vec<Statement>| {
        let ahead = crate::execution::ahead::plan_lookups_of(&mut body, &program.operations, &runs);
        Lookups { body, ahead }
    };
    let whole = lookups(need.body.clone());
    let mut round = rounds.as_ref().map(|own| lookups(own.body.clone())).unwrap_or_default();
    if let Some(Statement::ForRange { ahead, .. }) = only_loop(&mut round.body) {
        // The loop has one round, whose number is known before.
        round.ahead.append(ahead);
    }
    Piece {
        block: *block,
        inputs: program
            .inputs
            .iter()
            .map(|input| input.filter(|register| need.registers.contains(register)))
            .collect(),
        receives: with(Part::Receive),
        sends: with(Part::Send),
        executes: need.executed.iter().copied().collect(),
        weight: Weight::of(program, need),
        rounds: rounds.clone().filter(|_| !partition.in_rounds.is_empty()),
        partition: partition.whole,
        round_partition: partition.in_rounds,
        keys: partition.keys,
        parts,
        whole,
        round,
    }
}
