//! The logs of all devices: read in parallel, cut, and merged by commit order.
//!
//! Invariant: the records of every incarnation hold all acknowledged transactions, and with each of them all
//! transactions whose writes it had read. They are a prefix of the serial order; where numbers follow no
//! serial order, they are all transactions numbered up to the cut, and past it those that count alone
//! (`logging::content::Stamp`). Held by: `crates/reprise/tests/suite/crash_consistency.rs`, `histories.rs`.

mod index;

use crate::RecoveryError;
use crate::completeness::{Evidence, FoundLog, Loss, Needed};
use catalog::{CommitOrder, DecodeError, Reader};
use checkpoint::Consistency;
use index::{Counted, Index, is_of_batch, parts_of};
use logging::content::{self, LargeRecord, Record, RecordKind, Stage};
use logging::disk::{SharedDisk, seen_from};
use logging::{
    CorruptionKind, LogEnd, LogError, LogTail, LoggerLog, PepochFile, UnprovenKind, durable_up_to,
    on_threads, read_device_where, read_ends, read_large,
};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

/// The address of a record: log, batch, and offset in the batch; and its kind.
#[derive(Clone, Copy, Debug)]
struct Address {
    order: CommitOrder,
    log: u32,
    batch: u32,
    offset: u32,
    kind: RecordKind,
    /// The position among the stages of its record; 0 if the record is of one stage.
    stage: u16,
}

impl Address {
    /// Adds the record under the kinds as which it is replayed. A transaction that changes definitions is
    /// added once for each of its stages: definitions, and writes under them.
    ///
    /// # Errors
    /// More stages than a record can have.
    fn add_to(
        self,
        record: &Record<'_>,
        kinds: &mut BTreeSet<RecordKind>,
        addresses: &mut Vec<Self>,
    ) -> Result<(), DecodeError> {
        let replayed: Vec<RecordKind> = match record {
            Record::Definitions(_) => vec![RecordKind::Definition, RecordKind::Writes],
            Record::Stages(stages) => stages.stages().map(kind_of).collect(),
            _ => vec![self.kind],
        };
        for (stage, kind) in replayed.into_iter().enumerate() {
            kinds.insert(kind);
            let stage = u16::try_from(stage).map_err(|_| DecodeError)?;
            addresses.push(Self { kind, stage, ..self });
        }
        Ok(())
    }
}

fn kind_of(stage: Stage<'_>) -> RecordKind {
    match stage {
        Stage::Definitions(_) => RecordKind::Definition,
        Stage::Writes(_) => RecordKind::Writes,
    }
}

/// Sorts addresses by commit order, the stages of a transaction in their order.
fn sort(addresses: &mut [Address], threads: usize) {
    let key = |address: &Address| (address.order, address.stage, address.log, address.batch, address.offset);
    if addresses.is_sorted_by_key(key) {
        return;
    }
    let size = addresses.len().div_ceil(threads.max(1)).max(1);
    std::thread::scope(|scope| {
        addresses.chunks_mut(size).for_each(|part| drop(scope.spawn(|| part.sort_unstable_by_key(key))));
    });
    // A stable sort merges parts that are sorted.
    addresses.sort_by_key(key);
}

/// The log number of large records; their batch number is an index of `LogContents::large`.
const LARGE: u32 = u32::MAX;

/// A large record, which lies in a file of its own.
#[derive(Debug)]
struct Large {
    kind: RecordKind,
    body: Vec<u8>,
}

/// A batch of calls, which is durable as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundBatch {
    /// The order of its first call.
    pub first: CommitOrder,
    /// The order of its last call.
    pub last: CommitOrder,
    /// Number of its records.
    pub records: u32,
}

