//! `clr-p`: the command log replayed on all cores.
//! Paper: PACMAN §§4.2–4.4.
//!
//! The log is cut into segments between definitions. For each, the procedures that occur in it are analysed; its
//! transactions are taken in batches, each batch is planned (which pieces, which partition), and pieces run as the
//! schedule says, straight on the tables.

mod access;
mod schedule;
mod tape;

use super::{define, diverged, undefined, unknown_record};
use crate::{LogContents, Progress, RecoveryError, Stage};
use access::Direct;
use catalog::{CommitOrder, Datum, ProcedureId, Reader, decode_value, skip_value};
use logging::content::{Record, StatementRecord};
use procedure::analysis::{Analysis, Pieces};
use procedure::{Call, DataAccess as _, Machine, OperationId, Procedure, Register, execute, execute_piece};
use schedule::{Schedule, Shape, Task};
use sql::{Effect, Schema};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use storage::Worker;
use tape::{PieceTapes, Tape};
use transaction::Tables;
use xxhash_rust::xxh3::xxh3_64;

/// Batches under way at a time, pipelined.
const WINDOW: usize = 8;
/// Partitions of a block for each thread.
const PARTITIONS_PER_THREAD: usize = 2;
/// A block has no more partitions than this.
const MOST_PARTITIONS: usize = 64;
/// Memory is given back after this many pieces.
const RECLAIM_EVERY: usize = 256;
/// In place of a partition: the transaction has no piece of the block.
const NOWHERE: u8 = u8::MAX;

/// How much of the analysis replay uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReplayMode {
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

/// Where the time of a replay went, summed over its threads.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ReplayBreakdown {
    /// Seconds of analysing procedures.
    pub analysis_s: f64,
    /// Seconds of sorting transactions into piece-sets.
    pub planning_s: f64,
    /// Seconds of running pieces.
    pub execution_s: f64,
    /// Seconds of waiting for something to do.
    pub waiting_s: f64,
}

/// One transaction of a batch.
struct Transaction<'l> {
    order: CommitOrder,
    program: usize,
    timestamp_us: i64,
    seed: u64,
    arguments: &'l [u8],
}

/// A planned batch.
struct Batch<'l> {
    transactions: Vec<Transaction<'l>>,
    /// By block and partition: transactions with a piece there, in commit order.
    pieces: Vec<Vec<Vec<u32>>>,
    /// By block and transaction.
    partitions: Vec<Vec<u8>>,
    /// What the pieces sent, by block and partition.
    sent: Vec<Vec<OnceLock<Vec<Tape>>>>,
}

/// A part of the log under one set of definitions.
struct Segment<'s, 'l> {
    log: &'l LogContents,
    first: usize,
    /// Transactions of a batch.
    batch: usize,
    pieces: &'s Pieces,
    /// The place of each procedure's program.
    programs: HashMap<(ProcedureId, u32), usize>,
    /// The procedure of each program.
    procedures: Vec<&'s Procedure>,
    partitions: Vec<usize>,
    /// For each program and operation: the block whose pieces send it, and the number of the tape there.
    tapes: Vec<Vec<Option<(usize, usize)>>>,
    /// Tapes of a piece-set, by block.
    tape_counts: Vec<usize>,
    /// Batches in the schedule's window.
    batches: Vec<Mutex<Option<Arc<Batch<'l>>>>>,
}

/// What one thread works with.
struct Replayer {
    data: Direct,
    machine: Machine,
}

impl Replayer {
    fn new(tables: &Tables) -> Result<Self, RecoveryError> {
        let worker =
            Worker::new(tables.epochs.clone(), tables.memory.clone()).ok_or(RecoveryError::NoWorker)?;
        Ok(Self { data: Direct::new(tables.clone(), worker), machine: Machine::default() })
    }
}

