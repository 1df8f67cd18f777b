//! The functions of a session for servers: statements that never wait on the thread that runs them, limits,
//! and checks of prepared statements.

use super::block::{Block, TransactionState, failed_block};

use super::statement::{Parameters, Statement};
use super::waiting::Submitted;
use super::{Access, Session};
use crate::Error;
use crate::definitions::Viewpoint;
use crate::worker::{Busy, Recorded};
use catalog::{Arena, Datum, Reader, decode_value, encode_value, now_us};
use logging::Commit as CommitPoint;
use procedure::query::Explained;
use procedure::{
    CurrentNumbers, Notice, Notification, Nowhere, Procedure, Register, RowSink, SqlError, Surroundings,
};
use sql::{Analyzed, Arguments, Kind, ResultColumn, interruptible};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use transaction::BlocksBy;

/// The result of `Session::attempt`.
#[derive(Debug)]
pub enum Attempt {
    /// The statement is done.
    Done(Completion),
    /// The statement was undone, because it must wait: usually for a transaction that holds a row or key. Or
    /// it is a call that joins a batch, and the next attempt returns its outcome. The same session must run
    /// it again after the wait, or give it up by `Session::stop_waiting`.
    Busy(Busy),
}

/// The result of a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Number of returned or written rows.
    pub affected: u64,
    /// The point of the log that must be durable before the answer is shown.
    pub commit: CommitPoint,
}

/// Sends each line as a row with one column of text.
fn write_lines(lines: &[String], mut sink: Box<dyn RowSink>) -> Result<(), SqlError> {
    sink.begin();
    for line in lines {
        let mut arena = Arena::default();
        let text = arena.push_bytes(line.as_bytes());
        sink.row(&[text], &arena)?;
    }
    Ok(())
}

impl Session {
    /// Executes a statement as `execute_into`, but the caller waits when another transaction holds a row or
    /// key, or while a call joins a batch. This is for servers, whose threads run statements of many clients.
    ///
    /// ```
    /// # use reprise::{Attempt, Config, Database, Error, Nowhere, Parameters, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let (mut first, mut second) = (db.session()?, db.session()?);
    /// first.execute_script("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)")?;
    /// first.begin()?;
    /// first.execute("DELETE FROM t", params![])?;
    /// let delete = second.prepare("DELETE FROM t WHERE id = $1")?;
    /// let parameters = Parameters::of(&delete, params![1])?;
    /// let attempt = second.attempt(&delete, &parameters, Box::new(Nowhere))?;
    /// let Attempt::Busy(busy) = attempt else { panic!("the row is held") };
    /// first.rollback();
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    /// runtime.block_on(busy.released()).expect("no deadlock");
    /// let attempt = second.attempt(&delete, &parameters, Box::new(Nowhere))?;
    /// assert!(matches!(attempt, Attempt::Done(_)));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As `execute`. After `Error::Outdated` an open transaction has not failed: the caller prepares the
    /// statement again, or calls `fail_transaction`.
    pub fn attempt(
        &mut self,
        statement: &Statement,
        parameters: &Parameters,
        sink: Box<dyn RowSink>,
    ) -> Result<Attempt, Error> {
        self.waiting.by_caller = true;
        let attempt = self.attempt_bound(statement, parameters, sink);
        self.waiting.by_caller = false;
        attempt
    }

    pub(super) fn attempt_bound(
        &mut self,
        statement: &Statement,
        parameters: &Parameters,
        sink: Box<dyn RowSink>,
    ) -> Result<Attempt, Error> {
        if self.block.state == TransactionState::Failed {
            return Err(failed_block());
        }
        self.begin_answer();
        let submitted = self.waiting.submitted.take();
        let ran = match self.refuse_writes(statement) {
            Ok(()) => self.run_bound(statement, parameters, submitted, sink),
            Err(error) => Err(error),
        };
        self.worker.machine.measure(false);
        self.worker.machine.send_rows_to(None);
        if ran.is_ok() {
            self.end_temporary_tables_of_statement();
        }
        let busy = self.worker.races.busy.take();
        self.waiting.is_pending = busy.is_some();
        if let Some(busy) = busy {
            let busy = match self.block.state {
                TransactionState::None => self.worker.waits_without_transaction(busy),
                _ => busy,
            };
            return Ok(Attempt::Busy(busy));
        }
        match ran {
            Err(error) => {
                let settings = self.settings();
                self.worker.let_go_unless_busy(&settings);
                // The caller may prepare an outdated statement again.
                if !matches!(error, Error::Outdated) {
                    self.fail_transaction();
                }
                Err(self.without_hidden_values(error))
            }
            Ok(affected) => Ok(Attempt::Done(Completion { affected, commit: self.must_be_durable() })),
        }
    }

