//! Deferrable keys: no two committed rows have one, whatever transactions run beside each other under
//! whatever concurrency control, and every recovery comes back to the state that was there.

use crate::common::{Durably as _, recovered_digest_of, scheme_of, seeds, small};
use crate::kinds::comes_back;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reprise::{Content, Database, Error, Nowhere, Scheme, Session, Value};
use std::collections::BTreeMap;
use std::path::Path;

const SCHEMA: &str = "
CREATE TABLE t (k INT PRIMARY KEY DEFERRABLE, u INT UNIQUE DEFERRABLE INITIALLY DEFERRED, n INT);
CREATE TABLE plain (id INT PRIMARY KEY, n INT);
CREATE PROCEDURE put(k INT, u INT) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (k, u, 0); END $$;
CREATE PROCEDURE move(a INT, b INT) LANGUAGE plpgsql AS $$ BEGIN
  UPDATE t SET k = b WHERE k = a; UPDATE plain SET n = n + 1 WHERE id = 1; END $$;
CREATE PROCEDURE clear(a INT) LANGUAGE plpgsql AS $$ BEGIN DELETE FROM t WHERE k = a; END $$;
CREATE PROCEDURE tried(a INT, u INT) LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO t VALUES (a, u, 1);
EXCEPTION WHEN unique_violation THEN UPDATE t SET n = n + 1 WHERE k = a; END $$;
INSERT INTO plain VALUES (1, 0);
";

fn run(session: &mut Session, text: &str) -> Result<(), Error> {
    let prepared = session.prepare(text)?;
    let completion = session.execute_into(&prepared, &[], Box::new(Nowhere))?;
    completion.commit.wait()
}

fn database(folder: &Path, content: Content, scheme: Scheme) -> Database {
    let mut config = small();
    (config.content, config.concurrency) = (content, scheme);
    let database = Database::open(folder, config).unwrap();
    database.session().unwrap().execute_script(SCHEMA).unwrap();
    database
}

fn rows(session: &mut Session) -> Vec<(i64, i64)> {
    let answer = session.query("SELECT k, u FROM t ORDER BY k, u").unwrap();
    let int = |value: &Value| if let Value::Int(n) = value { *n } else { i64::MIN };
    answer.rows.iter().map(|row| (int(&row[0]), int(&row[1]))).collect()
}

fn assert_keys_are_unique(session: &mut Session, case: &str) {
    for column in ["k", "u"] {
        let twice = format!("SELECT {column} FROM t GROUP BY {column} HAVING count(*) > 1");
        assert!(session.query(&twice).unwrap().rows.is_empty(), "{case}: {column}");
    }
}

/// A step of a client that contends for few keys.
fn contend(session: &mut Session, rng: &mut SmallRng) -> Result<(), Error> {
    let (k, u) = (rng.random_range(0..6), rng.random_range(0..6));
    let ints = [Value::Int(k), Value::Int(u)];
    match rng.random_range(0..7) {
        0 => session.call_durably("put", &ints).map(|_| ()),
        1 => session.call_durably("move", &ints).map(|_| ()),
        2 => session.call_durably("clear", &ints[..1]).map(|_| ()),
        3 => session.call_durably("tried", &ints).map(|_| ()),
        4 => run(session, &format!("INSERT INTO t VALUES ({k}, {u}, 2)")),
        5 => run(session, "UPDATE t SET k = 5 - k, u = 5 - u"),
        _ => {
            session.begin()?;
            let modes = ["SET CONSTRAINTS ALL DEFERRED", "SET CONSTRAINTS ALL IMMEDIATE"];
            run(session, modes[rng.random_range(0..2)])?;
            run(session, &format!("INSERT INTO t VALUES ({k}, {u}, 3)"))?;
            std::thread::yield_now();
            run(session, &format!("DELETE FROM t WHERE k = {k} AND n < 3"))?;
            session.commit()?.wait()
        }
    }
}

/// The count of rows with each key stays at most one while clients insert, move and delete the same keys.
#[test]
fn transactions_that_write_the_same_key_never_both_commit() {
    for scheme in Scheme::all() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(folder.path(), Content::Command, scheme);
        std::thread::scope(|scope| {
            for client in 0..4 {
                let database = &database;
                scope.spawn(move || {
                    let mut session = database.session().unwrap();
                    let mut rng = SmallRng::seed_from_u64(client);
                    for _ in 0..150 {
                        if let Err(error) = contend(&mut session, &mut rng) {
                            let state = error.sqlstate();
                            assert!(["23505", "40001", "40P01"].contains(&state), "{scheme}: {error}");
                            session.rollback();
                        }
                        if rng.random_range(0..20) == 0 {
                            assert_keys_are_unique(&mut session, &scheme.to_string());
                        }
                    }
                });
            }
        });
        let mut session = database.session().unwrap();
        assert_keys_are_unique(&mut session, &scheme.to_string());
        let digest = database.digest().unwrap();
        drop((session, database));
        assert_eq!(recovered_digest_of(Content::Command, folder.path()), digest, "{scheme}");
    }
}

