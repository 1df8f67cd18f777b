//! The services that the engine provides to an execution: sequences, EXECUTE, rows for the client, notices,
//! cancellation, memory.
//!
//! Not here: the state of the execution (`frame`).

use super::constraint_modes::ConstraintModes;
use super::notifications::{Notification, Notifications};
use crate::ir::opaque::Compiler;
use crate::query::Measured;
use crate::values::live::{LiveFunction, LiveRelation, LiveValue, Surroundings};
use crate::{ExpressionCompiler, Interrupts, Notice, SqlError};
use catalog::{Arena, CommitOrder, Datum, SequencePlace, SessionZone, TableId};
use memory::Grant;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

/// The services of an execution. Replay has none of them set: it takes no numbers and has no client.
#[derive(Default, Debug)]
pub struct Services {
    /// The memory that the statement may take.
    pub(super) grant: Grant,
    /// Size of the arena up to which memory has been granted, in bytes.
    pub(super) arena_granted: Cell<usize>,
    /// Receives the rows that a statement returns to its client; `None` discards them.
    pub(crate) output: Option<Output>,
    /// The measures of plan nodes; `None` without EXPLAIN ANALYZE.
    pub(crate) measured: Option<Measured>,
    /// Cancellation and deadline of the statement.
    pub(crate) interrupts: Interrupts,
    /// Messages of RAISE below EXCEPTION.
    pub notices: Vec<Notice>,
    /// The notifications of the statement.
    pub(crate) notifications: Notifications,
    /// Gives numbers of sequences; `None` where sequences are not available.
    pub(super) sequences: Option<Handle<dyn Sequences>>,
    /// The sources of values of the moment: the client's session, then the database. `None` where there is
    /// none.
    pub(super) surroundings: [Option<Handle<dyn Surroundings>>; 2],
    /// The changes of settings that a handler may undo.
    settings: KeptSettings,
    /// Whether the transaction is READ ONLY.
    pub(super) is_read_only: bool,
    /// Compiles the texts of EXECUTE; `None` where EXECUTE is not available.
    pub(crate) compiler: Option<Handle<dyn Compiler>>,
    /// Compiles hot expressions; `None` where all stay interpreted.
    pub(crate) expressions: Option<Handle<dyn ExpressionCompiler>>,
    /// When the transaction checks its constraints.
    pub constraint_modes: ConstraintModes,
    /// The last numbers that the client was given, for `currval` and `lastval`.
    pub current_numbers: CurrentNumbers,
}

/// What the blocks with handlers that run keep of the session's settings.
#[derive(Default, Debug)]
struct KeptSettings {
    /// For each of these blocks, how many settings were kept before it.
    blocks: Vec<usize>,
    /// The time zone that belongs to each settings that the session keeps; `None` is UTC.
    zones: Vec<Option<Arc<SessionZone>>>,
}

/// The last number of each sequence that a client was given.
#[derive(Clone, Default, Debug)]
pub struct CurrentNumbers {
    by_sequence: HashMap<TableId, i64>,
    last: Option<TableId>,
}

/// A service that has no `Debug`.
pub(crate) struct Handle<T: ?Sized>(pub(crate) Arc<T>);

impl<T: ?Sized> std::fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handle")
    }
}

/// Receives the rows that a statement returns to its client.
pub trait RowSink: Send {
    /// Begins an attempt, and discards the rows of earlier attempts.
    fn begin(&mut self);

    /// Adds a row: values, and the arena that they refer to.
    ///
    /// # Errors
    /// A failure that ends the statement.
    fn row(&mut self, values: &[Datum], arena: &Arena) -> Result<(), SqlError>;

    /// Returns whether the rows should go to the client before more are added.
    fn is_full(&self) -> bool {
        false
    }

    /// Sends the rows to the client once everything up to `shown` is durable. Waits for the client without a
    /// limit.
    ///
    /// # Errors
    /// A failure that ends the statement.
    fn relieve(&mut self, shown: CommitOrder) -> Result<(), SqlError> {
        let _ = shown;
        Ok(())
    }

    /// Returns whether rows have been sent, so that the statement cannot be attempted again.
    fn is_sent(&self) -> bool {
        false
    }
}

/// Discards rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nowhere;

impl RowSink for Nowhere {
    fn begin(&mut self) {}

    fn row(&mut self, _: &[Datum], _: &Arena) -> Result<(), SqlError> {
        Ok(())
    }
}

/// Gives numbers of sequences. A number is durably taken before the caller receives it, and stays taken if
/// the transaction rolls back.
pub trait Sequences: Send + Sync {
    /// Returns the next number.
    ///
    /// # Errors
    /// The sequence is exhausted, or the log failed.
    fn next(&self, sequence: TableId) -> Result<i64, SqlError>;

    /// Sets the last number, or the next one when `is_called` is false.
    ///
    /// # Errors
    /// It is out of bounds, or the log failed.
    fn set(&self, sequence: TableId, number: i64, is_called: bool) -> Result<(), SqlError>;

    /// Returns the sequence's number, and whether it was given.
    ///
    /// # Errors
    /// The log failed.
    fn place(&self, sequence: TableId) -> Result<SequencePlace, SqlError>;
}

/// A sink, and a buffer for the next row.
pub(crate) struct Output {
    pub(crate) sink: Box<dyn RowSink>,
    pub(crate) row: Vec<Datum>,
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output").finish_non_exhaustive()
    }
}

