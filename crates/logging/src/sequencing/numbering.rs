//! How a sequencing numbers transactions: at which step of a commit, and above which other numbers.
//!
//! A commit calls `before_validation` with its write set locked, validates its read set, installs its rows,
//! and calls `after_validation` where it has no number yet. One implementation a family of sequencings:
//! `clock.rs`, `ssn.rs`, `gsn.rs`.
//! Invariant: a transaction that read or overwrote what another one wrote gets the greater number.
//! Held by: `crates/reprise/tests/suite/serializability.rs` and `sequencings.rs`.

use super::LoggerTag;
use crate::buffer::Room;
use crate::content::Stamp;
use crate::error::LogError;
use crate::log_set::LogSet;
use catalog::CommitOrder;
use std::fmt;
use storage::{Epochs, Slot};

/// The numbers of the versions that a transaction has read or overwrites.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Observed {
    /// The greatest of them.
    pub last: CommitOrder,
    /// The greatest of them that the worker's own log may lack (`LoggerTag::has_alone`).
    pub foreign: CommitOrder,
}

impl Observed {
    /// Adds a number. `is_own` says whether the worker's own log has it.
    #[inline]
    pub(super) fn add(&mut self, number: CommitOrder, is_own: bool) {
        self.last = self.last.max(number);
        if !is_own {
            self.foreign = self.foreign.max(number);
        }
    }
}

/// The read set and the locked write set of a committing transaction, from which its number follows.
pub trait Footprint {
    /// Returns what earlier transactions of the same call have observed.
    fn carried(&self) -> Observed;

    /// Calls `visit` with the number of each row version that the transaction has read or overwrites.
    fn for_each_version(&self, visit: &mut dyn FnMut(CommitOrder));

    /// Calls `visit` with the number of each deletion of index entries that the transaction may have seen.
    fn for_each_vacated(&self, visit: &mut dyn FnMut(CommitOrder));

    /// Returns the clock, as the floor of a number that is drawn after validation. Above the bound of a
    /// snapshot that is being opened, waits until all transactions below that bound have their numbers.
    fn settled_floor(&self) -> CommitOrder;

    /// Returns the greatest number of a transaction that has read a version that this one overwrites.
    fn last_reader(&self) -> CommitOrder;

    /// Notes that a transaction of this number has read the read set.
    fn note_reads(&self, number: CommitOrder);
}

/// The result of `Numbering::before_validation`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drawn {
    /// The number of the transaction.
    Number(CommitOrder),
    /// `after_validation` draws the number, above this one.
    Above(CommitOrder),
}

/// A worker that commits, with the tag of its logger.
#[derive(Clone, Copy, Debug)]
pub struct Numbered<'a> {
    /// The logs that it writes to.
    pub logs: &'a LogSet,
    /// The clock.
    pub epochs: &'a Epochs,
    /// Its slot.
    pub worker: Slot,
    /// Its logger, where numbers name one.
    pub tag: Option<LoggerTag>,
}

/// Numbers the transactions of a database.
pub trait Numbering: fmt::Debug + Send + Sync {
    /// Returns whether the numbers are a serial order.
    fn is_serial(&self) -> bool {
        true
    }

    /// Returns whether the numbering raises a transaction's number above those of the transactions that have
    /// read the versions it overwrites.
    fn follows_readers(&self) -> bool {
        false
    }

    /// Returns the tag of a worker's logger, where numbers name loggers.
    fn tag(&self, _logs: &LogSet, _worker: Slot) -> Option<LoggerTag> {
        None
    }

    /// Returns whether the numbers of a batch can be drawn from the clock before its calls run.
    fn can_draw_ahead(&self) -> bool {
        false
    }

    /// Draws the number of a transaction that is about to validate its read set, or its floor.
    fn before_validation(&self, by: Numbered<'_>, footprint: &dyn Footprint) -> Drawn;

    /// Draws the number of a transaction that has installed its rows, and takes room for its record in each
    /// log; `bytes` returns the length of the record for the log of an index.
    ///
    /// # Errors
    /// A log has failed, or can't grow for now. The number is drawn all the same, and `rooms` is empty.
    fn after_validation(
        &self,
        by: Numbered<'_>,
        footprint: &dyn Footprint,
        floor: CommitOrder,
        bytes: &dyn Fn(usize) -> usize,
        rooms: &mut Vec<Room>,
    ) -> (Stamp, Result<(), LogError>) {
        let _ = (by, footprint, bytes);
        rooms.clear();
        (floor.into(), Ok(()))
    }

    /// Forgets a number that was drawn before validation: its transaction has aborted.
    fn aborted(&self, _by: Numbered<'_>) {}

    /// Draws the number of a definition, above all earlier ones. No other transaction runs.
    fn of_definition(&self, by: Numbered<'_>) -> CommitOrder;

    /// Returns the greatest number so far; `clock` is the last one of the clock.
    fn newest(&self, logs: &LogSet, clock: CommitOrder) -> CommitOrder;
}
