//! The writes of a log by value, found again by granule.
//!
//! 1. `sampled_keys` reads few records, and cuts the tables where their writes are many.
//! 2. `LogWrites::sort` reads all records, on all threads, and puts the place of each write into the list of
//!    its granule, in commit order.

use super::bounds::Bounds;
use crate::LogContents;
use crate::RecoveryError;
use crate::replay::{Fates, ReplayContext, TupleWrite, run_on, table_of, unfit, unknown_record};
use catalog::{Arena, CommitOrder, Datum, RowChange, TableId};
use logging::content::{Record, RecordKind};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use transaction::Tables;

/// Records that are read for the bounds of granules.
const SAMPLES: usize = 1 << 14;
/// Sampled writes between two bounds.
const PER_GRANULE: usize = 8;
/// Records that a thread sorts at a time.
const CHUNK: usize = 2048;
/// Partitions of all granules; a thread lists the writes of one at a time.
const PARTITIONS: usize = 64;

/// The place of a write in the log.
#[derive(Clone, Copy, Debug)]
struct Place {
    record: u32,
    /// The offset of the write in its record.
    offset: u32,
}

/// A write with its granule.
#[derive(Clone, Copy)]
struct Sorted {
    granule: u32,
    place: Place,
    bytes: u32,
}

/// The writes of consecutive granules.
#[derive(Default, Debug)]
struct Partition {
    /// Where the writes of each granule begin, and at last where they all end.
    starts: Vec<u32>,
    places: Vec<Place>,
}

/// The writes of a log, by granule.
#[derive(Debug)]
pub(super) struct LogWrites {
    log: Arc<LogContents>,
    partitions: Vec<Partition>,
    /// Number of granules of a partition.
    width: usize,
    /// The first granule of each table among the granules of all tables.
    first: HashMap<TableId, usize>,
    /// The bytes of the writes of each granule.
    pub(super) bytes: Vec<u64>,
}

/// Passes the writes of a record to `each`, with their offsets.
fn writes_of<'l>(
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

/// Returns the tables that some records have written.
///
/// # Errors
/// A record is no write and no definition.
pub(super) fn written_in(
    log: &LogContents,
    records: Range<usize>,
) -> Result<BTreeSet<TableId>, RecoveryError> {
    let mut written = BTreeSet::new();
    for record in records {
        writes_of(log, record, |_, _, write| {
            written.insert(write.table());
            Ok(())
        })?;
    }
    Ok(written)
}

