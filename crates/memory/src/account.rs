//! The memory limit of a database, and the grants of its statements.
//!
//! Invariant: a statement that has taken more than `FREE` bytes has at most the bytes that it was granted,
//! `CREDIT` more, and the growth of one container. Held by: `cli/tests/suite/memory.rs`.

use crate::{is_metered, process_bytes, thread_bytes};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thiserror::Error;

/// Bytes that a statement asks for beyond its need, so that it does not ask at every step.
pub const CREDIT: usize = 256 << 10;
/// Bytes that a statement may take without asking, so that rows can be deleted when the memory is full.
const FREE: isize = 1 << 20;
/// A statement that was granted more bytes than this frees its buffers at its end.
const MUCH: isize = 16 << 20;
/// Marks an account that does not count yet.
const NOT_OPEN: usize = usize::MAX;

/// A statement was refused memory.
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

/// The memory of one database: rows, indexes, statements, results that wait for clients. It counts all bytes
/// of the process beyond those at the opening of the database, and nothing in a process without `Metered`.
#[derive(Debug)]
pub struct Account {
    limit: usize,
    /// Bytes of the process that do not count; `NOT_OPEN` until the account is open.
    uncounted: AtomicUsize,
    /// Bytes that are allocated for future rows and indexes.
    spare: AtomicUsize,
    /// Bytes that are reserved and not allocated yet.
    reserved: AtomicUsize,
}

/// Reserved bytes of an account; dropping this releases them.
#[derive(Debug)]
#[must_use = "dropping this releases the bytes"]
pub struct Reserved<'a> {
    account: &'a Account,
    bytes: usize,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.account.reserved.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The bytes that one statement has taken, and those that it may take without asking.
#[derive(Debug)]
pub struct Grant {
    account: Option<Arc<Account>>,
    limit: usize,
    /// Bytes that the thread had allocated when the statement began.
    begin: isize,
    /// The statement asks once the thread has allocated more bytes than this.
    granted: Cell<isize>,
    /// Bytes that earlier statements of the same transaction still use.
    carried: isize,
    /// Whether a statement runs.
    runs: bool,
}

impl Account {
    /// Returns an account with a limit, in bytes, which counts nothing until `open`.
    pub fn new(limit: usize) -> Self {
        let (uncounted, spare, reserved) =
            (AtomicUsize::new(NOT_OPEN), AtomicUsize::new(0), AtomicUsize::new(0));
        Self { limit, uncounted, spare, reserved }
    }

    /// Begins to count. Bytes that the process has now do not count, except `stored`, those of rows and
    /// indexes.
    pub fn open(&self, stored: usize) {
        self.uncounted.store(process_bytes().saturating_sub(stored), Ordering::Relaxed);
    }

    /// Returns the limit, in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the number of bytes in use.
    pub fn used(&self) -> usize {
        let uncounted = self.uncounted.load(Ordering::Relaxed);
        let allocated = process_bytes().saturating_sub(uncounted);
        let allocated = allocated.saturating_sub(self.spare.load(Ordering::Relaxed));
        allocated.saturating_add(self.reserved.load(Ordering::Relaxed))
    }

    /// Reserves bytes for allocations that do not ask one by one, so that concurrent callers do not count on
    /// the same free bytes.
    ///
    /// # Errors
    /// The limit of the account is reached.
    pub fn reserve(&self, bytes: usize) -> Result<Reserved<'_>, Refused> {
        self.reserved.fetch_add(bytes, Ordering::Relaxed);
        let reserved = Reserved { account: self, bytes };
        if self.has_room(0) { Ok(reserved) } else { Err(Refused::Server { limit: self.limit }) }
    }

    /// Returns whether this many bytes are free.
    pub fn has_room(&self, bytes: usize) -> bool {
        !is_metered() || self.used().saturating_add(bytes) <= self.limit
    }

    /// Returns whether more than half of the limit is in use.
    pub fn is_tight(&self) -> bool {
        self.used() > self.limit / 2
    }

    /// Adds bytes that were allocated for future rows and indexes.
    pub fn add_spare(&self, bytes: usize) {
        self.spare.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts such bytes, which rows and indexes use now.
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
    /// Sets the account, and the limit of one statement in bytes. Without this there is no limit.
    pub fn limit_to(&mut self, account: Option<Arc<Account>>, limit: usize) {
        (self.account, self.limit) = (account, limit);
    }

    /// Sets the limit of one statement, in bytes.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Returns the limit of one statement, in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Begins a statement on the calling thread.
    #[inline]
    pub fn begin(&mut self) {
        self.runs = true;
        self.begin = thread_bytes();
        self.granted.set(self.begin.saturating_add((FREE - self.carried).max(0)));
    }

    /// Ends the statement, on the thread on which it began. The bytes that it still uses count against those
    /// that the next statement of its transaction may take without asking.
    #[inline]
    pub fn end(&mut self, ends_transaction: bool) {
        let left = if self.runs { thread_bytes().wrapping_sub(self.begin).max(0) } else { 0 };
        self.runs = false;
        self.carried = if ends_transaction { 0 } else { self.carried.saturating_add(left) };
    }

    /// Checks the statement's memory; called for every row.
    ///
    /// # Errors
    /// The limit of the statement or of the account is reached.
    #[inline]
    pub fn check(&self) -> Result<(), Refused> {
        if thread_bytes() <= self.granted.get() { Ok(()) } else { self.ask(0) }
    }

    /// Asks for bytes before they are allocated.
    ///
    /// # Errors
    /// The limit of the statement or of the account is reached.
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

    /// Returns whether the statement was granted so much that its buffers should not be kept.
    #[inline]
    pub fn is_much(&self) -> bool {
        self.granted.get().wrapping_sub(self.begin) > MUCH
    }
}
