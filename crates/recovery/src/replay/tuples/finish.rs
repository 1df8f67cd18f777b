//! The end of a replay by value: tombstones are removed and indexes are built from the rows, in parallel.

use crate::RecoveryError;
use crate::replay::context::ReplayContext;
use catalog::{Arena, TableId};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use storage::{Held, OutOfMemory, Worker};
use transaction::Tables;

/// Records of deleted rows, with their tables. A record may occur more than once.
pub(in crate::replay) type Tombstones = Vec<(TableId, Held)>;

/// Ranges of a table for each thread that builds its indexes.
const RANGES_PER_THREAD: usize = 8;

fn out_of_memory(error: OutOfMemory) -> RecoveryError {
    RecoveryError::OutOfMemory(error)
}

/// Runs a number of jobs on the threads of replay, each with a worker.
pub(crate) fn run_on(
    context: &ReplayContext<'_>,
    jobs: usize,
    work: impl Fn(usize, &mut Worker) -> Result<(), RecoveryError> + Sync,
) -> Result<(), RecoveryError> {
    let next = AtomicUsize::new(0);
    let workers: Vec<_> = (0..context.threads()).map(|_| context.worker()).collect::<Result<_, _>>()?;
    let run = |mut worker: Worker| {
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            if job >= jobs {
                return Ok(());
            }
            work(job, &mut worker)?;
        }
    };
    std::thread::scope(|scope| {
        let run = &run;
        let running: Vec<_> = workers.into_iter().map(|worker| scope.spawn(move || run(worker))).collect();
        running.into_iter().try_for_each(|thread| thread.join().expect("a replaying thread does not panic"))
    })
}

/// Takes the records of deleted rows out of primary indexes. A record may be in several lists.
pub(in crate::replay) fn sweep(
    tombstones: Vec<Tombstones>,
    context: &ReplayContext<'_>,
) -> Result<(), RecoveryError> {
    let lists: Vec<_> = tombstones.into_iter().map(Mutex::new).collect();
    run_on(context, lists.len(), |list, worker| {
        let mut arena = Arena::default();
        let guard = worker.enter();
        let list = std::mem::take(&mut *lists[list].lock().unwrap_or_else(PoisonError::into_inner));
        for (table, held) in list {
            let record = held.record(&guard);
            // Another thread holds the lock: it found the record in another list, and does the same.
            if let Some(state) = record.try_lock() {
                // A later definition may have dropped the table.
                let store = context.tables.by_id(table).filter(|_| state.is_absent() && !state.is_dead());
                match store {
                    Some(store) => {
                        record.unlock_dead();
                        arena.clear();
                        store.unlink_from(0..1, record, &mut arena, &mut |_| false);
                    }
                    None => record.unlock(state),
                }
            }
            held.release(&guard);
        }
        Ok(())
    })
}

/// Builds the secondary indexes of all tables from their rows.
pub(in crate::replay) fn build_indexes(context: &mut ReplayContext<'_>) -> Result<(), RecoveryError> {
    context.tables.epochs.advance_to(context.log.last_order().epoch());
    let mut worker = context.worker()?;
    let indexed = |tables: &Tables| -> Vec<_> {
        tables.iter().filter(|store| store.definition().indexes.len() > 1).cloned().collect()
    };
    let guard = worker.enter();
    for store in indexed(&context.tables) {
        context.tables.set(store.with_empty_indexes(1, &guard).map_err(out_of_memory)?);
    }
    let mut ranges = Vec::new();
    for store in indexed(&context.tables) {
        let mut lower = Vec::new();
        for cut in store.split_keys(context.threads() * RANGES_PER_THREAD, &guard) {
            ranges.push((store.clone(), std::mem::replace(&mut lower, cut.clone()), Some(cut)));
        }
        ranges.push((store, lower, None));
    }
    drop(guard);
    run_on(context, ranges.len(), |range, worker| {
        let (store, lower, upper) = &ranges[range];
        let indexes = store.definition().indexes.len();
        store.fill(1..indexes, (lower, upper.as_deref()), &worker.enter()).map_err(out_of_memory)
    })
}
