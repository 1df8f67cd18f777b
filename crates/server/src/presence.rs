//! What `pg_stat_activity` and the server's page show of a connection.

use crate::hold;
use catalog::{now_us, unix_ms};
use procedure::LiveValue;
use serde::Serialize;
use std::net::SocketAddr;
use std::sync::Mutex;

/// The longest text of a statement that is kept, in bytes; PostgreSQL's `track_activity_query_size`.
const LONGEST: usize = 1024;

/// The position in `pg_stat_activity` of the first column that only some roles see.
const FIRST_HIDDEN: usize = 7;
/// The position of the statement.
const QUERY: usize = 20;

/// What a connection is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Doing {
    Nothing,
    Statement,
    /// A transaction is open, and no statement runs.
    Transaction,
    FailedTransaction,
}

/// What a statement waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waiting {
    /// A row or key that another transaction holds.
    Row,
    /// An advisory lock.
    Advisory,
}

struct Now {
    application: String,
    doing: Doing,
    waiting: Option<Waiting>,
    query: String,
    query_start: Option<i64>,
    transaction_start: Option<i64>,
    changed: i64,
}

impl Now {
    /// Returns the name of the state in `pg_stat_activity`.
    fn state(&self) -> &'static str {
        match self.doing {
            Doing::Nothing => "idle",
            Doing::Statement => "active",
            Doing::Transaction => "idle in transaction",
            Doing::FailedTransaction => "idle in transaction (aborted)",
        }
    }
}

/// A connection as the server's page shows it.
#[derive(Serialize)]
pub(crate) struct Seen {
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
    now: Mutex<Now>,
}

impl Presence {
    pub(crate) fn new(pid: i32, user: String, client: Option<SocketAddr>) -> Self {
        let started = now_us();
        let now = Now {
            application: String::new(),
            doing: Doing::Nothing,
            waiting: None,
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

    /// Notes that a statement begins.
    pub(crate) fn begins(&self, text: &str) {
        let (mut now, at) = (hold(&self.now), now_us());
        let mut end = text.len().min(LONGEST);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        now.query.clear();
        now.query.push_str(&text[..end]);
        now.query_start = Some(at);
        now.changed = at;
        now.doing = Doing::Statement;
        now.transaction_start.get_or_insert(at);
    }

    /// Notes what the connection does after its statements.
    pub(crate) fn is(&self, doing: Doing) {
        let mut now = hold(&self.now);
        now.doing = doing;
        now.changed = now_us();
        if doing == Doing::Nothing {
            now.transaction_start = None;
        }
    }

    /// Notes what the statement waits for; `None`: it goes on.
    pub(crate) fn waits(&self, waiting: Option<Waiting>) {
        hold(&self.now).waiting = waiting;
    }

    pub(crate) fn calls_itself(&self, application: &str) {
        application.clone_into(&mut hold(&self.now).application);
    }

    /// Returns the connection for the server's page.
    pub(crate) fn seen(&self) -> Seen {
        let now = hold(&self.now);
        let waiting = now.waiting.filter(|_| now.doing == Doing::Statement);
        Seen {
            pid: self.pid,
            user: self.user.clone(),
            client: self.client.map(|own| own.ip().to_canonical().to_string()),
            application: now.application.clone(),
            state: now.state(),
            waits_for: waiting.map(|waiting| match waiting {
                Waiting::Row => "row",
                Waiting::Advisory => "advisory",
            }),
            query: now.query.clone(),
            started_ms: unix_ms(self.started),
            query_start_ms: now.query_start.map(unix_ms),
            transaction_start_ms: now.transaction_start.map(unix_ms),
        }
    }

    /// Returns the row of `pg_stat_activity` for a connection of a role; without what it does unless `shows`.
    pub(crate) fn row(&self, database: i64, role: u32, shows: bool) -> Vec<LiveValue> {
        let now = hold(&self.now);
        let (kind, event) = match (now.doing, now.waiting) {
            (Doing::Statement, Some(Waiting::Row)) => (Some("Lock"), Some("tuple")),
            (Doing::Statement, Some(Waiting::Advisory)) => (Some("Lock"), Some("advisory")),
            (Doing::Statement, None) => (None, None),
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
            self.client.map(|own| own.ip().to_canonical().to_string()).into(),
            null(),
            // PostgreSQL has -1 for a client of a Unix domain socket.
            self.client.map_or(-1, |own| i64::from(own.port())).into(),
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
        if !shows {
            for (place, cell) in row.iter_mut().enumerate().skip(FIRST_HIDDEN) {
                *cell = if place == QUERY { "<insufficient privilege>".into() } else { null() };
            }
        }
        row
    }
}
