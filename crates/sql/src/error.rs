//! A statement that was refused, and where.

use procedure::SqlError;
use thiserror::Error;

/// Why a statement was refused: an SQL error at a line and column of the text that was given.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("line {line}, column {column}: {error}")]
pub struct StatementError {
    /// From 1.
    pub line: u32,
    /// In characters, from 1.
    pub column: u32,
    /// What is wrong, with its SQLSTATE.
    pub error: SqlError,
}

impl StatementError {
    /// The same in a text in which the statement begins at a line and column.
    #[must_use]
    pub fn inside(mut self, line: u32, column: u32) -> Self {
        if self.line == 1 {
            self.column += column - 1;
        }
        self.line += line - 1;
        self
    }
}
