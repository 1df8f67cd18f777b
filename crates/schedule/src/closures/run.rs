//! Runs units, each after those before it.

use super::reserve::{Reserver, units_of};
use super::{Closures, DONE, FAILED, RUNNING, WAITING};
use crate::divergence::{Divergence, RecordedCall, malformed_writes};
use crate::programs::{Call, Programs};
use crate::run::{Access, Lane, UnitTapes};
use crate::tape::{Received, Tape};
use crate::unit::Unit;
use crate::{Batch, Body, Transaction, ValueWriter};
use catalog::{CommitOrder, Written};
use logging::content::WritesRecord;
use procedure::{Interrupts, SqlError, announce_piece};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thiserror::Error;

/// Shards of what units have sent.
const SHARDS: usize = 64;
/// A thread gives memory back after this many units.
const RECLAIM_EVERY: u32 = 256;
/// The rows of this many units of a transaction are looked up at once, so that their cache misses overlap.
const AHEAD: usize = 16;
/// No unit.
const NONE: u32 = u32::MAX;
/// A thread that waits for a unit lets other threads run after this many looks.
const LOOKS: u32 = 64;

/// The reason why units cannot run.
#[derive(Clone, Debug, Error)]
pub enum ClosureError {
    /// The execution of a transaction differs from its record, or its rows could not be reached when it had
    /// written some of them.
    #[error(transparent)]
    Diverged(#[from] Divergence),
    /// Rows could not be reached, or the wait was interrupted. A further try may succeed.
    #[error("{0}")]
    Unreachable(SqlError),
}

impl From<SqlError> for ClosureError {
    fn from(error: SqlError) -> Self {
        Self::Unreachable(error)
    }
}

/// What one thread runs units with.
pub struct Runner<A> {
    access: A,
    reserver: Reserver,
    lane: Lane,
    writer: ValueWriter,
    /// The units that are to run, the next one last.
    stack: Vec<u32>,
    /// The transaction of the last unit.
    transaction: u32,
    /// Number of units since memory was given back.
    ran: u32,
    /// Units of one transaction whose registers are loaded, and whose rows are looked up ahead; `NONE` where
    /// a lane is free.
    ahead: Vec<(u32, Lane)>,
}

impl<A: Access> Runner<A> {
    /// Runs units through an access.
    pub fn new(access: A) -> Self {
        let (reserver, lane, writer) = (Reserver::default(), Lane::default(), ValueWriter::default());
        let stack = Vec::new();
        let ahead = (0..AHEAD).map(|_| (NONE, Lane::default())).collect();
        Self { access, reserver, lane, writer, stack, transaction: 0, ran: 0, ahead }
    }
}

/// What the units of transactions have sent, and what they have written so far.
#[derive(Debug)]
pub(super) struct Sent {
    shards: Vec<Mutex<HashMap<u32, Begun>>>,
}

/// A transaction of which some units have run.
#[derive(Debug, Default)]
struct Begun {
    /// Number of units that have run.
    units: u32,
    written: Written,
    /// The tapes of units that have sent something: block, number of the round, tapes.
    tapes: Vec<(usize, u32, Arc<Vec<Tape>>)>,
}

impl Default for Sent {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

impl Sent {
    fn shard(&self, transaction: u32) -> MutexGuard<'_, HashMap<u32, Begun>> {
        let shard = &self.shards[transaction as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the tapes of the units of a transaction's piece of a block, in the order of the units.
    fn tapes(&self, transaction: u32, block: usize) -> Vec<Arc<Vec<Tape>>> {
        let shard = self.shard(transaction);
        let tapes = shard.get(&transaction).into_iter().flat_map(|begun| &begun.tapes);
        let mut own: Vec<_> = tapes.filter(|(of, ..)| *of == block).collect();
        own.sort_by_key(|(_, round, _)| *round);
        own.into_iter().map(|(.., tapes)| Arc::clone(tapes)).collect()
    }

    /// Notes that a unit has run. Returns the writes of its transaction if that was the last of its units.
    fn ran(
        &self,
        transaction: u32,
        of: u32,
        written: Written,
        tapes: Option<(usize, u32, Vec<Tape>)>,
    ) -> Option<Written> {
        if of == 1 {
            return Some(written);
        }
        let mut shard = self.shard(transaction);
        let begun = shard.entry(transaction).or_default();
        begun.units += 1;
        begun.written += written;
        begun.tapes.extend(tapes.map(|(block, round, tapes)| (block, round, Arc::new(tapes))));
        if begun.units < of {
            return None;
        }
        shard.remove(&transaction).map(|begun| begun.written)
    }
}

/// A unit of a transaction.
struct Place {
    unit: u32,
    transaction: u32,
    /// The position of its piece among those of the call; 0 for writes by value.
    piece: usize,
    /// The number of its round.
    round: u32,
}

impl<B: Batch> Closures<B> {
    /// Returns the transaction of a unit. `near` is the one of the last unit.
    fn transaction_of(&self, unit: u32, near: u32) -> u32 {
        for near in [near, near + 1] {
            let range = self.firsts.get(near as usize).zip(self.firsts.get(near as usize + 1));
            if range.is_some_and(|(first, end)| (*first..*end).contains(&unit)) {
                return near;
            }
        }
        self.firsts.partition_point(|first| *first <= unit) as u32 - 1
    }

