//! The threads of a run.

use crate::divergence::Divergence;
use crate::measure::{Measured, Measures, ThreadTimes};
use crate::plan::{PlannedBatch, Planner};
use crate::programs::{Cut, Programs};
use crate::readiness::{Schedule, Shape, Task};
use crate::run::{Access, Executor};
use crate::unit::Unit;
use crate::{Batch, Body, Next, Source};
use catalog::Written;
use std::sync::Arc;
use std::time::Instant;
use thiserror::Error;

/// The reason why a run has stopped before the end of its source.
#[derive(Clone, Debug, Error)]
pub enum RunError<E> {
    /// A batch of the source could not be read.
    #[error("{0}")]
    Source(E),
    /// The execution of a transaction differs from its record.
    #[error(transparent)]
    Diverged(#[from] Divergence),
}

struct Run<'r, S: Source> {
    programs: &'r Programs,
    source: &'r S,
    schedule: Schedule<PlannedBatch<S::Batch>>,
    measures: Measures,
}

/// Stops a schedule when it is dropped. A thread leaves the loop of tasks because the schedule has ended, or
/// because the thread has failed; then the other threads must not wait for its task.
struct Stop<'s, B>(&'s Schedule<B>);

impl<B> Drop for Stop<'_, B> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Programs {
    /// Returns the blocks of a schedule.
    pub(crate) fn shape(&self) -> Shape {
        Shape {
            before: self.pieces.before.clone(),
            partitions: self.partitions.iter().map(|block| block.count).collect(),
            assigned_after: (0..self.partitions.len()).map(|block| self.key_blocks(block)).collect(),
            // A key may be in another partition in every batch.
            whole_batches: self.partitions.iter().map(|block| block.cut == Cut::Keys).collect(),
            window: self.settings.window(),
        }
    }

    /// Runs the transactions of a source to its end, with one thread for each access. `names` describes each
    /// block in the measures.
    ///
    /// # Errors
    /// The source cannot read a batch; the execution of a transaction differs from its record.
    pub fn run<S: Source, A: Access + Send>(
        &self,
        source: &S,
        accesses: Vec<A>,
        names: &[Vec<String>],
    ) -> Result<Measured, RunError<S::Error>> {
        let schedule = Schedule::new(self.shape());
        let measures = Measures::new(&self.partitions);
        let run = Run { programs: self, source, schedule, measures };
        let results: Vec<_> = std::thread::scope(|scope| {
            let run = &run;
            let spawn = |access| scope.spawn(move || run.work(access));
            let running: Vec<_> = accesses.into_iter().map(spawn).collect();
            running
                .into_iter()
                .map(|thread| thread.join().expect("a thread of a run does not panic"))
                .collect()
        });
        let threads = results.into_iter().collect::<Result<_, _>>()?;
        Ok(Measured { threads, blocks: run.measures.report(names) })
    }
}

impl<S: Source> Run<'_, S> {
    /// Runs tasks until the schedule ends, and ends it early when one of them fails or panics.
    fn work<A: Access>(&self, access: A) -> Result<ThreadTimes, RunError<S::Error>> {
        let _stop = Stop(&self.schedule);
        self.run_tasks(access)
    }

    fn run_tasks<A: Access>(&self, access: A) -> Result<ThreadTimes, RunError<S::Error>> {
        let mut executor = Executor::new(access);
        let mut planner = Planner::default();
        let (mut times, mut sums) = (ThreadTimes::default(), Vec::new());
        let mut clock = Instant::now();
        let mut lap = || std::mem::replace(&mut clock, Instant::now()).elapsed();
        while let Some(task) = self.schedule.take() {
            times.waiting_s += lap().as_secs_f64();
            let done = match task {
                Task::Claim { waits } => {
                    let Some((batch, claim)) = self.claim(waits) else { continue };
                    let planned = self.plan(claim, &mut planner)?;
                    times.planning_s += lap().as_secs_f64();
                    self.schedule.planned(batch, planned)
                }
                Task::Assign { id, planned } => {
                    let received = |source: &_, transaction| planned.received(source, transaction);
                    self.programs.assign(&planned, id.block, &mut planner, received)?;
                    self.count(&planned, id.block);
                    times.planning_s += lap().as_secs_f64();
                    self.schedule.assigned(id);
                    continue;
                }
                Task::Run { id, planned } => {
                    self.programs.run_partition(&planned, id, &mut executor)?;
                    let spent = lap();
                    times.execution_s += spent.as_secs_f64();
                    self.measures.ran(id.block, id.partition, spent);
                    self.schedule.done(id)
                }
            };
            self.finish(done, &mut sums)?;
        }
        times.waiting_s += lap().as_secs_f64();
        Ok(times)
    }

    /// Claims the next batch, with its number, if the source has one.
    fn claim(&self, waits: bool) -> Option<(usize, S::Claim)> {
        match self.source.claim(waits) {
            Next::Batch(claim) => return Some((self.schedule.claimed(), claim)),
            Next::Pending => self.schedule.pending(),
            Next::End => self.schedule.ended(),
        }
        None
    }

    fn plan(
        &self,
        claim: S::Claim,
        planner: &mut Planner,
    ) -> Result<PlannedBatch<S::Batch>, RunError<S::Error>> {
        let batch = self.source.read(claim).map_err(RunError::Source)?;
        let planned = self.programs.plan(batch, planner)?;
        let blocks = self.programs.partitions.iter().enumerate();
        for (block, _) in blocks.filter(|(_, partitions)| !partitions.is_deferred) {
            self.count(&planned, block);
        }
        Ok(planned)
    }

    /// Counts the units of a block, whose partitions are known.
    fn count(&self, planned: &PlannedBatch<S::Batch>, block: usize) {
        for (partition, units) in planned.units(block).iter().enumerate() {
            let operations = self.programs.operations_of(planned, block, units);
            self.measures.planned(block, partition, units.len() as u64, operations);
        }
    }

    /// Checks batches that are done, and tells the source. `sums` is a buffer.
    fn finish(
        &self,
        done: Vec<Arc<PlannedBatch<S::Batch>>>,
        sums: &mut Vec<Written>,
    ) -> Result<(), RunError<S::Error>> {
        for batch in done {
            self.programs.check_written(&batch, sums)?;
            self.source.finished(&batch.transactions);
        }
        Ok(())
    }
}

impl Programs {
    /// Estimates the number of operations of units.
    fn operations_of<B: Batch>(&self, planned: &PlannedBatch<B>, block: usize, units: &[Unit]) -> u64 {
        let operations =
            units.iter().map(|unit| match planned.transactions.get(unit.transaction as usize).body {
                Body::Call { program, .. } => self.facts(program, block).operations,
                Body::Writes(_) => 1.0,
            });
        operations.sum::<f64>() as u64
    }
}
