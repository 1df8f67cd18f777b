//! Which task is ready to run.
//! Paper: PACMAN §4.2 (execution schedules), §4.3.2 (pipelined execution). Differs: threads are not bound to
//! blocks but take any ready task, oldest batch first, so that cores follow the work; the piece-set of a
//! block is cut into partitions (§4.3.1) that are scheduled like piece-sets.
//!
//! A task is a batch to claim and plan, a block whose units are assigned to partitions, or one partition of
//! one block of a planned batch. A partition is ready once the blocks before its block are done with the
//! batch, and the same partition is done with the batch before (of some blocks: all partitions). A deferred
//! block is assigned once the blocks that send its keys are done with the batch. The number of batches is
//! not known ahead: the source ends the schedule.
//!
//! Invariants: 1. A partition runs once, and only when it is ready. 2. One thread claims at a time, so
//! batches are numbered in the order of the source. Held by: `tasks_keep_the_order_of_blocks_and_batches`,
//! `a_schedule_waits_for_its_source`.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// One partition of a block, of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PartitionId {
    pub(crate) batch: usize,
    pub(crate) block: usize,
    pub(crate) partition: usize,
}

/// One block, of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockId {
    pub(crate) batch: usize,
    pub(crate) block: usize,
}

/// A task of one thread. `P` is a planned batch.
#[derive(Debug)]
pub(crate) enum Task<P> {
    /// Claim the next batch of the source, and plan it. `waits`: no batch is under way.
    Claim { waits: bool },
    /// Assign the units of a deferred block to partitions.
    Assign { id: BlockId, planned: Arc<P> },
    /// Run a partition.
    Run { id: PartitionId, planned: Arc<P> },
}

/// The blocks of a schedule.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// By block, the blocks before it.
    pub(crate) before: Vec<Vec<usize>>,
    /// By block, the number of its partitions.
    pub(crate) partitions: Vec<usize>,
    /// By block, the blocks whose results its partitions follow from. Such a block is deferred.
    pub(crate) assigned_after: Vec<Vec<usize>>,
    /// By block, whether it must be done with a batch before any of its partitions begins the next batch.
    pub(crate) whole_batches: Vec<bool>,
    /// Maximum number of batches that run at a time; one more is planned ahead.
    pub(crate) window: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Done,
}

struct BatchState<P> {
    /// `None` until the batch is planned.
    planned: Option<Arc<P>>,
    /// By block, whether its units are assigned to partitions.
    assigned: Vec<State>,
    /// By block and partition.
    tasks: Vec<Vec<State>>,
}

impl<P> BatchState<P> {
    fn is_block_done(&self, block: usize) -> bool {
        self.tasks[block].iter().all(|state| *state == State::Done)
    }

    fn is_done(&self) -> bool {
        self.planned.is_some() && (0..self.tasks.len()).all(|block| self.is_block_done(block))
    }

    /// Returns whether the batch is planned, and nothing of it has begun.
    fn is_ahead(&self) -> bool {
        self.planned.is_some() && self.tasks.iter().flatten().all(|state| *state == State::Waiting)
    }
}

/// What is known of the source.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SourceState {
    /// It may have a batch.
    Ready,
    /// A thread is claiming a batch.
    Claimed,
    /// It had no batch when it was last asked. It is asked again once a task is done.
    Dry,
    /// It has ended.
    Ended,
}

struct Inner<P> {
    /// The number of the oldest batch that is not done.
    first: usize,
    /// The batches from `first` on.
    batches: VecDeque<BatchState<P>>,
    source: SourceState,
    is_stopped: bool,
}

/// A task that is ready.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ready {
    Claim,
    Assign(BlockId),
    Run(PartitionId),
}

/// The tasks of a run, handed out one by one.
pub(crate) struct Schedule<P> {
    shape: Shape,
    inner: Mutex<Inner<P>>,
    changed: Condvar,
}

