//! The begin of a connection: TLS, authentication, the server's parameters; and cancel requests.

use crate::admission::{CountedClient, Stranger};
use crate::attendance::ConnectionControl;
use crate::hold;
use crate::link::Link;
use crate::listener::{Connection, Peer};
use crate::login::{Login, password_of};
use crate::presence::Presence;
use crate::shape::{is_encryption_request, is_sasl_initial};
use crate::tls::Tls;
use crate::{Server, fatal, notice_response};
use bytes::BytesMut;
use pgwire::api::auth::sasl::scram::ScramServerAuth;
use pgwire::messages::PgWireBackendMessage as Message;
use pgwire::messages::PgWireFrontendMessage;
use pgwire::messages::response::{ErrorResponse, ReadyForQuery, TransactionStatus};
use pgwire::messages::startup::{
    Authentication, BackendKeyData, NegotiateProtocolVersion, ParameterStatus, PasswordMessageFamily,
    SecretKey, Startup,
};
use pgwire::tokio::server::{MaybeTls, negotiate_tls};
use rand::TryRngCore as _;
use rand::rngs::OsRng;
use reprise::{Notice, SessionZone, Severity, SqlError};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

/// Bytes of the largest message before authentication.
const LARGEST_UNKNOWN: usize = 64 << 10;
/// Bytes of the largest message.
const LARGEST: usize = 1 << 30;

/// After this many wrong keys for a connection within `GUESSES_COUNT`, further cancel requests for it are
/// ignored.
const MOST_GUESSES: u32 = 8;
/// The time during which wrong keys are counted.
const GUESSES_COUNT: Duration = Duration::from_secs(10);

/// The connections that a cancel request can name. The key is a random number that clients take for a process
/// id. With the secret, an attacker must guess 63 bits.
#[derive(Default)]
pub(crate) struct Connections(Mutex<HashMap<i32, CancelTarget>>);

struct CancelTarget {
    secret: i32,
    attended: Arc<ConnectionControl>,
    /// The number of wrong keys in the current period, and the begin of the period.
    guesses: (u32, Instant),
}

impl Connections {
    /// Cancels the statement that runs in a connection, if the secret is right.
    fn cancel(&self, pid: i32, secret: i32) {
        let mut all = hold(&self.0);
        let Some(named) = all.get_mut(&pid) else { return };
        if named.guesses.1.elapsed() >= GUESSES_COUNT {
            named.guesses = (0, Instant::now());
        }
        if named.guesses.0 >= MOST_GUESSES {
            return;
        }
        if named.secret == secret {
            named.attended.cancel.raise();
        } else {
            named.guesses.0 += 1;
            tracing::warn!(pid, "a cancel request has a wrong key");
        }
    }

    /// Returns a connection.
    pub(crate) fn attended(&self, pid: i32) -> Option<Arc<ConnectionControl>> {
        hold(&self.0).get(&pid).map(|connection| Arc::clone(&connection.attended))
    }

    /// Cancels the statements of all connections, and ends the connections.
    pub(crate) fn end_all(&self) {
        for connection in hold(&self.0).values() {
            connection.attended.cancel.raise();
            connection.attended.shut_down_input();
        }
    }

    /// Returns all connections.
    pub(crate) fn all(&self) -> Vec<Arc<ConnectionControl>> {
        hold(&self.0).values().map(|connection| Arc::clone(&connection.attended)).collect()
    }
}

/// The entry of a connection in `Connections`; its drop removes the entry.
pub(crate) struct Registration {
    pid: i32,
    pub(crate) asking: ConnectionInfo,
    secret: i32,
    server: Arc<Server>,
    /// Cancels the connection's statements.
    pub(crate) attended: Arc<ConnectionControl>,
}

/// The number, the user and the addresses of a connection.
#[derive(Clone, Default)]
pub(crate) struct ConnectionInfo {
    pub(crate) pid: i32,
    pub(crate) user: String,
    /// The client's address; `None` at a Unix domain socket.
    pub(crate) client: Option<SocketAddr>,
    /// The address at which the client has connected.
    pub(crate) server: Option<SocketAddr>,
}

