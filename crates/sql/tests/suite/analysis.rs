//! The static analysis on fixtures: `analysis/*.sql` must come to `analysis/NAME.expected`.
//! With `REPRISE_WRITE_EXPECTED=1` the expected files are written instead; look at the difference.

use procedure::analysis::{Analysis, Decomposition, LogFacts, Pieces, ReplaySummary};
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

/// Whether the only block of some procedures on tables `a` and `b` falls into partitions.
fn falls_apart(a: &str, b: &str, body: &str) -> bool {
    let script = format!(
        "CREATE TABLE a (id {a}, v DOUBLE PRECISION); CREATE INDEX a_id ON a (id);
        CREATE TABLE b (id {b}, v DOUBLE PRECISION); CREATE INDEX b_id ON b (id);
        CREATE PROCEDURE there(k INT, l BIGINT, x NUMERIC(8,3)) LANGUAGE plpgsql AS $$
        DECLARE p DOUBLE PRECISION;
        BEGIN
            {body}
        END $$;"
    );
    let schema = schema(&script);
    let procedures = schema.procedures().map(|own| (&**own, false));
    let analysis = Analysis::for_replay(procedures, LogFacts::default(), Decomposition::Chopping);
    let pieces = Pieces::of(&analysis);
    assert_eq!(pieces.partitioned.len(), 1, "{body} is one block");
    pieces.partitioned[0]
}

/// Columns of several tables tell one partition where equal values have one canonical form.
#[test]
fn tables_share_partitions() {
    let both = "UPDATE a SET v = v + 1 WHERE id = k RETURNING v INTO p; UPDATE b SET v = p WHERE id = k;
        UPDATE a SET v = p WHERE id = k;";
    let long = both.replace("= k", "= l");
    for (a, b, body, expected) in [
        ("INT PRIMARY KEY", "INT PRIMARY KEY", both, true),
        ("INT PRIMARY KEY", "BIGINT PRIMARY KEY", both, true),
        ("SMALLINT PRIMARY KEY", "BIGINT PRIMARY KEY", &long, true),
        ("INT PRIMARY KEY", "NUMERIC(12,2) PRIMARY KEY", both, true),
        ("INT", "INT PRIMARY KEY", both, true),
        ("DOUBLE PRECISION PRIMARY KEY", "INT PRIMARY KEY", both, false),
        // Rounded before it is a key.
        ("NUMERIC(8,2) PRIMARY KEY", "INT PRIMARY KEY", &both.replace("= k", "= x::int"), false),
    ] {
        assert_eq!(falls_apart(a, b, body), expected, "{a} and {b}: {body}");
    }
}

/// Random numbers and tables without keys keep a procedure whole only where they are drawn for each row, or
/// perhaps not at all.
#[test]
fn draws_do_not_keep_pieces_together() {
    let insert = "INSERT INTO a VALUES (k, random());";
    let draw = "p := random(); UPDATE a SET v = v + p WHERE id = k;";
    for (a, body, expected) in [
        ("INT PRIMARY KEY", insert, true),
        ("INT", insert, true),
        ("INT", &format!("{draw} DELETE FROM a WHERE id = k; {insert}"), true),
        ("INT PRIMARY KEY", draw, true),
        ("INT PRIMARY KEY", "UPDATE a SET v = random() WHERE id = k;", false),
        ("INT PRIMARY KEY", "UPDATE a SET v = 1 WHERE id = k AND v > random();", false),
        (
            "INT PRIMARY KEY",
            "p := CASE WHEN k > 1 THEN random() END; UPDATE a SET v = p WHERE id = k;",
            false,
        ),
    ] {
        assert_eq!(falls_apart(a, "INT", body), expected, "{a}: {body}");
    }
}
