//! The logs of all devices: read in parallel, cut, and merged by commit order.
//!
//! Invariant: what is returned of every incarnation holds all acknowledged transactions, and with each all
//! those whose writes it had read: a prefix of the serial order, or, where numbers follow no serial order,
//! everything numbered up to the cut and what counts alone past it (`logging::content::Stamp`).

use crate::RecoveryError;
use crate::completeness::{Evidence, FoundLog, Loss, Needed};
use catalog::{CommitOrder, Reader};
use checkpoint::Consistency;
use logging::content::{self, LargeRecord, Outcome, Record, RecordKind};
use logging::disk::{SharedDisk, seen_from};
use logging::{
    CorruptionKind, LogEnd, LogError, LogTail, LoggerLog, PepochFile, UnprovenKind, durable_up_to,
    read_device_where, read_ends, read_large,
};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

/// Where a record is: log, batch, byte in it; and what it is.
#[derive(Clone, Copy, Debug)]
struct Place {
    order: CommitOrder,
    log: u32,
    batch: u32,
    offset: u32,
    kind: RecordKind,
}

impl Place {
    /// Adds the record as what it is replayed. A transaction that changes definitions stands at two places:
    /// for these, and for what it wrote under them.
    fn add_to(self, kinds: &mut BTreeSet<RecordKind>, places: &mut Vec<Self>) {
        let replayed: &[RecordKind] = match &self.kind {
            RecordKind::Definitions => &[RecordKind::Definition, RecordKind::Writes],
            one => std::slice::from_ref(one),
        };
        kinds.extend(replayed);
        places.extend(replayed.iter().map(|kind| Self { kind: *kind, ..self }));
    }
}

/// The log of records that lie in files of their own: their place is one of those.
const LARGE: u32 = u32::MAX;

/// A record that lies in a file of its own.
#[derive(Debug)]
struct Large {
    kind: RecordKind,
    body: Vec<u8>,
}

/// All logs of a database.
#[derive(Debug, Default)]
pub struct LogContents {
    logs: Vec<LoggerLog>,
    places: Vec<Place>,
    large: Vec<Large>,
    /// Files of records that lie in files of their own, with the orders of those.
    pub large_files: Vec<(PathBuf, CommitOrder)>,
    /// The cut of every incarnation.
    pub cuts: BTreeMap<u64, CommitOrder>,
    /// The greatest order that is mentioned anywhere.
    pub last: CommitOrder,
    /// Transactions past a cut: they were never acknowledged, and they stay unheard.
    pub discarded: u64,
    /// Bytes of all log files.
    pub bytes: u64,
    /// Log files by device, with the greatest order that each may hold.
    pub files: Vec<Vec<(PathBuf, CommitOrder)>>,
    /// What the records are.
    pub kinds: BTreeSet<RecordKind>,
    /// Transactions that committed.
    pub transactions: u64,
    /// Bytes of the records.
    pub record_bytes: u64,
    /// How the logs of each incarnation end.
    pub ends: BTreeMap<u64, Vec<LogEnd>>,
    /// What is missing, and was accepted to be.
    pub losses: Vec<LogError>,
    /// Nothing past this counts, because something is missing.
    pub complete: CommitOrder,
}

/// Reads the logs of a data folder. Transactions before `from` are left out. Where something is missing, and
/// that is accepted, so are those after the first that may be missing.
///
/// # Errors
/// The disk fails; a file is damaged, missing, or of another database.
pub(crate) fn load_logs(
    disk: &SharedDisk,
    evidence: Evidence<'_>,
    from: CommitOrder,
    accepts_loss: bool,
) -> Result<LogContents, RecoveryError> {
    let Evidence { folder, devices: folders, pepoch, .. } = evidence;
    let losses = evidence.check_markers(disk)?;
    let by_device: Vec<Result<_, LogError>> = std::thread::scope(|scope| {
        let devices = folders.iter().enumerate();
        let reading: Vec<_> = devices
            .map(|(device, folder)| scope.spawn(move || read_needed(disk, (device as u32, folder), evidence)))
            .collect();
        reading.into_iter().map(|thread| thread.join().expect("reading does not panic")).collect()
    });
    let mut contents = LogContents { complete: CommitOrder(u64::MAX), ..LogContents::default() };
    let mut logs_of_device = Vec::new();
    for device in by_device {
        let (logs, unneeded) = device?;
        logs_of_device.push((logs.len(), unneeded));
        contents.logs.extend(logs);
    }
    contents.check(evidence, &logs_of_device, losses, (from, accepts_loss))?;
    contents.find_cuts(pepoch, |incarnation| durable_in_companions(disk, folder, pepoch, incarnation))?;
    let first = folders.first().map(PathBuf::as_path).unwrap_or(folder);
    let read = |record| Ok(read_large(disk, first, pepoch.database, record)?);
    let lasts = contents.index_records(from, read)?;
    contents.last = lasts.iter().copied().max().unwrap_or_default();
    let mut logs = contents.logs.iter().zip(lasts);
    for (count, unneeded) in logs_of_device {
        let files = logs.by_ref().take(count);
        let files = files.flat_map(|(log, last)| log.files.iter().map(move |file| (file.clone(), last)));
        let unneeded = unneeded.into_iter().map(|file| (file, CommitOrder(0)));
        contents.files.push(unneeded.chain(files).collect());
    }
    Ok(contents)
}

