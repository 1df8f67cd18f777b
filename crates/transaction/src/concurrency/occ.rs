//! Optimistic concurrency control.
//! Paper: Silo (Tu et al., SOSP 2013) §§4.4–4.6; Poplar §4.4 (OCC on SSN, early lock release). Differs: the version of a
//! record is the number of its writer, which comes from one clock at the serialization point where a command log needs a
//! total order that is a serial order, write-after-read included (DESIGN §5), and from the logs otherwise.
//!
//! Commit: lock the write set in address order; draw the number, where it must be a serial order, or else read the clock, which
//! is the number's floor; validate what was read, records and leaves; write the rows; take the number, where the logs give it;
//! unlock. Index entries are published when the
//! statement runs, so before the draw. Rows are unlocked before the commit is durable: whoever reads them has a greater
//! number.
//! Invariants: 1. numbers are a serial order, except those of `ssn`, which are greater than all that the transaction has read
//! or overwrites. 2. nothing of an aborted attempt is ever seen. 3. outside a running transaction, a record is in each index
//! exactly under the key of its row.
//! Held by: `crates/reprise/tests/suite/serializability.rs` and `sequencings.rs`, which re-execute in commit order and compare
//! digests.
//! Not here: how statements read and write (`access`).

use super::access::{LastInsert, out_of_memory};
use super::expected::Expectations;
use super::holding::Held;
use super::leaves::Leaves;
use super::listen::{CommitLog, Observed, Silence, Writing};
use super::savepoint::Savepoint;
use super::scans::Scans;
use crate::Tables;
use crate::access_numbers::Readable;
use crate::changes::{Action, Link, WriteSet};
use crate::garbage::{Bin, Garbage};
use catalog::{Arena, CommitOrder, Datum, RowChange, Table, TableId};
use logging::Numbering;
use procedure::{Conflict, DataAccess, Failure, KeptRows};
use std::sync::atomic::{Ordering, fence};
use storage::{Handle, LeafObservation, Record, RecordState, Slot, Worker, look_again};

/// How often a record is looked at that another commit has locked, before the attempt gives up. Locks are taken in one order, so
/// the other commit goes on.
const MOST_LOOKS: u32 = 1 << 16;
/// At validation both commits may hold what the other one has read. Each looks for at most so long, the number drawn at
/// random, so that one gives up before the other and the other commits.
const LOOKS_AT_VALIDATION: u32 = 1 << 10;

/// A transaction asks whether there is room for what it changes once in so many bytes.
const ROOM: usize = 1 << 20;
/// A query that has read so many rows had better not wait for nobody to have changed any.
const LONG: usize = 4096;

/// Deleted records are cleaned up once a worker has this many transactions behind it.
const COLLECT_EVERY: u32 = 32;

/// A worker that has retired so many bytes tries to free them behind its next transaction.
const MUCH_RETIRED: usize = 4 << 20;

/// How a transaction ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Committed {
    /// It wrote, at this place of the serial order.
    Wrote(CommitOrder),
    /// It only read; what it read is durable once everything up to this is.
    Read(CommitOrder),
}

/// Ends the transaction in hand, so that it stays or not, and begins another one.
pub type EndTransaction = dyn FnMut(&mut Occ, bool) -> Result<(), Failure> + Send;

/// The state of one worker's transactions under OCC.
pub struct Occ {
    pub(super) tables: Tables,
    pub(super) worker: Worker,
    pub(super) reads: Vec<(Handle, RecordState)>,
    /// How many of `reads` have been looked through for `last_read`.
    pub(super) looked_through: usize,
    /// The greatest number among those, and of what earlier transactions of the same call have observed.
    last_read: CommitOrder,
    /// What earlier transactions of the same call have observed, whose values this one may have.
    carried: Observed,
    /// A transaction that has read so many rows is to run on a snapshot.
    pub(super) reads_at_most: usize,
    pub(super) leaves: Leaves,
    /// The tables of those leaves.
    pub(super) absences: Vec<TableId>,
    pub(super) writes: WriteSet,
    /// Bytes of written values up to which there is room for the rows to come and for the transaction's record.
    pub(super) room: usize,
    /// Bytes of rows that were inserted.
    pub(super) inserted_bytes: usize,
    /// Rows that stand in registers.
    pub(super) kept: KeptRows<Handle>,
    pub(super) scans: Scans,
    pub(super) expected: Expectations,
    pub(super) inserted: LastInsert,
    pub(super) image: Vec<u64>,
    pub(super) key: Vec<u8>,
    pub(super) scratch: Arena,
    order: Vec<u32>,
    /// Index entries of rows that are written, by keys that they do not have any more.
    outdated: Vec<Link>,
    bin: Bin,
    since_collect: u32,
    /// Retired bytes from which on it is tried sooner to free them.
    retired_at_most: usize,
    /// Parts of procedures that may be undone.
    pub(super) parts: Vec<Savepoint>,
    pub(super) held: Held,
    /// Whether a commit has begun and not come to its end.
    is_committing: bool,
    /// What ends transactions within a procedure, where that is possible.
    pub(super) end_transaction: Option<Box<EndTransaction>>,
}

