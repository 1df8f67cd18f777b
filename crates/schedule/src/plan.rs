//! The plan of a batch: its units, by block and partition.
//! Paper: PACMAN §4.2 (piece-sets), §4.3.1 (key spaces).

use crate::divergence::{Divergence, malformed_writes};
use crate::programs::{Call, Cut, Partitions, Programs};
use crate::tape::Tape;
use crate::unit::Unit;
use crate::{Batch, Body};
use catalog::{Arena, CommitOrder, Datum, Table, Written};
use logging::content::WritesRecord;
use petgraph::unionfind::UnionFind;
use procedure::Machine;
use procedure::analysis::{PartitionValue, Piece, Rounds};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::OnceLock;
use xxhash_rust::xxh3::xxh3_64;

/// A planned batch.
pub(crate) struct PlannedBatch<B> {
    pub(crate) transactions: B,
    /// By block and partition, the units in commit order.
    pub(crate) units: Vec<Vec<Vec<Unit>>>,
    /// By block and partition, the tapes that its units have sent.
    pub(crate) tapes: Vec<Vec<OnceLock<Vec<Tape>>>>,
    /// By block and partition, the writes of each unit; none for writes by value, which are not checked.
    pub(crate) written: Vec<Vec<OnceLock<Vec<Written>>>>,
    /// The partitions of the units of all pieces that send something.
    partitions: Vec<u8>,
    /// By block that sends something, and transaction: its range of `partitions`.
    ranges: Vec<Vec<Range<u32>>>,
}

impl<B> PlannedBatch<B> {
    /// Returns the partitions of the units of a transaction's piece of a block, in their order.
    pub(crate) fn partitions_of(&self, block: usize, transaction: u32) -> &[u8] {
        let Some(range) = self.ranges[block].get(transaction as usize) else { return &[] };
        &self.partitions[range.start as usize..range.end as usize]
    }
}

/// The buffers of planning, kept from one batch to the next.
#[derive(Default)]
pub(crate) struct Planner {
    machine: Machine,
    key: Vec<u8>,
    hashes: Vec<u64>,
    /// By block of the batch that is planned.
    connected: BTreeMap<usize, Connected>,
    arena: Arena,
    row: Vec<Datum>,
    changed: Vec<usize>,
}

