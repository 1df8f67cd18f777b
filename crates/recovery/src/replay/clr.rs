//! `clr`: serial re-execution of the command log in commit order.
//! Paper: PACMAN §2.3 (CLR); command logging §III. The reference for every other method.
//! Invariant: every read whose result is recorded finds that result again, and every call makes the writes
//! that its record summarizes. Held by: `divergence_is_refused`, `serial_replay_compares_witnesses`.

use super::context::{Replay, ReplayContext, Replayed, statements_of};
use super::divergence::{check_statement, statement_diverged, undefined, unknown_record, writes_diverged};
use crate::{RecoveryError, Stage};
use catalog::{Arena, CommitOrder, Datum, Epoch, ProcedureId, Reader};
use checkpoint::{CheckpointError, Indexes, Load};
use logging::content::{CallRecord, Record, StatementRecord, WritesRecord};
use procedure::{Call, Machine, OperationId, Part, Procedure, Tapes, Whole, WitnessRecorder, execute};
use schedule::{Definitions, RecordedCall, ValueWriter, in_words};
use std::collections::HashMap;
use std::sync::Arc;
use transaction::Workspace;

/// Progress is published after this many transactions.
const REPORT_EVERY: u64 = 1024;

/// The method.
pub(super) struct Clr;

impl Replay for Clr {
    fn load(&mut self, checkpoint: &Load<'_>) -> Result<(), CheckpointError> {
        checkpoint.rows(&Indexes::All)
    }

    fn run_all(&mut self, context: &mut ReplayContext<'_>) -> Result<Replayed, RecoveryError> {
        let (log, progress) = (context.log, context.progress);
        let mut serial = Serial::new(context)?;
        progress.begin(Stage::Replay, log.len() as u64);
        for (done, (order, record)) in (1..).zip(log.records()) {
            serial.context.tables.epochs.advance_to(order.epoch());
            match record {
                Record::Call(call) => serial.call(order, &call)?,
                Record::Definition(statement) | Record::Statement(statement) => {
                    serial.statements(order, &statement)?;
                }
                Record::Writes(writes) => serial.writes(order, writes)?,
                _ => return Err(unknown_record(order)),
            }
            serial.workspace.collect_garbage(CommitOrder::last_of(Epoch(order.epoch().0 - 1)), || true);
            if done % REPORT_EVERY == 0 {
                progress.set_done(done);
            }
        }
        progress.set_done(log.len() as u64);
        Ok(Replayed::default())
    }
}

struct Serial<'c, 'a> {
    context: &'c mut ReplayContext<'a>,
    procedures: HashMap<ProcedureId, Arc<Procedure>>,
    definitions: Definitions,
    workspace: Workspace,
    machine: Machine,
    arguments: Vec<Datum>,
    checks: Checks,
    writer: ValueWriter,
}

/// What is compared with a call's record after the call.
#[derive(Default)]
struct Checks {
    witnesses: WitnessRecorder,
    /// By operation, the number of its rows; they name the operations of a call that diverges.
    rows: Vec<u64>,
}

impl Tapes for Checks {
    #[inline]
    fn part(&self, id: OperationId) -> Part {
        self.witnesses.part(id)
    }

    fn send(&mut self, id: OperationId, value: Datum, arena: &Arena) {
        self.witnesses.send(id, value, arena);
    }

    fn receive(&mut self, id: OperationId, arena: &mut Arena) -> Datum {
        self.witnesses.receive(id, arena)
    }

    #[inline]
    fn ran(&mut self, id: OperationId, rows: i64) {
        self.rows[id.0 as usize] += rows as u64;
    }
}

impl<'c, 'a> Serial<'c, 'a> {
    fn new(context: &'c mut ReplayContext<'a>) -> Result<Self, RecoveryError> {
        let workspace = Workspace::new(context.tables.clone(), context.worker()?);
        let mut serial = Self {
            context,
            procedures: HashMap::new(),
            definitions: Definitions::default(),
            workspace,
            machine: Machine::default(),
            arguments: Vec::new(),
            checks: Checks::default(),
            writer: ValueWriter::default(),
        };
        serial.index_definitions();
        Ok(serial)
    }

    fn index_definitions(&mut self) {
        let ReplayContext { schema, tables, .. } = &*self.context;
        self.procedures =
            schema.procedures().map(|procedure| (procedure.id, Arc::clone(procedure))).collect();
        self.definitions = Definitions::new(tables.iter().map(|store| store.definition()));
    }

