//! Runs the units of a partition, in commit order.

use crate::arguments::Arguments;
use crate::divergence::{Divergence, RecordedCall, in_words, malformed_writes};
use crate::plan::PlannedBatch;
use crate::programs::{Call, PieceFacts, Programs, WitnessSource};
use crate::readiness::PartitionId;
use crate::tape::{PieceTapes, Received, Tape};
use crate::unit::Unit;
use crate::{Batch, Body, Transaction, ValueWriter};
use catalog::{CommitOrder, Written};
use logging::content::{Write, WritesRecord};
use procedure::{DataAccess, LookAhead, Machine, SqlError, WitnessValues, announce_piece, execute_piece};

/// The rows of this many units are looked up at once, so that their cache misses overlap.
pub(crate) const GROUP: usize = 16;
/// Memory is given back after this many groups.
pub(crate) const RECLAIM_EVERY: usize = 16;

/// How one thread reads and writes rows.
pub trait Access: DataAccess + LookAhead {
    /// Begins to run units. Rows that are found stay valid until `leave`.
    fn stay(&mut self);

    /// Ends running units, and may give memory back.
    fn leave(&mut self);

    /// Says to which transaction the next operations belong.
    fn begin(&mut self, order: CommitOrder);

    /// Returns why the last operation that failed could not reach its rows, if that was the reason. A unit
    /// that has written nothing may then be tried again.
    fn take_unreachable(&mut self) -> Option<SqlError> {
        None
    }
}

/// The registers of one unit of a group.
#[derive(Default)]
pub(crate) struct Lane {
    pub(crate) machine: Machine,
    pub(crate) witnesses: WitnessValues,
}

/// What a unit receives, by operation, and the tapes of its block, on which it sends.
pub(crate) struct UnitTapes<'p, 't> {
    pub(crate) received: &'p mut [Option<Received<'t>>],
    pub(crate) sent: &'p mut [Tape],
}

/// What one thread runs units with.
pub(crate) struct Executor<A> {
    access: A,
    lanes: Vec<Lane>,
    writer: ValueWriter,
}

/// Units of a block that run one after the other.
pub(crate) struct Group<'b, B> {
    pub(crate) transactions: &'b B,
    /// The arguments of some of these transactions.
    pub(crate) arguments: &'b Arguments,
    pub(crate) block: usize,
    pub(crate) units: &'b [Unit],
}

/// One partition of a block, of a batch, while it runs.
struct Running<'b, B> {
    batch: &'b PlannedBatch<B>,
    block: usize,
    sent: Vec<Tape>,
    received: Vec<Option<Received<'b>>>,
    /// The writes of each unit so far.
    written: Vec<Written>,
}

impl<A: Access> Executor<A> {
    pub(crate) fn new(access: A) -> Self {
        let lanes = std::iter::repeat_with(Lane::default).take(GROUP).collect();
        Self { access, lanes, writer: ValueWriter::default() }
    }
}

impl Programs {
    /// Runs the units of a partition.
    pub(crate) fn run_partition<B: Batch, A: Access>(
        &self,
        batch: &PlannedBatch<B>,
        id: PartitionId,
        executor: &mut Executor<A>,
    ) -> Result<(), Divergence> {
        let PartitionId { block, partition, .. } = id;
        let sent = std::iter::repeat_with(Tape::default).take(self.tape_counts[block]).collect();
        let mut left = batch.units(block)[partition].as_slice();
        let written = Vec::with_capacity(left.len());
        let mut running = Running { batch, block, sent, received: Vec::new(), written };
        while !left.is_empty() {
            executor.access.stay();
            let mut groups = 0;
            while !left.is_empty() && groups < RECLAIM_EVERY {
                let (group, behind) = left.split_at(running.group_length(left));
                self.run_group(&mut running, group, executor)?;
                left = behind;
                groups += 1;
            }
            executor.access.leave();
        }
        let _ = batch.tapes[block][partition].set(running.sent);
        let _ = batch.written[block][partition].set(running.written);
        Ok(())
    }

