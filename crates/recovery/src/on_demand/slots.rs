//! The rows that a physical log leaves, found again by granule.
//!
//! The last write to a slot decides what the slot has: a row, which lies in the granule of its key, or none.
//! A row of the checkpoint counts if no record of the log has written its slot.
//!
//! 1. `sampled_keys` reads few records, and cuts the tables where their rows are many.
//! 2. `LogSlots::sort` notes the last write to each slot, on all threads, and puts the places of those that
//!    have rows into the lists of their granules.

use super::bounds::{Bounds, sampled};
use super::places::{GranuleNumbers, PARTITIONS, Place, Places, SortedParts};
use crate::replay::{ReplayContext, run_on, table_of, unfit, unknown_record};
use crate::{LogContents, RecoveryError};
use catalog::{Arena, CommitOrder, TableId};
use logging::content::{Record, SlotWrite};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use storage::{SlotCells, Slots};
use transaction::Tables;

/// Records that a thread reads at a time.
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

/// The place of the last write to each slot of a table.
#[derive(Default)]
struct LastWrites(SlotCells);

impl LastWrites {
    fn note(&self, slot: u32, place: Place) {
        // 0 stands for none.
        let packed = (u64::from(place.record) + 1) << 32 | u64::from(place.offset);
        self.0.cell(slot).fetch_max(packed, Ordering::Relaxed);
    }

    /// Returns the slots of a page that are written, with the places of the last writes.
    fn of_page(&self, page: usize) -> impl Iterator<Item = (u32, Place)> {
        self.0.of_page(page).filter_map(|(slot, cell)| {
            let packed = cell.load(Ordering::Relaxed);
            let place = Place { record: (packed >> 32).checked_sub(1)? as u32, offset: packed as u32 };
            Some((slot, place))
        })
    }

    /// Returns the number above all slots that are written.
    fn end(&self) -> u32 {
        let last = self.0.pages().last().and_then(|page| self.of_page(page).last());
        last.map_or(0, |(slot, _)| slot + 1)
    }
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
    let (mut arena, mut key) = (Arena::default(), Vec::new());
    sampled(log, |record, add| {
        slots_of(log, record, |order, _, write| {
            arena.clear();
            key.clear();
            let table = table_of(tables, write.table, order)?;
            if write.key(table, &mut arena, &mut key).map_err(|_| unfit(order))? {
                add(write.table, &key);
            }
            Ok(())
        })
    })
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
        // Most tables of a large schema are not written.
        let tables = bounds.keys().map(|table| (*table, OnceLock::new()));
        let tables: HashMap<TableId, OnceLock<LastWrites>> = tables.collect();
        run_on(context, log.len().div_ceil(CHUNK), |chunk, _| {
            let records = chunk * CHUNK..((chunk + 1) * CHUNK).min(log.len());
            context.progress.counter().fetch_add(records.len() as u64, Ordering::Relaxed);
            for record in records {
                slots_of(log, record, |order, offset, SlotWrite { table, slot, .. }| {
                    let place = Place { record: record as u32, offset: offset as u32 };
                    let last = tables.get(&table).ok_or_else(|| unfit(order))?;
                    last.get_or_init(LastWrites::default).note(slot, place);
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        let tables = tables.into_iter().filter_map(|(table, last)| Some((table, last.into_inner()?)));
        let tables: HashMap<TableId, LastWrites> = tables.collect();
        let written = tables.iter().map(|(table, last)| (*table, SlotSet::below(last.end()))).collect();
        let pages = tables.iter().flat_map(|(table, last)| last.0.pages().map(move |page| (*table, page)));
        let pages: Vec<(TableId, usize)> = pages.collect();
        let numbers = GranuleNumbers::of(bounds);
        let parts: SortedParts = (0..pages.len()).map(|_| Mutex::default()).collect();
        let own = Self { log: Arc::clone(log), places: Places::default(), written };
        run_on(context, pages.len(), |index, _| {
            let (table, page) = pages[index];
            let mut partitions = vec![Vec::new(); PARTITIONS];
            let (mut arena, mut key) = (Arena::default(), Vec::new());
            for (slot, place) in tables[&table].of_page(page) {
                own.written[&table].insert(slot);
                let (order, write) = write_at(log, place);
                arena.clear();
                key.clear();
                let definition = table_of(&context.tables, table, order)?;
                if write.key(definition, &mut arena, &mut key).map_err(|_| unfit(order))? {
                    let granule = bounds[&table].granule_of(&key);
                    numbers.sort(table, granule, place, write.bytes(), &mut partitions);
                }
            }
            *parts[index].lock().unwrap_or_else(PoisonError::into_inner) = partitions;
            Ok(())
        })?;
        let places = Places::list(numbers, &parts, None, context)?;
        Ok(Self { places, ..own })
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

/// Returns the write at a place, with its order.
fn write_at(log: &LogContents, place: Place) -> (CommitOrder, SlotWrite<'_>) {
    let (order, record) = log.record(place.record as usize);
    let Record::Slots(writes) = record else { unreachable!("the places are those of writes") };
    (order, writes.write_at(place.offset as usize).expect("it was read once when it was sorted"))
}
