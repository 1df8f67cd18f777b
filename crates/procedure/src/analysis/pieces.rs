//! Pieces: the programs that replay runs, one for each slice of each block.
//! Paper: PACMAN §4.2 (pieces and piece-sets), §4.3.1 (keys from arguments, and from pieces that ran before).

use super::Analysis;
use super::blocks::{BlockPositions, Cuts, Needed, Values};
use super::lookups::Lookups;
use super::partition::{PartitionValue, Position, SliceColumns, in_all_unique};
use super::program::Program;
use super::resolve::Resolver;
use super::rounds::Rounds;
use super::weight::Weight;
use crate::ir::visit::Role;
use crate::{Code, Compiled, Machine, OperationId, Part, Register, Source, WitnessValues};
use catalog::{Datum, TableId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A slice as a program that runs alone.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Index of its block.
    pub block: usize,
    /// For each parameter that takes a value, the register of the value; `None` if the piece does not use it.
    pub inputs: Vec<Option<Register>>,
    /// The values of the call's record that determine the partition of the whole piece; empty if none do.
    pub partition: Vec<PartitionValue>,
    /// The values that determine the partition of the whole piece, if the piece receives them; else empty.
    pub received_partition: Vec<PartitionValue>,
    /// The values that determine the partition of the piece, or of each of its rounds, if its block is cut by
    /// rounds; else empty.
    pub round_partition: Vec<PartitionValue>,
    /// The keys whose rows it may touch, if its block is cut by connected keys; else empty.
    pub keys: Vec<Vec<PartitionValue>>,
    /// The operations whose results these values use: witnesses, and operations of earlier blocks.
    pub key_sources: BTreeSet<OperationId>,
    /// The operations whose results it receives: from further pieces, or as witness values of the record.
    pub receives: Vec<OperationId>,
    /// The operations whose results it sends to further pieces.
    pub sends: Vec<OperationId>,
    /// The operations that it executes.
    pub executes: Vec<OperationId>,
    /// The rounds that replay can run separately, each in its partition; `None` if the piece has none, or if
    /// its block is not cut by rounds.
    pub rounds: Option<Rounds>,
    /// Number of operations that it executes.
    pub weight: Weight,
    parts: Vec<Part>,
    whole: Lookups,
    round: Lookups,
}

/// The values that determine the partition of a piece, for each way in which its block may be cut.
struct Partition {
    whole: Vec<PartitionValue>,
    received: Vec<PartitionValue>,
    in_rounds: Vec<PartitionValue>,
    keys: Vec<Vec<PartitionValue>>,
}

impl Partition {
    fn of(
        program: &Program,
        resolver: &Resolver<'_>,
        needed: &Needed<'_>,
        positions: &BlockPositions,
    ) -> Self {
        let values = |positions: &[Position], values: Values| -> Vec<PartitionValue> {
            if positions.is_empty() {
                return Vec::new();
            }
            let columns = needed.columns(program, resolver, values);
            positions.iter().map(|position| columns.value_of(position)).collect()
        };
        let of_keys = if positions.keys_are_received { Values::Received } else { Values::Recorded };
        let columns: SliceColumns<'_> = needed.columns(program, resolver, of_keys);
        Self {
            whole: values(&positions.whole, Values::Recorded),
            received: values(&positions.received, Values::Received),
            in_rounds: values(&positions.in_rounds, Values::InRounds),
            keys: columns.keys(&positions.keys),
        }
    }

    /// Returns the operations whose results the values use.
    fn sources(&self) -> BTreeSet<OperationId> {
        let lists = self.keys.iter().chain([&self.whole, &self.received, &self.in_rounds]);
        lists.flatten().flat_map(|partition| partition.value.after().iter().copied()).collect()
    }
}

/// The pieces of all programs.
#[derive(Clone, Debug)]
pub struct Pieces {
    /// The programs.
    pub programs: Vec<Program>,
    /// For each program, its pieces, in an order in which they can run.
    pub pieces: Vec<Vec<Arc<Piece>>>,
    /// For each block, the blocks that must run directly before it.
    pub before: Vec<Vec<usize>>,
    /// For each block, the ways in which it may be cut.
    pub cuts: Vec<Cuts>,
    /// For each table, the block of the writes that are logged by value.
    by_value: BTreeMap<TableId, ValueBlock>,
    /// For each program, the witnesses that keys of its pieces follow from.
    key_witnesses: Vec<Vec<KeyWitness>>,
    /// For each program and operation, the registers whose values are sent.
    sent: Vec<Vec<Vec<Register>>>,
}

/// A witness whose values determine the partition of pieces.
#[derive(Clone, Debug)]
pub struct KeyWitness {
    /// Position among the witnesses of the call.
    index: usize,
    /// The registers that take its values.
    registers: Vec<Register>,
}

