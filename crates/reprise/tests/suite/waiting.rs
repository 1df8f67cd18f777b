//! Waiting for other transactions: for the holder of a row or key, until that has ended, and never for ever.

use crate::common::Durably as _;
use crate::common::with;
use reprise::{
    Arena, Attempt, Datum, Error, Nowhere, Parameters, RowSink, Session, SqlError, TransactionState,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// Longer than any wait that is to end by itself.
const FOREVER: Duration = Duration::from_secs(20);

const TABLES: &str = "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL, u INT UNIQUE);
    INSERT INTO t VALUES (1, 0, 1), (2, 0, 2), (3, 0, 3);
    CREATE PROCEDURE put(p INT, w INT) LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO t VALUES (p, w, NULL) ON CONFLICT (id) DO UPDATE SET v = excluded.v;
    END $$;
    CREATE PROCEDURE raise_by(p INT, w INT) LANGUAGE plpgsql AS $$ BEGIN
        UPDATE t SET v = v + w WHERE id = p;
    END $$;
    CREATE PROCEDURE in_steps(p INT) LANGUAGE plpgsql AS $$ BEGIN
        UPDATE t SET v = v + 1 WHERE id = 3;
        COMMIT;
        UPDATE t SET v = v + 100 WHERE id = p;
    END $$;
    CREATE PROCEDURE at_once_in_steps(p INT) LANGUAGE plpgsql AS $$ BEGIN
        PERFORM v FROM t WHERE id = p FOR UPDATE NOWAIT;
        COMMIT;
    END $$;
    CREATE PROCEDURE puts_in_steps(p INT, w INT) LANGUAGE plpgsql AS $$ BEGIN
        UPDATE t SET v = v + 1 WHERE id = 3;
        COMMIT;
        INSERT INTO t VALUES (p, 0, w);
    END $$;
    CREATE PROCEDURE counts_in_steps() LANGUAGE plpgsql AS $$ DECLARE n INT; BEGIN
        SELECT v INTO n FROM t WHERE id = 1;
        UPDATE t SET v = n + 1 WHERE id = 1;
        COMMIT;
    END $$;
    CREATE PROCEDURE raise_two() LANGUAGE plpgsql AS $$ BEGIN
        UPDATE t SET v = v + 1 WHERE id = 1;
        UPDATE t SET v = v + 1 WHERE id = 2;
    END $$;
    CREATE PROCEDURE at_once(p INT) LANGUAGE plpgsql AS $$ BEGIN
        PERFORM v FROM t WHERE id = p FOR UPDATE NOWAIT;
    END $$";

fn attempt(session: &mut Session, text: &str) -> Result<Attempt, Error> {
    let prepared = session.prepare(text)?;
    session.attempt(&prepared, &Parameters::default(), Box::new(Nowhere))
}

fn rows(session: &mut Session, text: &str) -> String {
    let rows = session.query(text).unwrap().rows;
    let row = |row: Vec<_>| row.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    rows.into_iter().map(row).collect::<Vec<_>>().join(", ")
}

/// Each pair: what a transaction does and leaves open, and a statement that comes to the same row or key.
/// What the statement comes to, when the transaction commits and when it is rolled back: an SQLSTATE, or the
/// rows afterwards.
const PAIRS: [(&str, &str, &str, &str); 14] = [
    ("INSERT INTO t VALUES (5, 5, 5)", "INSERT INTO t VALUES (5, 6, NULL)", "23505", "5 6"),
    (
        "INSERT INTO t VALUES (5, 5, 5)",
        "INSERT INTO t VALUES (5, 6, NULL) ON CONFLICT (id) DO UPDATE SET v = 7",
        "5 7",
        "5 6",
    ),
    (
        "INSERT INTO t VALUES (5, 5, 5)",
        "INSERT INTO t VALUES (5, 6, NULL) ON CONFLICT DO NOTHING",
        "5 5",
        "5 6",
    ),
    ("INSERT INTO t VALUES (5, 5, 5)", "CALL put(5, 8)", "5 8", "5 8"),
    ("INSERT INTO t VALUES (5, 5, 5)", "INSERT INTO t VALUES (6, 6, 5)", "23505", "6 6"),
    ("INSERT INTO t VALUES (5, 5, 5)", "UPDATE t SET u = 5 WHERE id = 2", "23505", ""),
    ("INSERT INTO t VALUES (5, 5, 5)", "UPDATE t SET id = 5 WHERE id = 2", "23505", "5 0"),
    ("UPDATE t SET u = 9 WHERE id = 1", "INSERT INTO t VALUES (6, 6, 9)", "23505", "6 6"),
    ("UPDATE t SET u = 9 WHERE id = 1", "INSERT INTO t VALUES (6, 6, 1)", "6 6", "23505"),
    ("DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (1, 6, 1)", "", "23505"),
    (
        "DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1, 4, 4)",
        "INSERT INTO t VALUES (7, 6, 1)",
        "7 6",
        "23505",
    ),
    ("UPDATE t SET v = 50 WHERE id = 2", "CALL raise_by(2, 1)", "", ""),
    ("SELECT v FROM t WHERE id = 2 FOR UPDATE", "UPDATE t SET v = v + 1 WHERE id = 2", "", ""),
    ("SELECT v FROM t WHERE id = 2 FOR UPDATE", "SELECT v FROM t WHERE id = 2 FOR UPDATE", "", ""),
];

#[test]
fn a_statement_waits_for_the_holder_of_a_row_or_key() {
    for (held, wanted, committed, rolled_back) in PAIRS {
        for (commits, in_block) in [(true, false), (false, false), (true, true), (false, true)] {
            let (_folder, db, mut first) = with(TABLES);
            let mut second = db.session().unwrap();
            first.begin().unwrap();
            held.split("; ").for_each(|text| drop(first.query(text).unwrap()));
            if in_block {
                second.begin().unwrap();
            }
            let case = format!("{held} | {wanted} | commits {commits}, in a block {in_block}");
            let attempted = attempt(&mut second, wanted);
            let Ok(Attempt::Busy(busy)) = attempted else { panic!("{case}: {attempted:?}") };
            drop(busy);
            let has_ended = AtomicBool::new(false);
            let result = std::thread::scope(|scope| {
                let waits = scope.spawn(|| {
                    let answer = second.query(wanted);
                    assert!(has_ended.load(Ordering::SeqCst), "{case}: it has not waited");
                    answer.and_then(|_| if in_block { second.commit().map(|_| ()) } else { Ok(()) })
                });
                std::thread::sleep(Duration::from_millis(30));
                has_ended.store(true, Ordering::SeqCst);
                match commits {
                    true => drop(first.commit().unwrap()),
                    false => first.rollback(),
                }
                waits.join().unwrap()
            });
            let expected = if commits { committed } else { rolled_back };
            match result {
                Ok(()) => {
                    let query = "SELECT id, v FROM t WHERE id BETWEEN 5 AND 7 ORDER BY id DESC LIMIT 1";
                    let found = rows(&mut first, query);
                    assert!(expected.is_empty() || found == expected, "{case}: {found}");
                }
                Err(error) => assert_eq!(error.sqlstate(), expected, "{case}: {error}"),
            }
        }
    }
}

#[test]
fn a_wait_ends_by_its_limits_and_leaves_nothing_held() {
    for wanted in
        ["INSERT INTO t VALUES (5, 6, NULL)", "UPDATE t SET v = 1 WHERE id = 1", "CALL raise_by(1, 1)"]
    {
        for in_block in [false, true] {
            let (_folder, db, mut first) = with(TABLES);
            let [mut second, mut third] = [(); 2].map(|()| db.session().unwrap());
            first.begin().unwrap();
            first.query("INSERT INTO t VALUES (5, 5, 5)").unwrap();
            first.query("UPDATE t SET v = 9 WHERE id = 1").unwrap();
            let fails = |limit: &str, sqlstate: &str, second: &mut Session| {
                if in_block {
                    second.begin().unwrap();
                }
                let error = second.query(wanted).unwrap_err();
                assert_eq!(error.sqlstate(), sqlstate, "{wanted}, {limit}: {error}");
                second.rollback();
            };
            second.set_lock_timeout(Some(Duration::from_millis(40)));
            fails("lock_timeout", "55P03", &mut second);
            second.set_lock_timeout(None);
            second.ends_at(Some(Instant::now() + Duration::from_millis(40)));
            fails("deadline", "57014", &mut second);
            second.ends_at(None);
            let flag = Arc::new(AtomicBool::new(false));
            second.cancelled_by(Arc::clone(&flag));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(40));
                    flag.store(true, Ordering::SeqCst);
                });
                fails("cancel", "57014", &mut second);
            });
            drop(first.commit().unwrap());
            // The one that has given up is in no queue.
            third.set_lock_timeout(Some(FOREVER));
            third.query("UPDATE t SET v = 10 WHERE id = 1").unwrap();
            third.query("DELETE FROM t WHERE id = 5").unwrap();
        }
    }
}

