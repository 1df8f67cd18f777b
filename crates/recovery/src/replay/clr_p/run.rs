//! Runs what is planned: the units of a partition, in commit order.

use super::access::Direct;
use super::plan::{Batch, Logged, Unit};
use super::tape::{PieceTapes, Received, Tape};
use super::{PieceFacts, Segment, WitnessSource};
use crate::RecoveryError;
use crate::replay::divergence::{ReplayedCall, in_words};
use crate::replay::unfit;
use crate::replay::values::ValueWriter;
use catalog::{CommitOrder, Written};
use logging::content::{CallRecord, Write, WritesRecord};
use procedure::{DataAccess as _, Machine, WitnessValues, announce_piece, execute_piece};
use storage::Worker;
use transaction::Tables;

/// The rows of this many units are looked up at once, so that their cache misses overlap.
const GROUP: usize = 16;
/// Memory is given back after this many groups.
const RECLAIM_EVERY: usize = 16;

/// The registers of one unit of a group.
#[derive(Default)]
struct Slot {
    machine: Machine,
    witnesses: WitnessValues,
}

/// What one thread works with.
pub(super) struct Replayer {
    pub(super) data: Direct,
    slots: Vec<Slot>,
    writer: ValueWriter,
}

/// One partition of a block, of a batch, while it runs.
struct Running<'b, 'l> {
    batch: &'b Batch<'l>,
    block: usize,
    sent: Vec<Tape>,
    received: Vec<Option<Received<'b>>>,
    /// The rows that each unit so far wrote.
    written: Vec<Written>,
}

impl Replayer {
    pub(super) fn new(tables: &Tables) -> Result<Self, RecoveryError> {
        let worker =
            Worker::new(tables.epochs.clone(), tables.memory.clone()).ok_or(RecoveryError::NoWorker)?;
        let slots = std::iter::repeat_with(Slot::default).take(GROUP).collect();
        Ok(Self { data: Direct::new(tables.clone(), worker), slots, writer: ValueWriter::default() })
    }
}

impl Segment<'_, '_> {
    /// Runs the units of a partition.
    pub(super) fn run(
        &self,
        batch: &Batch<'_>,
        block: usize,
        partition: usize,
        replayer: &mut Replayer,
    ) -> Result<(), RecoveryError> {
        let sent = std::iter::repeat_with(Tape::default).take(self.tape_counts[block]).collect();
        let mut rest = batch.units[block][partition].as_slice();
        let written = Vec::with_capacity(rest.len());
        let mut running = Running { batch, block, sent, received: Vec::new(), written };
        while !rest.is_empty() {
            replayer.data.stay();
            let mut groups = 0;
            while !rest.is_empty() && groups < RECLAIM_EVERY {
                let (group, behind) = rest.split_at(running.group_length(rest));
                self.run_group(&mut running, group, replayer)?;
                rest = behind;
                groups += 1;
            }
            replayer.data.leave();
        }
        let _ = batch.sent[block][partition].set(running.sent);
        let _ = batch.written[block][partition].set(running.written);
        Ok(())
    }

    fn run_group(
        &self,
        running: &mut Running<'_, '_>,
        group: &[Unit],
        replayer: &mut Replayer,
    ) -> Result<(), RecoveryError> {
        let Replayer { data, slots, writer } = replayer;
        data.expect_nothing();
        let mut slot = 0;
        for (place, unit) in group.iter().enumerate() {
            let transaction = &running.batch.transactions[unit.transaction as usize];
            match &transaction.logged {
                Logged::Call { program, call } => {
                    // Rounds of one call share its arguments: nothing else goes from one to the next.
                    let shares = place > 0 && group[place - 1].transaction == unit.transaction;
                    slot = if shares { slot } else { place };
                    let call = (transaction.order, *program, call);
                    self.prepare(call, running.block, *unit, shares, &mut slots[slot], data)?;
                }
                Logged::Writes(writes) => {
                    let write = writes.write_at(unit.part as usize);
                    let announced = write.and_then(|write| writer.announce(&write, self.tables, data));
                    announced.ok_or_else(|| unfit(transaction.order))?;
                }
            }
        }
        data.load_expected();
        let (mut place, mut slot) = (0, 0);
        while let Some(unit) = group.get(place).copied() {
            let shares = place > 0 && group[place - 1].transaction == unit.transaction;
            slot = if shares { slot } else { place };
            let transaction = &running.batch.transactions[unit.transaction as usize];
            data.order = transaction.order;
            match &transaction.logged {
                Logged::Call { program, call } => {
                    let call = (transaction.order, *program, call);
                    let written = self.run_piece(running, call, unit, &mut slots[slot], data)?;
                    running.written.push(written);
                    place += 1;
                }
                Logged::Writes(writes) => {
                    let rest = &group[place..];
                    let count = rest.iter().take_while(|own| own.transaction == unit.transaction).count();
                    let own = writes_at(*writes, &rest[..count]).ok_or_else(|| unfit(transaction.order))?;
                    writer.write(transaction.order, &own, self.tables, data)?;
                    running.written.extend(std::iter::repeat_n(Written::default(), count));
                    place += count;
                }
            }
        }
        Ok(())
    }

