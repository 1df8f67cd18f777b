//! The pepoch file: the incarnations of the database, and the commit order at which each earlier log was cut.
//! Paper: PACMAN §2.1, SiloR (the persistent epoch). Differs: a running log stores its durable epoch in its
//! batches, so that one fdatasync makes a commit durable. This file holds the cuts of past recoveries, and
//! the facts that prove the other files complete.
//!
//! Text, so that an operator can read it. Lines: the version; `database` and its number; `checkpoint` and the
//! number of the newest one, where there is one; `unmarked` while devices may lack their markers; for each
//! incarnation `incarnation`, its number, `cut` and a commit order (`epoch.sequence`) or `open`, `ends` and
//! for each logger `logger:file:batch`: its newest file, and once the incarnation is over its newest batch;
//! `device` and its folder for each; `companion` and its folder for each; `checksum`. This is the only
//! description of that layout.
//!
//! | version | differs from the next one |
//! |---|---|
//! | 1 | cuts are epochs |
//! | 2 | no `database`, `checkpoint`, `unmarked`, `ends`; `loggers`, and their count for logs of workers |
//!
//! Beside it lies the file `reserve`, which only reserves room. On a full disk it is removed for the next
//! version of the pepoch file, so that a log can begin a next file that was made in time. It also makes room
//! for the first log files of an incarnation.
//!
//! Invariants: 1. the file is replaced in one step. 2. it lists an incarnation before that incarnation makes
//! a file, and a file before the file has a batch. It names a checkpoint before any file is removed that only
//! earlier checkpoints need.
//! After a crash: the file before or after a step; both are valid.
//! Held by: `altered_files`, `a_crash_at_every_call_loses_nothing` (crates/reprise).

use crate::disk::{SharedDisk, ZEROS, read_whole, replace};
use crate::error::LogError;
use crate::identity::DatabaseId;
use crate::sealed::{Malformed, malformed, seal, unseal};
use catalog::{CommitOrder, Epoch};
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const NAME: &str = "pepoch";
const RESERVE: &str = "reserve";
/// Size of the reserve, in bytes: enough for a pepoch file and the smallest log files of some devices.
const RESERVE_BYTES: usize = 128 << 10;
const FIRST_LINE: &str = "reprise pepoch 3";
const FIRST_LINE_WITHOUT_DATABASE: &str = "reprise pepoch 2";
const FIRST_LINE_OF_EPOCHS: &str = "reprise pepoch 1";

/// The known end of a logger's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogEnd {
    /// The logger.
    pub logger: u32,
    /// The sequence of its newest file.
    pub file: u64,
    /// Its newest batch; 0 when it has none, or the incarnation is not over.
    pub batch: u64,
}

/// One opening of the database.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Incarnation {
    /// Counts from 1.
    pub number: u64,
    /// Records past this order do not count, unless they count alone; `None` while the incarnation runs.
    pub cut: Option<CommitOrder>,
    /// Minimum number of loggers, known from version 2 only; 0 otherwise.
    pub loggers: u32,
    /// Lower bounds of the loggers' ends; empty before version 3.
    pub ends: Vec<LogEnd>,
}

impl Incarnation {
    /// Returns whether the log is known to end where `ends` says.
    pub fn is_over(&self) -> bool {
        self.ends.iter().any(|end| end.batch > 0)
    }

    /// Notes that a logger has begun a file.
    pub(crate) fn begin_file(&mut self, logger: u32, file: u64) {
        match self.ends.iter_mut().find(|end| end.logger == logger) {
            Some(end) => end.file = file,
            None => self.ends.push(LogEnd { logger, file, batch: 0 }),
        }
    }

    /// Returns the known end of a logger's log.
    pub fn end_of(&self, logger: u32) -> Option<&LogEnd> {
        self.ends.iter().find(|end| end.logger == logger)
    }
}

fn number<N: std::str::FromStr>(word: &str) -> Result<N, Malformed> {
    word.parse().map_err(|_| malformed("a number is expected"))
}

fn order(word: &str, counts_epochs: bool) -> Result<CommitOrder, Malformed> {
    match word.split_once('.') {
        Some((epoch, sequence)) => {
            let sequence: u64 = number(sequence)?;
            Ok(CommitOrder(CommitOrder::first_of(Epoch(number(epoch)?)).0 + sequence))
        }
        None if counts_epochs => Ok(CommitOrder::last_of(Epoch(number(word)?))),
        None => Err(malformed("a commit order is expected")),
    }
}

