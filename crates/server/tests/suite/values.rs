//! Values, notices and the names in errors, as a client has them.

use crate::clients::Server;
use postgres::types::Type;
use postgres::{Client, NoTls, SimpleQueryMessage};
use std::sync::{Arc, Mutex};

/// A client, and the notices that it is sent.
fn listening(server: &Server, options: &str) -> (Client, Arc<Mutex<Vec<String>>>) {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let address = format!("host=127.0.0.1 port={} user=test dbname=test", server.port);
    let mut config: postgres::Config = address.parse().unwrap();
    let own = Arc::clone(&heard);
    config.application_name(options);
    config.notice_callback(move |notice| own.lock().unwrap().push(notice.message().into()));
    (config.connect(NoTls).unwrap(), heard)
}

#[test]
fn a_notice_is_sent_once() {
    for server in Server::of_each_kind() {
        let (mut client, heard) = listening(&server, "notices");
        client.batch_execute("DO $$ BEGIN RAISE NOTICE 'once'; END $$").unwrap();
        client.batch_execute("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
        client
            .batch_execute("CREATE PROCEDURE p() LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'called'; END $$")
            .unwrap();
        client.execute("INSERT INTO t VALUES ($1)", &[&1]).unwrap();
        client.batch_execute("BEGIN; CREATE INDEX ON t (id); COMMIT").unwrap();
        client.batch_execute("CALL p()").unwrap();
        assert_eq!(*heard.lock().unwrap(), ["once", "called"]);
    }
}

#[test]
fn blanks_at_the_end_of_a_char_parameter_do_not_count() {
    let server = Server::start();
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE t (id INT PRIMARY KEY, c CHAR(5))").unwrap();
    let insert = client.prepare("INSERT INTO t VALUES ($1, $2)").unwrap();
    assert_eq!(insert.params(), [Type::INT4, Type::BPCHAR]);
    client.execute(&insert, &[&1, &"ab"]).unwrap();
    client.execute(&insert, &[&2, &"ab         "]).unwrap();
    assert_eq!(client.execute(&insert, &[&3, &"abcdef"]).unwrap_err().code().unwrap().code(), "22001");
    for text in ["ab", "ab ", "ab          "] {
        let row = client.query_one("SELECT count(*), min(c) FROM t WHERE c = $1", &[&text]).unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, &str>(1)), (2, "ab   "), "{text:?}");
    }
    client.batch_execute("PREPARE own AS SELECT id FROM t WHERE c = $1").unwrap();
    let rows = client.simple_query("EXECUTE own('ab ')").unwrap();
    let rows = rows.iter().filter(|message| matches!(message, SimpleQueryMessage::Row(_)));
    assert_eq!(rows.count(), 2);
}

#[test]
fn arrays_of_several_dimensions_are_refused() {
    let server = Server::start();
    let mut client = server.connect();
    for sql in [
        "SELECT ARRAY[[1, 2], [3, 4]]",
        "SELECT ARRAY[ARRAY[1], ARRAY[2]]",
        "SELECT ARRAY[[1, 2], [3, 4]]::int[]",
        "SELECT '{{1,2},{3,4}}'::int[]",
        "SELECT '{{1,2},{3,4}}'::text[]",
        "SELECT '[0:1]={1,2}'::int[]",
        "SELECT array_agg(a) FROM (VALUES (ARRAY[1]), (ARRAY[2])) AS t(a)",
        "SELECT ARRAY(SELECT ARRAY[1])",
    ] {
        let error = client.simple_query(sql).unwrap_err();
        assert_eq!(error.code().map(|code| code.code()), Some("0A000"), "{sql}");
    }
}

#[test]
fn errors_name_what_they_are_about() {
    let server = Server::start();
    let mut client = server.connect();
    client
        .batch_execute(
            "CREATE TABLE p (id INT PRIMARY KEY, n INT NOT NULL CHECK (n > 0), u INT CONSTRAINT one UNIQUE);
             CREATE TABLE c (p INT CONSTRAINT to_p REFERENCES p);
             INSERT INTO p VALUES (1, 1, 1); INSERT INTO c VALUES (1)",
        )
        .unwrap();
    for (sql, table, column, constraint) in [
        ("INSERT INTO p VALUES (1, 1, 2)", "p", None, Some("p_pkey")),
        ("INSERT INTO p VALUES (2, 1, 1)", "p", None, Some("one")),
        ("INSERT INTO p VALUES (2, 0, 2)", "p", None, Some("p_n_check")),
        ("INSERT INTO p VALUES (2, NULL, 2)", "p", Some("n"), None),
        ("INSERT INTO c VALUES (7)", "c", None, Some("to_p")),
        ("DELETE FROM p", "c", None, Some("to_p")),
    ] {
        let error = client.batch_execute(sql).unwrap_err();
        let error = error.as_db_error().unwrap();
        let told = (error.schema(), error.table(), error.column(), error.constraint());
        assert_eq!(told, (Some("public"), Some(table), column, constraint), "{sql}");
    }
}
