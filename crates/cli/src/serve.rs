//! `reprise serve`: runs the server until it is told to stop.

use crate::options::{DatabaseOptions, on_or_off};
use crate::{control, numbers, progress};
use anyhow::{Context, Result, bail};
use clap::Args;
use reprise::{Config, Database, Progress};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::{HTTP_CONNECTIONS, Listener, Options, Server, SocketFile, Tls, Users};
use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{Level, info, warn};

/// Maximum number of threads for statements that take long or wait on their thread. Each is created when it
/// is needed.
const MAX_THREADS: usize = 1 << 15;
/// Time after which a thread without a task ends and gives its memory back to the system.
const KEEP_ALIVE: Duration = Duration::from_millis(500);

#[derive(Args)]
pub struct Arguments {
    /// A TOML file with settings. Flags and the environment override it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check the configuration and the files that it names, and stop.
    #[arg(long)]
    config_check: bool,
    /// Print a configuration file with every setting and its default, and stop.
    #[arg(long)]
    pub print_sample_config: bool,
    /// The data folder, which is created if it does not exist.
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// The address to listen on. An address that other machines reach needs --users.
    #[arg(long, default_value = "127.0.0.1:5433")]
    listen: SocketAddr,
    /// A folder for a Unix domain socket beside the address, with PostgreSQL's name: .s.PGSQL.PORT.
    /// [default: none]
    #[arg(long, value_name = "FOLDER")]
    socket: Option<PathBuf>,
    /// Maximum number of open transactions. Eight of them are left to single statements.
    #[arg(long, default_value_t = 256, value_parser = numbers::from::<usize>(16, 4096))]
    workers: usize,
    /// The address for HTTP: a page for operators at /, /metrics for Prometheus, /health, /ready. With
    /// --users the page needs the password of a user; without, it is shown to clients of this machine.
    /// [default: none]
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    /// Form of the messages on standard error: text, or json with one object a line.
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = ["text", "json"])]
    messages: String,
    /// Least level of a message: error, warn, info, or debug, which includes every error sent to a client.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    message_level: Level,
    /// When files are missing or damaged: open the newest state before the loss. All later transactions are
    /// lost, too.
    #[arg(long)]
    accept_data_loss: bool,
    /// Whether clients are served before all rows are recovered: on, off. A transaction brings back the rows
    /// that it looks for: those of the checkpoint, and what the log leaves of them.
    #[arg(long, default_value = "on", action = clap::ArgAction::Set, value_parser = on_or_off)]
    on_demand: bool,
    /// With --on-demand on: threads that bring back the rows that no transaction looks for.
    #[arg(long, default_value_t = Config::default().drain_threads.min(64))]
    #[arg(value_parser = numbers::from::<usize>(1, 64))]
    drain_threads: usize,
    /// The folder for backups that clients make by `CALL reprise_backup('NAME')`. [default: none]
    #[arg(long, value_name = "FOLDER")]
    backups: Option<PathBuf>,
    #[command(flatten)]
    clients: ClientOptions,
    #[command(flatten)]
    database: DatabaseOptions,
}

/// Refuses a file of secrets that users beside its owner may read or write.
fn refuse_readable(path: &Path) -> Result<()> {
    let mode = std::fs::metadata(path)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        bail!("users beside its owner may read or write it (mode {mode:03o}): change that with chmod 600");
    }
    Ok(())
}

/// Descriptors for files of the database, a checkpoint and the listeners, without those of log devices.
const DATABASE_DESCRIPTORS: u64 = 64;
/// Descriptors for each log device: files of its log, and parts of a checkpoint.
const DEVICE_DESCRIPTORS: u64 = 16;
/// Time that clients have to disconnect when the server stops.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Raises the limit of open files to its maximum; returns the number of descriptors left for connections.
fn descriptors(devices: usize, answers_http: bool) -> usize {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: before.maximum, maximum: before.maximum };
    // If it cannot be raised, the limit stays as it is.
    let _ = setrlimit(Resource::Nofile, raised);
    let Some(limit) = getrlimit(Resource::Nofile).current else { return 0 };
    let http = if answers_http { HTTP_CONNECTIONS as u64 } else { 0 };
    let taken = DATABASE_DESCRIPTORS + DEVICE_DESCRIPTORS * devices.max(1) as u64 + http;
    usize::try_from(limit.saturating_sub(taken).max(1)).unwrap_or(usize::MAX)
}

