//! Optimistic concurrency control: a transaction remembers the version of each row and index leaf that it
//! reads, and validates them at commit, with its write set locked.
//! Paper: Silo (Tu et al., SOSP 2013) §§4.4–4.6. Differs: a transaction that waits for its client, or that
//! has lost several races, holds rows before its commit, so that it loses no further one.
//!
//! Invariant: validation alone decides what commits; holds only make lost races rare.
//! Held by: `crates/reprise/tests/suite/serializability.rs` and `interleaved.rs`.

use super::Concurrency;
use crate::workspace::{Holding, Link};
use crate::{Tables, Workspace};
use catalog::TableId;
use procedure::{Conflict, Failure};
use storage::{Handle, Record, RecordState, TableStore, look_again};

/// At validation both commits may hold what the other one has read. Each looks for at most this long, the
/// number drawn at random, so that one gives up before the other and the other commits.
const LOOKS_AT_VALIDATION: u32 = 1 << 10;

/// A row that is written was read among the last of this many reads.
const RECENT: usize = 16;

/// Optimistic concurrency control.
#[derive(Debug)]
pub struct Optimistic;

impl Concurrency for Optimistic {
    /// Takes the row as far as the transaction holds rows that it reads, or if the row is hot. A transaction
    /// that can't be run again waits before it reads a row that another one is about to change.
    fn read(&self, workspace: &mut Workspace, row: Handle) -> Result<(), Failure> {
        match workspace.held.holding {
            Holding::Read => take(workspace, row),
            Holding::Written if workspace.heeds_heat_of(row) => {
                let taken = take(workspace, row);
                workspace.held.was_hot = taken.is_err();
                taken
            }
            _ if workspace.waits_in_place() => workspace.check_foreign(row),
            _ => Ok(()),
        }
    }

    /// Takes the row as far as the transaction holds rows that it writes; otherwise makes sure that no other
    /// transaction holds it.
    #[inline]
    fn write(&self, workspace: &mut Workspace, _: TableId, row: Handle) -> Result<(), Failure> {
        match workspace.held.holding {
            Holding::Nothing => workspace.check_foreign(row),
            Holding::Written | Holding::Read => take(workspace, row),
        }
    }

    /// Validation would notice that a record has left its indexes, but a transaction that holds the row would
    /// then fail.
    fn may_write(&self, tables: &Tables, _: &TableStore, record: Record<'_>) -> bool {
        tables.holds.is_held(record.address())
    }

    fn collide(&self, workspace: &mut Workspace, row: Handle) -> Result<(), Failure> {
        workspace.check_foreign(row)
    }

    fn validate(&self, workspace: &Workspace) -> Result<(), Conflict> {
        let guard = workspace.worker.guard();
        for (handle, state) in &workspace.reads {
            let record = guard.record(*handle);
            if record.is_state(*state) {
                continue;
            }
            let is_valid = record.is_state_under_lock(*state)
                && (workspace.writes.find(*handle).is_some() || is_unlocked_as(record, *state));
            if !is_valid {
                return Err(Conflict::Read);
            }
        }
        if !workspace.leaves_are_valid() {
            return Err(Conflict::Phantom);
        }
        // Another transaction may have added the same entry, and removed it again when it was rolled back.
        let is_linked = |link: &Link| {
            let index = workspace.tables.store(link.table).index_at(link.index);
            index.look_up(&link.key, guard).ok() == Some(guard.record(link.record))
        };
        if workspace.writes.links.iter().all(is_linked) { Ok(()) } else { Err(Conflict::Write) }
    }

    fn reads_hold(&self, workspace: &Workspace) -> Result<(), Conflict> {
        let guard = workspace.worker.guard();
        if !workspace.reads.iter().all(|(record, state)| guard.record(*record).is_state(*state)) {
            Err(Conflict::Read)
        } else if !workspace.leaves_are_valid() {
            Err(Conflict::Phantom)
        } else {
            Ok(())
        }
    }
}

/// Holds a row for the transaction.
///
/// # Errors
/// `Conflict::Read` when the holder before has written the row since the transaction read it.
fn take(workspace: &mut Workspace, row: Handle) -> Result<(), Failure> {
    workspace.take_hold(row)?;
    let now = workspace.record(row);
    let is_fresh = |(read, state): &(Handle, RecordState)| *read != row || now.is_state(*state);
    if workspace.reads.iter().rev().take(RECENT).all(is_fresh) {
        return Ok(());
    }
    workspace.tables.holds.heat.raise(row.address());
    Err(Conflict::Read.into())
}

/// Returns whether a record that another commit has locked is unlocked, soon, in the state in which the
/// transaction read it.
#[cold]
fn is_unlocked_as(record: Record<'_>, state: RecordState) -> bool {
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
