//! The effects of one client's messages.
//!
//! An EXECUTE runs when the next message is known. If that is SYNC, the statement is one transaction, which
//! may be logged as a call. Otherwise all statements up to SYNC are one transaction, as in PostgreSQL. An
//! answer goes into the output together with the point of the log that must be durable before it is sent
//! (`with_session`).

mod advisory;
mod copying;
mod extended;
mod kept_rows;
mod notifications;
mod rows;
mod script;
mod statement;
mod temporary;
mod transaction;

use self::kept_rows::KeptRows;
use self::script::begins_or_ends_transaction;
use self::statement::failed_transaction;
pub(crate) use self::temporary::drop_temporary;
use crate::advisory::ConnectionLocks;
use crate::attendance::RunningStatement;
use crate::copy::CopyIn;
use crate::link::{Output, Placed};
use crate::notifications::{ChannelsMark, ClientChannels};
use crate::presence::Activity;
use crate::settings::{Mark, Settings};
use crate::startup::Registration;
use crate::surroundings::SessionView;
use crate::wire::Format;
use crate::{Server, error_response};
use pgwire::messages::PgWireBackendMessage as Message;
use pgwire::messages::response::{
    CommandComplete, EmptyQueryResponse, ErrorResponse, ReadyForQuery, TransactionStatus,
};
use pgwire::messages::startup::ParameterStatus;
use procedure::Interrupts;
use reprise::{
    Arena, CommitOrder, CommitPoint, CurrentNumbers, Error, Notice, Parameters, Session, Severity, SqlError,
    Statement, TemporarySchema, TransactionState,
};
use sql::{Kind, Schema};
use std::collections::HashMap;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A statement whose last execution took this time or longer runs by `block_in_place`, so that the other
/// tasks of its thread do not wait for it.
const SHORT: Duration = Duration::from_micros(500);

/// The memory of a portal's rows returns to the system if its buffer has more bytes.
const LARGE: usize = 4 << 20;
/// From this many bytes on, a text is planned by `block_in_place`.
const LONG: usize = 64 << 10;

/// A statement that a client has named.
#[derive(Clone)]
struct NamedStatement {
    prepared: Option<Statement>,
    /// The OIDs that the client has given to the first parameters; 0 for none.
    given: Arc<[u32]>,
    /// The time of the last execution; `None` before the first.
    last_duration: Option<Duration>,
    /// The place of its columns in the output; `None` if the client has not asked for them.
    described: Option<Placed>,
}

impl NamedStatement {
    /// Returns a statement whose client has given no types of parameters.
    fn new(prepared: Option<Statement>) -> Self {
        Self { prepared, given: Arc::default(), last_duration: None, described: None }
    }
}

/// A statement with its parameters.
struct Portal {
    statement: Arc<Mutex<NamedStatement>>,
    parameters: Parameters,
    formats: Vec<Format>,
    /// As that of a statement.
    described: Option<Placed>,
    /// Its rows, and the command tag; `None` unless it has run with a limit of rows.
    kept: Option<(KeptRows, String)>,
    /// Whether it was declared as a cursor.
    is_cursor: bool,
    /// Whether the cursor outlives its transaction (WITH HOLD).
    holds: bool,
    /// The number of savepoints when the cursor was declared; `None` after the end of its transaction, and
    /// for portals that are no cursors.
    declared_at: Option<usize>,
}

/// The part of a savepoint that the session does not hold.
struct Savepoint {
    name: String,
    settings: Mark,
    channels: ChannelsMark,
}

impl Drop for Portal {
    fn drop(&mut self) {
        if let Some((rows, _)) = self.kept.take_if(|(rows, _)| rows.capacity() > LARGE) {
            drop(rows);
            memory::give_back();
        }
    }
}

/// The outcome of a statement.
enum Outcome {
    /// The command tag of a complete statement.
    Complete(String),
    /// The text held no statement.
    Empty,
    /// A COPY waits for the client's data.
    Copying,
}

/// The protocol by which a statement was sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Simple,
    Extended,
}

/// Counts a transaction of several statements until it is dropped.
struct OpenTransaction(Arc<Server>);

