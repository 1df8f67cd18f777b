//! Sessions that change definitions wait for one another.

use super::{BEFORE, numbers, open_with, run};
use crate::common::Durably as _;
use reprise::{Scheme, Sequencing};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A definition waits while an open transaction changes definitions, alone and as the beginning of another
/// transaction. No one fails.
#[test]
fn definitions_wait_for_one_another() {
    let (_folder, database) = open_with(|_| {});
    let mut session = database.session().unwrap();
    session.execute_script(BEFORE).unwrap();
    let theirs: &[&[&str]] = &[
        &["CREATE TABLE theirs (id INT)"],
        &["CREATE TABLE filled AS SELECT * FROM account"],
        &["GRANT SELECT ON account TO PUBLIC"],
        &["BEGIN", "CREATE TABLE pair (id INT)", "INSERT INTO pair VALUES (1)", "COMMIT"],
        &[
            "BEGIN",
            "ALTER TABLE account ALTER balance SET NOT NULL",
            "UPDATE account SET balance = 1",
            "COMMIT",
        ],
        &["BEGIN", "CREATE TABLE drawn AS SELECT * FROM account", "COMMIT"],
    ];
    for (round, theirs) in theirs.iter().enumerate() {
        session.begin().unwrap();
        run(&mut session, "SELECT balance FROM account WHERE id = 1").unwrap();
        run(&mut session, &format!("CREATE TABLE own_{round} (id INT PRIMARY KEY)")).unwrap();
        run(&mut session, &format!("INSERT INTO own_{round} VALUES (1)")).unwrap();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let mut other = database.session().unwrap();
                for statement in *theirs {
                    match *statement {
                        "BEGIN" => other.begin(),
                        "COMMIT" => other.commit().map(drop),
                        _ => run(&mut other, statement),
                    }
                    .unwrap_or_else(|error| panic!("{statement}: {error}"));
                }
                is_done.store(true, Ordering::SeqCst);
            });
            std::thread::sleep(Duration::from_millis(60));
            assert!(!is_done.load(Ordering::SeqCst), "{theirs:?} waits");
            session.commit().unwrap().wait().unwrap();
            waiting.join().unwrap();
        });
        assert_eq!(numbers(&mut session, &format!("SELECT count(*) FROM own_{round}")), [1]);
    }
    session.begin().unwrap();
    run(&mut session, "CREATE TABLE own (id INT)").unwrap();
    let mut other = database.session().unwrap();
    other.set_lock_timeout(Some(Duration::from_millis(20)));
    assert_eq!(run(&mut other, "CREATE TABLE theirs_2 (id INT)").unwrap_err().sqlstate(), "55P03");
    // After a rollback to before the first definition other sessions go on.
    session.rollback();
    session.begin().unwrap();
    session.set_savepoint("before").unwrap();
    run(&mut session, "CREATE TABLE own (id INT)").unwrap();
    session.roll_back_to_savepoint("before").unwrap();
    other.begin().unwrap();
    run(&mut other, "CREATE TABLE theirs_2 (id INT)").unwrap();
    session.commit().unwrap().wait().unwrap();
    other.commit().unwrap().wait().unwrap();
}

/// Of two transactions that have read rows before, one waits for the definitions, and the other one for all
/// transactions to end. Neither waits until it gives up.
#[test]
fn of_two_that_wait_for_each_other_one_ends() {
    let (_folder, database) = open_with(|_| {});
    database.session().unwrap().execute_script(BEFORE).unwrap();
    let begun = std::time::Instant::now();
    for round in 0..5 {
        let all_read = std::sync::Barrier::new(2);
        let outcomes = std::thread::scope(|scope| {
            let one = |name: &'static str| {
                let (database, all_read) = (&database, &all_read);
                scope.spawn(move || {
                    let mut session = database.session().unwrap();
                    session.begin().unwrap();
                    run(&mut session, "SELECT balance FROM account WHERE id = 1").unwrap();
                    all_read.wait();
                    let table = format!("{name}_{round}");
                    let ran = run(&mut session, &format!("CREATE TABLE {table} (id INT PRIMARY KEY)"))
                        .and_then(|()| run(&mut session, &format!("INSERT INTO {table} VALUES (1)")))
                        .and_then(|()| session.commit().map(drop));
                    session.rollback();
                    ran.map_err(|error| error.sqlstate().to_owned())
                })
            };
            [one("a"), one("b")].map(|thread| thread.join().unwrap())
        });
        assert_eq!(outcomes.iter().filter(|own| own.is_ok()).count(), 1, "{outcomes:?}");
        assert!(outcomes.contains(&Err("40P01".into())), "{outcomes:?}");
    }
    assert!(begun.elapsed().as_secs() < 8, "{:?}", begun.elapsed());
}

