//! Tasks of the repository. `cargo xtask tidy` checks what the compiler does not: sizes, words, references,
//! arrows between crates.

mod tidy;

use anyhow::{Result, bail};
use std::path::Path;
use tidy::Action;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy::run(&root, Action::Check),
        ["tidy", "--tighten"] => tidy::run(&root, Action::Tighten),
        ["tidy", "--list"] => tidy::run(&root, Action::List),
        _ => bail!("usage: cargo xtask tidy [--tighten | --list]"),
    }
}
