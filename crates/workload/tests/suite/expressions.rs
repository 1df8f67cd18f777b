//! Expressions drawn at random from every function, operator and cast that `pg_proc`, `pg_operator` and
//! `pg_cast` show: PostgreSQL gives the same rows and types for them, or the same SQLSTATE.
//!
//! Reprise may refuse a statement with 0A000, a number of more than 36 digits with 22003, and an interval
//! that PostgreSQL lets overflow with 22008. Where both
//! refuse a statement while it runs, the SQLSTATEs may differ: PostgreSQL does not promise the order in
//! which parts of a statement are evaluated. Where a NULL makes the value of an expression, PostgreSQL may
//! leave out parts that Reprise evaluates. `REPRISE_HISTORIES` says how many statements are compared,
//! `REPRISE_SEED` makes one again. Skipped, with a message, where no PostgreSQL is installed.

mod writer;

use crate::answers::{PostgreSql, Reprise};
use crate::server::Server;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use sqllogictest::{DB, DBOutput};
use std::collections::BTreeMap;
use writer::{Callables, SCHEMA, Writer};

/// Statements between two fillings of the tables.
const PER_FILLING: u64 = 25;

/// What a statement gives: its rows in the order of their texts, or the SQLSTATE and message of an error.
type Outcome = Result<Vec<String>, String>;

fn outcome<D: DB>(database: &mut D, statement: &str) -> Outcome {
    match database.run(statement) {
        Ok(DBOutput::Rows { rows, .. }) => {
            let mut rows: Vec<String> = rows.into_iter().map(|row| row.join("  ")).collect();
            rows.sort();
            Ok(rows)
        }
        Ok(DBOutput::StatementComplete(affected)) => Ok(vec![format!("{affected} rows")]),
        Ok(_) => Ok(Vec::new()),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns whether an error is one of evaluation: of data or of a constraint.
fn is_of_evaluation(error: &str) -> bool {
    ["21", "22", "23", "0A000"].iter().any(|class| error.starts_with(class))
}

/// Returns whether two rows have the same values, or doubles that differ in what PostgreSQL does not promise.
fn rows_agree(own: &str, other: &str) -> bool {
    own == other
        || own.split("  ").count() == other.split("  ").count() && {
            own.split("  ")
                .zip(other.split("  "))
                .all(|(own, other)| own == other || numbers_agree(own, other))
        }
}

/// Returns whether two numbers differ in their last digit only: mathematical functions of the C library
/// are not exact, and of the shortest texts that mean a double PostgreSQL takes none on the edge of those
/// that do. A numeric of Reprise has no more than 36 digits behind its point.
fn numbers_agree(own: &str, other: &str) -> bool {
    let (Ok(own_value), Ok(other_value)) = (own.parse::<f64>(), other.parse::<f64>()) else { return false };
    let is_cut = own.rsplit('.').next().is_some_and(|digits| digits.len() >= 36);
    if own_value == other_value {
        return is_cut
            || own.contains('e')
            || own_value as f32 == other_value as f32 && own.len() != other.len();
    }
    let is_short = own.trim_start_matches('-').len() <= 12 && own_value as f32 == other_value as f32;
    is_short || (own_value - other_value).abs() <= 1e-14 * own_value.abs()
}

fn may_differ(statement: &str, reprise: &Outcome, postgresql: &Outcome) -> bool {
    match (reprise, postgresql) {
        (Ok(own), Ok(other)) => {
            own.len() == other.len() && own.iter().zip(other).all(|(own, other)| rows_agree(own, other))
        }
        (Err(own), _) if own.starts_with("0A000") => true,
        (Err(own), Err(other)) => {
            own.get(..5) == other.get(..5) || is_of_evaluation(own) && is_of_evaluation(other)
        }
        (Err(own), Ok(_))
            if ["22003 numeric field", "22008 interval"].iter().any(|at| own.starts_with(at)) =>
        {
            true
        }
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => {
            is_of_evaluation(error) && (statement.contains("NULL") || statement.contains("nullif"))
        }
    }
}

/// Returns whether PostgreSQL fails while it plans the statement: it evaluates constants that no row needs.
fn is_folded(
    postgresql: &Outcome,
    statement: &str,
    mut both: impl FnMut(&str) -> (Outcome, Outcome),
) -> bool {
    matches!(postgresql, Err(error) if is_of_evaluation(error))
        && both(&format!("EXPLAIN {statement}")).1.err() == postgresql.as_ref().err().cloned()
}

#[test]
fn random_expressions_have_postgresqls_values() {
    let Some(server) = Server::start() else {
        eprintln!("skipped: no PostgreSQL is installed");
        return;
    };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seeds = match number("REPRISE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("REPRISE_HISTORIES").unwrap_or(1_000),
    };
    let is_single = seeds.end - seeds.start == 1;
    let (mut postgres, mut reprise) = (PostgreSql(server.connect()), Reprise::new());
    let callables = Callables::of(&mut reprise);
    let mut both = |statement: &str| (outcome(&mut reprise, statement), outcome(&mut postgres, statement));
    for definition in SCHEMA {
        let (own, other) = both(definition);
        assert!(own.is_ok() && other.is_ok(), "{definition}: {own:?} {other:?}");
    }
    let (mut answered, mut failed, mut refused) = (0, 0, BTreeMap::<String, u64>::new());
    let mut differences = Vec::new();
    let mut is_changed = false;
    for seed in seeds {
        if is_single || is_changed || seed % PER_FILLING == 0 {
            let mut filler = Writer::new(&callables, SmallRng::seed_from_u64(!(seed / PER_FILLING)));
            for statement in filler.filling() {
                let (own, other) = both(&statement);
                assert!(own.is_ok() && other.is_ok(), "{statement}: {own:?} {other:?}");
            }
        }
        let statement = Writer::new(&callables, SmallRng::seed_from_u64(seed)).statement();
        let (own, other) = both(&statement);
        is_changed = own != other && !statement.starts_with("SELECT");
        match &own {
            Ok(_) => answered += 1,
            Err(error) if error.starts_with("0A000") => *refused.entry(error.clone()).or_default() += 1,
            Err(_) => failed += 1,
        }
        if !may_differ(&statement, &own, &other) && !is_folded(&other, &statement, &mut both) {
            differences.push(format!("seed {seed}\n{statement};\n  own {own:?}\n  PostgreSQL {other:?}"));
        }
    }
    let of_refused: u64 = refused.values().sum();
    eprintln!("{answered} answered, {failed} failed, {of_refused} refused");
    if std::env::var("REPRISE_SHOW_REFUSED").is_ok() {
        refused.iter().for_each(|(error, count)| eprintln!("{count} {error}"));
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    assert!(is_single || answered > of_refused, "most statements are refused");
}
