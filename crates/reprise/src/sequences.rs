//! Numbers of sequences.
//!
//! Numbers are taken in ranges. That a range is taken is a transaction of its own, which writes the row of
//! the sequence's table and is durable before the first number is given: so no number comes twice, whatever
//! becomes of those who asked and of the server; what is left of a range at a crash is passed over, as in
//! PostgreSQL.
//! Invariant: the row says of every number that was given that it is used up. Held by:
//! `crates/reprise/tests/suite/sequences.rs`.

use crate::Error;
use crate::database::Inner;
use catalog::{Arena, Sequence, SequencePlace, Table, TableId};
use logging::{Commit, LogError};
use procedure::{DataAccess, Effect, Failure, Sequences, SqlError};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use storage::Worker;
use transaction::{CommitError, CommitPipeline, LoggedBy, Tables, Workspace, check_bounds, exhausted};

/// Numbers that are taken at a time: as many at first, and at most.
const LEAST: u64 = 32;
const MOST: u64 = 4096;
/// A range that is used up within this time is followed by a greater one.
const SOON: Duration = Duration::from_millis(200);

/// What is left of the range that was taken last.
#[derive(Debug)]
struct Range {
    next: i64,
    left: u64,
    taken: u64,
    since: Instant,
}

/// Writes the rows of sequences.
struct Writer {
    workspace: Workspace,
    pipeline: CommitPipeline,
}

/// The ranges of all sequences, and who takes new ones.
#[derive(Default)]
pub(crate) struct Numbers {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ranges: HashMap<TableId, Range>,
    writer: Option<Writer>,
}

impl std::fmt::Debug for Numbers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Numbers").finish_non_exhaustive()
    }
}

/// The sequences as one version of the definitions has them. Whoever asks is in a transaction under it, or
/// changes definitions.
pub(crate) struct Source {
    inner: Arc<Inner>,
    tables: Tables,
}

impl Source {
    pub(crate) fn new(inner: Arc<Inner>, tables: Tables) -> Self {
        Self { inner, tables }
    }

    fn taking(&self) -> Taking<'_> {
        Taking { inner: &self.inner, tables: &self.tables }
    }
}

impl Sequences for Source {
    fn next(&self, sequence: TableId) -> Result<i64, SqlError> {
        self.taking().next(sequence)
    }

    fn set(&self, sequence: TableId, number: i64, is_called: bool) -> Result<(), SqlError> {
        self.taking().set(sequence, number, is_called)
    }

    fn place(&self, sequence: TableId) -> Result<SequencePlace, SqlError> {
        self.taking().place(sequence)
    }
}

/// Takes numbers, while the definitions don't change.
pub(crate) struct Taking<'a> {
    pub(crate) inner: &'a Inner,
    pub(crate) tables: &'a Tables,
}

impl Taking<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.numbers.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn definition(&self, sequence: TableId) -> Result<(&Arc<Table>, &Sequence), SqlError> {
        let missing = || SqlError::new("42P01", "the sequence is gone");
        let table = self.tables.by_id(sequence).ok_or_else(missing)?.definition();
        let own = table.sequence.as_ref().ok_or_else(missing)?;
        Ok((table, own))
    }

    /// Changes the row of a sequence, durably; returns what it said before.
    fn write(
        &self,
        state: &mut State,
        table: &Arc<Table>,
        own: &Sequence,
        change: impl Fn(SequencePlace) -> Result<SequencePlace, SqlError>,
    ) -> Result<SequencePlace, SqlError> {
        // One that a panic leaves in the middle of a transaction does not come back.
        let mut writer = match state.writer.take() {
            Some(writer) => writer,
            None => {
                let refused = |error: Error| SqlError::new(error.sqlstate(), error.to_string());
                Writer::new(self.inner, self.tables).map_err(refused)?
            }
        };
        writer.workspace.set_tables(self.tables.clone());
        let before = self.write_by(&mut writer, table, own, change);
        state.writer = Some(writer);
        before
    }

    fn write_by(
        &self,
        writer: &mut Writer,
        table: &Arc<Table>,
        own: &Sequence,
        change: impl Fn(SequencePlace) -> Result<SequencePlace, SqlError>,
    ) -> Result<SequencePlace, SqlError> {
        let failed = |error: LogError| SqlError::new(error.sqlstate(), error.to_string());
        loop {
            let (before, commit) = match writer.attempt(table, own, &change) {
                Ok(done) => done,
                Err(Failure::Error(error)) => return Err(*error),
                Err(_) => continue,
            };
            self.inner.logs.wait(commit).map_err(failed)?;
            // Definitions don't change while a number is taken.
            let durable = self.inner.durable(writer.workspace.worker());
            writer.workspace.collect_garbage(durable, || true);
            return Ok(before);
        }
    }
}

impl Writer {
    fn new(inner: &Inner, tables: &Tables) -> Result<Self, Error> {
        let (epochs, memory) = (tables.epochs.clone(), tables.memory.clone());
        let worker = Worker::new(epochs, memory).ok_or(Error::TooManySessions(inner.config.workers))?;
        inner.logs.add_worker(worker.slot())?;
        let pipeline = CommitPipeline::new(Arc::clone(&inner.logs), &inner.adaptive, tables, worker.slot());
        Ok(Self { workspace: Workspace::new(tables.clone(), worker), pipeline })
    }