impl Registration {
    /// # Errors
    /// The operating system has no randomness.
    fn new(server: &Arc<Server>, peer: Peer, user: &str) -> io::Result<Self> {
        let random = || OsRng.try_next_u32().map_err(io::Error::other);
        let secret = random()? as i32;
        let mut all = hold(&server.connections.0);
        let pid = loop {
            let pid = (random()? >> 1) as i32;
            if pid > 0 && !all.contains_key(&pid) {
                break pid;
            }
        };
        let Peer { descriptor, client, server: server_address } = peer;
        let presence = Presence::new(pid, user.into(), client);
        let attended = Arc::new(ConnectionControl::new(descriptor, presence));
        let asking = ConnectionInfo { pid, user: user.into(), client, server: server_address };
        let guesses = (0, Instant::now());
        all.insert(pid, CancelTarget { secret, attended: Arc::clone(&attended), guesses });
        Ok(Self { pid, secret, server: Arc::clone(server), attended, asking })
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        hold(&self.server.connections.0).remove(&self.pid);
    }
}

/// A connection of an authenticated client.
pub(crate) struct ClientConnection {
    pub(crate) link: Link,
    pub(crate) registered: Registration,
    pub(crate) user: String,
    /// The number of the role as which the user acts.
    pub(crate) role: u32,
    /// Settings in the startup message.
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) admitted: CountedClient,
}

