//! The commits that must be durable before an answer is shown.
//!
//! An answer, an error included, shows the reads of its transaction: rows, the absence of rows, and
//! definitions. It waits for the transactions that wrote them, even if its own transaction was rolled back.
//! Invariant: the transactions up to the number of `must_be_durable` include all transactions whose writes
//! the last answer shows, or the open transaction has shown so far. Held by:
//! `crates/reprise/tests/suite/answers_are_durable.rs`.

use super::{Access, Session, TransactionState};
use catalog::CommitOrder;
use logging::Commit as CommitPoint;

impl Session {
    /// Returns the point of the log that must be durable before the last answer, an error included, is shown.
    /// As `shown`, for callers that keep points.
    #[inline]
    pub fn must_be_durable(&self) -> CommitPoint {
        match self.answer {
            // A transaction counts alone only if its definitions were durable.
            CommitPoint { alone: true, .. } => self.answer,
            answer => CommitPoint { number: answer.number.max(self.worker.inner.logs.defined()), ..answer },
        }
    }

    /// Returns a commit that is durable at once.
    #[inline]
    pub(super) fn nothing_shown(&self) -> CommitPoint {
        CommitPoint { number: CommitOrder(0), alone: false, ..self.answer }
    }

    /// Begins the answer of a call or statement. In an open transaction the answer also shows the reads of
    /// earlier statements.
    #[inline]
    pub(super) fn begin_answer(&mut self) {
        self.worker.machine.only_read(self.access() == Access::ReadOnly);
        if self.block.state == TransactionState::None {
            self.answer = self.nothing_shown();
        }
    }

    /// Makes the answer show a committed transaction. Returns the point that must be durable.
    #[inline]
    pub(super) fn answers(&mut self, commit: CommitPoint) -> CommitPoint {
        self.answer = commit;
        self.answer = self.must_be_durable();
        self.answer
    }

    /// Adds the reads of the current transaction to the answer.
    pub(super) fn shows_what_was_read(&mut self) {
        let number = self.worker.workspace.last_observed();
        self.shows(number);
    }

    /// Adds all transactions up to a number to the answer.
    pub(super) fn shows(&mut self, number: CommitOrder) {
        self.answer = self.answer.and(CommitPoint { number, ..self.nothing_shown() });
    }

    /// Adds all transactions so far to the answer.
    pub(super) fn shows_everything(&mut self) {
        let newest = self.worker.inner.logs.newest(&self.worker.version.tables.epochs);
        self.shows(newest);
    }
}
