//! The order in which records become durable, and when a commit may be acknowledged. One file per scheme.
//! Paper: Poplar §3 (levels of constraint), §6.1 (CENTR, NVM-D, SILO, POPLAR).
//!
//! Under every scheme, a transaction that reads or overwrites another one's write has the greater number, and
//! each batch states the number up to which its logger is complete. A transaction is acknowledged once all
//! logs are durable up to its number. Under `ssn`, a transaction that has read only durable versions waits
//! for its own logger alone.

mod access_numbers;
mod clock;
mod durability;
mod epoch;
mod group;
mod gsn;
#[cfg(all(test, any(loom, shuttle)))]
mod model;
mod numbering;
mod numbers;
mod queue;
mod serial;
mod ssn;

pub use access_numbers::{AccessNumbers, Readable};
pub use durability::Durability;
pub(crate) use durability::DurableBuffer;
pub use numbering::{Drawn, Footprint, Numbered, Numbering, Observed};
pub use numbers::{Csn, Dsn, Gsn, Lsn, Ssn};
pub use queue::CommitQueue;
pub use ssn::LoggerTag;

use crate::buffer::LogBuffer;
use crate::content::{Content, Images};
use crate::disk::SharedDisk;
use crate::error::LogError;
use crate::files::LogRange;
use crate::identity::DatabaseId;
use crate::log_set::LogSet;
use crate::logger::{LogConfig, LogStatistics};
use crate::pepoch::{LogEnd, PepochKeeper};
use catalog::CommitOrder;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Poll, Waker};
use storage::{Epochs, Slot};

/// The sequencing of a database.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Sequencing {
    /// One order drawn from one clock, one buffer, one device: CENTR.
    Serial,
    /// By epochs: a commit is acknowledged when every logger has made its epoch durable: SiloR.
    #[default]
    Epoch,
    /// Numbers follow the reads and overwrites of other transactions' writes; one buffer per device: Poplar.
    Ssn,
    /// Numbers also follow overwrites of versions that other transactions have read; one log per worker,
    /// which writes it itself: NVM-D.
    Gsn,
}

/// The sequencing does not support the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InvalidSequencing {
    /// Command records are replayed in a serial order.
    #[error(
        "{0} records are replayed in a serial order, and ssn does not order who overwrites what another \
         one has read: take serial, epoch or gsn, or log logical or physical records"
    )]
    SsnOrdersNoReads(Content),
    /// The operations and the outcome of a transaction get numbers from one clock.
    #[error("physiological records are numbered by one clock: take serial or epoch")]
    GsnOfOperations,
    /// Replay takes the last writer's row; without the whole row, columns could be missing.
    #[error(
        "under ssn the last writer of a row wins, so it must be logged whole: changed columns are not \
         supported"
    )]
    SsnOfColumns,
    /// A batch is durable as a whole, which only epochs can say.
    #[error("{0} records are durable by batches, whose numbers end with an epoch: take epoch")]
    EpochOfBatches(Content),
    /// There is one buffer.
    #[error("serial writes one log to one device, not to {0}: use another sequencing, or one log device")]
    SerialDevices(usize),
}

/// A sequencing: how it is called, numbers transactions, writes its log, and what it can log.
struct Entry {
    /// Its name on the command line.
    name: &'static str,
    numbering: &'static dyn Numbering,
    start: fn(LogStart<'_>) -> Result<Box<dyn Log>, LogError>,
    /// Returns why it does not support a content with such images.
    refuses: fn(Content, Images) -> Option<InvalidSequencing>,
    most_devices: usize,
}

/// All sequencings: a new one is a file, and a line here.
const TABLE: [(Sequencing, Entry); 4] = [
    (Sequencing::Serial, serial::SERIAL),
    (Sequencing::Epoch, epoch::EPOCH),
    (Sequencing::Ssn, ssn::SSN),
    (Sequencing::Gsn, gsn::GSN),
];
static ENTRIES: [(Sequencing, Entry); TABLE.len()] = TABLE;

impl Sequencing {
    /// All sequencings, as the command line names them.
    pub const NAMES: [(&str, Self); TABLE.len()] = {
        let mut names = [("", Self::Serial); TABLE.len()];
        let mut index = 0;
        while index < TABLE.len() {
            names[index] = (TABLE[index].1.name, TABLE[index].0);
            index += 1;
        }
        names
    };

