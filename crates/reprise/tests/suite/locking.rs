//! Two-phase locking: what a transaction locks, for how long, and what becomes of two that lock each other
//! out. Each policy against deadlocks keeps sums right, and each abort is counted under its reason.

use crate::common::Durably as _;
use crate::common::under;
use reprise::{
    AbortReason, Arena, Attempt, Busy, Database, Datum, Error, Nowhere, Parameters, RowSink, Scheme, Session,
    SqlError, TransactionState,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Longer than any wait that is to end by itself.
const FOREVER: Duration = Duration::from_secs(20);

const TABLES: &str = "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL, grp INT NOT NULL, u INT UNIQUE);
    CREATE INDEX t_grp ON t (grp);
    CREATE TABLE lines (a INT NOT NULL, b INT NOT NULL, v INT NOT NULL, PRIMARY KEY (a, b));
    INSERT INTO t VALUES (1, 0, 1, 1), (2, 0, 1, 2), (3, 0, 2, 3);
    INSERT INTO lines VALUES (1, 1, 0), (1, 3, 0), (2, 1, 0);
    CREATE PROCEDURE move(p_from INT, p_to INT) LANGUAGE plpgsql AS $$ DECLARE n INT; BEGIN
        SELECT v INTO n FROM t WHERE id = p_from;
        UPDATE t SET v = n - 1 WHERE id = p_from;
        UPDATE t SET v = v + 1 WHERE id = p_to;
    END $$;
    CREATE PROCEDURE undone() LANGUAGE plpgsql AS $$ DECLARE n INT; BEGIN
        BEGIN
            SELECT v INTO n FROM t WHERE id = 2;
            UPDATE t SET v = n + 1 WHERE id = 3;
            RAISE EXCEPTION 'enough';
        EXCEPTION WHEN OTHERS THEN NULL;
        END;
    END $$";

fn open(concurrency: Scheme) -> (tempfile::TempDir, Database, Session) {
    under(concurrency, TABLES)
}

fn locking() -> impl Iterator<Item = Scheme> {
    Scheme::all().filter(|scheme| scheme.locks())
}

fn attempt(session: &mut Session, text: &str) -> Result<Attempt, Error> {
    let prepared = session.prepare(text)?;
    session.attempt(&prepared, &Parameters::default(), Box::new(Nowhere))
}

/// Commits the open transaction of a session, or ends the one that has failed.
fn end(session: &mut Session) {
    match session.transaction_state() {
        TransactionState::Open => drop(session.commit().unwrap()),
        TransactionState::Failed | TransactionState::None => session.rollback(),
    }
}

fn int(session: &mut Session, text: &str) -> i64 {
    session.query(text).unwrap().rows[0][0].to_string().parse().unwrap()
}

/// What a transaction has done and left open, a statement of another one, and whether that one waits.
const PAIRS: [(&str, &str, bool); 33] = [
    // A row that is read.
    ("SELECT v FROM t WHERE id = 1", "UPDATE t SET v = 1 WHERE id = 1", true),
    ("SELECT v FROM t WHERE id = 1", "DELETE FROM t WHERE id = 1", true),
    ("SELECT v FROM t WHERE id = 1", "SELECT v FROM t WHERE id = 1", false),
    ("SELECT v FROM t WHERE id = 1", "UPDATE t SET v = 1 WHERE id = 2", false),
    // A row that is written.
    ("UPDATE t SET v = 1 WHERE id = 1", "SELECT v FROM t WHERE id = 1", true),
    ("UPDATE t SET v = 1 WHERE id = 1", "SELECT v FROM t WHERE id = 2", false),
    ("UPDATE t SET v = 1 WHERE id = 1", "SELECT count(*) FROM t", true),
    ("SELECT count(*) FROM t", "UPDATE t SET v = 1 WHERE id = 1", true),
    // A key that is absent.
    ("SELECT v FROM t WHERE id = 9", "INSERT INTO t VALUES (9, 0, 9, 9)", true),
    ("SELECT v FROM t WHERE id = 9", "INSERT INTO t VALUES (8, 0, 9, 9)", false),
    ("INSERT INTO t VALUES (9, 0, 9, 9)", "SELECT v FROM t WHERE id = 9", true),
    ("DELETE FROM t WHERE id = 1", "SELECT v FROM t WHERE id = 1", true),
    ("INSERT INTO t VALUES (9, 0, 9, 9)", "INSERT INTO t VALUES (8, 0, 8, 8)", false),
    // A prefix of a key: a phantom of the range, and rows beside it.
    ("SELECT count(*) FROM lines WHERE a = 1", "INSERT INTO lines VALUES (1, 2, 0)", true),
    ("SELECT count(*) FROM lines WHERE a = 1", "INSERT INTO lines VALUES (2, 2, 0)", false),
    ("SELECT count(*) FROM lines WHERE a = 1 AND b > 1", "DELETE FROM lines WHERE a = 1 AND b = 1", true),
    ("INSERT INTO lines VALUES (1, 2, 0)", "SELECT count(*) FROM lines WHERE a = 1", true),
    ("UPDATE lines SET v = 1 WHERE a = 1", "INSERT INTO lines VALUES (1, 2, 0)", true),
    ("UPDATE lines SET v = 1 WHERE a = 1", "UPDATE lines SET v = 2 WHERE a = 2 AND b = 1", false),
    // Rows of a range that is written, and those that a reader comes to by the range or by their key.
    ("UPDATE lines SET v = 1 WHERE a = 1", "SELECT v FROM lines WHERE a = 1 AND b = 3", true),
    ("DELETE FROM lines WHERE a = 1 AND b > 1", "SELECT v FROM lines WHERE a = 1 AND b = 3", true),
    ("SELECT v FROM lines WHERE a = 1 FOR UPDATE", "SELECT v FROM lines WHERE a = 1 AND b = 3", true),
    ("UPDATE lines SET v = 1 WHERE a = 1", "SELECT count(*) FROM lines WHERE a = 2", false),
    // Rows that are found by a secondary index: by another way they are locked, too.
    ("SELECT v FROM t WHERE grp = 2", "UPDATE t SET v = 1 WHERE id = 3", true),
    ("UPDATE t SET v = 1 WHERE id = 3", "SELECT v FROM t WHERE grp = 2", true),
    ("UPDATE t SET v = 1 WHERE grp = 2", "SELECT v FROM t WHERE id = 3", true),
    ("UPDATE t SET grp = 7 WHERE id = 3", "SELECT count(*) FROM t WHERE grp = 2", true),
    // A secondary index.
    ("SELECT count(*) FROM t WHERE grp = 2", "UPDATE t SET grp = 2 WHERE id = 1", true),
    ("SELECT count(*) FROM t WHERE grp = 5", "INSERT INTO t VALUES (9, 0, 5, 9)", true),
    ("SELECT count(*) FROM t WHERE grp = 2", "UPDATE t SET v = 1 WHERE id = 1", false),
    ("INSERT INTO t VALUES (8, 0, 8, 8)", "INSERT INTO t VALUES (9, 0, 9, 8)", true),
    ("INSERT INTO t VALUES (8, 0, 8, NULL)", "INSERT INTO t VALUES (9, 0, 9, NULL)", false),
    ("SELECT count(*) FROM t WHERE u IS NULL", "INSERT INTO t VALUES (9, 0, 9, NULL)", true),
];

#[test]
fn a_statement_waits_for_a_granule_that_another_transaction_has_locked() {
    for (held, wanted, waits) in PAIRS {
        for in_block in [false, true] {
            let case = format!("{held} | {wanted} | in a block: {in_block}");
            let (_folder, db, mut first) = open(Scheme::TwoPhase);
            let mut second = db.session().unwrap();
            first.begin().unwrap();
            first.query(held).unwrap();
            if in_block {
                second.begin().unwrap();
            }
            let attempted = attempt(&mut second, wanted);
            match (waits, &attempted) {
                (true, Ok(Attempt::Busy(_))) | (false, Ok(Attempt::Done(_))) => {}
                _ => panic!("{case}: {attempted:?}"),
            }
            drop(first.commit().unwrap());
            if waits {
                assert!(matches!(attempt(&mut second, wanted), Ok(Attempt::Done(_)) | Err(_)), "{case}");
            }
            end(&mut second);
        }
    }
}

/// Locks go with the commit's number: an autocommit statement of another session that follows has what it
/// asks for, although the first commit has not been waited for.
#[test]
fn locks_are_released_at_the_end_of_the_transaction() {
    let (_folder, db, mut first) = open(Scheme::TwoPhase);
    let mut second = db.session().unwrap();
    for commits in [true, false] {
        first.begin().unwrap();
        first.query("UPDATE t SET v = v + 1 WHERE id = 1").unwrap();
        first.query("SELECT count(*) FROM lines WHERE a = 1").unwrap();
        match commits {
            true => _ = first.commit().unwrap(),
            false => first.rollback(),
        }
        for text in [
            "UPDATE t SET v = v + 1 WHERE id = 1",
            "INSERT INTO lines VALUES (1, 2, 0)",
            "DELETE FROM lines WHERE b = 2",
        ] {
            let attempted = attempt(&mut second, text);
            assert!(matches!(attempted, Ok(Attempt::Done(_))), "{text}: {attempted:?}");
        }
    }
}

/// What a client knows stays locked, and what it has written, too, until the transaction ends.
#[test]
fn a_rollback_to_a_savepoint_releases_no_lock() {
    for is_part in [false, true] {
        let (_folder, db, mut first) = open(Scheme::TwoPhase);
        let mut second = db.session().unwrap();
        first.begin().unwrap();
        first.query("SELECT v FROM t WHERE id = 1").unwrap();
        first.query("SELECT count(*) FROM lines WHERE a = 1").unwrap();
        match is_part {
            true => _ = first.query("CALL undone()").unwrap(),
            false => {
                first.set_savepoint("s").unwrap();
                first.query("SELECT v FROM t WHERE id = 2").unwrap();
                first.query("UPDATE t SET v = 1 WHERE id = 3").unwrap();
                first.roll_back_to_savepoint("s").unwrap();
            }
        }
        for text in [
            "UPDATE t SET v = 1 WHERE id = 1",
            "UPDATE t SET v = 1 WHERE id = 2",
            "UPDATE t SET v = 1 WHERE id = 3",
            "INSERT INTO lines VALUES (1, 2, 0)",
        ] {
            let attempted = attempt(&mut second, text);
            assert!(matches!(attempted, Ok(Attempt::Busy(_))), "{text}: {attempted:?}");
            second.stop_waiting();
        }
        drop(first.commit().unwrap());
        assert_eq!(int(&mut second, "SELECT sum(v) FROM t"), 0);
        second.query("UPDATE t SET v = 1").unwrap();
    }
}

/// A READ ONLY transaction locks nothing and waits for no lock: it reads a snapshot.
#[test]
fn a_read_only_transaction_waits_for_no_lock() {
    let (_folder, db, mut first) = open(Scheme::TwoPhase);
    first.query("INSERT INTO lines SELECT 7, n, 0 FROM generate_series(1, 20000) AS n").unwrap();
    let mut writer = db.session().unwrap();
    writer.begin().unwrap();
    writer.query("UPDATE lines SET v = 1 WHERE a = 7 AND b = 19999").unwrap();
    first.ends_at(Some(Instant::now() + FOREVER));
    for in_block in [false, true] {
        first.set_access(reprise::Access::ReadOnly);
        if in_block {
            first.begin().unwrap();
        }
        let read = attempt(&mut first, "SELECT v FROM lines WHERE a = 7 AND b = 19999");
        assert!(matches!(read, Ok(Attempt::Done(_))), "in a block: {in_block}: {read:?}");
        assert_eq!(int(&mut first, "SELECT sum(v) FROM lines WHERE a = 7"), 0);
        assert_eq!(int(&mut first, "SELECT v FROM lines WHERE a = 7 AND b = 19999"), 0);
        // Nor does it keep a writer waiting.
        writer.query("UPDATE lines SET v = 1 WHERE a = 7 AND b = 1").unwrap();
        if in_block {
            drop(first.commit().unwrap());
        }
        first.set_access(reprise::Access::ReadWrite);
    }
    drop(writer.commit().unwrap());
    assert_eq!(int(&mut first, "SELECT sum(v) FROM lines WHERE a = 7"), 2);
}

/// A statement that turns out to be long begins again on a snapshot, and keeps none of its locks.
#[test]
fn a_long_statement_that_only_reads_releases_its_locks() {
    /// Comes to the last rows while another client writes to them.
    struct Meanwhile(Session, Arc<AtomicBool>);
    impl RowSink for Meanwhile {
        fn begin(&mut self) {}

        fn row(&mut self, row: &[Datum], _: &Arena) -> Result<(), SqlError> {
            if matches!(row, [Datum::Int(19_000)]) {
                let attempted = attempt(&mut self.0, "UPDATE lines SET v = 1 WHERE a = 7 AND b = 3");
                self.1.store(matches!(attempted, Ok(Attempt::Done(_))), Ordering::SeqCst);
            }
            Ok(())
        }
    }
    let (_folder, db, mut session) = open(Scheme::TwoPhase);
    session.query("INSERT INTO lines SELECT 7, n, 0 FROM generate_series(1, 20000) AS n").unwrap();
    let has_written = Arc::<AtomicBool>::default();
    let sink = Meanwhile(db.session().unwrap(), Arc::clone(&has_written));
    let prepared = session.prepare("SELECT b FROM lines WHERE a = 7").unwrap();
    drop(session.execute_into(&prepared, &[], Box::new(sink)).unwrap());
    assert!(has_written.load(Ordering::SeqCst), "the writer waits for the reader");
}

/// Two transactions that have read a row both write it: under each policy one of them goes on, and the other
/// one fails and is counted.
#[test]
fn of_two_upgrades_one_goes_on() {
    for (scheme, sqlstate, reason) in [
        (Scheme::TwoPhase, "40P01", AbortReason::Deadlock),
        (Scheme::TwoPhaseWaitDie, "40001", AbortReason::WaitDie),
        (Scheme::TwoPhaseNoWait, "40001", AbortReason::NoWait),
    ] {
        let (_folder, db, mut session) = open(scheme);
        let barrier = Barrier::new(2);
        let upgrade = |mut session: Session| {
            session.begin().unwrap();
            session.query("SELECT v FROM t WHERE id = 1").unwrap();
            barrier.wait();
            session.ends_at(Some(Instant::now() + FOREVER));
            let ran = session.query("UPDATE t SET v = v + 1 WHERE id = 1");
            let state = session.transaction_state();
            end(&mut session);
            ran.err().map(|error| (error, state))
        };
        let failed: Vec<_> = std::thread::scope(|scope| {
            let clients = [(); 2].map(|()| {
                let session = db.session().unwrap();
                scope.spawn(|| upgrade(session))
            });
            clients.into_iter().filter_map(|client| client.join().unwrap()).collect()
        });
        for (error, state) in &failed {
            assert_eq!(error.sqlstate(), sqlstate, "{scheme}: {error}");
            assert_eq!(*state, TransactionState::Failed, "{scheme}");
        }
        // Without waiting, both may fail.
        let expected = if scheme == Scheme::TwoPhaseNoWait { 1..=2 } else { 1..=1 };
        assert!(expected.contains(&failed.len()), "{scheme}: {failed:?}");
        assert_eq!(int(&mut session, "SELECT v FROM t WHERE id = 1"), 2 - failed.len() as i64, "{scheme}");
        assert_eq!(db.statistics().aborts.of(reason), failed.len() as u64, "{scheme}");
    }
}

/// Calls that lock the same rows in all orders: each of them commits, whatever the policy.
#[test]
fn calls_run_again_until_they_commit() {
    for scheme in locking() {
        let (_folder, db, mut session) = open(scheme);
        std::thread::scope(|scope| {
            for client in 0..4 {
                let mut session = db.session().unwrap();
                session.ends_at(Some(Instant::now() + FOREVER));
                scope.spawn(move || {
                    for round in 0..500 {
                        let from = (client + round) % 3 + 1;
                        let to = (from + round % 2) % 3 + 1;
                        session.query(&format!("CALL move({from}, {to})")).unwrap();
                    }
                });
            }
        });
        assert_eq!(int(&mut session, "SELECT sum(v) FROM t"), 0, "{scheme}");
        drop(session);
        let aborts = db.statistics().aborts;
        let optimistic = [AbortReason::Read, AbortReason::Phantom];
        assert!(optimistic.iter().all(|reason| aborts.of(*reason) == 0), "{scheme}: {aborts:?}");
    }
}

/// An update locks the row before it reads it, so that two of them do not wait for each other's read.
#[test]
fn updates_of_one_row_are_no_deadlock() {
    let (_folder, db, mut session) = open(Scheme::TwoPhase);
    std::thread::scope(|scope| {
        for text in [
            "UPDATE t SET v = v + 1 WHERE id = 1",
            "UPDATE t SET v = v + 1 WHERE grp = 1 AND id = 1",
            "UPDATE t SET v = v + 1 WHERE id IN (SELECT 1)",
            "SELECT v FROM t WHERE id = 1 FOR UPDATE",
        ] {
            let mut session = db.session().unwrap();
            session.ends_at(Some(Instant::now() + FOREVER));
            scope.spawn(move || {
                for _ in 0..200 {
                    session.begin().unwrap();
                    session.query(text).unwrap();
                    session.query("UPDATE t SET v = v + 1 WHERE id = 1").unwrap();
                    drop(session.commit().unwrap());
                }
            });
        }
    });
    assert_eq!(int(&mut session, "SELECT v FROM t WHERE id = 1"), 200 * 7);
    assert_eq!(db.statistics().aborts.of(AbortReason::Deadlock), 0);
}

/// What a transaction holds, and two statements that wait for it and write the same row, range or key.
const RIVALS: [(&str, [&str; 2]); 9] = [
    (
        "UPDATE t SET v = 1 WHERE id = 1",
        ["UPDATE t SET v = v + 1 WHERE id = 1", "DELETE FROM t WHERE id = 1"],
    ),
    (
        "UPDATE t SET v = 1 WHERE id = 1",
        ["UPDATE t SET v = 3 WHERE grp = 1", "UPDATE t SET v = 4 WHERE u = 1"],
    ),
    (
        "UPDATE t SET v = 1 WHERE id = 1",
        ["DELETE FROM t WHERE u = 1", "SELECT 1 FROM t WHERE grp = 1 FOR UPDATE"],
    ),
    (
        "DELETE FROM lines WHERE a = 1",
        ["UPDATE lines SET v = 2 WHERE a = 1", "DELETE FROM lines WHERE a = 1"],
    ),
    ("DELETE FROM lines", ["UPDATE lines SET v = 2", "SELECT v FROM lines FOR UPDATE"]),
    (
        "INSERT INTO t VALUES (7, 0, 7, 8)",
        ["INSERT INTO t VALUES (8, 0, 8, 8)", "UPDATE t SET u = 8 WHERE id = 2"],
    ),
    (
        "INSERT INTO t VALUES (8, 0, 8, 8)",
        ["INSERT INTO t VALUES (8, 1, 8, 8)", "INSERT INTO t VALUES (8, 2, 8, 9) ON CONFLICT DO NOTHING"],
    ),
    (
        "INSERT INTO t VALUES (8, 0, 8, 8)",
        [
            "INSERT INTO t VALUES (8, 1, 8, 8) ON CONFLICT (id) DO UPDATE SET v = 2",
            "INSERT INTO t VALUES (8, 1, 8, 9) ON CONFLICT (id) DO UPDATE SET v = 3",
        ],
    ),
    (
        "INSERT INTO t VALUES (7, 0, 7, 8)",
        [
            "INSERT INTO t VALUES (8, 1, 8, 8) ON CONFLICT (u) DO UPDATE SET v = 2",
            "INSERT INTO t VALUES (9, 1, 9, 8) ON CONFLICT (u) DO UPDATE SET v = 3",
        ],
    ),
];

/// A statement locks what it is going to write for writing at once, so two of them that were given their
/// locks at one time do not wait for each other's read.
#[test]
fn writers_of_one_row_range_or_key_are_no_deadlock() {
    for (held, wanted) in RIVALS {
        let case = format!("{held} | {wanted:?}");
        let (_folder, db, mut holder) = open(Scheme::TwoPhase);
        holder.begin().unwrap();
        holder.query(held).unwrap();
        let mut waiting: Vec<_> = wanted.map(|text| (db.session().unwrap(), text)).into_iter().collect();
        for (session, text) in &mut waiting {
            session.begin().unwrap();
            let Ok(Attempt::Busy(busy)) = attempt(session, text) else { panic!("{case}: {text}") };
            assert!(is_waiting(&busy, &case), "{case}: {text}");
        }
        holder.rollback();
        for _ in 0..2 * wanted.len() {
            waiting.retain_mut(|(session, text)| match attempt(session, text) {
                Ok(Attempt::Busy(busy)) => {
                    is_waiting(&busy, &case);
                    true
                }
                Ok(Attempt::Done(_)) => {
                    drop(session.commit().unwrap());
                    false
                }
                Err(error) => {
                    assert_eq!(error.sqlstate(), "23505", "{case}: {error}");
                    session.rollback();
                    false
                }
            });
        }
        assert!(waiting.is_empty(), "{case}: {} of the statements wait on", waiting.len());
    }
}

/// Puts a transaction into the queue that it has to wait in. Returns whether it waits.
fn is_waiting(busy: &Busy, case: &str) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    match std::pin::pin!(busy.released()).poll(&mut context) {
        Poll::Pending => true,
        Poll::Ready(Ok(())) => false,
        Poll::Ready(Err(refusal)) => panic!("{case}: {refusal:?}"),
    }
}

