//! Values of the moment: settings, sessions, locks, and what statements may do to other sessions.

use crate::clients::Server;
use crate::waiting::{Waiting, connect, outcome};
use postgres::{Client, NoTls};

fn text(client: &mut Client, query: &str) -> String {
    let row = client.query_one(&format!("SELECT ({query})::text"), &[]).unwrap();
    row.get::<_, Option<String>>(0).unwrap_or("NULL".into())
}

fn pid(client: &mut Client) -> i32 {
    client.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0)
}

/// `set_config` does what SET and SET LOCAL do, and ends as they end.
#[test]
fn settings_of_a_statement_are_those_of_the_session() {
    let server = Server::start();
    let mut client = connect(&server);
    let own = "current_setting('app.own', true)";
    assert_eq!(text(&mut client, own), "NULL");
    assert_eq!(text(&mut client, "set_config('app.own', 'a', false) || current_setting('app.own')"), "aa");
    assert_eq!(text(&mut client, own), "a");
    assert_eq!(text(&mut client, "set_config('app.own', 'b', true)"), "b");
    assert_eq!(text(&mut client, own), "a", "a local change ends with its statement");
    for (end, local, left) in [("COMMIT", true, "a"), ("COMMIT", false, "c"), ("ROLLBACK", false, "c")] {
        assert_eq!(outcome(&mut client, "BEGIN"), "ok");
        let value = if end == "ROLLBACK" { "d" } else { "c" };
        assert_eq!(text(&mut client, &format!("set_config('app.own', '{value}', {local})")), value);
        assert_eq!(text(&mut client, own), value);
        assert_eq!(outcome(&mut client, end), "ok");
        assert_eq!(text(&mut client, own), left, "{end}, local: {local}");
    }
    // A statement that fails changes nothing.
    let failed = "SELECT set_config('app.own', 'e', false), 1 / length(set_config('app.two', '', false))";
    assert_eq!(outcome(&mut client, failed), "22012");
    assert_eq!(text(&mut client, own), "c");
    // It has the effect of SET: the statement after it is cancelled.
    assert_eq!(text(&mut client, "set_config('statement_timeout', '200', false)"), "200ms");
    assert_eq!(outcome(&mut client, "SELECT count(*) FROM generate_series(1, 100000000)"), "57014");
    assert_eq!(text(&mut client, "set_config('statement_timeout', NULL, false)"), "0");
    assert_eq!(outcome(&mut client, "SELECT set_config('nothing', 'a', false)"), "42704");
    assert_eq!(outcome(&mut client, "SELECT current_setting('nothing')"), "42704");
    assert_eq!(outcome(&mut client, "SELECT set_config('server_version', 'a', false)"), "55P02");
    assert_eq!(text(&mut connect(&server), own), "NULL", "another session has its own");
    let changed = "SELECT setting FROM pg_settings WHERE name = 'work_mem'";
    assert_eq!(outcome(&mut client, "SET work_mem = '3MB'"), "ok");
    assert_eq!(text(&mut client, changed), "3072");
    assert_eq!(text(&mut client, "SELECT count(*) FROM pg_settings WHERE setting IS NULL"), "0");
}

/// SET beside SET LOCAL of the same setting: COMMIT ends SET LOCAL only, whatever the order.
#[test]
fn a_commit_keeps_what_set_has_changed() {
    let server = Server::start();
    let mut client = connect(&server);
    for role in ["CREATE ROLE one", "CREATE ROLE two"] {
        assert_eq!(outcome(&mut client, role), "ok");
    }
    let set = ["SET app.own = 'lasting'", "SET LOCAL app.own = 'local'"];
    let roles = ["SET ROLE one", "SET LOCAL ROLE two"];
    for order in [[0, 1], [1, 0]] {
        assert_eq!(outcome(&mut client, "RESET ROLE"), "ok");
        assert_eq!(outcome(&mut client, "SET app.own = 'before'"), "ok");
        assert_eq!(outcome(&mut client, "BEGIN"), "ok");
        for statement in order.map(|index| set[index]).into_iter().chain(order.map(|index| roles[index])) {
            assert_eq!(outcome(&mut client, statement), "ok", "{statement}");
        }
        let (own, role) = if order == [0, 1] { ("local", "two") } else { ("lasting", "one") };
        assert_eq!(text(&mut client, "current_setting('app.own')"), own);
        assert_eq!(text(&mut client, "current_user"), role);
        assert_eq!(outcome(&mut client, "COMMIT"), "ok");
        assert_eq!(text(&mut client, "current_setting('app.own')"), "lasting");
        assert_eq!(text(&mut client, "current_user"), "one");
    }
    assert_eq!(outcome(&mut client, "RESET ROLE"), "ok");
    // A savepoint takes both back.
    for statement in ["BEGIN", set[0], "SAVEPOINT s", "SET app.own = 'later'", set[1], "ROLLBACK TO s"] {
        assert_eq!(outcome(&mut client, statement), "ok", "{statement}");
    }
    assert_eq!(text(&mut client, "current_setting('app.own')"), "lasting");
    assert_eq!(outcome(&mut client, "COMMIT"), "ok");
    assert_eq!(text(&mut client, "current_setting('app.own')"), "lasting");
    // One statement with both.
    let both = "set_config('app.own', 'kept', false) || set_config('app.own', 'gone', true)";
    assert_eq!(text(&mut client, both), "keptgone");
    assert_eq!(text(&mut client, "current_setting('app.own')"), "kept");
    assert_eq!(outcome(&mut client, "SET DateStyle = 'ISO, DMY'"), "0A000");
}

