//! Definitions change while other sessions run transactions, and are durable. Errors of bad input have a
//! position and a hint.

use crate::common::Durably as _;
use crate::common::{logging, open, recovered_digest, small};
use checkpoint::{Definitions, Manifest};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reprise::{Config, Content, Database, Error, Nowhere, Session, Value, params};
use sql::Schema;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_call_is_replayed_by_the_version_that_ran() {
    let folder = tempfile::tempdir().unwrap();
    {
        let db = open(folder.path());
        let mut session = db.session().unwrap();
        session
            .execute_script(
                "CREATE TABLE t (id INT PRIMARY KEY, v TEXT, at TIMESTAMPTZ, r DOUBLE PRECISION);",
            )
            .unwrap();
        let stop = AtomicBool::new(false);
        session.execute_script(&version(1)).unwrap();
        std::thread::scope(|scope| {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || {
                let mut session = db.session().unwrap();
                for id in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let _ = session.call("put", params![id]).unwrap();
                }
            });
            for number in 2..8 {
                session.execute_script(&version(number)).unwrap();
            }
            session.execute_script("CREATE INDEX t_v ON t (v)").unwrap();
            stop.store(true, Ordering::Relaxed);
        });
        session.execute_script("DROP PROCEDURE put").unwrap();
        let live = db.digest().unwrap();
        drop((session, db));
        assert_eq!(recovered_digest(folder.path()), live);
    }
    let db = open(folder.path());
    let error = db.session().unwrap().call_durably("put", params![1]).unwrap_err();
    assert_eq!(error.sqlstate(), "42883", "{error}");
}

/// What is made and dropped, or replaced, again and again leaves nothing in checkpoints. What is defined
/// afterwards has the numbers that it would have without them: the log after a checkpoint names tables and
/// procedures by numbers.
#[test]
fn checkpoints_are_as_long_as_what_is_defined() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let mut session = db.session().unwrap();
    session
        .execute_script(
            "CREATE SCHEMA s;
             CREATE TABLE s.parent (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v NUMERIC(9,2)
                 DEFAULT 1.5);
             CREATE TABLE child (k TEXT, at TIMESTAMPTZ, id BIGINT REFERENCES s.parent ON DELETE CASCADE,
                 CHECK (k <> ''),
                                 UNIQUE (k, at));
             CREATE SEQUENCE numbers INCREMENT 3;
             CREATE VIEW rich AS SELECT id FROM s.parent WHERE v > 2;
             CREATE PROCEDURE add(w NUMERIC) LANGUAGE plpgsql AS $$
                 BEGIN INSERT INTO s.parent (v) VALUES (w); END $$;
             CREATE PROCEDURE a_caller(w NUMERIC) LANGUAGE plpgsql AS $$
                 BEGIN CALL add(w); CALL add(w + 1); END $$;",
        )
        .unwrap();
    let round = |session: &mut Session, number: usize| {
        let script = format!(
            "CREATE TABLE passing_{number} (id INT PRIMARY KEY, v INT);
             CREATE INDEX passing_v ON passing_{number} (v);
             CREATE PROCEDURE passing() LANGUAGE plpgsql AS $$
                 BEGIN UPDATE passing_{number} SET v = {number}; END $$;
             DROP PROCEDURE passing;
             ALTER TABLE passing_{number} RENAME TO gone;
             DROP TABLE gone;
             CREATE OR REPLACE PROCEDURE add(w NUMERIC) LANGUAGE plpgsql AS $$ BEGIN
                 INSERT INTO s.parent (v) VALUES (w + {}); END $$;
             ALTER TABLE child ADD COLUMN passing INT;
             ALTER TABLE child DROP COLUMN passing;",
            number % 10
        );
        session.execute_script(&script).unwrap();
        session.call_durably("a_caller", params![number as i64]).unwrap();
    };
    let length = || {
        db.checkpoint().unwrap();
        match Manifest::read(&small().disk, folder.path()).unwrap().unwrap().definitions {
            Definitions::Image(image) => image.len(),
            Definitions::Statements(_) => unreachable!("an image is written"),
        }
    };
    (0..3).for_each(|number| round(&mut session, number));
    let before = length();
    (3..60).for_each(|number| round(&mut session, number));
    let after = length();
    assert!(after < before + 50, "{before} bytes, then {after}");
    // Made after the checkpoint, with calls behind the checkpoint.
    session
        .execute_script(
            "CREATE TABLE later (id INT PRIMARY KEY, n INT);
             CREATE PROCEDURE later() LANGUAGE plpgsql AS $$
                 BEGIN INSERT INTO later VALUES (1, nextval('numbers')); END $$;",
        )
        .unwrap();
    session.call_durably("later", params![]).unwrap();
    session.call_durably("a_caller", params![7]).unwrap();
    let live = db.digest().unwrap();
    drop((session, db));
    assert_eq!(recovered_digest(folder.path()), live);
    let db = open(folder.path());
    let mut session = db.session().unwrap();
    for statement in
        ["INSERT INTO child VALUES ('', now(), 1)", "INSERT INTO child VALUES ('x', now(), 999999)"]
    {
        assert!(session.execute_script(statement).is_err(), "{statement}");
    }
    session
        .execute_script("INSERT INTO child VALUES ('x', now(), 1); DELETE FROM s.parent; DROP VIEW rich")
        .unwrap();
    assert_eq!(
        db.digest().unwrap().tables.iter().map(|table| table.1.rows).sum::<u64>(),
        3,
        "sequences and later"
    );
}