impl OpenTransaction {
    fn new(server: &Arc<Server>) -> Result<Self, Error> {
        server.pool().transaction_begins()?;
        Ok(Self(Arc::clone(server)))
    }
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        self.0.pool().transaction_ended();
    }
}

/// The state of a connection.
pub(crate) struct Client {
    server: Arc<Server>,
    registered: Registration,
    output: Output,
    /// When the current statement began.
    begun: Instant,
    /// The deadline of the current statement; `None` is no limit.
    deadline: Option<Instant>,
    /// The session of an open transaction or of a waiting statement; `None` while it is in the pool.
    session: Option<Box<Session>>,
    /// Whether the session of the open transaction has panicked. The transaction has failed, and ends when
    /// the client ends it.
    has_lost_session: bool,
    open: Option<OpenTransaction>,
    statements: HashMap<String, Arc<Mutex<NamedStatement>>>,
    portals: HashMap<String, Portal>,
    /// The last numbers of sequences, for `currval`.
    numbers: CurrentNumbers,
    settings: Settings,
    /// The part of the connection that its statements read.
    view: Arc<SessionView>,
    /// `Settings::changes` when the settings were lent to statements.
    lent: u64,
    /// `Settings::changes` when changed settings were last reported to the client.
    last_report: u64,
    /// The settings that were reported to the client, with their values.
    reported: HashMap<&'static str, String>,
    savepoints: Vec<Savepoint>,
    /// Whether the open transaction ends with SYNC, or at the end of a query of several statements.
    is_implicit: bool,
    /// An EXECUTE that waits for the next message: the portal, and its limit of rows (0 for none).
    delayed: Option<(String, usize)>,
    /// Buffers for the values of the current parameters.
    scratch: Arena,
    copying: Option<(CopyIn, Protocol)>,
    advisory: ConnectionLocks,
    channels: ClientChannels,
    /// The point of the log that must be durable before the last answer of the session is sent.
    answered: CommitPoint,
    /// The schema of its temporary relations.
    temporary: Arc<TemporarySchema>,
}

impl Client {
    pub(crate) fn new(
        server: Arc<Server>,
        registered: Registration,
        output: Output,
        user: &str,
        role: u32,
        requested: Vec<(String, String)>,
    ) -> Self {
        let bytes = server.pool().database().statement_bytes();
        let mut settings = Settings::new(user, &server.options, bytes);
        settings.logged_in(&server, role);
        let mut refused = Vec::new();
        for (name, value) in requested {
            // A setting that the server does not support is a warning, not an error, so that the client can
            // connect.
            let refusal = settings.begin_with(&name.to_lowercase(), &value).err();
            refused.extend(refusal.map(|content| Notice { severity: Severity::Warning, content }));
        }
        let view = SessionView::new(&server, registered.asking.clone());
        let last_report = settings.changes();
        let advisory = ConnectionLocks::new(Arc::clone(server.advisory()), registered.pid());
        let channels = ClientChannels::new(&server.channels);
        let temporary = server.pool().database().temporary_schema();
        let mut client = Self {
            server,
            registered,
            output,
            begun: Instant::now(),
            deadline: None,
            session: None,
            has_lost_session: false,
            open: None,
            statements: HashMap::new(),
            portals: HashMap::new(),
            numbers: CurrentNumbers::default(),
            settings,
            view,
            lent: 0,
            last_report,
            reported: HashMap::new(),
            savepoints: Vec::new(),
            is_implicit: false,
            delayed: None,
            scratch: Arena::default(),
            copying: None,
            advisory,
            channels,
            answered: CommitPoint::of_all(CommitOrder(0)),
            temporary,
        };
        client.notices(&refused);
        client.show_application_name();
        let reported = client.settings.reported();
        client.reported = reported.map(|(name, value)| (name, value.to_owned())).collect();
        client
    }

    /// Copies `application_name` into `pg_stat_activity`.
    fn show_application_name(&self) {
        let name = self.settings.show("application_name").unwrap_or_default();
        self.registered.attended.presence.set_application_name(&name);
    }

