//! The server: it speaks the PostgreSQL protocol with any client.
//!
//! Not here: the execution of statements (`reprise`); the encoding of messages, and SCRAM (pgwire).

mod admission;
mod advisory;
mod attendance;
mod client;
mod connection;
mod copy;
mod http;
mod link;
mod listener;
mod login;
mod metrics;
mod notifications;
mod page;
mod password;
mod plans;
mod pool;
mod presence;
mod settings;
mod shape;
mod startup;
mod surroundings;
mod tls;
mod wire;

pub use http::MOST_CONNECTIONS as HTTP_CONNECTIONS;
pub use link::Decoder;
pub use listener::{Listener, SocketFile};
pub use password::{Users, UsersError};
pub use reprise::verifier;
pub use tls::Tls;

use admission::{Admission, Stranger};
use advisory::AdvisoryLocks;
use listener::Connection;
use metrics::Metrics;
use notifications::Channels;
use page::Page;
use pgwire::error::ErrorInfo;
use pgwire::messages::response::{ErrorResponse, NoticeResponse};
use plans::Plans;
use pool::Pool;
use reprise::{Database, Notice, Progress, Severity, SqlError};
use startup::Connections;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The `server_version` that clients read.
pub(crate) const VERSION: &str = "15.0 (Reprise)";
/// The default of `Options::startup_timeout`.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two checks of a stopping server whether clients are still connected.
const STOP_POLL: Duration = Duration::from_millis(5);

/// Settings of a server.
#[derive(Clone, Default)]
pub struct Options {
    /// The users and their passwords; `None` admits every client without a password.
    pub users: Option<Users>,
    /// The certificate for encrypted connections; `None` refuses encryption.
    pub tls: Option<Tls>,
    /// Whether clients of other machines must encrypt their connections.
    pub requires_tls: bool,
    /// Most connections of authenticated clients; 0 is no limit.
    pub max_connections: usize,
    /// Most file descriptors of all connections, authenticated or not; 0 is no limit.
    pub descriptors: usize,
    /// Time that a client has for its authentication before it is disconnected; `None` is 10 seconds.
    pub startup_timeout: Option<Duration>,
    /// Default of `statement_timeout`: a longer statement is cancelled. `None` is no limit.
    pub statement_timeout: Option<Duration>,
    /// Default of `idle_in_transaction_session_timeout`: a client that leaves a transaction idle for longer
    /// is disconnected. `None` is no limit.
    pub idle_in_transaction_timeout: Option<Duration>,
    /// Whether statements are counted and timed, for `Server::serve_http`.
    pub with_metrics: bool,
    /// Whether clients of other machines may send passwords over HTTP, which does not encrypt them, and see
    /// the page. Without a list of users they never see it.
    pub admits_unencrypted_passwords: bool,
    /// The folder in which clients may write backups; `None` refuses them.
    pub backups: Option<PathBuf>,
    /// A notice that each client receives when it connects.
    pub notice: Option<String>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("max_connections", &self.max_connections).finish_non_exhaustive()
    }
}

