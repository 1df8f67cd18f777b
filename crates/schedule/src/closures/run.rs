//! Runs units, each after those before it.

use super::reserve::Reserver;
use super::{Closures, DONE, DRAINED, FAILED, RUNNING, UNUSED, WAITING};
use crate::divergence::{Divergence, RecordedCall, malformed_writes};
use crate::plan::Planner;
use crate::programs::{Call, Programs};
use crate::run::{Access, GROUP, Lane, UnitTapes};
use crate::tape::{Received, Tape};
use crate::unit::Unit;
use crate::{Batch, Body, Transaction, ValueWriter};
use catalog::{CommitOrder, Written};
use logging::content::WritesRecord;
use procedure::{Interrupts, SqlError};
use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU8, Ordering};
use thiserror::Error;

/// A thread gives memory back after this many units.
const RECLAIM_EVERY: u32 = 256;
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
    pub(super) access: A,
    reserver: Reserver,
    lane: Lane,
    pub(super) writer: ValueWriter,
    /// What a unit receives, by operation.
    received: Vec<Option<Received<'static>>>,
    /// The tapes of its block.
    sent: Vec<Tape>,
    /// The units that are to run, the next one last.
    stack: Vec<u32>,
    /// The transaction of the last unit.
    transaction: u32,
    /// Number of units since memory was given back.
    ran: u32,
    pub(super) planner: Planner,
    /// Units that run one after the other, and their registers.
    pub(super) group: Vec<Unit>,
    pub(super) lanes: Vec<Lane>,
}

impl<A: Access> Runner<A> {
    /// Runs units through an access.
    pub fn new(access: A) -> Self {
        Self {
            access,
            reserver: Reserver::default(),
            lane: Lane::default(),
            writer: ValueWriter::default(),
            received: Vec::new(),
            sent: Vec::new(),
            stack: Vec::new(),
            transaction: 0,
            ran: 0,
            planner: Planner::default(),
            group: Vec::new(),
            lanes: std::iter::repeat_with(Lane::default).take(GROUP).collect(),
        }
    }
}

/// Units of one piece that this thread runs.
pub(super) struct Claim<'c> {
    /// The states of its numbers.
    states: &'c [AtomicU8],
    /// The state that the units get at its end: a thread that panics leaves them failed.
    end: u8,
}

impl<'c> Claim<'c> {
    /// Claims all units of some numbers; `None` if one of them is not waiting.
    pub(super) fn of(states: &'c [AtomicU8]) -> Option<Self> {
        for (index, state) in states.iter().enumerate() {
            // ORDERING: Acquire pairs with the Release of a thread that tried it in vain.
            let claimed = state.compare_exchange(WAITING, RUNNING, Ordering::Acquire, Ordering::Relaxed);
            if claimed.is_err_and(|state| state != UNUSED) {
                drop(Self { states: &states[..index], end: WAITING });
                return None;
            }
        }
        Some(Self { states, end: FAILED })
    }

    /// Returns the number of its units.
    fn units(&self) -> u32 {
        self.states.iter().filter(|state| state.load(Ordering::Relaxed) != UNUSED).count() as u32
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        for state in self.states.iter().filter(|state| state.load(Ordering::Relaxed) != UNUSED) {
            // ORDERING: Release pairs with the Acquire of `is_unit_done` and `Claim::of`.
            state.store(self.end, Ordering::Release);
        }
    }
}

/// A unit of a call, or a whole piece.
pub(super) struct Place {
    pub(super) transaction: u32,
    pub(super) block: usize,
    /// The number of the round; 0 for a whole piece.
    pub(super) round: u32,
}

impl<B: Batch> Closures<B> {
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

