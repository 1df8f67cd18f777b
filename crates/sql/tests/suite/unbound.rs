//! Routines whose bodies name what does not exist yet.

use sql::Schema;

fn unchecked(script: &str) -> Schema {
    let statements = Schema::split(script).expect("syntax");
    statements.iter().fold(Schema::default(), |schema, (statement, ..)| {
        let (changed, _) =
            schema.apply_unchecked(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        let image = changed.to_image().expect("an image");
        assert!(Schema::from_image(&image).expect("it is read").defines_the_same_as(&changed), "{image}");
        changed
    })
}

fn names(schema: &Schema) -> Vec<&str> {
    schema.unbound().collect()
}

const ADD: &str = "CREATE FUNCTION add(x INT) RETURNS INT LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO t VALUES (x, nextval('s')); PERFORM total(); RETURN x;
END $$;";
const TOTAL: &str = "CREATE FUNCTION total() RETURNS BIGINT LANGUAGE sql AS $$ SELECT count(*) FROM v $$;";
const CALLER: &str = "CREATE PROCEDURE caller() LANGUAGE plpgsql AS $$ BEGIN PERFORM add(1); END $$;";

#[test]
fn bodies_are_bound_when_what_they_name_exists() {
    let mut script = format!("{ADD}{TOTAL}{CALLER}");
    let steps: [(&str, &[&str]); 4] = [
        ("", &["add", "total"]),
        ("CREATE TABLE t (a INT PRIMARY KEY, b INT);", &["add", "total"]),
        ("CREATE SEQUENCE s;", &["total"]),
        ("CREATE VIEW v AS SELECT a FROM t;", &[]),
    ];
    for (statement, unbound) in steps {
        script += statement;
        let schema = unchecked(&script);
        assert_eq!(names(&schema), unbound, "after {statement}");
        // The caller runs what its callee is now.
        let add = schema.procedure("add").expect("it was created");
        assert_eq!(add.operations.is_empty(), unbound.contains(&"add"), "after {statement}");
    }
    let schema = unchecked(&script);
    // As in PostgreSQL, the text of a body keeps no object from being dropped.
    let (dropped, _) = schema.apply("DROP VIEW v").expect("only a text names it");
    assert_eq!(names(&dropped), ["total"]);
    let (back, _) = dropped.apply("CREATE VIEW v AS SELECT a FROM t").expect("a view");
    assert!(names(&back).is_empty());
}

#[test]
fn a_checked_statement_adds_no_unbound_routine() {
    let error = Schema::default().apply(TOTAL).map(|_| ()).unwrap_err();
    assert_eq!((error.error.sqlstate.as_str(), error.line), ("42P01", 1));
    let schema = unchecked(&format!("{ADD}{TOTAL}"));
    schema.apply("CREATE TABLE other (a INT PRIMARY KEY)").expect("it is about something else");
    let replaced = schema.apply(&TOTAL.replace("CREATE", "CREATE OR REPLACE")).map(|_| ()).unwrap_err();
    assert_eq!(replaced.error.sqlstate, "42P01");
    // A column or a built-in function that does not exist is an error in PL/pgSQL, too.
    for expression in ["(SELECT nope FROM s)", "lower(1, 2)"] {
        let body = format!("BEGIN RETURN {expression}; END");
        let text = format!("CREATE FUNCTION f() RETURNS INT LANGUAGE plpgsql AS $$ {body} $$");
        let schema = unchecked("CREATE TABLE s (a INT)");
        assert!(schema.apply(&text).is_err(), "{text}");
    }
    let (bound, _) = schema
        .apply(
            "CREATE OR REPLACE FUNCTION add(x INT) RETURNS INT LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END $$",
        )
        .expect("its body names nothing");
    assert_eq!(names(&bound), ["total"]);
    assert_eq!(names(&schema.apply("DROP FUNCTION add").expect("it is dropped").0), ["total"]);
}

/// Errors of parameters, and of what is not supported, are errors in any case.
#[test]
fn only_bodies_wait() {
    for statement in [
        "CREATE FUNCTION f(x nothing) RETURNS INT LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END $$",
        "CREATE FUNCTION f() RETURNS nothing LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END $$",
        "CREATE FUNCTION f() RETURNS INT LANGUAGE plpgsql AS $$ BEGIN RETURN 1 $$",
        "CREATE FUNCTION f() RETURNS INT LANGUAGE plperl AS $$ 1 $$",
    ] {
        assert!(Schema::default().apply_unchecked(statement).is_err(), "{statement}");
    }
}

/// Two routines that call each other: the first one calls the second one by its name.
#[test]
fn a_circle_of_calls_is_bound() {
    let function = |name: &str, other: &str| {
        format!("CREATE FUNCTION {name}() RETURNS INT LANGUAGE plpgsql AS $$ BEGIN RETURN {other}(); END $$;")
    };
    let schema = unchecked(&format!("{}{}", function("one", "two"), function("two", "one")));
    assert!(names(&schema).is_empty());
    schema.apply("CREATE TABLE t (a INT PRIMARY KEY)").expect("it is about something else");
}
