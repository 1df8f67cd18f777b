//! Opaque statements, which the analysis does not support: RETURN NEXT and RETURN QUERY, cursors, EXECUTE,
//! COMMIT and ROLLBACK, recursion.
//! Their effect depends on more than variables and tables, so calls of a procedure that
//! has such a statement are logged by value.

use crate::{ByValueCause, Expression, Procedure, QueryId, Register, SqlError};
use catalog::{SessionZone, Type};
use std::sync::Arc;

/// A cursor variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cursor {
    /// The register of the cursor's position in the frame's list; NULL until the cursor is opened.
    pub register: Register,
    /// Its name.
    pub name: String,
    /// Whether it is declared with its query. The portal of such a cursor has the cursor's name.
    pub is_bound: bool,
    /// Whether it is opened to move forward only (NO SCROLL).
    pub is_forward_only: bool,
}

impl Cursor {
    /// Returns the name of its portal.
    pub(crate) fn portal(&self) -> &str {
        if self.is_bound { &self.name } else { "<unnamed portal 1>" }
    }
}

/// A movement of a cursor.
#[derive(Clone, PartialEq, Debug)]
pub enum Movement {
    /// To the first row.
    First,
    /// To the last row.
    Last,
    /// To the row this many rows ahead, or behind where it is negative.
    By(Expression),
    /// Over this many rows; back over them where it is negative.
    Forward(Expression),
    /// Back over this many rows, or forward where it is negative.
    Back(Expression),
    /// To the row with a number, from 1, or from the end if it is negative.
    To(Expression),
    /// To the next row, as a loop moves: after the last row, variables keep their values; ROW_COUNT stays.
    Next,
}

/// The destination of the rows of EXECUTE.
#[derive(Clone, PartialEq, Debug)]
pub enum Destination {
    /// The rows are discarded.
    Nowhere,
    /// The first row goes to variables.
    First {
        /// Variables and their types.
        targets: Vec<(Register, Type)>,
        /// STRICT: there must be exactly one row.
        strict: bool,
    },
    /// The function returns them, as these types.
    Returned(Vec<Type>),
    /// A cursor is opened on them.
    Cursor(Cursor),
}

/// A statement that the analysis does not support.
#[derive(Clone, Debug)]
pub enum Opaque {
    /// RETURN NEXT: a row of values.
    ReturnNext(Vec<Expression>),
    /// RETURN QUERY: the outputs of a query, which have no targets.
    ReturnQuery(QueryId),
    /// OPEN: the outputs of a query, which have no targets.
    Open(Cursor, QueryId),
    /// FETCH, or MOVE, which has no targets.
    Fetch {
        /// The cursor.
        cursor: Cursor,
        /// The movement.
        movement: Movement,
        /// Variables and their types.
        targets: Vec<(Register, Type)>,
        /// The register of whether there was a row.
        found: Register,
    },
    /// CLOSE.
    Close(Cursor),
    /// EXECUTE.
    Text {
        /// The statement.
        text: Expression,
        /// The values of its parameters, with their types.
        arguments: Vec<(Expression, Type)>,
        /// The destination of its rows.
        rows: Destination,
        /// The register of FOUND, when the statement sets it.
        found: Option<Register>,
        /// The number of the role with whose rights the statement runs.
        role: u32,
    },
    /// COMMIT, or ROLLBACK.
    EndTransaction {
        /// COMMIT, not ROLLBACK.
        commit: bool,
    },
    /// A call of a routine by its name, because it calls itself, directly or not.
    Recursion {
        /// The routine.
        name: String,
        /// The registers of its inputs.
        inputs: Vec<Register>,
        /// The registers of its outputs.
        outputs: Vec<Register>,
    },
}

impl Opaque {
    /// Returns the cause for which calls of its procedure are logged by value.
    pub fn cause(&self) -> ByValueCause {
        match self {
            Self::ReturnNext(_) | Self::ReturnQuery(_) => ByValueCause::ReturnedRows,
            Self::Open(..) | Self::Fetch { .. } | Self::Close(_) => ByValueCause::Cursor,
            Self::Text { .. } => ByValueCause::Text,
            Self::EndTransaction { .. } => ByValueCause::EndOfTransaction,
            Self::Recursion { .. } => ByValueCause::Recursion,
        }
    }

    /// Returns the query whose rows it returns, or opens a cursor on.
    pub(crate) fn query(&self) -> Option<QueryId> {
        match self {
            Self::ReturnQuery(id) | Self::Open(_, id) => Some(*id),
            Self::ReturnNext(_)
            | Self::Fetch { .. }
            | Self::Close(_)
            | Self::Text { .. }
            | Self::EndTransaction { .. }
            | Self::Recursion { .. } => None,
        }
    }

    /// Visits the registers that it sets, except those of its query.
    pub(crate) fn visit_targets(&self, visit: &mut impl FnMut(Register)) {
        match self {
            Self::Open(cursor, _) | Self::Close(cursor) => visit(cursor.register),
            Self::Fetch { targets, found, .. } => {
                targets.iter().for_each(|(target, _)| visit(*target));
                visit(*found);
            }
            Self::Text { rows, found, .. } => {
                found.iter().for_each(|found| visit(*found));
                match rows {
                    Destination::First { targets, .. } => {
                        targets.iter().for_each(|(target, _)| visit(*target))
                    }
                    Destination::Cursor(cursor) => visit(cursor.register),
                    Destination::Nowhere | Destination::Returned(_) => {}
                }
            }
            Self::Recursion { outputs, .. } => outputs.iter().for_each(|target| visit(*target)),
            Self::ReturnNext(_) | Self::ReturnQuery(_) | Self::EndTransaction { .. } => {}
        }
    }
}

/// Compiles the texts of EXECUTE.
pub trait Compiler: Send + Sync {
    /// Compiles a statement as a procedure without a name, whose rows go to its client. `types` are the types
    /// of its parameters, and `role` is the number of the role with whose rights it runs. Its literals are
    /// read in a zone; `None` is UTC.
    ///
    /// # Errors
    /// The statement is malformed, changes definitions, or is not allowed.
    fn compile(
        &self,
        text: &str,
        types: &[Type],
        role: u32,
        zone: Option<&Arc<SessionZone>>,
    ) -> Result<Arc<Procedure>, SqlError>;

    /// Returns the routine of a name.
    fn routine(&self, name: &str) -> Option<Arc<Procedure>>;
}
