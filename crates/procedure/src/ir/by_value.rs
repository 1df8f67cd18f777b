//! The causes for which calls of a procedure are logged by value.

use std::fmt;

/// The cause for which calls of a procedure are logged by value: a part of the procedure that the analysis
/// does not support. If a procedure has several such parts, the first that is not a query counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ByValueCause {
    /// It has a query with a plan.
    Query,
    /// It handles errors, so its effect depends on the handler that runs.
    Handler,
    /// It returns rows.
    ReturnedRows,
    /// It uses a cursor.
    Cursor,
    /// It executes a text as a statement.
    Text,
    /// It ends the transaction that it runs in.
    EndOfTransaction,
    /// It calls itself.
    Recursion,
    /// It asks for the number of rows of a statement.
    RowCount,
    /// It uses a sequence, whose numbers do not depend on the rows of tables.
    Sequence,
    /// It asks for values of the moment, such as a setting of the session.
    Moment,
    /// It calls this routine, whose calls are logged by value.
    Callee(String),
    /// It is a statement of a client, or a block of a DO.
    Statement,
}

impl fmt::Display for ByValueCause {
    /// Writes the cause as a predicate, whose subject is the procedure.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Query => "has queries with plans",
            Self::Handler => "has an EXCEPTION clause",
            Self::ReturnedRows => "returns rows",
            Self::Cursor => "uses cursors",
            Self::Text => "uses EXECUTE",
            Self::EndOfTransaction => "uses COMMIT or ROLLBACK",
            Self::Recursion => "calls itself",
            Self::RowCount => "uses ROW_COUNT",
            Self::Sequence => "uses sequences",
            Self::Moment => "asks for values of the moment",
            Self::Callee(name) => return write!(f, "calls \"{name}\", which is logged by value"),
            Self::Statement => "is a statement of a client",
        })
    }
}
