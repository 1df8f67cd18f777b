//! The static analysis on fixtures: `analysis/NAME.sql` must come to `analysis/NAME.expected`.
//! With `REPRISE_WRITE_EXPECTED=1` the expected files are written instead; look at the difference.

use procedure::analysis::{Analysis, ReplaySummary};
use sql::Schema;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The definitions of a script.
fn schema(script: &str) -> Schema {
    let mut schema = Schema::default();
    for (statement, line, _) in Schema::split(script).unwrap() {
        schema = match schema.apply(&statement) {
            Ok((changed, _)) => changed,
            Err(error) => panic!("statement at line {line}: {error}"),
        };
    }
    schema
}

fn explained(script: &str) -> String {
    let schema = schema(script);
    let mut procedures: Vec<_> = schema.procedures().collect();
    procedures.sort_by_key(|procedure| procedure.id);
    let mut text = String::new();
    for procedure in procedures.iter().filter(|procedure| !procedure.read_only) {
        writeln!(text, "{}", ReplaySummary::of(procedure)).unwrap();
    }
    write!(text, "{}", Analysis::of(procedures.into_iter().map(|procedure| &**procedure))).unwrap();
    text
}

fn check(name: &str, script: &str) {
    let expected =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/analysis").join(format!("{name}.expected"));
    let found = explained(script);
    if std::env::var_os("REPRISE_WRITE_EXPECTED").is_some() {
        std::fs::write(&expected, &found).unwrap();
    }
    let text = std::fs::read_to_string(&expected).unwrap_or_default();
    assert_eq!(found, text, "{name}: found (left) is not what {} says (right)", expected.display());
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_bank_is_as_the_paper_shows_it() {
    check("bank", &std::fs::read_to_string(root().join("examples/bank.sql")).unwrap());
}

#[test]
fn workloads() {
    for (name, files) in [
        ("tpcc", ["tpcc/schema.sql", "tpcc/procedures.sql"]),
        ("smallbank", ["smallbank/schema.sql", "smallbank/procedures.sql"]),
    ] {
        let read = |file| std::fs::read_to_string(root().join("crates/workload/src").join(file)).unwrap();
        check(name, &files.map(read).join("\n"));
    }
}

#[test]
fn fixtures() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/analysis");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "sql") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            check(&name, &std::fs::read_to_string(&path).unwrap());
            seen += 1;
        }
    }
    assert!(seen >= 5, "the fixtures are there");
}
