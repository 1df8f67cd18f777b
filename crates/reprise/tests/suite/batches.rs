//! Calls in batches (`Scheme::DependencyGraph`): order, waits beside batches, changes of definitions, errors.

use crate::common::{small, under};
use reprise::{
    Access, Attempt, Database, Error, Nowhere, Parameters, Scheme, Session, Statement, Value, params,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ACCOUNTS: &str = "
    CREATE TABLE accounts (id INT PRIMARY KEY, balance INT NOT NULL CHECK (balance >= 0));
    INSERT INTO accounts SELECT n, 100 FROM generate_series(1, 10) AS n;
    CREATE PROCEDURE transfer(source INT, target INT, amount INT, OUT left_over INT) LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE accounts SET balance = balance + amount WHERE id = target;
        UPDATE accounts SET balance = balance - amount WHERE id = source RETURNING balance INTO left_over;
        RAISE NOTICE '% left', left_over;
    END $$;";

fn bank() -> (tempfile::TempDir, Database, Session) {
    under(Scheme::DependencyGraph, ACCOUNTS)
}

fn balances(session: &mut Session) -> Vec<i64> {
    let rows = session.execute("SELECT balance FROM accounts ORDER BY id", params![]).unwrap().rows;
    rows.iter().map(|row| int(&row[0])).collect()
}

fn int(value: &Value) -> i64 {
    match value {
        Value::Int(value) => *value,
        other => panic!("{other} is no integer"),
    }
}

/// Ten thousand transfers between ten accounts, of four sessions at a time: nothing is lost, nothing
/// conflicts, and what fails has no effect.
#[test]
fn contended_transfers_never_conflict() {
    let (_folder, db, mut session) = bank();
    let failed: u64 = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4_i64)
            .map(|client| {
                let mut session = db.session().unwrap();
                scope.spawn(move || {
                    let mut failed = 0;
                    for round in 0..25_i64 {
                        let numbers = (0..100_i64).map(|n| n * 31 + round * 17 + client * 7);
                        let started: Vec<_> = numbers
                            .map(|n| {
                                let (source, target) = (n % 10 + 1, (n * n + 3) % 10 + 1);
                                session.begin_call("transfer", params![source, target, 40]).unwrap()
                            })
                            .collect();
                        for started in started {
                            match session.end_call(started) {
                                Ok(_) => {}
                                Err(Error::Sql(error)) => {
                                    assert_eq!(error.sqlstate, "23514", "{error}");
                                    failed += 1;
                                }
                                Err(error) => panic!("{error}"),
                            }
                        }
                    }
                    failed
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert!(failed > 0, "some account had less than its transfer");
    let balances = balances(&mut session);
    assert_eq!(balances.iter().sum::<i64>(), 1000);
    let statistics = db.statistics();
    assert_eq!(statistics.conflicts, 0);
}

/// The answer of a call has its outputs, notices and errors, as under any other scheme.
#[test]
fn answers_are_those_of_other_schemes() {
    let answers = |concurrency: Scheme| {
        let (_folder, _db, mut session) = under(concurrency, ACCOUNTS);
        let done = session.call("transfer", params![1, 2, 30]).unwrap();
        let outputs = format!("{:?} {}", done.rows, done.affected);
        let mut notices: Vec<String> = session.take_notices().iter().map(ToString::to_string).collect();
        let error = session.call("transfer", params![1, 2, 300]).unwrap_err();
        notices.extend(session.take_notices().iter().map(ToString::to_string));
        let unknown = session.call("transfers", params![]).unwrap_err();
        (outputs, notices, format!("{error:?}"), format!("{unknown:?}"), balances(&mut session))
    };
    let expected = answers(Scheme::Optimistic);
    assert_eq!(expected.1, ["70 left"]);
    assert_eq!(answers(Scheme::DependencyGraph), expected);
}

/// A call that meets a row of an open transaction waits for it, and holds up no call that does not depend on
/// its outcome.
#[test]
fn a_held_row_holds_up_its_own_calls_only() {
    let (_folder, db, mut session) = bank();
    let mut holder = db.session().unwrap();
    holder.begin().unwrap();
    holder.execute("UPDATE accounts SET balance = balance - 10 WHERE id = 1", params![]).unwrap();
    let mut blocked = db.session().unwrap();
    let waits = std::thread::spawn(move || blocked.call("transfer", params![1, 2, 20]).map(|done| done.rows));
    let begun = Instant::now();
    for _ in 0..50 {
        session.call("transfer", params![3, 4, 1]).unwrap();
    }
    assert!(!waits.is_finished(), "the row is held");
    holder.commit().unwrap().wait().unwrap();
    let rows = waits.join().unwrap().unwrap();
    assert_eq!(rows[0][0], Value::Int(70));
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!(balances(&mut session)[..4], [70, 120, 50, 150]);
}

/// Calls that were begun before a definition changed run under the old or the new one, later ones under the
/// new one.
#[test]
fn calls_run_under_the_definitions_of_their_moment() {
    let (_folder, db, mut session) = bank();
    let mut other = db.session().unwrap();
    for round in 0..20_i64 {
        let started: Vec<_> =
            (0..20).map(|_| session.begin_call("transfer", params![1, 2, 0]).unwrap()).collect();
        let script = format!(
            "CREATE OR REPLACE PROCEDURE transfer(source INT, target INT, amount INT, OUT left_over INT)
             LANGUAGE plpgsql AS $$ BEGIN left_over := {round} + 1000; END $$"
        );
        other.execute_script(&script).unwrap();
        for started in started {
            let left_over = int(&session.end_call(started).unwrap().rows[0][0]);
            let of_this_round = left_over == round + 1000;
            let of_round_before = left_over == if round == 0 { 100 } else { round + 999 };
            assert!(of_this_round || of_round_before, "round {round}: {left_over}");
        }
        let after = int(&session.call("transfer", params![1, 2, 0]).unwrap().rows[0][0]);
        assert_eq!(after, round + 1000);
    }
}

/// Runs a statement as a server does: the caller waits.
fn attempt_to_end(session: &mut Session, statement: &Statement, values: &[Value]) -> Result<u64, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let parameters = Parameters::of(statement, values).unwrap();
    loop {
        let busy = match session.attempt(statement, &parameters, Box::new(Nowhere))? {
            Attempt::Done(done) => return Ok(done.affected),
            Attempt::Busy(busy) => busy,
        };
        while let Err(refusal) = runtime.block_on(busy.released()) {
            // It waits again once it holds no rows.
            session.break_deadlock(refusal)?;
        }
    }
}

/// Calls whose callers wait, while definitions change and another transaction holds a row: each statement
/// has the outcome of one call.
#[test]
fn an_attempt_has_the_outcome_of_its_call() {
    let (_folder, db, mut session) = bank();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|_| {
                let mut session = db.session().unwrap();
                scope.spawn(move || {
                    let give = session.prepare("CALL transfer($1, $2, 0, NULL)").unwrap();
                    let take = session.prepare("CALL transfer(2, 1 + 0, $1, NULL)").unwrap();
                    for _ in 0..100 {
                        assert_eq!(attempt_to_end(&mut session, &give, params![3, 4]).unwrap(), 1);
                        let failed = attempt_to_end(&mut session, &take, params![1000]).unwrap_err();
                        assert_eq!(failed.sqlstate(), "23514");
                    }
                })
            })
            .collect();
        while !clients.iter().all(|client| client.is_finished()) {
            session.execute_script("CREATE INDEX changed ON accounts (balance); DROP INDEX changed").unwrap();
            session.begin().unwrap();
            session.execute("UPDATE accounts SET balance = balance WHERE id = 3", params![]).unwrap();
            session.commit().unwrap().wait().unwrap();
        }
    });
    let balances = balances(&mut session);
    assert_eq!(balances.iter().sum::<i64>(), 1000);
}

