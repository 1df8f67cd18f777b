//! Writes shuffled by table and primary key, so that one thread writes each partition, and rows need no
//! latches.
//! Paper: PACMAN §4.5, §6.2 (LLR-P). Differs: keys that differ only in their last byte stay together, because
//! neighbours share index leaves.
//!
//! The log is replayed in rounds; a cache holds about one round. While the chunks of one round are sorted
//! into partitions, the partitions of the round before are written, each in commit order, chunk after chunk.
//! Threads take any chunk or partition that is left, and wait for each other once a round.

use super::finish::Tombstones;
use super::table_of;
use super::write::TupleWrite;
use super::writer::{Target, TupleWriter};
use crate::RecoveryError;
use crate::replay::context::ReplayContext;
use crate::replay::divergence::unfit;
use catalog::{Arena, CommitOrder, Datum};
use logging::content::Record;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError, RwLock};
use storage::{Handle, ShortKey};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Approximate size of a round, in bytes of log.
const ROUND_BYTES: u64 = 8 << 20;
/// Maximum number of records of a chunk.
const MOST_OF_CHUNK: u64 = 1024;
/// Number of chunks of a round.
const CHUNKS: usize = 64;
/// Number of partitions.
const PARTITIONS: usize = 64;
/// Number of rows that are looked up at the same time.
const GROUP: usize = 16;

/// One write of a chunk.
struct Entry<'l> {
    order: CommitOrder,
    write: TupleWrite<'l>,
    /// The range of its key in the chunk's keys.
    key: Range<u32>,
}

/// A chunk of the log, sorted into partitions.
struct Chunk<'l> {
    partitions: Vec<Vec<Entry<'l>>>,
    keys: Vec<u8>,
}

impl Default for Chunk<'_> {
    fn default() -> Self {
        Self { partitions: (0..PARTITIONS).map(|_| Vec::new()).collect(), keys: Vec::new() }
    }
}

/// Selects the writes that are replayed.
pub(in crate::replay) trait Select: Sync {
    /// Passes the writes of the record at an index to `add`, each with its order.
    fn select<'l>(
        &self,
        index: usize,
        order: CommitOrder,
        record: Record<'l>,
        add: &mut dyn FnMut(CommitOrder, TupleWrite<'l>),
    ) -> Result<(), RecoveryError>;
}

/// A shuffled replay.
pub(in crate::replay) struct Shuffle<'s, S> {
    pub(in crate::replay) context: &'s ReplayContext<'s>,
    pub(in crate::replay) select: S,
}

/// The tombstones of a shuffled replay.
#[derive(Default)]
pub(in crate::replay) struct Shuffled {
    /// By partition, so that each record is in the list of one thread.
    pub(in crate::replay) tombstones: Vec<Tombstones>,
}

impl Shuffled {
    /// Adds tombstones of rows of any partition.
    pub(in crate::replay) fn add(&mut self, tombstones: Tombstones) {
        self.tombstones.push(tombstones);
    }
}

struct Rounds<'s, 'l, S> {
    shuffle: &'s Shuffle<'l, S>,
    range: Range<usize>,
    /// Number of records of a chunk.
    chunk: usize,
    /// The chunks of the round that is sorted, and of the round that is written.
    chunks: [Vec<RwLock<Chunk<'l>>>; 2],
    tombstones: &'s [Mutex<Tombstones>],
    barrier: Barrier,
    /// By round modulo 3, the next job: partitions of the round before, then chunks. The counter of the round
    /// after the next is reset while no thread uses it.
    next: [AtomicUsize; 3],
    failed: AtomicBool,
    error: Mutex<Option<RecoveryError>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Select> Shuffle<'_, S> {
    /// Replays a range of records between which no definition changes.
    pub(in crate::replay) fn replay(
        &self,
        range: Range<usize>,
        into: &mut Shuffled,
    ) -> Result<(), RecoveryError> {
        let ReplayContext { log, tables, .. } = self.context;
        into.tombstones.resize_with(PARTITIONS, Vec::new);
        let tombstones: Vec<_> =
            into.tombstones.iter_mut().map(|list| Mutex::new(std::mem::take(list))).collect();
        let (last, threads) = (range.end - 1, self.context.threads());
        let mean = (log.record_bytes / log.len().max(1) as u64).max(1);
        let chunk = (ROUND_BYTES / mean / CHUNKS as u64).clamp(1, MOST_OF_CHUNK) as usize;
        let rounds = Rounds {
            shuffle: self,
            range,
            chunk,
            chunks: [(); 2].map(|()| (0..CHUNKS).map(|_| RwLock::default()).collect()),
            tombstones: &tombstones,
            barrier: Barrier::new(threads),
            next: Default::default(),
            failed: AtomicBool::new(false),
            error: Mutex::default(),
        };
        let workers = (0..threads).map(|_| self.context.worker()).collect::<Result<Vec<_>, _>>()?;
        let writers = workers.into_iter().map(TupleWriter::new);
        std::thread::scope(|scope| {
            for (number, writer) in writers.enumerate() {
                let rounds = &rounds;
                scope.spawn(move || rounds.work(writer, number == 0));
            }
        });
        if let Some(error) = rounds.error.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        for (list, found) in into.tombstones.iter_mut().zip(tombstones) {
            *list = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        }
        tables.epochs.advance_to(log.order(last).epoch());
        Ok(())
    }
}

impl<'l, S: Select> Rounds<'_, 'l, S> {
    /// Takes jobs to the end.
    fn work(&self, mut writer: TupleWriter, leads: bool) {
        let records = self.chunk * CHUNKS;
        let rounds = self.range.len().div_ceil(records);
        for round in 0..=rounds {
            let next = &self.next[round % 3];
            while !self.failed.load(Ordering::Acquire) {
                let job = next.fetch_add(1, Ordering::Relaxed);
                let done = match job.checked_sub(PARTITIONS) {
                    None if round == 0 => Ok(()),
                    None => self.write(round - 1, job, &mut writer),
                    Some(chunk) if chunk < CHUNKS && round < rounds => self.sort(round, chunk),
                    Some(_) => break,
                };
                if let Err(error) = done {
                    lock(&self.error).get_or_insert(error);
                    self.failed.store(true, Ordering::Release);
                }
            }
            if leads {
                // Threads used it last two rounds ago, and all of them have left that round.
                self.next[(round + 2) % 3].store(0, Ordering::Relaxed);
                let done = (round * records).min(self.range.len());
                let ReplayContext { progress, tables, .. } = self.shuffle.context;
                progress.set_done((self.range.start + done) as u64);
                tables.epochs.advance_from(tables.epochs.current());
            }
            self.barrier.wait();
        }
    }