impl Programs<'_> {
    /// Sorts the transactions of a batch into the partitions of blocks.
    pub(crate) fn plan<B: Batch>(
        &self,
        transactions: B,
        planner: &mut Planner,
    ) -> Result<PlannedBatch<B>, Divergence> {
        let count = transactions.len();
        let sends = |block: usize| self.tape_counts[block] > 0;
        let partitions = || self.partitions.iter().map(|cut| cut.count);
        let ranges = |block: usize| if sends(block) { vec![0..0; count] } else { Vec::new() };
        let mut planned = PlannedBatch {
            transactions: (),
            units: partitions().map(|count| vec![Vec::new(); count]).collect(),
            tapes: partitions().map(|count| (0..count).map(|_| OnceLock::new()).collect()).collect(),
            written: partitions().map(|count| (0..count).map(|_| OnceLock::new()).collect()).collect(),
            partitions: Vec::new(),
            ranges: (0..self.partitions.len()).map(ranges).collect(),
        };
        for index in 0..count {
            let transaction = transactions.get(index);
            let (order, index) = (transaction.order, index as u32);
            match transaction.body {
                Body::Call { program, record } => {
                    self.plan_call(&mut planned, index, Call { order, program, record: &record }, planner)?;
                }
                Body::Writes(writes) => self.plan_writes(&mut planned, index, order, writes, planner)?,
            }
        }
        self.place_connected(&mut planned, planner);
        let PlannedBatch { units, tapes, written, partitions, ranges, .. } = planned;
        Ok(PlannedBatch { transactions, units, tapes, written, partitions, ranges })
    }

    /// Gives units that share keys, directly or through other units, one partition.
    fn place_connected(&self, planned: &mut PlannedBatch<()>, planner: &mut Planner) {
        for (block, connected) in &mut planner.connected {
            let count = self.partitions[*block].count;
            for (unit, node) in std::mem::take(&mut connected.units) {
                let partition = node.map_or(0, |node| connected.sets.find_mut(node) % count);
                planned.units[*block][partition].push(unit);
                if let Some(range) = planned.ranges[*block].get_mut(unit.transaction as usize) {
                    let start = planned.partitions.len() as u32;
                    planned.partitions.push(partition as u8);
                    *range = start..start + 1;
                }
            }
            *connected = Connected::default();
        }
    }

    fn plan_call(
        &self,
        planned: &mut PlannedBatch<()>,
        transaction: u32,
        call: Call<'_>,
        planner: &mut Planner,
    ) -> Result<(), Divergence> {
        let pieces = &self.pieces.pieces[call.program];
        if pieces.iter().any(|piece| self.partitions[piece.block].count > 1) {
            self.load_for_planning(call, planner)?;
        }
        for piece in pieces {
            let block = piece.block;
            let start = planned.partitions.len() as u32;
            let mut place = |index: u32, partition: usize| {
                planned.units[block][partition].push(Unit { transaction, index });
                planned.partitions.push(partition as u8);
            };
            let Partitions { count, cut } = self.partitions[block];
            match (cut, &piece.rounds) {
                (Cut::Keys, _) => {
                    planner.connect(block, Unit { transaction, index: 0 }, &piece.keys);
                    continue;
                }
                (Cut::Pieces, _) if count == 1 => place(0, 0),
                (Cut::Pieces, _) => place(0, planner.partition_of(&piece.partition, count)),
                (Cut::Rounds, None) => place(0, planner.partition_of(&piece.round_partition, count)),
                (Cut::Rounds, Some(rounds)) => planner.each_round(rounds, |planner, round| {
                    place(round, planner.partition_of(&piece.round_partition, count));
                }),
            }
            match planned.ranges[block].get_mut(transaction as usize) {
                Some(range) => *range = start..planned.partitions.len() as u32,
                None => planned.partitions.truncate(start as usize),
            }
        }
        Ok(())
    }

    /// Puts a call's arguments into the registers of the planner.
    pub(crate) fn load_for_planning(&self, call: Call<'_>, planner: &mut Planner) -> Result<(), Divergence> {
        let inputs = &self.pieces.programs[call.program].inputs;
        self.load_inputs(call, inputs, &mut planner.machine, None)
    }

    fn plan_writes(
        &self,
        planned: &mut PlannedBatch<()>,
        transaction: u32,
        order: CommitOrder,
        writes: WritesRecord<'_>,
        planner: &mut Planner,
    ) -> Result<(), Divergence> {
        let malformed = || malformed_writes(order);
        for (offset, write) in writes.writes() {
            let of_table = self.pieces.value_block(write.table).ok_or_else(malformed)?;
            let block = of_table.block;
            let Partitions { count, cut } = self.partitions[block];
            let unit = Unit { transaction, index: offset as u32 };
            let mut partition = 0;
            if count > 1 {
                let table = self.definitions.get(write.table).ok_or_else(malformed)?;
                let Planner { arena, row, changed, key, .. } = planner;
                arena.clear();
                key.clear();
                write.decode(table, arena, row, changed).map_err(|_| malformed())?;
                let columns = match cut {
                    Cut::Pieces => &of_table.columns,
                    Cut::Rounds => &of_table.round_columns,
                    Cut::Keys => &of_table.key_columns,
                };
                begin_key(cut, table, key);
                for column in columns {
                    table.write_canonical_column(*column, row[*column], arena, key);
                }
                if cut == Cut::Keys {
                    let hash = xxh3_64(key);
                    planner.connected.entry(block).or_default().add(unit, &[hash]);
                    continue;
                }
                partition = partition_of_key(key, count);
            }
            planned.units[block][partition].push(unit);
        }
        Ok(())
    }
}

/// Units of a block, and the keys that they share.
#[derive(Default)]
struct Connected {
    /// By hash of a key, its node in the sets.
    nodes: HashMap<u64, usize>,
    /// Keys that are connected.
    sets: UnionFind<usize>,
    /// The units in commit order, each with the node of one of its keys.
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

/// Begins a key. Keys that may be connected with keys of another table begin with their table.
fn begin_key(cut: Cut, table: &Table, key: &mut Vec<u8>) {
    key.clear();
    if cut == Cut::Keys {
        key.extend_from_slice(&table.id.0.to_le_bytes());
    }
}

impl Planner {
    /// Connects the keys of a piece whose arguments are in the registers. A key that cannot be computed
    /// belongs to an operation that never ran.
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

    /// Returns the partition of a piece, or of a round, whose arguments are in the registers. A key that
    /// cannot be computed belongs to an operation that never ran, so any partition will do.
    pub(crate) fn partition_of(&mut self, values: &[PartitionValue], count: usize) -> usize {
        self.key.clear();
        if self.write_key(values) { partition_of_key(&self.key, count) } else { 0 }
    }

    /// Appends values to the key; returns false when one of them cannot be computed.
    fn write_key(&mut self, values: &[PartitionValue]) -> bool {
        let Self { machine, key, .. } = self;
        values.iter().all(|value| value.value.write(machine, key))
    }

    /// Returns the number of operations of a piece whose arguments are in the registers.
    pub(crate) fn weight_of(&mut self, piece: &Piece) -> u64 {
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
