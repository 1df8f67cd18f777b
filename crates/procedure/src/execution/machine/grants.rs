//! The memory of a statement: the checks before values are made and at each row, and the release at the end.
//!
//! Small values are not checked one by one. The arena has a grant, `arena_granted`, and memory outside of the
//! arena is checked at the next row, because the program counts its allocations.

use super::Machine;
use crate::SqlError;
use catalog::Datum;
use memory::{Account, CREDIT, Refused};
use std::sync::Arc;

/// Maximum size of the values of one execution, in bytes: a span has a 32-bit offset.
const MOST_BYTES: usize = 3 << 30;
/// Maximum size of a text, in bytes, as in PostgreSQL.
const LONGEST_TEXT: usize = 0x3fff_ffff - 4;

/// Number of rows between two checks for cancellation.
const ASK_EVERY: u32 = 1024;
/// Maximum number of elements of an array, as in PostgreSQL.
const MOST_ELEMENTS: usize = 134_217_727;

impl Machine {
    /// Sets the account whose memory the next statements take, and the limit of each statement in bytes.
    /// Without this call there is no limit, as in replay: the logged call had enough memory.
    pub fn limit_memory(&mut self, account: Option<Arc<Account>>, statement: usize) {
        self.services.grant.limit_to(account, statement);
    }

    /// Sets the limit of each of the next statements, in bytes.
    pub fn limit_statements(&mut self, bytes: usize) {
        self.services.grant.set_limit(bytes);
    }

    /// Returns whether a handler of the last call has caught a shortage of memory. Another run of the call
    /// may then have a different result.
    pub fn has_caught_shortage(&self) -> bool {
        self.frame.has_caught_shortage
    }

    /// Ends a statement. At the end of a transaction it frees the buffers, if the statement has taken much
    /// memory; the statement's results are then lost. Returns whether it has freed the buffers.
    pub fn give_back(&mut self, ends_transaction: bool) -> bool {
        self.services.grant.end(ends_transaction);
        if !ends_transaction || !self.services.grant.is_much() {
            return false;
        }
        self.frame.free();
        self.services.notices = Vec::new();
        self.services.grant.begin();
        self.services.grant.end(true);
        true
    }

    /// Checks the memory of the arena. Called by code that makes small values.
    ///
    /// # Errors
    /// `53200`: the values take too much memory.
    #[inline]
    pub(crate) fn check_memory(&self) -> Result<(), SqlError> {
        if self.frame.arena.bytes_used() <= self.services.arena_granted.get() {
            Ok(())
        } else {
            self.ask_memory(0)
        }
    }

    /// Checks the memory that the statement keeps. Called at every row, by code that keeps rows.
    ///
    /// # Errors
    /// `53200`: the statement keeps too much memory.
    #[inline]
    pub(crate) fn check_kept(&self) -> Result<(), SqlError> {
        self.services.grant.check().map_err(out_of_memory)
    }

    /// Checks memory at every row that is visited, and cancellation at every 1,024th row.
    ///
    /// # Errors
    /// As `check_kept` and `check_cancelled`.
    #[inline]
    pub(crate) fn check_row(&mut self) -> Result<(), SqlError> {
        self.check_kept()?;
        self.frame.seen = self.frame.seen.wrapping_add(1);
        if self.frame.seen.is_multiple_of(ASK_EVERY) { self.check_cancelled() } else { Ok(()) }
    }

    /// Asks for bytes outside of the arena, before they are allocated.
    ///
    /// # Errors
    /// `53200`: there is not enough memory.
    pub(crate) fn ask_kept(&self, bytes: usize) -> Result<(), SqlError> {
        self.services.grant.ask(bytes).map_err(out_of_memory)
    }

    /// Asks for bytes of the arena, before the values are made.
    ///
    /// # Errors
    /// `53200`: there is not enough memory.
    #[cold]
    pub(crate) fn ask_memory(&self, bytes: usize) -> Result<(), SqlError> {
        let used = self.frame.arena.bytes_used().saturating_add(bytes);
        if used > MOST_BYTES {
            let error = SqlError::new("53200", "out of memory: a call makes more than 3 GiB of values");
            return Err(error.with_hint("Split the work into several calls."));
        }
        // If the program does not count its allocations, the size of the values is all that can be limited.
        if used > self.services.grant.limit() {
            return Err(out_of_memory(Refused::Statement { limit: self.services.grant.limit() }));
        }
        self.services.grant.ask(self.frame.arena.growth(bytes + CREDIT)).map_err(out_of_memory)?;
        self.services.arena_granted.set(used + CREDIT);
        Ok(())
    }

    /// Asks for the memory of a text, before it is made.
    ///
    /// # Errors
    /// `54000`: the text is too long; `53200`: there is not enough memory.
    #[inline]
    pub(crate) fn ask_text(&self, bytes: usize) -> Result<(), SqlError> {
        if bytes < CREDIT / 4 { Ok(()) } else { self.ask_long_text(bytes) }
    }

    /// Asks for the memory of a text that is being made, before it grows by a number of bytes.
    ///
    /// # Errors
    /// As `ask_text`.
    pub(crate) fn ask_longer(&self, text: &String, bytes: usize) -> Result<(), SqlError> {
        let wanted = text.len() + bytes;
        if wanted <= text.capacity() || wanted < CREDIT / 4 {
            return Ok(());
        }
        if wanted > LONGEST_TEXT {
            self.ask_long_text(wanted)
        } else {
            self.ask_kept(wanted.max(2 * text.capacity()))
        }
    }

    /// Asks for the memory of an array, before it is made.
    ///
    /// # Errors
    /// `54000`: the array is too long; `53200`: there is not enough memory.
    #[inline]
    pub(crate) fn ask_elements(&self, elements: usize) -> Result<(), SqlError> {
        if elements * size_of::<Datum>() < CREDIT / 4 { Ok(()) } else { self.ask_long_array(elements) }
    }

    #[cold]
    fn ask_long_array(&self, elements: usize) -> Result<(), SqlError> {
        if elements > MOST_ELEMENTS {
            let message = format!("array size exceeds the maximum allowed ({MOST_ELEMENTS})");
            return Err(SqlError::new("54000", message));
        }
        self.ask_memory(elements * size_of::<Datum>())
    }

    #[cold]
    fn ask_long_text(&self, bytes: usize) -> Result<(), SqlError> {
        if bytes > LONGEST_TEXT {
            let error = SqlError::new("54000", "requested length too large");
            return Err(error.with_detail(format!("A text has at most {LONGEST_TEXT} bytes, not {bytes}.")));
        }
        // The text is made outside of the arena, and then copied into it.
        self.services.grant.ask(bytes).map_err(out_of_memory)?;
        self.ask_memory(bytes)
    }
}

/// Returns the error of a statement for which there is not enough memory.
fn out_of_memory(refused: Refused) -> SqlError {
    let error = SqlError::new("53200", "out of memory").with_detail(format!("Reason: {refused}."));
    error.with_hint(match refused {
        Refused::Statement { .. } => "Raise the setting \"work_mem\", or use several statements.",
        Refused::Server { .. } => "Wait for other statements to end, delete rows, or raise the memory limit.",
    })
}
