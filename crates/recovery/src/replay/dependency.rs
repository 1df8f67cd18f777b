//! `dependency`: the log of batches that dependency graphs have scheduled, replayed on all cores without an
//! analysis.
//! Paper: DistDGCC §4.1. Differs: batches are replayed one after the other, so edges between batches need no
//! records.
//!
//! 1. Fine records hold what a batch leaves of each row, so what two of them write never depends on each
//!    other, but by table and key. They are shuffled by key, as those of `llr-p`.
//! 2. Coarse records hold calls and the edges between them. The graph of a batch is rebuilt from the records,
//!    and its calls are executed as at run time, each after those that it waits for. What committed beside
//!    batches runs between them, in commit order.
//!
//! Invariant: the calls of a batch run in the order of the edges in its records, and batches in commit order.
//! Held by: `batches_equal_one_thread` (crates/reprise).
//! Not here: incomplete batches, which are past the cut, or refused (`crate::log`).

use super::clr_p::run_statement;
use super::context::{OnDemand, Replay, ReplayContext, Replayed, statements_of};
use super::divergence::{unfit, unknown_record};
use super::llr_p::LlrP;
use super::reexecution::Reexecution;
use crate::{LogContents, RecoveryError, Stage};
use catalog::CommitOrder;
use checkpoint::{CheckpointError, Indexes, Load};
use logging::content::{Record, RecordKind, StatementRecord};
use schedule::graph::{Graph, GraphSource, GraphWorker, Vertex, run_graphs};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Mutex;

/// Most transactions beside batches that are read at once.
const MOST_ALONE: usize = 256;

/// Returns the replay of a log with these kinds of records.
pub(super) fn of_kinds(kinds: &BTreeSet<RecordKind>) -> Box<dyn Replay> {
    if kinds.contains(&RecordKind::BatchWrites) { Box::new(LlrP) } else { Box::new(Coarse) }
}

/// The method, for coarse records.
struct Coarse;

impl Replay for Coarse {
    fn load(&mut self, checkpoint: &Load<'_>) -> Result<(), CheckpointError> {
        checkpoint.rows(&Indexes::All)
    }

    fn on_demand(&self) -> OnDemand {
        OnDemand::Checkpoint
    }

    fn run_all(&mut self, context: &mut ReplayContext<'_>) -> Result<Replayed, RecoveryError> {
        let log = context.log;
        context.progress.begin(Stage::Replay, log.len() as u64);
        let mut first = 0;
        for index in log.statements().chain(std::iter::once(log.len())) {
            if first < index {
                replay(first..index, context)?;
            }
            first = index + 1;
            if index == log.len() {
                break;
            }
            let (order, statement) = log.statement(index);
            for text in statements_of(&statement)? {
                run_statement(order, &StatementRecord { text: &text, ..statement }, context)?;
            }
        }
        Ok(Replayed::default())
    }
}

/// Replays the records between two definitions.
fn replay(range: Range<usize>, context: &ReplayContext<'_>) -> Result<(), RecoveryError> {
    let worker = |_| {
        let mut execution = Reexecution::new(context)?;
        execution.workspace.enter_batches();
        Ok(Vertices { context, execution })
    };
    let workers = (0..context.threads()).map(worker).collect::<Result<_, RecoveryError>>()?;
    run_graphs(&LogGraphs { context, next: Mutex::new(range) }, workers)
}

/// Executes vertices on one thread.
struct Vertices<'c, 'a> {
    context: &'c ReplayContext<'a>,
    execution: Reexecution,
}

impl<'c, 'a> GraphWorker<LogGraphs<'c, 'a>> for Vertices<'c, 'a> {
    fn run(&mut self, batch: &Range<usize>, vertex: Vertex) -> Result<(), RecoveryError> {
        let (order, record) = self.context.log.record(batch.start + vertex as usize);
        match record {
            Record::Call(call) => self.execution.call(order, &call),
            Record::Writes(writes) => self.execution.writes(order, writes),
            _ => Err(unknown_record(order)),
        }
    }

    /// Deleted rows leave the indexes while no vertex looks for them.
    fn batch_ends(&mut self, batch: &Range<usize>) {
        self.execution.collect_garbage_now(self.context.log.order(batch.end - 1));
    }
}

/// The batches of a part of the log.
struct LogGraphs<'c, 'a> {
    context: &'c ReplayContext<'a>,
    /// The indexes of the records that are left.
    next: Mutex<Range<usize>>,
}

impl GraphSource for LogGraphs<'_, '_> {
    type Batch = Range<usize>;
    type Error = RecoveryError;

    fn next(&self) -> Result<Option<(Graph, Range<usize>)>, RecoveryError> {
        let mut left = self.next.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let ReplayContext { log, progress, tables, .. } = self.context;
        progress.set_done(left.start as u64);
        if left.is_empty() {
            return Ok(None);
        }
        let range = next_batch(left.clone(), log);
        left.start = range.end;
        tables.epochs.advance_to(log.order(range.end - 1).epoch());
        Ok(Some((graph_of(range.clone(), log)?, range)))
    }
}

/// Returns the records of the first batch among these; or those before it.
fn next_batch(left: Range<usize>, log: &LogContents) -> Range<usize> {
    let is_vertex = |index: &usize| log.kind(*index) == RecordKind::Vertex;
    let order = log.order(left.start);
    let is_within = |last: CommitOrder| left.clone().take_while(|index| log.order(*index) <= last).count();
    let count = match log.batches.get(log.batches.partition_point(|batch| batch.last < order)) {
        Some(batch) if is_vertex(&left.start) => is_within(batch.last),
        _ => left.clone().take_while(|index| !is_vertex(index)).take(MOST_ALONE).count(),
    };
    left.start..left.start + count.max(1)
}

/// Rebuilds the graph of records. Those that are no vertices run one after the other.
fn graph_of(range: Range<usize>, log: &LogContents) -> Result<Graph, RecoveryError> {
    let count = range.len() as Vertex;
    if log.kind(range.start) != RecordKind::Vertex {
        return Ok(Graph::of_edges(count, (1..count).map(|later| (later - 1, later))));
    }
    let orders: Vec<CommitOrder> = range.clone().map(|index| log.order(index)).collect();
    let mut edges = Vec::new();
    for (vertex, index) in (0..).zip(range) {
        let (order, record) = log.record(index);
        let Record::Call(call) = record else { return Err(unknown_record(order)) };
        for later in call.later.orders(order) {
            let place = orders.binary_search(&later).map_err(|_| unfit(order))?;
            edges.push((vertex, place as Vertex));
        }
    }
    Ok(Graph::of_edges(count, edges.into_iter()))
}
