//! Statements of clients: prepared once, run with parameters, each a transaction of its own or several in
//! one.
//!
//! A transaction of several statements runs as any other: optimistically, and what it has read is validated
//! when it commits. It is logged by value. It can't be tried again, as nobody knows what its client made of
//! the answers: a conflict is the client's to see (SQLSTATE 40001).

use super::Busy;
use super::Session;
use super::block::{TransactionState, failed_block};
use super::texts;
use crate::Error;
use catalog::{Arena, Datum, Type, Value, datum_from_value, now_us, value_from_datum};
use logging::Commit;
use procedure::query::OutputColumn;
use procedure::{Call, Conflict, Nowhere, Procedure, RowSink, SqlError};
use sql::{Arguments, Kind, interruptible};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

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

    /// Whether it waits, where it has to, on the thread that runs it: a definition, for transactions to end,
    /// and a procedure that commits.
    pub fn waits_on_its_thread(&self) -> bool {
        match &self.bound.kind {
            Kind::Definition => true,
            Kind::Run(procedure) | Kind::Analyze(procedure) | Kind::Call(procedure, _) => {
                procedure.ends_transactions
            }
            _ => false,
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

/// What became of a statement.
#[derive(Debug)]
pub enum Attempt {
    /// It is done.
    Done(Completion),
    /// It was undone, because another transaction holds a row or key that it writes. It is to be run again by
    /// the same session later, or given up by `Session::stop_waiting`.
    Busy(Busy),
}

/// What a statement came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Rows that it returned or wrote.
    pub affected: u64,
    /// What must be durable before it is acknowledged: the transaction, and whatever the answer shows.
    pub commit: Commit,
}

pub(super) fn serialization_failure(conflict: Conflict) -> Error {
    let error = SqlError::new("40001", "could not serialize access due to concurrent update");
    let error = SqlError { detail: Some(format!("{conflict}.")), ..error };
    Error::Sql(error.with_hint("The transaction might succeed if retried."))
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
    /// Binds a statement; `None` when the text holds none. `types` are those of its parameters that are
    /// known. What it says may follow from definitions that are not durable yet: see `must_be_durable`.
    ///
    /// # Errors
    /// Anything wrong with it, with line and column.
    pub fn prepare(&mut self, text: &str, types: &[Option<Type>]) -> Result<Option<Prepared>, Error> {
        self.begin_answer();
        let inner = Arc::clone(&self.inner);
        let _room = texts::room_for(text, &inner.account)?;
        self.catch_up();
        let schema = &self.version.schema;
        let bound = interruptible(self.machine.interrupts().clone(), || {
            schema.prepare(text, types).map_err(Error::from)
        })?;
        Ok(bound.map(|bound| Prepared {
            text: text.into(),
            types: types.into(),
            version: self.version.number,
            bound: Arc::new(bound),
        }))
    }

    /// Whether a statement is bound against the definitions as everybody sees them.
    pub fn is_current(&mut self, prepared: &Prepared) -> bool {
        self.catch_up();
        !self.changes_definitions() && prepared.version == self.version.number
    }

    /// The number of the definitions that the session knows.
    pub fn definitions(&self) -> u64 {
        self.version.number
    }

    /// Takes over definitions that have changed: a session that keeps older ones keeps their tables. Does
    /// nothing inside a transaction, under which they don't change.
    pub fn catch_up(&mut self) {
        if !self.block.begun && !self.inner.definitions.is_current(self.version.number) {
            self.refresh();
        }
    }

    /// Binds a statement anew if definitions have changed since.
    fn renew(&mut self, prepared: &mut Prepared) -> Result<(), Error> {
        if prepared.version != self.version.number {
            let _room = texts::room_for(&prepared.text, &self.inner.account)?;
            let schema = &self.version.schema;
            let bound = interruptible(self.machine.interrupts().clone(), || {
                schema.prepare(&prepared.text, &prepared.types).map_err(Error::from)
            })?;
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

    /// Says what ends the statement in progress when it is raised.
    pub fn cancelled_by(&mut self, flag: Arc<AtomicBool>) {
        self.machine.cancelled_by(flag);
    }

    /// Says when statements have taken too long, from now on.
    pub fn ends_at(&mut self, deadline: Option<Instant>) {
        self.machine.ends_at(deadline);
    }

    /// Runs a query, a statement that writes, a call or a definition, and returns once what it shows is
    /// durable. Its rows go to what `sink` makes as they are found, so they must not be shown before this
    /// returns.
    ///
    /// # Errors
    /// The statement failed: nothing of it happened, and an open transaction can only be rolled back. Or the
    /// log failed.
    pub fn run_prepared(
        &mut self,
        prepared: &mut Prepared,
        arguments: &[Value],
        sink: impl Fn() -> Box<dyn RowSink>,
    ) -> Result<Completion, Error> {
        let ran = self.submit_prepared(prepared, arguments, sink);
        self.acknowledge(ran)
    }

    /// As `run_prepared`, without waiting for the disk: what must be durable before an error is shown is
    /// `must_be_durable`.
    ///
    /// # Errors
    /// As `run_prepared`; but the error may follow from a transaction that is not durable yet.
    pub fn submit_prepared(
        &mut self,
        prepared: &mut Prepared,
        arguments: &[Value],
        sink: impl Fn() -> Box<dyn RowSink>,
    ) -> Result<Completion, Error> {
        match self.attempt(prepared, arguments, sink())? {
            Attempt::Done(completion) => Ok(completion),
            Attempt::Busy(_) => unreachable!("this thread waits"),
        }
    }

    /// As `submit_prepared`, but the caller waits where another transaction holds a row or key.
    ///
    /// # Errors
    /// As `submit_prepared`.
    pub fn try_prepared(
        &mut self,
        prepared: &mut Prepared,
        arguments: &[Value],
        sink: Box<dyn RowSink>,
    ) -> Result<Attempt, Error> {
        self.waiting.by_caller = true;
        let attempt = self.attempt(prepared, arguments, sink);
        self.waiting.by_caller = false;
        attempt
    }

    fn attempt(
        &mut self,
        prepared: &mut Prepared,
        arguments: &[Value],
        sink: Box<dyn RowSink>,
    ) -> Result<Attempt, Error> {
        if self.block.state == TransactionState::Failed {
            return Err(failed_block());
        }
        self.begin_answer();
        let ran = match self.refuse_writes(prepared) {
            Ok(()) => self.run_bound(prepared, arguments, sink),
            Err(error) => Err(error),
        };
        self.machine.count_rows(false);
        self.machine.send_rows_to(None);
        let busy = self.waiting.busy.take();
        self.waiting.is_pending = busy.is_some();
        if let Some(busy) = busy {
            return Ok(Attempt::Busy(busy));
        }
        match ran {
            Err(error) => {
                self.let_go_unless_busy();
                self.fail_block();
                Err(error)
            }
            Ok(affected) => Ok(Attempt::Done(Completion { affected, commit: self.must_be_durable() })),
        }
    }

    /// Returns how many rows it returned or wrote.
    fn run_bound(
        &mut self,
        prepared: &mut Prepared,
        arguments: &[Value],
        sink: Box<dyn RowSink>,
    ) -> Result<u64, Error> {
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
                // It has looked at rows without taking note of them.
                self.stage(&text).inspect_err(|_| self.shows_everything())?;
                Ok(0)
            }
            Kind::Definition => {
                let text = Arc::clone(&prepared.text);
                self.run_statement(&text, |_, _| {})?;
                Ok(0)
            }
            Kind::Run(procedure) => {
                self.machine.send_rows_to(Some(sink));
                let has_run = self.run_here(procedure, arguments)?;
                let affected = self.machine.frame.affected;
                match self.machine.take_sink() {
                    Some(sink) if !has_run => self.run_bound(prepared, arguments, sink),
                    _ => Ok(affected),
                }
            }
            Kind::Analyze(procedure) => {
                self.machine.send_rows_to(Some(Box::new(Nowhere)));
                self.machine.count_rows(true);
                let begun = Instant::now();
                if !self.run_here(procedure, arguments)? {
                    return self.run_bound(prepared, arguments, sink);
                }
                let took = begun.elapsed();
                let mut lines = procedure.explained(Some(&self.machine.count_rows(false)));
                lines.push(format!("Execution Time: {:.3} ms", took.as_secs_f64() * 1e3));
                write_lines(&lines, sink)?;
                Ok(0)
            }
            Kind::Call(procedure, own) => self.run_called(procedure, own, (&bound, arguments), sink),
            _ => Err(SqlError::new("0A000", "this statement has no rows").into()),
        }
    }

    /// Runs a statement in the open transaction, or as one of its own. Returns false when the definitions
    /// have changed before it began.
    fn run_here(&mut self, procedure: &Procedure, arguments: &[Value]) -> Result<bool, Error> {
        if self.block.state == TransactionState::Open {
            self.run_in_block(procedure, arguments)?;
            return Ok(true);
        }
        Ok(self.run_alone(procedure, arguments)?.is_some())
    }

    /// Runs a statement as a transaction of its own; `None` when the definitions have changed.
    fn run_alone(&mut self, procedure: &Procedure, arguments: &[Value]) -> Result<Option<Commit>, Error> {
        if !procedure.read_only {
            self.check_log()?;
        }
        let (timestamp_us, seed) = (now_us(), self.next_seed());
        self.last = None;
        self.run(Call { procedure, timestamp_us, seed }, |session, procedure| {
            session.pipeline.witnesses.begin(&[]);
            session.bring_in(procedure, arguments)
        })
    }

    /// Brings arguments into the arena.
    pub(super) fn bring_in(&mut self, procedure: &Procedure, arguments: &[Value]) -> Result<(), Error> {
        self.arguments.clear();
        for (place, (_, parameter)) in procedure.inputs().enumerate() {
            let value = arguments.get(place).or(parameter.default.as_ref()).unwrap_or(&Value::Null);
            let datum = datum_from_value(value, parameter.ty, &mut self.machine.frame.arena)
                .map_err(|error| SqlError::from(error).with_detail(format!("Parameter ${}.", place + 1)))?;
            self.arguments.push(datum);
        }
        Ok(())
    }

    /// Runs a call: logged as such where it is a transaction of its own.
    fn run_called(
        &mut self,
        procedure: &Arc<Procedure>,
        own: &Arguments,
        (bound, arguments): (&sql::Prepared, &[Value]),
        mut sink: Box<dyn RowSink>,
    ) -> Result<u64, Error> {
        let values = self.argument_values(procedure, own, (bound, arguments))?;
        if self.block.state == TransactionState::Open {
            self.run_in_block(procedure, &values)?;
        } else {
            self.run_call(&procedure.name, &values)?;
        }
        let columns = &bound.columns;
        let affected = u64::from(!columns.is_empty());
        if affected > 0 {
            let row: Vec<Datum> = columns.iter().map(|column| self.machine.get(column.register)).collect();
            sink.begin();
            sink.row(&row, &self.machine.frame.arena)?;
        }
        Ok(affected)
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
            let datum = datum_from_value(value, *ty, &mut self.machine.frame.arena)
                .map_err(|error| SqlError::from(error).with_detail(format!("Parameter ${}.", place + 1)))?;
            self.machine.set(procedure::Register(place as u32), datum);
        }
        let values = own.evaluate(&mut self.machine).map_err(|error| Error::Sql(*error))?;
        let typed = values.into_iter().zip(procedure.inputs());
        let arena = &self.machine.frame.arena;
        Ok(typed.map(|(value, (_, parameter))| value_from_datum(value, parameter.ty, arena)).collect())
    }
}
