//! Texts of any shape: what nests too deeply is refused, and what is only long is not, on threads with an
//! ordinary stack.

use crate::common::Durably as _;
use crate::common::{open, with};
use reprise::Database;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Runs a statement on a thread with 2 MiB of stack: its rows' first column, or its SQLSTATE.
fn answer(db: &Database, text: &str) -> String {
    std::thread::scope(|scope| {
        let run = || match db.session().unwrap().query(text) {
            Ok(answer) => answer.rows.first().map_or_else(String::new, |row| row[0].to_string()),
            Err(error) => error.sqlstate().to_owned(),
        };
        std::thread::Builder::new().stack_size(2 << 20).spawn_scoped(scope, run).unwrap().join().unwrap()
    })
}

/// A beginning, something repeated, a middle, and an end that is repeated as often.
type Shape = (&'static str, &'static str, &'static str, &'static str, &'static str);

const SHAPES: [Shape; 22] = [
    ("brackets", "SELECT ", "(", "1", ")"),
    ("NOT", "SELECT ", "NOT ", "true", ""),
    ("signs", "SELECT ", "- ", "1", ""),
    ("sums", "SELECT ", "1 + ", "1", ""),
    ("sums of rows", "SELECT ", "n + ", "n FROM (VALUES (1)) AS v (n)", ""),
    ("concatenations", "SELECT length(", "'a' || ", "'b')", ""),
    ("CASE", "SELECT ", "CASE WHEN true THEN ", "1", " END"),
    ("ELSE", "SELECT ", "CASE WHEN false THEN 0 ELSE ", "1", " END"),
    ("subqueries", "SELECT ", "(SELECT ", "1", ")"),
    ("functions", "SELECT ", "abs(", "1", ")"),
    ("WHENs", "SELECT CASE", " WHEN false THEN 0", " ELSE 1 END", ""),
    ("EXISTS", "SELECT 1 WHERE true", " AND EXISTS (SELECT 1)", "", ""),
    ("casts", "SELECT 1", "::int", "", ""),
    ("casts with lengths", "SELECT '1'", "::varchar(1)", "", ""),
    ("columns", "SELECT 1", ", 1", "", ""),
    ("rows", "SELECT count(*) FROM (VALUES (1)", ", (1)", ") AS v", ""),
    ("statements", "SELECT 1", "; SELECT 1", "", ""),
    ("unions", "SELECT 1", " UNION ALL SELECT 1", "", ""),
    ("joins", "SELECT count(*) FROM (VALUES (1)) AS v", " CROSS JOIN (VALUES (1)) AS w", "", ""),
    ("arrays", "SELECT cardinality(", "ARRAY[", "1", "]"),
    ("tables", "SELECT * FROM ", "(SELECT * FROM ", "(VALUES (1)) AS v", ") AS t"),
    ("WITH", "", "WITH w AS (SELECT 1) ", "SELECT 1", ""),
];

#[test]
fn deep_texts_are_refused_and_long_ones_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    for (name, begin, again, middle, end) in SHAPES {
        for count in [10, 100, 300, 1_000, 5_000, 100_000] {
            let text = format!("{begin}{}{middle}{}", again.repeat(count), end.repeat(count));
            let answered = answer(&db, &text);
            let is_refused = ["54001", "54011", "42601", "0A000", "42712"].contains(&answered.as_str());
            assert!(is_refused || answered.len() < 7 && !answered.is_empty(), "{name} x{count}: {answered}");
            assert!(
                !is_refused || count >= 100 || ["WITH", "joins", "arrays", "statements"].contains(&name),
                "{name} x{count}: {answered}"
            );
        }
    }
    for count in [10, 1_000, 5_000] {
        let any = (0..count).map(|n| format!("n = {n}")).collect::<Vec<_>>().join(" OR ");
        let all = (0..count).map(|n| format!("n >= -{n}")).collect::<Vec<_>>().join(" AND ");
        let list = (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
        let rows = (0..count).map(|n| format!("({n})")).collect::<Vec<_>>().join(", ");
        for condition in [any, all, format!("n IN ({list})"), format!("n = ANY (ARRAY[{list}])")] {
            let text = format!("SELECT count(*) FROM (VALUES {rows}) AS v (n) WHERE {condition}");
            assert_eq!(answer(&db, &text), count.to_string(), "{:.60}…", condition);
        }
    }
}

#[test]
fn deep_procedures_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    for (name, begin, end) in [
        ("IF", "IF true THEN ", "END IF; "),
        ("blocks", "BEGIN ", "END; "),
        ("loops", "LOOP ", "EXIT; END LOOP; "),
        ("branches", "IF false THEN NULL; ELSE ", "END IF; "),
    ] {
        for count in [10, 100, 1_000, 20_000] {
            let body = format!("BEGIN {}NULL; {} END", begin.repeat(count), end.repeat(count));
            let answered = answer(&db, &format!("DO $$ {body} $$"));
            assert!(answered.is_empty() || count > 100 && answered == "54001", "{name} x{count}: {answered}");
        }
    }
    for count in [10, 100, 20_000] {
        let body =
            format!("BEGIN IF false THEN NULL; {} END IF; END", "ELSIF false THEN NULL; ".repeat(count));
        let answered = answer(&db, &format!("DO $$ {body} $$"));
        assert!(answered.is_empty() || count > 100 && answered == "54001", "ELSIF x{count}: {answered}");
    }
}

