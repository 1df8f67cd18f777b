//! Open snapshots: each is the state below a commit order, kept readable while writers continue.
//! Paper: Silo §4.9 (read-only transactions). Differs: checkpoints are snapshots too.
//!
//! A writer that overwrites a row keeps the old version if an open snapshot may need it. The writer asks for
//! the bounds once its commit has begun, and may learn its own order only later. `open` therefore announces a
//! bound, waits for the transactions that had begun to commit, and only then lets the clock pass the bound.
//!
//! A snapshot is a serial state if it is closed: it contains each transaction that one of its transactions
//! must follow. Where numbers are a serial order, this follows from the numbers. The numbers of `ssn` follow
//! reads-from and overwrites, but not anti-dependencies: a transaction that overwrites a read version may
//! have the lower number. There the moment of validation decides. Let c(T) be the clock, read with all rows
//! locked and before the reads are validated.
//!
//! (a) If T must precede U, then c(T) ≤ c(U). Case 1: U read or overwrote a version of T. T published it
//! after c(T), and U locks or validates after that. Case 2: U overwrote a version that T read. T's validation
//! found the row unlocked, so U locked it later, and read the clock after that.
//!
//! (b) number(T) < bound exactly if c(T) < bound. If c(T) ≥ bound, the number is at or above the bound,
//! because a number is above c(T) - 1. If c(T) < bound, the number comes from the greatest number that T
//! observed or that its buffer has given. Neither reaches the bound before the last such T has its number,
//! because a transaction with c ≥ bound waits for all of them before it is validated and numbered
//! (`unsettled`).
//!
//! By (a) and (b) the transactions below a bound are closed.
//!
//! Invariants: 1. a transaction whose order is at or above a bound sees the bound before it writes. Held by:
//! `a_bound_lies_ahead_of_every_drawn_order`, and by checkpoints taken under load (crates/reprise/tests). 2.
//! bounds ascend: a version that no open snapshot needs is not needed by a later one. 3. (b). Held by:
//! `concurrency/snapshot/tests.rs` (crates/transaction).

use crate::record::{OlderVersion, RecordState, RowWords};
use crate::{Epochs, Record};
use catalog::{CommitOrder, Epoch};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// All open snapshots.
#[derive(Debug, Default)]
pub struct Snapshots {
    /// Bounds of the open snapshots, in ascending order.
    bounds: Mutex<Vec<CommitOrder>>,
    /// Bound of the newest open snapshot; 0 when none is open.
    newest: AtomicU64,
    /// The greatest bound below which no transaction is still committing.
    settled: AtomicU64,
    /// Number of snapshots closed so far.
    closed: AtomicU64,
}

/// An open snapshot; dropping it closes it.
#[derive(Debug)]
pub struct Snapshot {
    bound: CommitOrder,
    of: Arc<Snapshots>,
}

impl Snapshot {
    /// Returns the bound: the snapshot contains exactly the transactions ordered before it.
    pub fn bound(&self) -> CommitOrder {
        self.bound
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let mut bounds = self.of.lock();
        if let Ok(place) = bounds.binary_search(&self.bound) {
            bounds.remove(place);
        }
        self.of.announce(&bounds);
        self.of.closed.fetch_add(1, Ordering::SeqCst);
    }
}

impl Snapshots {
    fn lock(&self) -> MutexGuard<'_, Vec<CommitOrder>> {
        self.bounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn announce(&self, bounds: &[CommitOrder]) {
        self.newest.store(bounds.last().map_or(0, |bound| bound.0), Ordering::SeqCst);
    }

    /// Announces a snapshot and waits until no transaction below its bound is still committing.
    pub fn open(self: &Arc<Self>, epochs: &Epochs) -> Snapshot {
        let pass = |bound: CommitOrder| {
            while epochs.current() < bound.epoch() {
                epochs.advance_from(epochs.current());
            }
            while epochs.open_from(|_| true) < bound {
                std::thread::yield_now();
            }
        };
        let mut bounds = self.lock();
        loop {
            let bound = CommitOrder::first_of(Epoch(epochs.current().0 + 3));
            bounds.push(bound);
            self.announce(&bounds);
            // ORDERING: SeqCst: a transaction that begins to commit after the clock leaves its current epoch
            // loads the bound announced above.
            pass(CommitOrder::first_of(Epoch(epochs.current().0 + 1)));
            // Other threads advance the clock too, and may have passed the bound before every worker saw it.
            if epochs.next_order() < bound {
                pass(bound);
                self.settle(bound);
                return Snapshot { bound, of: Arc::clone(self) };
            }
            bounds.pop();
        }
    }

    /// Returns whether a snapshot is open.
    pub fn is_open(&self) -> bool {
        self.newest.load(Ordering::SeqCst) != 0
    }

    /// Returns the bound up to which a transaction must keep the versions that it overwrites. The transaction
    /// asks once its commit has begun.
    #[inline]
    pub fn newest(&self) -> Option<CommitOrder> {
        let bound = self.newest.load(Ordering::SeqCst);
        (bound != 0).then_some(CommitOrder(bound))
    }

    /// Returns the bound of the newest snapshot while some of its transactions may still lack a number.
    #[inline]
    pub fn unsettled(&self) -> Option<CommitOrder> {
        let newest = self.newest.load(Ordering::SeqCst);
        (newest > self.settled.load(Ordering::SeqCst)).then_some(CommitOrder(newest))
    }

    /// Records that no transaction below a bound is still committing.
    pub fn settle(&self, bound: CommitOrder) {
        self.settled.fetch_max(bound.0, Ordering::SeqCst);
    }

