//! The steps of a commit on the workspace: locks, installation, publication.
//! Paper: Silo §§4.4–4.6. The order of the steps, and what comes between them, is `crate::commit`.

use super::Workspace;
use super::write_set::{Action, Link};
use crate::Tables;
use crate::garbage::Garbage;
use catalog::{Arena, CommitOrder, RowChange, Table};
use logging::{Footprint, Observed, Readable};
use procedure::Conflict;
use std::sync::atomic::{Ordering, fence};
use storage::{Guard, Record, RecordState, look_again};

/// How often it looks at a record that another commit has locked, before the attempt gives up. Locks are
/// taken in one order, so the other commit goes on.
const MOST_LOOKS: u32 = 1 << 16;

impl Workspace {
    /// The guard of the running transaction.
    pub(crate) fn guard(&self) -> &Guard {
        self.worker.guard()
    }

    /// Notes that a commit begins, or has come to its end.
    #[inline]
    pub(crate) fn set_committing(&mut self, is_committing: bool) {
        self.is_committing = is_committing;
    }

    /// Whether a commit has begun and not come to its end, because it has panicked: rows are locked, and some
    /// are written.
    pub fn is_committing(&self) -> bool {
        self.is_committing
    }

    /// Locks the write set.
    ///
    /// # Errors
    /// Another commit keeps a row locked; the transaction is rolled back.
    #[inline]
    pub(crate) fn lock_or_rollback(&mut self) -> Result<(), Conflict> {
        self.lock_writes().inspect_err(|_| self.rollback())
    }

    /// Gives up a transaction whose write set is locked.
    pub(crate) fn unlock_and_rollback(&mut self) {
        self.unlock_writes(self.order.len());
        self.rollback();
    }

    /// Gives up a transaction whose write set is locked and whose number is drawn or was about to be.
    pub(crate) fn abandon_commit(&mut self) {
        self.tables.epochs.end_commit(self.worker.slot());
        self.unlock_and_rollback();
    }

    /// Ends a transaction whose rows are published.
    #[inline]
    pub(crate) fn end_commit(&mut self) {
        self.end();
    }

    /// Commits in replay: at the order that the transaction once had, while no other transaction runs.
    ///
    /// # Errors
    /// A record is locked, so another transaction is at work after all; the transaction is rolled back.
    pub fn commit_at(&mut self, order: CommitOrder) -> Result<(), Conflict> {
        self.lock_or_rollback()?;
        self.install(|_, _, _| {});
        self.publish(order);
        self.end();
        Ok(())
    }

    /// Commits a transaction that has written nothing. Returns the greatest number of what it has read.
    ///
    /// # Errors
    /// What it has read does not hold at one moment; the transaction is rolled back.
    pub(crate) fn commit_reads(&mut self) -> Result<CommitOrder, Conflict> {
        let result = self.reads_hold();
        let last = self.end_reads();
        result.map(|()| last)
    }

    /// Commits a transaction that has written nothing and whose reads have all held at one moment: that is
    /// its place in the serial order. Returns the greatest number of what it has read.
    pub fn end_reads(&mut self) -> CommitOrder {
        self.end();
        self.last_observed()
    }

    fn lock_writes(&mut self) -> Result<(), Conflict> {
        self.order.clear();
        self.order.extend(0..self.writes.entries.len() as u32);
        let entries = &self.writes.entries;
        self.order.sort_unstable_by_key(|place| entries[*place as usize].record.address());
        for (locked, place) in self.order.iter().enumerate() {
            let record = self.worker.guard().record(entries[*place as usize].record);
            let mut looks = 0;
            while record.try_lock().is_none() {
                look_again(&mut looks);
                if looks > MOST_LOOKS {
                    self.unlock_writes(locked);
                    return Err(Conflict::Write);
                }
            }
            // A transaction that has come to hold the row since this one wrote it would lose. What it reads
            // from here on, it reads behind this lock.
            if self.tables.holds.is_foreign(record.address(), self.worker.slot()) {
                self.unlock_writes(locked + 1);
                return Err(Conflict::Write);
            }
        }
        Ok(())
    }

    fn unlock_writes(&self, count: usize) {
        for place in &self.order[..count] {
            let record = self.record(self.writes.entries[*place as usize].record);
            record.unlock(record.locked_state());
        }
    }

    /// Makes sure that what the transaction has read still holds. Every version that it holds in is below
    /// the transaction's number, if that is drawn.
    ///
    /// # Errors
    /// The conflict.
    #[inline]
    pub(crate) fn validate(&mut self, number: Option<CommitOrder>) -> Result<(), Conflict> {
        self.discipline.validate(self, number)
    }

