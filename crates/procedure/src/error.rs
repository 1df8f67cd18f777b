//! Failures that end a call: an SQL error with its SQLSTATE, or a conflict that the caller retries.

use catalog::{Table, ValueError};
use std::fmt;
use thiserror::Error;

/// An SQL error, as a PostgreSQL client would see it.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{message}")]
pub struct SqlError {
    /// PostgreSQL's five-character code.
    pub sqlstate: String,
    /// The message: what failed.
    pub message: String,
    /// DETAIL: further facts.
    pub detail: Option<String>,
    /// HINT: the remedy.
    pub hint: Option<Box<str>>,
    /// The table, and the column or constraint, that the error is about; `None` where there is none.
    pub object: Option<Box<ErrorObject>>,
}

/// The object that an error is about. The name of an object that does not apply is empty.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ErrorObject {
    /// The schema of the table.
    pub schema: String,
    /// The table.
    pub table: String,
    /// The column.
    pub column: String,
    /// The domain.
    pub datatype: String,
    /// The constraint.
    pub constraint: String,
}

/// The severity of a message. After all but EXCEPTION the transaction goes on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// DEBUG.
    Debug,
    /// LOG.
    Log,
    /// INFO: the client has asked for the message.
    Info,
    /// NOTICE.
    Notice,
    /// WARNING.
    Warning,
    /// EXCEPTION: aborts the transaction.
    Exception,
}

/// A message to the client of a statement that goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice {
    /// Any severity but `Exception`.
    pub severity: Severity,
    /// The message, with SQLSTATE, DETAIL and HINT.
    pub content: SqlError,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.content.fmt(f)
    }
}

/// The reason why a transaction must be retried.
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
    /// A row or key to be written is held by a transaction that still runs. A retry can succeed after that
    /// transaction has ended.
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

/// A failure that ends an execution early.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum Failure {
    /// The transaction conflicts with another transaction. It has changed no data and can be retried.
    #[error("could not serialize access: {0}")]
    Conflict(Conflict),
    /// The transaction reads many rows, or its client is slow. It has changed no data, and must run again on
    /// a snapshot.
    #[error("the transaction is long and must run on a snapshot")]
    Long,
    /// A statement of the transaction failed, or raised an exception.
    #[error(transparent)]
    Error(Box<SqlError>),
}

impl SqlError {
    /// Makes an error from its code and message.
    pub fn new(sqlstate: &str, message: impl Into<String>) -> Self {
        Self { sqlstate: sqlstate.into(), message: message.into(), detail: None, hint: None, object: None }
    }

    /// Adds the remedy.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into().into());
        self
    }

    /// Adds the violated constraint.
    #[must_use]
    pub fn with_constraint(self, table: &Table, constraint: &str) -> Self {
        self.with_object(table, "", constraint)
    }

    /// Adds the column that the error is about.
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
            datatype: String::new(),
            constraint: table.short_constraint(constraint).into(),
        }));
        self
    }

    /// Adds the relation that the error is about.
    #[must_use]
    pub fn with_relation(mut self, schema: &str, relation: &str) -> Self {
        let (schema, table) = (schema.into(), relation.into());
        self.object = Some(Box::new(ErrorObject { schema, table, ..ErrorObject::default() }));
        self
    }

    /// Adds the domain that the error is about, and its violated constraint.
    #[must_use]
    pub fn with_domain(mut self, schema: &str, domain: &str, constraint: &str) -> Self {
        self.object = Some(Box::new(ErrorObject {
            schema: schema.into(),
            datatype: domain.into(),
            constraint: constraint.into(),
            ..ErrorObject::default()
        }));
        self
    }

    /// Adds further facts.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Names the parameter whose value is refused, if nothing else is known about the error.
    #[must_use]
    pub fn of_parameter(mut self, number: usize) -> Self {
        self.detail.get_or_insert_with(|| format!("Parameter ${number}."));
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
        let made = Self::new(error.sqlstate, error.message);
        if error.detail.is_empty() { made } else { made.with_detail(error.detail) }
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
