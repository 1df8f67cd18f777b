//! The execution of one statement, of a simple or an extended query.

use super::kept_rows::KeptRows;
use super::rows::{Rows, RowsTo, is_vector, put_texts_as, refuse_binary_rows, row_description};
use super::script::runs_alone;
use super::{Client, NamedStatement, OpenTransaction, Outcome, Portal, Protocol, SHORT};
use crate::hold;
use crate::link::Output;
use crate::notice_response;
use crate::notifications::Change;
use crate::presence::WaitCause;
use crate::wire::{Format, put_value};
use bytes::BytesMut;
use pgwire::messages::PgWireBackendMessage as Message;
use reprise::{
    Arena, Attempt, Backup, Busy, Error, Notice, Parameters, ScalarType, Severity, SqlError, Statement,
    TransactionState, Type,
};
use sql::{Declared, Kind, Movement, Prepared};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The pause of a statement that has released its rows, because of a deadlock or for lack of a session.
const PAUSE: Duration = Duration::from_millis(20);

/// An EXECUTE of a prepared statement.
pub(super) struct NamedExecute<'a> {
    text: &'a str,
    name: &'a str,
    arguments: &'a [String],
    /// The EXPLAIN before it; `None` without one.
    explain: Option<&'a str>,
}

pub(super) fn canceled(sqlstate: &str, reason: &str) -> Error {
    SqlError::new(sqlstate, format!("canceling statement due to {reason}")).into()
}

/// Returns the error of each statement of a transaction that has failed.
pub(super) fn failed_transaction() -> Error {
    let message = "current transaction is aborted, commands ignored until end of transaction block";
    SqlError::new("25P02", message).into()
}

/// Checks that the acting role has the privileges that a statement needs.
///
/// # Errors
/// `42501`: it lacks one.
pub(super) fn check_refused(plan: &Prepared) -> Result<(), Error> {
    plan.refused.as_ref().map_or(Ok(()), |refused| Err(Error::Sql((**refused).clone())))
}

/// Waits until a moment; without one, the future never ends.
pub(super) async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

impl Client {
    /// Sends the notices that the client wants (`client_min_messages`).
    pub(super) fn notices(&self, notices: &[Notice]) {
        for notice in notices.iter().filter(|notice| self.settings.wants(notice.severity)) {
            self.output.put(Message::NoticeResponse(notice_response(notice)));
        }
    }

    pub(super) fn warn(&self, sqlstate: &str, message: &str) {
        let content = SqlError::new(sqlstate, message);
        self.notices(&[Notice { severity: Severity::Warning, content }]);
    }

    pub(super) fn put_texts(&self, lines: &[String]) {
        let lines: Vec<_> = lines.iter().map(|line| [line.clone()]).collect();
        self.put_lines(&lines);
    }

    /// Sends rows of texts.
    fn put_lines<const COLUMNS: usize>(&self, lines: &[[String; COLUMNS]]) {
        let mut bytes = self.output.lock();
        for line in lines {
            let start = Output::begin_row(&mut bytes, COLUMNS);
            let mut arena = Arena::default();
            for text in line {
                let value = arena.push_bytes(text.as_bytes());
                put_value(value, ScalarType::Text.into(), &arena, Format::Text, &mut bytes);
            }
            Output::end_row(&mut bytes, start);
        }
    }

    /// Sends the columns of a statement, if it returns rows.
    pub(super) fn describe_rows(&self, prepared: Option<&Statement>, formats: &[Format]) {
        if let Some(columns) = self.columns_of(prepared) {
            self.output.put(row_description(&columns, formats));
        }
    }