    fn entry(self) -> &'static Entry {
        let found = ENTRIES.iter().find(|(sequencing, _)| *sequencing == self);
        found.map(|(_, entry)| entry).expect("each sequencing is in the table")
    }

    /// Returns the numbering of its transactions.
    pub fn numbering(self) -> &'static dyn Numbering {
        self.entry().numbering
    }

    /// Checks that a content can be logged in this order.
    ///
    /// # Errors
    /// The sequencing does not support the content.
    pub fn admits(self, content: Content, images: Images) -> Result<(), InvalidSequencing> {
        (self.entry().refuses)(content, images).map_or(Ok(()), Err)
    }

    /// Checks that it can write to this many devices.
    ///
    /// # Errors
    /// The sequencing does not support this many devices.
    pub fn admits_devices(self, devices: usize) -> Result<(), InvalidSequencing> {
        match devices > self.entry().most_devices {
            true => Err(InvalidSequencing::SerialDevices(devices)),
            false => Ok(()),
        }
    }
}

impl FromStr for Sequencing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = ENTRIES.iter().find(|(_, entry)| entry.name == text);
        found.map(|(sequencing, _)| *sequencing).ok_or_else(|| {
            let known = Self::NAMES.map(|(name, _)| name).join(", ");
            format!("unknown sequencing \"{text}\"; known are: {known}")
        })
    }
}

impl fmt::Display for Sequencing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.entry().name)
    }
}

/// The condition under which a transaction is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Commit {
    /// All logs are durable up to this number.
    pub number: CommitOrder,
    /// The worker in whose log the record is.
    pub worker: Slot,
    /// Whether only that log has to be durable up to the number.
    pub alone: bool,
}

impl Commit {
    /// Returns a commit that waits until all logs are durable up to a number.
    pub fn of_all(number: CommitOrder) -> Self {
        // No worker has this slot, so no worker's log is preferred.
        Self { number, worker: Slot(usize::MAX), alone: false }
    }

    /// Returns a commit that waits for this one and for another one.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let alone = self.alone && other.alone && self.worker == other.worker;
        Self { number: self.number.max(other.number), alone, ..other }
    }
}

/// A log of an open database.
pub trait Log: Send + Sync + fmt::Debug {
    /// Prepares for the records of a worker, before its first.
    ///
    /// # Errors
    /// A device is full, or fails.
    fn add_worker(&self, _worker: Slot) -> Result<(), LogError> {
        Ok(())
    }

    /// Returns the buffer of a worker's records.
    fn buffer(&self, worker: Slot) -> &LogBuffer;

    /// Returns the tag of a worker's logger, if numbers carry tags.
    fn tag(&self, _worker: Slot) -> Option<LoggerTag> {
        None
    }

    /// Returns the size of the largest record, in bytes.
    fn largest_record(&self) -> usize;

    /// Makes room in a worker's full buffer, or waits until there is some.
    ///
    /// # Errors
    /// The log has failed.
    fn make_room(&self, worker: Slot) -> Result<(), LogError>;

    /// Notes that a worker's transaction has ended and unlocked its rows. Where workers write their own logs,
    /// this writes the log.
    ///
    /// # Errors
    /// The log has failed.
    #[inline]
    fn ended(&self, _worker: Slot) -> Result<(), LogError> {
        Ok(())
    }

    /// Writes records whose worker gave up for want of room, if there is room now. Where loggers write, they
    /// don't give up.
    fn write_what_is_left(&self) {}

