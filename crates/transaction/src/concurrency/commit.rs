//! The commit of a transaction under OCC.
//! Paper: Silo §§4.4–4.6; Poplar §4.4 (OCC on SSN, early lock release). Differs: the number of a transaction comes from one clock
//! at the serialization point where a command log needs a total order that is a serial order, write-after-read included (DESIGN
//! §5), and from the logs otherwise.
//!
//! 1. Lock the write set, in address order.
//! 2. Draw the number where it must be a serial order; otherwise read the clock, which is the number's floor.
//! 3. Validate what was read: records and leaves.
//! 4. Write the rows.
//! 5. Take the number where the logs give it.
//! 6. Unlock. Rows are unlocked before the commit is durable: a transaction that reads them has a greater number.
//!
//! Index entries are published when the statement runs, so before the number is drawn.
//! Invariants: 1. numbers are a serial order, except those of `ssn`, which are greater than all that the transaction has read
//! or overwrites. 2. nothing of an aborted attempt is ever seen. 3. outside a running transaction, a record is in each index
//! exactly under the key of its row.
//! Held by: `crates/reprise/tests/suite/serializability.rs` and `sequencings.rs`, which re-execute in commit order and compare
//! digests.

use super::Occ;
use super::listen::{CommitLog, Silence, Writing};
use crate::Tables;
use crate::access_numbers::Readable;
use crate::changes::{Action, Link};
use crate::garbage::Garbage;
use catalog::{Arena, CommitOrder, RowChange};
use logging::{Numbering, Observed};
use procedure::Conflict;
use std::sync::atomic::{Ordering, fence};
use storage::{Record, RecordState, look_again};

/// How often a record is looked at that another commit has locked, before the attempt gives up. Locks are taken in one order, so
/// the other commit goes on.
const MOST_LOOKS: u32 = 1 << 16;

/// At validation both commits may hold what the other one has read. Each looks for at most this long, the number drawn at
/// random, so that one gives up before the other and the other commits.
const LOOKS_AT_VALIDATION: u32 = 1 << 10;

/// How a transaction ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Committed {
    /// It wrote, at this place of the serial order.
    Wrote(CommitOrder),
    /// It only read; what it read is durable once everything up to this is.
    Read(CommitOrder),
}

impl Occ {
    /// Commits. `log` learns what is written when it wants to know, and that it is.
    ///
    /// # Errors
    /// A conflict, or the log does not admit it; the transaction is rolled back.
    #[inline]
    pub fn commit(&mut self, log: &mut impl CommitLog) -> Result<Committed, Conflict> {
        if self.writes.entries.is_empty() {
            return self.commit_reads();
        }
        self.is_committing = true;
        let committed = self.commit_writes(log);
        self.is_committing = false;
        committed
    }

    /// Whether a commit has begun and not come to its end, because it has panicked: rows are locked, and some are written.
    pub fn is_committing(&self) -> bool {
        self.is_committing
    }

    #[inline]
    fn commit_writes(&mut self, log: &mut impl CommitLog) -> Result<Committed, Conflict> {
        if let Err(conflict) = self.lock_writes() {
            self.rollback();
            return Err(conflict);
        }
        if log.wants_rows() {
            let (rows, words) = self.row_words();
            if !log.admits(rows, words, self.worker.guard()) {
                self.unlock_writes(self.order.len());
                self.rollback();
                return Err(Conflict::Write);
            }
        }
        let slot = self.worker.slot();
        self.tables.epochs.begin_commit(slot);
        if log.wants_operations() && !log.writing(self.tables.epochs.draw(), Writing(self)) {
            self.abandon();
            return Err(Conflict::Write);
        }
        let drawn = match log.numbering() {
            Numbering::Clock => Some(self.tables.epochs.draw()),
            Numbering::LogsAndReads => Some(self.draw_above_reads(log)),
            Numbering::Logs => None,
        };
        let floor = if drawn.is_none() { self.settled_floor() } else { CommitOrder(0) };
        if let Err(conflict) = self.validate() {
            if let Some(order) = drawn {
                log.aborted(order);
            }
            self.abandon();
            return Err(conflict);
        }
        let observed = drawn.is_none().then(|| self.observed(|number| log.has_alone(number)));
        self.write_rows(log);
        let order = drawn.unwrap_or_else(|| log.number(observed.unwrap_or_default(), floor));
        if order.sequence() >= CommitOrder::SEQUENCE_LIMIT {
            // The clock's epoch never falls behind that of numbers.
            self.tables.epochs.advance_from(order.epoch());
        }
        self.publish(order);
        log.committed(order);
        self.tables.epochs.end_commit(slot);
        self.end();
        Ok(Committed::Wrote(order))
    }

