//! Temporary tables of the clients of a server, which share its sessions.

use crate::clients::Server;
use postgres::Client;
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

/// Waits until there are some number of temporary relations.
fn await_relations(client: &mut Client, expected: i64) {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let query = "SELECT count(*) FROM pg_class WHERE relpersistence = 't'";
        let count: i64 = client.query_one(query, &[]).unwrap().get(0);
        if count == expected {
            return;
        }
        assert!(Instant::now() < until, "{count} temporary relations, not {expected}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn each_client_has_temporary_tables_until_it_leaves() {
    let server = Server::start();
    let (mut first, mut second, mut admin) = (server.connect(), server.connect(), server.connect());
    first.batch_execute("CREATE TEMP TABLE tmp (a INT)").unwrap();
    first.batch_execute("INSERT INTO tmp VALUES (1)").unwrap();
    second.batch_execute("CREATE TEMP TABLE tmp (b TEXT)").unwrap();
    second.execute("INSERT INTO tmp VALUES ($1)", &[&"x"]).unwrap();
    let a: i32 = first.query_one("SELECT a FROM tmp", &[]).unwrap().get(0);
    let b: String = second.query_one("SELECT b FROM tmp", &[]).unwrap().get(0);
    assert_eq!((a, b.as_str()), (1, "x"));
    assert!(admin.simple_query("SELECT * FROM tmp").is_err());
    await_relations(&mut admin, 2);
    first.close().unwrap();
    await_relations(&mut admin, 1);
    // Another connection ends this one.
    let pid: i32 = second.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0);
    admin.execute("SELECT pg_terminate_backend($1)", &[&pid]).unwrap();
    await_relations(&mut admin, 0);
}

#[test]
fn a_transaction_that_its_client_leaves_keeps_no_temporary_table() {
    let server = Server::start();
    let (mut client, mut admin) = (server.connect(), server.connect());
    client.batch_execute("CREATE TEMP TABLE tmp (a INT)").unwrap();
    client.batch_execute("BEGIN").unwrap();
    client.batch_execute("INSERT INTO tmp VALUES (1)").unwrap();
    client.batch_execute("CREATE TEMP TABLE more (a INT)").unwrap();
    drop(client);
    await_relations(&mut admin, 0);
}

#[test]
fn discard_drops_the_temporary_tables_of_the_client() {
    let server = Server::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    for discard in ["DISCARD TEMP", "DISCARD ALL", "DISCARD TEMPORARY"] {
        client.batch_execute("CREATE TEMP TABLE tmp (a INT)").unwrap();
        other.batch_execute("CREATE TEMP TABLE IF NOT EXISTS tmp (a INT)").unwrap();
        client.batch_execute(discard).unwrap();
        await_relations(&mut client, 1);
        assert!(client.simple_query("SELECT * FROM tmp").is_err());
        other.simple_query("SELECT * FROM tmp").unwrap();
    }
    client.batch_execute("DISCARD PLANS; DISCARD SEQUENCES").unwrap();
    client.batch_execute("BEGIN").unwrap();
    let error = client.batch_execute("DISCARD ALL").unwrap_err();
    assert_eq!(error.code().unwrap().code(), "25001");
}

#[test]
fn rows_are_copied_into_and_out_of_temporary_tables() {
    let server = Server::start();
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE t (a INT, b TEXT)").unwrap();
    client.batch_execute("CREATE TEMP TABLE t (a INT, b TEXT)").unwrap();
    let mut copy = client.copy_in("COPY t FROM STDIN").unwrap();
    copy.write_all(b"1\tx\n2\ty\n").unwrap();
    assert_eq!(copy.finish().unwrap(), 2);
    let mut text = String::new();
    client
        .copy_out("COPY (SELECT a, b FROM pg_temp.t ORDER BY a) TO STDOUT")
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "1\tx\n2\ty\n");
    let count: i64 = client.query_one("SELECT count(*) FROM public.t", &[]).unwrap().get(0);
    assert_eq!(count, 0);
    // Rows of ON COMMIT DELETE ROWS end with the transaction.
    client.batch_execute("CREATE TEMP TABLE d (a INT) ON COMMIT DELETE ROWS").unwrap();
    client.batch_execute("BEGIN").unwrap();
    let mut copy = client.copy_in("COPY d FROM STDIN").unwrap();
    copy.write_all(b"1\n2\n").unwrap();
    copy.finish().unwrap();
    let count: i64 = client.query_one("SELECT count(*) FROM d", &[]).unwrap().get(0);
    assert_eq!(count, 2);
    client.batch_execute("COMMIT").unwrap();
    let count: i64 = client.query_one("SELECT count(*) FROM d", &[]).unwrap().get(0);
    assert_eq!(count, 0);
    let mut copy = client.copy_in("COPY d FROM STDIN").unwrap();
    copy.write_all(b"1\n2\n").unwrap();
    copy.finish().unwrap();
    let count: i64 = client.query_one("SELECT count(*) FROM d", &[]).unwrap().get(0);
    assert_eq!(count, 0);
}

/// ON COMMIT DELETE ROWS follows a statement that has committed, in a transaction of its own. Whatever
/// becomes of that beside other sessions' definitions, the statement has run once, and its client is told so.
#[test]
fn a_statement_before_on_commit_runs_once() {
    let server = Server::start();
    let mut maker = server.connect();
    maker
        .batch_execute("CREATE TABLE t (k INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 0), (2, 0)")
        .unwrap();
    maker
        .batch_execute(
            "CREATE PROCEDURE inc(x INT) LANGUAGE plpgsql AS $$ BEGIN
        UPDATE t SET v = v + 1 WHERE k = x; INSERT INTO z VALUES (x); NOTIFY counted; END $$",
        )
        .unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let order = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        let (server, stop) = (&server, &stop);
        let clients = [1, 2].map(|key| {
            scope.spawn(move || {
                let mut client = server.connect();
                client.batch_execute("LISTEN counted").unwrap();
                client.batch_execute("CREATE TEMP TABLE z (a INT) ON COMMIT DELETE ROWS").unwrap();
                let mut count = 0;
                while !stop.load(order) {
                    client.batch_execute(&format!("CALL inc({key})")).unwrap();
                    let returned = client.query_one("INSERT INTO z VALUES (1) RETURNING a + 1", &[]).unwrap();
                    assert_eq!(returned.get::<_, i32>(0), 2);
                    let left: i64 = client.query_one("SELECT count(*) FROM z", &[]).unwrap().get(0);
                    assert_eq!(left, 0);
                    count += 1;
                }
                (key, count)
            })
        });
        for _ in 0..60 {
            maker.batch_execute("CREATE TABLE x (a INT)").unwrap();
            maker.batch_execute("DROP TABLE x").unwrap();
        }
        stop.store(true, order);
        for client in clients {
            let (key, count): (i32, i32) = client.join().unwrap();
            let row = server.connect().query_one("SELECT v FROM t WHERE k = $1", &[&key]).unwrap();
            assert_eq!(row.get::<_, i32>(0), count);
        }
    });
}
