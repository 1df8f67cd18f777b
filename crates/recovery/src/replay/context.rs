//! The interface of the methods of replay, and the database that they work on.
//! Invariant: the schema and the tables of a context are of the same moment. Held by: `apply_definition`,
//! `apply_planned` and `apply_image`, the only functions that change them.

use super::divergence::{statement_diverged, unfit};
use crate::on_demand::{PendingCommands, PendingRows};
use crate::{LogContents, Progress, RecoveryConfig, RecoveryError};
use catalog::{Arena, CommitOrder};
use checkpoint::{CheckpointError, Load};
use logging::content::{Record, RecordKind, StatementRecord};
use native::Compiler;
use procedure::{Effect, Procedure};
use schedule::{Breakdown, Mode};
use sql::Schema;
use std::sync::Arc;
use storage::{RecordState, Worker};
use transaction::{Applying, Tables};

/// A method of replay.
pub(crate) trait Replay {
    /// Loads the rows of a checkpoint into the indexes or slots that the method works on.
    ///
    /// # Errors
    /// The disk fails; the checkpoint is damaged; memory is short.
    fn load(&mut self, checkpoint: &Load<'_>) -> Result<(), CheckpointError>;

    /// Returns what may be left for the first access that looks for it.
    fn on_demand(&self) -> OnDemand {
        OnDemand::Nothing
    }

    /// Replays the whole log over the tables of the context.
    ///
    /// # Errors
    /// A transaction diverges; the method does not replay a record; memory is short.
    fn run_all(&mut self, context: &mut ReplayContext<'_>) -> Result<Replayed, RecoveryError>;
}

/// What may be left for the first access that looks for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnDemand {
    /// Nothing: the method needs all rows.
    Nothing,
    /// The rows of the checkpoint: the method reads and writes rows through accesses that ask for them.
    Checkpoint,
    /// The rows of the checkpoint, and the commands of the log.
    Commands,
    /// The rows of the checkpoint and the writes of the log.
    Writes {
        /// Whether every write must be of a whole row.
        needs_whole_rows: bool,
    },
    /// The rows of the checkpoint and of the log, by slot.
    Slots,
}

/// The result of a replay, beside the tables.
#[derive(Default)]
pub(crate) struct Replayed {
    /// The time of a parallel replay of commands.
    pub(crate) breakdown: Option<Breakdown>,
    /// The mode of a parallel replay of commands.
    pub(crate) mode: Option<Mode>,
    /// The transactions that are executed when a transaction looks for their rows.
    pub(crate) commands: Option<Arc<PendingCommands>>,
}

/// The statements of a log under the definitions before them.
pub(crate) struct PlannedStatements {
    /// The definitions after all of them.
    schema: Schema,
    /// The index of the record of each, its text, and what it does.
    pub(crate) effects: Vec<(usize, String, Effect)>,
}

/// A database while its log is replayed.
pub(crate) struct ReplayContext<'a> {
    /// The log, arranged as the method asks.
    pub(crate) log: &'a Arc<LogContents>,
    /// The bound of the checkpoint; the first of all orders where there is none.
    pub(crate) from: CommitOrder,
    /// The definitions so far.
    pub(crate) schema: Schema,
    /// The tables so far.
    pub(crate) tables: Tables,
    /// Compiles procedures and pieces.
    pub(crate) compiler: Compiler,
    /// The settings of recovery.
    pub(crate) config: &'a RecoveryConfig,
    /// The counters of progress.
    pub(crate) progress: &'a Progress,
    /// The rows that are brought back when a transaction looks for them, the writes of the log included if
    /// these are.
    pub(crate) rows: Option<Arc<PendingRows>>,
    /// Whether the method may leave commands to be executed when a transaction looks for their rows.
    pub(crate) defers_commands: bool,
    /// The transactions that had not committed and leave nothing, in the order in which they are undone.
    pub(crate) undone: Vec<CommitOrder>,
}

