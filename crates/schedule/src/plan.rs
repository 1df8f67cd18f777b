//! The plan of a batch: its units, by block and partition. Units of deferred blocks wait for their partition
//! (`assign`).
//! Paper: PACMAN §4.2 (piece-sets), §4.3.1 (key spaces).

use crate::arguments::Arguments;
use crate::divergence::{Divergence, malformed_writes};
use crate::programs::{Call, Cut, Partitions, Programs, TapeSource};
use crate::tape::{Received, Tape};
use crate::unit::Unit;
use crate::{Batch, Body};
use catalog::{Arena, CommitOrder, Datum, Table, Written};
use logging::content::WritesRecord;
use petgraph::unionfind::UnionFind;
use procedure::analysis::{KeyWitness, PartitionValue, Piece, Rounds};
use procedure::{Machine, WitnessValues};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::OnceLock;
use xxhash_rust::xxh3::xxh3_64;

/// A planned batch.
pub(crate) struct PlannedBatch<B> {
    pub(crate) transactions: B,
    /// By block and partition, the units in commit order; none of deferred blocks.
    units: Vec<Vec<Vec<Unit>>>,
    /// By block, the units that wait for their partition, in commit order; none unless the block is deferred.
    pub(crate) waiting: Vec<Vec<WaitingUnit>>,
    /// By block, the partitions of these units, once they are assigned.
    assigned: Vec<OnceLock<Assigned>>,
    /// By block and partition, the tapes that its units have sent.
    pub(crate) tapes: Vec<Vec<OnceLock<Vec<Tape>>>>,
    /// By block and partition, the writes of each unit; none for writes by value, which are not checked.
    pub(crate) written: Vec<Vec<OnceLock<Vec<Written>>>>,
    /// The partitions of the units of all pieces that send something.
    partitions: Vec<u8>,
    /// By block that sends something, and transaction: its range of `partitions`.
    ranges: Vec<Vec<Range<u32>>>,
    pub(crate) arguments: Arguments,
}

/// A unit of a deferred block.
pub(crate) struct WaitingUnit {
    pub(crate) unit: Unit,
    /// The hash of a write's key; `None` for a piece, whose key is not known yet.
    pub(crate) key: Option<u64>,
}

/// The units of a deferred block, in partitions.
#[derive(Default)]
pub(crate) struct Assigned {
    /// By partition, in commit order.
    pub(crate) units: Vec<Vec<Unit>>,
    /// By transaction, the partition of its piece.
    pub(crate) partitions: Vec<u8>,
}

impl<B> PlannedBatch<B> {
    /// Returns the units of a block, by partition.
    ///
    /// # Panics
    /// The block is deferred, and its units are not assigned yet.
    pub(crate) fn units(&self, block: usize) -> &[Vec<Unit>] {
        match self.assigned[block].get() {
            Some(assigned) => &assigned.units,
            None => {
                assert!(self.waiting[block].is_empty(), "a deferred block is assigned before it runs");
                &self.units[block]
            }
        }
    }

    /// Sets the partitions of the units of a deferred block. Called once.
    pub(crate) fn set_assigned(&self, block: usize, assigned: Assigned) {
        let is_first = self.assigned[block].set(assigned).is_ok();
        assert!(is_first, "the units of a block are assigned once");
    }

    /// Begins to receive the results of a transaction that are on a tape. The units that send them have run.
    pub(crate) fn received(&self, source: &TapeSource, transaction: u32) -> Received<'_> {
        let units = self.partitions_of(source.block, transaction);
        let tapes = &self.tapes[source.block];
        let have_run = units.iter().all(|partition| tapes[usize::from(*partition)].get().is_some());
        debug_assert!(
            have_run,
            "a piece is assigned, and runs, only after the pieces whose results it receives"
        );
        Received::from_tapes(tapes, units, source.tape, transaction)
    }

    /// Returns the partitions of the units of a transaction's piece of a block, in their order.
    fn partitions_of(&self, block: usize, transaction: u32) -> &[u8] {
        if let Some(assigned) = self.assigned[block].get() {
            return std::slice::from_ref(&assigned.partitions[transaction as usize]);
        }
        let Some(range) = self.ranges[block].get(transaction as usize) else { return &[] };
        &self.partitions[range.start as usize..range.end as usize]
    }
}