impl std::fmt::Debug for Occ {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Occ").field("worker", &self.worker).finish_non_exhaustive()
    }
}

impl Occ {
    /// Transactions of one worker over tables.
    pub fn new(tables: Tables, worker: Worker) -> Self {
        Self {
            tables,
            worker,
            reads: Vec::new(),
            looked_through: 0,
            last_read: CommitOrder(0),
            carried: Observed::default(),
            reads_at_most: usize::MAX,
            leaves: Leaves::default(),
            absences: Vec::new(),
            writes: WriteSet::default(),
            room: ROOM,
            inserted_bytes: 0,
            kept: KeptRows::default(),
            scans: Scans::default(),
            expected: Expectations::default(),
            inserted: LastInsert::default(),
            image: Vec::new(),
            key: Vec::new(),
            scratch: Arena::default(),
            order: Vec::new(),
            outdated: Vec::new(),
            bin: Bin::default(),
            since_collect: 0,
            retired_at_most: MUCH_RETIRED,
            parts: Vec::new(),
            held: Held::default(),
            is_committing: false,
            end_transaction: None,
        }
    }

    /// Gives back the buffers that are kept from one transaction to the next. Between transactions only.
    pub fn give_memory_back(&mut self) {
        self.reads = Vec::new();
        self.looked_through = 0;
        self.leaves = Leaves::default();
        self.absences = Vec::new();
        self.writes = WriteSet::default();
        self.kept = KeptRows::default();
        self.scans = Scans::default();
        self.expected = Expectations::default();
        self.inserted = LastInsert::default();
        self.image = Vec::new();
        self.key = Vec::new();
        self.scratch = Arena::default();
        self.order = Vec::new();
        self.outdated = Vec::new();
    }

    /// Asks for the memory that the commit will need for written values, before there are more of them.
    #[inline]
    pub(super) fn ask_room(&mut self) -> Result<(), Failure> {
        let changed = self.writes.arena.bytes_used();
        let bytes = changed + self.inserted_bytes;
        if bytes <= self.room {
            return Ok(());
        }
        // A row that outgrows its memory gets a quarter more than it needs.
        self.worker.check_room(changed + changed / 4, bytes).map_err(out_of_memory)?;
        self.room = bytes + ROOM;
        Ok(())
    }

    /// Takes over changed definitions. Between transactions only.
    pub fn set_tables(&mut self, tables: Tables) {
        self.tables = tables;
    }

    /// The tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The worker's slot.
    pub fn slot(&self) -> Slot {
        self.worker.slot()
    }

    /// How many rows and index leaves the transaction in hand has observed.
    pub fn observations(&self) -> usize {
        self.reads.len() + self.leaves.len()
    }

    /// The worker.
    pub fn worker(&mut self) -> &mut Worker {
        &mut self.worker
    }

    /// Begins a transaction.
    #[inline]
    pub fn begin(&mut self) {
        self.reads.clear();
        (self.looked_through, self.last_read, self.carried) = (0, CommitOrder(0), Observed::default());
        self.leaves.clear();
        self.absences.clear();
        self.writes.clear();
        (self.room, self.inserted_bytes) = (ROOM, 0);
        self.kept.clear();
        self.expected.clear();
        self.inserted.forget();
        self.scans.reset();
        self.parts.clear();
        self.reads_at_most = usize::MAX;
        self.worker.stay();
    }

