//! What the messages of one client do.
//!
//! An EXECUTE runs when the message behind it is known: before SYNC it is a transaction of its own, which may be logged as a
//! call; otherwise all statements up to SYNC are one transaction, as in PostgreSQL. Nothing says that a statement has ended before
//! its transaction, where that ends with it, is durable.

use crate::copy::{CopyIn, CopyOut, Row};
use crate::link::Output;
use crate::settings::Settings;
use crate::startup::Registered;
use crate::wire::{Format, described, put_value, type_of, value_of};
use crate::{Server, refused, told};
use bytes::{Buf, Bytes, BytesMut};
use pgwire::messages::PgWireBackendMessage as Message;
use pgwire::messages::copy::{CopyDone, CopyInResponse, CopyOutResponse};
use pgwire::messages::data::{FieldDescription, NoData, ParameterDescription, RowDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, Close, CloseComplete, Describe, Execute, Parse, ParseComplete, PortalSuspended,
};
use pgwire::messages::response::{
    CommandComplete, EmptyQueryResponse, ErrorResponse, NoticeResponse, ReadyForQuery, TransactionStatus,
};
use reprise::rooms::catalog::{Arena, Datum, ScalarType, Type};
use reprise::rooms::logging::Commit;
use reprise::rooms::procedure::query::OutputColumn;
use reprise::rooms::procedure::{CurrentNumbers, RowSink, SqlError};
use reprise::rooms::sql::{Copy, CopyFormat, Kind, Schema};
use reprise::{Attempt, Error, Prepared, RESERVED_FOR, Session, TransactionState, Value};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A statement that has taken so long before is not run where others wait for the thread.
const SHORT: Duration = Duration::from_micros(500);

/// A statement that a client has named.
#[derive(Clone)]
struct Statement {
    prepared: Option<Prepared>,
    /// How long it took the last time; nothing before the first.
    took: Option<Duration>,
}

/// A statement with its parameters.
struct Portal {
    statement: Arc<Mutex<Statement>>,
    parameters: Vec<Value>,
    formats: Vec<Format>,
    /// What is left of its rows, as messages, once it has run with a limit; and what its completion is called.
    left: Option<(BytesMut, String)>,
    /// Whether it was declared as a cursor, and whether that outlives its transaction.
    is_cursor: bool,
    holds: bool,
}

/// Rows on their way to the client.
#[derive(Clone)]
struct Rows {
    types: Vec<Type>,
    formats: Vec<Format>,
    to: RowsTo,
    begun_at: usize,
    count: Arc<AtomicU64>,
    is_sent: bool,
}

