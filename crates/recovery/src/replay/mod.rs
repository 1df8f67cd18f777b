//! Methods of replay: one file a method.

mod clr;
mod clr_p;
mod values;

pub(crate) use clr::replay as clr;
pub use clr_p::{BlockMeasures, ReplayBreakdown, ReplayMode, ThreadTimes};
pub(crate) use clr_p::{How, replay as clr_p};

use crate::RecoveryError;
use catalog::{CommitOrder, ProcedureId};
use procedure::Procedure;
use sql::Effect;
use std::fmt;
use std::str::FromStr;
use storage::Worker;
use transaction::Tables;

/// How a log is replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Method {
    /// The fastest that replays what the folder holds.
    #[default]
    Auto,
    /// Serial re-execution of commands, in commit order: the reference for every other method.
    Clr,
    /// Parallel re-execution of commands, by analysis of the procedures (PACMAN).
    ClrP,
}

impl Method {
    /// The method that it stands for. Logs hold calls, statements and writes by value, all of which `clr-p` replays.
    pub(crate) fn chosen(self) -> Self {
        if self == Self::Auto { Self::ClrP } else { self }
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "clr" => Ok(Self::Clr),
            "clr-p" => Ok(Self::ClrP),
            _ => Err(format!("unknown recovery method \"{text}\"; known are: auto, clr, clr-p")),
        }
    }
}

impl FromStr for ReplayMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "chopping" => Ok(Self::Chopping),
            "static" => Ok(Self::Static),
            "synchronous" => Ok(Self::Synchronous),
            "pipelined" => Ok(Self::Pipelined),
            _ => Err(format!(
                "unknown replay mode \"{text}\"; known are: chopping, static, synchronous, pipelined"
            )),
        }
    }
}

impl fmt::Display for ReplayMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Chopping => "chopping",
            Self::Static => "static",
            Self::Synchronous => "synchronous",
            Self::Pipelined => "pipelined",
        })
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Clr => "clr",
            Self::ClrP => "clr-p",
        })
    }
}

/// A call does not do again what it did.
fn diverged(order: CommitOrder, procedure: &Procedure, error: &dyn fmt::Display) -> RecoveryError {
    let what = format!("procedure {}", procedure.name);
    RecoveryError::Diverged { order, what, error: error.to_string() }
}

/// The log names a procedure that is not there.
fn undefined(order: CommitOrder, procedure: ProcedureId, version: u32) -> RecoveryError {
    let what = format!("procedure {}, version {version}", procedure.0);
    RecoveryError::Diverged { order, what, error: "it is not defined at this place of the log".into() }
}

/// The log holds a kind of record that the method does not replay.
fn unknown_record(order: CommitOrder) -> RecoveryError {
    let error = "this method does not replay this kind of record".into();
    RecoveryError::Diverged { order, what: "a record".into(), error }
}

/// A transaction that was logged by value does not fit the tables.
fn unfit(order: CommitOrder) -> RecoveryError {
    writes_diverged(order, &"what it wrote does not fit the tables that are there")
}

/// A transaction that was logged by value can't write what it wrote.
fn writes_diverged(order: CommitOrder, error: &dyn fmt::Display) -> RecoveryError {
    let what = "a transaction logged by value".into();
    RecoveryError::Diverged { order, what, error: error.to_string() }
}

/// Changes tables as a definition says.
pub(crate) fn define(
    order: CommitOrder,
    text: &str,
    effect: &Effect,
    tables: &mut Tables,
    worker: &mut Worker,
) -> Result<(), RecoveryError> {
    worker.enter();
    let applied = tables.apply(effect, worker);
    worker.exit();
    applied.map_err(|error| RecoveryError::Diverged { order, what: text.into(), error: error.to_string() })
}
