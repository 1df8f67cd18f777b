//! The server: any PostgreSQL client talks to it.
//!
//! Not here: what statements do (`reprise`), the form of the protocol's messages and SCRAM (pgwire).

mod admission;
mod attendance;
mod client;
mod connection;
mod copy;
mod http;
mod link;
mod metrics;
mod password;
mod plans;
mod pool;
mod settings;
mod shape;
mod startup;
mod tls;
mod wire;

pub use http::MOST_CONNECTIONS as HTTP_CONNECTIONS;
pub use link::Decoder;
pub use password::{Users, UsersError, verifier};
pub use tls::Tls;

use admission::Admission;
use metrics::Metrics;
use pgwire::error::ErrorInfo;
use pgwire::messages::response::ErrorResponse;
use plans::Plans;
use pool::Pool;
use reprise::Database;
use reprise::rooms::procedure::SqlError;
use startup::Connections;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};

/// What clients are told that this is.
pub(crate) const VERSION: &str = "15.0 (Reprise)";
/// A client that has not shown who it is after this long is sent away, where nothing else is asked for.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a server that stops looks whether its clients have gone.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// How clients are served.
#[derive(Clone, Default)]
pub struct Options {
    /// Who may come, and what proves it; everybody where there is none.
    pub users: Option<Users>,
    /// Encrypts the connections whose clients ask for it.
    pub tls: Option<Tls>,
    /// Whether clients of other machines have to encrypt their connections.
    pub requires_tls: bool,
    /// Most connections of clients that have shown who they are; 0 is no limit.
    pub max_connections: usize,
    /// Descriptors that connections may take, those of clients that have not shown who they are among them; 0
    /// is no limit.
    pub descriptors: usize,
    /// A client that has not shown who it is after this long is sent away; 10 seconds by default.
    pub startup_timeout: Option<Duration>,
    /// A statement that takes longer is cancelled; none by default.
    pub statement_timeout: Option<Duration>,
    /// A client that leaves a transaction idle for longer is sent away; none by default.
    pub idle_in_transaction_timeout: Option<Duration>,
    /// Whether statements are counted and timed, for `Server::serve_http`.
    pub with_metrics: bool,
    /// The folder in which clients may make backups; none by default.
    pub backups: Option<PathBuf>,
    /// What everybody is told at the beginning.
    pub notice: Option<String>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("max_connections", &self.max_connections).finish_non_exhaustive()
    }
}