/// Sessions that begin with definitions follow one another, whatever the concurrency control.
#[test]
fn many_that_begin_with_definitions_follow_one_another() {
    for concurrency in [
        Scheme::Optimistic,
        Scheme::TwoPhase,
        Scheme::TwoPhaseWaitDie,
        Scheme::TwoPhaseNoWait,
        Scheme::DependencyGraph,
    ] {
        let (_folder, database) = open_with(|config| config.concurrency = concurrency);
        database.session().unwrap().execute_script(BEFORE).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let database = &database;
                scope.spawn(move || {
                    let mut session = database.session().unwrap();
                    for round in 0..10 {
                        let table = format!("made_{thread}_{round}");
                        let create = format!("CREATE TABLE {table} AS SELECT * FROM account");
                        if round % 2 == 0 {
                            session.begin().unwrap();
                            run(&mut session, &create).unwrap();
                            run(&mut session, &format!("DROP TABLE {table}")).unwrap();
                            session.commit().unwrap().wait().unwrap();
                        } else {
                            run(&mut session, &create).unwrap();
                            run(&mut session, &format!("DROP TABLE {table}")).unwrap();
                        }
                    }
                });
            }
        });
    }
}

/// A session that has waited too long holds nothing, also if it was given the definitions at that moment.
#[test]
fn a_wait_that_is_given_up_holds_nothing() {
    let (_folder, database) = open_with(|_| {});
    let (mut session, mut other) = (database.session().unwrap(), database.session().unwrap());
    session.set_lock_timeout(Some(Duration::from_secs(5)));
    for round in 0..60 {
        session.begin().unwrap();
        run(&mut session, "CREATE TABLE own (id INT)").unwrap();
        let pause = Duration::from_micros(3000 + 50 * (round % 40));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                other.set_lock_timeout(Some(Duration::from_millis(4)));
                match round % 2 {
                    0 => other.execute_script("CREATE TABLE theirs (id INT); DROP TABLE theirs"),
                    _ => run(&mut other, "CREATE TABLE theirs AS SELECT 1 AS id")
                        .and_then(|()| run(&mut other, "DROP TABLE theirs")),
                }
            });
            std::thread::sleep(pause);
            session.rollback();
            let _ = waiting.join().unwrap();
        });
        run(&mut session, "DROP TABLE IF EXISTS theirs").unwrap();
    }
}

/// Privileges change beside open transactions. One that then changes definitions does so under the newest.
#[test]
fn privileges_that_changed_before_stay() {
    let (_folder, database) = open_with(|config| config.sequencing = Sequencing::Serial);
    let (mut session, mut other) = (database.session().unwrap(), database.session().unwrap());
    session.execute_script(BEFORE).unwrap();
    session.execute_script("CREATE ROLE reader").unwrap();
    for round in 0..40 {
        session.begin().unwrap();
        run(&mut session, "UPDATE account SET balance = balance + 1 WHERE id = 1").unwrap();
        session.set_savepoint("a").unwrap();
        run(&mut session, "CREATE TABLE undone (id INT)").unwrap();
        let (verb, role) = if round % 2 == 0 { ("GRANT", "TO reader") } else { ("REVOKE", "FROM reader") };
        std::thread::scope(|scope| {
            let changing = scope.spawn(|| run(&mut other, &format!("{verb} SELECT ON account {role}")));
            std::thread::sleep(Duration::from_millis(round % 3));
            session.roll_back_to_savepoint("a").unwrap();
            run(&mut session, &format!("CREATE TABLE kept_{round} (id INT)")).unwrap();
            session.commit().unwrap().wait().unwrap();
            changing.join().unwrap().unwrap();
        });
        let granted = session.query("SELECT has_table_privilege('reader', 'account', 'SELECT')").unwrap();
        assert_eq!(granted.rows[0][0], reprise::Value::Boolean(round % 2 == 0), "round {round}");
    }
}