/// What a statement holds after it was undone goes when it cannot run again, since a definition has changed
/// meanwhile.
#[test]
fn a_statement_that_fails_when_it_is_repeated_holds_nothing() {
    for (wanted, change) in [
        ("CALL raise_two()", "DROP PROCEDURE raise_two"),
        ("UPDATE t SET v = v + 1 WHERE id IN (1, 2) RETURNING note", "ALTER TABLE t RENAME note TO remark"),
    ] {
        let (_folder, db, mut first) = with(TABLES);
        let [mut second, mut third] = [(); 2].map(|()| db.session().unwrap());
        first.query("ALTER TABLE t ADD note TEXT").unwrap();
        first.begin().unwrap();
        first.query("UPDATE t SET v = 9 WHERE id = 2").unwrap();
        let prepared = second.prepare(wanted).unwrap();
        for _ in 0..2 {
            let attempted = second.attempt(&prepared, &Parameters::default(), Box::new(Nowhere));
            assert!(matches!(attempted, Ok(Attempt::Busy(_))), "{wanted}: {attempted:?}");
        }
        let held = attempt(&mut third, "UPDATE t SET v = v + 1 WHERE id = 1");
        assert!(matches!(held, Ok(Attempt::Busy(_))), "{wanted} holds the row: {held:?}");
        third.stop_waiting();
        drop(first.commit().unwrap());
        first.query(change).unwrap();
        let attempted = second.attempt(&prepared, &Parameters::default(), Box::new(Nowhere));
        assert!(attempted.is_err(), "{wanted}: {attempted:?}");
        let freed = attempt(&mut third, "UPDATE t SET v = v + 1 WHERE id = 1");
        assert!(matches!(freed, Ok(Attempt::Done(_))), "{wanted}: {freed:?}");
    }
}

