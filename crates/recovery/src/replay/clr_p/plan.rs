//! What a batch comes to before it runs: which part of which transaction belongs to which partition of which
//! block.
//! Paper: PACMAN §4.2 (piece-sets), §4.3.1 (key spaces).

use super::tape::Tape;
use super::{Cut, Partitions, Segment};
use crate::RecoveryError;
use crate::replay::divergence::{ReplayedCall, undefined};
use crate::replay::unfit;
use catalog::{Arena, CommitOrder, Datum, Reader, Table, Written, decode_value, skip_value};
use logging::content::{CallRecord, Record, WritesRecord};
use petgraph::unionfind::UnionFind;
use procedure::analysis::{PartitionValue, Piece, Rounds};
use procedure::{Machine, Register, WitnessValues};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::OnceLock;
use xxhash_rust::xxh3::xxh3_64;

/// What runs as one, of one transaction: a piece, a round of one, or a write by value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Unit {
    /// Its place in the batch.
    pub(super) transaction: u32,
    /// The place of the round among the piece's, 0 for a whole piece; or the byte where the write begins.
    pub(super) part: u32,
}

impl Unit {
    /// Ascends in the order in which units of a partition run.
    pub(super) fn key(self) -> u64 {
        u64::from(self.transaction) << 32 | u64::from(self.part)
    }
}

/// How a transaction was logged.
pub(super) enum Logged<'l> {
    Call { program: usize, call: CallRecord<'l> },
    Writes(WritesRecord<'l>),
}

/// One transaction of a batch.
pub(super) struct Transaction<'l> {
    pub(super) order: CommitOrder,
    pub(super) logged: Logged<'l>,
}

/// A planned batch.
pub(super) struct Batch<'l> {
    pub(super) transactions: Vec<Transaction<'l>>,
    /// By block and partition, in commit order.
    pub(super) units: Vec<Vec<Vec<Unit>>>,
    /// What the pieces sent, by block and partition.
    pub(super) sent: Vec<Vec<OnceLock<Vec<Tape>>>>,
    /// What each unit has written, by block and partition; nothing of writes by value, which are not checked.
    pub(super) written: Vec<Vec<OnceLock<Vec<Written>>>>,
    /// The partitions of the parts of all pieces that send something.
    partitions: Vec<u8>,
    /// By block that sends something, and transaction: which of them are its.
    parts: Vec<Vec<Range<u32>>>,
}

impl Batch<'_> {
    /// The partitions in which the parts of a transaction's piece of a block run, in their order.
    pub(super) fn parts_of(&self, block: usize, transaction: u32) -> &[u8] {
        let Some(range) = self.parts[block].get(transaction as usize) else { return &[] };
        &self.partitions[range.start as usize..range.end as usize]
    }
}

/// What planning works with.
#[derive(Default)]
pub(super) struct Planner {
    machine: Machine,
    witnesses: WitnessValues,
    key: Vec<u8>,
    hashes: Vec<u64>,
    /// By block, of the batch that is planned.
    connected: BTreeMap<usize, Connected>,
    arena: Arena,
    row: Vec<Datum>,
    changed: Vec<usize>,
}

