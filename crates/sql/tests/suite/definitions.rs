//! Definitions are accepted, or refused at CREATE with line and column.

use procedure::{OperationKind, Path};
use sql::Schema;

fn apply_all(script: &str) -> Schema {
    let mut schema = Schema::default();
    for (statement, line, _) in Schema::split(script).expect("syntax") {
        let (changed, _) =
            schema.apply(&statement).unwrap_or_else(|e| panic!("statement at line {line}: {e}"));
        schema = changed;
    }
    schema
}

fn paths(schema: &Schema, procedure: &str) -> Vec<String> {
    let describe = |path: &Path| match path {
        Path::Point { key } => format!("point/{}", key.len()),
        Path::Range { index, prefix, lower, upper, backward, .. } => format!(
            "index {index}/{}{}{}{}",
            prefix.len(),
            if lower.is_some() { " lower" } else { "" },
            if upper.is_some() { " upper" } else { "" },
            if *backward { " backward" } else { "" }
        ),
    };
    let procedure = schema.procedure(procedure).expect("it was created");
    let operations = procedure.operations.iter();
    operations
        .map(|operation| match &operation.kind {
            OperationKind::Select(select) => {
                format!("select {} {}", select.access.table.name, describe(&select.access.path))
            }
            OperationKind::Insert { table, .. } => format!("insert {}", table.name),
            OperationKind::Update { access, .. } => {
                format!("update {} {}", access.table.name, describe(&access.path))
            }
            OperationKind::Delete { access, .. } => {
                format!("delete {} {}", access.table.name, describe(&access.path))
            }
        })
        .collect()
}

#[test]
fn plans_of_one_table_become_operations() {
    let tables = "
        CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT CHECK (b < c), c INT, d TEXT, e TEXT);
        CREATE TABLE parents (id INT PRIMARY KEY);
        CREATE TABLE children (id INT PRIMARY KEY, parent INT REFERENCES parents);
        CREATE TABLE lists (id INT PRIMARY KEY, next INT REFERENCES lists);
        CREATE FUNCTION twice(x INT) RETURNS INT LANGUAGE plpgsql AS $$ BEGIN RETURN 2 * x; END $$;";
    let of = |statement: &str| {
        let head = "CREATE PROCEDURE p(x INT, INOUT y INT, INOUT z TEXT) LANGUAGE plpgsql AS $$ BEGIN";
        let schema = apply_all(&format!("{tables}{head} {statement}; END $$;"));
        let procedure = schema.procedure("p").expect("it was created");
        let own = paths(&schema, "p");
        assert_eq!(own.is_empty(), procedure.by_value.is_some(), "{statement}");
        (own, procedure.registers.len(), procedure.queries.len())
    };
    // The parameters and FOUND take four registers, a row of the table six.
    for (statement, operations, registers) in [
        ("SELECT a INTO y FROM t WHERE id = x", vec!["select t point/1"], 10),
        (
            "SELECT a FROM t WHERE id BETWEEN x AND y ORDER BY id DESC LIMIT 1 INTO y",
            vec!["select t index 0/0 lower upper backward"],
            10,
        ),
        ("SELECT DISTINCT ON (a) b INTO y FROM t", vec![], 0),
        ("SELECT sum(a) + 1 INTO y FROM t AS o WHERE o.b > 3", vec!["select t index 0/0"], 11),
        ("SELECT CASE x WHEN 1 THEN d ELSE e END INTO z FROM t WHERE id = x", vec!["select t point/1"], 11),
        (
            "UPDATE t SET (a, b) = (x, a + 1) WHERE id = x RETURNING a + c INTO y",
            vec!["update t point/1"],
            12,
        ),
        ("UPDATE t SET d = z WHERE id = x", vec!["update t point/1"], 11),
        ("UPDATE t SET id = x WHERE id = y", vec![], 0),
        ("DELETE FROM children WHERE id = x RETURNING parent INTO y", vec!["delete children point/1"], 6),
        ("DELETE FROM parents WHERE id = x", vec![], 0),
        ("INSERT INTO t (id, b) VALUES (x, 1), (y, 2)", vec!["insert t", "insert t"], 16),
        (
            "INSERT INTO t (id, a) SELECT id + 1, a * 2 FROM t WHERE id > x",
            vec!["select t index 0/0 lower", "insert t"],
            18,
        ),
        ("INSERT INTO t (id) VALUES (twice(x)) RETURNING id INTO y", vec!["insert t"], 11),
        ("INSERT INTO lists VALUES (x, 1)", vec![], 0),
        ("SELECT twice(a) INTO y FROM t WHERE id = x", vec![], 0),
        ("SELECT a INTO y FROM t ORDER BY random()", vec!["select t index 0/0"], 10),
        ("SELECT random() AS r, a FROM t ORDER BY r LIMIT 1 INTO y, y", vec![], 0),
    ] {
        let (own, taken, queries) = of(statement);
        assert_eq!(own, operations, "{statement}");
        match operations.is_empty() {
            true => assert_eq!(queries, 1, "{statement}"),
            false => assert_eq!((taken, queries), (registers, 0), "{statement}"),
        }
    }
}