    fn run_group<B: Batch, A: Access>(
        &self,
        running: &mut Running<'_, B>,
        group: &[Unit],
        executor: &mut Executor<A>,
    ) -> Result<(), Divergence> {
        let Executor { access, lanes, writer } = executor;
        let (transactions, arguments) = (&running.batch.transactions, &running.batch.arguments);
        let announced = Group { transactions, arguments, block: running.block, units: group };
        self.announce_group(&announced, lanes, writer, access)?;
        let (mut index, mut lane) = (0, 0);
        while let Some(unit) = group.get(index).copied() {
            lane = if shares_lane(group, index) { lane } else { index };
            let transaction = running.batch.transactions.get(unit.transaction as usize);
            let order = transaction.order;
            access.begin(order);
            match transaction.body {
                Body::Call { program, record } => {
                    let call = Call { order, program, record: &record };
                    let written = self.run_piece(running, call, unit, &mut lanes[lane], access)?;
                    running.written.push(written);
                    index += 1;
                }
                Body::Writes(writes) => {
                    let left = &group[index..];
                    let count = left.iter().take_while(|next| next.transaction == unit.transaction).count();
                    let of_units =
                        writes_at(writes, &left[..count]).ok_or_else(|| malformed_writes(order))?;
                    writer.write(order, &of_units, &self.definitions, access)?;
                    running.written.extend(std::iter::repeat_n(Written::default(), count));
                    index += count;
                }
            }
        }
        Ok(())
    }

    /// Loads the registers of the units of a group, and begins to load the rows that they will look for.
    pub(crate) fn announce_group<B: Batch, A: Access>(
        &self,
        group: &Group<'_, B>,
        lanes: &mut [Lane],
        writer: &mut ValueWriter,
        access: &mut A,
    ) -> Result<(), Divergence> {
        let Group { transactions, arguments, block, units } = *group;
        access.expect_nothing();
        let mut lane = 0;
        for (index, unit) in units.iter().enumerate() {
            let Transaction { order, body } = transactions.get(unit.transaction as usize);
            match body {
                Body::Call { program, record } => {
                    let is_loaded = shares_lane(units, index);
                    lane = if is_loaded { lane } else { index };
                    let call = Call { order, program, record: &record };
                    let facts = self.facts(program, block);
                    if !is_loaded {
                        self.load_unit(arguments, unit.transaction, call, facts, &mut lanes[lane])?;
                    }
                    let machine = &mut lanes[lane].machine;
                    facts.begin_round(*unit, machine);
                    if facts.announces {
                        let code = self.pieces.code(program, &facts.piece, facts.is_in_rounds);
                        announce_piece(code, machine, access);
                    }
                }
                Body::Writes(writes) => {
                    let write = writes.write_at(unit.index as usize);
                    let announced =
                        write.and_then(|write| writer.announce(&write, &self.definitions, access));
                    announced.ok_or_else(|| malformed_writes(order))?;
                }
            }
        }
        access.load_expected();
        Ok(())
    }

    /// Loads the registers of a piece, from the arguments of its batch if they are there.
    fn load_unit(
        &self,
        arguments: &Arguments,
        transaction: u32,
        call: Call<'_>,
        facts: &PieceFacts,
        lane: &mut Lane,
    ) -> Result<(), Divergence> {
        let end = arguments.end(transaction);
        if facts.witnesses.is_empty() || end.is_some() {
            self.begin_piece(call, &mut lane.machine);
            if arguments.load(transaction, &facts.inputs, &mut lane.machine) {
                return match end.filter(|_| !facts.witnesses.is_empty()) {
                    Some(end) => self.read_witnesses(call, end, &mut lane.witnesses),
                    None => Ok(()),
                };
            }
        }
        self.load_piece(call, facts, lane)
    }

    /// Loads the registers of a piece.
    pub(crate) fn load_piece(
        &self,
        call: Call<'_>,
        facts: &PieceFacts,
        lane: &mut Lane,
    ) -> Result<(), Divergence> {
        let Lane { machine, witnesses } = lane;
        let witnesses = (!facts.witnesses.is_empty()).then_some(witnesses);
        self.load_inputs(call, &facts.piece.inputs, machine, witnesses).map(|_| ())
    }

