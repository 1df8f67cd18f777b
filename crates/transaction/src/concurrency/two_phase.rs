//! Strict two-phase locking: a transaction locks what it reads and writes before it does, and releases all
//! locks at its end, after its commit number is drawn.
//! Source: Gray et al., Granularity of Locks in a Shared Data Base, 1976; Eswaran et al., 1976.
//!
//! A granule is an index of a table, a prefix of whole columns of its keys, or a key. Its lock is named by a
//! hash of the index' address and the key bytes, so a granule without a row has one, too. A transaction that
//! locks a granule holds intent locks on the index and on each shorter prefix. So a reader of a range
//! conflicts with each writer of a key in it: there are no phantoms.
//!
//! Example, an index (a, b) and a range a = 1:
//! 1. The reader holds IS on the index and S on the prefix (1).
//! 2. A writer of the key (1, 7) asks for IX on the index and gets it; for IX on (1) it waits.
//! 3. A writer of the key (2, 7) holds IX on the index and on (2), and X on (2, 7): it does not wait.
//!
//! Invariants: 1. a transaction holds S or X on the primary key of each row that it reads, or S on a prefix
//! of it. 2. it holds X on the primary key of each row that it writes, and on each index key that it adds.
//! 3. it releases no lock before its end.
//! Held by: `crates/reprise/tests/suite/serializability.rs`.
//! Not here: the table of locks, queues and deadlocks (`crate::holds`); long reads, which run on snapshots.

use super::Concurrency;
use crate::holds::{DeadlockPolicy, Mode};
use crate::{Tables, Workspace};
use catalog::{Arena, CommitOrder, Index, Table, TableId, successor};
use procedure::{Conflict, Failure, ScanRange};
use storage::{Handle, Record, TableStore};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Strict two-phase locking, with what a transaction does that would wait while it holds locks.
#[derive(Debug)]
pub struct TwoPhase(pub &'static dyn DeadlockPolicy);

impl Concurrency for TwoPhase {
    fn deadlocks(&self) -> &'static dyn DeadlockPolicy {
        self.0
    }

    fn is_locking(&self) -> bool {
        true
    }

    fn look(&self, workspace: &mut Workspace, table: &Table, range: ScanRange<'_>) -> Result<(), Failure> {
        let granule = granule_of(table, range);
        let is_key = range.index == 0 && range.upper == Some(range.lower);
        let mode = match workspace.writes_to == Some(table.id) {
            // Two transactions that read the row first would both wait for the other's read.
            true if is_key => Mode::EXCLUSIVE,
            true => Mode::SHARED.and(Mode::INTENT_EXCLUSIVE),
            false => Mode::SHARED,
        };
        lock(workspace, table, range.index, granule, mode)
    }

    fn read(&self, _: &mut Workspace, _: Handle) -> Result<(), Failure> {
        // The transaction has locked the key or range that it found the row by, and `find_in` its key.
        Ok(())
    }

    fn find_in(&self, workspace: &mut Workspace, table: TableId, row: Handle) -> Result<(), Failure> {
        // Another writer may have come to the row by another index.
        let is_written = workspace.writes_to == Some(table);
        lock_row(workspace, table, row, if is_written { Mode::EXCLUSIVE } else { Mode::SHARED })
    }

    fn write(&self, workspace: &mut Workspace, table: TableId, row: Handle) -> Result<(), Failure> {
        lock_row(workspace, table, row, Mode::EXCLUSIVE)
    }

    fn share(&self, workspace: &mut Workspace, table: TableId, row: Handle) -> Result<(), Failure> {
        lock_row(workspace, table, row, Mode::SHARED)
    }

    fn add_key(
        &self,
        workspace: &mut Workspace,
        table: &Table,
        index: usize,
        key: &[u8],
    ) -> Result<(), Failure> {
        // No other transaction adds a key with the same columns of a unique index, or of a deferrable key,
        // whose check would wait for it.
        let Index { columns, rules, .. } = &table.indexes[index];
        let collides = || rules.nulls_equal || !has_null(table, index, key);
        let granule = match index > 0 && table.indexes[index].is_key() && collides() {
            true => prefix(table, index, columns.len(), key),
            false => key,
        };
        lock(workspace, table, index, granule, Mode::EXCLUSIVE)
    }

    /// A transaction locks the primary key before it looks for a record. It either has the lock when this
    /// looks, or finds the record latched or dead afterwards.
    fn may_write(&self, tables: &Tables, store: &TableStore, record: Record<'_>) -> bool {
        let mut key = Vec::new();
        store.key_of_row(0, record.row(), &mut Arena::default(), &mut key);
        tables.holds.is_held(name_of(address_of(store, 0), &key))
    }

    fn collide(&self, _: &mut Workspace, _: Handle) -> Result<(), Failure> {
        Ok(())
    }

    /// All reads hold, because they are locked. The write set is checked once more: a row whose record has
    /// left its indexes would be acknowledged, and lost.
    fn validate(&self, workspace: &mut Workspace, _: Option<CommitOrder>) -> Result<(), Conflict> {
        let mut records = workspace.writes.entries.iter().map(|entry| workspace.record(entry.record));
        match records.any(|record| record.locked_state().is_dead()) {
            true => Err(Conflict::Write),
            false => Ok(()),
        }
    }

    fn reads_hold(&self, _: &Workspace) -> Result<(), Conflict> {
        Ok(())
    }
}

