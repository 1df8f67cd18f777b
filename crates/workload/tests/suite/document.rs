//! The examples of `docs/sql.md`: each is valid in PostgreSQL, and those that differ have another answer
//! there.
//!
//! Skipped, with a message, where no PostgreSQL is installed.

use crate::answers::{PostgreSql, Reprise};
use crate::server::Server;
use sqllogictest::{DB, DBOutput, DefaultColumnType};
use std::path::Path;

/// Errors of what cannot run in a transaction, ends itself, or needs what this PostgreSQL has not installed.
const MAY_FAIL: &[&str] = &["25001", "57014", "58P01", "42704 language", "0A000 extension"];

/// Returns the definitions that the examples use, and the examples with what is said of them.
fn examples(document: &str) -> (String, Vec<(String, String)>) {
    let script = document.split("```sql\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let tables = document.split("## Functions\n").next().unwrap();
    let of = |line: &str| {
        let (start, end) = (line.find('`')?, line.rfind('`')?);
        let is_line = line.starts_with("| ") && line.ends_with("` |") && start < end;
        let said = line[..start].split(" | ").nth(1)?;
        is_line.then(|| (said.to_owned(), line[start + 1..end].to_owned()))
    };
    (script.to_owned(), tables.lines().filter_map(of).collect())
}

fn shown<E: std::fmt::Display>(answer: Result<DBOutput<DefaultColumnType>, E>) -> String {
    match answer {
        Ok(DBOutput::Rows { rows, .. }) => format!("{rows:?}"),
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn examples_are_postgresqls() {
    let Some(server) = Server::start() else {
        eprintln!("skipped: no PostgreSQL is installed");
        return;
    };
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sql.md");
    let (script, examples) = examples(&std::fs::read_to_string(document).unwrap());
    assert!(examples.len() > 200, "only {} examples are found", examples.len());
    let mut postgresql = PostgreSql(server.connect());
    let (mut wrong, mut differing) = (Vec::new(), 0);
    // The examples name the user that a server has at first.
    let _ = postgresql.run("CREATE ROLE postgres SUPERUSER");
    // The client's connection would wait for the rows of a COPY.
    for (said, example) in examples.into_iter().filter(|(_, example)| !example.contains("COPY")) {
        for statement in ["ROLLBACK", "BEGIN", &script] {
            postgresql.run(statement).unwrap();
        }
        let answer = postgresql.run(&example);
        if said == "differs" {
            differing += 1;
            let (own, other) = (shown(Reprise::new().run(&example)), shown(answer));
            if own == other {
                wrong.push(format!("{example}: both answer {own}"));
            }
        } else if let Err(error) = answer
            && !MAY_FAIL.iter().any(|state| error.to_string().starts_with(state))
        {
            wrong.push(format!("{example}: {error}"));
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(differing > 0, "no example differs");
}
