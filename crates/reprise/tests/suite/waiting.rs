//! Waiting for other transactions: for the holder of a row or key, until that has ended, and never for ever.

use crate::common::Durably as _;
use crate::common::{WAITING, under};
use reprise::{
    Arena, Attempt, Datum, Error, Nowhere, Parameters, RowSink, Scheme, Session, SqlError, TransactionState,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// Longer than any wait that is to end by itself.
pub const FOREVER: Duration = Duration::from_secs(20);

pub const TABLES: &str = "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL, u INT UNIQUE);
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

pub fn attempt(session: &mut Session, text: &str) -> Result<Attempt, Error> {
    let prepared = session.prepare(text)?;
    session.attempt(&prepared, &Parameters::default(), Box::new(Nowhere))
}

pub fn rows(session: &mut Session, text: &str) -> String {
    let rows = session.query(text).unwrap().rows;
    let row = |row: Vec<_>| row.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    rows.into_iter().map(row).collect::<Vec<_>>().join(", ")
}

/// What a transaction does and leaves open, and a statement that comes to the same row or key. What the
/// statement comes to, when the transaction commits and when it is rolled back: an SQLSTATE, or the rows
/// afterwards.
type Pair = (&'static str, &'static str, &'static str, &'static str);

const PAIRS: [Pair; 14] = [
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
    for scheme in Scheme::all() {
        for pair in PAIRS {
            for (commits, in_block) in [(true, false), (false, false), (true, true), (false, true)] {
                wait_for_the_holder(scheme, pair, commits, in_block);
            }
        }
    }
}

fn wait_for_the_holder(scheme: Scheme, pair: Pair, commits: bool, in_block: bool) {
    let (held, wanted, committed, rolled_back) = pair;
    let (_folder, db, mut first) = under(scheme, TABLES);
    let mut second = db.session().unwrap();
    first.begin().unwrap();
    held.split("; ").for_each(|text| drop(first.query(text).unwrap()));
    if in_block {
        second.begin().unwrap();
    }
    let case = format!("{scheme}: {held} | {wanted} | commits {commits}, in a block {in_block}");
    let attempted = attempt(&mut second, wanted);
    let Ok(Attempt::Busy(busy)) = attempted else { panic!("{case}: {attempted:?}") };
    drop(busy);
    if in_block && !WAITING.contains(&scheme) {
        let error = second.query(wanted).unwrap_err();
        return assert_eq!(error.sqlstate(), "40001", "{case}: {error}");
    }
    let has_ended = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let answer = second.query(wanted);
            assert!(has_ended.load(Ordering::SeqCst), "{case}: it has not waited");
            answer.and_then(|_| if in_block { second.commit().map(|_| ()) } else { Ok(()) })
        });
        std::thread::sleep(Duration::from_millis(10));
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

#[test]
fn a_wait_ends_by_its_limits_and_leaves_nothing_held() {
    for scheme in Scheme::all() {
        for wanted in
            ["INSERT INTO t VALUES (5, 6, NULL)", "UPDATE t SET v = 1 WHERE id = 1", "CALL raise_by(1, 1)"]
        {
            end_waits_by_limits(scheme, wanted, false);
            if WAITING.contains(&scheme) {
                end_waits_by_limits(scheme, wanted, true);
            }
        }
    }
}

