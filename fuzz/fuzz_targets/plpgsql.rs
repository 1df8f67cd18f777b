//! Texts as bodies of procedures.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sql::Schema;
use std::sync::LazyLock;

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let table = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b TEXT, c NUMERIC(10, 2))";
    Schema::default().apply(table).expect("it is in order").0
});

fuzz_target!(|body: &str| {
    let head = "CREATE PROCEDURE p(x INT, y TEXT, INOUT z INT[]) LANGUAGE plpgsql";
    let _ = SCHEMA.apply(&format!("{head} AS $fuzz$ {body} $fuzz$"));
});
