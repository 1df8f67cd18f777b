//! The server's state over HTTP: `/metrics` for Prometheus, `/health` (the log works), `/ready` (clients are
//! served), and a page for operators (`page`).

use crate::Server;
use crate::hold;
use crate::page::Totals;
use crate::page::answers::{Peer, routes};
use axum::extract::{Extension, State};
use axum::http::{StatusCode, header::CONTENT_TYPE};
use axum::response::IntoResponse;
use axum::{Router, routing::get};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use reprise::Database;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Time between two samples of the page's curves.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// Most connections at one time.
pub const MOST_CONNECTIONS: usize = 32;
/// The longest time from the end of a request to the complete header of the next one.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest duration of a connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// The pause after a connection could not be accepted.
const ACCEPT_AGAIN: Duration = Duration::from_millis(10);

impl Server {
    /// Serves a listener until the future is dropped. Without `Options::with_metrics`, `/metrics` is empty,
    /// and the page has no curves.
    ///
    /// # Errors
    /// The listener fails.
    pub async fn serve_http(self: Arc<Self>, listener: TcpListener) -> io::Result<()> {
        let server = Arc::clone(&self);
        let sampling = async move {
            loop {
                server.sample();
                tokio::time::sleep(SAMPLE_EVERY).await;
            }
        };
        let router = Router::new()
            .route("/metrics", get(metrics))
            .route("/health", get(health))
            .route("/ready", get(ready))
            .merge(routes(&self))
            .with_state(self);
        tokio::select! {
            served = accept(listener, router) => served,
            () = sampling => Ok(()),
        }
    }

    /// Adds a sample to the curves of the page.
    fn sample(&self) {
        let Some(metrics) = &self.metrics else { return };
        let statistics = self.database().map(Database::statistics).unwrap_or_default();
        hold(&self.page.history).add(Totals {
            at: Instant::now(),
            at_ms: catalog::unix_ms(catalog::now_us()),
            counts: metrics.counts(),
            log_bytes: statistics.log.file_bytes,
            log_batches: statistics.log.batches,
            clients: self.connected(),
            memory_bytes: statistics.memory_bytes,
        });
    }
}

/// Serves connections. At the limit, the oldest connection is closed for a new one.
async fn accept(listener: TcpListener, router: Router) -> io::Result<()> {
    let mut connections = VecDeque::<JoinHandle<()>>::new();
    loop {
        let Ok((socket, peer)) = listener.accept().await else {
            // The client has disconnected again, or no file descriptor is free.
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone().layer(Extension(Peer(peer))));
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
        let connection = http.serve_connection(TokioIo::new(socket), service);
        connections.retain(|connection| !connection.is_finished());
        if connections.len() >= MOST_CONNECTIONS {
            connections.pop_front().inspect(JoinHandle::abort);
        }
        connections.push_back(tokio::spawn(async move {
            // An error or a timeout ends this connection alone.
            let _ = tokio::time::timeout(CONNECTION_TIMEOUT, connection).await;
        }));
    }
}

async fn metrics(State(server): State<Arc<Server>>) -> impl IntoResponse {
    let database = server.database();
    let text = server.metrics.as_ref().map(|metrics| metrics.render(server.connected(), database));
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text.unwrap_or_default())
}

async fn health(State(server): State<Arc<Server>>) -> (StatusCode, String) {
    match server.database().map(|database| database.check_log()) {
        Some(Err(error)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
        _ => (StatusCode::OK, "ok\n".into()),
    }
}

async fn ready(State(server): State<Arc<Server>>) -> (StatusCode, String) {
    match server.is_starting() {
        Some(error) => {
            let text = format!("{}: {}\n", error.message, error.detail.unwrap_or_default());
            (StatusCode::SERVICE_UNAVAILABLE, text)
        }
        None => (StatusCode::OK, "ready\n".into()),
    }
}