/// Reads the logs of a device that recovery needs; returns the files of the others, too.
fn read_needed(
    disk: &SharedDisk,
    (device, folder): (u32, &Path),
    evidence: Evidence<'_>,
) -> Result<(Vec<LoggerLog>, Vec<PathBuf>), LogError> {
    let mut unneeded = Vec::new();
    let logs = read_device_where(disk, folder, device, |id| {
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
    Ok((logs, unneeded))
}

/// Up to which order everything of an incarnation is durable in the logs of all companions that there are.
fn durable_in_companions(
    disk: &SharedDisk,
    folder: &Path,
    pepoch: &PepochFile,
    incarnation: u64,
) -> Result<Option<CommitOrder>, LogError> {
    let mut least: Option<CommitOrder> = None;
    for companion in &pepoch.companions {
        let folder = seen_from(folder, companion);
        // One that is gone, or of another incarnation, lacks nothing that counts here.
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

/// Whether a record says that a transaction committed.
fn is_a_commit(record: &Record<'_>) -> bool {
    match record {
        Record::Outcome(outcome) => outcome.committed,
        Record::Operation(_) => false,
        Record::Large(own) => own.kind != RecordKind::Operation,
        _ => true,
    }
}

impl LogContents {
    /// Refuses logs that are not complete, or takes what is complete.
    fn check(
        &mut self,
        evidence: Evidence<'_>,
        logs_of_device: &[(usize, Vec<PathBuf>)],
        mut losses: Vec<Loss>,
        (from, accepts_loss): (CommitOrder, bool),
    ) -> Result<(), RecoveryError> {
        let counts = logs_of_device.iter().enumerate();
        let devices = counts.flat_map(|(device, (count, _))| std::iter::repeat_n(device, *count));
        let logs: Vec<_> = devices.zip(&self.logs).map(|(device, log)| FoundLog { device, log }).collect();
        let before = |incarnation: u64| {
            let earlier = evidence.pepoch.incarnations.iter().filter(|own| own.number < incarnation);
            let cuts = earlier.filter_map(|own| own.cut).max().unwrap_or_default();
            cuts.max(CommitOrder(from.0.saturating_sub(1)))
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
        let of_many_moments = evidence.manifest.filter(|own| own.consistency == Consistency::Fuzzy);
        match (of_many_moments, self.losses.first()) {
            // Its rows are of different moments: without the log that follows they are no state that ever
            // was.
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
            // Loggers write nothing before all of them have their files, so a log without batches may be
            // short of one.
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

    /// Finds the records that count; returns the greatest order that each log mentions.
    fn index_records(
        &mut self,
        from: CommitOrder,
        read_large: impl Fn(LargeRecord) -> Result<(PathBuf, Vec<u8>), RecoveryError>,
    ) -> Result<Vec<CommitOrder>, RecoveryError> {
        let mut lasts = Vec::new();
        // Records in files of their own, and the transactions that committed after the checkpoint.
        let (mut large, mut committed) = (Vec::new(), HashSet::new());
        for (log_place, log) in self.logs.iter().enumerate() {
            let cut = self.cuts[&log.incarnation];
            let mut last = CommitOrder(0);
            for (batch_place, batch) in log.batches.iter().enumerate() {
                let mut reader = Reader::new(&batch.records);
                last = last.max(batch.completed).max(batch.vouched);
                while reader.remaining() > 0 {
                    let offset = batch.records.len() - reader.remaining();
                    let (stamp, kind, record) = content::read(&mut reader).map_err(|_| {
                        let kind = CorruptionKind::Malformed("a record of this batch is malformed");
                        LogError::corrupt(&batch.file, batch.offset, kind)
                    })?;
                    let order = stamp.order;
                    last = last.max(order);
                    let bytes = batch.records.len() - reader.remaining() - offset;
                    let is_operation = match &record {
                        Record::Large(own) => own.kind == RecordKind::Operation,
                        _ => kind == RecordKind::Operation,
                    };
                    if order > cut && !stamp.alone || order > self.complete {
                        self.discarded += u64::from(is_a_commit(&record));
                    } else if order >= from || is_operation {
                        if order >= from && log.semantics != procedure::SEMANTICS {
                            let (written, known) = (log.semantics, procedure::SEMANTICS);
                            let kind = UnprovenKind::OtherSemantics { written, known };
                            return Err(LogError::unproven(&batch.file, batch.offset, kind).into());
                        }
                        // An operation is logged before its transaction draws the order that it commits at.
                        let (log, batch) = (log_place as u32, batch_place as u32);
                        self.record_bytes += bytes as u64;
                        self.transactions += u64::from(is_a_commit(&record));
                        let place = Place { order, log, batch, offset: offset as u32, kind };
                        match record {
                            Record::Large(own) => {
                                large.push((own, place));
                                continue;
                            }
                            Record::Outcome(Outcome { transaction, committed: true }) => {
                                committed.insert(transaction);
                            }
                            _ => {}
                        }
                        place.add_to(&mut self.kinds, &mut self.places);
                    }
                }
            }
            lasts.push(last);
        }
        for (own, mut place) in large {
            // The checkpoint holds the operations of transactions that began before it.
            if place.order < from && !committed.contains(&place.order) {
                continue;
            }
            let (file, body) = read_large(own)?;
            self.record_bytes += body.len() as u64;
            self.large_files.push((file, place.order));
            self.large.push(Large { kind: own.kind, body });
            (place.log, place.batch, place.kind) = (LARGE, self.large.len() as u32 - 1, own.kind);
            place.add_to(&mut self.kinds, &mut self.places);
        }
        Ok(lasts)
    }

    /// Puts the records in commit order; or, between definitions, as they lie on their devices.
    pub(crate) fn arrange(&mut self, by_device: bool) {
        let is_definition = |place: &&Place| place.kind == RecordKind::Definition;
        let mut definitions: Vec<_> = self.places.iter().filter(is_definition).map(|own| own.order).collect();
        if !by_device {
            let is_later = |place: &Place| place.kind != RecordKind::Definition;
            self.places.sort_unstable_by_key(|place| {
                (place.order, is_later(place), place.log, place.batch, place.offset)
            });
        } else if !definitions.is_empty() {
            definitions.sort_unstable();
            // How many definitions come before it; each of those is between two segments.
            let segment = |place: &Place| match place.kind {
                RecordKind::Definition => 2 * definitions.partition_point(|order| *order < place.order) + 1,
                _ => 2 * definitions.partition_point(|order| *order <= place.order),
            };
            self.places.sort_by_key(segment);
        }
    }

    /// Transactions to replay.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is nothing to replay.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The records, as they are arranged: in commit order where nothing else is said.
    pub fn records(&self) -> impl Iterator<Item = (CommitOrder, content::Record<'_>)> {
        (0..self.len()).map(|place| self.record(place))
    }

    /// The record at a place.
    pub fn record(&self, place: usize) -> (CommitOrder, content::Record<'_>) {
        let place = self.places[place];
        let record = match place.log {
            LARGE => {
                let Large { kind, body } = &self.large[place.batch as usize];
                content::read_as(*kind, &mut Reader::new(body))
                    .expect("a checksum has shown that it is what was written")
            }
            log => {
                let batch = &self.logs[log as usize].batches[place.batch as usize];
                content::read_again(&mut Reader::new(&batch.records[place.offset as usize..]))
                    .expect("what was read once while it was indexed is read again")
                    .1
            }
        };
        let record = match record {
            Record::Definitions(own) if place.kind == RecordKind::Definition => {
                Record::Definition(own.definitions)
            }
            Record::Definitions(own) => Record::Writes(own.writes),
            other => other,
        };
        (place.order, record)
    }

    /// The order of the last record; the first of all orders when there is none.
    pub fn last_order(&self) -> CommitOrder {
        self.places.iter().map(|place| place.order).max().unwrap_or_default()
    }

    /// The order of the record at a place.
    pub fn order(&self, place: usize) -> CommitOrder {
        self.places[place].order
    }

    /// What the record at a place is.
    pub fn kind(&self, place: usize) -> RecordKind {
        self.places[place].kind
    }

    /// The places of definitions, and of statements that may be some.
    pub fn statements(&self) -> impl Iterator<Item = usize> {
        let is_one = |place: &Place| matches!(place.kind, RecordKind::Definition | RecordKind::Statement);
        self.places.iter().enumerate().filter(move |(_, own)| is_one(own)).map(|(place, _)| place)
    }

    /// The logs, one an incarnation and device.
    pub fn logs(&self) -> &[LoggerLog] {
        &self.logs
    }

    /// Where the last incarnation's logs were torn.
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
    /// A log of records in commit order, each without what stands before its body.
    pub(crate) fn of_records(records: Vec<(CommitOrder, RecordKind, Vec<u8>)>) -> Self {
        let mut contents = Self::default();
        for (order, kind, body) in records {
            let batch = contents.large.len() as u32;
            contents.kinds.insert(kind);
            contents.places.push(Place { order, log: LARGE, batch, offset: 0, kind });
            contents.large.push(Large { kind, body });
        }
        contents
    }
}
