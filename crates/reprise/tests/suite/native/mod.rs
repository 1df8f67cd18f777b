//! Compiled code has the results, errors, messages and effects of the interpreter.
//!
//! Random procedures over every type run in two databases, one compiled and one interpreted, with the same
//! arguments. `REPRISE_CASES` sets the number of procedures (1,000 by default), and `REPRISE_SEED` repeats
//! one of them. Replay is compared by `parallel_replay`, whose databases are compiled and whose reference,
//! `clr`, is interpreted.

mod expressions;
mod queries;
mod statements;

use crate::common::small;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use reprise::{Compile, Database, Error, Notice, Session, SqlError, Value, params};
use statements::Generator;

/// Calls of each procedure.
const CALLS: usize = 8;
/// Tables are emptied after this many procedures.
const CASES_OF_TABLES: u64 = 50;

/// One of the two databases.
struct Side {
    _folder: tempfile::TempDir,
    db: Database,
    session: Session,
}

/// What comes of a call: its outputs, or its error, and its messages.
#[derive(PartialEq, Debug)]
struct Outcome {
    rows: Result<Vec<Vec<Value>>, SqlError>,
    notices: Vec<Notice>,
}

impl Side {
    fn new(compile: Compile) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = small();
        config.compile = compile;
        let db = Database::open(folder.path(), config).unwrap();
        let session = db.session().unwrap();
        Self { _folder: folder, db, session }
    }

    fn execute(&mut self, script: &str) -> Result<(), String> {
        self.session.execute_script(script).map_err(|error| error.to_string())
    }

    fn call(&mut self, arguments: &[Value]) -> Outcome {
        let called = self.session.call("p", arguments);
        let rows = match called {
            Ok(executed) => Ok(executed.rows.into_iter().map(reprise::Row::into_values).collect()),
            Err(Error::Sql(error)) => Err(error),
            Err(error) => panic!("{error}"),
        };
        Outcome { rows, notices: self.session.take_notices() }
    }
}

/// The number of cases, and the first seed.
fn cases() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match number("REPRISE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("REPRISE_CASES").unwrap_or(1_000),
    }
}

#[test]
fn compiled_procedures_agree_with_the_interpreter() {
    let mut sides = [Side::new(Compile::AtOnce), Side::new(Compile::Never)];
    let (mut created, mut succeeded, mut failed) = (0, 0, 0);
    let mut refused = Vec::new();
    for seed in cases() {
        if seed % CASES_OF_TABLES == 0 {
            sides.iter_mut().for_each(|side| side.execute(statements::TABLES).unwrap());
        }
        let mut random = SmallRng::seed_from_u64(seed);
        let mut generator = Generator::new(&mut random);
        let procedure = generator.procedure();
        let [native, interpreted] = sides.each_mut().map(|side| side.execute(&procedure));
        assert_eq!(native, interpreted, "REPRISE_SEED={seed}: CREATE of\n{procedure}");
        if let Err(error) = native {
            refused.push(error);
            continue;
        }
        created += 1;
        for _ in 0..CALLS {
            let arguments = generator.arguments();
            let [native, interpreted] = sides.each_mut().map(|side| side.call(&arguments));
            let differ = format!("REPRISE_SEED={seed}: CALL p({arguments:?}) of\n{procedure}");
            // NaN does not equal itself.
            assert_eq!(format!("{native:?}"), format!("{interpreted:?}"), "{differ}");
            match native.rows {
                Ok(_) => succeeded += 1,
                Err(_) => failed += 1,
            }
        }
        let [native, interpreted] = sides.each_ref().map(|side| side.db.digest().unwrap());
        assert_eq!(native, interpreted, "REPRISE_SEED={seed}: the rows after\n{procedure}");
    }
    let all = cases().count();
    if all >= 100 {
        let last = &refused[refused.len().saturating_sub(5)..];
        assert!(created > all / 2, "only {created} of {all} procedures were created: {last:#?}");
        assert!(succeeded > created && failed > created / 2, "{succeeded} calls succeeded, {failed} failed");
    }
}