impl Incarnation {
    fn parse(line: &str, counts_epochs: bool) -> Result<Self, Malformed> {
        let unknown = || malformed("a line is not known");
        let mut words = line.split(' ');
        let mut incarnation = Self { number: number(words.next().unwrap_or(""))?, ..Self::default() };
        match words.next() {
            Some("cut") => incarnation.cut = Some(order(words.next().unwrap_or(""), counts_epochs)?),
            Some("open") => {}
            _ => return Err(unknown()),
        }
        while let Some(word) = words.next() {
            match word {
                "loggers" => incarnation.loggers = number(words.next().unwrap_or(""))?,
                "ends" => {
                    for word in words.by_ref() {
                        let mut numbers = word.split(':');
                        let mut next = || numbers.next().unwrap_or("");
                        let logger = number(next())?;
                        incarnation.ends.push(LogEnd {
                            logger,
                            file: number(next())?,
                            batch: number(next())?,
                        });
                    }
                }
                _ => return Err(unknown()),
            }
        }
        Ok(incarnation)
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.number)?;
        match self.cut {
            Some(cut) => write!(f, "cut {cut}")?,
            None => f.write_str("open")?,
        }
        if self.loggers > 0 {
            write!(f, " loggers {}", self.loggers)?;
        }
        if !self.ends.is_empty() {
            f.write_str(" ends")?;
        }
        self.ends.iter().try_for_each(|end| write!(f, " {}:{}:{}", end.logger, end.file, end.batch))
    }
}

/// The file's contents.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PepochFile {
    /// The number of the database; unknown in folders that older releases made.
    pub database: DatabaseId,
    /// The number of the newest checkpoint or an earlier one; 0 when there may be none.
    pub checkpoint: u64,
    /// Whether devices may lack their markers.
    pub is_unmarked: bool,
    /// Incarnations whose logs may still exist, oldest first.
    pub incarnations: Vec<Incarnation>,
    /// Folders of the log devices, as they were configured.
    pub devices: Vec<PathBuf>,
    /// Data folders, relative to this one, whose logs record the same transactions in the last incarnation. A
    /// record that is missing in one of them counts in none.
    pub companions: Vec<PathBuf>,
}

impl PepochFile {
    /// The path of the file in a data folder.
    pub fn path(folder: &Path) -> PathBuf {
        folder.join(NAME)
    }

    /// Reads the file of a data folder; `None` when there is none.
    ///
    /// # Errors
    /// The disk fails; the file is damaged.
    pub fn read(disk: &SharedDisk, folder: &Path) -> Result<Option<Self>, LogError> {
        let path = Self::path(folder);
        let bytes = match read_whole(&**disk, &path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LogError::io("read", &path, error)),
        };
        Self::parse(&bytes).map(Some).map_err(|(offset, kind)| LogError::corrupt(&path, offset, kind))
    }

    fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut lines = unseal(bytes)?.lines();
        let counts_epochs = match lines.next() {
            Some(FIRST_LINE | FIRST_LINE_WITHOUT_DATABASE) => false,
            Some(FIRST_LINE_OF_EPOCHS) => true,
            _ => return Err(malformed("the format version is not known")),
        };
        let mut file = Self::default();
        for line in lines {
            let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
            match name {
                "database" => {
                    file.database = rest.parse().map_err(|_| malformed("the database has no number"))?
                }
                "checkpoint" => file.checkpoint = number(rest)?,
                "unmarked" => file.is_unmarked = true,
                "incarnation" => file.incarnations.push(Incarnation::parse(rest, counts_epochs)?),
                "device" => file.devices.push(rest.into()),
                "companion" => file.companions.push(rest.into()),
                _ => return Err(malformed("a line is not known")),
            }
        }
        Ok(file)
    }

    /// Replaces the file of a data folder.
    ///
    /// # Errors
    /// The disk is full, or fails; the old file is then unchanged.
    pub fn write(&self, disk: &SharedDisk, folder: &Path) -> Result<(), LogError> {
        let mut text = format!("{FIRST_LINE}\n");
        // Writing to a string does not fail.
        if self.database.is_known() {
            let _ = writeln!(text, "database {}", self.database);
        }
        if self.checkpoint > 0 {
            let _ = writeln!(text, "checkpoint {}", self.checkpoint);
        }
        if self.is_unmarked {
            text.push_str("unmarked\n");
        }
        for incarnation in &self.incarnations {
            let _ = writeln!(text, "incarnation {incarnation}");
        }
        for device in &self.devices {
            let _ = writeln!(text, "device {}", device.display());
        }
        for companion in &self.companions {
            let _ = writeln!(text, "companion {}", companion.display());
        }
        seal(&mut text);
        let path = Self::path(folder);
        let write =
            || replace(&**disk, &path, text.as_bytes()).map_err(|error| LogError::io("write", &path, error));
        write().or_else(|error| match error.is_shortage() {
            true if disk.remove(&folder.join(RESERVE)).is_ok() => write(),
            _ => Err(error),
        })
    }

    /// Returns the folders of the log devices, relative to the base of `folder`.
    pub fn device_folders(&self, folder: &Path) -> Vec<PathBuf> {
        self.devices.iter().map(|device| folder.join(device)).collect()
    }

    /// Returns the cut of an incarnation; `None` when it is not known.
    pub fn cut_of(&self, incarnation: u64) -> Option<CommitOrder> {
        self.of(incarnation)?.cut
    }

    /// Returns an incarnation, if the file lists it.
    pub fn of(&self, incarnation: u64) -> Option<&Incarnation> {
        self.incarnations.iter().find(|known| known.number == incarnation)
    }

    /// Returns the number of the next incarnation.
    pub fn next(&self) -> u64 {
        self.incarnations.last().map_or(1, |last| last.number + 1)
    }
}

