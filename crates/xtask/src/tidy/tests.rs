//! Each rule finds a planted break of it, and nothing in the same repository without the break.

use super::sources::Sources;
use super::{Counts, breaks, compare, counts, errors, tightened};

/// A file of a repository.
struct File {
    path: &'static str,
    text: String,
}

/// Returns a file of a repository.
fn file(path: &'static str, text: &str) -> File {
    File { path, text: text.into() }
}

/// A repository of two crates that breaks no rule.
fn repository() -> Vec<File> {
    vec![
        file("Cargo.toml", "[workspace.dependencies]\nserde = \"1\" # what is written as JSON\n"),
        file("crates/low/Cargo.toml", "[dependencies]\nserde.workspace = true\n"),
        file("crates/low/src/lib.rs", "//! Rows.\nmod row;\nmod key;\n"),
        file("crates/low/src/row.rs", "//! A row. Held by: `rows_fit`.\nuse serde::Serialize;\n"),
        file(
            "crates/low/src/key.rs",
            "//! A key of a row (`row.rs`).\nuse crate::row::Row;\nfn rows_fit() {}\n",
        ),
        file("crates/high/Cargo.toml", "[dependencies]\nlow.workspace = true\n"),
        file("crates/high/src/lib.rs", "//! Tables.\nuse low::Row;\n"),
        file("ARCHITECTURE.md", "# Architecture\n```\nhigh → low\n```\n"),
        file("README.md", "# Rows\n"),
        file("CHANGELOG.md", "# Changelog\n## 1\n### Added\n* Rows.\n### Fixed\n* Keys.\n"),
    ]
}

/// Returns the sources of the repository, in which `planted` replaces the file of its path.
fn sources(planted: File) -> Sources {
    let mut sources = Sources::default();
    let mut files = repository();
    files.retain(|file| file.path != planted.path);
    files.push(planted);
    for file in files {
        sources.add(file.path, file.text).expect("the files are well-formed");
    }
    sources
}

/// Returns everything that the rules say of the repository with the planted file.
fn findings(path: &'static str, text: &str) -> Vec<String> {
    let sources = sources(file(path, text));
    let mut findings = errors(&sources);
    findings.extend(breaks(&sources).iter().map(|found| format!("{}: {found}", found.rule.name())));
    findings
}

/// Asserts that the planted file leads to one finding, which contains `expected`.
#[track_caller]
fn finds(path: &'static str, text: &str, expected: &str) {
    let findings = findings(path, text);
    assert!(findings.len() == 1 && findings[0].contains(expected), "{findings:#?}");
}

const ROW: &str = "crates/low/src/row.rs";
const HEAD: &str = "//! A row.\nuse serde::Serialize;\n";

#[test]
fn a_tidy_repository_has_no_findings() {
    assert_eq!(findings("README.md", "# Rows\n"), Vec::<String>::new());
}

#[test]
fn long_functions() {
    let body = |lines| format!("{HEAD}fn long() {{\n{}}}\n", "    f();\n".repeat(lines));
    finds(ROW, &body(69), "functions of more than 70 lines: crates/low/src/row.rs:3: `long` has 71 lines");
    assert!(findings(ROW, &body(68)).is_empty());
    let method = format!("{HEAD}impl Row {{ fn long() {{\n{}}} }}\n", "    f();\n".repeat(69));
    finds(ROW, &method, "`long` has 71 lines");
}

#[test]
fn tuple_parameters() {
    finds(ROW, &format!("{HEAD}fn f(pair: (u8, u8)) {{}}\n"), "tuple parameters: crates/low/src/row.rs:3");
    finds(ROW, &format!("{HEAD}trait Pair {{ fn f(pair: (u8, u8)); }}\n"), "tuple parameters");
    // The trait counts, not its implementations.
    assert!(findings(ROW, &format!("{HEAD}impl Pair for Row {{ fn f(pair: (u8, u8)) {{}} }}\n")).is_empty());
}

#[test]
fn long_files() {
    let text = |lines| format!("{HEAD}{}", "const X: u8 = 0;\n".repeat(lines));
    finds(ROW, &text(599), "files of more than 600 lines: crates/low/src/row.rs:1: 601 lines");
    assert!(findings(ROW, &text(598)).is_empty());
}

#[test]
fn wide_lines_in_comments_too() {
    let text = |columns: usize| format!("{HEAD}// {}\n", "x".repeat(columns - 3));
    finds(ROW, &text(111), "lines of more than 110 columns: crates/low/src/row.rs:3: 111 columns");
    assert!(findings(ROW, &text(110)).is_empty());
}

#[test]
fn banned_words() {
    finds(ROW, &format!("{HEAD}// Whoever reads it.\n"), "words that STYLE bans: crates/low/src/row.rs:3");
    finds(ROW, &format!("{HEAD}// Seen by others.\n"), "words that STYLE bans: crates/low/src/row.rs:3");
    assert!(findings(ROW, &format!("{HEAD}// EXCEPTION WHEN OTHERS\n")).is_empty());
    finds("README.md", "As DESIGN §4 says.\n", "words that STYLE bans: README.md:1");
}

