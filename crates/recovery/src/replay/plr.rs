//! `plr`: a physical log replayed into slots by all threads at once, newest transaction first, under latches; all indexes
//! are built at the end.
//! Paper: PACMAN §6.2 (PLR).

use super::tuples::{Latches, each_segment, newest_first, rewrite, run_on, state_at};
use super::{unfit, unknown_record, writes_diverged};
use crate::{LogContents, Progress, RecoveryError};
use catalog::{CommitOrder, TableId};
use checkpoint::{PartRow, Rows};
use logging::content::{Record as Logged, SlotWrite};
use sql::Schema;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use storage::{Linker, OutOfMemory, Record, RecordState, TableStore, Worker};
use transaction::Tables;

/// Slots of a page.
const PAGE: usize = 1 << 16;
/// Pages of a table.
const PAGES: usize = 1 << 16;

/// The records of a table by slot. Pages are made when they are needed.
pub(crate) struct SlotArray(Vec<OnceLock<Box<[AtomicU64]>>>);

/// The records of all tables by slot.
#[derive(Default)]
pub(crate) struct SlotArrays(RwLock<HashMap<TableId, Arc<SlotArray>>>);

impl SlotArray {
    fn new() -> Self {
        Self((0..PAGES).map(|_| OnceLock::new()).collect())
    }

    fn cell(&self, slot: u32) -> &AtomicU64 {
        let page =
            self.0[slot as usize / PAGE].get_or_init(|| (0..PAGE).map(|_| AtomicU64::new(0)).collect());
        &page[slot as usize % PAGE]
    }

    fn get(&self, slot: u32) -> Option<Record> {
        // ORDERING: Acquire pairs with the exchange in `set`: the record is whole.
        let address = self.cell(slot).load(Ordering::Acquire);
        (address != 0).then(|| TableStore::record(address))
    }

    /// Puts a record into an empty slot; the one that is there already, if one is.
    fn set(&self, slot: u32, record: Record) -> Option<Record> {
        let set = self.cell(slot).compare_exchange(0, record.address(), Ordering::AcqRel, Ordering::Acquire);
        set.err().map(TableStore::record)
    }

    /// The records of a page, each with its slot.
    fn page(&self, page: usize) -> impl Iterator<Item = (u32, u64)> {
        let cells = self.0[page].get().into_iter().flat_map(|page| page.iter());
        let first = page * PAGE;
        cells.enumerate().map(move |(at, cell)| ((first + at) as u32, cell.load(Ordering::Acquire)))
    }
}

impl SlotArrays {
    fn of(&self, table: TableId) -> Arc<SlotArray> {
        let arrays = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(array) = arrays.get(&table) {
            return Arc::clone(array);
        }
        drop(arrays);
        let mut arrays = self.0.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(arrays.entry(table).or_insert_with(|| Arc::new(SlotArray::new())))
    }
}

impl Rows for SlotArrays {
    type Scratch = Option<Arc<SlotArray>>;

    fn add(
        &self,
        store: &TableStore,
        row: PartRow<'_>,
        order: CommitOrder,
        array: &mut Option<Arc<SlotArray>>,
        worker: &mut Worker,
    ) -> Result<bool, OutOfMemory> {
        let array = array.get_or_insert_with(|| self.of(store.definition().id));
        // A checkpoint without slots is of another content.
        let Some(slot) = row.slot else { return Ok(false) };
        let record = store.create_in(slot, row.words, worker)?;
        record.unlock(RecordState::present(order));
        let Some(other) = array.set(slot, record) else { return Ok(true) };
        record.retire(worker);
        // A fuzzy checkpoint may hold a row and one that came into its slot later.
        row.order.inspect(|order| {
            rewrite(other, *order, Some(row.words), Latches::On, worker);
        });
        Ok(row.order.is_some())
    }
}