    /// Evaluates the arguments of an EXECUTE, given as its text, as parameters of the named statement.
    ///
    /// ```
    /// # use reprise::{Attempt, Config, Database, Error, Nowhere};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// let add = session.prepare("SELECT $1::int + $2::int")?;
    /// let parameters = session.evaluate_arguments("EXECUTE add (6 * 3, length('four'))", &add)?;
    /// let attempt = session.attempt(&add, &parameters, Box::new(Nowhere))?;
    /// assert!(matches!(attempt, Attempt::Done(done) if done.affected == 1));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// An argument is refused, with line and column, or its evaluation fails. 25P02: the open transaction has
    /// failed.
    pub fn evaluate_arguments(&mut self, execute: &str, statement: &Statement) -> Result<Parameters, Error> {
        if self.block.state == TransactionState::Failed {
            return Err(failed_block());
        }
        self.begin_answer();
        let evaluated = self.run_arguments(execute, statement);
        evaluated.inspect_err(|_| {
            let settings = self.settings();
            self.worker.let_go_unless_busy(&settings);
            self.fail_transaction();
        })
    }

    fn run_arguments(&mut self, execute: &str, statement: &Statement) -> Result<Parameters, Error> {
        if self.block.state == TransactionState::Open {
            self.begin_in_block()?;
        } else {
            self.catch_up();
        }
        loop {
            let types = statement.parameters();
            let interrupts = self.worker.machine.interrupts().clone();
            let temporary = self.temporary_name();
            let viewpoint = Viewpoint { role: self.role, zone: self.zone(), temporary: temporary.as_ref() };
            let procedure = self.worker.version.with_schema_of(viewpoint, |schema| {
                let compile = || schema.execute_arguments(execute, types).map_err(Error::from);
                interruptible(interrupts, compile)
            })?;
            if !self.run_here(&procedure, &[], Recorded::Rows)? {
                continue;
            }
            let (mut parameters, machine) = (Parameters::new(statement), &self.worker.machine);
            for (_, register, _) in procedure.outputs() {
                parameters.push(machine.get(register), &machine.frame.arena);
            }
            return Ok(parameters);
        }
    }

