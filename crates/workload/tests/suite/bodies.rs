//! Routines in PL/pgSQL whose bodies are drawn at random: PostgreSQL gives the same rows, or the same
//! SQLSTATE, and has the same rows in the tables after each call; and both ways to replay a command log come
//! back to them.
//!
//! Reprise may refuse a routine with 0A000, and a few calls may fail on one side only: PostgreSQL evaluates
//! the constants of a statement that then finds no row. `REPRISE_HISTORIES` says how many routines are
//! compared, `REPRISE_SEED` makes one again. Skipped, with a message, where no PostgreSQL is installed.

mod values;
mod writer;

use crate::answers::{PostgreSql, Reprise};
use crate::constraints::{FOLDER, digests};
use crate::server::Server;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use reprise::disk::{CrashingDisk, Disk};
use reprise::{Compile, Config, Database};
use sqllogictest::{DB, DBOutput};
use std::collections::BTreeMap;
use std::sync::Arc;
use writer::{SCHEMA, STATE, Writer, filling};

/// Routines of one database, which is recovered after them.
const PER_DATABASE: u64 = 20;

/// Rows in their order, or the SQLSTATE and message of an error.
type Outcome = Result<Vec<String>, String>;

fn outcome<D: DB>(database: &mut D, statement: &str) -> Outcome {
    match database.run(statement) {
        Ok(DBOutput::Rows { rows, .. }) => Ok(rows.into_iter().map(|row| row.join("  ")).collect()),
        Ok(_) => Ok(Vec::new()),
        Err(error) => Err(error.to_string()),
    }
}

fn agree(reprise: &Outcome, postgresql: &Outcome) -> bool {
    match (reprise, postgresql) {
        (Ok(own), Ok(other)) => own == other,
        (Err(own), Err(other)) => own.get(..5) == other.get(..5),
        _ => false,
    }
}

/// Returns whether one side alone has met an error of data.
fn one_fails(reprise: &Outcome, postgresql: &Outcome) -> bool {
    match (reprise, postgresql) {
        (Err(own), Err(other)) => {
            own.get(..5) != other.get(..5) && (own.starts_with("22") || other.starts_with("22"))
        }
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => error.starts_with("22"),
        _ => false,
    }
}

fn is_refusal(outcome: &Outcome) -> bool {
    outcome.as_ref().is_err_and(|error| error.starts_with("0A000"))
}

/// What the routines gave.
#[derive(Default)]
struct Counts {
    answered: u64,
    failed: u64,
    failed_on_one_side: u64,
    refused: BTreeMap<String, u64>,
    differences: Vec<String>,
}

/// The two databases, and what is counted.
struct Pair<'c> {
    reprise: Reprise,
    postgres: PostgreSql,
    counts: &'c mut Counts,
}

impl Pair<'_> {
    fn both(&mut self, statement: &str) -> (Outcome, Outcome) {
        (outcome(&mut self.reprise, statement), outcome(&mut self.postgres, statement))
    }

    fn prepare(&mut self, statements: &[String]) {
        for statement in statements {
            let (own, other) = self.both(statement);
            assert!(own.is_ok() && other.is_ok(), "{statement}: {own:?} {other:?}");
        }
    }

    /// Defines a routine, calls it, and compares rows after each call.
    fn check(&mut self, seed: u64) {
        let mut random = SmallRng::seed_from_u64(seed);
        self.prepare(&filling(&mut random));
        let routine = Writer::new(&mut random).routine("tried");
        let (own, other) = self.both(&routine.definition);
        if is_refusal(&own) {
            *self.counts.refused.entry(own.unwrap_err()).or_default() += 1;
            let _ = outcome(&mut self.postgres, &routine.drop);
            return;
        }
        if !agree(&own, &other) {
            self.differ(seed, &routine.definition, "the definition", &own, &other);
        }
        if own.is_ok() && other.is_ok() {
            for call in &routine.calls {
                if !self.compare_call(seed, &routine.definition, call) {
                    break;
                }
            }
        }
        // A routine may have been refused on one side.
        let _ = self.both(&routine.drop);
    }

    fn compare_call(&mut self, seed: u64, definition: &str, call: &str) -> bool {
        let (own, other) = self.both(call);
        match &own {
            Ok(_) => self.counts.answered += 1,
            Err(error) if is_refusal(&own) => {
                *self.counts.refused.entry(error.clone()).or_default() += 1;
                return false;
            }
            Err(_) => self.counts.failed += 1,
        }
        // PostgreSQL does not support everything, either.
        if is_refusal(&other) {
            return false;
        }
        if !agree(&own, &other) {
            if one_fails(&own, &other) {
                self.counts.failed_on_one_side += 1;
            } else {
                self.differ(seed, definition, call, &own, &other);
            }
            return false;
        }
        for query in STATE {
            let (own, other) = self.both(query);
            if own != other {
                self.differ(seed, definition, &format!("{call}; {query}"), &own, &other);
                return false;
            }
        }
        true
    }

    fn differ(&mut self, seed: u64, definition: &str, what: &str, own: &Outcome, other: &Outcome) {
        let answers = format!("  Reprise {own:?}\n  PostgreSQL {other:?}");
        self.counts.differences.push(format!("seed {seed}\n{definition};\n{what};\n{answers}"));
    }
}

fn check_database(server: &Server, seeds: impl Iterator<Item = u64>, counts: &mut Counts) {
    let disk: Arc<dyn Disk> = Arc::new(CrashingDisk::default());
    let mut config = Config::default();
    config.disk = Arc::clone(&disk);
    (config.memory_ahead_bytes, config.compile) = (0, Compile::AtOnce);
    config.log_file_bytes = 1 << 20;
    let database = Database::open(FOLDER, config).unwrap();
    let mut postgres = server.connect();
    let clean = "SET client_min_messages = error; DROP SCHEMA public CASCADE; CREATE SCHEMA public";
    postgres.batch_execute(clean).unwrap();
    let reprise = Reprise::of(database.session().unwrap());
    let mut pair = Pair { reprise, postgres: PostgreSql(postgres), counts };
    pair.prepare(&SCHEMA.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
    let mut first = None;
    for seed in seeds {
        first.get_or_insert(seed);
        pair.check(seed);
    }
    drop(pair);
    let digest = database.digest().unwrap();
    drop(database);
    assert_eq!(digests(&disk), vec![digest; 2], "recovery after the routines from seed {first:?}");
}

#[test]
fn random_bodies_do_what_postgresqls_do() {
    let Some(server) = Server::start() else {
        eprintln!("skipped: no PostgreSQL is installed");
        return;
    };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("REPRISE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("REPRISE_HISTORIES").unwrap_or(400),
    };
    let mut counts = Counts::default();
    for first in seeds.clone().step_by(PER_DATABASE as usize) {
        check_database(&server, first..(first + PER_DATABASE).min(seeds.end), &mut counts);
    }
    let Counts { answered, failed, failed_on_one_side, refused, differences } = counts;
    let of_refused: u64 = refused.values().sum();
    eprintln!("{answered} calls answered, {failed} failed, {failed_on_one_side} on one side only");
    eprintln!("{of_refused} routines or calls refused");
    if std::env::var("REPRISE_SHOW_REFUSED").is_ok() {
        refused.iter().for_each(|(error, count)| eprintln!("{count} {error}"));
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    let is_single = seeds.end - seeds.start == 1;
    assert!(is_single || answered > 10 * of_refused, "too many routines are refused");
    assert!(is_single || answered > 100 * failed_on_one_side, "too many calls fail on one side only");
}