    /// Returns the durability of all loggers.
    fn durability(&self) -> &Durability;

    /// Returns the number up to which a worker's log is durable.
    fn durable_of(&self, worker: Slot) -> Dsn;

    /// Returns once a commit may be acknowledged.
    ///
    /// # Errors
    /// The log has failed before that.
    fn wait(&self, commit: Commit) -> Result<(), LogError>;

    /// Returns whether a commit may be acknowledged. If not, wakes the task when that may have changed. Where
    /// the waiting thread flushes commits itself, returns once the commit is durable.
    ///
    /// # Errors
    /// The log has failed before that.
    fn poll(&self, commit: Commit, _waker: &Waker) -> Result<bool, LogError> {
        self.wait(commit).map(|()| true)
    }

    /// Returns the greatest number of any record, or that a commit waits for.
    fn newest(&self) -> CommitOrder;

    /// Makes `wait` and `poll` return for a number that possibly no record has.
    fn expect(&self, _number: CommitOrder) {}

    /// Returns once all logs are durable up to a number, whether or not a record has it; later numbers are
    /// greater.
    ///
    /// # Errors
    /// The log has failed before that.
    fn complete(&self, number: CommitOrder) -> Result<(), LogError>;

    /// Returns the ranges of the logs that a checkpoint with this bound needs.
    fn ranges_from(&self, bound: CommitOrder) -> Vec<LogRange>;

    /// Recycles the files that the newest checkpoint does not need, among those that existed when it asked
    /// for its ranges.
    ///
    /// # Errors
    /// A device fails.
    fn release(&self, needed: &[LogRange]) -> Result<(), LogError>;

    /// Makes all records durable and ends the loggers, which are not used afterwards. Returns the ends of
    /// their logs, unless one has failed.
    fn close(&mut self) -> Option<Vec<LogEnd>>;

    /// Notes that a session is saturated: it submits as fast as it can.
    fn note_saturation(&self) {}

    /// Calls a function with the folder of each logger, and the amounts that it has written since the
    /// database was opened.
    fn for_each_logger(&self, see: &mut dyn FnMut(&Path, LogStatistics));
}

