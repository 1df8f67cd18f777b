//! Loads a checkpoint: parts in parallel, every index built as rows arrive.

use crate::part::{PartFile, PartRow};
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

/// A checkpoint to load.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// The disk.
    pub disk: &'a SharedDisk,
    /// The data folder.
    pub folder: &'a Path,
    /// The checkpoint of the folder.
    pub manifest: &'a Manifest,
    /// The tables of its definitions, which receive the rows.
    pub tables: &'a Tables,
    /// Number of threads; 0 counts as 1.
    pub threads: usize,
    /// The checks on each part.
    pub check: Check,
    /// The counter to which the bytes of each loaded part are added.
    pub progress: &'a AtomicU64,
}

impl Load<'_> {
    /// Loads the rows of the checkpoint.
    ///
    /// # Errors
    /// The disk fails; a part is damaged; the rows do not fit the memory.
    pub fn rows<R: Rows>(&self, rows: &R) -> Result<(), CheckpointError> {
        let queues = queues(self.manifest);
        let run = |thread: usize, mut worker: Worker| -> Result<(), CheckpointError> {
            // Each thread starts with another device, so that all devices are read at the same time.
            let queues = (0..queues.len()).map(|device| &queues[(thread + device) % queues.len()]);
            for &(index, part) in queues.flat_map(|(parts, next)| {
                std::iter::from_fn(|| parts.get(next.fetch_add(1, Ordering::Relaxed)))
            }) {
                self.load_part(index, part, rows, &mut worker)?;
                self.progress.fetch_add(part.bytes, Ordering::Relaxed);
            }
            Ok(())
        };
        let Tables { epochs, memory, .. } = self.tables;
        let worker = |_| Worker::new(epochs.clone(), memory.clone()).ok_or(CheckpointError::NoWorker);
        let workers: Vec<Worker> = (0..self.threads.max(1)).map(worker).collect::<Result<_, _>>()?;
        std::thread::scope(|scope| {
            let (run, workers) = (&run, workers.into_iter().enumerate());
            let running: Vec<_> =
                workers.map(|(thread, worker)| scope.spawn(move || run(thread, worker))).collect();
            running.into_iter().try_for_each(|thread| thread.join().expect("a loading thread does not panic"))
        })
    }

    /// Loads the rows of a part; `index` is its index in the manifest.
    fn load_part<R: Rows>(
        &self,
        index: usize,
        part: &Part,
        rows: &R,
        worker: &mut Worker,
    ) -> Result<(), CheckpointError> {
        let Self { disk, folder, manifest, .. } = *self;
        let path = seen_from(folder, &part.path);
        let corrupt = |what| LogError::corrupt(&path, 0, CorruptionKind::Malformed(what));
        let store = self.tables.by_id(part.table).ok_or_else(|| corrupt("its table is not defined"))?;
        let order = CommitOrder(manifest.bound.0 - 1);
        let (mut count, mut scratch) = (0, R::Scratch::default());
        let (mut digest, mut arena, mut bytes) = (0u128, Arena::default(), Vec::new());
        let guard = worker.enter();
        PartFile { disk, folder, manifest, index, part }.read(|row| {
            count += 1;
            if row.words.len() < store.definition().layout.fixed_words() {
                return Err(corrupt("a row is shorter than the rows of its table").into());
            }
            if self.check == Check::Digests {
                arena.clear();
                let hash = TableDigest::hash_image(store.definition(), row.words, &mut arena, &mut bytes);
                digest = digest.wrapping_add(hash);
            }
            let order = row.order.unwrap_or(order);
            match rows.add(store, row, order, &mut scratch, &guard)? {
                true => Ok(()),
                false => {
                    Err(corrupt("a row occurs twice, or lacks the slot that a physical log needs").into())
                }
            }
        })?;
        if count != part.rows {
            return Err(corrupt("rows are missing").into());
        }
        if self.check == Check::Digests && part.digest.is_some_and(|expected| expected != digest) {
            return Err(corrupt("its rows differ from the digest in the manifest").into());
        }
        Ok(())
    }
}