/// The buffers of planning, kept from one batch to the next.
#[derive(Default)]
pub(crate) struct Planner {
    pub(crate) machine: Machine,
    pub(crate) witnesses: WitnessValues,
    key: Vec<u8>,
    pub(crate) hashes: Vec<u64>,
    /// By block of the batch that is planned.
    connected: BTreeMap<usize, Connected>,
    arena: Arena,
    row: Vec<Datum>,
    changed: Vec<usize>,
}

impl Programs {
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
            waiting: partitions().map(|_| Vec::new()).collect(),
            assigned: partitions().map(|_| OnceLock::new()).collect(),
            units: partitions().map(|count| vec![Vec::new(); count]).collect(),
            tapes: partitions().map(|count| (0..count).map(|_| OnceLock::new()).collect()).collect(),
            written: partitions().map(|count| (0..count).map(|_| OnceLock::new()).collect()).collect(),
            partitions: Vec::new(),
            ranges: (0..self.partitions.len()).map(ranges).collect(),
            arguments: Arguments::of(count),
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
        let PlannedBatch {
            transactions: (),
            units,
            waiting,
            assigned,
            tapes,
            written,
            partitions,
            ranges,
            arguments,
        } = planned;
        Ok(PlannedBatch {
            transactions,
            units,
            waiting,
            assigned,
            tapes,
            written,
            partitions,
            ranges,
            arguments,
        })
    }

    /// Gives units that share keys, directly or through other units, one partition.
    fn place_connected(&self, planned: &mut PlannedBatch<()>, planner: &mut Planner) {
        for (block, connected) in &mut planner.connected {
            let count = self.partitions[*block].count;
            std::mem::take(connected).for_each(count, |unit, partition| {
                planned.units[*block][partition].push(unit);
                if let Some(range) = planned.ranges[*block].get_mut(unit.transaction as usize) {
                    let start = planned.partitions.len() as u32;
                    planned.partitions.push(partition as u8);
                    *range = start..start + 1;
                }
            });
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
        let has_several = pieces.len() > 1;
        if has_several || pieces.iter().any(|piece| self.partitions[piece.block].count > 1) {
            let end = self.load_for_planning(call, planner)?;
            if has_several {
                let inputs = &self.pieces.programs[call.program].inputs;
                planned.arguments.keep(transaction, inputs, end, &planner.machine);
            }
        }
        for piece in pieces {
            let block = piece.block;
            let Partitions { count, cut, is_deferred } = self.partitions[block];
            if is_deferred {
                let unit = Unit { transaction, index: 0 };
                planned.waiting[block].push(WaitingUnit { unit, key: None });
                continue;
            }
            let start = planned.partitions.len() as u32;
            let mut place = |index: u32, partition: usize| {
                planned.units[block][partition].push(Unit { transaction, index });
                planned.partitions.push(partition as u8);
            };
            match (cut, &piece.rounds) {
                (Cut::Keys, _) => {
                    let hashes = planner.hashes_of(&piece.keys);
                    let unit = Unit { transaction, index: 0 };
                    planner.connected.entry(block).or_default().add(unit, &hashes);
                    planner.hashes = hashes;
                    continue;
                }
                (Cut::Pieces, _) if count == 1 => place(0, 0),
                (Cut::Pieces, _) => place(0, planner.partition_of(&piece.partition, count)),
                (Cut::Received, _) => place(0, planner.partition_of(&piece.received_partition, count)),
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

    /// Puts a call's arguments, and the witness values that keys follow from, into the registers of the
    /// planner. Returns where the arguments end in the record, if that was reached.
    pub(crate) fn load_for_planning(
        &self,
        call: Call<'_>,
        planner: &mut Planner,
    ) -> Result<Option<usize>, Divergence> {
        self.load_with(call, self.pieces.key_witnesses(call.program), planner)
    }

    /// Puts a call's arguments, and the values of some witnesses, into the registers of the planner. Returns
    /// where the arguments end in the record, if that was reached.
    pub(crate) fn load_with(
        &self,
        call: Call<'_>,
        known: &[KeyWitness],
        planner: &mut Planner,
    ) -> Result<Option<usize>, Divergence> {
        let inputs = &self.pieces.programs[call.program].inputs;
        let Planner { machine, witnesses, .. } = planner;
        let end = self.load_inputs(call, inputs, machine, (!known.is_empty()).then_some(&mut *witnesses))?;
        known.iter().for_each(|witness| witness.load(witnesses, machine));
        Ok(end)
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
            let Partitions { count, cut, is_deferred } = self.partitions[block];
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
                    Cut::Received => &of_table.received_columns,
                    Cut::Rounds => &of_table.round_columns,
                    Cut::Keys => &of_table.key_columns,
                };
                begin_key(cut, table, key);
                for column in columns {
                    table.write_canonical_column(*column, row[*column], arena, key);
                }
                let hash = xxh3_64(key);
                if is_deferred {
                    planned.waiting[block].push(WaitingUnit { unit, key: Some(hash) });
                    continue;
                }
                if cut == Cut::Keys {
                    planner.connected.entry(block).or_default().add(unit, &[hash]);
                    continue;
                }
                partition = partition_of_hash(hash, count);
            }
            planned.units[block][partition].push(unit);
        }
        Ok(())
    }
}

