//! Checks of the sources. A rule either holds everywhere, or is a ratchet: `allowed.toml` says how often each
//! crate may break it, and that number may only shrink.
//! Source: TigerBeetle's `tidy.zig`, rust-analyzer's `xtask tidy`.

mod arrows;
mod cycles;
mod manifests;
mod references;
mod sizes;
mod sources;
mod words;

use anyhow::{Context, Result, bail};
use sources::Sources;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

const ALLOWED: &str = "crates/xtask/allowed.toml";
/// Breaks of one rule in one crate that are shown; `git diff` tells which of them are new.
const SHOWN: usize = 20;

/// A ratchet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Rule {
    LongFunction,
    TupleParameter,
    LongFile,
    WideLine,
    Word,
    FileCycle,
}

impl Rule {
    const ALL: [(&str, Self); 6] = [
        ("functions of more than 70 lines", Self::LongFunction),
        ("tuple parameters", Self::TupleParameter),
        ("files of more than 600 lines", Self::LongFile),
        ("lines of more than 110 columns", Self::WideLine),
        ("words that STYLE bans", Self::Word),
        ("files in cycles of use", Self::FileCycle),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, rule)| *rule == self).map_or("", |(name, _)| name)
    }
}

/// One break of a rule.
struct Break {
    rule: Rule,
    /// The crate, or `docs`.
    package: String,
    file: String,
    line: usize,
    what: String,
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

type Counts = BTreeMap<String, BTreeMap<String, usize>>;

/// Checks the repository at `root`. `tighten` lowers the allowances to what is there.
pub fn run(root: &Path, tighten: bool) -> Result<()> {
    let sources = Sources::read(root)?;
    let mut errors = Vec::new();
    references::check(&sources, &mut errors);
    manifests::check(root, &sources, &mut errors)?;
    arrows::check(root, &sources, &mut errors)?;
    let mut breaks = Vec::new();
    sizes::check(&sources, &mut breaks);
    words::check(&sources, &mut breaks);
    cycles::check(&sources, &mut breaks);
    let path = root.join(ALLOWED);
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let allowed: Counts = toml::from_str(&text).with_context(|| format!("{ALLOWED} is malformed"))?;
    let found = counts(&breaks);
    if tighten {
        // The first time, everything that is there is allowed.
        let most = if allowed.is_empty() { usize::MAX } else { 0 };
        let least = |rule: &str, package: &str, count: usize| {
            let before = allowed.get(rule).and_then(|own| own.get(package)).copied().unwrap_or(most);
            count.min(before)
        };
        let mut tightened = found.clone();
        for (rule, packages) in &mut tightened {
            packages.iter_mut().for_each(|(package, count)| *count = least(rule, package, *count));
        }
        std::fs::write(&path, toml::to_string(&tightened)?)?;
        return Ok(());
    }
    for (name, rule) in Rule::ALL {
        compare(name, rule, &allowed, &found, &breaks, &mut errors);
    }
    if errors.is_empty() {
        return Ok(());
    }
    errors.iter().for_each(|error| eprintln!("{error}"));
    bail!("{} findings", errors.len());
}

fn counts(breaks: &[Break]) -> Counts {
    let mut counts = Counts::new();
    for own in breaks {
        *counts.entry(own.rule.name().into()).or_default().entry(own.package.clone()).or_default() += 1;
    }
    counts
}

/// Compares what was found of a rule with what is allowed.
fn compare(
    name: &str,
    rule: Rule,
    allowed: &Counts,
    found: &Counts,
    breaks: &[Break],
    errors: &mut Vec<String>,
) {
    let empty = BTreeMap::new();
    let (allowed, found) = (allowed.get(name).unwrap_or(&empty), found.get(name).unwrap_or(&empty));
    for package in allowed.keys().chain(found.keys().filter(|package| !allowed.contains_key(*package))) {
        let most = allowed.get(package).copied().unwrap_or(0);
        let count = found.get(package).copied().unwrap_or(0);
        if count > most {
            errors.push(format!("{package}: {count} {name}, {most} are allowed:"));
            let own = breaks.iter().filter(|own| own.rule == rule && own.package == *package);
            errors.extend(own.take(SHOWN).map(|own| format!("  {own}")));
        } else if count < most {
            errors.push(format!(
                "{package}: {count} {name}, {most} are allowed: run `cargo xtask tidy --tighten`"
            ));
        }
    }
}
