//! What stands inside a block with an EXCEPTION clause is part of its procedure.

use procedure::{Procedure, Statement};
use sql::Schema;
use std::collections::BTreeSet;
use std::sync::Arc;

const TABLES: &str = "
    CREATE TABLE stock (item integer PRIMARY KEY, amount integer NOT NULL);
    CREATE TABLE complaints (item integer PRIMARY KEY, heard timestamp, luck double precision);
    CREATE PROCEDURE complain(item integer) LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO complaints VALUES (item, now(), random());
    END $$;
    CREATE PROCEDURE take(item integer) LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE stock SET amount = amount - 1 WHERE stock.item = take.item;
    END $$;";

/// Returns the procedure `guarded`, with these statements in a block with an EXCEPTION clause and in its
/// handler.
fn guarded(body: &str, handler: &str) -> Arc<Procedure> {
    let text = format!(
        "CREATE PROCEDURE guarded(item integer) LANGUAGE plpgsql AS $$
        BEGIN
            BEGIN {body} EXCEPTION WHEN division_by_zero THEN {handler} END;
        END $$;"
    );
    let mut schema = Schema::default();
    for script in [TABLES, &text] {
        for (statement, ..) in Schema::split(script).expect("syntax") {
            schema = schema.apply(&statement).expect("a definition").0;
        }
    }
    Arc::clone(schema.procedure("guarded").expect("it was created"))
}

fn tables(procedure: &Procedure) -> BTreeSet<String> {
    let mut tables = BTreeSet::new();
    procedure.for_each_table(&mut |table| {
        tables.insert(table.short_name().to_string());
    });
    tables
}

fn calls(procedure: &Procedure) -> Vec<&str> {
    let mut calls = Vec::new();
    procedure.for_each_call(&mut |called| calls.push(called.name.as_str()));
    calls
}

#[test]
fn calls_in_the_body_and_in_a_handler_are_seen() {
    let both = guarded("CALL take(item);", "CALL complain(item);");
    assert_eq!(calls(&both), ["take", "complain"]);
    assert_eq!(tables(&both), ["complaints", "stock"].map(String::from).into());
    assert!(both.uses_timestamp && both.uses_seed && !both.read_only && both.by_value.is_some());

    let body = guarded("CALL complain(item);", "NULL;");
    assert_eq!((calls(&body), tables(&body)), (vec!["complain"], ["complaints".into()].into()));
    assert!(body.uses_timestamp && body.uses_seed && !body.read_only);

    let none = guarded("NULL;", "NULL;");
    assert_eq!((calls(&none), tables(&none)), (vec![], [].into()));
    assert!(!none.uses_timestamp && !none.uses_seed && none.read_only);
}

#[test]
fn tables_in_the_body_and_in_a_handler_are_seen() {
    let update = "UPDATE stock SET amount = 1 WHERE stock.item = guarded.item;";
    let delete = "DELETE FROM complaints WHERE complaints.item = guarded.item;";
    for (body, handler, expected) in
        [(update, delete, vec!["complaints", "stock"]), ("NULL;", update, vec!["stock"])]
    {
        let procedure = guarded(body, handler);
        let expected = expected.into_iter().map(String::from).collect();
        assert_eq!(tables(&procedure), expected, "{body} {handler}");
        assert!(!procedure.read_only, "{body} {handler}");
    }
}

#[test]
fn a_loop_in_a_handler_makes_a_procedure_long() {
    let endless = "LOOP item := item + 1; END LOOP;";
    assert!(guarded("NULL;", "NULL;").looks_short());
    assert!(!guarded(endless, "NULL;").looks_short());
    assert!(!guarded("NULL;", endless).looks_short());
}

#[test]
fn loops_inside_look_rows_up_ahead() {
    let round = "FOR i IN 1..item LOOP UPDATE stock SET amount = 1 WHERE stock.item = i; END LOOP;";
    let procedure = guarded(round, round);
    let mut looked_up = Vec::new();
    Statement::walk(&procedure.body, &mut |statement| {
        if let Statement::ForRange { ahead, .. } = statement {
            looked_up.push(ahead.len());
        }
    });
    assert_eq!(looked_up, [1, 1]);
}
