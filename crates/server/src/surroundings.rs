//! The functions and catalogs of statements that read the session and the server: settings, sessions, locks.
//!
//! A client copies its settings for the statement that runs, and takes the copy over if the statement has
//! changed it (`set_config`). Sessions and locks are read when the statement asks for them.
//! Held by: `crates/server/tests/suite/moment.rs`.

use crate::login::role_of_user;
use crate::settings::{Identity, Mark, Settings};
use crate::startup::ConnectionInfo;
use crate::{Server, hold};
use procedure::{LiveFunction, LiveRelation, LiveValue, Surroundings};
use reprise::SqlError;
use sql::Schema;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// The number of the database in `pg_database`.
const DATABASE: i64 = 5;

/// The last number of a transaction. Numbers follow the clock, so no number repeats after a restart.
static LAST_TRANSACTION: AtomicI64 = AtomicI64::new(0);

/// The settings of a client, copied for its statement.
#[derive(Default)]
struct StatementSettings {
    settings: Settings,
    in_transaction: bool,
    /// The number of the transaction; `None` until a statement reads it.
    transaction: Option<i64>,
    /// Whether a change outlives the statement.
    outlives: bool,
    /// The settings that the statement has kept, oldest first.
    kept: Vec<Mark>,
}

/// The client's session, as its statements see it.
pub(crate) struct SessionView {
    server: Weak<Server>,
    asking: ConnectionInfo,
    lent: Mutex<StatementSettings>,
    /// Whether a statement has changed the settings.
    has_changed: AtomicBool,
}

impl SessionView {
    pub(crate) fn new(server: &Arc<Server>, asking: ConnectionInfo) -> Arc<Self> {
        let (server, lent) = (Arc::downgrade(server), Mutex::default());
        Arc::new(Self { server, asking, lent, has_changed: AtomicBool::new(false) })
    }

    /// Lends settings that have changed since the last time.
    pub(crate) fn lend(&self, settings: &Settings) {
        hold(&self.lent).settings = settings.clone();
    }

    /// Begins a statement, which may belong to a transaction of several statements.
    pub(crate) fn begins(&self, in_transaction: bool) {
        let mut lent = hold(&self.lent);
        if !(in_transaction && lent.in_transaction) {
            lent.transaction = None;
        }
        lent.in_transaction = in_transaction;
        lent.kept.clear();
    }

    /// Returns the settings that a statement has changed; `Some(None)` if the changes end with the statement.
    pub(crate) fn take_changed(&self) -> Option<Option<Settings>> {
        // Only this connection's statements set the flag, so a relaxed load suffices.
        if !self.has_changed.load(Ordering::Relaxed) {
            return None;
        }
        self.has_changed.store(false, Ordering::Relaxed);
        let mut lent = hold(&self.lent);
        if !lent.in_transaction {
            lent.settings.transaction_ended(true);
        }
        Some(std::mem::take(&mut lent.outlives).then(|| lent.settings.clone()))
    }

    fn setting(&self, arguments: &[LiveValue]) -> Result<LiveValue, SqlError> {
        let [LiveValue::Text(name), optional @ ..] = arguments else { return Ok(LiveValue::Null) };
        match hold(&self.lent).settings.show(&name.to_lowercase()) {
            Ok(value) => Ok(value.into()),
            Err(_) if matches!(optional, [LiveValue::Int(1)]) => Ok(LiveValue::Null),
            Err(_) => Err(SqlError::new("42704", format!("unrecognized configuration parameter \"{name}\""))),
        }
    }

    fn set_config(&self, arguments: &[LiveValue]) -> Result<LiveValue, SqlError> {
        let [LiveValue::Text(name), value, is_local] = arguments else {
            return Err(SqlError::new("22004", "SET requires parameter name"));
        };
        let value = if let LiveValue::Text(value) = value { Some(value.as_str()) } else { None };
        let mut lent = hold(&self.lent);
        let is_local = *is_local == LiveValue::Int(1);
        let value = lent.settings.set_config(name, value, is_local)?;
        // Outside of a transaction, a local change ends with the statement.
        lent.outlives |= lent.in_transaction || !is_local;
        self.has_changed.store(true, Ordering::Relaxed);
        Ok(value.into())
    }

    fn transaction(&self) -> i64 {
        let next = |last: i64| Some(catalog::now_us().max(last + 1));
        *hold(&self.lent).transaction.get_or_insert_with(|| {
            let last = LAST_TRANSACTION.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
            next(last.unwrap_or_default()).unwrap_or_default()
        })
    }

    /// Cancels the statement of a session, or ends the session. Returns whether the session exists.
    fn signal(&self, arguments: &[LiveValue], ends: bool) -> Result<LiveValue, SqlError> {
        let [LiveValue::Int(pid), ..] = arguments else { return Ok(LiveValue::Null) };
        let Some(server) = self.server.upgrade() else { return Ok(false.into()) };
        let Some(other) = i32::try_from(*pid).ok().and_then(|pid| server.connections.attended(pid)) else {
            return Ok(false.into());
        };
        let asker = hold(&self.lent).settings.identity();
        let checked = |schema: &Schema| self.check_signal(schema, asker, other.presence.user(), ends);
        server.pool().database().with_definitions(checked)?;
        if ends {
            other.end();
        }
        other.cancel.raise();
        Ok(true.into())
    }

