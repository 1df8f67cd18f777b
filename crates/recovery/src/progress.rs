//! The progress of a recovery: counters that a progress bar or a log line reads.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A stage of recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Loading the checkpoint, counted in bytes.
    Checkpoint,
    /// Reading the log, counted in bytes.
    Log,
    /// Replaying the log, counted in records.
    Replay,
    /// The end.
    Done,
}

impl Stage {
    /// Describes the stage.
    pub fn doing(self) -> &'static str {
        match self {
            Self::Checkpoint => "loading the checkpoint",
            Self::Log => "reading the log",
            Self::Replay => "replaying transactions",
            Self::Done => "recovered",
        }
    }
}

const STAGES: [Stage; 4] = [Stage::Checkpoint, Stage::Log, Stage::Replay, Stage::Done];

/// The counters, shared by all threads.
#[derive(Default, Debug)]
pub struct Progress {
    stage: AtomicUsize,
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Begins a stage with an amount of work.
    pub fn begin(&self, stage: Stage, total: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        self.stage.store(stage as usize, Ordering::Release);
    }

    pub(crate) fn counter(&self) -> &AtomicU64 {
        &self.done
    }

    /// Sets the finished work of the stage.
    pub fn set_done(&self, done: u64) {
        self.done.store(done, Ordering::Relaxed);
    }

    /// Returns the stage, the finished work of it, and all work of it.
    pub fn now(&self) -> (Stage, u64, u64) {
        let stage = STAGES[self.stage.load(Ordering::Acquire).min(STAGES.len() - 1)];
        (stage, self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }
}
