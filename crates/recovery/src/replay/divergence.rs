//! Errors of transactions whose execution differs from their records.

use crate::RecoveryError;
use catalog::{CommitOrder, ProcedureId, Written};
use schedule::Divergence;
use std::fmt;

/// Returns the error of a statement whose execution differs from its record.
pub(super) fn statement_diverged(order: CommitOrder, text: &str, error: &dyn fmt::Display) -> RecoveryError {
    Divergence { order, what: text.into(), error: error.to_string() }.into()
}

/// Compares the writes of a statement with the summary in its record, if there is one.
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

/// Returns the error of a call of a procedure that is not defined.
pub(super) fn undefined(order: CommitOrder, procedure: ProcedureId, version: u32) -> RecoveryError {
    let what = format!("procedure {}, version {version}", procedure.0);
    Divergence { order, what, error: "it is not defined at this position of the log".into() }.into()
}

/// Returns the error of a record of a kind that the method does not replay.
pub(crate) fn unknown_record(order: CommitOrder) -> RecoveryError {
    let error = "this method does not replay this kind of record".into();
    Divergence { order, what: "a record".into(), error }.into()
}

/// Returns the error of a transaction logged by value whose writes do not fit the tables.
pub(crate) fn unfit(order: CommitOrder) -> RecoveryError {
    schedule::malformed_writes(order).into()
}

/// Returns the error of a transaction logged by value that cannot make its writes.
pub(crate) fn writes_diverged(order: CommitOrder, error: &dyn fmt::Display) -> RecoveryError {
    schedule::writes_diverged(order, error).into()
}
