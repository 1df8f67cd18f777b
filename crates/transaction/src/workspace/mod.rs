//! The workspace of a worker's transactions: read set, write set, undo, index maintenance and scans, which
//! all schemes of concurrency control share.
//! Paper: Silo (Tu et al., SOSP 2013) §4.4.
//!
//! Not here: what a read, a write and the commit mean (`crate::concurrency`), the order of the steps of a
//! commit (`crate::commit`).

mod access;
mod apart;
mod deferred;
mod describe;
mod expected;
mod holding;
mod install;
mod keys;
mod leaves;
mod looks;
mod reads;
mod savepoint;
mod scans;
mod skipping;
mod sums;
mod write_set;

pub use describe::{Described, Description, RowWordCount};
pub use expected::Expectations;
pub use holding::{Holding, WaitInPlace};
pub(crate) use reads::{Read, ReadSet};
pub use savepoint::Savepoint;
pub(crate) use scans::Scans;
pub(crate) use write_set::Link;

use crate::Tables;
use crate::concurrency::{Concurrency, DependencyGraph};
use crate::garbage::Bin;
use catalog::{Arena, CommitOrder, Datum, Table, TableId};
use holding::Held;
use keys::out_of_memory;
use leaves::Leaves;
use logging::Observed;
use looks::Look;
use procedure::{Conflict, DataAccess, Failure, Interrupts, KeptRows};
use storage::{Fingers, Handle, LeafObservation, Record, Slot, Worker};
pub(crate) use sums::MovedSums;
use write_set::WriteSet;

/// A transaction asks whether there is room for what it changes once in this many bytes.
const ROOM: usize = 1 << 20;
/// A read-only transaction that has read more rows than this restarts on a snapshot, because validation would
/// probably fail.
const LONG: usize = 4096;

/// Deleted records are cleaned up once a worker has this many transactions behind it.
const COLLECT_EVERY: u32 = 32;

/// A worker that has retired this many bytes tries to free them behind its next transaction.
const MUCH_RETIRED: usize = 4 << 20;

/// Ends the transaction in hand, so that it stays or not, and begins another one.
pub type EndTransaction = dyn FnMut(&mut Workspace, bool) -> Result<(), Failure> + Send;

/// The state of one worker's transactions.
pub struct Workspace {
    /// The scheme of concurrency control.
    pub(crate) discipline: &'static dyn Concurrency,
    is_locking: bool,
    pub(crate) tables: Tables,
    pub(crate) worker: Worker,
    /// What interrupts a wait for rows that recovery has still to bring back.
    pub(crate) interrupts: Interrupts,
    pub(crate) reads: ReadSet,
    /// How many of `reads` have been looked through for `last_read`.
    looked_through: usize,
    /// The greatest number among those, and of what earlier transactions of the same call have observed.
    last_read: CommitOrder,
    /// What earlier transactions of the same call have observed, whose values this one may have.
    carried: Observed,
    /// A transaction that has read this many rows is to run on a snapshot.
    reads_at_most: usize,
    pub(crate) leaves: Leaves,
    /// The tables of those leaves.
    absences: Vec<TableId>,
    pub(crate) writes: WriteSet,
    /// Bytes of written values up to which there is room for the rows to come and for the transaction's
    /// record.
    room: usize,
    /// Bytes of rows that were inserted.
    inserted_bytes: usize,
    /// The columns to which the update that follows adds, with their values.
    added: Vec<(usize, i64)>,
    /// Whether the commit may move sums.
    pub(crate) sums_may_move: bool,
    /// The sums that the commit has moved.
    pub(crate) moved_sums: MovedSums,
    /// Rows that stand in registers.
    pub(crate) kept: KeptRows<Handle>,
    pub(crate) scans: Scans,
    expected: Expectations,
    fingers: Fingers,
    image: Vec<u64>,
    key: Vec<u8>,
    /// The key of a new row in a secondary index.
    secondary_key: Vec<u8>,
    /// The key of a row that the discipline locks.
    pub(crate) lock_key: Vec<u8>,
    /// The searches that leave out rows which other transactions hold. One that was begun later is for a
    /// result of those before it.
    searches: Vec<skipping::Search>,
    /// The table whose rows the statement in hand looks for in order to write them.
    pub(crate) writes_to: Option<TableId>,
    scratch: Arena,
    order: Vec<u32>,
    /// Index entries of rows that are written, by keys that they do not have any more.
    outdated: Vec<Link>,
    bin: Bin,
    since_collect: u32,
    /// Retired bytes from which on it is tried sooner to free them.
    retired_at_most: usize,
    /// Parts of procedures that may be undone.
    parts: Vec<Savepoint>,
    pub(crate) held: Held,
    /// Whether a commit has begun and not come to its end.
    is_committing: bool,
    /// Whether its transactions are vertices of batches.
    is_in_batches: bool,
    /// What ends transactions within a procedure, where that is possible.
    end_transaction: Option<Box<EndTransaction>>,
}

