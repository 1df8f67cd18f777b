//! Concurrency control: one file a scheme. A scheme is a discipline over the workspace that all of them
//! share (`crate::workspace`): it decides what a read, a write and the commit mean.
//!
//! Not here: write sets, undo, index maintenance and scans (`crate::workspace`), the order of the steps of a
//! commit (`crate::commit`).

mod optimistic;
mod snapshot;

pub use optimistic::Optimistic;
pub use snapshot::Reader;

use crate::Workspace;
use procedure::{Conflict, Failure};
use storage::Handle;

/// What a scheme decides about the transaction of a workspace.
///
/// A scheme has no state of its own: what it holds for a transaction lies in the workspace, what transactions
/// share lies in `Tables`.
pub trait Concurrency: Sync + std::fmt::Debug {
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
    fn write(&self, workspace: &mut Workspace, row: Handle) -> Result<(), Failure>;

    /// Another row has a key that the transaction asks for: the answer follows from that row, which another
    /// transaction may be about to change.
    ///
    /// # Errors
    /// As `read`.
    fn collide(&self, workspace: &mut Workspace, row: Handle) -> Result<(), Failure>;

    /// Returns whether everything that the transaction has read still holds, while its write set is locked.
    ///
    /// # Errors
    /// The conflict: a row, a range or an index entry has changed.
    fn validate(&self, workspace: &Workspace) -> Result<(), Conflict>;

    /// Returns whether everything that the transaction has read still holds, while none of it is locked.
    ///
    /// # Errors
    /// The conflict: a row or a range has changed.
    fn reads_hold(&self, workspace: &Workspace) -> Result<(), Conflict>;
}
