//! Runs the units that no thread wants: batch after batch, in the partitions of a run of all transactions.
//!
//! The order of such a run is one in which every unit may run (see `readiness`). So a unit needs no look at
//! those before it: a thread claims it, or skips it where a thread that wanted it has run it. Where a unit
//! cannot run, the schedule ends early, and every unit that is left looks.

use super::run::{Claim, ClosureError, Place, Runner, Running};
use super::{Closures, DRAINED};
use crate::arguments::Arguments;
use crate::plan::PlannedBatch;
use crate::programs::{Call, Programs, TapeSource};
use crate::readiness::{PartitionId, Schedule, Task};
use crate::run::{Access, GROUP, Group, Lane, RECLAIM_EVERY, shares_lane};
use crate::tape::Received;
use crate::unit::Unit;
use crate::{Batch, Body, Transaction};
use procedure::Interrupts;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of units that a thread claims at a time, once the schedule has ended.
const CLAIMED: usize = 1024;

/// Consecutive transactions.
pub(super) struct Slice<B> {
    all: Arc<B>,
    range: Range<usize>,
}

impl<B: Batch> Batch for Slice<B> {
    #[inline]
    fn len(&self) -> usize {
        self.range.len()
    }

    #[inline]
    fn get(&self, index: usize) -> Transaction<'_> {
        self.all.get(self.range.start + index)
    }
}

impl<B> Slice<B> {
    /// Returns the index of a transaction among all of them.
    fn number_of(&self, transaction: u32) -> u32 {
        self.range.start as u32 + transaction
    }
}

/// The order of the units that no thread wants.
pub(super) struct Drain<B> {
    /// Those of partitions.
    programs: Programs,
    schedule: Schedule<PlannedBatch<Slice<B>>>,
    /// Number of transactions of a batch.
    batch: usize,
    /// The first transaction that no batch has.
    next: AtomicUsize,
    /// The first unit that is not claimed again, once the schedule has ended.
    next_left: AtomicUsize,
}

/// Stops the schedule, unless a task has ended as it should.
struct Stop<'s, B> {
    schedule: &'s Schedule<PlannedBatch<Slice<B>>>,
    has_ended: bool,
}

impl<B> Drop for Stop<'_, B> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.schedule.stop();
        }
    }
}

impl<B: Batch> Drain<B> {
    pub(super) fn new(programs: Programs, batch: usize) -> Self {
        let schedule = Schedule::new(programs.shape());
        let (next, next_left) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { programs, schedule, batch: batch.max(1), next, next_left }
    }
}

impl<B: Batch> Closures<B> {
    /// Runs some of the units that are left, in an order that is fast. Returns false at the end of a round
    /// over all of them.
    ///
    /// # Errors
    /// As `require`. The round goes on with the next units.
    pub fn run_next<A: Access>(&self, runner: &mut Runner<A>) -> Result<bool, ClosureError> {
        let schedule = &self.drain.schedule;
        let Some(task) = schedule.take() else { return self.run_left(runner) };
        let mut stop = Stop { schedule, has_ended: false };
        match task {
            Task::Claim { .. } => self.plan_next(runner)?,
            Task::Assign { id, planned } => {
                let received = |source: &TapeSource, transaction: u32| {
                    let transaction = planned.transactions.number_of(transaction);
                    Received::copied(None, |tape| {
                        self.results.receive(transaction, source.block, source.tape, tape);
                    })
                };
                self.drain.programs.assign(&planned, id.block, &mut runner.planner, received)?;
                schedule.assigned(id);
            }
            Task::Run { id, planned } => {
                self.run_partition(&planned, id, runner)?;
                schedule.done(id);
            }
        }
        stop.has_ended = true;
        Ok(true)
    }

    /// Runs units that are left because a unit could not run, each after those before it.
    fn run_left<A: Access>(&self, runner: &mut Runner<A>) -> Result<bool, ClosureError> {
        let first = self.drain.next_left.fetch_add(CLAIMED, Ordering::Relaxed);
        if self.is_done() || first >= self.states.len() {
            self.drain.next_left.store(0, Ordering::Relaxed);
            return Ok(false);
        }
        let end = (first + CLAIMED).min(self.states.len());
        let mut ran = Ok(());
        for unit in first as u32..end as u32 {
            ran = ran.and(self.run_closure(unit, runner, &Interrupts::default()));
        }
        ran.map(|()| true)
    }

    fn plan_next<A: Access>(&self, runner: &mut Runner<A>) -> Result<(), ClosureError> {
        let Drain { programs, schedule, batch, next, .. } = &self.drain;
        // One thread claims at a time.
        let first = next.fetch_add(*batch, Ordering::Relaxed);
        if first >= self.transactions.len() {
            schedule.ended();
            return Ok(());
        }
        let range = first..(first + batch).min(self.transactions.len());
        let number = schedule.claimed();
        let slice = Slice { all: Arc::clone(&self.transactions), range };
        schedule.planned(number, programs.plan(slice, &mut runner.planner)?);
        Ok(())
    }

