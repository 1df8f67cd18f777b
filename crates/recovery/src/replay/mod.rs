//! Methods of replay: one file each, behind `Replay`. This file has the table of the methods, and chooses one
//! of them at the start of a recovery.

mod aries;
mod clr;
mod clr_p;
mod context;
mod dependency;
mod divergence;
mod fates;
mod llr;
mod llr_p;
mod plr;
mod poplar;
mod reexecution;
#[cfg(test)]
mod tests;
mod tuples;

pub(crate) use clr_p::{Direct, LogTransactions};
pub(crate) use context::{OnDemand, PlannedStatements, Replay, ReplayContext, Replayed};
pub(crate) use divergence::{unfit, unknown_record, writes_diverged};
pub(crate) use fates::Fates;
pub use tuples::Latches;
pub(crate) use tuples::{TupleWrite, run_on, table_of};

use crate::RecoveryError;
use checkpoint::Consistency;
use logging::Content;
use logging::content::RecordKind;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A method of replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Method {
    /// The fastest method that replays the log of the folder.
    #[default]
    Auto,
    /// Serial re-execution of commands, in commit order: the reference for every other method.
    Clr,
    /// Parallel re-execution of commands, by analysis of the procedures (PACMAN).
    ClrP,
    /// Logical records, newest first, under latches (SiloR).
    Llr,
    /// Logical records, shuffled by table and key, without latches (PACMAN).
    LlrP,
    /// Physical records into slots, newest first, under latches; indexes afterwards.
    Plr,
    /// Physiological records: analysis, redo, undo.
    Aries,
    /// Logical records in the order of their devices, under latches (Poplar).
    Poplar,
    /// Records of batches, in the order of their dependency graphs (DistDGCC).
    Dependency,
}

/// The properties of a method.
struct Properties {
    method: Method,
    name: &'static str,
    /// The kinds of records that it replays, beside definitions.
    replays: &'static [RecordKind],
    /// Whether it replays over a fuzzy checkpoint, whose rows have their own numbers.
    over_fuzzy: bool,
    /// Whether it takes the records in the order of their devices, rather than in commit order.
    by_device: bool,
    /// Whether the records of its tables have slots.
    has_slots: bool,
    /// Begins a replay of records of these kinds.
    new: fn(&BTreeSet<RecordKind>) -> Box<dyn Replay>,
}

const COMMANDS: &[RecordKind] = &[
    RecordKind::Call,
    RecordKind::Statement,
    RecordKind::Writes,
    RecordKind::Definitions,
    RecordKind::Stages,
    RecordKind::Vertex,
];
const WRITES: &[RecordKind] = &[RecordKind::Writes, RecordKind::Definitions, RecordKind::Stages];
const BATCH_WRITES: &[RecordKind] =
    &[RecordKind::Writes, RecordKind::Definitions, RecordKind::Stages, RecordKind::BatchWrites];
const BATCHES: &[RecordKind] = &[
    RecordKind::Call,
    RecordKind::Statement,
    RecordKind::Writes,
    RecordKind::Definitions,
    RecordKind::Stages,
    RecordKind::Vertex,
    RecordKind::BatchWrites,
];
const SLOTS: &[RecordKind] = &[RecordKind::Slots];
const OPERATIONS: &[RecordKind] = &[
    RecordKind::Operation,
    RecordKind::Outcome,
    RecordKind::Writes,
    RecordKind::Definitions,
    RecordKind::Stages,
];

/// The methods, with the most general properties where a line does not say otherwise.
const METHODS: [Properties; 8] = [
    Properties { ..Properties::of(Method::Clr, "clr", COMMANDS, |_| Box::new(clr::Clr)) },
    Properties { ..Properties::of(Method::ClrP, "clr-p", COMMANDS, |_| Box::new(clr_p::ClrP)) },
    Properties { over_fuzzy: true, ..Properties::of(Method::Llr, "llr", WRITES, |_| Box::new(llr::Llr)) },
    Properties { ..Properties::of(Method::LlrP, "llr-p", BATCH_WRITES, |_| Box::new(llr_p::LlrP)) },
    Properties {
        over_fuzzy: true,
        has_slots: true,
        ..Properties::of(Method::Plr, "plr", SLOTS, |_| Box::<plr::Plr>::default())
    },
    Properties { ..Properties::of(Method::Aries, "aries", OPERATIONS, |_| Box::new(aries::Aries)) },
    Properties {
        over_fuzzy: true,
        by_device: true,
        ..Properties::of(Method::Poplar, "poplar", WRITES, |_| Box::new(poplar::Poplar))
    },
    Properties { ..Properties::of(Method::Dependency, "dependency", BATCHES, dependency::of_kinds) },
];

