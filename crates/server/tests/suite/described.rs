//! Descriptions of parameters and result columns, as PostgreSQL 15 gives them.

use crate::clients::Server;
use postgres::types::{ToSql, Type};
use postgres::{Client, Statement};

const TABLES: &str = "
CREATE TABLE t (a INT PRIMARY KEY, b BIGINT, n NUMERIC(10,2), v VARCHAR(20), c CHAR(5), x TEXT, d FLOAT8,
    ts TIMESTAMP(3), tz TIMESTAMPTZ(0), ok BOOLEAN);
CREATE TABLE u (a INT PRIMARY KEY, w TEXT);
CREATE VIEW seen AS SELECT n AS num, v, a + 1 AS next FROM t;
CREATE FUNCTION f(p INT) RETURNS INT LANGUAGE sql AS 'SELECT p';
";

fn with_tables(server: &Server) -> Client {
    let mut client = server.connect();
    client.batch_execute(TABLES).unwrap();
    client
}

#[test]
fn parameters_have_the_types_that_the_client_names() {
    let server = Server::start();
    let mut client = with_tables(&server);
    client.batch_execute("INSERT INTO t (a, b, x, c, d) VALUES (1, 5, 'five', 'ab', 0.5)").unwrap();
    let cases: [(&str, Type, &(dyn ToSql + Sync)); 9] = [
        ("b = $1", Type::INT4, &5i32),
        ("b = $1", Type::INT2, &5i16),
        ("a + 4 = $1", Type::INT8, &5i64),
        ("x = $1", Type::VARCHAR, &"five"),
        ("x = $1", Type::NAME, &"five"),
        ("c = $1", Type::BPCHAR, &"ab  "),
        ("d = $1", Type::FLOAT4, &0.5f32),
        ("d = ANY ($1)", Type::FLOAT4_ARRAY, &vec![0.25f32, 0.5]),
        ("x = ANY ($1)", Type::VARCHAR_ARRAY, &vec!["four", "five"]),
    ];
    for (condition, ty, value) in cases {
        let sql = format!("SELECT a FROM t WHERE {condition}");
        let statement = client.prepare_typed(&sql, std::slice::from_ref(&ty)).unwrap();
        assert_eq!(statement.params(), [ty], "{sql}");
        assert_eq!(client.query(&statement, &[value]).unwrap().len(), 1, "{sql}");
    }
}

#[test]
fn parameters_without_a_type_get_that_of_the_statement() {
    let server = Server::start();
    let mut client = with_tables(&server);
    let insert = "INSERT INTO t (a, b, n) VALUES ($1, $2, $3)";
    let statement = client.prepare_typed(insert, &[Type::INT8, Type::UNKNOWN]).unwrap();
    assert_eq!(statement.params(), [Type::INT8, Type::INT8, Type::NUMERIC]);
    let unused = client.prepare_typed("SELECT 1", &[Type::TEXT]).unwrap();
    assert_eq!(unused.params(), [Type::TEXT]);
    assert_eq!(client.query(&unused, &[&"unused"]).unwrap().len(), 1);
    let refused = client.prepare_typed("SELECT 1", &[Type::UNKNOWN]).unwrap_err();
    assert_eq!(refused.code().map(|code| code.code()), Some("42P18"));
}

#[test]
fn parameters_in_select_lists_have_the_types_of_where_they_go() {
    let server = Server::start();
    let mut client = with_tables(&server);
    for (text, types) in [
        ("INSERT INTO t (a, n, tz) SELECT $1, $2, $3", vec![Type::INT4, Type::NUMERIC, Type::TIMESTAMPTZ]),
        (
            "WITH own AS (SELECT $1::int AS a) INSERT INTO t (a, d) SELECT a, $2 FROM own",
            vec![Type::INT4, Type::FLOAT8],
        ),
        ("SELECT b FROM t UNION SELECT $1", vec![Type::INT8]),
        ("SELECT $1, $2 UNION ALL SELECT a, x FROM t", vec![Type::INT4, Type::TEXT]),
        ("SELECT 'x' UNION SELECT $1", vec![Type::TEXT]),
        ("SELECT $1 BETWEEN 1 AND $2", vec![Type::INT4, Type::INT4]),
        ("DECLARE c CURSOR FOR SELECT a FROM t WHERE n > $1", vec![Type::NUMERIC]),
    ] {
        assert_eq!(client.prepare(text).unwrap().params(), types, "{text}");
    }
    let of_subquery = client.prepare("INSERT INTO u SELECT (SELECT $1), $2").unwrap_err();
    assert_eq!(of_subquery.code().map(|code| code.code()), Some("42804"));
}

#[test]
fn parameters_for_outputs_of_a_call_get_the_types_of_the_outputs() {
    let server = Server::start();
    let mut client = with_tables(&server);
    let procedure = "CREATE PROCEDURE p(a INT, OUT b INT, INOUT c TEXT) LANGUAGE plpgsql
        AS 'BEGIN b := a + 1; c := c || a; END'";
    client.batch_execute(procedure).unwrap();
    let cases: [(&str, &[Type]); 4] = [
        ("CALL p($1, $2, $3)", &[]),
        ("CALL p($1, $2, $3)", &[Type::INT4, Type::VOID, Type::TEXT]),
        ("CALL p($1, $2::INT, $3)", &[]),
        ("CALL p(c => $3, a => $1, b => $2)", &[]),
    ];
    for (call, types) in cases {
        let statement = client.prepare_typed(call, types).unwrap();
        assert_eq!(statement.params(), [Type::INT4, Type::INT4, Type::TEXT], "{call}");
        let row = client.query_one(&statement, &[&7i32, &None::<i32>, &"x"]).unwrap();
        assert_eq!((row.get(0), row.get(1)), (8i32, "x7"), "{call}");
    }
    let refused = client.prepare_typed("CALL p($1, $2, $3)", &[Type::INT4, Type::TEXT]).unwrap_err();
    assert_eq!(refused.code().map(|code| code.code()), Some("42883"));
}

