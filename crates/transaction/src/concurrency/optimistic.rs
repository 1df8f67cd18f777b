//! Optimistic concurrency control: a transaction remembers the version of each row and index leaf that it
//! reads, and validates them at commit, with its write set locked.
//! Paper: Silo (Tu et al., SOSP 2013) §§4.4–4.6. Differs: a transaction that waits for its client, or that
//! has lost several races, holds rows before its commit, so that it loses no further one.
//!
//! Invariant: validation alone decides what commits; holds only make lost races rare.
//! Held by: `crates/reprise/tests/suite/serializability.rs` and `interleaved.rs`.

use super::Concurrency;
use crate::holds::Mode;
use crate::workspace::{Holding, Link, Read};
use crate::{Tables, Workspace};
use catalog::{CommitOrder, TableId};
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
            Holding::Read => take(workspace, row, Mode::EXCLUSIVE),
            Holding::Written if workspace.heeds_heat_of(row) => {
                let taken = take(workspace, row, Mode::EXCLUSIVE);
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
            Holding::Written | Holding::Read => take(workspace, row, Mode::EXCLUSIVE),
        }
    }

    fn share(&self, workspace: &mut Workspace, _: TableId, row: Handle) -> Result<(), Failure> {
        match workspace.held.holding {
            Holding::Nothing => workspace.check_foreign_writer(row),
            Holding::Written | Holding::Read => take(workspace, row, Mode::SHARED),
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

    fn validate(&self, workspace: &mut Workspace, number: Option<CommitOrder>) -> Result<(), Conflict> {
        let moved = rows_hold(workspace, Locked::Writes(number))?;
        if !moved.is_empty() {
            workspace.reads.move_to(&moved);
            workspace.move_sums()?;
        }
        let (workspace, guard) = (&*workspace, workspace.worker.guard());
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
        rows_hold(workspace, Locked::Nothing)?;
        if workspace.leaves_are_valid() { Ok(()) } else { Err(Conflict::Phantom) }
    }
}

/// Holds a row for the transaction.
///
/// # Errors
/// `Conflict::Read` when the holder before has written what the transaction has read of the row.
fn take(workspace: &mut Workspace, row: Handle, mode: Mode) -> Result<(), Failure> {
    workspace.take_hold(row, mode)?;
    let now = workspace.record(row);
    let is_fresh = |read: &Read| {
        let is_same = read.record != row || now.is_state(read.state);
        is_same || version_with_values(workspace, Locked::Nothing, read).is_some()
    };
    if workspace.reads.iter().rev().take(RECENT).all(is_fresh) {
        return Ok(());
    }
    workspace.tables.holds.heat.raise(row.address());
    Err(Conflict::Read.into())
}

/// What a transaction has locked when its reads are checked.
#[derive(Clone, Copy)]
enum Locked {
    Nothing,
    /// Its write set. It holds in versions below the transaction's number, if that is drawn.
    Writes(Option<CommitOrder>),
}

impl Locked {
    /// Returns whether a row is locked by the transaction.
    #[inline]
    fn has(self, workspace: &Workspace, row: Handle) -> bool {
        matches!(self, Self::Writes(_)) && workspace.writes.find(row).is_some()
    }
}

/// Returns the reads that hold in later versions than those read, with these versions. All rows that were
/// read then have the values that were read at one moment: while this function ran, if there are any;
/// otherwise just before.
///
/// # Errors
/// `Conflict::Read`.
#[inline]
fn rows_hold(workspace: &Workspace, locked: Locked) -> Result<Vec<(usize, RecordState)>, Conflict> {
    let mut moved = Vec::new();
    for (place, read) in workspace.reads.iter().enumerate() {
        if is_unchanged(workspace, locked, read, read.state) {
            continue;
        }
        let state = version_with_values(workspace, locked, read).ok_or(Conflict::Read)?;
        if let Locked::Writes(Some(number)) = locked
            && state.order() >= number
        {
            return Err(Conflict::Read);
        }
        moved.push((place, state));
    }
    if moved.is_empty() {
        return Ok(moved);
    }
    // Each row has held by itself. If no version moves any more, all have held when this loop begins.
    let mut later = moved.iter().peekable();
    for (place, read) in workspace.reads.iter().enumerate() {
        let state = later.next_if(|(moved, _)| *moved == place).map_or(read.state, |(_, state)| *state);
        if !is_unchanged(workspace, locked, read, state) {
            return Err(Conflict::Read);
        }
    }
    Ok(moved)
}

/// Returns whether a row that was read has a version, unlocked by other transactions.
#[inline]
fn is_unchanged(workspace: &Workspace, locked: Locked, read: &Read, state: RecordState) -> bool {
    let record = workspace.record(read.record);
    record.is_state(state)
        || record.is_state_under_lock(state)
            && (locked.has(workspace, read.record) || is_unlocked_as(record, state))
        || read.is_of_absence() && record.has_died_in(state)
}

/// Returns the version of a row in which it has the values that were read from it.
#[cold]
fn version_with_values(workspace: &Workspace, locked: Locked, read: &Read) -> Option<RecordState> {
    if read.is_of_version() {
        return None;
    }
    let (record, is_own) = (workspace.record(read.record), locked.has(workspace, read.record));
    let mut looks = 0;
    while looks < LOOKS_AT_VALIDATION {
        let state = if is_own { Some(record.locked_state()) } else { record.unlocked_state() };
        if let Some(state) = state {
            if state.is_absent() || !workspace.reads.has_values(read, record, workspace.sums_may_move) {
                return None;
            }
            if is_own || record.is_state(state) {
                return Some(state);
            }
        }
        look_again(&mut looks);
    }
    None
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