/// All logs of a database.
#[derive(Debug, Default)]
pub struct LogContents {
    logs: Vec<LoggerLog>,
    addresses: Vec<Address>,
    large: Vec<Large>,
    /// The files of large records, with the orders of these.
    pub large_files: Vec<(PathBuf, CommitOrder)>,
    /// The cut of every incarnation.
    pub cuts: BTreeMap<u64, CommitOrder>,
    /// The greatest order in any log, kept or cut.
    pub last: CommitOrder,
    /// Number of transactions past a cut; none of them was acknowledged.
    pub discarded: u64,
    /// Size of all log files, in bytes.
    pub bytes: u64,
    /// The log files by device, each with an upper bound of the orders in it.
    pub files: Vec<Vec<(PathBuf, CommitOrder)>>,
    /// The batches of calls, in commit order.
    pub batches: Vec<FoundBatch>,
    /// The kinds of the records.
    pub kinds: BTreeSet<RecordKind>,
    /// Number of committed transactions.
    pub transactions: u64,
    /// Size of the records, in bytes.
    pub record_bytes: u64,
    /// By incarnation, the ends of its logs.
    pub ends: BTreeMap<u64, Vec<LogEnd>>,
    /// The missing files that were accepted.
    pub losses: Vec<LogError>,
    /// The last order before a missing file; no transaction past it counts.
    pub complete: CommitOrder,
}

/// Reads the logs of a data folder, on several threads, at least one a device. Transactions before the bound
/// of the checkpoint are left out. Where loss is accepted and a file is missing, so are the transactions that
/// may come after those of the missing file.
///
/// # Errors
/// The disk fails; a file is damaged, missing, or of another database.
pub(crate) fn load_logs(
    disk: &SharedDisk,
    evidence: Evidence<'_>,
    accepts_loss: bool,
    threads: usize,
) -> Result<LogContents, RecoveryError> {
    let Evidence { folder, devices: folders, pepoch, .. } = evidence;
    let losses = evidence.check_markers(disk)?;
    let by_device: Vec<Result<_, LogError>> = std::thread::scope(|scope| {
        let of_device = threads.div_ceil(folders.len().max(1));
        let read = |device| scope.spawn(move || read_needed(disk, device, evidence, of_device));
        let reading: Vec<_> = (0..folders.len() as u32).map(read).collect();
        reading.into_iter().map(|thread| thread.join().expect("a reading thread does not panic")).collect()
    });
    let mut contents = LogContents { complete: CommitOrder(u64::MAX), ..LogContents::default() };
    let mut logs_of_device = Vec::new();
    for device in by_device {
        let DeviceLogs { logs, unneeded } = device?;
        logs_of_device.push((logs.len(), unneeded));
        contents.logs.extend(logs);
    }
    let counts = logs_of_device.iter().enumerate();
    let devices = counts.flat_map(|(device, (count, _))| std::iter::repeat_n(device, *count)).collect();
    contents.check(evidence, devices, losses, accepts_loss)?;
    contents.find_cuts(pepoch, |incarnation| durable_in_companions(disk, folder, pepoch, incarnation))?;
    let first = folders.first().map(PathBuf::as_path).unwrap_or(folder);
    let read = |record| Ok(read_large(disk, first, pepoch.database, record)?);
    let lasts = contents.index_records(evidence.bound(), threads, read)?;
    contents.last = lasts.iter().copied().max().unwrap_or_default();
    contents.check_batches()?;
    let mut logs = contents.logs.iter().zip(lasts);
    for (count, unneeded) in logs_of_device {
        let files = logs.by_ref().take(count);
        let files = files.flat_map(|(log, last)| log.files.iter().map(move |file| (file.clone(), last)));
        let unneeded = unneeded.into_iter().map(|file| (file, CommitOrder(0)));
        contents.files.push(unneeded.chain(files).collect());
    }
    Ok(contents)
}

/// The logs of one device.
struct DeviceLogs {
    logs: Vec<LoggerLog>,
    /// The files that recovery does not need.
    unneeded: Vec<PathBuf>,
}

