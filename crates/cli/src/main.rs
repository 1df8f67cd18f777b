//! The `reprise` program.

mod backup;
mod bench;
mod clients;
mod configuration;
mod control;
mod demo;
mod explain;
mod inspect;
mod numbers;
mod opening;
mod options;
mod progress;
mod recover;
mod report;
mod serve;
mod table;
mod user;

use clap::{CommandFactory as _, Parser, Subcommand};
use control::ServerError;
use recovery::RecoveryError;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: memory::Metered<mimalloc::MiMalloc> = memory::Metered::new(mimalloc::MiMalloc);

/// Returns unused memory to the system.
#[allow(unsafe_code)]
fn give_pages_back() {
    // SAFETY: the function takes no pointers and may be called by any thread at any time.
    unsafe { libmimalloc_sys::mi_collect(true) };
}

/// A main-memory database whose transactions are stored procedures, and which recovers by replaying them.
#[derive(Parser)]
#[command(name = "reprise", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Load and run TPC-C, kill the database, recover it, and check that nothing is missing.
    Demo(demo::Arguments),
    /// Run a workload and measure it.
    Bench(Box<bench::Arguments>),
    /// Recover a data folder without changing it, and report.
    Recover(recover::Arguments),
    /// Write a backup of a data folder, open or not, and verify it.
    Backup(backup::BackupArguments),
    /// Create a data folder from a backup.
    Restore(backup::RestoreArguments),
    /// Show the static analysis of procedures: replay form, slices, blocks.
    Explain(explain::Arguments),
    /// Run the figures and tables of the papers as experiments, and write their results.
    Report(report::Arguments),
    /// Serve PostgreSQL clients.
    Serve(Box<serve::Arguments>),
    /// Print a line for the file of users that `serve` reads: a name and the verifier of the password on
    /// standard input.
    User(user::Arguments),
    /// Show the log of a data folder without changing it: files, batches, records.
    Log(inspect::Arguments),
}

fn main() -> ExitCode {
    memory::give_back_by(give_pages_back);
    let arguments: Arguments = match configuration::read(Arguments::command()) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    if !matches!(arguments.command, Command::Serve(_)) {
        let messages = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).without_time();
        messages.with_target(false).with_writer(std::io::stderr).init();
    }
    let result = match arguments.command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Recover(arguments) => recover::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Backup(arguments) => backup::backup(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Restore(arguments) => backup::restore(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Explain(arguments) => explain::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Report(arguments) => report::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Serve(arguments) if arguments.print_sample_config => {
            print!("{}", configuration::sample(&Arguments::command()));
            Ok(ExitCode::SUCCESS)
        }
        Command::Serve(arguments) => serve::run(&arguments),
        Command::User(arguments) => user::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Log(arguments) => inspect::run(&arguments).map(|()| ExitCode::SUCCESS),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            hint(&error);
            ExitCode::FAILURE
        }
    }
}

/// Prints the remedy for an error.
fn hint(error: &anyhow::Error) {
    let of_database = error.chain().find_map(|cause| cause.downcast_ref::<reprise::Error>());
    let of_recovery = error.chain().find_map(|cause| cause.downcast_ref::<RecoveryError>());
    let of_server = error.chain().find_map(|cause| cause.downcast_ref::<ServerError>());
    let hint = of_database.and_then(reprise::Error::hint).or(of_recovery.and_then(RecoveryError::hint));
    if let Some(hint) = hint.or(of_server.and_then(|error| error.hint.as_deref())) {
        eprintln!("hint: {hint}");
    }
    let can_be_accepted = of_database.is_some_and(reprise::Error::can_be_accepted)
        || of_recovery.is_some_and(RecoveryError::can_be_accepted);
    if can_be_accepted {
        eprintln!("hint: --accept-data-loss opens the newest state before the loss, and names the loss.");
    }
}