/// Whatever was defined, in whatever order, a checkpoint holds it: making an image asserts that what is read
/// of it compiles to the same procedures.
#[test]
fn images_hold_what_is_defined_in_any_order() {
    const STATEMENTS: [&str; 22] = [
        "CREATE TABLE parent (id INT PRIMARY KEY, v INT NOT NULL DEFAULT 3)",
        "CREATE TABLE child (id INT PRIMARY KEY, parent INT REFERENCES parent ON DELETE CASCADE)",
        "CREATE TABLE grandchild (id INT PRIMARY KEY, child INT REFERENCES child ON UPDATE SET NULL)",
        "CREATE INDEX parent_v ON parent (v)",
        "CREATE VIEW high AS SELECT id, v FROM parent WHERE v > 2",
        "CREATE FUNCTION z(x INT) RETURNS INT LANGUAGE plpgsql AS $$ BEGIN RETURN x + 1; END $$",
        "CREATE FUNCTION b(x INT) RETURNS INT LANGUAGE plpgsql AS $$ BEGIN RETURN z(x) * 2; END $$",
        "CREATE FUNCTION a() RETURNS INT LANGUAGE plpgsql AS $$ DECLARE s INT;
         BEGIN SELECT sum(z(v)) INTO s FROM parent; RETURN s; END $$",
        "CREATE FUNCTION few(n INT) RETURNS TABLE (k INT) LANGUAGE plpgsql AS $$
         BEGIN RETURN QUERY SELECT id FROM high WHERE z(v) > n; END $$",
        "CREATE PROCEDURE loops() LANGUAGE plpgsql AS $$ DECLARE r INT;
         BEGIN FOR r IN SELECT k FROM few(2) LOOP INSERT INTO parent VALUES (r + 100, 1); END LOOP; END $$",
        "CREATE VIEW seen AS SELECT z(v) AS w FROM parent",
        "CREATE PROCEDURE reads() LANGUAGE plpgsql AS $$ DECLARE n INT;
         BEGIN SELECT max(w) INTO n FROM seen; CALL loops(); END $$",
        "CREATE PROCEDURE del(p INT) LANGUAGE plpgsql AS $$ BEGIN DELETE FROM parent WHERE id = p; END $$",
        "CREATE PROCEDURE rename(p INT, q INT) LANGUAGE plpgsql AS $$
         BEGIN UPDATE child SET id = q WHERE id = p; CALL del(p); END $$",
        "CREATE OR REPLACE FUNCTION z(x INT) RETURNS INT LANGUAGE plpgsql AS $$ BEGIN RETURN x + 5; END $$",
        "CREATE OR REPLACE PROCEDURE del(p INT) LANGUAGE plpgsql AS $$ BEGIN DELETE FROM child \
         WHERE id = p; END $$",
        "CREATE FUNCTION generate_series(x INT, y INT) RETURNS TABLE (g INT) LANGUAGE plpgsql AS $$
         BEGIN RETURN QUERY SELECT v FROM parent WHERE v BETWEEN x AND y; END $$",
        "CREATE PROCEDURE series() LANGUAGE plpgsql AS $$ DECLARE n INT;
         BEGIN SELECT count(*) INTO n FROM generate_series(1, 4); DELETE FROM parent WHERE id = n; END $$",
        "DROP FUNCTION z",
        "DROP VIEW high",
        "ALTER TABLE parent ADD COLUMN more TEXT DEFAULT 'm'",
        "DROP TABLE grandchild",
    ];
    let mut defined = 0;
    for seed in 0..40 {
        let mut random = SmallRng::seed_from_u64(seed);
        let folder = tempfile::tempdir().unwrap();
        let db = open(folder.path());
        let mut session = db.session().unwrap();
        for _ in 0..90 {
            // The first statements define objects that the later ones need, so they are drawn more often.
            let mut draw = || random.random_range(0..STATEMENTS.len());
            let statement = STATEMENTS[draw().min(draw())];
            // What is there already, or lacks what it needs, is refused.
            let changes = session.execute_script(statement).is_ok();
            defined += usize::from(changes);
            if changes && random.random_bool(0.4) {
                db.checkpoint().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                let calls = [
                    ("del", params![2]),
                    ("loops", params![]),
                    ("series", params![]),
                    ("rename", params![3, 4]),
                ];
                for (procedure, arguments) in calls {
                    let _ = session.call_durably(procedure, arguments);
                }
                let _ = session.execute_script(
                    "INSERT INTO parent VALUES (2, 4), (3, 3); INSERT INTO child VALUES (3, 2)",
                );
            }
        }
        let live = db.digest().unwrap();
        drop((session, db));
        assert_eq!(recovered_digest(folder.path()), live, "seed {seed}");
    }
    assert!(defined > 600, "{defined}");
}

