//! Execution of logged calls as at run time, one transaction after the other: what `clr` does with the whole
//! log, and each thread of `dependency` with the calls that it takes.
//! Invariant: every read whose result is recorded finds that result again, and every call makes the writes
//! that its record summarizes. Held by: `divergence_is_refused`, `serial_replay_compares_witnesses`.

use super::context::ReplayContext;
use super::divergence::{check_statement, statement_diverged, undefined, writes_diverged};
use crate::RecoveryError;
use catalog::{Arena, CommitOrder, Datum, Epoch, ProcedureId, Reader};
use logging::content::{CallRecord, StatementRecord, WritesRecord};
use procedure::{
    Call, Machine, OperationId, Part, Procedure, Tapes, Whole, WitnessRecorder, Witnessed, execute,
};
use schedule::{Definitions, RecordedCall, ValueWriter, in_words};
use std::collections::HashMap;
use std::sync::Arc;
use transaction::Workspace;

/// Executes transactions of the log on one thread.
pub(super) struct Reexecution {
    procedures: HashMap<ProcedureId, Arc<Procedure>>,
    definitions: Definitions,
    pub(super) workspace: Workspace,
    pub(super) machine: Machine,
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

impl Reexecution {
    /// Returns an execution under the definitions of a context.
    ///
    /// # Errors
    /// `NoWorker`.
    pub(super) fn new(context: &ReplayContext<'_>) -> Result<Self, RecoveryError> {
        let mut execution = Self {
            procedures: HashMap::new(),
            definitions: Definitions::default(),
            workspace: Workspace::new(context.tables.clone(), context.worker()?),
            machine: Machine::default(),
            arguments: Vec::new(),
            checks: Checks::default(),
            writer: ValueWriter::default(),
        };
        execution.enter(context);
        Ok(execution)
    }

    /// Takes over the definitions of a context.
    pub(super) fn enter(&mut self, context: &ReplayContext<'_>) {
        let ReplayContext { schema, tables, compiler, .. } = context;
        schema.procedures().for_each(|procedure| compiler.procedure(procedure));
        self.workspace.set_tables(tables.clone());
        self.procedures =
            schema.procedures().map(|procedure| (procedure.id, Arc::clone(procedure))).collect();
        self.definitions = Definitions::new(tables.iter().map(|store| store.definition()));
    }

    /// Frees what the transactions of earlier epochs have deleted.
    pub(super) fn collect_garbage(&mut self, order: CommitOrder) {
        self.workspace.collect_garbage(CommitOrder::last_of(Epoch(order.epoch().0 - 1)), || true);
    }

    /// As `collect_garbage`, whenever the last time was.
    pub(super) fn collect_garbage_now(&mut self, order: CommitOrder) {
        self.workspace.collect_garbage_now(CommitOrder::last_of(Epoch(order.epoch().0 - 1)), || true);
    }

    /// Executes a call with its place in the order.
    ///
    /// # Errors
    /// It differs from its record.
    pub(super) fn call(&mut self, order: CommitOrder, record: &CallRecord<'_>) -> Result<(), RecoveryError> {
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
        self.checks.witnesses.begin(procedure.witnesses.of(record.witnessed));
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
        if call.record.witnessed != Witnessed::Nothing
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

    /// Makes the writes of a transaction that was logged by value.
    ///
    /// # Errors
    /// They do not fit the tables.
    pub(super) fn writes(
        &mut self,
        order: CommitOrder,
        record: WritesRecord<'_>,
    ) -> Result<(), RecoveryError> {
        self.workspace.begin();
        let writes: Vec<_> = record.writes().map(|(_, write)| write).collect();
        self.writer.write(order, &writes, &self.definitions, &mut self.workspace)?;
        self.workspace.commit_at(order).map_err(|conflict| writes_diverged(order, &conflict))
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
