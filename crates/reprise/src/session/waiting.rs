//! The waits of a session: their limits, and statements that the caller runs again.

use super::{Session, TransactionState};
use crate::Error;
use crate::batches::Ticket;
use crate::worker::Settings;
use procedure::Conflict;
use std::sync::Arc;
use std::time::Duration;
use transaction::{AbortReason, Refusal};

/// The state and limits of a session's waits.
#[derive(Default)]
pub(super) struct Waiting {
    /// Whether the caller waits when another transaction holds a row or key, instead of this thread.
    pub(super) by_caller: bool,
    /// Whether a statement was `Attempt::Busy`, and was neither repeated nor given up.
    pub(super) is_pending: bool,
    /// The call that a batch runs while the caller waits.
    pub(super) submitted: Option<Submitted>,
    /// The longest wait for one transaction; `None` is no limit.
    pub(super) lock_timeout: Option<Duration>,
}

/// A call of a statement that was submitted to a batch.
pub(super) struct Submitted {
    pub(super) ticket: Arc<Ticket>,
    /// The plan of the statement.
    pub(super) plan: Arc<sql::Prepared>,
}

impl Session {
    /// Returns whether a statement was `Attempt::Busy`, and was neither repeated nor given up.
    pub fn is_waiting(&self) -> bool {
        self.waiting.is_pending
    }

    /// Sets the longest wait for one transaction that holds a row or key; `None` is no limit.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// # use std::time::Duration;
    /// session.execute_script("CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 0);")?;
    /// session.begin()?;
    /// session.execute("UPDATE t SET v = 1 WHERE id = 1", params![])?;
    /// let mut other = db.session()?;
    /// other.set_lock_timeout(Some(Duration::from_millis(10)));
    /// let error = other.execute("UPDATE t SET v = 2 WHERE id = 1", params![]).unwrap_err();
    /// assert_eq!(error.sqlstate(), "55P03"); // lock_not_available
    /// # Ok(()) }
    /// ```
    pub fn set_lock_timeout(&mut self, timeout: Option<Duration>) {
        self.waiting.lock_timeout = timeout;
    }

    /// Gives up a statement that was `Attempt::Busy`. An open transaction has then failed: it can only be
    /// rolled back, completely or to a savepoint. A call that its batch runs may still commit: see
    /// `Busy::withdraw`.
    pub fn stop_waiting(&mut self) {
        self.waiting.is_pending = false;
        if let Some(submitted) = self.waiting.submitted.take() {
            submitted.ticket.withdraw();
        }
        if self.block.state == TransactionState::None {
            self.worker.let_go();
        } else {
            self.statement_failed();
            self.fail_transaction();
        }
    }

    /// As `stop_waiting`, because the statement has waited longer than `lock_timeout`.
    pub fn time_out(&mut self) {
        self.worker.workspace.tables().aborts.count(AbortReason::LockTimeout);
        self.stop_waiting();
    }

    /// Holds the definitions for the session's transaction, once no other transaction changes some.
    ///
    /// # Errors
    /// `40P01` or `40001`: the open transaction must not wait; `55P03`, `57014`: the wait was too long or
    /// cancelled. Or the caller waits.
    pub(super) fn hold_definitions(&mut self) -> Result<(), Error> {
        // A transaction that has not begun keeps no other one waiting.
        let settings = Settings { is_in_block: self.block.begun, ..self.settings() };
        while self.worker.workspace.hold_definitions().is_err() {
            let retried = self.worker.before_retry(Conflict::Held, &settings);
            if retried.is_err() && self.worker.races.busy.is_none() {
                self.worker.workspace.let_definitions_go();
            }
            retried?;
        }
        self.worker.forget_races();
        // The change before may have let the definitions go before its version was published. While this
        // transaction is open, that version differs in roles and privileges alone.
        self.worker.inner.definitions.wait_for_version();
        if self.block.begun {
            self.follow_rights();
        }
        Ok(())
    }

    /// Releases the rows of the statement that was `Attempt::Busy`, after `Busy::released` has refused the
    /// wait. A transaction of one statement can then wait again.
    ///
    /// # Errors
    /// `40P01` or `40001`: a transaction is open, and has failed.
    pub fn break_deadlock(&mut self, refusal: Refusal) -> Result<(), Error> {
        let settings = self.settings();
        self.worker.let_rows_go(refusal, &settings).inspect_err(|_| self.stop_waiting())
    }
}
