//! The one open snapshot: everything below a commit order, kept readable while writers go on.
//! Source: DESIGN §7, consistent checkpoints.
//!
//! A writer that overwrites a row while a snapshot is open keeps the old version when the snapshot may need it. It asks once
//! its commit has begun, and may know its own order only later: the bound is announced, whoever began before that is
//! waited for, and only then the clock passes the bound.
//! Invariant: a transaction whose order is at or above the bound sees the bound before it writes. Held by:
//! `the_bound_lies_ahead_of_every_drawn_order`, and by checkpoints taken under load (crates/reprise/tests).

use crate::record::{RecordState, RowWords};
use crate::{Epochs, Record};
use catalog::{CommitOrder, Epoch};
use std::sync::atomic::{AtomicU64, Ordering};

const CLOSED: u64 = u64::MAX;

/// Where the open snapshot ends, if one is open.
#[derive(Debug)]
pub struct SnapshotBound(AtomicU64);

impl Default for SnapshotBound {
    fn default() -> Self {
        Self(AtomicU64::new(CLOSED))
    }
}

impl SnapshotBound {
    /// Announces a snapshot and waits until no transaction below its bound is under way. Returns the bound: the
    /// snapshot holds exactly the transactions ordered before it.
    ///
    /// # Panics
    /// When a snapshot is open.
    pub fn open(&self, epochs: &Epochs) -> CommitOrder {
        assert_eq!(self.0.load(Ordering::SeqCst), CLOSED, "one snapshot at a time");
        let pass = |bound: CommitOrder| {
            while epochs.current() < bound.epoch() {
                epochs.advance_from(epochs.current());
            }
            while epochs.open_from(|_| true) < bound {
                std::thread::yield_now();
            }
        };
        loop {
            let bound = CommitOrder::first_of(Epoch(epochs.current().0 + 3));
            self.0.store(bound.0, Ordering::SeqCst);
            // ORDERING: SeqCst: whoever begins to commit once the clock is past what it shows now loads the bound from here.
            pass(CommitOrder::first_of(Epoch(epochs.current().0 + 1)));
            // Others advance the clock too, and may have passed the bound before everybody saw it.
            if epochs.next_order() < bound {
                pass(bound);
                return bound;
            }
        }
    }

    /// Ends the snapshot.
    pub fn close(&self) {
        self.0.store(CLOSED, Ordering::SeqCst);
    }

    /// Whether a snapshot is open.
    pub fn is_open(&self) -> bool {
        self.0.load(Ordering::SeqCst) != CLOSED
    }

    /// The bound for which a transaction must keep what it overwrites. Asked once its commit has begun.
    #[inline]
    pub fn bound(&self) -> Option<CommitOrder> {
        let bound = self.0.load(Ordering::SeqCst);
        (bound != CLOSED).then_some(CommitOrder(bound))
    }
}

/// What a snapshot holds of a record.
#[derive(Debug)]
pub(crate) enum SnapshotRow<'a> {
    /// The row as of the snapshot.
    Present(RowWords<'a>),
    /// No row.
    Absent,
}

impl Record {
    /// Runs `read` on the row that this record has, once nobody holds its lock; returns its state, and what `read` made of the
    /// row, if there is one. `read` may run more than once: it is repeated when a writer came between.
    pub fn read_now<R>(self, mut read: impl FnMut(RowWords<'_>) -> R) -> (RecordState, Option<R>) {
        loop {
            let state = self.stable_state();
            let result = (!state.is_absent()).then(|| read(self.row()));
            if self.is_state(state) {
                return (state, result);
            }
        }
    }

    /// Runs `read` on the row that this record had just below `bound`; `None` when it had none. `read` may run more
    /// than once: it is repeated when a writer came between.
    pub fn read_at<R>(self, bound: CommitOrder, mut read: impl FnMut(RowWords<'_>) -> R) -> Option<R> {
        loop {
            let state = self.stable_state();
            if state.order() < bound {
                if state.is_absent() {
                    return None;
                }
                let result = read(self.row());
                if self.is_state(state) {
                    return Some(result);
                }
                continue;
            }
            return match self.older(bound)? {
                SnapshotRow::Present(row) => Some(read(row)),
                SnapshotRow::Absent => None,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_lies_ahead_of_every_drawn_order() {
        let epochs = Epochs::new(Epoch(1), 1);
        let snapshot = SnapshotBound::default();
        let slot = epochs.register().unwrap();
        epochs.begin_commit(slot);
        let before = epochs.draw();
        epochs.end_commit(slot);
        assert_eq!(snapshot.bound(), None);
        let bound = snapshot.open(&epochs);
        assert!(before < bound);
        assert!(epochs.draw() >= bound);
        assert_eq!(snapshot.bound(), Some(bound));
        snapshot.close();
        assert_eq!(snapshot.bound(), None);
    }
}