    fn run_partition<A: Access>(
        &self,
        batch: &PlannedBatch<Slice<B>>,
        id: PartitionId,
        runner: &mut Runner<A>,
    ) -> Result<(), ClosureError> {
        let mut left = batch.units(id.block)[id.partition].as_slice();
        let mut ran = Ok(());
        while ran.is_ok() && !left.is_empty() {
            runner.access.stay();
            let mut groups = 0;
            while ran.is_ok() && !left.is_empty() && groups < RECLAIM_EVERY {
                left = self.take_group(batch, id.block, left, &mut runner.group);
                ran = self.run_group(batch, id.block, runner);
                groups += 1;
            }
            runner.access.leave();
        }
        ran
    }

    /// Takes the next units of a partition that are not done. Returns those behind them.
    fn take_group<'u>(
        &self,
        batch: &PlannedBatch<Slice<B>>,
        block: usize,
        units: &'u [Unit],
        group: &mut Vec<Unit>,
    ) -> &'u [Unit] {
        group.clear();
        for (index, unit) in units.iter().enumerate() {
            if group.len() == GROUP {
                return &units[index..];
            }
            let mut numbers = self.numbers_of(batch, block, *unit);
            if !numbers.all(|number| self.is_unit_done(number)) {
                group.push(*unit);
            }
        }
        &[]
    }

    /// Returns the numbers of a unit of a batch, which may be a whole piece.
    fn numbers_of(&self, batch: &PlannedBatch<Slice<B>>, block: usize, unit: Unit) -> Range<u32> {
        let transaction = batch.transactions.number_of(unit.transaction);
        let Some(program) = self.numbers.program(transaction) else {
            return self.numbers.of_transaction(transaction);
        };
        let numbers = self.units_of(program, transaction, block);
        if self.drain.programs.facts(program, block).is_in_rounds {
            numbers.start + unit.index..numbers.start + unit.index + 1
        } else {
            numbers
        }
    }

    fn run_group<A: Access>(
        &self,
        batch: &PlannedBatch<Slice<B>>,
        block: usize,
        runner: &mut Runner<A>,
    ) -> Result<(), ClosureError> {
        let (mut group, mut lanes) = (std::mem::take(&mut runner.group), std::mem::take(&mut runner.lanes));
        let ran = self.run_units(batch, block, &mut group, &mut lanes, runner);
        (runner.group, runner.lanes) = (group, lanes);
        ran
    }

    /// Runs the units of a group.
    fn run_units<A: Access>(
        &self,
        batch: &PlannedBatch<Slice<B>>,
        block: usize,
        group: &mut [Unit],
        lanes: &mut [Lane],
        runner: &mut Runner<A>,
    ) -> Result<(), ClosureError> {
        // The transactions of the group, each once, by number; and the numbers of each unit.
        let (mut transactions, mut numbers) =
            (Vec::with_capacity(group.len()), Vec::with_capacity(group.len()));
        let mut last = None;
        for unit in &mut *group {
            numbers
                .push((batch.transactions.number_of(unit.transaction), self.numbers_of(batch, block, *unit)));
            if last != Some(unit.transaction) {
                last = Some(unit.transaction);
                transactions.push(batch.transactions.get(unit.transaction as usize));
            }
            unit.transaction = transactions.len() as u32 - 1;
        }
        let programs = &self.drain.programs;
        let Runner { access, writer, .. } = &mut *runner;
        let arguments = &Arguments::default();
        let announced = Group { transactions: &transactions, arguments, block, units: group };
        programs.announce_group(&announced, lanes, writer, access)?;
        let (mut lane, mut ran, mut result) = (0, 0, Ok(()));
        for (index, (unit, (transaction, mut numbers))) in group.iter().zip(numbers).enumerate() {
            lane = if shares_lane(group, index) { lane } else { index };
            let Transaction { order, body } = transactions[unit.transaction as usize];
            let states = &self.states[numbers.start as usize..numbers.end as usize];
            let claimed = match body {
                Body::Call { program, record } => Claim::of(states).map(|claim| (program, record, claim)),
                Body::Writes(_) => None,
            };
            result = match claimed {
                Some((program, record, claim)) => {
                    let place = Place { transaction, block, round: unit.index };
                    let call = Call { order, program, record: &record };
                    let running = Running { claim: &claim, lane: &mut lanes[lane] };
                    let executed = self.execute(programs, &place, call, running, runner);
                    self.end(claim, DRAINED, executed).map(|units| ran += units as usize)
                }
                None => {
                    let no_interrupts = Interrupts::default();
                    numbers.try_for_each(|number| self.run_staying(number, runner, &no_interrupts))
                }
            };
            if result.is_err() {
                break;
            }
        }
        self.left.fetch_sub(ran, Ordering::Release);
        result
    }
}