impl<P> Schedule<P> {
    pub(crate) fn new(shape: Shape) -> Self {
        let inner =
            Inner { first: 0, batches: VecDeque::new(), source: SourceState::Ready, is_stopped: false };
        Self { shape, inner: Mutex::new(inner), changed: Condvar::new() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner<P>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next task, once one is ready; `None` at the end.
    pub(crate) fn take(&self) -> Option<Task<P>> {
        let mut inner = self.inner();
        loop {
            let has_ended = inner.source == SourceState::Ended && inner.batches.is_empty();
            if inner.is_stopped || has_ended {
                return None;
            }
            match self.ready(&inner) {
                Some(Ready::Claim) => {
                    inner.source = SourceState::Claimed;
                    return Some(Task::Claim { waits: inner.batches.is_empty() });
                }
                Some(Ready::Run(id)) => {
                    let index = id.batch - inner.first;
                    let batch = &mut inner.batches[index];
                    batch.tasks[id.block][id.partition] = State::Running;
                    let planned =
                        Arc::clone(batch.planned.as_ref().expect("a batch is planned before it runs"));
                    return Some(Task::Run { id, planned });
                }
                Some(Ready::Assign(id)) => {
                    let index = id.batch - inner.first;
                    let batch = &mut inner.batches[index];
                    batch.assigned[id.block] = State::Running;
                    let planned =
                        Arc::clone(batch.planned.as_ref().expect("a batch is planned before it is assigned"));
                    return Some(Task::Assign { id, planned });
                }
                None => inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn ready(&self, inner: &Inner<P>) -> Option<Ready> {
        let may_claim = inner.source == SourceState::Ready && inner.batches.len() <= self.shape.window;
        if may_claim && !inner.batches.iter().any(BatchState::is_ahead) {
            return Some(Ready::Claim);
        }
        let run =
            (0..inner.batches.len().min(self.shape.window)).find_map(|index| self.ready_of(inner, index));
        run.or_else(|| may_claim.then_some(Ready::Claim))
    }

    /// Returns a block to assign, or a partition to run, of one batch.
    fn ready_of(&self, inner: &Inner<P>, index: usize) -> Option<Ready> {
        let batch = &inner.batches[index];
        batch.planned.as_ref()?;
        let earlier = index.checked_sub(1).map(|index| &inner.batches[index]);
        for (block, partitions) in batch.tasks.iter().enumerate() {
            let mut after = self.shape.assigned_after[block].iter();
            if batch.assigned[block] == State::Waiting && after.all(|after| batch.is_block_done(*after)) {
                return Some(Ready::Assign(BlockId { batch: inner.first + index, block }));
            }
            let is_assigned = batch.assigned[block] == State::Done;
            if !is_assigned || !self.shape.before[block].iter().all(|before| batch.is_block_done(*before)) {
                continue;
            }
            if self.shape.whole_batches[block] && earlier.is_some_and(|earlier| !earlier.is_block_done(block))
            {
                continue;
            }
            for (partition, state) in partitions.iter().enumerate() {
                let is_next = earlier.is_none_or(|earlier| earlier.tasks[block][partition] == State::Done);
                if *state == State::Waiting && is_next {
                    return Some(Ready::Run(PartitionId { batch: inner.first + index, block, partition }));
                }
            }
        }
        None
    }

    /// Notes that a batch was claimed; returns its number.
    pub(crate) fn claimed(&self) -> usize {
        let mut inner = self.inner();
        let tasks = self.shape.partitions.iter().map(|count| vec![State::Waiting; *count]).collect();
        let assigned = |after: &Vec<usize>| if after.is_empty() { State::Done } else { State::Waiting };
        let assigned = self.shape.assigned_after.iter().map(assigned).collect();
        inner.batches.push_back(BatchState { planned: None, assigned, tasks });
        inner.source = SourceState::Ready;
        self.changed.notify_all();
        inner.first + inner.batches.len() - 1
    }

    /// Notes that the source has no batch yet.
    pub(crate) fn pending(&self) {
        let mut inner = self.inner();
        // With nothing under way no task will be done after which the source is asked again.
        inner.source = if inner.batches.is_empty() { SourceState::Ready } else { SourceState::Dry };
        self.changed.notify_all();
    }

    /// Notes that the source has ended.
    pub(crate) fn ended(&self) {
        self.inner().source = SourceState::Ended;
        self.changed.notify_all();
    }

    /// Notes that a batch is planned; returns the batches that are done with it.
    pub(crate) fn planned(&self, batch: usize, planned: P) -> Vec<Arc<P>> {
        let mut inner = self.inner();
        let index = batch - inner.first;
        inner.batches[index].planned = Some(Arc::new(planned));
        self.advance(inner)
    }

    /// Notes that the units of a block are assigned to partitions.
    pub(crate) fn assigned(&self, id: BlockId) {
        let mut inner = self.inner();
        let index = id.batch - inner.first;
        inner.batches[index].assigned[id.block] = State::Done;
        self.changed.notify_all();
    }

    /// Notes that a partition is done; returns the batches that are done with it.
    pub(crate) fn done(&self, id: PartitionId) -> Vec<Arc<P>> {
        let mut inner = self.inner();
        let index = id.batch - inner.first;
        inner.batches[index].tasks[id.block][id.partition] = State::Done;
        self.advance(inner)
    }

    fn advance(&self, mut inner: MutexGuard<'_, Inner<P>>) -> Vec<Arc<P>> {
        let mut done = Vec::new();
        while inner.batches.front().is_some_and(BatchState::is_done) {
            inner.first += 1;
            done.extend(inner.batches.pop_front().and_then(|batch| batch.planned));
        }
        if inner.source == SourceState::Dry {
            inner.source = SourceState::Ready;
        }
        self.changed.notify_all();
        done
    }

    /// Ends the schedule early.
    pub(crate) fn stop(&self) {
        self.inner().is_stopped = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        Shape {
            before: vec![vec![], vec![0], vec![0], vec![1]],
            partitions: vec![2, 3, 1, 2],
            assigned_after: vec![vec![], vec![], vec![], vec![0]],
            whole_batches: vec![false, true, false, false],
            window: 3,
        }
    }

    /// A task that a test has taken and not finished.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Taken {
        Plan(usize),
        Assign(BlockId),
        Run(PartitionId),
    }

    /// A source of batches, and a thread for each task that may run at the same time.
    struct Driver {
        schedule: Schedule<()>,
        running: Vec<Taken>,
        finished: Vec<Taken>,
        choice: usize,
    }

    impl Driver {
        fn new() -> Self {
            let (running, finished) = (Vec::new(), Vec::new());
            Self { schedule: Schedule::new(shape()), running, finished, choice: 7 }
        }

        fn is_ready(&self) -> bool {
            self.schedule.ready(&self.schedule.inner()).is_some()
        }

        /// Takes up to three tasks; `next` is what the source says to a claim.
        fn take(&mut self, mut next: impl FnMut(bool) -> Next) {
            while self.running.len() < 3 && self.is_ready() {
                match self.schedule.take().expect("a task is ready") {
                    Task::Claim { waits } => match next(waits) {
                        Next::Batch => self.running.push(Taken::Plan(self.schedule.claimed())),
                        Next::Pending => self.schedule.pending(),
                        Next::End => self.schedule.ended(),
                    },
                    Task::Assign { id, .. } => {
                        self.check_assign(id);
                        self.running.push(Taken::Assign(id));
                    }
                    Task::Run { id, .. } => {
                        self.check(id);
                        self.running.push(Taken::Run(id));
                    }
                }
            }
        }

        /// A block is assigned after the blocks that send its keys.
        fn check_assign(&self, BlockId { batch, block }: BlockId) {
            let shape = shape();
            for after in &shape.assigned_after[block] {
                for partition in 0..shape.partitions[*after] {
                    let sends = Taken::Run(PartitionId { batch, block: *after, partition });
                    assert!(self.finished.contains(&sends), "its keys are not sent yet");
                }
            }
        }

        /// A partition runs after the blocks before it, and after its block in the batch before.
        fn check(&self, PartitionId { batch, block, partition }: PartitionId) {
            let shape = shape();
            let is_done = |batch, block, partition| {
                self.finished.contains(&Taken::Run(PartitionId { batch, block, partition }))
            };
            for before in &shape.before[block] {
                assert!((0..shape.partitions[*before]).all(|partition| is_done(batch, *before, partition)));
            }
            assert!(batch == 0 || is_done(batch - 1, block, partition));
            if batch > 0 && shape.whole_batches[block] {
                assert!((0..shape.partitions[block]).all(|partition| is_done(batch - 1, block, partition)));
            }
            assert!(self.finished.contains(&Taken::Plan(batch)));
            let is_deferred = !shape.assigned_after[block].is_empty();
            assert!(!is_deferred || self.finished.contains(&Taken::Assign(BlockId { batch, block })));
        }

        /// Finishes one of the running tasks; returns false when there is none.
        fn finish_one(&mut self) -> bool {
            if self.running.is_empty() {
                return false;
            }
            self.choice = self.choice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let taken = self.running.swap_remove((self.choice >> 33) % self.running.len());
            match taken {
                Taken::Plan(batch) => drop(self.schedule.planned(batch, ())),
                Taken::Assign(id) => self.schedule.assigned(id),
                Taken::Run(id) => drop(self.schedule.done(id)),
            }
            self.finished.push(taken);
            true
        }
    }

    #[derive(Clone, Copy)]
    enum Next {
        Batch,
        Pending,
        End,
    }

    /// Takes tasks in every order that the schedule allows, as far as a fixed sequence of choices explores
    /// it.
    #[test]
    fn tasks_keep_the_order_of_blocks_and_batches() {
        let (mut driver, mut batches) = (Driver::new(), 0);
        loop {
            driver.take(|_| {
                batches += 1;
                if batches > 6 { Next::End } else { Next::Batch }
            });
            if !driver.finish_one() {
                break;
            }
        }
        assert_eq!(driver.finished.len(), 6 * (1 + 8 + 1), "every task has run");
        assert!(driver.schedule.take().is_none());
    }

    /// The source has a batch only at every third question, and does not know its end before.
    #[test]
    fn a_schedule_waits_for_its_source() {
        let (mut driver, mut questions, mut batches) = (Driver::new(), 0, 0);
        let mut dry = 0;
        loop {
            driver.take(|waits| {
                questions += 1;
                if !waits && questions % 3 != 0 {
                    dry += 1;
                    return Next::Pending;
                }
                batches += 1;
                if batches > 6 { Next::End } else { Next::Batch }
            });
            if !driver.finish_one() {
                break;
            }
        }
        assert!(dry > 6, "the source was asked {dry} times in vain");
        assert_eq!(driver.finished.len(), 6 * (1 + 8 + 1), "every task has run");
        assert!(driver.schedule.take().is_none());

        // While nothing is under way, a claim is the only task, and its thread waits for the source.
        let schedule = Schedule::<()>::new(shape());
        assert!(matches!(schedule.take(), Some(Task::Claim { waits: true })));
        assert!(schedule.ready(&schedule.inner()).is_none(), "one thread claims at a time");
        schedule.pending();
        assert!(matches!(schedule.take(), Some(Task::Claim { waits: true })));
        assert_eq!(schedule.claimed(), 0);
        assert!(matches!(schedule.take(), Some(Task::Claim { waits: false })));
        schedule.pending();
        assert!(schedule.ready(&schedule.inner()).is_none(), "a dry source is not asked again at once");
        schedule.planned(0, ());
        assert!(matches!(schedule.take(), Some(Task::Run { .. })));
        assert!(matches!(schedule.take(), Some(Task::Claim { waits: false })));
        schedule.ended();
        assert!(matches!(schedule.take(), Some(Task::Run { .. })), "batches under way are finished");
    }
}
