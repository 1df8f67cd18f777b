//! Loads a checkpoint: parts in parallel, every index built as rows arrive.

use crate::part::{PartRow, read_part};
use crate::{CheckpointError, Manifest, Part};
use catalog::{Arena, CommitOrder};
use logging::disk::{SharedDisk, seen_from};
use logging::{CorruptionKind, LogError};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use storage::{Guard, Linker, OutOfMemory, TableDigest, TableStore, Worker};
use transaction::Tables;

/// The destination of a checkpoint's rows.
pub trait Rows: Sync {
    /// The working memory of one thread.
    type Scratch: Default;

    /// Adds a row with its commit order; returns false when its key or slot has another row.
    ///
    /// # Errors
    /// Out of memory.
    fn add(
        &self,
        store: &TableStore,
        row: PartRow<'_>,
        order: CommitOrder,
        scratch: &mut Self::Scratch,
        guard: &Guard,
    ) -> Result<bool, OutOfMemory>;
}

/// The indexes of a table to which rows are added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Indexes {
    /// All indexes.
    All,
    /// The primary index; recovery fills the remaining ones later.
    Primary,
}

impl Rows for Indexes {
    type Scratch = Linker;

    fn add(
        &self,
        store: &TableStore,
        row: PartRow<'_>,
        order: CommitOrder,
        linker: &mut Linker,
        guard: &Guard,
    ) -> Result<bool, OutOfMemory> {
        let indexes = if *self == Self::All { store.definition().indexes.len() } else { 1 };
        store.load(row.words, order, indexes, linker, guard)
    }
}

/// Discards the rows, which are only compared with their digest.
#[derive(Clone, Copy, Debug)]
pub struct Discard;

impl Rows for Discard {
    type Scratch = ();

    fn add(
        &self,
        _: &TableStore,
        _: PartRow<'_>,
        _: CommitOrder,
        (): &mut (),
        _: &Guard,
    ) -> Result<bool, OutOfMemory> {
        Ok(true)
    }
}

/// Returns the parts by folder, with the number of those taken.
fn queues(manifest: &Manifest) -> Vec<(Vec<(usize, &Part)>, AtomicUsize)> {
    let mut folders: BTreeMap<_, Vec<(usize, &Part)>> = BTreeMap::new();
    for (index, part) in manifest.parts.iter().enumerate() {
        folders.entry(part.path.parent()).or_default().push((index, part));
    }
    folders.into_values().map(|parts| (parts, AtomicUsize::new(0))).collect()
}

/// The checks on a loaded part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Check {
    /// The checksums of blocks and the number of rows.
    #[default]
    Checksums,
    /// Also the digest of the decoded rows, against the manifest's.
    Digests,
}

/// Loads the rows of a data folder's checkpoint into the tables of its definitions. Adds the bytes read to
/// `progress`.
///
/// # Errors
/// The disk fails; a part is damaged; the rows do not fit the memory.
pub fn load<R: Rows>(
    disk: &SharedDisk,
    folder: &Path,
    manifest: &Manifest,
    (tables, rows): (&Tables, &R),
    (threads, check): (usize, Check),
    progress: &AtomicU64,
) -> Result<(), CheckpointError> {
    let queues = queues(manifest);
    let order = CommitOrder(manifest.bound.0 - 1);
    let run = |thread: usize, mut worker: Worker| -> Result<(), CheckpointError> {
        // Each thread starts with a device of its own, so that all devices are read at the same time.
        let own = (0..queues.len()).map(|place| &queues[(thread + place) % queues.len()]);
        for &(index, part) in own
            .flat_map(|(parts, next)| std::iter::from_fn(|| parts.get(next.fetch_add(1, Ordering::Relaxed))))
        {
            let path = seen_from(folder, &part.path);
            let corrupt = |what| LogError::corrupt(&path, 0, CorruptionKind::Malformed(what));
            let store = tables.by_id(part.table).ok_or_else(|| corrupt("its table is not defined"))?;
            let (mut count, mut scratch) = (0, R::Scratch::default());
            let (mut digest, mut arena, mut bytes) = (0u128, Arena::default(), Vec::new());
            let guard = worker.enter();
            read_part(disk, (folder, manifest), (index, part), |row| {
                count += 1;
                if row.words.len() < store.definition().layout.fixed_words() {
                    return Err(corrupt("a row is shorter than its table's").into());
                }
                if check == Check::Digests {
                    arena.clear();
                    let hash = TableDigest::hash_image(store.definition(), row.words, &mut arena, &mut bytes);
                    digest = digest.wrapping_add(hash);
                }
                let order = row.order.unwrap_or(order);
                match rows.add(store, row, order, &mut scratch, &guard)? {
                    true => Ok(()),
                    false => {
                        Err(corrupt("a row is there twice, or lacks the slot that a physical log needs")
                            .into())
                    }
                }
            })?;
            if count != part.rows {
                return Err(corrupt("rows are missing").into());
            }
            if check == Check::Digests && part.digest.is_some_and(|expected| expected != digest) {
                return Err(corrupt("its rows are not those that the checkpoint's digest is of").into());
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
        let (run, workers) = (&run, workers.into_iter().enumerate());
        let running: Vec<_> =
            workers.map(|(thread, worker)| scope.spawn(move || run(thread, worker))).collect();
        running.into_iter().try_for_each(|thread| thread.join().expect("a loading thread does not panic"))
    })
}
