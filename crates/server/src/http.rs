//! The server's state over HTTP: `/metrics` for Prometheus, `/health` (the log works), `/ready` (clients are served).

use crate::Server;
use axum::extract::State;
use axum::http::{StatusCode, header::CONTENT_TYPE};
use axum::response::IntoResponse;
use axum::{Router, routing::get};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// How often what was recorded is summed up.
const SUM_UP_EVERY: Duration = Duration::from_secs(5);

impl Server {
    /// Answers on a listener until the future is dropped. Only a server with metrics has any to show.
    ///
    /// # Errors
    /// The listener fails.
    pub async fn serve_http(self: Arc<Self>, listener: TcpListener) -> io::Result<()> {
        let server = Arc::clone(&self);
        let summing = async move {
            loop {
                tokio::time::sleep(SUM_UP_EVERY).await;
                server.metrics.as_ref().inspect(|own| own.sum_up());
            }
        };
        let router = Router::new()
            .route("/metrics", get(metrics))
            .route("/health", get(health))
            .route("/ready", get(ready))
            .with_state(self);
        tokio::select! {
            served = axum::serve(listener, router) => served,
            () = summing => Ok(()),
        }
    }
}

async fn metrics(State(server): State<Arc<Server>>) -> impl IntoResponse {
    let statistics = server.database().map(|database| database.statistics());
    let text = server.metrics.as_ref().map(|own| own.render(server.connected(), statistics.as_ref()));
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