/// Reads the logs of a device that recovery needs.
fn read_needed(
    disk: &SharedDisk,
    device: u32,
    evidence: Evidence<'_>,
    threads: usize,
) -> Result<DeviceLogs, LogError> {
    let folder = &evidence.devices[device as usize];
    let mut unneeded = Vec::new();
    let logs = read_device_where(disk, folder, device, threads, |id| {
        let is_needed = match evidence.needed(id.incarnation, id.logger(device)) {
            Needed::Nothing => false,
            Needed::From(first) => id.sequence >= first,
            Needed::Unknown => true,
        };
        if !is_needed {
            unneeded.push(id.path(folder));
        }
        is_needed
    })?;
    Ok(DeviceLogs { logs, unneeded })
}

/// Returns the order up to which an incarnation is durable in the logs of all companions; `None` without any.
fn durable_in_companions(
    disk: &SharedDisk,
    folder: &Path,
    pepoch: &PepochFile,
    incarnation: u64,
) -> Result<Option<CommitOrder>, LogError> {
    let mut least: Option<CommitOrder> = None;
    for companion in &pepoch.companions {
        let folder = seen_from(folder, companion);
        // A companion that was removed, or that has no such incarnation, lacks no transaction of it.
        let Some(other) = PepochFile::read(disk, &folder)? else { continue };
        let Some(own) = other.incarnations.iter().find(|own| own.number == incarnation) else { continue };
        let durable = match own.cut {
            Some(cut) => cut,
            None => {
                let mut ends = Vec::new();
                for (number, device) in other.device_folders(&folder).iter().enumerate() {
                    ends.extend(read_ends(disk, device, number as u32, incarnation)?);
                }
                durable_up_to(&ends)
            }
        };
        least = Some(least.map_or(durable, |least| least.min(durable)));
    }
    Ok(least)
}

impl LogContents {
    /// Refuses logs that are not complete, or keeps their complete beginning. `devices` has the device of
    /// each log.
    fn check(
        &mut self,
        evidence: Evidence<'_>,
        devices: Vec<usize>,
        mut losses: Vec<Loss>,
        accepts_loss: bool,
    ) -> Result<(), RecoveryError> {
        let logs = devices.into_iter().zip(&self.logs);
        let logs: Vec<_> = logs.map(|(device, log)| FoundLog { device, log }).collect();
        let before = |incarnation: u64| {
            let earlier = evidence.pepoch.incarnations.iter().filter(|known| known.number < incarnation);
            let cuts = earlier.filter_map(|known| known.cut).max().unwrap_or_default();
            cuts.max(CommitOrder(evidence.bound().0.saturating_sub(1)))
        };
        losses.extend(evidence.check_logs(&logs, before)?);
        if let Some(Loss { error, .. }) = losses.iter().find(|loss| !loss.error.can_be_accepted()) {
            return Err(error.clone().into());
        }
        if let Some(Loss { error, .. }) = losses.first().filter(|_| !accepts_loss) {
            return Err(RecoveryError::Incomplete(error.clone()));
        }
        for log in &self.logs {
            let end = LogEnd { logger: log.logger.0, file: log.sequences.1, batch: log.last_batch };
            self.ends.entry(log.incarnation).or_default().push(end);
        }
        self.complete = losses.iter().map(|loss| loss.complete).min().unwrap_or(self.complete);
        self.losses = losses.into_iter().map(|loss| loss.error).collect();
        let fuzzy = evidence.manifest.filter(|manifest| manifest.consistency == Consistency::Fuzzy);
        match (fuzzy, self.losses.first()) {
            // Its rows were read at different moments: without the log that follows they are no state of the
            // database.
            (Some(manifest), Some(error)) if self.complete < manifest.last => Err(error.clone().into()),
            _ => Ok(()),
        }
    }

