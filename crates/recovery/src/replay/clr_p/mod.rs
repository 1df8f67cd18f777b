//! `clr-p`: the command log replayed on all cores.
//! Paper: PACMAN §§4.2–4.5.
//!
//! The log is cut into segments between definitions. For each segment, the procedures that it calls are
//! analysed, and its transactions run as `schedule` orders them, straight on the tables (`access`).

mod access;
mod source;

use super::context::{OnDemand, Replay, ReplayContext, Replayed, statements_of};
use super::divergence::{unfit, unknown_record};
use super::reexecution::execute_statement;
use crate::on_demand::PendingCommands;
use crate::{RecoveryError, Stage};
pub(crate) use access::Direct;
pub(crate) use source::LogTransactions;

use catalog::{CommitOrder, Table, TableId};
use checkpoint::{CheckpointError, Indexes, Load};
use logging::content::{Record, StatementRecord};
use procedure::analysis::{Analysis, Decomposition, LogFacts, PieceReservations, Pieces, Reservations};
use procedure::{Machine, Procedure};
use schedule::closures::{ClosureParts, Closures, Expected};
use schedule::{Breakdown, Definitions, Mode, Programs, RunError, Settings};
use source::{LogSource, ProgramKey};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;
use transaction::Workspace;

/// The method.
pub(super) struct ClrP;

/// The records of the log between two definitions.
struct Segment {
    /// The indexes of the records.
    range: Range<usize>,
    /// The programs that it calls.
    programs: BTreeSet<ProgramKey>,
    /// The tables that transactions logged by value write.
    written_by_value: BTreeMap<TableId, Arc<Table>>,
}

impl Replay for ClrP {
    fn load(&mut self, checkpoint: &Load<'_>) -> Result<(), CheckpointError> {
        checkpoint.rows(&Indexes::All)
    }

    fn on_demand(&self) -> OnDemand {
        OnDemand::Commands
    }

    fn run_all(&mut self, context: &mut ReplayContext<'_>) -> Result<Replayed, RecoveryError> {
        let log = context.log;
        context.progress.begin(Stage::Replay, log.len() as u64);
        let (mut breakdown, mut commands) = (Breakdown::default(), None);
        let mut index = 0;
        while index < log.len() {
            if let (order, Record::Definition(record) | Record::Statement(record)) = log.record(index) {
                for text in statements_of(&record)? {
                    run_statement(order, &StatementRecord { text: &text, ..record }, context)?;
                }
                index += 1;
                continue;
            }
            let segment = Segment::from(index, context)?;
            index = segment.range.end;
            if context.defers_commands && index == log.len() {
                commands = segment.defer(context)?;
            }
            if commands.is_none() {
                segment.replay(context, &mut breakdown)?;
            }
        }
        let mode = Some(context.config.mode);
        Ok(Replayed { breakdown: Some(breakdown), mode, commands })
    }
}