/// A database that is served, or will be once it is recovered.
pub struct Server {
    pool: OnceLock<Pool>,
    pub(crate) plans: Plans,
    pub(crate) options: Options,
    /// Says how far the recovery is.
    recovering: Box<dyn Fn() -> String + Send + Sync>,
    pub(crate) connections: Connections,
    pub(crate) metrics: Option<Metrics>,
    admission: Arc<Admission>,
    /// Whether the server stops.
    is_stopping: AtomicBool,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Server {
    /// A server whose database is not open yet: until `open`, clients are told so (57P03) and what
    /// `recovering` says.
    pub fn new(options: Options, recovering: impl Fn() -> String + Send + Sync + 'static) -> Arc<Self> {
        let metrics = options.with_metrics.then(|| Metrics::new().expect("the bounds of times are some"));
        Arc::new(Self {
            metrics,
            pool: OnceLock::new(),
            plans: Plans::default(),
            admission: Admission::new(options.max_connections, options.descriptors),
            is_stopping: AtomicBool::new(false),
            options,
            recovering: Box::new(recovering),
            connections: Connections::default(),
        })
    }

    /// From now on clients are served. What is served already stays.
    pub fn open(&self, database: Database) {
        self.pool.get_or_init(|| Pool::new(database));
    }

    /// Answers clients on a listener until the future is dropped.
    ///
    /// # Errors
    /// The listener fails.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) -> io::Result<()> {
        attendance::begin(&self);
        loop {
            let (socket, client) = match listener.accept().await {
                Ok(accepted) => accepted,
                // The client has gone again, or there are no file descriptors left for now.
                Err(error) if error.kind() != io::ErrorKind::InvalidInput => {
                    tracing::debug!(%error, "a connection can't be accepted: {error}");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let server = Arc::clone(&self);
            tokio::spawn(async move {
                server.metrics.as_ref().inspect(|own| own.connected());
                // A connection that breaks concerns nobody else: its transaction is rolled back as it goes.
                if let Err(error) = answer(socket, &server).await {
                    tracing::info!(%client, %error, "{client}: {error}");
                }
            });
        }
    }

    /// Sessions; a client that comes before there are any is sent away as it is greeted.
    pub(crate) fn pool(&self) -> &Pool {
        self.pool.get().expect("a client is greeted by a database that is open")
    }

    /// Stops: statements that run are cancelled, what has committed is acknowledged once it is durable, and
    /// each client is told (57P01) before its connection is closed. Returns whether all clients have gone
    /// within a time.
    pub async fn stop(&self, patience: Duration) -> bool {
        self.is_stopping.store(true, Ordering::SeqCst);
        let begun = Instant::now();
        while self.admission.clients() > 0 {
            if begun.elapsed() >= patience {
                return false;
            }
            // One that was about to begin when the others ended ends now.
            self.connections.end_all();
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        true
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    /// What is said to a client that comes before the database is open, or while the server stops.
    pub(crate) fn is_starting(&self) -> Option<SqlError> {
        if self.is_stopping() {
            return Some(SqlError::new("57P03", "the database system is shutting down"));
        }
        let starting = || {
            let error = SqlError::new("57P03", "the database system is starting up");
            error.with_detail((self.recovering)())
        };
        self.pool.get().is_none().then(starting)
    }

    /// The database, once it is open.
    pub(crate) fn database(&self) -> Option<&Database> {
        self.pool.get().map(Pool::database)
    }

    /// How many clients there are.
    pub(crate) fn connected(&self) -> usize {
        self.admission.clients()
    }

    /// The limit of clients, where it is reached.
    pub(crate) fn is_full(&self) -> Option<usize> {
        self.admission.is_full()
    }
}

async fn answer(socket: TcpStream, server: &Arc<Server>) -> io::Result<()> {
    let stranger = server.admission.meet();
    let timeout = server.options.startup_timeout.unwrap_or(STARTUP_TIMEOUT);
    let greeted = tokio::select! {
        greeted = tokio::time::timeout(timeout, startup::greet(socket, server, &stranger)) => greeted,
        () = stranger.must_go() => {
            // Worth no message where anybody can cause many.
            tracing::debug!("too many clients have not shown who they are: the oldest is sent away");
            return Ok(());
        }
    };
    let greeted = greeted.map_err(io::Error::other)??;
    drop(stranger);
    match greeted {
        Some(greeted) => connection::run(greeted, Arc::clone(server)).await,
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

/// Locks a mutex. A holder that has panicked ends its own connection alone.
pub(crate) fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An error that ends the connection.
pub(crate) fn fatal(error: &SqlError) -> ErrorInfo {
    info("FATAL", error)
}

pub(crate) fn notice(message: &str) -> ErrorInfo {
    info("NOTICE", &SqlError::new("00000", message))
}

/// An error as the client sees it; `text` is what it sent.
pub(crate) fn refused(error: &reprise::Error, text: &str) -> ErrorResponse {
    let mut response = ErrorResponse::from(error_info(error, text));
    if let reprise::Error::Sql(SqlError { object: Some(object), .. }) = error {
        let names = [&object.schema, &object.table, &object.column, &object.constraint];
        let fields = b"stcn".iter().copied().zip(names).filter(|(_, name)| !name.is_empty());
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
        other => info("ERROR", &SqlError::new(other.sqlstate(), other.to_string())),
    }
}

/// What a RAISE said that is no error.
pub(crate) fn told(error: &SqlError) -> ErrorInfo {
    info("NOTICE", error)
}
