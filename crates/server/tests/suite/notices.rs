//! Warnings and notices: what a client is told beside answers and errors, and how often.

use crate::clients::Server;
use crate::wire::Ask::{Bind, DescribePortal, DescribeStatement, Execute, Parse, Sync};
use crate::wire::Wire;
use std::time::Duration;

#[test]
fn a_command_out_of_place_is_a_warning() {
    let server = Server::start();
    let mut client = Wire::connect(server.port);
    for (sql, sqlstate, tag) in [
        ("COMMIT", "25P01", "COMMIT"),
        ("ROLLBACK", "25P01", "ROLLBACK"),
        ("SET TRANSACTION READ ONLY", "25P01", "SET"),
        ("SET LOCAL work_mem = '1MB'", "25P01", "SET"),
        ("BEGIN; BEGIN", "25001", "BEGIN"),
    ] {
        let answer = client.run(sql);
        assert!(answer.contains(&format!("SWARNING VWARNING C{sqlstate}")), "{sql}: {answer}");
        assert!(answer.contains(&format!("C:{tag} ")) && !answer.contains("E:"), "{sql}: {answer}");
    }
    assert!(client.run("COMMIT").contains("C:COMMIT"), "it ends the transaction of BEGIN");
    for sql in ["SAVEPOINT s", "RELEASE s", "ROLLBACK TO s", "COMMIT AND CHAIN"] {
        let answer = client.run(sql);
        assert!(answer.contains("SERROR VERROR C25P01"), "{sql}: {answer}");
    }
}

#[test]
fn a_message_has_its_severity() {
    let server = Server::start();
    let mut client = Wire::connect(server.port);
    client.run(
        "CREATE PROCEDURE tell() LANGUAGE plpgsql AS $$ BEGIN
           RAISE WARNING 'w'; RAISE NOTICE 'n'; RAISE INFO 'i'; RAISE LOG 'l'; RAISE DEBUG 'd'; END $$",
    );
    let mut told = |least: &'static str| {
        client.run(least);
        let answer = client.run("CALL tell()");
        let severities = answer.lines().filter_map(|line| line.strip_prefix("N:S"));
        severities.map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(told("SELECT 1"), "WARNING NOTICE INFO");
    assert_eq!(told("SET client_min_messages = debug1"), "WARNING NOTICE INFO LOG DEBUG");
    assert_eq!(told("SET client_min_messages = warning"), "WARNING INFO");
    assert_eq!(told("SET client_min_messages = error"), "INFO");
    assert!(client.run("SET client_min_messages = loud").contains("C22023"));
}

#[test]
fn a_described_statement_tells_a_notice_once() {
    for server in Server::of_each_kind() {
        let mut client = Wire::connect(server.port);
        client.run("CREATE PROCEDURE tell() LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'once'; END $$");
        for statement in ["CALL tell()", "DO $$ BEGIN RAISE NOTICE 'once'; END $$"] {
            client.send(&[Parse(statement), DescribeStatement, Bind, DescribePortal, Execute(0), Sync]);
            let answer = client.read_until(b'Z', 1);
            assert_eq!(answer.matches("Monce").count(), 1, "{answer}");
        }
    }
}

/// A statement that comes to a row of an open transaction is undone, waits, and runs again.
#[test]
fn a_repeated_statement_tells_a_notice_once() {
    for server in Server::of_each_kind() {
        let mut holder = server.connect();
        holder
            .batch_execute(
                "CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL); INSERT INTO t VALUES (1, 0);
                 CREATE PROCEDURE count_up() LANGUAGE plpgsql AS $$ BEGIN
                   RAISE NOTICE 'once'; UPDATE t SET n = n + 1 WHERE id = 1; END $$",
            )
            .unwrap();
        holder.batch_execute("BEGIN; UPDATE t SET n = 10 WHERE id = 1").unwrap();
        let mut client = Wire::connect(server.port);
        client.send(&[Parse("CALL count_up()"), Bind, Execute(0), Sync]);
        std::thread::sleep(Duration::from_millis(100));
        assert!(!client.has_answer(), "it waits for the row");
        holder.batch_execute("COMMIT").unwrap();
        let answer = client.read_until(b'Z', 1);
        assert_eq!(answer.matches("Monce").count(), 1, "{answer}");
        assert_eq!(holder.query_one("SELECT n FROM t", &[]).unwrap().get::<_, i32>(0), 11);
    }
}

/// A definition tells what it has skipped, as one transaction and as part of one.
#[test]
fn a_definition_tells_what_it_skips() {
    let server = Server::start();
    let mut client = Wire::connect(server.port);
    client.run("CREATE TABLE t (id INT PRIMARY KEY, g INT GENERATED ALWAYS AS (id) STORED)");
    client.run("CREATE TYPE e AS ENUM ('a'); CREATE SCHEMA own; CREATE ROLE r; GRANT r TO postgres");
    for (statement, sqlstate, message) in [
        ("CREATE TABLE IF NOT EXISTS t (id INT)", "42P07", "relation \"t\" already exists, skipping"),
        ("CREATE TABLE IF NOT EXISTS t AS SELECT 1", "42P07", "relation \"t\" already exists, skipping"),
        ("CREATE SCHEMA IF NOT EXISTS own", "42P06", "schema \"own\" already exists, skipping"),
        ("ALTER TYPE e ADD VALUE IF NOT EXISTS 'a'", "42710", "enum label \"a\" already exists, skipping"),
        (
            "ALTER TABLE t ADD COLUMN IF NOT EXISTS id INT",
            "42701",
            "column \"id\" of relation \"t\" already exists, skipping",
        ),
        (
            "ALTER TABLE t DROP COLUMN IF EXISTS x",
            "00000",
            "column \"x\" of relation \"t\" does not exist, skipping",
        ),
        (
            "ALTER TABLE t ALTER id DROP EXPRESSION IF EXISTS",
            "00000",
            "column \"id\" of relation \"t\" is not a stored generated column, skipping",
        ),
        ("DROP TABLE IF EXISTS own.x", "00000", "table \"x\" does not exist, skipping"),
        ("DROP TABLE IF EXISTS other.x", "00000", "schema \"other\" does not exist, skipping"),
        ("DROP FUNCTION IF EXISTS f", "00000", "function f() does not exist, skipping"),
        (
            "DROP TRIGGER IF EXISTS x ON t",
            "00000",
            "trigger \"x\" for relation \"t\" does not exist, skipping",
        ),
        ("GRANT r TO postgres", "00000", "role \"postgres\" is already a member of role \"r\""),
        ("REVOKE pg_monitor FROM r", "01000", "role \"r\" is not a member of role \"pg_monitor\""),
    ] {
        for before in ["SELECT 1", "BEGIN"] {
            client.run(before);
            let answer = client.run(statement);
            let told = format!("C{sqlstate} M{message}");
            assert_eq!(answer.matches(&told).count(), 1, "{before}, {statement}: {answer}");
            assert!(!answer.contains("E:"), "{before}, {statement}: {answer}");
        }
        client.run("ROLLBACK");
    }
    let refused = client.run("ALTER TABLE t ALTER id DROP IDENTITY");
    assert!(refused.contains("C55000"), "{refused}");
}