    fn find_cuts(
        &mut self,
        pepoch: &PepochFile,
        in_companions: impl Fn(u64) -> Result<Option<CommitOrder>, LogError>,
    ) -> Result<(), RecoveryError> {
        let mut incarnations: BTreeMap<u64, Vec<&LoggerLog>> = BTreeMap::new();
        for log in &self.logs {
            incarnations.entry(log.incarnation).or_default().push(log);
            self.bytes += log.bytes_read;
        }
        for (incarnation, logs) in incarnations {
            let loggers = logs.iter().map(|log| log.logger.1).max().unwrap_or(0);
            let loggers = loggers.max(pepoch.of(incarnation).map_or(0, |known| known.loggers));
            let found = logs.len() as u32;
            let written = logs.iter().any(|log| !log.batches.is_empty());
            let known = pepoch.cut_of(incarnation);
            // Loggers write nothing before all of them have their files, so in a log without batches a file
            // may be missing.
            if found < loggers && written && known.is_none() && self.losses.is_empty() {
                return Err(RecoveryError::MissingDevice { incarnation, loggers, found });
            }
            let computed = if found < loggers { CommitOrder(0) } else { durable_up_to(logs.iter().copied()) };
            let cut = match known {
                Some(cut) => cut,
                None => in_companions(incarnation)?.map_or(computed, |least| least.min(computed)),
            };
            self.cuts.insert(incarnation, cut.min(self.complete));
        }
        Ok(())
    }

    /// Collects the records that count, on several threads; returns the greatest order in each log.
    fn index_records(
        &mut self,
        from: CommitOrder,
        threads: usize,
        read_large: impl Fn(LargeRecord) -> Result<(PathBuf, Vec<u8>), RecoveryError>,
    ) -> Result<Vec<CommitOrder>, RecoveryError> {
        let (parts, mut lasts) = (parts_of(&self.logs), vec![CommitOrder(0); self.logs.len()]);
        let counted = Counted { from, cuts: &self.cuts, complete: self.complete };
        let index = |part: usize| Index::of(&self.logs, &parts[part], &counted);
        let indexes: Vec<Index> =
            on_threads(threads, parts.len(), index).into_iter().collect::<Result<_, _>>()?;
        self.addresses.reserve_exact(indexes.iter().map(|index| index.addresses.len()).sum());
        let (mut large, mut committed, mut left_out) = (Vec::new(), HashSet::new(), HashSet::new());
        for (part, index) in parts.iter().zip(indexes) {
            lasts[part.log] = lasts[part.log].max(index.last);
            self.addresses.extend_from_slice(&index.addresses);
            self.kinds.extend(index.kinds);
            self.batches.extend(index.batches);
            self.transactions += index.transactions;
            self.record_bytes += index.record_bytes;
            self.discarded += index.discarded;
            large.extend(index.large);
            committed.extend(index.committed);
            left_out.extend(index.left_out);
        }
        self.discarded += left_out.len() as u64;
        for (record, mut address) in large {
            // The checkpoint holds the operations of transactions that began before it.
            if address.order < from && !committed.contains(&address.order) {
                continue;
            }
            let (file, body) = read_large(record)?;
            let malformed = |_| LogError::corrupt(&file, 0, CorruptionKind::Malformed("it is no record"));
            let found = content::read_as(record.kind, &mut Reader::new(&body)).map_err(malformed)?;
            self.record_bytes += body.len() as u64;
            (address.log, address.batch, address.kind) = (LARGE, self.large.len() as u32, record.kind);
            address.add_to(&found, &mut self.kinds, &mut self.addresses).map_err(malformed)?;
            self.large_files.push((file, address.order));
            self.large.push(Large { kind: record.kind, body });
        }
        Ok(lasts)
    }

    /// Refuses batches that lack records, and records of batches that have no end.
    fn check_batches(&mut self) -> Result<(), LogError> {
        self.batches.sort_unstable_by_key(|batch| batch.first);
        let of_batches = self.addresses.iter().filter(|address| is_of_batch(address.kind));
        let mut orders: Vec<CommitOrder> = of_batches.map(|address| address.order).collect();
        orders.sort_unstable();
        let mut left = orders.as_slice();
        for batch in &self.batches {
            let (own, later) = left.split_at(left.partition_point(|order| *order <= batch.last));
            if own.len() != batch.records as usize || own.first().is_some_and(|order| *order < batch.first) {
                return Err(self.broken_batch(batch.last));
            }
            left = later;
        }
        left.first().map_or(Ok(()), |order| Err(self.broken_batch(*order)))
    }