/// Two open transactions insert one key: one waits for the other, and one commits, whether the key is
/// deferred or not.
#[test]
fn open_transactions_collide() {
    for scheme in Scheme::all() {
        for mode in ["IMMEDIATE", "DEFERRED"] {
            let folder = tempfile::tempdir().unwrap();
            let database = database(folder.path(), Content::Command, scheme);
            let mut committed = 0;
            std::thread::scope(|scope| {
                let barrier = std::sync::Arc::new(std::sync::Barrier::new(2));
                let clients = [1, 2].map(|client| {
                    let (database, barrier) = (&database, std::sync::Arc::clone(&barrier));
                    scope.spawn(move || {
                        let mut session = database.session().unwrap();
                        session.begin().unwrap();
                        run(&mut session, &format!("SET CONSTRAINTS ALL {mode}")).unwrap();
                        barrier.wait();
                        let statement = format!("INSERT INTO t VALUES (1, {client}, {client})");
                        let ended = run(&mut session, &statement)
                            .and_then(|()| session.commit())
                            .and_then(|commit| commit.wait());
                        session.rollback();
                        ended
                    })
                });
                for client in clients {
                    match client.join().unwrap() {
                        Ok(()) => committed += 1,
                        Err(error) => {
                            let state = error.sqlstate();
                            assert!(["23505", "40001", "40P01"].contains(&state), "{scheme}: {error}");
                        }
                    }
                }
            });
            assert_eq!(committed, 1, "{scheme} {mode}");
            assert_eq!(rows(&mut database.session().unwrap()).len(), committed, "{scheme} {mode}");
        }
    }
}

/// The rows by their number, which no statement changes: the keys of each.
type Model = BTreeMap<i64, (i64, i64)>;

/// Whether no two rows have the same `k`, or the same `u`.
fn are_unique(model: &Model) -> (bool, bool) {
    let unique = |of: fn(&(i64, i64)) -> i64| {
        let mut keys: Vec<i64> = model.values().map(of).collect();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        keys.len() == count
    };
    (unique(|row| row.0), unique(|row| row.1))
}

/// Makes a random statement, and returns its text.
fn step(model: &mut Model, next: &mut i64, rng: &mut SmallRng) -> String {
    let (k, u) = (rng.random_range(0..5), rng.random_range(0..5));
    match rng.random_range(0..6) {
        0 => {
            model.values_mut().for_each(|row| row.0 += 1);
            "UPDATE t SET k = k + 1".into()
        }
        1 => {
            model.values_mut().for_each(|row| *row = (4 - row.0, 4 - row.1));
            "UPDATE t SET k = 4 - k, u = 4 - u".into()
        }
        2 => {
            model.retain(|_, row| row.0 != k);
            format!("DELETE FROM t WHERE k = {k}")
        }
        3 => {
            model.values_mut().filter(|row| row.0 == k).for_each(|row| row.1 = u);
            format!("UPDATE t SET u = {u} WHERE k = {k}")
        }
        _ => {
            *next += 1;
            model.insert(*next, (k, u));
            format!("INSERT INTO t VALUES ({k}, {u}, {next})")
        }
    }
}

