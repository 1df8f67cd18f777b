//! `reprise explain`: what the static analysis finds in procedures.

use anyhow::{Context, Result, bail};
use clap::Args;
use procedure::analysis::{Analysis, ReplaySummary};
use sql::Schema;
use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;

#[derive(Args)]
pub struct Arguments {
    /// A file of definitions: tables and procedures.
    #[arg(required_unless_present = "workload")]
    file: Option<PathBuf>,
    /// The definitions of a workload instead: tpcc, smallbank.
    #[arg(long, conflicts_with = "file")]
    workload: Option<String>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let mut schema = Schema::default();
    for (name, script) in scripts(arguments)? {
        for (statement, line, _) in Schema::split(&script)? {
            schema = match schema.apply(&statement) {
                Ok((changed, _)) => changed,
                Err(error) => {
                    let line = line + error.line - 1;
                    bail!("{name}, line {line}, column {}: {}", error.column, error.error)
                }
            };
        }
    }
    let mut procedures: Vec<_> = schema.procedures().collect();
    procedures.sort_by_key(|procedure| procedure.id);
    let mut text = String::new();
    for procedure in &procedures {
        writeln!(text, "{}", ReplaySummary::of(procedure))?;
    }
    write!(text, "{}", Analysis::of(procedures.into_iter().map(|procedure| &**procedure)))?;
    match std::io::stdout().write_all(text.as_bytes()) {
        // Whoever reads, like `head`, may have enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// What to explain, by name.
fn scripts(arguments: &Arguments) -> Result<Vec<(String, String)>> {
    if let Some(file) = &arguments.file {
        let script =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        return Ok(vec![(file.display().to_string(), script)]);
    }
    let name = arguments.workload.as_deref().unwrap_or_default();
    let workload = match workload::by_name(name, 1, "full") {
        Ok(workload) => workload,
        Err(message) => bail!(message),
    };
    Ok(workload.definitions().iter().map(|script| (name.to_owned(), (*script).to_owned())).collect())
}