#[derive(Clone)]
enum RowsTo {
    Client(Output),
    Portal(Arc<Mutex<BytesMut>>),
    Copy(Output, CopyOut),
    Nobody,
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RowSink for Rows {
    fn begin(&mut self) {
        self.count.store(0, Ordering::Relaxed);
        match &self.to {
            RowsTo::Client(output) => output.lock().truncate(self.begun_at),
            RowsTo::Copy(output, copy) => {
                output.lock().truncate(self.begun_at);
                copy.restart();
            }
            RowsTo::Portal(kept) => hold(kept).clear(),
            RowsTo::Nobody => {}
        }
    }

    fn row(&mut self, values: &[Datum], arena: &Arena) -> Result<(), SqlError> {
        let values = values.iter().copied().zip(self.types.iter().copied());
        let put = |bytes: &mut BytesMut| {
            let start = Output::begin_row(bytes, values.len());
            for (place, (value, ty)) in values.clone().enumerate() {
                put_value(value, ty, arena, format_at(&self.formats, place), bytes);
            }
            Output::end_row(bytes, start);
        };
        self.count.fetch_add(1, Ordering::Relaxed);
        match &self.to {
            RowsTo::Client(output) => put(&mut output.lock()),
            RowsTo::Portal(kept) => put(&mut hold(kept)),
            RowsTo::Copy(output, copy) => copy.put_row(values, arena, &mut output.lock()),
            RowsTo::Nobody => {}
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        match &self.to {
            RowsTo::Client(output) | RowsTo::Copy(output, _) => output.is_full(),
            RowsTo::Portal(_) | RowsTo::Nobody => false,
        }
    }

    fn relieve(&mut self) -> Result<(), SqlError> {
        let (RowsTo::Client(output) | RowsTo::Copy(output, _)) = &self.to else { return Ok(()) };
        self.is_sent = true;
        output.relieve().map_err(|error| SqlError::new("08006", format!("the client is gone: {error}")))
    }

    fn is_sent(&self) -> bool {
        self.is_sent
    }
}

/// The format of a column: each has its own, all have one, or all are text.
fn format_at(formats: &[Format], place: usize) -> Format {
    match formats {
        [] => Format::Text,
        [only] => *only,
        several => several.get(place).copied().unwrap_or(Format::Text),
    }
}

fn row_description(columns: &[OutputColumn], formats: &[Format]) -> Message {
    let field = |(place, column): (usize, &OutputColumn)| {
        let (oid, size, modifier) = described(column.ty);
        let format = format_at(formats, place).code();
        FieldDescription::new(column.name.clone(), 0, 0, oid, size, modifier, format)
    };
    Message::RowDescription(RowDescription::new(columns.iter().enumerate().map(field).collect()))
}

/// What a statement came to.
enum Ran {
    /// It is complete, once this is durable.
    Complete(String, Option<Commit>),
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

/// A connection.
pub(crate) struct Client {
    server: Arc<Server>,
    registered: Registered,
    output: Output,
    /// When the statement in hand began.
    begun: Instant,
    /// Held while a transaction is open.
    session: Option<Session>,
    statements: HashMap<String, Arc<Mutex<Statement>>>,
    portals: HashMap<String, Portal>,
    /// Numbers of sequences that it was given.
    numbers: CurrentNumbers,
    settings: Settings,
    /// Whether the open transaction ends with SYNC, or with the query that has several statements.
    is_implicit: bool,
    /// An EXECUTE whose next message is awaited.
    delayed: Option<(String, usize)>,
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
        let mut settings = Settings::new(&user, &database, &server.options);
        for (name, value) in asked {
            // What the server does not know is not worth refusing a client.
            let _ = settings.set(&name.to_lowercase(), &value);
        }
        Self {
            server,
            registered,
            output,
            begun: Instant::now(),
            session: None,
            statements: HashMap::new(),
            portals: HashMap::new(),
            numbers: CurrentNumbers::default(),
            settings,
            is_implicit: false,
            delayed: None,
            copying: None,
        }
    }

    pub(crate) fn transaction_state(&self) -> TransactionState {
        self.session.as_ref().map(Session::transaction_state).unwrap_or_default()
    }

    pub(crate) fn idle_limit(&self) -> Option<Duration> {
        self.settings.duration("idle_in_transaction_session_timeout")
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

    /// Runs something in a session, which goes back to the others when no transaction is open afterwards.
    fn with_session<T>(&mut self, act: impl FnOnce(&mut Session) -> Result<T, Error>) -> Result<T, Error> {
        let mut session = match self.session.take() {
            Some(session) => session,
            None => {
                let mut session = self.server.pool().take()?;
                session.cancelled_by(Arc::clone(&self.registered.cancelled));
                session
            }
        };
        session.swap_current_numbers(&mut self.numbers);
        let result = act(&mut session);
        session.swap_current_numbers(&mut self.numbers);
        if session.transaction_state() == TransactionState::None {
            self.server.pool().give_back(session);
        } else {
            self.session = Some(session);
        }
        result
    }

    /// Says what went wrong. An open transaction has failed with it; one that nobody asked for is over.
    fn fail(&mut self, error: &Error, text: &str) {
        self.output.put(Message::ErrorResponse(ErrorResponse::from(refused(error, text))));
        self.server.metrics.as_ref().inspect(|own| own.failed());
        tracing::debug!(sqlstate = error.sqlstate(), %error, "{error}");
        if let Some(session) = &mut self.session {
            session.fail_block();
        }
        if self.is_implicit {
            self.roll_back();
        }
    }

    fn roll_back(&mut self) {
        self.is_implicit = false;
        self.settings.transaction_ended(false);
        if self.session.is_some() {
            let rolled_back = self.with_session(|session| {
                session.rollback_block();
                Ok(())
            });
            debug_assert!(rolled_back.is_ok(), "rolling back can't fail");
        }
    }

    fn begin_implicit(&mut self) -> Result<(), Error> {
        if self.transaction_state() == TransactionState::None {
            self.with_session(|session| {
                session.begin_block();
                Ok(())
            })?;
            self.is_implicit = true;
        }
        Ok(())
    }

    async fn durable(&mut self, commit: Option<Commit>) -> Result<(), Error> {
        match commit {
            Some(commit) if !self.settings.acknowledges_early() => {
                self.server.pool().database().durable(commit).await
            }
            _ => Ok(()),
        }
    }

    /// Ends the open transaction as it was asked for.
    fn commit(&mut self) -> Result<Option<Commit>, Error> {
        self.is_implicit = false;
        // With definitions among its statements this takes as long as those take.
        let takes_long = self.session.as_ref().is_some_and(Session::changes_definitions);
        let act = |own: &mut Self| own.with_session(|session| session.commit_block());
        let commit = if takes_long { tokio::task::block_in_place(|| act(self)) } else { act(self) };
        commit.map(|commit| commit.filter(|_| !self.settings.acknowledges_early()))
    }

    /// Commits what nobody has begun.
    async fn commit_implicit(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.is_implicit) {
            return Ok(());
        }
        let commit = self.commit();
        self.settings.transaction_ended(commit.is_ok());
        self.durable(commit?).await
    }

    /// QUERY: a text of statements, each with its answer; the first error ends it. Several statements are one transaction, unless
    /// some of them say where transactions begin and end, or change definitions.
    pub(crate) async fn query(&mut self, text: &str) -> io::Result<()> {
        self.delayed = None;
        self.portals.remove("");
        if let Err((error, text)) = self.statements_of(text).await {
            self.fail(&error, &text);
        }
        if self.copying.is_none() {
            self.close_portals();
            self.ready();
        }
        Ok(())
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
            true => Schema::split(text).map_err(|error| whole(error.into()))?,
            // Without a semicolon there is no more than one.
            false => vec![(text.to_owned(), 1, 1)],
        };
        if statements.is_empty() {
            self.output.put(Message::EmptyQueryResponse(EmptyQueryResponse::new()));
            return Ok(());
        }
        if statements.len() > 1 && statements.iter().all(|(text, ..)| may_be_together(text)) {
            self.begin_implicit().map_err(whole)?;
        }
        let only = statements.len() == 1;
        for (statement, line, column) in statements {
            let ran = self.simple_statement(statement, only).await;
            ran.map_err(|error| whole(at_its_place(error, line, column)))?;
        }
        match self.copying {
            // It goes on until the copy is complete.
            Some(_) => Ok(()),
            None => self.commit_implicit().await.map_err(whole),
        }
    }

    async fn simple_statement(&mut self, text: String, only: bool) -> Result<(), Error> {
        let prepared = self.with_session(|session| session.prepare(&text, &[]))?;
        let is_copy = matches!(prepared.as_ref().map(Prepared::kind), Some(Kind::Copy(_)));
        if is_copy && !only {
            let error = SqlError::new("0A000", "COPY among other statements of one query is not supported");
            return Err(error.with_hint("Send it by itself.").into());
        }
        let mut statement = Statement { prepared, took: None };
        if let Some(prepared) = &statement.prepared
            && !prepared.columns().is_empty()
        {
            self.output.put(row_description(prepared.columns(), &[]));
        }
        let ran = self.run(&mut statement, &[], &[], None, Asked::Simply).await?;
        self.complete(ran).await
    }

    async fn complete(&mut self, ran: Ran) -> Result<(), Error> {
        match ran {
            Ran::Complete(tag, commit) => {
                self.durable(commit).await?;
                self.completed(tag);
            }
            Ran::Empty => self.output.put(Message::EmptyQueryResponse(EmptyQueryResponse::new())),
            Ran::Copying => {}
        }
        Ok(())
    }

    fn completed(&self, tag: String) {
        self.server.metrics.as_ref().inspect(|own| own.completed(&tag, self.begun.elapsed()));
        self.output.put(Message::CommandComplete(CommandComplete::new(tag)));
    }

    /// What a message of an extended query came to; whether it went well.
    fn told(&mut self, done: Result<Message, Error>, text: &str) -> bool {
        match done {
            Ok(message) => {
                self.output.put(message);
                true
            }
            Err(error) => {
                self.fail(&error, text);
                false
            }
        }
    }

    pub(crate) fn parse(&mut self, message: Parse) -> bool {
        let name = message.name.unwrap_or_default();
        let parsed = self.prepare(name, &message.query, &message.type_oids);
        self.told(parsed.map(|()| Message::ParseComplete(ParseComplete::new())), &message.query)
    }

    fn prepare(&mut self, name: String, text: &str, oids: &[u32]) -> Result<(), Error> {
        let types = oids.iter().map(|oid| type_of(*oid)).collect::<Result<Vec<_>, _>>()?;
        if !name.is_empty() && self.statements.contains_key(&name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new("42P05", message).into());
        }
        self.prepare_as(name, text, &types)
    }

