//! `reprise serve`: the server, until it is told to stop.

use crate::options::DatabaseOptions;
use crate::{control, numbers, progress};
use anyhow::{Context, Result, bail};
use clap::Args;
use reprise::{Database, Progress};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::{HTTP_CONNECTIONS, Options, Server, Tls, Users};
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

/// Most threads for statements that take long, and for those that wait on their thread. Each is made when it
/// is needed.
const MOST_THREADS: usize = 1 << 15;
/// How long a thread without a task stays. What it has allocated goes back to the system once it ends.
const KEEP_ALIVE: Duration = Duration::from_millis(500);

#[derive(Args)]
pub struct Arguments {
    /// A TOML file with settings that neither flags nor the environment say.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Read the configuration and the files that it names, say what is wrong with it, and stop.
    #[arg(long)]
    config_check: bool,
    /// Write a configuration file with every setting, and stop.
    #[arg(long)]
    pub print_sample_config: bool,
    /// The data folder, which is made if it is not there.
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Where to listen. Addresses that other machines reach need users.
    #[arg(long, default_value = "127.0.0.1:5433")]
    listen: SocketAddr,
    /// Transactions that may be open at one time. Single statements and checkpoints have room beside them.
    #[arg(long, default_value_t = 256, value_parser = numbers::from::<usize>(16, 4096))]
    workers: usize,
    /// Where to answer over HTTP: /metrics for Prometheus, /health, /ready. Nowhere by default.
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    /// How messages on standard error look: text, or json with one object a line.
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = ["text", "json"])]
    messages: String,
    /// What is worth a message: error, warn, info, or debug, which has every error that a client is told of.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    message_level: Level,
    /// Open what is left of the database when files are missing or damaged: everything after the first loss
    /// is lost, too.
    #[arg(long)]
    accept_data_loss: bool,
    /// The folder in which clients may make backups, by `CALL reprise_backup('NAME')`. None by default.
    #[arg(long, value_name = "FOLDER")]
    backups: Option<PathBuf>,
    #[command(flatten)]
    clients: ClientOptions,
    #[command(flatten)]
    database: DatabaseOptions,
}

/// Refuses a file of secrets that others than its owner may read or write.
fn refuse_readable(path: &Path) -> Result<()> {
    let mode = std::fs::metadata(path)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        bail!("others than its owner may read or write it (mode {mode:03o}): chmod 600 is right");
    }
    Ok(())
}

/// Descriptors that files of the database, a checkpoint and the listeners may take, beside those of log
/// devices.
const OWN_DESCRIPTORS: u64 = 64;
/// Descriptors for each log device: files of its log, and parts of a checkpoint.
const DEVICE_DESCRIPTORS: u64 = 16;
/// How long clients have to go when the server stops.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Raises the limit of open files as far as the system lets it; returns how many descriptors are left for
/// connections.
fn descriptors(devices: usize, answers_http: bool) -> usize {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: before.maximum, maximum: before.maximum };
    // Where it can't be raised, what there is must do.
    let _ = setrlimit(Resource::Nofile, raised);
    let Some(limit) = getrlimit(Resource::Nofile).current else { return 0 };
    let http = if answers_http { HTTP_CONNECTIONS as u64 } else { 0 };
    let taken = OWN_DESCRIPTORS + DEVICE_DESCRIPTORS * devices.max(1) as u64 + http;
    usize::try_from(limit.saturating_sub(taken).max(1)).unwrap_or(usize::MAX)
}

/// How clients are served.
#[derive(Args)]
struct ClientOptions {
    /// A file with a line `name:verifier` for each user who may come, as `reprise user` prints it; the
    /// verifier is what PostgreSQL keeps of a password (SCRAM-SHA-256$…). Its owner alone may read it.
    /// Without it every client of this machine is trusted.
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// A PEM file with the certificate that clients see: they can encrypt their connections.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// A PEM file with the private key of the certificate.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Let clients of other machines send passwords' proofs and everything else without TLS.
    #[arg(long)]
    allow_unencrypted: bool,
    /// Most clients at a time; 0 is as many as the limit of open files allows.
    #[arg(long, default_value_t = 0, value_parser = numbers::from::<usize>(0, 262_143))]
    max_connections: usize,
    /// Seconds after which a statement is cancelled; 0 is never. A client can set its own.
    #[arg(long, default_value_t = 0.0, value_parser = numbers::timeout())]
    statement_timeout: f64,
    /// Seconds after which a client that leaves a transaction idle is sent away; 0 is never. A client can set
    /// its own.
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