    /// Gives up a transaction whose rows are locked and whose order is drawn or was about to be.
    fn abandon(&mut self) {
        self.tables.epochs.end_commit(self.worker.slot());
        self.unlock_writes(self.order.len());
        self.rollback();
    }

    /// Commits in replay: at the order that the transaction once had, while no other transaction runs.
    ///
    /// # Errors
    /// A record is locked, so another transaction is at work after all; the transaction is rolled back.
    pub fn commit_at(&mut self, order: CommitOrder) -> Result<(), Conflict> {
        if let Err(conflict) = self.lock_writes() {
            self.rollback();
            return Err(conflict);
        }
        self.write_rows(&mut Silence);
        self.publish(order);
        self.end();
        Ok(())
    }

    /// Locks what is to be written, and makes sure that all that was read is as it was. No other transaction runs, and the number is
    /// still to come (`finish_at`).
    ///
    /// # Errors
    /// A conflict; the transaction still runs.
    pub fn lock_and_validate(&mut self) -> Result<(), Conflict> {
        self.lock_writes()?;
        self.validate().inspect_err(|_| self.unlock_writes(self.order.len()))?;
        self.is_committing = true;
        Ok(())
    }

    /// Commits what is locked and validated.
    pub fn finish_at(&mut self, order: CommitOrder) {
        self.write_rows(&mut Silence);
        self.publish(order);
        self.end();
        self.is_committing = false;
    }

    fn commit_reads(&mut self) -> Result<Committed, Conflict> {
        let result = self.reads_hold();
        let committed = self.end_reads();
        result.map(|()| committed)
    }