    /// Runs a statement. Its rows go to the client, or to `kept`.
    pub(super) async fn run(
        &mut self,
        statement: &mut NamedStatement,
        parameters: &Parameters,
        formats: &[Format],
        kept: Option<Arc<Mutex<BytesMut>>>,
        protocol: Protocol,
    ) -> Result<Outcome, Error> {
        let Some(prepared) = &statement.prepared else { return Ok(Outcome::Empty) };
        self.begin_statement();
        let plan = prepared.plan();
        let (tag, state) = (prepared.tag(), self.transaction_state());
        let is_end = matches!(plan.kind, Kind::Commit { .. } | Kind::Rollback { .. } | Kind::RollbackTo(_));
        if state == TransactionState::Failed && !is_end {
            return Err(failed_transaction());
        }
        if tag == "LOCK TABLE" {
            self.require_transaction(tag, protocol)?;
        }
        if state != TransactionState::None
            && let Some(command) = runs_alone(tag, prepared.text())
        {
            let message = format!("{command} cannot run inside a transaction block");
            return Err(SqlError::new("25001", message).into());
        }
        let complete = |tag: &str| Ok(Outcome::Complete(tag.into()));
        match &plan.kind {
            Kind::Begin(modes) => self.begin(*modes).and_then(|()| complete(tag)),
            Kind::Commit { chains } => self.end(true, *chains).and_then(complete),
            Kind::Rollback { chains } => self.end(false, *chains).and_then(complete),
            Kind::SetTransaction(modes) => self.set_modes(*modes).and_then(|()| complete(tag)),
            Kind::SetTransactions(modes) => {
                if let Some(read_only) = modes.read_only {
                    self.settings
                        .set("default_transaction_read_only", if read_only { "on" } else { "off" })?;
                }
                complete(tag)
            }
            Kind::Set => {
                if !self.settings.change(prepared.text(), state != TransactionState::None)? {
                    self.warn("25P01", "SET LOCAL can only be used in transaction blocks");
                }
                self.take_over_modes()?;
                complete(tag)
            }
            Kind::Discard => self.discard(prepared).and_then(|()| complete(tag)),
            Kind::Show(name) if name == "all" => {
                self.put_lines(&self.settings.all());
                complete(tag)
            }
            Kind::Show(name) => {
                self.put_texts(&[self.show(name)?]);
                complete(tag)
            }
            Kind::Explain(lines) => {
                check_refused(&plan)?;
                self.put_texts(lines);
                complete(tag)
            }
            Kind::Declare(declared) => {
                if !declared.holds {
                    self.require_transaction("DECLARE CURSOR", protocol)?;
                }
                let types: Vec<_> = prepared.parameters().iter().copied().map(Some).collect();
                self.declare(declared, &types, parameters).await
            }
            Kind::Fetch { name, movement, moves } => self.fetch(name, *movement, *moves, formats),
            Kind::Close(name) => {
                match name {
                    Some(name) => {
                        self.portal(name)?;
                        self.portals.remove(name);
                    }
                    None => self.portals.retain(|_, portal| !portal.is_cursor),
                }
                complete(tag)
            }
            Kind::Checkpoint => {
                self.require_privileges_of("pg_checkpoint", || {
                    "must be superuser or have privileges of pg_checkpoint to do CHECKPOINT".into()
                })?;
                tokio::task::block_in_place(|| self.server.pool().database().checkpoint())?;
                complete(tag)
            }
            Kind::Backup(name) => {
                let line = self.back_up(name)?;
                self.put_texts(&[line]);
                complete(tag)
            }
            Kind::Advisory(call) => self.advisory(call, parameters, formats).await,
            Kind::Sleep(seconds) => self.sleep(seconds, parameters).await,
            Kind::Listen(channel) => {
                self.change_channels(Change::Listen(channel.clone()))?;
                complete(tag)
            }
            Kind::Unlisten(channel) => {
                self.change_channels(Change::Unlisten(channel.clone()))?;
                complete(tag)
            }
            Kind::Notify { channel, payload } => {
                self.notify(channel, payload)?;
                complete(tag)
            }
            Kind::Nothing(notices) => {
                check_refused(&plan)?;
                self.notices(notices);
                complete(tag)
            }
            Kind::Prepare { name, types, text } => {
                if self.statements.contains_key(name) {
                    let message = format!("prepared statement \"{name}\" already exists");
                    return Err(SqlError::new("42P05", message).into());
                }
                self.prepare_as(name.clone(), text, types, &[])?;
                complete(tag)
            }
            Kind::Execute { name, arguments, explain } => {
                let text = explain.as_ref().map_or(prepared.text(), |parts| &parts.execute);
                let explain = explain.as_ref().map(|parts| parts.explain.as_str());
                let execute = NamedExecute { text, name, arguments, explain };
                Box::pin(self.run_named(execute, formats, protocol)).await
            }
            Kind::Savepoint(name) => {
                self.require_block("SAVEPOINT")?;
                self.set_savepoint(name.clone())?;
                complete(tag)
            }
            Kind::RollbackTo(name) => {
                self.require_block("ROLLBACK TO SAVEPOINT")?;
                self.roll_back_to_savepoint(name)?;
                complete(tag)
            }
            Kind::Release(name) => {
                self.require_block("RELEASE SAVEPOINT")?;
                self.release_savepoint(name)?;
                complete(tag)
            }
            Kind::Deallocate(name) => {
                match name {
                    Some(name) => {
                        self.statement(name)?;
                        self.statements.remove(name);
                    }
                    None => self.statements.clear(),
                }
                complete(tag)
            }
            Kind::Copy(copy) if copy.is_in => self.begin_copy(copy, protocol),
            Kind::Copy(copy) => self.copy_out(copy).await,
            Kind::Definition
            | Kind::Moved
            | Kind::Filled(_)
            | Kind::Run(_)
            | Kind::Analyze(_)
            | Kind::Call(..)
            | Kind::Lock(_)
            | Kind::SetConstraints(_) => {
                if tag == "SET CONSTRAINTS" && state == TransactionState::None {
                    self.warn("25P01", "SET CONSTRAINTS can only be used in transaction blocks");
                }
                let rows = self.rows(prepared, formats, kept.map_or(RowsTo::Client, RowsTo::Portal));
                self.run_in_session(statement, parameters, rows).await
            }
        }
    }

