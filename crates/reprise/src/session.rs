//! A session: runs calls, one at a time, and acknowledges them.

mod answers;
mod block;
mod read_only;
mod results;
mod run;
mod staged;
mod statements;
mod steps;
mod texts;
mod waiting;

pub use block::TransactionState;
pub use read_only::Access;
use results::Collector;
pub use results::{Answer, Row, Ticket};
use statements::serialization_failure;
pub use statements::{Attempt, Completion, Prepared};
pub(crate) use texts::room_for;
use waiting::Awaited;
pub use waiting::Busy;

use crate::Error;
use crate::database::Inner;
use crate::definitions::{Version, unknown_procedure};
use crate::sequences::{Source, Taking};
use crate::utilization::Utilization;
use catalog::{CommitOrder, Datum, Value, datum_from_value, encode_value, now_us, value_from_datum};
use logging::Commit;
use logging::content::{CallRecord, StatementRecord};
use procedure::{Call, CurrentNumbers, Effect, Machine, Procedure, SqlError, seed_of};
use sql::Schema;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use storage::Worker;
use transaction::{CommitPipeline, Tables, Workspace};

/// The procedures as one session knows them. Sessions share procedures but not this, so that a call touches
/// no counter that another session touches too.
#[derive(Debug)]
struct Known {
    procedures: Vec<Arc<Procedure>>,
    places: HashMap<String, usize>,
}

impl Known {
    fn new(version: &Version) -> Arc<Self> {
        let procedures: Vec<_> = version.procedures.values().cloned().collect();
        let places = procedures.iter().enumerate();
        let places = places.map(|(place, procedure)| (procedure.name.clone(), place)).collect();
        Arc::new(Self { procedures, places })
    }
}

/// One thread's way to run transactions.
pub struct Session {
    inner: Arc<Inner>,
    version: Arc<Version>,
    workspace: Workspace,
    machine: Machine,
    arguments: Vec<Datum>,
    pipeline: CommitPipeline,
    known: Arc<Known>,
    /// The procedure that was called last, by its place among those known then.
    last: Option<(Arc<Known>, usize)>,
    /// The number of the next seed.
    seeds: u64,
    committed: u64,
    read: u64,
    failed: u64,
    conflicts: u64,
    since_publish: u64,
    utilization: Utilization,
    block: block::Block,
    waiting: waiting::Waiting,
    /// What later transactions may do.
    access: Access,
    _counted: Counted,
    /// What must be durable before the last answer is given, definitions aside.
    answer: Commit,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("workspace", &self.workspace).finish_non_exhaustive()
    }
}

/// A session is counted until this is dropped.
struct Counted(Arc<Inner>);

