//! Tables that are written seldom, or dropped.

use super::{COMMANDS, Setup, WRITES, answer};
use reprise::{Content, Database, Value, params};
use std::time::{Duration, Instant};

/// A table that few of many records write is recovered as any other one.
#[test]
fn a_table_that_is_seldom_written_is_found() {
    for content in [Content::Logical, Content::Physical, Content::Physiological] {
        let setup = Setup { content, ..COMMANDS };
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(folder.path(), setup.config()).unwrap();
        let mut session = db.session().unwrap();
        session
            .execute_script(
                "CREATE TABLE often (id INT PRIMARY KEY); CREATE TABLE seldom (id INT PRIMARY KEY);
                CREATE TABLE never (id INT PRIMARY KEY);",
            )
            .unwrap();
        let insert = session.prepare("INSERT INTO often VALUES ($1)").unwrap();
        for id in 0..40_000 {
            if id % 15_000 == 7 {
                session.execute("INSERT INTO seldom VALUES ($1)", params![id]).unwrap();
            }
            session.execute(&insert, params![id]).unwrap();
        }
        session.execute("DELETE FROM often WHERE id = 3", params![]).unwrap().commit.wait().unwrap();
        drop((session, db));
        let db = setup.open(folder.path(), 0);
        let mut session = db.session().unwrap();
        let mut count = |table: &str| {
            answer(&mut session, &format!("SELECT count(*) FROM {table}")).unwrap().0[0][0].clone()
        };
        assert_eq!([count("seldom"), count("never"), count("often")], [3, 0, 39_999].map(Value::Int));
    }
}

/// A table that was brought back and then dropped leaves its memory to the next one.
#[test]
fn a_dropped_table_leaves_its_memory() {
    let (folder, mut config) = (tempfile::tempdir().unwrap(), WRITES.config());
    config.memory_bytes = 64 << 20;
    let fill = |table: &str| {
        format!(
            "CREATE TABLE {table} (id INT PRIMARY KEY, about TEXT);
             INSERT INTO {table} SELECT n, repeat('x', 4000) FROM generate_series(1, 12000) AS n"
        )
    };
    let db = Database::open(folder.path(), config.clone()).unwrap();
    db.session().unwrap().execute_script(&fill("first")).unwrap();
    drop(db);
    (config.on_demand, config.drain_threads) = (true, 0);
    let db = Database::open(folder.path(), config).unwrap();
    assert!(db.recovery_report().replays_on_demand);
    let mut session = db.session().unwrap();
    assert_eq!(answer(&mut session, "SELECT count(*) FROM first").unwrap().0, [[Value::Int(12000)]]);
    let error = session.execute_script(&fill("second")).unwrap_err();
    assert_eq!(error.sqlstate(), "53200", "both do not fit: {error}");
    session.execute_script("DROP TABLE first; DROP TABLE IF EXISTS second").unwrap();
    let begun = Instant::now();
    while let Err(error) = session.execute_script(&fill("third")) {
        assert_eq!(error.sqlstate(), "53200", "{error}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{error}");
        session.execute_script("DROP TABLE IF EXISTS third").unwrap();
    }
}

/// Rows of one large transaction come back about as fast as those of many small ones.
#[test]
fn a_large_transaction_costs_what_its_rows_cost() {
    const ROWS: i32 = 20_000;
    for content in [Content::Logical, Content::Physical, Content::Physiological] {
        let setup = Setup { content, ..COMMANDS };
        let took = |transactions: i32| {
            let folder = tempfile::tempdir().unwrap();
            let db = Database::open(folder.path(), setup.config()).unwrap();
            let mut session = db.session().unwrap();
            session.execute_script("CREATE TABLE many (id INT PRIMARY KEY, pad TEXT NOT NULL)").unwrap();
            let share = ROWS / transactions;
            for first in (0..transactions).map(|number| number * share) {
                let rows = format!("generate_series({first}, {}) AS n", first + share - 1);
                let insert = format!("INSERT INTO many SELECT n, 'row ' || n FROM {rows}");
                session.execute(&insert, params![]).unwrap().commit.wait().unwrap();
            }
            drop((session, db));
            let begun = Instant::now();
            let db = setup.open(folder.path(), 1);
            let mut session = db.session().unwrap();
            let count = answer(&mut session, "SELECT count(*) FROM many").unwrap().0;
            assert_eq!(count, [[Value::Int(ROWS.into())]]);
            begun.elapsed()
        };
        let (small, large) = (took(200), took(1));
        assert!(large < small * 8 + Duration::from_millis(500), "{content}: {large:?}, {small:?}");
    }
}