    /// Checks that the acting role has the privileges of a predefined role.
    ///
    /// # Errors
    /// `42501`: the role lacks them.
    fn require_privileges_of(&self, role: &str, message: impl FnOnce() -> String) -> Result<(), Error> {
        let acting = self.settings.identity().role();
        let has = |schema: &sql::Schema| schema.has_predefined(acting, role);
        match self.server.pool().database().with_definitions(has) {
            true => Ok(()),
            false => Err(SqlError::new("42501", message()).into()),
        }
    }

    /// Writes a backup into the folder for backups. Returns its description, as one line.
    ///
    /// # Errors
    /// `25001`: a transaction is open. `42501`: the server allows no backups, or the acting role is no
    /// superuser. `22023`: the name has slashes or is empty. The errors of `Database::backup`.
    fn back_up(&self, name: &str) -> Result<String, Error> {
        if self.transaction_state() != TransactionState::None {
            let message = "reprise_backup cannot be called inside a transaction block";
            return Err(SqlError::new("25001", message).into());
        }
        if !self.settings.acts_as_superuser() {
            return Err(SqlError::new("42501", "must be superuser to make a backup").into());
        }
        let Some(folder) = &self.server.options.backups else {
            let error = SqlError::new("42501", "backups by clients are not allowed");
            return Err(error.with_hint("Configure a folder for backups.").into());
        };
        if Path::new(name).file_name() != Some(OsStr::new(name)) {
            let error = SqlError::new("22023", format!("\"{name}\" is not the name of a folder"));
            return Err(error.with_hint("Give a name without slashes.").into());
        }
        let made = tokio::task::block_in_place(|| self.server.pool().database().backup(folder.join(name)))?;
        let Backup { folder, rows, bytes, digest, elapsed } = made;
        let (folder, seconds) = (folder.display(), elapsed.as_secs_f64());
        Ok(format!(
            "{folder}: {rows} rows, {bytes} bytes in {seconds:.2} s, read back and equal, digest {digest}"
        ))
    }

