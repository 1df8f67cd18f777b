//! What the messages of one client do.
//!
//! An EXECUTE runs when the message behind it is known: before SYNC it is a transaction of its own, which may
//! be logged as a call; otherwise all statements up to SYNC are one transaction, as in PostgreSQL. What a
//! session has answered is put into the output together with what must be durable before it goes out
//! (`with_session`).

mod copying;
mod extended;
mod rows;
mod statement;
mod transaction;

use self::statement::failed_transaction;
use crate::attendance::Running;
use crate::copy::CopyIn;
use crate::link::Output;
use crate::settings::{Mark, Settings};
use crate::startup::Registered;
use crate::wire::Format;
use crate::{Server, refused};
use bytes::BytesMut;
use pgwire::messages::PgWireBackendMessage as Message;
use pgwire::messages::response::{CommandComplete, EmptyQueryResponse, ReadyForQuery, TransactionStatus};
use reprise::rooms::catalog::Arena;
use reprise::rooms::procedure::{CurrentNumbers, Interrupts, SqlError};
use reprise::rooms::sql::{Kind, Schema};
use reprise::{Error, Parameters, Session, Statement, TransactionState};
use std::collections::HashMap;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A statement that has taken this long before is not run where others wait for the thread.
const SHORT: Duration = Duration::from_micros(500);

/// The pages of a portal's rows go back to the system where they are more bytes.
const LARGE: usize = 4 << 20;
/// Bytes of a text that takes long to plan.
const LONG: usize = 64 << 10;

/// A statement that a client has named.
#[derive(Clone)]
struct NamedStatement {
    prepared: Option<Statement>,
    /// How long it took the last time; nothing before the first.
    took: Option<Duration>,
}

/// A statement with its parameters.
struct Portal {
    statement: Arc<Mutex<NamedStatement>>,
    parameters: Parameters,
    formats: Vec<Format>,
    /// What is left of its rows, as messages, once it has run with a limit; and what its completion is
    /// called.
    left: Option<(BytesMut, String)>,
    /// Whether it was declared as a cursor, and whether that outlives its transaction.
    is_cursor: bool,
    holds: bool,
    /// While the transaction that has declared it is open: how many savepoints that had then.
    is_new: Option<usize>,
}

/// A savepoint of the open transaction, as far as the database does not know of it.
struct Savepoint {
    name: String,
    settings: Mark,
}

impl Drop for Portal {
    fn drop(&mut self) {
        if let Some((rows, _)) = self.left.take_if(|(rows, _)| rows.capacity() > LARGE) {
            drop(rows);
            memory::give_back();
        }
    }
}

/// What a statement came to.
enum Ran {
    /// It is complete.
    Complete(String),
    /// There was none.
    Empty,
    /// The client's data are awaited.
    Copying,
}

/// How a statement was asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Simply,
    Extended,
}

/// A transaction of several statements is counted until this is dropped.
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

/// A connection.
pub(crate) struct Client {
    server: Arc<Server>,
    registered: Registered,
    output: Output,
    /// When the statement in hand began.
    begun: Instant,
    /// When it has taken too long.
    deadline: Option<Instant>,
    /// Held while a transaction is open, or a statement waits.
    session: Option<Box<Session>>,
    /// Whether the session of the open transaction has panicked: the transaction has failed, and its client
    /// has to say that it ends.
    has_lost_session: bool,
    /// Counts the open transaction.
    open: Option<OpenTransaction>,
    statements: HashMap<String, Arc<Mutex<NamedStatement>>>,
    portals: HashMap<String, Portal>,
    /// Numbers of sequences that it was given.
    numbers: CurrentNumbers,
    settings: Settings,
    savepoints: Vec<Savepoint>,
    /// Whether the open transaction ends with SYNC, or with the query that has several statements.
    is_implicit: bool,
    /// An EXECUTE whose next message is awaited.
    delayed: Option<(String, usize)>,
    /// Buffers for the values of the parameters in hand.
    scratch: Arena,
    copying: Option<(CopyIn, Asked)>,
}

