//! Who may have more memory: the limit of a database, and the grant of a statement.
//!
//! Invariant: a statement that has taken more than `FREE` bytes holds no more than it has asked for, give or
//! take `CREDIT` bytes and what one container takes to grow. Held by: `cli/tests/suite/memory.rs`.

use crate::{is_metered, process_bytes, thread_bytes};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thiserror::Error;

/// A statement asks for this many bytes beyond what it needs, so that it does not ask at every step.
pub const CREDIT: usize = 256 << 10;
/// A statement may have this many bytes without asking, so that a few rows can be deleted where there is no
/// memory.
const FREE: isize = 1 << 20;
/// A statement that has taken this many bytes gives its buffers back at its end.
const MUCH: isize = 16 << 20;
/// The process is not counted yet.
const NOT_OPEN: usize = usize::MAX;

/// There is no more memory for a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Refused {
    /// It would exceed its own limit.
    #[error("the statement would keep more than {limit} bytes")]
    Statement {
        /// The limit, in bytes.
        limit: usize,
    },
    /// All statements, rows and indexes together would exceed the limit of the database.
    #[error("the limit of {limit} bytes for the whole server is reached")]
    Server {
        /// The limit, in bytes.
        limit: usize,
    },
}

/// What one database may have: rows, indexes, statements, results that wait for clients. Counts the whole
/// process, less what that had when the database was opened; counts nothing in a process without `Metered`.
#[derive(Debug)]
pub struct Account {
    limit: usize,
    /// Bytes of the process that do not count; `NOT_OPEN` before all memory may be counted.
    uncounted: AtomicUsize,
    /// Bytes that are allocated, but ready for rows and indexes to come.
    spare: AtomicUsize,
    /// Bytes that are promised, and not allocated yet.
    reserved: AtomicUsize,
}

/// Bytes of an account that nothing else may take until this is dropped.
#[derive(Debug)]
#[must_use = "others may take the bytes as soon as this is dropped"]
pub struct Reserved<'a> {
    account: &'a Account,
    bytes: usize,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.account.reserved.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What one statement has taken, and how far it may go before it has to ask again.
#[derive(Debug)]
pub struct Grant {
    account: Option<Arc<Account>>,
    limit: usize,
    /// What the thread had allocated when the statement began.
    begin: isize,
    /// What the thread may have allocated before it has to ask.
    granted: Cell<isize>,
    /// Bytes that earlier statements of the same transaction have left behind.
    carried: isize,
    /// Whether the statement still runs.
    runs: bool,
}

impl Account {
    /// An account with a limit, which counts nothing until `open`.
    pub fn new(limit: usize) -> Self {
        let (uncounted, spare, reserved) =
            (AtomicUsize::new(NOT_OPEN), AtomicUsize::new(0), AtomicUsize::new(0));
        Self { limit, uncounted, spare, reserved }
    }

    /// Counts from now on: what the process has beyond these bytes of rows and indexes is not the database's.
    pub fn open(&self, stored: usize) {
        self.uncounted.store(process_bytes().saturating_sub(stored), Ordering::Relaxed);
    }

    /// The limit, in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes that are taken.
    pub fn used(&self) -> usize {
        let uncounted = self.uncounted.load(Ordering::Relaxed);
        let allocated = process_bytes().saturating_sub(uncounted);
        let allocated = allocated.saturating_sub(self.spare.load(Ordering::Relaxed));
        allocated.saturating_add(self.reserved.load(Ordering::Relaxed))
    }

    /// Promises bytes to what is about to allocate them without asking for each: of several at one time, not
    /// all get what is there for one.
    ///
    /// # Errors
    /// There are not as many.
    pub fn reserve(&self, bytes: usize) -> Result<Reserved<'_>, Refused> {
        self.reserved.fetch_add(bytes, Ordering::Relaxed);
        let reserved = Reserved { account: self, bytes };
        if self.has_room(0) { Ok(reserved) } else { Err(Refused::Server { limit: self.limit }) }
    }

    /// Whether there are this many bytes left.
    pub fn has_room(&self, bytes: usize) -> bool {
        !is_metered() || self.used().saturating_add(bytes) <= self.limit
    }

    /// Whether more than half is taken.
    pub fn is_tight(&self) -> bool {
        self.used() > self.limit / 2
    }

    /// Takes note of bytes that were allocated ahead of rows and indexes.
    pub fn add_spare(&self, bytes: usize) {
        self.spare.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes note that rows and indexes use such bytes now.
    pub fn use_spare(&self, bytes: usize) {
        self.spare.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Default for Grant {
    fn default() -> Self {
        Self {
            account: None,
            limit: usize::MAX,
            begin: 0,
            granted: Cell::new(isize::MAX),
            carried: 0,
            runs: false,
        }
    }
}

impl Grant {
    /// Says whose memory it is, and the limit of one statement in bytes. Without this there is no limit.
    pub fn limit_to(&mut self, account: Option<Arc<Account>>, limit: usize) {
        (self.account, self.limit) = (account, limit);
    }

    /// Says how many bytes one statement may take.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// The limit of one statement, in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// A statement begins, on this thread.
    #[inline]
    pub fn begin(&mut self) {
        self.runs = true;
        self.begin = thread_bytes();
        self.granted.set(self.begin.saturating_add((FREE - self.carried).max(0)));
    }

    /// The statement has ended, on the thread that it began on. What it leaves behind counts against what the
    /// next one of its transaction may have without asking.
    #[inline]
    pub fn end(&mut self, ends_transaction: bool) {
        let left = if self.runs { thread_bytes().wrapping_sub(self.begin).max(0) } else { 0 };
        self.runs = false;
        self.carried = if ends_transaction { 0 } else { self.carried.saturating_add(left) };
    }

    /// Asked at every row.
    ///
    /// # Errors
    /// The statement has more than it may.
    #[inline]
    pub fn check(&self) -> Result<(), Refused> {
        if thread_bytes() <= self.granted.get() { Ok(()) } else { self.ask(0) }
    }

    /// Asks for bytes that are about to be taken.
    ///
    /// # Errors
    /// There are not as many.
    #[cold]
    pub fn ask(&self, bytes: usize) -> Result<(), Refused> {
        let taken = thread_bytes().saturating_sub(self.begin);
        let wanted = usize::try_from(taken).unwrap_or(0).saturating_add(bytes);
        if wanted > self.limit {
            return Err(Refused::Statement { limit: self.limit });
        }
        if let Some(account) = &self.account
            && wanted.saturating_add_signed(self.carried) > FREE.unsigned_abs()
            && !account.has_room(bytes + CREDIT)
        {
            return Err(Refused::Server { limit: account.limit });
        }
        let granted = (wanted + CREDIT).min(self.limit);
        let granted = self.begin.saturating_add_unsigned(granted);
        self.granted.set(self.granted.get().max(granted));
        Ok(())
    }

    /// Whether the statement has asked for so much that its buffers should not be kept for the next one.
    #[inline]
    pub fn is_much(&self) -> bool {
        self.granted.get().wrapping_sub(self.begin) > MUCH
    }
}
