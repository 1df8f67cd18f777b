//! The plans of statements: which relation comes first, and by which index each one is read.

use procedure::Effect;
use procedure::query::{ExplainOptions, Explained};
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
            let lines = Explained::show(&procedure.explained(None), ExplainOptions::default(), None);
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
            "Update on item; Nested Loop; Unnest; Point item using item_pkey",
        ),
        (
            "DELETE FROM item USING unnest(ARRAY['a', 'b']) s (name) WHERE item.name = s.name",
            "Delete on item; Nested Loop; Unnest; Range item using item_name (name = …)",
        ),
        (
            "SELECT * FROM stock, (VALUES (1, 2), (3, 4)) s (w, i) WHERE stock.w = s.w AND stock.item = s.i",
            "Nested Loop; Values (2 rows); Point stock using stock_pkey",
        ),
        (
            "SELECT * FROM item, generate_series(1, 3) s WHERE item.id = s AND item.name = 'x'",
            "Nested Loop; Series; Point item using item_pkey, filtered",
        ),
        // Without an index, the table is read once.
        (
            "UPDATE item SET name = 'x' FROM unnest(ARRAY[1.5]) s (p) WHERE item.price = s.p",
            "Update on item; Hash Join; Whole table item by item_pkey; Unnest",
        ),
    ];
    for (statement, expected) in cases {
        assert_eq!(plan(statement), expected, "{statement}");
    }
}

#[test]
fn lists_of_values_search_indexes() {
    let found = "Nested Loop; Sort; Distinct by hash; Unnest; ";
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
    let queries = [
        ("SELECT max(item) FROM stock", "Aggregate; Whole table stock by stock_pkey"),
        ("SELECT item FROM stock WHERE w = 1", "Range stock using stock_pkey (w = …)"),
        ("SELECT item FROM stock ORDER BY quantity LIMIT 5", "Limit; Sort; Whole table stock by stock_pkey"),
    ];
    for (query, expected) in queries {
        let statement = format!("DELETE FROM item WHERE id IN ({query})");
        let expected = format!(
            "Delete on item; Nested Loop; Sort; Distinct by hash; {expected}; Point item using item_pkey"
        );
        assert_eq!(plan(&statement), expected, "{statement}");
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
    let rows = "Nested Loop; Sort; Distinct by hash; ";
    let cases = [
        ("SELECT name FROM stock WHERE (w, item) IN ((1, 2), (3, 4))", "Values (2 rows)"),
        ("SELECT name FROM stock WHERE (w = 1 AND item = 2) OR (w = 3 AND 4 = item)", "Values (2 rows)"),
    ];
    for (statement, expected) in cases {
        let expected = format!("{rows}{expected}; Point stock using stock_pkey");
        assert_eq!(plan(statement), expected, "{statement}");
    }
    // A single row is found already.
    assert_eq!(
        plan("SELECT 1 FROM item WHERE id = 5 AND id IN (1, 5)"),
        "Point item using item_pkey, filtered"
    );
}

#[test]
fn windows_follow_the_groups_and_precede_the_order() {
    let cases = [
        (
            "SELECT w, sum(sum(quantity)) OVER (ORDER BY w) FROM stock GROUP BY w ORDER BY 2 LIMIT 1",
            "Limit; Sort; WindowAgg; Group by hash; Whole table stock by stock_pkey",
        ),
        // An index has the order of the rows where no window has another one.
        (
            "SELECT w, item, count(*) OVER () FROM stock WHERE w = 1 ORDER BY item",
            "WindowAgg; Range stock using stock_pkey (w = …)",
        ),
    ];
    for (statement, expected) in cases {
        assert_eq!(plan(statement), expected, "{statement}");
    }
}

#[test]
fn subqueries_become_semi_joins() {
    let semi = "Hash Semi Join; Whole table stock by stock_pkey; Whole table item by item_pkey";
    let cases = [
        ("SELECT 1 FROM stock s WHERE EXISTS (SELECT 1 FROM item WHERE price = s.quantity)", semi.to_owned()),
        (
            "SELECT 1 FROM stock s
                WHERE NOT EXISTS (SELECT 1 / 0 FROM item WHERE price = s.quantity AND id > s.w)",
            semi.replace("Semi", "Anti"),
        ),
        ("SELECT 1 FROM stock WHERE quantity IN (SELECT price FROM item)", semi.to_owned()),
        (
            "SELECT 1 FROM stock s WHERE quantity IN (SELECT price FROM item WHERE item.price = s.w)",
            semi.to_owned(),
        ),
        (
            "SELECT 1 FROM stock s WHERE EXISTS (SELECT 1 FROM item i WHERE i.price = s.w
                AND EXISTS (SELECT 1 FROM stock x WHERE x.quantity = i.price))",
            "Hash Semi Join; Whole table stock by stock_pkey; Hash Semi Join; \
             Whole table item by item_pkey; Whole table stock by stock_pkey"
                .to_owned(),
        ),
        // An index leads to the rows.
        (
            "SELECT 1 FROM stock s WHERE EXISTS (SELECT 1 FROM item WHERE id = s.item)",
            "Filter; SubPlan (exists); Whole table stock by stock_pkey; Point item using item_pkey"
                .to_owned(),
        ),
        (
            "SELECT (SELECT count(*) FROM item WHERE price = s.quantity) FROM stock s",
            "SubPlan (value); Whole table stock by stock_pkey; Aggregate; Hash Lookup; \
             Whole table item by item_pkey"
                .to_owned(),
        ),
    ];
    for (statement, expected) in cases {
        assert_eq!(plan(statement), expected, "{statement}");
    }
}

#[test]
fn rows_are_compared_by_composite_keys() {
    let range = "Range stock using stock_pkey";
    let cases = [
        ("SELECT 1 FROM stock WHERE (w, item) = (1, 2)", "Point stock using stock_pkey".to_owned()),
        (
            "SELECT 1 FROM stock WHERE (w, item) > (1, 2) ORDER BY w, item LIMIT 3",
            format!("Limit; {range} ((w, item) > …), filtered"),
        ),
        (
            "SELECT 1 FROM stock WHERE (3, 4) >= (w, item) ORDER BY w DESC, item DESC",
            format!("{range} backward ((w, item) <= …), filtered"),
        ),
        // The second column is none of the index.
        ("SELECT 1 FROM stock WHERE (w, name) > (1, 'x')", format!("{range} (w >= …), filtered")),
    ];
    for (statement, expected) in cases {
        assert_eq!(plan(statement), expected, "{statement}");
    }
}

#[test]
fn extremes_are_the_first_values_of_indexes() {
    let cases = [
        ("SELECT min(day) FROM item", "Aggregate; Whole table item by item_day"),
        (
            "SELECT max(item) FROM stock WHERE w = 3",
            "Aggregate; Range stock using stock_pkey backward (w = …)",
        ),
        (
            "SELECT (SELECT max(item) FROM stock WHERE w = id) FROM item",
            "SubPlan (value); Whole table item by item_pkey; Aggregate; \
             Range stock using stock_pkey backward (w = …)",
        ),
        // A row of the index may have another value of the filter.
        ("SELECT max(day) FILTER (WHERE id > 1) FROM item", "Aggregate; Whole table item by item_pkey"),
    ];
    for (statement, expected) in cases {
        assert_eq!(plan(statement), expected, "{statement}");
    }
}