    fn prepare_as(&mut self, name: String, text: &str, types: &[Option<Type>]) -> Result<(), Error> {
        let prepared = self.with_session(|session| session.prepare(text, types))?;
        let statement = Statement { prepared, took: None };
        self.statements.insert(name, Arc::new(Mutex::new(statement)));
        Ok(())
    }

    fn statement(&self, name: &str) -> Result<Arc<Mutex<Statement>>, Error> {
        self.statements.get(name).cloned().ok_or_else(|| {
            SqlError::new("26000", format!("prepared statement \"{name}\" does not exist")).into()
        })
    }

    fn portal(&mut self, name: &str) -> Result<&mut Portal, Error> {
        let missing = || SqlError::new("34000", format!("portal \"{name}\" does not exist")).into();
        self.portals.get_mut(name).ok_or_else(missing)
    }

    pub(crate) fn bind(&mut self, message: Bind) -> bool {
        let bound = self.bind_portal(message);
        self.told(bound.map(|()| Message::BindComplete(BindComplete::new())), "")
    }

    fn bind_portal(&mut self, message: Bind) -> Result<(), Error> {
        let statement = self.statement(message.statement_name.as_deref().unwrap_or_default())?;
        let values = &message.parameters;
        let parameters = {
            let own = hold(&statement);
            let types = own.prepared.as_ref().map(Prepared::parameters).unwrap_or_default();
            if types.len() != values.len() {
                let message = format!(
                    "bind message supplies {} parameters, but the prepared statement requires {}",
                    values.len(),
                    types.len()
                );
                return Err(SqlError::new("08P01", message).into());
            }
            let codes = message.parameter_format_codes.iter();
            let formats: Vec<Format> = codes.map(|code| Format::of(*code)).collect();
            let value = |(place, (bytes, ty)): (usize, (&Option<Bytes>, &Type))| match bytes {
                None => Ok(Value::Null),
                Some(bytes) => value_of(bytes, *ty, format_at(&formats, place)),
            };
            values.iter().zip(types).enumerate().map(value).collect::<Result<Vec<_>, _>>()?
        };
        let formats = message.result_column_format_codes.iter().map(|code| Format::of(*code)).collect();
        let portal = Portal { statement, parameters, formats, left: None, is_cursor: false, holds: false };
        self.portals.insert(message.portal_name.unwrap_or_default(), portal);
        Ok(())
    }

