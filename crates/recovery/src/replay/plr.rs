//! `plr`: a physical log replayed into slots by all threads at once, newest transaction first, under latches;
//! all indexes are built at the end.
//! Paper: PACMAN §6.2 (PLR).

use super::context::{OnDemand, Replay, ReplayContext, Replayed};
use super::divergence::{unfit, unknown_record, writes_diverged};
use super::tuples::{Latches, each_segment, newest_first, rewrite, run_on, state_at};
use crate::RecoveryError;
use catalog::{CommitOrder, TableId};
use checkpoint::{CheckpointError, Load, PartRow, Rows};
use logging::content::{Record as Logged, SlotWrite};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use storage::{Added, Guard, Linker, NewState, OutOfMemory, RecordState, SlotArray, TableStore};
use transaction::Tables;

/// The method.
#[derive(Default)]
pub(super) struct Plr {
    arrays: SlotArrays,
}

impl Replay for Plr {
    fn load(&mut self, checkpoint: &Load<'_>) -> Result<(), CheckpointError> {
        checkpoint.rows(&self.arrays)
    }

    fn on_demand(&self) -> OnDemand {
        OnDemand::Slots
    }

    fn run_all(&mut self, context: &mut ReplayContext<'_>) -> Result<Replayed, RecoveryError> {
        let arrays = &self.arrays;
        each_segment(context, |range, context| {
            let writer = SlotWriter { tables: &context.tables, arrays, latches: context.config.latches };
            newest_first(range, context, |order, record, scratch: &mut Scratch, guard| {
                let Logged::Slots(writes) = record else {
                    return Err(unknown_record(order));
                };
                writes.writes().try_for_each(|write| writer.write(order, &write, scratch, guard))
            })
        })?;
        let pages = pages_of(context, arrays)?;
        let vacancies = link_rows(context, &pages)?;
        for (table, Vacancy { next, mut free }) in vacancies {
            free.retain(|slot| *slot < next);
            if let Some(slots) = context.tables.store(table).slots() {
                slots.resume(next, free);
            }
        }
        Ok(Replayed::default())
    }
}

/// The records of all tables by slot.
#[derive(Default)]
struct SlotArrays(RwLock<HashMap<TableId, Arc<SlotArray>>>);

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

/// What one thread's writes share.
#[derive(Default)]
struct Scratch {
    /// The array of the last write's table.
    array: Option<(TableId, Arc<SlotArray>)>,
    image: Vec<u64>,
}

/// Writes slots under latches.
struct SlotWriter<'t> {
    tables: &'t Tables,
    arrays: &'t SlotArrays,
    latches: Latches,
}

impl SlotWriter<'_> {
    /// Writes a slot, unless a later transaction has written it.
    fn write(
        &self,
        order: CommitOrder,
        write: &SlotWrite<'_>,
        Scratch { array, image }: &mut Scratch,
        guard: &Guard,
    ) -> Result<(), RecoveryError> {
        let store = self.tables.by_id(write.table).ok_or_else(|| unfit(order))?;
        let array = match array {
            Some((table, array)) if *table == write.table => &*array,
            _ => &array.insert((write.table, self.arrays.of(write.table, guard))).1,
        };
        let words = write.image(store.definition()).map_err(|_| unfit(order))?;
        let is_delete = words.is_none();
        image.clear();
        match words {
            Some(words) => image.extend(words),
            None => image.resize(store.definition().layout.fixed_words(), 0),
        }
        let record = match array.get(write.slot, guard) {
            Some(record) => record,
            None => {
                let failed = |error: OutOfMemory| writes_diverged(order, &error);
                let state = NewState::committed(state_at(order, is_delete));
                match array.add(write.slot, image, state, guard).map_err(failed)? {
                    Added::New(_) => return Ok(()),
                    Added::Exists(other) => other,
                }
            }
        };
        rewrite(record, order, (!is_delete).then_some(image), self.latches);
        Ok(())
    }
}

/// A page of a table's slots.
struct Page {
    store: Arc<TableStore>,
    array: Arc<SlotArray>,
    number: usize,
}

/// The free slots of a table.
#[derive(Default)]
struct Vacancy {
    /// The slot above all slots in use.
    next: u32,
    /// Slots without a row.
    free: Vec<u32>,
}

/// Gives all tables empty indexes; returns the pages of their slots.
fn pages_of(context: &mut ReplayContext<'_>, arrays: &SlotArrays) -> Result<Vec<Page>, RecoveryError> {
    let stores: Vec<_> = context.tables.iter().cloned().collect();
    let mut worker = context.worker()?;
    let guard = worker.enter();
    let mut pages = Vec::new();
    for store in stores {
        let empty = store.with_empty_indexes(0, &guard).map_err(RecoveryError::OutOfMemory)?;
        let array = arrays.of(store.definition().id, &guard);
        context.tables.set(empty);
        let store = context.tables.by_id(store.definition().id).expect("the table was set");
        let page = |number| Page { store: Arc::clone(store), array: Arc::clone(&array), number };
        pages.extend(array.pages().map(page));
    }
    Ok(pages)
}

/// Builds all indexes from the slots; returns the free slots.
fn link_rows(
    context: &ReplayContext<'_>,
    pages: &[Page],
) -> Result<HashMap<TableId, Vacancy>, RecoveryError> {
    let vacancies: Mutex<HashMap<TableId, Vacancy>> = Mutex::default();
    run_on(context, pages.len(), |page, worker| {
        let Page { store, array, number } = &pages[page];
        let (table, indexes) = (store.definition().id, store.definition().indexes.len());
        let (mut linker, mut free, mut next) = (Linker::default(), Vec::new(), 0);
        let result = array.drain(*number, &worker.enter(), |slot, record| {
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
        let mut vacancies = vacancies.lock().unwrap_or_else(PoisonError::into_inner);
        let vacancy = vacancies.entry(table).or_default();
        vacancy.next = next.max(vacancy.next);
        vacancy.free.append(&mut free);
        result
    })?;
    Ok(vacancies.into_inner().unwrap_or_else(PoisonError::into_inner))
}