    /// DECLARE: the query runs now, and its rows are kept. `types` are the types of its parameters.
    async fn declare(
        &mut self,
        declared: &Declared,
        types: &[Option<Type>],
        parameters: &Parameters,
    ) -> Result<Outcome, Error> {
        let Declared { name, holds, is_forward_only, is_binary, text } = declared;
        if self.portals.contains_key(name) {
            return Err(SqlError::new("42P03", format!("cursor \"{name}\" already exists")).into());
        }
        let prepared = self.plan(text, |session| session.prepare_typed(text, types))?;
        let mut named = NamedStatement::new(prepared);
        let kept = Arc::new(Mutex::new(BytesMut::new()));
        let Some(prepared) = &named.prepared else { return Ok(Outcome::Empty) };
        let formats = if *is_binary { vec![Format::Binary] } else { Vec::new() };
        refuse_binary_rows(prepared.columns(), &formats)?;
        let rows = self.rows(prepared, &[], RowsTo::Portal(Arc::clone(&kept)));
        let Outcome::Complete(_) = self.run_in_session(&mut named, parameters, rows).await? else {
            return Ok(Outcome::Empty);
        };
        let kept = KeptRows::new(std::mem::take(&mut *hold(&kept)), *is_forward_only);
        let kept = Some((kept, "FETCH".into()));
        let statement = Arc::new(Mutex::new(named));
        let (parameters, holds) = (Parameters::default(), *holds);
        let is_open = self.transaction_state() != TransactionState::None;
        let declared_at = is_open.then_some(self.savepoints.len());
        let (is_cursor, described) = (true, None);
        let portal =
            Portal { statement, parameters, formats, described, kept, is_cursor, holds, declared_at };
        self.portals.insert(name.clone(), portal);
        Ok(Outcome::Complete("DECLARE CURSOR".into()))
    }

    /// FETCH and MOVE.
    pub(super) fn fetch(
        &mut self,
        name: &str,
        movement: Movement,
        moves: bool,
        formats: &[Format],
    ) -> Result<Outcome, Error> {
        let missing = || SqlError::new("34000", format!("cursor \"{name}\" does not exist"));
        // MOVE also skips rows of a portal of the protocol, whose rows may be binary.
        let fits = |portal: &&mut Portal| portal.is_cursor || moves;
        let portal = self.portals.get_mut(name).filter(fits).ok_or_else(missing)?;
        let (rows, _) = portal.kept.as_mut().ok_or_else(missing)?;
        let taken = if moves { rows.take(movement, None)? } else { self.take_rows(name, movement, formats)? };
        Ok(Outcome::Complete(format!("{} {taken}", if moves { "MOVE" } else { "FETCH" })))
    }

    /// Sends rows that a portal has kept, as texts, each column in its format. Returns their number.
    pub(super) fn take_rows(
        &mut self,
        name: &str,
        movement: Movement,
        formats: &[Format],
    ) -> Result<usize, Error> {
        let Some(portal) = self.portals.get_mut(name) else { return Ok(0) };
        let Some((rows, _)) = &mut portal.kept else { return Ok(0) };
        if !formats.contains(&Format::Binary) {
            return Ok(rows.take(movement, Some(&mut *self.output.lock()))?);
        }
        let named = hold(&portal.statement);
        let columns = named.prepared.as_ref().map(Statement::columns).unwrap_or_default();
        refuse_binary_rows(columns, formats)?;
        let mut texts = BytesMut::new();
        let taken = rows.take(movement, Some(&mut texts))?;
        self.scratch.set_zone(self.settings.zone().cloned());
        put_texts_as(formats, &texts, columns, &mut self.scratch, &mut self.output.lock())?;
        Ok(taken)
    }

