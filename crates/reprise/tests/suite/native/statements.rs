//! Random procedures, as text.

use super::expressions::{Names, TYPES, Ty, expression, one_of};
use rand::Rng;
use rand::rngs::SmallRng;
use reprise::Value;
use std::fmt::Write;

/// The tables of all cases, and a procedure that the random ones call.
pub const TABLES: &str = "
    DROP PROCEDURE IF EXISTS p;
    DROP TABLE IF EXISTS child; DROP TABLE IF EXISTS parent; DROP TABLE IF EXISTS wide;
    DROP TABLE IF EXISTS listed;
    CREATE TABLE parent (id INTEGER PRIMARY KEY, v INTEGER NOT NULL CHECK (v < 1000), w TEXT, d DATE,
        ns INTEGER[], ts TEXT[] NOT NULL DEFAULT '{}', e INTERVAL);
    CREATE TABLE child (a SMALLINT, b VARCHAR(8), c BIGINT NOT NULL, m NUMERIC(8,2),
        p INTEGER REFERENCES parent, f DOUBLE PRECISION, g BOOLEAN NOT NULL, PRIMARY KEY (a, b), UNIQUE (c));
    CREATE TABLE wide (k TIMESTAMP, l NUMERIC(4,4), n NUMERIC, t CHAR(4) NOT NULL, PRIMARY KEY (k, l),
        UNIQUE (n));
    CREATE TABLE listed (k INTEGER[] PRIMARY KEY, n INTEGER[], v INTEGER NOT NULL CHECK (cardinality(k) < 9));
    CREATE INDEX listed_n ON listed (n, v);
    INSERT INTO parent VALUES (1, 10, 'one', DATE '2024-01-01', '{1,NULL}', '{}', '1 mon'),
        (2, 20, NULL, NULL, NULL, '{a}', NULL),
        (7, 70, 'seven', NULL, '{}', '{}', '30 days');
    INSERT INTO listed VALUES ('{1,2,3}', '{1}', 1), ('{}', NULL, 2), ('{NULL,5}', '{2,1}', 3);
    INSERT INTO child VALUES (1, 'a', 1, 1.25, 1, 0.5, true), (3, 'abc', 2, NULL, NULL, NULL, false);
    CREATE OR REPLACE PROCEDURE helper(x INTEGER, y TEXT, OUT r INTEGER, OUT s TEXT) LANGUAGE plpgsql AS $$
    BEGIN r := x + 1; s := y || '!'; IF x > 5 THEN RETURN; END IF; r := x / (x - 2); END $$;
";

/// Maximum number of loops of a procedure.
const MOST_LOOPS: usize = 6;

/// Draws one procedure, and arguments for it.
pub struct Generator<'r> {
    random: &'r mut SmallRng,
    names: Names,
    parameters: Vec<Ty>,
    text: String,
    loops: usize,
}

impl<'r> Generator<'r> {
    pub fn new(random: &'r mut SmallRng) -> Self {
        Self { random, names: Vec::new(), parameters: Vec::new(), text: String::new(), loops: 0 }
    }

    fn below(&mut self, count: usize) -> usize {
        self.random.random_range(0..count)
    }

    fn ty(&mut self) -> Ty {
        TYPES[self.below(TYPES.len())]
    }

    fn of(&mut self, ty: Ty) -> String {
        let depth = self.random.random_range(0..4);
        expression(self.random, &self.names, ty, depth)
    }

    /// A name of a type; `None` where there is none.
    fn name(&mut self, ty: Ty) -> Option<String> {
        let known = self.names.iter().filter(|(name, own)| *own == ty && !name.starts_with('i'));
        let known: Vec<&str> = known.map(|(name, _)| name.as_str()).collect();
        (!known.is_empty()).then(|| one_of(self.random, &known).to_owned())
    }