    /// Lends the settings to the next statement.
    fn lend(&mut self) {
        if self.lent != self.settings.changes() {
            self.lent = self.settings.changes();
            self.view.lend(&self.settings);
        }
    }

    /// Takes over the settings that a statement has changed, if it succeeded.
    fn take_settings(&mut self, has_failed: bool) {
        let Some(changed) = self.view.take_changed() else { return };
        // The next statement sees the settings of the client again.
        self.lent = 0;
        if let Some(changed) = changed.filter(|_| !has_failed) {
            self.settings.take_over(changed);
        }
    }

    /// Reports changed settings to the client (ParameterStatus), before READY FOR QUERY.
    fn report_settings(&mut self) {
        if std::mem::replace(&mut self.last_report, self.settings.changes()) == self.settings.changes() {
            return;
        }
        self.show_application_name();
        for (name, value) in self.settings.reported() {
            let known = self.reported.get(name).is_some_and(|known| known == value);
            if !known {
                self.reported.insert(name, value.to_owned());
                let status = ParameterStatus::new(name.into(), value.into());
                self.output.put(Message::ParameterStatus(status));
            }
        }
    }

    pub(crate) fn transaction_state(&self) -> TransactionState {
        match &self.session {
            Some(session) => session.transaction_state(),
            None if self.has_lost_session => TransactionState::Failed,
            None => TransactionState::None,
        }
    }

    pub(crate) fn idle_limit(&self) -> Option<Duration> {
        self.settings.limits().idle
    }

    /// Returns whether another connection ends this one.
    pub(crate) fn is_ended(&self) -> bool {
        self.registered.attended.is_ended()
    }

    pub(crate) fn is_copying(&self) -> bool {
        self.copying.is_some()
    }

    fn ready(&mut self) {
        let (status, activity) = match self.transaction_state() {
            TransactionState::None => (TransactionStatus::Idle, Activity::Nothing),
            TransactionState::Open => (TransactionStatus::Transaction, Activity::Transaction),
            TransactionState::Failed => (TransactionStatus::Error, Activity::FailedTransaction),
        };
        self.registered.attended.presence.set_activity(activity);
        self.report_settings();
        self.put_arrivals();
        self.output.put(Message::ReadyForQuery(ReadyForQuery::new(status)));
    }

    /// Runs a function with the session, which returns to the pool if no transaction is open afterwards. The
    /// output is sent once all transactions that the answer shows are durable.
    fn with_session<T>(&mut self, act: impl FnOnce(&mut Session) -> Result<T, Error>) -> Result<T, Error> {
        let mut session = match self.session.take() {
            Some(session) => session,
            None => {
                let mut session = self.server.pool().take()?;
                session.client_is(Some(Arc::clone(&self.view) as _));
                session.cancelled_by(self.registered.attended.cancel.flag());
                session
            }
        };
        let limits = self.settings.limits();
        session.ends_at(self.deadline);
        session.limit_statements(limits.bytes);
        session.set_lock_timeout(limits.lock_timeout);
        session.set_access(self.settings.access());
        session.check_bodies(self.settings.checks_bodies());
        session.act_as(self.settings.identity().role());
        session.set_zone(self.settings.zone().cloned());
        session.use_temporary(Some(&self.temporary));
        let was_open = session.transaction_state() != TransactionState::None;
        self.lend();
        self.view.begins(was_open);
        session.swap_current_numbers(&mut self.numbers);
        // A statement that begins while definitions change waits for them.
        let result = match self.server.pool().database().changes_definitions() {
            true => tokio::task::block_in_place(|| catch_panic(|| act(&mut session))),
            false => catch_panic(|| act(&mut session)),
        };
        // A session that has panicked is dropped, which rolls its transaction back.
        let result = result.inspect_err(|_| {
            self.open = None;
            self.savepoints.clear();
            self.has_lost_session = was_open;
        })?;
        session.swap_current_numbers(&mut self.numbers);
        self.answered = session.must_be_durable();
        if !self.settings.acknowledges_early() {
            self.output.shows(self.answered);
        }
        session.give_memory_back();
        let in_transaction = session.transaction_state() != TransactionState::None;
        if in_transaction || session.is_waiting() {
            self.session = Some(session);
        } else {
            session.client_is(None);
            self.server.pool().give_back(session);
        }
        if !in_transaction {
            self.open = None;
            self.savepoints.clear();
        }
        result
    }