/// The first procedure of a circle calls the second one by its name.
#[test]
fn procedures_may_call_each_other_in_a_circle() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let mut session = db.session().unwrap();
    let define = |name: &str, body: &str| {
        format!("CREATE OR REPLACE PROCEDURE {name}() LANGUAGE plpgsql AS $$ BEGIN {body} END $$")
    };
    session.execute_script("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    session.execute_script(&define("first", "DELETE FROM t;")).unwrap();
    session.execute_script(&define("second", "CALL first();")).unwrap();
    session.execute_script(&define("first", "CALL second();")).unwrap();
    assert_eq!(session.call("second", params![]).unwrap_err().sqlstate(), "54001");
    session.execute_script(&define("first", "INSERT INTO t VALUES (1);")).unwrap();
    session.call_durably("second", params![]).unwrap();
}

/// Statements that applications send whenever they start make neither the log nor checkpoints longer.
#[test]
fn a_statement_that_changes_nothing_is_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let kept = || Manifest::read(&small().disk, folder.path()).unwrap().unwrap().definitions;
    let db = open(folder.path());
    let mut session = db.session().unwrap();
    let script = format!(
        "CREATE SCHEMA IF NOT EXISTS s;
         CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, v TEXT, at TIMESTAMPTZ, r DOUBLE PRECISION);
         CREATE INDEX IF NOT EXISTS t_v ON t (v);
         CREATE OR REPLACE VIEW w AS SELECT id FROM t;
         {};
         DROP TABLE IF EXISTS nothing;",
        version(1)
    );
    session.execute_script(&script).unwrap();
    db.checkpoint().unwrap();
    let (before, bytes) = (kept(), db.log_statistics()[0].1.record_bytes);
    for _ in 0..20 {
        session.execute_script(&script).unwrap();
        session.begin().unwrap();
        for (statement, ..) in Schema::split(&script).unwrap() {
            let prepared = session.prepare(&statement).unwrap();
            session.execute_into(&prepared, &[], Box::new(Nowhere)).unwrap();
        }
        assert!(!session.changes_definitions());
        drop(session.commit().unwrap());
    }
    assert_eq!(db.log_statistics()[0].1.record_bytes, bytes);
    session.call_durably("put", params![1]).unwrap();
    db.checkpoint().unwrap();
    assert_eq!(kept(), before);
    session.execute_script(&version(2)).unwrap();
    session.call_durably("put", params![2]).unwrap();
    let live = db.digest().unwrap();
    drop((session, db));
    assert_eq!(recovered_digest(folder.path()), live);
}

