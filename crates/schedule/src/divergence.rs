//! Transactions whose execution differs from their records. The error names the procedure, the call and the
//! operation.

use catalog::{Arena, CommitOrder, Reader, Written, decode_value, value_from_datum};
use logging::content::CallRecord;
use procedure::analysis::describe;
use procedure::{Operation, Procedure};
use std::fmt;
use thiserror::Error;

/// The execution of a transaction differs from its record.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("transaction {order} ({what}) does not replay: {error}")]
pub struct Divergence {
    /// The position of the transaction in the serial order.
    pub order: CommitOrder,
    /// The call or statement.
    pub what: String,
    /// The difference.
    pub error: String,
}

/// A call and its record.
#[derive(Clone, Copy)]
pub struct RecordedCall<'a> {
    /// The position of its transaction in the serial order.
    pub order: CommitOrder,
    /// The procedure in the version that was called.
    pub procedure: &'a Procedure,
    /// The record.
    pub record: &'a CallRecord<'a>,
}

impl RecordedCall<'_> {
    /// Returns the error of a call whose execution differs from its record.
    pub fn diverged(self, error: &dyn fmt::Display) -> Divergence {
        let Self { order, procedure, record } = self;
        let (mut reader, mut arena) = (Reader::new(record.arguments), Arena::default());
        let arguments = procedure.inputs().map_while(|(_, parameter)| {
            let datum = decode_value(parameter.ty, &mut reader, &mut arena).ok()?;
            Some(value_from_datum(datum, parameter.ty, &arena).to_string())
        });
        let what = format!("procedure {}({})", procedure.name, arguments.collect::<Vec<_>>().join(", "));
        Divergence { order, what, error: error.to_string() }
    }

    /// Returns the error of a call with a failed operation. `at` is the line and column of the operation.
    pub fn failed(
        self,
        operations: &[Operation],
        at: Option<(u32, u32)>,
        error: &dyn fmt::Display,
    ) -> Divergence {
        let Some(position) = at else { return self.diverged(error) };
        match operations.iter().find(|operation| operation.position == position) {
            Some(operation) => self.diverged(&format!("{error}; operation: {}", in_words(operation))),
            None => self.diverged(&format!("{error}; operation: line {}, column {}", position.0, position.1)),
        }
    }

    /// Returns the error of a call whose writes differ from the summary in its record. `by_operation` names
    /// operations and the number of rows that each wrote.
    pub fn wrote_otherwise(
        self,
        written: Written,
        by_operation: impl Iterator<Item = (String, u64)>,
    ) -> Divergence {
        let recorded = self.record.written.unwrap_or_default();
        let rows = by_operation.map(|(operations, rows)| format!("{operations}: {rows}"));
        let rows = rows.collect::<Vec<_>>().join("; ");
        self.diverged(&format!(
            "it wrote {written}, but its record says {recorded}; rows by operation: {rows}"
        ))
    }
}

/// Describes an operation, with its line and column.
pub fn in_words(operation: &Operation) -> String {
    let (line, column) = operation.position;
    format!("{} (line {line}, column {column})", describe(operation))
}

/// Returns the error of a transaction logged by value whose writes do not fit the tables.
pub fn malformed_writes(order: CommitOrder) -> Divergence {
    writes_diverged(order, &"its writes do not fit the tables")
}

/// Returns the error of a transaction logged by value that cannot make its writes.
pub fn writes_diverged(order: CommitOrder, error: &dyn fmt::Display) -> Divergence {
    let what = "a transaction logged by value".into();
    Divergence { order, what, error: error.to_string() }
}
