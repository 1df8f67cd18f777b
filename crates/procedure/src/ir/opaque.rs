//! Statements that the analysis does not look into, as what they do follows from more than variables and
//! tables: rows that a function returns one by one, cursors, statements that are given as text, the end of a
//! transaction within a procedure. A procedure that has one is logged by value.

use crate::{Expression, OperationId, Procedure, Register, SqlError};
use catalog::Type;
use std::sync::Arc;

/// A cursor variable: NULL as long as it is closed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cursor {
    /// Where it stands among the machine's, once it is open.
    pub register: Register,
    /// Its name.
    pub name: String,
}

/// Where a cursor goes.
#[derive(Clone, PartialEq, Debug)]
pub enum Movement {
    /// To the first row.
    First,
    /// To the last row.
    Last,
    /// This many rows forward, or back where it is negative.
    By(Expression),
    /// This many rows back.
    Back(Expression),
    /// To the row of a number, from 1, or from the end where it is negative.
    To(Expression),
    /// Behind the last row.
    BehindAll,
    /// One row on, as a loop goes: behind the last row, variables keep what was there.
    Next,
}

/// What becomes of the rows of a statement that is given as text.
#[derive(Clone, PartialEq, Debug)]
pub enum Destination {
    /// Nothing.
    Nowhere,
    /// The first goes to variables; STRICT allows no other.
    First {
        /// Variables and their types.
        targets: Vec<(Register, Type)>,
        /// Whether there must be exactly one row.
        strict: bool,
    },
    /// The function returns them, as these types.
    Returned(Vec<Type>),
    /// A cursor is opened on them.
    Cursor(Cursor),
}

/// One of those statements.
#[derive(Clone, Debug)]
pub enum Opaque {
    /// RETURN NEXT: a row of values.
    ReturnNext(Vec<Expression>),
    /// RETURN QUERY: the outputs of a query, which have no targets.
    ReturnQuery(OperationId),
    /// OPEN: the outputs of a query, as above.
    Open(Cursor, OperationId),
    /// FETCH, or MOVE without targets. Whether there was a row goes to a register.
    Fetch {
        /// The cursor.
        cursor: Cursor,
        /// Where it goes.
        movement: Movement,
        /// Variables and their types.
        targets: Vec<(Register, Type)>,
        /// Whether there was a row.
        found: Register,
    },
    /// CLOSE.
    Close(Cursor),
    /// EXECUTE.
    Text {
        /// The statement.
        text: Expression,
        /// What its parameters stand for.
        arguments: Vec<(Expression, Type)>,
        /// Where its rows go.
        rows: Destination,
        /// FOUND, where this sets it.
        found: Option<Register>,
    },
    /// COMMIT, or ROLLBACK.
    EndTransaction {
        /// Whether what the transaction did stays.
        commit: bool,
    },
}

impl Opaque {
    /// Visits the registers that it sets, those of its operation aside.
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
            Self::ReturnNext(_) | Self::ReturnQuery(_) | Self::EndTransaction { .. } => {}
        }
    }
}

/// Compiles statements that are given as text while a procedure runs.
pub trait Compiler: Send + Sync {
    /// A statement as a procedure without a name, whose rows go to its client. `types` are those of its
    /// parameters.
    ///
    /// # Errors
    /// Anything wrong with it; it changes definitions.
    fn compile(&self, text: &str, types: &[Type]) -> Result<Arc<Procedure>, SqlError>;
}
