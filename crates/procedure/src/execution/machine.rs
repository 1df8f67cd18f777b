//! The registers and scratch memory of an execution: kept from call to call, so that a warm call allocates
//! nothing.

mod grants;

use crate::ir::opaque::Compiler;
use crate::query::{Buffer, Slots};
use crate::{Cursor, Failure, Interrupts, Register, SqlError};
use catalog::{Arena, CommitOrder, Datum, SequencePlace, TableId, Type, Written};
use memory::{CREDIT, Grant};
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Registers, arena and scratch buffers of one session.
#[derive(Default, Debug)]
pub struct Machine {
    registers: Vec<Datum>,
    base: usize,
    /// What datums point into.
    pub arena: Arena,
    /// Bytes of the arena up to which the machine does not ask whether there is memory.
    arena_granted: Cell<usize>,
    /// What the statement may take.
    pub(crate) grant: Grant,
    /// Whether a handler has caught that there was no memory: what the call did then depends on more than its
    /// record.
    pub(crate) has_caught_shortage: bool,
    pub(crate) key: Vec<u8>,
    pub(crate) upper: Vec<u8>,
    /// Materialized rows of the loops in progress, innermost last.
    pub(crate) rows: Vec<Datum>,
    pub(crate) permutation: Vec<u32>,
    pub(crate) changes: Vec<(usize, Datum)>,
    pub(crate) distinct: Distinct,
    /// The call's time, in microseconds since 2000-01-01 UTC.
    pub(crate) timestamp_us: i64,
    /// State of `random()`.
    pub(crate) random: u64,
    /// Rounds of loops so far, over all calls.
    pub(crate) rounds: u32,
    /// Rows that were looked at so far, over all calls.
    seen: u32,
    /// What queries in progress keep.
    pub(crate) slots: Slots,
    /// Where rows go that a statement hands to its client.
    pub(crate) output: Option<Output>,
    /// How many calls are in progress.
    pub(crate) depth: usize,
    /// Rows that statements for the client came to.
    pub affected: u64,
    /// What operations have written; what queries have, which are logged by value, is not part of it.
    pub(crate) written: Written,
    /// Line and column of the operation that failed.
    pub(crate) failed_at: Option<(u32, u32)>,
    /// Rows that each node of a plan came to, by its address; where they are counted.
    pub(crate) counted: Option<HashMap<usize, u64>>,
    pub(crate) interrupts: Interrupts,
    /// What RAISE NOTICE and its like said.
    pub notices: Vec<SqlError>,
    /// Errors that are being handled, the last one last.
    pub(crate) handled: Vec<SqlError>,
    /// Rows that the last operation came to.
    pub(crate) row_count: i64,
    pub(crate) sequences: Option<Handle<dyn Sequences>>,
    /// Whether the transaction is READ ONLY.
    is_read_only: bool,
    pub(crate) compiler: Option<Handle<dyn Compiler>>,
    /// Rows that the functions in progress return, innermost last.
    pub(crate) returned: Vec<Buffer>,
    /// Cursors that were opened; a variable knows its own by its place.
    pub(crate) cursors: Vec<Option<OpenCursor>>,
    /// The numbers that a client has been given last, by sequence, and the sequence that was last.
    pub current_numbers: CurrentNumbers,
}

/// Where an execution is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    base: usize,
    registers: usize,
    rows: usize,
    depth: usize,
    slots: (usize, usize),
    handled: usize,
    returned: usize,
}

/// The numbers that a client has been given last.
#[derive(Clone, Default, Debug)]
pub struct CurrentNumbers {
    by_sequence: HashMap<TableId, i64>,
    last: Option<TableId>,
}

/// What the engine around it does for an execution.
pub(crate) struct Handle<T: ?Sized>(pub(crate) Arc<T>);

impl<T: ?Sized> std::fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handle")
    }
}

/// Where a function's rows go.
pub(crate) struct Returned<'m> {
    rows: &'m mut Buffer,
    arena: &'m Arena,
}

impl Returned<'_> {
    pub(crate) fn push(self, row: impl IntoIterator<Item = Datum>) -> Result<(), Failure> {
        Ok(self.rows.push(row, self.arena)?)
    }
}

/// Takes rows that a statement hands to its client.
pub trait RowSink: Send {
    /// An attempt begins: rows of earlier ones count no more.
    fn begin(&mut self);

