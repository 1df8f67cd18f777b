//! The machine of a session: the frame of the execution in progress, and the services around it.

mod grants;

use crate::execution::frame::Frame;
use crate::execution::services::{Handle, Output, RowSink, Sequences, Services};
use crate::query::Measured;
use crate::{Compiler, ExpressionCompiler, Interrupts, LiveRelation, Register, SqlError, Surroundings};
use catalog::{Arena, Datum, SessionZone, Written};
use memory::CREDIT;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Executes the calls of a session, one after the other.
#[derive(Default, Debug)]
pub struct Machine {
    /// The state of the execution.
    pub frame: Frame,
    /// The services that the engine provides to the execution.
    pub services: Services,
}

impl Machine {
    /// Begins a call, and discards the state of the last one. `seed` and `timestamp_us` determine `random()`
    /// and `now()`.
    pub fn reset(&mut self, timestamp_us: i64, seed: u64) {
        self.frame.reset(timestamp_us, seed);
        self.services.reset();
        self.services.arena_granted.set(CREDIT);
        self.services.grant.begin();
    }

    /// Begins a piece of a call, with this many registers, all of them NULL.
    pub fn begin_piece(&mut self, registers: usize, timestamp_us: i64, seed: u64) {
        self.reset(timestamp_us, seed);
        self.frame.enter(registers);
    }

    /// Returns the time zone of the session; `None` is UTC.
    pub fn zone(&self) -> Option<&Arc<SessionZone>> {
        self.frame.arena.shared_zone()
    }

    /// Sets the time zone of the session; `None` is UTC.
    pub fn set_zone(&mut self, zone: Option<Arc<SessionZone>>) {
        self.frame.arena.set_zone(zone);
    }

    /// Returns the value of a register of the running procedure.
    #[inline]
    pub fn get(&self, register: Register) -> Datum {
        self.frame.get(register)
    }

    /// Sets a register of the running procedure.
    #[inline]
    pub fn set(&mut self, register: Register, value: Datum) {
        self.frame.set(register, value);
    }

    /// Returns consecutive registers, and the arena.
    #[inline]
    pub(crate) fn window(&mut self, first: Register, count: usize) -> (&mut [Datum], &mut Arena) {
        self.frame.window(first, count)
    }

    /// Returns the number and checksum of the rows that the operations of the call have written so far. Rows
    /// that queries have written do not count.
    #[inline]
    pub fn written(&self) -> Written {
        self.frame.written
    }

    /// Returns line and column of the operation that ended the call.
    pub fn failed_at(&self) -> Option<(u32, u32)> {
        self.frame.failed_at
    }

    /// Sets the sink of the rows that statements return to their client. `None` discards the rows.
    pub fn send_rows_to(&mut self, sink: Option<Box<dyn RowSink>>) {
        self.services.output = sink.map(|sink| Output { sink, row: Vec::new() });
    }

    /// Returns whether rows of the statement have been sent to the client.
    pub fn has_sent_rows(&self) -> bool {
        self.services.output.as_ref().is_some_and(|output| output.sink.is_sent())
    }

    /// Takes the sink back.
    pub fn take_sink(&mut self) -> Option<Box<dyn RowSink>> {
        self.services.output.take().map(|output| output.sink)
    }

    /// Sets the flag that cancels the statement in progress when it is raised.
    pub fn cancelled_by(&mut self, flag: Arc<AtomicBool>) {
        self.services.interrupts.cancelled = Some(flag);
    }

    /// Sets the deadline of the next statements.
    pub fn ends_at(&mut self, deadline: Option<Instant>) {
        self.services.interrupts.deadline = deadline;
    }

    /// Sets the cancellation and the deadline of the next statement.
    pub fn interrupted_by(&mut self, interrupts: Interrupts) {
        self.services.interrupts = interrupts;
    }

    /// Returns the cancellation and the deadline of the statement in progress.
    pub fn interrupts(&self) -> &Interrupts {
        &self.services.interrupts
    }

    /// Sets whether plan nodes are measured from now on; returns the measures so far.
    pub fn measure(&mut self, measures: bool) -> Measured {
        std::mem::replace(&mut self.services.measured, measures.then(Measured::new)).unwrap_or_default()
    }

    /// Sets the source of the numbers of sequences.
    pub fn count_by(&mut self, sequences: Arc<dyn Sequences>) {
        self.services.sequences = Some(Handle(sequences));
    }

    /// Returns the values of all rows of a relation of the moment, one row after the other.
    pub(crate) fn live_rows(&mut self, relation: LiveRelation) -> Vec<Datum> {
        let rows = self.services.live_rows(relation);
        rows.iter().flatten().map(|value| value.datum(&mut self.frame.arena)).collect()
    }

    /// Sets the source of the values of the moment that belong to the database.
    pub fn database_is(&mut self, database: Arc<dyn Surroundings>) {
        self.services.surroundings[1] = Some(Handle(database));
    }

    /// Sets the source of the values of the moment that belong to the client's session.
    pub fn client_is(&mut self, client: Option<Arc<dyn Surroundings>>) {
        self.services.surroundings[0] = client.map(Handle);
    }

    /// Sets the compiler of the texts of EXECUTE.
    pub fn compile_by(&mut self, compiler: Option<Arc<dyn Compiler>>) {
        self.services.compiler = compiler.map(Handle);
    }

    /// Sets the compiler of hot expressions.
    pub fn compile_expressions_by(&mut self, compiler: Arc<dyn ExpressionCompiler>) {
        self.services.expressions = Some(Handle(compiler));
    }

    /// Sets whether the next statements belong to READ ONLY transactions, which take no numbers of sequences.
    pub fn only_read(&mut self, is_read_only: bool) {
        self.services.is_read_only = is_read_only;
    }

    /// Checks cancellation and memory. Called at intervals by statements that may run for seconds.
    ///
    /// # Errors
    /// `57014`: the statement was cancelled, or its deadline has passed; `53200`: there is no memory.
    pub(crate) fn check_cancelled(&self) -> Result<(), SqlError> {
        self.check_memory()?;
        self.services.interrupts.check()
    }
}
