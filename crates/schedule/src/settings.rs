//! How much of the analysis a run uses.

use procedure::analysis::Decomposition;
use std::fmt;
use std::str::FromStr;

/// Maximum number of batches under way at a time, in pipelined mode.
const WINDOW: usize = 8;
/// Partitions of a block for each thread.
const PARTITIONS_PER_THREAD: usize = 2;
/// Maximum number of partitions of a block.
const MOST_PARTITIONS: usize = 64;

/// What may run at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Blocks of the pieces of transaction chopping; batches one after the other.
    Chopping,
    /// Blocks; batches one after the other.
    Static,
    /// Partitions of blocks; batches one after the other.
    Synchronous,
    /// Partitions of blocks; batches overlap.
    #[default]
    Pipelined,
}

impl Mode {
    /// All modes, as the command line names them.
    pub const NAMES: [(&str, Self); 4] = [
        ("chopping", Self::Chopping),
        ("static", Self::Static),
        ("synchronous", Self::Synchronous),
        ("pipelined", Self::Pipelined),
    ];
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::NAMES.map(|(name, _)| name).join(", ");
        let found = Self::NAMES.iter().find(|(name, _)| *name == text).map(|(_, mode)| *mode);
        found.ok_or_else(|| format!("unknown replay mode \"{text}\"; known are: {known}"))
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES.iter().find(|(_, mode)| mode == self).map_or("", |(name, _)| name))
    }
}

/// The mode of a run, and its threads.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// What may run at the same time.
    pub mode: Mode,
    /// Number of threads, at least 1.
    pub threads: usize,
}

impl Settings {
    /// Returns how the analysis cuts programs. A single thread gains nothing from small pieces, and large
    /// ones hand less to each other.
    pub fn decomposition(self) -> Decomposition {
        if self.mode == Mode::Chopping || self.threads == 1 {
            Decomposition::Chopping
        } else {
            Decomposition::Slices
        }
    }

    /// Returns the number of partitions of a block that can be cut.
    pub(crate) fn most_partitions(self) -> usize {
        match self.mode {
            Mode::Chopping | Mode::Static => 1,
            _ if self.threads == 1 => 1,
            _ => (self.threads * PARTITIONS_PER_THREAD).min(MOST_PARTITIONS),
        }
    }

    /// Returns the maximum number of batches under way at a time.
    pub(crate) fn window(self) -> usize {
        if self.mode == Mode::Pipelined { WINDOW } else { 1 }
    }
}
