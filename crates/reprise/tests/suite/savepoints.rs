//! What is rolled back to a savepoint has not happened: random histories against those without it.

use crate::common::Durably as _;
use crate::common::{open, recovered_digest_of, scheme_of, seeds, under, with};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reprise::{Content, Error, Nowhere, Session, TransactionState, Value, params};

fn run(session: &mut Session, text: &str) -> Result<(), Error> {
    let prepared = session.prepare(text)?;
    let completion = session.execute_into(&prepared, &[], Box::new(Nowhere))?;
    completion.commit.wait()
}

const SCHEMA: &str = "
CREATE TABLE t (id INT PRIMARY KEY, a INT, b TEXT, UNIQUE (a));
CREATE INDEX t_b ON t (b);
CREATE TABLE child (id INT PRIMARY KEY, t INT REFERENCES t ON DELETE CASCADE);
";

fn random_statement(rng: &mut SmallRng) -> String {
    let (id, other) = (rng.random_range(0..12), rng.random_range(0..12));
    match rng.random_range(0..8) {
        0 | 1 => format!("INSERT INTO t VALUES ({id}, {}, 'b{other}')", rng.random_range(0..40)),
        2 => format!("UPDATE t SET b = b || '{other}' WHERE id = {id}"),
        3 => format!("UPDATE t SET a = a + 50, b = 'c' WHERE id BETWEEN {id} AND {}", id + 2),
        4 => format!("DELETE FROM t WHERE id = {id}"),
        5 => format!("UPDATE t SET id = {id} WHERE id = {other}"),
        6 => format!("INSERT INTO child VALUES ({other}, {id}) ON CONFLICT (id) DO UPDATE SET t = {id}"),
        _ => format!("DELETE FROM t WHERE b = 'b{other}'"),
    }
}

/// Runs statements in a transaction, each after a savepoint, so that one that fails is as if it had not been;
/// and parts that are rolled back.
fn with_savepoints(session: &mut Session, kept: &[String], rng: &mut SmallRng) {
    session.begin().unwrap();
    for (place, statement) in kept.iter().enumerate() {
        session.set_savepoint("one").unwrap();
        if run(session, statement).is_err() {
            assert_eq!(session.transaction_state(), TransactionState::Failed);
            session.roll_back_to_savepoint("one").unwrap();
        }
        if place % 2 == 0 {
            session.release_savepoint("one").unwrap();
        }
        session.set_savepoint("gone").unwrap();
        for _ in 0..rng.random_range(0..6) {
            if run(session, &random_statement(rng)).is_err() {
                session.roll_back_to_savepoint("gone").unwrap();
            }
        }
        session.roll_back_to_savepoint("gone").unwrap();
        session.release_savepoint("gone").unwrap();
    }
    session.commit().unwrap().wait().unwrap();
}

/// The same statements, each a transaction of its own.
fn plainly(session: &mut Session, kept: &[String]) {
    for statement in kept {
        let _ = run(session, statement);
    }
}

fn contents(session: &mut Session) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for query in [
        "SELECT * FROM t ORDER BY id",
        "SELECT * FROM child ORDER BY id",
        "SELECT id, b FROM t ORDER BY b, id",
    ] {
        let rows = session.query(query).unwrap().rows;
        all.extend(rows.iter().map(|row| row.iter().map(ToString::to_string).collect()));
    }
    all
}

#[test]
fn what_is_rolled_back_has_not_happened() {
    for seed in seeds(150) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (folder, database, mut session) = under(scheme_of(seed), SCHEMA);
        let (_other_folder, _other_database, mut other) = with(SCHEMA);
        for _ in 0..3 {
            let kept: Vec<String> = (0..10).map(|_| random_statement(&mut rng)).collect();
            with_savepoints(&mut session, &kept, &mut rng);
            plainly(&mut other, &kept);
            assert_eq!(contents(&mut session), contents(&mut other), "seed {seed}: {kept:#?}");
        }
        let digest = database.digest().unwrap();
        drop((session, database));
        if seed < 20 {
            assert_eq!(recovered_digest_of(Content::Command, folder.path()), digest, "seed {seed}");
        }
    }
}

#[test]
fn savepoints_have_names_and_an_end() {
    let (_folder, _database, mut session) = with(SCHEMA);
    assert_eq!(session.set_savepoint("s").unwrap_err().sqlstate(), "25P01");
    session.begin().unwrap();
    assert_eq!(session.roll_back_to_savepoint("s").unwrap_err().sqlstate(), "3B001");
    run(&mut session, "INSERT INTO t VALUES (1, 1, 'one')").unwrap();
    session.set_savepoint("s").unwrap();
    run(&mut session, "INSERT INTO t VALUES (2, 2, 'two')").unwrap();
    session.set_savepoint("s").unwrap();
    assert!(run(&mut session, "INSERT INTO t VALUES (1, 9, 'again')").is_err());
    assert_eq!(run(&mut session, "SELECT 1").unwrap_err().sqlstate(), "25P02");
    session.roll_back_to_savepoint("s").unwrap();
    session.release_savepoint("s").unwrap();
    session.roll_back_to_savepoint("s").unwrap();
    session.release_savepoint("s").unwrap();
    assert_eq!(session.release_savepoint("s").unwrap_err().sqlstate(), "3B001");
    drop(session.commit().unwrap());
    assert_eq!(session.query("SELECT count(*), max(id) FROM t").unwrap().rows[0][1].to_string(), "1");
}