#[test]
fn of_a_deadlock_one_side_fails_and_the_other_goes_on() {
    let (_folder, db, mut session) = with(TABLES);
    let cycles = |count: usize| (0..count).map(move |n| (n + 1, (n + 1) % count + 1));
    for count in [2, 3] {
        let barrier = Barrier::new(count);
        let failed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for (first, then) in cycles(count) {
                let mut session = db.session().unwrap();
                let (barrier, failed) = (&barrier, &failed);
                scope.spawn(move || {
                    session.begin().unwrap();
                    session.query(&format!("UPDATE t SET v = v + 1 WHERE id = {first}")).unwrap();
                    barrier.wait();
                    match session.query(&format!("UPDATE t SET v = v + 1 WHERE id = {then}")) {
                        Ok(_) => drop(session.commit().unwrap()),
                        Err(error) => {
                            assert_eq!(error.sqlstate(), "40P01", "{error}");
                            assert_eq!(session.transaction_state(), TransactionState::Failed);
                            session.rollback();
                            failed.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
        assert_eq!(failed.load(Ordering::SeqCst), 1, "of {count}");
        let sum = rows(&mut session, "SELECT sum(v) FROM t");
        assert_eq!(sum, (2 * (count - 1)).to_string());
        session.query("UPDATE t SET v = 0").unwrap();
    }
}

/// Inserts in flight are waited for, too, and a savepoint lets the rows go that were taken behind it.
#[test]
fn a_deadlock_over_keys_is_found_and_a_savepoint_gets_out_of_it() {
    let (_folder, db, mut first) = with(TABLES);
    let mut second = db.session().unwrap();
    first.begin().unwrap();
    first.query("INSERT INTO t VALUES (10, 1, NULL)").unwrap();
    first.set_savepoint("s").unwrap();
    first.query("INSERT INTO t VALUES (12, 1, NULL)").unwrap();
    second.begin().unwrap();
    second.query("INSERT INTO t VALUES (11, 2, NULL)").unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            second.query("INSERT INTO t VALUES (12, 2, NULL)").unwrap();
            drop(second.commit().unwrap());
        });
        std::thread::sleep(Duration::from_millis(50));
        let error = first.query("INSERT INTO t VALUES (11, 3, NULL)").unwrap_err();
        assert_eq!(error.sqlstate(), "40P01", "{error}");
        waits.join().unwrap();
    });
    first.roll_back_to_savepoint("s").unwrap();
    drop(first.commit().unwrap());
    assert_eq!(rows(&mut first, "SELECT id, v FROM t WHERE id >= 10 ORDER BY id"), "10 1, 11 2, 12 2");
}

/// What an earlier statement of the transaction has read, and another one has changed meanwhile, is no wait:
/// it is lost.
#[test]
fn a_row_that_has_changed_since_it_was_read_is_no_wait() {
    let reads = ["SELECT v FROM t WHERE id = 1", "SELECT count(v) FROM t", "SELECT v FROM t WHERE u = 1"];
    let writes = [
        "UPDATE t SET v = v + 1 WHERE id = 1",
        "SELECT v FROM t WHERE id = 1 FOR UPDATE",
        "DELETE FROM t WHERE id = 1",
        "UPDATE t SET v = v + 1",
    ];
    for read in reads {
        for write in writes {
            for locks in [false, true] {
                let (_folder, db, mut first) = with(TABLES);
                let mut second = db.session().unwrap();
                first.begin().unwrap();
                first.query(read).unwrap();
                second.query("UPDATE t SET v = v + 1 WHERE id = 1").unwrap();
                first.ends_at(Some(Instant::now() + FOREVER));
                let text = if locks { "SELECT v FROM t WHERE id = 1 FOR UPDATE" } else { write };
                let error = first.query(text).and_then(|_| first.query(write)).unwrap_err();
                assert_eq!(error.sqlstate(), "40001", "{read} | {write}: {error}");
                first.rollback();
                first.query(write).unwrap();
            }
        }
    }
}

#[test]
fn nowait_sees_a_held_row_outside_of_a_transaction() {
    let (_folder, db, mut first) = with(TABLES);
    let mut second = db.session().unwrap();
    first.begin().unwrap();
    first.query("SELECT v FROM t WHERE id = 1 FOR UPDATE").unwrap();
    second.ends_at(Some(Instant::now() + FOREVER));
    for procedure in ["at_once", "at_once_in_steps"] {
        let error = second.query(&format!("CALL {procedure}(1)")).unwrap_err();
        assert_eq!(error.sqlstate(), "55P03", "{procedure}: {error}");
        let error = second.call_durably(procedure, &[reprise::Value::Int(1)]).unwrap_err();
        assert_eq!(error.sqlstate(), "55P03", "{procedure}: {error}");
        second.query(&format!("CALL {procedure}(2)")).unwrap();
    }
    first.rollback();
    second.query("CALL at_once(1)").unwrap();
    second.query("CALL at_once_in_steps(1)").unwrap();
}

/// Behind its first commit a procedure can't begin anew: it looks again when the inserter of its key has
/// ended.
#[test]
fn a_procedure_that_has_committed_waits_for_a_key() {
    for (commits, key) in [(true, 9), (false, 9), (true, 5), (false, 5)] {
        let (_folder, db, mut first) = with(TABLES);
        let mut second = db.session().unwrap();
        first.begin().unwrap();
        first.query("INSERT INTO t VALUES (5, 5, 9)").unwrap();
        let call =
            format!("CALL puts_in_steps({}, {})", if key == 5 { 5 } else { 6 }, if key == 5 { 7 } else { 9 });
        let ran = std::thread::scope(|scope| {
            let waits = scope.spawn(|| second.query(&call).map(drop));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!waits.is_finished(), "{call}");
            match commits {
                true => _ = first.commit().unwrap(),
                false => first.rollback(),
            }
            waits.join().unwrap()
        });
        let sqlstate = ran.map_err(|error| error.sqlstate().to_owned());
        assert_eq!(sqlstate, if commits { Err("23505".into()) } else { Ok(()) }, "{call}");
    }
}