/// Under OCC, too, each abort has its reason.
#[test]
fn aborts_are_counted_by_reason() {
    let (_folder, db, mut first) = open(Scheme::Optimistic);
    let mut second = db.session().unwrap();
    let mut lost = |read: &str, changed: &str, reason: AbortReason| {
        first.begin().unwrap();
        first.query(read).unwrap();
        second.query(changed).unwrap();
        let ran = first.query("UPDATE t SET v = v + 1 WHERE id = 3").and_then(|_| first.commit().map(|_| ()));
        assert_eq!(ran.unwrap_err().sqlstate(), "40001", "{read}");
        first.rollback();
        assert_eq!(db.statistics().aborts.of(reason), 1, "{read}: {:?}", db.statistics().aborts);
    };
    lost("SELECT v FROM t WHERE id = 1", "UPDATE t SET v = v + 1 WHERE id = 1", AbortReason::Read);
    lost("SELECT v FROM t WHERE id = 9", "INSERT INTO t VALUES (9, 0, 9, 9)", AbortReason::Phantom);
    first.begin().unwrap();
    first.query("UPDATE t SET v = 5 WHERE id = 1").unwrap();
    second.set_lock_timeout(Some(Duration::from_millis(20)));
    assert_eq!(second.query("UPDATE t SET v = 6 WHERE id = 1").unwrap_err().sqlstate(), "55P03");
    let aborts = db.statistics().aborts;
    assert_eq!((aborts.of(AbortReason::Wait), aborts.of(AbortReason::LockTimeout)), (1, 1), "{aborts:?}");
}
