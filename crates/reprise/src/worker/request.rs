//! The requests that a worker runs, their settings, and their failures.
//!
//! A request has the contents of its transaction's record: the procedure, the time, the seed and the encoded
//! arguments. Execution loads its registers from them exactly as replay does (`Procedure::read_arguments`).

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

/// The record of a request in a log of commands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Recorded<'a> {
    /// The call of its procedure.
    Call,
    /// The statement with this text.
    Statement(&'a str),
    /// The rows that it writes.
    Rows,
}

/// The settings of a session's requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Whether requests run on a snapshot and must not write.
    pub(crate) is_read_only: bool,
    /// Whether requests belong to a transaction of several statements. It stays open while they wait.
    pub(crate) is_in_block: bool,
    /// Whether requests are vertices of a batch. Definitions do not change while it runs.
    pub(crate) is_in_batch: bool,
    /// Whether the caller waits when another transaction holds a row or key. Otherwise the worker's thread
    /// waits.
    pub(crate) caller_waits: bool,
    /// The longest wait for one transaction that holds a row or key; `None` is no limit.
    pub(crate) lock_timeout: Option<Duration>,
}

/// A request that failed.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) error: Box<Error>,
    /// The greatest commit number of the transactions whose writes the error shows.
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
