//! The writes of a log by value, found again by granule.
//!
//! 1. `sampled_keys` reads few records, and cuts the tables where their writes are many.
//! 2. `LogWrites::sort` reads all records, on all threads, and puts the place of each write into the list of
//!    its granule, in commit order.

use super::bounds::{Bounds, sampled};
use super::places::{GranuleNumbers, PARTITIONS, Place, Places, Sorted, SortedParts};
use crate::replay::{Fates, ReplayContext, TupleWrite, run_on, table_of, unfit, unknown_record};
use crate::{LogContents, RecoveryError};
use catalog::{Arena, CommitOrder, Datum, RowChange, TableId};
use logging::content::{Record, RecordKind};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use transaction::Tables;

/// Records that a thread sorts at a time.
const CHUNK: usize = 2048;

/// The writes of a log, by granule.
#[derive(Debug)]
pub(super) struct LogWrites {
    log: Arc<LogContents>,
    pub(super) places: Places,
}

/// Passes the writes of a record to `each`, with their offsets.
pub(super) fn writes_of<'l>(
    log: &'l LogContents,
    record: usize,
    mut each: impl FnMut(CommitOrder, usize, TupleWrite<'l>) -> Result<(), RecoveryError>,
) -> Result<(), RecoveryError> {
    match log.record(record) {
        (order, Record::Writes(writes)) => {
            writes.writes().try_for_each(|(at, write)| each(order, at, TupleWrite::Write(write)))
        }
        (order, Record::Operation(operation)) => each(order, 0, TupleWrite::Operation(operation)),
        (_, Record::Definition(_) | Record::Outcome(_)) => Ok(()),
        (order, _) => Err(unknown_record(order)),
    }
}

/// Returns keys that divide the writes to each table into parts of about the same size.
///
/// # Errors
/// A write does not fit its table.
pub(super) fn sampled_keys(
    log: &LogContents,
    fates: Option<&Fates<'_>>,
    tables: &Tables,
) -> Result<HashMap<TableId, Vec<Vec<u8>>>, RecoveryError> {
    let (mut arena, mut row, mut key) = (Arena::default(), Vec::new(), Vec::new());
    sampled(log, |record, add| {
        if fates.is_some_and(|fates| fates.is_void(record, log)) {
            return Ok(());
        }
        writes_of(log, record, |order, _, write| {
            arena.clear();
            key.clear();
            let table = table_of(tables, write.table(), order)?;
            write.key(table, &mut arena, &mut row, &mut key).map_err(|_| unfit(order))?;
            add(write.table(), &key);
            Ok(())
        })
    })
}

impl LogWrites {
    /// Sorts the writes of a log. It is in commit order, unless every write must be of a whole row. All
    /// definitions of the log are applied. `fates` are those of operations, where the log has some.
    ///
    /// # Errors
    /// A write does not fit its table; `ColumnsOnly` if every write must be of a whole row, and one is not.
    pub(super) fn sort(
        log: &Arc<LogContents>,
        bounds: &HashMap<TableId, Bounds>,
        needs_whole_rows: bool,
        fates: Option<&Fates<'_>>,
        context: &ReplayContext<'_>,
    ) -> Result<Self, RecoveryError> {
        let numbers = GranuleNumbers::of(bounds);
        let sorting = Sorting { log, bounds, numbers: &numbers, needs_whole_rows, fates, context };
        let parts: SortedParts = (0..log.len().div_ceil(CHUNK)).map(|_| Mutex::default()).collect();
        run_on(context, parts.len(), |part, _| {
            let records = part * CHUNK..((part + 1) * CHUNK).min(log.len());
            *parts[part].lock().unwrap_or_else(PoisonError::into_inner) = sorting.chunk(records)?;
            Ok(())
        })?;
        let places = Places::list(numbers, &parts, needs_whole_rows.then_some(&**log), context)?;
        Ok(Self { log: Arc::clone(log), places })
    }

    /// Returns the writes to a granule of a table, newest first.
    pub(super) fn newest_first(
        &self,
        table: TableId,
        granule: usize,
    ) -> impl Iterator<Item = (CommitOrder, TupleWrite<'_>)> {
        self.places.of(table, granule).iter().rev().map(|place| {
            let (order, record) = self.log.record(place.record as usize);
            let write = match record {
                Record::Operation(operation) => TupleWrite::Operation(operation),
                Record::Writes(writes) => {
                    let write = writes.write_at(place.offset as usize);
                    TupleWrite::Write(write.expect("it was read once when it was sorted"))
                }
                _ => unreachable!("the places are those of writes"),
            };
            (order, write)
        })
    }
}

/// What sorts the writes of a log.
struct Sorting<'s, 'c> {
    log: &'s LogContents,
    bounds: &'s HashMap<TableId, Bounds>,
    numbers: &'s GranuleNumbers,
    needs_whole_rows: bool,
    fates: Option<&'s Fates<'s>>,
    context: &'s ReplayContext<'c>,
}

impl Sorting<'_, '_> {
    /// Sorts the writes of some records into partitions.
    fn chunk(&self, records: Range<usize>) -> Result<Vec<Vec<Sorted>>, RecoveryError> {
        let mut partitions = vec![Vec::new(); PARTITIONS];
        let (mut arena, mut row, mut key): (Arena, Vec<Datum>, Vec<u8>) = Default::default();
        let ReplayContext { tables, progress, .. } = self.context;
        for record in records.clone() {
            if self.fates.is_some_and(|fates| fates.is_void(record, self.log)) {
                continue;
            }
            writes_of(self.log, record, |order, offset, write| {
                let table = table_of(tables, write.table(), order)?;
                if self.needs_whole_rows
                    && write.change() == RowChange::Update
                    && !write.is_whole(table).map_err(|_| unfit(order))?
                {
                    return Err(RecoveryError::ColumnsOnly);
                }
                arena.clear();
                key.clear();
                write.key(table, &mut arena, &mut row, &mut key).map_err(|_| unfit(order))?;
                let granule = self.bounds[&write.table()].granule_of(&key);
                let place = Place { record: record as u32, offset: offset as u32 };
                self.numbers.sort(write.table(), granule, place, write.bytes(), &mut partitions);
                Ok(())
            })?;
        }
        progress.counter().fetch_add(records.len() as u64, Ordering::Relaxed);
        Ok(partitions)
    }
}

/// Returns whether records of these kinds are writes and outcomes alone, or definitions.
pub(super) fn are_writes<'k>(mut kinds: impl Iterator<Item = &'k RecordKind>) -> bool {
    kinds.all(|kind| {
        matches!(
            kind,
            RecordKind::Writes
                | RecordKind::BatchWrites
                | RecordKind::Operation
                | RecordKind::Outcome
                | RecordKind::Definition
                | RecordKind::Definitions
                | RecordKind::Stages
        )
    })
}
