//! The rows that a physical log leaves, found again by granule.
//!
//! The last write to a slot decides what the slot has: a row, which lies in the granule of its key, or none.
//! A row of the checkpoint counts if no record of the log has written its slot.
//!
//! 1. `sampled_keys` reads few records, and cuts the tables where their rows are many.
//! 2. `LogSlots::sort` finds the last write to each slot, on all threads, each of a share of the slots. It
//!    puts the places of those that have rows into the lists of their granules.

use super::bounds::{Bounds, SAMPLES, cut};
use super::places::{GranuleNumbers, PARTITIONS, Place, Places, SortedParts};
use crate::replay::{ReplayContext, run_on, table_of, unfit, unknown_record};
use crate::{LogContents, RecoveryError};
use catalog::{Arena, CommitOrder, TableId};
use logging::content::{Record, SlotWrite};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use storage::Slots;
use transaction::Tables;

/// Records that a thread divides at a time.
const CHUNK: usize = 2048;

/// A set of slots of a table.
#[derive(Debug)]
pub(super) struct SlotSet(Vec<AtomicU64>);

impl SlotSet {
    /// An empty set of slots below `end`.
    pub(super) fn below(end: u32) -> Self {
        Self((0..end.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    pub(super) fn insert(&self, slot: u32) {
        self.0[slot as usize / 64].fetch_or(1 << (slot % 64), Ordering::Relaxed);
    }

    fn contains(&self, slot: u32) -> bool {
        self.0
            .get(slot as usize / 64)
            .is_some_and(|bits| bits.load(Ordering::Relaxed) >> (slot % 64) & 1 == 1)
    }
}

/// The slots of a table whose rows are loaded.
#[derive(Debug)]
pub(super) struct UsedSlots {
    /// Above all slots of the checkpoint and of the log.
    end: u32,
    used: SlotSet,
}

impl UsedSlots {
    /// Begins with none. Records that are made from now on have slots from `end` on.
    pub(super) fn begin(end: u32, slots: &Slots) -> Self {
        slots.resume(end, Vec::new());
        Self { end, used: SlotSet::below(end) }
    }

    pub(super) fn note(&self, slot: u32) {
        self.used.insert(slot);
    }

    /// Gives back the slots that no row has had. A row that was deleted meanwhile has given back its own.
    pub(super) fn end(&self, slots: &Slots) {
        slots.add_free((0..self.end).filter(|slot| !self.used.contains(*slot)));
    }
}

/// A write with its slot.
#[derive(Clone, Copy)]
struct SlotPlace {
    table: TableId,
    slot: u32,
    place: Place,
}

/// What a physical log leaves in the slots that it writes, by granule.
#[derive(Debug)]
pub(super) struct LogSlots {
    log: Arc<LogContents>,
    pub(super) places: Places,
    written: HashMap<TableId, SlotSet>,
}

/// Passes the writes of a record to `each`, with their offsets.
pub(super) fn slots_of<'l>(
    log: &'l LogContents,
    record: usize,
    mut each: impl FnMut(CommitOrder, usize, SlotWrite<'l>) -> Result<(), RecoveryError>,
) -> Result<(), RecoveryError> {
    match log.record(record) {
        (order, Record::Slots(writes)) => writes.placed().try_for_each(|(at, write)| each(order, at, write)),
        (_, Record::Definition(_)) => Ok(()),
        (order, _) => Err(unknown_record(order)),
    }
}

/// Returns keys that divide the written rows of each table into parts of about the same size.
///
/// # Errors
/// A row does not fit its table.
pub(super) fn sampled_keys(
    log: &LogContents,
    tables: &Tables,
) -> Result<HashMap<TableId, Vec<Vec<u8>>>, RecoveryError> {
    let mut sampled: HashMap<TableId, Vec<Vec<u8>>> = HashMap::new();
    let mut arena = Arena::default();
    for record in (0..log.len()).step_by(log.len().div_ceil(SAMPLES).max(1)) {
        slots_of(log, record, |order, _, write| {
            let mut key = Vec::new();
            arena.clear();
            let table = table_of(tables, write.table, order)?;
            if write.key(table, &mut arena, &mut key).map_err(|_| unfit(order))? {
                sampled.entry(write.table).or_default().push(key);
            }
            Ok(())
        })?;
    }
    Ok(cut(sampled))
}

impl LogSlots {
    /// Finds what a log leaves. It is in commit order, and all its definitions are applied.
    ///
    /// # Errors
    /// A row does not fit its table.
    pub(super) fn sort(
        log: &Arc<LogContents>,
        bounds: &HashMap<TableId, Bounds>,
        context: &ReplayContext<'_>,
    ) -> Result<Self, RecoveryError> {
        let chunks: Vec<Mutex<Vec<Vec<SlotPlace>>>> =
            (0..log.len().div_ceil(CHUNK)).map(|_| Mutex::default()).collect();
        run_on(context, chunks.len(), |chunk, _| {
            let records = chunk * CHUNK..((chunk + 1) * CHUNK).min(log.len());
            *chunks[chunk].lock().unwrap_or_else(PoisonError::into_inner) = divide(log, records)?;
            context.progress.counter().fetch_add(CHUNK as u64, Ordering::Relaxed);
            Ok(())
        })?;
        let numbers = GranuleNumbers::of(bounds);
        let parts: SortedParts = (0..PARTITIONS).map(|_| Mutex::default()).collect();
        let written: Mutex<Vec<(TableId, u32)>> = Mutex::default();
        run_on(context, PARTITIONS, |share, _| {
            let mut last: HashMap<(TableId, u32), Place> = HashMap::new();
            for chunk in &chunks {
                let mut chunk = chunk.lock().unwrap_or_else(PoisonError::into_inner);
                for SlotPlace { table, slot, place } in
                    chunk.get_mut(share).map(std::mem::take).into_iter().flatten()
                {
                    last.insert((table, slot), place);
                }
            }
            let mut partitions = vec![Vec::new(); PARTITIONS];
            let (mut arena, mut key) = (Arena::default(), Vec::new());
            for (&(table, _), place) in &last {
                let (order, write) = write_at(log, *place);
                arena.clear();
                key.clear();
                let definition = table_of(&context.tables, table, order)?;
                if write.key(definition, &mut arena, &mut key).map_err(|_| unfit(order))? {
                    let granule = bounds[&table].granule_of(&key);
                    numbers.sort(table, granule, *place, write.bytes(), &mut partitions);
                }
            }
            *parts[share].lock().unwrap_or_else(PoisonError::into_inner) = partitions;
            written.lock().unwrap_or_else(PoisonError::into_inner).extend(last.into_keys());
            Ok(())
        })?;
        let places = Places::list(numbers, &parts, None, context)?;
        let written = sets_of(written.into_inner().unwrap_or_else(PoisonError::into_inner));
        Ok(Self { log: Arc::clone(log), places, written })
    }

    /// Returns the number above all slots of a table that the log writes.
    pub(super) fn end_of(&self, table: TableId) -> u32 {
        self.written.get(&table).map_or(0, |own| own.0.len() as u32 * 64)
    }

    /// Returns whether the log writes a slot.
    pub(super) fn writes(&self, table: TableId, slot: u32) -> bool {
        self.written.get(&table).is_some_and(|own| own.contains(slot))
    }

    /// Returns the rows that the log leaves in a granule of a table.
    pub(super) fn rows(
        &self,
        table: TableId,
        granule: usize,
    ) -> impl Iterator<Item = (CommitOrder, SlotWrite<'_>)> {
        self.places.of(table, granule).iter().map(|place| write_at(&self.log, *place))
    }
}

/// Divides the writes of some records by their slots.
fn divide(log: &LogContents, records: Range<usize>) -> Result<Vec<Vec<SlotPlace>>, RecoveryError> {
    let mut shares = vec![Vec::new(); PARTITIONS];
    for record in records {
        slots_of(log, record, |_, offset, SlotWrite { table, slot, .. }| {
            let place = Place { record: record as u32, offset: offset as u32 };
            shares[slot as usize % PARTITIONS].push(SlotPlace { table, slot, place });
            Ok(())
        })?;
    }
    Ok(shares)
}

/// Returns the write at a place, with its order.
fn write_at(log: &LogContents, place: Place) -> (CommitOrder, SlotWrite<'_>) {
    let (order, record) = log.record(place.record as usize);
    let Record::Slots(writes) = record else { unreachable!("the places are those of writes") };
    (order, writes.write_at(place.offset as usize).expect("it was read once when it was sorted"))
}

/// Returns the slots of each table.
fn sets_of(slots: Vec<(TableId, u32)>) -> HashMap<TableId, SlotSet> {
    let mut ends: HashMap<TableId, u32> = HashMap::new();
    for (table, slot) in &slots {
        let end = ends.entry(*table).or_default();
        *end = (*end).max(slot + 1);
    }
    let sets: HashMap<_, _> = ends.into_iter().map(|(table, end)| (table, SlotSet::below(end))).collect();
    slots.iter().for_each(|(table, slot)| sets[table].insert(*slot));
    sets
}
