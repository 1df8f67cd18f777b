//! Writing a checkpoint: the snapshot is opened, threads walk ranges of the tables, the manifest is replaced.
//!
//! Invariants: 1. the checkpoint holds exactly the transactions ordered before its bound. 2. it is published only once
//! all of those are durable in the log, so it never holds what a crash of the log would take back.
//! Held by: `crates/reprise/tests/checkpoints.rs`.

use crate::part::{PartRow, PartWriter};
use crate::{CheckpointError, Manifest, Part};
use catalog::CommitOrder;
use logging::LogError;
use logging::disk::SharedDisk;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use storage::{Cursor, Direction, TableStore, Worker};
use transaction::Tables;

/// Rows of a part file, about.
const ROWS_PER_RANGE: usize = 50_000;

/// What was written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CheckpointSummary {
    /// It holds the transactions ordered before this.
    pub bound: CommitOrder,
    /// Rows.
    pub rows: u64,
    /// Bytes of all parts.
    pub bytes: u64,
    /// How long it took.
    pub elapsed: Duration,
}

struct Range<'a> {
    store: &'a TableStore,
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
}

/// Writes and publishes a checkpoint of all tables. `folders` are where parts go, in turn; `complete` returns once
/// everything up to a number is durable in the log; `shadows` are folders inside the data folder that hold other logs of the same transactions:
/// it is published there too. The definitions must not change meanwhile.
///
/// # Errors
/// A device is full, or fails; the checkpoint before is then still the newest.
pub fn write(
    disk: &SharedDisk,
    (folder, shadows): (&Path, &[PathBuf]),
    folders: &[PathBuf],
    statements: Vec<String>,
    tables: &Tables,
    threads: usize,
    complete: impl FnOnce(CommitOrder) -> Result<(), LogError>,
) -> Result<(Manifest, CheckpointSummary), CheckpointError> {
    let begun = Instant::now();
    let number = Manifest::read(disk, folder)?.map_or(1, |last| last.number + 1);
    let bound = tables.snapshot.open(&tables.epochs);
    let written = write_parts(disk, folders, number, tables, bound, threads);
    tables.snapshot.close();
    let parts = written?;
    complete(CommitOrder(bound.0 - 1))?;
    for folder in folders {
        let name = part_folder(folder, number);
        disk.sync_folder(&name).map_err(|error| LogError::io("sync", &name, error))?;
        disk.sync_folder(folder).map_err(|error| LogError::io("sync", folder, error))?;
    }
    // Paths inside the data folder are kept relative to it, so that the folder can be moved.
    let relative = |path: PathBuf| path.strip_prefix(folder).map(Path::to_path_buf).unwrap_or(path);
    let parts: Vec<Part> = parts.into_iter().map(|part| Part { path: relative(part.path), ..part }).collect();
    let manifest = Manifest { bound, number, statements, parts };
    for shadow in shadows {
        manifest.as_seen_from_inside().publish(disk, shadow)?;
    }
    manifest.publish(disk, folder)?;
    remove_others(disk, folders, number)?;
    let sum = |of: fn(&Part) -> u64| manifest.parts.iter().map(of).sum();
    let summary = CheckpointSummary {
        bound,
        rows: sum(|part| part.rows),
        bytes: sum(|part| part.bytes),
        elapsed: begun.elapsed(),
    };
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

fn write_parts(
    disk: &SharedDisk,
    folders: &[PathBuf],
    number: u64,
    tables: &Tables,
    bound: CommitOrder,
    threads: usize,
) -> Result<Vec<Part>, CheckpointError> {
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
    let ranges = ranges(tables, &mut workers[0]);
    let (next, parts) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let run = |mut worker: Worker| -> Result<(), CheckpointError> {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(range) = ranges.get(place) else { return Ok(()) };
            let table = range.store.definition().id;
            let folder = part_folder(&folders[place % folders.len()], number);
            let path = folder.join(format!("part-{place:06}"));
            let mut writer = PartWriter::create(disk, path.clone(), table, range.store.has_slots())?;
            write_range(range, bound, &mut writer, &mut worker)?;
            writer.finish()?;
            let part = Part { table, rows: writer.rows, bytes: writer.bytes, path };
            parts.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(part);
        }
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = workers.into_iter().map(|worker| scope.spawn(|| run(worker))).collect();
        running.into_iter().try_for_each(|thread| thread.join().expect("a checkpoint thread does not panic"))
    })?;
    let mut parts = parts.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    parts.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(parts)
}

/// Cuts all tables into ranges.
fn ranges<'a>(tables: &'a Tables, worker: &mut Worker) -> Vec<Range<'a>> {
    let mut ranges = Vec::new();
    worker.enter();
    for store in tables.iter() {
        // A leaf holds some tens of rows: enough separators for ranges of the wanted size.
        let mut lower = Vec::new();
        let cuts = store.split_keys(ROWS_PER_RANGE.isqrt());
        let step = (cuts.len() / 16).max(1);
        for cut in cuts.into_iter().step_by(step) {
            ranges.push(Range { store, lower: std::mem::replace(&mut lower, cut.clone()), upper: Some(cut) });
        }
        ranges.push(Range { store, lower, upper: None });
    }
    worker.exit();
    ranges
}

fn write_range(
    range: &Range<'_>,
    bound: CommitOrder,
    writer: &mut PartWriter,
    worker: &mut Worker,
) -> Result<(), CheckpointError> {
    let mut cursor = Cursor::default();
    cursor.open(&range.lower, range.upper.as_deref(), Direction::Forward);
    let mut image: Vec<u64> = Vec::new();
    loop {
        // Records stay valid only while the worker is active, so a leaf is done before it leaves.
        worker.enter();
        let more = cursor.read_leaf(range.store.index_at(0)).is_some();
        let mut result = Ok(());
        while let Some(address) = cursor.next_buffered() {
            let record = TableStore::record(address);
            let present = record.read_at(bound, |words| {
                image.clear();
                image.extend((0..words.capacity()).map(|word| words.load(word)));
            });
            if present.is_some() && result.is_ok() {
                result = writer.add(PartRow { slot: record.slot(), words: &image });
            }
        }
        worker.exit();
        result?;
        if !more {
            return Ok(());
        }
    }
}
