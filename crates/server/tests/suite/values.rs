//! Values, notices and the names in errors, as a client has them.

use crate::clients::Server;
use postgres::types::Type;
use postgres::{Client, NoTls, SimpleQueryMessage};
use reprise::{Compile, Config};
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

/// The fields of an error.
#[derive(PartialEq, Debug)]
struct Told {
    detail: Option<String>,
    names: [Option<String>; 4],
}

fn told(client: &mut Client, sql: &str) -> Told {
    let error = client.batch_execute(sql).unwrap_err();
    let error = error.as_db_error().unwrap();
    let names = [error.schema(), error.table(), error.column(), error.constraint()];
    Told { detail: error.detail().map(str::to_owned), names: names.map(|name| name.map(str::to_owned)) }
}

fn expected(detail: &str, table: &str, column: Option<&str>, constraint: Option<&str>) -> Told {
    let names = [Some("public"), Some(table), column, constraint].map(|name| name.map(str::to_owned));
    Told { detail: (!detail.is_empty()).then(|| detail.into()), names }
}

const CONSTRAINTS: &str = "
CREATE TABLE p (id INT PRIMARY KEY, n INT NOT NULL CHECK (n > 0), u INT CONSTRAINT one UNIQUE, s TEXT,
    at TIMESTAMPTZ, ok BOOLEAN, CONSTRAINT pair UNIQUE (s, ok));
CREATE TABLE c (p INT CONSTRAINT to_p REFERENCES p, k INT);
CREATE PROCEDURE put(p_id INT, p_n INT) LANGUAGE plpgsql AS $$
  BEGIN INSERT INTO p (id, n, s) VALUES (p_id, p_n, 'put'); END $$;
CREATE PROCEDURE change(p_id INT, p_n INT) LANGUAGE plpgsql AS $$
  BEGIN UPDATE p SET n = p_n WHERE id = p_id; END $$;
INSERT INTO p VALUES (1, 1, 1, 'a', '2024-02-29 12:00+00', true), (5, 1, 5, 'b', NULL, NULL);
INSERT INTO c VALUES (1, 3), (1, 3);
";

#[test]
fn errors_name_a_constraint_without_its_schema() {
    let server = Server::start();
    let mut client = server.connect();
    client.batch_execute("CREATE SCHEMA zq; CREATE TABLE zq.y (id INT PRIMARY KEY)").unwrap();
    client.batch_execute("INSERT INTO zq.y VALUES (1)").unwrap();
    let error = client.batch_execute("INSERT INTO zq.y VALUES (1)").unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!((error.schema(), error.table()), (Some("zq"), Some("y")));
    assert_eq!(error.constraint(), Some("y_pkey"));
    assert_eq!(error.message(), "duplicate key value violates unique constraint \"y_pkey\"");
}

#[test]
fn errors_name_what_they_are_about() {
    let first = "1, a, 2024-02-29 12:00:00+00, t).";
    for compile in [Compile::Never, Compile::AtOnce] {
        let mut config = Config::default();
        config.compile = compile;
        let server = Server::start_with(config);
        let mut client = server.connect();
        client.batch_execute(CONSTRAINTS).unwrap();
        let failing = |row: &str| format!("Failing row contains ({row}");
        for (sql, detail, table, column, constraint) in [
            ("INSERT INTO p VALUES (1, 1, 2)", "Key (id)=(1) already exists.".into(), "p", None, "p_pkey"),
            ("INSERT INTO p VALUES (2, 1, 1)", "Key (u)=(1) already exists.".into(), "p", None, "one"),
            (
                "INSERT INTO p VALUES (2, 1, 2, 'a', NULL, true)",
                "Key (s, ok)=(a, t) already exists.".into(),
                "p",
                None,
                "pair",
            ),
            (
                "INSERT INTO p VALUES (2, 0, 2)",
                failing("2, 0, 2, null, null, null)."),
                "p",
                None,
                "p_n_check",
            ),
            (
                "INSERT INTO p (id, u) VALUES (2, 7)",
                failing("2, null, 7, null, null, null)."),
                "p",
                Some("n"),
                "",
            ),
            ("UPDATE p SET n = NULL WHERE id = 1", failing(&format!("1, null, {first}")), "p", Some("n"), ""),
            ("UPDATE p SET n = -1 WHERE id = 1", failing(&format!("1, -1, {first}")), "p", None, "p_n_check"),
            ("CALL put(1, 1)", "Key (id)=(1) already exists.".into(), "p", None, "p_pkey"),
            ("CALL put(2, NULL)", failing("2, null, null, put, null, null)."), "p", Some("n"), ""),
            ("CALL put(2, 0)", failing("2, 0, null, put, null, null)."), "p", None, "p_n_check"),
            ("CALL change(1, NULL)", failing(&format!("1, null, {first}")), "p", Some("n"), ""),
            ("CALL change(1, 0)", failing(&format!("1, 0, {first}")), "p", None, "p_n_check"),
            (
                "INSERT INTO c VALUES (7)",
                "Key (p)=(7) is not present in table \"p\".".into(),
                "c",
                None,
                "to_p",
            ),
            (
                "DELETE FROM p WHERE id = 1",
                "Key (id)=(1) is still referenced from table \"c\".".into(),
                "c",
                None,
                "to_p",
            ),
            ("ALTER TABLE p ALTER at SET NOT NULL", String::new(), "p", Some("at"), ""),
            ("ALTER TABLE p ADD CONSTRAINT late CHECK (id > 1)", String::new(), "p", None, "late"),
            ("CREATE UNIQUE INDEX k ON c (k)", "Key (k)=(3) is duplicated.".into(), "c", None, "k"),
        ] {
            let constraint = Some(constraint).filter(|name| !name.is_empty());
            assert_eq!(told(&mut client, sql), expected(&detail, table, column, constraint), "{sql}");
        }
    }
}