/// The columns of a statement: name, relation and position, type and modifier.
fn described(client: &mut Client, statement: &Statement) -> Vec<String> {
    let columns = statement.columns().iter().map(|column| {
        let origin = column.table_oid().zip(column.column_id());
        let origin = origin.map(|(oid, position)| {
            let sql = format!("SELECT relname FROM pg_class WHERE oid = {oid}");
            let relation: String = client.query_one(&sql, &[]).unwrap().get(0);
            format!(" {relation}.{position}")
        });
        let modifier = Some(column.type_modifier()).filter(|modifier| *modifier != -1);
        let modifier = modifier.map_or(String::new(), |modifier| format!(" {modifier}"));
        format!("{}{} {}{modifier}", column.name(), origin.unwrap_or_default(), column.type_().name())
    });
    columns.collect()
}

#[test]
fn columns_of_tables_have_origins_and_modifiers() {
    let server = Server::start();
    let mut client = with_tables(&server);
    let n = "n t.3 numeric 655366";
    let cases: [(&str, &[&str]); 17] = [
        (
            "SELECT v, c, ts, tz, b AS y FROM t",
            &[
                "v t.4 varchar 24",
                "c t.5 bpchar 9",
                "ts t.8 timestamp 3",
                "tz t.9 timestamptz 0",
                "y t.2 int8",
            ],
        ),
        ("SELECT n, n, (n), abs(n), b + 1 FROM t", &[n, n, n, "abs numeric", "?column? int8"]),
        ("SELECT q.m, q.k FROM (SELECT n AS m, a + 1 AS k FROM t) q", &["m t.3 numeric 655366", "k int4"]),
        ("WITH q(m) AS (SELECT n FROM t) SELECT m FROM q", &["m t.3 numeric 655366"]),
        ("SELECT * FROM seen", &["num seen.1 numeric 655366", "v seen.2 varchar 24", "next seen.3 int4"]),
        ("SELECT n, w FROM t JOIN u USING (a)", &[n, "w u.2 text"]),
        ("SELECT a FROM t LEFT JOIN u USING (a)", &["a t.1 int4"]),
        ("SELECT a FROM t FULL JOIN u USING (a)", &["a int4"]),
        ("SELECT n, count(*) FROM t GROUP BY n ORDER BY n", &[n, "count int8"]),
        ("SELECT DISTINCT n FROM t", &[n]),
        ("SELECT n FROM t UNION SELECT n FROM t", &["n numeric 655366"]),
        ("SELECT (SELECT n FROM t LIMIT 1)", &["n numeric 655366"]),
        ("INSERT INTO t (a) VALUES (1) RETURNING n, a + 1 AS next", &[n, "next int4"]),
        ("UPDATE t SET b = 1 FROM u WHERE u.a = t.a RETURNING n, w", &[n, "w u.2 text"]),
        ("DELETE FROM t RETURNING n", &[n]),
        ("SELECT a::bigint, v::text, x::text FROM t", &["a int8", "v text", "x t.6 text"]),
        ("TABLE u", &["a u.1 int4", "w u.2 text"]),
    ];
    for (sql, expected) in cases {
        let statement = client.prepare(sql).unwrap();
        let columns = described(&mut client, &statement);
        let expected: Vec<_> = expected.iter().map(|text| (*text).to_owned()).collect();
        let is_alike = |(column, expected): (&String, &String)| column == expected;
        assert!(
            columns.len() == expected.len() && columns.iter().zip(&expected).all(is_alike),
            "{sql}: {columns:?}"
        );
    }
}

#[test]
fn columns_without_an_alias_are_named_as_on_postgresql() {
    let server = Server::start();
    let mut client = with_tables(&server);
    for (sql, names) in [
        ("SELECT a, t.b, f(a), a::text, '1'::int, 1::smallint, x::char(3) FROM t", "a b f a int4 int2 x"),
        ("SELECT 1, 'x', NULL, a + 1, -a, a IS NULL, a IN (1), x LIKE 'a' FROM t LIMIT 1", "? ? ? ? ? ? ? ?"),
        (
            "SELECT CASE WHEN ok THEN 1 ELSE b END, CASE WHEN ok THEN 1 END, CASE a WHEN 1 THEN b END FROM t",
            "b case case",
        ),
        (
            "SELECT EXISTS (SELECT 1), (SELECT max(a) FROM t), (SELECT 1), ARRAY(SELECT a FROM t), ARRAY[1]",
            "exists max ? array array",
        ),
        (
            "SELECT (SELECT 1)::text, (SELECT a AS one FROM t LIMIT 1)::text, (a + 1)::text FROM t",
            "? one text",
        ),
        (
            "SELECT extract(year FROM ts), coalesce(a, 1), greatest(a, 1), least(a, 1), nullif(a, 1) FROM t",
            "extract coalesce greatest least nullif",
        ),
        (
            "SELECT upper(x), substring(x FROM 1), trim(x), position('a' IN x), ts AT TIME ZONE 'UTC' FROM t",
            "upper substring btrim position timezone",
        ),
        (
            "SELECT count(*), now(), current_date, current_user, date '2024-01-01' FROM t",
            "count now current_date current_user date",
        ),
    ] {
        let statement = client.prepare(sql).unwrap();
        let columns = statement.columns().iter().map(|column| column.name().replace("?column?", "?"));
        assert_eq!(columns.collect::<Vec<_>>().join(" "), names, "{sql}");
    }
}