impl std::fmt::Debug for Workspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workspace").field("worker", &self.worker).finish_non_exhaustive()
    }
}

impl Workspace {
    /// Transactions of one worker over tables.
    pub fn new(tables: Tables, worker: Worker) -> Self {
        Self {
            discipline: tables.discipline,
            is_locking: tables.discipline.is_locking(),
            tables,
            worker,
            interrupts: Interrupts::default(),
            reads: ReadSet::default(),
            looked_through: 0,
            last_read: CommitOrder(0),
            carried: Observed::default(),
            reads_at_most: usize::MAX,
            leaves: Leaves::default(),
            absences: Vec::new(),
            writes: WriteSet::default(),
            room: ROOM,
            inserted_bytes: 0,
            added: Vec::new(),
            sums_may_move: false,
            moved_sums: MovedSums::default(),
            kept: KeptRows::default(),
            scans: Scans::default(),
            expected: Expectations::default(),
            fingers: Fingers::default(),
            image: Vec::new(),
            key: Vec::new(),
            secondary_key: Vec::new(),
            lock_key: Vec::new(),
            searches: Vec::new(),
            writes_to: None,
            scratch: Arena::default(),
            order: Vec::new(),
            outdated: Vec::new(),
            bin: Bin::default(),
            since_collect: 0,
            retired_at_most: MUCH_RETIRED,
            parts: Vec::new(),
            held: Held::default(),
            is_committing: false,
            is_in_batches: false,
            end_transaction: None,
        }
    }

    /// Says what interrupts a wait for rows that recovery has still to bring back.
    #[inline]
    pub fn interrupted_by(&mut self, interrupts: &Interrupts) {
        if self.tables.has_pending_rows() {
            self.interrupts.clone_from(interrupts);
        }
    }

    /// Gives back the buffers that are kept from one transaction to the next. Between transactions only.
    pub fn give_memory_back(&mut self) {
        self.reads = ReadSet::default();
        self.looked_through = 0;
        self.leaves = Leaves::default();
        self.absences = Vec::new();
        self.writes = WriteSet::default();
        self.kept = KeptRows::default();
        self.scans = Scans::default();
        self.expected = Expectations::default();
        self.fingers = Fingers::default();
        self.image = Vec::new();
        self.key = Vec::new();
        self.secondary_key = Vec::new();
        self.scratch = Arena::default();
        self.order = Vec::new();
        self.outdated = Vec::new();
    }

    /// Asks for the memory that the commit will need for written values, before there are more of them.
    #[inline]
    fn ask_room(&mut self) -> Result<(), Failure> {
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

    /// Says that all transactions are vertices of batches: they run under another discipline.
    pub fn enter_batches(&mut self) {
        self.is_in_batches = true;
        self.discipline = &DependencyGraph;
    }

    /// Whether all transactions are vertices of batches.
    pub fn is_in_batches(&self) -> bool {
        self.is_in_batches
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
        self.added.clear();
        (self.sums_may_move, self.moved_sums) = (false, MovedSums::default());
        self.kept.clear();
        self.expected.clear();
        self.scans.reset();
        self.parts.clear();
        self.reads_at_most = usize::MAX;
        self.writes_to = None;
        self.searches.clear();
        self.worker.stay();
    }

    /// A record that the transaction in hand has found.
    #[inline]
    pub(crate) fn record(&self, handle: Handle) -> Record<'_> {
        self.worker.guard().record(handle)
    }

