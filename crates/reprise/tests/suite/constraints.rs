//! Constraints hold, whatever ALTER TABLE changes and whatever foreign keys write.

use crate::common::Durably as _;
use crate::common::{open, recovered_digest, with};
use reprise::{Error, Session, Value};

/// Statements, and the state that each is refused with; none where it is accepted.
type Case = &'static [(&'static str, Option<&'static str>)];

const CASES: [Case; 27] = [
    // The type of a referenced column stays, of composite keys and of the table itself, too.
    &[
        ("CREATE TABLE p (a INT, b INT, PRIMARY KEY (a, b))", None),
        ("INSERT INTO p VALUES (1, 2)", None),
        (
            "CREATE TABLE c (id INT PRIMARY KEY, a INT, b INT, FOREIGN KEY (a, b) REFERENCES p \
             ON DELETE CASCADE)",
            None,
        ),
        ("INSERT INTO c VALUES (1, 1, 2)", None),
        ("ALTER TABLE p ALTER COLUMN a TYPE TEXT", Some("0A000")),
        ("ALTER TABLE c ALTER COLUMN a TYPE TEXT", Some("0A000")),
    ],
    &[
        ("CREATE TABLE t (id INT PRIMARY KEY, p INT REFERENCES t ON DELETE CASCADE)", None),
        ("ALTER TABLE t ALTER id TYPE TEXT", Some("0A000")),
    ],
    // Another name.
    &[
        ("CREATE TABLE t (id INT PRIMARY KEY, p INT REFERENCES t, CHECK (t.id < 10 AND p < t.id + 5))", None),
        ("CREATE SCHEMA q", None),
        ("ALTER TABLE t RENAME TO u", None),
        ("INSERT INTO u VALUES (1, 5)", Some("23503")),
        ("INSERT INTO u VALUES (10, 10)", Some("23514")),
        ("ALTER TABLE u SET SCHEMA q", None),
        ("INSERT INTO q.u VALUES (1, 5)", Some("23503")),
        ("INSERT INTO q.u VALUES (2, 8)", Some("23514")),
        ("INSERT INTO q.u VALUES (1, 1)", None),
    ],
    &[
        ("CREATE TABLE t (t INT PRIMARY KEY, CHECK (t.t > 0))", None),
        ("ALTER TABLE t RENAME COLUMN t TO id", None),
        ("INSERT INTO t VALUES (0)", Some("23514")),
        ("INSERT INTO t VALUES (1)", None),
    ],
    // A key that the table itself references.
    &[
        ("CREATE TABLE t (id INT PRIMARY KEY, p INT REFERENCES t)", None),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey", Some("2BP01")),
        ("INSERT INTO t VALUES (1, 99)", Some("23503")),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey CASCADE", None),
        ("INSERT INTO t VALUES (1, 99)", None),
    ],
    &[
        ("CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE, p INT REFERENCES t (u))", None),
        ("ALTER TABLE t DROP COLUMN u", Some("2BP01")),
        ("ALTER TABLE t DROP COLUMN u CASCADE", None),
        ("INSERT INTO t VALUES (1, 99)", None),
    ],
    // Columns have moved before the one that is referenced goes.
    &[
        ("CREATE TABLE p (x INT, k INT UNIQUE, y INT UNIQUE)", None),
        ("CREATE TABLE c (k INT REFERENCES p (k))", None),
        ("INSERT INTO p VALUES (1, 2, 3)", None),
        ("INSERT INTO c VALUES (2)", None),
        ("ALTER TABLE p DROP COLUMN x, DROP COLUMN k", Some("2BP01")),
        ("ALTER TABLE p DROP COLUMN x, DROP COLUMN y", None),
        ("INSERT INTO c VALUES (3)", Some("23503")),
        ("INSERT INTO c VALUES (2)", None),
        ("DELETE FROM p", Some("23503")),
    ],
    // Another foreign key of the same name.
    &[
        ("CREATE TABLE p (id INT PRIMARY KEY)", None),
        ("CREATE TABLE q (id INT PRIMARY KEY)", None),
        ("INSERT INTO p VALUES (1)", None),
        ("CREATE TABLE c (id INT PRIMARY KEY, x INT CONSTRAINT f REFERENCES p)", None),
        ("INSERT INTO c VALUES (1, 1)", None),
        ("ALTER TABLE c DROP CONSTRAINT f, ADD CONSTRAINT f FOREIGN KEY (x) REFERENCES q", Some("23503")),
        ("INSERT INTO c VALUES (2, 7)", Some("23503")),
        ("ALTER TABLE c ADD CONSTRAINT f FOREIGN KEY (id) REFERENCES p", Some("42710")),
        ("ALTER TABLE c ADD CONSTRAINT f CHECK (id > 0)", Some("42710")),
        ("ALTER TABLE c ADD FOREIGN KEY (id) REFERENCES p, ADD FOREIGN KEY (id) REFERENCES p", None),
    ],
    // CASCADE takes those that depend on the key.
    &[
        ("CREATE TABLE p (a INT UNIQUE, b INT UNIQUE)", None),
        ("CREATE TABLE c (a INT REFERENCES p (a), b INT REFERENCES p (b))", None),
        ("INSERT INTO p VALUES (1, 2)", None),
        ("ALTER TABLE p DROP CONSTRAINT p_a_key CASCADE", None),
        ("INSERT INTO c VALUES (77, 2)", None),
        ("INSERT INTO c VALUES (1, 77)", Some("23503")),
    ],
    // What is added means the columns as they are named, whatever goes beside it.
    &[
        ("CREATE TABLE t (a INT, b INT, c INT)", None),
        ("INSERT INTO t VALUES (1, 1, 1)", None),
        ("ALTER TABLE t ADD UNIQUE (b), DROP COLUMN a", None),
        ("INSERT INTO t VALUES (1, 2)", Some("23505")),
        ("INSERT INTO t VALUES (2, 1)", None),
    ],
    &[
        ("CREATE TABLE t (a INT, b INT, c INT)", None),
        ("INSERT INTO t VALUES (1, 1, 1)", None),
        ("ALTER TABLE t ADD PRIMARY KEY (b), DROP COLUMN a", None),
        ("INSERT INTO t VALUES (1, 2)", Some("23505")),
        ("INSERT INTO t VALUES (2, 1)", None),
    ],
    &[
        ("CREATE TABLE p (id INT PRIMARY KEY)", None),
        ("CREATE TABLE t (a INT, b INT, c INT)", None),
        ("ALTER TABLE t ADD FOREIGN KEY (b) REFERENCES p, DROP COLUMN a", None),
        ("INSERT INTO t (b) VALUES (77)", Some("23503")),
        ("INSERT INTO t (c) VALUES (77)", None),
    ],
    &[
        ("CREATE TABLE t (a INT, b INT, c INT)", None),
        ("ALTER TABLE t ADD COLUMN e INT UNIQUE, DROP COLUMN a", None),
        ("INSERT INTO t VALUES (2, 3, 7)", None),
        ("INSERT INTO t VALUES (2, 3, 7)", Some("23505")),
    ],
    &[
        ("CREATE TABLE t (x INT, id INT PRIMARY KEY, u INT UNIQUE, p INT CONSTRAINT k REFERENCES t)", None),
        ("INSERT INTO t VALUES (0, 1, 10, 1), (0, 2, 20, 1)", None),
        (
            "ALTER TABLE t DROP CONSTRAINT k, ADD CONSTRAINT k FOREIGN KEY (p) \
             REFERENCES t (u), DROP COLUMN x",
            Some("23503"),
        ),
        ("UPDATE t SET p = NULL", None),
        (
            "ALTER TABLE t DROP CONSTRAINT k, ADD CONSTRAINT k FOREIGN KEY (p) \
             REFERENCES t (u), DROP COLUMN x",
            None,
        ),
        ("UPDATE t SET p = 2", Some("23503")),
        ("UPDATE t SET p = 20", None),
        ("UPDATE t SET u = 21 WHERE id = 2", Some("23503")),
    ],
    // What a foreign key writes fits its column and its constraints.
    &[
        ("CREATE TABLE p (id BIGINT PRIMARY KEY)", None),
        ("CREATE TABLE c (x INT REFERENCES p ON UPDATE CASCADE)", None),
        ("INSERT INTO p VALUES (1), (2)", None),
        ("INSERT INTO c VALUES (1)", None),
        ("UPDATE p SET id = 4294967298 WHERE id = 1", Some("22003")),
        ("UPDATE p SET id = 3 WHERE id = 1", None),
        ("DELETE FROM p WHERE id = 3", Some("23503")),
    ],
    &[
        ("CREATE TABLE p (id TEXT PRIMARY KEY)", None),
        ("CREATE TABLE c (x VARCHAR(3) REFERENCES p ON UPDATE CASCADE)", None),
        ("INSERT INTO p VALUES ('abc')", None),
        ("INSERT INTO c VALUES ('abc')", None),
        ("UPDATE p SET id = 'abcdef'", Some("22001")),
        ("UPDATE p SET id = 'abd'", None),
    ],
    &[
        ("CREATE TABLE p (id INT PRIMARY KEY)", None),
        (
            "CREATE TABLE c (k INT, x INT DEFAULT 5 CHECK (x < 5) REFERENCES p ON DELETE SET DEFAULT \
             ON UPDATE CASCADE)",
            None,
        ),
        ("INSERT INTO p VALUES (1), (2), (5)", None),
        ("INSERT INTO c VALUES (1, 1), (2, 2)", None),
        ("DELETE FROM p WHERE id = 1", Some("23514")),
        ("UPDATE p SET id = 70 WHERE id = 2", Some("23514")),
        ("UPDATE p SET id = 3 WHERE id = 2", None),
        ("DELETE FROM p WHERE id = 5", None),
    ],
    &[
        ("CREATE TABLE p (id INT PRIMARY KEY)", None),
        (
            "CREATE TABLE c (a INT, x INT REFERENCES p ON DELETE SET NULL, CHECK (a IS NOT NULL \
             OR x IS NOT NULL))",
            None,
        ),
        ("INSERT INTO p VALUES (1), (2)", None),
        ("INSERT INTO c VALUES (7, 1), (NULL, 2)", None),
        ("DELETE FROM p WHERE id = 1", None),
        ("DELETE FROM p WHERE id = 2", Some("23514")),
    ],
    // Rows that foreign keys change twice, and a row that references itself.
    &[
        ("CREATE TABLE p (a INT PRIMARY KEY, b INT UNIQUE)", None),
        (
            "CREATE TABLE c (a INT REFERENCES p ON UPDATE CASCADE, b INT REFERENCES p (b) ON UPDATE CASCADE)",
            None,
        ),
        ("INSERT INTO p VALUES (1, 1), (2, 2)", None),
        ("INSERT INTO c VALUES (1, 1), (1, 2)", None),
        ("UPDATE p SET a = a + 5, b = b + 5", None),
        ("INSERT INTO c VALUES (6, 7)", None),
        ("DELETE FROM p", Some("23503")),
    ],
    &[
        ("CREATE TABLE t (id INT PRIMARY KEY, p INT REFERENCES t ON UPDATE CASCADE)", None),
        ("INSERT INTO t VALUES (1, 1), (2, 1)", None),
        ("UPDATE t SET id = 50 WHERE id = 1", None),
        ("UPDATE t SET p = 1", Some("23503")),
        ("UPDATE t SET p = 3 WHERE id = 50", Some("23503")),
        ("UPDATE t SET id = 51, p = 9 WHERE id = 50", Some("23503")),
        ("DELETE FROM t WHERE id = 2", None),
    ],
    &[
        ("CREATE TABLE p (id INT PRIMARY KEY)", None),
        ("CREATE TABLE c (a INT CONSTRAINT f REFERENCES p, b INT CONSTRAINT g REFERENCES p)", None),
        ("ALTER TABLE c RENAME CONSTRAINT f TO g", Some("42710")),
        ("ALTER TABLE c RENAME CONSTRAINT f TO h", None),
        ("ALTER TABLE c DROP CONSTRAINT h", None),
        ("INSERT INTO c VALUES (7, 7)", Some("23503")),
    ],
    // Conditions without a column, and those that would not hold when they are looked at again.
    &[
        ("CREATE TABLE t (id INT PRIMARY KEY, CHECK (1 > 2))", None),
        ("INSERT INTO t VALUES (1)", Some("23514")),
    ],
    &[
        ("CREATE SEQUENCE s", None),
        (
            "CREATE TABLE t (id INT PRIMARY KEY, r DOUBLE PRECISION DEFAULT random(), \
             CHECK (r + random() > 0))",
            Some("0A000"),
        ),
        (
            "CREATE TABLE t (id INT PRIMARY KEY, n INT DEFAULT nextval('s'), CHECK (n < nextval('s')))",
            Some("0A000"),
        ),
        (
            "CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMPTZ DEFAULT now(), CHECK (at <= now()))",
            Some("0A000"),
        ),
    ],
    // The row of a sequence is its own.
    &[
        ("CREATE SEQUENCE s", None),
        ("SELECT nextval('s')", None),
        ("DELETE FROM s", Some("42809")),
        ("UPDATE s SET last_value = 1", Some("42809")),
        ("INSERT INTO s VALUES (1, true)", Some("42809")),
        ("TRUNCATE s", Some("42809")),
        ("ALTER TABLE s DROP COLUMN is_called", Some("42809")),
        ("ALTER TABLE s RENAME TO other", Some("42809")),
        ("ALTER TABLE s OWNER TO postgres", None),
        ("CREATE INDEX ON s (last_value)", Some("42809")),
        ("CREATE PROCEDURE again() LANGUAGE plpgsql AS $$ BEGIN DELETE FROM s; END $$", Some("42809")),
        ("SELECT last_value FROM s", None),
    ],
    &[
        ("CREATE SEQUENCE s", None),
        ("CREATE TABLE t (id INT DEFAULT nextval ( 's' ))", None),
        ("DROP SEQUENCE s", Some("2BP01")),
        ("DROP TABLE t", None),
        ("DROP SEQUENCE s", None),
    ],
    // All numbers of the type, and steps that leave it at once.
    &[
        (
            "CREATE SEQUENCE s MINVALUE -9223372036854775808 MAXVALUE 9223372036854775807 \
             START -9223372036854775808",
            None,
        ),
        ("SELECT nextval('s'), nextval('s')", None),
        ("SELECT setval('s', 9223372036854775807)", None),
        ("SELECT nextval('s')", Some("2200H")),
    ],
    &[
        (
            "CREATE SEQUENCE s INCREMENT 9223372036854775807 MINVALUE -9223372036854775808 \
             START -9223372036854775808",
            None,
        ),
        ("SELECT nextval('s'), nextval('s'), nextval('s')", None),
        ("SELECT nextval('s')", Some("2200H")),
        ("CREATE TABLE t (id INT)", None),
    ],
];

