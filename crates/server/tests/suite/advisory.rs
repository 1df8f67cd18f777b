//! Advisory locks, as migration tools take them.

use crate::clients::Server;
use crate::waiting::{Waiting, connect, outcome};
use postgres::Client;
use postgres::types::Type;

fn is_true(client: &mut Client, text: &str) -> bool {
    client.query_one(text, &[]).unwrap().get(0)
}

#[test]
fn one_connection_holds_a_lock_until_it_releases_it() {
    let server = Server::start();
    let (mut one, mut other) = (connect(&server), connect(&server));
    assert_eq!(outcome(&mut one, "SELECT pg_advisory_lock(1)"), "ok");
    assert_eq!(outcome(&mut one, "SELECT pg_advisory_lock(1)"), "ok", "it has it already");
    assert!(!is_true(&mut other, "SELECT pg_try_advisory_lock(1)"));
    assert!(!is_true(&mut other, "SELECT pg_try_advisory_lock_shared(1)"));
    assert!(
        is_true(&mut other, "SELECT pg_catalog.pg_try_advisory_lock(0, 1)"),
        "two numbers are another key"
    );
    assert!(!is_true(&mut other, "SELECT pg_advisory_unlock(1)"), "only the holder releases it");
    assert!(is_true(&mut one, "SELECT pg_advisory_unlock(1)"));
    assert!(!is_true(&mut other, "SELECT pg_try_advisory_lock(1)"), "it was taken twice");
    let waiting = Waiting::start(other, "SELECT pg_advisory_lock(1)");
    assert!(waiting.waits());
    assert!(is_true(&mut one, "SELECT pg_advisory_unlock(1)"));
    let (answer, other) = waiting.end();
    assert_eq!(answer, "ok");
    assert!(!is_true(&mut one, "SELECT pg_try_advisory_lock(1)"));
    let waiting = Waiting::start(one, "SELECT pg_advisory_lock(1)");
    assert!(waiting.waits());
    drop(other);
    let (answer, mut one) = waiting.end();
    assert_eq!(answer, "ok", "a connection that ends releases its locks");
    assert_eq!(outcome(&mut one, "SELECT pg_advisory_unlock_all()"), "ok");
    assert!(is_true(&mut connect(&server), "SELECT pg_try_advisory_lock(1)"));
}

#[test]
fn a_lock_of_a_transaction_ends_with_it() {
    let server = Server::start();
    let (mut one, mut other) = (connect(&server), connect(&server));
    for end in ["COMMIT", "ROLLBACK"] {
        assert_eq!(outcome(&mut one, "BEGIN"), "ok");
        assert_eq!(outcome(&mut one, "SELECT pg_advisory_xact_lock(7)"), "ok");
        assert!(!is_true(&mut other, "SELECT pg_try_advisory_xact_lock(7)"));
        assert!(!is_true(&mut one, "SELECT pg_advisory_unlock(7)"), "only the end releases it");
        assert_eq!(outcome(&mut one, end), "ok");
        assert!(is_true(&mut other, "SELECT pg_try_advisory_xact_lock(7)"), "after {end}");
    }
}

#[test]
fn shared_locks_keep_only_exclusive_ones_out() {
    let server = Server::start();
    let (mut one, mut other) = (connect(&server), connect(&server));
    assert!(is_true(&mut one, "SELECT pg_try_advisory_lock_shared(3)"));
    assert!(is_true(&mut other, "SELECT pg_try_advisory_lock_shared(3)"));
    assert!(!is_true(&mut other, "SELECT pg_try_advisory_lock(3)"));
    assert!(is_true(&mut one, "SELECT pg_advisory_unlock_shared(3)"));
    assert!(is_true(&mut other, "SELECT pg_try_advisory_lock(3)"), "its own lock is no conflict");
}

#[test]
fn waits_end_by_timeouts_and_deadlocks() {
    let server = Server::start();
    let (mut one, mut other) = (connect(&server), connect(&server));
    assert_eq!(outcome(&mut one, "SELECT pg_advisory_lock(1)"), "ok");
    assert_eq!(outcome(&mut other, "SELECT pg_advisory_lock(2)"), "ok");
    assert_eq!(outcome(&mut other, "SET lock_timeout = '20ms'"), "ok");
    assert_eq!(outcome(&mut other, "SELECT pg_advisory_lock(1)"), "55P03");
    assert_eq!(outcome(&mut other, "SET lock_timeout = 0; SET statement_timeout = '20ms'"), "ok");
    assert_eq!(outcome(&mut other, "SELECT pg_advisory_lock(1)"), "57014");
    let waiting = Waiting::start(one, "SELECT pg_advisory_lock(2)");
    assert!(waiting.waits());
    assert_eq!(outcome(&mut other, "SET statement_timeout = 0; SELECT pg_advisory_lock(1)"), "40P01");
    assert!(is_true(&mut other, "SELECT pg_advisory_unlock(2)"));
    assert_eq!(waiting.end().0, "ok");
}

#[test]
fn keys_come_as_parameters_and_expressions() {
    let server = Server::start();
    let mut one = connect(&server);
    let key = 72_707_369_i64;
    let statement = one.prepare_typed("SELECT pg_try_advisory_lock($1) AS got", &[Type::INT8]).unwrap();
    assert_eq!((statement.columns()[0].name(), statement.columns()[0].type_()), ("got", &Type::BOOL));
    assert!(one.query_one(&statement, &[&key]).unwrap().get::<_, bool>(0));
    assert!(is_true(&mut one, "SELECT pg_advisory_unlock(72707000 + 369)"));
    assert!(
        one.query_one("SELECT pg_try_advisory_lock(NULL)", &[]).unwrap().get::<_, Option<bool>>(0).is_none()
    );
    let unsupported = "CREATE PROCEDURE p() LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_lock(1); END $$";
    assert_eq!(outcome(&mut one, unsupported), "0A000");
    assert_eq!(outcome(&mut one, "SELECT 1, pg_advisory_lock(1)"), "0A000");
    assert_eq!(outcome(&mut one, "SELECT pg_advisory_lock('x')"), "22P02");
    assert_eq!(outcome(&mut one, "SELECT pg_advisory_lock(1, 2, 3)"), "42883");
}

#[test]
fn a_sleep_ends_by_itself_or_is_cancelled() {
    let server = Server::start();
    let (mut one, mut other) = (connect(&server), connect(&server));
    let begin = std::time::Instant::now();
    assert_eq!(outcome(&mut one, "SELECT pg_sleep(0.2)"), "ok");
    assert!(begin.elapsed().as_millis() >= 200);
    for text in ["SELECT pg_sleep(NULL)", "SELECT pg_sleep(-5)", "SELECT pg_sleep_for('10 milliseconds')"] {
        assert_eq!(outcome(&mut one, text), "ok");
    }
    let slept = one.query_one("SELECT pg_catalog.pg_sleep($1)", &[&0.01_f64]);
    assert!(slept.is_ok());
    assert_eq!(outcome(&mut one, "SET statement_timeout = 50"), "ok");
    assert_eq!(outcome(&mut one, "SELECT pg_sleep(600)"), "57014");
    let sleeping = Waiting::start(connect(&server), "SELECT pg_sleep(600)");
    assert!(sleeping.waits());
    let cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    assert_eq!(other.query_one(cancel, &[]).unwrap().get::<_, i64>(0), 1);
    let (answer, _) = sleeping.end();
    assert_eq!(answer, "57014");
}
