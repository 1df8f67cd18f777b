//! The numbers of sequences.
//!
//! Numbers are taken in ranges. A separate transaction takes a range: it writes the row of the sequence's
//! table, and is durable before the first number is returned. So no number is returned twice, even if the
//! calling transaction aborts or the server crashes.
//! Invariant: the row of a sequence counts every returned number as used. Held by:
//! `crates/reprise/tests/suite/sequences.rs`.
//! After a crash: the numbers that remained in a range are skipped, as in PostgreSQL.

use crate::Error;
use crate::inner::Inner;
use catalog::{Arena, Sequence, SequencePlace, Table, TableId};
use logging::{Commit, LogError};
use procedure::{DataAccess, Effect, Failure, Sequences, SqlError};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use storage::Worker;
use transaction::{CommitPipeline, LoggedBy, Tables, Workspace, check_bounds, exhausted};

/// Numbers of a sequence's first range, and of each range that follows a slow one.
const LEAST: u64 = 32;
/// Most numbers of a range.
const MOST: u64 = 4096;
/// A range that is used up within this time is followed by one of twice its size.
const SOON: Duration = Duration::from_millis(200);

/// The newest range of a sequence.
#[derive(Debug)]
struct Range {
    /// The number that is returned next.
    next: i64,
    /// How many numbers are not returned yet.
    left: u64,
    /// How many numbers the range had at first.
    taken: u64,
    /// When the range was taken.
    since: Instant,
}

/// Writes the rows of sequences.
struct Writer {
    workspace: Workspace,
    pipeline: CommitPipeline,
}

/// The ranges of all sequences, and the writer that takes new ones.
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

/// The sequences of one version of the definitions. The calling session runs a transaction under that
/// version, or changes definitions, so they do not change meanwhile.
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

/// Takes numbers of sequences. The definitions must not change while it lives.
pub(crate) struct Taking<'a> {
    pub(crate) inner: &'a Inner,
    pub(crate) tables: &'a Tables,
}

impl Taking<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.numbers.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn definition(&self, sequence: TableId) -> Result<(&Arc<Table>, &Sequence), SqlError> {
        let missing = || SqlError::new("42P01", "the sequence was dropped");
        let table = self.tables.by_id(sequence).ok_or_else(missing)?.definition();
        let own = table.sequence.as_ref().ok_or_else(missing)?;
        Ok((table, own))
    }

    /// Changes the row of a sequence, and waits until the change is durable. Returns the position before it.
    fn write(
        &self,
        state: &mut State,
        table: &Arc<Table>,
        own: &Sequence,
        change: impl Fn(SequencePlace) -> Result<SequencePlace, SqlError>,
    ) -> Result<SequencePlace, SqlError> {
        // Taken out while it runs, so that a writer that panics inside a transaction is not used again.
        let mut writer = match state.writer.take() {
            Some(writer) => writer,
            None => {
                let refused = |error: Error| {
                    let refused = SqlError::new(error.sqlstate(), error.to_string());
                    match error.hint() {
                        Some(hint) => refused.with_hint(hint),
                        None => refused,
                    }
                };
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
            // Definitions do not change while a number is taken, so garbage can be collected.
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

    /// Tries once to change the row of a sequence. Returns the position before the change, and the commit
    /// that must be durable before it is used.
    fn attempt(
        &mut self,
        table: &Arc<Table>,
        own: &Sequence,
        change: impl Fn(SequencePlace) -> Result<SequencePlace, SqlError>,
    ) -> Result<(SequencePlace, Commit), Failure> {
        self.workspace.begin();
        self.pipeline.begin();
        self.pipeline.witnesses.begin(&[]);
        let before = match self.change(table, own, change) {
            Ok(before) => before,
            Err(failure) => {
                self.workspace.rollback();
                return Err(failure);
            }
        };
        match self.pipeline.commit(&mut self.workspace, LoggedBy::Value) {
            Ok(outcome) => Ok((before, outcome.commit)),
            Err(error) => Err(error.into()),
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

    /// Returns the position of a sequence: of its range, or of its row if there is no range.
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

    /// Moves a sequence to a position.
    pub(crate) fn advance(&self, sequence: TableId, place: SequencePlace) -> Result<(), SqlError> {
        let (table, own) = self.definition(sequence)?;
        let mut state = self.state();
        state.ranges.remove(&sequence);
        self.write(&mut state, table, own, |_| Ok(place)).map(|_| ())
    }

    /// Returns the remaining numbers of all ranges to their sequences, so that no number is skipped.
    pub(crate) fn give_back(&self) -> Result<(), SqlError> {
        self.give_back_of(|_| true)
    }

    /// Returns the remaining numbers of the ranges whose sequences a definition draws from: the definition
    /// continues at the position in the sequence's row. No other session may be active.
    pub(crate) fn give_back_for(&self, effect: &Effect) -> Result<(), Error> {
        let sequences = effect.sequences();
        if !sequences.is_empty() {
            self.give_back_of(|sequence| sequences.contains(&sequence))?;
        }
        Ok(())
    }

    /// Returns the remaining numbers of a sequence's range. No other session may be active.
    pub(crate) fn give_back_one(&self, wanted: TableId) -> Result<(), SqlError> {
        self.give_back_of(|sequence| sequence == wanted)
    }

    fn give_back_of(&self, is_meant: impl Fn(TableId) -> bool) -> Result<(), SqlError> {
        let mut state = self.state();
        let ranges: Vec<(TableId, Range)> =
            state.ranges.extract_if(|sequence, _| is_meant(*sequence)).collect();
        for (sequence, range) in ranges {
            // The range of a dropped sequence is forgotten.
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