    /// Waits until a session is free for the next message.
    pub(crate) async fn await_session(&mut self) {
        // A connection with a session, and one that finds a free one, changes no shared counter.
        if self.session.is_none() && !self.server.pool().is_free() {
            let server = Arc::clone(&self.server);
            server.pool().free().await;
        }
    }

    /// Begins a message with a statement. Drops earlier cancel requests.
    pub(crate) fn begin_message(&mut self) {
        self.registered.attended.cancel.lower();
    }

    /// Sets the begin and the deadline of a statement.
    fn begin_statement(&mut self) {
        self.begun = Instant::now();
        self.deadline = self.settings.limits().timeout.map(|limit| self.begun + limit);
    }

    /// Sets the deadline of a planning or a commit, which may take as long as a statement.
    fn renew_deadline(&mut self) {
        self.deadline = self.settings.limits().timeout.map(|limit| Instant::now() + limit);
    }

    /// Marks a statement as running until the result is dropped: if its client disconnects, it is cancelled.
    fn run_attended(&self) -> Option<RunningStatement> {
        self.registered.attended.run(self.settings.limits().check_interval)
    }

    /// Checks that there is memory for a prepared statement or portal.
    ///
    /// # Errors
    /// `53200`: there is not enough memory.
    fn check_kept(&self, bytes: usize) -> Result<(), Error> {
        if self.server.pool().database().memory().has_room(bytes) {
            return Ok(());
        }
        let error = SqlError::new("53200", "out of memory");
        Err(error.with_hint("Close unused prepared statements and portals.").into())
    }

    /// Checks that the current statement may go on.
    ///
    /// # Errors
    /// `57014`: it was cancelled, or its deadline has passed.
    fn check_interrupts(&self) -> Result<(), Error> {
        let cancelled = Some(self.registered.attended.cancel.flag());
        Ok(Interrupts { cancelled, deadline: self.deadline }.check()?)
    }

    /// Plans a statement. Cancellation and `statement_timeout` apply as to an execution.
    fn plan<T>(
        &mut self,
        text: &str,
        act: impl FnOnce(&mut Session) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.renew_deadline();
        let has_failed = self.transaction_state() == TransactionState::Failed;
        let plan = |client: &mut Self| client.with_session(act);
        // A long planning would delay the other tasks of the thread.
        let planned =
            if text.len() >= LONG { tokio::task::block_in_place(|| plan(self)) } else { plan(self) };
        planned.map_err(|error| match error.sqlstate() {
            "42601" => error,
            _ if has_failed => failed_transaction(),
            _ => error,
        })
    }

    /// Sends an error. An open transaction has failed; an implicit one is rolled back.
    fn fail(&mut self, error: &Error, text: &str) {
        self.fail_with(error_response(error, text), error);
    }

    fn fail_with(&mut self, response: ErrorResponse, error: &Error) {
        self.output.put(Message::ErrorResponse(response));
        self.server.metrics.as_ref().inspect(|metrics| metrics.failed());
        tracing::debug!(sqlstate = error.sqlstate(), %error, "{error}");
        if let Some(session) = &mut self.session {
            session.fail_transaction();
        }
        if self.is_implicit {
            self.roll_back();
        }
    }

    /// QUERY: runs the statements of a text, each with its answer, up to the first error. Several statements
    /// are one transaction, except where one of them ends it.
    pub(crate) async fn query(&mut self, text: &str) -> io::Result<()> {
        self.portals.remove("");
        self.begin_message();
        self.registered.attended.presence.begin_statement(text);
        if let Err((error, text)) = self.statements_of(text).await {
            self.fail(&error, &text);
        }
        if self.copying.is_none() {
            self.close_portals();
            self.ready();
        }
        Ok(())
    }

    /// Answers a QUERY that is refused.
    pub(crate) fn refuse_query(&mut self, error: SqlError) {
        self.fail(&error.into(), "");
        self.close_portals();
        self.ready();
    }