impl Client {
    pub(crate) fn new(
        server: Arc<Server>,
        registered: Registered,
        output: Output,
        (user, database): (String, String),
        asked: Vec<(String, String)>,
    ) -> Self {
        let mut settings =
            Settings::new(&user, &database, &server.options, server.pool().database().statement_bytes());
        let mut refused = Vec::new();
        for (name, value) in asked {
            // What the server does not know is not worth refusing a client, who is told.
            refused.extend(settings.set(&name.to_lowercase(), &value).err());
        }
        let client = Self {
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
            savepoints: Vec::new(),
            is_implicit: false,
            delayed: None,
            scratch: Arena::default(),
            copying: None,
        };
        client.notices(&refused);
        client
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

    pub(crate) fn is_copying(&self) -> bool {
        self.copying.is_some()
    }

    fn ready(&self) {
        let status = match self.transaction_state() {
            TransactionState::None => TransactionStatus::Idle,
            TransactionState::Open => TransactionStatus::Transaction,
            TransactionState::Failed => TransactionStatus::Error,
        };
        self.output.put(Message::ReadyForQuery(ReadyForQuery::new(status)));
    }

    /// Runs something in a session, which goes back to the pool when no transaction is open afterwards. What
    /// it answers goes out once everything is durable that the answer shows.
    fn with_session<T>(&mut self, act: impl FnOnce(&mut Session) -> Result<T, Error>) -> Result<T, Error> {
        let mut session = match self.session.take() {
            Some(session) => session,
            None => {
                let mut session = self.server.pool().take()?;
                session.cancelled_by(self.registered.attended.cancel.flag());
                session
            }
        };
        let limits = self.settings.limits();
        session.ends_at(self.deadline);
        session.limit_statements(limits.bytes);
        session.set_lock_timeout(limits.lock_timeout);
        session.set_access(self.settings.access());
        let was_open = session.transaction_state() != TransactionState::None;
        session.swap_current_numbers(&mut self.numbers);
        // A statement that begins while definitions change waits for them.
        let result = match self.server.pool().database().changes_definitions() {
            true => tokio::task::block_in_place(|| contained(|| act(&mut session))),
            false => contained(|| act(&mut session)),
        };
        // A session that has panicked is not used again: as it goes, it undoes what it has begun.
        let result = result.inspect_err(|_| {
            self.open = None;
            self.savepoints.clear();
            self.has_lost_session = was_open;
        })?;
        session.swap_current_numbers(&mut self.numbers);
        if !self.settings.acknowledges_early() {
            self.output.shows(session.must_be_durable());
        }
        session.give_memory_back();
        let in_transaction = session.transaction_state() != TransactionState::None;
        if in_transaction || session.is_waiting() {
            self.session = Some(session);
        } else {
            self.server.pool().give_back(session);
        }
        if !in_transaction {
            self.open = None;
            self.savepoints.clear();
        }
        result
    }

    /// Waits until there is a session for what the next message asks for.
    pub(crate) async fn await_session(&mut self) {
        // Mostly there is one: no count that all connections share is touched then.
        if self.session.is_none() && !self.server.pool().is_free() {
            let server = Arc::clone(&self.server);
            server.pool().free().await;
        }
    }

    /// A message with a statement has come: what was asked before cancels nothing any more.
    pub(crate) fn begin_message(&mut self) {
        self.registered.attended.cancel.lower();
    }

    /// A statement begins.
    fn begin_statement(&mut self) {
        self.begun = Instant::now();
        self.deadline = self.settings.limits().timeout.map(|limit| self.begun + limit);
    }

    /// A statement is planned, or a transaction commits: that may take as long as a statement.
    fn renew_deadline(&mut self) {
        self.deadline = self.settings.limits().timeout.map(|limit| Instant::now() + limit);
    }

    /// A statement runs, until what this returns is dropped: its client is looked after.
    fn run_attended(&self) -> Option<Running> {
        self.registered.attended.run(self.settings.limits().check_interval)
    }

    /// Makes sure that there is room for what the client wants to be kept.
    ///
    /// # Errors
    /// `53200`.
    fn check_kept(&self, bytes: usize) -> Result<(), Error> {
        if self.server.pool().database().memory().has_room(bytes) {
            return Ok(());
        }
        let error = SqlError::new("53200", "out of memory");
        Err(error.with_hint("Close prepared statements and portals that are not used any more.").into())
    }

    /// Looks whether the statement in hand has to end.
    ///
    /// # Errors
    /// `57014`.
    fn check_interrupts(&self) -> Result<(), Error> {
        let cancelled = Some(self.registered.attended.cancel.flag());
        Ok(Interrupts { cancelled, deadline: self.deadline }.check()?)
    }

    /// Plans a statement, which may be cancelled or take too long as if it ran.
    fn plan<T>(
        &mut self,
        text: &str,
        act: impl FnOnce(&mut Session) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.renew_deadline();
        let has_failed = self.transaction_state() == TransactionState::Failed;
        let plan = |own: &mut Self| own.with_session(act);
        // Others wait for the thread.
        let planned =
            if text.len() >= LONG { tokio::task::block_in_place(|| plan(self)) } else { plan(self) };
        planned.map_err(|error| match error.sqlstate() {
            "42601" => error,
            _ if has_failed => failed_transaction(),
            _ => error,
        })
    }

    /// Says what went wrong. An open transaction has failed with it; one that nobody asked for is over.
    fn fail(&mut self, error: &Error, text: &str) {
        self.output.put(Message::ErrorResponse(refused(error, text)));
        self.server.metrics.as_ref().inspect(|own| own.failed());
        tracing::debug!(sqlstate = error.sqlstate(), %error, "{error}");
        if let Some(session) = &mut self.session {
            session.fail_transaction();
        }
        if self.is_implicit {
            self.roll_back();
        }
    }

    /// QUERY: a text of statements, each with its answer; the first error ends it. Several statements are one
    /// transaction, but for where they say that it ends; with definitions among them, each is one.
    pub(crate) async fn query(&mut self, text: &str) -> io::Result<()> {
        self.portals.remove("");
        self.begin_message();
        if let Err((error, text)) = self.statements_of(text).await {
            self.fail(&error, &text);
        }
        if self.copying.is_none() {
            self.close_portals();
            self.ready();
        }
        Ok(())
    }

    /// QUERY that is refused.
    pub(crate) fn refuse_query(&mut self, error: SqlError) {
        self.fail(&error.into(), "");
        self.close_portals();
        self.ready();
    }

    /// Portals end with the transaction that they are of.
    fn close_portals(&mut self) {
        if self.transaction_state() == TransactionState::None {
            self.portals.retain(|_, portal| portal.holds);
        }
    }

    async fn statements_of(&mut self, text: &str) -> Result<(), (Error, String)> {
        let whole = |error: Error| (error, text.to_owned());
        let statements = match text.trim_end().trim_end_matches(';').contains(';') {
            true => {
                let _room = self.server.pool().database().room_for(text).map_err(whole)?;
                Schema::split(text).map_err(|error| whole(error.into()))?
            }
            // Without a semicolon there is no more than one.
            false => vec![(text.to_owned(), 1, 1)],
        };
        if statements.is_empty() {
            self.output.put(Message::EmptyQueryResponse(EmptyQueryResponse::new()));
            return Ok(());
        }
        let only = statements.len() == 1;
        let together = !only && !statements.iter().any(|(text, ..)| stands_alone(text));
        for (statement, line, column) in statements {
            if together && !says_where_transactions_end(&statement) {
                self.begin_implicit().map_err(whole)?;
            }
            let ran = self.simple_statement(statement, only).await;
            ran.map_err(|error| whole(at_its_place(error, line, column)))?;
        }
        match self.copying {
            // It goes on until the copy is complete.
            Some(_) => Ok(()),
            None => self.commit_implicit().map_err(whole),
        }
    }

    async fn simple_statement(&mut self, text: String, only: bool) -> Result<(), Error> {
        let server = Arc::clone(&self.server);
        let (prepared, values) = self.plan(&text, |session| server.plans.prepare(&text, session))?;
        let is_copy = prepared.as_ref().is_some_and(|own| matches!(own.plan().kind, Kind::Copy(_)));
        if is_copy && !only {
            let error = SqlError::new("0A000", "COPY among other statements of one query is not supported");
            return Err(error.with_hint("Send it by itself.").into());
        }
        let mut statement = NamedStatement { prepared, took: None };
        self.describe_rows(statement.prepared.as_ref());
        let ran = self.run(&mut statement, &values, &[], None, Asked::Simply).await?;
        self.complete(ran);
        Ok(())
    }

    fn complete(&self, ran: Ran) {
        match ran {
            Ran::Complete(tag) => self.completed(tag),
            Ran::Empty => self.output.put(Message::EmptyQueryResponse(EmptyQueryResponse::new())),
            Ran::Copying => {}
        }
    }

    fn completed(&self, tag: String) {
        self.output.completes(&tag, self.begun);
        self.output.put(Message::CommandComplete(CommandComplete::new(tag)));
    }
}

/// Runs something whose panic ends no more than the statement in hand.
fn contained<T>(act: impl FnOnce() -> T) -> Result<T, Error> {
    std::panic::catch_unwind(AssertUnwindSafe(act)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        tracing::error!(panic = text, "a statement has panicked: {text}");
        let error = SqlError::new("XX000", format!("internal error: {text}"));
        Error::Sql(
            error.with_hint("The transaction is rolled back. Please report this with the server's messages."),
        )
    })
}

