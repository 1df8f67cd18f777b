//! Answers at the addresses of the page: the page, the state as JSON, drawings of graphs.

use super::graphs::{draw, graphs_of};
use super::guard::guard;
use super::state::{PageVersion, state};
use crate::{Server, hold};
use axum::extract::State;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Router, middleware, routing::get};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest;
use std::sync::{Arc, LazyLock};

pub(crate) use super::guard::Peer;

const HTML: &str = include_str!("index.html");

/// The policy of the page: its own style and script, by their hashes, and data of this server.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = |tag: &str| {
        let (_, inside) = HTML.split_once(&format!("<{tag}>")).expect("the page has the tag");
        let (inside, _) = inside.split_once(&format!("</{tag}>")).expect("the tag is closed");
        STANDARD.encode(digest::digest(&digest::SHA256, inside.as_bytes()))
    };
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; \
         img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash("script"),
        hash("style")
    );
    HeaderValue::from_str(&policy).expect("the policy is ASCII")
});

/// Returns the addresses of the page, behind its guard.
pub(crate) fn routes(server: &Arc<Server>) -> Router<Arc<Server>> {
    Router::new()
        .route("/", get(page))
        .route("/state.json", get(state_json))
        .route("/graph.svg", get(graph))
        .route_layer(middleware::from_fn_with_state(Arc::clone(server), guard))
}

async fn page() -> impl IntoResponse {
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    ([(CONTENT_TYPE, html), (CONTENT_SECURITY_POLICY, POLICY.clone())], HTML)
}

/// Returns a number in the query of an address.
fn number(query: Option<&str>, name: &str) -> Option<u64> {
    let mut pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name)?.1.parse().ok()
}

async fn state_json(State(server): State<Arc<Server>>, uri: Uri) -> Response {
    let known = PageVersion {
        sample: number(uri.query(), "sample").unwrap_or_default(),
        definitions: number(uri.query(), "definitions"),
    };
    match serde_json::to_string(&state(&server, &known)) {
        Ok(json) => ([(CONTENT_TYPE, "application/json")], json).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn graph(State(server): State<Arc<Server>>, uri: Uri) -> Response {
    let procedure = number(uri.query(), "procedure").map(|id| u32::try_from(id).unwrap_or(u32::MAX));
    // The analysis and the layout take time.
    let drawn = tokio::task::spawn_blocking(move || {
        let (definitions, procedures) = server.database().ok_or("the server starts\n")?.procedures();
        let kept = hold(&server.page.graphs).kept(definitions);
        let graphs = kept.unwrap_or_else(|| {
            let graphs = graphs_of(&procedures);
            hold(&server.page.graphs).keep(definitions, &graphs);
            graphs
        });
        draw(&graphs, procedure)
    });
    match drawn.await {
        Ok(Ok(svg)) => ([(CONTENT_TYPE, "image/svg+xml")], svg).into_response(),
        Ok(Err(cause)) => (StatusCode::NOT_FOUND, cause).into_response(),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "the drawing failed\n").into_response(),
    }
}
