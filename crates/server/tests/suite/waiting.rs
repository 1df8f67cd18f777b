//! Clients that wait for each other: no statement of one keeps another one from being served, and each wait
//! has an end.

use crate::clients::Server;
use postgres::{Client, NoTls};
use reprise::Scheme;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// An answer that needs no other client comes within this time.
const SOON: Duration = Duration::from_secs(5);
/// A statement that has not been answered after this time waits.
const WAITS: Duration = Duration::from_millis(60);

/// A client on a thread of its own, so that its statements can wait.
pub struct Waiting {
    client: std::thread::JoinHandle<Client>,
    answer: Receiver<String>,
}

pub fn outcome(client: &mut Client, text: &str) -> String {
    match client.batch_execute(text) {
        Ok(()) => "ok".into(),
        Err(error) => {
            error.as_db_error().map_or_else(|| error.to_string(), |error| error.code().code().into())
        }
    }
}

impl Waiting {
    pub fn start(mut client: Client, text: &str) -> Self {
        let (send, answer) = channel();
        let text = text.to_owned();
        let client = std::thread::spawn(move || {
            let _ = send.send(outcome(&mut client, &text));
            client
        });
        Self { client, answer }
    }

    /// Whether the statement waits.
    pub fn waits(&self) -> bool {
        self.answer.recv_timeout(WAITS) == Err(RecvTimeoutError::Timeout)
    }

    pub fn end(self) -> (String, Client) {
        let answer = self.answer.recv_timeout(SOON).unwrap();
        (answer, self.client.join().unwrap())
    }
}

const TABLE: &str =
    "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL); INSERT INTO t VALUES (1, 0), (2, 0);
CREATE PROCEDURE put(p INT, w INT) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (p, w); END $$;";

/// Servers under OCC, under 2PL, and with batches of calls.
fn servers() -> impl Iterator<Item = (Scheme, Server)> {
    let schemes = [Scheme::Optimistic, Scheme::TwoPhase, Scheme::DependencyGraph];
    schemes.into_iter().map(|scheme| (scheme, Server::under(scheme)))
}

pub fn connect(server: &Server) -> Client {
    let address = format!("host=127.0.0.1 port={} user=test dbname=test connect_timeout=5", server.port);
    Client::connect(&address, NoTls).unwrap()
}

/// Two clients over one key: more than the server has threads, so that none is left if waits hold them.
#[test]
fn waiting_statements_hold_no_thread() {
    for server in Server::of_each_kind() {
        let mut first = connect(&server);
        first.batch_execute(TABLE).unwrap();
        for (holds, wants) in [
            ("INSERT INTO t VALUES (5, 5)", "INSERT INTO t VALUES (5, 6)"),
            (
                "INSERT INTO t VALUES (5, 5)",
                "INSERT INTO t VALUES (5, 6) ON CONFLICT (id) DO UPDATE SET v = 9",
            ),
            ("INSERT INTO t VALUES (5, 5)", "CALL put(5, 7)"),
            ("UPDATE t SET v = 1 WHERE id = 1", "UPDATE t SET v = 2 WHERE id = 1"),
            ("UPDATE t SET v = 1 WHERE id = 1", "BEGIN; UPDATE t SET v = 2 WHERE id = 1; COMMIT"),
            ("SELECT v FROM t WHERE id = 1 FOR UPDATE", "DELETE FROM t WHERE id = 1"),
            (
                "DELETE FROM t WHERE id = 1",
                "PREPARE p (INT) AS UPDATE t SET v = $1 WHERE id = 1; EXECUTE p(4); DEALLOCATE p",
            ),
        ] {
            for ends in ["COMMIT", "ROLLBACK"] {
                first.batch_execute("BEGIN").unwrap();
                first.batch_execute(holds).unwrap();
                let waiting: Vec<_> = (0..40).map(|_| Waiting::start(connect(&server), wants)).collect();
                assert!(waiting.iter().take(2).all(Waiting::waits), "{holds} | {wants}");
                // The server greets a new client, and answers it.
                assert_eq!(outcome(&mut connect(&server), "SELECT count(*) FROM t"), "ok");
                assert_eq!(outcome(&mut first, ends), "ok", "{holds} | {wants}");
                for waiting in waiting {
                    let (answer, _) = waiting.end();
                    assert!(
                        ["ok", "23505"].contains(&answer.as_str()),
                        "{holds} | {wants} | {ends}: {answer}"
                    );
                }
                first.batch_execute("DELETE FROM t; INSERT INTO t VALUES (1, 0), (2, 0)").unwrap();
            }
        }
    }
}

