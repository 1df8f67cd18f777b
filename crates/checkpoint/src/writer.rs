//! Writes a checkpoint: threads walk ranges of the tables, then the manifest is replaced. A consistent
//! checkpoint opens a snapshot first; a fuzzy one reads each row's current version and waits for locked rows.
//! Paper: Poplar §5 (fuzzy checkpoints). Differs: the numbers that must be durable include those of deleted
//! rows.
//!
//! Invariants: 1. a consistent checkpoint holds exactly the transactions ordered before its bound. A fuzzy
//! one holds all of them, because they were durable, and so installed, before its rows were read. 2. a
//! checkpoint is published only once all its transactions are durable in the log, so it never holds a
//! transaction that a crash would remove from the log.
//! Held by: `crates/reprise/tests/suite/checkpoints.rs`, `sequencings.rs`.

use crate::part::{Form, PartId, PartRow, PartWriter};
use crate::{CheckpointError, Consistency, Definitions, Manifest, NeededLogs, Part};
use catalog::{Arena, CommitOrder};
use logging::disk::SharedDisk;
use logging::{Csn, DatabaseId, LogError, LogRange, LogSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use storage::{Cursor, Direction, Guard, RowWords, TableDigest, TableStore, Worker};
use transaction::Tables;

/// Approximate number of rows of a part file.
const ROWS_PER_RANGE: usize = 50_000;

/// The size and duration of a checkpoint.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CheckpointSummary {
    /// Upper bound of the transactions that it holds completely; replay begins here.
    pub bound: CommitOrder,
    /// Number of rows.
    pub rows: u64,
    /// Size of all parts, in bytes.
    pub bytes: u64,
    /// Duration of the checkpoint.
    pub elapsed: Duration,
}

struct Range<'a> {
    store: &'a TableStore,
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
}

/// The destination of a checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// The disk.
    pub disk: &'a SharedDisk,
    /// The data folder.
    pub folder: &'a Path,
    /// The database.
    pub database: DatabaseId,
    /// The number of this opening of the database.
    pub incarnation: u64,
    /// Folders for the parts; each part goes to the device with the least work.
    pub devices: &'a [PathBuf],
}

/// A data folder inside another one, with another log of the same transactions. A checkpoint is published
/// there too.
#[derive(Clone, Copy, Debug)]
pub struct Shadow<'a> {
    /// The folder.
    pub folder: &'a Path,
    /// Its database.
    pub database: DatabaseId,
    /// The ranges of its log that recovery needs.
    pub ranges: &'a [LogRange],
}

/// The log, as a checkpoint uses it.
pub trait Log {
    /// Returns the number up to which the log is durable.
    fn durable(&self) -> Csn;

    /// Returns once the log is durable up to a number.
    ///
    /// # Errors
    /// The log has failed before that.
    fn complete(&self, number: CommitOrder) -> Result<(), LogError>;

    /// Returns the ranges of the log that recovery needs beside a checkpoint with this bound.
    fn ranges_from(&self, bound: CommitOrder) -> Vec<LogRange>;

    /// Publishes a checkpoint in the data folders of shadow logs.
    ///
    /// # Errors
    /// The disk is full, or fails.
    fn publish_in_shadows(
        &self,
        bound: CommitOrder,
        publish: &dyn Fn(Shadow<'_>) -> Result<(), CheckpointError>,
    ) -> Result<(), CheckpointError>;

    /// Announces that a checkpoint is published, before any file is removed that only earlier checkpoints
    /// need.
    ///
    /// # Errors
    /// The disk is full, or fails.
    fn checkpointed(&self, number: u64) -> Result<(), LogError>;
}

impl Log for LogSet {
    fn durable(&self) -> Csn {
        Self::durable(self).unwrap_or_default()
    }

    fn complete(&self, number: CommitOrder) -> Result<(), LogError> {
        Self::complete(self, number)
    }

    fn ranges_from(&self, bound: CommitOrder) -> Vec<LogRange> {
        Self::ranges_from(self, bound)
    }

    fn publish_in_shadows(
        &self,
        bound: CommitOrder,
        publish: &dyn Fn(Shadow<'_>) -> Result<(), CheckpointError>,
    ) -> Result<(), CheckpointError> {
        self.for_each_shadow(bound, |folder, database, ranges| publish(Shadow { folder, database, ranges }))
    }

    fn checkpointed(&self, number: u64) -> Result<(), LogError> {
        Self::checkpointed(self, number)
    }
}

/// The moment at which rows are read.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// The state just below a bound.
    Before(CommitOrder),
    /// The current state when each row is read.
    Any,
}

/// A checkpoint to write.
#[derive(Clone, Debug)]
pub struct Contents<'a> {
    /// The moment at which rows are read.
    pub consistency: Consistency,
    /// An image of the definitions (`sql::Schema::to_image`). All definitions are durable, and do not change
    /// during the checkpoint.
    pub definitions: String,
    /// The tables of the definitions.
    pub tables: &'a Tables,
    /// The log keeps the records numbered from this on.
    pub keep: CommitOrder,
    /// Number of threads that write; 0 counts as 1.
    pub threads: usize,
}

