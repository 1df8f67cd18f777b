//! Transactions that run alone: no other one runs or begins until they end.
//!
//! LOCK TABLE runs its transaction alone in the modes that conflict with those of queries or writes. That
//! keeps out all that PostgreSQL's lock keeps out, and more: also transactions that don't use the table.
//! A definition that works on the rows of this moment does so, too (`staged.rs`).

use super::Session;
use crate::Error;
use crate::definitions::{Patience, hold};
use crate::inner::Inner;
use procedure::SqlError;
use sql::TableLock;
use std::sync::Arc;
use std::time::Duration;

/// The right to run alone. It ends when its last holder drops it.
pub(super) struct Alone(Arc<Inner>);

impl Drop for Alone {
    fn drop(&mut self) {
        self.0.definitions.readmit();
    }
}

impl Session {
    /// Waits until no other transaction is open, and lets none begin while the result lives. The open
    /// transaction holds the definitions.
    ///
    /// # Errors
    /// `55P03`: transactions stay open; `57014`: the statement was cancelled.
    pub(super) fn run_alone_from_now(&mut self, patience: &Patience) -> Result<Arc<Alone>, Error> {
        if let Some(alone) = &self.block.alone {
            return Ok(Arc::clone(alone));
        }
        let inner = Arc::clone(&self.worker.inner);
        let _maintenance = hold(&inner.maintenance);
        let slot = self.worker.workspace.slot();
        let tables = self.worker.workspace.tables();
        let (epochs, holds) = (Arc::clone(&tables.epochs), Arc::clone(&tables.holds));
        let _awaits_all = holds.await_all(slot);
        inner.definitions.keep(slot, &epochs, patience)?;
        Ok(Arc::new(Alone(Arc::clone(&inner))))
    }

    /// Runs the open transaction, which holds the definitions, alone from now on.
    ///
    /// # Errors
    /// As `run_alone_from_now`.
    pub(super) fn shut_all_out(&mut self) -> Result<(), Error> {
        let patience = self.worker.patience(&self.settings());
        self.block.alone = Some(self.run_alone_from_now(&patience)?);
        Ok(())
    }

    /// Runs the open transaction alone from now on, because it locks tables.
    ///
    /// # Errors
    /// `55P03`: NOWAIT, or transactions stay open; `40P01`: another transaction waits for this one. Or the
    /// caller waits.
    pub(super) fn lock_tables(&mut self, lock: &TableLock) -> Result<(), Error> {
        let settings = self.settings();
        let patience = match lock.waits {
            true => self.worker.patience(&settings),
            false => self.worker.patience_of(Some(Duration::ZERO)),
        };
        let refused = || {
            let message = format!("could not obtain lock on relation \"{}\"", lock.table);
            let hint = "LOCK TABLE in this mode waits until no other transaction is open.";
            Error::from(SqlError::new("55P03", message).with_hint(hint))
        };
        if self.block.snapshot.is_some() {
            let message = "LOCK TABLE in this mode is not supported in a READ ONLY transaction";
            return Err(SqlError::new("0A000", message).into());
        }
        if lock.waits {
            self.hold_definitions()?;
        } else if self.worker.workspace.hold_definitions().is_err() {
            self.worker.workspace.let_definitions_go();
            return Err(refused());
        }
        let alone = self.run_alone_from_now(&patience).map_err(|error| match error.sqlstate() {
            "55P03" => refused(),
            _ => error,
        })?;
        self.block.alone = Some(alone);
        Ok(())
    }
}
