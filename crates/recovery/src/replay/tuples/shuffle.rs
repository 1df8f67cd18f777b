//! Writes shuffled by table and primary key, so that each partition is one thread's, and rows need no
//! latches.
//! Paper: PACMAN §4.5, §6.2 (LLR-P). Differs: keys that differ in their last byte alone stay together, as
//! neighbours share index leaves.
//!
//! The log is taken in rounds, each of about as much log as a cache holds. While a round's chunks are sorted
//! into partitions, the partitions of the one before are written, each in commit order, chunk after chunk;
//! threads take whatever of both is left, and wait for each other once a round.

use super::writer::key_of;
use super::{Tombstones, TupleWrite, TupleWriter, table_of};
use crate::{LogContents, Progress, RecoveryError};
use catalog::{Arena, CommitOrder, Datum};
use logging::content::Record;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError, RwLock};
use storage::{Approach, Handle};
use transaction::Tables;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of log of a round, about.
const ROUND_BYTES: u64 = 8 << 20;
/// Most records that one thread sorts at a time.
const MOST_OF_CHUNK: u64 = 1024;
/// Chunks of a round.
const CHUNKS: usize = 64;
/// Partitions.
const PARTITIONS: usize = 64;
/// Rows that are looked up at the same time.
const GROUP: usize = 16;

/// One write of a chunk.
struct Entry<'l> {
    order: CommitOrder,
    write: TupleWrite<'l>,
    /// Where its key is in the chunk.
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

/// Which writes of a log count.
pub(in crate::replay) trait Select: Sync {
    /// Gives those of the record at a place to `add`, each with the order at which it happened.
    fn select<'l>(
        &self,
        place: usize,
        order: CommitOrder,
        record: Record<'l>,
        add: &mut dyn FnMut(CommitOrder, TupleWrite<'l>),
    ) -> Result<(), RecoveryError>;
}

/// How a log is shuffled.
pub(in crate::replay) struct Shuffle<'s, S> {
    pub(in crate::replay) log: &'s LogContents,
    pub(in crate::replay) threads: usize,
    pub(in crate::replay) progress: &'s Progress,
    pub(in crate::replay) select: S,
}

/// What a shuffled replay leaves.
#[derive(Default)]
pub(in crate::replay) struct Shuffled {
    /// By partition, so that nobody has a record that another one has.
    pub(in crate::replay) tombstones: Vec<Tombstones>,
}

impl Shuffled {
    /// Adds tombstones of rows that may be of any partition.
    pub(in crate::replay) fn add(&mut self, tombstones: Tombstones) {
        self.tombstones.push(tombstones);
    }
}

