//! `clr`: serial re-execution of the command log in commit order.
//! Paper: PACMAN §2.3 (CLR); command logging §III. The reference for every other method.

use super::values::ValueWriter;
use super::{define, definitions_of, diverged, undefined, unknown_record, writes_diverged};
use crate::{LogContents, Progress, RecoveryError, Stage};
use catalog::{CommitOrder, Datum, Epoch, ProcedureId, Reader, decode_value};
use logging::content::{CallRecord, Record, StatementRecord, WritesRecord};
use procedure::{Call, Machine, Procedure, Whole, execute};
use sql::{Effect, Schema};
use std::collections::HashMap;
use std::sync::Arc;
use storage::Worker;
use transaction::{Occ, Tables};

/// Progress is published after this many transactions.
const REPORT_EVERY: u64 = 1024;

struct Replay<'a> {
    schema: Schema,
    tables: Tables,
    procedures: HashMap<ProcedureId, Arc<Procedure>>,
    statements: &'a mut Vec<String>,
    occ: Occ,
    machine: Machine,
    arguments: Vec<Datum>,
    writer: ValueWriter,
}

/// Replays everything; returns the definitions and tables as they are afterwards.
pub(crate) fn replay(
    log: &LogContents,
    schema: Schema,
    tables: Tables,
    statements: &mut Vec<String>,
    progress: &Progress,
) -> Result<(Schema, Tables), RecoveryError> {
    let worker = Worker::new(tables.epochs.clone(), tables.memory.clone()).ok_or(RecoveryError::NoWorker)?;
    let occ = Occ::new(tables.clone(), worker);
    let machine = Machine::default();
    let procedures = HashMap::new();
    let arguments = Vec::new();
    let writer = ValueWriter::default();
    let mut replay = Replay { schema, tables, procedures, statements, occ, machine, arguments, writer };
    replay.index_procedures();
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
        replay.occ.collect_garbage(CommitOrder::last_of(Epoch(order.epoch().0 - 1)), || true);
        if done % REPORT_EVERY == 0 {
            progress.set_done(done);
        }
    }
    progress.set_done(log.len() as u64);
    Ok((replay.schema, replay.tables))
}

impl Replay<'_> {
    fn index_procedures(&mut self) {
        self.procedures =
            self.schema.procedures().map(|procedure| (procedure.id, Arc::clone(procedure))).collect();
    }

    fn call(&mut self, order: CommitOrder, record: &CallRecord<'_>) -> Result<(), RecoveryError> {
        let found = self.procedures.get(&record.procedure);
        let Some(procedure) = found.filter(|procedure| procedure.version == record.version) else {
            return Err(undefined(order, record.procedure, record.version));
        };
        let procedure = Arc::clone(procedure);
        self.machine.reset(record.timestamp_us, record.seed);
        let mut reader = Reader::new(record.arguments);
        self.arguments.clear();
        for (_, parameter) in procedure.inputs() {
            match decode_value(parameter.ty, &mut reader, &mut self.machine.arena) {
                Ok(value) => self.arguments.push(value),
                Err(error) => return Err(diverged(order, &procedure, &error)),
            }
        }
        self.run(order, &procedure, record.timestamp_us, record.seed)
    }

    fn run(
        &mut self,
        order: CommitOrder,
        procedure: &Procedure,
        timestamp_us: i64,
        seed: u64,
    ) -> Result<(), RecoveryError> {
        self.occ.begin();
        let call = Call { procedure, timestamp_us, seed };
        let arguments = self.arguments.iter().copied();
        if let Err(failure) = execute(call, arguments, &mut self.machine, &mut self.occ, &mut Whole) {
            self.occ.rollback();
            return Err(diverged(order, procedure, &failure));
        }
        self.occ.commit_at(order).map_err(|conflict| diverged(order, procedure, &conflict))
    }

    fn writes(&mut self, order: CommitOrder, record: WritesRecord<'_>) -> Result<(), RecoveryError> {
        self.occ.begin();
        let writes: Vec<_> = record.writes().map(|(_, write)| write).collect();
        self.writer.write(order, &writes, &self.tables, &mut self.occ)?;
        self.occ.commit_at(order).map_err(|conflict| writes_diverged(order, &conflict))
    }

    fn statement(&mut self, order: CommitOrder, record: &StatementRecord<'_>) -> Result<(), RecoveryError> {
        for text in definitions_of(record)? {
            self.one_statement(order, &StatementRecord { text: &text, ..*record })?;
        }
        Ok(())
    }

    fn one_statement(
        &mut self,
        order: CommitOrder,
        record: &StatementRecord<'_>,
    ) -> Result<(), RecoveryError> {
        let (schema, effect) = self.schema.apply(record.text).map_err(RecoveryError::Definition)?;
        if let Effect::Run(procedure) = effect {
            self.machine.reset(record.timestamp_us, record.seed);
            self.arguments.clear();
            return self.run(order, &procedure, record.timestamp_us, record.seed);
        }
        define(order, record, &effect, &mut self.tables, self.occ.worker())?;
        self.schema = schema;
        self.occ.set_tables(self.tables.clone());
        self.index_procedures();
        self.statements.push(record.text.into());
        Ok(())
    }
}
