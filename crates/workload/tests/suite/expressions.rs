//! Expressions drawn at random from every function, operator and cast that `pg_proc`, `pg_operator` and
//! `pg_cast` show: PostgreSQL gives the same rows and types for them, or the same SQLSTATE.
//!
//! Reprise may refuse a statement with 0A000. Where both refuse a statement while it runs, the SQLSTATEs may
//! differ, and a few statements may fail on one side only: PostgreSQL does not promise which parts of a
//! statement it evaluates, nor in which order. `REPRISE_HISTORIES` says how many statements are compared,
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
    let is_escape = error.starts_with("42601 invalid Unicode escape");
    is_escape || ["21", "22", "23", "54", "0A000"].iter().any(|class| error.starts_with(class))
}

/// Returns whether two rows have the same values, or doubles that differ in what PostgreSQL does not promise.
fn rows_agree(own: &str, other: &str, keeps_any: bool) -> bool {
    own == other
        || own.split("  ").count() == other.split("  ").count() && {
            own.split("  ")
                .zip(other.split("  "))
                .all(|(own, other)| own == other || numbers_agree(own, other, keeps_any))
        }
}

/// Maximum number of digits of a double as text: 17, and zeros before them.
const MOST_DIGITS_OF_DOUBLE: usize = 22;

/// Returns whether two numbers differ in their last digit only: mathematical functions of the C library
/// are not exact, and of the shortest texts that mean a double PostgreSQL takes none on the edge of those
/// that do. Numbers of more digits than a double has are numerics, and have no other digits. With
/// `keeps_any`, they may differ in their scale.
fn numbers_agree(own: &str, other: &str, keeps_any: bool) -> bool {
    let (Ok(own_value), Ok(other_value)) = (own.parse::<f64>(), other.parse::<f64>()) else { return false };
    let digits = |text: &str| text.bytes().filter(u8::is_ascii_digit).count();
    if digits(own).max(digits(other)) > MOST_DIGITS_OF_DOUBLE {
        let trimmed = |text: &str| match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text.to_owned(),
        };
        return keeps_any && trimmed(own) == trimmed(other);
    }
    if own_value == other_value {
        return keeps_any || own.contains('e') || own.len() == other.len() || own_value == 0.0;
    }
    let is_short = own.trim_start_matches('-').len() <= 12 && own_value as f32 == other_value as f32;
    is_short || (own_value - other_value).abs() <= 1e-14 * own_value.abs()
}

/// Returns whether the answers agree, or differ in what Reprise refuses.
fn agree(statement: &str, reprise: &Outcome, postgresql: &Outcome) -> bool {
    match (reprise, postgresql) {
        (Ok(own), Ok(other)) => {
            // PostgreSQL does not promise which of equal values it keeps.
            let keeps_any = ["UNION", "INTERSECT", "EXCEPT", "DISTINCT", "GROUP"]
                .iter()
                .any(|word| statement.contains(word));
            let mut pairs = own.iter().zip(other);
            own.len() == other.len() && pairs.all(|(own, other)| rows_agree(own, other, keeps_any))
        }
        (Err(own), _) if own.starts_with("0A000") => true,
        (Err(own), Err(other)) => {
            // PostgreSQL has two functions `array_agg`, and chooses none for an argument of unknown type.
            let is_undetermined = own.starts_with("42804 could not determine") && other.starts_with("42725");
            is_undetermined
                || own.get(..5) == other.get(..5)
                || is_of_evaluation(own) && is_of_evaluation(other)
        }
        _ => false,
    }
}

/// Returns whether one side alone evaluates an expression that fails.
fn one_fails(reprise: &Outcome, postgresql: &Outcome) -> bool {
    match (reprise, postgresql) {
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => is_of_evaluation(error),
        _ => false,
    }
}

/// What the statements gave.
#[derive(Default)]
struct Counts {
    answered: u64,
    failed: u64,
    failed_on_one_side: u64,
    refused: BTreeMap<String, u64>,
    differences: Vec<String>,
}

impl Counts {
    fn add(&mut self, seed: u64, statement: &str, reprise: &Outcome, postgresql: &Outcome) {
        match reprise {
            Ok(_) => self.answered += 1,
            Err(error) if error.starts_with("0A000") => *self.refused.entry(error.clone()).or_default() += 1,
            Err(_) => self.failed += 1,
        }
        if agree(statement, reprise, postgresql) {
            return;
        }
        if one_fails(reprise, postgresql) {
            self.failed_on_one_side += 1;
            return;
        }
        let answers = format!("  Reprise {reprise:?}\n  PostgreSQL {postgresql:?}");
        self.differences.push(format!("seed {seed}\n{statement};\n{answers}"));
    }
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
        None => 0..number("REPRISE_HISTORIES").unwrap_or(2_000),
    };
    let is_single = seeds.end - seeds.start == 1;
    let (mut postgres, mut reprise) = (PostgreSql(server.connect()), Reprise::new());
    let callables = Callables::of(&mut reprise);
    let mut both = |statement: &str| (outcome(&mut reprise, statement), outcome(&mut postgres, statement));
    for definition in SCHEMA {
        let (own, other) = both(definition);
        assert!(own.is_ok() && other.is_ok(), "{definition}: {own:?} {other:?}");
    }
    let (mut counts, mut is_changed) = (Counts::default(), true);
    for seed in seeds {
        if is_changed || seed % PER_FILLING == 0 {
            let mut filler = Writer::new(&callables, SmallRng::seed_from_u64(!(seed / PER_FILLING)));
            for statement in filler.filling() {
                let (own, other) = both(&statement);
                assert!(own.is_ok() && other.is_ok(), "{statement}: {own:?} {other:?}");
            }
        }
        let statement = Writer::new(&callables, SmallRng::seed_from_u64(seed)).statement();
        let (own, other) = both(&statement);
        // What only one side has written is undone, so that later statements meet the same rows.
        is_changed = own != other && !statement.starts_with("SELECT");
        counts.add(seed, &statement, &own, &other);
    }
    let Counts { answered, failed, failed_on_one_side, refused, differences } = counts;
    let of_refused: u64 = refused.values().sum();
    eprintln!("{answered} answered, {failed} failed, {failed_on_one_side} on one side, {of_refused} refused");
    if std::env::var("REPRISE_SHOW_REFUSED").is_ok() {
        refused.iter().for_each(|(error, count)| eprintln!("{count} {error}"));
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    assert!(is_single || answered > 2 * of_refused, "too many statements are refused");
    assert!(is_single || answered > 50 * failed_on_one_side, "too many fail on one side only");
}
