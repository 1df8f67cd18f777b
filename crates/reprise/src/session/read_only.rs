//! READ ONLY transactions. They read one snapshot, so they wait for no other transaction, and never fail
//! because of one.
//!
//! The snapshot is opened with the first statement and holds all that was acknowledged before. Between its
//! statements the transaction keeps nothing but the snapshot, which older versions of rows are kept for.
//! Invariant: while the snapshot is open, definitions do not change. Held by: `Definitions::exclusively`,
//! which waits for snapshots.
//! Tests: `crates/reprise/tests/suite/read_only.rs`.

use super::{Session, Statement, TransactionState};
use crate::Error;
use crate::worker::Request;
use procedure::{Failure, SqlError};
use sql::Kind;
use storage::Snapshot;

/// What a transaction may do.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Access {
    /// Anything.
    #[default]
    ReadWrite,
    /// Read.
    ReadOnly,
}

pub(super) fn refused(statement: &str) -> Error {
    let message = format!("cannot execute {statement} in a read-only transaction");
    SqlError::new("25006", message).into()
}

impl Session {
    /// Says what later transactions may do, those of one statement included.
    pub fn set_access(&mut self, access: Access) {
        self.access = access;
    }

    /// What the open transaction may do, or the next one where none is open.
    pub fn access(&self) -> Access {
        match self.block.state {
            TransactionState::None => self.access,
            _ => self.block.access,
        }
    }

    /// Changes what the open transaction may do.
    ///
    /// # Errors
    /// `25001`: it has begun as READ ONLY, and has run a statement.
    pub fn change_access(&mut self, access: Access) -> Result<(), Error> {
        if self.block.begun && self.block.access == Access::ReadOnly && access == Access::ReadWrite {
            let message = "transaction read-write mode must be set before any query";
            return Err(SqlError::new("25001", message).into());
        }
        self.block.access = access;
        Ok(())
    }

    /// Whether the open transaction has run a statement.
    pub fn has_begun(&self) -> bool {
        self.block.begun
    }

    /// Refuses a statement that writes, whatever it comes to, in a READ ONLY transaction.
    pub(super) fn refuse_writes(&self, statement: &Statement) -> Result<(), Error> {
        if self.access() == Access::ReadWrite {
            return Ok(());
        }
        let tag = statement.tag();
        match &statement.plan().kind {
            Kind::Run(_) if ["INSERT 0", "UPDATE", "DELETE"].contains(&tag) => {
                Err(refused(tag.trim_end_matches(" 0")))
            }
            Kind::Definition => Err(refused(tag)),
            _ => Ok(()),
        }
    }

    /// Runs a statement of a READ ONLY transaction.
    pub(super) fn run_on(&mut self, snapshot: &Snapshot, request: &Request<'_>) -> Result<(), Error> {
        let settings = self.settings();
        self.worker.load(request)?;
        while !self.worker.begin(&settings)? {}
        let (ran, last) = self.worker.execute_on(request.call, snapshot);
        self.shows(last);
        match ran {
            Ok(()) => Ok(()),
            Err(Failure::Error(error)) => Err(Error::Sql(*error)),
            Err(failure) => unreachable!("a reader of a snapshot loses no race: {failure}"),
        }
    }
}