    /// Sorts a chunk of the log into partitions.
    fn sort(&self, round: usize, number: usize) -> Result<(), RecoveryError> {
        let chunk = &self.chunks[round % 2][number];
        let mut chunk = chunk.write().unwrap_or_else(PoisonError::into_inner);
        let Chunk { partitions, keys } = &mut *chunk;
        partitions.iter_mut().for_each(Vec::clear);
        keys.clear();
        let first = self.range.start + (round * CHUNKS + number) * self.chunk;
        let context = self.shuffle.context;
        let (mut arena, mut row): (Arena, Vec<Datum>) = Default::default();
        for index in first.min(self.range.end)..(first + self.chunk).min(self.range.end) {
            let (order, record) = context.log.record(index);
            let mut result = Ok(());
            self.shuffle.select.select(index, order, record, &mut |order, write| {
                let start = keys.len() as u32;
                let keyed = table_of(&context.tables, write.table(), order).and_then(|table| {
                    arena.clear();
                    write.key(table, &mut arena, &mut row, keys).map_err(|_| unfit(order))
                });
                if let Err(error) = keyed {
                    result = Err(error);
                    return;
                }
                let key = &keys[start as usize..];
                let neighbourhood = &key[..key.len().saturating_sub(1)];
                let hash = xxh3_64_with_seed(neighbourhood, write.table().0.into());
                let key = start..keys.len() as u32;
                partitions[hash as usize % PARTITIONS].push(Entry { order, write, key });
            })?;
            result?;
        }
        Ok(())
    }

    /// Makes the writes of a partition.
    fn write(&self, round: usize, partition: usize, writer: &mut TupleWriter) -> Result<(), RecoveryError> {
        let mut tombstones = lock(&self.tombstones[partition]);
        std::mem::swap(&mut *tombstones, &mut writer.tombstones);
        writer.stay();
        let result = self.chunks[round % 2].iter().try_for_each(|chunk| {
            let chunk = chunk.read().unwrap_or_else(PoisonError::into_inner);
            chunk.partitions[partition]
                .chunks(GROUP)
                .try_for_each(|group| self.write_group(group, &chunk.keys, writer))
        });
        writer.leave();
        std::mem::swap(&mut *tombstones, &mut writer.tombstones);
        result
    }

    /// Looks up the rows of a group of writes at the same time, then makes the writes.
    fn write_group(
        &self,
        group: &[Entry<'l>],
        keys: &[u8],
        writer: &mut TupleWriter,
    ) -> Result<(), RecoveryError> {
        let key = |entry: &Entry<'_>| &keys[entry.key.start as usize..entry.key.end as usize];
        let tables = &self.shuffle.context.tables;
        let store = |entry: &Entry<'_>| tables.store(entry.write.table());
        let (index, guard) = (|entry: &Entry<'_>| store(entry).index_at(0), writer.worker.guard());
        let mut searches = [None; GROUP];
        for (search, entry) in searches.iter_mut().zip(group) {
            // Long keys are looked up one by one.
            *search = ShortKey::new(key(entry)).map(|key| (key, index(entry).begin(&key, guard)));
        }
        let mut goes_on = true;
        while goes_on {
            goes_on = false;
            for (search, entry) in searches.iter_mut().zip(group) {
                let Some((key, search)) = search else { continue };
                goes_on |= index(entry).go_on(search, key, guard);
            }
        }
        // A missing row is not remembered, because a write of this group may add it.
        let mut found: [Option<Handle>; GROUP] = [None; GROUP];
        for ((found, search), entry) in found.iter_mut().zip(&searches).zip(group) {
            let Some((key, search)) = search else { continue };
            *found = index(entry).end(search, key, guard).map(storage::Record::handle);
        }
        for (entry, found) in group.iter().zip(found) {
            let target = Target { store: store(entry), key: key(entry), found };
            writer.write(entry.order, &entry.write, target)?;
        }
        Ok(())
    }
}