    /// Runs a unit and everything before it that is left.
    pub(super) fn run_closure<A: Access>(
        &self,
        unit: u32,
        runner: &mut Runner<A>,
        interrupts: &Interrupts,
    ) -> Result<(), ClosureError> {
        if self.is_unit_done(unit) {
            return Ok(());
        }
        runner.access.stay();
        let result = self.run_staying(unit, runner, interrupts);
        runner.access.leave();
        result
    }

    /// Runs the units of a transaction, with their rows looked up ahead.
    pub(super) fn run_transaction<A: Access>(
        &self,
        transaction: u32,
        runner: &mut Runner<A>,
    ) -> Result<(), ClosureError> {
        let units = self.firsts[transaction as usize]..self.firsts[transaction as usize + 1];
        if units.clone().all(|unit| self.is_unit_done(unit)) {
            return Ok(());
        }
        runner.access.stay();
        let announced = self.announce(transaction, runner);
        let no_interrupts = Interrupts::default();
        let run = |()| units.into_iter().try_for_each(|unit| self.run_staying(unit, runner, &no_interrupts));
        let result = announced.map_err(ClosureError::from).and_then(run);
        runner.access.leave();
        runner.ahead.iter_mut().for_each(|(unit, _)| *unit = NONE);
        result
    }

    /// Loads the registers of the units of a transaction that are left, and begins to load the rows that
    /// they will look for.
    fn announce<A: Access>(&self, transaction: u32, runner: &mut Runner<A>) -> Result<(), Divergence> {
        let Transaction { order, body } = self.transactions.get(transaction as usize);
        let Body::Call { program, record } = body else { return Ok(()) };
        let call = Call { order, program, record: &record };
        let Runner { access, reserver, ahead, .. } = runner;
        reserver.load(&self.programs, &self.reservations, transaction, call)?;
        access.expect_nothing();
        let (mut unit, mut lanes) = (self.firsts[transaction as usize], ahead.iter_mut());
        for piece in &self.programs.pieces.pieces[program] {
            let facts = self.programs.facts(program, piece.block);
            for index in 0..units_of(piece, &mut reserver.planner.machine) {
                unit += 1;
                if self.is_unit_done(unit - 1) {
                    continue;
                }
                let Some((of, lane)) = lanes.next() else { break };
                *of = unit - 1;
                self.programs.load_piece(call, facts, lane)?;
                if facts.announces {
                    facts.begin_round(Unit { transaction, index }, &mut lane.machine);
                    let code = self.programs.pieces.code(program, piece, facts.is_in_rounds);
                    announce_piece(code, &mut lane.machine, access);
                }
            }
        }
        access.load_expected();
        Ok(())
    }

    /// As `run_closure`, by a runner whose access stays.
    fn run_staying<A: Access>(
        &self,
        unit: u32,
        runner: &mut Runner<A>,
        interrupts: &Interrupts,
    ) -> Result<(), ClosureError> {
        runner.stack.clear();
        runner.stack.push(unit);
        while let Some(unit) = runner.stack.last().copied() {
            self.step(unit, runner, interrupts)?;
            if runner.ran >= RECLAIM_EVERY {
                runner.ran = 0;
                runner.access.leave();
                runner.access.stay();
            }
        }
        Ok(())
    }