    pub fn procedure(&mut self) -> String {
        let mut head = String::from("CREATE OR REPLACE PROCEDURE p(");
        for number in 0..self.random.random_range(1..5) {
            let ty = self.ty();
            let _ = write!(head, "a{number} {}, ", ty.name());
            self.names.push((format!("a{number}"), ty));
            self.parameters.push(ty);
        }
        for (number, ty) in [self.ty(), self.ty()].into_iter().enumerate() {
            let separator = if number == 0 { ", " } else { "" };
            let _ = write!(head, "OUT o{number} {}{separator}", ty.name());
            self.names.push((format!("o{number}"), ty));
        }
        head += ") LANGUAGE plpgsql AS $$ DECLARE ";
        // A variable of every type, so that each statement finds one.
        for (number, ty) in TYPES.into_iter().enumerate() {
            let value = if self.below(3) == 0 { String::new() } else { format!(" := {}", self.of(ty)) };
            let _ = write!(head, "v{number} {}{value}; ", ty.name());
            self.names.push((format!("v{number}"), ty));
        }
        // No statement but its own changes the counter of a loop, so all loops end.
        (1..=MOST_LOOPS).for_each(|number| head += &format!("n{number} integer; "));
        let count = self.random.random_range(2..9);
        self.statements(count, 2, 0);
        format!("DROP PROCEDURE IF EXISTS p; {head}BEGIN\n{}END $$", std::mem::take(&mut self.text))
    }

    fn statements(&mut self, count: usize, depth: usize, around: usize) {
        (0..count).for_each(|_| self.statement(depth, around));
    }

    fn line(&mut self, line: &str) {
        self.text += line;
        self.text.push('\n');
    }

    /// Writes a statement; `around` is the number of loops around it.
    fn statement(&mut self, depth: usize, around: usize) {
        match self.below(20) {
            0..6 => {
                let ty = self.ty();
                let (Some(name), value) = (self.name(ty), self.of(ty)) else { return };
                self.line(&format!("{name} := {value};"));
            }
            6 if depth > 0 => {
                let condition = self.of(Ty::Boolean);
                self.line(&format!("IF {condition} THEN"));
                self.statements(2, depth - 1, around);
                self.line("ELSE");
                self.statements(1, depth - 1, around);
                self.line("END IF;");
            }
            7 | 8 if depth > 0 && self.loops < MOST_LOOPS => self.a_loop(depth - 1, around),
            9 if around > 0 => {
                let (kind, condition) = (one_of(self.random, &["EXIT", "CONTINUE"]), self.of(Ty::Boolean));
                let label = format!(" l{}", self.below(around) + 1);
                let label = if self.below(2) == 0 { String::new() } else { label };
                self.line(&format!("{kind}{label} WHEN {condition};"));
            }
            10 => {
                let condition = self.of(Ty::Boolean);
                let what = one_of(self.random, &["RETURN;", "RAISE EXCEPTION 'no';", "v1 := v1 + 1;"]);
                self.line(&format!("IF {condition} THEN {what} END IF;"));
            }
            11 => {
                let (ty, other) = (self.ty(), self.ty());
                let (value, other) = (self.of(ty), self.of(other));
                self.line(&format!("RAISE NOTICE 'told % and %', {value}, {other};"));
            }
            12 => {
                let (index, value) = (self.of(Ty::Int), self.of(Ty::Int));
                let slice = self.of(Ty::Ints);
                self.line(&format!("v13[abs({index}) % 3 + 1] := {value};"));
                self.line(&format!("v13[1:abs({index}) % 3] := {slice};"));
            }
            13 => {
                let (x, y) = (self.of(Ty::Int), self.of(Ty::Text));
                self.line(&format!("CALL helper({x}, {y}, v1, v7);"));
            }
            _ => self.access(),
        }
    }