/// A procedure that asks for a setting is logged by value, so every client gets its own answer.
#[test]
fn a_procedure_writes_the_setting_of_its_client() {
    let server = Server::start();
    let (mut one, mut two) = (connect(&server), connect(&server));
    let script = "CREATE TABLE t (id INT PRIMARY KEY, who TEXT DEFAULT current_setting('app.own', true));
        CREATE PROCEDURE p(i INT) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t (id) VALUES (i); END $$";
    one.batch_execute(script).unwrap();
    assert_eq!(outcome(&mut one, "SET app.own = 'ada'"), "ok");
    assert_eq!(outcome(&mut two, "SET app.own = 'eve'"), "ok");
    assert_eq!(outcome(&mut one, "CALL p(1)"), "ok");
    assert_eq!(outcome(&mut two, "CALL p(2)"), "ok");
    assert_eq!(text(&mut one, "SELECT string_agg(who, ',' ORDER BY id) FROM t"), "ada,eve");
}

#[test]
fn sessions_are_shown_with_what_they_do() {
    let server = Server::start();
    let (mut one, mut two) = (connect(&server), connect(&server));
    one.batch_execute("CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 0)").unwrap();
    let own = pid(&mut one);
    one.batch_execute("SET application_name = 'first'; BEGIN; UPDATE t SET v = 1").unwrap();
    let state = |client: &mut Client, column: &str| {
        text(client, &format!("SELECT {column} FROM pg_stat_activity WHERE pid = {own}"))
    };
    assert_eq!(state(&mut two, "state"), "idle in transaction");
    assert_eq!(state(&mut two, "application_name"), "first");
    assert_eq!(state(&mut two, "usename"), "test");
    assert_eq!(state(&mut two, "xact_start <= query_start AND backend_start <= xact_start"), "true");
    assert_eq!(outcome(&mut one, "UPDATE nothing SET v = 1"), "42P01");
    assert_eq!(state(&mut two, "state"), "idle in transaction (aborted)");
    assert_eq!(outcome(&mut one, "ROLLBACK"), "ok");
    assert_eq!(state(&mut two, "state || coalesce(xact_start::text, '')"), "idle");
    let other = pid(&mut two);
    two.batch_execute("BEGIN; UPDATE t SET v = 2").unwrap();
    let waiting = Waiting::start(connect(&server), "UPDATE t SET v = 3");
    assert!(waiting.waits());
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'tuple' AND state = 'active'";
    assert_eq!(text(&mut one, waits), "1");
    assert_ne!(own, other);
    assert_eq!(outcome(&mut two, "ROLLBACK"), "ok");
    assert_eq!(waiting.end().0, "ok");
}

#[test]
fn a_session_cancels_and_ends_others_of_its_user() {
    let server = Server::start();
    let (mut one, mut two) = (connect(&server), connect(&server));
    let other = pid(&mut two);
    let waiting = Waiting::start(two, "SELECT count(*) FROM generate_series(1, 100000000000)");
    assert!(waiting.waits());
    assert_eq!(text(&mut one, &format!("pg_cancel_backend({other})")), "true");
    let (answer, mut two) = waiting.end();
    assert_eq!(answer, "57014");
    let address = format!("host=127.0.0.1 port={} user=another dbname=test", server.port);
    let mut stranger = Client::connect(&address, NoTls).unwrap();
    assert_eq!(outcome(&mut stranger, &format!("SELECT pg_terminate_backend({other})")), "42501");
    assert_eq!(outcome(&mut two, "SELECT 1"), "ok");
    assert_eq!(text(&mut one, &format!("pg_terminate_backend({other})")), "true");
    assert!(two.batch_execute("SELECT 1").is_err());
    assert_eq!(text(&mut one, "pg_cancel_backend(-1) OR pg_terminate_backend(0)"), "false");
}

