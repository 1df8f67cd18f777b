//! The server: any PostgreSQL client talks to it.
//!
//! Not here: what statements do (`reprise`), the form of the protocol's messages and SCRAM (pgwire).

mod client;
mod connection;
mod copy;
mod link;
mod password;
mod pool;
mod settings;
mod startup;
mod wire;

pub use password::Password;
pub use pgwire::tokio::TlsAcceptor;

use pgwire::error::ErrorInfo;
use pool::Pool;
use reprise::Database;
use reprise::rooms::procedure::SqlError;
use startup::Connections;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// What clients are told that this is.
pub(crate) const VERSION: &str = "15.0 (Reprise)";
/// A client that has not said who it is after so long is sent away.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(60);

/// How clients are served.
#[derive(Clone, Default)]
pub struct Options {
    /// Who may come, and what proves it; everybody where there is none.
    pub users: Option<HashMap<String, Password>>,
    /// Encrypts connections.
    pub tls: Option<TlsAcceptor>,
    /// The certificate of that, as PEM, to bind passwords to it.
    pub certificate: Option<Vec<u8>>,
    /// Most connections at a time; 0 is no limit.
    pub max_connections: usize,
    /// A statement that takes longer is cancelled; none by default.
    pub statement_timeout: Option<Duration>,
    /// A client that leaves a transaction idle for longer is sent away; none by default.
    pub idle_in_transaction_timeout: Option<Duration>,
    /// What everybody is told at the beginning.
    pub notice: Option<String>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("max_connections", &self.max_connections).finish_non_exhaustive()
    }
}

/// A database that is served.
pub(crate) struct Server {
    pub(crate) pool: Pool,
    pub(crate) options: Options,
    pub(crate) connections: Connections,
    connected: AtomicUsize,
}

impl Server {
    /// The limit, where it is reached.
    pub(crate) fn is_full(&self) -> Option<usize> {
        let limit = self.options.max_connections;
        (limit > 0 && self.connected.load(Ordering::Relaxed) > limit).then_some(limit)
    }
}

/// Counts a connection for as long as it is there.
struct Counted(Arc<Server>);

impl Counted {
    fn new(server: &Arc<Server>) -> Self {
        server.connected.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(server))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connected.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers clients on a listener until the future is dropped.
///
/// # Errors
/// The listener fails.
pub async fn serve(database: Database, listener: TcpListener, options: Options) -> io::Result<()> {
    let server = Arc::new(Server {
        pool: Pool::new(database),
        options,
        connections: Connections::default(),
        connected: AtomicUsize::new(0),
    });
    loop {
        let (socket, _) = match listener.accept().await {
            Ok(accepted) => accepted,
            // The client has gone again, or there are no file descriptors left for now.
            Err(error) if error.kind() != io::ErrorKind::InvalidInput => {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
            Err(error) => return Err(error),
        };
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            let _counted = Counted::new(&server);
            // A connection that breaks concerns nobody else: its transaction is rolled back as it goes.
            let _ = answer(socket, &server).await;
        });
    }
}

async fn answer(socket: TcpStream, server: &Arc<Server>) -> io::Result<()> {
    let greeted = tokio::time::timeout(STARTUP_TIMEOUT, startup::greet(socket, server)).await;
    match greeted.map_err(io::Error::other)?? {
        Some(greeted) => connection::run(greeted, Arc::clone(server)).await,
        None => Ok(()),
    }
}

fn info(severity: &str, error: &SqlError) -> ErrorInfo {
    let mut info = ErrorInfo::new(severity.into(), error.sqlstate.clone(), error.message.clone());
    info.detail.clone_from(&error.detail);
    info.hint.clone_from(&error.hint);
    info.severity_nonlocalized = Some(severity.into());
    info
}

pub(crate) fn fatal(sqlstate: &str, message: &str) -> ErrorInfo {
    info("FATAL", &SqlError::new(sqlstate, message))
}

pub(crate) fn notice(message: &str) -> ErrorInfo {
    info("NOTICE", &SqlError::new("00000", message))
}

/// An error as the client sees it; `text` is what it sent.
pub(crate) fn refused(error: &reprise::Error, text: &str) -> ErrorInfo {
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