    /// Runs a unit of a call; returns its writes.
    fn run_piece<'b, B: Batch, A: Access>(
        &self,
        running: &mut Running<'b, B>,
        call: Call<'_>,
        unit: Unit,
        lane: &mut Lane,
        access: &mut A,
    ) -> Result<Written, Divergence> {
        let Running { batch, block, sent, received, .. } = running;
        let facts = self.facts(call.program, *block);
        received.resize_with(self.pieces.programs[call.program].operations.len(), || None);
        for source in &facts.receives {
            let batch: &'b PlannedBatch<B> = batch;
            received[source.operation.0 as usize] = Some(batch.received(source, unit.transaction));
        }
        self.execute_unit(call, facts, unit, lane, UnitTapes { received, sent }, access)
    }

    /// Executes a unit of a call, whose registers are loaded, with what it receives on tapes; returns its
    /// writes.
    pub(crate) fn execute_unit<A: Access>(
        &self,
        call: Call<'_>,
        facts: &PieceFacts,
        unit: Unit,
        lane: &mut Lane,
        tapes: UnitTapes<'_, '_>,
        access: &mut A,
    ) -> Result<Written, Divergence> {
        let Call { order, program, record } = call;
        let call = || RecordedCall { order, procedure: &self.procedures[program], record };
        let UnitTapes { received, sent } = tapes;
        let operations = &self.pieces.programs[program].operations;
        facts.begin_round(unit, &mut lane.machine);
        for witness in &facts.witnesses {
            let (start, _) = facts.witness_range(witness, unit, &lane.witnesses);
            received[witness.operation.0 as usize] = Some(Received::from_witness(start));
        }
        let numbers = &self.tapes[program];
        let (piece, witnesses) = (&*facts.piece, &lane.witnesses);
        let mut tapes = PieceTapes { unit, piece, numbers, sent, received, witnesses, is_broken: false };
        let code = self.pieces.code(program, piece, facts.is_in_rounds);
        let before = lane.machine.written();
        let executed = execute_piece(code, &mut lane.machine, access, &mut tapes);
        let is_broken = tapes.is_broken;
        executed.map_err(|failure| call().failed(operations, lane.machine.failed_at(), &failure))?;
        if is_broken {
            return Err(call().diverged(&"a piece needs a result that no earlier piece has sent"));
        }
        for witness in &facts.witnesses {
            let (_, end) = facts.witness_range(witness, unit, &lane.witnesses);
            let index = witness.operation.0 as usize;
            if received[index].as_ref().is_some_and(|received| !received.has_taken(end)) {
                let operation = in_words(&operations[index]);
                let error = "it made a read less often than its record says; operation: ";
                return Err(call().diverged(&format!("{error}{operation}")));
            }
        }
        Ok(lane.machine.written() - before)
    }
}

/// Returns whether a unit runs in the lane of the unit before it. The rounds of one call share its arguments,
/// and nothing else goes from one round to the next.
pub(crate) fn shares_lane(group: &[Unit], index: usize) -> bool {
    index > 0 && group[index - 1].transaction == group[index].transaction
}

fn writes_at<'l>(writes: WritesRecord<'l>, units: &[Unit]) -> Option<Vec<Write<'l>>> {
    units.iter().map(|unit| writes.write_at(unit.index as usize)).collect()
}

impl PieceFacts {
    /// Returns the indexes of the first witness value that a unit takes, and of the value behind its last.
    fn witness_range(&self, witness: &WitnessSource, unit: Unit, values: &WitnessValues) -> (usize, usize) {
        let start = values.start(witness.index) + unit.index as usize * witness.values;
        let end = if self.is_in_rounds { start + witness.values } else { values.end(witness.index) };
        (start, end)
    }

    /// Sets the loop variable of a unit that is a round.
    pub(crate) fn begin_round(&self, unit: Unit, machine: &mut Machine) {
        if let Some(rounds) = self.piece.rounds.as_ref().filter(|_| self.is_in_rounds) {
            let value = rounds.value(unit.index, machine);
            machine.set(rounds.variable, value);
        }
    }
}

impl<B: Batch> Running<'_, B> {
    /// Returns how many of the units that are left run as one group. All writes of one transaction do.
    fn group_length(&self, units: &[Unit]) -> usize {
        let mut length = units.len().min(GROUP);
        while length < units.len() && units[length - 1].transaction == units[length].transaction {
            let transaction = self.batch.transactions.get(units[length].transaction as usize);
            if let Body::Call { .. } = transaction.body {
                break;
            }
            length += 1;
        }
        length
    }
}