struct Rounds<'s, 'l, S> {
    shuffle: &'s Shuffle<'l, S>,
    range: Range<usize>,
    tables: &'s Tables,
    /// Records of a chunk.
    chunk: usize,
    /// Of the round that is sorted, and of the one that is written.
    chunks: [Vec<RwLock<Chunk<'l>>>; 2],
    tombstones: &'s [Mutex<Tombstones>],
    barrier: Barrier,
    /// What is taken next in a round: partitions of the round before, then chunks. The one after the next is
    /// made ready while nobody uses it.
    next: [AtomicUsize; 3],
    failed: AtomicBool,
    error: Mutex<Option<RecoveryError>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Select> Shuffle<'_, S> {
    /// Replays a part of the log between which no definition changes.
    pub(in crate::replay) fn replay(
        &self,
        range: Range<usize>,
        tables: &Tables,
        into: &mut Shuffled,
    ) -> Result<(), RecoveryError> {
        into.tombstones.resize_with(PARTITIONS, Vec::new);
        let tombstones: Vec<_> =
            into.tombstones.iter_mut().map(|own| Mutex::new(std::mem::take(own))).collect();
        let last = range.end - 1;
        let mean = (self.log.record_bytes / self.log.len().max(1) as u64).max(1);
        let chunk = (ROUND_BYTES / mean / CHUNKS as u64).clamp(1, MOST_OF_CHUNK) as usize;
        let rounds = Rounds {
            shuffle: self,
            range,
            tables,
            chunk,
            chunks: [(); 2].map(|()| (0..CHUNKS).map(|_| RwLock::default()).collect()),
            tombstones: &tombstones,
            barrier: Barrier::new(self.threads),
            next: Default::default(),
            failed: AtomicBool::new(false),
            error: Mutex::default(),
        };
        let writers: Vec<TupleWriter> =
            (0..self.threads).map(|_| TupleWriter::new(tables)).collect::<Result<_, _>>()?;
        std::thread::scope(|scope| {
            for (number, writer) in writers.into_iter().enumerate() {
                let rounds = &rounds;
                scope.spawn(move || rounds.work(writer, number == 0));
            }
        });
        if let Some(error) = rounds.error.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        for (own, found) in into.tombstones.iter_mut().zip(tombstones) {
            *own = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        }
        tables.epochs.advance_to(self.log.record(last).0.epoch());
        Ok(())
    }
}

impl<'l, S: Select> Rounds<'_, 'l, S> {
    /// What one thread does, to the end.
    fn work(&self, mut writer: TupleWriter, leads: bool) {
        let records = self.chunk * CHUNKS;
        let rounds = self.range.len().div_ceil(records);
        for round in 0..=rounds {
            let next = &self.next[round % 3];
            while !self.failed.load(Ordering::Acquire) {
                let part = next.fetch_add(1, Ordering::Relaxed);
                let done = match part.checked_sub(PARTITIONS) {
                    None if round == 0 => Ok(()),
                    None => self.write(round - 1, part, &mut writer),
                    Some(chunk) if chunk < CHUNKS && round < rounds => self.sort(round, chunk),
                    Some(_) => break,
                };
                if let Err(error) = done {
                    lock(&self.error).get_or_insert(error);
                    self.failed.store(true, Ordering::Release);
                }
            }
            if leads {
                // Last used in the round before the last one, which all have left.
                self.next[(round + 2) % 3].store(0, Ordering::Relaxed);
                let done = (round * records).min(self.range.len());
                self.shuffle.progress.set_done((self.range.start + done) as u64);
                self.tables.epochs.advance_from(self.tables.epochs.current());
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
        let (mut arena, mut row): (Arena, Vec<Datum>) = Default::default();
        for place in first.min(self.range.end)..(first + self.chunk).min(self.range.end) {
            let (order, record) = self.shuffle.log.record(place);
            let mut result = Ok(());
            self.shuffle.select.select(place, order, record, &mut |order, write| {
                let start = keys.len() as u32;
                let keyed = table_of(self.tables, write.table(), order)
                    .and_then(|table| key_of(&write, table, (&mut arena, &mut row), keys, order));
                if let Err(error) = keyed {
                    result = Err(error);
                    return;
                }
                let key = &keys[start as usize..];
                let neighbourhood = &key[..key.len().saturating_sub(1)];
                let hash = xxh3_64_with_seed(neighbourhood, write.table().0.into());
                partitions[hash as usize % PARTITIONS].push(Entry {
                    order,
                    write,
                    key: start..keys.len() as u32,
                });
            })?;
            result?;
        }
        Ok(())
    }

    /// Writes what belongs to a partition.
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

    /// Looks the rows of some writes up at the same time, then writes them.
    fn write_group(
        &self,
        group: &[Entry<'l>],
        keys: &[u8],
        writer: &mut TupleWriter,
    ) -> Result<(), RecoveryError> {
        let key = |entry: &Entry<'_>| &keys[entry.key.start as usize..entry.key.end as usize];
        let store = |entry: &Entry<'_>| self.tables.store(entry.write.table());
        let mut approaches: [Option<Approach>; GROUP] = [const { None }; GROUP];
        for (approach, entry) in approaches.iter_mut().zip(group) {
            *approach = store(entry).index_at(0).approach(key(entry), writer.worker.guard());
        }
        let mut found: [Option<Handle>; GROUP] = [None; GROUP];
        for ((found, approach), entry) in found.iter_mut().zip(&approaches).zip(group) {
            let Some(approach) = approach else { continue };
            // That there is none does not hold for long: a write of this group may add it.
            let index = store(entry).index_at(0);
            if let Some(Some(record)) = index.arrive(approach, key(entry), writer.worker.guard()) {
                record.prefetch();
                *found = Some(record.handle());
            }
        }
        for (entry, found) in group.iter().zip(found) {
            writer.write(entry.order, &entry.write, (store(entry), key(entry)), found)?;
        }
        Ok(())
    }
}