impl dyn Log + '_ {
    /// Returns the amounts written since the database was opened, summed over all loggers.
    pub fn statistics(&self) -> LogStatistics {
        let mut sum = LogStatistics::default();
        self.for_each_logger(&mut |_, own| sum.add(own));
        sum
    }

    /// Returns the amounts written since the database was opened, by folder.
    pub fn devices(&self) -> Vec<(PathBuf, LogStatistics)> {
        let mut devices: Vec<(PathBuf, LogStatistics)> = Vec::new();
        self.for_each_logger(
            &mut |folder, own| match devices.iter_mut().find(|(known, _)| known == folder) {
                Some((_, sum)) => sum.add(own),
                None => devices.push((folder.into(), own)),
            },
        );
        devices
    }

    /// Returns the number up to which all loggers are durable.
    #[inline]
    pub fn durable(&self) -> Csn {
        self.durability().number()
    }

    /// Fails unless commits are accepted.
    ///
    /// # Errors
    /// The log has failed, or can't grow for now.
    #[inline]
    pub fn check(&self) -> Result<(), LogError> {
        self.check_failed()?;
        self.durability().shortage.admit().or_else(|_| {
            self.write_what_is_left();
            self.durability().shortage.admit()
        })
    }

    /// Fails if the log has failed. A lack of room is not a failure.
    ///
    /// # Errors
    /// The log has failed.
    #[inline]
    pub fn check_failed(&self) -> Result<(), LogError> {
        self.durability().poison.check()
    }

    /// Returns whether it is known if the log can grow; otherwise wakes `waker` once it is.
    pub fn poll_known(&self, waker: &Waker) -> Poll<()> {
        self.durability().shortage.poll_known(waker)
    }

    /// Returns whether it is still unknown if transactions that write must be refused.
    #[inline]
    pub fn is_in_doubt(&self) -> bool {
        self.durability().shortage.is_in_doubt()
    }

    /// Keeps loggers that lack room from taking a checkpoint's room, for as long as the guard lives.
    pub fn leave_room(&self) -> impl Sized + '_ {
        self.durability().shortage.rest()
    }

    /// Returns whether a commit may be acknowledged.
    #[inline]
    pub fn is_durable(&self, commit: Commit) -> bool {
        self.durable().covers(commit.number)
            || commit.alone && self.durable_of(commit.worker).covers(commit.number)
    }

    /// Refuses a record that no buffer holds.
    ///
    /// # Errors
    /// `RecordTooLarge`.
    #[inline]
    pub fn check_size(&self, bytes: usize) -> Result<(), LogError> {
        let limit = self.largest_record();
        if bytes > limit {
            return Err(LogError::RecordTooLarge { bytes, limit });
        }
        Ok(())
    }

    /// Copies a sealed record into the worker's buffer, and raises the buffer's number to the record's. Waits
    /// only while the buffer is full.
    ///
    /// # Errors
    /// The log has failed. `RecordTooLarge`: no buffer ever has room for the record.
    #[inline]
    pub fn append(&self, worker: Slot, record: &[u8], number: CommitOrder) -> Result<(), LogError> {
        self.check_size(record.len())?;
        let buffer = self.buffer(worker);
        while !buffer.try_append(record, number) {
            self.make_room(worker)?;
        }
        Ok(())
    }

    /// Returns once the worker's buffer has room for a record, though another worker may take it.
    ///
    /// # Errors
    /// The log has failed, or can't grow for now.
    #[inline]
    pub fn wait_for_room(&self, worker: Slot, bytes: usize) -> Result<(), LogError> {
        while !self.buffer(worker).has_room(bytes) {
            self.check()?;
            self.make_room(worker)?;
        }
        Ok(())
    }
}

/// Returns the last number that the clock has passed.
fn before(epochs: &Epochs) -> CommitOrder {
    CommitOrder(epochs.next_order().0 - 1)
}

impl LogSet {
    /// Returns the greatest of `clock` and of the numbers of all logs.
    fn greatest(&self, clock: CommitOrder) -> CommitOrder {
        self.logs.iter().fold(clock, |greatest, own| greatest.max(own.log.newest()))
    }
}

/// The start state of the log of an incarnation.
#[derive(Debug)]
pub struct LogStart<'a> {
    /// The configuration of the log.
    pub config: &'a LogConfig,
    /// The folders of its devices.
    pub folders: &'a [PathBuf],
    /// The disk of the devices.
    pub disk: &'a SharedDisk,
    /// The database of the log.
    pub database: DatabaseId,
    /// The pepoch file that names the log's files.
    pub pepoch: &'a Arc<PepochKeeper>,
    /// The number of this opening of the database.
    pub incarnation: u64,
    /// The clock, which is above every order in the logs.
    pub epochs: &'a Arc<Epochs>,
    /// The files of earlier incarnations, with the greatest number in each, by device.
    pub retired: Vec<Vec<(PathBuf, CommitOrder)>>,
    /// Files of earlier incarnations without a batch, by device, for reuse.
    pub empty: Vec<Vec<PathBuf>>,
}

impl LogStart<'_> {
    /// Returns the number before which all orders are past.
    fn number(&self) -> CommitOrder {
        CommitOrder(CommitOrder::first_of(self.epochs.current()).0 - 1)
    }
}

/// Starts the log of an incarnation.
///
/// # Errors
/// A device is full, or fails; the files asked for are too small.
pub fn start(sequencing: Sequencing, start: LogStart<'_>) -> Result<Box<dyn Log>, LogError> {
    start.config.check()?;
    (sequencing.entry().start)(start)
}
