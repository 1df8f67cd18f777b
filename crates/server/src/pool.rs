//! Sessions of the database. A connection has one while it runs a statement or a transaction, so that there
//! may be many more connections than sessions.
//!
//! Invariants: 1. transactions of several statements never take the last `FOR_STATEMENTS` sessions: single
//! statements are served whatever clients leave open. 2. of idle sessions no more than `MOST_IDLE` are kept,
//! so that their memory and slots come back.
//! Held by: `open_transactions_leave_room` (crates/server/tests/suite/limits.rs).

use crate::hold;
use reprise::rooms::procedure::SqlError;
use reprise::{Database, Error, Session};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Sessions that transactions of several statements leave to others.
const FOR_STATEMENTS: usize = 8;
/// The longest wait of a client's message for a session.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest wait of a thread, whose message has found one free before.
const PATIENCE_OF_THREAD: Duration = Duration::from_secs(1);
/// A thread that waits for a session looks again this often.
const TICK: Duration = Duration::from_millis(20);
/// A task that waits for a session looks again this often, as a session may also end somewhere else than
/// here.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Idle sessions that are kept.
const MOST_IDLE: usize = 32;

/// The sessions.
pub(crate) struct Pool {
    database: Database,
    /// Sessions that no connection uses now, the last used first.
    #[expect(clippy::vec_box, reason = "a session is large, and changes hands twice in each statement")]
    idle: Mutex<Vec<Box<Session>>>,
    /// Sessions that transactions of several statements have.
    in_transactions: AtomicUsize,
    /// Told when a session comes back: threads, and tasks.
    returned: Condvar,
    freed: Notify,
    /// Statements that wait for a session.
    waiting: AtomicUsize,
    /// The newest definitions that a session has come back with.
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

    /// Returns once a session is free, or none has come back for `PATIENCE`: without a thread, as `take`
    /// would need one.
    pub(crate) async fn free(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let until = Instant::now() + PATIENCE;
        while !self.is_free() && Instant::now() < until {
            // Either way it looks again.
            let _ = tokio::time::timeout(LOOK_AGAIN, self.freed.notified()).await;
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether `take` would find a session now.
    pub(crate) fn is_free(&self) -> bool {
        self.database.sessions() < self.database.most_sessions() || !hold(&self.idle).is_empty()
    }

    /// A session for a statement. Where all are taken this thread waits until one comes back.
    ///
    /// # Errors
    /// `53300`: none has come back.
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

    /// Whether statements wait for a session.
    pub(crate) fn is_short(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    fn new_session(&self) -> Result<Box<Session>, Error> {
        self.database.session().map(Box::new)
    }

    fn wait(&self) -> Result<Box<Session>, Error> {
        let until = Instant::now() + PATIENCE_OF_THREAD;
        loop {
            let mut idle = hold(&self.idle);
            if idle.is_empty() {
                idle = self.returned.wait_timeout(idle, TICK).unwrap_or_else(PoisonError::into_inner).0;
            }
            let taken = idle.pop();
            drop(idle);
            // A session may also have ended somewhere else than here.
            match taken.map_or_else(|| self.new_session(), Ok) {
                Err(Error::TooManySessions(_)) if Instant::now() < until => {}
                taken => return taken,
            }
        }
    }

    /// Gives a session back that is in no transaction. The first that knows new definitions has the others
    /// take them over, so that no table is kept that is gone.
    pub(crate) fn give_back(&self, mut session: Box<Session>) {
        let newest = session.definitions();
        // Definitions change seldom: most sessions only look.
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
        self.tell_of_free();
        if newest > known {
            self.catch_up(newest);
        }
    }

    /// A session is idle again. It was put there before: a statement that has counted itself as waiting has
    /// either seen it, or is seen here.
    fn tell_of_free(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.returned.notify_one();
            self.freed.notify_one();
        }
    }

    /// Has idle sessions take new definitions over.
    #[cold]
    fn catch_up(&self, newest: u64) {
        loop {
            let mut idle = hold(&self.idle);
            let Some(place) = idle.iter().position(|own| own.definitions() < newest) else { return };
            let mut old = idle.swap_remove(place);
            drop(idle);
            old.catch_up();
            // Used last, as it was.
            hold(&self.idle).insert(0, old);
            self.tell_of_free();
        }
    }

    /// Has idle sessions clean up behind what they ran last.
    pub(crate) fn tidy(&self) {
        let tidied: Vec<_> = hold(&self.idle).extract_if(.., |own| own.has_garbage()).collect();
        for mut session in tidied {
            session.collect_garbage();
            hold(&self.idle).insert(0, session);
            self.tell_of_free();
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
