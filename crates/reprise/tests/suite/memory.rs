//! Databases at their limit of memory: what is gone makes room, what was committed comes back under the same
//! limit.

use crate::common::Durably as _;
use reprise::{Config, Content, Database, Error, Session, params};
use std::path::Path;

fn config(mebibytes: usize, content: Content) -> Config {
    let mut config = Config::default();
    config.memory_bytes = mebibytes << 20;
    config.memory_ahead_bytes = 0;
    config.content = content;
    config
}

fn open(folder: &Path, mebibytes: usize, content: Content) -> Database {
    Database::open(folder, config(mebibytes, content)).unwrap()
}

/// Whether a statement was done; the only other answer is that there is no memory.
fn is_done(session: &mut Session, statement: &str) -> bool {
    match session.query(statement) {
        Ok(_) => true,
        Err(Error::Sql(error)) if error.sqlstate == "53200" => false,
        Err(error) => panic!("{statement}: {error}"),
    }
}

#[test]
fn tables_that_are_gone_make_room() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path(), 128, Content::Command);
    let (mut session, mut idle) = (db.session().unwrap(), db.session().unwrap());
    for round in 0..24 {
        let rows = format!("SELECT n, repeat('x', 500), n FROM generate_series(1, {}) AS n", 10_000 + round);
        for statement in [
            "CREATE TABLE t (id INT PRIMARY KEY, t TEXT, v INT)",
            "CREATE INDEX t_v ON t (v, t)",
            &format!("INSERT INTO t {rows}"),
            "UPDATE t SET t = t || 'a longer text than it was made for' WHERE v % 3 = 0",
            "TRUNCATE t",
            &format!("INSERT INTO t {rows}"),
            "DROP INDEX t_v",
            "ALTER TABLE t ADD COLUMN w INT DEFAULT 7",
            if round % 2 == 0 { "DROP TABLE t" } else { "TRUNCATE t" },
            "DROP TABLE IF EXISTS t",
        ] {
            assert!(is_done(&mut session, statement), "round {round}: {statement}");
        }
        // A session that keeps older definitions keeps their tables.
        idle.catch_up();
    }
}

/// Rows that a transaction has inserted and taken back make room for the next one, whatever session runs it.
#[test]
fn inserts_that_are_rolled_back_make_room() {
    const ROWS: &str = "INSERT INTO t SELECT n, repeat('x', 200), n FROM generate_series(1, 50000) AS n";
    type TakesBack = fn(&mut Session);
    let ways: [(&str, TakesBack); 5] = [
        ("a rolled back transaction", |session| {
            session.begin().unwrap();
            assert!(is_done(session, ROWS));
            session.rollback();
        }),
        ("a savepoint", |session| {
            session.begin().unwrap();
            session.query("UPDATE one SET id = 1").unwrap();
            session.set_savepoint("s").unwrap();
            assert!(is_done(session, ROWS));
            session.roll_back_to_savepoint("s").unwrap();
            drop(session.commit().unwrap());
        }),
        ("a statement that fails", |session| {
            let error = session.query(&format!("{ROWS} UNION ALL SELECT 7, 'seven', 7")).unwrap_err();
            assert_eq!(error.sqlstate(), "23505", "{error}");
        }),
        ("a call that fails", |session| {
            assert_eq!(session.query("CALL fails()").unwrap_err().sqlstate(), "P0001");
        }),
        ("a handler", |session| assert!(is_done(session, "CALL handles()"))),
    ];
    for (way, takes_back) in ways {
        let folder = tempfile::tempdir().unwrap();
        let db = open(folder.path(), 128, Content::Command);
        let mut sessions = [(); 3].map(|()| db.session().unwrap());
        let definitions = format!(
            "CREATE TABLE t (id INT PRIMARY KEY, t TEXT, v INT);
             CREATE INDEX t_v ON t (v);
             CREATE TABLE one (id INT PRIMARY KEY);
             INSERT INTO one VALUES (1);
             CREATE PROCEDURE fails() LANGUAGE plpgsql AS $$ BEGIN {ROWS}; RAISE EXCEPTION 'no'; END $$;
             CREATE PROCEDURE handles() LANGUAGE plpgsql AS $$ BEGIN
                 BEGIN {ROWS}; RAISE EXCEPTION 'no'; EXCEPTION WHEN raise_exception THEN NULL; END;
             END $$"
        );
        sessions[0].execute_script(&definitions).unwrap();
        for round in 0..20 {
            takes_back(&mut sessions[round % 3]);
            println!("{way}, round {round}: {} bytes", db.statistics().memory_bytes);
        }
        assert!(is_done(&mut sessions[1], ROWS), "{way}");
    }
}

