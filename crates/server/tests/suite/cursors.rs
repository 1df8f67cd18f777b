//! Cursors of clients, and the statements that COPY and EXPLAIN hold, as PostgreSQL 15 answers them.

use crate::clients::Server;
use crate::wire::Wire;
use postgres::types::Type;

const TABLE: &str = "CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3)";

/// Runs statements of one connection. Each answer has the expected part.
fn check(cases: &[(&'static str, &str)]) {
    let server = Server::start();
    let mut wire = Wire::connect(server.port);
    wire.run(TABLE);
    for (text, expected) in cases {
        let said = wire.run(text);
        assert!(said.contains(expected), "{text}: {said}");
    }
}

#[test]
fn a_direction_without_a_count_moves_by_one_row() {
    check(&[
        ("BEGIN", "BEGIN"),
        ("DECLARE c SCROLL CURSOR FOR SELECT a FROM t ORDER BY a", "DECLARE"),
        ("FETCH FORWARD c", "\u{1}1\nC:FETCH 1"),
        ("MOVE FORWARD c", "MOVE 1"),
        ("fetch forward \"c\"", "\u{1}3\nC:FETCH 1"),
        ("FETCH BACKWARD c; MOVE BACKWARD c", "\u{1}2\nC:FETCH 1"),
        ("FETCH FORWARD ALL c", "FETCH 2"),
        ("FETCH BACKWARD IN c", "\u{1}3\nC:FETCH 1"),
    ]);
}

#[test]
fn options_of_a_cursor_fit_its_query() {
    check(&[
        ("BEGIN", "BEGIN"),
        ("SAVEPOINT s", "SAVEPOINT"),
        ("DECLARE c SCROLL CURSOR FOR SELECT a FROM t FOR UPDATE", "0A000"),
        ("ROLLBACK TO s", "ROLLBACK"),
        ("DECLARE c CURSOR WITH HOLD FOR SELECT a FROM t FOR SHARE", "0A000"),
        ("ROLLBACK TO s", "ROLLBACK"),
        ("DECLARE c INSENSITIVE CURSOR FOR SELECT a FROM t FOR SHARE", "42P11"),
        ("ROLLBACK TO s", "ROLLBACK"),
        ("DECLARE c CURSOR FOR WITH x AS (INSERT INTO t VALUES (9) RETURNING a) SELECT a FROM x", "0A000"),
        ("ROLLBACK TO s", "ROLLBACK"),
        ("DECLARE c NO SCROLL SCROLL CURSOR FOR SELECT a FROM t", "42P11"),
        ("ROLLBACK TO s", "ROLLBACK"),
        ("DECLARE e SCROLL BINARY INSENSITIVE CURSOR FOR SELECT a FROM t", "DECLARE"),
        ("DECLARE c NO SCROLL CURSOR FOR SELECT a FROM t ORDER BY a FOR UPDATE", "DECLARE"),
        ("DECLARE d CURSOR FOR SELECT a FROM t ORDER BY a FOR UPDATE", "DECLARE"),
        ("FETCH d", "FETCH 1"),
        ("FETCH PRIOR d", "55000"),
    ]);
}

#[test]
fn a_binary_cursor_sends_bytes_to_a_simple_query() {
    check(&[
        ("BEGIN", "BEGIN"),
        ("DECLARE c BINARY CURSOR FOR SELECT 258 AS x", "DECLARE"),
        ("FETCH ALL c", "\u{4}  \u{1}\u{2}\nC:FETCH 1"),
        ("MOVE BACKWARD ALL c", "MOVE 1"),
        ("CLOSE c", "CLOSE"),
        ("DECLARE c BINARY CURSOR FOR SELECT t FROM t", "0A000"),
    ]);
}

#[test]
fn copy_to_changes_nothing_without_returning() {
    check(&[
        ("COPY (DELETE FROM t) TO STDOUT", "0A000"),
        ("COPY (UPDATE t SET a = a + 10) TO STDOUT", "0A000"),
        ("COPY (INSERT INTO t VALUES (9)) TO STDOUT", "0A000"),
        ("COPY (MERGE INTO t USING t AS u ON t.a = u.a WHEN MATCHED THEN DELETE) TO STDOUT", "0A000"),
        ("COPY (DELETE FROM t WHERE a = 3 RETURNING a) TO STDOUT", "COPY 1"),
        ("SELECT count(*), max(a) FROM t", "\u{1}2   \u{1}2\n"),
        ("COPY BINARY t TO STDOUT", "PGCOPY"),
        ("COPY BINARY t TO STDOUT CSV", "42601"),
    ]);
}

#[test]
fn explain_has_the_parameters_of_its_statement() {
    let server = Server::start();
    let mut client = server.connect();
    client.batch_execute(TABLE).unwrap();
    let explained = client.prepare("EXPLAIN SELECT a FROM t WHERE a = $1").unwrap();
    assert_eq!(explained.params(), [Type::INT4]);
    assert_eq!(explained.columns()[0].type_(), &Type::TEXT);
    assert!(!client.query(&explained, &[&1i32]).unwrap().is_empty());
    let explained = client.prepare("EXPLAIN (FORMAT JSON) SELECT 1").unwrap();
    assert_eq!(explained.columns()[0].type_(), &Type::JSON);
}