#[test]
fn a_wait_ends_by_timeouts_and_cancels() {
    for (scheme, server) in servers() {
        let mut first = connect(&server);
        first.batch_execute(TABLE).unwrap();
        first.batch_execute("BEGIN; INSERT INTO t VALUES (5, 5); UPDATE t SET v = 1 WHERE id = 1").unwrap();
        for wants in ["INSERT INTO t VALUES (5, 6)", "UPDATE t SET v = 2 WHERE id = 1", "CALL put(5, 7)"] {
            for begins in ["", "BEGIN"] {
                let mut second = connect(&server);
                for (setting, sqlstate) in [("lock_timeout", "55P03"), ("statement_timeout", "57014")] {
                    second.batch_execute(&format!("SET {setting} = '70ms'; {begins}")).unwrap();
                    assert_eq!(outcome(&mut second, wants), sqlstate, "{scheme}: {wants}, {setting}");
                    second.batch_execute(&format!("ROLLBACK; SET {setting} = 0; {begins}")).unwrap();
                    let cancel = second.cancel_token();
                    let waiting = Waiting::start(second, wants);
                    assert!(waiting.waits(), "{wants}");
                    cancel.cancel_query(NoTls).unwrap();
                    let (answer, client) = waiting.end();
                    assert_eq!(answer, "57014", "{scheme}: {wants}");
                    second = client;
                    second.batch_execute("ROLLBACK").unwrap();
                }
            }
        }
        first.batch_execute("COMMIT").unwrap();
        assert_eq!(outcome(&mut first, "UPDATE t SET v = 3 WHERE id = 1"), "ok");
    }
}

#[test]
fn a_deadlock_is_found() {
    for (scheme, server) in servers() {
        let (mut first, mut second) = (connect(&server), connect(&server));
        first.batch_execute(TABLE).unwrap();
        first.batch_execute("BEGIN; UPDATE t SET v = v + 1 WHERE id = 1").unwrap();
        second.batch_execute("BEGIN; UPDATE t SET v = v + 1 WHERE id = 2").unwrap();
        let waiting = Waiting::start(first, "UPDATE t SET v = v + 1 WHERE id = 2");
        assert!(waiting.waits());
        assert_eq!(outcome(&mut second, "UPDATE t SET v = v + 1 WHERE id = 1"), "40P01", "{scheme}");
        let (answer, mut first) = waiting.end();
        assert_eq!(answer, "ok");
        assert_eq!(outcome(&mut first, "COMMIT"), "ok");
        assert_eq!(outcome(&mut second, "ROLLBACK"), "ok");
    }
}

/// A client that goes while it waits, or while it is waited for, is in the way of no other.
#[test]
fn clients_that_go_hold_nothing() {
    for (scheme, server) in servers() {
        let mut first = connect(&server);
        first.batch_execute(TABLE).unwrap();
        let mut holder = connect(&server);
        holder.batch_execute("BEGIN; UPDATE t SET v = 1 WHERE id = 1; INSERT INTO t VALUES (5, 5)").unwrap();
        let waiting = [
            Waiting::start(connect(&server), "UPDATE t SET v = 2 WHERE id = 1"),
            Waiting::start(connect(&server), "INSERT INTO t VALUES (5, 6)"),
        ];
        assert!(waiting.iter().all(Waiting::waits));
        drop(holder);
        for waiting in waiting {
            assert_eq!(waiting.end().0, "ok", "{scheme}");
        }
    }
}

