//! Methods of replay: one file a method.

mod clr;

pub(crate) use clr::replay as clr;

use std::fmt;
use std::str::FromStr;

/// How a log is replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Method {
    /// Serial re-execution of commands, in commit order: the reference for every other method.
    #[default]
    Clr,
}

impl FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "clr" => Ok(Self::Clr),
            _ => Err(format!("unknown recovery method \"{text}\"; known are: clr")),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clr => "clr",
        })
    }
}