fn end_waits_by_limits(scheme: Scheme, wanted: &str, in_block: bool) {
    let (_folder, db, mut first) = under(scheme, TABLES);
    let [mut second, mut third] = [(); 2].map(|()| db.session().unwrap());
    first.begin().unwrap();
    first.query("INSERT INTO t VALUES (5, 5, 5)").unwrap();
    first.query("UPDATE t SET v = 9 WHERE id = 1").unwrap();
    let fails = |limit: &str, sqlstate: &str, second: &mut Session| {
        if in_block {
            second.begin().unwrap();
        }
        let error = second.query(wanted).unwrap_err();
        assert_eq!(error.sqlstate(), sqlstate, "{scheme}: {wanted}, {limit}: {error}");
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
    // The one that has given up is in no queue, and holds nothing.
    third.set_lock_timeout(Some(FOREVER));
    third.query("UPDATE t SET v = 10 WHERE id = 1").unwrap();
    third.query("DELETE FROM t WHERE id = 5").unwrap();
    third.query("UPDATE t SET v = 11").unwrap();
}

/// What a statement holds after it was undone goes when it cannot run again, since a definition has changed
/// meanwhile.
#[test]
fn a_statement_that_fails_when_it_is_repeated_holds_nothing() {
    let changes = [
        ("CALL raise_two()", "DROP PROCEDURE raise_two"),
        ("UPDATE t SET v = v + 1 WHERE id IN (1, 2) RETURNING note", "ALTER TABLE t RENAME note TO remark"),
    ];
    for (scheme, (wanted, change)) in Scheme::all().flat_map(|scheme| changes.map(|own| (scheme, own))) {
        let (_folder, db, mut first) = under(scheme, TABLES);
        let [mut second, mut third] = [(); 2].map(|()| db.session().unwrap());
        first.query("ALTER TABLE t ADD note TEXT").unwrap();
        first.begin().unwrap();
        first.query("UPDATE t SET v = 9 WHERE id = 2").unwrap();
        let prepared = second.prepare(wanted).unwrap();
        for _ in 0..2 {
            loop {
                let attempted = second.attempt(&prepared, &Parameters::default(), Box::new(Nowhere));
                let Ok(Attempt::Busy(busy)) = attempted else { panic!("{scheme}: {wanted}: {attempted:?}") };
                // A batch gives the call back, which then waits for the row.
                if !busy.is_in_batch() {
                    break;
                }
                std::thread::yield_now();
            }
        }
        let held = attempt(&mut third, "UPDATE t SET v = v + 1 WHERE id = 1");
        assert!(matches!(held, Ok(Attempt::Busy(_))), "{scheme}: {wanted} holds the row: {held:?}");
        third.stop_waiting();
        drop(first.commit().unwrap());
        first.query(change).unwrap();
        let attempted = second.attempt(&prepared, &Parameters::default(), Box::new(Nowhere));
        assert!(attempted.is_err(), "{scheme}: {wanted}: {attempted:?}");
        let freed = attempt(&mut third, "UPDATE t SET v = v + 1 WHERE id = 1");
        assert!(matches!(freed, Ok(Attempt::Done(_))), "{scheme}: {wanted}: {freed:?}");
    }
}

/// A statement of several steps is undone as a whole before it waits. It may be given what it waits for, and
/// lets that go at its end.
#[test]
fn a_statement_of_several_steps_that_has_waited_holds_nothing() {
    let parted = "CREATE TABLE parted (id INT PRIMARY KEY, v INT) PARTITION BY RANGE (id);
        CREATE TABLE low PARTITION OF parted FOR VALUES FROM (0) TO (10);
        CREATE TABLE high PARTITION OF parted DEFAULT;
        INSERT INTO parted SELECT n, 0 FROM generate_series(0, 20) AS n";
    let statements = [
        (
            "UPDATE t SET v = 9 WHERE id = 2",
            "CREATE TABLE copied AS SELECT id, v FROM t",
            "UPDATE t SET v = 1",
        ),
        (
            "UPDATE parted SET v = 9 WHERE id = 2",
            "ALTER TABLE parted DETACH PARTITION low",
            "UPDATE parted SET v = 1",
        ),
    ];
    let statements = [false, true].map(|in_block| statements.map(|own| (in_block, own)));
    for (scheme, (in_block, (held, wanted, after))) in
        Scheme::all().flat_map(|scheme| statements.as_flattened().iter().map(move |own| (scheme, *own)))
    {
        let (_folder, db, mut first) = under(scheme, TABLES);
        first.execute_script(parted).unwrap();
        let [mut second, mut third] = [(); 2].map(|()| db.session().unwrap());
        first.begin().unwrap();
        first.query(held).unwrap();
        if in_block {
            second.begin().unwrap();
        }
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                while let Attempt::Busy(busy) = attempt(&mut second, wanted)? {
                    while let Err(refusal) = runtime.block_on(busy.released()) {
                        second.break_deadlock(refusal)?;
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
                if in_block { second.commit().map(drop) } else { Ok(()) }
            });
            std::thread::sleep(Duration::from_millis(30));
            drop(first.commit().unwrap());
            match waits.join().unwrap() {
                // It has read what `first` changes.
                Err(error) if in_block && error.sqlstate() == "40001" => {}
                ended => ended.unwrap(),
            }
        });
        second.rollback();
        let freed = attempt(&mut third, after);
        assert!(matches!(freed, Ok(Attempt::Done(_))), "{scheme}: {wanted}: {freed:?}");
    }
}