    /// Commits a transaction that has written nothing and whose reads have all held at one moment: that is its place in the serial
    /// order.
    pub fn end_reads(&mut self) -> Committed {
        self.end();
        Committed::Read(self.last_observed())
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
        }
        Ok(())
    }

    fn unlock_writes(&self, count: usize) {
        for place in &self.order[..count] {
            let record = self.record(self.writes.entries[*place as usize].record);
            record.unlock(record.locked_state());
        }
    }

    fn validate(&self) -> Result<(), Conflict> {
        let guard = self.worker.guard();
        for (handle, state) in &self.reads {
            let record = guard.record(*handle);
            if record.is_state(*state) {
                continue;
            }
            let is_valid = record.is_state_under_lock(*state)
                && (self.writes.find(*handle).is_some() || self.is_unlocked_as(record, *state));
            if !is_valid {
                return Err(Conflict::Read);
            }
        }
        if !self.leaves.are_valid(guard) {
            return Err(Conflict::Phantom);
        }
        // Another transaction may have added the same entry and taken it away again as it gave up.
        let is_linked = |link: &Link| {
            let index = self.tables.store(link.table).index_at(link.index);
            index.get(&link.key, guard).0 == Some(guard.record(link.record))
        };
        if self.writes.links.iter().all(is_linked) { Ok(()) } else { Err(Conflict::Write) }
    }

    /// Whether a record that another commit has locked is unlocked, soon, in the state in which it was read.
    #[cold]
    fn is_unlocked_as(&self, record: Record<'_>, state: RecordState) -> bool {
        let most = rand::random_range(1..LOOKS_AT_VALIDATION);
        let mut looks = 0;
        while looks < most && record.is_state_under_lock(state) {
            if record.is_state(state) {
                return true;
            }
            look_again(&mut looks);
        }
        false
    }

    /// Numbers that the logs give are above this: so a snapshot knows who comes after it.
    fn floor(&self) -> CommitOrder {
        CommitOrder(self.tables.epochs.next_order().0 - 1)
    }

    /// The floor of a number that comes after validation: the clock, read with the rows locked and before what was read is
    /// validated, so that it tells which snapshots hold the transaction (`storage::Snapshots`). Above the bound of a snapshot
    /// that is being opened this waits until all transactions below it have their numbers.
    fn settled_floor(&self) -> CommitOrder {
        // ORDERING: SeqCst fences before and after the clock is read, here and in every other transaction: if this one's
        // validation misses the lock of another, the other's clock is not older than this one's.
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

    /// What was read or is overwritten. The rows are locked and not written yet. Paper: Poplar Algorithm 1, lines 1–4.
    fn observed(&self, is_own: impl Fn(CommitOrder) -> bool) -> Observed {
        let read = self.reads.iter().map(|(_, state)| state.order());
        let overwritten =
            self.writes.entries.iter().map(|entry| self.record(entry.record).locked_state().order());
        let mut observed = self.carried;
        for order in read.chain(overwritten) {
            observed.last = observed.last.max(order);
            if !is_own(order) {
                observed.foreign = observed.foreign.max(order);
            }
        }
        for vacated in self.last_vacated() {
            observed.last = observed.last.max(vacated);
            observed.foreign = observed.foreign.max(vacated);
        }
        observed
    }

    /// Draws a number above everything that was read or is overwritten, and above all transactions that have read what is overwritten;
    /// and says so of what was read. Paper: Poplar §3.3 (NVM-D).
    fn draw_above_reads(&self, log: &mut impl CommitLog) -> CommitOrder {
        let floor = self.observed(|_| false).last.max(self.floor());
        let Some(numbers) = &self.tables.access_numbers else { return log.draw(floor) };
        let readers = self.writes.entries.iter().map(|entry| {
            numbers.read_by(Readable::Row(entry.record)).max(numbers.read_by(Readable::Absence(entry.table)))
        });
        let order = log.draw(readers.max().unwrap_or_default().max(floor));
        self.reads.iter().for_each(|(record, _)| numbers.raise_read(Readable::Row(*record), order));
        self.absences.iter().for_each(|table| numbers.raise_read(Readable::Absence(*table), order));
        order
    }

    /// Makes the rows what they will be. They stay locked.
    fn write_rows(&mut self, log: &mut impl CommitLog) {
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
                if entry.action == Action::Delete && log.wants_rows() {
                    log.wrote(RowChange::Delete, self.tables.store(entry.table).definition(), record);
                }
                continue;
            }
            if entry.has_changes() {
                let layout = &self.tables.store(entry.table).definition().layout;
                record.apply(layout, self.writes.changes(place), &self.writes.arena);
            }
            if log.wants_rows() {
                let change =
                    if entry.action == Action::Update { RowChange::Update } else { RowChange::Insert };
                log.wrote(change, self.tables.store(entry.table).definition(), record);
            }
        }
    }

    /// Takes the index entries away that are outdated, gives the rows their number and unlocks them.
    fn publish(&mut self, order: CommitOrder) {
        for Link { record, table, index, key } in &self.outdated {
            let (store, record) = (self.tables.store(*table), self.record(*record));
            if record.has_older() && self.tables.is_under(store, record, *index, key) {
                // It goes with the version that stands under it.
                continue;
            }
            if let Some(numbers) = &self.tables.access_numbers {
                // Whoever finds nothing there depends on this transaction.
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

    /// Settles the secondary index entries of records whose indexed columns change: those of the old row are to go, those of
    /// the new one stay. All records are locked.
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
