//! What a worker has committed and not yet acknowledged.
//! Paper: Poplar §4.1, §4.3 (the commit queues Qww and Qwr). Differs: what is in the first queue has read
//! nothing but what was durable, of which what has read nothing is a part.

use super::Commit;
use std::collections::VecDeque;

/// The commits of one worker that are not acknowledged yet, each with what is to be done then.
#[derive(Clone, Debug)]
pub struct CommitQueue<T> {
    /// Those that wait for the worker's own logger.
    alone: VecDeque<(Commit, T)>,
    /// Those that wait for all loggers.
    dependent: VecDeque<(Commit, T)>,
}

impl<T> Default for CommitQueue<T> {
    fn default() -> Self {
        Self { alone: VecDeque::new(), dependent: VecDeque::new() }
    }
}

impl<T> CommitQueue<T> {
    /// Adds a commit.
    #[inline]
    pub fn push(&mut self, commit: Commit, then: T) {
        if commit.alone {
            self.alone.push_back((commit, then))
        } else {
            self.dependent.push_back((commit, then))
        }
    }

    /// Removes a commit that may be acknowledged.
    #[inline]
    pub fn pop_durable(&mut self, is_durable: impl Fn(Commit) -> bool) -> Option<T> {
        let queues = [&mut self.alone, &mut self.dependent];
        let ready = queues.into_iter().find(|queue| queue.front().is_some_and(|(own, _)| is_durable(*own)));
        ready?.pop_front().map(|(_, then)| then)
    }

    /// The commit to wait for next.
    pub fn first(&self) -> Option<Commit> {
        self.alone.front().or(self.dependent.front()).map(|(commit, _)| *commit)
    }

    /// Commits in it.
    pub fn len(&self) -> usize {
        self.alone.len() + self.dependent.len()
    }

    /// Whether all are acknowledged.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