    pub(crate) fn describe(&mut self, message: Describe) -> bool {
        let name = message.name.unwrap_or_default();
        let done = if message.target_type == b'S' {
            self.describe_statement(&name)
        } else {
            self.describe_portal(&name)
        };
        self.told(done, "")
    }

    /// The types of a statement's parameters, and its columns.
    fn describe_statement(&mut self, name: &str) -> Result<Message, Error> {
        let statement = self.statement(name)?;
        let own = hold(&statement);
        let types = own.prepared.as_ref().map(Prepared::parameters).unwrap_or_default();
        let oids = types.iter().map(|ty| described(*ty).0).collect();
        self.output.put(Message::ParameterDescription(ParameterDescription::new(oids)));
        let columns = self.columns_of(own.prepared.as_ref());
        Ok(Self::description(&columns, &[]))
    }

    /// The columns of a statement's rows; those of FETCH are the cursor's.
    fn columns_of(&self, prepared: Option<&Prepared>) -> Vec<OutputColumn> {
        let Some(prepared) = prepared else { return Vec::new() };
        match prepared.kind() {
            Kind::Fetch { name, moves: false, .. } => {
                let portal = self.portals.get(name).filter(|portal| portal.is_cursor);
                let columns = portal.map(|portal| {
                    let own = hold(&portal.statement);
                    own.prepared.as_ref().map(|own| own.columns().to_vec()).unwrap_or_default()
                });
                columns.unwrap_or_default()
            }
            _ => prepared.columns().to_vec(),
        }
    }

    fn describe_portal(&mut self, name: &str) -> Result<Message, Error> {
        let portal = self.portal(name)?;
        let (statement, formats) = (Arc::clone(&portal.statement), portal.formats.clone());
        let own = hold(&statement);
        let columns = self.columns_of(own.prepared.as_ref());
        Ok(Self::description(&columns, &formats))
    }

    fn description(columns: &[OutputColumn], formats: &[Format]) -> Message {
        if columns.is_empty() { Message::NoData(NoData::new()) } else { row_description(columns, formats) }
    }

    pub(crate) fn execute(&mut self, message: Execute) -> bool {
        let most = usize::try_from(message.max_rows).unwrap_or(0);
        self.delayed = Some((message.name.unwrap_or_default(), most));
        true
    }

    pub(crate) fn close(&mut self, message: &Close) -> bool {
        let name = message.name.as_deref().unwrap_or_default();
        if message.target_type == b'S' {
            self.statements.remove(name);
        } else {
            self.portals.remove(name);
        }
        self.output.put(Message::CloseComplete(CloseComplete::new()));
        true
    }

    /// Runs the EXECUTE that was waiting for its next message, which is SYNC or not. Whether it went well.
    pub(crate) async fn run_delayed(&mut self, is_sync: bool) -> io::Result<bool> {
        let Some((name, most)) = self.delayed.take() else { return Ok(true) };
        if let Err(error) = self.run_portal(&name, most, is_sync).await {
            self.fail(&error, "");
            return Ok(false);
        }
        Ok(true)
    }

    async fn run_portal(&mut self, name: &str, most: usize, is_sync: bool) -> Result<(), Error> {
        if self.portal(name)?.left.is_some() {
            return self.go_on(name, most);
        }
        let portal = self.portal(name)?;
        let statement = Arc::clone(&portal.statement);
        let (parameters, formats) = (portal.parameters.clone(), portal.formats.clone());
        let mut own = hold(&statement).clone();
        let ends_itself = own.prepared.as_ref().is_none_or(|own| {
            !matches!(
                own.kind(),
                Kind::Run(_) | Kind::Analyze(_) | Kind::Call(..) | Kind::Definition | Kind::Copy(_)
            )
        });
        if !is_sync && !ends_itself {
            self.begin_implicit()?;
        }
        // Only what has rows, and is asked for some of them, keeps the others.
        let has_rows = own.prepared.as_ref().is_some_and(|own| !own.columns().is_empty());
        let kept = (most > 0 && has_rows).then(|| Arc::new(Mutex::new(BytesMut::new())));
        let ran = self.run(&mut own, &parameters, &formats, kept.clone(), Asked::Extended).await;
        *hold(&statement) = own;
        match (ran?, kept) {
            (Ran::Complete(tag, commit), Some(kept)) => {
                let rows = std::mem::take(&mut *hold(&kept));
                self.portal(name)?.left = Some((rows, tag));
                self.durable(commit).await?;
                self.go_on(name, most)
            }
            (ran, _) => self.complete(ran).await,
        }
    }

