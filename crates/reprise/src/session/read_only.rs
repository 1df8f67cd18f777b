//! READ ONLY transactions. They read one snapshot, so they wait for no other transaction, and never fail
//! because of one.
//!
//! The snapshot is opened with the first statement and holds all that was acknowledged before. Between its
//! statements the transaction keeps nothing but the snapshot, which older versions of rows are kept for.
//! Invariant: while the snapshot is open, definitions do not change. Held by: `Definitions::exclusively`,
//! which waits for snapshots.
//! Tests: `crates/reprise/tests/suite/read_only.rs`.

use super::{Prepared, Session, TransactionState};
use crate::Error;
use catalog::CommitOrder;
use procedure::{Call, Failure, Procedure, SqlError, execute};
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
    pub(super) fn refuse_writes(&self, prepared: &Prepared) -> Result<(), Error> {
        if self.access() == Access::ReadWrite {
            return Ok(());
        }
        let tag = prepared.tag();
        match prepared.kind() {
            Kind::Run(_) if ["INSERT 0", "UPDATE", "DELETE"].contains(&tag) => {
                Err(refused(tag.trim_end_matches(" 0")))
            }
            Kind::Definition => Err(refused(tag)),
            _ => Ok(()),
        }
    }

    /// Executes a call on a snapshot, and ends the transaction in hand, which has read nothing. Returns what
    /// it came to, and the greatest number of what it has read.
    pub(super) fn read_on(
        &mut self,
        call: Call<'_>,
        snapshot: &Snapshot,
    ) -> (Result<(), Failure>, CommitOrder) {
        let arguments = self.arguments.iter().copied();
        let mut reader = self.workspace.reader(snapshot);
        let ran = execute(call, arguments, &mut self.machine, &mut reader, &mut self.pipeline.witnesses);
        let last = reader.last();
        self.workspace.rollback_if_running();
        (ran, last)
    }

    /// Opens a snapshot, and lets shared memory go again.
    pub(super) fn open_snapshot(&mut self) -> Result<Snapshot, Error> {
        while !self.begin()? {}
        let snapshot = {
            let tables = self.workspace.tables();
            tables.snapshots.open(&tables.epochs)
        };
        self.workspace.rollback();
        Ok(snapshot)
    }

    /// Runs a statement of a READ ONLY transaction.
    pub(super) fn run_on(
        &mut self,
        snapshot: &Snapshot,
        procedure: &Procedure,
        arguments: &[catalog::Value],
    ) -> Result<(), Error> {
        let (timestamp_us, seed) = (self.block.timestamp_us, self.next_seed());
        self.last = None;
        self.machine.reset(timestamp_us, seed);
        self.bring_in(procedure, arguments)?;
        self.pipeline.witnesses.begin(&[]);
        while !self.begin()? {}
        let (ran, last) = self.read_on(Call { procedure, timestamp_us, seed }, snapshot);
        self.shows(last);
        match ran {
            Ok(()) => Ok(()),
            Err(Failure::Error(error)) => Err(Error::Sql(*error)),
            Err(failure) => unreachable!("a reader of a snapshot loses no race: {failure}"),
        }
    }
}
