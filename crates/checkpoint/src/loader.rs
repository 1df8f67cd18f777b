//! Loading a checkpoint: parts in parallel, every index built as rows come.

use crate::part::read_part;
use crate::{CheckpointError, Manifest};
use catalog::{Arena, CommitOrder};
use logging::disk::SharedDisk;
use logging::{CorruptionKind, LogError};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use storage::Worker;
use transaction::Tables;

/// Loads the rows of a data folder's checkpoint into tables that its definitions made. `progress` is raised by the bytes read.
///
/// # Errors
/// The disk fails; a part is damaged; the rows do not fit the memory.
pub fn load(
    disk: &SharedDisk,
    folder: &Path,
    manifest: &Manifest,
    tables: &Tables,
    threads: usize,
    progress: &AtomicU64,
) -> Result<(), CheckpointError> {
    let next = AtomicUsize::new(0);
    let order = CommitOrder(manifest.bound.0 - 1);
    let run = |mut worker: Worker| -> Result<(), CheckpointError> {
        let (mut arena, mut key) = (Arena::default(), Vec::new());
        while let Some(part) = manifest.parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let path = folder.join(&part.path);
            let corrupt = |what| LogError::corrupt(&path, 0, CorruptionKind::Malformed(what));
            let store = tables.by_id(part.table).ok_or_else(|| corrupt("its table is not defined"))?;
            let mut rows = 0;
            worker.enter();
            let read = read_part(disk, &path, part.table, part.bytes, |words| {
                rows += 1;
                if words.len() < store.definition().layout.fixed_words() {
                    return Err(corrupt("a row is shorter than its table's").into());
                }
                match store.load(words, order, &mut worker, &mut arena, &mut key)? {
                    true => Ok(()),
                    false => Err(corrupt("a key is there twice").into()),
                }
            });
            worker.exit();
            read?;
            if rows != part.rows {
                return Err(corrupt("rows are missing").into());
            }
            progress.fetch_add(part.bytes, Ordering::Relaxed);
        }
        Ok(())
    };
    let mut workers = Vec::new();
    for _ in 0..threads.max(1) {
        workers.push(
            Worker::new(tables.epochs.clone(), tables.memory.clone()).ok_or(CheckpointError::NoWorker)?,
        );
    }
    std::thread::scope(|scope| {
        let running: Vec<_> = workers.into_iter().map(|worker| scope.spawn(|| run(worker))).collect();
        running.into_iter().try_for_each(|thread| thread.join().expect("a loading thread does not panic"))
    })
}
