//! A worker's commits that are not acknowledged yet.
//! Paper: Poplar §4.1, §4.3 (the commit queues Qww and Qwr). Differs: the first queue takes transactions that
//! have read only durable versions; those that have read none are a part of them.

use super::Commit;
use std::collections::VecDeque;

/// The unacknowledged commits of one worker, each with the action to take on acknowledgement.
#[derive(Clone, Debug)]
pub struct CommitQueue<T> {
    /// Commits that wait for the worker's own logger.
    alone: VecDeque<(Commit, T)>,
    /// Commits that wait for all loggers.
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

    /// Returns the commit to wait for next.
    pub fn first(&self) -> Option<Commit> {
        self.alone.front().or(self.dependent.front()).map(|(commit, _)| *commit)
    }

    /// Returns the number of commits.
    pub fn len(&self) -> usize {
        self.alone.len() + self.dependent.len()
    }

    /// Returns whether all commits are acknowledged.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