#[test]
fn tpcc_reaches_every_row_by_an_index() {
    let schema = apply_all(concat!(
        include_str!("../../../workload/src/tpcc/schema.sql"),
        include_str!("../../../workload/src/tpcc/procedures.sql")
    ));
    assert_eq!(
        paths(&schema, "payment"),
        [
            "update warehouse point/1",
            "update district point/2",
            "select customer index 1/3",
            "select customer index 1/3",
            "update customer point/3",
            "update customer point/3",
            "insert history"
        ]
    );
    assert_eq!(
        paths(&schema, "order_status"),
        [
            "select customer index 1/3",
            "select customer index 1/3",
            "select customer point/3",
            "select orders index 1/3 backward",
            "select order_line index 0/3"
        ]
    );
    assert_eq!(
        paths(&schema, "delivery"),
        [
            "select new_order index 0/2",
            "delete new_order point/3",
            "update orders point/3",
            "update order_line index 0/3",
            "select order_line index 0/3",
            "update customer point/3"
        ]
    );
    assert_eq!(
        paths(&schema, "stock_level"),
        ["select district point/2", "select order_line index 0/2 lower upper", "select stock point/2"]
    );
    assert!(schema.procedure("stock_level").expect("created").read_only);
    assert!(!schema.procedure("new_order").expect("created").read_only);
}

#[test]
fn smallbank_compiles() {
    let schema = apply_all(concat!(
        include_str!("../../../workload/src/smallbank/schema.sql"),
        include_str!("../../../workload/src/smallbank/procedures.sql")
    ));
    assert_eq!(schema.procedures().count(), 8);
}

#[test]
fn what_is_not_supported_is_refused_with_line_and_column() {
    let schema =
        apply_all("CREATE TABLE t (a INT PRIMARY KEY, b TEXT CHECK (b <> ''), c NUMERIC(10,2) DEFAULT 1.5);");
    let body =
        |body: &str| format!("CREATE PROCEDURE p(x INT) LANGUAGE plpgsql AS $$\nBEGIN\n  {body}\nEND $$");
    let cases = [
        (body("SELECT lag(a) IGNORE NULLS OVER () INTO x FROM t;"), 3, "0A000"),
        (body("SELECT a INTO x FROM t TABLESAMPLE system (1);"), 3, "0A000"),
        (body("UPDATE t SET nope = 1 WHERE a = x;"), 3, "42703"),
        (body("x := clock_timestamp();"), 3, "0A000"),
        (body("x := y + 1;"), 3, "42703"),
        (body("x := 'abc' || 1 + true;"), 3, "42883"),
        (body("SELECT a FROM t;"), 3, "42601"),
        (body("RAISE EXCEPTION 'one % two %', x;"), 3, "42601"),
        (body("EXIT;"), 3, "42601"),
        (body("LISTEN news;"), 3, "0A000"),
        (body("SELEC 1;"), 3, "42601"),
        ("CREATE TABLE u (a INT PRIMARY KEY, b INT[][])".into(), 1, "0A000"),
        ("CREATE TABLE u (a INT PRIMARY KEY,\n b FOO)".into(), 2, "42704"),
        ("CREATE TABLE u (a INT PRIMARY KEY,\n b MONEY)".into(), 2, "0A000"),
        ("CREATE TABLE t (a INT PRIMARY KEY)".into(), 1, "42P07"),
        ("CREATE TABLE u (a INT PRIMARY KEY CHECK (z > 1))".into(), 1, "42703"),
        ("CREATE INDEX ON t (nope)".into(), 1, "42703"),
        ("DROP TABLE u".into(), 1, "42P01"),
        ("LISTEN news".into(), 1, "0A000"),
        ("WITH d AS (DELETE FROM t RETURNING a)\nSELECT count(*) FROM t".into(), 1, "0A000"),
        ("SELECT 1 FROM t x\nWHERE x.b = '' AND x.a BETWEEN 1 AND x.a = true OR x.b = ''".into(), 2, "0A000"),
        ("SELECT (SELECT\nmax(x.a)) FROM t x".into(), 2, "0A000"),
    ];
    for (statement, line, sqlstate) in cases {
        let error = schema.apply(&statement).map(|_| ()).expect_err(&statement);
        assert_eq!((error.line, error.error.sqlstate.as_str()), (line, sqlstate), "{statement}: {error}");
        assert!(error.column > 0);
    }
}