/// Settings of PGOPTIONS count, a wrong one is told.
#[test]
fn settings_of_the_startup_message_count() {
    let server = Server::start();
    connect(&server).batch_execute(TABLE).unwrap();
    let options = "-c default_transaction_read_only=on -c lock_timeout=123";
    let address = format!("host=127.0.0.1 port={} user=test dbname=test", server.port);
    let mut config: postgres::Config = address.parse().unwrap();
    let mut client = config.options(options).connect(NoTls).unwrap();
    assert_eq!(outcome(&mut client, "INSERT INTO t VALUES (99, 1)"), "25006");
    let shown: String = client.query_one("SHOW lock_timeout", &[]).unwrap().get(0);
    assert_eq!(shown, "123ms");
}

/// Modes of transactions are enforced, and shown.
#[test]
fn read_only_is_enforced() {
    for server in Server::of_each_kind() {
        let mut client = connect(&server);
        client.batch_execute(TABLE).unwrap();
        let shown = |client: &mut Client| {
            let rows = client.simple_query("SHOW transaction_read_only").unwrap();
            rows.iter().find_map(|own| match own {
                postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            })
        };
        for begins in [
            "BEGIN READ ONLY",
            "START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
            "BEGIN; SET TRANSACTION READ ONLY",
            "BEGIN; SET transaction_read_only = on",
            "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY; BEGIN",
            "SET default_transaction_read_only = yes; BEGIN",
            "SET default_transaction_read_only TO 'true'",
            "BEGIN READ ONLY; COMMIT AND CHAIN",
            "BEGIN READ ONLY; ROLLBACK AND CHAIN",
            "BEGIN READ ONLY; SELECT 1 / 0; ROLLBACK AND CHAIN",
            "BEGIN READ ONLY; COMMIT AND CHAIN; SELECT 1 / 0; COMMIT AND CHAIN",
        ] {
            for write in
                ["INSERT INTO t VALUES (9, 9)", "CALL put(9, 9)", "DROP TABLE t", "COPY t FROM STDIN"]
            {
                // One by one: a text of several statements begins its transaction before the first.
                for text in begins.split("; ") {
                    let expected = if text == "SELECT 1 / 0" { "22012" } else { "ok" };
                    assert_eq!(outcome(&mut client, text), expected, "{begins}: {text}");
                }
                assert_eq!(shown(&mut client).as_deref(), Some("on"), "{begins}");
                assert_eq!(outcome(&mut client, "SELECT * FROM t"), "ok", "{begins}");
                assert_eq!(outcome(&mut client, write), "25006", "{begins}: {write}");
                client.batch_execute("ROLLBACK; SET default_transaction_read_only = off").unwrap();
            }
        }
        assert_eq!(outcome(&mut client, "SET default_transaction_read_only = maybe"), "22023");
        assert_eq!(outcome(&mut client, "COMMIT AND CHAIN"), "25P01");
        // What follows AND CHAIN is a transaction.
        client
            .batch_execute(
                "BEGIN; INSERT INTO t VALUES (7, 7); COMMIT AND CHAIN; INSERT INTO t VALUES (8, 8)",
            )
            .unwrap();
        client.batch_execute("ROLLBACK AND CHAIN; INSERT INTO t VALUES (9, 9); ROLLBACK").unwrap();
        let row = client.query_one("SELECT array_agg(id ORDER BY id) FROM t", &[]).unwrap();
        assert_eq!(row.get::<_, Vec<i32>>(0), [1, 2, 7]);
        client.batch_execute("BEGIN; SELECT 1").unwrap();
        assert_eq!(outcome(&mut client, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"), "25001");
    }
}