impl Services {
    /// Begins a call: no notices, no rows.
    pub(super) fn reset(&mut self) {
        self.notices.clear();
        self.notifications.clear();
        self.settings.blocks.clear();
        if !self.settings.zones.is_empty() {
            // An earlier attempt of the statement may have changed settings.
            self.restore_settings(0);
        }
        if let Some(output) = &mut self.output {
            output.sink.begin();
        }
        if let Some(measured) = &mut self.measured {
            measured.clear();
        }
    }

    /// Refuses a statement that writes.
    ///
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
        self.sequences.as_ref().map(|sequences| &*sequences.0).ok_or_else(none)
    }

    pub(crate) fn next_number(&mut self, sequence: TableId) -> Result<Datum, SqlError> {
        let number = self.writable_sequences("nextval()")?.next(sequence)?;
        self.current_numbers.by_sequence.insert(sequence, number);
        self.current_numbers.last = Some(sequence);
        Ok(Datum::Int(number))
    }

    /// Returns the last number that this client was given, of one sequence or of any.
    pub(crate) fn current_number(&self, sequence: Option<TableId>) -> Result<Datum, SqlError> {
        let numbers = &self.current_numbers;
        let number = sequence.or(numbers.last).and_then(|sequence| numbers.by_sequence.get(&sequence));
        let missing = || match sequence {
            Some(_) => SqlError::new("55000", "currval of this sequence is not yet defined in this session"),
            None => SqlError::new("55000", "lastval is not yet defined in this session"),
        };
        number.map(|number| Datum::Int(*number)).ok_or_else(missing)
    }

    /// Returns the number of a sequence, and whether it was given.
    pub(crate) fn sequence_place(&self, sequence: TableId) -> Result<SequencePlace, SqlError> {
        self.sequences()?.place(sequence)
    }

    /// Takes the notifications of the statement. After a failure, these are only those of transactions that
    /// the statement had committed.
    pub fn take_notifications(&mut self, has_failed: bool) -> Vec<Notification> {
        if has_failed {
            self.notifications.truncate(0);
        }
        self.notifications.take()
    }

    /// Takes over the notices and notifications of a call that another worker has run.
    pub fn take_messages(&mut self, notices: Vec<Notice>, notifications: &[Notification]) {
        self.notices = notices;
        self.notifications.clear();
        for Notification { channel, payload } in notifications {
            let added = self.notifications.notify(channel, payload);
            debug_assert!(added.is_ok(), "the other worker has checked the notification");
        }
    }

    /// `pg_notify`. Its value is PostgreSQL's `void`, an empty text. Without a channel it is an error.
    fn notify(&mut self, arguments: &[LiveValue]) -> Result<LiveValue, SqlError> {
        let text = |index: usize| match arguments.get(index) {
            Some(LiveValue::Text(text)) => text.as_str(),
            _ => "",
        };
        self.notifications.notify(text(0), text(1))?;
        Ok("".into())
    }

    /// Returns the rows of a relation of the moment; none if no source has them.
    pub(crate) fn live_rows(&self, relation: LiveRelation) -> Vec<Vec<LiveValue>> {
        let known = self.surroundings.iter().flatten().find_map(|surroundings| surroundings.0.rows(relation));
        known.unwrap_or_default()
    }

    /// Returns the value of a function of the moment; NULL if no source has it.
    ///
    /// # Errors
    /// The error of the function.
    pub(crate) fn live_value(
        &mut self,
        function: LiveFunction,
        arguments: &[LiveValue],
    ) -> Result<LiveValue, SqlError> {
        let mut sources = self.surroundings.iter().flatten();
        let value = sources
            .find_map(|surroundings| surroundings.0.value(function, arguments))
            .unwrap_or(Ok(LiveValue::Null))?;
        if function == LiveFunction::Notify { self.notify(arguments) } else { Ok(value) }
    }

    /// Begins a block whose handler may undo changes of settings.
    pub(crate) fn begin_block(&mut self) {
        self.settings.blocks.push(self.settings.zones.len());
    }

    /// Ends the innermost block. Its changes of settings stay.
    pub(crate) fn end_block(&mut self) {
        self.settings.blocks.pop();
    }

    /// Ends the innermost block, and undoes its changes of settings. `Some` is the time zone that it began
    /// with, if it has changed settings.
    pub(crate) fn undo_block(&mut self) -> Option<Option<Arc<SessionZone>>> {
        let first = self.settings.blocks.pop()?;
        (first < self.settings.zones.len()).then(|| self.restore_settings(first))
    }

    /// Keeps the settings before their first change in a block.
    pub(crate) fn keep_settings(&mut self, zone: Option<&Arc<SessionZone>>) {
        if self.settings.blocks.last() == Some(&self.settings.zones.len()) {
            self.settings.zones.push(zone.cloned());
            self.surroundings.iter().flatten().for_each(|source| source.0.keep_settings());
        }
    }

    /// Restores settings that were kept. Returns their time zone.
    fn restore_settings(&mut self, place: usize) -> Option<Arc<SessionZone>> {
        self.surroundings.iter().flatten().for_each(|source| source.0.undo_settings(place));
        self.settings.zones.drain(place..).next().flatten()
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
}
