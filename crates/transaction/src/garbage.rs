//! Deleted records on their way out of the indexes.
//!
//! A delete leaves the record in its indexes, marked absent, so that concurrent readers can validate against it, and so
//! that whoever reads the absence knows how durable it is. Once its epoch is durable and no snapshot is open, a worker
//! takes it out.
//! Invariants: 1. a record is in at most one bin, as its state says (`is_queued`), so nobody frees it twice.
//! 2. a record leaves its indexes only while it is absent.

use crate::Tables;
use catalog::{Arena, CommitOrder, TableId};
use std::collections::VecDeque;
use storage::{Record, Worker};

/// A record to look at again once everything up to a number is durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Garbage {
    pub(crate) table: TableId,
    pub(crate) record: Record,
    pub(crate) order: CommitOrder,
}

/// What one worker has to clean up, oldest first.
#[derive(Default)]
pub(crate) struct Bin {
    pending: VecDeque<Garbage>,
    arena: Arena,
}

impl Bin {
    pub(crate) fn add(&mut self, garbage: Garbage) {
        self.pending.push_back(garbage);
    }

    /// Everything, for the next worker.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Garbage> {
        self.pending.drain(..)
    }

    /// Cleans up what was deleted up to a number. The worker is active.
    pub(crate) fn collect(&mut self, until: CommitOrder, tables: &Tables, worker: &mut Worker) {
        for _ in 0..self.pending.len() {
            if self.pending.front().is_none_or(|garbage| garbage.order > until) {
                break;
            }
            let Some(Garbage { table, record, .. }) = self.pending.pop_front() else { break };
            let Some(store) = tables.by_id(table) else { continue };
            let Some(state) = record.try_lock() else {
                let order = worker.epochs().next_order();
                self.pending.push_back(Garbage { table, record, order });
                continue;
            };
            if !state.is_absent() {
                record.unlock(state.with_queued(false));
            } else if state.order() > until {
                record.unlock(state);
                self.pending.push_back(Garbage { table, record, order: state.order() });
            } else {
                record.unlock_dead();
                self.arena.clear();
                tables.unlink(store, record, &mut self.arena, worker);
            }
        }
    }
}