    fn a_loop(&mut self, depth: usize, around: usize) {
        self.loops += 1;
        let (label, number) = (around + 1, self.loops);
        let end = match self.below(5) {
            0 => {
                let (from, to) = (self.of(Ty::Int), self.of(Ty::Int));
                let (reverse, step) = one_of(self.random, &[&("", ""), &("REVERSE ", ""), &("", " BY 2")]);
                let range = match *reverse {
                    "" => format!("{from} % 5..{to} % 9"),
                    _ => format!("{to} % 9..{from} % 5"),
                };
                self.line(&format!("<<l{label}>> FOR i{number} IN {reverse}{range}{step} LOOP"));
                self.names.push((format!("i{number}"), Ty::Int));
                self.access_by(&format!("i{number}"));
                true
            }
            1 => {
                self.line(&format!("<<l{label}>> FOR v1, v7 IN SELECT id, w FROM parent ORDER BY id LOOP"));
                false
            }
            2 => {
                let bound = self.of(Ty::Int);
                self.line(&format!(
                    "<<l{label}>> FOR v2 IN SELECT c FROM child WHERE a > {bound} % 5
                    ORDER BY c DESC LIMIT 3 LOOP"
                ));
                false
            }
            3 => {
                let array = self.of(Ty::Ints);
                self.line(&format!("<<l{label}>> FOREACH v1 IN ARRAY {array} LOOP"));
                false
            }
            _ => {
                let n = format!("n{number}");
                self.line(&format!("{n} := 0;\n<<l{label}>> WHILE {n} < 4 LOOP\n{n} := {n} + 1;"));
                false
            }
        };
        self.statements(2, depth, around + 1);
        self.line("END LOOP;");
        if end {
            self.names.pop();
        }
    }

    /// Writes an access by a key that the loop's variable tells, so that rows are looked up ahead.
    fn access_by(&mut self, key: &str) {
        match self.below(3) {
            0 => self.line(&format!("SELECT v INTO v1 FROM parent WHERE id = {key} + 1;")),
            1 => self.line(&format!("UPDATE parent SET v = v + 1 WHERE id = {key} % 9 RETURNING w INTO v7;")),
            _ => {}
        }
    }

    /// Writes an access to a table.
    fn access(&mut self) {
        let (x, y) = (self.of(Ty::Int), self.of(Ty::Int));
        let line = match self.below(18) {
            0 => format!("SELECT v, w, d INTO v1, v7, v9 FROM parent WHERE id = {x};"),
            1 => {
                let filter = self.of(Ty::Boolean);
                format!("SELECT v + 1, upper(w) INTO STRICT v1, v7 FROM parent WHERE id = {x} AND {filter};")
            }
            2 => {
                format!("INSERT INTO parent VALUES ({x}, {y}, {}, {});", self.of(Ty::Text), self.of(Ty::Date))
            }
            3 => {
                let returning = one_of(self.random, &["", " RETURNING v, d INTO v1, v9"]);
                format!("UPDATE parent SET v = {x} - v, w = w || v, d = d + 1 WHERE id = {y}{returning};")
            }
            4 => format!("DELETE FROM parent WHERE id = {x} AND v > {y} RETURNING v INTO v1;"),
            5 => {
                let (m, f, g) = (self.of(Ty::Cents), self.of(Ty::Double), self.of(Ty::Boolean));
                let c = self.of(Ty::BigInt);
                format!(
                    "INSERT INTO child VALUES ({x} % 9, ({y})::text, {c}, {m}, {x} % 3, {f}, {g})
                    RETURNING m INTO v3;"
                )
            }
            6 => {
                let (b, m, f) = (self.of(Ty::Text), self.of(Ty::Cents), self.of(Ty::Double));
                format!("UPDATE child SET m = m + {m}, f = {f}, c = c + 1 WHERE a = {x} AND b = {b};")
            }
            7 => {
                let b = self.of(Ty::Text);
                format!(
                    "SELECT CASE WHEN {x} = 1 THEN m WHEN {y} > 2 THEN m ELSE m END, g INTO v3, v12 FROM child
                    WHERE a = 1 AND b = {b};"
                )
            }
            8 => format!("SELECT count(*), sum(m) INTO v2, v5 FROM child WHERE a = {x} % 4;"),
            9 => {
                let (k, l, n) = (self.of(Ty::Timestamp), self.of(Ty::Rate), self.of(Ty::Wide));
                format!("INSERT INTO wide VALUES ({k}, {l}, {n}, {});", self.of(Ty::Char))
            }
            11..17 => self.structured_access(&x, &y),
            10 => {
                let (k, l) = (self.of(Ty::Timestamp), self.of(Ty::Rate));
                format!("UPDATE wide SET n = n * 2 + l WHERE k = {k} AND l = {l} RETURNING n, t INTO v5, v8;")
            }
            _ => format!("UPDATE parent SET v = v + 1 WHERE id >= {x} % 5 AND id < {y} % 9;"),
        };
        self.line(&line);
        if self.below(3) == 0 {
            self.line("IF NOT FOUND THEN v1 := -1; END IF;");
        }
    }

