//! What is one transaction: pipelines that end with SYNC, texts of several statements, cursors, COPY. As on
//! PostgreSQL.

use crate::clients::Server;
use crate::wire::{Ask, Wire};
use Ask::{Bind, CopyData, CopyDone, Execute, Parse, Simple, Sync};

/// Messages, and the keys that are there after them, beside 1 and 2.
struct Case {
    sends: &'static [Ask],
    leaves: &'static [i64],
}

impl Case {
    fn check(&self, place: usize, server: &Server) {
        let Self { sends, leaves } = self;
        let mut wire = Wire::connect(server.port);
        BEFORE.split_inclusive(";\n").for_each(|text| drop(wire.run(text)));
        wire.send(sends);
        let is_copied = sends.iter().any(|ask| matches!(ask, CopyData(_)));
        let ends = sends.iter().filter(|ask| matches!(ask, Simple(_) | Sync)).count();
        // A query behind an error is passed over, as is the SYNC at the beginning of a COPY.
        let passed =
            usize::from(is_copied || matches!(sends, [.., Simple("INSERT INTO t VALUES (71, 1)"), Sync]));
        let said = wire.read_until(b'Z', ends - passed);
        let mut other = Wire::connect(server.port);
        let rows = other.run("SELECT string_agg(k::text, ',' ORDER BY k) FROM t");
        let keys: Vec<_> = [1, 2].iter().chain(*leaves).map(i64::to_string).collect();
        assert!(
            rows.contains(&format!("{}\n", keys.join(","))),
            "case {place}: {rows}, not {keys:?}; it said {said}"
        );
    }
}

const BEFORE: &str = "CREATE TABLE t (k INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 10), (2, 20);
CREATE FUNCTION writes() RETURNS INT LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO t VALUES (66, 6); RETURN 2; END $$;
CREATE PROCEDURE put(p_k INT) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (p_k, 1); END $$;";

const fn simply(text: &'static [Ask], leaves: &'static [i64]) -> Case {
    Case { sends: text, leaves }
}