/// Settings for clients.
#[derive(Args)]
struct ClientOptions {
    /// A file with a line `name:verifier` for each user, as `reprise user` prints it. Verifiers are those of
    /// PostgreSQL (SCRAM-SHA-256$…). Only its owner may be able to read it. Without it every client of this
    /// machine is trusted.
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// A PEM file with the server's certificate. With it clients can encrypt their connections.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// A PEM file with the private key of the certificate.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Allow clients of other machines to connect without TLS, and to send a password over HTTP.
    #[arg(long)]
    allow_unencrypted: bool,
    /// Maximum number of clients; 0 is as many as the limit of open files allows.
    #[arg(long, default_value_t = 0, value_parser = numbers::from::<usize>(0, 262_143))]
    max_connections: usize,
    /// Seconds after which a statement is cancelled; 0 is never. A client can set its own limit.
    #[arg(long, default_value_t = 0.0, value_parser = numbers::timeout())]
    statement_timeout: f64,
    /// Seconds after which a client with an idle transaction is disconnected; 0 is never. A client can set
    /// its own limit.
    #[arg(long, default_value_t = 0.0, value_parser = numbers::timeout())]
    idle_in_transaction_session_timeout: f64,
}

impl ClientOptions {
    fn options(&self) -> Result<Options> {
        let timeout = |seconds: f64| (seconds > 0.0).then(|| Duration::from_secs_f64(seconds));
        let mut options = Options::default();
        if let Some(path) = &self.users {
            let in_file = || path.display().to_string();
            refuse_readable(path).with_context(in_file)?;
            let text = std::fs::read_to_string(path).with_context(in_file)?;
            options.users = Some(Users::parse(&text).with_context(in_file)?);
        }
        if let (Some(certificate), Some(key)) = (&self.tls_certificate, &self.tls_key) {
            options.tls = Some(Tls::open(certificate, key)?);
        }
        options.max_connections = self.max_connections;
        options.statement_timeout = timeout(self.statement_timeout);
        options.idle_in_transaction_timeout = timeout(self.idle_in_transaction_session_timeout);
        Ok(options)
    }