/// Locks the primary key of a row. It never changes, but a writer may move the row's memory meanwhile.
fn lock_row(workspace: &mut Workspace, table: TableId, row: Handle, mode: Mode) -> Result<(), Failure> {
    let mut key = std::mem::take(&mut workspace.lock_key);
    let store = workspace.tables.by_id(table).expect("the row's table is there").clone();
    let record = workspace.record(row);
    loop {
        let state = record.stable_state();
        store.key_of_row(0, record.row(), &mut Arena::default(), &mut key);
        if record.is_state(state) {
            break;
        }
    }
    let locked = lock(workspace, store.definition(), 0, &key, mode);
    workspace.lock_key = key;
    locked
}

/// Locks a granule of an index, after the granules above it.
fn lock(
    workspace: &mut Workspace,
    table: &Table,
    index: usize,
    granule: &[u8],
    mode: Mode,
) -> Result<(), Failure> {
    let intent = if mode == Mode::SHARED { Mode::INTENT_SHARED } else { Mode::INTENT_EXCLUSIVE };
    let address = address_of(workspace.tables.store(table.id), index);
    for end in prefix_ends(table, index, granule).take_while(|end| *end < granule.len()) {
        workspace.acquire(name_of(address, &granule[..end]), intent)?;
    }
    workspace.acquire(name_of(address, granule), mode)
}

/// Returns the address of an index, which stays the same while a transaction runs. Two tables that open
/// transactions have made may share a number, so the name of a lock does not contain it.
fn address_of(store: &TableStore, index: usize) -> u64 {
    std::ptr::from_ref(store.index_at(index)).addr() as u64
}

/// Returns the name of a granule's lock.
fn name_of(address: u64, granule: &[u8]) -> u64 {
    xxh3_64_with_seed(granule, address)
}

/// Returns where prefixes of whole columns end in bytes of an index's key: 0 for the whole index first.
fn prefix_ends<'a>(table: &'a Table, index: usize, key: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let mut columns = table.key_columns(&table.indexes[index]).into_iter();
    let next = move |end: &usize| Some(*end + table.key_column_length(columns.next()?, key.get(*end..)?)?);
    std::iter::successors(Some(0), next)
}

/// Returns the first columns of a key.
fn prefix<'a>(table: &Table, index: usize, columns: usize, key: &'a [u8]) -> &'a [u8] {
    let end = prefix_ends(table, index, key).nth(columns).unwrap_or(key.len());
    &key[..end]
}

/// Returns whether a key has a NULL among the columns of its index.
fn has_null(table: &Table, index: usize, key: &[u8]) -> bool {
    let columns = &table.indexes[index].columns;
    let mut begins = columns.iter().zip(prefix_ends(table, index, key));
    begins.any(|(column, begin)| table.is_key_column_null(*column, &key[begin..]))
}

/// Returns the longest prefix of whole columns that all keys of a range have.
fn granule_of<'a>(table: &Table, range: ScanRange<'a>) -> &'a [u8] {
    let ScanRange { index, lower, upper, .. } = range;
    let Some(upper) = upper else { return &[] };
    let has_all = |end: &usize| {
        let prefix = &lower[..*end];
        upper.starts_with(prefix) || {
            let mut above = prefix.to_vec();
            successor(&mut above);
            upper == above
        }
    };
    let end = prefix_ends(table, index, lower).take_while(has_all).last().unwrap_or(0);
    &lower[..end]
}
