//! `clr-p`: the command log replayed on all cores.
//! Paper: PACMAN §§4.2–4.5.
//!
//! The log is cut into segments between definitions. For each, the procedures that occur in it are analysed,
//! and its transactions run as `schedule` orders them, straight on the tables (`access`).

mod access;
mod source;

use super::divergence::{check_statement, statement_diverged};
use super::{define, definitions_of, unfit, unknown_record};
use crate::{LogContents, Progress, RecoveryError, Stage};
use access::Direct;
use catalog::{CommitOrder, ProcedureId, Table, TableId};
use logging::content::{Record, StatementRecord};
use procedure::analysis::{Analysis, LogFacts, Pieces};
use procedure::{Call, Effect, Machine, Procedure, Whole, execute};
use schedule::{Access, Breakdown, Definitions, Programs, RunError, Settings};
use source::LogSource;
use sql::Schema;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;
use storage::Worker;
use transaction::Tables;

/// How to replay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) settings: Settings,
    /// Transactions of a batch.
    pub(crate) batch: usize,
}

/// A procedure, its version, and whether the call's witness values are recorded.
type ProgramKey = (ProcedureId, u32, bool);

/// What a segment's records are.
#[derive(Default)]
struct Occurring {
    programs: BTreeSet<ProgramKey>,
    written_by_value: BTreeMap<TableId, Arc<Table>>,
}

/// Replays everything; returns the definitions and tables as they are afterwards, and where the time went.
pub(crate) fn replay(
    log: &LogContents,
    mut schema: Schema,
    mut tables: Tables,
    how: How,
    progress: &Progress,
) -> Result<(Schema, Tables, Breakdown), RecoveryError> {
    progress.begin(Stage::Replay, log.len() as u64);
    let mut breakdown = Breakdown::default();
    let mut place = 0;
    while place < log.len() {
        if let (order, Record::Definition(statement) | Record::Statement(statement)) = log.record(place) {
            for text in definitions_of(&statement)? {
                let one = StatementRecord { text: &text, ..statement };
                (schema, tables) = run_statement(order, &one, schema, tables)?;
            }
            place += 1;
            continue;
        }
        let (first, mut occurring) = (place, Occurring::default());
        while place < log.len() {
            match log.record(place) {
                (_, Record::Call(call)) => {
                    occurring.programs.insert((call.procedure, call.version, call.witnessed));
                }
                (order, Record::Writes(writes)) => {
                    for (_, write) in writes.writes() {
                        let store = tables.by_id(write.table).ok_or_else(|| unfit(order))?;
                        let table = || Arc::clone(store.definition());
                        occurring.written_by_value.entry(write.table).or_insert_with(table);
                    }
                }
                (_, Record::Definition(_) | Record::Statement(_)) => break,
                (order, _) => return Err(unknown_record(order)),
            }
            place += 1;
        }
        replay_transactions(log, first..place, (&schema, &tables), occurring, how, progress, &mut breakdown)?;
    }
    Ok((schema, tables, breakdown))
}

fn run_statement(
    order: CommitOrder,
    record: &StatementRecord<'_>,
    schema: Schema,
    mut tables: Tables,
) -> Result<(Schema, Tables), RecoveryError> {
    tables.epochs.advance_to(order.epoch());
    let (changed, effect) = schema.apply(record.text).map_err(RecoveryError::Definition)?;
    let mut data = direct(&tables)?;
    if let Effect::Run(procedure) = effect {
        let mut machine = Machine::default();
        machine.reset(record.timestamp_us, record.seed);
        data.stay();
        data.begin(order);
        let call = Call { procedure: &procedure, timestamp_us: record.timestamp_us, seed: record.seed };
        let executed = execute(call, std::iter::empty(), &mut machine, &mut data, &mut Whole);
        data.leave();
        executed.map_err(|failure| statement_diverged(order, record.text, &failure))?;
        check_statement(order, record.text, record.written, machine.written())?;
        return Ok((schema, tables));
    }
    define(order, record, &effect, &mut tables, &mut data.worker)?;
    Ok((changed, tables))
}

pub(in crate::replay) fn direct(tables: &Tables) -> Result<Direct, RecoveryError> {
    let worker = Worker::new(tables.epochs.clone(), tables.memory.clone()).ok_or(RecoveryError::NoWorker)?;
    Ok(Direct::new(tables.clone(), worker))
}

/// Replays transactions between which no definition changes.
fn replay_transactions(
    log: &LogContents,
    range: Range<usize>,
    (schema, tables): (&Schema, &Tables),
    occurring: Occurring,
    how: How,
    progress: &Progress,
    breakdown: &mut Breakdown,
) -> Result<(), RecoveryError> {
    let begun = Instant::now();
    let defined = |(id, version, _): &ProgramKey| {
        let named = |own: &&Arc<Procedure>| own.id == *id && own.version == *version && !own.by_value;
        schema.procedures().find(named).map(|own| &**own)
    };
    // A call of one that is not defined is found when its batch is planned.
    let known = occurring.programs.iter().filter_map(|key| Some((*key, defined(key)?)));
    let (keys, procedures): (Vec<ProgramKey>, Vec<&Procedure>) = known.unzip();
    let Settings { threads, .. } = how.settings;
    let facts = LogFacts { written_by_value: occurring.written_by_value };
    let witnessed = keys.iter().map(|(.., witnessed)| *witnessed);
    let decomposition = how.settings.decomposition();
    let analysis = Analysis::for_replay(procedures.iter().copied().zip(witnessed), facts, decomposition);
    let pieces = Pieces::of(&analysis);
    let definitions = Definitions::new(tables.iter().map(|store| store.definition()));
    let last = log.order(range.end - 1);
    let source = LogSource::new(log, range, how.batch, &keys, tables, progress);
    let programs = Programs::new(&pieces, procedures, &definitions, how.settings, source.sample())?;
    breakdown.analysis_s += begun.elapsed().as_secs_f64();
    let accesses = (0..threads).map(|_| direct(tables)).collect::<Result<_, _>>()?;
    let measured = programs.run(&source, accesses, &analysis.block_names());
    breakdown.add(measured.map_err(|error| match error {
        RunError::Source(error) => error,
        RunError::Diverged(divergence) => divergence.into(),
    })?);
    tables.epochs.advance_to(last.epoch());
    Ok(())
}
