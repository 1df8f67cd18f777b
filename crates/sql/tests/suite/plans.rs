//! The plans of statements: which relation comes first, and by which index each one is read.

use procedure::Effect;
use sql::Schema;

const TABLES: &str = "
    CREATE TABLE stock (w INT, item INT, quantity INT, name TEXT, PRIMARY KEY (w, item));
    CREATE TABLE item (id INT PRIMARY KEY, name TEXT, price NUMERIC(8,2), day DATE);
    CREATE INDEX item_name ON item (name);
    CREATE INDEX item_day ON item (day);";

/// Returns the lines of a statement's plan, without the indentation.
fn plan(statement: &str) -> String {
    let mut schema = Schema::default();
    for (definition, ..) in Schema::split(TABLES).unwrap() {
        schema = schema.apply(&definition).unwrap().0;
    }
    match schema.apply(statement).unwrap_or_else(|error| panic!("{statement}: {error}")).1 {
        Effect::Run(procedure) => {
            let lines = procedure.explained(None);
            lines.iter().map(|line| line.trim().trim_start_matches("->  ")).collect::<Vec<_>>().join("; ")
        }
        other => panic!("{statement}: {other:?}"),
    }
}

#[test]
fn few_rows_lead_to_many_by_an_index() {
    let cases = [
        (
            "UPDATE item SET price = p FROM unnest(ARRAY[1, 2], ARRAY[2.5, 3]) s (i, p) WHERE id = i",
            "Update on item; Nested loop; Unnest; Point item using item_pkey",
        ),
        (
            "DELETE FROM item USING unnest(ARRAY['a', 'b']) s (name) WHERE item.name = s.name",
            "Delete on item; Nested loop; Unnest; Range item using item_name (name = …)",
        ),
        (
            "SELECT * FROM stock, (VALUES (1, 2), (3, 4)) s (w, i) WHERE stock.w = s.w AND stock.item = s.i",
            "Nested loop; Values (2 rows); Point stock using stock_pkey",
        ),
        (
            "SELECT * FROM item, generate_series(1, 3) s WHERE item.id = s AND item.name = 'x'",
            "Nested loop; Series; Point item using item_pkey, filtered",
        ),
        // Without an index, the table is read once.
        (
            "UPDATE item SET name = 'x' FROM unnest(ARRAY[1.5]) s (p) WHERE item.price = s.p",
            "Update on item; Hash join; Whole table item by item_pkey; Unnest",
        ),
    ];
    for (statement, expected) in cases {
        assert_eq!(plan(statement), expected, "{statement}");
    }
}

#[test]
fn lists_of_values_search_indexes() {
    let found = "Nested loop; Sort; Distinct by hash; Unnest; ";
    let cases = [
        ("SELECT name FROM item WHERE id IN (1, 2, 3)", "Point item using item_pkey"),
        ("SELECT name FROM item WHERE id = 1 OR id = 2 OR 3 = id", "Point item using item_pkey"),
        ("SELECT name FROM item WHERE id = ANY (ARRAY[1, 2])", "Point item using item_pkey"),
        (
            "SELECT id FROM item WHERE name IN ('a', 'b') AND price > 1",
            "Range item using item_name (name = …), filtered",
        ),
        (
            "SELECT id FROM item WHERE day IN ('2020-01-01', '2020-01-02')",
            "Range item using item_day (day = …)",
        ),
        ("SELECT name FROM stock WHERE w = 1 AND item IN (2, 3)", "Point stock using stock_pkey"),
    ];
    for (statement, expected) in cases {
        assert_eq!(plan(statement), format!("{found}{expected}"), "{statement}");
    }
    let whole = [
        "SELECT name FROM item WHERE price IN (1, 2)",
        "SELECT name FROM item WHERE id IN (1, 2) OR name = 'x'",
        "SELECT name FROM item WHERE id NOT IN (1, 2)",
        "SELECT name FROM item WHERE id IN (1.5, 2)",
    ];
    for statement in whole {
        assert!(plan(statement).starts_with("Whole table item"), "{statement}: {}", plan(statement));
    }
    // A single row is found already.
    assert_eq!(
        plan("SELECT 1 FROM item WHERE id = 5 AND id IN (1, 5)"),
        "Point item using item_pkey, filtered"
    );
}