#[test]
fn locks_are_shown() {
    let server = Server::start();
    let (mut one, mut two) = (connect(&server), connect(&server));
    assert_eq!(outcome(&mut one, "SELECT pg_advisory_lock(4294967303)"), "ok");
    assert_eq!(outcome(&mut two, "SELECT pg_advisory_lock_shared(-1, 2)"), "ok");
    let waiting = Waiting::start(two, "SELECT pg_advisory_lock_shared(4294967303)");
    assert!(waiting.waits());
    let shown = "SELECT string_agg(concat_ws(' ', classid, objid, objsubid, mode, granted), '; ' \
                 ORDER BY classid, granted) FROM pg_locks";
    let all = "1 7 1 ShareLock f; 1 7 1 ExclusiveLock t; 4294967295 2 2 ShareLock t";
    assert_eq!(text(&mut one, shown), all);
    assert_eq!(outcome(&mut one, "SELECT pg_advisory_unlock_all()"), "ok");
    assert_eq!(waiting.end().0, "ok");
}

/// A transaction has one number, and no other transaction has it.
#[test]
fn a_transaction_has_a_number() {
    let server = Server::start();
    let (mut one, mut two) = (connect(&server), connect(&server));
    let number = |client: &mut Client| text(client, "txid_current()").parse::<i64>().unwrap();
    let first = number(&mut one);
    one.batch_execute("BEGIN").unwrap();
    let second = number(&mut one);
    assert_eq!(second, number(&mut one));
    let third = number(&mut two);
    assert_eq!(second, number(&mut one));
    one.batch_execute("COMMIT; BEGIN").unwrap();
    let fourth = number(&mut one);
    assert!(first < second && second < third && third < fourth);
}