    /// Runs the unit on top of the stack, waits for it, or puts what comes before it on top.
    fn step<A: Access>(
        &self,
        unit: u32,
        runner: &mut Runner<A>,
        interrupts: &Interrupts,
    ) -> Result<(), ClosureError> {
        let state = &self.states[unit as usize];
        match state.load(Ordering::Acquire) {
            DONE => {
                runner.stack.pop();
                return Ok(());
            }
            FAILED => return Err(self.failure()),
            RUNNING => return self.wait_for(unit, interrupts),
            _ => {}
        }
        interrupts.check()?;
        let transaction = self.transaction_of(unit, runner.transaction);
        runner.transaction = transaction;
        let Transaction { order, body } = self.transactions.get(transaction as usize);
        let above = runner.stack.len();
        let place = match body {
            Body::Call { program, record } => {
                self.find_before(unit, transaction, Call { order, program, record: &record }, runner)?
            }
            Body::Writes(writes) => {
                self.find_before_writes(unit, order, writes, runner)?;
                Place { unit, transaction, piece: 0, round: 0 }
            }
        };
        if runner.stack.len() > above {
            runner.stack[above..].sort_unstable_by(|a, b| b.cmp(a));
            return Ok(());
        }
        // ORDERING: Acquire pairs with the Release of a thread that tried it in vain.
        if state.compare_exchange(WAITING, RUNNING, Ordering::Acquire, Ordering::Acquire).is_err() {
            return Ok(());
        }
        let ran = match body {
            Body::Call { program, record } => {
                self.run_call(&place, Call { order, program, record: &record }, runner)
            }
            Body::Writes(writes) => self.run_writes(order, writes, runner),
        };
        runner.ran += 1;
        if let Err(error) = ran {
            let is_lasting = matches!(error, ClosureError::Diverged(_));
            if let ClosureError::Diverged(divergence) = &error {
                let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.get_or_insert_with(|| divergence.clone());
            }
            state.store(if is_lasting { FAILED } else { WAITING }, Ordering::Release);
            return Err(error);
        }
        // ORDERING: Release pairs with the Acquire of `is_unit_done` and `is_done`.
        state.store(DONE, Ordering::Release);
        self.left.fetch_sub(1, Ordering::Release);
        runner.stack.pop();
        Ok(())
    }

    fn failure(&self) -> ClosureError {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.clone().expect("a unit fails with its reason").into()
    }