#[test]
fn a_table_of_a_query_has_the_columns_that_are_there_after_its_wait() {
    let changes = [
        ("ALTER TABLE t DROP COLUMN v", "1 1, 2 2, 3 3"),
        ("ALTER TABLE t ADD COLUMN w INT DEFAULT 7", "1 0 1 7, 2 0 2 7, 3 0 3 7"),
        ("ALTER TABLE t ALTER COLUMN v TYPE TEXT", "1 0 1, 2 0 2, 3 0 3"),
    ];
    let statements = ["CREATE TABLE copied AS SELECT * FROM t", "SELECT * INTO copied FROM t"];
    let table = "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL, u INT UNIQUE);
        INSERT INTO t VALUES (1, 0, 1), (2, 0, 2), (3, 0, 3)";
    for (scheme, statement, (change, expected)) in Scheme::all()
        .flat_map(|scheme| statements.map(|statement| (scheme, statement)))
        .flat_map(|(scheme, statement)| changes.map(|change| (scheme, statement, change)))
    {
        let (_folder, db, mut first) = under(scheme, table);
        let mut second = db.session().unwrap();
        first.begin().unwrap();
        first.execute(change, &[]).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| second.execute(statement, &[]).map(drop));
            std::thread::sleep(Duration::from_millis(30));
            drop(first.commit().unwrap());
            waits.join().unwrap().unwrap_or_else(|error| panic!("{scheme}: {statement}: {error}"));
        });
        let found = rows(&mut second, "SELECT * FROM copied ORDER BY id");
        assert_eq!(found, expected, "{scheme}: {change}: {statement}");
    }
}

/// A statement that was given a row in its wait lets it go before it waits for a transaction that runs
/// alone: that one may want the row.
#[test]
fn a_transaction_that_runs_alone_gets_rows_of_those_that_wait_for_it() {
    for scheme in Scheme::all() {
        let (_folder, db, mut first) = under(scheme, TABLES);
        let [mut second, mut third] = [(); 2].map(|()| db.session().unwrap());
        first.begin().unwrap();
        first.query("UPDATE t SET v = 9 WHERE id = 2").unwrap();
        let Ok(Attempt::Busy(busy)) = attempt(&mut second, "UPDATE t SET v = v + 1 WHERE id = 2") else {
            panic!("{scheme}: the row is held");
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| runtime.block_on(busy.released()));
            std::thread::sleep(Duration::from_millis(30));
            drop(first.commit().unwrap());
            let _ = waits.join().unwrap();
            // The row may be the second session's now, whose statement does not run yet.
            third.begin().unwrap();
            third.query("LOCK TABLE t IN ACCESS EXCLUSIVE MODE").unwrap();
            let again = attempt(&mut second, "UPDATE t SET v = v + 1 WHERE id = 2");
            assert!(matches!(again, Ok(Attempt::Busy(_))), "{scheme}: {again:?}");
            third.set_lock_timeout(Some(Duration::from_secs(5)));
            third
                .query("UPDATE t SET v = 20 WHERE id = 2")
                .unwrap_or_else(|error| panic!("{scheme}: {error}"));
            drop(third.commit().unwrap());
        });
        let again = attempt(&mut second, "UPDATE t SET v = v + 1 WHERE id = 2");
        assert!(matches!(again, Ok(Attempt::Done(_))), "{scheme}: {again:?}");
        assert_eq!(rows(&mut second, "SELECT v FROM t WHERE id = 2"), "21", "{scheme}");
    }
}