#[test]
fn procedures_that_commit_and_lose_races_come_to_an_end() {
    let (_folder, db, mut session) = with(TABLES);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut session = db.session().unwrap();
            session.ends_at(Some(Instant::now() + FOREVER));
            scope
                .spawn(move || (0..200).for_each(|_| drop(session.query("CALL counts_in_steps()").unwrap())));
        }
    });
    assert_eq!(rows(&mut session, "SELECT v FROM t WHERE id = 1"), "800");
}

/// Statements that begin while definitions change wait for them as for transactions: they hold up no thread,
/// and can be cancelled.
#[test]
fn a_statement_waits_for_definitions_that_are_made() {
    let (_folder, db, mut first) = with(TABLES);
    first.query("INSERT INTO t SELECT n, n, NULL FROM generate_series(10, 400000) AS n").unwrap();
    let [mut second, mut third] = [(); 2].map(|()| db.session().unwrap());
    let prepared = second.prepare("UPDATE t SET v = 7 WHERE id = 1").unwrap();
    std::thread::scope(|scope| {
        let defines = scope.spawn(|| first.query("CREATE INDEX t_v ON t (v, id)").map(drop));
        while !db.changes_definitions() {
            std::thread::yield_now();
        }
        // New sessions are made meanwhile.
        drop(db.session().unwrap());
        let begun = Instant::now();
        let attempted = second.attempt(&prepared, &Parameters::default(), Box::new(Nowhere));
        assert!(matches!(attempted, Ok(Attempt::Busy(_))), "{attempted:?}");
        assert!(begun.elapsed() < Duration::from_secs(1));
        third.ends_at(Some(Instant::now() + Duration::from_millis(10)));
        assert_eq!(third.query("SELECT count(*) FROM t").unwrap_err().sqlstate(), "57014");
        assert!(!defines.is_finished(), "the table is too small for this test");
        defines.join().unwrap().unwrap();
    });
    let attempted = second.attempt(&prepared, &Parameters::default(), Box::new(Nowhere));
    assert!(matches!(attempted, Ok(Attempt::Done(_))), "{attempted:?}");
}