/// Replays everything; returns the definitions and tables as they are afterwards, and where the time went.
pub(crate) fn replay(
    log: &LogContents,
    mut schema: Schema,
    mut tables: Tables,
    statements: &mut Vec<String>,
    how: How,
    progress: &Progress,
) -> Result<(Schema, Tables, ReplayBreakdown), RecoveryError> {
    progress.begin(Stage::Replay, log.len() as u64);
    let mut breakdown = ReplayBreakdown::default();
    let mut place = 0;
    while place < log.len() {
        match log.record(place) {
            (order, Record::Statement(statement)) => {
                (schema, tables) = run_statement(order, &statement, schema, tables, statements)?;
                place += 1;
            }
            (_, Record::Call(_)) => {
                let (first, mut occurring) = (place, BTreeSet::new());
                while place < log.len()
                    && let Record::Call(call) = log.record(place).1
                {
                    occurring.insert((call.procedure, call.version));
                    place += 1;
                }
                let procedures =
                    schema.procedures().filter(|own| occurring.contains(&(own.id, own.version))).collect();
                replay_calls(log, first..place, procedures, &tables, how, progress, &mut breakdown)?;
            }
            (order, _) => return Err(unknown_record(order)),
        }
    }
    Ok((schema, tables, breakdown))
}

fn run_statement(
    order: CommitOrder,
    record: &StatementRecord<'_>,
    schema: Schema,
    mut tables: Tables,
    statements: &mut Vec<String>,
) -> Result<(Schema, Tables), RecoveryError> {
    tables.epochs.advance_to(order.epoch());
    let (changed, effect) = schema.apply(record.text).map_err(RecoveryError::Definition)?;
    let mut replayer = Replayer::new(&tables)?;
    if let Effect::Run(procedure) = effect {
        let Replayer { data, machine } = &mut replayer;
        machine.reset(record.timestamp_us, record.seed);
        data.order = order;
        data.enter();
        let call = Call { procedure: &procedure, timestamp_us: record.timestamp_us, seed: record.seed };
        let executed = execute(call, std::iter::empty(), machine, data);
        data.exit();
        return match executed {
            Ok(()) => Ok((schema, tables)),
            Err(failure) => Err(diverged(order, &procedure, &failure)),
        };
    }
    define(order, record.text, &effect, &mut tables, &mut replayer.data.worker)?;
    statements.push(record.text.into());
    Ok((changed, tables))
}

/// Replays calls, between which no definition changes.
fn replay_calls(
    log: &LogContents,
    range: std::ops::Range<usize>,
    procedures: Vec<&Arc<Procedure>>,
    tables: &Tables,
    how: How,
    progress: &Progress,
    breakdown: &mut ReplayBreakdown,
) -> Result<(), RecoveryError> {
    let begun = Instant::now();
    let analysis = Analysis::for_replay(procedures.iter().map(|procedure| &***procedure));
    let pieces = Pieces::of(&analysis);
    let by_id = |id| procedures.iter().find(|own| own.id == id).expect("a program is of one of them");
    let procedures: Vec<&Procedure> =
        pieces.programs.iter().map(|program| &***by_id(program.procedure)).collect();
    let programs = procedures.iter().enumerate().map(|(place, own)| ((own.id, own.version), place));
    breakdown.analysis_s += begun.elapsed().as_secs_f64();

    let most = if how.mode == ReplayMode::Static || how.threads == 1 {
        1
    } else {
        (how.threads * PARTITIONS_PER_THREAD).min(MOST_PARTITIONS)
    };
    let partitions: Vec<usize> =
        pieces.partitioned.iter().map(|partitioned| if *partitioned { most } else { 1 }).collect();
    let batches = range.len().div_ceil(how.batch);
    let window = if how.mode == ReplayMode::Pipelined { WINDOW } else { 1 };
    let shape = Shape { batches, before: pieces.before.clone(), partitions: partitions.clone(), window };
    let (tapes, tape_counts) = number_tapes(&pieces);
    let slots = (0..batches).map(|_| Mutex::new(None)).collect();
    let segment = Segment {
        log,
        first: range.start,
        batch: how.batch,
        pieces: &pieces,
        programs: programs.collect(),
        procedures,
        partitions,
        tapes,
        tape_counts,
        batches: slots,
    };
    let schedule = Schedule::new(shape);
    let finished = AtomicU64::new(0);
    let work = || -> Result<ReplayBreakdown, RecoveryError> {
        let mut replayer = Replayer::new(tables)?;
        let mut spent = ReplayBreakdown::default();
        let seconds = |from: &mut Instant| std::mem::replace(from, Instant::now()).elapsed();
        let mut clock = Instant::now();
        while let Some(task) = schedule.take() {
            add(&mut spent.waiting_s, seconds(&mut clock));
            match task {
                Task::Plan { batch } => {
                    segment.plan(batch, range.end, &mut replayer)?;
                    add(&mut spent.planning_s, seconds(&mut clock));
                }
                Task::Run { batch, block, partition } => {
                    segment.run(batch, block, partition, &mut replayer)?;
                    add(&mut spent.execution_s, seconds(&mut clock));
                }
            }
            for batch in schedule.done(task) {
                let done = segment.forget(batch);
                let all = finished.fetch_add(done, Ordering::Relaxed) + done;
                progress.set_done(range.start as u64 + all);
                let epochs = &tables.epochs;
                epochs.advance_from(epochs.current());
            }
        }
        add(&mut spent.waiting_s, seconds(&mut clock));
        Ok(spent)
    };
    let guarded = || {
        let result = work();
        if result.is_err() {
            schedule.stop();
        }
        result
    };
    let (last, _) = log.record(range.end - 1);
    let results: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..how.threads).map(|_| scope.spawn(guarded)).collect();
        running.into_iter().map(|thread| thread.join().expect("a replaying thread does not panic")).collect()
    });
    for result in results {
        let spent = result?;
        breakdown.planning_s += spent.planning_s;
        breakdown.execution_s += spent.execution_s;
        breakdown.waiting_s += spent.waiting_s;
    }
    tables.epochs.advance_to(last.epoch());
    Ok(())
}