/// Under `2pl-wait-die` and `2pl-no-wait` more than one of a cycle may fail.
#[test]
fn of_a_deadlock_one_side_fails_and_the_other_goes_on() {
    for scheme in Scheme::all() {
        let (_folder, db, mut session) = under(scheme, TABLES);
        for count in [2, 3] {
            let barrier = Barrier::new(count);
            let run = |number: usize| {
                let mut session = db.session().unwrap();
                session.ends_at(Some(Instant::now() + FOREVER));
                session.begin().unwrap();
                session.query(&format!("UPDATE t SET v = v + 1 WHERE id = {}", number + 1)).unwrap();
                barrier.wait();
                let then = (number + 1) % count + 1;
                let ran = session.query(&format!("UPDATE t SET v = v + 1 WHERE id = {then}"));
                match ran {
                    Ok(_) => drop(session.commit().unwrap()),
                    Err(_) => assert_eq!(session.transaction_state(), TransactionState::Failed),
                }
                ran.err()
            };
            let failed: Vec<Error> = std::thread::scope(|scope| {
                let run = &run;
                let clients: Vec<_> = (0..count).map(|number| scope.spawn(move || run(number))).collect();
                clients.into_iter().filter_map(|client| client.join().unwrap()).collect()
            });
            let (sqlstate, most) = match scheme {
                Scheme::TwoPhaseWaitDie => ("40001", count - 1),
                Scheme::TwoPhaseNoWait => ("40001", count),
                _ => ("40P01", 1),
            };
            failed.iter().for_each(|error| assert_eq!(error.sqlstate(), sqlstate, "{scheme}: {error}"));
            assert!((1..=most).contains(&failed.len()), "{scheme}: {} of {count}", failed.len());
            let sum = rows(&mut session, "SELECT sum(v) FROM t");
            assert_eq!(sum, (2 * (count - failed.len())).to_string(), "{scheme}");
            session.query("UPDATE t SET v = 0").unwrap();
        }
    }
}

/// Inserts in flight are waited for, too, and a savepoint gets out of the deadlock. Under OCC it releases the
/// rows that were taken behind it; under 2PL they stay locked until the transaction ends.
#[test]
fn a_deadlock_over_keys_is_found_and_a_savepoint_gets_out_of_it() {
    for scheme in WAITING {
        let (_folder, db, mut first) = under(scheme, TABLES);
        let mut second = db.session().unwrap();
        first.begin().unwrap();
        first.query("INSERT INTO t VALUES (10, 1, NULL)").unwrap();
        first.set_savepoint("s").unwrap();
        first.query("INSERT INTO t VALUES (12, 1, NULL)").unwrap();
        second.begin().unwrap();
        second.query("INSERT INTO t VALUES (11, 2, NULL)").unwrap();
        first.ends_at(Some(Instant::now() + FOREVER));
        second.ends_at(Some(Instant::now() + FOREVER));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                second.query("INSERT INTO t VALUES (12, 2, NULL)").unwrap();
                drop(second.commit().unwrap());
            });
            std::thread::sleep(Duration::from_millis(50));
            let error = first.query("INSERT INTO t VALUES (11, 3, NULL)").unwrap_err();
            assert_eq!(error.sqlstate(), "40P01", "{scheme}: {error}");
            if !scheme.locks() {
                waits.join().unwrap();
                first.roll_back_to_savepoint("s").unwrap();
                return drop(first.commit().unwrap());
            }
            first.roll_back_to_savepoint("s").unwrap();
            assert_eq!(rows(&mut first, "SELECT id FROM t WHERE id = 10"), "10");
            assert!(!waits.is_finished());
            drop(first.commit().unwrap());
            waits.join().unwrap();
        });
        let found = rows(&mut first, "SELECT id, v FROM t WHERE id >= 10 ORDER BY id");
        assert_eq!(found, "10 1, 11 2, 12 2", "{scheme}");
    }
}