    /// A record that the transaction in hand has found.
    #[inline]
    pub(super) fn record(&self, handle: Handle) -> Record<'_> {
        self.worker.guard().record(handle)
    }

    /// Says that the transaction in hand, which has just begun, may have values that earlier ones have observed.
    pub fn carry(&mut self, observed: Observed) {
        (self.last_read, self.carried) = (observed.last, observed);
    }

    /// Says that the transaction in hand only reads: when it turns out to take long, it fails with `Failure::Long`.
    pub fn only_reads(&mut self) {
        self.reads_at_most = LONG;
    }

    /// Says what ends transactions within a procedure.
    pub fn end_transactions_by(&mut self, end: Option<Box<EndTransaction>>) {
        self.end_transaction = end;
    }

    /// Ends the transaction in hand: it holds nothing any more, neither rows nor memory.
    #[inline]
    fn end(&mut self) {
        self.end_holding();
        self.worker.leave();
    }

    /// Gives up the transaction: nothing of it remains.
    pub fn rollback(&mut self) {
        self.leaves.clear();
        self.take_back(0, 0);
        self.end();
    }

    /// Gives up a transaction that ended in an error. An error that follows from reads that no longer hold is none: the
    /// transaction saw states of different moments.
    ///
    /// # Errors
    /// The conflict that the error comes from; the transaction should be tried again.
    pub fn rollback_after_error(&mut self) -> Result<(), Conflict> {
        let conflict = self.reads_hold();
        self.rollback();
        conflict
    }

    /// Whether all that was read, records and leaves, is as it was.
    ///
    /// # Errors
    /// What is not.
    pub fn reads_hold(&self) -> Result<(), Conflict> {
        let guard = self.worker.guard();
        if !self.reads.iter().all(|(record, state)| guard.record(*record).is_state(*state)) {
            Err(Conflict::Read)
        } else if !self.leaves.are_valid(guard) {
            Err(Conflict::Phantom)
        } else {
            Ok(())
        }
    }

    /// Whether an index entry that this transaction added belongs to no version of its record. The record is locked.
    pub(super) fn is_outdated(&self, link: usize) -> bool {
        let link = &self.writes.links[link];
        let (store, record) = (self.tables.store(link.table), self.record(link.record));
        let mut current = Vec::new();
        store.key_of_row(link.index, record.row(), &mut Arena::default(), &mut current);
        let is_dead = record.locked_state().is_dead();
        is_dead || current != link.key && !self.tables.is_under(store, record, link.index, &link.key)
    }

    /// Cleans up behind earlier transactions. Everything up to `durable` is.
    #[inline]
    pub fn collect_garbage(&mut self, durable: CommitOrder, is_current: impl FnOnce() -> bool) {
        self.since_collect += 1;
        let is_behind = self.bin.is_behind() || self.worker.retired_bytes() > self.retired_at_most;
        if self.since_collect >= COLLECT_EVERY || is_behind {
            self.collect_garbage_now(durable, is_current);
        }
    }

    /// Cleans up behind earlier transactions, whenever the last time was.
    pub fn collect_garbage_now(&mut self, durable: CommitOrder, is_current: impl FnOnce() -> bool) {
        self.since_collect = 0;
        if let Ok(mut orphans) = self.tables.orphans.try_lock() {
            orphans.drain(..).for_each(|garbage| self.bin.add(garbage));
        }
        let guard = self.worker.enter();
        // Definitions don't change while this is active; if they have before, tables may be gone.
        if is_current() {
            self.bin.collect(durable, &self.tables, &guard);
        }
        drop(guard);
        self.worker.reclaim();
        // What readers may still see is not looked at again and again.
        self.retired_at_most = MUCH_RETIRED.max(2 * self.worker.retired_bytes());
    }

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

    /// Commits in replay: at the order that the transaction once had, with nobody else at work.
    ///
    /// # Errors
    /// A record is locked, so somebody else is at work after all; the transaction is rolled back.
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

    /// Locks what is to be written, and makes sure that all that was read is as it was. Nobody else is at work, and the number is
    /// still to come (`finish_at`).
    ///
    /// # Errors
    /// A conflict; the transaction still runs.
    pub fn lock_and_validate(&mut self) -> Result<(), Conflict> {
        self.lock_writes()?;
        self.validate().inspect_err(|_| self.unlock_writes(self.order.len()))
    }

    /// Commits what is locked and validated.
    pub fn finish_at(&mut self, order: CommitOrder) {
        self.write_rows(&mut Silence);
        self.publish(order);
        self.end();
    }

    /// Gives up the transaction, if one runs.
    pub fn rollback_if_running(&mut self) {
        if self.worker.is_active() {
            self.rollback();
        }
    }

    /// Whether the transaction has written rows of a table.
    pub fn has_written(&self, table: TableId) -> bool {
        self.writes.entries.iter().any(|entry| entry.table == table)
    }

    /// Adds a row that no statement gives.
    ///
    /// # Errors
    /// A conflict, or its key is taken.
    pub fn insert_row(&mut self, table: &Table, row: &[Datum], arena: &Arena) -> Result<(), Failure> {
        self.insert(table, row, arena)
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

    /// The greatest number of what the transaction has read so far, absent rows included: an answer that shows what it has
    /// read goes out once everything up to this is durable.
    pub fn last_observed(&mut self) -> CommitOrder {
        let new = self.reads[self.looked_through..].iter().map(|(_, state)| state.order());
        self.last_read = new.fold(self.last_read, CommitOrder::max);
        self.looked_through = self.reads.len();
        self.last_vacated().fold(self.last_read, CommitOrder::max)
    }

    /// The numbers of the transactions that took index entries away where the transaction has found none.
    fn last_vacated(&self) -> impl Iterator<Item = CommitOrder> {
        let numbers = self.tables.access_numbers.iter();
        numbers.flat_map(|own| self.absences.iter().map(|table| own.vacated_by(*table)))
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

    /// Draws a number above everything that was read or is overwritten, and above everybody who has read what is overwritten;
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

    pub(super) fn observe(&mut self, table: TableId, leaf: LeafObservation) {
        self.leaves.observe(leaf);
        if self.tables.access_numbers.is_some() && !self.absences.contains(&table) {
            self.absences.push(table);
        }
    }
}

impl Drop for Occ {
    fn drop(&mut self) {
        if let Ok(mut orphans) = self.tables.orphans.lock() {
            orphans.extend(self.bin.take());
        }
    }
}