    /// Runs a statement under the current definitions, or goes on with its call, which was submitted to a
    /// batch. Returns the number of returned or written rows.
    fn run_bound(
        &mut self,
        statement: &Statement,
        parameters: &Parameters,
        submitted: Option<Submitted>,
        mut sink: Box<dyn RowSink>,
    ) -> Result<u64, Error> {
        parameters.check(statement)?;
        if let Some(submitted) = submitted
            && let Some(plan) = self.resume_call(submitted)?
        {
            return self.send_outputs(&plan.columns, sink);
        }
        let in_block = self.begin_bound(statement)?;
        loop {
            let plan = self.current_plan(statement)?;
            if let Some(refused) = &plan.refused {
                return Err(Error::Sql((**refused).clone()));
            }
            let values = parameters.bytes();
            match &plan.kind {
                Kind::Definition => return self.run_definition(statement.text(), in_block).map(|()| 0),
                Kind::Moved => return self.run_moves(statement.text(), in_block).map(|()| 0),
                Kind::Filled(_) => return self.fill(statement.text(), statement.zone(), in_block),
                Kind::Lock(lock) if in_block => return self.lock_tables(lock).map(|()| 0),
                Kind::SetConstraints(set) if in_block => return self.set_constraints(set).map(|()| 0),
                // Outside of a transaction block SET CONSTRAINTS changes nothing.
                Kind::Nothing(_) | Kind::SetConstraints(_) => return Ok(0),
                Kind::Run(procedure) => {
                    self.worker.machine.send_rows_to(Some(sink));
                    let has_run = self.run_here(procedure, values, Recorded::Rows)?;
                    match self.worker.machine.take_sink() {
                        Some(taken) if !has_run => sink = taken,
                        _ => return Ok(self.worker.machine.frame.affected),
                    }
                }
                Kind::Analyze(analyzed) => {
                    if let Some(lines) = self.analyze(analyzed, values)? {
                        write_lines(&lines, sink)?;
                        return Ok(0);
                    }
                }
                Kind::Call(procedure, arguments) => {
                    if self.waiting.by_caller && self.joins_batches(procedure) {
                        let record = self.encoded(procedure, arguments, parameters)?;
                        let call = self.new_call(procedure, true);
                        let ticket = self.submit(call, record);
                        return Err(self.await_batch(Submitted { ticket, plan: Arc::clone(&plan) }));
                    }
                    let has_run = if arguments.are_parameters() {
                        self.run_here(procedure, values, Recorded::Call)?
                    } else {
                        self.run_evaluated(procedure, arguments, parameters)?
                    };
                    if has_run {
                        return self.send_outputs(&plan.columns, sink);
                    }
                }
                _ => {
                    let message = format!("{} is not supported by this function", statement.tag());
                    return Err(SqlError::new("0A000", message).into());
                }
            }
        }
    }

    /// Makes a transaction ready for a statement. Returns whether it is one of several statements.
    fn begin_bound(&mut self, statement: &Statement) -> Result<bool, Error> {
        if self.block.state != TransactionState::Open {
            self.catch_up();
            return Ok(false);
        }
        let Block { begun, access, .. } = self.block;
        let kind = &statement.plan().kind;
        let holds = matches!(kind, Kind::Definition | Kind::Moved | Kind::Filled(_) | Kind::Lock(_));
        if !begun && access == Access::ReadWrite && holds {
            // Before its begin: transactions that change definitions wait for all that have begun.
            self.hold_definitions()?;
        }
        self.begin_in_block()?;
        Ok(true)
    }

    /// Returns the plan of a statement for the session's definitions.
    fn current_plan(&mut self, statement: &Statement) -> Result<Arc<sql::Prepared>, Error> {
        let binding = self.binding();
        if let Some(plan) = statement.plan_for(binding) {
            return Ok(plan);
        }
        match self.plan_in(statement.text(), statement.given_types(), statement.zone())? {
            Some(plan) => statement.bind(binding, plan),
            None => Ok(statement.plan()),
        }
    }

    /// Runs a statement in the open transaction, or as one transaction. Returns false when the definitions
    /// have changed before its begin.
    #[inline]
    fn run_here(
        &mut self,
        procedure: &Procedure,
        arguments: &[u8],
        recorded: Recorded<'_>,
    ) -> Result<bool, Error> {
        if self.block.state == TransactionState::Open {
            self.run_in_block(procedure, arguments)?;
            return Ok(true);
        }
        Ok(self.run_alone(procedure, arguments, recorded)?.is_some())
    }

    /// Runs a statement for EXPLAIN ANALYZE. Returns its plan with counts and times; `None` when the
    /// definitions have changed before its begin.
    fn analyze(&mut self, analyzed: &Analyzed, arguments: &[u8]) -> Result<Option<Vec<String>>, Error> {
        let Analyzed { procedure, options } = analyzed;
        self.worker.machine.send_rows_to(Some(Box::new(Nowhere)));
        self.worker.machine.measure(true);
        let begun = Instant::now();
        if !self.run_here(procedure, arguments, Recorded::Rows)? {
            return Ok(None);
        }
        let took = begun.elapsed();
        let nodes = procedure.explained(Some(&self.worker.machine.measure(false)));
        Ok(Some(Explained::show(&nodes, *options, Some(took))))
    }

