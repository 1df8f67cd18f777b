//! SELECT … FOR UPDATE: a transaction that wants to write the rows, or to hold them too, waits until the
//! transaction has ended.

use crate::common::Durably as _;
use crate::common::open;
use reprise::{Attempt, Error, Nowhere, Parameters, Session};

fn attempt(session: &mut Session, text: &str) -> Result<Attempt, Error> {
    let prepared = session.prepare(text)?;
    session.attempt(&prepared, &Parameters::default(), Box::new(Nowhere))
}

fn is_done(attempt: Result<Attempt, Error>) -> bool {
    matches!(attempt.unwrap(), Attempt::Done(_))
}

#[test]
fn held_rows_are_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let mut first = db.session().unwrap();
    let script = "CREATE TABLE job (id INT PRIMARY KEY, state INT NOT NULL, owner INT);
        CREATE TABLE owner (id INT PRIMARY KEY);
        INSERT INTO job VALUES (1, 0, 7), (2, 0, NULL), (3, 0, 7); INSERT INTO owner VALUES (7);";
    first.execute_script(script).unwrap();
    let mut second = db.session().unwrap();
    for query in [
        "SELECT state FROM job WHERE id = 1 FOR UPDATE",
        // The first by another order than an index has.
        "SELECT id FROM job WHERE owner = 7 ORDER BY owner, id LIMIT 1 FOR NO KEY UPDATE",
        "SELECT job.id FROM job LEFT JOIN owner ON owner.id = job.owner WHERE job.id < 3 \
         ORDER BY job.id + 1 FOR UPDATE OF job",
        "SELECT 1 FROM (SELECT id FROM job WHERE id = 1 FOR UPDATE) AS one",
    ] {
        first.begin().unwrap();
        assert!(is_done(attempt(&mut first, query)), "{query}");
        second.begin().unwrap();
        // Once such transactions have lost the row, this waits for a moment.
        second.query("SELECT state FROM job WHERE id = 1 FOR SHARE").unwrap();
        assert!(!is_done(attempt(&mut second, "SELECT state FROM job WHERE id = 1 FOR UPDATE")), "{query}");
        assert!(!is_done(attempt(&mut second, "UPDATE job SET state = 5 WHERE id = 1")), "{query}");
        for other in ["SELECT id FROM owner FOR UPDATE", "UPDATE job SET state = state + 1 WHERE id = 3"] {
            assert!(is_done(attempt(&mut second, other)), "{query}: {other}");
        }
        second.rollback();
        assert!(is_done(attempt(&mut first, "UPDATE job SET state = state + 1 WHERE id = 1")));
        drop(first.commit().unwrap());
        second.begin().unwrap();
        // No transaction has lost a race.
        assert!(is_done(attempt(&mut second, "UPDATE job SET state = state + 1 WHERE id = 1")));
        drop(second.commit().unwrap());
    }
    assert_eq!(first.query("SELECT state FROM job WHERE id = 1").unwrap().rows[0][0].to_string(), "8");

    first.begin().unwrap();
    assert!(is_done(attempt(&mut first, "SELECT * FROM job WHERE id = 2 FOR UPDATE")));
    second.begin().unwrap();
    let error = attempt(&mut second, "SELECT * FROM job WHERE id = 2 FOR UPDATE NOWAIT").unwrap_err();
    assert_eq!(error.sqlstate(), "55P03", "{error}");
    second.rollback();
    first.rollback();
    second.begin().unwrap();
    assert!(is_done(attempt(&mut second, "SELECT * FROM job WHERE id = 2 FOR UPDATE NOWAIT")));
    second.rollback();

    for (query, sqlstate) in [
        ("SELECT DISTINCT state FROM job FOR UPDATE", "0A000"),
        ("SELECT count(*) FROM job FOR UPDATE", "0A000"),
        ("SELECT state FROM job GROUP BY state FOR UPDATE", "0A000"),
        ("SELECT state FROM job FOR UPDATE OF nothing", "42P01"),
        ("SELECT state FROM job FOR UPDATE SKIP LOCKED", "0A000"),
    ] {
        assert_eq!(second.prepare(query).unwrap_err().sqlstate(), sqlstate, "{query}");
    }
}