/// Writes and publishes a checkpoint.
///
/// # Errors
/// A device is full, or fails; the previous checkpoint is then still the newest.
pub fn write(
    to: Destination<'_>,
    contents: Contents<'_>,
    log: &impl Log,
) -> Result<(Manifest, CheckpointSummary), CheckpointError> {
    let Contents { consistency, definitions, tables, keep, threads } = contents;
    let Destination { disk, folder, database, incarnation, devices } = to;
    let begun = Instant::now();
    let number = Manifest::read(disk, folder)?.map_or(1, |last| last.number + 1);
    let write_all = || -> Result<_, CheckpointError> {
        let (bound, (parts, last)) = match consistency {
            Consistency::Consistent => {
                let snapshot = tables.snapshots.open(&tables.epochs);
                let moment = Moment::Before(snapshot.bound());
                (snapshot.bound(), write_parts(to, number, tables, moment, threads)?)
            }
            Consistency::Fuzzy => {
                // Read before any row: transactions numbered up to here are installed, so the rows include
                // them.
                let bound = CommitOrder(log.durable().order().0 + 1);
                (bound, write_parts(to, number, tables, Moment::Any, threads)?)
            }
        };
        let last = last.max(CommitOrder(bound.0 - 1));
        log.complete(last)?;
        for device in devices {
            let name = part_folder(device, number);
            disk.sync_folder(&name).map_err(|error| LogError::io("sync", &name, error))?;
            disk.sync_folder(device).map_err(|error| LogError::io("sync", device, error))?;
        }
        Ok((bound, parts, last))
    };
    let (bound, parts, last) = write_all().inspect_err(|_| {
        // No manifest names these parts yet, and a full disk needs their room. The next checkpoint overwrites
        // any part that is left.
        for device in devices {
            let _ = disk.remove(&part_folder(device, number));
        }
    })?;
    // Paths inside the data folder are relative to it, so that the folder can be moved.
    let relative = |path: PathBuf| path.strip_prefix(folder).map(Path::to_path_buf).unwrap_or(path);
    let parts: Vec<Part> = parts.into_iter().map(|part| Part { path: relative(part.path), ..part }).collect();
    let kept = bound.min(keep);
    let logs = Some(NeededLogs { incarnation, ranges: log.ranges_from(kept) });
    let (parts_of, definitions) = (database, Definitions::Image(definitions));
    let manifest =
        Manifest { database, parts_of, logs, last, consistency, bound, number, definitions, parts };
    log.publish_in_shadows(kept, &|shadow| {
        manifest.as_seen_from_inside(shadow).publish(disk, shadow.folder)
    })?;
    manifest.publish(disk, folder)?;
    log.checkpointed(number)?;
    remove_others(disk, devices, number)?;
    let (rows, bytes) = (manifest.rows(), manifest.bytes());
    let summary = CheckpointSummary { bound, rows, bytes, elapsed: begun.elapsed() };
    Ok((manifest, summary))
}

fn part_folder(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("checkpoint-{number:08}"))
}

/// Removes the parts of other checkpoints.
fn remove_others(disk: &SharedDisk, folders: &[PathBuf], number: u64) -> Result<(), LogError> {
    for folder in folders {
        let own = part_folder(folder, number);
        for path in disk.list(folder).map_err(|error| LogError::io("list", folder, error))? {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            if name.is_some_and(|name| name.starts_with("checkpoint-")) && path != own {
                disk.remove(&path).map_err(|error| LogError::io("remove", &path, error))?;
            }
        }
    }
    Ok(())
}

/// The load of each device: the number of parts being written, and the bytes of its parts.
struct Shares(Vec<(usize, u64)>);

impl Shares {
    /// Returns the device for the next part: one with the fewest parts being written, and of those the one
    /// with the fewest bytes.
    fn begin(&mut self) -> usize {
        let least =
            self.0.iter().enumerate().min_by_key(|(_, share)| **share).map_or(0, |(device, _)| device);
        self.0[least].0 += 1;
        least
    }

    fn end(&mut self, device: usize, bytes: u64) {
        self.0[device].0 -= 1;
        self.0[device].1 += bytes;
    }
}

