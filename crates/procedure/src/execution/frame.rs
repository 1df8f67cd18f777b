//! The state of one execution: registers, values and scratch memory. Its buffers are kept from call to call,
//! so that a warm call allocates no memory.
//!
//! Not here: the services that the engine provides to the execution (`services`).

use crate::query::{Buffer, Slots};
use crate::{Cursor, Failure, Register, SqlError};
use catalog::{Arena, Datum, Type, Written};
use std::collections::HashSet;

/// A block of registers that are NULL.
static NULLS: [Datum; 64] = [Datum::Null; 64];

/// Registers, arena and scratch buffers of an execution.
#[derive(Default, Debug)]
pub struct Frame {
    /// Registers of the calls in progress, those of the innermost call last.
    registers: Vec<Datum>,
    /// Index of the first register of the running procedure.
    base: usize,
    /// The bytes and elements that datums refer to.
    pub arena: Arena,
    /// The key, or the lower bound, of the access in progress.
    pub(crate) key: Vec<u8>,
    /// The row that compiled code inserts.
    pub(crate) image: Vec<u64>,
    /// The upper bound of the range access in progress; empty when the range has no end.
    pub(crate) upper: Vec<u8>,
    /// Materialized rows of the loops in progress, innermost last.
    pub(crate) rows: Vec<Datum>,
    pub(crate) permutation: Vec<u32>,
    pub(crate) changes: Vec<(usize, Datum)>,
    pub(crate) distinct: Distinct,
    /// The call's time, in microseconds since 2000-01-01 UTC.
    pub(crate) timestamp_us: i64,
    /// The value that a constraint of a domain is being checked for.
    pub(crate) domain_value: Datum,
    /// State of `random()`.
    pub(crate) random: u64,
    /// Number of rounds of loops so far, over all calls.
    pub(crate) rounds: u32,
    /// Number of visited rows so far, over all calls.
    pub(super) seen: u32,
    /// The kept rows and answers of the queries in progress.
    pub(crate) slots: Slots,
    /// The number of calls in progress.
    pub(crate) depth: usize,
    /// The number of routines with SECURITY DEFINER among the calls in progress. Under one, no procedure ends
    /// the transaction.
    pub(crate) definers: usize,
    /// The number of rows that statements for the client returned or wrote.
    pub affected: u64,
    /// The number and checksum of the rows that operations have written. Queries are logged by value and do
    /// not count.
    pub(crate) written: Written,
    /// Line and column of the operation that failed.
    pub(crate) failed_at: Option<(u32, u32)>,
    /// The errors that handlers are handling, innermost last.
    pub(crate) handled: Vec<SqlError>,
    /// Whether a handler has caught a shortage of memory. The result of the call then depends on more than
    /// its record.
    pub(crate) has_caught_shortage: bool,
    /// The number of rows that the last operation returned or wrote.
    pub(crate) row_count: i64,
    /// Rows that the functions in progress return, innermost last.
    pub(crate) returned: Vec<Buffer>,
    /// The cursors of the call; a cursor variable holds an index in this list. `None`: the cursor is closed.
    pub(crate) cursors: Vec<Option<OpenCursor>>,
}

/// The point that an execution has reached, to return to if a guarded block fails.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameMark {
    base: usize,
    registers: usize,
    rows: usize,
    depth: usize,
    definers: usize,
    slots: (usize, usize),
    handled: usize,
    returned: usize,
}

/// The buffer of a function's rows, and the arena of their values.
pub(crate) struct ReturnedRows<'m> {
    rows: &'m mut Buffer,
    arena: &'m Arena,
}

impl ReturnedRows<'_> {
    pub(crate) fn push(self, row: impl IntoIterator<Item = Datum>) -> Result<(), Failure> {
        Ok(self.rows.push(row, self.arena)?)
    }
}

/// The rows that a DISTINCT has returned.
#[derive(Default, Debug)]
pub(crate) struct Distinct {
    pub(crate) ints: HashSet<i64>,
    pub(crate) rows: HashSet<Vec<u8>>,
}

