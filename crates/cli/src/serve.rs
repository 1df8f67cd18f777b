//! `reprise serve`: the server, until it is told to stop.

use crate::options::DatabaseOptions;
use crate::progress;
use anyhow::{Context, Result, bail};
use clap::Args;
use reprise::Database;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Args)]
pub struct Arguments {
    /// The data folder, which is made if it is not there.
    #[arg(long)]
    data: PathBuf,
    /// Where to listen. Only addresses of this machine: there is no authentication yet.
    #[arg(long, default_value = "127.0.0.1:5433")]
    listen: SocketAddr,
    #[command(flatten)]
    database: DatabaseOptions,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if !arguments.listen.ip().is_loopback() {
        bail!(
            "{} can be reached from other machines, and there is no authentication yet: listen on 127.0.0.1",
            arguments.listen
        );
    }
    let config = arguments.database.config();
    let database = progress::watch(|progress| Database::open_with(&arguments.data, config, progress))?;
    let report = database.recovery_report();
    if report.checkpoint.is_some() || report.transactions > 0 {
        eprintln!("{}: {report}", arguments.data.display());
    } else {
        eprintln!("{}: nothing to recover", arguments.data.display());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(until_stopped(database.clone(), arguments.listen))?;
    runtime.shutdown_background();
    database.checkpoint().context("the last checkpoint failed: the log holds everything")?;
    eprintln!("stopped after a checkpoint");
    Ok(ExitCode::SUCCESS)
}

async fn until_stopped(database: Database, listen: SocketAddr) -> Result<()> {
    let listener = tokio::net::TcpListener::bind(listen).await;
    let listener = listener.with_context(|| format!("cannot listen on {listen}"))?;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    eprintln!("listening on {}; every client of this machine is trusted", listener.local_addr()?);
    tokio::select! {
        served = server::serve(database, listener, server::Options::default()) => Ok(served?),
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}
