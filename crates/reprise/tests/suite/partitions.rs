//! Partitioned tables: whatever changes their partitions between calls and within transactions, every log
//! recovers to one state by every method, from checkpoints, too; a row is always that of one partition.

use crate::common::Durably as _;
use crate::common::{logging, open, recovered_digest, recovered_digest_of, small};
use crate::kinds::comes_back;
use reprise::{Content, Database, Error, Sequencing, Session, Value, params};

const SCRIPT: &str = "CREATE TABLE t (id INT, at DATE NOT NULL, kind TEXT, n INT, PRIMARY KEY (at, id))
         PARTITION BY RANGE (at);
     CREATE TABLE t1 PARTITION OF t FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
     CREATE TABLE t2 PARTITION OF t FOR VALUES FROM ('2024-02-01') TO ('2024-03-01')
         PARTITION BY LIST (at);
     CREATE TABLE t2a PARTITION OF t2 FOR VALUES IN ('2024-02-01', '2024-02-02');
     CREATE TABLE t2b PARTITION OF t2 DEFAULT;
     CREATE TABLE t3 (id INT NOT NULL, at DATE NOT NULL, kind TEXT, n INT);
     CREATE PROCEDURE put(p INT) LANGUAGE plpgsql AS $$
     BEGIN
         INSERT INTO t VALUES (p, DATE '2024-01-01' + p % 59, 'k' || p % 3, p);
         UPDATE t SET at = at + 1 WHERE id = p - 3;
         UPDATE t2 SET n = n + 1 WHERE id BETWEEN p - 9 AND p;
         BEGIN
             UPDATE t1 SET at = '2024-02-05' WHERE id = p - 1;
         EXCEPTION WHEN check_violation THEN
             UPDATE t1 SET kind = 'kept' WHERE id = p - 1;
         END;
         DELETE FROM t2a WHERE id < p - 30;
         BEGIN
             INSERT INTO t3 VALUES (p, '2024-05-05', 'x', p);
         EXCEPTION WHEN check_violation THEN
             NULL;
         END;
     END $$;";

/// Partitions are created, attached, detached, emptied and dropped between calls.
#[test]
fn partitions_change_between_calls() {
    let rounds: &[&str] = &[
        "ALTER TABLE t ATTACH PARTITION t3 FOR VALUES FROM ('2024-05-01') TO ('2024-06-01')",
        "CREATE TABLE td PARTITION OF t DEFAULT; INSERT INTO td VALUES (9000, '2030-01-01', 'd', 1)",
        "TRUNCATE t2a; ALTER TABLE t DETACH PARTITION t1; ALTER TABLE t1 RENAME TO t1_old;
         CREATE TABLE t1 PARTITION OF t FOR VALUES FROM ('2023-01-01') TO ('2024-02-01')",
        "INSERT INTO t1 SELECT * FROM t1_old ON CONFLICT DO NOTHING; DROP TABLE td",
        "CREATE INDEX t_n ON t (n)",
    ];
    // A physical log cannot hold definitions and rows in one transaction.
    let without_rows: &[&str] = &[
        "CREATE TABLE td PARTITION OF t DEFAULT; INSERT INTO td VALUES (9000, '2030-01-01', 'd', 1)",
        "TRUNCATE t2a; CREATE TABLE t4 PARTITION OF t FOR VALUES FROM ('2024-07-01') TO ('2024-08-01')",
        "CREATE INDEX t_n ON t (n); INSERT INTO t4 VALUES (9001, '2024-07-01', 'd', 1)",
    ];
    comes_back(SCRIPT, rounds, without_rows);
}

fn run(session: &mut Session, text: &str) -> Result<(), Error> {
    match text {
        "BEGIN" => session.begin(),
        "COMMIT" => session.commit().and_then(|commit| commit.wait()),
        "ROLLBACK" => {
            session.rollback();
            Ok(())
        }
        text => session.query(text).map(|_| ()),
    }
}

fn values(session: &mut Session, text: &str) -> Vec<Vec<Value>> {
    session.query(text).unwrap().rows
}