impl ReplayContext<'_> {
    /// Returns the number of threads that replay, at least 1.
    pub(crate) fn threads(&self) -> usize {
        self.config.threads.max(1)
    }

    /// Returns a worker for one thread.
    ///
    /// # Errors
    /// `NoWorker`.
    pub(crate) fn worker(&self) -> Result<Worker, RecoveryError> {
        worker_of(&self.tables)
    }

    /// Applies one statement of the log or of a checkpoint. Returns the procedure of a statement that is no
    /// definition; it is not executed.
    ///
    /// # Errors
    /// The statement is refused; its effect fails.
    pub(crate) fn apply_definition(
        &mut self,
        order: CommitOrder,
        record: &StatementRecord<'_>,
        worker: &mut Worker,
    ) -> Result<Option<Arc<Procedure>>, RecoveryError> {
        self.tables.epochs.advance_to(order.epoch());
        let (schema, effect) = self.schema.apply_unchecked(record.text).map_err(RecoveryError::Definition)?;
        if let Effect::Run(procedure) = effect {
            return Ok(Some(procedure));
        }
        self.change_tables(order, record, &effect, worker)?;
        self.schema = schema;
        Ok(None)
    }

    /// Plans all statements of the log. Nothing is applied.
    ///
    /// # Errors
    /// A statement is refused.
    pub(crate) fn plan_statements(&self) -> Result<PlannedStatements, RecoveryError> {
        let mut planned = PlannedStatements { schema: self.schema.clone(), effects: Vec::new() };
        for index in self.log.statements() {
            for text in statements_of(&self.log.statement(index).1)? {
                let (schema, effect) =
                    planned.schema.apply_unchecked(&text).map_err(RecoveryError::Definition)?;
                planned.schema = schema;
                planned.effects.push((index, text, effect));
            }
        }
        Ok(planned)
    }

    /// Applies all statements of the log, which are definitions.
    ///
    /// # Errors
    /// The effect of a definition fails.
    pub(crate) fn apply_planned(&mut self, planned: PlannedStatements) -> Result<(), RecoveryError> {
        let mut worker = self.worker()?;
        for (index, text, effect) in &planned.effects {
            let (order, statement) = self.log.statement(*index);
            self.tables.epochs.advance_to(order.epoch());
            self.change_tables(order, &StatementRecord { text, ..statement }, effect, &mut worker)?;
        }
        self.schema = planned.schema;
        Ok(())
    }

    /// Applies the definitions of a record.
    ///
    /// # Errors
    /// As `apply_definition`; a statement is no definition.
    pub(crate) fn apply_definitions_at(
        &mut self,
        index: usize,
        worker: &mut Worker,
    ) -> Result<(), RecoveryError> {
        let (order, statement) = self.log.statement(index);
        self.age_writes_before(index, worker)?;
        for text in statements_of(&statement)? {
            let statement = StatementRecord { text: &text, ..statement };
            if self.apply_definition(order, &statement, worker)?.is_some() {
                return Err(RecoveryError::holds(RecordKind::Statement));
            }
        }
        Ok(())
    }

    /// Makes the writes of the stages before a definition older than those after it, which have the same
    /// order: methods for which the last writer of a row wins compare orders.
    fn age_writes_before(&self, index: usize, worker: &mut Worker) -> Result<(), RecoveryError> {
        if self.log.stage(index) == 0 {
            return Ok(());
        }
        let order = self.log.order(index);
        let (guard, mut arena, mut row, mut key) = (worker.enter(), Arena::default(), Vec::new(), Vec::new());
        let is_earlier = |before: &usize| self.log.kind(*before) != RecordKind::Definition;
        for before in (0..index).rev().take_while(is_earlier) {
            if self.log.order(before) != order {
                continue;
            }
            let (_, Record::Writes(writes)) = self.log.record(before) else { continue };
            for (_, write) in writes.writes() {
                let store = self.tables.by_id(write.table).ok_or_else(|| unfit(order))?;
                arena.clear();
                key.clear();
                let keyed = write.key(store.definition(), (&mut arena, &mut row), &mut key);
                keyed.map_err(|_| unfit(order))?;
                if let Ok(record) = store.find(&key, &guard) {
                    age(record, order);
                }
            }
        }
        Ok(())
    }

    /// Applies all definitions of an image, to no tables.
    ///
    /// # Errors
    /// The image is malformed; memory is short.
    pub(crate) fn apply_image(&mut self, image: &str, worker: &mut Worker) -> Result<(), RecoveryError> {
        let schema = Schema::from_image(image).map_err(RecoveryError::Definitions)?;
        let tables = schema.catalog().tables().map(|table| Effect::CreateTable(Arc::clone(table)));
        let effect = Effect::All(tables.collect());
        let record = StatementRecord { timestamp_us: 0, seed: 0, text: "", written: None };
        self.change_tables(CommitOrder(0), &record, &effect, worker)?;
        self.schema = schema;
        Ok(())
    }

    fn change_tables(
        &mut self,
        order: CommitOrder,
        record: &StatementRecord<'_>,
        effect: &Effect,
        worker: &mut Worker,
    ) -> Result<(), RecoveryError> {
        let how = Applying { timestamp_us: record.timestamp_us, seed: record.seed, is_new: false };
        let applied = self.tables.apply(effect, how, &worker.enter());
        applied.map_err(|error| statement_diverged(order, record.text, &error))
    }
}

/// Gives a record that the transaction at an order has written the order before that.
fn age(record: storage::Record<'_>, order: CommitOrder) {
    let state = loop {
        match record.try_lock() {
            Some(state) => break state,
            None => std::hint::spin_loop(),
        }
    };
    let before = CommitOrder(order.0 - 1);
    let aged = match state.is_absent() {
        true => RecordState::absent(before),
        false => RecordState::present(before),
    };
    record.unlock(if state.order() == order { aged.with_queued(state.is_queued()) } else { state });
}

/// Returns a worker for one thread on tables.
///
/// # Errors
/// `NoWorker`.
pub(super) fn worker_of(tables: &Tables) -> Result<Worker, RecoveryError> {
    Worker::new(tables.epochs.clone(), tables.memory.clone()).ok_or(RecoveryError::NoWorker)
}

/// Splits a record of definitions into its statements.
///
/// # Errors
/// The text cannot be split.
pub(super) fn statements_of(record: &StatementRecord<'_>) -> Result<Vec<String>, RecoveryError> {
    let statements = Schema::split(record.text).map_err(RecoveryError::Definition)?;
    Ok(statements.into_iter().map(|(text, ..)| text).collect())
}