    /// Closes the portals of a transaction that has ended; cursors WITH HOLD stay.
    fn close_portals(&mut self) {
        if self.transaction_state() == TransactionState::None {
            self.portals.retain(|_, portal| portal.holds);
        }
    }

    async fn statements_of(&mut self, text: &str) -> Result<(), (Error, String)> {
        let whole = |error: Error| (error, text.to_owned());
        self.notices(&sql::truncation_notices(text));
        let statements = match text.trim_end().trim_end_matches(';').contains(';') {
            true => {
                let _room = self.server.pool().database().room_for(text).map_err(whole)?;
                Schema::split(text).map_err(|error| whole(error.into()))?
            }
            // Without a semicolon the text is one statement.
            false => vec![(text.to_owned(), 1, 1)],
        };
        if statements.is_empty() {
            self.output.put(Message::EmptyQueryResponse(EmptyQueryResponse::new()));
            return Ok(());
        }
        let only = statements.len() == 1;
        for (statement, line, column) in statements {
            if !only && !begins_or_ends_transaction(&statement) {
                self.begin_implicit().map_err(whole)?;
            }
            let ran = self.simple_statement(statement, only).await;
            ran.map_err(|error| whole(with_position(error, line, column)))?;
        }
        match self.copying {
            // The transaction ends when the copy is complete.
            Some(_) => Ok(()),
            None => self.commit_implicit().map_err(whole),
        }
    }

    async fn simple_statement(&mut self, text: String, only: bool) -> Result<(), Error> {
        let server = Arc::clone(&self.server);
        loop {
            let (prepared, values) = self.plan(&text, |session| server.plans.prepare(&text, session))?;
            let is_copy = prepared.as_ref().is_some_and(|known| matches!(known.plan().kind, Kind::Copy(_)));
            if is_copy && !only {
                let error =
                    SqlError::new("0A000", "COPY among other statements of one query is not supported");
                return Err(error.with_hint("Send it as a separate query.").into());
            }
            let mut statement = NamedStatement::new(prepared);
            let before = self.output.mark();
            let formats = self.formats_of(statement.prepared.as_ref());
            self.describe_rows(statement.prepared.as_ref(), formats);
            match self.run(&mut statement, &values, formats, None, Protocol::Simple).await {
                // Definitions have changed since the statement was planned.
                Err(Error::Outdated) if self.output.go_back(before) => {}
                ran => {
                    self.complete(ran?);
                    return Ok(());
                }
            }
        }
    }

    fn complete(&self, ran: Outcome) {
        match ran {
            Outcome::Complete(tag) => self.completed(tag),
            Outcome::Empty => self.output.put(Message::EmptyQueryResponse(EmptyQueryResponse::new())),
            Outcome::Copying => {}
        }
    }

    fn completed(&self, tag: String) {
        self.output.completes(&tag, self.begun);
        self.output.put(Message::CommandComplete(CommandComplete::new(tag)));
    }
}

/// Runs a function, and turns a panic into an error of the current statement.
fn catch_panic<T>(act: impl FnOnce() -> T) -> Result<T, Error> {
    std::panic::catch_unwind(AssertUnwindSafe(act)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        tracing::error!(panic = text, "a statement panicked: {text}");
        let error = SqlError::new("XX000", format!("internal error: {text}"));
        Error::Sql(
            error.with_hint("The transaction is rolled back. Please report this with the server's messages."),
        )
    })
}

/// Returns the error of a statement that begins at a line and column of the client's text, with its position
/// in that text.
fn with_position(error: Error, line: u32, column: u32) -> Error {
    match error {
        Error::Statement(error) => Error::Statement(error.inside(line, column)),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_of_its_statement() {
        let Err(error) = catch_panic(|| -> u32 { panic!("a row is {}", "gone") }) else {
            unreachable!("it has panicked")
        };
        assert_eq!(error.sqlstate(), "XX000");
        assert!(error.to_string().contains("a row is gone"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("rolled back")));
        assert!(catch_panic(|| 1).is_ok_and(|one| one == 1));
    }
}