/// A statement waits, and is run again. What it had come to before the wait it still holds; what it had only
/// read may have changed.
#[test]
fn a_statement_that_waited_does_not_overwrite_what_was_committed_meanwhile() {
    let changes = [
        "UPDATE t SET v = v + 100 WHERE id = 1",
        "DELETE FROM t WHERE id = 1",
        "UPDATE t SET k = 50 WHERE id = 1",
    ];
    for (change, commits) in changes.into_iter().zip([true, false].into_iter().cycle()) {
        let folder = tempfile::tempdir().unwrap();
        let db = open(folder.path());
        let [mut first, mut second, mut third] = [(); 3].map(|()| db.session().unwrap());
        let script = "CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL, v INT NOT NULL);
            CREATE INDEX t_k ON t (k);
            INSERT INTO t VALUES (1, 1, 0), (2, 2, 0), (3, 3, 0);";
        first.execute_script(script).unwrap();
        let both = "UPDATE t SET v = v + (SELECT max(v) FROM t WHERE id = 3), k = k + 10 WHERE id IN (1, 2)";
        first.begin().unwrap();
        assert!(is_done(attempt(&mut first, "UPDATE t SET v = v + 7 WHERE id = 2")));
        second.begin().unwrap();
        assert!(!is_done(attempt(&mut second, both)), "{change}");
        third.query("UPDATE t SET v = 5 WHERE id = 3").unwrap();
        assert!(!is_done(attempt(&mut third, change)), "{change}: the row is held");
        match commits {
            true => drop(first.commit().unwrap()),
            false => first.rollback(),
        }
        assert!(is_done(attempt(&mut second, both)), "{change}");
        drop(second.commit().unwrap());
        assert!(is_done(attempt(&mut third, change)), "{change}");
        let of = |session: &mut Session, query: &str| {
            let rows = session.query(query).unwrap().rows;
            rows.first().map(|row| row[0].to_string())
        };
        let expected =
            if change.contains("100") { Some("105") } else { (!change.contains("DELETE")).then_some("5") };
        assert_eq!(of(&mut first, "SELECT v FROM t WHERE id = 1").as_deref(), expected, "{change}");
        let other = if commits { "12" } else { "5" };
        assert_eq!(of(&mut first, "SELECT v FROM t WHERE id = 2").as_deref(), Some(other), "{change}");
        let key = if change.contains("k = 50") { "50" } else { "11" };
        let found = of(&mut first, &format!("SELECT id FROM t WHERE k = {key}"));
        assert_eq!(found.is_some(), expected.is_some(), "{change}");
    }
}

/// A statement that waits has split an index leaf that an earlier statement has read: both halves of it
/// count.
#[test]
fn what_an_earlier_statement_has_read_counts_after_a_wait() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let [mut first, mut second, mut third] = [(); 3].map(|()| db.session().unwrap());
    let script = "CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL); CREATE INDEX t_k ON t (k);
        INSERT INTO t SELECT n, 10 * n FROM generate_series(1, 50) AS g (n);
        CREATE TABLE seen (id INT PRIMARY KEY);";
    first.execute_script(script).unwrap();
    first.begin().unwrap();
    assert!(is_done(attempt(&mut first, "SELECT id FROM t WHERE id = 50 FOR UPDATE")));
    second.begin().unwrap();
    assert!(is_done(attempt(&mut second, "SELECT count(*) FROM t WHERE k BETWEEN 0 AND 1000")));
    // One entry more for each row, so that the leaf is full.
    assert!(!is_done(attempt(&mut second, "UPDATE t SET k = k + 1 WHERE id BETWEEN 1 AND 50")));
    third.query("INSERT INTO t VALUES (1000, 495)").unwrap();
    first.rollback();
    // It has not counted the row that it would see now.
    let error = attempt(&mut second, "INSERT INTO seen SELECT id FROM t WHERE id = 1000").unwrap_err();
    assert_eq!(error.sqlstate(), "40001", "{error}");
}
