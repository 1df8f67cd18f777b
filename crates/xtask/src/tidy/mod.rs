//! Checks of the sources. A rule either holds everywhere, or is a ratchet: `allowed.toml` says how often each
//! crate may break it, and that number may only shrink.
//! Source: TigerBeetle's `tidy.zig`, rust-analyzer's `xtask tidy`.

mod arrows;
mod cycles;
mod documents;
mod manifests;
mod references;
mod sizes;
mod sources;
#[cfg(test)]
mod tests;
mod words;

use anyhow::{Context, Result, bail};
use sources::{Source, Sources};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

const ALLOWED: &str = "crates/xtask/allowed.toml";
/// At most this many breaks of one rule in one crate are shown; `git diff` tells which of them are new.
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

impl Break {
    fn at(source: &Source, rule: Rule, line: usize, what: String) -> Self {
        Self { rule, package: source.package.clone(), file: source.path.clone(), line, what }
    }
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

/// The number of breaks by rule and crate.
type Counts = BTreeMap<String, BTreeMap<String, usize>>;

/// What to do with the findings.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Fail when there are errors, or when a count differs from its allowance.
    Check,
    /// Lower the allowances to the counts.
    Tighten,
    /// Print every break, allowed or not.
    List,
}

/// Checks the repository at `root`.
pub(crate) fn run(root: &Path, action: Action) -> Result<()> {
    let sources = Sources::read(root)?;
    let breaks = breaks(&sources);
    let path = root.join(ALLOWED);
    let text = std::fs::read_to_string(&path).with_context(|| format!("{ALLOWED} is not readable"))?;
    let allowed: Counts = toml::from_str(&text).with_context(|| format!("{ALLOWED} is malformed"))?;
    match action {
        Action::List => breaks.iter().for_each(|found| println!("{found}")),
        Action::Tighten => std::fs::write(&path, toml::to_string(&tightened(&allowed, counts(&breaks)))?)?,
        Action::Check => {
            let mut errors = errors(&sources);
            compare(&allowed, &breaks, &mut errors);
            if !errors.is_empty() {
                errors.iter().for_each(|error| eprintln!("{error}"));
                bail!("{} findings", errors.len());
            }
        }
    }
    Ok(())
}

/// Checks the rules that hold everywhere.
fn errors(sources: &Sources) -> Vec<String> {
    let mut errors = Vec::new();
    references::check(sources, &mut errors);
    manifests::check(sources, &mut errors);
    arrows::check(sources, &mut errors);
    documents::check(sources, &mut errors);
    errors
}

/// Checks the rules that are ratchets.
fn breaks(sources: &Sources) -> Vec<Break> {
    let mut breaks = Vec::new();
    sizes::check(sources, &mut breaks);
    words::check(sources, &mut breaks);
    cycles::check(sources, &mut breaks);
    breaks
}

fn counts(breaks: &[Break]) -> Counts {
    let mut counts = Counts::new();
    for found in breaks {
        let packages = counts.entry(found.rule.name().into()).or_default();
        *packages.entry(found.package.clone()).or_default() += 1;
    }
    counts
}

/// Returns the lesser of the allowance and the count, of each rule and crate.
fn tightened(allowed: &Counts, mut found: Counts) -> Counts {
    for (rule, packages) in &mut found {
        for (package, count) in packages.iter_mut() {
            *count = (*count).min(allowance(allowed, rule, package));
        }
        packages.retain(|_, count| *count > 0);
    }
    found.retain(|_, packages| !packages.is_empty());
    found
}

fn allowance(allowed: &Counts, rule: &str, package: &str) -> usize {
    allowed.get(rule).and_then(|packages| packages.get(package)).copied().unwrap_or(0)
}

/// Compares the breaks with the allowances. A count below its allowance is an error, too, so that an
/// improvement lowers the allowance for good.
fn compare(allowed: &Counts, breaks: &[Break], errors: &mut Vec<String>) {
    let found = counts(breaks);
    for rule in allowed.keys().filter(|rule| !Rule::ALL.iter().any(|(name, _)| name == rule)) {
        errors.push(format!("{ALLOWED}: there is no rule \"{rule}\""));
    }
    for (name, rule) in Rule::ALL {
        let packages = [allowed, &found].into_iter().filter_map(|counts| counts.get(name));
        let packages: BTreeSet<&String> = packages.flat_map(|packages| packages.keys()).collect();
        for package in packages {
            let most = allowance(allowed, name, package);
            let count = allowance(&found, name, package);
            if count > most {
                errors.push(format!("{package}: {count} {name}, {most} are allowed:"));
                let shown = breaks.iter().filter(|found| found.rule == rule && found.package == *package);
                errors.extend(shown.take(SHOWN).map(|found| format!("  {found}")));
            } else if count < most {
                errors.push(format!(
                    "{package}: {count} {name}, {most} are allowed: run `cargo xtask tidy --tighten`"
                ));
            }
        }
    }
}
