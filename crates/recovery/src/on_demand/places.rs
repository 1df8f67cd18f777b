//! The places of a log's writes, listed by granule.

use super::bounds::Bounds;
use crate::replay::{ReplayContext, run_on};
use crate::{LogContents, RecoveryError};
use catalog::TableId;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Partitions of all granules; a thread lists the writes of one at a time.
pub(super) const PARTITIONS: usize = 64;

/// The place of a write in the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) record: u32,
    /// The offset of the write in its record.
    pub(super) offset: u32,
}

/// A write with its granule.
#[derive(Clone, Copy)]
pub(super) struct Sorted {
    granule: u32,
    place: Place,
    bytes: u32,
}

/// Sorted writes by partition, of each part of the log.
pub(super) type SortedParts = Vec<Mutex<Vec<Vec<Sorted>>>>;

/// The numbers of the granules of all tables.
#[derive(Default, Debug)]
pub(super) struct GranuleNumbers {
    /// The first granule of each table.
    first: HashMap<TableId, usize>,
    count: usize,
    /// Number of granules of a partition.
    width: usize,
}

impl GranuleNumbers {
    pub(super) fn of(bounds: &HashMap<TableId, Bounds>) -> Self {
        let (mut first, mut count) = (HashMap::new(), 0);
        for (table, own) in bounds {
            first.insert(*table, count);
            count += own.count();
        }
        Self { first, count, width: count.div_ceil(PARTITIONS).max(1) }
    }

    /// Returns the number of a granule of a table.
    fn number_of(&self, table: TableId, granule: usize) -> usize {
        self.first[&table] + granule
    }

    /// Adds a write to its partition.
    pub(super) fn sort(
        &self,
        table: TableId,
        granule: usize,
        place: Place,
        bytes: usize,
        partitions: &mut [Vec<Sorted>],
    ) {
        let granule = self.number_of(table, granule);
        let sorted = Sorted { granule: granule as u32, place, bytes: bytes as u32 };
        partitions[granule / self.width].push(sorted);
    }
}

/// The writes of consecutive granules.
#[derive(Default, Debug)]
struct Partition {
    /// Where the writes of each granule begin, and at last where they all end.
    starts: Vec<u32>,
    places: Vec<Place>,
    /// The bytes of the writes of each granule.
    bytes: Vec<u64>,
}

/// The places of writes, by granule.
#[derive(Default, Debug)]
pub(super) struct Places {
    partitions: Vec<Partition>,
    numbers: GranuleNumbers,
}

impl Places {
    /// Lists the writes of each granule in the order of the parts; in commit order with `by_order`, which is
    /// the log.
    ///
    /// # Errors
    /// All workers are in use.
    pub(super) fn list(
        numbers: GranuleNumbers,
        parts: &SortedParts,
        by_order: Option<&LogContents>,
        context: &ReplayContext<'_>,
    ) -> Result<Self, RecoveryError> {
        let partitions: Vec<Mutex<Partition>> =
            (0..numbers.count.div_ceil(numbers.width)).map(|_| Mutex::default()).collect();
        run_on(context, partitions.len(), |partition, _| {
            let end = ((partition + 1) * numbers.width).min(numbers.count);
            let mut listed = Partition::list(partition * numbers.width..end, parts, partition);
            if let Some(log) = by_order {
                listed.sort_by_order(log);
            }
            *partitions[partition].lock().unwrap_or_else(PoisonError::into_inner) = listed;
            Ok(())
        })?;
        let partitions = partitions.into_iter();
        let partitions = partitions.map(|own| own.into_inner().unwrap_or_else(PoisonError::into_inner));
        Ok(Self { partitions: partitions.collect(), numbers })
    }

    /// Returns the writes to a granule of a table, oldest first.
    pub(super) fn of(&self, table: TableId, granule: usize) -> &[Place] {
        let granule = self.numbers.number_of(table, granule);
        let Partition { starts, places, .. } = &self.partitions[granule / self.numbers.width];
        let own = granule % self.numbers.width;
        &places[starts[own] as usize..starts[own + 1] as usize]
    }

    /// Returns the bytes of the writes to a granule of a table.
    pub(super) fn bytes(&self, table: TableId, granule: usize) -> u64 {
        let granule = self.numbers.number_of(table, granule);
        self.partitions[granule / self.numbers.width].bytes[granule % self.numbers.width]
    }
}

impl Partition {
    /// Lists the writes of the granules of a partition.
    fn list(granules: Range<usize>, parts: &SortedParts, partition: usize) -> Self {
        let sorted: Vec<Vec<Sorted>> = parts
            .iter()
            .map(|part| {
                let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::take(&mut part[partition])
            })
            .collect();
        let own = |write: &Sorted| write.granule as usize - granules.start;
        let (mut starts, mut bytes) = (vec![0u32; granules.len() + 1], vec![0u64; granules.len()]);
        for write in sorted.iter().flatten() {
            starts[own(write) + 1] += 1;
            bytes[own(write)] += u64::from(write.bytes);
        }
        for granule in 1..starts.len() {
            starts[granule] += starts[granule - 1];
        }
        let mut next = starts.clone();
        let count = starts.last().copied().unwrap_or(0) as usize;
        let mut places = vec![Place { record: 0, offset: 0 }; count];
        for write in sorted.iter().flatten() {
            let at = &mut next[own(write)];
            places[*at as usize] = write.place;
            *at += 1;
        }
        Self { starts, places, bytes }
    }

    /// Puts the writes of each granule in the order of their transactions.
    fn sort_by_order(&mut self, log: &LogContents) {
        let Self { starts, places, .. } = self;
        for ends in starts.windows(2) {
            places[ends[0] as usize..ends[1] as usize].sort_by_key(|place| log.order(place.record as usize));
        }
    }
}