    /// Says that the transaction in hand, which has just begun, may have values that earlier ones have
    /// observed.
    pub fn carry(&mut self, observed: Observed) {
        (self.last_read, self.carried) = (observed.last, observed);
    }

    /// Says that the transaction in hand only reads: when it turns out to take long, it fails with
    /// `Failure::Long`.
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
        self.leaves.forget_looks();
        self.end_holding();
        self.worker.leave();
    }

    /// Gives up the transaction: nothing of it remains.
    pub fn rollback(&mut self) {
        self.leaves.clear();
        self.take_back(0, 0);
        self.end();
    }

    /// Gives up a transaction that ended in an error. An error that follows from reads that no longer hold is
    /// none: the transaction saw states of different moments.
    ///
    /// # Errors
    /// The conflict that the error comes from; the transaction should be tried again.
    pub fn rollback_after_error(&mut self) -> Result<(), Conflict> {
        let conflict = self.reads_hold();
        self.rollback();
        conflict
    }

    /// Returns whether everything that the transaction has read still holds.
    ///
    /// # Errors
    /// The conflict.
    pub fn reads_hold(&self) -> Result<(), Conflict> {
        self.discipline.reads_hold(self)
    }

    /// Whether an index entry that this transaction added belongs to no version of its record. The record is
    /// locked.
    fn is_outdated(&self, link: usize) -> bool {
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
            self.bin.collect(durable, &self.tables, &guard, self.discipline);
        }
        drop(guard);
        self.worker.reclaim();
        if self.worker.retired_bytes() > MUCH_RETIRED {
            self.worker.reclaim_all();
        }
        // What readers may still see is not looked at again and again.
        self.retired_at_most = self.worker.retired_bytes() + MUCH_RETIRED;
    }

    /// Whether there is anything to clean up.
    pub fn has_garbage(&self) -> bool {
        !self.bin.is_empty() || self.worker.retired() > 0
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

    /// The greatest number of what the transaction has read so far, absent rows included: an answer that
    /// shows what it has read goes out once everything up to this is durable.
    pub fn last_observed(&mut self) -> CommitOrder {
        let new = self.reads.since(self.looked_through).iter().map(Read::order);
        self.last_read = new.fold(self.last_read, CommitOrder::max);
        self.looked_through = self.reads.len();
        self.last_vacated().fold(self.last_read, CommitOrder::max)
    }

    /// The numbers of the transactions that took index entries away where the transaction has found none.
    fn last_vacated(&self) -> impl Iterator<Item = CommitOrder> {
        let numbers = self.tables.access_numbers.iter();
        numbers.flat_map(|own| self.absences.iter().map(|table| own.vacated_by(*table)))
    }

    /// Returns whether no other transaction has changed the keys that the transaction has observed.
    pub(crate) fn leaves_are_valid(&self) -> bool {
        self.leaves.are_valid(&self.writes, self.worker.guard())
    }

    /// Returns whether the transaction observes keys at a moment at which recovery adds rows beside them.
    #[inline]
    fn has_moving_leaves(&self) -> bool {
        self.tables.has_pending_rows() && !self.is_in_batches && !self.is_locking
    }

    fn observe(&mut self, table: TableId, leaf: LeafObservation) {
        if !self.is_in_batches {
            self.leaves.observe(leaf);
        }
        self.observe_absence(table);
    }

    #[cold]
    fn look(&mut self, look: Look) {
        self.observe_absence(look.table());
        self.leaves.look(look);
    }

    fn observe_absence(&mut self, table: TableId) {
        if self.tables.access_numbers.is_some() && !self.absences.contains(&table) {
            self.absences.push(table);
        }
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if let Ok(mut orphans) = self.tables.orphans.lock() {
            orphans.extend(self.bin.take());
        }
    }
}