/// The methods that replay each content, the reference or the paper's method first.
const OF_CONTENT: [(Content, &[Method]); 7] = [
    (Content::Command, &[Method::Clr, Method::ClrP]),
    (Content::Adaptive, &[Method::Clr, Method::ClrP]),
    (Content::Logical, &[Method::Llr, Method::LlrP, Method::Poplar]),
    (Content::Physical, &[Method::Plr]),
    (Content::Physiological, &[Method::Aries]),
    (Content::DependencyFine, &[Method::LlrP, Method::Dependency]),
    (Content::DependencyCoarse, &[Method::Clr, Method::ClrP, Method::Dependency]),
];

/// The methods that `Auto` tries, fastest first, over a consistent checkpoint or none.
const FASTEST: [Method; 4] = [Method::LlrP, Method::ClrP, Method::Plr, Method::Aries];
/// The methods that `Auto` tries, fastest first, over a fuzzy checkpoint.
const FASTEST_OVER_FUZZY: [Method; 4] = [Method::Poplar, Method::ClrP, Method::Plr, Method::Aries];

impl Properties {
    const fn of(
        method: Method,
        name: &'static str,
        replays: &'static [RecordKind],
        new: fn(&BTreeSet<RecordKind>) -> Box<dyn Replay>,
    ) -> Self {
        Self { method, name, replays, over_fuzzy: false, by_device: false, has_slots: false, new }
    }
}

impl Method {
    /// All methods, as the command line names them.
    pub const NAMES: [(&str, Self); METHODS.len() + 1] = {
        let mut names = [("auto", Self::Auto); METHODS.len() + 1];
        let mut index = 0;
        while index < METHODS.len() {
            names[index + 1] = (METHODS[index].name, METHODS[index].method);
            index += 1;
        }
        names
    };

    /// Returns the methods that replay a log of a content, the reference or the paper's method first.
    pub fn of(content: Content) -> &'static [Self] {
        OF_CONTENT.iter().find(|(known, _)| *known == content).map_or(&[], |(_, methods)| methods)
    }

    /// Returns the properties of the method; `Auto` stands for `ClrP` where nothing decides.
    fn properties(self) -> &'static Properties {
        const ALL: &[Properties] = &METHODS;
        let method = if self == Self::Auto { Self::ClrP } else { self };
        ALL.iter().find(|known| known.method == method).expect("each method is in the table")
    }

    /// Returns whether the method replays a kind of record.
    fn replays(self, kind: RecordKind) -> bool {
        matches!(kind, RecordKind::Definition | RecordKind::Large)
            || self.properties().replays.contains(&kind)
    }

    /// Returns whether the method takes the records in the order of their devices.
    pub(crate) fn is_by_device(self) -> bool {
        self.properties().by_device
    }

    /// Returns whether the records of the method's tables have slots.
    pub(crate) fn has_slots(self) -> bool {
        self.properties().has_slots
    }

    /// Begins a replay by the method, of records of these kinds.
    pub(crate) fn replay(self, kinds: &BTreeSet<RecordKind>) -> Box<dyn Replay> {
        (self.properties().new)(kinds)
    }

    /// Returns the method itself, or what `Auto` stands for, for a log with these kinds of records.
    ///
    /// # Errors
    /// The method does not replay one of the kinds, or not over this checkpoint.
    pub(crate) fn chosen(
        self,
        kinds: &BTreeSet<RecordKind>,
        consistency: Consistency,
    ) -> Result<Self, RecoveryError> {
        // A log of definitions alone replays no rows over the checkpoint.
        let is_fuzzy =
            consistency == Consistency::Fuzzy && kinds.iter().any(|kind| *kind != RecordKind::Definition);
        let chosen = if self == Self::Auto { Self::fastest(kinds, is_fuzzy) } else { self };
        if is_fuzzy && !chosen.properties().over_fuzzy {
            return Err(RecoveryError::FuzzyCheckpoint(chosen));
        }
        // Logs of format version 1 do not tell definitions from other statements; a method that replays only
        // definitions refuses the statement itself.
        match kinds.iter().find(|kind| **kind != RecordKind::Statement && !chosen.replays(**kind)) {
            Some(kind) => Err(RecoveryError::holds(*kind)),
            None => Ok(chosen),
        }
    }

    fn fastest(kinds: &BTreeSet<RecordKind>, is_fuzzy: bool) -> Self {
        if kinds.iter().all(|kind| *kind == RecordKind::Definition) {
            return Self::ClrP;
        }
        if kinds.contains(&RecordKind::Vertex) || kinds.contains(&RecordKind::BatchWrites) {
            return Self::Dependency;
        }
        let methods = if is_fuzzy { FASTEST_OVER_FUZZY } else { FASTEST };
        let fits = |method: &Self| kinds.iter().all(|kind| method.replays(*kind));
        methods.into_iter().find(fits).unwrap_or(Self::ClrP)
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::NAMES.map(|(name, _)| name).join(", ");
        let found = Self::NAMES.iter().find(|(name, _)| *name == text).map(|(_, method)| *method);
        found.ok_or_else(|| format!("unknown recovery method \"{text}\"; known are: {known}"))
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES.iter().find(|(_, method)| method == self).map_or("", |(name, _)| name))
    }
}
