//! What one connection does, apart from how its messages travel.

use crate::pool::Pool;
use crate::settings::Settings;
use crate::wire::{Format, put_value, type_of, value_of};
use bytes::{Bytes, BytesMut};
use reprise::rooms::catalog::{Arena, Datum, Type};
use reprise::rooms::procedure::query::OutputColumn;
use reprise::rooms::procedure::{RowSink, SqlError};
use reprise::rooms::sql::{Kind, Schema};
use reprise::{Error, Prepared, Session, TransactionState, Value};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A row as it travels: its values, each with its length.
pub(crate) type EncodedRow = BytesMut;

/// A statement that a client has named.
pub(crate) struct Statement {
    pub(crate) text: String,
    pub(crate) prepared: Option<Prepared>,
}

/// A statement with its parameters.
pub(crate) struct Portal {
    statement: Arc<Mutex<Statement>>,
    parameters: Vec<Value>,
    formats: Vec<Format>,
    /// What is left of its rows, once it has run, and how many it came to.
    left: Option<(std::vec::IntoIter<EncodedRow>, Outcome)>,
}

/// What a statement came to.
#[derive(Clone, Default)]
pub(crate) struct Outcome {
    pub(crate) columns: Vec<OutputColumn>,
    pub(crate) rows: Vec<EncodedRow>,
    /// What its completion is called; none of an empty statement.
    pub(crate) tag: Option<String>,
    pub(crate) notices: Vec<SqlError>,
    /// Whether more rows are left in the portal.
    pub(crate) suspended: bool,
}

/// Encodes rows as they come.
struct Encoder {
    types: Vec<Type>,
    formats: Vec<Format>,
    rows: Arc<Mutex<Vec<EncodedRow>>>,
}

impl RowSink for Encoder {
    fn begin(&mut self) {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn row(&mut self, values: &[Datum], arena: &Arena) -> Result<(), SqlError> {
        let mut row = BytesMut::new();
        for (place, (value, ty)) in values.iter().zip(&self.types).enumerate() {
            put_value(*value, *ty, arena, format_at(&self.formats, place), &mut row);
        }
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).push(row);
        Ok(())
    }
}

/// The format of a column: each has its own, all have one, or all are text.
pub(crate) fn format_at(formats: &[Format], place: usize) -> Format {
    match formats {
        [] => Format::Text,
        [only] => *only,
        several => several.get(place).copied().unwrap_or(Format::Text),
    }
}

/// A connection.
pub(crate) struct Client {
    pool: Arc<Pool>,
    /// Held while a transaction is open.
    session: Option<Session>,
    statements: HashMap<String, Arc<Mutex<Statement>>>,
    portals: HashMap<String, Portal>,
    settings: Settings,
    /// Raised by a cancel request.
    pub(crate) cancelled: Arc<AtomicBool>,
}

fn lock(statement: &Mutex<Statement>) -> std::sync::MutexGuard<'_, Statement> {
    statement.lock().unwrap_or_else(PoisonError::into_inner)
}

fn warning(sqlstate: &str, message: &str) -> SqlError {
    SqlError::new(sqlstate, message)
}

