//! Statements of clients: prepared once, run with parameters, each a transaction of its own or several in one.
//!
//! A transaction of several statements runs as any other: optimistically, and what it has read is validated when it commits. It
//! is logged by value. It can't be tried again, as nobody knows what its client made of the answers: a conflict is the
//! client's to see (SQLSTATE 40001).

use super::Session;
use super::staged::Staged;
use crate::Error;
use catalog::{Arena, Datum, ProcedureId, Type, Value, datum_from_value, now_us, value_from_datum};
use logging::Commit;
use procedure::query::OutputColumn;
use procedure::{Call, Conflict, Failure, Nowhere, Procedure, RowSink, SqlError, execute};
use sql::{Arguments, Kind};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};
use std::task::{Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};
use storage::Slot;
use transaction::{Reservations, Savepoint};

/// A statement that is bound against the definitions.
#[derive(Clone, Debug)]
pub struct Prepared {
    text: Arc<str>,
    types: Arc<[Option<Type>]>,
    /// The version of the definitions that it is bound against.
    version: u64,
    bound: Arc<sql::Prepared>,
}

impl Prepared {
    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it is.
    pub fn kind(&self) -> &Kind {
        &self.bound.kind
    }

    /// Whether it is likely to take no longer than a few accesses to rows.
    pub fn looks_short(&self) -> bool {
        match &self.bound.kind {
            Kind::Run(procedure) | Kind::Call(procedure, _) => procedure.looks_short(),
            Kind::Definition | Kind::Analyze(_) => false,
            _ => true,
        }
    }

    /// What PostgreSQL calls its completion.
    pub fn tag(&self) -> &'static str {
        self.bound.tag
    }

    /// The types of its parameters.
    pub fn parameters(&self) -> &[Type] {
        &self.bound.parameters
    }

    /// The columns of its rows; none of a statement that returns none.
    pub fn columns(&self) -> &[OutputColumn] {
        &self.bound.columns
    }
}

/// Where a session stands with transactions of several statements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TransactionState {
    /// Each statement is a transaction of its own.
    #[default]
    None,
    /// One is open.
    Open,
    /// One is open, and a statement of it has failed: it can only be rolled back.
    Failed,
}

/// A row that another client's transaction is about to write: the statement has not happened, and can be run again.
#[derive(Clone, Debug)]
#[must_use = "the statement has not happened: run it again, later"]
pub struct Busy {
    address: u64,
    slot: Slot,
    reservations: Arc<Reservations>,
}