const CASES: &[Case] = &[
    // What was sent without SYNC is of one transaction with the query behind it.
    simply(
        &[Simple("BEGIN"), Parse("INSERT INTO t VALUES (70, 1)"), Bind, Execute(0), Simple("COMMIT")],
        &[70],
    ),
    simply(
        &[Parse("INSERT INTO t VALUES (70, 1)"), Bind, Execute(0), Simple("INSERT INTO t VALUES (71, 1)")],
        &[70, 71],
    ),
    simply(&[Parse("INSERT INTO t VALUES (70, 1)"), Bind, Execute(0), Simple("SELECT 1 / 0")], &[]),
    // Where it has failed, the query is passed over, too.
    simply(
        &[
            Parse("INSERT INTO t VALUES (1, 1)"),
            Bind,
            Execute(0),
            Simple("INSERT INTO t VALUES (71, 1)"),
            Sync,
        ],
        &[],
    ),
    simply(&[Parse("SELECT nothing FROM nowhere"), Simple("INSERT INTO t VALUES (71, 1)"), Sync], &[]),
    // EXECUTE waits for SYNC, and its arguments are of its transaction.
    simply(
        &[
            Simple("PREPARE p(INT) AS INSERT INTO t VALUES ($1, 1)"),
            Parse("EXECUTE p(70 + 2)"),
            Bind,
            Execute(0),
            Parse("SELECT 1 / 0"),
            Bind,
            Execute(0),
            Sync,
        ],
        &[],
    ),
    simply(&[Simple("PREPARE p(INT) AS INSERT INTO t VALUES ($1, 1)"), Simple("EXECUTE p(writes())")], &[]),
    simply(
        &[Simple("PREPARE p(INT) AS INSERT INTO t VALUES ($1, 1)"), Simple("EXECUTE p(writes() + 5)")],
        &[7, 66],
    ),
    // A call alone is a transaction; among other statements it belongs to their transaction.
    simply(&[Parse("CALL put(70)"), Bind, Execute(0), Sync, Simple("SELECT 1 / 0")], &[70]),
    simply(&[Simple("CALL put(70); CALL put(71)")], &[70, 71]),
    simply(&[Simple("CALL put(70); SELECT 1 / 0")], &[]),
    simply(&[Simple("CALL put(65 + 5)"), Simple("CALL put(1)")], &[70]),
    simply(
        &[
            Parse("CALL put(70)"),
            Bind,
            Execute(0),
            Parse("INSERT INTO t VALUES (1, 1)"),
            Bind,
            Execute(0),
            Sync,
        ],
        &[],
    ),
    // COPY does, too; behind one that fails, messages are passed over.
    simply(
        &[
            Parse("INSERT INTO t VALUES (33, 3)"),
            Bind,
            Execute(0),
            Parse("COPY t FROM STDIN"),
            Bind,
            Execute(0),
            Sync,
            CopyData("4\t40\n5\t50\n"),
            CopyDone,
            Parse("SELECT 1 / 0"),
            Bind,
            Execute(0),
            Sync,
        ],
        &[],
    ),
    simply(
        &[
            Parse("COPY t FROM STDIN"),
            Bind,
            Execute(0),
            Sync,
            CopyData("4\t40\n5\t50\n"),
            CopyDone,
            Parse("INSERT INTO t VALUES (90, 9)"),
            Bind,
            Execute(0),
            Sync,
        ],
        &[4, 5, 90],
    ),
    simply(
        &[
            Parse("COPY t FROM STDIN"),
            Bind,
            Execute(0),
            Sync,
            CopyData("4\t40\nx\ty\n"),
            CopyDone,
            Parse("INSERT INTO t VALUES (90, 9)"),
            Bind,
            Execute(0),
            Sync,
        ],
        &[],
    ),
    // Several statements are one transaction.
    simply(&[Simple("INSERT INTO t VALUES (3, 30); EXPLAIN SELECT 1; SELECT 1 / 0")], &[]),
    simply(&[Simple("INSERT INTO t VALUES (3, 30); SET application_name = 'x'; SELECT 1 / 0")], &[]),
    simply(&[Simple("INSERT INTO t VALUES (3, 30); (SELECT 1); SELECT 1 / 0")], &[]),
    simply(&[Simple("PREPARE p(INT) AS INSERT INTO t VALUES ($1, 1); EXECUTE p(5); SELECT 1 / 0")], &[]),
    simply(&[Simple("INSERT INTO t VALUES (3, 30); SAVEPOINT a; INSERT INTO t VALUES (4, 40)")], &[]),
    // But for where they end it.
    simply(&[Simple("INSERT INTO t VALUES (3, 30); BEGIN; INSERT INTO t VALUES (4, 40); ROLLBACK")], &[]),
    simply(&[Simple("INSERT INTO t VALUES (3, 30); ROLLBACK; INSERT INTO t VALUES (4, 40)")], &[4]),
    simply(
        &[Simple("INSERT INTO t VALUES (3, 30); COMMIT; INSERT INTO t VALUES (4, 40); SELECT 1 / 0")],
        &[3],
    ),
    simply(
        &[Simple("BEGIN; INSERT INTO t VALUES (3, 30); COMMIT; INSERT INTO t VALUES (4, 40); SELECT 1 / 0")],
        &[3],
    ),
    simply(
        &[
            Simple("BEGIN"),
            Simple("INSERT INTO t VALUES (3, 30); COMMIT; INSERT INTO t VALUES (5, 1); SELECT 1 / 0"),
        ],
        &[3],
    ),
    simply(&[Simple("INSERT INTO t VALUES (3, 30); BEGIN; SELECT 1 / 0"), Simple("ROLLBACK")], &[]),
    simply(&[Simple("INSERT INTO t VALUES (3, 30); INSERT INTO t VALUES (4, 40)")], &[3, 4]),
    simply(
        &[Simple("BEGIN; INSERT INTO t VALUES (3, 30)"), Simple("INSERT INTO t VALUES (4, 40); COMMIT")],
        &[3, 4],
    ),
    // Definitions among the statements of a query are part of its transaction.
    simply(&[Simple("CREATE TABLE u (a INT); CREATE INDEX ON t (v); INSERT INTO t VALUES (3, 30)")], &[3]),
    simply(&[Simple("INSERT INTO t VALUES (3, 30); ALTER TABLE t ADD c INT; SELECT 1 / 0")], &[]),
    simply(&[Simple("TRUNCATE t; INSERT INTO nowhere VALUES (1)")], &[]),
    simply(&[Simple("INSERT INTO t VALUES (3, 30); COMMIT; DROP TABLE t; DROP TABLE nowhere")], &[3]),
    simply(&[Simple("INSERT INTO t VALUES (3, 30); VACUUM")], &[]),
];