fn version(number: i32) -> String {
    format!(
        "CREATE OR REPLACE PROCEDURE put(p_id INT) LANGUAGE plpgsql AS $$
         BEGIN INSERT INTO t VALUES (p_id, 'version {number}', now(), random()); END $$"
    )
}

#[test]
fn bad_input_is_answered_clearly() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let mut session = db.session().unwrap();
    session
        .execute_script(
            "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(5) NOT NULL UNIQUE, n SMALLINT CHECK (n > 0));
             CREATE PROCEDURE put(p_id INT, p_name TEXT, p_n INT DEFAULT 1) LANGUAGE plpgsql AS $$
             BEGIN INSERT INTO t VALUES (p_id, p_name, p_n); END $$;
             CREATE PROCEDURE strict(p_id INT) LANGUAGE plpgsql AS $$
             DECLARE v TEXT; BEGIN SELECT name INTO STRICT v FROM t WHERE id = p_id; END $$;
             CREATE PROCEDURE divide(p_by INT, OUT r INT) LANGUAGE plpgsql AS $$
                 BEGIN r := 1 / p_by; END $$;",
        )
        .unwrap();
    session.call_durably("put", params![1, "one"]).unwrap();
    let null = Value::Null;
    let cases: [(&str, Vec<Value>, &str); 12] = [
        ("put", params![1, "two"].to_vec(), "23505"),
        ("put", params![2, "one"].to_vec(), "23505"),
        ("put", params![2, "too long"].to_vec(), "22001"),
        ("put", vec![Value::Int(2), null], "23502"),
        ("put", params![2, "two", 0].to_vec(), "23514"),
        ("put", params![2, "two", 70_000].to_vec(), "22003"),
        ("put", params![2].to_vec(), "42883"),
        ("put", params![2, "two", 3, 4].to_vec(), "42883"),
        ("put", params!["x", "two"].to_vec(), "22P02"),
        ("strict", params![9].to_vec(), "P0002"),
        ("divide", params![0].to_vec(), "22012"),
        ("missing", vec![], "42883"),
    ];
    for (procedure, arguments, sqlstate) in cases {
        let error = session.call_durably(procedure, &arguments).expect_err("it is wrong");
        assert_eq!(error.sqlstate(), sqlstate, "{procedure} {arguments:?}: {error}");
    }
    assert_eq!(db.digest().unwrap().tables[0].1.rows, 1, "nothing of a refused call happened");
    let error =
        session.execute_script("CREATE TABLE u (a INT PRIMARY KEY);\n  CREATE TABLE v (a FOO);").unwrap_err();
    assert!(error.to_string().contains("line 2, column 21"), "{error}");
}