impl KeyWitness {
    pub(super) fn of((index, registers): &(usize, Vec<Register>)) -> Self {
        Self { index: *index, registers: registers.clone() }
    }

    /// Returns the registers that take its values.
    pub(super) fn registers(&self) -> impl Iterator<Item = Register> {
        self.registers.iter().copied()
    }

    /// Returns whether the call has recorded values for a number of rounds. Where a round records values at
    /// most once, each of them has done so.
    pub(super) fn is_in_each_of(&self, rounds: u32, values: &WitnessValues) -> bool {
        let recorded = values.end(self.index) - values.start(self.index);
        recorded == rounds as usize * self.registers.len()
    }

    /// Copies the values of a round into registers, if the record has values of this round.
    pub fn load_round(&self, values: &WitnessValues, round: u32, machine: &mut Machine) {
        let start = values.start(self.index) + round as usize * self.registers.len();
        if start + self.registers.len() <= values.end(self.index) {
            for (offset, register) in self.registers.iter().enumerate() {
                machine.set(*register, values.get(start + offset).unwrap_or(Datum::Null));
            }
        }
    }

    /// Copies the values of a call into registers. Sets no register if the call did not execute the read.
    pub fn load(&self, values: &WitnessValues, machine: &mut Machine) {
        let start = values.start(self.index);
        if values.end(self.index) == start + self.registers.len() {
            for (offset, register) in self.registers.iter().enumerate() {
                machine.set(*register, values.get(start + offset).unwrap_or(Datum::Null));
            }
        }
    }
}

/// The block and the partition of the writes to a table by transactions that are logged by value.
#[derive(Clone, Debug)]
pub struct ValueBlock {
    /// Index of the table's block.
    pub block: usize,
    /// The columns of the primary key that determine a row's partition, if the block is cut by whole pieces.
    pub columns: Vec<usize>,
    /// The same columns, if the block is cut by whole pieces with received values.
    pub received_columns: Vec<usize>,
    /// The same columns, if the block is cut by rounds.
    pub round_columns: Vec<usize>,
    /// The columns of the row's key, if the block is cut by connected keys.
    pub key_columns: Vec<usize>,
}

impl Piece {
    /// Returns whether a loop looks rows up ahead while it runs. These rows replace those announced before.
    pub fn looks_up_in_loops(&self, round: bool) -> bool {
        if round { self.round.has_loops } else { self.whole.has_loops }
    }

    /// Returns whether the piece runs an operation, sends its results, or receives them.
    #[inline]
    pub fn part(&self, id: OperationId) -> Part {
        self.parts[id.0 as usize]
    }
}

impl Pieces {
    /// Returns the code of a piece of a program: of the whole piece, or of one of its rounds.
    pub fn code<'a>(&'a self, program: usize, piece: &'a Piece, round: bool) -> Code<'a> {
        let operations = &self.programs[program].operations;
        let Lookups { body, ahead, compiled, .. } = if round { &piece.round } else { &piece.whole };
        Code { body, operations, ahead, sent: &self.sent[program], compiled: compiled.get() }
    }

    /// Compiles all pieces, and their rounds.
    pub fn compile(&self, compile: &mut dyn FnMut(Source<'_>) -> Option<Arc<dyn Compiled>>) {
        for (program, pieces) in self.pieces.iter().enumerate() {
            let registers = self.programs[program].registers;
            for piece in pieces {
                for (lookups, is_round) in [(&piece.whole, false), (&piece.round, true)] {
                    if lookups.body.is_empty() {
                        continue;
                    }
                    let code = self.code(program, piece, is_round);
                    let part = |id| piece.part(id);
                    let source = Source { code, registers, outputs: &[], part: &part };
                    if let Some(compiled) = compile(source) {
                        lookups.compiled.set(compiled);
                    }
                }
            }
        }
    }

    /// Makes the pieces of an analysis for replay.
    pub fn of(analysis: &Analysis) -> Self {
        let Analysis { programs, global, .. } = analysis;
        let resolvers: Vec<Resolver<'_>> = programs.iter().map(Resolver::new).collect();
        let needed = analysis.needed(&resolvers);
        let positions: Vec<BlockPositions> =
            (0..global.blocks.len()).map(|block| analysis.positions(block, &needed, &resolvers)).collect();
        let (mut sent, mut pieces) = (Vec::new(), Vec::new());
        for (index, program) in programs.iter().enumerate() {
            let of_program: Vec<&Needed<'_>> =
                needed.iter().filter(|needed| needed.slice.program == index).collect();
            sent.push(sent_registers(program, &of_program));
            let make = |current: &&Needed<'_>| {
                let further = of_program.iter().filter(|other| other.block != current.block);
                let wanted = further.flat_map(|other| other.need.sources.iter().copied());
                let is_sent = |id: &OperationId| !program.witnesses.contains_key(id);
                let wanted: BTreeSet<OperationId> = wanted.filter(is_sent).collect();
                let resolver = &resolvers[index];
                let partition = Partition::of(program, resolver, current, &positions[current.block]);
                Arc::new(piece(program, resolver, current, &wanted, partition))
            };
            pieces.push(of_program.iter().map(make).collect());
        }
        let before_block = |block: usize| {
            let edges = global.edges.iter().filter(|(_, to)| *to == block);
            edges.map(|(from, _)| *from).collect()
        };
        let mut made = Self {
            programs: programs.clone(),
            pieces,
            before: (0..global.blocks.len()).map(before_block).collect(),
            cuts: positions.iter().map(BlockPositions::cuts).collect(),
            by_value: BTreeMap::new(),
            key_witnesses: Vec::new(),
            sent,
        };
        made.key_witnesses = (0..programs.len()).map(|program| made.witnesses_of_keys(program)).collect();
        made.assign_writes_by_value(analysis, &positions);
        made
    }

