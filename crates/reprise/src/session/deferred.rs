//! Constraints that the open transaction checks at its end, or at SET CONSTRAINTS … IMMEDIATE.

use super::Session;
use crate::Error;
use crate::worker::serialization_failure;
use catalog::TableId;
use procedure::{ConstraintModes, Failure, SqlError};
use sql::SetConstraints;

impl Session {
    /// SET CONSTRAINTS, in the open transaction. Constraints that are not deferred any more are checked.
    pub(super) fn set_constraints(&mut self, set: &SetConstraints) -> Result<(), Error> {
        let mut modes = self.worker.machine.services.constraint_modes.clone();
        match &set.constraints {
            None => modes.set_all(set.deferred),
            Some(named) => named.iter().for_each(|(table, name)| modes.set(*table, name, set.deferred)),
        }
        if !set.deferred {
            let before = self.worker.machine.services.constraint_modes.clone();
            if let Some(keys) = self.worker.version.deferrable.clone() {
                let checked = self.worker.workspace.check_deferred(&keys, &before, Some(&modes));
                self.settle_check(checked)?;
            }
        }
        self.worker.machine.services.constraint_modes = modes;
        Ok(())
    }

    /// Checks the constraints that the open transaction has deferred.
    ///
    /// # Errors
    /// `23503`, `23505`: a row breaks one; `40001`: the transaction has lost a race. It was rolled back.
    pub(super) fn check_deferred(&mut self) -> Result<(), Error> {
        let checked = self.worker.check_deferred();
        self.settle_check(checked)
    }

    fn settle_check(&mut self, checked: Result<(), Failure>) -> Result<(), Error> {
        let error = match checked {
            Ok(()) => return Ok(()),
            // An error that follows from reads that no longer hold is none.
            Err(Failure::Error(error)) => match self.worker.workspace.reads_hold() {
                Ok(()) => Error::Sql(*error),
                Err(conflict) => serialization_failure(conflict),
            },
            Err(Failure::Conflict(conflict)) => serialization_failure(conflict),
            Err(_) => serialization_failure(procedure::Conflict::Read),
        };
        self.shows_what_was_read();
        self.statement_failed();
        Err(error)
    }

    /// Forgets SET CONSTRAINTS: a transaction begins.
    pub(super) fn forget_constraint_modes(&mut self) {
        self.worker.machine.services.constraint_modes = ConstraintModes::default();
    }

    /// Refuses a change of a table whose rows have still to be checked, as PostgreSQL does.
    ///
    /// # Errors
    /// `55006`: the transaction has written such rows.
    pub(super) fn refuse_pending_checks(&self, table: TableId, what: &str) -> Result<(), Error> {
        let Some(keys) = &self.worker.version.deferrable else { return Ok(()) };
        let (workspace, modes) = (&self.worker.workspace, &self.worker.machine.services.constraint_modes);
        if !workspace.has_deferred(table, keys, modes) {
            return Ok(());
        }
        let name = workspace.tables().store(table).definition().short_name().to_owned();
        let message = format!("cannot {what} \"{name}\" because it has pending trigger events");
        Err(SqlError::new("55006", message).into())
    }
}