/// Changes of partitions take turns with writes in one transaction, which is there altogether or not at all.
#[test]
fn partitions_change_in_transactions() {
    let contents = [Content::Command, Content::Logical, Content::Physiological];
    for content in contents {
        let folder = tempfile::tempdir().unwrap();
        let mut config = small();
        config.content = content;
        if content == Content::Physiological {
            config.sequencing = Sequencing::Serial;
        }
        let db = Database::open(folder.path(), config.clone()).unwrap();
        let mut session = db.session().unwrap();
        session.execute_script(SCRIPT).unwrap();
        for text in [
            "BEGIN",
            "INSERT INTO t VALUES (1, '2024-01-05', 'a', 1), (2, '2024-02-02', 'b', 2)",
            "CREATE TABLE t4 PARTITION OF t FOR VALUES FROM ('2024-07-01') TO ('2024-08-01')",
            "INSERT INTO t4 VALUES (4, '2024-07-04', 'c', 4)",
            "COMMIT",
            "BEGIN",
            "ALTER TABLE t DETACH PARTITION t4",
            "UPDATE t4 SET at = '2024-09-04'",
            "ALTER TABLE t ATTACH PARTITION t4 FOR VALUES FROM ('2024-09-01') TO ('2024-10-01')",
            "DROP TABLE t1",
            "COMMIT",
        ] {
            run(&mut session, text).unwrap_or_else(|error| panic!("{content} {text}: {error}"));
        }
        for text in
            ["BEGIN", "DROP TABLE t4", "TRUNCATE t2a", "ALTER TABLE t2 DETACH PARTITION t2b", "ROLLBACK"]
        {
            run(&mut session, text).unwrap_or_else(|error| panic!("{content} {text}: {error}"));
        }
        let rows = "SELECT id, (SELECT count(*) FROM t4), (SELECT count(*) FROM t2a) FROM t ORDER BY id";
        let found = values(&mut session, rows);
        assert_eq!(found.len(), 2, "{content}: {found:?}");
        let refused = run(&mut session, "INSERT INTO t VALUES (7, '2024-01-05', 'x', 1)").unwrap_err();
        assert_eq!(refused.sqlstate(), "23514");
        let live = db.digest().unwrap();
        drop(session);
        drop(db);
        assert_eq!(recovered_digest_of(content, folder.path()), live, "{content}");
        let db = Database::open(folder.path(), config.clone()).unwrap();
        assert_eq!(db.digest().unwrap(), live, "{content}");
        let mut session = db.session().unwrap();
        assert_eq!(values(&mut session, rows), found, "{content}");
        db.checkpoint().unwrap();
        drop(session);
        drop(db);
        let db = Database::open(folder.path(), config).unwrap();
        let mut session = db.session().unwrap();
        assert_eq!(values(&mut session, rows), found, "{content}");
        assert_eq!(
            run(&mut session, "INSERT INTO t4 VALUES (7, '2024-01-05')").unwrap_err().sqlstate(),
            "23514"
        );
    }
}

/// A statement that is refused changes nothing.
#[test]
fn refused_changes_of_partitions_leave_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let mut session = db.session().unwrap();
    session.execute_script(SCRIPT).unwrap();
    session
        .execute_script(
            "INSERT INTO t VALUES (1, '2024-02-20', 'a', 1); INSERT INTO t3 VALUES (1, '2024-01-05')",
        )
        .unwrap();
    let live = db.digest().unwrap();
    for text in [
        "ALTER TABLE t ATTACH PARTITION t3 FOR VALUES FROM ('2024-05-01') TO ('2024-06-01')",
        "CREATE TABLE t2c PARTITION OF t2 FOR VALUES IN ('2024-02-20')",
    ] {
        assert_eq!(session.execute_script(text).unwrap_err().sqlstate(), "23514", "{text}");
        assert_eq!(run(&mut session, text).unwrap_err().sqlstate(), "23514", "{text}");
    }
    assert_eq!(db.digest().unwrap(), live);
    drop(session);
    drop(db);
    assert_eq!(recovered_digest(folder.path()), live);
}

/// A change of partitions completes those of other tables that the transaction has deferred to its commit.
#[test]
fn deferred_changes_come_before_moved_rows() {
    for content in [Content::Command, Content::Logical] {
        for change in ["DROP COLUMN w", "ADD COLUMN z INT DEFAULT 3"] {
            let folder = tempfile::tempdir().unwrap();
            let db = Database::open(folder.path(), logging(content)).unwrap();
            let mut session = db.session().unwrap();
            session
                .execute_script(
                    "CREATE TABLE own (k INT PRIMARY KEY, w INT);
                     INSERT INTO own VALUES (1, 1);
                     CREATE TABLE t (k INT, v TEXT) PARTITION BY RANGE (k);
                     CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10);
                     INSERT INTO t VALUES (1, 'a');",
                )
                .unwrap();
            session.begin().unwrap();
            for statement in [
                &format!("ALTER TABLE own {change}"),
                "ALTER TABLE t DETACH PARTITION t1",
                "UPDATE own SET k = 2",
            ] {
                session.execute(statement, params![]).unwrap();
            }
            session.commit().unwrap().wait().unwrap();
            let count = |session: &mut Session| {
                let row =
                    session.query("SELECT sum(own.k), count(t1.k) FROM own, t1").unwrap().rows.remove(0);
                (row[0].to_string(), row[1].to_string())
            };
            assert_eq!(count(&mut session), ("2".into(), "1".into()), "{content:?}, {change}");
            let live = db.digest().unwrap();
            drop((session, db));
            let db = Database::open(folder.path(), logging(content)).unwrap();
            assert_eq!(db.digest().unwrap(), live, "{content:?}, {change}");
            assert_eq!(count(&mut db.session().unwrap()), ("2".into(), "1".into()));
        }
    }
}
