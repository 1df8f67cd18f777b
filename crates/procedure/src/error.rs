//! What can end a call: an SQL error with its SQLSTATE, or a conflict that the caller retries.

use catalog::{Table, ValueError};
use std::fmt;
use thiserror::Error;

/// An SQL error, as a PostgreSQL client would see it.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{message}")]
pub struct SqlError {
    /// PostgreSQL's five-character code.
    pub sqlstate: String,
    /// What is wrong.
    pub message: String,
    /// More about it.
    pub detail: Option<String>,
    /// What to do.
    pub hint: Option<Box<str>>,
    /// The table, and the column or constraint, that the error is about; `None` where there is none.
    pub object: Option<Box<ErrorObject>>,
}

/// What an error is about. A name is empty where there is none.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ErrorObject {
    /// The schema of the table.
    pub schema: String,
    /// The table.
    pub table: String,
    /// The column.
    pub column: String,
    /// The constraint.
    pub constraint: String,
}

/// How loud a RAISE is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// Aborts the transaction.
    Exception,
    /// WARNING, NOTICE, INFO, LOG or DEBUG: reported, nothing else happens.
    Notice,
}

/// Why a transaction must be tried again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Conflict {
    /// A record that was read has changed.
    Read,
    /// A key range that was scanned, or found empty, has changed.
    Phantom,
    /// A record to be written is held by another transaction.
    Write,
    /// A key to be inserted is being inserted or deleted by another transaction.
    Insert,
    /// A row or key that is to be written is held by a transaction that still runs. The transaction can be
    /// run again when that one has ended.
    Held,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "a row that was read has changed",
            Self::Phantom => "a range that was scanned has changed",
            Self::Write => "a row to be written is held by another transaction",
            Self::Insert => "a key to be inserted is held by another transaction",
            Self::Held => "a row or key to be written is held by a transaction that still runs",
        })
    }
}

/// What ends an execution early.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum Failure {
    /// The transaction lost a race; nothing happened and it may be tried again.
    #[error("could not serialize access: {0}")]
    Conflict(Conflict),
    /// The transaction reads so much, or its client is so slow, that it is to run on a snapshot; nothing
    /// happened.
    #[error("it takes long, and is to run on a snapshot")]
    Long,
    /// The transaction is wrong, or said so itself.
    #[error(transparent)]
    Error(Box<SqlError>),
}

impl SqlError {
    /// Makes an error from its code and message.
    pub fn new(sqlstate: &str, message: impl Into<String>) -> Self {
        Self { sqlstate: sqlstate.into(), message: message.into(), detail: None, hint: None, object: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into().into());
        self
    }

    /// Adds the constraint that it violates.
    #[must_use]
    pub fn with_constraint(self, table: &Table, constraint: &str) -> Self {
        self.with_object(table, "", constraint)
    }

    /// Adds the column that it is about.
    #[must_use]
    pub fn with_column(self, table: &Table, column: &str) -> Self {
        self.with_object(table, column, "")
    }

    fn with_object(mut self, table: &Table, column: &str, constraint: &str) -> Self {
        let schema = table.name.rsplit_once('.').map_or("public", |(schema, _)| schema);
        self.object = Some(Box::new(ErrorObject {
            schema: schema.into(),
            table: table.short_name().into(),
            column: column.into(),
            constraint: constraint.into(),
        }));
        self
    }

    /// Adds more about it.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        Self::Error(Box::new(error))
    }
}

impl From<Box<SqlError>> for Failure {
    fn from(error: Box<SqlError>) -> Self {
        Self::Error(error)
    }
}

impl From<ValueError> for Box<SqlError> {
    fn from(error: ValueError) -> Self {
        Self::new(error.into())
    }
}

impl From<catalog::DecimalError> for Box<SqlError> {
    fn from(error: catalog::DecimalError) -> Self {
        ValueError::from(error).into()
    }
}

impl From<ValueError> for SqlError {
    fn from(error: ValueError) -> Self {
        Self::new(error.sqlstate, error.message)
    }
}

impl From<catalog::TemporalError> for SqlError {
    fn from(error: catalog::TemporalError) -> Self {
        ValueError::from(error).into()
    }
}

impl From<catalog::TemporalError> for Box<SqlError> {
    fn from(error: catalog::TemporalError) -> Self {
        ValueError::from(error).into()
    }
}

impl From<ValueError> for Failure {
    fn from(error: ValueError) -> Self {
        SqlError::from(error).into()
    }
}

impl From<catalog::DecimalError> for Failure {
    fn from(error: catalog::DecimalError) -> Self {
        ValueError::from(error).into()
    }
}