    /// Evaluates the arguments of a call, and runs it. Returns false when the definitions have changed before
    /// its begin.
    fn run_evaluated(
        &mut self,
        procedure: &Procedure,
        arguments: &Arguments,
        parameters: &Parameters,
    ) -> Result<bool, Error> {
        let mut record = std::mem::take(&mut self.arguments);
        let evaluated = self.evaluate(procedure, arguments, parameters, &mut record);
        let ran = evaluated.and_then(|()| self.run_here(procedure, &record, Recorded::Call));
        self.arguments = record;
        ran
    }

    /// Returns the encoded arguments of a call.
    fn encoded(
        &mut self,
        procedure: &Procedure,
        arguments: &Arguments,
        parameters: &Parameters,
    ) -> Result<Vec<u8>, Error> {
        if arguments.are_parameters() {
            return Ok(parameters.bytes().to_vec());
        }
        let mut record = Vec::new();
        self.evaluate(procedure, arguments, parameters, &mut record)?;
        Ok(record)
    }

    /// Evaluates the arguments of a call, and encodes them.
    fn evaluate(
        &mut self,
        procedure: &Procedure,
        arguments: &Arguments,
        parameters: &Parameters,
        record: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let values = self.evaluate_alone(arguments, parameters)?;
        record.clear();
        for (value, (_, parameter)) in values.into_iter().zip(procedure.inputs()) {
            encode_value(value, parameter.ty, &self.worker.machine.frame.arena, record);
        }
        Ok(())
    }

    /// Evaluates arguments outside of a call. The values refer to the memory of the session until it does
    /// anything else.
    ///
    /// # Errors
    /// The error of an expression; `08P01`: the parameters are malformed.
    pub fn evaluate_alone(
        &mut self,
        arguments: &Arguments,
        parameters: &Parameters,
    ) -> Result<Vec<Datum>, Error> {
        let (timestamp_us, seed) = (now_us(), self.next_seed());
        let machine = &mut self.worker.machine;
        machine.begin_piece(arguments.registers(), timestamp_us, seed);
        let mut reader = Reader::new(parameters.bytes());
        for (index, ty) in parameters.types().iter().enumerate() {
            let value = decode_value(*ty, &mut reader, &mut machine.frame.arena)
                .map_err(|error| SqlError::new("08P01", format!("malformed parameters: {error}")))?;
            machine.set(Register(index as u32), value);
        }
        arguments.evaluate(machine).map_err(|error| Error::Sql(*error))
    }

    /// Sends the outputs of the last call as a row. Returns the number of rows: 0 without outputs, or 1.
    fn send_outputs(&self, columns: &[ResultColumn], mut sink: Box<dyn RowSink>) -> Result<u64, Error> {
        if columns.is_empty() {
            return Ok(0);
        }
        let machine = &self.worker.machine;
        let row: Vec<Datum> = columns.iter().map(|column| machine.get(column.register)).collect();
        sink.begin();
        sink.row(&row, &machine.frame.arena)?;
        Ok(1)
    }

    /// Returns whether a statement is bound against the current definitions of the database.
    pub fn is_current(&mut self, statement: &Statement) -> bool {
        self.catch_up();
        !self.changes_definitions() && statement.plan_for(self.binding()).is_some()
    }

    /// Sets the role that acts in later statements, by its number. At first it is the first superuser.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// session.execute_script("CREATE TABLE t (id INT PRIMARY KEY); CREATE ROLE ada")?;
    /// let ada = session.with_definitions(|schema| schema.role("ada").map(|(id, _)| id));
    /// session.act_as(ada.expect("the role exists"));
    /// let error = session.execute("SELECT id FROM t", params![]).unwrap_err();
    /// assert_eq!(error.sqlstate(), "42501"); // insufficient_privilege
    /// # Ok(()) }
    /// ```
    pub fn act_as(&mut self, role: u32) {
        self.role = role;
    }

    /// Returns the number of the role that acts.
    pub fn role(&self) -> u32 {
        self.role
    }