/// Returns what calls of procedures look for, those that only read included.
fn expected<'p>(procedures: impl Iterator<Item = &'p Arc<Procedure>>) -> Vec<Expected> {
    let all = Reservations::of_all(procedures.map(|own| &**own));
    let granules = all.iter().flatten().flat_map(Reservations::iter_usual).map(|own| &own.granule);
    // Which units use a table at all is known without a list.
    let expected = granules.filter(|granule| !granule.prefix.is_empty()).map(|granule| Expected {
        table: granule.table.id,
        index: granule.index,
        values: granule.prefix.len(),
    });
    expected.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Applies a definition, or executes another statement.
pub(super) fn run_statement(
    order: CommitOrder,
    record: &StatementRecord<'_>,
    context: &mut ReplayContext<'_>,
) -> Result<(), RecoveryError> {
    let mut worker = context.worker()?;
    let Some(procedure) = context.apply_definition(order, record, &mut worker)? else { return Ok(()) };
    let (mut machine, mut workspace) = (Machine::default(), Workspace::new(context.tables.clone(), worker));
    execute_statement(order, &procedure, record, &mut machine, &mut workspace)?;
    // Pieces insert without a look at absent records, so deleted rows leave their indexes now. Each round
    // removes at least one of them.
    for _ in 0..=machine.written().rows {
        workspace.collect_garbage_now(order, || true);
        if !workspace.has_garbage() {
            break;
        }
    }
    Ok(())
}

impl Segment {
    /// Collects the records from one on, up to the next definition.
    fn from(first: usize, context: &ReplayContext<'_>) -> Result<Self, RecoveryError> {
        let (log, tables) = (context.log, &context.tables);
        let (mut programs, mut written_by_value) = (BTreeSet::new(), BTreeMap::new());
        let mut end = first;
        while end < log.len() {
            match log.record(end) {
                (_, Record::Call(call)) => {
                    programs.insert(ProgramKey::of(&call));
                }
                (order, Record::Writes(writes)) => {
                    for (_, write) in writes.writes() {
                        let store = tables.by_id(write.table).ok_or_else(|| unfit(order))?;
                        let table = || Arc::clone(store.definition());
                        written_by_value.entry(write.table).or_insert_with(table);
                    }
                }
                (_, Record::Definition(_) | Record::Statement(_)) => break,
                (order, _) => return Err(unknown_record(order)),
            }
            end += 1;
        }
        Ok(Self { range: first..end, programs, written_by_value })
    }

    /// Replays the transactions of the segment.
    fn replay(self, context: &ReplayContext<'_>, breakdown: &mut Breakdown) -> Result<(), RecoveryError> {
        let begun = Instant::now();
        let ReplayContext { log, tables, config, .. } = context;
        let settings = Settings { mode: config.mode, threads: context.threads() };
        let (keys, procedures) = self.procedures(context);
        let facts = LogFacts { written_by_value: self.written_by_value };
        let programs = procedures.iter().map(|own| &**own).zip(keys.iter().map(|key| key.witnessed));
        let analysis = Analysis::for_replay(programs, facts, settings.decomposition());
        let pieces = Arc::new(Pieces::of(&analysis));
        context.compiler.pieces(&pieces);
        let definitions = Definitions::new(tables.iter().map(|store| store.definition()));
        let last = log.order(self.range.end - 1);
        let source = LogSource::new(context, self.range, &keys);
        let programs = Programs::new(pieces, procedures, definitions, settings, source.sample())?;
        breakdown.analysis_s += begun.elapsed().as_secs_f64();
        let accesses = (0..settings.threads).map(|_| Direct::of(tables)).collect::<Result<_, _>>()?;
        let measured = programs.run(&source, accesses, &analysis.block_names());
        breakdown.add(measured.map_err(|error| match error {
            RunError::Source(error) => error,
            RunError::Diverged(divergence) => divergence.into(),
        })?);
        tables.epochs.advance_to(last.epoch());
        Ok(())
    }

    /// Lists the transactions of the segment, to be executed when their rows are wanted. Returns `None`,
    /// and has done nothing, if one of them calls a procedure that is not defined, or if they are too many.
    fn defer(&self, context: &ReplayContext<'_>) -> Result<Option<Arc<PendingCommands>>, RecoveryError> {
        let ReplayContext { log, tables, rows, config, .. } = context;
        let (keys, procedures) = self.procedures(context);
        if keys.len() < self.programs.len() {
            return Ok(None);
        }
        let by_value = self.written_by_value.clone();
        let programs = procedures.iter().map(|own| &**own).zip(keys.iter().map(|key| key.witnessed));
        let facts = LogFacts { written_by_value: by_value.clone() };
        let analysis = Analysis::for_replay(programs, facts, Decomposition::Slices);
        let pieces = Arc::new(Pieces::of(&analysis));
        context.compiler.pieces(&pieces);
        let parts = ClosureParts {
            reservations: PieceReservations::of(&analysis, &pieces),
            pieces,
            procedures,
            definitions: Definitions::new(tables.iter().map(|store| store.definition())),
            by_value,
            expected: expected(context.schema.procedures()),
            settings: Settings { mode: Mode::Pipelined, threads: context.threads() },
            batch: config.batch,
        };
        let transactions = LogTransactions::new(log, self.range.clone(), &keys);
        let Some(calls) = Closures::new(parts, transactions)? else { return Ok(None) };
        tables.epochs.advance_to(log.order(self.range.end - 1).epoch());
        let (tables, rows) = (tables.clone(), rows.clone());
        let commands = PendingCommands::new(calls, rows, tables, context.threads(), log.record_bytes);
        Ok(Some(Arc::new(commands)))
    }

    /// Returns the programs whose procedures are defined, and the procedures. A call of any other one is
    /// refused when its batch is read.
    fn procedures(&self, context: &ReplayContext<'_>) -> (Vec<ProgramKey>, Vec<Arc<Procedure>>) {
        let defined = |key: &ProgramKey| {
            let is_called = |procedure: &&Arc<Procedure>| {
                procedure.id == key.procedure
                    && procedure.version == key.version
                    && procedure.by_value.is_none()
            };
            context.schema.procedures().find(is_called)
        };
        self.programs.iter().filter_map(|key| Some((*key, Arc::clone(defined(key)?)))).unzip()
    }
}