    /// Tries once to change a row. Returns what it said before, and what must be durable before that is told.
    fn attempt(
        &mut self,
        table: &Arc<Table>,
        own: &Sequence,
        change: impl Fn(SequencePlace) -> Result<SequencePlace, SqlError>,
    ) -> Result<(SequencePlace, Commit), Failure> {
        self.workspace.begin();
        self.pipeline.begin();
        self.pipeline.witnesses.begin(&[]);
        let ran = self.change(table, own, change);
        let before = match ran {
            Ok(before) => before,
            Err(failure) => {
                self.workspace.rollback();
                return Err(failure);
            }
        };
        match self.pipeline.commit(&mut self.workspace, LoggedBy::Value) {
            Ok(outcome) => Ok((before, outcome.commit)),
            Err(CommitError::Log(error)) => Err(SqlError::new(error.sqlstate(), error.to_string()).into()),
            Err(CommitError::Conflict(conflict)) => Err(conflict.into()),
        }
    }

    fn change(
        &mut self,
        table: &Arc<Table>,
        own: &Sequence,
        change: impl Fn(SequencePlace) -> Result<SequencePlace, SqlError>,
    ) -> Result<SequencePlace, Failure> {
        let mut arena = Arena::default();
        let mut key = Vec::new();
        let fresh = own.beginning().row(&mut arena);
        table.encode_key_column(2, fresh[2], &arena, &mut key);
        let mut row = fresh;
        let found = match self.workspace.find(table, &key)? {
            Some(found) if self.workspace.read(found, table.layout.slots(), &mut arena, &mut row)? => {
                Some(found)
            }
            _ => None,
        };
        let before = SequencePlace::of_row(row).unwrap_or(own.beginning());
        let row = change(before)?.row(&mut arena);
        match found {
            Some(found) => self.workspace.update(table, found, &[(0, row[0]), (1, row[1])], &arena)?,
            None => self.workspace.insert(table, &row, &arena)?,
        }
        Ok(before)
    }
}

impl Taking<'_> {
    fn next(&self, sequence: TableId) -> Result<i64, SqlError> {
        let (table, own) = self.definition(sequence)?;
        let mut state = self.state();
        if state.ranges.get(&sequence).is_none_or(|range| range.left == 0) {
            let wanted = match state.ranges.get(&sequence) {
                Some(range) if range.since.elapsed() < SOON => (range.taken * 2).min(MOST),
                _ => LEAST,
            };
            let before = self.write(&mut state, table, own, |before| {
                let (next, left) = own.numbers_after(before, wanted).ok_or_else(|| exhausted(table, own))?;
                Ok(SequencePlace { number: own.number_after(next, left - 1), is_given: true })
            })?;
            let (next, left) = own.numbers_after(before, wanted).ok_or_else(|| exhausted(table, own))?;
            state.ranges.insert(sequence, Range { next, left, taken: left, since: Instant::now() });
        }
        let range = state.ranges.get_mut(&sequence).expect("taken just above");
        let number = range.next;
        range.left -= 1;
        range.next = own.number_after(number, 1);
        Ok(number)
    }

    fn set(&self, sequence: TableId, number: i64, is_called: bool) -> Result<(), SqlError> {
        let (table, own) = self.definition(sequence)?;
        check_bounds(table, own, number)?;
        let mut state = self.state();
        state.ranges.remove(&sequence);
        self.write(&mut state, table, own, |_| Ok(SequencePlace { number, is_given: is_called }))?;
        Ok(())
    }

    /// Where a sequence stands: before what is left of its range, or where its row says.
    fn place(&self, sequence: TableId) -> Result<SequencePlace, SqlError> {
        let (table, own) = self.definition(sequence)?;
        let mut state = self.state();
        match state.ranges.get(&sequence) {
            Some(range) if range.left < range.taken => {
                Ok(SequencePlace { number: range.next.wrapping_sub(own.increment), is_given: true })
            }
            Some(range) => Ok(SequencePlace { number: range.next, is_given: false }),
            None => self.write(&mut state, table, own, Ok),
        }
    }

    /// Gives back what is left of all ranges, so that nothing is passed over.
    pub(crate) fn give_back(&self) -> Result<(), SqlError> {
        self.give_back_of(|_| true)
    }

    /// Gives back what is left of ranges whose sequences a definition is about to take numbers of: it goes on
    /// where their rows say that they stand. No other session may be active.
    pub(crate) fn give_back_for(&self, effect: &Effect) -> Result<(), Error> {
        let sequences = effect.sequences();
        if !sequences.is_empty() {
            self.give_back_of(|sequence| sequences.contains(&sequence))?;
        }
        Ok(())
    }

    fn give_back_of(&self, is_meant: impl Fn(TableId) -> bool) -> Result<(), SqlError> {
        let mut state = self.state();
        let ranges: Vec<(TableId, Range)> =
            state.ranges.extract_if(|sequence, _| is_meant(*sequence)).collect();
        for (sequence, range) in ranges {
            // One that was dropped has nothing to give back.
            let Ok((table, own)) = self.definition(sequence) else { continue };
            if range.left > 0 {
                self.write(&mut state, table, own, |_| match range.left == range.taken {
                    true => Ok(SequencePlace { number: range.next, is_given: false }),
                    false => {
                        let number = range.next.wrapping_sub(own.increment);
                        Ok(SequencePlace { number, is_given: true })
                    }
                })?;
            }
        }
        Ok(())
    }
}