#[test]
fn out_of_memory_is_an_error_of_the_statement() {
    let folder = tempfile::tempdir().unwrap();
    let limited = || {
        let mut config: Config = small();
        config.memory_bytes = 64 << 20;
        config
    };
    let rows = {
        let db = Database::open(folder.path(), limited()).unwrap();
        let mut session = db.session().unwrap();
        session
            .execute_script(
                "CREATE TABLE t (id INT PRIMARY KEY, pad TEXT NOT NULL);
                 CREATE PROCEDURE put(p_id INT) LANGUAGE plpgsql AS $$
                 BEGIN INSERT INTO t VALUES (p_id, repeat('x', 4000)); END $$;
                 CREATE PROCEDURE n(OUT c BIGINT) LANGUAGE plpgsql AS $$
                     BEGIN SELECT count(*) INTO c FROM t; END $$;",
            )
            .unwrap();
        let refused = (0..100_000).find_map(|id| session.call("put", params![id]).err()).unwrap();
        assert!(matches!(&refused, Error::Sql(error) if error.sqlstate == "53200"), "{refused}");
        session.call_durably("n", params![]).unwrap()[0].clone()
    };
    let db = Database::open(folder.path(), limited()).unwrap();
    assert_eq!(
        db.session().unwrap().call_durably("n", params![]).unwrap()[0],
        rows,
        "a restart under the same limit succeeds"
    );
}

#[test]
fn returning_into_gives_nulls_without_a_row_and_refuses_several() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let mut session = db.session().unwrap();
    session
        .execute_script(
            "CREATE TABLE t (a INT, b INT, v INT NOT NULL, PRIMARY KEY (a, b));
             INSERT INTO t VALUES (1, 1, 7), (1, 2, 8);
             CREATE PROCEDURE change(p_a INT, p_b INT, OUT o INT) LANGUAGE plpgsql AS $$ BEGIN
                 o := 5;
                 UPDATE t SET v = v + 1 WHERE a = p_a AND b = p_b RETURNING v INTO o;
             END $$;
             CREATE PROCEDURE remove(p_a INT, OUT o INT) LANGUAGE plpgsql AS $$ BEGIN
                 o := 5;
                 DELETE FROM t WHERE a = p_a RETURNING v INTO o;
             END $$;",
        )
        .unwrap();
    assert_eq!(session.call_durably("change", params![1, 1]).unwrap()[0], Value::Int(8));
    assert_eq!(session.call_durably("change", params![2, 1]).unwrap()[0], Value::Null);
    assert_eq!(session.call_durably("remove", params![2]).unwrap()[0], Value::Null);
    let error = session.call_durably("remove", params![1]).unwrap_err().to_string();
    assert!(error.contains("more than one row"), "{error}");
}

/// What makes too many values ends with 53200, and the session goes on.
#[test]
fn values_without_end_are_an_error_of_the_statement() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let mut session = db.session().unwrap();
    let error =
        session.query("DO $$ DECLARE t TEXT := 'x'; BEGIN LOOP t := t || t; END LOOP; END $$").unwrap_err();
    assert_eq!(error.sqlstate(), "53200", "{error}");
    assert_eq!(session.query("SELECT 6 * 7").unwrap().rows[0][0].to_string(), "42");
}