impl Busy {
    /// Waits until the row is free. Whoever asks looks at the time.
    pub async fn released(&self) {
        let mut has_waited = false;
        std::future::poll_fn(|context| {
            let waits = !has_waited && self.reservations.wake_later(self.address, self.slot, context.waker());
            has_waited = true;
            if waits { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    /// As `released`, on a thread of its own, for so long at most.
    fn wait(&self, at_most: Duration) {
        struct Unpark(Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        if self.reservations.wake_later(self.address, self.slot, &waker) {
            std::thread::park_timeout(at_most);
        }
    }
}

/// What became of a statement.
#[derive(Debug)]
pub enum Attempt {
    /// It is done.
    Done(Completion),
    /// It was not run, as another client is at one of its rows.
    Busy(Busy),
}

/// So long a statement waits for rows that others are about to write; then it goes on, and one of them loses the race.
pub const RESERVED_FOR: Duration = Duration::from_secs(1);

/// A savepoint that a client has set.
struct NamedSavepoint {
    name: String,
    savepoint: Savepoint,
    /// How many definitions the transaction had changed.
    definitions: usize,
}

/// The transaction of several statements.
#[derive(Default)]
pub(super) struct Block {
    pub(super) state: TransactionState,
    /// Whether it has run a statement.
    pub(super) begun: bool,
    timestamp_us: i64,
    /// What it has changed of the definitions.
    pub(super) staged: Option<Box<Staged>>,
    /// Savepoints, the last one last.
    savepoints: Vec<NamedSavepoint>,
    /// Why the statement in hand was not run.
    busy: Option<Busy>,
}

/// What a statement came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Completion {
    /// Rows that it returned or wrote.
    pub affected: u64,
    /// What must be durable before it is acknowledged; nothing inside of a transaction.
    pub commit: Option<Commit>,
}

/// What a transaction of several statements is to the logs: nothing but what it wrote.
pub(crate) static NAMELESS: LazyLock<Procedure> = LazyLock::new(|| Procedure {
    id: ProcedureId(u32::MAX),
    version: 0,
    name: String::new(),
    parameters: Vec::new(),
    result: None,
    rows: None,
    ends_transactions: false,
    registers: Vec::new(),
    body: Vec::new(),
    operations: Vec::new(),
    ahead: Vec::new(),
    uses_timestamp: false,
    uses_seed: false,
    read_only: false,
    by_value: true,
    witnesses: Vec::new(),
    source: "".into(),
});

pub(super) fn serialization_failure(conflict: Conflict) -> Error {
    let error = SqlError::new("40001", "could not serialize access due to concurrent update");
    let error = SqlError { detail: Some(format!("{conflict}.")), ..error };
    Error::Sql(error.with_hint("The transaction might succeed if retried."))
}

fn failed_block() -> Error {
    let message = "current transaction is aborted, commands ignored until end of transaction block";
    Error::Sql(SqlError::new("25P02", message))
}

/// Each line is a row of one text.
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
    /// Binds a statement; `None` when the text holds none. `types` are those of its parameters that are known.
    ///
    /// # Errors
    /// Anything wrong with it, with line and column.
    pub fn prepare(&mut self, text: &str, types: &[Option<Type>]) -> Result<Option<Prepared>, Error> {
        self.catch_up();
        let bound = self.version.schema.prepare(text, types)?;
        Ok(bound.map(|bound| Prepared {
            text: text.into(),
            types: types.into(),
            version: self.version.number,
            bound: Arc::new(bound),
        }))
    }

    /// Takes over definitions that have changed. Not inside a transaction, under which they don't change.
    fn catch_up(&mut self) {
        if !self.block.begun && !self.inner.definitions.is_current(self.version.number) {
            self.refresh();
        }
    }

    /// Binds a statement anew if definitions have changed since.
    fn renew(&mut self, prepared: &mut Prepared) -> Result<(), Error> {
        if prepared.version != self.version.number {
            let bound = self.version.schema.prepare(&prepared.text, &prepared.types)?;
            let Some(bound) = bound else { return Ok(()) };
            let types = |own: &sql::Prepared| own.columns.iter().map(|own| own.ty).collect::<Vec<_>>();
            if types(&bound) != types(&prepared.bound) || bound.parameters != prepared.bound.parameters {
                let error = SqlError::new("0A000", "cached plan must not change result type");
                return Err(error.with_hint("Prepare the statement again.").into());
            }
            prepared.bound = Arc::new(bound);
            prepared.version = self.version.number;
        }
        Ok(())
    }

    /// Where the session stands.
    pub fn transaction_state(&self) -> TransactionState {
        self.block.state
    }

    /// Whether the open transaction has changed definitions.
    pub fn changes_definitions(&self) -> bool {
        self.block.staged.is_some()
    }

    /// Says what ends the statement in progress when it is raised.
    pub fn cancelled_by(&mut self, flag: Arc<AtomicBool>) {
        self.machine.cancelled_by(flag);
    }

    /// Says when statements have taken too long, from now on.
    pub fn ends_at(&mut self, deadline: Option<Instant>) {
        self.machine.ends_at(deadline);
    }

    /// Begins a transaction of several statements.
    pub fn begin_block(&mut self) {
        if self.block.state == TransactionState::None {
            self.block = Block { state: TransactionState::Open, ..Block::default() };
        }
    }

    /// Ends the transaction. What must be durable before that is acknowledged; nothing when it was rolled back, as a statement of
    /// it had failed, or when it did nothing.
    ///
    /// # Errors
    /// It lost a race (40001): nothing of it happened. Or the log failed.
    pub fn commit_block(&mut self) -> Result<Option<Commit>, Error> {
        if self.block.state != TransactionState::Open {
            self.rollback_block();
        }
        let block = std::mem::take(&mut self.block);
        if !block.begun {
            return Ok(None);
        }
        if let Some(staged) = block.staged {
            return self.commit_staged(&staged).map(Some);
        }
        if let Err(error) = self.recording.prepare(&NAMELESS, &self.occ) {
            self.occ.rollback();
            return Err(error.into());
        }
        match self.commit() {
            Ok(commit) => commit.map(Some),
            Err(Failure::Error(error)) => Err(Error::Sql(*error)),
            Err(Failure::Conflict(conflict)) => {
                self.conflicts += 1;
                Err(serialization_failure(conflict))
            }
            Err(_) => Err(serialization_failure(Conflict::Read)),
        }
    }

    /// Ends the transaction as if it had never been.
    pub fn rollback_block(&mut self) {
        let block = std::mem::take(&mut self.block);
        if block.begun {
            self.occ.rollback_if_running();
        }
        if block.staged.is_some() {
            self.refresh();
        }
    }

    /// Takes note that a statement has failed, whether or not it ran: an open transaction has failed with it.
    pub fn fail_block(&mut self) {
        if self.block.state == TransactionState::Open {
            if self.block.savepoints.is_empty() {
                self.rollback_block();
            }
            self.block.state = TransactionState::Failed;
        }
    }

    /// SAVEPOINT.
    ///
    /// # Errors
    /// `25P01` when no transaction is open; the log has failed.
    pub fn set_savepoint(&mut self, name: &str) -> Result<(), Error> {
        if self.block.state != TransactionState::Open {
            let message = "SAVEPOINT can only be used in transaction blocks";
            return Err(SqlError::new("25P01", message).into());
        }
        self.begin_in_block()?;
        let (name, savepoint) = (name.to_owned(), self.occ.set_savepoint());
        let definitions = self.block.staged.as_ref().map_or(0, |own| own.len());
        self.block.savepoints.push(NamedSavepoint { name, savepoint, definitions });
        Ok(())
    }

    fn find_savepoint(&self, name: &str) -> Result<usize, Error> {
        let place = self.block.savepoints.iter().rposition(|own| own.name == name);
        place.ok_or_else(|| SqlError::new("3B001", format!("savepoint \"{name}\" does not exist")).into())
    }

    /// RELEASE SAVEPOINT: it and all later ones are forgotten.
    ///
    /// # Errors
    /// `3B001` when there is no such savepoint.
    pub fn release_savepoint(&mut self, name: &str) -> Result<(), Error> {
        let place = self.find_savepoint(name)?;
        for _ in self.block.savepoints.drain(place..) {
            self.occ.release_savepoint();
        }
        Ok(())
    }

    /// ROLLBACK TO SAVEPOINT: what came after it has not happened, and the transaction goes on.
    ///
    /// # Errors
    /// `3B001` when there is no such savepoint; `0A000` when definitions have changed since. The transaction has failed.
    pub fn roll_back_to_savepoint(&mut self, name: &str) -> Result<(), Error> {
        let place = self.find_savepoint(name)?;
        let NamedSavepoint { savepoint, definitions, .. } = self.block.savepoints[place];
        if self.block.staged.as_ref().map_or(0, |own| own.len()) != definitions {
            let message = "rolling back to a savepoint before definitions have changed is not supported";
            return Err(SqlError::new("0A000", message).with_hint("Roll the whole transaction back.").into());
        }
        for _ in self.block.savepoints.drain(place + 1..) {
            self.occ.release_savepoint();
        }
        if self.occ.roll_back_to(savepoint).is_err() {
            self.occ.rollback_if_running();
            self.block.begun = false;
            self.block.savepoints.clear();
            self.block.state = TransactionState::Failed;
            return Err(serialization_failure(Conflict::Write));
        }
        self.block.state = TransactionState::Open;
        Ok(())
    }

    /// Runs a query, a statement that writes, a call or a definition. Its rows go to what `sink` makes.
    ///
    /// # Errors
    /// The statement failed: nothing of it happened, and an open transaction can only be rolled back. Or the log failed.
    pub fn run_prepared(
        &mut self,
        prepared: &mut Prepared,
        arguments: &[Value],
        sink: impl Fn() -> Box<dyn RowSink>,
    ) -> Result<Completion, Error> {
        let begun = Instant::now();
        loop {
            match self.try_prepared(prepared, arguments, sink())? {
                Attempt::Done(completion) => return Ok(completion),
                Attempt::Busy(busy) if begun.elapsed() < RESERVED_FOR => {
                    busy.wait(RESERVED_FOR - begun.elapsed())
                }
                Attempt::Busy(_) => self.insist(),
            }
        }
    }

    /// From now on the open transaction does not wait for others.
    pub fn insist(&mut self) {
        self.occ.reserve_rows(false);
    }

    /// As `run_prepared`, but where another client is at a row, whoever asks decides how to wait.
    ///
    /// # Errors
    /// As `run_prepared`.
    pub fn try_prepared(
        &mut self,
        prepared: &mut Prepared,
        arguments: &[Value],
        sink: Box<dyn RowSink>,
    ) -> Result<Attempt, Error> {
        if self.block.state == TransactionState::Failed {
            return Err(failed_block());
        }
        let ran = self.run_bound(prepared, arguments, sink);
        self.machine.count_rows(false);
        self.machine.send_rows_to(None);
        if let Some(busy) = self.block.busy.take() {
            return Ok(Attempt::Busy(busy));
        }
        match ran {
            Err(error) => {
                self.fail_block();
                Err(error)
            }
            Ok(completion) => Ok(Attempt::Done(completion)),
        }
    }

    fn run_bound(
        &mut self,
        prepared: &mut Prepared,
        arguments: &[Value],
        sink: Box<dyn RowSink>,
    ) -> Result<Completion, Error> {
        if self.block.state == TransactionState::Open {
            self.begin_in_block()?;
        } else {
            self.catch_up();
        }
        self.renew(prepared)?;
        if arguments.len() != prepared.parameters().len() {
            let message = format!(
                "the statement has {} parameters, not {}",
                prepared.parameters().len(),
                arguments.len()
            );
            return Err(SqlError::new("08P01", message).into());
        }
        let bound = Arc::clone(&prepared.bound);
        let in_block = self.block.state == TransactionState::Open;
        match &bound.kind {
            Kind::Definition if in_block => {
                let text = Arc::clone(&prepared.text);
                self.stage(&text)?;
                Ok(Completion::default())
            }
            Kind::Definition => {
                let text = Arc::clone(&prepared.text);
                let commit = self.run_statement(&text, |_, _| {})?;
                Ok(Completion { affected: 0, commit: Some(commit) })
            }
            Kind::Run(procedure) => {
                self.machine.send_rows_to(Some(sink));
                let ran = self.run_here(procedure, arguments)?;
                let affected = self.machine.affected;
                match (ran, self.machine.take_sink()) {
                    (None, Some(sink)) => self.run_bound(prepared, arguments, sink),
                    (commit, _) => Ok(Completion { affected, commit: commit.flatten() }),
                }
            }
            Kind::Analyze(procedure) => {
                self.machine.send_rows_to(Some(Box::new(Nowhere)));
                self.machine.count_rows(true);
                let begun = Instant::now();
                let Some(commit) = self.run_here(procedure, arguments)? else {
                    return self.run_bound(prepared, arguments, sink);
                };
                let took = begun.elapsed();
                let mut lines = procedure.explained(Some(&self.machine.count_rows(false)));
                lines.push(format!("Execution Time: {:.3} ms", took.as_secs_f64() * 1e3));
                write_lines(&lines, sink)?;
                Ok(Completion { affected: 0, commit })
            }
            Kind::Call(procedure, own) => self.run_called(procedure, own, (&bound, arguments), sink),
            _ => Err(SqlError::new("0A000", "this statement has no rows").into()),
        }
    }

    /// Runs a statement in the open transaction, or as one of its own; what must be durable then. `None` when the definitions
    /// have changed.
    fn run_here(
        &mut self,
        procedure: &Procedure,
        arguments: &[Value],
    ) -> Result<Option<Option<Commit>>, Error> {
        if self.block.state == TransactionState::Open {
            self.run_in_block(procedure, arguments)?;
            return Ok(Some(None));
        }
        Ok(self.run_alone(procedure, arguments)?.map(Some))
    }

    /// Runs a statement as a transaction of its own; `None` when the definitions have changed.
    fn run_alone(&mut self, procedure: &Procedure, arguments: &[Value]) -> Result<Option<Commit>, Error> {
        if !procedure.read_only {
            self.check_log()?;
        }
        let (timestamp_us, seed) = (now_us(), self.next_seed());
        self.last = None;
        self.run(procedure, timestamp_us, seed, |session, procedure| {
            session.recording.witnesses.begin(&[]);
            session.bring_in(procedure, arguments)
        })
    }

    /// Brings arguments into the arena.
    fn bring_in(&mut self, procedure: &Procedure, arguments: &[Value]) -> Result<(), Error> {
        self.arguments.clear();
        for (place, (_, parameter)) in procedure.inputs().enumerate() {
            let value = arguments.get(place).or(parameter.default.as_ref()).unwrap_or(&Value::Null);
            let datum = datum_from_value(value, parameter.ty, &mut self.machine.arena)
                .map_err(|error| SqlError::from(error).with_detail(format!("Parameter ${}.", place + 1)))?;
            self.arguments.push(datum);
        }
        Ok(())
    }

    /// Begins the transaction with its first statement.
    fn begin_in_block(&mut self) -> Result<(), Error> {
        if self.block.begun {
            return Ok(());
        }
        self.check_log()?;
        while !self.begin() {}
        self.recording.begin();
        self.occ.reserve_rows(true);
        self.block.begun = true;
        self.block.timestamp_us = now_us();
        Ok(())
    }

    fn run_in_block(&mut self, procedure: &Procedure, arguments: &[Value]) -> Result<(), Error> {
        self.refuse_deferred(procedure)?;
        if self.block.staged.as_ref().is_some_and(|own| own.defers_changes()) {
            // Nobody knows which tables a text is going to name.
            self.machine.compile_by(None);
        }
        let (timestamp_us, seed) = (self.block.timestamp_us, self.next_seed());
        self.last = None;
        self.machine.reset(timestamp_us, seed);
        self.bring_in(procedure, arguments)?;
        self.recording.witnesses.begin(&[]);
        let call = Call { procedure, timestamp_us, seed };
        let arguments = self.arguments.iter().copied();
        let tapes = &mut self.recording.witnesses;
        let savepoint = self.occ.set_savepoint();
        let ran = execute(call, arguments, &mut self.machine, &mut self.occ, tapes);
        let error = match ran {
            Ok(()) => {
                self.occ.release_savepoint();
                return Ok(());
            }
            Err(Failure::Conflict(Conflict::Reserved(address))) if !self.machine.has_sent_rows() => {
                if self.occ.forget_since(savepoint).is_ok() {
                    self.occ.release_savepoint();
                    let reservations = Arc::clone(&self.occ.tables().reservations);
                    let slot = self.occ.worker().slot();
                    self.block.busy = Some(Busy { address, slot, reservations });
                    return Err(serialization_failure(Conflict::Reserved(address)));
                }
                serialization_failure(Conflict::Reserved(address))
            }
            // What failed may have seen states of different moments.
            Err(Failure::Error(error)) => match self.occ.reads_hold() {
                Ok(()) if !self.block.savepoints.is_empty() => {
                    self.occ.release_savepoint();
                    self.failed += 1;
                    return Err(Error::Sql(*error));
                }
                Ok(()) => Error::Sql(*error),
                Err(conflict) => serialization_failure(conflict),
            },
            Err(Failure::Conflict(conflict)) => serialization_failure(conflict),
            Err(_) => serialization_failure(Conflict::Read),
        };
        self.occ.rollback();
        self.block.savepoints.clear();
        self.block.begun = false;
        self.failed += 1;
        Err(error)
    }

    /// Runs a call: logged as such where it is a transaction of its own.
    fn run_called(
        &mut self,
        procedure: &Arc<Procedure>,
        own: &Arguments,
        (bound, arguments): (&sql::Prepared, &[Value]),
        mut sink: Box<dyn RowSink>,
    ) -> Result<Completion, Error> {
        let values = self.argument_values(procedure, own, (bound, arguments))?;
        let commit = if self.block.state == TransactionState::Open {
            self.run_in_block(procedure, &values)?;
            None
        } else {
            Some(self.run_call(&procedure.name, &values)?)
        };
        let columns = &bound.columns;
        let affected = u64::from(!columns.is_empty());
        if affected > 0 {
            let row: Vec<Datum> = columns.iter().map(|column| self.machine.get(column.register)).collect();
            sink.begin();
            sink.row(&row, &self.machine.arena)?;
        }
        Ok(Completion { affected, commit })
    }

    /// What a call's arguments come to.
    fn argument_values(
        &mut self,
        procedure: &Procedure,
        own: &Arguments,
        (bound, arguments): (&sql::Prepared, &[Value]),
    ) -> Result<Vec<Value>, Error> {
        let (timestamp_us, seed) = (now_us(), self.next_seed());
        self.machine.begin_piece(own.registers(), timestamp_us, seed);
        for (place, (value, ty)) in arguments.iter().zip(&bound.parameters).enumerate() {
            let datum = datum_from_value(value, *ty, &mut self.machine.arena)
                .map_err(|error| SqlError::from(error).with_detail(format!("Parameter ${}.", place + 1)))?;
            self.machine.set(procedure::Register(place as u32), datum);
        }
        let values = own.evaluate(&mut self.machine).map_err(|error| Error::Sql(*error))?;
        let typed = values.into_iter().zip(procedure.inputs());
        let arena = &self.machine.arena;
        Ok(typed.map(|(value, (_, parameter))| value_from_datum(value, parameter.ty, arena)).collect())
    }
}
