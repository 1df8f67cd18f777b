//! The shape of documents: every Rust file opens with its purpose; README and ARCHITECTURE stay short; the
//! changelog has three sections.

use super::sources::Sources;

/// A document that must stay short.
struct Limit {
    path: &'static str,
    lines: usize,
}

const LIMITS: [Limit; 2] =
    [Limit { path: "README.md", lines: 120 }, Limit { path: "ARCHITECTURE.md", lines: 300 }];

const CHANGELOG: &str = "CHANGELOG.md";
/// In the order in which they stand under a release.
const SECTIONS: [&str; 3] = ["### Added", "### Changed", "### Fixed"];

pub(super) fn check(sources: &Sources, errors: &mut Vec<String>) {
    for source in sources.files.iter().filter(|source| source.rust.is_some()) {
        // `#![…]` may stand before the documentation, as in fuzz targets.
        let mut lines = source.text.lines().filter(|line| !line.starts_with("#!["));
        if !lines.next().is_some_and(|line| line.starts_with("//!")) {
            errors.push(format!("{}: it does not open with `//!` and its purpose", source.path));
        }
    }
    for limit in LIMITS {
        let lines = sources.text(limit.path).lines().count();
        if lines > limit.lines {
            errors.push(format!("{}: it has {lines} lines, {} are allowed", limit.path, limit.lines));
        }
    }
    check_changelog(sources.text(CHANGELOG), errors);
}

/// Each release (`## …`) has only the three sections, each at most once and in their order, and every entry
/// stands in a section.
fn check_changelog(text: &str, errors: &mut Vec<String>) {
    let mut section = None;
    for (number, line) in text.lines().enumerate() {
        let mut report = |what: &str| errors.push(format!("{CHANGELOG}:{}: {what}", number + 1));
        if line.starts_with("## ") {
            section = None;
        } else if line.starts_with("### ") {
            let found = SECTIONS.iter().position(|name| *name == line);
            match found {
                None => report("the sections are Added, Changed and Fixed"),
                Some(_) if section >= found => report("the order of sections is Added, Changed, Fixed"),
                Some(_) => section = found,
            }
        } else if line.starts_with("* ") && section.is_none() {
            report("an entry outside of a section");
        }
    }
}
