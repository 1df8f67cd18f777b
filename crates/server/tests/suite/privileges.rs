//! What clients of several roles may do where the server asks, not a plan.

use crate::clients::Server;
use crate::waiting::outcome;
use postgres::{Client, NoTls};

fn try_connect(server: &Server, user: &str) -> Result<Client, postgres::Error> {
    let address = format!("host=127.0.0.1 port={} user={user} dbname=test connect_timeout=5", server.port);
    Client::connect(&address, NoTls)
}

fn connect(server: &Server, user: &str) -> Client {
    try_connect(server, user).unwrap()
}

#[test]
fn a_role_needs_connect_to_log_in() {
    let server = Server::start();
    let mut boss = connect(&server, "postgres");
    let roles =
        "CREATE USER ada; CREATE USER eve SUPERUSER; CREATE ROLE guests; CREATE USER bob IN ROLE guests";
    boss.batch_execute(roles).unwrap();
    let mut early = connect(&server, "ada");
    boss.batch_execute("REVOKE CONNECT ON DATABASE postgres FROM PUBLIC").unwrap();
    let refused = try_connect(&server, "ada").err().unwrap();
    let refused = refused.as_db_error().unwrap();
    assert_eq!((refused.severity(), refused.code().code()), ("FATAL", "42501"));
    assert_eq!(refused.message(), "permission denied for database \"postgres\"");
    assert_eq!(refused.detail(), Some("User does not have CONNECT privilege."));
    assert_eq!(outcome(&mut early, "SELECT 1"), "ok", "a session that is there goes on");
    assert_eq!(outcome(&mut connect(&server, "eve"), "SELECT 1"), "ok");
    boss.batch_execute("GRANT CONNECT ON DATABASE postgres TO guests").unwrap();
    assert_eq!(outcome(&mut connect(&server, "bob"), "SELECT 1"), "ok");
    assert!(try_connect(&server, "ada").is_err());
    boss.batch_execute("ALTER ROLE bob NOINHERIT").unwrap();
    assert!(try_connect(&server, "bob").is_err());
    boss.batch_execute("GRANT CONNECT ON DATABASE postgres TO PUBLIC").unwrap();
    assert_eq!(outcome(&mut connect(&server, "ada"), "SELECT 1"), "ok");
}

#[test]
fn statements_that_only_the_server_runs_ask_too() {
    let server = Server::start();
    let mut boss = connect(&server, "postgres");
    let script =
        "CREATE USER ada; CREATE TABLE t (id INT PRIMARY KEY, a INT); CREATE TABLE s (id INT PRIMARY KEY);
        GRANT SELECT (id) ON t TO ada";
    boss.batch_execute(script).unwrap();
    let mut ada = connect(&server, "ada");
    for (text, expected) in [
        ("EXPLAIN SELECT id FROM t", "ok"),
        ("EXPLAIN SELECT a FROM t", "42501"),
        ("EXPLAIN ANALYZE SELECT a FROM t", "42501"),
        ("EXPLAIN INSERT INTO t VALUES (1, 2)", "42501"),
        ("EXPLAIN (FORMAT json) DELETE FROM t", "42501"),
        ("COPY t TO STDOUT", "42501"),
        ("COPY (SELECT a FROM t) TO STDOUT", "42501"),
        ("COPY t FROM STDIN", "42501"),
        ("DECLARE c CURSOR WITH HOLD FOR SELECT a FROM t", "42501"),
        ("PREPARE p AS SELECT a FROM t", "ok"),
        ("EXECUTE p", "42501"),
        ("CHECKPOINT", "42501"),
        ("CREATE EXTENSION pgcrypto", "42501"),
        ("CREATE EXTENSION IF NOT EXISTS plpgsql", "ok"),
        ("DROP EXTENSION plpgsql", "42501"),
        ("COMMENT ON EXTENSION plpgsql IS 'x'", "42501"),
        ("VACUUM nothing", "42P01"),
        ("VACUUM pg_class", "ok"),
        ("ANALYZE s", "ok"),
    ] {
        assert_eq!(outcome(&mut ada, text), expected, "{text}");
    }
    boss.batch_execute("GRANT CREATE ON DATABASE postgres TO ada").unwrap();
    assert_eq!(outcome(&mut ada, "CREATE EXTENSION IF NOT EXISTS pgcrypto"), "ok");
    assert_eq!(outcome(&mut ada, "CREATE SCHEMA made"), "ok");
    assert_eq!(outcome(&mut ada, "BEGIN; LOCK TABLE t IN ACCESS SHARE MODE; COMMIT"), "42501");
}

#[test]
fn maintenance_skips_the_tables_of_other_roles() {
    let server = Server::start();
    connect(&server, "postgres")
        .batch_execute("CREATE USER ada; CREATE TABLE t (id INT PRIMARY KEY)")
        .unwrap();
    let (sender, told) = std::sync::mpsc::channel();
    let mut config = postgres::Config::new();
    config.host("127.0.0.1").port(server.port).user("ada").dbname("test");
    config.notice_callback(move |notice| sender.send(notice.message().to_owned()).unwrap());
    let mut ada = config.connect(NoTls).unwrap();
    for verb in ["vacuum", "analyze"] {
        ada.batch_execute(&format!("{verb} t")).unwrap();
        let warning = format!("skipping \"t\" --- only table or database owner can {verb} it");
        assert_eq!(told.try_recv().unwrap(), warning);
    }
}

/// The detail of an error shows a key to roles that may read it.
#[test]
fn errors_show_no_hidden_keys() {
    let server = Server::start();
    let mut boss = connect(&server, "postgres");
    let script =
        "CREATE USER ada; CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL CHECK (a > 0), b INT UNIQUE);
        CREATE TABLE s (id INT PRIMARY KEY, p INT REFERENCES t DEFERRABLE);
        INSERT INTO t VALUES (1, 1, 1); INSERT INTO s VALUES (1, 1); GRANT INSERT, DELETE ON t, s TO ada";
    boss.batch_execute(script).unwrap();
    let mut ada = connect(&server, "ada");
    let unique = ("INSERT INTO t VALUES (1, 2, 3)", "Key (id)=(1) already exists.", None);
    let other = ("INSERT INTO t VALUES (2, 2, 1)", "Key (b)=(1) already exists.", None);
    let key = "Key is not present in table \"t\".";
    let missing = ("INSERT INTO s VALUES (2, 77)", "Key (p)=(77) is not present in table \"t\".", Some(key));
    let key = "Key is still referenced from table \"s\".";
    let used = ("DELETE FROM t", "Key (id)=(1) is still referenced from table \"s\".", Some(key));
    let null = ("INSERT INTO t VALUES (3, NULL, 1)", "Failing row contains (3, null, 1).", None);
    let deferred = "BEGIN; SET CONSTRAINTS ALL DEFERRED; INSERT INTO s VALUES (3, 8); COMMIT";
    let deferred = (deferred, "Key (p)=(8) is not present in table \"t\".", missing.2);
    let mut check = |may_read: bool| {
        for (text, shown, hidden) in [unique, other, missing, used, null, deferred] {
            let error = ada.batch_execute(text).unwrap_err();
            let detail = error.as_db_error().unwrap().detail();
            assert_eq!(detail, if may_read { Some(shown) } else { hidden }, "{text}");
        }
    };
    check(false);
    boss.batch_execute("GRANT SELECT (id) ON s TO ada").unwrap();
    check(false);
    boss.batch_execute("GRANT SELECT ON t TO ada; GRANT SELECT (p) ON s TO ada").unwrap();
    check(true);
}
