//! SELECT … FOR UPDATE: a transaction that wants to write the rows, or to hold them too, waits until the
//! transaction has ended.

use crate::common::Durably as _;
use crate::common::{WAITING, under, with};
use reprise::{Attempt, Error, Nowhere, Parameters, Scheme, Session};

fn attempt(session: &mut Session, text: &str) -> Result<Attempt, Error> {
    let prepared = session.prepare(text)?;
    session.attempt(&prepared, &Parameters::default(), Box::new(Nowhere))
}

fn is_done(attempt: Result<Attempt, Error>) -> bool {
    matches!(attempt.unwrap(), Attempt::Done(_))
}

const JOBS: &str = "CREATE TABLE job (id INT PRIMARY KEY, state INT NOT NULL, owner INT);
    CREATE TABLE owner (id INT PRIMARY KEY);
    INSERT INTO job VALUES (1, 0, 7), (2, 0, NULL), (3, 0, 7); INSERT INTO owner VALUES (7);";

/// A query that holds job 1, and whether it reads owner 7 and job 3, too, which 2PL locks then.
const HOLDING: [(&str, bool, bool); 4] = [
    ("SELECT state FROM job WHERE id = 1 FOR UPDATE", false, false),
    // The first by another order than an index has.
    ("SELECT id FROM job WHERE owner = 7 ORDER BY owner, id LIMIT 1 FOR NO KEY UPDATE", false, true),
    (
        "SELECT job.id FROM job LEFT JOIN owner ON owner.id = job.owner WHERE job.id < 3 \
         ORDER BY job.id + 1 FOR UPDATE OF job",
        true,
        true,
    ),
    ("SELECT 1 FROM (SELECT id FROM job WHERE id = 1 FOR UPDATE) AS one", false, false),
];