    /// Calls a function with the session's definitions.
    pub fn with_definitions<T>(&mut self, act: impl FnOnce(&sql::Schema) -> T) -> T {
        self.catch_up();
        act(&self.worker.version.schema)
    }

    /// Returns the number of the definitions that the session knows.
    pub fn definitions(&self) -> u64 {
        self.worker.version.number
    }

    /// Takes over changed definitions. An idle session does this to free tables of older definitions. Does
    /// nothing inside a transaction, whose definitions do not change.
    pub fn catch_up(&mut self) {
        if !self.block.begun && !self.worker.inner.definitions.is_current(self.worker.version.number) {
            self.worker.refresh();
        }
    }

    /// Sets the flag that cancels the running statement when it is raised.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// # use std::sync::Arc;
    /// # use std::sync::atomic::{AtomicBool, Ordering};
    /// let flag = Arc::new(AtomicBool::new(false));
    /// session.cancelled_by(Arc::clone(&flag));
    /// flag.store(true, Ordering::Relaxed); // by another thread, at any time
    /// let counts = "SELECT count(*) FROM generate_series(1, 100000000)";
    /// let error = session.execute(counts, params![]).unwrap_err();
    /// assert_eq!(error.sqlstate(), "57014"); // query_canceled
    /// # Ok(()) }
    /// ```
    pub fn cancelled_by(&mut self, flag: Arc<AtomicBool>) {
        self.worker.machine.cancelled_by(flag);
    }

    /// Sets the deadline of later statements; `None` is no limit.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// # use std::time::{Duration, Instant};
    /// session.ends_at(Some(Instant::now() + Duration::from_millis(10)));
    /// let counts = "SELECT count(*) FROM generate_series(1, 100000000)";
    /// let error = session.execute(counts, params![]).unwrap_err();
    /// assert_eq!(error.sqlstate(), "57014"); // query_canceled
    /// # Ok(()) }
    /// ```
    pub fn ends_at(&mut self, deadline: Option<Instant>) {
        self.worker.machine.ends_at(deadline);
    }

    /// Sets how the session's thread waits for the end of a batch when it commits a statement or opens a
    /// snapshot. A server hands the other tasks of the thread over first.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, Scheme, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// let mut config = Config::default();
    /// config.concurrency = Scheme::DependencyGraph;
    /// let db = Database::open(folder.path(), config)?;
    /// let mut session = db.session()?;
    /// session.blocks_by(|wait| wait()); // the default; on a thread of tokio: `block_in_place(wait)`
    /// session.execute_script("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)")?;
    /// # Ok(()) }
    /// ```
    pub fn blocks_by(&mut self, blocks_by: BlocksBy) {
        self.worker.pipeline.blocks_by = blocks_by;
    }

    /// Sets what knows the client's session, for the next statements.
    pub fn client_is(&mut self, client: Option<Arc<dyn Surroundings>>) {
        self.worker.machine.client_is(client);
    }

    /// Exchanges the last numbers of sequences, which `currval` returns, for those of another client.
    pub fn swap_current_numbers(&mut self, numbers: &mut CurrentNumbers) {
        std::mem::swap(&mut self.worker.machine.services.current_numbers, numbers);
    }

    /// Takes the notices that RAISE made in the last call.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// session.execute_script(
    ///     "CREATE PROCEDURE greet(name TEXT) LANGUAGE plpgsql AS $$
    ///      BEGIN RAISE NOTICE 'Hello, %', name; END $$",
    /// )?;
    /// session.call("greet", params!["Ada"])?;
    /// assert_eq!(session.take_notices()[0].to_string(), "Hello, Ada");
    /// # Ok(()) }
    /// ```
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.worker.take_notices()
    }

    /// Takes what the last statement or call tells clients that listen (`NOTIFY`, `pg_notify`). The caller
    /// delivers it once the statement's transaction has committed; `has_failed`: what a procedure that failed
    /// has told in transactions that it had committed before.
    pub fn take_notifications(&mut self, has_failed: bool) -> Vec<Notification> {
        self.worker.machine.services.take_notifications(has_failed)
    }
}
