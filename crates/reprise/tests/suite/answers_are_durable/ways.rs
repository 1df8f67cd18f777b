//! The ways in which an answer can show a transaction that is not durable.

/// One way: a statement that another session leaves undurable, and a probe whose answer shows it.
#[derive(Clone, Copy)]
pub struct Way {
    pub name: &'static str,
    /// The statement that is not durable when the probe runs; empty where the probe shows durable state only.
    pub undurable: &'static str,
    pub probe: Probe,
    /// A part of the probe's answer that it would not have without the statement.
    pub shows: &'static str,
}

#[derive(Clone, Copy)]
pub enum Probe {
    Query(&'static str),
    Script(&'static str),
    /// A call with one argument.
    Call(&'static str, i64),
    /// A call without arguments.
    CallPlain(&'static str),
    /// Statements of an open transaction: the answer to the last one counts, and the transaction is rolled
    /// back.
    Block(&'static [&'static str]),
}

use Probe::{Block, Call, CallPlain, Query, Script};

const fn way(name: &'static str, undurable: &'static str, probe: Probe, shows: &'static str) -> Way {
    Way { name, undurable, probe, shows }
}

/// What is durable before anything else. Each way has rows of its own.
pub const SCHEMA: &str = "
CREATE TABLE r (id INT PRIMARY KEY, v INT NOT NULL CHECK (v >= 0), s TEXT);
INSERT INTO r SELECT n, 10, NULL FROM generate_series(1, 60) AS n;
CREATE TABLE counted (id INT PRIMARY KEY);
INSERT INTO counted SELECT n FROM generate_series(1, 7) AS n;
CREATE TABLE many (id INT PRIMARY KEY, v INT NOT NULL);
INSERT INTO many SELECT n, 0 FROM generate_series(1, 6000) AS n;
CREATE TABLE moved (id INT PRIMARY KEY, k INT NOT NULL);
CREATE INDEX moved_k ON moved (k);
INSERT INTO moved SELECT n, n FROM generate_series(1, 60) AS n;
CREATE TABLE named (id INT PRIMARY KEY, name TEXT UNIQUE);
INSERT INTO named VALUES (1, 'Ada'), (2, 'Bob');
CREATE TABLE parent (id INT PRIMARY KEY);
INSERT INTO parent SELECT n FROM generate_series(1, 10) AS n;
CREATE TABLE child (id INT PRIMARY KEY, parent INT NOT NULL REFERENCES parent (id));
CREATE TABLE still (id INT PRIMARY KEY, v INT NOT NULL, k INT NOT NULL);
CREATE INDEX still_k ON still (k);
INSERT INTO still VALUES (1, 0, 1), (2, 5, 2);
CREATE TABLE d1 (id INT PRIMARY KEY, v INT);
INSERT INTO d1 VALUES (1, 1), (2, 2);
CREATE TABLE d2 (id INT PRIMARY KEY, v INT);
INSERT INTO d2 VALUES (1, 1), (2, 2);
CREATE TABLE d3 (id INT PRIMARY KEY, v INT);
INSERT INTO d3 VALUES (1, 1), (2, 2);
CREATE TABLE e1 (id INT PRIMARY KEY);
CREATE TABLE e2 (id INT PRIMARY KEY);
CREATE TABLE e3 (id INT PRIMARY KEY);
CREATE PROCEDURE take(p_id INT) LANGUAGE plpgsql AS $$
DECLARE who TEXT;
BEGIN
  SELECT s INTO who FROM r WHERE id = p_id;
  IF who IS NOT NULL THEN RAISE EXCEPTION 'seat % is taken by %', p_id, who; END IF;
  UPDATE r SET s = 'probe' WHERE id = p_id;
END $$;
CREATE PROCEDURE quotient(p_id INT, OUT q INT) LANGUAGE plpgsql AS $$
BEGIN SELECT 100 / v INTO q FROM r WHERE id = p_id; END $$;
CREATE PROCEDURE value_of(p_id INT, OUT x INT) LANGUAGE plpgsql AS $$
BEGIN SELECT v INTO x FROM r WHERE id = p_id; END $$;
CREATE PROCEDURE need(p_id INT) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM r WHERE id = p_id;
  IF NOT FOUND THEN RAISE EXCEPTION 'row % is gone', p_id; END IF;
END $$;
CREATE PROCEDURE strictly(p_id INT) LANGUAGE plpgsql AS $$
DECLARE x INT;
BEGIN SELECT v INTO STRICT x FROM r WHERE id = p_id; END $$;
CREATE PROCEDURE caught(p_id INT, OUT said TEXT) LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO r VALUES (p_id, 0, NULL);
EXCEPTION WHEN unique_violation THEN said := 'it is there';
END $$;
CREATE PROCEDURE by_text(p_id INT, OUT x INT) LANGUAGE plpgsql AS $$
BEGIN EXECUTE 'SELECT v FROM r WHERE id = ' || p_id INTO x; END $$;
CREATE PROCEDURE in_steps(p_id INT, OUT x INT) LANGUAGE plpgsql AS $$
BEGIN
  SELECT v INTO x FROM r WHERE id = p_id;
  COMMIT;
  PERFORM 1 FROM still WHERE id = 1;
END $$;
CREATE PROCEDURE fails_in_steps(p_id INT) LANGUAGE plpgsql AS $$
DECLARE x INT;
BEGIN
  SELECT v INTO x FROM r WHERE id = p_id;
  COMMIT;
  RAISE EXCEPTION 'the value is %', x;
END $$;
CREATE PROCEDURE undone_step(p_id INT) LANGUAGE plpgsql AS $$
DECLARE x INT;
BEGIN
  SELECT v INTO x FROM r WHERE id = p_id;
  ROLLBACK;
  RAISE EXCEPTION 'the value is %', x;
END $$;
";

/// Rows that are not durable, seen as rows, as their absence, as counts and as errors.
pub const ROWS: &[Way] = &[
    way("a row by its key", "UPDATE r SET v = 11 WHERE id = 1", Query("SELECT v FROM r WHERE id = 1"), "11"),
    way(
        "a deleted row",
        "DELETE FROM r WHERE id = 2",
        Query("SELECT count(*) FROM r WHERE id = 2"),
        "Int(0)",
    ),
    way(
        "a row that left an index entry",
        "UPDATE moved SET k = 103 WHERE id = 3",
        Query("SELECT count(*) FROM moved WHERE k = 3"),
        "Int(0)",
    ),
    way(
        "a row that came to an index entry",
        "UPDATE moved SET k = 104 WHERE id = 4",
        Query("SELECT id FROM moved WHERE k = 104"),
        "Int(4)",
    ),
    way(
        "a range that a row left",
        "UPDATE moved SET k = 900 WHERE id = 50",
        Query("SELECT count(*) FROM moved WHERE k BETWEEN 50 AND 51"),
        "Int(1)",
    ),
    way("a count", "INSERT INTO counted VALUES (8)", Query("SELECT count(*) FROM counted"), "Int(8)"),
    way("a long read", "UPDATE many SET v = 1 WHERE id = 77", Query("SELECT sum(v) FROM many"), "Int(1)"),
    way(
        "a join",
        "UPDATE r SET v = 12 WHERE id = 5",
        Query("SELECT a.v FROM r a JOIN r b ON b.id = a.id WHERE a.id = 5"),
        "Int(12)",
    ),
    way(
        "a plan with its counts",
        "DELETE FROM r WHERE id = 6",
        Block(&["EXPLAIN ANALYZE SELECT * FROM r WHERE id = 6"]),
        "rows=0",
    ),
    way("23505 of a key", "INSERT INTO r VALUES (101, 1)", Query("INSERT INTO r VALUES (101, 2)"), "23505"),
    way(
        "23505 in a script",
        "INSERT INTO r VALUES (102, 1)",
        Script("INSERT INTO r VALUES (102, 2)"),
        "23505",
    ),
    way(
        "23505 of a unique column",
        "INSERT INTO named VALUES (3, 'Eve')",
        Query("INSERT INTO named VALUES (4, 'Eve')"),
        "23505",
    ),
    way(
        "23505 of an update",
        "INSERT INTO named VALUES (5, 'Kim')",
        Query("UPDATE named SET name = 'Kim' WHERE id = 2"),
        "23505",
    ),
    way(
        "23503 for want of a parent",
        "DELETE FROM parent WHERE id = 1",
        Query("INSERT INTO child VALUES (1, 1)"),
        "23503",
    ),
    way(
        "23503 because of a child",
        "INSERT INTO child VALUES (2, 2)",
        Query("DELETE FROM parent WHERE id = 2"),
        "23503",
    ),
    way(
        "22012 of a statement",
        "UPDATE r SET v = 0 WHERE id = 7",
        Query("SELECT 1 / v FROM r WHERE id = 7"),
        "22012",
    ),
    way("22012 of a call", "UPDATE r SET v = 0 WHERE id = 8", Call("quotient", 8), "22012"),
    way("23514", "UPDATE r SET v = 1 WHERE id = 9", Query("UPDATE r SET v = v - 5 WHERE id = 9"), "23514"),
    way(
        "22P02",
        "UPDATE r SET s = 'no' WHERE id = 10",
        Query("SELECT CAST(s AS INT) FROM r WHERE id = 10"),
        "22P02",
    ),
    way(
        "a seat is taken",
        "UPDATE r SET s = 'Ada' WHERE id = 11",
        Call("take", 11),
        "seat 11 is taken by Ada",
    ),
    way("a RAISE for want of a row", "DELETE FROM r WHERE id = 12", Call("need", 12), "row 12 is gone"),
    way("P0002", "DELETE FROM r WHERE id = 13", Call("strictly", 13), "P0002"),
    way("an output", "UPDATE r SET v = 14 WHERE id = 14", Call("value_of", 14), "Int(14)"),
    way("an error that was handled", "INSERT INTO r VALUES (103, 1)", Call("caught", 103), "it is there"),
    way("an EXECUTE of text", "UPDATE r SET v = 15 WHERE id = 15", Call("by_text", 15), "Int(15)"),
    way("what a step has read", "UPDATE r SET v = 16 WHERE id = 16", Call("in_steps", 16), "Int(16)"),
    way(
        "a RAISE of what a step has read",
        "UPDATE r SET v = 17 WHERE id = 17",
        Call("fails_in_steps", 17),
        "is 17",
    ),
    way(
        "a RAISE of what a step read in vain",
        "UPDATE r SET v = 18 WHERE id = 18",
        Call("undone_step", 18),
        "is 18",
    ),
    way(
        "an UPDATE of no row",
        "DELETE FROM r WHERE id = 19",
        Query("UPDATE r SET v = 1 WHERE id = 19"),
        "affected: 0",
    ),
    way(
        "a DELETE of no row by an index",
        "UPDATE moved SET k = 120 WHERE id = 20",
        Query("DELETE FROM moved WHERE k = 20"),
        "affected: 0",
    ),
    way(
        "an INSERT that gives way",
        "INSERT INTO r VALUES (104, 1)",
        Query("INSERT INTO r VALUES (104, 2) ON CONFLICT DO NOTHING"),
        "affected: 0",
    ),
    way(
        "rows in a transaction",
        "UPDATE r SET v = 21 WHERE id = 21",
        Block(&["SELECT v FROM still WHERE id = 1", "SELECT v FROM r WHERE id = 21"]),
        "Int(21)",
    ),
    way(
        "rows of an earlier statement",
        "UPDATE r SET v = 22 WHERE id = 22",
        Block(&["INSERT INTO r SELECT 122, v, NULL FROM r WHERE id = 22", "SELECT v FROM r WHERE id = 122"]),
        "Int(22)",
    ),
    way(
        "rows that are held",
        "UPDATE r SET v = 23 WHERE id = 23",
        Block(&["SELECT v FROM r WHERE id = 23 FOR UPDATE"]),
        "Int(23)",
    ),
    way(
        "no rows in a transaction",
        "UPDATE moved SET k = 124 WHERE id = 24",
        Block(&["SELECT count(*) FROM moved WHERE k = 24"]),
        "Int(0)",
    ),
    way(
        "what a DELETE returns",
        "UPDATE r SET v = 25 WHERE id = 25",
        Block(&["DELETE FROM r WHERE id = 25 RETURNING v"]),
        "Int(25)",
    ),
    way(
        "a count in a transaction",
        "DELETE FROM r WHERE id = 26",
        Block(&["UPDATE r SET v = 1 WHERE id = 26"]),
        "affected: 0",
    ),
    way(
        "an error in a transaction",
        "INSERT INTO r VALUES (105, 1)",
        Block(&["INSERT INTO r VALUES (105, 2)"]),
        "23505",
    ),
    way(
        "an error after a savepoint",
        "UPDATE r SET v = 0 WHERE id = 27",
        Block(&["SAVEPOINT s", "SELECT 1 / v FROM r WHERE id = 27"]),
        "22012",
    ),
    way(
        "a call in a transaction",
        "UPDATE r SET s = 'Bob' WHERE id = 28",
        Block(&["CALL take(28)"]),
        "seat 28 is taken by Bob",
    ),
];

/// Answers that show durable state only: none of them has to wait.
pub const STILL: &[Way] = &[
    way("a durable row", "", Query("SELECT v FROM still WHERE id = 2"), "Int(5)"),
    way("a row that never was", "", Query("SELECT count(*) FROM still WHERE id = 9"), "Int(0)"),
    way("an index entry that never was", "", Query("SELECT count(*) FROM still WHERE k = 9"), "Int(0)"),
    way("23505 for a durable row", "", Query("INSERT INTO still VALUES (1, 1, 1)"), "23505"),
    way("22012 for a durable row", "", Query("SELECT 1 / v FROM still WHERE id = 1"), "22012"),
    way("a durable row in a transaction", "", Block(&["SELECT v FROM still WHERE id = 2"]), "Int(5)"),
];

/// Definitions that fail because of rows that are not durable.
pub const CHECKED: &[Way] = &[
    way(
        "23505 of an index",
        "UPDATE d1 SET v = 1 WHERE id = 2",
        Query("CREATE UNIQUE INDEX d1_v ON d1 (v)"),
        "23505",
    ),
    way(
        "23502 of a constraint",
        "UPDATE d2 SET v = NULL WHERE id = 2",
        Query("ALTER TABLE d2 ALTER COLUMN v SET NOT NULL"),
        "2350",
    ),
    way(
        "23514 of a constraint",
        "UPDATE d3 SET v = -1 WHERE id = 2",
        Query("ALTER TABLE d3 ADD CHECK (v > 0)"),
        "23514",
    ),
];

/// Definitions that are not durable.
pub const DEFINITIONS: &[Way] = &[
    way("a new table", "CREATE TABLE n1 (id INT PRIMARY KEY)", Query("SELECT count(*) FROM n1"), "Int(0)"),
    way(
        "42P07",
        "CREATE TABLE n2 (id INT PRIMARY KEY)",
        Query("CREATE TABLE n2 (id INT PRIMARY KEY)"),
        "42P07",
    ),
    way("42P01", "DROP TABLE e1", Query("SELECT * FROM e1"), "42P01"),
    way("a new column", "ALTER TABLE e2 ADD COLUMN more INT", Query("SELECT * FROM e2"), "more"),
    way("42703", "ALTER TABLE e3 RENAME COLUMN id TO key", Query("SELECT id FROM e3"), "42703"),
    way(
        "a new procedure",
        "CREATE PROCEDURE n3(OUT x INT) LANGUAGE plpgsql AS $$ BEGIN x := 7; END $$",
        CallPlain("n3"),
        "Int(7)",
    ),
    way("42883", "DROP PROCEDURE value_of", Call("value_of", 1), "42883"),
    way(
        "the catalogs",
        "CREATE TABLE n4 (id INT PRIMARY KEY)",
        Query("SELECT relname FROM pg_class WHERE relname = 'n4'"),
        "n4",
    ),
    way(
        "a statement of a transaction",
        "CREATE TABLE n5 (id INT PRIMARY KEY)",
        Block(&["SELECT count(*) FROM n5"]),
        "Int(0)",
    ),
    way(
        "a script",
        "CREATE TABLE n6 (id INT PRIMARY KEY)",
        Script("CREATE TABLE n6 (id INT PRIMARY KEY)"),
        "42P07",
    ),
];