/// Returns keys that divide the writes to each table into parts of about the same size.
///
/// # Errors
/// A write does not fit its table.
pub(super) fn sampled_keys(
    log: &LogContents,
    tables: &Tables,
) -> Result<HashMap<TableId, Vec<Vec<u8>>>, RecoveryError> {
    let mut sampled: HashMap<TableId, Vec<Vec<u8>>> = HashMap::new();
    let (mut arena, mut row) = (Arena::default(), Vec::new());
    for record in (0..log.len()).step_by(log.len().div_ceil(SAMPLES).max(1)) {
        writes_of(log, record, |order, _, write| {
            let mut key = Vec::new();
            arena.clear();
            let table = table_of(tables, write.table(), order)?;
            write.key(table, &mut arena, &mut row, &mut key).map_err(|_| unfit(order))?;
            sampled.entry(write.table()).or_default().push(key);
            Ok(())
        })?;
    }
    for keys in sampled.values_mut() {
        keys.sort_unstable();
        *keys = std::mem::take(keys).into_iter().skip(PER_GRANULE - 1).step_by(PER_GRANULE).collect();
    }
    Ok(sampled)
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
        let (mut first, mut granules) = (HashMap::new(), 0);
        for (table, own) in bounds {
            first.insert(*table, granules);
            granules += own.count();
        }
        let width = granules.div_ceil(PARTITIONS).max(1);
        let sorting = Sorting { log, bounds, first: &first, width, needs_whole_rows, fates, context };
        let chunks: Vec<Mutex<Vec<Vec<Sorted>>>> =
            (0..log.len().div_ceil(CHUNK)).map(|_| Mutex::default()).collect();
        run_on(context, chunks.len(), |chunk, _| {
            let records = chunk * CHUNK..((chunk + 1) * CHUNK).min(log.len());
            *chunks[chunk].lock().unwrap_or_else(PoisonError::into_inner) = sorting.chunk(records)?;
            Ok(())
        })?;
        let partitions: Vec<Mutex<(Partition, Vec<u64>)>> =
            (0..granules.div_ceil(width)).map(|_| Mutex::default()).collect();
        run_on(context, partitions.len(), |partition, _| {
            let own = partition * width..((partition + 1) * width).min(granules);
            let mut listed = list(own, &chunks, partition);
            if needs_whole_rows {
                listed.0.sort_by_order(log);
            }
            *partitions[partition].lock().unwrap_or_else(PoisonError::into_inner) = listed;
            Ok(())
        })?;
        let (mut lists, mut bytes) = (Vec::new(), Vec::new());
        for partition in partitions {
            let (list, of_list) = partition.into_inner().unwrap_or_else(PoisonError::into_inner);
            lists.push(list);
            bytes.extend(of_list);
        }
        Ok(Self { log: Arc::clone(log), partitions: lists, width, first, bytes })
    }

    /// Returns the number of a granule of a table among the granules of all tables.
    pub(super) fn number_of(&self, table: TableId, granule: usize) -> usize {
        self.first[&table] + granule
    }

    /// Returns the writes of a granule, newest first.
    pub(super) fn newest_first(&self, granule: usize) -> impl Iterator<Item = (CommitOrder, TupleWrite<'_>)> {
        let Partition { starts, places } = &self.partitions[granule / self.width];
        let own = granule % self.width;
        let places = &places[starts[own] as usize..starts[own + 1] as usize];
        places.iter().rev().map(|place| {
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
    first: &'s HashMap<TableId, usize>,
    width: usize,
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
                let granule = self.first[&write.table()] + self.bounds[&write.table()].granule_of(&key);
                let place = Place { record: record as u32, offset: offset as u32 };
                let bytes = write.bytes() as u32;
                partitions[granule / self.width].push(Sorted { granule: granule as u32, place, bytes });
                Ok(())
            })?;
        }
        progress.counter().fetch_add(records.len() as u64, Ordering::Relaxed);
        Ok(partitions)
    }
}

/// Lists the writes of the granules of a partition, and counts their bytes.
fn list(
    granules: Range<usize>,
    chunks: &[Mutex<Vec<Vec<Sorted>>>],
    partition: usize,
) -> (Partition, Vec<u64>) {
    let sorted: Vec<Vec<Sorted>> = chunks
        .iter()
        .map(|chunk| {
            let mut chunk = chunk.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut chunk[partition])
        })
        .collect();
    let own = |write: &Sorted| write.granule as usize - granules.start;
    let (mut starts, mut bytes) = (vec![0u32; granules.len() + 1], vec![0u64; granules.len()]);
    for write in sorted.iter().flatten() {
        starts[own(write) + 1] += 1;
        bytes[own(write)] += u64::from(write.bytes);
    }
    for granule in 1..starts.len() {
        starts[granule] += starts[granule - 1];
    }
    let mut next = starts.clone();
    let mut places = vec![Place { record: 0, offset: 0 }; starts.last().copied().unwrap_or(0) as usize];
    for write in sorted.iter().flatten() {
        let at = &mut next[own(write)];
        places[*at as usize] = write.place;
        *at += 1;
    }
    (Partition { starts, places }, bytes)
}

impl Partition {
    /// Puts the writes of each granule in the order of their transactions.
    fn sort_by_order(&mut self, log: &LogContents) {
        let Self { starts, places } = self;
        for ends in starts.windows(2) {
            places[ends[0] as usize..ends[1] as usize].sort_by_key(|place| log.order(place.record as usize));
        }
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
        )
    })
}