    /// Hands on rows that a portal has kept.
    fn go_on(&mut self, name: &str, most: usize) -> Result<(), Error> {
        let output = self.output.clone();
        let portal = self.portal(name)?;
        let Some((rows, tag)) = &mut portal.left else { return Ok(()) };
        let most = if most == 0 { usize::MAX } else { most };
        let (end, count) = whole_rows(rows, most);
        output.lock().extend_from_slice(&rows[..end]);
        rows.advance(end);
        if !rows.is_empty() {
            output.put(Message::PortalSuspended(PortalSuspended::new()));
            return Ok(());
        }
        // The count is of what this EXECUTE has given.
        let verb = tag.rsplit_once(' ').map_or(tag.as_str(), |(verb, _)| verb);
        let tag = if verb == "SELECT" { format!("SELECT {count}") } else { tag.clone() };
        self.completed(tag);
        Ok(())
    }

    /// SYNC: what was implicit is committed; portals end with the transaction that they are of.
    pub(crate) async fn synchronize(&mut self) -> io::Result<()> {
        let went_well = self.run_delayed(true).await?;
        if self.copying.is_some() {
            // The client sends SYNC once more, when the copy is complete.
            return Ok(());
        }
        if went_well && let Err(error) = self.commit_implicit().await {
            self.fail(&error, "");
        }
        self.close_portals();
        self.ready();
        Ok(())
    }