/// Statements that programs write, with many items, and what each answers of a table with keys 0 to 9.
fn long_statements(count: usize) -> [(&'static str, String, String); 15] {
    let each = |item: &dyn Fn(usize) -> String, between: &str| {
        (0..count).map(item).collect::<Vec<_>>().join(between)
    };
    let list = each(&|n| n.to_string(), ", ");
    let answer = count.min(10).to_string();
    let rows = |condition: String| format!("SELECT count(*) FROM long WHERE {condition}");
    let chain = |operand: &str, operator: &str| format!("SELECT {}", each(&|_| operand.into(), operator));
    [
        ("IN of keys", rows(format!("id IN ({list})")), answer.clone()),
        ("IN", rows(format!("n IN ({list})")), answer.clone()),
        ("NOT IN", rows(format!("n NOT IN ({list})")), (10 - count.min(10)).to_string()),
        ("IN of texts", rows(format!("t IN ({})", each(&|n| format!("'{n}'"), ", "))), answer.clone()),
        ("= ANY", rows(format!("id = ANY (ARRAY[{list}])")), answer.clone()),
        ("ANDs", rows(each(&|n| format!("n <> -{}", n + 1), " AND ")), "10".into()),
        ("ANDs of keys", rows(each(&|n| format!("id > -{}", n + 1), " AND ")), "10".into()),
        ("ORs", rows(each(&|n| format!("n = {n}"), " OR ")), answer),
        // Without spaces, the parser caches every node of the chain.
        ("chain of +", chain("1", "+"), String::new()),
        ("chain of + with spaces", chain("1", " + "), String::new()),
        ("chain of ||", chain("'a'", "||"), String::new()),
        ("chain of ORs", rows(each(&|n| format!("(n={n})"), "OR")), String::new()),
        ("chain of COLLATE", format!("SELECT 'a'{}", r#"collate"C""#.repeat(count)), String::new()),
        ("chain of NOTNULL", format!("SELECT 1{}", " NOTNULL".repeat(count)), String::new()),
        ("chain of fields", chain("a", "."), String::new()),
    ]
}

const LONG: &str = "CREATE TABLE long (id INT PRIMARY KEY, n INT NOT NULL, t TEXT NOT NULL)";

#[test]
fn long_statements_are_planned_in_line_with_their_length() {
    let (_folder, db, mut session) = with(LONG);
    for n in 0..10 {
        session.query(&format!("INSERT INTO long VALUES ({n}, {n}, '{n}')")).unwrap();
    }
    for factor in [1, 4] {
        for (name, text, expected) in long_statements(factor * 50_000) {
            // What is one node of the tree below another for each AND may be refused, but no stack may
            // overflow.
            let begun = Instant::now();
            let answered = answer(&db, &text);
            let took = begun.elapsed();
            println!("{name} x{}: {answered:.20}, {took:.2?}", factor * 50_000);
            let is_chain = ["AND", "OR", "chain"].iter().any(|begin| name.starts_with(begin));
            assert!(answered == expected || is_chain && answered == "54001", "{name}: {answered}");
            assert!(took < Duration::from_secs(20), "{name}: {took:?}");
        }
    }
}

#[test]
fn a_long_statement_is_cancelled_while_it_is_planned() {
    let (_folder, _db, mut session) = with(LONG);
    for (name, text, _) in long_statements(20_000) {
        session.cancelled_by(Arc::new(AtomicBool::new(true)));
        let error = session.prepare(&text).expect_err("it is cancelled");
        assert_eq!(error.sqlstate(), "57014", "{name}: {error}");
        session.cancelled_by(Arc::default());
        session.ends_at(Some(Instant::now()));
        let error = session.prepare(&text).expect_err("it has taken too long");
        assert!(error.to_string().contains("statement timeout"), "{name}: {error}");
        session.ends_at(None);
        match session.prepare(&text) {
            Err(error) if name.starts_with("chain") => assert_eq!(error.sqlstate(), "54001", "{name}"),
            prepared => assert!(prepared.is_ok(), "{name}"),
        }
    }
}