impl Distinct {
    pub(crate) fn clear(&mut self) {
        self.ints.clear();
        self.rows.clear();
    }
}

/// The rows of an open cursor, their types and the cursor's position.
#[derive(Debug)]
pub(crate) struct OpenCursor {
    pub(super) rows: Buffer,
    pub(super) types: Vec<Type>,
    /// The number of the current row, from 1; 0 before the first row, and one more than the last number
    /// behind the last row.
    pub(super) at: i64,
    pub(super) is_forward_only: bool,
}

impl Frame {
    /// Begins a call. `seed` and `timestamp_us` determine `random()` and `now()`.
    pub(super) fn reset(&mut self, timestamp_us: i64, seed: u64) {
        self.arena.clear();
        self.registers.clear();
        self.base = 0;
        self.rows.clear();
        self.slots.clear();
        self.handled.clear();
        self.returned.clear();
        self.cursors.clear();
        self.affected = 0;
        self.row_count = 0;
        self.written = Written::default();
        self.failed_at = None;
        (self.depth, self.definers) = (0, 0);
        self.timestamp_us = timestamp_us;
        self.random = seed;
        self.has_caught_shortage = false;
    }

    /// Frees the buffers. The counters of the last call stay.
    pub(super) fn free(&mut self) {
        self.arena.free();
        self.registers = Vec::new();
        self.image = Vec::new();
        self.base = 0;
        self.rows = Vec::new();
        self.permutation = Vec::new();
        self.changes = Vec::new();
        self.distinct = Distinct::default();
        self.slots = Slots::default();
        self.handled = Vec::new();
        self.returned = Vec::new();
        self.cursors = Vec::new();
    }

    /// Sets targets to NULL.
    pub(crate) fn set_to_null<T>(&mut self, targets: &[(Register, T)]) {
        targets.iter().for_each(|(target, _)| self.set(*target, Datum::Null));
    }