#[test]
fn cycles_of_files() {
    let findings = findings(ROW, &format!("{HEAD}fn f() {{ crate::key::rows_fit(); }}\n"));
    assert_eq!(findings.len(), 2, "{findings:#?}");
    assert!(findings.iter().all(|found| found.contains("row.rs") && found.contains("key.rs")));
    assert!(findings[0].starts_with("files in cycles of use"));
    // What only tests use is no cycle.
    let tests = "#[cfg(test)]\nmod tests { use crate::key::rows_fit; }\n";
    assert!(self::findings(ROW, &format!("{HEAD}{tests}")).is_empty());
}

#[test]
fn files_that_do_not_exist() {
    finds("README.md", "See `low/src/column.rs`.\n", "README.md:1: there is no file `low/src/column.rs`");
    assert!(findings("README.md", "See `low/src/row.rs` and `key.rs`.\n").is_empty());
}

#[test]
fn tests_that_do_not_exist() {
    let text = "//! A row. Held by: `rows_fit`,\n//! `rows_are_whole`.\nuse serde::Serialize;\n";
    finds(ROW, text, "crates/low/src/row.rs:2: there is no test `rows_are_whole`");
}

#[test]
fn items_that_do_not_exist() {
    finds("README.md", "A `low::Column`.\n", "README.md:1: there is no `Column` in low");
    finds("README.md", "A `low::row::Column::fits`.\n", "README.md:1: there is no `Column` in low");
    assert!(findings("README.md", "`low::key::rows_fit`, `std::Column`\n").is_empty());
}

#[test]
fn unused_dependencies() {
    let text = "//! A row.\n// It was made by serde::Serialize.\n";
    finds(ROW, text, "crates/low/Cargo.toml: `serde` is not used");
}

#[test]
fn dependencies_without_a_reason() {
    finds("Cargo.toml", "[workspace.dependencies]\nserde = \"1\"\n", "a dependency without a reason: serde");
}

#[test]
fn arrows_that_the_architecture_does_not_show() {
    finds("ARCHITECTURE.md", "# Architecture\n", "the arrows between crates are\nhigh → low");
    finds("ARCHITECTURE.md", "high → low\nlow → high\n", "the arrows between crates are\nhigh → low");
}

#[test]
fn files_without_a_purpose() {
    finds(ROW, "use serde::Serialize;\n", "crates/low/src/row.rs: it does not open with `//!`");
    assert!(findings(ROW, &format!("#![no_main]\n{HEAD}")).is_empty());
}

#[test]
fn documents_that_are_too_long() {
    finds("README.md", &"Row.\n".repeat(121), "README.md: it has 121 lines, 120 are allowed");
    assert!(findings("README.md", &"Row.\n".repeat(120)).is_empty());
}

#[test]
fn sections_of_the_changelog() {
    finds("CHANGELOG.md", "## 1\n### Removed\n", "CHANGELOG.md:2: the sections are");
    finds("CHANGELOG.md", "## 1\n### Fixed\n* X.\n### Added\n* Y.\n", "CHANGELOG.md:4: the order");
    finds("CHANGELOG.md", "## 1\n### Added\n* X.\n### Added\n", "CHANGELOG.md:4: the order");
    finds("CHANGELOG.md", "## 1\n* X.\n", "CHANGELOG.md:2: an entry outside of a section");
    assert!(findings("CHANGELOG.md", "## 2\n### Fixed\n* X.\n## 1\n### Added\n* Y.\n").is_empty());
}

/// Returns allowances for banned words.
fn words(count: usize) -> Counts {
    let text = format!("[\"words that STYLE bans\"]\nlow = {count}\n");
    if count == 0 { Counts::new() } else { toml::from_str(&text).expect("the text is well-formed") }
}

#[test]
fn allowances_only_shrink() {
    let sources = sources(file(ROW, &format!("{HEAD}// Nobody.\n// Somebody.\n")));
    let breaks = breaks(&sources);
    let compared = |allowed: usize| {
        let mut errors = Vec::new();
        compare(&words(allowed), &breaks, &mut errors);
        errors
    };
    assert!(compared(2).is_empty());
    assert!(compared(1)[0].contains("low: 2 words that STYLE bans, 1 are allowed:"), "{:?}", compared(1));
    assert!(compared(0)[0].contains("low: 2 words that STYLE bans, 0 are allowed:"), "{:?}", compared(0));
    assert!(compared(3)[0].contains("run `cargo xtask tidy --tighten`"), "{:?}", compared(3));

    // Tightening lowers an allowance and never raises one.
    assert_eq!(tightened(&words(3), counts(&breaks)), words(2));
    assert_eq!(tightened(&words(1), counts(&breaks)), words(1));
    assert_eq!(tightened(&words(0), counts(&breaks)), words(0));
}

#[test]
fn allowances_of_unknown_rules_are_refused() {
    let allowed: Counts = toml::from_str("[\"long functions\"]\nlow = 1\n").expect("it is well-formed");
    let mut errors = Vec::new();
    compare(&allowed, &[], &mut errors);
    assert!(errors.len() == 1 && errors[0].contains("there is no rule \"long functions\""), "{errors:?}");
}