    /// As `run_closure`, by a runner whose access stays.
    pub(super) fn run_staying<A: Access>(
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
            DONE | DRAINED | UNUSED => {
                runner.stack.pop();
                return Ok(());
            }
            FAILED => return Err(self.failure()),
            RUNNING => return self.wait_for(unit, interrupts),
            _ => {}
        }
        interrupts.check()?;
        let transaction = self.numbers.transaction_of(unit, runner.transaction);
        runner.transaction = transaction;
        let Transaction { order, body } = self.transactions.get(transaction as usize);
        let above = runner.stack.len();
        let place = match body {
            Body::Call { program, record } => {
                self.find_before(unit, transaction, Call { order, program, record: &record }, runner)?
            }
            Body::Writes(writes) => {
                self.find_before_writes(unit, order, writes, runner)?;
                Place { transaction, block: 0, round: 0 }
            }
        };
        if runner.stack.len() > above {
            runner.stack[above..].sort_unstable_by(|a, b| b.cmp(a));
            return Ok(());
        }
        let Some(claim) = Claim::of(&self.states[unit as usize..=unit as usize]) else { return Ok(()) };
        let ran = match body {
            Body::Call { program, record } => {
                self.run_unit(&place, Call { order, program, record: &record }, &claim, runner)
            }
            Body::Writes(writes) => self.run_writes(order, writes, runner),
        };
        runner.ran += 1;
        self.left.fetch_sub(self.end(claim, DONE, ran)? as usize, Ordering::Release);
        runner.stack.pop();
        Ok(())
    }

    /// Ends a claim, with a state where the units have run. Returns their number; the caller takes it from
    /// `left`.
    pub(super) fn end(
        &self,
        mut claim: Claim<'_>,
        done: u8,
        ran: Result<(), ClosureError>,
    ) -> Result<u32, ClosureError> {
        match &ran {
            Ok(()) => claim.end = done,
            Err(ClosureError::Unreachable(_)) => claim.end = WAITING,
            Err(ClosureError::Diverged(divergence)) => {
                let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.get_or_insert_with(|| divergence.clone());
            }
        }
        ran.map(|()| claim.units())
    }

    fn failure(&self) -> ClosureError {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let panicked =
            || SqlError::new("XX000", "a thread has panicked that executed a call of the log").into();
        failed.clone().map_or_else(panicked, ClosureError::from)
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
        let (program, of_call) = (call.program, self.numbers.of_transaction(transaction));
        let (position, round) = self.numbers.layouts.place_of(program, &of_call, unit);
        let piece = &self.programs.pieces.pieces[program][position];
        for source in &self.programs.facts(program, piece.block).receives {
            let units = self.units_of(program, transaction, source.block);
            stack.extend(units.filter(|unit| !self.is_unit_done(*unit)));
        }
        reserver.load(&self.programs, &self.reservations, transaction, call)?;
        let own = &self.reservations.units[program][position];
        reserver.visit_unit(piece, own, round, &self.indexes, |(index, node, of)| {
            self.nodes.before(index, node, of, unit, |unit| self.progress_of(unit), stack);
        });
        Ok(Place { transaction, block: piece.block, round })
    }

    /// Returns the numbers of the units of a call's piece of a block.
    #[inline]
    pub(super) fn units_of(&self, program: usize, transaction: u32, block: usize) -> Range<u32> {
        let (layouts, of_call) = (&self.numbers.layouts, self.numbers.of_transaction(transaction));
        let position = layouts.position(program, block).expect("the program has a piece of the block");
        layouts.of_piece(program, &of_call, position)
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
            self.nodes.before(index, node, of, unit, |unit| self.progress_of(unit), stack);
        })?;
        Ok(())
    }

    fn run_unit<A: Access>(
        &self,
        place: &Place,
        call: Call<'_>,
        claim: &Claim<'_>,
        runner: &mut Runner<A>,
    ) -> Result<(), ClosureError> {
        let mut lane = std::mem::take(&mut runner.lane);
        let facts = self.programs.facts(call.program, place.block);
        let loaded = self.programs.load_piece(call, facts, &mut lane).map_err(ClosureError::from);
        let ran = loaded.and_then(|()| {
            self.execute(&self.programs, place, call, Running { claim, lane: &mut lane }, runner)
        });
        runner.lane = lane;
        ran
    }

    /// Executes a claimed unit of a call, or a whole piece, whose registers are loaded.
    pub(super) fn execute<A: Access>(
        &self,
        programs: &Programs,
        place: &Place,
        call: Call<'_>,
        running: Running<'_>,
        runner: &mut Runner<A>,
    ) -> Result<(), ClosureError> {
        let Runner { access, received, sent, .. } = runner;
        let (Call { order, program, .. }, Running { claim, lane }) = (call, running);
        let Place { transaction, block, round } = *place;
        let facts = programs.facts(program, block);
        received.resize_with(programs.pieces.programs[program].operations.len(), || None);
        for source in &facts.receives {
            let own = &mut received[source.operation.0 as usize];
            *own = Some(Received::copied(own.take(), |tape| {
                self.results.receive(transaction, source.block, source.tape, tape);
            }));
        }
        let sends = !facts.piece.sends.is_empty();
        sent.resize_with(programs.tape_counts[block], Tape::default);
        sent.iter_mut().for_each(Tape::clear);
        access.begin(order);
        let unit = Unit { transaction, index: round };
        let before = lane.machine.written();
        let tapes = UnitTapes { received, sent };
        let ran = programs.execute_unit(call, facts, unit, lane, tapes, access);
        let written = ran.map_err(|divergence| match access.take_unreachable() {
            Some(error) if lane.machine.written() == before => ClosureError::Unreachable(error),
            _ => ClosureError::Diverged(divergence),
        })?;
        if sends {
            self.results.send(transaction, block, round, sent);
        }
        match (self.results.ran(transaction, claim.units(), written), call.record.written) {
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

/// A claimed unit, or a whole piece, and its registers.
pub(super) struct Running<'r> {
    pub(super) claim: &'r Claim<'r>,
    pub(super) lane: &'r mut Lane,
}

impl Programs {
    /// Returns the error of a call that has written otherwise than its record says.
    fn writes_differ(&self, call: Call<'_>, written: Written) -> Divergence {
        let Call { order, program, record } = call;
        let recorded = RecordedCall { order, procedure: &self.procedures[program], record };
        recorded.wrote_otherwise(written, std::iter::empty())
    }
}