impl<'l> Segment<'_, 'l> {
    /// Sorts the transactions of a batch into the partitions of blocks.
    pub(super) fn plan(&self, batch: usize, planner: &mut Planner) -> Result<Batch<'l>, RecoveryError> {
        let first = self.range.start + batch * self.batch;
        let places = first..(first + self.batch).min(self.range.end);
        let count = places.len();
        let sends = |block: usize| self.tape_counts[block] > 0;
        let partitions = || self.partitions.iter().map(|own| own.count);
        let mut planned = Batch {
            transactions: Vec::with_capacity(count),
            units: partitions().map(|count| vec![Vec::new(); count]).collect(),
            sent: partitions().map(|count| (0..count).map(|_| OnceLock::new()).collect()).collect(),
            written: partitions().map(|count| (0..count).map(|_| OnceLock::new()).collect()).collect(),
            partitions: Vec::new(),
            parts: (0..self.partitions.len())
                .map(|block| if sends(block) { vec![0..0; count] } else { Vec::new() })
                .collect(),
        };
        for place in places {
            let (order, record) = self.log.record(place);
            let logged = match record {
                Record::Call(call) => {
                    let program = self.programs.get(&(call.procedure, call.version, call.witnessed)).copied();
                    let program = program.ok_or_else(|| undefined(order, call.procedure, call.version))?;
                    self.plan_call(&mut planned, (order, program, &call), planner)?;
                    Logged::Call { program, call }
                }
                Record::Writes(writes) => {
                    self.plan_writes(&mut planned, order, writes, planner)?;
                    Logged::Writes(writes)
                }
                _ => unreachable!("a segment holds no definitions"),
            };
            planned.transactions.push(Transaction { order, logged });
        }
        self.place_connected(&mut planned, planner);
        self.count(&planned);
        Ok(planned)
    }

    /// Gives units that share keys, directly or over others, one partition.
    fn place_connected(&self, planned: &mut Batch<'_>, planner: &mut Planner) {
        for (block, connected) in &mut planner.connected {
            let count = self.partitions[*block].count;
            for (unit, node) in std::mem::take(&mut connected.units) {
                let partition = node.map_or(0, |node| connected.sets.find_mut(node) % count);
                planned.units[*block][partition].push(unit);
                if let Some(parts) = planned.parts[*block].get_mut(unit.transaction as usize) {
                    let start = planned.partitions.len() as u32;
                    planned.partitions.push(partition as u8);
                    *parts = start..start + 1;
                }
            }
            *connected = Connected::default();
        }
    }

    /// Counts what is planned, by block and partition.
    fn count(&self, planned: &Batch<'_>) {
        for (block, partitions) in planned.units.iter().enumerate() {
            for (partition, units) in partitions.iter().enumerate() {
                let operations =
                    units.iter().map(|unit| match planned.transactions[unit.transaction as usize].logged {
                        Logged::Call { program, .. } => self.part_of(program, block).operations,
                        Logged::Writes(_) => 1.0,
                    });
                let operations: f64 = operations.sum();
                self.measures.planned(block, partition, units.len() as u64, operations as u64);
            }
        }
    }

    fn plan_call(
        &self,
        planned: &mut Batch<'_>,
        (order, program, call): (CommitOrder, usize, &CallRecord<'_>),
        planner: &mut Planner,
    ) -> Result<(), RecoveryError> {
        let transaction = planned.transactions.len() as u32;
        let own = &self.pieces.pieces[program];
        if own.iter().any(|piece| self.partitions[piece.block].count > 1) {
            self.load_for_planning((order, program, call), planner)?;
        }
        for piece in own {
            let block = piece.block;
            let start = planned.partitions.len() as u32;
            let mut place = |part: u32, partition: usize| {
                planned.units[block][partition].push(Unit { transaction, part });
                planned.partitions.push(partition as u8);
            };
            let Partitions { count, cut } = self.partitions[block];
            match (cut, &piece.rounds) {
                (Cut::Keys, _) => {
                    planner.connect(block, Unit { transaction, part: 0 }, &piece.keys);
                    continue;
                }
                (Cut::Pieces, _) if count == 1 => place(0, 0),
                (Cut::Pieces, _) => place(0, planner.partition_of(&piece.partition, count)),
                (Cut::Rounds, None) => place(0, planner.partition_of(&piece.round_partition, count)),
                (Cut::Rounds, Some(rounds)) => planner.each_round(rounds, |planner, round| {
                    place(round, planner.partition_of(&piece.round_partition, count));
                }),
            }
            match planned.parts[block].get_mut(transaction as usize) {
                Some(parts) => *parts = start..planned.partitions.len() as u32,
                None => planned.partitions.truncate(start as usize),
            }
        }
        Ok(())
    }

    /// Puts a call's arguments into the registers of the planner.
    pub(super) fn load_for_planning(
        &self,
        (order, program, call): (CommitOrder, usize, &CallRecord<'_>),
        planner: &mut Planner,
    ) -> Result<(), RecoveryError> {
        let inputs = &self.pieces.programs[program].inputs;
        let Planner { machine, witnesses, .. } = planner;
        self.load_inputs((order, program, call), inputs, false, machine, witnesses)
    }

    fn plan_writes(
        &self,
        planned: &mut Batch<'_>,
        order: CommitOrder,
        writes: WritesRecord<'_>,
        planner: &mut Planner,
    ) -> Result<(), RecoveryError> {
        let transaction = planned.transactions.len() as u32;
        for (at, write) in writes.writes() {
            let place = self.pieces.value_block(write.table).ok_or_else(|| unfit(order))?;
            let Partitions { count, cut } = self.partitions[place.block];
            let unit = Unit { transaction, part: at as u32 };
            let mut partition = 0;
            if count > 1 {
                let table = self.tables.by_id(write.table).ok_or_else(|| unfit(order))?.definition();
                let Planner { arena, row, changed, key, .. } = planner;
                arena.clear();
                key.clear();
                write.decode(table, arena, row, changed).map_err(|_| unfit(order))?;
                let columns = match cut {
                    Cut::Pieces => &place.columns,
                    Cut::Rounds => &place.round_columns,
                    Cut::Keys => &place.key_columns,
                };
                begin_key(cut, table, key);
                for column in columns {
                    table.write_canonical_column(*column, row[*column], arena, key);
                }
                if cut == Cut::Keys {
                    let hash = xxh3_64(key);
                    planner.connected.entry(place.block).or_default().add(unit, &[hash]);
                    continue;
                }
                partition = partition_of_key(key, count);
            }
            planned.units[place.block][partition].push(unit);
        }
        Ok(())
    }

    /// Puts a call's arguments into registers, and its witness values beside them where they are asked for.
    pub(super) fn load_inputs(
        &self,
        (order, program, call): (CommitOrder, usize, &CallRecord<'_>),
        inputs: &[Option<Register>],
        with_witnesses: bool,
        machine: &mut Machine,
        witnesses: &mut WitnessValues,
    ) -> Result<(), RecoveryError> {
        let procedure = self.procedures[program];
        machine.begin_piece(self.pieces.programs[program].registers, call.timestamp_us, call.seed);
        let mut reader = Reader::new(call.arguments);
        let failed =
            |error: &dyn std::fmt::Display| ReplayedCall { order, procedure, record: call }.diverged(error);
        let last = inputs.iter().rposition(Option::is_some).map_or(0, |place| place + 1);
        let wanted = if with_witnesses { inputs.len() } else { last };
        for ((_, parameter), register) in procedure.inputs().zip(inputs).take(wanted) {
            let Some(register) = register else {
                skip_value(parameter.ty, &mut reader).map_err(|error| failed(&error))?;
                continue;
            };
            let value = decode_value(parameter.ty, &mut reader, &mut machine.frame.arena);
            machine.set(*register, value.map_err(|error| failed(&error))?);
        }
        if with_witnesses {
            let count = procedure.witnesses.iter().filter(|registers| !registers.is_empty()).count();
            witnesses.read(&mut reader, count).map_err(|error| failed(&error))?;
        }
        Ok(())
    }
}

/// Units of a block, and the keys that they share.
#[derive(Default)]
struct Connected {
    /// The place of each key among the sets.
    nodes: HashMap<u64, usize>,
    /// Keys that are connected.
    sets: UnionFind<usize>,
    /// In commit order, each with one of its keys.
    units: Vec<(Unit, Option<usize>)>,
}

impl Connected {
    /// Adds a unit with the hashes of its keys.
    fn add(&mut self, unit: Unit, keys: &[u64]) {
        let Self { nodes, sets, .. } = self;
        let mut first = None;
        for key in keys {
            let node = *nodes.entry(*key).or_insert_with(|| sets.new_set());
            match first {
                None => first = Some(node),
                Some(first) => {
                    sets.union(first, node);
                }
            }
        }
        self.units.push((unit, first));
    }
}

/// Begins a key: keys that may be connected with those of other tables name theirs.
fn begin_key(cut: Cut, table: &Table, key: &mut Vec<u8>) {
    key.clear();
    if cut == Cut::Keys {
        key.extend_from_slice(&table.id.0.to_le_bytes());
    }
}

impl Planner {
    /// Connects the keys of a piece whose arguments are in the registers. A key that can't be computed is of
    /// something that never ran.
    fn connect(&mut self, block: usize, unit: Unit, keys: &[Vec<PartitionValue>]) {
        self.hashes.clear();
        for values in keys {
            let Some(first) = values.first() else { continue };
            begin_key(Cut::Keys, &first.table, &mut self.key);
            if self.write_key(values) {
                self.hashes.push(xxh3_64(&self.key));
            }
        }
        self.connected.entry(block).or_default().add(unit, &self.hashes);
    }

    /// The partition of a piece, or of a round, whose arguments are in the registers. A key that can't be
    /// computed is of something that never ran, so any partition will do.
    pub(super) fn partition_of(&mut self, values: &[PartitionValue], count: usize) -> usize {
        self.key.clear();
        if self.write_key(values) { partition_of_key(&self.key, count) } else { 0 }
    }

    /// Appends values to the key; false when one can't be computed.
    fn write_key(&mut self, values: &[PartitionValue]) -> bool {
        let Self { machine, key, .. } = self;
        values.iter().all(|own| own.value.write(machine, key))
    }

    /// How many operations a piece runs whose arguments are in the registers.
    pub(super) fn weight_of(&mut self, piece: &Piece) -> u64 {
        piece.weight.evaluate(&mut self.machine)
    }

    /// Visits the rounds of a piece with their number in its register.
    fn each_round(&mut self, rounds: &Rounds, mut visit: impl FnMut(&mut Self, u32)) {
        for round in 0..rounds.count(&mut self.machine) {
            let value = rounds.value(round, &mut self.machine);
            self.machine.set(rounds.variable, value);
            visit(self, round);
        }
    }
}

fn partition_of_key(key: &[u8], count: usize) -> usize {
    xxh3_64(key) as usize % count
}