/// A procedure that commits can't begin anew, so it waits where it is.
#[test]
fn a_procedure_that_commits_waits_in_the_middle() {
    let (_folder, db, mut first) = with(TABLES);
    let mut second = db.session().unwrap();
    first.begin().unwrap();
    first.query("UPDATE t SET v = 5 WHERE id = 2").unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| second.query("CALL in_steps(2)").map(drop));
        let begun = Instant::now();
        while rows(&mut db.session().unwrap(), "SELECT v FROM t WHERE id = 3") != "1" {
            assert!(begun.elapsed() < FOREVER);
        }
        std::thread::sleep(Duration::from_millis(30));
        assert!(!waits.is_finished());
        drop(first.commit().unwrap());
        waits.join().unwrap().unwrap();
    });
    assert_eq!(rows(&mut first, "SELECT v FROM t ORDER BY id"), "0, 105, 1");
}

/// Clients that add to a hot row in transactions, with time between the statements, beside those that do it
/// at once: none of them loses.
#[test]
fn transactions_that_begin_with_their_write_do_not_fail() {
    let (_folder, db, mut session) = with(TABLES);
    std::thread::scope(|scope| {
        for in_block in [true, true, false, false] {
            let mut session = db.session().unwrap();
            scope.spawn(move || {
                for _ in 0..100 {
                    match in_block {
                        true => {
                            session.begin().unwrap();
                            session.query("UPDATE t SET v = v + 1 WHERE id = 1").unwrap();
                            std::thread::sleep(Duration::from_micros(200));
                            session.query("UPDATE t SET v = v + 1 WHERE id = 2").unwrap();
                            drop(session.commit().unwrap());
                        }
                        false => {
                            session.query("CALL raise_by(1, 1)").unwrap();
                            session.query("UPDATE t SET v = v + 1 WHERE id = 2").unwrap();
                        }
                    }
                }
            });
        }
    });
    assert_eq!(rows(&mut session, "SELECT v FROM t WHERE id < 3 ORDER BY id"), "400, 400");
}

