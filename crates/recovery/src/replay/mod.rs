//! Methods of replay: one file a method.

mod aries;
mod clr;
mod clr_p;
mod divergence;
mod llr;
mod llr_p;
mod plr;
mod poplar;
#[cfg(test)]
mod tests;
mod tuples;

pub use tuples::Latches;

use crate::{LogContents, Progress, RecoveryConfig, RecoveryError};
use catalog::CommitOrder;
use checkpoint::{Check, CheckpointError, Consistency, Indexes, Manifest};
use clr_p::How;
use divergence::{statement_diverged, unfit, unknown_record, writes_diverged};
use logging::content::{RecordKind, StatementRecord};
use logging::disk::SharedDisk;
use plr::SlotArrays;
use procedure::Effect;
use schedule::{Breakdown, Mode, Settings};
use sql::Schema;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use storage::Worker;
use transaction::{Applying, Tables};

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
    /// Logical records, newest first, under latches (SiloR).
    Llr,
    /// Logical records, shuffled by table and key, without latches (PACMAN).
    LlrP,
    /// Physical records into slots, newest first, under latches; indexes afterwards.
    Plr,
    /// Physiological records: analysis, redo, undo.
    Aries,
    /// Logical records, as they lie on their devices, under latches (Poplar).
    Poplar,
}

impl Method {
    /// All of them, as the command line names them.
    pub const NAMES: [(&str, Self); 8] = [
        ("auto", Self::Auto),
        ("clr", Self::Clr),
        ("clr-p", Self::ClrP),
        ("llr", Self::Llr),
        ("llr-p", Self::LlrP),
        ("plr", Self::Plr),
        ("aries", Self::Aries),
        ("poplar", Self::Poplar),
    ];

    /// Those that replay a log of a content, the reference or the paper's own first.
    pub fn of(content: logging::Content) -> &'static [Self] {
        match content {
            logging::Content::Command | logging::Content::Adaptive => &[Self::Clr, Self::ClrP],
            logging::Content::Logical => &[Self::Llr, Self::LlrP, Self::Poplar],
            logging::Content::Physical => &[Self::Plr],
            logging::Content::Physiological => &[Self::Aries],
            _ => &[],
        }
    }

    /// Whether it replays a kind of record.
    fn replays(self, kind: RecordKind) -> bool {
        match kind {
            RecordKind::Definition | RecordKind::Large => true,
            RecordKind::Call | RecordKind::Statement => matches!(self, Self::Clr | Self::ClrP),
            RecordKind::Writes | RecordKind::Definitions => self != Self::Plr,
            RecordKind::Slots => self == Self::Plr,
            RecordKind::Operation | RecordKind::Outcome => self == Self::Aries,
        }
    }

    /// The method that it stands for, where the log holds these kinds of records.
    ///
    /// # Errors
    /// It does not replay one of them.
    pub(crate) fn chosen(
        self,
        kinds: &BTreeSet<RecordKind>,
        consistency: Consistency,
    ) -> Result<Self, RecoveryError> {
        // Nothing is replayed upon it where there are only definitions.
        let is_fuzzy =
            consistency == Consistency::Fuzzy && kinds.iter().any(|own| *own != RecordKind::Definition);
        let chosen = match self {
            Self::Auto if kinds.iter().all(|kind| *kind == RecordKind::Definition) => Self::ClrP,
            Self::Auto => {
                let fastest = match is_fuzzy {
                    true => [Self::Poplar, Self::ClrP, Self::Plr, Self::Aries],
                    false => [Self::LlrP, Self::ClrP, Self::Plr, Self::Aries],
                };
                let fits = |method: &Self| kinds.iter().all(|kind| method.replays(*kind));
                fastest.into_iter().find(fits).unwrap_or(Self::ClrP)
            }
            // Logs of format version 1 do not tell definitions from other statements, which these methods
            // then find out.
            own => own,
        };
        if is_fuzzy && !matches!(chosen, Self::Poplar | Self::Llr | Self::Plr) {
            return Err(RecoveryError::FuzzyCheckpoint(chosen));
        }
        match kinds.iter().find(|kind| **kind != RecordKind::Statement && !chosen.replays(**kind)) {
            Some(kind) => Err(RecoveryError::holds(*kind)),
            None => Ok(chosen),
        }
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::NAMES.map(|(name, _)| name).join(", ");
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found
            .map(|(_, method)| *method)
            .ok_or_else(|| format!("unknown recovery method \"{text}\"; known are: {known}"))
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES.iter().find(|(_, method)| method == self).map_or("", |(name, _)| name))
    }
}