/// Statements and commits fail when a key that is checked then is there twice, and only then.
#[test]
fn random_transactions_keep_the_keys() {
    for seed in seeds(24) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let contents = [Content::Command, Content::Logical, Content::Physical, Content::Physiological];
        let content = contents[seed as usize % contents.len()];
        let folder = tempfile::tempdir().unwrap();
        let database = database(folder.path(), content, scheme_of(seed));
        let mut session = database.session().unwrap();
        let (mut model, mut next) = (Model::new(), 0);
        for round in 0..30 {
            let before = model.clone();
            session.begin().unwrap();
            let (mut deferred, mut is_good) = ((false, true), true);
            let mut saved = None;
            for _ in 0..rng.random_range(1..6) {
                let statement = match rng.random_range(0..10) {
                    2 => {
                        session.set_savepoint("one").unwrap();
                        saved = Some((model.clone(), deferred));
                        continue;
                    }
                    3 if saved.is_some() => {
                        session.roll_back_to_savepoint("one").unwrap();
                        (model, deferred) = saved.clone().unwrap();
                        continue;
                    }
                    0 => {
                        deferred = (true, true);
                        "SET CONSTRAINTS ALL DEFERRED".into()
                    }
                    1 => {
                        deferred = (false, false);
                        "SET CONSTRAINTS ALL IMMEDIATE".into()
                    }
                    _ => step(&mut model, &mut next, &mut rng),
                };
                let unique = are_unique(&model);
                is_good = (unique.0 || deferred.0) && (unique.1 || deferred.1);
                let ran = run(&mut session, &statement);
                assert_eq!(ran.is_ok(), is_good, "seed {seed}: {statement}: {model:?}");
                if let Err(error) = ran {
                    assert_eq!(error.sqlstate(), "23505", "seed {seed}: {statement}");
                    session.fail_transaction();
                    let Some(earlier) = saved.clone() else { break };
                    session.roll_back_to_savepoint("one").unwrap();
                    (model, deferred, is_good) = (earlier.0, earlier.1, true);
                }
            }
            let ends_well = is_good && are_unique(&model) == (true, true);
            assert_eq!(session.commit().is_ok(), ends_well, "seed {seed}");
            if !ends_well {
                model = before;
            }
            let mut expected: Vec<(i64, i64)> = model.values().copied().collect();
            expected.sort_unstable();
            assert_eq!(rows(&mut session), expected, "seed {seed}");
            if round == 15 && content == Content::Command {
                database.checkpoint().unwrap();
            }
        }
        let digest = database.digest().unwrap();
        drop((session, database));
        assert_eq!(recovered_digest_of(content, folder.path()), digest, "seed {seed}");
    }
}

/// The keys are still checked after a recovery, from a log and from a checkpoint.
#[test]
fn keys_are_checked_after_a_recovery() {
    for checkpoints in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let first = database(folder.path(), Content::Command, Scheme::Optimistic);
        let mut session = first.session().unwrap();
        run(&mut session, "INSERT INTO t VALUES (1, 1, 0), (2, 2, 0)").unwrap();
        if checkpoints {
            first.checkpoint().unwrap();
        }
        drop((session, first));
        let again = crate::common::open(folder.path());
        let mut session = again.session().unwrap();
        run(&mut session, "UPDATE t SET k = k + 1").unwrap();
        for statement in ["INSERT INTO t VALUES (2, 9, 0)", "INSERT INTO t VALUES (9, 2, 0)"] {
            assert_eq!(run(&mut session, statement).unwrap_err().sqlstate(), "23505", "{checkpoints}");
        }
        session.begin().unwrap();
        run(&mut session, "INSERT INTO t VALUES (9, 2, 0)").unwrap();
        assert_eq!(session.commit().map(|_| ()).unwrap_err().sqlstate(), "23505");
        session.rollback();
        assert_eq!(rows(&mut session), [(2, 1), (3, 2)]);
    }
}

/// Keys of every kind come and go between calls.
#[test]
fn keys_come_back() {
    let script = "CREATE TABLE t (id INT, p INT UNIQUE DEFERRABLE, n INT, UNIQUE NULLS NOT DISTINCT (n, id));
         ALTER TABLE t ADD PRIMARY KEY (id) DEFERRABLE INITIALLY DEFERRED;
         CREATE PROCEDURE put(a INT) LANGUAGE plpgsql AS $$
         BEGIN
             UPDATE t SET p = p + 1;
             INSERT INTO t VALUES (a, 0, CASE WHEN a % 3 > 0 THEN a END);
             BEGIN
                 INSERT INTO t VALUES (a + 1000, a % 3 * 20000 + a, NULL);
             EXCEPTION WHEN unique_violation THEN
                 UPDATE t SET n = coalesce(n, 0) + 1 WHERE id = a - 1;
             END;
             DELETE FROM t WHERE id = a - 30;
             UPDATE t SET p = p + 10000 WHERE id = a - 7;
         END $$;";
    let layouts: &[&str] = &[
        "ALTER TABLE t ADD COLUMN more INT DEFAULT 1",
        "ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (id) INCLUDE (n)",
        "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id) DEFERRABLE",
        "ALTER TABLE t ADD CONSTRAINT k UNIQUE NULLS NOT DISTINCT (n, id, p) DEFERRABLE INITIALLY DEFERRED",
    ];
    let indexes: &[&str] = &[
        "CREATE UNIQUE INDEX t_n ON t (n, id) INCLUDE (p) NULLS NOT DISTINCT",
        "ALTER TABLE t DROP CONSTRAINT t_p_key",
    ];
    comes_back(script, layouts, indexes);
}