#[test]
fn transactions_end_where_they_do_on_postgresql() {
    for (place, case) in CASES.iter().enumerate() {
        Server::of_each_kind().for_each(|server| case.check(place, &server));
    }
}

/// Whatever is wrong with a statement: a transaction that has failed ends first. Only what is no SQL is told.
#[test]
fn statements_of_a_failed_transaction_are_not_looked_at() {
    let server = Server::start();
    let mut wire = Wire::connect(server.port);
    wire.run("BEGIN");
    wire.run("SELECT 1 / 0");
    for (text, expected) in [("SELECT * FROM nowhere", "25P02"), ("LISTEN x", "25P02"), ("SELEC 1", "42601")]
    {
        let said = wire.run(text);
        assert!(said.contains(expected), "{text}: {said}");
    }
    assert!(wire.run("ROLLBACK").contains("ROLLBACK"));
}

/// Settings, modes and cursors go back with the rows.
#[test]
fn what_came_after_a_savepoint_is_undone() {
    let server = Server::start();
    let mut wire = Wire::connect(server.port);
    wire.run("CREATE TABLE s (id INT PRIMARY KEY)");
    for (text, expected) in [
        ("SET lock_timeout = 7", "SET"),
        ("BEGIN", "BEGIN"),
        ("SET LOCAL lock_timeout = 6", "SET"),
        ("DECLARE early CURSOR FOR SELECT 1", "DECLARE"),
        ("SAVEPOINT a", "SAVEPOINT"),
        ("SET lock_timeout = 5", "SET"),
        ("SET TRANSACTION READ ONLY", "SET"),
        ("SAVEPOINT b", "SAVEPOINT"),
        ("DECLARE late CURSOR FOR SELECT 2", "DECLARE"),
        ("INSERT INTO s VALUES (1)", "25006"),
        ("ROLLBACK TO b", "ROLLBACK"),
        ("SHOW lock_timeout", "5"),
        ("INSERT INTO s VALUES (1)", "25006"),
        ("ROLLBACK TO a", "ROLLBACK"),
        ("SHOW lock_timeout", "6"),
        ("INSERT INTO s VALUES (1)", "INSERT"),
        ("FETCH early", "FETCH 1"),
        ("SAVEPOINT a", "SAVEPOINT"),
        ("DECLARE kept CURSOR FOR SELECT 3", "DECLARE"),
        ("SET lock_timeout = 4", "SET"),
        ("RELEASE a", "RELEASE"),
        ("FETCH kept", "FETCH 1"),
        ("SAVEPOINT c", "SAVEPOINT"),
        ("FETCH late", "34000"),
        ("ROLLBACK TO c", "ROLLBACK"),
        ("FETCH kept", "FETCH 0"),
        ("SHOW lock_timeout", "4"),
        ("ROLLBACK TO a", "ROLLBACK"),
        ("FETCH kept", "34000"),
        ("ROLLBACK", "ROLLBACK"),
        ("SHOW lock_timeout", "7"),
    ] {
        let said = wire.run(text);
        assert!(said.contains(expected), "{text}: {said}");
    }
}

/// As those of a function's parameters.
#[test]
fn types_of_prepare_have_no_length_or_precision() {
    let server = Server::start();
    let mut wire = Wire::connect(server.port);
    wire.run("PREPARE q (timestamp(0), varchar(2), numeric(5,1)) AS SELECT $1, $2, $3");
    let said = wire.run("EXECUTE q('2024-01-01 00:00:00.6', 'abcdef', 1.2345)");
    for expected in ["2024-01-01 00:00:00.6", "abcdef", "1.2345"] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

#[test]
fn a_cursor_of_a_transaction_that_was_rolled_back_is_gone() {
    let server = Server::start();
    let mut wire = Wire::connect(server.port);
    BEFORE.split_inclusive(";\n").for_each(|text| drop(wire.run(text)));
    let declare = "DECLARE c CURSOR WITH HOLD FOR SELECT k FROM t";
    for (end, expected) in [("ROLLBACK", "34000"), ("COMMIT", "FETCH 3")] {
        wire.run("BEGIN");
        wire.run("INSERT INTO t VALUES (3, 30)");
        wire.run(declare);
        wire.run(end);
        let fetched = wire.run("FETCH ALL c");
        assert!(fetched.contains(expected), "{end}: {fetched}");
    }
}