/// Replays everything over what the checkpoint held; returns the definitions and tables as they are afterwards.
pub(crate) fn replay(
    log: &LogContents,
    (schema, tables, arrays): (Schema, Tables, &SlotArrays),
    statements: &mut Vec<String>,
    (threads, latches): (usize, Latches),
    progress: &Progress,
) -> Result<(Schema, Tables), RecoveryError> {
    let (schema, tables) = each_segment(log, schema, tables, statements, progress, |range, tables| {
        newest_first(log, range, tables, threads, progress, |order, record, worker| {
            let Logged::Slots(writes) = record else {
                return Err(unknown_record(order));
            };
            let mut image = Vec::new();
            writes.writes().try_for_each(|write| {
                write_slot(order, &write, (tables, arrays), latches, &mut image, worker)
            })
        })
    })?;
    Ok((schema, index(tables, arrays, threads)?))
}

/// Writes a slot unless a later transaction has.
fn write_slot(
    order: CommitOrder,
    write: &SlotWrite<'_>,
    (tables, arrays): (&Tables, &SlotArrays),
    latches: Latches,
    image: &mut Vec<u64>,
    worker: &mut Worker,
) -> Result<(), RecoveryError> {
    let store = tables.by_id(write.table).ok_or_else(|| unfit(order))?;
    let array = arrays.of(write.table);
    let words = write.image(store.definition()).map_err(|_| unfit(order))?;
    let gone = words.is_none();
    image.clear();
    match words {
        Some(words) => image.extend(words),
        None => image.resize(store.definition().layout.fixed_words(), 0),
    }
    let record = match array.get(write.slot) {
        Some(record) => record,
        None => {
            let failed = |error: OutOfMemory| writes_diverged(order, &error);
            let record = store.create_in(write.slot, image, worker).map_err(failed)?;
            record.unlock(state_at(order, gone));
            match array.set(write.slot, record) {
                None => return Ok(()),
                Some(other) => {
                    record.retire(worker);
                    other
                }
            }
        }
    };
    rewrite(record, order, (!gone).then_some(image), latches, worker);
    Ok(())
}

/// Builds all indexes from the slots, and finds out which slots are free.
fn index(mut tables: Tables, arrays: &SlotArrays, threads: usize) -> Result<Tables, RecoveryError> {
    let stores: Vec<_> = tables.iter().cloned().collect();
    let mut worker =
        Worker::new(tables.epochs.clone(), tables.memory.clone()).ok_or(RecoveryError::NoWorker)?;
    worker.enter();
    let mut pages = Vec::new();
    for store in stores {
        let empty = store.with_empty_indexes(0, &mut worker).map_err(RecoveryError::OutOfMemory)?;
        let array = arrays.of(store.definition().id);
        tables.set(empty);
        let store = Arc::clone(tables.by_id(store.definition().id).expect("it was just set"));
        let used = (0..PAGES).filter(|page| array.0[*page].get().is_some());
        pages.extend(used.map(|page| (Arc::clone(&store), Arc::clone(&array), page)));
    }
    worker.exit();
    // Of each table the slots that are free, and the one above those in use.
    let vacant: Mutex<HashMap<TableId, (u32, Vec<u32>)>> = Mutex::default();
    run_on(threads, &tables, pages.len(), |page, worker| {
        let (store, array, page) = &pages[page];
        let (table, indexes) = (store.definition().id, store.definition().indexes.len());
        let (mut linker, mut free, mut next) = (Linker::default(), Vec::new(), 0);
        worker.enter();
        let mut result = Ok(());
        for (slot, address) in array.page(*page) {
            let record = TableStore::record(address);
            if address == 0 || record.locked_state().is_absent() {
                free.push(slot);
                if address != 0 {
                    record.retire(worker);
                }
                continue;
            }
            next = slot + 1;
            match linker.link(store, 0..indexes, record, worker) {
                Ok(None) => {}
                Ok(Some(_)) => {
                    result = Err(RecoveryError::SlotsDisagree { table: store.definition().name.clone() });
                    break;
                }
                Err(error) => {
                    result = Err(RecoveryError::OutOfMemory(error));
                    break;
                }
            }
        }
        worker.exit();
        let mut vacant = vacant.lock().unwrap_or_else(PoisonError::into_inner);
        let (above, all) = vacant.entry(table).or_default();
        *above = next.max(*above);
        all.append(&mut free);
        result
    })?;
    for (table, (next, mut free)) in vacant.into_inner().unwrap_or_else(PoisonError::into_inner) {
        free.retain(|slot| *slot < next);
        if let Some(slots) = tables.store(table).slots() {
            slots.resume(next, free);
        }
    }
    Ok(tables)
}