/// Transactions that read a hot row and then write it: once one has lost, the next ones hold the row as they
/// read it.
#[test]
fn what_is_read_and_then_written_seldom_fails() {
    let (_folder, db, mut session) = with(TABLES);
    let (rounds, failed) = (100, AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut session = db.session().unwrap();
            let failed = &failed;
            scope.spawn(move || {
                for round in 0..rounds {
                    let id = 1 + round % 2;
                    session.begin().unwrap();
                    session.query(&format!("SELECT v FROM t WHERE id = {id}")).unwrap();
                    std::thread::sleep(Duration::from_micros(200));
                    let written = session.query(&format!("UPDATE t SET v = v + 1 WHERE id = {id}"));
                    if written.and_then(|_| session.commit()).is_err() {
                        session.rollback();
                        failed.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    let failed = failed.load(Ordering::SeqCst);
    println!("{failed} of {} have failed", 4 * rounds);
    assert!(failed * 10 < 4 * rounds, "{failed} of {} have failed", 4 * rounds);
    assert_eq!(rows(&mut session, "SELECT sum(v) FROM t"), (4 * rounds - failed).to_string());
}

/// A transaction that is left open holds no reader up for long, however hot its row is.
#[test]
fn readers_of_a_hot_row_go_on() {
    let (_folder, db, mut holder) = with(TABLES);
    let mut reader = db.session().unwrap();
    holder.begin().unwrap();
    holder.query("UPDATE t SET v = 7 WHERE id = 1").unwrap();
    let read = "SELECT v FROM t WHERE id = 1";
    for round in 0..3 {
        reader.begin().unwrap();
        let begun = Instant::now();
        assert_eq!(rows(&mut reader, read), "0");
        assert_eq!(rows(&mut reader, read), "0");
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        if round < 2 {
            let attempted = attempt(&mut reader, "UPDATE t SET v = v + 1 WHERE id = 1");
            assert!(matches!(attempted, Ok(Attempt::Busy(_))), "{attempted:?}");
            reader.stop_waiting();
            reader.rollback();
        }
    }
    drop(reader.commit().unwrap());
    drop(holder.commit().unwrap());
    reader.query("UPDATE t SET v = v + 1 WHERE id = 1").unwrap();
    assert_eq!(rows(&mut reader, read), "8");
}

/// Each reads what the other one writes. Both fail seldom, and one of both always gets on.
#[test]
fn of_two_transactions_that_conflict_one_commits() {
    let (_folder, db, _session) = with(TABLES);
    let (rounds, both) = (300, AtomicU64::new(0));
    let (barrier, failed) = (Barrier::new(2), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for own in [1, 2] {
            let mut session = db.session().unwrap();
            let (barrier, failed, both) = (&barrier, &failed, &both);
            scope.spawn(move || {
                for _ in 0..rounds {
                    session.begin().unwrap();
                    session.query(&format!("SELECT v FROM t WHERE id = {}", 3 - own)).unwrap();
                    session.query(&format!("UPDATE t SET v = v + 1 WHERE id = {own}")).unwrap();
                    barrier.wait();
                    if session.commit().is_err() {
                        failed.fetch_add(1, Ordering::SeqCst);
                    }
                    if barrier.wait().is_leader() && failed.swap(0, Ordering::SeqCst) == 2 {
                        both.fetch_add(1, Ordering::SeqCst);
                    }
                    barrier.wait();
                }
            });
        }
    });
    let both = both.load(Ordering::SeqCst);
    assert!(both * 20 < rounds, "both failed in {both} of {rounds} rounds");
}

/// A long transaction beside short ones that change what it reads and writes comes to an end.
#[test]
fn a_long_transaction_is_not_starved() {
    let (_folder, db, mut session) = with(TABLES);
    session.query("INSERT INTO t SELECT g, 0, NULL FROM generate_series(100, 400) AS g").unwrap();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let mut session = db.session().unwrap();
            let ends = &ends;
            scope.spawn(move || {
                let mut n = seed;
                while !ends.load(Ordering::Relaxed) {
                    n += 1;
                    session.query(&format!("UPDATE t SET v = v + 1 WHERE id = {}", 100 + n % 300)).unwrap();
                }
            });
        }
        session.ends_at(Some(Instant::now() + FOREVER));
        for _ in 0..5 {
            session.query("UPDATE t SET v = v + 1 WHERE id >= 100").unwrap();
        }
        ends.store(true, Ordering::Relaxed);
    });
}

/// What a session holds whose statement panics goes with it, and what the statement has begun is undone.
#[test]
fn a_panic_holds_nothing() {
    struct Panics;
    impl RowSink for Panics {
        fn begin(&mut self) {}

        fn row(&mut self, _: &[Datum], _: &Arena) -> Result<(), SqlError> {
            panic!("a client's sink has panicked, as the test wants");
        }
    }
    let (_folder, db, mut other) = with(TABLES);
    for in_block in [false, true] {
        let mut session = db.session().unwrap();
        let panicked = std::thread::spawn(move || {
            if in_block {
                session.begin().unwrap();
                session.query("UPDATE t SET v = 77 WHERE id = 1").unwrap();
            }
            let text = "INSERT INTO t VALUES (50, 1, 50) RETURNING id";
            let prepared = session.prepare(text).unwrap();
            session.execute_into(&prepared, &[], Box::new(Panics)).map(drop)
        });
        assert!(panicked.join().is_err());
        other.set_lock_timeout(Some(FOREVER));
        other.query("UPDATE t SET v = v + 1 WHERE id = 1").unwrap();
        other.query("INSERT INTO t VALUES (50, 2, 50)").unwrap();
        other.query("DELETE FROM t WHERE id = 50").unwrap();
    }
    assert_eq!(rows(&mut other, "SELECT v FROM t WHERE id = 1"), "2");
    db.checkpoint().unwrap();
}
