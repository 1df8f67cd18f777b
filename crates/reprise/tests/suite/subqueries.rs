//! Subqueries find the same rows whichever plan answers them: by hash tables, by indexes, or row by row.

use crate::common::Durably as _;
use crate::common::{seeds, with};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reprise::Session;

/// Three tables with the same columns, and with the same values in another order and by other indexes.
const SCHEMA: &str = "
CREATE TABLE a (id INT, k BIGINT, i INT, g BIGINT, n NUMERIC(6,1), w NUMERIC, d DOUBLE PRECISION,
    c CHAR(4), s TEXT, PRIMARY KEY (id, k));
CREATE TABLE b (id INT PRIMARY KEY, k BIGINT, i INT, g BIGINT, n NUMERIC(6,1), w NUMERIC, d DOUBLE PRECISION,
    c CHAR(4), s TEXT);
CREATE INDEX b_i ON b (i);
CREATE INDEX b_g ON b (g, n);
CREATE TABLE e (id INT, k BIGINT, i INT, g BIGINT, n NUMERIC(6,1), w NUMERIC, d DOUBLE PRECISION,
    c CHAR(4), s TEXT, PRIMARY KEY (k, id));
CREATE INDEX e_s ON e (s);
CREATE INDEX e_c ON e (c, i);
";

const TABLES: [&str; 3] = ["a", "b", "e"];
const NUMBERS: [&str; 7] = ["id", "k", "i", "g", "n", "w", "d"];
const TEXTS: [&str; 2] = ["c", "s"];
const ROWS: usize = 8;

fn pick<'t>(random: &mut SmallRng, from: &[&'t str]) -> &'t str {
    from[random.random_range(0..from.len())]
}

fn fill(random: &mut SmallRng, session: &mut Session) {
    for table in TABLES {
        let mut rows = Vec::new();
        for id in 0..ROWS {
            let i = pick(random, &["NULL", "0", "1", "2", "3"]);
            let g = pick(random, &["NULL", "0", "1", "2", "5000000000"]);
            let n = pick(random, &["NULL", "0", "0.5", "1.0", "2", "2.5"]);
            let w = pick(random, &["NULL", "0.00", "1", "1.000", "2.50", "12345678901234567890.5"]);
            let d = pick(random, &["NULL", "0", "'-0'", "1", "2.5", "'NaN'"]);
            let c = pick(random, &["NULL", "''", "'a'", "'a '", "'ab'"]);
            let s = pick(random, &["NULL", "''", "'a'", "'a '", "'ab'"]);
            let k = random.random_range(0..4);
            rows.push(format!("({id}, {k}, {i}, {g}, {n}, {w}, {d}, {c}, {s})"));
        }
        session.execute_script(&format!("DELETE FROM {table}")).unwrap();
        session.execute_script(&format!("INSERT INTO {table} VALUES {}", rows.join(", "))).unwrap();
    }
}

/// Writes random statements. From one seed, a plain and a naive writer write statements of one meaning.
struct Writer {
    random: SmallRng,
    /// Whether conditions are written so that no index and no hash table can find their rows.
    naive: bool,
    /// The names of the relations in scope, outermost first.
    scopes: Vec<String>,
    names: usize,
}

impl Writer {
    fn new(seed: u64, naive: bool) -> Self {
        Self { random: SmallRng::seed_from_u64(seed), naive, scopes: Vec::new(), names: 0 }
    }

    fn one_in(&mut self, several: u32) -> bool {
        self.random.random_range(0..several) == 0
    }

    fn scope(&mut self) -> String {
        self.scopes[self.random.random_range(0..self.scopes.len())].clone()
    }

    /// Returns a condition that compares a column of `relation` with another one or a constant.
    fn comparison(&mut self, relation: &str) -> String {
        let operator = if self.one_in(4) { pick(&mut self.random, &["<", ">=", "<>"]) } else { "=" };
        let (columns, constants): (&[&str], [&str; 3]) =
            if self.one_in(4) { (&TEXTS, ["'a'", "''", "'ab'"]) } else { (&NUMBERS, ["1", "2.5", "NULL"]) };
        let column = pick(&mut self.random, columns);
        let value = match self.one_in(5) {
            true => pick(&mut self.random, &constants).to_owned(),
            false => format!("{}.{}", self.scope(), pick(&mut self.random, columns)),
        };
        match self.one_in(2) {
            true => format!("{relation}.{column} {operator} {value}"),
            false => format!("{value} {operator} {relation}.{column}"),
        }
    }