    /// Returns an access to columns of arrays and intervals.
    fn structured_access(&mut self, x: &str, y: &str) -> String {
        match self.below(6) {
            0 => {
                let (k, n) = (self.of(Ty::Ints), self.of(Ty::Ints));
                format!(
                    "INSERT INTO listed VALUES ({k}, {n}, {x}) ON CONFLICT (k) DO UPDATE SET n = listed.n;"
                )
            }
            1 => {
                let k = self.of(Ty::Ints);
                format!(
                    "UPDATE listed SET n[abs({y}) % 3 + 1] = {x}, v = v + 1 WHERE k = {k}
                    RETURNING n, v INTO v13, v1;"
                )
            }
            2 => format!("SELECT n, v INTO v13, v1 FROM listed WHERE k = {};", self.of(Ty::Ints)),
            3 => {
                let (ns, ts) = (self.of(Ty::Ints), self.of(Ty::Texts));
                format!("UPDATE parent SET ns = coalesce(ns, '{{}}') || {ns}, ts = {ts} WHERE id = {x} % 3;")
            }
            4 => {
                let (e, other) = (self.of(Ty::Interval), self.of(Ty::Interval));
                format!(
                    "UPDATE parent SET e = coalesce(e, {e}) + {other}
                    WHERE id = {x} % 3 AND (e < {e}) IS NOT TRUE RETURNING e INTO v15;"
                )
            }
            _ => format!("SELECT ns, ts INTO v13, v14 FROM parent WHERE id = {x} % 9;"),
        }
    }

    /// Arguments of the procedure that was drawn last.
    pub fn arguments(&mut self) -> Vec<Value> {
        let types = self.parameters.clone();
        types.into_iter().map(|ty| self.argument(ty)).collect()
    }

    fn argument(&mut self, ty: Ty) -> Value {
        if self.below(6) == 0 {
            return Value::Null;
        }
        let small = self.random.random_range(-2..9);
        let decimal = |text: String| Value::Numeric(text.parse().unwrap());
        match ty {
            Ty::SmallInt | Ty::Int | Ty::BigInt if self.below(8) > 0 => Value::Int(small),
            Ty::SmallInt => Value::Int(i16::MAX.into()),
            Ty::Int => Value::Int(i32::MIN.into()),
            Ty::BigInt => Value::Int(i64::MAX),
            Ty::Cents => decimal(format!("{small}.25")),
            Ty::Rate => decimal(format!("0.{}", small.abs())),
            Ty::Wide => decimal(format!("{small}.123456789")),
            Ty::Double => Value::Double(small as f64 / 4.0),
            Ty::Real => Value::Real(small as f32 / 10.0),
            Ty::Text | Ty::Char => Value::Text(one_of(self.random, &["", "a", "b", "abc", "12"]).into()),
            Ty::Date => Value::Date(8_766 + small as i32),
            Ty::Timestamp => Value::Timestamp((8_766 + small) * 86_400_000_000),
            Ty::Jsonb => Value::Text(format!("{{\"a\": {small}.50}}")),
            Ty::Boolean => Value::Boolean(small % 2 == 0),
            Ty::Ints => Value::Array(vec![Value::Int(small), Value::Null, Value::Int(2)]),
            Ty::Texts => Value::Array(vec![Value::Text("a".into()), Value::Null]),
            Ty::Interval => Value::Text(format!("{small} days 12:30")),
        }
    }
}
