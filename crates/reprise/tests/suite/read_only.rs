//! READ ONLY transactions: they write nothing, read one state, and never fail because of other transactions.

use crate::common::Durably as _;
use crate::common::with;
use reprise::{Access, Attempt, Nowhere, Parameters, Session, TransactionState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const TABLES: &str = "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL);
    CREATE SEQUENCE s;
    INSERT INTO t SELECT n, 0 FROM generate_series(1, 20) AS g (n);
    CREATE FUNCTION writes() RETURNS INT LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET v = v; RETURN 1; END $$;
    CREATE PROCEDURE reads() LANGUAGE plpgsql AS $$ BEGIN PERFORM sum(v) FROM t; END $$;
    CREATE PROCEDURE moves(a INT, b INT) LANGUAGE plpgsql AS $$ BEGIN
        UPDATE t SET v = v - 1 WHERE id = a;
        UPDATE t SET v = v + 1 WHERE id = b;
    END $$";

fn sum(session: &mut Session, query: &str) -> String {
    session.query(query).unwrap().rows[0][0].to_string()
}

const WRITES: [&str; 12] = [
    "INSERT INTO t VALUES (99, 1)",
    "INSERT INTO t SELECT id, v FROM t WHERE id > 1000",
    "UPDATE t SET v = 1",
    "DELETE FROM t",
    "TRUNCATE t",
    "CREATE TABLE u (id INT PRIMARY KEY)",
    "DROP TABLE t",
    "SELECT nextval('s')",
    "SELECT setval('s', 7)",
    "SELECT writes()",
    "CALL moves(1, 2)",
    "SELECT v FROM t WHERE id = 1 FOR UPDATE",
];

#[test]
fn nothing_is_written() {
    let (_folder, _db, mut session) = with(TABLES);
    let before = sum(&mut session, "SELECT count(*) * 100 + sum(v) FROM t");
    for write in WRITES {
        session.set_access(Access::ReadOnly);
        let error = session.query(write).unwrap_err();
        assert_eq!(error.sqlstate(), "25006", "{write}: {error}");
        session.begin().unwrap();
        let error = session.query(write).unwrap_err();
        assert_eq!(error.sqlstate(), "25006", "{write} in a transaction: {error}");
        assert_eq!(session.transaction_state(), TransactionState::Failed);
        session.rollback();
        session.set_access(Access::ReadWrite);
        // One that becomes READ ONLY after it has written.
        session.begin().unwrap();
        session.query("UPDATE t SET v = v WHERE id = 3").unwrap();
        session.change_access(Access::ReadOnly).unwrap();
        let error = session.query(write).unwrap_err();
        assert_eq!(error.sqlstate(), "25006", "{write} behind a write: {error}");
        session.rollback();
    }
    assert_eq!(sum(&mut session, "SELECT count(*) * 100 + sum(v) FROM t"), before);
    assert_eq!(sum(&mut session, "SELECT nextval('s')"), "1");
}

#[test]
fn what_only_reads_runs() {
    let (_folder, _db, mut session) = with(TABLES);
    session.set_access(Access::ReadOnly);
    session.query("CALL reads()").unwrap();
    session.begin().unwrap();
    session.query("CALL reads()").unwrap();
    session.set_savepoint("s").unwrap();
    assert_eq!(session.query("SELECT 1 / (v - v) FROM t").unwrap_err().sqlstate(), "22012");
    session.roll_back_to_savepoint("s").unwrap();
    assert_eq!(sum(&mut session, "SELECT count(*) FROM t"), "20");
    assert_eq!(session.change_access(Access::ReadWrite).unwrap_err().sqlstate(), "25001");
    session.release_savepoint("s").unwrap();
    drop(session.commit().unwrap());
    session.set_access(Access::ReadWrite);
    session.query("UPDATE t SET v = 1").unwrap();
}

/// Meanwhile, other transactions change rows, insert and delete rows at the end of the table, and checkpoints
/// are taken.
#[test]
fn it_reads_one_state_and_never_fails() {
    let (_folder, db, mut session) = with(TABLES);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (mut session, ends) = (db.session().unwrap(), &ends);
            scope.spawn(move || {
                let mut n = seed;
                while !ends.load(Ordering::Relaxed) {
                    n += 7;
                    session.query(&format!("CALL moves({}, {})", n % 20 + 1, (n + 3) % 20 + 1)).unwrap();
                    session.query(&format!("DELETE FROM t WHERE id = {}", 100 + n % 5)).unwrap();
                    session
                        .query(&format!("INSERT INTO t VALUES ({}, 0) ON CONFLICT DO NOTHING", 100 + n % 5))
                        .unwrap();
                }
            });
        }
        for round in 0..100 {
            session.set_access(Access::ReadOnly);
            session.begin().unwrap();
            let first = sum(&mut session, "SELECT count(*) FROM t");
            let rows = session.query("SELECT id, v FROM t ORDER BY id").unwrap().rows;
            for n in 1..=20 {
                let one = sum(&mut session, &format!("SELECT v FROM t WHERE id = {n}"));
                assert_eq!(one, rows[n - 1][1].to_string());
            }
            assert_eq!(sum(&mut session, "SELECT sum(v) FROM t"), "0");
            assert_eq!(sum(&mut session, "SELECT count(*) FROM t"), first);
            if round % 20 == 0 {
                db.checkpoint().unwrap();
            }
            drop(session.commit().unwrap());
        }
        ends.store(true, Ordering::Relaxed);
    });
}

/// What it shows is durable before it is acknowledged, and it reads what was acknowledged before.
#[test]
fn it_sees_what_was_acknowledged_before_it_began() {
    let (_folder, db, mut session) = with(TABLES);
    let mut other = db.session().unwrap();
    session.set_access(Access::ReadOnly);
    for n in 1..50 {
        session.begin().unwrap();
        other.query(&format!("UPDATE t SET v = {n} WHERE id = 1")).unwrap();
        assert_eq!(sum(&mut session, "SELECT v FROM t WHERE id = 1"), n.to_string());
        other.query("UPDATE t SET v = -1 WHERE id = 1").unwrap();
        assert_eq!(sum(&mut session, "SELECT v FROM t WHERE id = 1"), n.to_string());
        drop(session.commit().unwrap());
    }
}

/// While a definition waits for it, statements of the transaction are sometimes `Busy`, and go on reading the
/// same state.
#[test]
fn a_definition_that_waits_leaves_the_snapshot_alone() {
    let (_folder, db, mut reader) = with(TABLES);
    let [mut writer, mut defines] = [(); 2].map(|()| db.session().unwrap());
    let query = "SELECT sum(v * id) FROM t";
    reader.set_access(Access::ReadOnly);
    reader.begin().unwrap();
    let before = sum(&mut reader, query);
    writer.query("UPDATE t SET v = 5").unwrap();
    defines.set_lock_timeout(Some(Duration::from_millis(400)));
    let prepared = reader.prepare(query).unwrap();
    let mut was_busy = false;
    std::thread::scope(|scope| {
        let defining = scope.spawn(|| defines.query("CREATE TABLE u (id INT PRIMARY KEY)").map(drop));
        while !defining.is_finished() {
            match reader.attempt(&prepared, &Parameters::default(), Box::new(Nowhere)).unwrap() {
                Attempt::Busy(_) => was_busy = true,
                Attempt::Done(_) => {}
            }
        }
        assert_eq!(defining.join().unwrap().unwrap_err().sqlstate(), "55P03");
    });
    assert!(was_busy);
    assert_eq!(sum(&mut reader, query), before);
    drop(reader.commit().unwrap());
}
