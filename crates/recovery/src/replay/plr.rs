//! `plr`: a physical log replayed into slots by all threads at once, newest transaction first, under latches;
//! all indexes are built at the end.
//! Paper: PACMAN §6.2 (PLR).

use super::tuples::{Latches, each_segment, newest_first, rewrite, run_on, state_at};
use super::{unfit, unknown_record, writes_diverged};
use crate::{LogContents, Progress, RecoveryError};
use catalog::{CommitOrder, TableId};
use checkpoint::{PartRow, Rows};
use logging::content::{Record as Logged, SlotWrite};
use sql::Schema;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use storage::{Added, Guard, Linker, NewState, OutOfMemory, RecordState, SlotArray, TableStore, Worker};
use transaction::Tables;

/// The records of all tables by slot.
#[derive(Default)]
pub(crate) struct SlotArrays(RwLock<HashMap<TableId, Arc<SlotArray>>>);

impl SlotArrays {
    fn of(&self, table: TableId, guard: &Guard) -> Arc<SlotArray> {
        let arrays = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(array) = arrays.get(&table) {
            return Arc::clone(array);
        }
        drop(arrays);
        let mut arrays = self.0.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(arrays.entry(table).or_insert_with(|| Arc::new(SlotArray::new(guard))))
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
        guard: &Guard,
    ) -> Result<bool, OutOfMemory> {
        let array = array.get_or_insert_with(|| self.of(store.definition().id, guard));
        // A checkpoint without slots is of another content.
        let Some(slot) = row.slot else { return Ok(false) };
        let state = NewState::committed(RecordState::present(order));
        let Added::Exists(other) = array.add(slot, row.words, state, guard)? else { return Ok(true) };
        // A fuzzy checkpoint may hold a row and one that came into its slot later.
        row.order.inspect(|order| {
            rewrite(other, *order, Some(row.words), Latches::On);
        });
        Ok(row.order.is_some())
    }
}

/// Replays everything over what the checkpoint held; returns the definitions and tables as they are
/// afterwards.
pub(crate) fn replay(
    log: &LogContents,
    (schema, tables, arrays): (Schema, Tables, &SlotArrays),
    (threads, latches): (usize, Latches),
    progress: &Progress,
) -> Result<(Schema, Tables), RecoveryError> {
    let (schema, tables) = each_segment(log, schema, tables, progress, |range, tables| {
        newest_first(log, range, tables, threads, progress, |order, record, guard| {
            let Logged::Slots(writes) = record else {
                return Err(unknown_record(order));
            };
            let mut image = Vec::new();
            writes
                .writes()
                .try_for_each(|write| write_slot(order, &write, (tables, arrays), latches, &mut image, guard))
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
    guard: &Guard,
) -> Result<(), RecoveryError> {
    let store = tables.by_id(write.table).ok_or_else(|| unfit(order))?;
    let array = arrays.of(write.table, guard);
    let words = write.image(store.definition()).map_err(|_| unfit(order))?;
    let gone = words.is_none();
    image.clear();
    match words {
        Some(words) => image.extend(words),
        None => image.resize(store.definition().layout.fixed_words(), 0),
    }
    let record = match array.get(write.slot, guard) {
        Some(record) => record,
        None => {
            let failed = |error: OutOfMemory| writes_diverged(order, &error);
            let state = NewState::committed(state_at(order, gone));
            match array.add(write.slot, image, state, guard).map_err(failed)? {
                Added::New(_) => return Ok(()),
                Added::Exists(other) => other,
            }
        }
    };
    rewrite(record, order, (!gone).then_some(image), latches);
    Ok(())
}

/// Builds all indexes from the slots, and finds out which slots are free.
fn index(mut tables: Tables, arrays: &SlotArrays, threads: usize) -> Result<Tables, RecoveryError> {
    let stores: Vec<_> = tables.iter().cloned().collect();
    let mut worker =
        Worker::new(tables.epochs.clone(), tables.memory.clone()).ok_or(RecoveryError::NoWorker)?;
    let guard = worker.enter();
    let mut pages = Vec::new();
    for store in stores {
        let empty = store.with_empty_indexes(0, &guard).map_err(RecoveryError::OutOfMemory)?;
        let array = arrays.of(store.definition().id, &guard);
        tables.set(empty);
        let store = Arc::clone(tables.by_id(store.definition().id).expect("it was just set"));
        pages.extend(array.pages().map(|page| (Arc::clone(&store), Arc::clone(&array), page)));
    }
    drop(guard);
    // Of each table the slots that are free, and the one above those in use.
    let vacant: Mutex<HashMap<TableId, (u32, Vec<u32>)>> = Mutex::default();
    run_on(threads, &tables, pages.len(), |page, worker| {
        let (store, array, page) = &pages[page];
        let (table, indexes) = (store.definition().id, store.definition().indexes.len());
        let (mut linker, mut free, mut next) = (Linker::default(), Vec::new(), 0);
        let result = array.drain(*page, &worker.enter(), |slot, record| {
            let Some(record) = record.filter(|record| !record.locked_state().is_absent()) else {
                free.push(slot);
                return Ok(());
            };
            next = slot + 1;
            match linker.link(store, 0..indexes, record).map_err(RecoveryError::OutOfMemory)? {
                None => Ok(()),
                Some(_) => Err(RecoveryError::SlotsDisagree { table: store.definition().name.clone() }),
            }
        });
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