    /// Makes the rows what they will be, and calls `visit` with each that is written or deleted. They stay
    /// locked.
    #[inline]
    pub(crate) fn install(&mut self, mut visit: impl FnMut(RowChange, &Table, Record<'_>)) {
        if let Some(newest) = self.tables.snapshots.newest() {
            for entry in self.writes.entries.iter().filter(|entry| entry.action != Action::Insert) {
                self.record(entry.record).keep_older(newest);
            }
        }
        if !self.writes.links.is_empty() {
            self.install_links();
        }
        for place in 0..self.writes.entries.len() {
            let entry = self.writes.entries[place];
            let record = self.record(entry.record);
            if entry.action.removes() {
                if entry.action == Action::Delete {
                    visit(RowChange::Delete, self.tables.store(entry.table).definition(), record);
                }
                continue;
            }
            if entry.has_changes() {
                let layout = &self.tables.store(entry.table).definition().layout;
                record.apply(layout, self.writes.changes(place), &self.writes.arena);
            }
            let change = if entry.action == Action::Update { RowChange::Update } else { RowChange::Insert };
            visit(change, self.tables.store(entry.table).definition(), record);
        }
    }

    /// Takes the index entries away that are outdated, gives the rows their number and unlocks them.
    pub(crate) fn publish(&mut self, order: CommitOrder) {
        for Link { record, table, index, key } in &self.outdated {
            let (store, record) = (self.tables.store(*table), self.record(*record));
            if record.has_older() && self.tables.is_under(store, record, *index, key) {
                // It goes with the version that stands under it.
                continue;
            }
            if let Some(numbers) = &self.tables.access_numbers {
                // A transaction that finds nothing there depends on this one.
                numbers.raise_vacated(*table, order);
            }
            store.index_at(*index).remove(key, record.guard());
        }
        self.outdated.clear();
        for entry in &self.writes.entries {
            let record = self.worker.guard().record(entry.record);
            let before = record.locked_state();
            let is_garbage = entry.action.removes() || record.has_older();
            if is_garbage
                && !before.is_queued()
                && let Some(record) = record.held()
            {
                self.bin.add(Garbage { table: entry.table, record, order });
            }
            let state = match entry.action.removes() {
                true => RecordState::absent(order),
                false => RecordState::present(order),
            };
            record.unlock(state.with_queued(is_garbage || before.is_queued()));
        }
    }

    /// Settles the secondary index entries of records whose indexed columns change: those of the old row are
    /// to go, those of the new one stay. All records are locked.
    fn install_links(&mut self) {
        let mut arena = Arena::default();
        let (mut old, mut last) = (Vec::new(), None);
        for place in 0..self.writes.links.len() {
            let link = &self.writes.links[place];
            let Some(entry) = self.writes.find(link.record) else { continue };
            let Self { tables, writes, worker, outdated, .. } = self;
            let link = &writes.links[place];
            let (store, record) = (tables.store(link.table), worker.guard().record(link.record));
            if last != Some(link.record) {
                // The entry is applied now; applying it again in `write_rows` changes nothing.
                last = Some(link.record);
                let touched: Vec<usize> = (1..store.definition().indexes.len()).collect();
                let keys: Vec<Vec<u8>> = touched
                    .iter()
                    .map(|index| {
                        store.key_of_row(*index, record.row(), &mut arena, &mut old);
                        old.clone()
                    })
                    .collect();
                if !writes.entries[entry].action.removes() {
                    let layout = &store.definition().layout;
                    record.apply(layout, writes.changes(entry), &writes.arena);
                }
                for (index, key) in touched.into_iter().zip(keys) {
                    store.key_of_row(index, record.row(), &mut arena, &mut old);
                    if old != key {
                        outdated.push(Link { record: link.record, table: link.table, index, key });
                    }
                }
            }
            if self.is_outdated(place) {
                let link = &self.writes.links[place];
                self.tables.store(link.table).index_at(link.index).remove(&link.key, self.worker.guard());
            }
        }
    }
}

impl Footprint for Workspace {
    fn carried(&self) -> Observed {
        self.carried
    }

    fn for_each_version(&self, visit: &mut dyn FnMut(CommitOrder)) {
        self.reads.iter().for_each(|read| visit(read.order()));
        for entry in &self.writes.entries {
            visit(self.record(entry.record).locked_state().order());
        }
    }

    fn for_each_vacated(&self, visit: &mut dyn FnMut(CommitOrder)) {
        self.last_vacated().for_each(visit);
    }

    /// The clock is read with the rows locked and before the read set is validated, so that it tells which
    /// snapshots hold the transaction (`storage::Snapshots`).
    fn settled_floor(&self) -> CommitOrder {
        // ORDERING: SeqCst fences before and after the clock is read, here and in every other transaction: if
        // this one's validation misses the lock of another, the other's clock is not older than this one's.
        fence(Ordering::SeqCst);
        let Tables { epochs, snapshots, .. } = &self.tables;
        let clock = epochs.next_order();
        fence(Ordering::SeqCst);
        if let Some(bound) = snapshots.unsettled().filter(|bound| *bound <= clock) {
            // From here on this commit is above the bound, too: two that wait do not wait for each other.
            epochs.begin_commit(self.worker.slot());
            while epochs.open_from(|_| true) < bound {
                std::thread::yield_now();
            }
            snapshots.settle(bound);
        }
        CommitOrder(clock.0 - 1)
    }

    fn last_reader(&self) -> CommitOrder {
        let Some(numbers) = &self.tables.access_numbers else { return CommitOrder(0) };
        let readers = self.writes.entries.iter().map(|entry| {
            numbers
                .read_by(Readable::Row(entry.record.address()))
                .max(numbers.read_by(Readable::Absence(entry.table)))
        });
        readers.max().unwrap_or_default()
    }

    fn note_reads(&self, number: CommitOrder) {
        let Some(numbers) = &self.tables.access_numbers else { return };
        let rows = self.reads.iter().map(|read| Readable::Row(read.record.address()));
        rows.for_each(|row| numbers.raise_read(row, number));
        self.absences.iter().for_each(|table| numbers.raise_read(Readable::Absence(*table), number));
    }
}