    pub(super) fn rows(&self, prepared: &Statement, formats: &[Format], to: RowsTo) -> Rows {
        Rows {
            types: prepared.columns().iter().map(|column| column.ty).collect(),
            vectors: {
                let columns = prepared.columns().iter().enumerate();
                columns.filter(|(_, column)| is_vector(column)).map(|(index, _)| index).collect()
            },
            formats: formats.to_vec(),
            to,
            begun_at: self.output.lock().len(),
            count: Arc::default(),
            is_sent: false,
            is_early: self.settings.acknowledges_early(),
            output: self.output.clone(),
        }
    }

    pub(super) async fn run_in_session(
        &mut self,
        statement: &mut NamedStatement,
        parameters: &Parameters,
        rows: Rows,
    ) -> Result<Outcome, Error> {
        let Some(prepared) = &statement.prepared else { return Ok(Outcome::Empty) };
        let is_short = !prepared.waits_on_its_thread()
            && statement.last_duration.map_or_else(|| prepared.looks_short(), |duration| duration < SHORT);
        let _running = self.run_attended();
        let (mut counted, mut limit) = (None, None);
        let completion = loop {
            let begun = Instant::now();
            let rows = Box::new(rows.clone());
            let attempt = |client: &mut Self| {
                client.with_session(|session| {
                    let attempt = session.attempt(prepared, parameters, rows);
                    let notices = session.take_notices();
                    let notifications = session.take_notifications(attempt.is_err());
                    Ok((attempt, notices, notifications))
                })
            };
            let (attempt, notices, notifications) =
                if is_short { attempt(self)? } else { tokio::task::block_in_place(|| attempt(self))? };
            let busy = match attempt {
                Ok(Attempt::Busy(busy)) => busy,
                ended => {
                    self.notices(&notices);
                    self.take_settings(ended.is_err());
                    statement.last_duration = Some(begun.elapsed());
                    self.notify_after(notifications, ended.is_err())?;
                    let Attempt::Done(completion) = ended? else { unreachable!("it is not busy") };
                    break completion;
                }
            };
            if busy.is_in_batch() {
                // The call needs its session for the outcome. Batches wait for no session.
                self.wait_until(None, Some(&busy)).await?;
                continue;
            }
            let lock_timeout = self.settings.limits().lock_timeout;
            let limit = *limit.get_or_insert_with(|| lock_timeout.map(|limit| Instant::now() + limit));
            if self.open.is_none() && counted.is_none() {
                // A waiting statement keeps its session, so it counts as an open transaction.
                counted = OpenTransaction::new(&self.server).ok();
            }
            let presence = &self.registered.attended.presence;
            presence.set_wait(Some(WaitCause::Row));
            let waited = if self.open.is_some() || counted.is_some() {
                self.wait_until(limit, Some(&busy)).await
            } else {
                // At the limit of open transactions the statement waits without a session.
                self.stop_waiting()?;
                self.wait_until(limit, None).await
            };
            self.registered.attended.presence.set_wait(None);
            waited?;
        };
        let tag = prepared.tag();
        let tag = match &prepared.plan().kind {
            Kind::Run(_) if !["CALL", "DO", "LOCK TABLE"].contains(&tag) => {
                format!("{tag} {}", completion.affected)
            }
            Kind::Call(..) | Kind::Filled(_) if tag == "SELECT" => format!("{tag} {}", completion.affected),
            _ => tag.into(),
        };
        Ok(Outcome::Complete(tag))
    }