/// Units of a block, and the keys that they share.
#[derive(Default)]
pub(crate) struct Connected {
    /// By hash of a key, its node in the sets.
    nodes: HashMap<u64, usize>,
    /// Keys that are connected.
    sets: UnionFind<usize>,
    /// The units in commit order, each with the node of one of its keys.
    units: Vec<ConnectedUnit>,
}

/// A unit, with the node of one of its keys.
struct ConnectedUnit {
    unit: Unit,
    node: Option<usize>,
}

impl Connected {
    /// Adds a unit with the hashes of its keys.
    pub(crate) fn add(&mut self, unit: Unit, keys: &[u64]) {
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
        self.units.push(ConnectedUnit { unit, node: first });
    }

    /// Visits the units in commit order, each with its partition: one for all units that share keys, directly
    /// or through other units.
    pub(crate) fn for_each(mut self, count: usize, mut visit: impl FnMut(Unit, usize)) {
        for ConnectedUnit { unit, node } in self.units {
            visit(unit, node.map_or(0, |node| self.sets.find_mut(node) % count));
        }
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
    /// Returns the hashes of the keys of a piece whose arguments are in the registers. A key that cannot be
    /// computed belongs to an operation that never ran. The caller gives the buffer back to `hashes`.
    pub(crate) fn hashes_of(&mut self, keys: &[Vec<PartitionValue>]) -> Vec<u64> {
        let mut hashes = std::mem::take(&mut self.hashes);
        hashes.clear();
        for values in keys {
            let Some(first) = values.first() else { continue };
            begin_key(Cut::Keys, &first.table, &mut self.key);
            if self.write_key(values) {
                hashes.push(xxh3_64(&self.key));
            }
        }
        hashes
    }

    /// Returns the partition of a piece, or of a round, whose arguments are in the registers. A key that
    /// cannot be computed belongs to an operation that never ran, so any partition will do.
    pub(crate) fn partition_of(&mut self, values: &[PartitionValue], count: usize) -> usize {
        self.key.clear();
        if self.write_key(values) { partition_of_hash(xxh3_64(&self.key), count) } else { 0 }
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

/// Returns the partition of a key with this hash.
pub(crate) fn partition_of_hash(hash: u64, count: usize) -> usize {
    hash as usize % count
}
