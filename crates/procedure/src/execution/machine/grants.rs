//! The memory of a statement: what is asked before values are made and at each row, and what goes back at the
//! end.
//!
//! Small values are not asked for one by one: the arena has its own grant, `arena_granted`, and what is
//! kept beside it is seen at the next row, as the program counts what it allocates.

use super::Machine;
use crate::SqlError;
use catalog::Datum;
use memory::{Account, CREDIT, Refused};
use std::sync::Arc;

/// Most bytes of values of one execution: what spans can point into.
const MOST_BYTES: usize = 3 << 30;
/// Bytes of the longest text, as in PostgreSQL.
const LONGEST_TEXT: usize = 0x3fff_ffff - 4;

/// How many rows pass between two looks at whether the statement is cancelled.
const ASK_EVERY: u32 = 1024;
/// Elements of the longest array, as in PostgreSQL.
const MOST_ELEMENTS: usize = 134_217_727;

impl Machine {
    /// Says whose memory statements take from now on, and the limit of each in bytes. Without this there is
    /// no limit, as in replay: what was possible once is possible again.
    pub fn limit_memory(&mut self, account: Option<Arc<Account>>, statement: usize) {
        self.services.grant.limit_to(account, statement);
    }

    /// Says how many bytes each statement may take from now on.
    pub fn limit_statements(&mut self, bytes: usize) {
        self.services.grant.set_limit(bytes);
    }

    /// Whether the last call has handled that there was no memory, so that another run of it may do something
    /// else.
    pub fn has_caught_shortage(&self) -> bool {
        self.frame.has_caught_shortage
    }

    /// A statement has ended, and perhaps its transaction. Gives back the buffers of one that has taken much,
    /// where that is the end of the transaction; returns whether it did. What the statement returned is
    /// forgotten then.
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

    /// Asked by what makes values.
    ///
    /// # Errors
    /// `53200`: there are too many of them.
    #[inline]
    pub(crate) fn check_memory(&self) -> Result<(), SqlError> {
        if self.frame.arena.bytes_used() <= self.services.arena_granted.get() {
            Ok(())
        } else {
            self.ask_memory(0)
        }
    }

    /// Asked at every row, by what keeps rows.
    ///
    /// # Errors
    /// `53200`: the statement keeps too much.
    #[inline]
    pub(crate) fn check_kept(&self) -> Result<(), SqlError> {
        self.services.grant.check().map_err(out_of_memory)
    }

    /// Asked at every row that is looked at.
    ///
    /// # Errors
    /// As `check_kept`, and at intervals as `check_cancelled`.
    #[inline]
    pub(crate) fn check_row(&mut self) -> Result<(), SqlError> {
        self.check_kept()?;
        self.frame.seen = self.frame.seen.wrapping_add(1);
        if self.frame.seen.is_multiple_of(ASK_EVERY) { self.check_cancelled() } else { Ok(()) }
    }

    /// Asked before this many bytes are taken beside the arena.
    ///
    /// # Errors
    /// `53200`: there are not as many.
    pub(crate) fn ask_kept(&self, bytes: usize) -> Result<(), SqlError> {
        self.services.grant.ask(bytes).map_err(out_of_memory)
    }

    /// Asked before values of this many bytes are made.
    ///
    /// # Errors
    /// `53200`: there is no memory for them.
    #[cold]
    pub(crate) fn ask_memory(&self, bytes: usize) -> Result<(), SqlError> {
        let used = self.frame.arena.bytes_used().saturating_add(bytes);
        if used > MOST_BYTES {
            let error = SqlError::new("53200", "out of memory: a call makes more than 3 GiB of values");
            return Err(error.with_hint("Do it in several calls."));
        }
        // Where the program does not count what it allocates, the values are all that is known.
        if used > self.services.grant.limit() {
            return Err(out_of_memory(Refused::Statement { limit: self.services.grant.limit() }));
        }
        self.services.grant.ask(self.frame.arena.growth(bytes + CREDIT)).map_err(out_of_memory)?;
        self.services.arena_granted.set(used + CREDIT);
        Ok(())
    }

    /// Asked before a text of this many bytes is made.
    ///
    /// # Errors
    /// `54000`: no text is that long; `53200`: there is no memory for it.
    #[inline]
    pub(crate) fn ask_text(&self, bytes: usize) -> Result<(), SqlError> {
        if bytes < CREDIT / 4 { Ok(()) } else { self.ask_long_text(bytes) }
    }

    /// Asked before a text that is being made gets this many bytes more.
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

    /// Asked before an array of this many elements is made.
    ///
    /// # Errors
    /// `54000`: no array has as many; `53200`: there is no memory for it.
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
        // It is made beside the arena, and then copied there.
        self.services.grant.ask(bytes).map_err(out_of_memory)?;
        self.ask_memory(bytes)
    }
}

/// What a client is told when there is no memory.
fn out_of_memory(refused: Refused) -> SqlError {
    let error = SqlError::new("53200", "out of memory").with_detail(format!("Because {refused}."));
    error.with_hint(match refused {
        Refused::Statement { .. } => "Raise the setting \"work_mem\", or do it in several statements.",
        Refused::Server { .. } => "Wait for other statements to end, delete rows, or raise the memory limit.",
    })
}