/// The pepoch file of an open database, with the changes made while it runs.
#[derive(Debug)]
pub struct PepochKeeper {
    disk: SharedDisk,
    folder: PathBuf,
    /// The contents, and whether the file is in its folder yet.
    kept: Mutex<(PepochFile, bool)>,
}

impl PepochKeeper {
    /// Takes over a file that is in its folder, or that `publish` will write.
    pub fn new(disk: &SharedDisk, folder: &Path, file: PepochFile, is_published: bool) -> Arc<Self> {
        let (disk, folder) = (Arc::clone(disk), folder.to_path_buf());
        Arc::new(Self { disk, folder, kept: Mutex::new((file, is_published)) })
    }

    /// Reserves room for the next change. Does nothing for a file that is not in its folder yet.
    ///
    /// # Errors
    /// The disk is full, or fails.
    pub(crate) fn reserve(&self) -> Result<(), LogError> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.folder.join(RESERVE);
        let is_there = || {
            self.disk.open(&path).and_then(|file| file.length()).is_ok_and(|own| own == RESERVE_BYTES as u64)
        };
        if !kept.1 || is_there() {
            return Ok(());
        }
        let make = || {
            let file = self.disk.create(&path)?;
            file.write_at(0, &ZEROS[..RESERVE_BYTES])?;
            file.sync()
        };
        make().map_err(|error| {
            // The next attempt replaces a partial file.
            let _ = self.disk.remove(&path);
            LogError::io("write", &path, error)
        })
    }

    /// Frees the reserved room; returns whether there was any.
    pub(crate) fn spend_reserve(&self) -> bool {
        self.disk.remove(&self.folder.join(RESERVE)).is_ok()
    }

    /// Changes the file, durably.
    ///
    /// # Errors
    /// The disk is full, or fails; the old file is then unchanged.
    pub fn update(&self, change: impl FnOnce(&mut PepochFile)) -> Result<(), LogError> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = kept.0.clone();
        change(&mut changed);
        if kept.1 && changed != kept.0 {
            changed.write(&self.disk, &self.folder)?;
        }
        kept.0 = changed;
        Ok(())
    }

    /// Changes the newest incarnation, durably.
    ///
    /// # Errors
    /// As `update`.
    pub fn update_newest(&self, change: impl FnOnce(&mut Incarnation)) -> Result<(), LogError> {
        self.update(|file| {
            if let Some(newest) = file.incarnations.last_mut() {
                change(newest);
            }
        })
    }

    /// Writes the file into its folder for the first time.
    ///
    /// # Errors
    /// The disk is full, or fails.
    pub fn publish(&self) -> Result<(), LogError> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.0.write(&self.disk, &self.folder)?;
        kept.1 = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::CrashingDisk;

    fn file() -> PepochFile {
        let ends = vec![LogEnd { logger: 0, file: 3, batch: 17 }, LogEnd { logger: 1, file: 1, batch: 0 }];
        let cut = Some(CommitOrder(CommitOrder::first_of(Epoch(7)).0 + 2));
        PepochFile {
            database: DatabaseId::random(),
            checkpoint: 4,
            is_unmarked: true,
            incarnations: vec![
                Incarnation { number: 2, cut, loggers: 0, ends },
                Incarnation { number: 3, ..Incarnation::default() },
            ],
            devices: vec!["log".into(), "/volumes/with a space".into()],
            companions: vec!["shadow-logical".into()],
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let disk: SharedDisk = Arc::new(CrashingDisk::default());
        let folder = Path::new("/db");
        file().write(&disk, folder).unwrap();
        let read = PepochFile::read(&disk, folder).unwrap().unwrap();
        assert_eq!(PepochFile { database: read.database, ..file() }, read);
        assert!(read.database.is_known());
    }

    #[test]
    fn earlier_versions_are_read() {
        let parse = |text: &str| {
            let mut text = text.to_owned();
            seal(&mut text);
            PepochFile::parse(text.as_bytes()).unwrap()
        };
        let first = parse("reprise pepoch 1\nincarnation 1 cut 5\nincarnation 2 open\ndevice log\n");
        assert_eq!(first.cut_of(1), Some(CommitOrder::last_of(Epoch(5))));
        let second =
            parse("reprise pepoch 2\nincarnation 1 cut 5.3\nincarnation 2 open loggers 2\ndevice log\n");
        assert_eq!(second.cut_of(1), Some(CommitOrder(CommitOrder::first_of(Epoch(5)).0 + 3)));
        for file in [first, second] {
            assert!(!file.database.is_known() && !file.is_unmarked);
            assert!(file.incarnations.iter().all(|incarnation| incarnation.ends.is_empty()));
        }
    }
}