#[test]
fn routines_are_compiled_anew_when_their_tables_change() {
    let schema = apply_all(
        "CREATE TABLE t (a INT PRIMARY KEY, b INT);
         CREATE FUNCTION f(x INT) RETURNS INT LANGUAGE plpgsql AS $$ DECLARE r INT; BEGIN
             SELECT b INTO r FROM t WHERE a = x; RETURN r;
         END $$;
         CREATE PROCEDURE p(x INT) LANGUAGE plpgsql AS $$ DECLARE v INT; BEGIN
             v := f(x); UPDATE t SET b = v WHERE a = x;
         END $$;",
    );
    // As in PostgreSQL, texts of bodies keep no table from being dropped; their calls fail then.
    let (dropped, _) = schema.apply("DROP TABLE t").expect("only texts name it");
    assert_eq!(dropped.unbound().collect::<Vec<_>>(), ["f", "p"]);
    assert_eq!(dropped.procedure("p").expect("it is kept").version, 1);
    let (indexed, _) = schema.apply("CREATE INDEX t_b ON t (b)").expect("an index may be added");
    let operation = &indexed.procedure("f").expect("compiled anew").operations[0];
    assert_eq!(operation.table().indexes.len(), 2);
    let replaced = schema
        .apply(
            "CREATE OR REPLACE FUNCTION f(x INT) RETURNS INT LANGUAGE plpgsql AS $$ BEGIN RETURN x; END $$",
        )
        .expect("replaced")
        .0;
    assert_eq!(replaced.procedure("f").expect("there").version, 2);
}

#[test]
fn tables_and_results_that_are_too_wide_are_refused() {
    let columns = |count: usize| (0..count).map(|n| format!("c{n} INT")).collect::<Vec<_>>().join(", ");
    let refused = |schema: &Schema, statement: &str| {
        let error = schema.apply(statement).map(|_| ()).expect_err("it has too many columns").error;
        assert_eq!(
            (error.sqlstate.as_str(), &*error.message),
            ("54011", "tables can have at most 1600 columns")
        );
    };
    for count in [1601, 5_000, 70_000] {
        refused(&Schema::default(), &format!("CREATE TABLE t ({})", columns(count)));
    }
    let schema = apply_all(&format!("CREATE TABLE t ({});", columns(1599)));
    refused(&schema, "ALTER TABLE t ADD COLUMN a INT, ADD COLUMN b INT");
    let (schema, _) = schema.apply("ALTER TABLE t ADD COLUMN a INT").unwrap();
    refused(&schema, "ALTER TABLE t ADD COLUMN b INT");
    schema.prepare("INSERT INTO t VALUES (1) RETURNING *, 1, 2", &[]).unwrap();
    let wide = vec!["1"; 65].join(", ");
    for statement in [
        format!("INSERT INTO t VALUES (1) RETURNING *, {wide}"),
        format!("UPDATE t SET a = 1 RETURNING *, {wide}"),
        format!("SELECT *, {wide} FROM t"),
        format!("SELECT *, {wide} FROM t JOIN t AS u USING (a)"),
        "SELECT * FROM t JOIN t AS u USING (a)".into(),
        format!("SELECT {}", vec!["1"; 70_000].join(", ")),
    ] {
        let error = schema.prepare(&statement, &[]).map(|_| ()).expect_err("it has too many columns").error;
        assert_eq!(error.sqlstate, "54011", "{statement:.60}…: {error}");
    }
}

#[test]
fn errors_of_literals_point_at_them() {
    let schema = apply_all("CREATE TABLE t (id INT PRIMARY KEY, a INT);");
    for statement in [
        "SELECT DATE 'x'",
        "SELECT 1 + 'x'",
        "SELECT id FROM t WHERE a = 1 AND a BETWEEN 1 AND 'x'",
        "SELECT coalesce(a, 'x') FROM t",
        "UPDATE t SET a = 'x'",
        "VALUES (1), ('x')",
        "SELECT 1 UNION SELECT 'x'",
    ] {
        let error = schema.apply(statement).unwrap_err();
        let place = statement.find("'x'").unwrap() as u32 + 1;
        assert_eq!((error.line, error.column), (1, place), "{statement}: {error}");
    }
}