impl Client {
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        Self {
            pool,
            session: None,
            statements: HashMap::new(),
            portals: HashMap::new(),
            settings: Settings::default(),
            cancelled: Arc::new(AtomicBool::new(false)),
        }
    }

    pub(crate) fn transaction_state(&self) -> TransactionState {
        self.session.as_ref().map(Session::transaction_state).unwrap_or_default()
    }

    /// Does something with the connection's session, or with one of the pool.
    fn with_session<T>(&mut self, act: impl FnOnce(&mut Session) -> Result<T, Error>) -> Result<T, Error> {
        let mut session = match self.session.take() {
            Some(session) => session,
            None => {
                let mut session = self.pool.take()?;
                session.cancelled_by(Arc::clone(&self.cancelled));
                session
            }
        };
        let result = act(&mut session);
        if session.transaction_state() == TransactionState::None {
            self.pool.give_back(session);
        } else {
            self.session = Some(session);
        }
        result
    }

    /// A text of statements, each with its answer; the first error ends it. Several statements are one transaction, unless some
    /// of them say where transactions begin and end, or change definitions.
    pub(crate) fn simple(&mut self, text: &str) -> (Vec<Outcome>, Option<Error>) {
        let statements = match Schema::split(text) {
            Ok(statements) => statements,
            Err(error) => {
                self.fail();
                return (Vec::new(), Some(error.into()));
            }
        };
        if statements.is_empty() {
            return (vec![Outcome::default()], None);
        }
        let together = statements.len() > 1
            && self.transaction_state() == TransactionState::None
            && statements.iter().all(|(text, ..)| may_be_together(text));
        if together
            && let Err(error) = self.with_session(|session| {
                session.begin_block();
                Ok(())
            })
        {
            return (Vec::new(), Some(error));
        }
        let mut outcomes = Vec::new();
        for (statement, line, column) in &statements {
            match self.run_text(statement) {
                Ok(outcome) => outcomes.push(outcome),
                Err(error) => {
                    self.fail();
                    if together {
                        self.end_block(false);
                    }
                    return (outcomes, Some(at_its_place(error, *line, *column)));
                }
            }
        }
        if together && let Some(error) = self.end_block(true) {
            return (Vec::new(), Some(error));
        }
        (outcomes, None)
    }

    fn end_block(&mut self, commits: bool) -> Option<Error> {
        self.with_session(|session| {
            if !commits {
                session.rollback_block();
                return Ok(());
            }
            match session.commit_block()? {
                Some(commit) => session.wait_for(commit),
                None => Ok(()),
            }
        })
        .err()
    }

    /// An open transaction has failed, as a statement of it has.
    pub(crate) fn fail(&mut self) {
        if let Some(session) = &mut self.session {
            session.fail_block();
        }
    }

    fn run_text(&mut self, text: &str) -> Result<Outcome, Error> {
        let prepared = self.with_session(|session| session.prepare(text, &[]))?;
        match prepared {
            Some(mut prepared) => self.run(&mut prepared, text, &[], &[]),
            None => Ok(Outcome::default()),
        }
    }

    /// PARSE.
    pub(crate) fn parse(&mut self, name: &str, text: &str, oids: &[u32]) -> Result<(), Error> {
        let types = oids.iter().map(|oid| type_of(*oid)).collect::<Result<Vec<_>, _>>()?;
        if !name.is_empty() && self.statements.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new("42P05", message).into());
        }
        let prepared = self.with_session(|session| session.prepare(text, &types))?;
        let statement = Statement { text: text.into(), prepared };
        self.statements.insert(name.into(), Arc::new(Mutex::new(statement)));
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

    /// BIND.
    pub(crate) fn bind(
        &mut self,
        (portal, statement): (&str, &str),
        (values, formats): (&[Option<Bytes>], &[i16]),
        columns: &[i16],
    ) -> Result<(), Error> {
        let statement = self.statement(statement)?;
        let parameters = {
            let own = lock(&statement);
            let types = own.prepared.as_ref().map(Prepared::parameters).unwrap_or_default();
            if types.len() != values.len() {
                let message = format!(
                    "bind message supplies {} parameters, but the prepared statement requires {}",
                    values.len(),
                    types.len()
                );
                return Err(SqlError::new("08P01", message).into());
            }
            let formats: Vec<Format> = formats.iter().map(|code| Format::of(*code)).collect();
            let value = |(place, (bytes, ty)): (usize, (&Option<Bytes>, &Type))| match bytes {
                None => Ok(Value::Null),
                Some(bytes) => value_of(bytes, *ty, format_at(&formats, place)),
            };
            values.iter().zip(types).enumerate().map(value).collect::<Result<Vec<_>, _>>()?
        };
        let formats = columns.iter().map(|code| Format::of(*code)).collect();
        self.portals.insert(portal.into(), Portal { statement, parameters, formats, left: None });
        Ok(())
    }

    /// DESCRIBE of a statement: the types of its parameters, and its columns.
    pub(crate) fn describe_statement(&self, name: &str) -> Result<(Vec<Type>, Vec<OutputColumn>), Error> {
        let statement = self.statement(name)?;
        let own = lock(&statement);
        let prepared = own.prepared.as_ref();
        Ok(prepared.map(|own| (own.parameters().to_vec(), own.columns().to_vec())).unwrap_or_default())
    }

    /// DESCRIBE of a portal: its columns, and their formats.
    pub(crate) fn describe_portal(&mut self, name: &str) -> Result<(Vec<OutputColumn>, Vec<Format>), Error> {
        let portal = self.portal(name)?;
        let own = lock(&portal.statement);
        let columns = own.prepared.as_ref().map(|own| own.columns().to_vec()).unwrap_or_default();
        Ok((columns, portal.formats.clone()))
    }

    /// EXECUTE: at most so many rows, all with 0.
    pub(crate) fn execute(&mut self, name: &str, most: usize) -> Result<Outcome, Error> {
        let portal = self.portal(name)?;
        let (mut rows, mut outcome) = match portal.left.take() {
            Some(left) => left,
            None => {
                let statement = Arc::clone(&portal.statement);
                let (parameters, formats) = (portal.parameters.clone(), portal.formats.clone());
                let mut own = lock(&statement);
                let text = own.text.clone();
                let Some(prepared) = &mut own.prepared else { return Ok(Outcome::default()) };
                let mut outcome = self.run(prepared, &text, &parameters, &formats)?;
                (std::mem::take(&mut outcome.rows).into_iter(), outcome)
            }
        };
        let most = if most == 0 { usize::MAX } else { most };
        outcome.rows = rows.by_ref().take(most).collect();
        outcome.suspended = rows.len() > 0;
        if outcome.suspended
            && let Some(portal) = self.portals.get_mut(name)
        {
            portal.left = Some((rows, Outcome { rows: Vec::new(), ..outcome.clone() }));
        }
        Ok(outcome)
    }

    /// CLOSE.
    pub(crate) fn close_statement(&mut self, name: &str) {
        self.statements.remove(name);
    }

    /// CLOSE.
    pub(crate) fn close_portal(&mut self, name: &str) {
        self.portals.remove(name);
    }

    /// SYNC: portals end with the transaction that they are of.
    pub(crate) fn synchronize(&mut self) {
        if self.transaction_state() == TransactionState::None {
            self.portals.clear();
        }
    }

    fn run(
        &mut self,
        prepared: &mut Prepared,
        text: &str,
        parameters: &[Value],
        formats: &[Format],
    ) -> Result<Outcome, Error> {
        self.cancelled.store(false, Ordering::Relaxed);
        let mut outcome = Outcome { columns: prepared.columns().to_vec(), ..Outcome::default() };
        let tag = prepared.tag();
        let state = self.transaction_state();
        let is_end = matches!(prepared.kind(), Kind::Commit | Kind::Rollback);
        if state == TransactionState::Failed && !is_end {
            let message = "current transaction is aborted, commands ignored until end of transaction block";
            return Err(SqlError::new("25P02", message).into());
        }
        outcome.tag = Some(tag.into());
        let kind = prepared.kind().clone();
        match kind {
            Kind::Begin => {
                if state == TransactionState::Open {
                    outcome.notices.push(warning("25001", "there is already a transaction in progress"));
                }
                self.with_session(|session| {
                    session.begin_block();
                    Ok(())
                })?;
            }
            Kind::Commit | Kind::Rollback => {
                if state == TransactionState::None {
                    outcome.notices.push(warning("25P01", "there is no transaction in progress"));
                }
                let commits = matches!(kind, Kind::Commit) && state == TransactionState::Open;
                if !commits {
                    outcome.tag = Some("ROLLBACK".into());
                }
                if state == TransactionState::None {
                    outcome.tag = Some(tag.into());
                }
                if let Some(error) = self.end_block(commits) {
                    return Err(error);
                }
            }
            Kind::Set => self.settings.change(text)?,
            Kind::Show(name) => outcome.push_text(&self.settings.show(&name)?),
            Kind::Explain(lines) => lines.iter().for_each(|line| outcome.push_text(line)),
            Kind::Checkpoint => {
                self.pool.database().checkpoint()?;
            }
            Kind::Nothing => {}
            Kind::Definition | Kind::Run(_) | Kind::Call(..) => {
                let rows = Arc::new(Mutex::new(Vec::new()));
                let types = outcome.columns.iter().map(|column| column.ty).collect();
                let sink = Encoder { types, formats: formats.to_vec(), rows: Arc::clone(&rows) };
                let completion = self.with_session(|session| {
                    let completion = session.run_prepared(prepared, parameters, Box::new(sink))?;
                    if let Some(commit) = completion.commit {
                        session.wait_for(commit)?;
                    }
                    outcome.notices.extend_from_slice(session.notices());
                    Ok(completion)
                })?;
                outcome.rows = std::mem::take(&mut *rows.lock().unwrap_or_else(PoisonError::into_inner));
                if matches!(kind, Kind::Run(_)) || tag == "SELECT" {
                    outcome.tag = Some(format!("{tag} {}", completion.affected));
                }
            }
        }
        Ok(outcome)
    }
}

impl Outcome {
    fn push_text(&mut self, text: &str) {
        let mut row = BytesMut::new();
        let mut arena = Arena::default();
        let value = arena.push_bytes(text.as_bytes());
        let ty = reprise::rooms::catalog::ScalarType::Text.into();
        put_value(value, ty, &arena, Format::Text, &mut row);
        self.rows.push(row);
    }
}

/// Whether a statement may be of one transaction with those beside it in a text.
fn may_be_together(text: &str) -> bool {
    let word: String = text.trim_start().chars().take_while(char::is_ascii_alphabetic).collect();
    matches!(
        word.to_lowercase().as_str(),
        "select" | "insert" | "update" | "delete" | "with" | "values" | "table" | "call" | "show"
    )
}

/// An error in a statement that begins at a line and column of the text that was sent.
fn at_its_place(error: Error, line: u32, column: u32) -> Error {
    match error {
        Error::Statement(error) => Error::Statement(error.inside(line, column)),
        other => other,
    }
}