    /// Checks that the acting role may cancel a statement, or end a session, of a user.
    ///
    /// # Errors
    /// `42501`: the role may not.
    fn check_signal(&self, schema: &Schema, asker: Identity, user: &str, ends: bool) -> Result<(), SqlError> {
        // A user without a role may signal its own sessions.
        let has_role = schema.role(&self.asking.user).is_some() || asker != Identity::default();
        if !has_role && user == self.asking.user {
            return Ok(());
        }
        let (role, other) = (asker.role(), role_of_user(schema, user));
        let refused = |message: String| Err(SqlError::new("42501", message));
        if has_role && schema.is_superuser(other) && !schema.is_superuser(role) {
            let action = if ends { "terminate superuser process" } else { "cancel superuser query" };
            return refused(format!("must be a superuser to {action}"));
        }
        if has_role
            && (schema.has_privileges_of(role, other) || schema.has_predefined(role, "pg_signal_backend"))
        {
            return Ok(());
        }
        let verb = if ends { "terminated" } else { "canceled" };
        refused(format!(
            "must be a member of the role whose process is being {verb} or member of pg_signal_backend"
        ))
    }

    /// Returns the rows of `pg_stat_activity`. A role sees only the statements of its own sessions and of
    /// those of its members.
    fn activity(&self, server: &Server) -> Vec<Vec<LiveValue>> {
        let (all, role) = (server.connections.all(), hold(&self.lent).settings.identity().role());
        server.pool().database().with_definitions(|schema| {
            let row = |connection: &Arc<crate::attendance::ConnectionControl>| {
                let user_role = role_of_user(schema, connection.presence.user());
                let is_visible = schema.has_privileges_of(role, user_role)
                    || schema.has_predefined(role, "pg_read_all_stats");
                connection.presence.row(DATABASE, user_role, is_visible)
            };
            all.iter().map(row).collect()
        })
    }

    fn locks(&self, server: &Server) -> Vec<Vec<LiveValue>> {
        let row = |lock: crate::advisory::LockEntry| {
            let null = || LiveValue::Null;
            let mode = if lock.is_shared { "ShareLock" } else { "ExclusiveLock" };
            let (class, object, kind) = lock.key.parts();
            vec![
                "advisory".into(),
                DATABASE.into(),
                null(),
                null(),
                null(),
                null(),
                null(),
                class.into(),
                object.into(),
                kind.into(),
                null(),
                i64::from(lock.owner).into(),
                mode.into(),
                lock.is_granted.into(),
                false.into(),
                null(),
            ]
        };
        server.advisory().shown().into_iter().map(row).collect()
    }
}

impl Surroundings for SessionView {
    fn rows(&self, relation: LiveRelation) -> Option<Vec<Vec<LiveValue>>> {
        match relation {
            LiveRelation::Settings => Some(hold(&self.lent).settings.rows()),
            LiveRelation::Activity => {
                Some(self.server.upgrade().map(|server| self.activity(&server)).unwrap_or_default())
            }
            LiveRelation::Locks => {
                Some(self.server.upgrade().map(|server| self.locks(&server)).unwrap_or_default())
            }
            _ => None,
        }
    }

    fn value(&self, function: LiveFunction, arguments: &[LiveValue]) -> Option<Result<LiveValue, SqlError>> {
        let asking = &self.asking;
        Some(Ok(match function {
            LiveFunction::CurrentSetting => return Some(self.setting(arguments)),
            LiveFunction::SetConfig => return Some(self.set_config(arguments)),
            LiveFunction::CancelBackend => return Some(self.signal(arguments, false)),
            LiveFunction::TerminateBackend => return Some(self.signal(arguments, true)),
            LiveFunction::SessionUser => {
                let session = hold(&self.lent).settings.identity().session();
                let name = |schema: &Schema| schema.role_name(session).to_owned();
                self.server.upgrade().map(|server| server.pool().database().with_definitions(name)).into()
            }
            LiveFunction::Notify => {
                let server = self.server.upgrade()?;
                return server.channels.check_room().err().map(Err);
            }
            LiveFunction::HidesPublic => hold(&self.lent).settings.hides_public().into(),
            LiveFunction::BackendPid => i64::from(asking.pid).into(),
            LiveFunction::CurrentTransaction => self.transaction().into(),
            LiveFunction::StartTime => self.server.upgrade().map(|server| server.started_us).into(),
            LiveFunction::ClientAddress => {
                asking.client.map(|address| address.ip().to_canonical().to_string()).into()
            }
            LiveFunction::ClientPort => asking.client.map(|address| i64::from(address.port())).into(),
            LiveFunction::ServerAddress => {
                asking.server.map(|address| address.ip().to_canonical().to_string()).into()
            }
            LiveFunction::ServerPort => asking.server.map(|address| i64::from(address.port())).into(),
            _ => return None,
        }))
    }

    fn keep_settings(&self) {
        let mut lent = hold(&self.lent);
        let mark = lent.settings.mark();
        lent.kept.push(mark);
    }

    fn undo_settings(&self, count: usize) {
        let mut lent = hold(&self.lent);
        let StatementSettings { settings, kept, .. } = &mut *lent;
        if let Some(mark) = kept.get(count) {
            settings.go_back_to(mark);
        }
        kept.truncate(count);
    }
}
