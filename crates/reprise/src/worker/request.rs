//! What a worker is asked to run, and what it answers when it refuses.
//!
//! A request holds what the record of its transaction holds: the procedure, the time, the seed and the
//! encoded arguments. Registers are loaded from it at run time exactly as in replay
//! (`Procedure::read_arguments`).

use crate::Error;
use catalog::CommitOrder;
use logging::LogError;
use procedure::{Call, SqlError};
use std::time::Duration;

/// A call or statement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) call: Call<'a>,
    /// The arguments for the inputs of the procedure, as `catalog::encode_value` writes them.
    pub(crate) arguments: &'a [u8],
    pub(crate) recorded: Recorded<'a>,
}

/// How a log of commands records a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Recorded<'a> {
    /// As a call of its procedure.
    Call,
    /// As a statement with this text.
    Statement(&'a str),
    /// As the rows that it writes.
    Rows,
}

/// What a session sets for its requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Whether requests run on a snapshot and may write nothing.
    pub(crate) is_read_only: bool,
    /// Whether requests belong to a transaction of several statements, which stays open while they wait.
    pub(crate) is_in_block: bool,
    /// Whether the caller waits where another transaction holds a row or key. Otherwise the thread of the
    /// worker waits.
    pub(crate) caller_waits: bool,
    /// The longest wait for one transaction that holds a row or key; `None` is no limit.
    pub(crate) lock_timeout: Option<Duration>,
}

/// A request that failed.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) error: Box<Error>,
    /// The greatest number of the transactions that the error shows.
    pub(crate) shown: CommitOrder,
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self { error: Box::new(error), shown: CommitOrder(0) }
    }
}

impl From<SqlError> for Refused {
    fn from(error: SqlError) -> Self {
        Error::from(error).into()
    }
}

impl From<LogError> for Refused {
    fn from(error: LogError) -> Self {
        Error::from(error).into()
    }
}