    /// Loads the registers of a unit, and announces the rows that it will look for.
    fn prepare(
        &self,
        call: (CommitOrder, usize, &CallRecord<'_>),
        block: usize,
        unit: Unit,
        is_loaded: bool,
        slot: &mut Slot,
        data: &mut Direct,
    ) -> Result<(), RecoveryError> {
        let program = call.1;
        let own = self.part_of(program, block);
        let Slot { machine, witnesses } = slot;
        if !is_loaded {
            self.load_inputs(call, &own.piece.inputs, !own.witnesses.is_empty(), machine, witnesses)?;
        }
        own.begin_round(unit, machine);
        if own.announces {
            announce_piece(self.pieces.code(program, own.piece, own.rounds.is_some()), machine, data);
        }
        Ok(())
    }

    /// Runs a unit of a call; returns what it has written.
    fn run_piece<'b>(
        &self,
        running: &mut Running<'b, '_>,
        (order, program, record): (CommitOrder, usize, &CallRecord<'_>),
        unit: Unit,
        slot: &mut Slot,
        data: &mut Direct,
    ) -> Result<Written, RecoveryError> {
        let Running { batch, block, sent, received, .. } = running;
        let call = || ReplayedCall { order, procedure: self.procedures[program], record };
        let own = self.part_of(program, *block);
        own.begin_round(unit, &mut slot.machine);
        let operations = &self.pieces.programs[program].operations;
        received.resize_with(operations.len(), || None);
        for source in &own.receives {
            let place = source.operation.0 as usize;
            received[place] = Some(Received::from_tapes(batch, source.block, source.tape, unit.transaction));
        }
        for witness in &own.witnesses {
            let (start, _) = own.witness_range(witness, unit, &slot.witnesses);
            received[witness.operation.0 as usize] = Some(Received::from_witness(start));
        }
        let numbers = &self.tapes[program];
        let mut tapes = PieceTapes {
            unit,
            piece: own.piece,
            numbers,
            sent,
            received,
            witnesses: &slot.witnesses,
            broken: false,
        };
        let code = self.pieces.code(program, own.piece, own.rounds.is_some());
        let before = slot.machine.written();
        let run = execute_piece(code, &mut slot.machine, data, &mut tapes);
        let broken = tapes.broken;
        run.map_err(|failure| call().failed(operations, slot.machine.failed_at(), &failure))?;
        if broken {
            return Err(call().diverged(&"a piece needs what no piece before it has found"));
        }
        for witness in &own.witnesses {
            let (_, end) = own.witness_range(witness, unit, &slot.witnesses);
            let place = witness.operation.0 as usize;
            if received[place].as_ref().is_some_and(|received| !received.has_taken(end)) {
                let operation = in_words(&operations[place]);
                let error = "it made a read less often than its record says; operation: ";
                return Err(call().diverged(&format!("{error}{operation}")));
            }
        }
        Ok(slot.machine.written() - before)
    }
}

impl PieceFacts<'_> {
    /// Where the values of a witness that a unit takes begin and end.
    fn witness_range(&self, witness: &WitnessSource, unit: Unit, values: &WitnessValues) -> (usize, usize) {
        let start = values.start(witness.place) + unit.part as usize * witness.values;
        let end = if self.rounds.is_some() { start + witness.values } else { values.end(witness.place) };
        (start, end)
    }

    /// Sets the variable of the loop whose round a unit is.
    fn begin_round(&self, unit: Unit, machine: &mut Machine) {
        if let Some(rounds) = self.rounds {
            let value = rounds.value(unit.part, machine);
            machine.set(rounds.variable, value);
        }
    }
}

impl Running<'_, '_> {
    /// How many of the units that are left run as a group: all writes of one transaction do.
    fn group_length(&self, units: &[Unit]) -> usize {
        let mut length = units.len().min(GROUP);
        while length < units.len() && units[length - 1].transaction == units[length].transaction {
            let transaction = &self.batch.transactions[units[length].transaction as usize];
            if let Logged::Call { .. } = transaction.logged {
                break;
            }
            length += 1;
        }
        length
    }
}

fn writes_at<'l>(writes: WritesRecord<'l>, units: &[Unit]) -> Option<Vec<Write<'l>>> {
    units.iter().map(|unit| writes.write_at(unit.part as usize)).collect()
}
