//! `clr-p`: the command log replayed on all cores.
//! Paper: PACMAN §§4.2–4.5.
//!
//! The log is cut into segments between definitions. For each, the procedures that occur in it are analysed;
//! its transactions are taken in batches, each batch is planned (`plan`: which part of which transaction
//! belongs to which partition of which block), and partitions run (`run`) as the schedule says (`schedule`),
//! straight on the tables (`access`). Once a batch is done, what each of its calls has written is compared
//! with the call's record (`written`).

mod access;
mod measure;
mod plan;
mod run;
mod sample;
mod schedule;
mod tape;
mod written;

use super::divergence::{check_statement, statement_diverged};
use super::{define, definitions_of, unfit, unknown_record};
use crate::{LogContents, Progress, RecoveryError, Stage};
use catalog::{CommitOrder, ProcedureId, Table, TableId};
use logging::content::{Record, StatementRecord};
use measure::Measures;
pub use measure::{BlockMeasures, ReplayBreakdown, ThreadTimes};
use plan::{Batch, Planner};
use procedure::analysis::{Analysis, Decomposition, LogFacts, Piece, Pieces, Rounds};
use procedure::{Call, Effect, Machine, OperationId, Procedure, Whole, execute};
use run::Replayer;
use schedule::{Schedule, Shape, Task};
use sql::Schema;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use transaction::Tables;

/// Batches under way at a time, pipelined.
const WINDOW: usize = 8;
/// Partitions of a block for each thread.
const PARTITIONS_PER_THREAD: usize = 2;
/// A block has no more partitions than this.
const MOST_PARTITIONS: usize = 64;

/// How much of the analysis replay uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReplayMode {
    /// Pieces are those of transaction chopping; blocks of them run at the same time, batches one after the
    /// other.
    Chopping,
    /// Blocks run at the same time, batches one after the other.
    Static,
    /// Partitions of blocks run at the same time too.
    Synchronous,
    /// Batches overlap as well.
    #[default]
    Pipelined,
}

/// How to replay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) mode: ReplayMode,
    pub(crate) threads: usize,
    pub(crate) batch: usize,
}

impl How {
    /// One thread has nothing to run beside a piece, and pieces that are larger hand less on to each other.
    fn decomposition(self) -> Decomposition {
        if self.mode == ReplayMode::Chopping || self.threads == 1 {
            Decomposition::Chopping
        } else {
            Decomposition::Slices
        }
    }

    /// Partitions of a block that can be cut.
    fn most_partitions(self) -> usize {
        match self.mode {
            ReplayMode::Chopping | ReplayMode::Static => 1,
            _ if self.threads == 1 => 1,
            _ => (self.threads * PARTITIONS_PER_THREAD).min(MOST_PARTITIONS),
        }
    }

    /// Batches under way at a time.
    fn window(self) -> usize {
        if self.mode == ReplayMode::Pipelined { WINDOW } else { 1 }
    }
}

/// How a block is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Partitions {
    count: usize,
    cut: Cut,
}

/// What belongs to a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cut {
    /// Whole pieces, by columns.
    Pieces,
    /// Rounds of the pieces that fall into rounds, by columns.
    Rounds,
    /// Whole pieces that share keys, directly or over others of the batch.
    Keys,
}

/// The piece of a program in a block, as it is replayed.
struct PieceFacts<'s> {
    piece: &'s Piece,
    /// The rounds, where they run on their own.
    rounds: Option<&'s Rounds>,
    /// Whether the rows that it looks for are announced before it runs.
    announces: bool,
    /// What it receives from other pieces.
    receives: Vec<Source>,
    /// What it receives from the call's record.
    witnesses: Vec<WitnessSource>,
    /// Operations that a unit of it runs, on average.
    operations: f64,
}

/// Where the results of an operation come from.
struct Source {
    operation: OperationId,
    block: usize,
    tape: usize,
}

/// Which witness of the call an operation is, and how many values each of its executions has.
struct WitnessSource {
    operation: OperationId,
    place: usize,
    values: usize,
}