    /// A row: values, and the arena that they lie in.
    ///
    /// # Errors
    /// What ends the statement.
    fn row(&mut self, values: &[Datum], arena: &Arena) -> Result<(), SqlError>;

    /// Whether there are so many rows that they should go to the client before there are more.
    fn is_full(&self) -> bool {
        false
    }

    /// Sends rows to the client, which may take as long as it likes, once everything up to `shown` is
    /// durable.
    ///
    /// # Errors
    /// What ends the statement.
    fn relieve(&mut self, shown: CommitOrder) -> Result<(), SqlError> {
        let _ = shown;
        Ok(())
    }

    /// Whether rows are where they can't be taken back from, so that the attempt must be the last one.
    fn is_sent(&self) -> bool {
        false
    }
}

/// Takes rows that nobody wants.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nowhere;

impl RowSink for Nowhere {
    fn begin(&mut self) {}

    fn row(&mut self, _: &[Datum], _: &Arena) -> Result<(), SqlError> {
        Ok(())
    }
}

/// Gives numbers of sequences. That they were taken is durable before anybody has them, and holds whatever
/// becomes of the transaction.
pub trait Sequences: Send + Sync {
    /// The next number.
    ///
    /// # Errors
    /// There is none left, or the log failed.
    fn next(&self, sequence: TableId) -> Result<i64, SqlError>;

    /// Says which number was the last one, or is to be the next.
    ///
    /// # Errors
    /// It is out of bounds, or the log failed.
    fn set(&self, sequence: TableId, number: i64, is_called: bool) -> Result<(), SqlError>;

    /// Where the sequence stands: a number, and whether it was given.
    ///
    /// # Errors
    /// The log failed.
    fn place(&self, sequence: TableId) -> Result<SequencePlace, SqlError>;
}

/// A sink, and the row that is being made for it.
pub(crate) struct Output {
    pub(crate) sink: Box<dyn RowSink>,
    pub(crate) row: Vec<Datum>,
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output").finish_non_exhaustive()
    }
}

/// The rows that a DISTINCT has seen.
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

/// Rows with their types, and a place among them.
#[derive(Debug)]
pub(crate) struct OpenCursor {
    pub(super) rows: Buffer,
    pub(super) types: Vec<Type>,
    /// 0 before the first row, from 1 on a row, one more than there are behind the last.
    pub(super) at: i64,
}

impl Machine {
    /// Forgets the last call. `seed` and `timestamp_us` are what `random()` and `now()` of the next follow
    /// from.
    pub fn reset(&mut self, timestamp_us: i64, seed: u64) {
        self.arena.clear();
        self.registers.clear();
        self.base = 0;
        self.rows.clear();
        self.slots.clear();
        self.notices.clear();
        self.handled.clear();
        self.returned.clear();
        self.cursors.clear();
        self.affected = 0;
        self.written = Written::default();
        self.failed_at = None;
        self.depth = 0;
        if let Some(output) = &mut self.output {
            output.sink.begin();
        }
        if let Some(counted) = &mut self.counted {
            counted.clear();
        }
        self.timestamp_us = timestamp_us;
        self.random = seed;
        self.has_caught_shortage = false;
        self.arena_granted.set(CREDIT);
        self.grant.begin();
    }

    /// What there is no row for is NULL: as in PostgreSQL, and so that what defines registers always does.
    pub(crate) fn set_to_null<T>(&mut self, targets: &[(Register, T)]) {
        targets.iter().for_each(|(target, _)| self.set(*target, Datum::Null));
    }

    /// What the operations of the call have written so far; of a call that is not logged by value, that is
    /// all.
    #[inline]
    pub fn written(&self) -> Written {
        self.written
    }

    /// Line and column of the operation that ended the call.
    pub fn failed_at(&self) -> Option<(u32, u32)> {
        self.failed_at
    }

    /// Says where rows go that statements hand to their client. Without a sink they go nowhere.
    pub fn send_rows_to(&mut self, sink: Option<Box<dyn RowSink>>) {
        self.output = sink.map(|sink| Output { sink, row: Vec::new() });
    }