    /// Waits until an undone statement can run again; without `busy`, waits for `PAUSE`. A call that runs in
    /// a batch is not given up: its executor checks the same cancellation and deadline.
    ///
    /// # Errors
    /// `57014`: the statement was cancelled, or its deadline has passed. `55P03`: `limit` has passed. `40P01`
    /// and `40001`: the wait was refused, and a transaction is open.
    pub(super) async fn wait_until(
        &mut self,
        limit: Option<Instant>,
        busy: Option<&Busy>,
    ) -> Result<(), Error> {
        let deadline = self.deadline;
        let released = || async move {
            match busy {
                Some(busy) => busy.released().await,
                None => {
                    tokio::time::sleep(PAUSE).await;
                    Ok(())
                }
            }
        };
        loop {
            let (sqlstate, reason) = tokio::select! {
                released = released() => match released {
                    Ok(()) => return Ok(()),
                    Err(refusal) => {
                        self.with_session(|session| session.break_deadlock(refusal))?;
                        // The other transactions of the deadlock go on first.
                        tokio::time::sleep(PAUSE).await;
                        continue;
                    }
                },
                () = until(busy.and_then(Busy::until)) => return Ok(()),
                () = self.registered.attended.cancel.raised() => ("57014", "user request"),
                () = until(deadline) => ("57014", "statement timeout"),
                () = until(limit) => {
                    self.with_session(|session| {
                        session.time_out();
                        Ok(())
                    })?;
                    return Err(canceled("55P03", "lock timeout"));
                }
            };
            if let Some(running) = busy.filter(|busy| !busy.withdraw()) {
                // The result is always `Ok`: the call waits for no transaction.
                let _ = running.released().await;
                return Ok(());
            }
            self.stop_waiting()?;
            return Err(canceled(sqlstate, reason));
        }
    }

    /// Gives up a waiting statement, and its position in a queue.
    fn stop_waiting(&mut self) -> Result<(), Error> {
        self.with_session(|session| {
            session.stop_waiting();
            Ok(())
        })
    }

    /// Runs the statement that an EXECUTE names; `arguments` are the texts of the EXECUTE's arguments.
    pub(super) async fn run_named(
        &mut self,
        execute: NamedExecute<'_>,
        formats: &[Format],
        protocol: Protocol,
    ) -> Result<Outcome, Error> {
        let NamedExecute { text, name, arguments, explain } = execute;
        let statement = self.statement(name)?;
        let mut named = hold(&statement).clone();
        let expected = named.prepared.as_ref().map_or(0, |known| known.parameters().len());
        if expected != arguments.len() {
            let message = format!("wrong number of parameters for prepared statement \"{name}\"");
            let detail = format!("Expected {expected} parameters but got {}.", arguments.len());
            return Err(SqlError::new("42601", message).with_detail(detail).into());
        }
        if arguments.iter().any(|argument| argument.contains('(')) {
            // A function may write; its writes belong to the transaction of the statement.
            self.begin_implicit()?;
        }
        let mut parameters = Parameters::default();
        if let Some(statement) = named.prepared.as_ref().filter(|_| !arguments.is_empty()) {
            let _running = self.run_attended();
            // The evaluation may wait for another transaction.
            parameters = tokio::task::block_in_place(|| {
                self.with_session(|session| session.evaluate_arguments(text, statement))
            })?;
        }
        if let (Some(explain), Some(known)) = (explain, &named.prepared) {
            let types: Vec<_> = known.parameters().iter().copied().map(Some).collect();
            let text = format!("{explain}{}", known.text());
            let explained = self.plan(&text, |session| session.prepare_typed(&text, &types))?;
            named = NamedStatement::new(explained);
        }
        if protocol == Protocol::Simple {
            self.describe_rows(named.prepared.as_ref(), formats);
        }
        let ran = self.run(&mut named, &parameters, formats, None, protocol).await;
        if explain.is_none() {
            *hold(&statement) = named;
        }
        ran.map_err(|error| match error {
            // The EXECUTE itself is not outdated, so its caller would repeat it.
            Error::Outdated => {
                let plain = SqlError::new(error.sqlstate(), error.to_string());
                plain.with_hint(error.hint().unwrap_or_default()).into()
            }
            error => error,
        })
    }
}