/// Routines of one name in several schemas, and routines with a new name, schema or option, come back from
/// the log and from a checkpoint.
#[test]
fn routines_of_schemas_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let check = |session: &mut Session| {
        session.execute_script("TRUNCATE t").unwrap();
        for (number, procedure) in ["put", "s.put", "s.moved"].into_iter().enumerate() {
            session.call(procedure, params![number as i32]).unwrap().commit.wait().unwrap();
        }
        let rows = session.query("SELECT v FROM t ORDER BY v").unwrap().rows;
        let values: Vec<_> = rows.iter().map(|row| row[0].to_string()).collect();
        assert_eq!(values, ["0", "11", "22"]);
        let row = session.query("SELECT s.f(1), s.f(NULL) IS NULL").unwrap().rows.remove(0);
        assert_eq!((row[0].to_string(), row[1].to_string()), ("2".into(), "t".into()));
        assert_eq!(session.query("SELECT f(1)").unwrap_err().sqlstate(), "42883");
        let error = session.call("g", params![]).unwrap_err();
        assert_eq!(error.sqlstate(), "42883");
    };
    for takes_checkpoint in [false, true, false] {
        let db = open(folder.path());
        let mut session = db.session().unwrap();
        if session.query("SELECT s.f(1)").is_err() {
            session
                .execute_script(
                    "CREATE SCHEMA s; CREATE TABLE t (v INT PRIMARY KEY);
                     CREATE PROCEDURE put(n INT) LANGUAGE plpgsql AS
                         $$ BEGIN INSERT INTO t VALUES (n); END $$;
                     CREATE PROCEDURE s.put(n INT) LANGUAGE plpgsql AS $$
                         BEGIN INSERT INTO t VALUES (n + 10); END $$;
                     CREATE PROCEDURE g(n INT) LANGUAGE plpgsql AS $$
                         BEGIN INSERT INTO t VALUES (n + 20); END $$;
                     CREATE FUNCTION s.f(n INT) RETURNS INT LANGUAGE sql AS $$ SELECT coalesce(n, 0) + 1 $$;
                     ALTER PROCEDURE g(INT) RENAME TO moved;
                     ALTER PROCEDURE moved SET SCHEMA s;
                     ALTER FUNCTION s.f(INT) STRICT;",
                )
                .unwrap();
        }
        check(&mut session);
        if takes_checkpoint {
            db.checkpoint().unwrap();
        }
        let live = db.digest().unwrap();
        drop((session, db));
        assert_eq!(recovered_digest(folder.path()), live);
    }
}

/// CASCADE drops columns, defaults, triggers and views by the rules of their own statements, and a recovery
/// finds the same tables, from the log and from a checkpoint.
#[test]
fn what_cascades_drop_stays_dropped() {
    let script = "CREATE TYPE mood AS ENUM ('a', 'b');
        CREATE DOMAIN few AS INT CHECK (VALUE < 9);
        CREATE TABLE u (id INT PRIMARY KEY, f few);
        INSERT INTO u VALUES (1, 2);
        CREATE SEQUENCE numbers;
        CREATE TABLE t (id INT PRIMARY KEY, m mood, n INT DEFAULT nextval('numbers'), f INT, o mood);
        CREATE VIEW v AS SELECT m FROM t;
        CREATE FUNCTION f() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN NEW.n := 70; RETURN NEW; END $$;
        INSERT INTO t VALUES (1, 'a', DEFAULT, 3, 'b');
        CREATE TRIGGER g BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION f();
        UPDATE t SET id = 2;";
    let drops = [
        "DROP FUNCTION f CASCADE; DROP DOMAIN few CASCADE",
        "DROP TYPE mood CASCADE",
        "DROP SEQUENCE numbers CASCADE",
    ];
    // The other logs name rows by their places, and cannot hold that a column goes.
    for content in [Content::Command, Content::Logical, Content::Adaptive] {
        for checkpointed in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let db = Database::open(folder.path(), logging(content)).unwrap();
            let mut session = db.session().unwrap();
            session.execute_script(script).unwrap_or_else(|error| panic!("{content:?}: {error}"));
            for drop in drops {
                session.execute_script(drop).unwrap_or_else(|error| panic!("{content:?}, {drop}: {error}"));
                session.execute("UPDATE t SET id = id + 1", params![]).unwrap();
            }
            if checkpointed {
                db.checkpoint().unwrap();
            }
            let digest = db.digest().unwrap();
            drop((session, db));
            let db = Database::open(folder.path(), logging(content)).unwrap();
            assert_eq!(db.digest().unwrap(), digest, "{content:?}, {checkpointed}");
            let mut session = db.session().unwrap();
            let rows = session.execute("SELECT id, n, f FROM t", params![]).unwrap().rows;
            let values: Vec<_> =
                rows.iter().flat_map(|row| (0..3).map(|place| row[place].to_string())).collect();
            assert_eq!(values, ["5", "70", "3"], "{content:?}, {checkpointed}");
            assert!(session.execute("SELECT * FROM v", params![]).is_err());
        }
    }
}
