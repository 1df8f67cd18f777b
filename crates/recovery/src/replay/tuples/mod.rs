//! What the methods share that replay logs by value, tuple by tuple: they write rows and run no procedure.
//!
//! The log is cut at definitions, which run alone. Deleted rows stay as tombstones until replay ends, as an
//! earlier write may come after; secondary indexes are built from the rows at the end.

mod finish;
mod latched;
mod shuffle;
mod writer;

pub(super) use finish::{Tombstones, build_indexes, run_on, sweep};
pub use latched::Latches;
pub(super) use latched::{newest_first, rewrite, state_at};
pub(super) use shuffle::{Select, Shuffle, Shuffled};
pub(super) use writer::TupleWriter;

use super::{define, definitions_of, unfit};
use crate::{LogContents, Progress, RecoveryError, Stage};
use catalog::{Arena, CommitOrder, Datum, DecodeError, RowChange, Table, TableId};
use logging::content::{Operation, Record, RecordKind, Side, StatementRecord, Write};
use procedure::Effect;
use sql::Schema;
use std::ops::Range;
use storage::Worker;
use transaction::Tables;

/// A write of one row, as logs by value have it.
#[derive(Clone, Copy, Debug)]
pub(super) enum TupleWrite<'l> {
    /// Of a write-set record.
    Write(Write<'l>),
    /// An operation of a physiological log.
    Operation(Operation<'l>),
}

impl<'l> TupleWrite<'l> {
    pub(super) fn table(&self) -> TableId {
        match self {
            Self::Write(write) => write.table,
            Self::Operation(operation) => operation.table,
        }
    }

    pub(super) fn change(&self) -> RowChange {
        match self {
            Self::Write(write) => write.change,
            Self::Operation(operation) => operation.change(Side::Redo),
        }
    }

    /// Appends the primary key of its row.
    pub(super) fn key(
        &self,
        table: &Table,
        scratch: (&mut Arena, &mut Vec<Datum>),
        key: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        match self {
            Self::Write(write) => write.key(table, scratch, key),
            Self::Operation(operation) => operation.key(table, scratch, key),
        }
    }

    /// Puts the words of the row as it is afterwards into `words`, when the log has them; whether it has.
    pub(super) fn image(&self, table: &Table, words: &mut Vec<u64>) -> Result<bool, DecodeError> {
        let Self::Write(write) = self else { return Ok(false) };
        let Some(image) = write.image(table)? else { return Ok(false) };
        words.clear();
        words.extend(image);
        Ok(true)
    }

    pub(super) fn decode(
        &self,
        table: &Table,
        arena: &mut Arena,
        row: &mut Vec<Datum>,
        changed: &mut Vec<usize>,
    ) -> Result<(), DecodeError> {
        match self {
            Self::Write(write) => write.decode(table, arena, row, changed),
            Self::Operation(operation) => operation.decode(Side::Redo, table, arena, row, changed),
        }
    }
}

/// Replays the parts of a log between definitions, and the definitions between them; returns what there is
/// afterwards.
pub(super) fn each_segment(
    log: &LogContents,
    mut schema: Schema,
    mut tables: Tables,
    progress: &Progress,
    mut replay: impl FnMut(Range<usize>, &Tables) -> Result<(), RecoveryError>,
) -> Result<(Schema, Tables), RecoveryError> {
    progress.begin(Stage::Replay, log.len() as u64);
    let mut worker =
        Worker::new(tables.epochs.clone(), tables.memory.clone()).ok_or(RecoveryError::NoWorker)?;
    let mut first = 0;
    for place in log.statements().chain(std::iter::once(log.len())) {
        if first < place {
            replay(first..place, &tables)?;
        }
        first = place + 1;
        if place == log.len() {
            break;
        }
        let (order, record) = log.record(place);
        let (Record::Definition(statement) | Record::Statement(statement)) = record else {
            unreachable!("the log says that this is a statement");
        };
        for text in definitions_of(&statement)? {
            let one = StatementRecord { text: &text, ..statement };
            schema = run_definition(order, &one, &schema, &mut tables, &mut worker)?;
        }
    }
    Ok((schema, tables))
}

fn run_definition(
    order: CommitOrder,
    record: &StatementRecord<'_>,
    schema: &Schema,
    tables: &mut Tables,
    worker: &mut Worker,
) -> Result<Schema, RecoveryError> {
    tables.epochs.advance_to(order.epoch());
    let (changed, effect) = schema.apply(record.text).map_err(RecoveryError::Definition)?;
    if let Effect::Run(_) = effect {
        return Err(RecoveryError::holds(RecordKind::Statement));
    }
    define(order, record, &effect, tables, worker)?;
    Ok(changed)
}

/// The definition of a write's table.
pub(super) fn table_of(tables: &Tables, table: TableId, order: CommitOrder) -> Result<&Table, RecoveryError> {
    Ok(tables.by_id(table).ok_or_else(|| unfit(order))?.definition())
}
