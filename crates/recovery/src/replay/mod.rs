//! Methods of replay: one file a method.

mod clr;
mod clr_p;

pub(crate) use clr::replay as clr;
pub(crate) use clr_p::{How, replay as clr_p};
pub use clr_p::{ReplayBreakdown, ReplayMode};

use std::fmt;
use std::str::FromStr;

/// How a log is replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Method {
    /// Serial re-execution of commands, in commit order: the reference for every other method.
    #[default]
    Clr,
    /// Parallel re-execution of commands, by analysis of the procedures (PACMAN).
    ClrP,
}

impl FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "clr" => Ok(Self::Clr),
            "clr-p" => Ok(Self::ClrP),
            _ => Err(format!("unknown recovery method \"{text}\"; known are: clr, clr-p")),
        }
    }
}

impl FromStr for ReplayMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "static" => Ok(Self::Static),
            "synchronous" => Ok(Self::Synchronous),
            "pipelined" => Ok(Self::Pipelined),
            _ => Err(format!("unknown replay mode \"{text}\"; known are: static, synchronous, pipelined")),
        }
    }
}

impl fmt::Display for ReplayMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Static => "static",
            Self::Synchronous => "synchronous",
            Self::Pipelined => "pipelined",
        })
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clr => "clr",
            Self::ClrP => "clr-p",
        })
    }
}