#[test]
fn held_rows_are_waited_for() {
    for scheme in WAITING {
        let locks = scheme.locks();
        let (_folder, db, mut first) = under(scheme, JOBS);
        let mut second = db.session().unwrap();
        for (query, reads_owner, reads_job) in HOLDING {
            let case = format!("{scheme}: {query}");
            first.begin().unwrap();
            assert!(is_done(attempt(&mut first, query)), "{case}");
            second.begin().unwrap();
            let share = "SELECT state FROM job WHERE id = 1 FOR SHARE";
            assert!(!is_done(attempt(&mut second, share)), "{case}");
            assert!(
                !is_done(attempt(&mut second, "SELECT state FROM job WHERE id = 1 FOR UPDATE")),
                "{case}"
            );
            assert!(!is_done(attempt(&mut second, "UPDATE job SET state = 5 WHERE id = 1")), "{case}");
            for (other, is_read) in [
                ("SELECT id FROM owner FOR UPDATE", reads_owner),
                ("UPDATE job SET state = state + 1 WHERE id = 3", reads_job),
            ] {
                let waits = locks && is_read;
                assert_eq!(is_done(attempt(&mut second, other)), !waits, "{case}: {other}");
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
    }
}

#[test]
fn nowait_fails_where_a_row_is_held() {
    for scheme in Scheme::all() {
        let (_folder, db, mut first) = under(scheme, JOBS);
        let mut second = db.session().unwrap();
        first.begin().unwrap();
        assert!(is_done(attempt(&mut first, "SELECT * FROM job WHERE id = 2 FOR UPDATE")));
        second.begin().unwrap();
        let error = attempt(&mut second, "SELECT * FROM job WHERE id = 2 FOR UPDATE NOWAIT").unwrap_err();
        assert_eq!(error.sqlstate(), "55P03", "{scheme}: {error}");
        second.rollback();
        first.rollback();
        second.begin().unwrap();
        assert!(is_done(attempt(&mut second, "SELECT * FROM job WHERE id = 2 FOR UPDATE NOWAIT")));
    }
}

#[test]
fn what_cannot_be_held_is_refused() {
    let (_folder, _db, mut session) = with(JOBS);
    for (query, sqlstate) in [
        ("SELECT DISTINCT state FROM job FOR UPDATE", "0A000"),
        ("SELECT count(*) FROM job FOR UPDATE", "0A000"),
        ("SELECT state FROM job GROUP BY state FOR UPDATE", "0A000"),
        ("SELECT state FROM job FOR UPDATE OF nothing", "42P01"),
    ] {
        assert_eq!(session.prepare(query).unwrap_err().sqlstate(), sqlstate, "{query}");
    }
}

const BOTH: &str = "CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL, v INT NOT NULL);
    CREATE INDEX t_k ON t (k);
    INSERT INTO t VALUES (1, 1, 0), (2, 2, 0), (3, 3, 0);
    CREATE PROCEDURE take_both() LANGUAGE plpgsql AS $$ DECLARE m INT; BEGIN
        SELECT max(v) INTO m FROM t WHERE id = 3;
        UPDATE t SET v = v + m, k = k + 10 WHERE id = 1;
        UPDATE t SET v = v + m, k = k + 10 WHERE id = 2;
    END $$;";

/// A statement waits, and is run again. What it had come to before the wait it still holds; what it had only
/// read may have changed under OCC, and is held under 2PL.
#[test]
fn a_statement_that_waited_does_not_overwrite_what_was_committed_meanwhile() {
    let update = "UPDATE t SET v = v + (SELECT max(v) FROM t WHERE id = 3), k = k + 10 WHERE id IN (1, 2)";
    let call = "CALL take_both()";
    let statements = [(Scheme::Optimistic, update), (Scheme::Optimistic, call), (Scheme::TwoPhase, call)];
    let changes = [
        "UPDATE t SET v = v + 100 WHERE id = 1",
        "DELETE FROM t WHERE id = 1",
        "UPDATE t SET k = 50 WHERE id = 1",
    ];
    for (scheme, both) in statements {
        for (change, commits) in changes.into_iter().zip([true, false].into_iter().cycle()) {
            change_after_a_wait(scheme, both, change, commits);
        }
    }
}

fn change_after_a_wait(scheme: Scheme, both: &str, change: &str, commits: bool) {
    let case = format!("{scheme}: {both} | {change}");
    let (_folder, db, mut first) = under(scheme, BOTH);
    let [mut second, mut third, mut fourth] = [(); 3].map(|()| db.session().unwrap());
    first.begin().unwrap();
    assert!(is_done(attempt(&mut first, "UPDATE t SET v = v + 7 WHERE id = 2")));
    second.begin().unwrap();
    assert!(!is_done(attempt(&mut second, both)), "{case}");
    let is_changed = is_done(attempt(&mut fourth, "UPDATE t SET v = 5 WHERE id = 3"));
    assert_eq!(is_changed, !scheme.locks(), "{case}");
    fourth.stop_waiting();
    assert!(!is_done(attempt(&mut third, change)), "{case}: the row is held");
    match commits {
        true => drop(first.commit().unwrap()),
        false => first.rollback(),
    }
    assert!(is_done(attempt(&mut second, both)), "{case}");
    drop(second.commit().unwrap());
    assert!(is_done(attempt(&mut third, change)), "{case}");
    let of = |session: &mut Session, query: &str| {
        let rows = session.query(query).unwrap().rows;
        rows.first().map(|row| row[0].to_string())
    };
    let added = if is_changed { 5 } else { 0 };
    let expected = if change.contains("100") { added + 100 } else { added };
    let expected = (!change.contains("DELETE")).then(|| expected.to_string());
    assert_eq!(of(&mut first, "SELECT v FROM t WHERE id = 1"), expected, "{case}");
    let other = if commits { added + 7 } else { added };
    assert_eq!(of(&mut first, "SELECT v FROM t WHERE id = 2"), Some(other.to_string()), "{case}");
    let key = if change.contains("k = 50") { "50" } else { "11" };
    let found = of(&mut first, &format!("SELECT id FROM t WHERE k = {key}"));
    assert_eq!(found.is_some(), expected.is_some(), "{case}");
}

/// A statement that waits has split an index leaf that an earlier statement has read: both halves of it
/// count. Under 2PL the range is locked, so the insert waits.
#[test]
fn what_an_earlier_statement_has_read_counts_after_a_wait() {
    for scheme in WAITING {
        let script = "CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL); CREATE INDEX t_k ON t (k);
            INSERT INTO t SELECT n, 10 * n FROM generate_series(1, 50) AS g (n);
            CREATE TABLE seen (id INT PRIMARY KEY);";
        let (_folder, db, mut first) = under(scheme, script);
        let [mut second, mut third] = [(); 2].map(|()| db.session().unwrap());
        first.begin().unwrap();
        assert!(is_done(attempt(&mut first, "SELECT id FROM t WHERE id = 50 FOR UPDATE")));
        second.begin().unwrap();
        let counted = attempt(&mut second, "SELECT count(*) FROM t WHERE k BETWEEN 0 AND 490");
        assert!(is_done(counted), "{scheme}");
        // One entry more for each row, so that the leaf is full.
        assert!(
            !is_done(attempt(&mut second, "UPDATE t SET k = k + 1 WHERE id BETWEEN 1 AND 50")),
            "{scheme}"
        );
        let inserted = is_done(attempt(&mut third, "INSERT INTO t VALUES (1000, 485)"));
        assert_eq!(inserted, !scheme.locks());
        third.stop_waiting();
        first.rollback();
        let copied = attempt(&mut second, "INSERT INTO seen SELECT id FROM t WHERE id = 1000");
        match scheme {
            // It has not counted the row that it would see now.
            scheme if !scheme.locks() => assert_eq!(copied.unwrap_err().sqlstate(), "40001"),
            _ => assert!(is_done(copied), "{scheme}"),
        }
    }
}