fn add(sum: &mut f64, time: Duration) {
    *sum += time.as_secs_f64();
}

/// By program and operation, the block whose pieces send it, and the number of its tape there.
type TapeNumbers = Vec<Vec<Option<(usize, usize)>>>;

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

impl<'l> Segment<'_, 'l> {
    fn slot(&self, batch: usize) -> std::sync::MutexGuard<'_, Option<Arc<Batch<'l>>>> {
        self.batches[batch].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of a batch that is done; returns its number of transactions.
    fn forget(&self, batch: usize) -> u64 {
        self.slot(batch).take().map_or(0, |batch| batch.transactions.len() as u64)
    }

    /// Sorts the transactions of a batch into piece-sets.
    fn plan(&self, batch: usize, end: usize, replayer: &mut Replayer) -> Result<(), RecoveryError> {
        let first = self.first + batch * self.batch;
        let last = (first + self.batch).min(end);
        let blocks = self.partitions.len();
        let mut planned = Batch {
            transactions: Vec::with_capacity(last - first),
            pieces: self.partitions.iter().map(|count| vec![Vec::new(); *count]).collect(),
            partitions: vec![vec![NOWHERE; last - first]; blocks],
            sent: self
                .partitions
                .iter()
                .map(|count| (0..*count).map(|_| OnceLock::new()).collect())
                .collect(),
        };
        for place in first..last {
            let (order, record) = self.log.record(place);
            let Record::Call(call) = record else { unreachable!("a segment holds calls only") };
            let Some(program) = self.programs.get(&(call.procedure, call.version)) else {
                return Err(undefined(order, call.procedure, call.version));
            };
            let procedure = self.procedures[*program];
            let number = planned.transactions.len();
            planned.transactions.push(Transaction {
                order,
                program: *program,
                timestamp_us: call.timestamp_us,
                seed: call.seed,
                arguments: call.arguments,
            });
            let own = &self.pieces.pieces[*program];
            if own.iter().any(|piece| self.partitions[piece.block] > 1) {
                let transaction = &planned.transactions[number];
                let inputs = &self.pieces.programs[*program].inputs;
                self.load_inputs(transaction, inputs, replayer)?;
            }
            for piece in own {
                let count = self.partitions[piece.block];
                let partition = if count == 1 {
                    0
                } else {
                    partition_of(piece, count, replayer).map_err(|e| diverged(order, procedure, &e))?
                };
                planned.partitions[piece.block][number] = partition as u8;
                planned.pieces[piece.block][partition].push(number as u32);
            }
        }
        *self.slot(batch) = Some(Arc::new(planned));
        Ok(())
    }

    /// Puts a transaction's arguments into registers.
    fn load_inputs(
        &self,
        transaction: &Transaction<'_>,
        inputs: &[Option<Register>],
        replayer: &mut Replayer,
    ) -> Result<(), RecoveryError> {
        let machine = &mut replayer.machine;
        let procedure = self.procedures[transaction.program];
        let registers = self.pieces.programs[transaction.program].registers;
        machine.begin_piece(registers, transaction.timestamp_us, transaction.seed);
        let mut reader = Reader::new(transaction.arguments);
        let failed = |error: &dyn std::fmt::Display| diverged(transaction.order, procedure, error);
        for ((_, parameter), register) in procedure.inputs().zip(inputs) {
            let Some(register) = register else {
                skip_value(parameter.ty, &mut reader).map_err(|error| failed(&error))?;
                continue;
            };
            let value = decode_value(parameter.ty, &mut reader, &mut machine.arena);
            machine.set(*register, value.map_err(|error| failed(&error))?);
        }
        Ok(())
    }

    /// Runs the pieces of a partition in commit order.
    fn run(
        &self,
        batch: usize,
        block: usize,
        partition: usize,
        replayer: &mut Replayer,
    ) -> Result<(), RecoveryError> {
        let batch = self.slot(batch).clone().expect("a batch is planned before it runs");
        let mut sent: Vec<Tape> = Vec::new();
        sent.resize_with(self.tape_counts[block], Tape::default);
        let mut received = Vec::new();
        for numbers_of_pieces in batch.pieces[block][partition].chunks(RECLAIM_EVERY) {
            replayer.data.enter();
            for number in numbers_of_pieces {
                let transaction = &batch.transactions[*number as usize];
                let program = transaction.program;
                let own = self.pieces.pieces[program].iter().find(|piece| piece.block == block);
                let piece = own.expect("a planned piece is there");
                let procedure = self.procedures[program];
                self.load_inputs(transaction, &piece.inputs, replayer)?;
                let mut tapes = PieceTapes {
                    transaction: *number,
                    piece,
                    numbers: &self.tapes[program],
                    sent: &mut sent,
                    received: &mut received,
                    broken: false,
                };
                for id in &piece.receives {
                    if let Some(tape) = self.tape_of(&batch, program, *id, *number) {
                        tapes.receive_from(*id, tape);
                    }
                }
                replayer.data.order = transaction.order;
                let code = self.pieces.code(program, piece);
                let run = execute_piece(code, &mut replayer.machine, &mut replayer.data, &mut tapes);
                let broken = tapes.broken;
                run.map_err(|failure| diverged(transaction.order, procedure, &failure))?;
                if broken {
                    let error = "a piece needs what no piece before it has found";
                    return Err(diverged(transaction.order, procedure, &error));
                }
                replayer.data.expect_nothing();
            }
            replayer.data.exit();
        }
        let _ = batch.sent[block][partition].set(sent);
        Ok(())
    }

    /// The tape on which a transaction's operation was sent.
    fn tape_of<'b>(
        &self,
        batch: &'b Batch<'_>,
        program: usize,
        id: OperationId,
        number: u32,
    ) -> Option<&'b Tape> {
        let (block, tape) = self.tapes[program][id.0 as usize]?;
        let partition = batch.partitions[block][number as usize];
        batch.sent[block].get(usize::from(partition))?.get()?.get(tape)
    }
}

/// The partition of a piece whose arguments are in the registers.
fn partition_of(
    piece: &procedure::analysis::Piece,
    count: usize,
    replayer: &mut Replayer,
) -> Result<usize, Box<procedure::SqlError>> {
    let mut key = Vec::new();
    for of in &piece.partition {
        let value: Datum = of.value.evaluate(&mut replayer.machine)?;
        of.table.encode_key_column(of.column, value, &replayer.machine.arena, &mut key);
    }
    Ok(xxh3_64(&key) as usize % count)
}