    /// Whether rows of the statement in hand can't be taken back.
    pub fn has_sent_rows(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.sink.is_sent())
    }

    /// Takes back what rows went to.
    pub fn take_sink(&mut self) -> Option<Box<dyn RowSink>> {
        self.output.take().map(|output| output.sink)
    }

    /// Says what ends the statement in progress when it is raised.
    pub fn cancelled_by(&mut self, flag: Arc<AtomicBool>) {
        self.interrupts.cancelled = Some(flag);
    }

    /// Says whether the rows of plans' nodes are counted from now on; gives those that were.
    pub fn count_rows(&mut self, counts: bool) -> HashMap<usize, u64> {
        std::mem::replace(&mut self.counted, counts.then(HashMap::new)).unwrap_or_default()
    }

    /// Says where numbers of sequences come from.
    pub fn count_by(&mut self, sequences: Arc<dyn Sequences>) {
        self.sequences = Some(Handle(sequences));
    }

    /// Says whether the next statements are of READ ONLY transactions, which take no numbers of sequences.
    pub fn only_read(&mut self, is_read_only: bool) {
        self.is_read_only = is_read_only;
    }

    /// # Errors
    /// `25006`: the transaction is READ ONLY.
    pub(crate) fn check_writes(&self, statement: &str) -> Result<(), SqlError> {
        if self.is_read_only {
            let message = format!("cannot execute {statement} in a read-only transaction");
            return Err(SqlError::new("25006", message));
        }
        Ok(())
    }

    fn writable_sequences(&self, function: &str) -> Result<&dyn Sequences, SqlError> {
        self.check_writes(function)?;
        self.sequences()
    }

    fn sequences(&self) -> Result<&dyn Sequences, SqlError> {
        let none = || SqlError::new("0A000", "sequences are not available in this context");
        self.sequences.as_ref().map(|own| &*own.0).ok_or_else(none)
    }

    pub(crate) fn next_number(&mut self, sequence: TableId) -> Result<Datum, SqlError> {
        let number = self.writable_sequences("nextval()")?.next(sequence)?;
        self.current_numbers.by_sequence.insert(sequence, number);
        self.current_numbers.last = Some(sequence);
        Ok(Datum::Int(number))
    }

    /// The number that this client was given last, of one sequence or of any.
    pub(crate) fn current_number(&self, sequence: Option<TableId>) -> Result<Datum, SqlError> {
        let own = &self.current_numbers;
        let number = sequence.or(own.last).and_then(|sequence| own.by_sequence.get(&sequence));
        let missing = || match sequence {
            Some(_) => SqlError::new("55000", "currval of this sequence is not yet defined in this session"),
            None => SqlError::new("55000", "lastval is not yet defined in this session"),
        };
        number.map(|number| Datum::Int(*number)).ok_or_else(missing)
    }

    /// Where a sequence stands.
    pub(crate) fn sequence_place(&self, sequence: TableId) -> Result<SequencePlace, SqlError> {
        self.sequences()?.place(sequence)
    }

    pub(crate) fn set_number(
        &mut self,
        sequence: TableId,
        number: i64,
        is_called: bool,
    ) -> Result<Datum, SqlError> {
        self.writable_sequences("setval()")?.set(sequence, number, is_called)?;
        if is_called {
            self.current_numbers.by_sequence.insert(sequence, number);
        }
        Ok(Datum::Int(number))
    }

    /// Where the rows go that the function in progress returns.
    pub(crate) fn returned_rows(&mut self) -> Result<Returned<'_>, Failure> {
        let Self { returned, arena, .. } = self;
        let none =
            || SqlError::new("0A000", "set-valued function called in context that cannot accept a set");
        let rows = returned.last_mut().ok_or_else(none)?;
        Ok(Returned { rows, arena })
    }

    /// The function in progress returns rows.
    pub(crate) fn return_rows(&mut self, rows: &Buffer) -> Result<(), Failure> {
        let none =
            || SqlError::new("0A000", "set-valued function called in context that cannot accept a set");
        let own = self.returned.last_mut().ok_or_else(none)?;
        (0..rows.len()).try_for_each(|place| own.push(rows.row(place).iter().copied(), &rows.arena))?;
        Ok(())
    }

    pub(super) fn open(&mut self, cursor: &Cursor, rows: Buffer, types: Vec<Type>) -> Result<(), SqlError> {
        if !self.get(cursor.register).is_null() {
            let message = format!("cursor \"{}\" already in use", cursor.name);
            return Err(SqlError::new("42P03", message));
        }
        self.cursors.push(Some(OpenCursor { rows, types, at: 0 }));
        self.set(cursor.register, Datum::Int(self.cursors.len() as i64 - 1));
        Ok(())
    }

    pub(super) fn cursor(&mut self, cursor: &Cursor) -> Result<&mut Option<OpenCursor>, SqlError> {
        let place = match self.get(cursor.register) {
            Datum::Int(place) => usize::try_from(place).ok(),
            _ => None,
        };
        match place.and_then(|place| self.cursors.get_mut(place)) {
            Some(open) => Ok(open),
            None => {
                let message = format!("cursor variable \"{}\" is null", cursor.name);
                Err(SqlError::new("22004", message).with_hint("Open the cursor first."))
            }
        }
    }

    /// Says when the next statements have taken too long.
    pub fn ends_at(&mut self, deadline: Option<Instant>) {
        self.interrupts.deadline = deadline;
    }

    /// What ends the statement in progress from outside.
    pub fn interrupts(&self) -> &Interrupts {
        &self.interrupts
    }

    /// Asked at intervals by what may take long.
    ///
    /// # Errors
    /// `57014`: the statement in progress is cancelled, or has taken too long; `53200`.
    pub(crate) fn check_cancelled(&self) -> Result<(), SqlError> {
        self.check_memory()?;
        self.interrupts.check()
    }

    /// Where the execution is, to come back to when a part of it fails.
    pub(crate) fn place(&self) -> Place {
        let (base, registers, rows) = (self.base, self.registers.len(), self.rows.len());
        Place {
            base,
            registers,
            rows,
            depth: self.depth,
            slots: self.slots.place(),
            handled: self.handled.len(),
            returned: self.returned.len(),
        }
    }

    /// Leaves everything that was entered since.
    pub(crate) fn come_back_to(&mut self, place: Place) {
        self.base = place.base;
        self.registers.truncate(place.registers);
        self.rows.truncate(place.rows);
        self.depth = place.depth;
        self.slots.come_back_to(place.slots);
        self.handled.truncate(place.handled);
        self.returned.truncate(place.returned);
    }

    /// Begins a piece of a call, with this many registers, all of them NULL.
    pub fn begin_piece(&mut self, registers: usize, timestamp_us: i64, seed: u64) {
        self.reset(timestamp_us, seed);
        self.enter(registers);
    }

    /// The value of a register of the running procedure.
    #[inline]
    pub fn get(&self, register: Register) -> Datum {
        self.registers[self.base + register.0 as usize]
    }

    /// Sets a register of the running procedure.
    #[inline]
    pub fn set(&mut self, register: Register, value: Datum) {
        self.registers[self.base + register.0 as usize] = value;
    }

    /// The registers from one on, and the arena beside them.
    #[inline]
    pub(crate) fn window(&mut self, first: Register, count: usize) -> (&mut [Datum], &mut Arena) {
        let start = self.base + first.0 as usize;
        (&mut self.registers[start..start + count], &mut self.arena)
    }

    /// Gives a called procedure fresh registers; returns what `leave` needs.
    pub(crate) fn enter(&mut self, registers: usize) -> usize {
        let caller = self.base;
        self.base = self.registers.len();
        self.registers.resize(self.base + registers, Datum::Null);
        caller
    }

    pub(crate) fn leave(&mut self, caller: usize) {
        self.registers.truncate(self.base);
        self.base = caller;
    }

    /// A value of a register of the procedure that calls the running one.
    pub(crate) fn set_in(&mut self, caller: usize, register: Register, value: Datum) {
        self.registers[caller + register.0 as usize] = value;
    }

    /// The next 64 random bits of the call: SplitMix64 (Steele et al., 2014).
    pub(crate) fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(RANDOM_STEP);
        mixed(self.random)
    }

    /// What the `place`th use of `next_random` gives in a call that has used it for nothing yet; the first
    /// place is 1.
    pub(crate) fn random_word(&self, place: u64) -> u64 {
        mixed(self.random.wrapping_add(RANDOM_STEP.wrapping_mul(place)))
    }
}

/// The seed of a session's `number`th call: scattered, so that the random words of one call are not those of
/// another one.
pub fn seed_of(number: u64) -> u64 {
    mixed(number.wrapping_mul(RANDOM_STEP))
}

/// From the state before one random word to that before the next.
const RANDOM_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The random word of a state.
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}
