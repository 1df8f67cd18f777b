//! Which piece-set runs when.
//! Paper: PACMAN §4.2 (execution schedules), §4.3.2 (pipelined execution). Differs: threads are not bound to
//! blocks but take whatever is ready, oldest batch first, so that cores follow the work; a block's piece-set
//! is cut into partitions (§4.3.1) that are scheduled like piece-sets.
//!
//! A task is the plan of a batch, or one partition of one block's pieces of a batch. A partition runs once
//! the blocks before its own are done with the batch, and the same partition is done with the batch before
//! (of some blocks: all partitions).

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What a thread is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Task {
    /// Sort a batch's transactions into piece-sets.
    Plan { batch: usize },
    /// Run a partition of a block's pieces.
    Run { batch: usize, block: usize, partition: usize },
}

/// The shape of a schedule.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) batches: usize,
    /// For each block those before it.
    pub(super) before: Vec<Vec<usize>>,
    /// For each block its number of partitions.
    pub(super) partitions: Vec<usize>,
    /// For each block whether all of it must be done with a batch before any of it begins the next.
    pub(super) whole_batches: Vec<bool>,
    /// Batches that may be under way at a time; one is planned ahead of them.
    pub(super) window: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Done,
}

struct BatchState {
    planned: bool,
    /// By block and partition.
    tasks: Vec<Vec<State>>,
}

impl BatchState {
    fn is_block_done(&self, block: usize) -> bool {
        self.tasks[block].iter().all(|state| *state == State::Done)
    }

    fn is_done(&self) -> bool {
        self.planned && (0..self.tasks.len()).all(|block| self.is_block_done(block))
    }
}

struct Inner {
    /// The oldest batch that is not done.
    first: usize,
    /// Batches from `first` on.
    batches: VecDeque<BatchState>,
    /// The next batch to plan.
    to_plan: usize,
    stopped: bool,
}

/// The tasks of a replay, handed out one by one.
pub(super) struct Schedule {
    shape: Shape,
    inner: Mutex<Inner>,
    changed: Condvar,
}

impl Schedule {
    pub(super) fn new(shape: Shape) -> Self {
        let inner = Inner { first: 0, batches: VecDeque::new(), to_plan: 0, stopped: false };
        Self { shape, inner: Mutex::new(inner), changed: Condvar::new() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next task, once one is ready; `None` at the end.
    pub(super) fn take(&self) -> Option<Task> {
        let mut inner = self.inner();
        loop {
            if inner.stopped || inner.first == self.shape.batches {
                return None;
            }
            if let Some(task) = self.ready(&inner) {
                match task {
                    Task::Plan { batch } => {
                        let tasks = self.shape.partitions.iter().map(|count| vec![State::Waiting; *count]);
                        let state = BatchState { planned: false, tasks: tasks.collect() };
                        inner.batches.push_back(state);
                        inner.to_plan = batch + 1;
                    }
                    Task::Run { batch, block, partition } => {
                        let place = batch - inner.first;
                        inner.batches[place].tasks[block][partition] = State::Running;
                    }
                }
                return Some(task);
            }
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn ready(&self, inner: &Inner) -> Option<Task> {
        let planned_ahead = inner
            .batches
            .iter()
            .any(|batch| batch.planned && batch.tasks.iter().flatten().all(|state| *state == State::Waiting));
        let may_plan = inner.to_plan < self.shape.batches && inner.batches.len() <= self.shape.window;
        let plan = may_plan.then_some(Task::Plan { batch: inner.to_plan });
        if !planned_ahead && plan.is_some() {
            return plan;
        }
        for (place, batch) in inner.batches.iter().enumerate().take(self.shape.window) {
            if !batch.planned {
                continue;
            }
            for (block, partitions) in batch.tasks.iter().enumerate() {
                if !self.shape.before[block].iter().all(|before| batch.is_block_done(*before)) {
                    continue;
                }
                let earlier = place.checked_sub(1).map(|place| &inner.batches[place]);
                if self.shape.whole_batches[block] && earlier.is_some_and(|batch| !batch.is_block_done(block))
                {
                    continue;
                }
                for (partition, state) in partitions.iter().enumerate() {
                    let earlier = earlier.map(|batch| batch.tasks[block][partition]);
                    if *state == State::Waiting && earlier.is_none_or(|state| state == State::Done) {
                        return Some(Task::Run { batch: inner.first + place, block, partition });
                    }
                }
            }
        }
        plan
    }

    /// Tells that a task is done; returns the batches that are done with it.
    pub(super) fn done(&self, task: Task) -> std::ops::Range<usize> {
        let mut inner = self.inner();
        let first = inner.first;
        match task {
            Task::Plan { batch } => inner.batches[batch - first].planned = true,
            Task::Run { batch, block, partition } => {
                inner.batches[batch - first].tasks[block][partition] = State::Done;
            }
        }
        while inner.batches.front().is_some_and(BatchState::is_done) {
            inner.batches.pop_front();
            inner.first += 1;
        }
        self.changed.notify_all();
        first..inner.first
    }

    /// Ends the schedule early.
    pub(super) fn stop(&self) {
        self.inner().stopped = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes tasks in every order that the schedule allows, as far as a fixed sequence of choices explores
    /// it.
    #[test]
    fn tasks_keep_the_order_of_blocks_and_batches() {
        let shape = Shape {
            batches: 6,
            before: vec![vec![], vec![0], vec![0]],
            partitions: vec![2, 3, 1],
            whole_batches: vec![false, true, false],
            window: 3,
        };
        let schedule = Schedule::new(shape.clone());
        let (mut running, mut finished) = (Vec::new(), Vec::new());
        let mut choice = 7usize;
        loop {
            // Up to three tasks at a time.
            while running.len() < 3 && schedule.ready(&schedule.inner()).is_some() {
                let task = schedule.take().expect("one is ready");
                if let Task::Run { batch, block, partition } = task {
                    for before in &shape.before[block] {
                        for partition in 0..shape.partitions[*before] {
                            assert!(finished.contains(&Task::Run { batch, block: *before, partition }));
                        }
                    }
                    if batch > 0 {
                        assert!(finished.contains(&Task::Run { batch: batch - 1, block, partition }));
                    }
                    if batch > 0 && shape.whole_batches[block] {
                        for partition in 0..shape.partitions[block] {
                            assert!(finished.contains(&Task::Run { batch: batch - 1, block, partition }));
                        }
                    }
                    assert!(finished.contains(&Task::Plan { batch }));
                }
                running.push(task);
            }
            if running.is_empty() {
                break;
            }
            choice = choice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let task = running.swap_remove((choice >> 33) % running.len());
            finished.push(task);
            schedule.done(task);
        }
        assert_eq!(finished.len(), 6 * (1 + 6), "every task has run");
        assert_eq!(schedule.take(), None);
    }
}
