//! The pool of sessions. A connection has a session only while it runs a statement or a transaction, so there
//! may be many more connections than sessions.
//!
//! Invariants: 1. transactions of several statements never take the last `FOR_STATEMENTS` sessions, so single
//! statements run even if clients leave transactions open. 2. the pool keeps at most `MOST_IDLE` idle
//! sessions and frees the memory and the workers of all further ones.
//! Held by: `open_transactions_leave_room` (crates/server/tests/suite/limits.rs).

use crate::hold;
use reprise::{Database, Error, Session, SqlError};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Sessions that only single statements may take.
const FOR_STATEMENTS: usize = 8;
/// The longest wait of a task for a session.
const TASK_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait of a thread for a session, after its task has found a free one.
const THREAD_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two checks of a thread that waits for a session.
const THREAD_POLL: Duration = Duration::from_millis(20);
/// Time between two checks of a task that waits for a session: no task is woken when a session outside of the
/// pool ends.
const TASK_POLL: Duration = Duration::from_millis(500);
/// Most idle sessions of the pool.
const MOST_IDLE: usize = 32;

/// The sessions of a server.
pub(crate) struct Pool {
    database: Database,
    /// Sessions that no connection uses; the last one was used last, and is taken first. In boxes, because a
    /// session is large, and changes hands twice in each statement.
    idle: Mutex<Vec<Box<Session>>>,
    /// Number of sessions in transactions of several statements.
    in_transactions: AtomicUsize,
    /// Wakes waiting threads when a session is free.
    returned: Condvar,
    /// Wakes waiting tasks when a session is free.
    freed: Notify,
    /// Number of statements that wait for a session.
    waiting: AtomicUsize,
    /// The newest version of the definitions among returned sessions.
    newest: AtomicU64,
}

impl Pool {
    pub(crate) fn new(database: Database) -> Self {
        Self {
            database,
            idle: Mutex::default(),
            in_transactions: AtomicUsize::new(0),
            returned: Condvar::new(),
            freed: Notify::new(),
            waiting: AtomicUsize::new(0),
            newest: AtomicU64::new(0),
        }
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// Waits until a session is free, at most for `TASK_TIMEOUT`. Blocks no thread, unlike `take`.
    pub(crate) async fn free(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let until = Instant::now() + TASK_TIMEOUT;
        while !self.is_free() && Instant::now() < until {
            // The loop checks again after a wake-up and after the timeout.
            let _ = tokio::time::timeout(TASK_POLL, self.freed.notified()).await;
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns whether `take` would find a session without waiting.
    pub(crate) fn is_free(&self) -> bool {
        self.database.sessions() < self.database.most_sessions() || !hold(&self.idle).is_empty()
    }

    /// Takes a session for a statement. Blocks the thread while all are in use, for at most `THREAD_TIMEOUT`.
    ///
    /// # Errors
    /// `53300`: no session was returned in this time.
    pub(crate) fn take(&self) -> Result<Box<Session>, Error> {
        let idle = hold(&self.idle).pop();
        match idle.map_or_else(|| self.new_session(), Ok) {
            Err(Error::TooManySessions(_)) => {
                self.waiting.fetch_add(1, Ordering::SeqCst);
                let taken = tokio::task::block_in_place(|| self.wait());
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                taken
            }
            taken => taken,
        }
    }

    /// Returns whether statements wait for a session.
    pub(crate) fn is_short(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    fn new_session(&self) -> Result<Box<Session>, Error> {
        let mut session = self.database.session().map(Box::new)?;
        session.blocks_by(|wait| tokio::task::block_in_place(wait));
        Ok(session)
    }

    fn wait(&self) -> Result<Box<Session>, Error> {
        let until = Instant::now() + THREAD_TIMEOUT;
        loop {
            let mut idle = hold(&self.idle);
            if idle.is_empty() {
                idle =
                    self.returned.wait_timeout(idle, THREAD_POLL).unwrap_or_else(PoisonError::into_inner).0;
            }
            let taken = idle.pop();
            drop(idle);
            // A session outside of the pool may have ended, so this tries to open a new one.
            match taken.map_or_else(|| self.new_session(), Ok) {
                Err(Error::TooManySessions(_)) if Instant::now() < until => {}
                taken => return taken,
            }
        }
    }

    /// Returns a session without a transaction to the pool. If it is the first with new definitions, all idle
    /// sessions take these over, so that no session keeps a dropped table in memory.
    pub(crate) fn give_back(&self, mut session: Box<Session>) {
        session.act_as(sql::Schema::first_superuser());
        session.use_temporary(None);
        let newest = session.definitions();
        // Definitions rarely change, so most calls only read the number.
        let known = match self.newest.load(Ordering::Relaxed) {
            known if known < newest => self.newest.fetch_max(newest, Ordering::Relaxed),
            known => known,
        };
        if newest < known {
            session.catch_up();
        }
        let mut idle = hold(&self.idle);
        let dropped = if idle.len() < MOST_IDLE {
            idle.push(session);
            None
        } else {
            Some(session)
        };
        drop(idle);
        drop(dropped);
        self.notify_free();
        if newest > known {
            self.catch_up(newest);
        }
    }

    /// Wakes a waiting statement. The caller has put the session into `idle`: so a statement that counts
    /// itself as waiting either finds the session, or is counted here.
    fn notify_free(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.returned.notify_one();
            self.freed.notify_one();
        }
    }

    /// Makes idle sessions take over new definitions.
    #[cold]
    fn catch_up(&self, newest: u64) {
        loop {
            let mut idle = hold(&self.idle);
            let old = idle.iter().position(|session| session.definitions() < newest);
            let Some(index) = old else { return };
            let mut old = idle.swap_remove(index);
            drop(idle);
            old.catch_up();
            // At the front, because it was not used: sessions are taken from the end.
            hold(&self.idle).insert(0, old);
            self.notify_free();
        }
    }

    /// Makes idle sessions free the deleted and overwritten rows of their last transactions.
    pub(crate) fn collect_garbage(&self) {
        let sessions: Vec<_> = hold(&self.idle).extract_if(.., |session| session.has_garbage()).collect();
        for mut session in sessions {
            session.collect_garbage();
            hold(&self.idle).insert(0, session);
            self.notify_free();
        }
    }

    /// Counts a transaction of several statements, until `transaction_ended`.
    ///
    /// # Errors
    /// `53300`: a further transaction would leave too few sessions for single statements.
    pub(crate) fn transaction_begins(&self) -> Result<(), SqlError> {
        let most = self.database.most_sessions().saturating_sub(FOR_STATEMENTS).max(1);
        if self.in_transactions.fetch_add(1, Ordering::Relaxed) < most {
            return Ok(());
        }
        self.transaction_ended();
        let error = SqlError::new("53300", format!("too many open transactions: the limit is {most}"));
        Err(error.with_hint("End idle transactions, or raise the configured number of workers."))
    }

    pub(crate) fn transaction_ended(&self) {
        self.in_transactions.fetch_sub(1, Ordering::Relaxed);
    }
}
