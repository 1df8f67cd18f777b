//! The pepoch file: how often the database was opened, and up to which commit order each earlier log counts.
//! Paper: PACMAN §2.1, SiloR (the persistent epoch). Differs: the durable epoch of a running log stands in its batches, so
//! that one fdatasync makes a commit durable; this file holds the cuts that recoveries made (DESIGN §6.3, last trap).
//!
//! Text, so that an operator can read it: a version line, a line an incarnation, the devices, the companions, a checksum
//! line. Cuts are commit orders, as `epoch.sequence`; in version 1 they were epochs.
//! It is replaced in one step, before the database opens.

use crate::disk::{SharedDisk, read_whole, replace};
use crate::error::{CorruptionKind, LogError};
use catalog::{CommitOrder, Epoch};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const NAME: &str = "pepoch";
const FIRST_LINE: &str = "reprise pepoch 2";
const FIRST_LINE_OF_EPOCHS: &str = "reprise pepoch 1";

/// One opening of the database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Incarnation {
    /// Counts from 1.
    pub number: u64,
    /// What its log holds past this does not count, unless it counts alone; not known while it runs.
    pub cut: Option<CommitOrder>,
    /// How many loggers it has at least, where workers have logs of their own: their number grows while it runs.
    pub loggers: u32,
}

/// The file's contents.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PepochFile {
    /// Incarnations whose logs may still be there, oldest first.
    pub incarnations: Vec<Incarnation>,
    /// Folders of the log devices, as they were configured.
    pub devices: Vec<PathBuf>,
    /// Data folders, seen from this one, whose logs record the same transactions in the last incarnation: what one of them
    /// lacks does not count in any.
    pub companions: Vec<PathBuf>,
}

impl PepochFile {
    /// Reads the file of a data folder; `None` when there is none.
    ///
    /// # Errors
    /// The disk fails; the file is damaged.
    pub fn read(disk: &SharedDisk, folder: &Path) -> Result<Option<Self>, LogError> {
        let path = folder.join(NAME);
        let bytes = match read_whole(&**disk, &path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LogError::io("read", &path, error)),
        };
        Self::parse(&bytes).map(Some).map_err(|(offset, kind)| LogError::corrupt(&path, offset, kind))
    }

    fn parse(bytes: &[u8]) -> Result<Self, (u64, CorruptionKind)> {
        let malformed = |what| (0, CorruptionKind::Malformed(what));
        let text = std::str::from_utf8(bytes).map_err(|_| malformed("this is no text"))?;
        let (contents, checksum) =
            text.rsplit_once("checksum ").ok_or(malformed("the checksum line is missing"))?;
        if checksum.trim_end() != format!("{:08x}", crc32c::crc32c(contents.as_bytes())) {
            return Err((contents.len() as u64, CorruptionKind::Checksum));
        }
        let mut lines = contents.lines();
        let counts_epochs = match lines.next() {
            Some(FIRST_LINE) => false,
            Some(FIRST_LINE_OF_EPOCHS) => true,
            _ => return Err(malformed("the format version is not known")),
        };
        let mut file = Self::default();
        for line in lines {
            if let Some(device) = line.strip_prefix("device ") {
                file.devices.push(device.into());
                continue;
            }
            if let Some(companion) = line.strip_prefix("companion ") {
                file.companions.push(companion.into());
                continue;
            }
            let words: Vec<&str> = line.split(' ').collect();
            let number = |word: &str| word.parse::<u64>().map_err(|_| malformed("a number is none"));
            let order = |word: &str| match word.split_once('.') {
                Some((epoch, sequence)) => {
                    Ok(CommitOrder(CommitOrder::first_of(Epoch(number(epoch)?)).0 + number(sequence)?))
                }
                None if counts_epochs => Ok(CommitOrder::last_of(Epoch(number(word)?))),
                None => Err(malformed("a cut is none")),
            };
            let (own, rest) = match words.as_slice() {
                ["incarnation", own, rest @ ..] => (number(own)?, rest),
                _ => return Err(malformed("a line is not known")),
            };
            let (cut, rest) = match rest {
                ["cut", cut, rest @ ..] => (Some(order(cut)?), rest),
                ["open", rest @ ..] => (None, rest),
                _ => return Err(malformed("a line is not known")),
            };
            let loggers = match rest {
                [] => 0,
                ["loggers", count] => number(count)? as u32,
                _ => return Err(malformed("a line is not known")),
            };
            file.incarnations.push(Incarnation { number: own, cut, loggers });
        }
        Ok(file)
    }

    /// Replaces the file of a data folder.
    ///
    /// # Errors
    /// The disk is full, or fails; the old file is then still there.
    pub fn write(&self, disk: &SharedDisk, folder: &Path) -> Result<(), LogError> {
        let mut text = format!("{FIRST_LINE}\n");
        for Incarnation { number, cut, loggers } in &self.incarnations {
            let state = cut.map_or("open".into(), |cut| format!("cut {cut}"));
            let loggers = if *loggers > 0 { format!(" loggers {loggers}") } else { String::new() };
            let _ = writeln!(text, "incarnation {number} {state}{loggers}");
        }
        for device in &self.devices {
            let _ = writeln!(text, "device {}", device.display());
        }
        for companion in &self.companions {
            let _ = writeln!(text, "companion {}", companion.display());
        }
        let checksum = crc32c::crc32c(text.as_bytes());
        let _ = writeln!(text, "checksum {checksum:08x}");
        let path = folder.join(NAME);
        replace(&**disk, &path, text.as_bytes()).map_err(|error| LogError::io("write", &path, error))
    }

    /// The folders of the log devices, seen from where the data folder is seen.
    pub fn device_folders(&self, folder: &Path) -> Vec<PathBuf> {
        self.devices.iter().map(|device| folder.join(device)).collect()
    }

    /// The cut of an incarnation, when it is known.
    pub fn cut_of(&self, incarnation: u64) -> Option<CommitOrder> {
        self.of(incarnation)?.cut
    }

    /// What is known of an incarnation.
    pub fn of(&self, incarnation: u64) -> Option<&Incarnation> {
        self.incarnations.iter().find(|known| known.number == incarnation)
    }

    /// The number of the next incarnation.
    pub fn next(&self) -> u64 {
        self.incarnations.last().map_or(1, |last| last.number + 1)
    }
}
