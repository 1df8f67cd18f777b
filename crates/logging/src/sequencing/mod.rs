//! In which order records are durable, and when a commit may be acknowledged. One file a scheme.

mod epoch;

pub use epoch::EpochLog;

use std::fmt;
use std::str::FromStr;

/// Which sequencing a database uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Sequencing {
    /// By epochs: a commit is acknowledged when every logger has made its epoch durable.
    #[default]
    Epoch,
}

impl FromStr for Sequencing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "epoch" => Ok(Self::Epoch),
            _ => Err(format!("unknown sequencing \"{text}\"; known are: epoch")),
        }
    }
}

impl fmt::Display for Sequencing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Epoch => "epoch",
        })
    }
}
