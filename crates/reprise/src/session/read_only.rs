//! READ ONLY transactions. They read one snapshot, so they never wait for another transaction, and never fail
//! because of one.
//!
//! The first statement opens the snapshot, which includes all transactions that were acknowledged before.
//! Between its statements the transaction holds only the snapshot, for which writers keep older versions.
//! Invariant: while the snapshot is open, definitions do not change. Held by: `Definitions::exclusively`,
//! which waits for snapshots.
//! Tests: `crates/reprise/tests/suite/read_only.rs`.

use super::{Session, Statement, TransactionState};
use crate::Error;
use crate::worker::Request;
use procedure::{Failure, SqlError};
use sql::Kind;
use storage::Snapshot;

/// The access mode of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Access {
    /// The transaction reads and writes.
    #[default]
    ReadWrite,
    /// The transaction only reads.
    ReadOnly,
}

pub(super) fn refused(statement: &str) -> Error {
    let message = format!("cannot execute {statement} in a read-only transaction");
    SqlError::new("25006", message).into()
}

impl Session {
    /// Sets the access mode of later transactions, including transactions of one statement.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// session.execute_script("CREATE TABLE t (id INT PRIMARY KEY)")?;
    /// session.set_access(reprise::Access::ReadOnly);
    /// let error = session.execute("INSERT INTO t VALUES (1)", params![]).unwrap_err();
    /// assert_eq!(error.sqlstate(), "25006"); // read_only_sql_transaction
    /// # Ok(()) }
    /// ```
    pub fn set_access(&mut self, access: Access) {
        self.access = access;
    }

    /// Returns the access mode of the open transaction, or of the next one if none is open.
    pub fn access(&self) -> Access {
        match self.block.state {
            TransactionState::None => self.access,
            _ => self.block.access,
        }
    }

    /// Changes the access mode of the open transaction.
    ///
    /// # Errors
    /// `25001`: a READ ONLY transaction that has run a statement cannot become READ WRITE.
    pub fn change_access(&mut self, access: Access) -> Result<(), Error> {
        if self.block.begun && self.block.access == Access::ReadOnly && access == Access::ReadWrite {
            let message = "transaction read-write mode must be set before any query";
            return Err(SqlError::new("25001", message).into());
        }
        self.block.access = access;
        Ok(())
    }

    /// Returns whether the open transaction has run a statement.
    pub fn has_begun(&self) -> bool {
        self.block.begun
    }

    /// Refuses a writing statement in a READ ONLY transaction, even if it would write no row.
    ///
    /// # Errors
    /// `25006`: the statement writes.
    pub(super) fn refuse_writes(&self, statement: &Statement) -> Result<(), Error> {
        if self.access() == Access::ReadWrite {
            return Ok(());
        }
        let tag = statement.tag();
        match &statement.plan().kind {
            Kind::Run(_) if ["INSERT 0", "UPDATE", "DELETE"].contains(&tag) => {
                Err(refused(tag.trim_end_matches(" 0")))
            }
            Kind::Definition | Kind::Moved => Err(refused(tag)),
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
