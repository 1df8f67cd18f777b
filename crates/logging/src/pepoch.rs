//! The pepoch file: how often the database was opened, and up to which epoch each earlier log counts.
//! Paper: PACMAN §2.1, SiloR (the persistent epoch). Differs: the durable epoch of a running log stands in its batches, so
//! that one fdatasync makes a commit durable; this file holds the cuts that recoveries made (DESIGN §6.3, last trap).
//!
//! Text, so that an operator can read it: a version line, a line an incarnation, the devices, the companions, a checksum
//! line.
//! It is replaced in one step, before the database opens.

use crate::disk::{SharedDisk, read_whole, replace};
use crate::error::{CorruptionKind, LogError};
use catalog::Epoch;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const NAME: &str = "pepoch";
const FIRST_LINE: &str = "reprise pepoch 1";

/// One opening of the database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Incarnation {
    /// Counts from 1.
    pub number: u64,
    /// What its log holds of later epochs does not count; not known while it runs.
    pub cut: Option<Epoch>,
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
        if lines.next() != Some(FIRST_LINE) {
            return Err(malformed("the format version is not known"));
        }
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
            let incarnation = match words.as_slice() {
                ["incarnation", own, "cut", cut] => {
                    Incarnation { number: number(own)?, cut: Some(Epoch(number(cut)?)) }
                }
                ["incarnation", own, "open"] => Incarnation { number: number(own)?, cut: None },
                _ => return Err(malformed("a line is not known")),
            };
            file.incarnations.push(incarnation);
        }
        Ok(file)
    }

    /// Replaces the file of a data folder.
    ///
    /// # Errors
    /// The disk is full, or fails; the old file is then still there.
    pub fn write(&self, disk: &SharedDisk, folder: &Path) -> Result<(), LogError> {
        let mut text = format!("{FIRST_LINE}\n");
        for Incarnation { number, cut } in &self.incarnations {
            let _ = match cut {
                Some(cut) => writeln!(text, "incarnation {number} cut {cut}"),
                None => writeln!(text, "incarnation {number} open"),
            };
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

    /// The cut of an incarnation, when it is known.
    pub fn cut_of(&self, incarnation: u64) -> Option<Epoch> {
        self.incarnations.iter().find(|known| known.number == incarnation)?.cut
    }

    /// The number of the next incarnation.
    pub fn next(&self) -> u64 {
        self.incarnations.last().map_or(1, |last| last.number + 1)
    }
}
