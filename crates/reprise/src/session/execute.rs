//! The functions of a session for programs: prepare and execute statements, call procedures.
//!
//! No function here waits for the disk: an answer carries the commit that the program waits for.
//! Not here: `execute_script`, which waits for the disk (`script`).

use super::block::TransactionState;
use super::statement::{Binding, Parameters, Statement, ToStatement};
use super::{Attempt, Session};
use crate::definitions::{Viewpoint, unknown_procedure};
use crate::rows::Collector;
use crate::worker::{KnownProcedure, Recorded, Request, room_for};
use crate::{Commit, Error, Executed, Row};
use catalog::{SessionZone, Type, Value, datum_from_value, encode_value, now_us, value_from_datum};
use logging::Commit as CommitPoint;
use procedure::{Call, Procedure, RowSink, SqlError};
use sql::{Schema, StatementError, interruptible};
use std::borrow::Cow;
use std::sync::{Arc, PoisonError};

impl Session {
    /// Prepares a statement for one or more executions.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, Value, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// let add = session.prepare("SELECT $1::int + $2::int AS sum")?;
    /// let done = session.execute(&add, params![19, 23])?;
    /// assert_eq!(done.rows[0].get("sum"), Some(&Value::Int(42)));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `Error::Statement`, with line and column: the statement is malformed, names unknown objects, or is not
    /// supported. 42601: the text holds no statement.
    pub fn prepare(&mut self, text: &str) -> Result<Statement, Error> {
        let prepared = self.prepare_typed(text, &[])?;
        prepared.ok_or_else(|| SqlError::new("42601", "the text holds no statement").into())
    }

    /// Prepares a statement with given types for some parameters. Returns `None` when the text holds no
    /// statement. The result may depend on definitions that are not durable yet: see `shown`.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, ScalarType, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// let types = [Some(ScalarType::BigInt.into())];
    /// let double = session.prepare_typed("SELECT $1 * 2", &types)?.expect("a statement");
    /// assert_eq!(double.parameters(), [ScalarType::BigInt.into()]);
    /// assert!(session.prepare_typed("-- nothing", &[])?.is_none());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `Error::Statement`, with line and column: the statement is malformed, names unknown objects, or is not
    /// supported.
    pub fn prepare_typed(&mut self, text: &str, types: &[Option<Type>]) -> Result<Option<Statement>, Error> {
        self.begin_answer();
        self.catch_up();
        self.open_temporary_for(text);
        let zone = self.zone().cloned();
        let bound = self.plan_in(text, types, zone.as_ref())?;
        Ok(bound.map(|bound| Statement::new(text, types, zone, self.binding(), bound)))
    }

    /// Returns what the plans of the session's statements depend on.
    pub(super) fn binding(&self) -> Binding {
        let temporary = self.temporary_number();
        Binding { version: self.worker.version.number, role: self.role, temporary }
    }

    /// Binds a statement against the session's definitions, for its role. Literals are read in a zone; `None`
    /// is UTC.
    pub(super) fn plan_in(
        &self,
        text: &str,
        types: &[Option<Type>],
        zone: Option<&Arc<SessionZone>>,
    ) -> Result<Option<sql::Prepared>, Error> {
        self.bind_text(text, zone, |schema, text| schema.prepare(text, types))
    }

    /// Binds a statement by a function, with the definitions as the session uses them in a zone.
    pub(super) fn bind_text(
        &self,
        text: &str,
        zone: Option<&Arc<SessionZone>>,
        bind: impl FnOnce(&Schema, &str) -> Result<Option<sql::Prepared>, StatementError>,
    ) -> Result<Option<sql::Prepared>, Error> {
        let _room = room_for(text, &self.worker.inner.account)?;
        let interrupts = self.worker.machine.interrupts().clone();
        let temporary = self.temporary_name();
        let viewpoint = Viewpoint { role: self.role, zone, temporary: temporary.as_ref() };
        self.worker.version.with_schema_of(viewpoint, |schema| {
            interruptible(interrupts, || bind(schema, text).map_err(Error::from))
        })
    }

    /// Executes a statement in the open transaction, or as one transaction if none is open. The effects are
    /// visible when this returns, and survive a crash once the commit is durable.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// session.execute_script("CREATE TABLE items (id INT PRIMARY KEY, name TEXT)")?;
    /// let done = session.execute("INSERT INTO items VALUES ($1, $2)", params![1, "a pen"])?;
    /// assert_eq!(done.affected, 1);
    /// done.commit.wait()?; // durable now; `done.commit.await?` blocks no thread
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `Error::Statement` and `Error::Sql`: the statement was refused or failed. It has no effect, and an
    /// open transaction can only be rolled back. The error may depend on transactions that are not durable
    /// yet: see `shown`. `Error::Log`: the log failed.
    pub fn execute<S: ToStatement + ?Sized>(
        &mut self,
        statement: &S,
        parameters: &[Value],
    ) -> Result<Executed, Error> {
        loop {
            let statement = statement.to_statement(self).inspect_err(|_| self.fail_transaction())?;
            let (sink, rows) = Collector::collect(statement.shared_columns());
            let executed = match self.execute_once(&statement, parameters, sink) {
                // Another session has changed definitions since the text was prepared.
                Err(Error::Outdated) if matches!(statement, Cow::Owned(_)) => continue,
                executed => executed.inspect_err(|error| self.fail_if_outdated(error))?,
            };
            let rows = std::mem::take(&mut *rows.lock().unwrap_or_else(PoisonError::into_inner));
            return Ok(Executed { rows, ..executed });
        }
    }