/// A server, of a database that is open or still recovering.
pub struct Server {
    pool: OnceLock<Pool>,
    pub(crate) plans: Plans,
    pub(crate) options: Options,
    /// The progress of the recovery.
    progress: Arc<Progress>,
    pub(crate) connections: Connections,
    pub(crate) channels: Arc<Channels>,
    pub(crate) metrics: Option<Metrics>,
    pub(crate) page: Page,
    admission: Arc<Admission>,
    advisory: Arc<AdvisoryLocks>,
    /// Whether the thread of `attendance` runs.
    attendance: Once,
    is_stopping: AtomicBool,
    /// When the server was started, in microseconds.
    pub(crate) started_us: i64,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Server {
    pub(crate) fn advisory(&self) -> &Arc<AdvisoryLocks> {
        &self.advisory
    }

    /// Returns a server whose database is not open yet. Until `open`, clients get the error 57P03 with the
    /// progress of the recovery.
    pub fn new(options: Options, progress: Arc<Progress>) -> Arc<Self> {
        let metrics = options.with_metrics.then(|| Metrics::new().expect("the list of bounds is not empty"));
        Arc::new(Self {
            metrics,
            pool: OnceLock::new(),
            plans: Plans::default(),
            admission: Admission::new(options.max_connections, options.descriptors),
            advisory: Arc::default(),
            attendance: Once::new(),
            is_stopping: AtomicBool::new(false),
            started_us: catalog::now_us(),
            options,
            progress,
            page: Page::default(),
            connections: Connections::default(),
            channels: Arc::default(),
        })
    }

    /// Begins to serve clients with a database. A second call has no effect.
    pub fn open(&self, database: Database) {
        self.pool.get_or_init(|| Pool::new(database));
    }

    /// Serves clients of a listener until the future is dropped.
    ///
    /// # Errors
    /// The listener fails.
    pub async fn serve(self: Arc<Self>, listener: impl Into<Listener>) -> io::Result<()> {
        let listener = listener.into();
        self.attendance.call_once(|| attendance::begin(&self));
        loop {
            let connection = match listener.accept().await {
                Ok(connection) => connection,
                // The client has disconnected again, or no file descriptor is free.
                Err(error) if error.kind() != io::ErrorKind::InvalidInput => {
                    tracing::debug!(%error, "cannot accept a connection: {error}");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let server = Arc::clone(&self);
            let stranger = server.admission.meet().await;
            tokio::spawn(async move {
                server.metrics.as_ref().inspect(|metrics| metrics.connected());
                let client = connection.client();
                // An error ends this connection alone; dropping the connection rolls its transaction back.
                if let Err(error) = answer(connection, stranger, &server).await {
                    tracing::info!(%client, %error, "{client}: {error}");
                }
            });
        }
    }

    /// Returns the sessions of the database. Only authenticated clients use them, and these are admitted
    /// after `open`.
    pub(crate) fn pool(&self) -> &Pool {
        self.pool.get().expect("clients are admitted only while the database is open")
    }

    /// Stops the server. Cancels running statements, acknowledges committed transactions once they are
    /// durable, and sends each client the error 57P01 before its connection closes. Returns whether all
    /// connections of authenticated clients have closed within `timeout`.
    pub async fn stop(&self, timeout: Duration) -> bool {
        self.is_stopping.store(true, Ordering::SeqCst);
        let begun = Instant::now();
        while self.admission.clients() > 0 {
            if begun.elapsed() >= timeout {
                return false;
            }
            // Repeated, because a connection may have begun after the last call.
            self.connections.end_all();
            tokio::time::sleep(STOP_POLL).await;
        }
        true
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    /// Returns the error for new clients: the database is not open yet, or the server stops. `None`: clients
    /// are served.
    pub(crate) fn is_starting(&self) -> Option<SqlError> {
        if self.is_stopping() {
            return Some(SqlError::new("57P03", "the database system is shutting down"));
        }
        let starting = || {
            let error = SqlError::new("57P03", "the database system is starting up");
            let (stage, done, total) = self.progress.now();
            error.with_detail(format!("{}: {done} of {total}", stage.doing()))
        };
        self.pool.get().is_none().then(starting)
    }

    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Returns the database; `None` before `open`.
    pub(crate) fn database(&self) -> Option<&Database> {
        self.pool.get().map(Pool::database)
    }

    /// Returns the number of authenticated clients.
    pub(crate) fn connected(&self) -> usize {
        self.admission.clients()
    }

    /// Returns the limit of authenticated clients if it is reached.
    pub(crate) fn is_full(&self) -> Option<usize> {
        self.admission.is_full()
    }
}

/// Answers a client until it leaves. Its socket is closed before `stranger` is dropped.
async fn answer(connection: Connection, stranger: Stranger, server: &Arc<Server>) -> io::Result<()> {
    let timeout = server.options.startup_timeout.unwrap_or(STARTUP_TIMEOUT);
    let handshake = startup::establish(connection, server, &stranger);
    let established = tokio::select! {
        established = tokio::time::timeout(timeout, handshake) => established,
        () = stranger.must_go() => {
            // A debug message only, because any client can cause many of them.
            tracing::debug!("disconnects the oldest unauthenticated client: there are too many");
            return Ok(());
        }
    };
    let established = established.map_err(io::Error::other)??;
    drop(stranger);
    match established {
        Some(established) => connection::run(established, Arc::clone(server)).await,
        None => Ok(()),
    }
}

fn info(severity: &str, error: &SqlError) -> ErrorInfo {
    let mut info = ErrorInfo::new(severity.into(), error.sqlstate.clone(), error.message.clone());
    info.detail.clone_from(&error.detail);
    info.hint = error.hint.as_deref().map(str::to_owned);
    info.severity_nonlocalized = Some(severity.into());
    info
}

/// Locks a mutex, also if an earlier holder has panicked: a panic ends only the holder's connection.
pub(crate) fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the message of an error that ends the connection.
pub(crate) fn fatal(error: &SqlError) -> ErrorInfo {
    info("FATAL", error)
}

/// Returns the message of a notice.
pub(crate) fn notice_response(notice: &Notice) -> NoticeResponse {
    let severity = match notice.severity {
        Severity::Debug => "DEBUG",
        Severity::Log => "LOG",
        Severity::Info => "INFO",
        Severity::Notice => "NOTICE",
        Severity::Warning | Severity::Exception => "WARNING",
    };
    NoticeResponse::from(info(severity, &notice.content))
}

/// Returns the message of an error of a statement. `text` is the client's query, in which the error may have
/// a position.
pub(crate) fn error_response(error: &reprise::Error, text: &str) -> ErrorResponse {
    let mut response = ErrorResponse::from(error_info(error, text));
    if let Some(object) = error.object() {
        let fields = [
            (b's', &object.schema),
            (b't', &object.table),
            (b'c', &object.column),
            (b'd', &object.datatype),
            (b'n', &object.constraint),
        ];
        let fields = fields.into_iter().filter(|(_, name)| !name.is_empty());
        response.fields.extend(fields.map(|(field, name)| (field, name.clone())));
    }
    response
}

fn error_info(error: &reprise::Error, text: &str) -> ErrorInfo {
    match error {
        reprise::Error::Sql(error) => info("ERROR", error),
        reprise::Error::Statement(error) => {
            let mut info = info("ERROR", &error.error);
            let before = text.split_inclusive('\n').take(error.line.saturating_sub(1) as usize);
            let position = before.map(|line| line.chars().count()).sum::<usize>() + error.column as usize;
            info.position = Some(position.to_string());
            info
        }
        other => {
            let mut info = info("ERROR", &SqlError::new(other.sqlstate(), other.to_string()));
            info.hint = other.hint().map(str::to_owned);
            info
        }
    }
}
