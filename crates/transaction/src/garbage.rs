//! What no transaction needs any more: deleted records on their way out of the indexes, and older versions.
//!
//! A delete leaves the record in its indexes, marked absent, so that concurrent readers can validate against
//! it, and so that the reader of the absence knows how durable it is. Once its epoch is durable and no
//! snapshot needs an older version of it, a worker takes it out. A record that was overwritten while
//! snapshots are open loses its older versions once they are closed.
//! Invariants: 1. a record is in at most one bin, as its state says (`is_queued`), so it is freed once.
//! 2. a record leaves its indexes only while it is absent. 3. a record with older versions is in a bin.
//! 4. while an open transaction has a record in its write set, the record leaves its indexes only if the
//! transaction's validation notices that. Held by: `crates/reprise/tests/suite/cleaning_up.rs` and
//! `interleaved.rs`.

use crate::Tables;
use crate::concurrency::Concurrency;
use catalog::{Arena, CommitOrder, TableId};
use std::collections::VecDeque;
use storage::{Guard, Held, is_needed};

/// At most this many records are looked at in one go: the worker that cleans up has a transaction to run.
const AT_ONCE: usize = 1024;

/// A record to look at again once everything up to a number is durable.
#[derive(Debug)]
pub(crate) struct Garbage {
    pub(crate) table: TableId,
    pub(crate) record: Held,
    pub(crate) order: CommitOrder,
}

/// What one worker has to clean up, oldest first.
#[derive(Default)]
pub(crate) struct Bin {
    pending: VecDeque<Garbage>,
    /// Records with versions that snapshots need.
    kept: VecDeque<Garbage>,
    /// How many snapshots had been closed when they were looked at.
    closed: u64,
    bounds: Vec<CommitOrder>,
    arena: Arena,
}

impl Bin {
    pub(crate) fn add(&mut self, garbage: Garbage) {
        self.pending.push_back(garbage);
    }

    /// Whether there is more to look at than is looked at in a few goes.
    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        self.pending.len() > 4 * AT_ONCE
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.kept.is_empty()
    }

    /// Everything, for the next worker.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Garbage> {
        self.pending.drain(..).chain(self.kept.drain(..))
    }

    /// Looks at a record again after the transactions that run now.
    fn postpone(&mut self, garbage: Garbage, guard: &Guard) {
        let order = guard.epochs().next_order();
        self.pending.push_back(Garbage { order, ..garbage });
    }

    /// Cleans up what was deleted or replaced up to a number. `discipline` is that of the transactions that
    /// run meanwhile; the worker itself runs none.
    pub(crate) fn collect(
        &mut self,
        until: CommitOrder,
        tables: &Tables,
        guard: &Guard,
        discipline: &dyn Concurrency,
    ) {
        let closed = tables.snapshots.closed();
        if self.closed != closed {
            self.closed = closed;
            self.pending.append(&mut self.kept);
        }
        for _ in 0..self.pending.len().min(AT_ONCE) {
            if self.pending.front().is_none_or(|garbage| garbage.order > until) {
                break;
            }
            let Some(garbage) = self.pending.pop_front() else { break };
            let Some(store) = tables.by_id(garbage.table) else {
                garbage.record.release(guard);
                continue;
            };
            let record = garbage.record.record(guard);
            let Some(state) = record.try_lock() else {
                self.postpone(garbage, guard);
                continue;
            };
            if discipline.may_write(tables, store, record) {
                record.unlock(state);
                self.postpone(garbage, guard);
                continue;
            }
            if record.has_older() {
                // With the record locked: a session that kept a version for a snapshot has announced it
                // before.
                if !tables.snapshots.copy_bounds(&mut self.bounds) {
                    record.unlock(state);
                    self.postpone(garbage, guard);
                    continue;
                }
                let bounds = &self.bounds;
                tables.drop_older(store, record, |version, by| is_needed(bounds, version, by));
            }
            if record.has_older() {
                record.unlock(state);
                self.kept.push_back(garbage);
            } else if !state.is_absent() {
                record.unlock(state.with_queued(false));
                garbage.record.release(guard);
            } else if state.order() > until {
                record.unlock(state);
                self.pending.push_back(Garbage { order: state.order(), ..garbage });
            } else {
                record.unlock_dead();
                self.arena.clear();
                tables.unlink(store, record, &mut self.arena, &mut |_| false);
                garbage.record.release(guard);
            }
        }
    }
}