/// Snapshots open while batches run and clean up: each shows all of a batch or nothing.
#[test]
fn snapshots_open_beside_batches() {
    let (_folder, db, mut session) = bank();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for client in 0..2_i64 {
            let (mut session, done) = (db.session().unwrap(), &done);
            scope.spawn(move || {
                for n in (0..).take_while(|_| !done.load(Ordering::Relaxed)) {
                    let started: Vec<_> = (0..20_i64)
                        .map(|call| {
                            let (source, target) =
                                (1 + (n + call) % 10, 1 + (n * 3 + call * 7 + client) % 10);
                            session.begin_call("transfer", params![source, target, 1]).unwrap()
                        })
                        .collect();
                    // An account may have nothing left.
                    started.into_iter().for_each(|started| drop(session.end_call(started)));
                }
            });
        }
        session.set_access(Access::ReadOnly);
        let sums: Vec<i64> = (0..200).map(|_| balances(&mut session).iter().sum()).collect();
        done.store(true, Ordering::Relaxed);
        assert_eq!(sums, [1000; 200]);
    });
}

/// A statement that is given up before its batch begins has no effect, and the session goes on.
#[test]
fn a_withdrawn_call_does_not_run() {
    let (_folder, db, mut session) = bank();
    session
        .execute_script(
            "CREATE PROCEDURE forever() LANGUAGE plpgsql AS $$
             BEGIN LOOP UPDATE accounts SET balance = 1 WHERE id = 1; END LOOP; END $$",
        )
        .unwrap();
    let flag = Arc::new(AtomicBool::new(false));
    session.cancelled_by(Arc::clone(&flag));
    let endless = session.begin_call("forever", params![]).unwrap();
    let mut other = db.session().unwrap();
    let pay = other.prepare("CALL transfer(1, 2, 5, NULL)").unwrap();
    for _ in 0..3 {
        let Attempt::Busy(busy) = other.attempt(&pay, &Parameters::default(), Box::new(Nowhere)).unwrap()
        else {
            panic!("the batch before it goes on")
        };
        assert!(busy.is_in_batch() && busy.withdraw() && other.is_waiting());
        other.stop_waiting();
    }
    flag.store(true, Ordering::Relaxed);
    assert_eq!(session.end_call(endless).unwrap_err().sqlstate(), "57014");
    flag.store(false, Ordering::Relaxed);
    assert_eq!(attempt_to_end(&mut other, &pay, params![]).unwrap(), 1);
    assert_eq!(balances(&mut session)[..2], [95, 105]);
}