fn first_word(text: &str) -> String {
    let word: String = text.trim_start().chars().take_while(char::is_ascii_alphabetic).collect();
    word.to_lowercase()
}

/// Whether a text with this statement in it is not one transaction: definitions, and what can't be part of
/// one.
fn stands_alone(text: &str) -> bool {
    let word = first_word(text);
    if word.is_empty() {
        // Behind a comment there may be anything.
        return !text.trim_start().starts_with('(');
    }
    matches!(
        word.as_str(),
        "alter"
            | "analyze"
            | "checkpoint"
            | "comment"
            | "copy"
            | "create"
            | "drop"
            | "grant"
            | "import"
            | "reindex"
            | "refresh"
            | "revoke"
            | "truncate"
            | "vacuum"
    )
}

fn says_where_transactions_end(text: &str) -> bool {
    matches!(first_word(text).as_str(), "abort" | "begin" | "commit" | "end" | "rollback" | "start")
}

/// An error in a statement that begins at a line and column of the text that was sent.
fn at_its_place(error: Error, line: u32, column: u32) -> Error {
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
        let Err(error) = contained(|| -> u32 { panic!("a row is {}", "gone") }) else {
            unreachable!("it has panicked")
        };
        assert_eq!(error.sqlstate(), "XX000");
        assert!(error.to_string().contains("a row is gone"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("rolled back")));
        assert!(contained(|| 1).is_ok_and(|one| one == 1));
    }
}
