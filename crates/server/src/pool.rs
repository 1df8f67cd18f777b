//! Sessions of the database. A connection has one while it runs a statement or a transaction, so that there may be many more
//! connections than sessions.
//!
//! Invariants: 1. transactions of several statements never take the last `FOR_STATEMENTS` sessions: single statements are served
//! whatever clients leave open. 2. of idle sessions no more than `MOST_IDLE` are kept, so that their memory and slots come back.
//! Held by: `open_transactions_leave_room` (crates/server/tests/suite/limits.rs).

use crate::hold;
use reprise::rooms::procedure::SqlError;
use reprise::{Database, Error, Session};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Sessions that transactions of several statements leave to others.
const FOR_STATEMENTS: usize = 8;
/// The longest wait for a session.
const PATIENCE: Duration = Duration::from_secs(10);
/// A statement that waits for a session looks again this often.
const TICK: Duration = Duration::from_millis(20);
/// Idle sessions that are kept.
const MOST_IDLE: usize = 32;

/// The sessions.
pub(crate) struct Pool {
    database: Database,
    /// Sessions that no connection uses now, the last used first.
    idle: Mutex<Vec<Session>>,
    /// Sessions that transactions of several statements have.
    in_transactions: AtomicUsize,
    /// Told when a session comes back.
    returned: Condvar,
    /// Statements that wait for a session.
    waiting: AtomicUsize,
}

impl Pool {
    pub(crate) fn new(database: Database) -> Self {
        Self {
            database,
            idle: Mutex::default(),
            in_transactions: AtomicUsize::new(0),
            returned: Condvar::new(),
            waiting: AtomicUsize::new(0),
        }
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// A session for a statement. Where all are taken this waits until one comes back.
    ///
    /// # Errors
    /// `53300`: none has come back for `PATIENCE`.
    pub(crate) fn take(&self) -> Result<Session, Error> {
        let idle = hold(&self.idle).pop();
        match idle.map_or_else(|| self.database.session(), Ok) {
            Err(Error::TooManySessions(_)) => {
                self.waiting.fetch_add(1, Ordering::Relaxed);
                let taken = tokio::task::block_in_place(|| self.wait());
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                taken
            }
            taken => taken,
        }
    }

    /// Whether statements wait for a session.
    pub(crate) fn is_short(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    fn wait(&self) -> Result<Session, Error> {
        let until = Instant::now() + PATIENCE;
        let mut idle = hold(&self.idle);
        loop {
            match idle.pop().map_or_else(|| self.database.session(), Ok) {
                Err(Error::TooManySessions(_)) if Instant::now() < until => {
                    // A session may also end somewhere else than here.
                    let waited = self.returned.wait_timeout(idle, TICK);
                    idle = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                taken => return taken,
            }
        }
    }

    /// Gives a session back that is in no transaction. Where it knows newer definitions than others, those take them over, so
    /// that no table is kept that is gone.
    pub(crate) fn give_back(&self, session: Session) {
        let newest = session.definitions();
        let mut idle = hold(&self.idle);
        if idle.len() < MOST_IDLE {
            idle.push(session);
            drop(idle);
        } else {
            drop(idle);
            drop(session);
        }
        self.returned.notify_one();
        loop {
            let mut idle = hold(&self.idle);
            let Some(place) = idle.iter().position(|own| own.definitions() < newest) else { return };
            let mut old = idle.swap_remove(place);
            drop(idle);
            old.catch_up();
            // Used last, as it was.
            hold(&self.idle).insert(0, old);
            self.returned.notify_one();
        }
    }

    /// Counts a transaction of several statements, until `transaction_ended`.
    ///
    /// # Errors
    /// `53300`: with one more, too few sessions would be left for single statements.
    pub(crate) fn transaction_begins(&self) -> Result<(), SqlError> {
        let most = self.database.most_sessions().saturating_sub(FOR_STATEMENTS).max(1);
        if self.in_transactions.fetch_add(1, Ordering::Relaxed) < most {
            return Ok(());
        }
        self.transaction_ended();
        let error = SqlError::new("53300", format!("{most} transactions are open: no further one can begin"));
        Err(error.with_hint("End transactions that are idle, or raise the server's number of workers."))
    }

    pub(crate) fn transaction_ended(&self) {
        self.in_transactions.fetch_sub(1, Ordering::Relaxed);
    }
}