    fn notices<'a>(&self, notices: impl IntoIterator<Item = &'a SqlError>) {
        for notice in notices {
            self.output.put(Message::NoticeResponse(NoticeResponse::from(told(notice))));
        }
    }

    fn warn(&self, sqlstate: &str, message: &str) {
        self.notices([&SqlError::new(sqlstate, message)]);
    }

    fn put_texts(&self, lines: &[String]) {
        let mut bytes = self.output.lock();
        for line in lines {
            let start = Output::begin_row(&mut bytes, 1);
            let mut arena = Arena::default();
            let value = arena.push_bytes(line.as_bytes());
            put_value(value, ScalarType::Text.into(), &arena, Format::Text, &mut bytes);
            Output::end_row(&mut bytes, start);
        }
    }

    /// Runs a statement. Its rows go to the client, or are kept.
    async fn run(
        &mut self,
        statement: &mut Statement,
        parameters: &[Value],
        formats: &[Format],
        kept: Option<Arc<Mutex<BytesMut>>>,
        asked: Asked,
    ) -> Result<Ran, Error> {
        let Some(prepared) = &mut statement.prepared else { return Ok(Ran::Empty) };
        self.registered.cancelled.store(false, Ordering::Relaxed);
        self.begun = Instant::now();
        let (tag, state) = (prepared.tag(), self.transaction_state());
        let is_end = matches!(prepared.kind(), Kind::Commit | Kind::Rollback | Kind::RollbackTo(_));
        if state == TransactionState::Failed && !is_end {
            let message = "current transaction is aborted, commands ignored until end of transaction block";
            return Err(SqlError::new("25P02", message).into());
        }
        let complete = |tag: &str| Ok(Ran::Complete(tag.into(), None));
        match prepared.kind().clone() {
            Kind::Begin => {
                if state == TransactionState::Open && !self.is_implicit {
                    self.warn("25001", "there is already a transaction in progress");
                }
                self.begin_implicit()?;
                self.is_implicit = false;
                complete(tag)
            }
            Kind::Commit | Kind::Rollback => {
                if state == TransactionState::None || self.is_implicit {
                    self.warn("25P01", "there is no transaction in progress");
                }
                if is_commit(prepared) && state == TransactionState::Open {
                    let commit = self.commit();
                    self.settings.transaction_ended(commit.is_ok());
                    let commit = commit?;
                    return Ok(Ran::Complete(tag.into(), commit));
                }
                self.roll_back();
                complete(if state == TransactionState::None { tag } else { "ROLLBACK" })
            }
            Kind::Set => {
                self.settings.change(prepared.text(), state != TransactionState::None)?;
                complete(tag)
            }
            Kind::Show(name) => {
                self.put_texts(&[self.settings.show(&name)?]);
                complete(tag)
            }
            Kind::Explain(lines) => {
                self.put_texts(&lines);
                complete(tag)
            }
            Kind::Analyze(procedure) => {
                let begun = Instant::now();
                let rows = self.rows(prepared, &[], RowsTo::Nobody);
                let Ran::Complete(_, commit) = self.run_in_session(statement, parameters, rows).await? else {
                    return Ok(Ran::Empty);
                };
                let took = begun.elapsed();
                let counts = self.with_session(|session| Ok(session.counted_rows()))?;
                let mut lines = procedure.explained(Some(&counts));
                lines.push(format!("Execution Time: {:.3} ms", took.as_secs_f64() * 1e3));
                self.put_texts(&lines);
                Ok(Ran::Complete(tag.into(), commit))
            }
            Kind::Declare { name, holds, text } => self.declare(name, holds, &text).await,
            Kind::Fetch { name, count, moves } => self.fetch(&name, count, moves, formats, asked),
            Kind::Close(name) => {
                match name {
                    Some(name) => {
                        self.portal(&name)?;
                        self.portals.remove(&name);
                    }
                    None => self.portals.retain(|_, portal| !portal.is_cursor),
                }
                complete(tag)
            }
            Kind::Checkpoint => {
                tokio::task::block_in_place(|| self.server.pool().database().checkpoint())?;
                complete(tag)
            }
            Kind::Nothing => complete(tag),
            Kind::Prepare { name, types, text } => {
                if self.statements.contains_key(&name) {
                    let message = format!("prepared statement \"{name}\" already exists");
                    return Err(SqlError::new("42P05", message).into());
                }
                self.prepare_as(name, &text, &types)?;
                complete(tag)
            }
            Kind::Execute { name, arguments } => {
                Box::pin(self.run_named(&name, &arguments, formats, asked)).await
            }
            Kind::Savepoint(name) => {
                self.with_session(|session| session.set_savepoint(&name))?;
                complete(tag)
            }
            Kind::RollbackTo(name) => {
                if state == TransactionState::None {
                    let message = "ROLLBACK TO SAVEPOINT can only be used in transaction blocks";
                    return Err(SqlError::new("25P01", message).into());
                }
                self.with_session(|session| session.roll_back_to_savepoint(&name))?;
                complete(tag)
            }
            Kind::Release(name) => {
                self.with_session(|session| session.release_savepoint(&name))?;
                complete(tag)
            }
            Kind::Deallocate(name) => {
                match name {
                    Some(name) => {
                        self.statement(&name)?;
                        self.statements.remove(&name);
                    }
                    None => self.statements.clear(),
                }
                complete(tag)
            }
            Kind::Copy(copy) if copy.is_in => self.begin_copy(&copy, asked),
            Kind::Copy(copy) => self.copy_out(&copy).await,
            Kind::Definition | Kind::Run(_) | Kind::Call(..) => {
                let to = match kept {
                    Some(kept) => RowsTo::Portal(kept),
                    None => RowsTo::Client(self.output.clone()),
                };
                let rows = self.rows(prepared, formats, to);
                self.run_in_session(statement, parameters, rows).await
            }
        }
    }

    /// DECLARE: the query runs now, and its rows are kept.
    async fn declare(&mut self, name: String, holds: bool, text: &str) -> Result<Ran, Error> {
        if !holds && (self.transaction_state() == TransactionState::None || self.is_implicit) {
            let message = "DECLARE CURSOR can only be used in transaction blocks";
            return Err(SqlError::new("25P01", message).into());
        }
        if self.portals.contains_key(&name) {
            return Err(SqlError::new("42P03", format!("cursor \"{name}\" already exists")).into());
        }
        let prepared = self.with_session(|session| session.prepare(text, &[]))?;
        let mut own = Statement { prepared, took: None };
        let kept = Arc::new(Mutex::new(BytesMut::new()));
        let Some(prepared) = &own.prepared else { return Ok(Ran::Empty) };
        let rows = self.rows(prepared, &[], RowsTo::Portal(Arc::clone(&kept)));
        let Ran::Complete(_, commit) = self.run_in_session(&mut own, &[], rows).await? else {
            return Ok(Ran::Empty);
        };
        let left = Some((std::mem::take(&mut *hold(&kept)), "FETCH".into()));
        let (statement, parameters, formats) = (Arc::new(Mutex::new(own)), Vec::new(), Vec::new());
        self.portals.insert(name, Portal { statement, parameters, formats, left, is_cursor: true, holds });
        Ok(Ran::Complete("DECLARE CURSOR".into(), commit))
    }

    /// FETCH and MOVE.
    fn fetch(
        &mut self,
        name: &str,
        count: Option<usize>,
        moves: bool,
        formats: &[Format],
        asked: Asked,
    ) -> Result<Ran, Error> {
        let missing = || SqlError::new("34000", format!("cursor \"{name}\" does not exist"));
        let portal = self.portals.get_mut(name).filter(|portal| portal.is_cursor).ok_or_else(missing)?;
        if formats.contains(&Format::Binary) {
            let error = SqlError::new("0A000", "FETCH in binary format is not supported");
            return Err(error
                .with_hint("Ask for text, or bind the query to a portal of the protocol.")
                .into());
        }
        if asked == Asked::Simply && !moves {
            let own = hold(&portal.statement);
            let columns = own.prepared.as_ref().map(Prepared::columns).unwrap_or_default();
            self.output.put(row_description(columns, &[]));
        }
        let (rows, _) = portal.left.as_mut().ok_or_else(missing)?;
        let (end, taken) = whole_rows(rows, count.unwrap_or(usize::MAX));
        if !moves {
            self.output.lock().extend_from_slice(&rows[..end]);
        }
        rows.advance(end);
        Ok(Ran::Complete(format!("{} {taken}", if moves { "MOVE" } else { "FETCH" }), None))
    }

    fn rows(&self, prepared: &Prepared, formats: &[Format], to: RowsTo) -> Rows {
        Rows {
            types: prepared.columns().iter().map(|column| column.ty).collect(),
            formats: formats.to_vec(),
            to,
            begun_at: self.output.lock().len(),
            count: Arc::default(),
            is_sent: false,
        }
    }

    async fn run_in_session(
        &mut self,
        statement: &mut Statement,
        parameters: &[Value],
        rows: Rows,
    ) -> Result<Ran, Error> {
        let Some(prepared) = &mut statement.prepared else { return Ok(Ran::Empty) };
        let is_short = statement.took.map_or_else(|| prepared.looks_short(), |took| took < SHORT);
        let limit = self.settings.duration("statement_timeout");
        let deadline = limit.map(|limit| Instant::now() + limit);
        // Beside the deadline, for what waits and does not look at the time.
        let timer = Timer::start(limit, &self.registered);
        let mut waits_until = None;
        let completion = loop {
            let begun = Instant::now();
            let rows = Box::new(rows.clone());
            let attempt = |own: &mut Self| {
                own.with_session(|session| {
                    session.ends_at(deadline);
                    let attempt = session.try_prepared(prepared, parameters, rows);
                    session.ends_at(None);
                    let notices = session.notices().to_vec();
                    Ok((attempt, notices))
                })
            };
            let (attempt, notices) =
                if is_short { attempt(self)? } else { tokio::task::block_in_place(|| attempt(self))? };
            let busy = match attempt {
                Ok(Attempt::Busy(busy)) => busy,
                ended => {
                    let ended = ended.map_err(|error| timer.explain(error));
                    self.notices(&notices);
                    statement.took = Some(begun.elapsed());
                    let Attempt::Done(completion) = ended? else { unreachable!("it is not busy") };
                    break completion;
                }
            };
            let until = *waits_until.get_or_insert_with(|| begun + RESERVED_FOR);
            if tokio::time::timeout_at(until.into(), busy.released()).await.is_err() {
                self.with_session(|session| {
                    session.insist();
                    Ok(())
                })?;
            }
        };
        let tag = prepared.tag();
        let tag = match prepared.kind() {
            Kind::Run(_) if tag != "DO" => format!("{tag} {}", completion.affected),
            Kind::Call(..) if tag == "SELECT" => format!("{tag} {}", completion.affected),
            _ => tag.into(),
        };
        Ok(Ran::Complete(tag, completion.commit))
    }

    /// EXECUTE of a statement that was named by PREPARE.
    async fn run_named(
        &mut self,
        name: &str,
        arguments: &[String],
        formats: &[Format],
        asked: Asked,
    ) -> Result<Ran, Error> {
        let statement = self.statement(name)?;
        let types = {
            let own = hold(&statement);
            own.prepared.as_ref().map(|own| own.parameters().to_vec()).unwrap_or_default()
        };
        if types.len() != arguments.len() {
            let message = format!("wrong number of parameters for prepared statement \"{name}\"");
            let detail = format!("Expected {} parameters but got {}.", types.len(), arguments.len());
            return Err(SqlError::new("42601", message).with_detail(detail).into());
        }
        let mut parameters = Vec::new();
        for (argument, ty) in arguments.iter().zip(types) {
            // As PostgreSQL, the argument is of the parameter's type.
            let text = format!("SELECT CAST(({argument}) AS {ty})");
            let answer = self.with_session(|session| session.query(&text))?;
            parameters.extend(answer.rows.into_iter().flatten().next());
        }
        let mut own = hold(&statement).clone();
        if let Some(prepared) = &own.prepared
            && !prepared.columns().is_empty()
            && asked == Asked::Simply
        {
            self.output.put(row_description(prepared.columns(), &[]));
        }
        let ran = self.run(&mut own, &parameters, formats, None, asked).await;
        *hold(&statement) = own;
        ran
    }

    fn begin_copy(&mut self, copy: &Copy, asked: Asked) -> Result<Ran, Error> {
        let prepared = self.with_session(|session| session.prepare(&copy.text, &[]))?;
        let Some(prepared) = prepared else { return Ok(Ran::Empty) };
        let columns = prepared.parameters().len();
        self.begin_implicit()?;
        let format = i16::from(copy.options.format == CopyFormat::Binary);
        let response = CopyInResponse::new(format as i8, columns as i16, vec![format; columns]);
        self.output.put(Message::CopyInResponse(response));
        self.copying = Some((CopyIn::new(copy, prepared), asked));
        Ok(Ran::Copying)
    }

    /// Takes what the client sends; an error ends the copy.
    pub(crate) fn copy_data(&mut self, data: &[u8]) {
        let Some((mut copy, asked)) = self.copying.take() else { return };
        copy.push(data);
        match self.insert_rows(&mut copy, false) {
            Ok(()) => self.copying = Some((copy, asked)),
            Err(error) => self.copy_broke(&error, asked),
        }
    }

    fn copy_broke(&mut self, error: &Error, asked: Asked) {
        self.fail(error, "");
        if asked == Asked::Simply {
            self.ready();
        }
    }

    fn insert_rows(&mut self, copy: &mut CopyIn, is_end: bool) -> Result<(), Error> {
        tokio::task::block_in_place(|| {
            self.with_session(|session| {
                while let Row::Values(values) = copy.next_row(is_end)? {
                    session
                        .run_prepared(&mut copy.insert, &values, || Box::new(Nowhere))
                        .map_err(|error| copy.at_its_row(error))?;
                    copy.inserted += 1;
                }
                Ok(())
            })
        })
    }

    /// The copy is complete. Whether messages are passed over until SYNC.
    pub(crate) async fn copy_done(&mut self) -> io::Result<bool> {
        let Some((mut copy, asked)) = self.copying.take() else { return Ok(false) };
        let done = match self.insert_rows(&mut copy, true) {
            Ok(()) => self.commit_implicit().await,
            Err(error) => Err(error),
        };
        match done {
            Ok(()) => {
                self.completed(format!("COPY {}", copy.inserted));
                if asked == Asked::Simply {
                    self.ready();
                }
                Ok(false)
            }
            Err(error) => {
                self.copy_broke(&error, asked);
                Ok(asked == Asked::Extended)
            }
        }
    }

    /// The client gives the copy up. Whether messages are passed over until SYNC.
    pub(crate) fn copy_failed(&mut self, reason: &str) -> bool {
        let Some((_, asked)) = self.copying.take() else { return false };
        let error = SqlError::new("57014", format!("COPY from stdin failed: {reason}"));
        self.copy_broke(&error.into(), asked);
        asked == Asked::Extended
    }

    async fn copy_out(&mut self, copy: &Copy) -> Result<Ran, Error> {
        let prepared = self.with_session(|session| session.prepare(&copy.text, &[]))?;
        let Some(prepared) = prepared else { return Ok(Ran::Empty) };
        let columns = prepared.columns();
        let format = i16::from(copy.options.format == CopyFormat::Binary);
        let response = CopyOutResponse::new(format as i8, columns.len() as i16, vec![format; columns.len()]);
        self.output.put(Message::CopyOutResponse(response));
        let out = CopyOut::new(copy);
        out.begin(columns, &mut self.output.lock());
        let rows = self.rows(&prepared, &[], RowsTo::Copy(self.output.clone(), out.clone()));
        let count = Arc::clone(&rows.count);
        let mut statement = Statement { prepared: Some(prepared), took: None };
        let ran = self.run_in_session(&mut statement, &[], rows).await?;
        out.end(&mut self.output.lock());
        self.output.put(Message::CopyDone(CopyDone::new()));
        let Ran::Complete(_, commit) = ran else { return Ok(ran) };
        Ok(Ran::Complete(format!("COPY {}", count.load(Ordering::Relaxed)), commit))
    }
}

