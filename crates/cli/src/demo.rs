//! `reprise demo`: a database is killed under load and comes back whole.

use anyhow::Result;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Arguments {}

pub fn run(_: &Arguments) -> Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
