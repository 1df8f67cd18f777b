//! `clr`: serial re-execution of the command log in commit order.
//! Paper: PACMAN §2.3 (CLR); command logging §III. The reference for every other method.
//! Invariant: every read whose result is recorded finds that result again, and every call writes what it
//! wrote.
//! Held by: `divergence_is_refused`.

use super::divergence::{check_statement, statement_diverged, undefined};
use super::{define, definitions_of, unknown_record, writes_diverged};
use crate::{LogContents, Progress, RecoveryError, Stage};
use catalog::{Arena, CommitOrder, Datum, Epoch, ProcedureId, Reader};
use logging::content::{CallRecord, Record, StatementRecord, WritesRecord};
use procedure::{
    Call, Effect, Machine, OperationId, Part, Procedure, Tapes, Whole, WitnessRecorder, execute,
};
use schedule::{Definitions, RecordedCall, ValueWriter, in_words};
use sql::Schema;
use std::collections::HashMap;
use std::sync::Arc;
use storage::Worker;
use transaction::{Tables, Workspace};

/// Progress is published after this many transactions.
const REPORT_EVERY: u64 = 1024;

struct Replay {
    schema: Schema,
    tables: Tables,
    procedures: HashMap<ProcedureId, Arc<Procedure>>,
    definitions: Definitions,
    workspace: Workspace,
    machine: Machine,
    arguments: Vec<Datum>,
    checks: Checks,
    writer: ValueWriter,
}

/// What is compared with a call's record once the call has run.
#[derive(Default)]
struct Checks {
    witnesses: WitnessRecorder,
    /// The rows that each operation came to; to name those of a call that diverges.
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

/// Replays everything; returns the definitions and tables as they are afterwards.
pub(crate) fn replay(
    log: &LogContents,
    schema: Schema,
    tables: Tables,
    progress: &Progress,
) -> Result<(Schema, Tables), RecoveryError> {
    let worker = Worker::new(tables.epochs.clone(), tables.memory.clone()).ok_or(RecoveryError::NoWorker)?;
    let workspace = Workspace::new(tables.clone(), worker);
    let machine = Machine::default();
    let procedures = HashMap::new();
    let arguments = Vec::new();
    let writer = ValueWriter::default();
    let checks = Checks::default();
    let definitions = Definitions::default();
    let mut replay =
        Replay { schema, tables, procedures, definitions, workspace, machine, arguments, checks, writer };
    replay.index_definitions();
    progress.begin(Stage::Replay, log.len() as u64);
    for (done, (order, record)) in (1..).zip(log.records()) {
        replay.tables.epochs.advance_to(order.epoch());
        match record {
            Record::Call(call) => replay.call(order, &call)?,
            Record::Definition(statement) | Record::Statement(statement) => {
                replay.statement(order, &statement)?;
            }
            Record::Writes(writes) => replay.writes(order, writes)?,
            _ => return Err(unknown_record(order)),
        }
        replay.workspace.collect_garbage(CommitOrder::last_of(Epoch(order.epoch().0 - 1)), || true);
        if done % REPORT_EVERY == 0 {
            progress.set_done(done);
        }
    }
    progress.set_done(log.len() as u64);
    Ok((replay.schema, replay.tables))
}

impl Replay {
    fn index_definitions(&mut self) {
        self.procedures =
            self.schema.procedures().map(|procedure| (procedure.id, Arc::clone(procedure))).collect();
        self.definitions = Definitions::new(self.tables.iter().map(|store| store.definition()));
    }

    fn call(&mut self, order: CommitOrder, record: &CallRecord<'_>) -> Result<(), RecoveryError> {
        let found = self.procedures.get(&record.procedure);
        let Some(procedure) = found.filter(|procedure| procedure.version == record.version) else {
            return Err(undefined(order, record.procedure, record.version));
        };
        let procedure = Arc::clone(procedure);
        let call = RecordedCall { order, procedure: &procedure, record };
        self.machine.reset(record.timestamp_us, record.seed);
        let mut reader = Reader::new(record.arguments);
        procedure
            .read_arguments(&mut reader, &mut self.machine.frame.arena, &mut self.arguments)
            .map_err(|error| call.diverged(&error))?;
        self.checks.witnesses.begin(if record.witnessed { &procedure.witnesses } else { &[] });
        self.checks.rows.clear();
        self.checks.rows.resize(procedure.operations.len(), 0);
        self.workspace.begin();
        let again = Call { procedure: &procedure, timestamp_us: record.timestamp_us, seed: record.seed };
        let arguments = self.arguments.iter().copied();
        if let Err(failure) =
            execute(again, arguments, &mut self.machine, &mut self.workspace, &mut self.checks)
        {
            self.workspace.rollback();
            return Err(call.failed(&procedure.operations, self.machine.failed_at(), &failure).into());
        }
        let recorded = reader.take(reader.remaining()).unwrap_or_default();
        if let Err(error) = self.check(call, recorded) {
            self.workspace.rollback();
            return Err(error);
        }
        Ok(self.workspace.commit_at(order).map_err(|conflict| call.diverged(&conflict))?)
    }

    /// Compares what a call did with its record; `recorded` are the witness values there.
    fn check(&self, call: RecordedCall<'_>, recorded: &[u8]) -> Result<(), RecoveryError> {
        let operations = &call.procedure.operations;
        if call.record.witnessed
            && let Some(id) = self.checks.witnesses.first_difference(recorded)
        {
            let operation = in_words(&operations[id.0 as usize]);
            let error = format!("it read other values than its record says; operation: {operation}");
            return Err(call.diverged(&error).into());
        }
        let written = self.machine.written();
        match call.record.written {
            Some(recorded) if recorded != written => {
                let writes = operations.iter().zip(&self.checks.rows).filter(|(own, _)| own.writes());
                Err(call.wrote_otherwise(written, writes.map(|(own, rows)| (in_words(own), *rows))).into())
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

    fn statement(&mut self, order: CommitOrder, record: &StatementRecord<'_>) -> Result<(), RecoveryError> {
        for text in definitions_of(record)? {
            self.one_statement(order, &StatementRecord { text: &text, ..*record })?;
        }
        Ok(())
    }

    /// Runs a statement that is no definition.
    fn run(
        &mut self,
        order: CommitOrder,
        procedure: &Procedure,
        record: &StatementRecord<'_>,
    ) -> Result<(), RecoveryError> {
        let StatementRecord { timestamp_us, seed, text, written } = *record;
        self.machine.reset(timestamp_us, seed);
        self.workspace.begin();
        let call = Call { procedure, timestamp_us, seed };
        let ran = execute(call, std::iter::empty(), &mut self.machine, &mut self.workspace, &mut Whole);
        let ran = ran.map_err(|failure| statement_diverged(order, text, &failure));
        let checked = ran.and_then(|()| check_statement(order, text, written, self.machine.written()));
        if checked.is_err() {
            self.workspace.rollback();
            return checked;
        }
        self.workspace.commit_at(order).map_err(|conflict| statement_diverged(order, text, &conflict))
    }

    fn one_statement(
        &mut self,
        order: CommitOrder,
        record: &StatementRecord<'_>,
    ) -> Result<(), RecoveryError> {
        let (schema, effect) = self.schema.apply(record.text).map_err(RecoveryError::Definition)?;
        if let Effect::Run(procedure) = effect {
            return self.run(order, &procedure, record);
        }
        define(order, record, &effect, &mut self.tables, self.workspace.worker())?;
        self.schema = schema;
        self.workspace.set_tables(self.tables.clone());
        self.index_definitions();
        Ok(())
    }
}
