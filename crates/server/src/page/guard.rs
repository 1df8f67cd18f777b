//! Who may see the page, and the headers of all that belongs to it.
//!
//! Clients of other machines need a password, and the configuration must allow them to send it unencrypted.
//! Without a list of users, the page is open to this machine, as the SQL port is. A web page of another site
//! could then read it under a host name that resolves to this machine (DNS rebinding); so the request must
//! name an IP address, or `localhost`.

use super::passwords::credentials;
use crate::Server;
use axum::extract::{Extension, Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, REFERRER_POLICY, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use sql::Schema;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The Content-Security-Policy of all answers except the page, which has a wider one.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

/// The address of a client.
#[derive(Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Returns whether the `Host` of a request is an IP address, or `localhost`.
fn names_an_address(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else { return false };
    // An IPv6 address stands in brackets, so a colon outside of them begins the port.
    let name = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']').map_or("", |(name, _)| name),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// Returns whether a user is a role without SUPERUSER. During recovery no role is restricted: the roles are
/// not loaded yet, and no client runs statements that the page could show.
fn is_restricted(server: &Server, name: &str) -> bool {
    let is_plain = |schema: &Schema| schema.role(name).is_some_and(|(id, _)| !schema.is_superuser(id));
    server.database().is_some_and(|database| database.with_definitions(is_plain))
}

/// Returns the answer to a client that may not see the page.
async fn refusal(server: &Server, peer: SocketAddr, headers: &HeaderMap) -> Option<Response> {
    let forbidden = |text: &'static str| Some((StatusCode::FORBIDDEN, text).into_response());
    let is_of_this_machine = peer.ip().to_canonical().is_loopback();
    let Some(users) = &server.options.users else {
        return match is_of_this_machine && names_an_address(headers) {
            true => None,
            false => forbidden("without a list of users, the page is for clients of this machine\n"),
        };
    };
    if !is_of_this_machine && !server.options.admits_unencrypted_passwords {
        return forbidden("passwords from other machines would not be encrypted\n");
    }
    let header = headers.get(AUTHORIZATION).and_then(|header| header.to_str().ok());
    if server.page.passwords.admits(users, header).await {
        let name = header.and_then(credentials).map(|(name, _)| name).unwrap_or_default();
        return match is_restricted(server, &name) {
            true => forbidden(
                "permission denied: the page shows the statements of all clients; log in as a superuser\n",
            ),
            false => None,
        };
    }
    let challenge = HeaderValue::from_static("Basic realm=\"Reprise\", charset=\"UTF-8\"");
    let answer = (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, challenge)], "a password is needed\n");
    Some(answer.into_response())
}

/// Answers a request for the page, if its client may see it.
pub(crate) async fn guard(
    State(server): State<Arc<Server>>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match refusal(&server, peer, request.headers()).await {
        Some(refusal) => refusal,
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(POLICY));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_other_machines_need_a_password_and_leave() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let status = |peer: &str, has_users: bool, admits_unencrypted_passwords: bool| {
            let users = has_users.then(|| crate::Users::parse("").unwrap());
            let options = crate::Options { users, admits_unencrypted_passwords, ..Default::default() };
            let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost"))]);
            let server = Server::new(options, Arc::default());
            let refusal = runtime.block_on(refusal(&server, peer.parse().unwrap(), &headers));
            refusal.map(|answer| answer.status().as_u16())
        };
        for local in ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!([false, true].map(|leave| status(local, false, leave)), [None, None], "{local}");
            assert_eq!(status(local, true, false), Some(401), "{local}");
        }
        for other in ["192.0.2.1:1", "[2001:db8::1]:1"] {
            assert_eq!([false, true].map(|leave| status(other, false, leave)), [Some(403); 2], "{other}");
            assert_eq!(
                [false, true].map(|leave| status(other, true, leave)),
                [Some(403), Some(401)],
                "{other}"
            );
        }
    }

    #[test]
    fn requests_name_an_address() {
        let named = |host: &'static str| {
            names_an_address(&HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]))
        };
        for address in ["127.0.0.1", "127.0.0.1:9090", "localhost", "LOCALHOST:1", "[::1]:9090", "[::1]"] {
            assert!(named(address), "{address}");
        }
        for name in ["", "example.com", "example.com:9090", "localhost.example.com", "[example.com]"] {
            assert!(!named(name), "{name}");
        }
        assert!(!names_an_address(&HeaderMap::new()));
    }
}