    /// Waits until a unit that another thread runs has ended.
    fn wait_for(&self, unit: u32, interrupts: &Interrupts) -> Result<(), ClosureError> {
        let mut looks = 0;
        while self.states[unit as usize].load(Ordering::Acquire) == RUNNING {
            looks += 1;
            if looks < LOOKS {
                std::hint::spin_loop();
                continue;
            }
            interrupts.check()?;
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Puts the units before a unit of a call on top of the stack, as far as they are left. Returns the place
    /// of the unit.
    fn find_before<A: Access>(
        &self,
        unit: u32,
        transaction: u32,
        call: Call<'_>,
        runner: &mut Runner<A>,
    ) -> Result<Place, ClosureError> {
        let Runner { reserver, stack, .. } = runner;
        let pieces = &self.programs.pieces.pieces[call.program];
        reserver.load(&self.programs, &self.reservations, transaction, call)?;
        let mut first = self.firsts[transaction as usize];
        let mut ranges = Vec::with_capacity(pieces.len());
        let mut found = None;
        for (position, piece) in pieces.iter().enumerate() {
            let count = units_of(piece, &mut reserver.planner.machine);
            ranges.push((piece.block, first..first + count));
            if (first..first + count).contains(&unit) {
                found = Some((position, unit - first));
            }
            first += count;
        }
        let (position, round) = found.expect("a unit belongs to a piece");
        let piece = &pieces[position];
        for source in &self.programs.facts(call.program, piece.block).receives {
            let units = ranges.iter().filter(|(block, _)| *block == source.block);
            let units = units.flat_map(|(_, units)| units.clone());
            stack.extend(units.filter(|unit| !self.is_unit_done(*unit)));
        }
        let own = &self.reservations.units[call.program][position];
        reserver.visit_unit(piece, own, round, &self.indexes, |(index, node, of)| {
            self.nodes.before(index, node, of, unit, |unit| self.is_unit_done(unit), stack);
        });
        Ok(Place { unit, transaction, piece: position, round })
    }

    /// As `find_before`, for writes by value.
    fn find_before_writes<A: Access>(
        &self,
        unit: u32,
        order: CommitOrder,
        writes: WritesRecord<'_>,
        runner: &mut Runner<A>,
    ) -> Result<(), ClosureError> {
        let Runner { reserver, stack, .. } = runner;
        reserver.visit_writes(&self.programs, order, writes, &self.indexes, |(index, node, of)| {
            self.nodes.before(index, node, of, unit, |unit| self.is_unit_done(unit), stack);
        })?;
        Ok(())
    }

    fn run_call<A: Access>(
        &self,
        place: &Place,
        call: Call<'_>,
        runner: &mut Runner<A>,
    ) -> Result<(), ClosureError> {
        let Runner { access, lane, ahead, .. } = runner;
        let Call { order, program, .. } = call;
        let Place { unit, transaction, piece, round } = *place;
        let block = self.programs.pieces.pieces[program][piece].block;
        let facts = self.programs.facts(program, block);
        let operations = self.programs.pieces.programs[program].operations.len();
        let mut received: Vec<Option<Received<'_>>> = Vec::new();
        received.resize_with(operations, || None);
        for source in &facts.receives {
            let tapes = Received::from_units(self.sent.tapes(transaction, source.block), source.tape);
            received[source.operation.0 as usize] = Some(tapes);
        }
        let sends = !facts.piece.sends.is_empty();
        let tapes = if sends { self.programs.tape_counts[block] } else { 0 };
        let mut sent: Vec<Tape> = std::iter::repeat_with(Tape::default).take(tapes).collect();
        let lane = match ahead.iter_mut().find(|(of, _)| *of == unit) {
            Some((_, lane)) => lane,
            None => {
                self.programs.load_piece(call, facts, lane)?;
                lane
            }
        };
        access.begin(order);
        let unit = Unit { transaction, index: round };
        let before = lane.machine.written();
        let tapes = UnitTapes { received: &mut received, sent: &mut sent };
        let ran = self.programs.execute_unit(call, facts, unit, lane, tapes, access);
        let written = ran.map_err(|divergence| match access.take_unreachable() {
            Some(error) if lane.machine.written() == before => ClosureError::Unreachable(error),
            _ => ClosureError::Diverged(divergence),
        })?;
        let first = self.firsts[transaction as usize];
        let units = self.firsts[transaction as usize + 1] - first;
        let tapes = sends.then_some((block, round, sent));
        match (self.sent.ran(transaction, units, written, tapes), call.record.written) {
            (Some(written), Some(recorded)) if written != recorded => {
                Err(self.programs.writes_differ(call, written).into())
            }
            _ => Ok(()),
        }
    }

    fn run_writes<A: Access>(
        &self,
        order: CommitOrder,
        writes: WritesRecord<'_>,
        runner: &mut Runner<A>,
    ) -> Result<(), ClosureError> {
        let Runner { access, writer, .. } = runner;
        let definitions = &self.programs.definitions;
        let all: Vec<_> = writes.writes().map(|(_, write)| write).collect();
        access.begin(order);
        access.expect_nothing();
        // Their rows are reached before the first of them is written.
        for write in &all {
            let reached = writer.reach(write, definitions, access).ok_or_else(|| malformed_writes(order))?;
            if reached.is_err() {
                let error = access.take_unreachable();
                return Err(error.map_or_else(|| malformed_writes(order).into(), ClosureError::Unreachable));
            }
        }
        writer.write(order, &all, definitions, access)?;
        Ok(())
    }
}

impl Programs {
    /// Returns the error of a call that has written otherwise than its record says.
    fn writes_differ(&self, call: Call<'_>, written: Written) -> Divergence {
        let Call { order, program, record } = call;
        let recorded = RecordedCall { order, procedure: &self.procedures[program], record };
        recorded.wrote_otherwise(written, std::iter::empty())
    }
}