/// A call that would run for ever is cancelled, and the batches behind it go on.
#[test]
fn a_cancelled_call_lets_later_batches_run() {
    let (_folder, db, mut session) = bank();
    session
        .execute_script(
            "CREATE PROCEDURE forever() LANGUAGE plpgsql AS $$
             DECLARE n INT := 0;
             BEGIN
                 LOOP
                     UPDATE accounts SET balance = 1 WHERE id = 1;
                     n := 1 - n;
                 END LOOP;
             END $$",
        )
        .unwrap();
    let flag = Arc::new(AtomicBool::new(false));
    session.cancelled_by(Arc::clone(&flag));
    let endless = session.begin_call("forever", params![]).unwrap();
    let mut other = db.session().unwrap();
    let behind = other.begin_call("transfer", params![1, 2, 5]).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    flag.store(true, Ordering::Relaxed);
    assert_eq!(session.end_call(endless).unwrap_err().sqlstate(), "57014");
    assert_eq!(other.end_call(behind).unwrap().rows[0][0], Value::Int(95));
}

/// A session that closes does not ask for its outcomes; its calls run all the same, or never begin.
#[test]
fn a_database_closes_with_calls_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let config = || {
        let mut config = small();
        config.concurrency = Scheme::DependencyGraph;
        config
    };
    let db = Database::open(folder.path(), config()).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(ACCOUNTS).unwrap();
    let calls: Vec<_> = (0..200).map(|_| session.begin_call("transfer", params![5, 6, 0]).unwrap()).collect();
    drop(calls);
    drop((session, db));
    let db = Database::open(folder.path(), config()).unwrap();
    let mut session = db.session().unwrap();
    assert_eq!(balances(&mut session), [100; 10]);
}

