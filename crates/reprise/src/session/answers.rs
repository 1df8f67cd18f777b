//! What must be durable before an answer is given.
//!
//! An answer, an error included, shows what its transaction has read: rows, and that there were none. It
//! shows definitions, too. Where these belong to a transaction that is not durable yet, the answer waits for
//! it, although its own transaction may have come to nothing.
//! Invariant: everything up to the number of `must_be_durable` includes all that the last answer shows, and
//! all that the open transaction has shown so far. Held by:
//! `crates/reprise/tests/suite/answers_are_durable.rs`.

use super::{Access, Session, TransactionState};
use catalog::CommitOrder;
use logging::Commit as CommitPoint;

impl Session {
    /// Returns what must be durable before the last answer, an error included, is shown, as a point of the
    /// log: the answer may follow from transactions that are not durable yet. See `shown`.
    #[inline]
    pub fn must_be_durable(&self) -> CommitPoint {
        match self.answer {
            // It ran under definitions that were durable.
            CommitPoint { alone: true, .. } => self.answer,
            answer => CommitPoint { number: answer.number.max(self.worker.inner.logs.defined()), ..answer },
        }
    }

    /// A commit that waits for nothing.
    #[inline]
    pub(super) fn nothing_shown(&self) -> CommitPoint {
        CommitPoint { number: CommitOrder(0), alone: false, ..self.answer }
    }

    /// A call or statement begins, whose answer is the next. In a transaction it shows what the ones before
    /// have read, too.
    #[inline]
    pub(super) fn begin_answer(&mut self) {
        self.worker.machine.only_read(self.access() == Access::ReadOnly);
        if self.block.state == TransactionState::None {
            self.answer = self.nothing_shown();
        }
    }

    /// The answer shows a transaction of its own.
    #[inline]
    pub(super) fn answers(&mut self, commit: CommitPoint) -> CommitPoint {
        self.answer = commit;
        self.answer = self.must_be_durable();
        self.answer
    }

    /// The answer shows what the transaction in hand has read so far.
    pub(super) fn shows_what_was_read(&mut self) {
        let number = self.worker.workspace.last_observed();
        self.shows(number);
    }

    /// The answer shows what has a number, whatever else it shows.
    pub(super) fn shows(&mut self, number: CommitOrder) {
        self.answer = self.answer.and(CommitPoint { number, ..self.nothing_shown() });
    }

    /// The answer may show every transaction so far.
    pub(super) fn shows_everything(&mut self) {
        let newest = self.worker.inner.logs.newest(&self.worker.version.tables.epochs);
        self.shows(newest);
    }
}
