//! `reprise user`: prints a line for the file of users that `serve` reads.

use anyhow::{Result, bail};
use clap::Args;

#[derive(Args)]
pub struct Arguments {
    /// The name of the user.
    name: String,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.name.is_empty() || arguments.name.contains([':', '\n']) || arguments.name.starts_with('#') {
        bail!(
            "\"{}\" is not a valid name: a name is not empty, holds no colon, and does not begin with #",
            arguments.name
        );
    }
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let password = line.trim_end_matches(['\n', '\r']);
    if password.is_empty() {
        bail!("there is no password on standard input: give it as one line");
    }
    println!("{}:{}", arguments.name, server::verifier(password));
    Ok(())
}
