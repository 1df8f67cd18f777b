//! The end of a replay by value: tombstones go, indexes are built from the rows, all in parallel.

use crate::RecoveryError;
use catalog::{Arena, CommitOrder, TableId};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use storage::{Held, OutOfMemory, Worker};
use transaction::Tables;

/// Rows that are gone, with their tables. A record may be there more than once.
pub(in crate::replay) type Tombstones = Vec<(TableId, Held)>;

/// Ranges of a table for each thread that builds its indexes.
const RANGES_PER_THREAD: usize = 8;

fn out_of_memory(error: OutOfMemory) -> RecoveryError {
    RecoveryError::OutOfMemory(error)
}

/// Runs a number of jobs on threads, each with a worker.
pub(in crate::replay) fn run_on(
    threads: usize,
    tables: &Tables,
    jobs: usize,
    work: impl Fn(usize, &mut Worker) -> Result<(), RecoveryError> + Sync,
) -> Result<(), RecoveryError> {
    let next = AtomicUsize::new(0);
    let mut workers = Vec::new();
    for _ in 0..threads {
        let worker = Worker::new(tables.epochs.clone(), tables.memory.clone());
        workers.push(worker.ok_or(RecoveryError::NoWorker)?);
    }
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

/// Takes the records out of primary indexes that no row came back to. A record may be in several lists.
pub(in crate::replay) fn sweep(
    tombstones: Vec<Tombstones>,
    threads: usize,
    tables: &Tables,
) -> Result<(), RecoveryError> {
    let lists: Vec<_> = tombstones.into_iter().map(Mutex::new).collect();
    run_on(threads, tables, lists.len(), |list, worker| {
        let mut arena = Arena::default();
        let guard = worker.enter();
        let list = std::mem::take(&mut *lists[list].lock().unwrap_or_else(PoisonError::into_inner));
        for (table, held) in list {
            let record = held.record(&guard);
            // The holder of the lock has it in another list, and does the same.
            if let Some(state) = record.try_lock() {
                // The table may have been dropped since.
                let store = tables.by_id(table).filter(|_| state.is_absent() && !state.is_dead());
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
pub(in crate::replay) fn build_indexes(
    mut tables: Tables,
    threads: usize,
    order: CommitOrder,
) -> Result<Tables, RecoveryError> {
    tables.epochs.advance_to(order.epoch());
    let mut worker =
        Worker::new(tables.epochs.clone(), tables.memory.clone()).ok_or(RecoveryError::NoWorker)?;
    let indexed = |tables: &Tables| -> Vec<_> {
        tables.iter().filter(|store| store.definition().indexes.len() > 1).cloned().collect()
    };
    let guard = worker.enter();
    for store in indexed(&tables) {
        tables.set(store.with_empty_indexes(1, &guard).map_err(out_of_memory)?);
    }
    let mut ranges = Vec::new();
    for store in indexed(&tables) {
        let mut lower = Vec::new();
        for cut in store.split_keys(threads * RANGES_PER_THREAD, &guard) {
            ranges.push((store.clone(), std::mem::replace(&mut lower, cut.clone()), Some(cut)));
        }
        ranges.push((store, lower, None));
    }
    drop(guard);
    run_on(threads, &tables, ranges.len(), |range, worker| {
        let (store, lower, upper) = &ranges[range];
        let indexes = store.definition().indexes.len();
        store.fill(1..indexes, (lower, upper.as_deref()), &worker.enter()).map_err(out_of_memory)
    })?;
    Ok(tables)
}
