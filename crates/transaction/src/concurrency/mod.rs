//! Concurrency control: one file a scheme. A scheme is a discipline over the workspace that all of them
//! share (`crate::workspace`): it decides what a read, a write and the commit mean.
//!
//! Not here: write sets, undo, index maintenance and scans (`crate::workspace`), the order of the steps of a
//! commit (`crate::commit`).

mod dependency_graph;
mod optimistic;
mod snapshot;
mod two_phase;

pub use dependency_graph::DependencyGraph;
pub use optimistic::Optimistic;
pub use snapshot::Reader;
pub use two_phase::TwoPhase;

use crate::holds::DeadlockPolicy;
use crate::holds::deadlocks::{Detect, NoWait, WaitDie};
use crate::{Tables, Workspace};
use catalog::{CommitOrder, Table, TableId};
use procedure::{Conflict, Failure, ScanRange};
use std::fmt;
use std::str::FromStr;
use storage::{Handle, Record, TableStore};

/// Which concurrency control a database uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Scheme {
    /// Optimistic: transactions validate what they have read when they commit.
    #[default]
    Optimistic,
    /// Strict two-phase locking; a wait that would close a cycle is refused.
    TwoPhase,
    /// Strict two-phase locking; a transaction waits for younger ones only.
    TwoPhaseWaitDie,
    /// Strict two-phase locking; a transaction that holds locks does not wait.
    TwoPhaseNoWait,
    /// Batches of calls, ordered by a dependency graph before they run; everything else is optimistic.
    DependencyGraph,
}

/// A scheme as it is chosen.
struct Choice {
    name: &'static str,
    scheme: Scheme,
    discipline: &'static dyn Concurrency,
}

/// All schemes: a new one is a line here.
static CHOICES: [Choice; 5] = [
    Choice { name: "occ", scheme: Scheme::Optimistic, discipline: &Optimistic },
    Choice { name: "2pl", scheme: Scheme::TwoPhase, discipline: &TwoPhase(&Detect) },
    Choice { name: "2pl-wait-die", scheme: Scheme::TwoPhaseWaitDie, discipline: &TwoPhase(&WaitDie) },
    Choice { name: "2pl-no-wait", scheme: Scheme::TwoPhaseNoWait, discipline: &TwoPhase(&NoWait) },
    Choice { name: "dgcc", scheme: Scheme::DependencyGraph, discipline: &Optimistic },
];

impl Scheme {
    /// Returns all schemes.
    pub fn all() -> impl Iterator<Item = Self> {
        CHOICES.iter().map(|choice| choice.scheme)
    }

    fn choice(self) -> &'static Choice {
        CHOICES.iter().find(|choice| choice.scheme == self).expect("each scheme is in the table")
    }

    /// Returns whether calls run in batches, each after the calls before it that it depends on.
    pub fn runs_batches(self) -> bool {
        self == Self::DependencyGraph
    }

    /// Returns whether transactions lock everything that they read and write.
    pub fn locks(self) -> bool {
        self.discipline().is_locking()
    }

    /// Returns the scheme's discipline.
    pub fn discipline(self) -> &'static dyn Concurrency {
        self.choice().discipline
    }
}

impl FromStr for Scheme {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = CHOICES.iter().find(|choice| choice.name == text);
        found.map(|choice| choice.scheme).ok_or_else(|| {
            let known = CHOICES.each_ref().map(|choice| choice.name).join(", ");
            format!("unknown concurrency control \"{text}\"; known are: {known}")
        })
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.choice().name)
    }
}

/// What a scheme decides about the transaction of a workspace.
///
/// A scheme has no state of its own: what it holds for a transaction lies in the workspace, what transactions
/// share lies in `Tables`.
pub trait Concurrency: Sync + fmt::Debug {
    /// Returns what a transaction does that would wait while it holds locks.
    fn deadlocks(&self) -> &'static dyn DeadlockPolicy {
        &Detect
    }

    /// Returns whether a transaction locks everything that it reads and writes. Only then the workspace asks
    /// `look`, `find_in` and `add_key`, and keeps the locks of what a savepoint undoes.
    fn is_locking(&self) -> bool {
        false
    }

    /// The transaction is about to look for keys of an index, whether or not there are any.
    ///
    /// # Errors
    /// `Conflict::Held` when another transaction is in the way.
    fn look(&self, workspace: &mut Workspace, table: &Table, range: ScanRange<'_>) -> Result<(), Failure> {
        let _ = (workspace, table, range);
        Ok(())
    }

    /// The transaction has found an entry of a secondary index, and is about to read its row.
    ///
    /// # Errors
    /// As `look`.
    fn find_in(&self, workspace: &mut Workspace, table: TableId, row: Handle) -> Result<(), Failure> {
        let _ = (workspace, table, row);
        Ok(())
    }

    /// The transaction is about to add a key to an index.
    ///
    /// # Errors
    /// As `look`.
    fn add_key(
        &self,
        workspace: &mut Workspace,
        table: &Table,
        index: usize,
        key: &[u8],
    ) -> Result<(), Failure> {
        let _ = (workspace, table, index, key);
        Ok(())
    }

    /// Returns whether an open transaction may have a record in its write set, so that the record stays in
    /// its indexes. The caller has latched the record. A scheme that validates no writes must see each.
    fn may_write(&self, tables: &Tables, store: &TableStore, record: Record<'_>) -> bool;

    /// The transaction is about to read a row that it has not written.
    ///
    /// # Errors
    /// `Conflict::Held` when another transaction is in the way; `Conflict::Read` when an earlier read of the
    /// row no longer holds.
    fn read(&self, workspace: &mut Workspace, row: Handle) -> Result<(), Failure>;

    /// The transaction is about to write a row for the first time, or selects it FOR UPDATE.
    ///
    /// # Errors
    /// As `read`.
    fn write(&self, workspace: &mut Workspace, table: TableId, row: Handle) -> Result<(), Failure>;

    /// The transaction selects a row FOR SHARE.
    ///
    /// # Errors
    /// As `read`.
    fn share(&self, workspace: &mut Workspace, table: TableId, row: Handle) -> Result<(), Failure>;

    /// Another row has a key that the transaction asks for: the answer follows from that row, which another
    /// transaction may be about to change.
    ///
    /// # Errors
    /// As `read`.
    fn collide(&self, workspace: &mut Workspace, row: Handle) -> Result<(), Failure>;

    /// Returns whether everything that the transaction has read still holds, while its write set is locked,
    /// and in versions below the transaction's number, if that is drawn.
    ///
    /// # Errors
    /// The conflict: a row, a range or an index entry has changed.
    fn validate(&self, workspace: &mut Workspace, number: Option<CommitOrder>) -> Result<(), Conflict>;

    /// Returns whether everything that the transaction has read still holds, while none of it is locked.
    ///
    /// # Errors
    /// The conflict: a row or a range has changed.
    fn reads_hold(&self, workspace: &Workspace) -> Result<(), Conflict>;
}