impl Counted {
    /// # Errors
    /// `53300`: there are as many as are configured.
    fn new(inner: &Arc<Inner>) -> Result<Self, Error> {
        let counted = Self(Arc::clone(inner));
        if inner.sessions.fetch_add(1, Ordering::Relaxed) >= inner.config.workers {
            return Err(Error::TooManySessions(inner.config.workers));
        }
        Ok(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Session {
    pub(crate) fn new(inner: Arc<Inner>) -> Result<Self, Error> {
        let counted = Counted::new(&inner)?;
        let version = inner.definitions.current();
        let (epochs, memory) = (version.tables.epochs.clone(), version.tables.memory.clone());
        let worker = Worker::new(epochs, memory).ok_or(Error::TooManySessions(inner.config.workers))?;
        let seeds = RandomState::new().hash_one(worker.slot().0);
        inner.logs.add_worker(worker.slot())?;
        let pipeline =
            CommitPipeline::new(Arc::clone(&inner.logs), &inner.adaptive, &version.tables, worker.slot());
        let answer = Commit { worker: worker.slot(), ..Commit::of_all(CommitOrder(0)) };
        let workspace = Workspace::new(version.tables.clone(), worker);
        let mut machine = Machine::default();
        machine.count_by(Arc::new(Source::new(Arc::clone(&inner), version.tables.clone())));
        machine.compile_by(Some(Arc::new(texts::Texts::new(&version))));
        let account = Arc::clone(version.tables.memory.account());
        machine.limit_memory(Some(account), inner.config.statement_bytes());
        Ok(Self {
            known: Known::new(&version),
            inner,
            version,
            workspace,
            machine,
            arguments: Vec::new(),
            pipeline,
            last: None,
            seeds,
            committed: 0,
            read: 0,
            failed: 0,
            conflicts: 0,
            since_publish: 0,
            utilization: Utilization::default(),
            block: block::Block::default(),
            waiting: waiting::Waiting::default(),
            access: Access::default(),
            _counted: counted,
            answer,
        })
    }

    /// Says whether the transactions from now on are logged by value where the log holds commands otherwise:
    /// what they wrote, instead of what was asked. Their records are longer, and replay does not run their
    /// procedures again. PACMAN §4.5 (ad-hoc transactions).
    pub fn log_by_value(&mut self, by_value: bool) {
        self.pipeline.by_value = by_value;
    }

    /// Says how many bytes a statement may take; `None` is what the database's configuration says.
    pub fn limit_statements(&mut self, bytes: Option<usize>) {
        self.machine.limit_statements(bytes.unwrap_or(self.inner.config.statement_bytes()));
    }

    /// Returns another pipeline for the session's worker.
    fn new_pipeline(&self) -> CommitPipeline {
        let Inner { logs, adaptive, .. } = &*self.inner;
        CommitPipeline::new(Arc::clone(logs), adaptive, self.workspace.tables(), self.workspace.slot())
    }

    /// Gives back the buffers of a statement that has taken much, which are kept for the next one otherwise.
    /// The answer of the last one is forgotten then. Returns whether there was much.
    pub fn give_memory_back(&mut self) -> bool {
        let has_ended = self.block.state == TransactionState::None && !self.is_waiting();
        let is_much = self.machine.give_back(has_ended);
        if is_much {
            self.arguments = Vec::new();
            self.last = None;
            self.workspace.give_memory_back();
            let by_value = self.pipeline.by_value;
            self.pipeline = self.new_pipeline();
            self.pipeline.by_value = by_value;
            memory::give_back();
        }
        is_much
    }

    /// Whether there is memory to give back that deleted and changed rows have had.
    pub fn has_garbage(&self) -> bool {
        self.workspace.has_garbage()
    }

    /// Cleans up behind the session's transactions, as it does from time to time when it runs some. For
    /// sessions that are idle.
    pub fn collect_garbage(&mut self) {
        if self.workspace.worker().is_active() {
            return;
        }
        let durable = self.inner.durable(self.workspace.worker());
        let (definitions, version) = (&self.inner.definitions, self.version.number);
        self.workspace.collect_garbage_now(durable, || definitions.is_current(version));
    }

    /// Calls a procedure and returns its outputs once the call is durable.
    ///
    /// # Errors
    /// The procedure raised, a constraint was violated, the arguments are wrong, a transaction is open
    /// (25001): nothing happened. Or the log failed.
    pub fn call(&mut self, procedure: &str, arguments: &[Value]) -> Result<Row, Error> {
        let ran = self.run_call(procedure, arguments);
        self.acknowledge(ran)?;
        Ok(self.row())
    }

    /// Executes a call now and returns without waiting for the disk. Its outputs are in `row`, and what must
    /// be durable before they, or an error, are shown to anybody else is the ticket, or `must_be_durable`.
    ///
    /// # Errors
    /// As `call`; but the error may follow from a transaction that is not durable yet.
    pub fn submit(&mut self, procedure: &str, arguments: &[Value]) -> Result<Ticket, Error> {
        let commit = self.run_call(procedure, arguments)?;
        Ok(Ticket { inner: Arc::clone(&self.inner), commit })
    }

    /// As `submit`, for callers that keep a `CommitQueue` and ask `Database::is_durable` themselves.
    ///
    /// # Errors
    /// As `submit`.
    pub fn submit_commit(&mut self, procedure: &str, arguments: &[Value]) -> Result<Commit, Error> {
        self.run_call(procedure, arguments)
    }

    /// Returns once a commit is durable.
    ///
    /// # Errors
    /// The log has failed before that.
    pub fn wait_for(&self, commit: Commit) -> Result<(), Error> {
        Ok(self.inner.logs.wait(commit)?)
    }

    /// The outputs of the last call.
    pub fn row(&self) -> Row {
        let mut row = Row::default();
        let last = self.last.as_ref().map(|(known, place)| &known.procedures[*place]);
        for (name, register, ty) in last.into_iter().flat_map(|procedure| procedure.outputs()) {
            row.names.push(name.into());
            row.values.push(value_from_datum(self.machine.get(register), ty, &self.machine.frame.arena));
        }
        row
    }

    /// Exchanges the numbers of sequences that were given last for those of another client.
    pub fn swap_current_numbers(&mut self, numbers: &mut CurrentNumbers) {
        std::mem::swap(&mut self.machine.services.current_numbers, numbers);
    }

    /// Takes what RAISE NOTICE and its like said in the last call.
    pub fn take_notices(&mut self) -> Vec<SqlError> {
        std::mem::take(&mut self.machine.services.notices)
    }

    /// Runs a script of statements, one transaction each: definitions, INSERT, UPDATE, DELETE, CALL. All are
    /// durable when it returns.
    ///
    /// # Errors
    /// The first statement that is refused, with its line and column in the script; those before it have
    /// happened. All are refused while a transaction is open (25001).
    pub fn execute_script(&mut self, script: &str) -> Result<(), Error> {
        let inner = Arc::clone(&self.inner);
        let room = room_for(script, &inner.account)?;
        let statements = Schema::split(script)?;
        drop(room);
        let mut shown = self.nothing_shown();
        for (statement, line, column) in statements {
            let ran = self.run_statement(&statement, |_, _| {}).map_err(|error| match error {
                Error::Statement(error) => Error::Statement(error.inside(line, column)),
                other => other,
            });
            shown = shown.and(self.must_be_durable());
            if let Err(error) = ran {
                self.wait_for(shown)?;
                return Err(error);
            }
        }
        self.wait_for(shown)
    }

    /// Refuses a transaction that writes while the log can't grow, or has failed. Waits while neither is
    /// known.
    #[inline]
    fn check_log(&mut self) -> Result<(), Error> {
        if self.inner.logs.is_in_doubt() {
            self.await_others(Awaited::Log(Arc::clone(&self.inner)), None)?;
        }
        Ok(self.inner.logs.check()?)
    }

    /// Runs one statement and returns what it came to, once that is durable: as a transaction of its own, or
    /// as part of the one that is open.
    ///
    /// # Errors
    /// The statement is refused, with line and column; it failed: nothing happened, and an open transaction
    /// has failed. Or the log failed.
    pub fn query(&mut self, statement: &str) -> Result<Answer, Error> {
        let ran = self.submit_query(statement);
        self.acknowledge(ran)
    }

    /// As `query`, without waiting for the disk: what must be durable before the answer is shown is
    /// `must_be_durable`.
    ///
    /// # Errors
    /// As `query`; but the error may follow from a transaction that is not durable yet.
    pub fn submit_query(&mut self, statement: &str) -> Result<Answer, Error> {
        if self.block.state != TransactionState::None {
            return self.query_in_block(statement);
        }
        let rows = Arc::new(Mutex::new(Vec::new()));
        let sink = Collector { types: Vec::new(), rows: Arc::clone(&rows) };
        let mut answer = Answer::default();
        let ran = self.run_statement(statement, |session, procedure| {
            let columns: Vec<_> = procedure.client_columns().to_vec();
            let types = columns.iter().map(|column| column.ty).collect();
            answer.columns = columns.into_iter().map(|column| (column.name, column.ty)).collect();
            session.machine.send_rows_to(Some(Box::new(Collector { types, ..sink.clone() })));
        });
        self.machine.send_rows_to(None);
        ran?;
        answer.affected = self.machine.frame.affected;
        answer.rows = std::mem::take(&mut *rows.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(answer)
    }

    fn query_in_block(&mut self, statement: &str) -> Result<Answer, Error> {
        let prepared = self.prepare(statement, &[]).inspect_err(|_| self.fail_block())?;
        let Some(mut prepared) = prepared else { return Ok(Answer::default()) };
        let columns: Vec<_> =
            prepared.columns().iter().map(|column| (column.name.clone(), column.ty)).collect();
        let types: Vec<_> = columns.iter().map(|(_, ty)| *ty).collect();
        let rows = Arc::new(Mutex::new(Vec::new()));
        let sink = || Box::new(Collector { types: types.clone(), rows: Arc::clone(&rows) }) as _;
        let affected = self.submit_prepared(&mut prepared, &[], sink)?.affected;
        let rows = std::mem::take(&mut *rows.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Answer { columns, rows, affected })
    }

    fn run_statement(
        &mut self,
        statement: &str,
        mut prepare: impl FnMut(&mut Self, &Procedure),
    ) -> Result<Commit, Error> {
        self.refuse_in_block()?;
        self.inner.logs.check_failed()?;
        self.begin_answer();
        if self.access == Access::ReadOnly
            && let Some(prepared) = self.prepare(statement, &[])?
        {
            self.refuse_writes(&prepared)?;
        }
        let (timestamp_us, seed) = (now_us(), self.next_seed());
        let asked = StatementRecord { timestamp_us, seed, text: statement, written: None };
        let inner = Arc::clone(&self.inner);
        let epochs = Arc::clone(&self.version.tables.epochs);
        // Of a definition that changes nothing there is no number.
        let mut drawn = CommitOrder(0);
        let room = room_for(statement, &inner.account)?;
        let effect = inner.definitions.effect_of(statement)?;
        drop(room);
        let run = match effect {
            Effect::Run(procedure) => Some(procedure),
            _ => {
                self.check_log()?;
                let mut record = Vec::new();
                asked.write_definition(&mut record);
                self.inner.logs.check_size(record.len())?;
                // No snapshot is opened while definitions change.
                let _alone = inner.maintenance.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                let prepare =
                    |effect: &Effect, tables: &Tables| Taking { inner: &inner, tables }.give_back_for(effect);
                let patience = self.patience();
                let changed =
                    inner.definitions.change(&asked, self.workspace.worker(), &patience, prepare, |slot| {
                        let records = inner.logs.prepare_definition(&record)?;
                        let (order, logged) = inner.logs.define(slot, &epochs, records, |_| {});
                        drawn = order;
                        logged
                    });
                // It has looked at rows without taking note of them.
                changed.inspect_err(|_| self.shows_everything())?;
                None
            }
        };
        self.refresh();
        match run {
            None => {
                self.machine.frame.affected = 0;
                Ok(self.answers(Commit { number: drawn, ..self.nothing_shown() }))
            }
            Some(procedure) => {
                if !procedure.read_only {
                    self.check_log()?;
                }
                self.arguments.clear();
                self.last = None;
                prepare(self, &procedure);
                let bind = |session: &mut Self, _: &Procedure| {
                    session.pipeline.witnesses.begin(&[]);
                    asked.write(&mut session.pipeline.call);
                    Ok(())
                };
                match self.run(Call { procedure: &procedure, timestamp_us, seed }, bind)? {
                    Some(commit) => Ok(commit),
                    None => self.run_statement(statement, prepare),
                }
            }
        }
    }

    fn refresh(&mut self) {
        self.enter_version(self.inner.definitions.current());
        let sequences = Source::new(Arc::clone(&self.inner), self.version.tables.clone());
        self.machine.count_by(Arc::new(sequences));
    }

    fn enter_version(&mut self, version: Arc<Version>) {
        self.machine.compile_by(Some(Arc::new(texts::Texts::new(&version))));
        self.version = version;
        self.known = Known::new(&self.version);
        self.workspace.set_tables(self.version.tables.clone());
    }

    fn run_call(&mut self, name: &str, arguments: &[Value]) -> Result<Commit, Error> {
        self.refuse_in_block()?;
        if self.utilization.call_begins() == Some(true) {
            self.inner.logs.note_saturation();
        }
        self.begin_answer();
        let commit = self.run_named(name, arguments);
        self.utilization.call_ends();
        commit
    }

    fn run_named(&mut self, name: &str, arguments: &[Value]) -> Result<Commit, Error> {
        let Some(place) = self.known.places.get(name).copied() else {
            self.refresh();
            if self.known.places.contains_key(name) {
                return self.run_named(name, arguments);
            }
            return Err(unknown_procedure(name, &self.version).into());
        };
        let known = Arc::clone(&self.known);
        let procedure = &*known.procedures[place];
        if !procedure.read_only {
            self.check_log()?;
        }
        let timestamp_us = if procedure.uses_timestamp { now_us() } else { 0 };
        let seed = if procedure.uses_seed { self.next_seed() } else { 0 };
        let commit = self.run(Call { procedure, timestamp_us, seed }, |session, procedure| {
            session.bind(procedure, arguments, timestamp_us, seed)
        })?;
        match commit {
            Some(commit) => {
                self.last = Some((known, place));
                Ok(commit)
            }
            None => self.run_named(name, arguments),
        }
    }

    /// What the randomness of the next transaction follows from.
    fn next_seed(&mut self) -> u64 {
        self.seeds = self.seeds.wrapping_add(1);
        seed_of(self.seeds)
    }

    /// Brings the arguments of a call into the arena and into its record.
    fn bind(
        &mut self,
        procedure: &Procedure,
        arguments: &[Value],
        timestamp_us: i64,
        seed: u64,
    ) -> Result<(), Error> {
        self.arguments.clear();
        let inputs = procedure.inputs().count();
        if arguments.len() > inputs {
            let message = format!("{} takes {inputs} arguments, not {}", procedure.name, arguments.len());
            return Err(SqlError::new("42883", message).into());
        }
        let (id, version) = (procedure.id, procedure.version);
        let pipeline = &mut self.pipeline;
        let wants_asked = pipeline.records_calls();
        let witnessed = self.inner.config.record_witnesses
            && wants_asked
            && !(pipeline.by_value || procedure.by_value)
            && !procedure.witnesses.is_empty();
        pipeline.witnesses.begin(if witnessed { &procedure.witnesses } else { &[] });
        CallRecord { procedure: id, version, timestamp_us, seed, witnessed, arguments: &[], written: None }
            .write(&mut pipeline.call);
        for (place, (_, parameter)) in procedure.inputs().enumerate() {
            let Some(value) = arguments.get(place).or(parameter.default.as_ref()) else {
                let message = format!(
                    "{} takes {inputs} arguments, not {}: parameter \"{}\" has no default",
                    procedure.name,
                    arguments.len(),
                    parameter.name
                );
                return Err(SqlError::new("42883", message).into());
            };
            let datum =
                datum_from_value(value, parameter.ty, &mut self.machine.frame.arena).map_err(|error| {
                    let detail = format!("Parameter \"{}\" of {}.", parameter.name, procedure.name);
                    SqlError::from(error).with_detail(detail)
                })?;
            if wants_asked {
                encode_value(datum, parameter.ty, &self.machine.frame.arena, &mut pipeline.call);
            }
            self.arguments.push(datum);
        }
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.workspace.is_committing() {
            // A panic in the middle of a commit: what is in memory is no state of the database. What is in
            // the log is.
            tracing::error!(
                "a commit has panicked: the process ends, and recovers from its log when it starts again"
            );
            std::process::abort();
        }
        self.rollback_block();
        self.workspace.rollback_if_running();
        self.workspace.release_holds();
        self.publish();
    }
}