/// Fills a database until there is no room; then changes it as far as that is possible. Returns the digest.
fn filled(db: &Database) -> String {
    let mut session = db.session().unwrap();
    session
        .execute_script(
            "CREATE TABLE t (id INT PRIMARY KEY, k TEXT NOT NULL, t TEXT, v INT);
             CREATE INDEX t_k ON t (k);
             CREATE PROCEDURE add(p_id INT, p_text TEXT) LANGUAGE plpgsql AS $$
             BEGIN INSERT INTO t VALUES (p_id, 'k' || p_id::text, p_text, 0); END $$;
             CREATE PROCEDURE grow(p_id INT, p_text TEXT) LANGUAGE plpgsql AS $$
             BEGIN UPDATE t SET t = p_text, v = v + 1 WHERE id = p_id; END $$;",
        )
        .unwrap();
    let call = |session: &mut Session, name: &str, id: i32, length: i32| {
        let text = "x".repeat((length.wrapping_mul(7919) % 900).unsigned_abs() as usize);
        match session.call(name, params![id, text]) {
            Ok(_) => true,
            Err(Error::Sql(error)) if error.sqlstate == "53200" => false,
            Err(error) => panic!("{error}"),
        }
    };
    let mut count = 0;
    while call(&mut session, "add", count, count) {
        count += 1;
    }
    for round in 1..4 {
        for id in (0..count).filter(|id| id % 3 == round % 3) {
            call(&mut session, "grow", id, id + round);
        }
    }
    // What is refused changes nothing.
    is_done(&mut session, "UPDATE t SET t = repeat('y', 5000)");
    db.check_log().unwrap();
    drop(session);
    db.digest().unwrap().to_string()
}

#[test]
fn a_full_database_opens_again_with_the_memory_that_it_had() {
    for content in [Content::Command, Content::Logical, Content::Physiological] {
        let folder = tempfile::tempdir().unwrap();
        let mut expected = filled(&open(folder.path(), 96, content));
        for round in 0..3 {
            let db = open(folder.path(), 96, content);
            assert_eq!(db.digest().unwrap().to_string(), expected, "{content}, round {round}");
            let mut session = db.session().unwrap();
            assert!(is_done(&mut session, &format!("DELETE FROM t WHERE id % 10 = {round}")));
            is_done(&mut session, "UPDATE t SET v = v + 1");
            if round == 1 {
                db.checkpoint().unwrap();
            }
            expected = db.digest().unwrap().to_string();
        }
    }
}

/// A handler sees how much memory there was, which no replay knows.
#[test]
fn a_call_that_has_handled_a_shortage_comes_back_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut small = config(256, Content::Command);
    small.statement_bytes = Some(4 << 20);
    let digest = {
        let db = Database::open(folder.path(), small).unwrap();
        let mut session = db.session().unwrap();
        session
            .execute_script(
                "CREATE TABLE seen (id INT PRIMARY KEY, what TEXT);
                 CREATE PROCEDURE try(p_id INT, p_length INT) LANGUAGE plpgsql AS $$
                 DECLARE t TEXT;
                 BEGIN
                     BEGIN
                         t := repeat('x', p_length);
                         INSERT INTO seen VALUES (p_id, 'enough');
                     EXCEPTION WHEN out_of_memory THEN
                         INSERT INTO seen VALUES (p_id, 'too little');
                     END;
                 END $$;",
            )
            .unwrap();
        session.call_durably("try", params![1, 1000]).unwrap();
        session.call_durably("try", params![2, 50_000_000]).unwrap();
        session.call_durably("try", params![3, 1000]).unwrap();
        let rows = session.query("SELECT what FROM seen ORDER BY id").unwrap().rows;
        assert_eq!(
            rows.iter().map(|row| row[0].to_string()).collect::<Vec<_>>(),
            ["enough", "too little", "enough"]
        );
        db.digest().unwrap()
    };
    let db = open(folder.path(), 1024, Content::Command);
    assert_eq!(db.digest().unwrap(), digest);
}