    /// Returns the buffer of the rows that the function in progress returns.
    pub(crate) fn returned_rows(&mut self) -> Result<ReturnedRows<'_>, Failure> {
        let Self { returned, arena, .. } = self;
        let rows = returned.last_mut().ok_or_else(no_set)?;
        Ok(ReturnedRows { rows, arena })
    }

    /// Returns rows from the function in progress.
    pub(crate) fn return_rows(&mut self, rows: &Buffer) -> Result<(), Failure> {
        let returned = self.returned.last_mut().ok_or_else(no_set)?;
        (0..rows.len()).try_for_each(|row| returned.push(rows.row(row).iter().copied(), &rows.arena))?;
        Ok(())
    }

    pub(super) fn open(&mut self, cursor: &Cursor, rows: Buffer, types: Vec<Type>) -> Result<(), SqlError> {
        let opened = OpenCursor { rows, types, at: 0, is_forward_only: cursor.is_forward_only };
        match self.slot(cursor) {
            Some(Some(_)) => {
                let message = format!("cursor \"{}\" already in use", cursor.portal());
                return Err(SqlError::new("42P03", message));
            }
            Some(closed) => {
                *closed = Some(opened);
                return Ok(());
            }
            None => self.cursors.push(Some(opened)),
        }
        self.set(cursor.register, Datum::Int(self.cursors.len() as i64 - 1));
        Ok(())
    }

    /// Returns the place of a cursor in the list; `None` if the cursor was never opened.
    fn slot(&mut self, cursor: &Cursor) -> Option<&mut Option<OpenCursor>> {
        match self.get(cursor.register) {
            Datum::Int(index) => self.cursors.get_mut(usize::try_from(index).ok()?),
            _ => None,
        }
    }

    /// Takes an open cursor out of the list. It is closed unless `put_back` follows.
    ///
    /// # Errors
    /// `22004`: the cursor was never opened, and has no query of its own. `34000`: it is not open.
    pub(super) fn take_cursor(&mut self, cursor: &Cursor) -> Result<OpenCursor, SqlError> {
        if self.get(cursor.register).is_null() && !cursor.is_bound {
            let message = format!("cursor variable \"{}\" is null", cursor.name);
            return Err(SqlError::new("22004", message));
        }
        let open = self.slot(cursor).and_then(Option::take);
        open.ok_or_else(|| SqlError::new("34000", format!("cursor \"{}\" does not exist", cursor.portal())))
    }

    /// Puts a cursor that `take_cursor` has returned back into the list.
    pub(super) fn put_back(&mut self, cursor: &Cursor, open: OpenCursor) {
        if let Some(slot) = self.slot(cursor) {
            *slot = Some(open);
        }
    }

    /// Returns the point that the execution has reached, for `return_to`.
    pub(crate) fn mark(&self) -> FrameMark {
        let (base, registers, rows) = (self.base, self.registers.len(), self.rows.len());
        FrameMark {
            base,
            registers,
            rows,
            depth: self.depth,
            definers: self.definers,
            slots: self.slots.mark(),
            handled: self.handled.len(),
            returned: self.returned.len(),
        }
    }

    /// Leaves all calls, queries and handlers that were entered since `mark` returned its result.
    pub(crate) fn return_to(&mut self, mark: FrameMark) {
        self.base = mark.base;
        self.registers.truncate(mark.registers);
        self.rows.truncate(mark.rows);
        (self.depth, self.definers) = (mark.depth, mark.definers);
        self.slots.return_to(mark.slots);
        self.handled.truncate(mark.handled);
        self.returned.truncate(mark.returned);
    }

    /// Returns the value of a register of the running procedure.
    #[inline]
    pub fn get(&self, register: Register) -> Datum {
        self.registers[self.base + register.0 as usize]
    }

    /// Sets a register of the running procedure.
    #[inline]
    pub fn set(&mut self, register: Register, value: Datum) {
        self.registers[self.base + register.0 as usize] = value;
    }

    /// Returns the registers of the running procedure.
    #[inline]
    pub fn registers(&mut self) -> &mut [Datum] {
        &mut self.registers[self.base..]
    }

    /// Returns consecutive registers, and the arena.
    #[inline]
    pub(crate) fn window(&mut self, first: Register, count: usize) -> (&mut [Datum], &mut Arena) {
        let start = self.base + first.0 as usize;
        (&mut self.registers[start..start + count], &mut self.arena)
    }

    /// Adds the registers of a called procedure, all NULL. Returns the base of its caller, for `leave`.
    pub(crate) fn enter(&mut self, registers: usize) -> usize {
        let caller = self.base;
        self.base = self.registers.len();
        // Copied in blocks: every piece that is replayed enters a frame.
        let mut left = registers;
        while left > 0 {
            let block = left.min(NULLS.len());
            self.registers.extend_from_slice(&NULLS[..block]);
            left -= block;
        }
        caller
    }

    pub(crate) fn leave(&mut self, caller: usize) {
        self.registers.truncate(self.base);
        self.base = caller;
    }

    /// Sets a register of the procedure that calls the running one.
    pub(crate) fn set_in(&mut self, caller: usize, register: Register, value: Datum) {
        self.registers[caller + register.0 as usize] = value;
    }

    /// Returns the next 64 random bits of the call: SplitMix64 (Steele et al., 2014).
    pub(crate) fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(RANDOM_STEP);
        mixed(self.random)
    }

    /// Returns the result of the call of `next_random` with a number, from 1, without changing the state.
    /// The call must not have used `next_random` yet.
    pub(crate) fn random_word(&self, number: u64) -> u64 {
        mixed(self.random.wrapping_add(RANDOM_STEP.wrapping_mul(number)))
    }
}

fn no_set() -> SqlError {
    SqlError::new("0A000", "set-valued function called in context that cannot accept a set")
}

/// Returns the seed of a session's `number`th call. Seeds are scattered, so that two calls do not draw the
/// same random words.
pub fn seed_of(number: u64) -> u64 {
    mixed(number.wrapping_mul(RANDOM_STEP))
}

/// The distance between the states of two successive random words.
const RANDOM_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the random word of a state.
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}