    /// Returns the error of a batch of which the log has only a part.
    fn broken_batch(&self, order: CommitOrder) -> LogError {
        let log = self.logs.iter().find(|log| !log.batches.is_empty());
        let file = log.and_then(|log| log.files.first()).cloned().unwrap_or_default();
        LogError::unproven(&file, 0, UnprovenKind::BrokenBatch { order })
    }

    /// Puts the records in commit order, on several threads; or, between definitions, in the order of their
    /// devices.
    pub(crate) fn arrange(&mut self, by_device: bool, threads: usize) {
        let is_definition = |address: &&Address| address.kind == RecordKind::Definition;
        let mut definitions: Vec<_> =
            self.addresses.iter().filter(is_definition).map(|own| (own.order, own.stage)).collect();
        if !by_device {
            sort(&mut self.addresses, threads);
        } else if !definitions.is_empty() {
            definitions.sort_unstable();
            // The number of definitions before the record; each definition is between two segments.
            let segment = |address: &Address| {
                let own = (address.order, address.stage);
                match address.kind {
                    RecordKind::Definition => 2 * definitions.partition_point(|known| *known < own) + 1,
                    _ => 2 * definitions.partition_point(|known| *known <= own),
                }
            };
            self.addresses.sort_by_key(segment);
        }
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Returns whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Returns the records as they are arranged: in commit order, unless the method asks for another order.
    pub fn records(&self) -> impl Iterator<Item = (CommitOrder, content::Record<'_>)> {
        (0..self.len()).map(|index| self.record(index))
    }

    /// Returns a record.
    pub fn record(&self, index: usize) -> (CommitOrder, content::Record<'_>) {
        let address = self.addresses[index];
        let record = match address.log {
            LARGE => {
                let Large { kind, body } = &self.large[address.batch as usize];
                content::read_as_again(*kind, &mut Reader::new(body))
                    .expect("it was read once when it was indexed")
            }
            log => {
                let batch = &self.logs[log as usize].batches[address.batch as usize];
                content::read_again(&mut Reader::new(&batch.records[address.offset as usize..]))
                    .expect("it was read once when it was indexed")
                    .1
            }
        };
        let record = match record {
            Record::Definitions(both) if address.kind == RecordKind::Definition => {
                Record::Definition(both.definitions)
            }
            Record::Definitions(both) => Record::Writes(both.writes),
            Record::Stages(stages) => match stages.stages().nth(address.stage.into()) {
                Some(Stage::Definitions(definitions)) => Record::Definition(definitions),
                Some(Stage::Writes(writes)) => Record::Writes(writes),
                None => unreachable!("an address names a stage that its record has"),
            },
            other => other,
        };
        (address.order, record)
    }

    /// Returns the greatest order of a record; the first of all orders when there is no record.
    pub fn last_order(&self) -> CommitOrder {
        self.addresses.iter().map(|address| address.order).max().unwrap_or_default()
    }

    /// Returns the order of a record.
    pub fn order(&self, index: usize) -> CommitOrder {
        self.addresses[index].order
    }

    /// Returns the position of a record among the stages of its transaction.
    pub(crate) fn stage(&self, index: usize) -> u16 {
        self.addresses[index].stage
    }

    /// Returns the kind of a record.
    pub fn kind(&self, index: usize) -> RecordKind {
        self.addresses[index].kind
    }

    /// Returns the indexes of definitions, and of statements that may be definitions.
    pub fn statements(&self) -> impl Iterator<Item = usize> {
        let is_one =
            |address: &Address| matches!(address.kind, RecordKind::Definition | RecordKind::Statement);
        self.addresses.iter().enumerate().filter(move |(_, address)| is_one(address)).map(|(index, _)| index)
    }

    /// Returns a definition, or a statement that may be one, with its order.
    pub(crate) fn statement(&self, index: usize) -> (CommitOrder, content::StatementRecord<'_>) {
        let (order, record) = self.record(index);
        let (Record::Definition(statement) | Record::Statement(statement)) = record else {
            unreachable!("`statements` returns the indexes of statements");
        };
        (order, statement)
    }

    /// Returns the logs, one for each incarnation and logger.
    pub fn logs(&self) -> &[LoggerLog] {
        &self.logs
    }

    /// Returns where the logs of the last incarnation were torn.
    pub fn torn(&self) -> Vec<(PathBuf, u64)> {
        let last = self.logs.iter().map(|log| log.incarnation).max();
        let torn = self.logs.iter().filter(|log| Some(log.incarnation) == last);
        torn.filter_map(|log| match &log.tail {
            LogTail::Torn { file, offset } => Some((file.clone(), *offset)),
            LogTail::Clean | LogTail::Damaged(_) => None,
        })
        .collect()
    }
}

#[cfg(test)]
impl LogContents {
    /// Makes a log of records in commit order, each without the bytes before its body.
    pub(crate) fn of_records(records: Vec<(CommitOrder, RecordKind, Vec<u8>)>) -> Self {
        let mut contents = Self::default();
        for (order, kind, body) in records {
            let batch = contents.large.len() as u32;
            contents.kinds.insert(kind);
            contents.addresses.push(Address { order, log: LARGE, batch, offset: 0, kind, stage: 0 });
            contents.large.push(Large { kind, body });
        }
        contents
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A batch counts with all of its records, and no record of a batch counts without it.
    #[test]
    fn a_batch_that_is_half_durable_is_refused() {
        let check = |orders: &[u64], batches: &[(u64, u64, u32)]| {
            let record = |order: &u64| (CommitOrder(*order), RecordKind::Vertex, Vec::new());
            let mut log = LogContents::of_records(orders.iter().map(record).collect());
            log.batches = batches
                .iter()
                .map(|(first, last, records)| FoundBatch {
                    first: CommitOrder(*first),
                    last: CommitOrder(*last),
                    records: *records,
                })
                .collect();
            log.check_batches().map_err(|error| error.to_string())
        };
        assert_eq!(check(&[10, 12, 20], &[(20, 25, 1), (10, 13, 2)]), Ok(()));
        let part = check(&[10, 20], &[(10, 13, 2), (20, 25, 1)]).unwrap_err();
        assert!(part.contains("only a part of the batch of calls"), "{part}");
        assert!(check(&[10, 12, 20], &[(10, 13, 2)]).is_err(), "its batch has no end");
        assert!(
            check(&[10, 11, 12], &[(10, 13, 2)]).is_err(),
            "the batch has more records than its end says"
        );
        assert!(check(&[9, 12], &[(10, 13, 2)]).is_err(), "a record lies before its batch");
    }

    /// Any number of threads puts records of several logs into commit order.
    #[test]
    fn threads_sort_as_one_does() {
        let kinds = [RecordKind::Writes, RecordKind::Definition];
        let address = |number: u32| Address {
            order: CommitOrder(u64::from(number.wrapping_mul(2_654_435_761) % 50)),
            log: number % 3,
            batch: number / 100,
            offset: number,
            kind: kinds[number as usize % 2],
            stage: (number % 2) as u16,
        };
        let sorted = |threads: usize| {
            let mut all: Vec<Address> = (0..200).map(address).collect();
            sort(&mut all, threads);
            all.iter().map(|own| (own.order, own.stage, own.offset)).collect::<Vec<_>>()
        };
        let one = sorted(1);
        assert!(one.is_sorted_by_key(|(order, stage, _)| (*order, *stage)));
        for threads in [0, 2, 3, 64, 500] {
            assert_eq!(sorted(threads), one, "{threads} threads");
        }
    }
}