    /// Describes which clients may connect.
    fn trust(&self) -> &'static str {
        match (&self.users, &self.tls_certificate) {
            (None, _) => "every client of this machine is trusted",
            (Some(_), Some(_)) => "users show their password",
            (Some(_), None) => "users show their password; nothing is encrypted",
        }
    }
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let options = arguments.server_options()?;
    let data = arguments.checked_data(&options)?;
    if arguments.config_check {
        println!("the configuration is in order");
        return Ok(ExitCode::SUCCESS);
    }
    write_messages(&arguments.messages, arguments.message_level);
    let runtime = runtime()?;
    let listener = bind(&runtime, arguments.listen)?;
    let address = listener.local_addr()?;
    let progress = Arc::new(Progress::default());
    let server = Server::new(options, Arc::clone(&progress));
    let serving = runtime.spawn(Arc::clone(&server).serve(listener));
    let socket =
        arguments.socket.as_ref().map(|folder| serve_socket(&runtime, &server, folder, address.port()));
    let socket = socket.transpose()?;
    if let Some(address) = arguments.http {
        let listener = bind(&runtime, address)?;
        let address = listener.local_addr()?;
        runtime.spawn(Arc::clone(&server).serve_http(listener));
        info!(%address, "a page, metrics and health over HTTP on {address}");
    }

    let database = progress::follow(&progress, |progress| {
        Database::open_with(data, arguments.database_config(), progress)
    })?;
    report_recovery(data, &database);
    if let Err(error) = control::listen(data, database.clone()) {
        warn!("`reprise backup` can't reach this server: {error:#}");
    }
    server.open(database.clone());
    info!(%address, "listening on {address}; {}", arguments.clients.trust());
    if let Some(path) = socket.as_ref().map(|file| file.path().display()) {
        info!(%path, "listening on {path}");
    }
    until_stopped(&runtime, serving)?;
    if !runtime.block_on(server.stop(STOP_PATIENCE)) {
        warn!("some clients have not gone within {} s", STOP_PATIENCE.as_secs());
    }
    runtime.shutdown_background();
    match database.checkpoint() {
        Ok(_) => info!("stopped after a checkpoint"),
        // The log holds everything.
        Err(error) if error.is_shortage() => warn!(%error, "stopped without a checkpoint: {error}"),
        Err(error) => return Err(error).context("the last checkpoint failed: the log holds everything"),
    }
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    fn server_options(&self) -> Result<Options> {
        let mut options = self.clients.options()?;
        options.with_metrics = self.http.is_some();
        options.descriptors = descriptors(self.database.log_devices.len(), self.http.is_some());
        options.requires_tls = !self.listen.ip().is_loopback() && !self.clients.allow_unencrypted;
        options.admits_unencrypted_passwords = self.clients.allow_unencrypted;
        options.backups = self.backups.clone();
        Ok(options)
    }

    fn database_config(&self) -> Config {
        let mut config = self.database.config();
        config.accept_data_loss = self.accept_data_loss;
        (config.on_demand, config.drain_threads) = (self.on_demand, self.drain_threads);
        config.workers = self.workers;
        config
    }

    /// Checks that the settings fit together; returns the data folder.
    fn checked_data(&self, options: &Options) -> Result<&Path> {
        let listen = self.listen;
        if options.users.is_none() && !listen.ip().is_loopback() {
            bail!(
                "{listen} can be reached from other machines: say who may come with --users, or listen on \
                 127.0.0.1"
            );
        }
        if options.requires_tls && options.tls.is_none() {
            bail!(
                "{listen} can be reached from other machines, and nothing would be encrypted: \
                 give --tls-certificate and --tls-key, or allow it with --allow-unencrypted"
            );
        }
        let Some(data) = &self.data else {
            bail!(
                "there is no data folder: name it with --data, REPRISE_DATA, or data in the configuration \
                 file"
            );
        };
        Ok(data)
    }
}

/// Writes messages to standard error, as text or as JSON.
fn write_messages(form: &str, level: Level) {
    let messages = tracing_subscriber::fmt().with_max_level(level).with_target(false);
    let messages = messages.with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    match form {
        "json" => messages.json().flatten_event(true).init(),
        _ => messages.init(),
    }
}

fn runtime() -> Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .on_thread_stop(memory::thread_ends)
        .on_thread_park(memory::give_back_here)
        .thread_keep_alive(KEEP_ALIVE)
        // A statement that takes long has a thread of its own.
        .max_blocking_threads(MAX_THREADS)
        .build()?;
    Ok(runtime)
}

fn bind(runtime: &Runtime, address: SocketAddr) -> Result<TcpListener> {
    let listener = runtime.block_on(TcpListener::bind(address));
    listener.with_context(|| format!("cannot listen on {address}"))
}

/// Serves clients of a Unix domain socket. Returns its file.
fn serve_socket(runtime: &Runtime, server: &Arc<Server>, folder: &Path, port: u16) -> Result<SocketFile> {
    let _entered = runtime.enter();
    let bound = Listener::on_socket(folder, port);
    let (listener, file) = bound
        .with_context(|| format!("cannot listen on a socket for port {port} in {}", folder.display()))?;
    runtime.spawn(Arc::clone(server).serve(listener));
    Ok(file)
}

fn report_recovery(data: &Path, database: &Database) {
    let report = database.recovery_report();
    if report.checkpoint.is_some() || report.transactions > 0 {
        let (transactions, seconds, method) =
            (report.transactions, report.total_s, report.method.to_string());
        info!(transactions, seconds, method, "{}: {report}", data.display());
    } else {
        info!("{}: nothing to recover", data.display());
    }
}

/// Waits until the server ends or the process is told to stop.
fn until_stopped(runtime: &Runtime, serving: tokio::task::JoinHandle<std::io::Result<()>>) -> Result<()> {
    runtime.block_on(async {
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::select! {
            served = serving => Ok(served??),
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        }
    })
}