fn state_of(session: &mut Session, statement: &str) -> Option<String> {
    let ran = match statement.starts_with("SELECT") {
        true => session.query(statement).map(drop),
        false => session.execute_script(statement),
    };
    ran.err().map(|error| error.sqlstate().to_owned())
}

#[test]
fn constraints_hold() {
    for case in CASES {
        let folder = tempfile::tempdir().unwrap();
        let database = open(folder.path());
        let mut session = database.session().unwrap();
        for (statement, expected) in case {
            let state = state_of(&mut session, statement);
            assert_eq!(state.as_deref(), *expected, "{statement}, of {case:?}");
        }
    }
}

/// Statements, a query, and its rows.
type Outcome = (&'static [&'static str], &'static str, &'static [&'static [i64]]);

const RESULTS: [Outcome; 7] = [
    // Keys that one statement shifts along each other.
    (
        &[
            "CREATE TABLE p (id INT PRIMARY KEY)",
            "CREATE TABLE c (id INT PRIMARY KEY, p INT REFERENCES p ON UPDATE CASCADE)",
            "INSERT INTO p VALUES (3), (2), (1)",
            "INSERT INTO c VALUES (1, 1), (2, 2), (3, 3), (4, 1)",
            "UPDATE p SET id = id + 1",
        ],
        "SELECT id, p FROM c ORDER BY id",
        &[&[1, 2], &[2, 3], &[3, 4], &[4, 2]],
    ),
    (
        &[
            "CREATE TABLE p (x INT, y INT, PRIMARY KEY (x, y))",
            "CREATE TABLE c (id INT PRIMARY KEY, x INT, y INT, FOREIGN KEY (x, y) REFERENCES p \
             ON UPDATE CASCADE)",
            "INSERT INTO p VALUES (1, 1), (1, 2), (1, 3)",
            "INSERT INTO c VALUES (1, 1, 1), (2, 1, 2), (3, 1, 3)",
            "UPDATE p SET y = y + 1",
        ],
        "SELECT id, y FROM c ORDER BY id",
        &[&[1, 2], &[2, 3], &[3, 4]],
    ),
    (
        &[
            "CREATE TABLE tree (id INT PRIMARY KEY, up INT REFERENCES tree ON UPDATE CASCADE)",
            "INSERT INTO tree VALUES (11, 11), (12, 11), (13, 12), (14, 13)",
            "UPDATE tree SET id = id + 1",
        ],
        "SELECT id, up FROM tree ORDER BY id",
        &[&[12, 12], &[13, 12], &[14, 13], &[15, 14]],
    ),
    (
        &[
            "CREATE TABLE p (id INT PRIMARY KEY)",
            "CREATE TABLE c (id INT PRIMARY KEY REFERENCES p ON UPDATE CASCADE, v INT)",
            "INSERT INTO p VALUES (1), (2), (3)",
            "INSERT INTO c VALUES (1, 10), (2, 20), (3, 30)",
            "UPDATE p SET id = id + 10",
        ],
        "SELECT id, v FROM c ORDER BY id",
        &[&[11, 10], &[12, 20], &[13, 30]],
    ),
    // What a column is added with is what the rows get.
    (
        &[
            "CREATE TABLE t (id INT PRIMARY KEY)",
            "INSERT INTO t VALUES (1)",
            "ALTER TABLE t ADD COLUMN a INT DEFAULT 1, ALTER COLUMN a SET DEFAULT 2, ADD COLUMN b INT",
            "INSERT INTO t VALUES (2)",
        ],
        "SELECT id, a FROM t WHERE b IS NULL ORDER BY id",
        &[&[1, 1], &[2, 2]],
    ),
    // A default of a foreign key knows the time of its call.
    (
        &[
            "CREATE TABLE d (day DATE PRIMARY KEY)",
            "CREATE TABLE c (id INT PRIMARY KEY, day DATE DEFAULT current_date REFERENCES d \
             ON DELETE SET DEFAULT)",
            "INSERT INTO d VALUES (current_date - 1), (current_date), (current_date + 1), ('2000-01-01'), \
             ('2020-01-01')",
            "INSERT INTO c VALUES (1, '2020-01-01')",
            "CREATE PROCEDURE gone(x DATE) LANGUAGE plpgsql AS $$ BEGIN DELETE FROM d WHERE day = x; END $$",
            "CALL gone('2020-01-01')",
        ],
        "SELECT id, current_date - day FROM c",
        &[&[1, 0]],
    ),
    (
        &[
            "CREATE TABLE t (id SERIAL PRIMARY KEY, v INT)",
            "ALTER TABLE t RENAME COLUMN id TO k",
            "ALTER TABLE t RENAME TO u",
            "SELECT setval(pg_get_serial_sequence('u', 'k'), 100)",
            "INSERT INTO u (v) VALUES (7)",
        ],
        "SELECT k, v FROM u",
        &[&[101, 7]],
    ),
];

#[test]
fn what_definitions_and_foreign_keys_write_is_what_was_asked_for() {
    for (statements, query, expected) in RESULTS {
        let folder = tempfile::tempdir().unwrap();
        let database = open(folder.path());
        let mut session = database.session().unwrap();
        for statement in statements {
            assert_eq!(state_of(&mut session, statement), None, "{statement}");
        }
        let answer = session.query(query).unwrap();
        let rows = answer.rows.iter().map(|row| {
            row.iter().map(|value| match value {
                Value::Int(number) => *number,
                other => panic!("{other} is no integer"),
            })
        });
        let rows: Vec<Vec<i64>> = rows.map(Iterator::collect).collect();
        assert_eq!(rows, expected, "{query}");
        let digest = database.digest().unwrap();
        drop((session, database));
        assert_eq!(recovered_digest(folder.path()), digest, "{query}");
    }
}

#[test]
fn what_a_foreign_key_writes_is_of_the_type_of_its_column() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(folder.path());
    let mut session = database.session().unwrap();
    session
        .execute_script(
            "CREATE TABLE p (id BIGINT PRIMARY KEY, name VARCHAR(9) UNIQUE);
             CREATE TABLE c (id SMALLINT REFERENCES p ON UPDATE CASCADE, name TEXT REFERENCES p (name)
                 ON UPDATE CASCADE);
             INSERT INTO p VALUES (1, 'a');
             INSERT INTO c VALUES (1, 'a');
             UPDATE p SET id = 32767, name = 'abcdefghi';",
        )
        .unwrap();
    let answer = session.query("SELECT id, name FROM c").unwrap();
    assert_eq!(answer.rows, [vec![Value::Int(32767), Value::Text("abcdefghi".into())]]);
}

/// As PostgreSQL does, the error for a duplicate names the columns of the key with their values.
#[test]
fn a_duplicate_key_is_named_with_its_values() {
    let table = "CREATE TABLE t (a INT, b TEXT, c NUMERIC(5, 2), PRIMARY KEY (a, b), UNIQUE (c))";
    let (_folder, _db, mut session) = with(&format!("{table}; INSERT INTO t VALUES (1, 'x y', 2.50)"));
    for (row, detail) in [
        ("(1, 'x y', 3)", "Key (a, b)=(1, x y) already exists."),
        ("(2, 'z', 2.5)", "Key (c)=(2.50) already exists."),
    ] {
        let error = session.query(&format!("INSERT INTO t VALUES {row}")).unwrap_err();
        let Error::Sql(error) = error else { panic!("{error}") };
        assert_eq!((&*error.sqlstate, error.detail.as_deref()), ("23505", Some(detail)));
    }
}