/// Where so many rows of a list of messages end, and how many there are.
fn whole_rows(rows: &[u8], most: usize) -> (usize, usize) {
    let (mut end, mut count) = (0, 0);
    while count < most && end < rows.len() {
        let length = rows[end + 1..end + 5].try_into().expect("a row message has a length");
        end += 1 + u32::from_be_bytes(length) as usize;
        count += 1;
    }
    (end, count)
}

/// Takes no rows.
struct Nowhere;

impl RowSink for Nowhere {
    fn begin(&mut self) {}

    fn row(&mut self, _: &[Datum], _: &Arena) -> Result<(), SqlError> {
        Ok(())
    }
}

/// Cancels a statement that takes too long, unless it is dropped before.
struct Timer {
    task: Option<tokio::task::JoinHandle<()>>,
    has_fired: Arc<AtomicBool>,
}

impl Timer {
    fn start(limit: Option<Duration>, registered: &Registered) -> Self {
        let has_fired = Arc::new(AtomicBool::new(false));
        let task = limit.map(|limit| {
            let (cancelled, fired) = (Arc::clone(&registered.cancelled), Arc::clone(&has_fired));
            tokio::spawn(async move {
                tokio::time::sleep(limit).await;
                fired.store(true, Ordering::SeqCst);
                cancelled.store(true, Ordering::SeqCst);
            })
        });
        Self { task, has_fired }
    }

    /// Says of a statement that was cancelled that it was for the time.
    fn explain(&self, error: Error) -> Error {
        match error {
            Error::Sql(error) if error.sqlstate == "57014" && self.has_fired.load(Ordering::SeqCst) => {
                SqlError::new("57014", "canceling statement due to statement timeout").into()
            }
            other => other,
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

fn is_commit(prepared: &Prepared) -> bool {
    matches!(prepared.kind(), Kind::Commit)
}

/// Whether a statement may be of one transaction with those beside it in a text.
fn may_be_together(text: &str) -> bool {
    let word: String = text.trim_start().chars().take_while(char::is_ascii_alphabetic).collect();
    matches!(
        word.to_lowercase().as_str(),
        "select" | "insert" | "update" | "delete" | "with" | "values" | "table" | "call" | "show" | "do"
    )
}

/// An error in a statement that begins at a line and column of the text that was sent.
fn at_its_place(error: Error, line: u32, column: u32) -> Error {
    match error {
        Error::Statement(error) => Error::Statement(error.inside(line, column)),
        other => other,
    }
}