#[test]
fn nowait_sees_a_held_row_outside_of_a_transaction() {
    for scheme in Scheme::all() {
        let (_folder, db, mut first) = under(scheme, TABLES);
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
}

/// Behind its first commit a procedure can't begin anew: it looks again when the inserter of its key has
/// ended.
#[test]
fn a_procedure_that_has_committed_waits_for_a_key() {
    let cases = [(true, 9), (false, 9), (true, 5), (false, 5)];
    for (scheme, (commits, key)) in Scheme::all().flat_map(|scheme| cases.map(|case| (scheme, case))) {
        let (_folder, db, mut first) = under(scheme, TABLES);
        let mut second = db.session().unwrap();
        first.begin().unwrap();
        first.query("INSERT INTO t VALUES (5, 5, 9)").unwrap();
        let call =
            format!("CALL puts_in_steps({}, {})", if key == 5 { 5 } else { 6 }, if key == 5 { 7 } else { 9 });
        if !WAITING.contains(&scheme) {
            let error = second.query(&call).unwrap_err();
            assert_eq!(error.sqlstate(), "40001", "{scheme}: {call}: {error}");
            continue;
        }
        let ran = std::thread::scope(|scope| {
            let waits = scope.spawn(|| second.query(&call).map(drop));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!waits.is_finished(), "{scheme}: {call}");
            match commits {
                true => _ = first.commit().unwrap(),
                false => first.rollback(),
            }
            waits.join().unwrap()
        });
        let sqlstate = ran.map_err(|error| error.sqlstate().to_owned());
        assert_eq!(sqlstate, if commits { Err("23505".into()) } else { Ok(()) }, "{scheme}: {call}");
    }
}

/// Statements that begin while definitions change wait for them as for transactions: they hold up no thread,
/// and can be cancelled.
#[test]
fn a_statement_waits_for_definitions_that_are_made() {
    for scheme in WAITING {
        let (_folder, db, mut first) = under(scheme, TABLES);
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
}

/// A procedure that commits can't begin anew, so it waits where it is.
#[test]
fn a_procedure_that_commits_waits_in_the_middle() {
    for scheme in Scheme::all() {
        let (_folder, db, mut first) = under(scheme, TABLES);
        let mut second = db.session().unwrap();
        first.begin().unwrap();
        first.query("UPDATE t SET v = 5 WHERE id = 2").unwrap();
        if !WAITING.contains(&scheme) {
            let error = second.query("CALL in_steps(2)").unwrap_err();
            assert_eq!(error.sqlstate(), "40001", "{scheme}: {error}");
            first.rollback();
            assert_eq!(rows(&mut first, "SELECT v FROM t ORDER BY id"), "0, 0, 1", "{scheme}");
            continue;
        }
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
        assert_eq!(rows(&mut first, "SELECT v FROM t ORDER BY id"), "0, 105, 1", "{scheme}");
    }
}

/// What a session holds whose statement panics goes with it, and what the statement has begun is undone.
#[test]
fn a_panic_holds_nothing() {
    for scheme in Scheme::all() {
        struct Panics;
        impl RowSink for Panics {
            fn begin(&mut self) {}

            fn row(&mut self, _: &[Datum], _: &Arena) -> Result<(), SqlError> {
                panic!("a client's sink has panicked, as the test wants");
            }
        }
        let (_folder, db, mut other) = under(scheme, TABLES);
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
}
