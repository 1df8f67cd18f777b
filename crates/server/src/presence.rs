//! What `pg_stat_activity` and the server's page show of a connection.

use crate::hold;
use catalog::{now_us, unix_ms};
use procedure::LiveValue;
use serde::Serialize;
use std::net::SocketAddr;
use std::sync::Mutex;

/// The longest text of a statement that is kept, in bytes; PostgreSQL's `track_activity_query_size`.
const LONGEST: usize = 1024;

/// Index in `pg_stat_activity` of the first column that is hidden from roles without the privilege.
const FIRST_HIDDEN: usize = 7;
/// Index of the statement in `pg_stat_activity`.
const QUERY: usize = 20;

/// The activity of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Activity {
    Nothing,
    Statement,
    /// A transaction is open, and no statement runs.
    Transaction,
    FailedTransaction,
}

/// What a statement waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WaitCause {
    /// A row or key that another transaction holds.
    Row,
    /// An advisory lock.
    Advisory,
    /// `pg_sleep`.
    Sleep,
}

struct State {
    application: String,
    activity: Activity,
    wait_cause: Option<WaitCause>,
    query: String,
    query_start: Option<i64>,
    transaction_start: Option<i64>,
    changed: i64,
}

impl State {
    /// Returns the name of the state in `pg_stat_activity`.
    fn state(&self) -> &'static str {
        match self.activity {
            Activity::Nothing => "idle",
            Activity::Statement => "active",
            Activity::Transaction => "idle in transaction",
            Activity::FailedTransaction => "idle in transaction (aborted)",
        }
    }
}

/// A connection as the server's page shows it.
#[derive(Serialize)]
pub(crate) struct PageSession {
    pid: i32,
    user: String,
    /// The client's address; `None` at a Unix domain socket.
    client: Option<String>,
    application: String,
    state: &'static str,
    /// The kind of lock that its statement waits for.
    waits_for: Option<&'static str>,
    /// The statement that runs, or the last one.
    query: String,
    /// Milliseconds since 1970.
    pub(crate) started_ms: i64,
    query_start_ms: Option<i64>,
    transaction_start_ms: Option<i64>,
}

/// The state of a connection, for other connections.
pub(crate) struct Presence {
    pid: i32,
    user: String,
    client: Option<SocketAddr>,
    started: i64,
    now: Mutex<State>,
}

impl Presence {
    pub(crate) fn new(pid: i32, user: String, client: Option<SocketAddr>) -> Self {
        let started = now_us();
        let now = State {
            application: String::new(),
            activity: Activity::Nothing,
            wait_cause: None,
            query: String::new(),
            query_start: None,
            transaction_start: None,
            changed: started,
        };
        Self { pid, user, client, started, now: Mutex::new(now) }
    }

    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// Sets the text and the begin of a statement.
    pub(crate) fn begin_statement(&self, text: &str) {
        let (mut now, at) = (hold(&self.now), now_us());
        let mut end = text.len().min(LONGEST);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        now.query.clear();
        now.query.push_str(&text[..end]);
        now.query_start = Some(at);
        now.changed = at;
        now.activity = Activity::Statement;
        now.transaction_start.get_or_insert(at);
    }

    /// Sets the activity of the connection after its statements.
    pub(crate) fn set_activity(&self, activity: Activity) {
        let mut now = hold(&self.now);
        now.activity = activity;
        now.changed = now_us();
        if activity == Activity::Nothing {
            now.transaction_start = None;
        }
    }

    /// Sets the lock that the statement waits for; `None`: it runs.
    pub(crate) fn set_wait(&self, wait_cause: Option<WaitCause>) {
        hold(&self.now).wait_cause = wait_cause;
    }

    pub(crate) fn set_application_name(&self, application: &str) {
        application.clone_into(&mut hold(&self.now).application);
    }

    /// Returns the connection for the server's page.
    pub(crate) fn on_page(&self) -> PageSession {
        let now = hold(&self.now);
        let wait_cause = now.wait_cause.filter(|_| now.activity == Activity::Statement);
        PageSession {
            pid: self.pid,
            user: self.user.clone(),
            client: self.client.map(|address| address.ip().to_canonical().to_string()),
            application: now.application.clone(),
            state: now.state(),
            waits_for: wait_cause.map(|wait_cause| match wait_cause {
                WaitCause::Row => "row",
                WaitCause::Advisory => "advisory",
                WaitCause::Sleep => "sleep",
            }),
            query: now.query.clone(),
            started_ms: unix_ms(self.started),
            query_start_ms: now.query_start.map(unix_ms),
            transaction_start_ms: now.transaction_start.map(unix_ms),
        }
    }

    /// Returns the row of `pg_stat_activity` for a connection of a role. Unless `is_visible`, columns from
    /// `FIRST_HIDDEN` on are hidden.
    pub(crate) fn row(&self, database: i64, role: u32, is_visible: bool) -> Vec<LiveValue> {
        let now = hold(&self.now);
        let (kind, event) = match (now.activity, now.wait_cause) {
            (Activity::Statement, Some(WaitCause::Row)) => (Some("Lock"), Some("tuple")),
            (Activity::Statement, Some(WaitCause::Advisory)) => (Some("Lock"), Some("advisory")),
            (Activity::Statement, Some(WaitCause::Sleep)) => (Some("Timeout"), Some("PgSleep")),
            (Activity::Statement, None) => (None, None),
            _ => (Some("Client"), Some("ClientRead")),
        };
        let null = || LiveValue::Null;
        let mut row = vec![
            database.into(),
            sql::DATABASE.into(),
            i64::from(self.pid).into(),
            null(),
            i64::from(role).into(),
            self.user.as_str().into(),
            now.application.as_str().into(),
            self.client.map(|address| address.ip().to_canonical().to_string()).into(),
            null(),
            // PostgreSQL has -1 for a client of a Unix domain socket.
            self.client.map_or(-1, |address| i64::from(address.port())).into(),
            self.started.into(),
            now.transaction_start.into(),
            now.query_start.into(),
            now.changed.into(),
            kind.into(),
            event.into(),
            now.state().into(),
            null(),
            null(),
            null(),
            now.query.as_str().into(),
            "client backend".into(),
        ];
        if !is_visible {
            for (index, cell) in row.iter_mut().enumerate().skip(FIRST_HIDDEN) {
                *cell = if index == QUERY { "<insufficient privilege>".into() } else { null() };
            }
        }
        row
    }
}