#[test]
fn two_clients_wait_for_each_other_instead_of_losing() {
    let (_folder, database, mut session) = with(SCHEMA);
    run(&mut session, "INSERT INTO t VALUES (1, 0, 'counter')").unwrap();
    const TIMES: i32 = 100;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut session = database.session().unwrap();
                for _ in 0..TIMES {
                    session.begin().unwrap();
                    run(&mut session, "UPDATE t SET a = a + 1 WHERE id = 1").unwrap();
                    std::thread::yield_now();
                    drop(session.commit().expect("no transaction has lost a race"));
                }
            });
        }
    });
    assert_eq!(session.query("SELECT a FROM t").unwrap().rows[0][0].to_string(), (4 * TIMES).to_string());
}

#[test]
fn two_that_wait_for_each_other_go_on_and_one_has_lost() {
    let (_folder, database, mut session) = with(SCHEMA);
    run(&mut session, "INSERT INTO t VALUES (1, 1, 'x'), (2, 2, 'y')").unwrap();
    let mut other = database.session().unwrap();
    session.begin().unwrap();
    other.begin().unwrap();
    run(&mut session, "UPDATE t SET b = 'p' WHERE id = 1").unwrap();
    run(&mut other, "UPDATE t SET b = 'q' WHERE id = 2").unwrap();
    let results = std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            let ran = run(&mut session, "UPDATE t SET b = 'r' WHERE id = 2");
            ran.and_then(|()| session.commit()).is_ok()
        });
        let second = scope.spawn(|| {
            let ran = run(&mut other, "UPDATE t SET b = 's' WHERE id = 1");
            ran.and_then(|()| other.commit()).is_ok()
        });
        [first.join().unwrap(), second.join().unwrap()]
    });
    assert!(results.iter().any(|own| *own), "{results:?}");
}

#[test]
fn what_is_a_transaction_of_its_own_is_refused_within_another() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(folder.path());
    let mut session = database.session().unwrap();
    session.execute_script(SCHEMA).unwrap();
    session
        .execute_script(
            "CREATE PROCEDURE add(p INT) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (p, p); END $$",
        )
        .unwrap();
    session.begin().unwrap();
    run(&mut session, "INSERT INTO t VALUES (1, 1)").unwrap();
    let refused = [
        session.call_durably("add", params![2]).map(drop),
        session.call("add", params![2]).map(drop),
        session.execute_script("INSERT INTO t VALUES (2, 2)"),
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().sqlstate(), "25001");
    }
    // A query is part of it.
    session.query("INSERT INTO t VALUES (5, 5)").unwrap();
    let rows = session.query("SELECT a FROM t ORDER BY a").unwrap().rows;
    assert_eq!(rows, [1, 5].map(|a| vec![Value::Int(a)]));
    run(&mut session, "CALL add(3)").unwrap();
    let commit = session.commit().unwrap();
    commit.wait().unwrap();
    session.call_durably("add", params![4]).unwrap();
    let rows = session.query("SELECT id FROM t ORDER BY id").unwrap().rows;
    assert_eq!(rows, [1, 3, 4, 5].map(|id| vec![Value::Int(id)]));
    session.begin().unwrap();
    session.query("INSERT INTO t VALUES (6, 6)").unwrap();
    assert_eq!(session.query("SELECT nothing").unwrap_err().sqlstate(), "42703");
    assert_eq!(session.query("SELECT 1").unwrap_err().sqlstate(), "25P02");
    assert_eq!(session.commit().unwrap_err().sqlstate(), "25P02");
    assert!(session.query("SELECT id FROM t WHERE id = 6").unwrap().rows.is_empty());
}

#[test]
fn a_transaction_that_was_lost_says_so_when_it_rolls_back_to_a_savepoint() {
    let (_folder, db, mut session) = with("CREATE TABLE t (id INT PRIMARY KEY, a INT)");
    let mut other = db.session().unwrap();
    run(&mut session, "INSERT INTO t VALUES (1, 0)").unwrap();
    session.begin().unwrap();
    session.set_savepoint("first").unwrap();
    run(&mut session, "SELECT a FROM t WHERE id = 1").unwrap();
    run(&mut other, "UPDATE t SET a = 1 WHERE id = 1").unwrap();
    session.set_savepoint("second").unwrap();
    assert_eq!(run(&mut session, "UPDATE t SET a = 2 WHERE id = 1").unwrap_err().sqlstate(), "40001");
    for name in ["second", "first"] {
        assert_eq!(session.roll_back_to_savepoint(name).unwrap_err().sqlstate(), "40001");
    }
    session.rollback();
    session.begin().unwrap();
    assert_eq!(session.roll_back_to_savepoint("first").unwrap_err().sqlstate(), "3B001");
}