/// Each batch has at most as many calls as are configured, and one executor is enough.
#[test]
fn one_executor_and_batches_of_one_call_are_enough() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = small();
    config.concurrency = Scheme::DependencyGraph;
    (config.executors, config.batch_size) = (1, 1);
    let db = Database::open(folder.path(), config).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(ACCOUNTS).unwrap();
    let started: Vec<_> =
        (0..300).map(|n| session.begin_call("transfer", params![n % 10 + 1, 3, 1]).unwrap()).collect();
    started.into_iter().for_each(|started| drop(session.end_call(started)));
    assert_eq!(balances(&mut session).iter().sum::<i64>(), 1000);
}

/// A call waits for further ones, but a full batch does not, nor does one of a database that closes.
#[test]
fn calls_wait_for_further_ones_of_their_batch() {
    let folder = tempfile::tempdir().unwrap();
    let config = |wait: Duration| {
        let mut config = small();
        (config.concurrency, config.batch_size, config.batch_wait) = (Scheme::DependencyGraph, 4, wait);
        config
    };
    let wait = Duration::from_millis(300);
    let db = Database::open(folder.path(), config(wait)).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(ACCOUNTS).unwrap();
    let begun = Instant::now();
    session.call("transfer", params![1, 2, 1]).unwrap();
    assert!(begun.elapsed() >= wait, "it has waited for {:?}", begun.elapsed());
    drop((session, db));

    let wait = Duration::from_secs(600);
    let db = Database::open(folder.path(), config(wait)).unwrap();
    let mut session = db.session().unwrap();
    let begun = Instant::now();
    let started: Vec<_> = (0..4).map(|_| session.begin_call("transfer", params![1, 2, 1]).unwrap()).collect();
    started.into_iter().for_each(|started| drop(session.end_call(started).unwrap()));
    drop(session.begin_call("transfer", params![1, 2, 1]).unwrap());
    drop((session, db));
    assert!(begun.elapsed() < wait, "it has waited for {:?}", begun.elapsed());
}

/// A change of definitions that is cancelled while a batch runs is answered at once: it shows nothing of the
/// batch.
#[test]
fn cancelled_definitions_do_not_wait_for_the_batch() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = small();
    config.concurrency = Scheme::DependencyGraph;
    let db = Database::open(folder.path(), config).unwrap();
    let (mut session, mut other) = (db.session().unwrap(), db.session().unwrap());
    let slow = "CREATE TABLE t (id INT PRIMARY KEY);
        CREATE PROCEDURE slow() LANGUAGE plpgsql AS $$ DECLARE k INT := 0; BEGIN
            INSERT INTO t VALUES (1);
            LOOP k := (k + 1) % 9973; END LOOP;
        END $$;";
    session.execute_script(slow).unwrap();
    let flag = Arc::new(AtomicBool::new(false));
    session.cancelled_by(Arc::clone(&flag));
    let started = session.begin_call("slow", params![]).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    other.ends_at(Some(Instant::now() + Duration::from_millis(100)));
    let error = other.execute("CREATE TABLE other (id INT PRIMARY KEY)", params![]).unwrap_err();
    assert_eq!(error.sqlstate(), "57014");
    assert!(db.is_durable(other.must_be_durable()), "the answer waits for the batch");
    flag.store(true, Ordering::Relaxed);
    assert!(session.end_call(started).is_err());
}