fn protocol_violation(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// Accepts a connection: TLS, startup message, authentication. `None`: it was a cancel request, or the client
/// has disconnected.
///
/// # Errors
/// The connection is broken, or the client was refused.
pub(crate) async fn establish(
    connection: Connection,
    server: &Arc<Server>,
    stranger: &Stranger,
) -> io::Result<Option<ClientConnection>> {
    let (is_of_this_machine, peer) = (connection.is_of_this_machine(), connection.peer());
    let Some(mut link) = open_link(connection, server).await? else { return Ok(None) };
    match link.next().await? {
        Some(PgWireFrontendMessage::CancelRequest(request)) => {
            let SecretKey::I32(secret) = request.secret_key else { return Ok(None) };
            server.connections.cancel(request.pid, secret);
            Ok(None)
        }
        Some(PgWireFrontendMessage::Startup(startup)) => {
            link.started(LARGEST_UNKNOWN);
            if server.options.requires_tls && !link.is_secure && !is_of_this_machine {
                let message = "connections from other machines must be encrypted with TLS";
                return refuse(&link, "28000", message).await;
            }
            Ok(Some(begin_session(link, startup, peer, server, stranger).await?))
        }
        Some(_) => Err(protocol_violation("expected a startup message")),
        None => Ok(None),
    }
}

/// Negotiates TLS. `None`: the client has asked for TLS without a request, and the server has no certificate.
async fn open_link(connection: Connection, server: &Server) -> io::Result<Option<Link>> {
    let stream = match connection {
        Connection::Tcp(stream, _) => stream,
        Connection::Unix(mut stream) => {
            let input = without_encryption(&mut stream).await?;
            return Ok(Some(Link::new(MaybeTls::Unix(stream), input)));
        }
    };
    let acceptor = server.options.tls.as_ref().map(Tls::acceptor);
    let Some(negotiated) = negotiate_tls::<()>(stream, acceptor).await? else { return Ok(None) };
    let parts = negotiated.into_parts();
    let link = Link::new(parts.io, parts.read_buf);
    if link.is_secure && link.has_input() {
        // These bytes preceded TLS, so a man in the middle may have sent them.
        return Err(protocol_violation("received unencrypted data after the request for TLS"));
    }
    Ok(Some(link))
}

/// Refuses requests for encryption, as PostgreSQL does on a Unix domain socket: the bytes do not leave the
/// machine. Returns the first bytes of the message behind the requests.
async fn without_encryption(stream: &mut UnixStream) -> io::Result<BytesMut> {
    loop {
        let mut first = [0; 8];
        stream.read_exact(&mut first).await?;
        if !is_encryption_request(&first) {
            return Ok(BytesMut::from(&first[..]));
        }
        stream.write_all(b"N").await?;
    }
}

async fn refuse<T>(link: &Link, sqlstate: &str, message: &str) -> io::Result<T> {
    refuse_with(link, &SqlError::new(sqlstate, message)).await
}

async fn refuse_with<T>(link: &Link, error: &SqlError) -> io::Result<T> {
    link.output.put(Message::ErrorResponse(ErrorResponse::from(fatal(error))));
    link.output.flush().await?;
    Err(protocol_violation(&error.message))
}

/// Authenticates a client. Returns the role as which it acts.
async fn log_in(link: &mut Link, server: &Server, user: &str) -> io::Result<Login> {
    authenticate(link, user, server).await?;
    match Login::of(server, user) {
        Ok(login) => Ok(login),
        Err(error) => refuse_with(link, &error).await,
    }
}

/// Authenticates a client, and sends the parameters of the server.
async fn begin_session(
    mut link: Link,
    startup: Startup,
    peer: Peer,
    server: &Arc<Server>,
    stranger: &Stranger,
) -> io::Result<ClientConnection> {
    if startup.protocol_number_major != 3 {
        let message = format!(
            "unsupported frontend protocol {}.{}: server supports 3.0",
            startup.protocol_number_major, startup.protocol_number_minor
        );
        return refuse(&link, "0A000", &message).await;
    }
    let mut parameters = startup.parameters;
    let unknown: Vec<String> = parameters.keys().filter(|name| name.starts_with("_pq_.")).cloned().collect();
    parameters.retain(|name, _| !name.starts_with("_pq_."));
    if startup.protocol_number_minor > 0 || !unknown.is_empty() {
        link.output.put(Message::NegotiateProtocolVersion(NegotiateProtocolVersion::new(0, unknown)));
    }
    let user = parameters.remove("user").unwrap_or_default();
    // There is one database. The name that the client gives is ignored.
    parameters.remove("database");
    if user.is_empty() {
        return refuse(&link, "28000", "no PostgreSQL user name specified in startup packet").await;
    }
    if let Some(error) = server.is_starting() {
        return refuse_with(&link, &error).await;
    }
    let too_many = |limit: usize| format!("sorry, too many clients already: {limit} are admitted");
    if let Some(limit) = server.is_full() {
        return refuse(&link, "53300", &too_many(limit)).await;
    }
    let Login { role, is_superuser } = log_in(&mut link, server, &user).await?;
    let admitted = match stranger.admit() {
        Ok(admitted) => admitted,
        Err(limit) => return refuse(&link, "53300", &too_many(limit)).await,
    };
    link.started(LARGEST);
    link.output.put(Message::Authentication(Authentication::Ok));
    let registered = Registration::new(server, peer, &user)?;
    let options = options_of(&parameters.remove("options").unwrap_or_default());
    let application = parameters.get("application_name").cloned().unwrap_or_default();
    // Later settings win, so parameters of the startup message follow the options.
    let settings: Vec<_> =
        options.into_iter().chain(parameters).filter(|(name, _)| name != "replication").collect();
    let zone = zone_of(&settings);
    put_parameters(&link, &application, &user, is_superuser, &zone);
    let key = SecretKey::I32(registered.secret);
    link.output.put(Message::BackendKeyData(BackendKeyData::new(registered.pid(), key)));
    if let Some(notice) = &server.options.notice {
        let content = SqlError::new("00000", notice);
        link.output
            .put(Message::NoticeResponse(notice_response(&Notice { severity: Severity::Notice, content })));
    }
    link.output.put(Message::ReadyForQuery(ReadyForQuery::new(TransactionStatus::Idle)));
    Ok(ClientConnection { link, registered, user, role, settings, admitted })
}

/// Returns the name of the time zone at the begin of a connection.
fn zone_of(settings: &[(String, String)]) -> String {
    let zones = settings.iter().filter(|(name, _)| name.eq_ignore_ascii_case("timezone"));
    let zone = zones.filter_map(|(_, value)| SessionZone::of_setting(value).ok()).next_back();
    zone.map_or_else(|| "UTC".into(), |zone| zone.name().to_owned())
}

/// Sends the settings that are reported at the begin of a connection.
fn put_parameters(link: &Link, application: &str, user: &str, is_superuser: bool, zone: &str) {
    for (name, value) in [
        ("application_name", application),
        ("client_encoding", "UTF8"),
        ("DateStyle", "ISO, MDY"),
        ("default_transaction_read_only", "off"),
        ("in_hot_standby", "off"),
        ("integer_datetimes", "on"),
        ("IntervalStyle", "postgres"),
        ("is_superuser", if is_superuser { "on" } else { "off" }),
        ("server_encoding", "UTF8"),
        ("server_version", crate::VERSION),
        ("session_authorization", user),
        ("standard_conforming_strings", "on"),
        ("TimeZone", zone),
    ] {
        link.output.put(Message::ParameterStatus(ParameterStatus::new(name.into(), value.into())));
    }
}

/// Returns the settings in the options of a startup message, in the form of PGOPTIONS: `-c name=value` or
/// `--name=value`. A backslash escapes a blank in a value.
fn options_of(options: &str) -> Vec<(String, String)> {
    let (mut words, mut is_escaped) = (vec![String::new()], false);
    for character in options.chars() {
        let word = words.last_mut().expect("the list is never empty");
        match character {
            '\\' if !is_escaped => {
                is_escaped = true;
                continue;
            }
            blank if blank.is_whitespace() && !is_escaped => words.push(String::new()),
            other => word.push(other),
        }
        is_escaped = false;
    }
    words.retain(|word| !word.is_empty() && word != "-c");
    let setting = |word: &String| {
        let word = word.strip_prefix("--").or(word.strip_prefix("-c")).unwrap_or(word);
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        (name.replace('-', "_"), value.to_owned())
    };
    words.iter().map(setting).collect()
}

/// Authenticates a client by SCRAM-SHA-256. A server without a list of users admits every client.
///
/// # Errors
/// The client was refused, or the connection is broken.
async fn authenticate(link: &mut Link, user: &str, server: &Server) -> io::Result<()> {
    let Some(users) = &server.options.users else { return Ok(()) };
    let mut scram = ScramServerAuth::new();
    let mut mechanisms = vec!["SCRAM-SHA-256".to_owned()];
    if link.is_secure
        && let Some(tls) = &server.options.tls
    {
        scram
            .configure_certificate(tls.certificate())
            .map_err(|error| protocol_violation(&error.to_string()))?;
        mechanisms.insert(0, "SCRAM-SHA-256-PLUS".into());
    }
    let failed = format!("password authentication failed for user \"{user}\"");
    link.output.put(Message::Authentication(Authentication::SASL(mechanisms)));
    let Some(PgWireFrontendMessage::PasswordMessageFamily(first)) = link.next().await? else {
        return refuse(link, "08P01", "expected SASL response").await;
    };
    if matches!(&first, PasswordMessageFamily::Raw(body) if !is_sasl_initial(body)) {
        return refuse(link, "08P01", "malformed SASL response").await;
    }
    let Ok(first) = first.into_sasl_initial_response() else {
        return refuse(link, "08P01", "expected SASL response").await;
    };
    // An unknown user goes through the same exchange, so that a client cannot find out which users exist.
    let known = password_of(server, user);
    let is_known = known.is_some();
    let password = known.unwrap_or_else(|| users.password(user));
    let data = first.data.unwrap_or_default();
    let Ok((answer, waiting)) = scram.on_client_first_message_with_secret(&data, password.secret()) else {
        return refuse(link, "28P01", &failed).await;
    };
    link.output.put(Message::Authentication(Authentication::SASLContinue(answer.into())));
    let Some(PgWireFrontendMessage::PasswordMessageFamily(last)) = link.next().await? else {
        return refuse(link, "08P01", "expected SASL response").await;
    };
    let Ok(last) = last.into_sasl_response() else {
        return refuse(link, "08P01", "expected SASL response").await;
    };
    match waiting.on_client_final_message(&last.data) {
        Ok(answer) if is_known => {
            link.output.put(Message::Authentication(Authentication::SASLFinal(answer.into())));
            Ok(())
        }
        _ => refuse(link, "28P01", &failed).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_settings() {
        let of = |text: &str| {
            options_of(text).into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        assert_eq!(
            of("-c lock_timeout=5 --statement-timeout=7s"),
            ["lock_timeout=5", "statement_timeout=7s"]
        );
        assert_eq!(
            of(" -cwork_mem=64kB  -c application_name=a\\ b\\\\ "),
            ["work_mem=64kB", "application_name=a b\\"]
        );
        assert!(of("").is_empty());
    }
}