#[test]
fn compiled_queries_agree_with_the_interpreter() {
    let mut sides = [Side::new(Compile::AtOnce), Side::new(Compile::Never)];
    let (mut succeeded, mut rows) = (0, 0);
    for seed in cases() {
        let mut random = SmallRng::seed_from_u64(seed);
        if seed % CASES_OF_TABLES == 0 || cases().count() == 1 {
            let script = queries::tables(&mut SmallRng::seed_from_u64(seed / CASES_OF_TABLES));
            sides.iter_mut().for_each(|side| side.execute(&script).unwrap());
        }
        let query = queries::query(&mut random);
        let outcomes = sides.each_mut().map(|side| {
            let outcome = side.session.execute(query.as_str(), params![]);
            outcome.map(|done| done.rows.into_iter().map(reprise::Row::into_values).collect::<Vec<_>>())
        });
        // NaN does not equal itself.
        let [native, interpreted] = outcomes.each_ref().map(|outcome| format!("{outcome:?}"));
        assert_eq!(native, interpreted, "REPRISE_SEED={seed}: {query}");
        if let Ok(found) = &outcomes[0] {
            (succeeded, rows) = (succeeded + 1, rows + found.len());
        }
    }
    let [native, interpreted] = sides.each_ref().map(|side| side.db.digest().unwrap());
    assert_eq!(native, interpreted, "the rows at the end");
    let all = cases().count();
    if all >= 100 {
        assert!(succeeded > all / 4 && rows > all, "{succeeded} of {all} queries succeeded with {rows} rows");
    }
}

/// A query whose expressions become hot while it runs goes on with their code.
#[test]
fn expressions_are_compiled_while_their_query_runs() {
    let mut sides = [Side::new(Compile::Background), Side::new(Compile::Never)];
    let answers = sides.each_mut().map(|side| {
        side.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER)").unwrap();
        let rows = "INSERT INTO t SELECT g, nullif(g % 97, 5), g % 101 FROM generate_series(1, 30000) g";
        side.execute(rows).unwrap();
        let text = "SELECT count(*), sum(a * 2 + b) FROM t WHERE a * 3 - b > $1 AND (b % 7 = 3 OR a < 40)";
        let query = side.session.prepare(text).unwrap();
        let mut run = |bound: i32| side.session.execute(&query, params![bound]).unwrap().rows[0].clone();
        (0..12).map(|bound| format!("{:?}", run(bound * 10))).collect::<Vec<_>>()
    });
    assert_eq!(answers[0], answers[1]);
    let failed = sides.each_mut().map(|side| {
        let text = "SELECT id FROM t WHERE 100 / (b - $1) > 2 + a";
        let query = side.session.prepare(text).unwrap();
        let outcomes = (200..206).map(|bound| side.session.execute(&query, params![bound - 100]));
        outcomes.map(|outcome| format!("{:?}", outcome.map(|done| done.rows.len()))).collect::<Vec<_>>()
    });
    assert_eq!(failed[0], failed[1]);
}

/// Deep and long procedures, by name: a body that is made of a number of parts.
fn long_bodies(count: usize) -> [(&'static str, String); 5] {
    let repeated = |text: &str| text.repeat(count);
    [
        ("IF", format!("{} o := a; {}", repeated("IF a > 0 THEN "), repeated("END IF; "))),
        ("CASE", format!("o := {} 1 {};", repeated("CASE WHEN a > 2 THEN 7 ELSE "), repeated(" END"))),
        ("sum of decimals", format!("o := a::numeric {};", repeated(" + 1.5"))),
        ("statements", format!("o := 0; {}", repeated("o := o + a; "))),
        ("writes", repeated("UPDATE parent SET v = v + 1 WHERE id = a RETURNING v INTO o; ")),
    ]
}

#[test]
fn deep_and_long_procedures_are_compiled() {
    let mut sides = [Side::new(Compile::AtOnce), Side::new(Compile::Never)];
    sides.iter_mut().for_each(|side| side.execute(statements::TABLES).unwrap());
    for count in [10, 100, 300, 900] {
        for (name, body) in long_bodies(count) {
            let procedure = format!(
                "DROP PROCEDURE IF EXISTS p; CREATE PROCEDURE p(a INTEGER, OUT o BIGINT) LANGUAGE plpgsql AS
                $$ BEGIN {body} END $$"
            );
            let [native, interpreted] = sides.each_mut().map(|side| side.execute(&procedure));
            assert_eq!(native, interpreted, "{name}, {count}");
            if native.is_err() {
                continue;
            }
            for argument in [Value::Int(3), Value::Null] {
                let [native, interpreted] =
                    sides.each_mut().map(|side| side.call(std::slice::from_ref(&argument)));
                assert_eq!(native, interpreted, "{name}, {count}");
            }
        }
    }
}