    /// As `execute`, for many rows: each row goes to a sink when it is found. The rows are final only when
    /// this returns, because an attempt that lost a race is repeated and sends its rows again.
    ///
    /// ```
    /// # use reprise::{Arena, Config, Database, Datum, Error, RowSink, SqlError, params};
    /// # use std::sync::{Arc, atomic::{AtomicI64, Ordering}};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// struct Sum(Arc<AtomicI64>);
    ///
    /// impl RowSink for Sum {
    ///     fn begin(&mut self) {
    ///         self.0.store(0, Ordering::Relaxed);
    ///     }
    ///
    ///     fn row(&mut self, values: &[Datum], _: &Arena) -> Result<(), SqlError> {
    ///         if let [Datum::Int(value)] = values {
    ///             self.0.fetch_add(*value, Ordering::Relaxed);
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let sum = Arc::new(AtomicI64::new(0));
    /// let numbers = session.prepare("SELECT n FROM generate_series(1, 100) AS n")?;
    /// session.execute_into(&numbers, params![], Box::new(Sum(Arc::clone(&sum))))?;
    /// assert_eq!(sum.load(Ordering::Relaxed), 5050);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As `execute`.
    pub fn execute_into(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
        sink: Box<dyn RowSink>,
    ) -> Result<Executed, Error> {
        let executed = self.execute_once(statement, parameters, sink);
        executed.inspect_err(|error| self.fail_if_outdated(error))
    }

    /// Makes the open transaction a failed one if its statement is outdated and is not prepared again.
    fn fail_if_outdated(&mut self, error: &Error) {
        if matches!(error, Error::Outdated) {
            self.fail_transaction();
        }
    }

    /// Executes a statement. An open transaction has not failed if the statement is outdated.
    fn execute_once(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
        sink: Box<dyn RowSink>,
    ) -> Result<Executed, Error> {
        let parameters = Parameters::of(statement, parameters).inspect_err(|_| {
            self.begin_answer();
            self.fail_transaction();
        })?;
        match self.attempt_bound(statement, &parameters, sink)? {
            Attempt::Done(done) => {
                let commit = Commit::new(&self.database, done.commit);
                Ok(Executed { rows: Vec::new(), affected: done.affected, commit })
            }
            Attempt::Busy(_) => unreachable!("the worker waits, not the caller"),
        }
    }

    /// Calls a procedure by its name, as one transaction. Parameters without an argument have their defaults.
    /// The outputs are the only row of the answer.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// session.execute_script(
    ///     "CREATE PROCEDURE greet(OUT greeting TEXT, name TEXT DEFAULT 'you') LANGUAGE plpgsql AS $$
    ///      BEGIN greeting := 'Hello ' || name; END $$",
    /// )?;
    /// let done = session.call("greet", params!["Ada"])?;
    /// assert_eq!(done.rows[0][0].to_string(), "Hello Ada");
    /// assert_eq!(session.call("greet", params![])?.rows[0][0].to_string(), "Hello you");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `Error::Sql`: the procedure raised an exception, a constraint was violated, the procedure does not
    /// exist (42883), the arguments do not fit, or a transaction is open (25001). The call then has no
    /// effect; only the steps before a COMMIT of the procedure stay. The error may depend on transactions
    /// that are not durable yet: see `shown`. `Error::Log`: the log failed.
    pub fn call(&mut self, procedure: &str, arguments: &[Value]) -> Result<Executed, Error> {
        self.refuse_in_block()?;
        self.begin_answer();
        self.refuse_other_role()?;
        self.refuse_temporary("")?;
        loop {
            let Some(index) = self.worker.known.indexes.get(procedure).copied() else {
                self.worker.refresh();
                if self.worker.known.indexes.contains_key(procedure) {
                    continue;
                }
                return Err(unknown_procedure(procedure, &self.worker.version).into());
            };
            let known = Arc::clone(&self.worker.known);
            let called = &known.procedures[index];
            let mut record = std::mem::take(&mut self.arguments);
            let encoded = self.encode_arguments(&called.procedure, arguments, &mut record);
            let ran = encoded.and_then(|()| self.run_alone(&called.procedure, &record, Recorded::Call));
            self.arguments = record;
            if let Some(point) = ran? {
                return Ok(self.executed(called, point));
            }
        }
    }

