//! Errors of a replay that does not do again what the run did: they name the procedure, the call and the
//! operation.

use crate::RecoveryError;
use catalog::{Arena, CommitOrder, ProcedureId, Reader, Written, decode_value, value_from_datum};
use logging::content::CallRecord;
use procedure::analysis::describe;
use procedure::{Operation, Procedure};
use std::fmt;

/// A call of a log.
#[derive(Clone, Copy)]
pub(super) struct ReplayedCall<'a> {
    pub(super) order: CommitOrder,
    pub(super) procedure: &'a Procedure,
    pub(super) record: &'a CallRecord<'a>,
}

impl ReplayedCall<'_> {
    /// The call does not do again what it did.
    pub(super) fn diverged(self, error: &dyn fmt::Display) -> RecoveryError {
        let Self { order, procedure, record } = self;
        let (mut reader, mut arena) = (Reader::new(record.arguments), Arena::default());
        let arguments = procedure.inputs().map_while(|(_, parameter)| {
            let datum = decode_value(parameter.ty, &mut reader, &mut arena).ok()?;
            Some(value_from_datum(datum, parameter.ty, &arena).to_string())
        });
        let what = format!("procedure {}({})", procedure.name, arguments.collect::<Vec<_>>().join(", "));
        RecoveryError::Diverged { order, what, error: error.to_string() }
    }

    /// An operation of the call failed.
    pub(super) fn failed(
        self,
        operations: &[Operation],
        at: Option<(u32, u32)>,
        error: &dyn fmt::Display,
    ) -> RecoveryError {
        let Some(position) = at else { return self.diverged(error) };
        match operations.iter().find(|own| own.position == position) {
            Some(operation) => self.diverged(&format!("{error}; operation: {}", in_words(operation))),
            None => self.diverged(&format!("{error}; operation: line {}, column {}", position.0, position.1)),
        }
    }

    /// The call wrote something else than its record says. `by_operation` names operations with the rows that
    /// they wrote.
    pub(super) fn wrote_otherwise(
        self,
        written: Written,
        by_operation: impl Iterator<Item = (String, u64)>,
    ) -> RecoveryError {
        let recorded = self.record.written.unwrap_or_default();
        let parts = by_operation.map(|(operations, rows)| format!("{operations}: {rows}"));
        let parts = parts.collect::<Vec<_>>().join("; ");
        self.diverged(&format!(
            "it wrote {written}, but its record says {recorded}; rows by operation: {parts}"
        ))
    }
}

/// An operation, and where it stands in its source.
pub(super) fn in_words(operation: &Operation) -> String {
    let (line, column) = operation.position;
    format!("{} (line {line}, column {column})", describe(operation))
}

/// A statement does not do again what it did.
pub(super) fn statement_diverged(order: CommitOrder, text: &str, error: &dyn fmt::Display) -> RecoveryError {
    RecoveryError::Diverged { order, what: text.into(), error: error.to_string() }
}

/// A statement that ran again must have written what its record says, if that says anything.
pub(super) fn check_statement(
    order: CommitOrder,
    text: &str,
    recorded: Option<Written>,
    written: Written,
) -> Result<(), RecoveryError> {
    match recorded {
        Some(recorded) if recorded != written => {
            let error = format!("it wrote {written}, but its record says {recorded}");
            Err(statement_diverged(order, text, &error))
        }
        _ => Ok(()),
    }
}

/// The log names a procedure that is not there.
pub(super) fn undefined(order: CommitOrder, procedure: ProcedureId, version: u32) -> RecoveryError {
    let what = format!("procedure {}, version {version}", procedure.0);
    RecoveryError::Diverged { order, what, error: "it is not defined at this place of the log".into() }
}

/// The log holds a kind of record that the method does not replay.
pub(super) fn unknown_record(order: CommitOrder) -> RecoveryError {
    let error = "this method does not replay this kind of record".into();
    RecoveryError::Diverged { order, what: "a record".into(), error }
}

/// A transaction that was logged by value does not fit the tables.
pub(super) fn unfit(order: CommitOrder) -> RecoveryError {
    writes_diverged(order, &"what it wrote does not fit the tables that are there")
}

/// A transaction that was logged by value can't write what it wrote.
pub(super) fn writes_diverged(order: CommitOrder, error: &dyn fmt::Display) -> RecoveryError {
    let what = "a transaction logged by value".into();
    RecoveryError::Diverged { order, what, error: error.to_string() }
}