    /// Returns the number of snapshots closed so far. While it is unchanged, needed versions stay needed.
    pub fn closed(&self) -> u64 {
        self.closed.load(Ordering::SeqCst)
    }

    /// Copies the bounds of the open snapshots into `out`, in ascending order. Returns false while a snapshot
    /// opens: that waits for commits, and the caller may be in the way of one, as an executor is that cleans
    /// up before its batch ends.
    #[must_use]
    pub fn copy_bounds(&self, out: &mut Vec<CommitOrder>) -> bool {
        out.clear();
        if !self.is_open() {
            return true;
        }
        match self.bounds.try_lock() {
            Ok(bounds) => out.extend_from_slice(&bounds),
            Err(TryLockError::Poisoned(poisoned)) => out.extend_from_slice(&poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => return false,
        }
        true
    }
}

/// Returns whether one of the snapshots with these ascending bounds needs a version that `replaced_by`
/// replaced.
pub fn is_needed(bounds: &[CommitOrder], version: CommitOrder, replaced_by: CommitOrder) -> bool {
    let later = bounds.partition_point(|bound| *bound <= version);
    bounds.get(later).is_some_and(|bound| *bound <= replaced_by)
}

impl Record<'_> {
    /// Runs `read` on the record's current row once its lock is free. Returns the state, and the result of
    /// `read` if the row exists. `read` runs again when a writer interferes.
    pub fn read_now<R>(self, mut read: impl FnMut(RowWords<'_>) -> R) -> (RecordState, Option<R>) {
        loop {
            let state = self.stable_state();
            let result = (!state.is_absent()).then(|| read(self.row()));
            if self.is_state(state) {
                return (state, result);
            }
        }
    }

    /// Runs `read` on the row as of the bound of an open snapshot. Returns the result of `read`, if the row
    /// existed, and the order of that version. `read` runs again when a writer interferes.
    pub fn read_at<R>(
        self,
        bound: CommitOrder,
        mut read: impl FnMut(RowWords<'_>) -> R,
    ) -> (CommitOrder, Option<R>) {
        loop {
            let state = self.stable_state();
            if state.order() < bound {
                let result = (!state.is_absent()).then(|| read(self.row()));
                if self.is_state(state) {
                    return (state.order(), result);
                }
                continue;
            }
            return match self.older().find(|version| version.state.order() < bound) {
                Some(OlderVersion { state, row }) => (state.order(), (!state.is_absent()).then(|| read(row))),
                None => (CommitOrder(0), None),
            };
        }
    }

    /// Runs `visit` on the rows of the older versions. The caller holds the lock.
    pub fn for_each_older(self, mut visit: impl FnMut(RowWords<'_>)) {
        self.older().filter(|version| !version.state.is_absent()).for_each(|version| visit(version.row));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Memory, NewState, Slot, Worker};

    #[test]
    fn a_bound_lies_ahead_of_every_drawn_order() {
        let epochs = Epochs::new(Epoch(1), 1);
        let snapshots = Arc::new(Snapshots::default());
        let slot = epochs.register().unwrap();
        epochs.begin_commit(slot);
        let before = epochs.draw();
        epochs.end_commit(slot);
        assert_eq!(snapshots.newest(), None);
        let first = snapshots.open(&epochs);
        assert!(before < first.bound());
        let between = epochs.draw();
        assert!(between >= first.bound());
        let second = snapshots.open(&epochs);
        assert!(between < second.bound());
        assert_eq!(snapshots.newest(), Some(second.bound()));
        drop(second);
        assert_eq!(snapshots.newest(), Some(first.bound()));
        drop(first);
        assert_eq!((snapshots.newest(), snapshots.closed()), (None, 2));
    }

    #[test]
    fn every_snapshot_finds_its_version() {
        let epochs = Arc::new(Epochs::new(Epoch(1), 1));
        let mut worker = Worker::new(Arc::clone(&epochs), Arc::new(Memory::new(1 << 30))).unwrap();
        let snapshots = Arc::new(Snapshots::default());
        let guard = worker.enter();
        let record = Record::create(&[0], NewState::uncommitted(Slot(0)), &guard).unwrap();
        let mut open: Vec<(Snapshot, Option<u64>)> = Vec::new();
        let mut bounds = Vec::new();
        for n in 1..if cfg!(miri) { 80 } else { 2_000u64 } {
            record.try_lock().unwrap();
            if let Some(newest) = snapshots.newest() {
                record.keep_older(newest);
            }
            let order = epochs.draw();
            let now = (!n.is_multiple_of(5)).then_some(n);
            match now {
                None => record.unlock(RecordState::absent(order)),
                Some(n) => {
                    record.write_image(&[n]);
                    record.unlock(RecordState::present(order));
                }
            }
            match n % 7 {
                0 | 3 => open.push((snapshots.open(&epochs), now)),
                5 if open.len() > 3 => drop(open.swap_remove(n as usize % open.len())),
                6 => {
                    assert!(snapshots.copy_bounds(&mut bounds));
                    record.try_lock().unwrap();
                    let needed = |version, by| is_needed(&bounds, version, by);
                    record.drop_older(needed, |_| {});
                    assert!(record.older().count() <= bounds.len());
                    record.unlock(record.locked_state());
                }
                _ => {}
            }
            for (snapshot, expected) in &open {
                let (order, row) = record.read_at(snapshot.bound(), |row| row.load(0));
                assert_eq!(row, *expected);
                assert!(order < snapshot.bound());
            }
            if open.len() > 20 {
                open.clear();
            }
        }
    }
}