    /// Returns an error without values that the acting role may not read.
    pub(super) fn without_hidden_values(&self, error: Error) -> Error {
        match error {
            Error::Sql(error) if self.role != Schema::first_superuser() => {
                Error::Sql(self.worker.version.schema.without_hidden_values(self.role, error))
            }
            error => error,
        }
    }

    /// Refuses a call by name of a session that acts as another role: it has no statement with privileges.
    ///
    /// # Errors
    /// `0A000`.
    pub(super) fn refuse_other_role(&self) -> Result<(), Error> {
        if self.role == Schema::first_superuser() {
            return Ok(());
        }
        let error = SqlError::new("0A000", "calls by name are not available to other roles");
        Err(error.with_hint("Execute a CALL statement.").into())
    }

    /// Returns the answer of a call, whose outputs are in the registers.
    pub(super) fn executed(&self, called: &KnownProcedure, point: CommitPoint) -> Executed {
        let machine = &self.worker.machine;
        let outputs = called.procedure.outputs();
        let values: Vec<_> = outputs
            .map(|(_, register, ty)| value_from_datum(machine.get(register), ty, &machine.frame.arena))
            .collect();
        let rows = match values.is_empty() {
            true => Vec::new(),
            false => vec![Row::new(Arc::clone(&called.columns), values)],
        };
        let (affected, commit) = (rows.len() as u64, Commit::new(&self.database, point));
        Executed { rows, affected, commit }
    }

    /// Encodes the arguments of a call, with defaults for missing ones.
    pub(super) fn encode_arguments(
        &mut self,
        procedure: &Procedure,
        arguments: &[Value],
        record: &mut Vec<u8>,
    ) -> Result<(), Error> {
        record.clear();
        let inputs = procedure.inputs().count();
        let given =
            || format!("procedure \"{}\" takes {inputs} arguments, not {}", procedure.name, arguments.len());
        if arguments.len() > inputs {
            return Err(SqlError::new("42883", given()).into());
        }
        let arena = &mut self.worker.machine.frame.arena;
        arena.clear();
        for (index, (_, parameter)) in procedure.inputs().enumerate() {
            let Some(value) = arguments.get(index).or(parameter.default.as_ref()) else {
                let (code, missing) = match parameter.computed {
                    Some(_) => ("0A000", "has a default that is no constant"),
                    None => ("42883", "has no default"),
                };
                let message = format!("{}: parameter \"{}\" {missing}", given(), parameter.name);
                return Err(SqlError::new(code, message).into());
            };
            let datum = datum_from_value(value, parameter.ty, arena).map_err(|error| {
                let detail = format!("Parameter \"{}\" of \"{}\".", parameter.name, procedure.name);
                SqlError::from(error).with_detail(detail)
            })?;
            encode_value(datum, parameter.ty, arena, record);
        }
        Ok(())
    }

    /// Runs a procedure as one transaction, with encoded arguments. Returns `None` when the definitions have
    /// changed before its begin.
    pub(super) fn run_alone(
        &mut self,
        procedure: &Procedure,
        arguments: &[u8],
        recorded: Recorded<'_>,
    ) -> Result<Option<CommitPoint>, Error> {
        let is_call = matches!(recorded, Recorded::Call);
        let request = Request { call: self.new_call(procedure, is_call), arguments, recorded };
        if is_call && self.joins_batches(procedure) {
            return self.run_in_batch(&request);
        }
        self.run_request(&request)
    }

    /// Returns a new run of a procedure: a call, or a statement, which gets a time and a seed in any case.
    pub(super) fn new_call<'p>(&mut self, procedure: &'p Procedure, is_call: bool) -> Call<'p> {
        let timestamp_us = if procedure.uses_timestamp || !is_call { now_us() } else { 0 };
        let seed = if procedure.uses_seed || !is_call { self.next_seed() } else { 0 };
        Call { procedure, timestamp_us, seed }
    }

    /// Returns the commit that must be durable before the last answer, an error included, is shown. A
    /// successful answer carries the same commit (`Executed::commit`).
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// session.execute_script("CREATE TABLE names (name TEXT PRIMARY KEY)")?;
    /// session.execute("INSERT INTO names VALUES ('Ada')", params![])?;
    /// let error = session.execute("INSERT INTO names VALUES ('Ada')", params![]).unwrap_err();
    /// session.shown().wait()?; // the conflicting row is durable now
    /// assert_eq!(error.sqlstate(), "23505");
    /// # Ok(()) }
    /// ```
    pub fn shown(&self) -> Commit {
        Commit::new(&self.database, self.must_be_durable())
    }

    /// Returns whether a transaction is open, and whether a statement of it has failed.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, TransactionState, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// session.begin()?;
    /// session.execute("SELECT 1 / 0", params![]).unwrap_err();
    /// assert_eq!(session.transaction_state(), TransactionState::Failed);
    /// session.rollback();
    /// assert_eq!(session.transaction_state(), TransactionState::None);
    /// # Ok(()) }
    /// ```
    pub fn transaction_state(&self) -> TransactionState {
        self.block.state
    }
}