/// The state that is replayed upon: definitions, rows, and where physical rows are.
pub(crate) struct State {
    pub(crate) schema: Schema,
    pub(crate) tables: Tables,
    slots: SlotArrays,
}

/// What a replay tells of itself.
#[derive(Default)]
pub(crate) struct Replayed {
    pub(crate) breakdown: Option<Breakdown>,
    pub(crate) mode: Option<Mode>,
    /// Transactions that had not committed.
    pub(crate) undone: Vec<CommitOrder>,
}

impl State {
    /// Nothing yet.
    pub(crate) fn new(method: Method, tables: Tables) -> Self {
        let tables = if method == Method::Plr { tables.slotted() } else { tables };
        Self { schema: Schema::default(), tables, slots: SlotArrays::default() }
    }

    /// Loads the rows of a checkpoint as the method wants them.
    pub(crate) fn load(
        &self,
        method: Method,
        (disk, folder): (&SharedDisk, &Path),
        manifest: &Manifest,
        how: (usize, Check),
        progress: &Progress,
    ) -> Result<(), CheckpointError> {
        let (tables, done) = (&self.tables, progress.counter());
        match method {
            Method::Clr | Method::ClrP | Method::Auto => {
                checkpoint::load(disk, folder, manifest, (tables, &Indexes::All), how, done)
            }
            Method::Llr | Method::LlrP | Method::Aries | Method::Poplar => {
                checkpoint::load(disk, folder, manifest, (tables, &Indexes::Primary), how, done)
            }
            Method::Plr => checkpoint::load(disk, folder, manifest, (tables, &self.slots), how, done),
        }
    }

    /// Replays a log upon it. `from` is the bound of the checkpoint.
    pub(crate) fn replay(
        self,
        method: Method,
        (log, from): (&LogContents, CommitOrder),
        config: &RecoveryConfig,
        progress: &Progress,
    ) -> Result<(Self, Replayed), RecoveryError> {
        let Self { schema, tables, slots } = self;
        let threads = config.threads.max(1);
        let mut replayed = Replayed::default();
        let (schema, tables) = match method {
            Method::Clr => clr::replay(log, schema, tables, progress)?,
            Method::ClrP | Method::Auto => {
                let settings = Settings { mode: config.mode, threads };
                let how = How { settings, batch: config.batch.max(1) };
                let (schema, tables, breakdown) = clr_p::replay(log, schema, tables, how, progress)?;
                replayed.breakdown = Some(breakdown);
                replayed.mode = Some(config.mode);
                (schema, tables)
            }
            Method::Llr => llr::replay(log, schema, tables, (threads, config.latches), progress)?,
            Method::Poplar => poplar::replay(log, schema, tables, (threads, config.latches), progress)?,
            Method::LlrP => llr_p::replay(log, schema, tables, threads, progress)?,
            Method::Plr => {
                let on = (schema, tables, &slots);
                plr::replay(log, on, (threads, config.latches), progress)?
            }
            Method::Aries => {
                let on = (schema, tables);
                let (schema, tables, undone) = aries::replay(log, from, on, threads, progress)?;
                replayed.undone = undone;
                (schema, tables)
            }
        };
        Ok((Self { schema, tables, slots }, replayed))
    }
}

/// The statements of a record of definitions.
fn definitions_of<'a>(
    record: &StatementRecord<'a>,
) -> Result<impl Iterator<Item = String> + use<'a>, RecoveryError> {
    let statements = Schema::split(record.text).map_err(RecoveryError::Definition)?;
    Ok(statements.into_iter().map(|(text, ..)| text))
}

/// Changes tables as a definition says.
pub(crate) fn define(
    order: CommitOrder,
    record: &StatementRecord<'_>,
    effect: &Effect,
    tables: &mut Tables,
    worker: &mut Worker,
) -> Result<(), RecoveryError> {
    let how = Applying { timestamp_us: record.timestamp_us, seed: record.seed, is_new: false };
    let applied = tables.apply(effect, how, &worker.enter());
    applied.map_err(|error| statement_diverged(order, record.text, &error))
}
