//! Texts as statements: cut, bound, applied. Whatever they are, the answer is a result or an error with a
//! place.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sql::Schema;
use std::sync::LazyLock;

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let script = "
        CREATE TABLE t (id INT PRIMARY KEY, a INT, b TEXT, c NUMERIC(10, 2), d TIMESTAMP,
            e BOOLEAN DEFAULT true);
        CREATE TABLE u (id BIGINT PRIMARY KEY, t_id INT REFERENCES t (id) ON DELETE CASCADE,
            v DOUBLE PRECISION);
        CREATE INDEX t_a ON t (a, b);
        CREATE SEQUENCE s;
        CREATE VIEW w AS SELECT a, count(*) AS n FROM t GROUP BY a;
        CREATE FUNCTION f(x INT) RETURNS INT LANGUAGE plpgsql AS $$ BEGIN RETURN x + 1; END $$;
        CREATE PROCEDURE p(x INT, OUT y TEXT) LANGUAGE plpgsql AS $$
            BEGIN SELECT b INTO y FROM t WHERE id = x; END $$";
    let statements = Schema::split(script).expect("the script is in order");
    let apply = |schema: Schema, text: &str| schema.apply(text).expect("it is in order").0;
    statements.iter().fold(Schema::default(), |schema, (text, ..)| apply(schema, text))
});

fuzz_target!(|text: &str| {
    if let Ok(statements) = Schema::split(text) {
        for (statement, ..) in statements.iter().take(4) {
            let _ = SCHEMA.prepare(statement, &[]);
            let _ = SCHEMA.apply(statement);
        }
    }
});
