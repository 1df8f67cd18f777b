//! The error of a refused statement, with its position.

use procedure::SqlError;
use thiserror::Error;

/// The reason why a statement was refused: an SQL error at a line and column of its text.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("line {line}, column {column}: {error}")]
pub struct StatementError {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// The error, with its SQLSTATE.
    pub error: SqlError,
}

impl StatementError {
    /// Returns the error for a longer text, in which the statement begins at a line and column.
    #[must_use]
    pub fn inside(mut self, line: u32, column: u32) -> Self {
        if self.line == 1 {
            self.column += column - 1;
        }
        self.line += line - 1;
        self
    }
}