/// A part of the log under one set of definitions.
struct Segment<'s, 'l> {
    log: &'l LogContents,
    /// Its records.
    range: Range<usize>,
    /// Transactions of a batch.
    batch: usize,
    tables: &'s Tables,
    pieces: &'s Pieces,
    /// The place of each procedure's program.
    programs: HashMap<ProgramKey, usize>,
    /// The procedure of each program.
    procedures: Vec<&'s Procedure>,
    /// By program and block.
    facts: Vec<Vec<Option<PieceFacts<'s>>>>,
    /// Of each block.
    partitions: Vec<Partitions>,
    /// For each program and operation: the block whose pieces send it, and the number of the tape there.
    tapes: TapeNumbers,
    /// Tapes of a piece-set, by block.
    tape_counts: Vec<usize>,
    /// Batches in the schedule's window.
    batches: Vec<Mutex<Option<Arc<Batch<'l>>>>>,
    measures: Measures,
}

/// A procedure, its version, and whether the call's witness values are recorded.
type ProgramKey = (ProcedureId, u32, bool);

/// By program and operation, the block whose pieces send it, and the number of its tape there.
type TapeNumbers = Vec<Vec<Option<(usize, usize)>>>;

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
) -> Result<(Schema, Tables, ReplayBreakdown), RecoveryError> {
    progress.begin(Stage::Replay, log.len() as u64);
    let mut breakdown = ReplayBreakdown::default();
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
    let Replayer { mut data, .. } = Replayer::new(&tables)?;
    if let Effect::Run(procedure) = effect {
        let mut machine = Machine::default();
        machine.reset(record.timestamp_us, record.seed);
        data.order = order;
        data.stay();
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

/// Replays transactions between which no definition changes.
fn replay_transactions(
    log: &LogContents,
    range: Range<usize>,
    (schema, tables): (&Schema, &Tables),
    occurring: Occurring,
    how: How,
    progress: &Progress,
    breakdown: &mut ReplayBreakdown,
) -> Result<(), RecoveryError> {
    let begun = Instant::now();
    let defined = |(id, version, _): &ProgramKey| {
        schema.procedures().find(|own| own.id == *id && own.version == *version).map(|own| &**own)
    };
    // A call of one that is not defined is found when its batch is planned.
    let known = occurring.programs.iter().filter_map(|key| Some((*key, defined(key)?)));
    let (keys, procedures): (Vec<ProgramKey>, Vec<&Procedure>) = known.unzip();
    let decomposition = how.decomposition();
    let facts = LogFacts { written_by_value: occurring.written_by_value };
    let witnessed = keys.iter().map(|(.., witnessed)| *witnessed);
    let analysis = Analysis::for_replay(procedures.iter().copied().zip(witnessed), facts, decomposition);
    let pieces = Pieces::of(&analysis);
    let segment = Segment::new(log, range.clone(), (keys, procedures), tables, &pieces, how)?;
    breakdown.analysis_s += begun.elapsed().as_secs_f64();

    let schedule = Schedule::new(Shape {
        batches: segment.batches.len(),
        before: pieces.before.clone(),
        partitions: segment.partitions.iter().map(|own| own.count).collect(),
        // Which key is of which partition is another thing in every batch.
        whole_batches: segment.partitions.iter().map(|own| own.cut == Cut::Keys).collect(),
        window: how.window(),
    });
    let finished = AtomicU64::new(range.start as u64);
    let done = |transactions: u64| {
        progress.set_done(finished.fetch_add(transactions, Ordering::Relaxed) + transactions);
        tables.epochs.advance_from(tables.epochs.current());
    };
    let work = || {
        let result = segment.work(&schedule, &done);
        if result.is_err() {
            schedule.stop();
        }
        result
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..how.threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().map(|thread| thread.join().expect("a replaying thread does not panic")).collect()
    });
    breakdown.threads.resize(how.threads, ThreadTimes::default());
    for (sum, times) in breakdown.threads.iter_mut().zip(results) {
        sum.add(times?);
    }
    breakdown.add_blocks(segment.measures.report(&analysis));
    let (last, _) = log.record(range.end - 1);
    tables.epochs.advance_to(last.epoch());
    Ok(())
}

/// Gives every operation that is sent a tape in its block; returns them and how many each block has.
fn number_tapes(pieces: &Pieces) -> (TapeNumbers, Vec<usize>) {
    let mut counts = vec![0; pieces.before.len()];
    let mut numbers: TapeNumbers =
        pieces.programs.iter().map(|program| vec![None; program.operations.len()]).collect();
    for (program, own) in pieces.pieces.iter().enumerate() {
        for piece in own {
            for id in &piece.sends {
                numbers[program][id.0 as usize] = Some((piece.block, counts[piece.block]));
                counts[piece.block] += 1;
            }
        }
    }
    (numbers, counts)
}

impl<'s, 'l> Segment<'s, 'l> {
    fn new(
        log: &'l LogContents,
        range: Range<usize>,
        (keys, procedures): (Vec<ProgramKey>, Vec<&'s Procedure>),
        tables: &'s Tables,
        pieces: &'s Pieces,
        how: How,
    ) -> Result<Self, RecoveryError> {
        let most = how.most_partitions();
        let whole =
            |partitioned: &bool| Partitions { count: if *partitioned { most } else { 1 }, cut: Cut::Pieces };
        let partitions: Vec<Partitions> = pieces.partitioned.iter().map(whole).collect();
        let (tapes, tape_counts) = number_tapes(pieces);
        let batches = range.len().div_ceil(how.batch);
        let mut segment = Self {
            log,
            range,
            batch: how.batch,
            tables,
            pieces,
            programs: keys.into_iter().enumerate().map(|(place, key)| (key, place)).collect(),
            procedures,
            facts: Vec::new(),
            measures: Measures::default(),
            partitions,
            tapes,
            tape_counts,
            batches: (0..batches).map(|_| Mutex::new(None)).collect(),
        };
        let weights = segment.sample(how)?;
        let facts = (0..pieces.programs.len()).map(|program| segment.facts_of(program, &weights[program]));
        segment.facts = facts.collect();
        segment.measures = Measures::new(segment.partitions.iter().map(|own| own.count));
        Ok(segment)
    }

    /// `weights` has the operations of a whole piece, by block.
    fn facts_of(&self, program: usize, weights: &[f64]) -> Vec<Option<PieceFacts<'s>>> {
        let mut facts: Vec<_> = self.partitions.iter().map(|_| None).collect();
        let witnesses = &self.pieces.programs[program].witnesses;
        for piece in &self.pieces.pieces[program] {
            let rounds = piece.rounds.as_ref().filter(|_| self.partitions[piece.block].cut == Cut::Rounds);
            let source = |id: &OperationId| {
                let (block, tape) = self.tapes[program][id.0 as usize]?;
                Some(Source { operation: *id, block, tape })
            };
            let witness = |id: &OperationId| {
                let (place, registers) = witnesses.get(id)?;
                Some(WitnessSource { operation: *id, place: *place, values: registers.len() })
            };
            facts[piece.block] = Some(PieceFacts {
                piece,
                rounds,
                announces: !piece.looks_up_in_loops(rounds.is_some()),
                receives: piece.receives.iter().filter_map(source).collect(),
                witnesses: piece.receives.iter().filter_map(witness).collect(),
                operations: if rounds.is_some() { piece.executes.len() as f64 } else { weights[piece.block] },
            });
        }
        facts
    }

    fn part_of(&self, program: usize, block: usize) -> &PieceFacts<'s> {
        self.facts[program][block].as_ref().expect("what is planned has a piece")
    }

    fn slot(&self, batch: usize) -> std::sync::MutexGuard<'_, Option<Arc<Batch<'l>>>> {
        self.batches[batch].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What one thread does: whatever the schedule has for it, to the end.
    fn work(&self, schedule: &Schedule, done: &dyn Fn(u64)) -> Result<ThreadTimes, RecoveryError> {
        let mut replayer = Replayer::new(self.tables)?;
        let mut planner = Planner::default();
        let (mut times, mut sums) = (ThreadTimes::default(), Vec::new());
        let mut clock = Instant::now();
        let mut lap = || std::mem::replace(&mut clock, Instant::now()).elapsed();
        while let Some(task) = schedule.take() {
            times.waiting_s += lap().as_secs_f64();
            match task {
                Task::Plan { batch } => {
                    let planned = self.plan(batch, &mut planner)?;
                    *self.slot(batch) = Some(Arc::new(planned));
                    times.planning_s += lap().as_secs_f64();
                }
                Task::Run { batch, block, partition } => {
                    let planned = self.slot(batch).clone().expect("a batch is planned before it runs");
                    self.run(&planned, block, partition, &mut replayer)?;
                    let spent = lap();
                    times.execution_s += spent.as_secs_f64();
                    self.measures.ran(block, partition, spent);
                }
            }
            for batch in schedule.done(task) {
                let Some(batch) = self.slot(batch).take() else { continue };
                self.check_written(&batch, &mut sums)?;
                done(batch.transactions.len() as u64);
            }
        }
        times.waiting_s += lap().as_secs_f64();
        Ok(times)
    }
}