    /// Returns the FROM and WHERE of a query, and the name of its first relation. They add to the scopes.
    fn relations(&mut self, depth: usize) -> (String, String) {
        let outer = self.scopes.last().cloned();
        let mut from = Vec::new();
        let mut conditions = Vec::new();
        let first = format!("q{}", self.names);
        for _ in 0..if self.one_in(4) { 2 } else { 1 } {
            let name = format!("q{}", self.names);
            self.names += 1;
            from.push(format!("{} AS {name}", pick(&mut self.random, &TABLES)));
            self.scopes.push(name.clone());
            for _ in 0..self.random.random_range(0..3) {
                conditions.push(self.comparison(&name));
            }
        }
        if depth > 0 {
            for _ in 0..self.random.random_range(0..3) {
                conditions.push(self.question(depth - 1));
            }
        }
        if self.naive {
            // In this form a condition leads to no path, and a subquery differs for each row.
            let all = conditions.iter().map(|own| format!(" AND ({own})")).collect::<String>();
            let outer = outer.map_or("TRUE".into(), |outer| format!("{outer}.id IS NOT NULL"));
            conditions = vec![format!("CASE WHEN {outer}{all} THEN TRUE END")];
        }
        if conditions.is_empty() {
            conditions.push("TRUE".into());
        }
        (format!("FROM {} WHERE {}", from.join(", "), conditions.join(" AND ")), first)
    }

    /// Returns a condition with a subquery.
    fn question(&mut self, depth: usize) -> String {
        if self.one_in(6) {
            return format!("({} OR {})", self.question(depth), self.question(depth));
        }
        let scope = self.scope();
        let kept = self.scopes.len();
        let texts = self.one_in(4);
        let columns: &[&str] = if texts { &TEXTS } else { &NUMBERS };
        let value = format!("{scope}.{}", pick(&mut self.random, columns));
        let column = pick(&mut self.random, columns);
        let kind = self.random.random_range(0..8);
        let (rows, name) = self.relations(depth);
        self.scopes.truncate(kept);
        match kind {
            0 | 1 => format!("EXISTS (SELECT {name}.{column} {rows})"),
            2 => format!("NOT EXISTS (SELECT 1 {rows})"),
            3 => format!("{value} IN (SELECT {name}.{column} {rows})"),
            4 => format!("{value} NOT IN (SELECT {name}.{column} {rows})"),
            5 => format!("{value} < ALL (SELECT {name}.{column} {rows})"),
            6 => format!("(SELECT count(*) {rows}) > 1"),
            _ => format!("{value} >= (SELECT max({name}.{column}) {rows})"),
        }
    }

    fn statement(&mut self) -> String {
        let (rows, name) = self.relations(2);
        let value = match self.random.random_range(0..4) {
            0 => {
                let (rows, inner) = self.relations(1);
                format!("(SELECT count({inner}.i) {rows})")
            }
            1 => {
                let (rows, inner) = self.relations(0);
                let sign = if self.one_in(2) { "DESC" } else { "ASC" };
                format!("(SELECT {inner}.id {rows} ORDER BY {inner}.id {sign}, {inner}.k LIMIT 1)")
            }
            _ => format!("{name}.i"),
        };
        format!("SELECT {name}.id, {name}.k, {value} {rows}")
    }
}

/// A hash table finds the rows whose values are equal, and an index does.
#[test]
fn subqueries_find_the_rows_of_their_conditions() {
    let (_folder, _db, mut session) = with(SCHEMA);
    let mut found = 0;
    for seed in seeds(300) {
        if seed % 20 == 0 || found == 0 {
            fill(&mut SmallRng::seed_from_u64(seed), &mut session);
        }
        let mut answer = |naive: bool| {
            let statement = Writer::new(seed, naive).statement();
            let answer = session.query(&statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
            let mut rows: Vec<String> = answer.rows.iter().map(|row| format!("{row:?}")).collect();
            rows.sort();
            (statement, rows)
        };
        let ((statement, rows), (naive, expected)) = (answer(false), answer(true));
        assert_eq!(rows, expected, "seed {seed}\n{statement}\n{naive}");
        found += rows.len();
    }
    assert!(found > 300, "the statements find {found} rows");
}
