//! Definitions that draw numbers of sequences, alone and in transactions, failing and not: no number is given
//! twice, and every method of recovery comes to what ran.

use crate::common::{recovered_digest_of, seeds, small};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reprise::{
    Arena, Content, Database, Datum, Error, RowSink, Sequencing, Session, SqlError, TransactionState,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

const BEFORE: &str = "
CREATE SEQUENCE s;
CREATE SEQUENCE far START 38;
CREATE SEQUENCE high START 41 CACHE 1;
CREATE SEQUENCE down INCREMENT -2 MINVALUE -4000 MAXVALUE 90 START 44;
CREATE TABLE parent (id BIGINT PRIMARY KEY);
INSERT INTO parent SELECT n FROM generate_series(1, 40) AS n;
CREATE TABLE t (id INT PRIMARY KEY);
CREATE TABLE u (id INT, word TEXT);
INSERT INTO t VALUES (1), (2), (3);
INSERT INTO u VALUES (1, 'a'), (2, 'b');
";

const SEQUENCES: [&str; 4] = ["s", "far", "high", "down"];

/// The integers that a statement returns.
#[derive(Clone, Default)]
struct Returned(Arc<Mutex<Vec<i64>>>);

impl RowSink for Returned {
    fn begin(&mut self) {
        self.0.lock().unwrap().clear();
    }

    fn row(&mut self, row: &[Datum], _: &Arena) -> Result<(), SqlError> {
        if let [Datum::Int(number), ..] = row {
            self.0.lock().unwrap().push(*number);
        }
        Ok(())
    }
}

fn run(session: &mut Session, text: &str) -> Result<Vec<i64>, Error> {
    let returned = Returned::default();
    let prepared = session.prepare(text)?;
    let completion = session.execute_into(&prepared, &[], Box::new(returned.clone()))?;
    completion.commit.wait()?;
    let numbers = returned.0.lock().unwrap().clone();
    Ok(numbers)
}

/// A statement of a history.
#[derive(Debug)]
struct Statement {
    text: String,
    /// The sequence whose numbers it returns.
    returns: Option<String>,
    /// The table and column that reference `parent` from then on.
    references: Option<(&'static str, String)>,
}

/// What a run has asked for so far.
struct History {
    random: SmallRng,
    /// Names and keys that were used.
    used: usize,
    /// The columns whose values are numbers of a sequence; those of a definition that failed are not there.
    columns: Vec<(&'static str, String, String)>,
    /// Columns that reference `parent`.
    references: Vec<(&'static str, String)>,
    /// What `nextval` answered, by sequence.
    given: BTreeMap<String, Vec<i64>>,
}

impl History {
    fn fresh(&mut self) -> usize {
        self.used += 1;
        self.used + 10
    }

    fn statement(&mut self) -> Statement {
        let table = ["t", "u"][self.random.random_range(0..2)];
        let sequence = SEQUENCES[self.random.random_range(0..SEQUENCES.len())];
        let column = format!("c{}", self.fresh());
        let adds = |this: &mut Self, sequence: String, rest: &str| {
            this.columns.push((table, column.clone(), sequence));
            format!("ALTER TABLE {table} ADD COLUMN {column} {rest}")
        };
        let (key, mut returns) = (self.random.random_range(1..6), None);
        let text = match self.random.random_range(0..20) {
            15 => format!("INSERT INTO parent VALUES ({key}) ON CONFLICT DO NOTHING"),
            16 => format!("DELETE FROM parent WHERE id = {key}"),
            17 => format!("ALTER TABLE {table} ADD CONSTRAINT {column} FOREIGN KEY (id) REFERENCES parent"),
            18 => format!("ALTER TABLE {table} ADD COLUMN {column} INT DEFAULT {key} REFERENCES parent"),
            19 if !self.columns.is_empty() => {
                let (table, column, _) = &self.columns[self.random.random_range(0..self.columns.len())];
                format!("ALTER TABLE {table} DROP COLUMN {column}")
            }
            0 => adds(self, sequence.into(), &format!("BIGINT DEFAULT nextval('{sequence}')")),
            1 => adds(
                self,
                sequence.into(),
                &format!("BIGINT DEFAULT nextval('{sequence}') REFERENCES parent"),
            ),
            2 => {
                adds(self, sequence.into(), &format!("BIGINT UNIQUE NOT NULL DEFAULT nextval('{sequence}')"))
            }
            3 => {
                let rest = format!("BIGINT DEFAULT nextval('{sequence}') CHECK ({column} < 40)");
                adds(self, sequence.into(), &rest)
            }
            4 | 5 => {
                let name = format!("{table}_{column}_seq");
                let rest = ["BIGSERIAL", "SERIAL REFERENCES parent"][self.random.random_range(0..2)];
                adds(self, name, rest)
            }
            6 => format!(
                "ALTER TABLE {table} ALTER COLUMN id TYPE {}",
                ["INT", "BIGINT"][self.random.random_range(0..2)]
            ),
            7 | 8 => format!("INSERT INTO {table} (id) VALUES ({})", self.fresh()),
            9 => format!("UPDATE {table} SET id = id + 1000 WHERE id = {}", self.random.random_range(1..20)),
            10 => {
                let rest = format!("INT DEFAULT {} CHECK ({column} < 4)", self.random.random_range(0..8));
                format!("ALTER TABLE {table} ADD COLUMN {column} {rest}")
            }
            // Often of a column that the same transaction adds.
            11 | 12 if !self.columns.is_empty() => {
                let place = self.columns.len() - 1 - self.random.random_range(0..self.columns.len().min(3));
                let sequence = self.columns[place].2.clone();
                returns = Some(sequence.clone());
                format!("SELECT nextval('{sequence}')")
            }
            13 => format!(
                "CREATE TABLE x{column} (id SERIAL PRIMARY KEY, v BIGINT DEFAULT nextval('{sequence}'))"
            ),
            _ => {
                returns = Some(sequence.into());
                format!("SELECT nextval('{sequence}')")
            }
        };
        let referencing = if text.contains("FOREIGN KEY") { "id" } else { &column };
        let references = text.contains("REFERENCES").then(|| (table, referencing.to_owned()));
        Statement { text, returns, references }
    }

    /// Runs a statement, or a transaction of several.
    fn step(&mut self, session: &mut Session) {
        let statements: Vec<_> = (0..self.random.random_range(1..5)).map(|_| self.statement()).collect();
        let in_block = statements.len() > 1;
        let (mut numbers, mut references) = (Vec::new(), Vec::new());
        if in_block {
            session.begin().unwrap();
        }
        let ran = statements.iter().try_for_each(|Statement { text, returns, references: added }| {
            let has_savepoint = in_block && self.random.random_range(0..2) == 0;
            if has_savepoint {
                session.set_savepoint("before")?;
            }
            match run(session, text) {
                Ok(returned) => {
                    numbers.extend(returns.iter().map(|own| (own.clone(), returned.clone())));
                    references.extend(added.clone());
                    Ok(())
                }
                Err(_) if has_savepoint && session.transaction_state() == TransactionState::Failed => {
                    session.roll_back_to_savepoint("before")
                }
                Err(error) => Err(error),
            }
        });
        let ended = match ran {
            Ok(()) if in_block && self.random.random_range(0..5) > 0 => {
                session.commit().and_then(|commit| commit.wait())
            }
            Ok(()) if in_block => {
                session.rollback();
                Err(Error::Sql(SqlError::new("40000", "rolled back")))
            }
            other => {
                session.rollback();
                other
            }
        };
        if let Err(error) = &ended {
            let class = &error.sqlstate()[..2];
            assert!(["0A", "22", "23", "40", "42"].contains(&class), "{statements:?}: {error}");
        }
        if ended.is_ok() {
            self.references.append(&mut references);
        }
        for (sequence, numbers) in numbers {
            // A sequence that goes with the transaction goes with its numbers.
            if ended.is_ok() || SEQUENCES.contains(&&*sequence) {
                self.given.entry(sequence).or_default().extend(numbers);
            }
        }
    }

    fn check(&self, session: &mut Session) {
        let mut all = self.given.clone();
        for (table, column, sequence) in &self.columns {
            match run(session, &format!("SELECT {column} FROM {table}")) {
                Ok(numbers) => all.entry(sequence.clone()).or_default().extend(numbers),
                Err(error) => assert_eq!(error.sqlstate(), "42703", "{error}"),
            }
        }
        for (table, column) in &self.references {
            let dangling = format!(
                "SELECT count(*) FROM {table} WHERE {column} IS NOT NULL \
                 AND {column} NOT IN (SELECT id FROM parent)"
            );
            match run(session, &dangling) {
                Ok(count) => assert_eq!(count, [0], "rows of {table} reference nothing by {column}"),
                Err(error) => assert_eq!(error.sqlstate(), "42703", "{error}"),
            }
        }
        for (sequence, mut numbers) in all {
            numbers.sort_unstable();
            let twice = numbers.windows(2).find(|pair| pair[0] == pair[1]);
            assert_eq!(twice, None, "{sequence} gave a number twice: {numbers:?}");
        }
    }
}

fn open(folder: &Path, content: Content, sequencing: Sequencing) -> (Database, Session) {
    let mut config = small();
    (config.content, config.sequencing) = (content, sequencing);
    let database = Database::open(folder, config).unwrap();
    let session = database.session().unwrap();
    (database, session)
}

fn check_history(content: Content, sequencing: Sequencing, seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let (mut database, mut session) = open(folder.path(), content, sequencing);
    session.execute_script(BEFORE).unwrap();
    let random = SmallRng::seed_from_u64(seed);
    let mut history =
        History { random, used: 0, columns: Vec::new(), references: Vec::new(), given: BTreeMap::new() };
    for _ in 0..3 {
        for _ in 0..6 {
            history.step(&mut session);
            if history.random.random_range(0..12) == 0 {
                database.checkpoint().unwrap();
            }
        }
        history.check(&mut session);
        let digest = database.digest().unwrap();
        drop((session, database));
        assert_eq!(recovered_digest_of(content, folder.path()), digest);
        (database, session) = open(folder.path(), content, sequencing);
        history.check(&mut session);
    }
}

fn check_histories(content: Content, sequencing: Sequencing) {
    for seed in seeds(16) {
        let checked = std::panic::catch_unwind(|| check_history(content, sequencing, seed));
        checked.unwrap_or_else(|_| panic!("history {seed} of {content}, {sequencing}"));
    }
}

#[test]
fn of_commands_by_epochs() {
    check_histories(Content::Command, Sequencing::Epoch);
}

#[test]
fn of_commands_in_series() {
    check_histories(Content::Command, Sequencing::Serial);
}

#[test]
fn of_rows_by_numbers_of_versions() {
    check_histories(Content::Logical, Sequencing::Ssn);
}

#[test]
fn of_commands_by_numbers_of_records() {
    check_histories(Content::Command, Sequencing::Gsn);
}

#[test]
fn of_columns_by_epochs() {
    check_histories(Content::Physiological, Sequencing::Epoch);
}

#[test]
fn of_slots() {
    check_histories(Content::Physical, Sequencing::Epoch);
}