/// LOCK TABLE holds the definitions, as every statement of a transaction does.
#[test]
fn a_locked_table_keeps_its_definition() {
    let server = Server::start();
    let (mut one, mut two) = (connect(&server), connect(&server));
    one.batch_execute("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    assert_eq!(outcome(&mut one, "LOCK TABLE t IN ACCESS SHARE MODE"), "25P01");
    for begin in ["BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"] {
        assert_eq!(outcome(&mut one, begin), "ok");
        assert_eq!(outcome(&mut one, "LOCK TABLE public.t IN ACCESS SHARE MODE"), "ok");
        let column = if begin == "BEGIN" { "a" } else { "b" };
        let waiting = Waiting::start(two, &format!("ALTER TABLE t ADD COLUMN {column} INT"));
        assert!(waiting.waits(), "{begin}");
        assert_eq!(outcome(&mut one, "COMMIT"), "ok");
        let (answer, client) = waiting.end();
        assert_eq!(answer, "ok");
        two = client;
    }
    assert_eq!(outcome(&mut one, "BEGIN"), "ok");
    assert_eq!(outcome(&mut one, "LOCK TABLE nothing IN ACCESS SHARE MODE"), "42P01");
    assert_eq!(outcome(&mut one, "ROLLBACK"), "ok");
    assert_eq!(outcome(&mut one, "SELECT 1; LOCK TABLE t IN ACCESS SHARE MODE"), "ok", "as part of a query");
}

/// In a mode that conflicts with writes or queries, the transaction runs alone.
#[test]
fn a_table_is_locked_against_writes_and_queries() {
    for server in Server::of_each_kind() {
        let (mut one, mut two) = (connect(&server), connect(&server));
        one.batch_execute("CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE log (id INT)").unwrap();
        for (place, mode) in ["", "IN SHARE MODE", "IN EXCLUSIVE MODE"].into_iter().enumerate() {
            assert_eq!(outcome(&mut one, &format!("LOCK TABLE t {mode}")), "25P01");
            assert_eq!(outcome(&mut one, &format!("BEGIN; LOCK TABLE log, t {mode}")), "ok");
            let waiting = Waiting::start(two, &format!("INSERT INTO t VALUES ({place})"));
            assert!(waiting.waits(), "{mode}");
            assert_eq!(outcome(&mut one, &format!("DELETE FROM t; INSERT INTO log VALUES ({place})")), "ok");
            assert_eq!(outcome(&mut one, "COMMIT"), "ok");
            let (answer, client) = waiting.end();
            assert_eq!(answer, "ok");
            two = client;
            assert_eq!(two.query_one("SELECT id FROM t", &[]).unwrap().get::<_, i32>(0), place as i32);
        }
        // Another transaction that changes or locks something waits before its begin.
        assert_eq!(outcome(&mut one, "BEGIN; LOCK t"), "ok");
        let waiting = Waiting::start(two, "LOCK TABLE log IN SHARE MODE; INSERT INTO log VALUES (7)");
        assert!(waiting.waits());
        assert_eq!(
            outcome(&mut one, "CREATE TABLE made (id INT); INSERT INTO made VALUES (1); COMMIT"),
            "ok"
        );
        let (answer, client) = waiting.end();
        assert_eq!(answer, "ok");
        two = client;
        // NOWAIT, and limits.
        assert_eq!(outcome(&mut two, "BEGIN; SELECT * FROM log"), "ok");
        assert_eq!(outcome(&mut one, "BEGIN; LOCK TABLE t NOWAIT"), "55P03");
        assert_eq!(outcome(&mut one, "ROLLBACK; SET lock_timeout = '30ms'; BEGIN; LOCK TABLE t"), "55P03");
        assert_eq!(outcome(&mut one, "ROLLBACK; BEGIN; SAVEPOINT a"), "ok");
        assert_eq!(outcome(&mut two, "ROLLBACK"), "ok");
        assert_eq!(outcome(&mut one, "LOCK TABLE t NOWAIT"), "ok");
        assert_eq!(outcome(&mut two, "SET lock_timeout = '30ms'; SELECT * FROM log"), "55P03");
        assert_eq!(outcome(&mut one, "ROLLBACK TO a"), "ok");
        assert_eq!(outcome(&mut two, "SELECT * FROM log"), "ok", "the lock goes back with the savepoint");
        // It goes with the transaction, however that ends.
        for end in ["SELECT 1 / 0", "ROLLBACK"] {
            assert_eq!(outcome(&mut one, "ROLLBACK; BEGIN; LOCK TABLE t"), "ok");
            outcome(&mut one, end);
            assert_eq!(outcome(&mut two, "SELECT * FROM log"), "ok", "{end}");
        }
        assert_eq!(outcome(&mut one, "ROLLBACK; BEGIN; LOCK TABLE t"), "ok");
        drop(one);
        two.batch_execute("SET lock_timeout = '5s'; INSERT INTO log VALUES (9)").unwrap();
    }
}

/// Rows are counted, and memory is that of the rows.
#[test]
fn tables_are_measured() {
    let server = Server::start();
    let mut one = connect(&server);
    one.batch_execute("CREATE TABLE t (id INT PRIMARY KEY, v TEXT); CREATE TABLE u (id INT PRIMARY KEY)")
        .unwrap();
    one.batch_execute("INSERT INTO t SELECT g, repeat('x', 100) FROM generate_series(1, 500) g").unwrap();
    one.batch_execute("DELETE FROM t WHERE id > 300").unwrap();
    let live = "SELECT string_agg(relname || n_live_tup, ' ' ORDER BY relname) FROM pg_stat_user_tables";
    assert_eq!(text(&mut one, live), "t300 u0");
    let bytes: i64 = text(&mut one, "pg_relation_size('t')").parse().unwrap();
    assert!((300 * 104..300 * 400).contains(&bytes), "{bytes}");
    assert_eq!(text(&mut one, "pg_table_size('u')"), "0");
    assert_eq!(text(&mut one, "pg_database_size('postgres') >= pg_relation_size('t')"), "true");
}

/// A handler of PL/pgSQL undoes the settings of its block: those that its own statements and inner blocks
/// have changed, inside and outside of a transaction.
#[test]
fn handlers_undo_the_settings_of_their_block() {
    let server = Server::start();
    let mut client = connect(&server);
    let body = "DECLARE seen TEXT := ''; BEGIN
        PERFORM set_config('app.own', 'a', local);
        BEGIN
            PERFORM set_config('app.own', 'b', local), set_config('TimeZone', 'Asia/Tokyo', local);
            BEGIN
                PERFORM set_config('app.own', 'c', local);
                PERFORM 1 / 0;
            EXCEPTION WHEN division_by_zero THEN
                seen := seen || current_setting('app.own');
            END;
            BEGIN
                PERFORM set_config('app.own', 'd', local);
            EXCEPTION WHEN OTHERS THEN
                NULL;
            END;
            seen := seen || current_setting('app.own') || current_setting('TimeZone');
            RAISE EXCEPTION 'undone';
        EXCEPTION WHEN raise_exception THEN
            seen := seen || current_setting('app.own') || timestamptz '2024-01-01 00:00Z'::text;
        END;
        RETURN seen; END";
    let function =
        format!("CREATE FUNCTION undoes(local BOOLEAN) RETURNS TEXT LANGUAGE plpgsql AS $$ {body} $$");
    client.batch_execute(&function).unwrap();
    let seen = "bdAsia/Tokyoa2024-01-01 00:00:00+00";
    for local in ["true", "false"] {
        for (begin, end) in [("", ""), ("BEGIN", "COMMIT")] {
            client.batch_execute(begin).unwrap();
            assert_eq!(text(&mut client, &format!("undoes({local})")), seen);
            client.batch_execute(end).unwrap();
            assert_eq!(text(&mut client, "current_setting('TimeZone')"), "UTC");
        }
    }
    assert_eq!(text(&mut client, "current_setting('app.own')"), "a");
}