    /// Finds the block of every table that is written by value. A table that no slice touches gets a new
    /// block.
    fn assign_writes_by_value(&mut self, analysis: &Analysis, positions: &[BlockPositions]) {
        for (id, table) in &analysis.written_by_value {
            let columns_of = |positions: &[Position]| -> Vec<usize> {
                positions.iter().map(|position| position.column_of(*id)).collect()
            };
            let value_block = match analysis.global.blocks.iter().position(|block| block.tables.contains(id))
            {
                Some(block) => {
                    let columns = &positions[block];
                    ValueBlock {
                        block,
                        columns: columns_of(&columns.whole),
                        received_columns: columns_of(&columns.received),
                        round_columns: columns_of(&columns.in_rounds),
                        key_columns: columns.keys.get(id).cloned().unwrap_or_default(),
                    }
                }
                None => {
                    let all = 0..table.columns.len();
                    let is_partitioning = |column: &usize| {
                        in_all_unique(table, *column) && table.columns[*column].ty.family().is_some()
                    };
                    let columns: Vec<usize> = all.filter(is_partitioning).collect();
                    self.before.push(Vec::new());
                    self.cuts.push(Cuts { whole: !columns.is_empty(), ..Cuts::default() });
                    ValueBlock {
                        block: self.before.len() - 1,
                        columns,
                        received_columns: Vec::new(),
                        round_columns: Vec::new(),
                        key_columns: Vec::new(),
                    }
                }
            };
            self.by_value.insert(*id, value_block);
        }
    }

    fn witnesses_of_keys(&self, program: usize) -> Vec<KeyWitness> {
        let sources = self.pieces[program].iter().flat_map(|piece| &piece.key_sources);
        let sources: BTreeSet<OperationId> = sources.copied().collect();
        let witnesses = sources.iter().filter_map(|id| self.programs[program].witnesses.get(id));
        witnesses.map(KeyWitness::of).collect()
    }

    /// Returns the witnesses that keys of a program's pieces follow from.
    pub fn key_witnesses(&self, program: usize) -> &[KeyWitness] {
        &self.key_witnesses[program]
    }

    /// Returns the registers of an operation whose values are sent, in order.
    pub fn sent(&self, program: usize, id: OperationId) -> &[Register] {
        &self.sent[program][id.0 as usize]
    }

    /// Returns the block of the writes by value to a table.
    pub fn value_block(&self, table: TableId) -> Option<&ValueBlock> {
        self.by_value.get(&table)
    }
}

/// Returns the registers of each operation that further slices need.
fn sent_registers(program: &Program, needed: &[&Needed<'_>]) -> Vec<Vec<Register>> {
    let of_operation = |id: OperationId| {
        if let Some((_, registers)) = program.witnesses.get(&id) {
            return registers.clone();
        }
        let mut sent = Vec::new();
        program.operations[id.0 as usize].clone().visit_registers(&mut |role, register| {
            let wanted = |slice: &&Needed<'_>| {
                slice.need.sources.contains(&id) && slice.need.registers.contains(register)
            };
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
    resolver: &Resolver<'_>,
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
    let whole = Lookups::of(&need.body, program, &runs);
    let round =
        rounds.as_ref().map(|rounds| Lookups::of_round(&rounds.body, program, &runs)).unwrap_or_default();
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
        weight: Weight::of(resolver, need),
        rounds: rounds.clone().filter(|_| !partition.in_rounds.is_empty()),
        key_sources: partition.sources(),
        partition: partition.whole,
        received_partition: partition.received,
        round_partition: partition.in_rounds,
        keys: partition.keys,
        parts,
        whole,
        round,
    }
}