    fn call(&mut self, order: CommitOrder, record: &CallRecord<'_>) -> Result<(), RecoveryError> {
        let found = self.procedures.get(&record.procedure);
        let Some(procedure) = found.filter(|procedure| procedure.version == record.version) else {
            return Err(undefined(order, record.procedure, record.version));
        };
        let procedure = Arc::clone(procedure);
        let recorded = RecordedCall { order, procedure: &procedure, record };
        self.machine.reset(record.timestamp_us, record.seed);
        let mut reader = Reader::new(record.arguments);
        procedure
            .read_arguments(&mut reader, &mut self.machine.frame.arena, &mut self.arguments)
            .map_err(|error| recorded.diverged(&error))?;
        self.checks.witnesses.begin(if record.witnessed { &procedure.witnesses } else { &[] });
        self.checks.rows.clear();
        self.checks.rows.resize(procedure.operations.len(), 0);
        self.workspace.begin();
        let call = Call { procedure: &procedure, timestamp_us: record.timestamp_us, seed: record.seed };
        let arguments = self.arguments.iter().copied();
        if let Err(failure) =
            execute(call, arguments, &mut self.machine, &mut self.workspace, &mut self.checks)
        {
            self.workspace.rollback();
            return Err(recorded.failed(&procedure.operations, self.machine.failed_at(), &failure).into());
        }
        let witnesses = reader.take(reader.remaining()).unwrap_or_default();
        if let Err(error) = self.check(recorded, witnesses) {
            self.workspace.rollback();
            return Err(error);
        }
        Ok(self.workspace.commit_at(order).map_err(|conflict| recorded.diverged(&conflict))?)
    }

    /// Compares the reads and writes of a call with its record, whose witness values are `witnesses`.
    fn check(&self, call: RecordedCall<'_>, witnesses: &[u8]) -> Result<(), RecoveryError> {
        let operations = &call.procedure.operations;
        if call.record.witnessed
            && let Some(id) = self.checks.witnesses.first_difference(witnesses)
        {
            let operation = in_words(&operations[id.0 as usize]);
            let error = format!("it read other values than its record says; operation: {operation}");
            return Err(call.diverged(&error).into());
        }
        let written = self.machine.written();
        match call.record.written {
            Some(recorded) if recorded != written => {
                let rows = operations.iter().zip(&self.checks.rows);
                let writes = rows.filter(|(operation, _)| operation.writes());
                let by_operation = writes.map(|(operation, rows)| (in_words(operation), *rows));
                Err(call.wrote_otherwise(written, by_operation).into())
            }
            _ => Ok(()),
        }
    }

    fn writes(&mut self, order: CommitOrder, record: WritesRecord<'_>) -> Result<(), RecoveryError> {
        self.workspace.begin();
        let writes: Vec<_> = record.writes().map(|(_, write)| write).collect();
        self.writer.write(order, &writes, &self.definitions, &mut self.workspace)?;
        self.workspace.commit_at(order).map_err(|conflict| writes_diverged(order, &conflict))
    }

    fn statements(&mut self, order: CommitOrder, record: &StatementRecord<'_>) -> Result<(), RecoveryError> {
        for text in statements_of(record)? {
            let statement = StatementRecord { text: &text, ..*record };
            match self.context.apply_definition(order, &statement, self.workspace.worker())? {
                Some(procedure) => {
                    let Self { machine, workspace, .. } = self;
                    execute_statement(order, &procedure, &statement, machine, workspace)?;
                }
                None => {
                    self.workspace.set_tables(self.context.tables.clone());
                    self.index_definitions();
                }
            }
        }
        Ok(())
    }
}

/// Executes a statement that is no definition, as a transaction with its old place in the order.
pub(super) fn execute_statement(
    order: CommitOrder,
    procedure: &Procedure,
    record: &StatementRecord<'_>,
    machine: &mut Machine,
    workspace: &mut Workspace,
) -> Result<(), RecoveryError> {
    let StatementRecord { timestamp_us, seed, text, written } = *record;
    machine.reset(timestamp_us, seed);
    workspace.begin();
    let call = Call { procedure, timestamp_us, seed };
    let executed = execute(call, std::iter::empty(), machine, workspace, &mut Whole);
    let executed = executed.map_err(|failure| statement_diverged(order, text, &failure));
    let checked = executed.and_then(|()| check_statement(order, text, written, machine.written()));
    if checked.is_err() {
        workspace.rollback();
        return checked;
    }
    workspace.commit_at(order).map_err(|conflict| statement_diverged(order, text, &conflict))
}