    /// Who may come, in words.
    fn trust(&self) -> &'static str {
        match (&self.users, &self.tls_certificate) {
            (None, _) => "every client of this machine is trusted",
            (Some(_), Some(_)) => "users show their password",
            (Some(_), None) => "users show their password; nothing is encrypted",
        }
    }
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut options = arguments.clients.options()?;
    options.with_metrics = arguments.http.is_some();
    options.descriptors = descriptors(arguments.database.log_devices.len(), arguments.http.is_some());
    let is_of_this_machine = arguments.listen.ip().is_loopback();
    options.requires_tls = !is_of_this_machine && !arguments.clients.allow_unencrypted;
    options.backups = arguments.backups.clone();
    let mut config = arguments.database.config();
    config.accept_data_loss = arguments.accept_data_loss;
    config.workers = arguments.workers;
    let listen = arguments.listen;
    if options.users.is_none() && !listen.ip().is_loopback() {
        bail!(
            "{listen} can be reached from other machines: say who may come with --users, or listen on 127.0.0.1"
        );
    }
    if options.requires_tls && options.tls.is_none() {
        bail!(
            "{listen} can be reached from other machines, and nothing would be encrypted: give --tls-certificate and --tls-key, or allow it with --allow-unencrypted"
        );
    }
    let Some(data) = &arguments.data else {
        bail!(
            "there is no data folder: name it with --data, REPRISE_DATA, or data in the configuration file"
        );
    };
    if arguments.config_check {
        println!("the configuration is in order");
        return Ok(ExitCode::SUCCESS);
    }
    let messages = tracing_subscriber::fmt().with_max_level(arguments.message_level).with_target(false);
    let messages = messages.with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    match arguments.messages.as_str() {
        "json" => messages.json().flatten_event(true).init(),
        _ => messages.init(),
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .on_thread_stop(memory::thread_ends)
        .on_thread_park(memory::give_back_here)
        .thread_keep_alive(KEEP_ALIVE)
        // A statement that takes long has a thread of its own.
        .max_blocking_threads(MOST_THREADS)
        .build()?;
    let listener = runtime.block_on(TcpListener::bind(listen));
    let listener = listener.with_context(|| format!("cannot listen on {listen}"))?;
    let address = listener.local_addr()?;
    let progress = Arc::new(Progress::default());
    let recovering = Arc::clone(&progress);
    let server = Server::new(options, move || {
        let (stage, position, total) = recovering.now();
        format!("{}: {position} of {total}", progress::doing(stage))
    });
    let serving = runtime.spawn(Arc::clone(&server).serve(listener));
    if let Some(address) = arguments.http {
        let listener = runtime.block_on(TcpListener::bind(address));
        let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
        let address = listener.local_addr()?;
        runtime.spawn(Arc::clone(&server).serve_http(listener));
        info!(%address, "metrics and health over HTTP on {address}");
    }

    let database = progress::follow(&progress, |progress| Database::open_with(data, config, progress))?;
    let report = database.recovery_report();
    if report.checkpoint.is_some() || report.transactions > 0 {
        let (transactions, seconds, method) =
            (report.transactions, report.total_s, report.method.to_string());
        info!(transactions, seconds, method, "{}: {report}", data.display());
    } else {
        info!("{}: nothing to recover", data.display());
    }
    if let Err(error) = control::listen(data, database.clone()) {
        warn!("`reprise backup` can't reach this server: {error:#}");
    }
    server.open(database.clone());
    info!(%address, "listening on {address}; {}", arguments.clients.trust());
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