/// Writes the rows; returns the parts, and the greatest number of a row.
fn write_parts(
    Destination { disk, database, devices: folders, .. }: Destination<'_>,
    number: u64,
    tables: &Tables,
    moment: Moment,
    threads: usize,
) -> Result<(Vec<Part>, CommitOrder), CheckpointError> {
    for folder in folders {
        let name = part_folder(folder, number);
        disk.create_folder(&name).map_err(|error| LogError::io("create", &name, error))?;
    }
    let mut workers = Vec::new();
    for _ in 0..threads.max(1) {
        workers.push(
            Worker::new(tables.epochs.clone(), tables.memory.clone()).ok_or(CheckpointError::NoWorker)?,
        );
    }
    let ranges = ranges(tables, &workers[0].enter());
    let (next, parts) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let shares = Mutex::new(Shares(vec![(0, 0); folders.len()]));
    let shares = || shares.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let run = |mut worker: Worker| -> Result<CommitOrder, CheckpointError> {
        let mut last = CommitOrder(0);
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(range) = ranges.get(index) else { return Ok(last) };
            let table = range.store.definition().id;
            let device = shares().begin();
            let folder = part_folder(&folders[device], number);
            let path = folder.join(format!("part-{index:06}"));
            let has_orders = matches!(moment, Moment::Any);
            let form = Form { has_slots: range.store.has_slots(), has_orders };
            let id = PartId { table, database, checkpoint: number, index: index as u32 };
            let mut writer = PartWriter::create(disk, path.clone(), id, form)?;
            let (greatest, digest) = write_range(range, moment, &mut writer, &mut worker)?;
            last = last.max(greatest);
            writer.finish()?;
            shares().end(device, writer.bytes);
            let (checksum, digest) = (Some(writer.checksum), Some(digest));
            let part = Part { table, rows: writer.rows, bytes: writer.bytes, checksum, digest, path };
            parts.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(part);
        }
    };
    let last = std::thread::scope(|scope| {
        let running: Vec<_> = workers.into_iter().map(|worker| scope.spawn(|| run(worker))).collect();
        running.into_iter().try_fold(CommitOrder(0), |last, thread| {
            Ok::<_, CheckpointError>(last.max(thread.join().expect("a checkpoint thread does not panic")?))
        })
    })?;
    let mut parts = parts.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    // By number, so that parts that are read at the same time lie on different devices.
    parts.sort_by(|a, b| a.path.file_name().cmp(&b.path.file_name()));
    Ok((parts, last))
}

/// Divides all tables into ranges.
fn ranges<'a>(tables: &'a Tables, guard: &Guard) -> Vec<Range<'a>> {
    let mut ranges = Vec::new();
    for store in tables.iter() {
        // A leaf holds some tens of rows, so there are enough separators for ranges of the wanted size.
        let mut lower = Vec::new();
        let cuts = store.split_keys(ROWS_PER_RANGE.isqrt(), guard);
        let step = (cuts.len() / 16).max(1);
        for cut in cuts.into_iter().step_by(step) {
            ranges.push(Range { store, lower: std::mem::replace(&mut lower, cut.clone()), upper: Some(cut) });
        }
        ranges.push(Range { store, lower, upper: None });
    }
    ranges
}

/// Writes the rows of a range. Returns their greatest number and their digest.
fn write_range(
    range: &Range<'_>,
    moment: Moment,
    writer: &mut PartWriter,
    worker: &mut Worker,
) -> Result<(CommitOrder, u128), CheckpointError> {
    let mut cursor = Cursor::default();
    cursor.open(&range.lower, range.upper.as_deref(), Direction::Forward);
    let (mut image, mut last): (Vec<u64>, _) = (Vec::new(), CommitOrder(0));
    let (mut digest, mut arena, mut scratch) = (0u128, Arena::default(), Vec::new());
    let mut key = Vec::new();
    loop {
        // A record is valid only while the worker is active, so the leaf is finished before the worker
        // leaves.
        let guard = worker.enter();
        let more = cursor.read_leaf(range.store.index_at(0), &guard).is_some();
        let mut result = Ok(());
        while let Some(record) = cursor.next_buffered(&guard) {
            let copy = |words: RowWords<'_>| {
                image.clear();
                image.extend((0..words.capacity()).map(|word| words.load(word)));
            };
            let (is_present, order) = match moment {
                Moment::Before(bound) => (record.read_at(bound, copy).1.is_some(), None),
                Moment::Any => {
                    let (state, row) = record.read_now(copy);
                    last = last.max(state.order());
                    (row.is_some(), Some(state.order()))
                }
            };
            if is_present && result.is_ok() {
                arena.clear();
                let definition = range.store.definition();
                let hash = TableDigest::hash_image(definition, &image, &mut arena, &mut scratch);
                digest = digest.wrapping_add(hash);
                if writer.begins_block() {
                    range.store.key_of_image(&image, &mut arena, &mut key);
                }
                result = writer.add(PartRow { slot: record.slot(), order, words: &image }, &key);
            }
        }
        drop(guard);
        result?;
        if !more {
            return Ok((last, digest));
        }
    }
}
