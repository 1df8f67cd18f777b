//! Random routines in PL/pgSQL over the tables of `SCHEMA`.

use super::values::{TYPES, Type};
use Type::{Bool, Int, Ints, Numeric, Text};
use rand::Rng;
use rand::rngs::SmallRng;
use std::fmt::Write as _;

pub(super) const SCHEMA: &[&str] = &[
    "CREATE DOMAIN few AS INT CHECK (VALUE < 90)",
    "CREATE DOMAIN word AS TEXT CHECK (length(VALUE) < 6) CHECK (VALUE <> 'a b')",
    "CREATE TABLE a (id INT PRIMARY KEY, g INT NOT NULL, n NUMERIC(10,2), s TEXT, d DATE, f BOOLEAN,
     xs INT[])",
    "CREATE INDEX a_g ON a (g)",
    "CREATE TABLE b (id INT PRIMARY KEY, a_id INT REFERENCES a, k INT CHECK (k < 1000),
     note TEXT NOT NULL DEFAULT 'none', UNIQUE (a_id, k))",
    "CREATE FUNCTION doubled(x INT) RETURNS INT LANGUAGE plpgsql AS $$BEGIN RETURN x * 2; END$$",
    "CREATE FUNCTION name_of(x INT) RETURNS TEXT LANGUAGE sql AS $$SELECT s FROM a WHERE id = x$$",
    "CREATE PROCEDURE added(x INT, INOUT total NUMERIC) LANGUAGE plpgsql AS $$
     BEGIN UPDATE a SET n = coalesce(n, 0) + 1 WHERE id = x RETURNING n INTO total; END$$",
];

/// The queries whose rows are compared after each call.
pub(super) const STATE: &[&str] = &["SELECT * FROM a ORDER BY id", "SELECT * FROM b ORDER BY id"];

/// Returns statements that give the tables new rows.
pub(super) fn filling(random: &mut SmallRng) -> Vec<String> {
    let mut writer = Writer::new(random);
    let rows: Vec<String> = (1..=8)
        .map(|id| {
            let values: Vec<String> = TYPES.iter().skip(1).map(|ty| writer.literal(*ty)).collect();
            format!("({id}, {}, {})", writer.number(4), values.join(", "))
        })
        .collect();
    let of_b: Vec<String> =
        (1..=10).map(|id| format!("({id}, {}, {id}, 'b{}')", 1 + id % 7, writer.number(3))).collect();
    vec![
        "DELETE FROM b".into(),
        "DELETE FROM a".into(),
        format!("INSERT INTO a (id, g, n, s, d, f, xs) VALUES {}", rows.join(", ")),
        format!("INSERT INTO b VALUES {}", of_b.join(", ")),
    ]
}

/// A variable or parameter that an expression may name.
#[derive(Clone)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) ty: Type,
    is_written: bool,
}

/// What a routine returns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Returns {
    Nothing,
    One(Type),
    Set(Type),
    /// `RETURNS TABLE (x …, y …)`.
    Table(Type, Type),
    /// A procedure with an INOUT parameter.
    InOut(Type),
}

/// A routine, and the calls of it.
pub(super) struct Routine {
    pub(super) definition: String,
    pub(super) calls: Vec<String>,
    pub(super) drop: String,
}

/// Writes random routines.
pub(super) struct Writer<'r> {
    random: &'r mut SmallRng,
    pub(super) variables: Vec<Variable>,
    /// Names are numbered, so that none hides another by chance.
    names: usize,
    /// Labels of the loops around the statement.
    loops: Vec<String>,
    returns: Returns,
    text: String,
}

impl<'r> Writer<'r> {
    pub(super) fn new(random: &'r mut SmallRng) -> Self {
        let (variables, loops) = (Vec::new(), Vec::new());
        Self { random, variables, names: 0, loops, returns: Returns::Nothing, text: String::new() }
    }

    pub(super) fn number(&mut self, below: usize) -> usize {
        self.random.random_range(0..below)
    }

    pub(super) fn one_in(&mut self, several: usize) -> bool {
        self.number(several) == 0
    }

    pub(super) fn of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.number(from.len())]
    }

    fn fresh(&mut self, letter: char) -> String {
        self.names += 1;
        format!("{letter}{}", self.names)
    }

    pub(super) fn ty(&mut self) -> Type {
        self.of(TYPES)
    }

    /// Returns the name of a type, or of a domain over it.
    fn declared(&mut self, ty: Type) -> &'static str {
        match ty {
            Int if self.one_in(4) => "few",
            Text if self.one_in(4) => "word",
            ty => ty.name(),
        }
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{text}");
    }

    /// Returns a variable that a statement may set.
    fn target(&mut self) -> Option<Variable> {
        let fitting: Vec<Variable> = self.variables.iter().filter(|own| own.is_written).cloned().collect();
        (!fitting.is_empty()).then(|| fitting[self.number(fitting.len())].clone())
    }

    fn declare(&mut self, count: usize) {
        self.line("DECLARE");
        for _ in 0..count {
            let (name, ty) = (self.fresh('v'), self.ty());
            let value = match self.one_in(4) {
                true => String::new(),
                false => format!(" := {}", self.value(ty, 1)),
            };
            let ty_name = match self.one_in(5) {
                true => format!("a.{}%TYPE", ty.column()),
                false => self.declared(ty).into(),
            };
            self.line(&format!("{name} {ty_name}{value};"));
            self.variables.push(Variable { name, ty, is_written: true });
        }
    }

    fn statements(&mut self, depth: u32) {
        for _ in 0..1 + self.number(2) {
            self.statement(depth);
        }
    }

    fn statement(&mut self, depth: u32) {
        match self.number(if depth == 0 { 12 } else { 24 }) {
            0..3 => self.assignment(),
            3 => self.select_into(),
            4..6 => self.write(),
            6 => self.dynamic(),
            7 => self.diagnostics(),
            8 => self.raise(),
            9 => self.result(),
            10 => self.leave(),
            11 => self.call(),
            12..14 => self.branch(depth - 1),
            14 => self.case(depth - 1),
            15..19 => self.repetition(depth - 1),
            19..22 => self.block(depth - 1),
            _ => self.cursor(depth - 1),
        }
    }

    fn assignment(&mut self) {
        let Some(Variable { name, ty, .. }) = self.target() else { return };
        if ty == Ints && self.one_in(2) {
            let value = self.value(Int, 1);
            return self.line(&format!("{name}[1] := {value};"));
        }
        let value = self.value(ty, 2);
        self.line(&format!("{name} := {value};"));
    }

    fn select_into(&mut self) {
        let Some(Variable { name, ty, .. }) = self.target() else { return };
        let (strict, group) = (self.of(&["", "", "", "STRICT "]), self.value(Int, 1));
        let (column, limit) = (ty.column(), self.of(&[" LIMIT 1", ""]));
        let text = match self.number(3) {
            0 => format!("SELECT {column} INTO {strict}{name} FROM a WHERE g = {group} ORDER BY id{limit};"),
            1 => format!("SELECT {column} INTO {strict}{name} FROM a WHERE id = {group};"),
            _ => format!(
                "SELECT max(a.{column}) INTO {name} FROM a JOIN b ON b.a_id = a.id WHERE k > {group};"
            )
            .replace("max(a.f)", "bool_or(a.f)"),
        };
        self.line(&text);
    }

    fn write(&mut self) {
        let (key, ty) = (self.value(Int, 1), self.ty());
        let (column, value) = (ty.column(), self.value(ty, 1));
        let into = match self.variables.iter().rfind(|own| own.is_written && own.ty == ty) {
            Some(own) => format!(" RETURNING {column} INTO {}", own.name),
            None => String::new(),
        };
        let note = self.value(Text, 0);
        let text = match self.number(8) {
            0 => format!("UPDATE a SET {column} = {value} WHERE id = {key}{into};"),
            1 => format!("UPDATE a SET {column} = {value} WHERE g = {key};"),
            2 => format!("UPDATE a SET s = b.note, f = NOT f FROM b WHERE b.a_id = a.id AND b.k = {key};"),
            3 => format!("INSERT INTO b (id, a_id, k, note) VALUES ({key}, 1, {key}, {note});"),
            4 => format!(
                "INSERT INTO b (id, a_id, k) VALUES ({key}, 2, 5) ON CONFLICT (id) DO UPDATE
                 SET k = b.k + 1, note = {note};"
            ),
            5 => format!("DELETE FROM b WHERE a_id = {key};"),
            6 => format!("DELETE FROM b USING a WHERE a.id = b.a_id AND a.{column} = {value};"),
            _ => format!(
                "INSERT INTO a (id, g, {column}) SELECT id + 100, g, {value} FROM a WHERE id = {key};"
            )
            .replace("g, g)", "g, n)"),
        };
        self.line(&text);
    }

    fn dynamic(&mut self) {
        let key = self.value(Int, 1);
        let text = match (self.number(3), self.target()) {
            (0, Some(Variable { name, ty, .. })) => format!(
                "EXECUTE format('SELECT %I FROM a WHERE id = $1', '{}') INTO {name} USING {key};",
                ty.column()
            ),
            (1, _) => format!("EXECUTE 'UPDATE a SET g = g + 1 WHERE id = ' || ({key})::text;"),
            _ => format!("EXECUTE 'DELETE FROM b WHERE id = $1' USING {key};"),
        };
        self.line(&text);
    }

    fn diagnostics(&mut self) {
        let fitting: Vec<Variable> = self.variables.iter().filter(|own| own.is_written).cloned().collect();
        let int = fitting.iter().rfind(|own| own.ty == Int);
        let bool = fitting.iter().rfind(|own| own.ty == Bool);
        match (int, bool) {
            (Some(own), _) if self.one_in(2) => {
                self.line(&format!("GET DIAGNOSTICS {} = ROW_COUNT;", own.name))
            }
            (_, Some(own)) => self.line(&format!("{} := FOUND;", own.name)),
            _ => self.line("NULL;"),
        }
    }

    fn raise(&mut self) {
        let (condition, value) = (self.value(Bool, 1), self.value(Int, 1));
        let text = match self.number(5) {
            0 => format!("RAISE NOTICE 'value %', {value};"),
            1 => format!(
                "IF {condition} THEN RAISE EXCEPTION 'bad %', {value} USING ERRCODE = 'P0099'; END IF;"
            ),
            2 => format!("IF {condition} THEN RAISE division_by_zero; END IF;"),
            3 => format!("ASSERT {condition}, 'not so';"),
            _ => format!("PERFORM {value};"),
        };
        self.line(&text);
    }

    fn result(&mut self) {
        let text = match self.returns {
            Returns::Set(ty) => match self.one_in(2) {
                true => format!("RETURN NEXT {};", self.value(ty, 2)),
                false => {
                    let key = self.value(Int, 1);
                    format!("RETURN QUERY SELECT {} FROM a WHERE g < {key} ORDER BY id;", ty.column())
                }
            },
            Returns::Table(first, second) => match self.one_in(2) {
                true => {
                    let (x, y) = (self.value(first, 1), self.value(second, 1));
                    format!("x := {x}; y := {y}; RETURN NEXT;")
                }
                false => {
                    let key = self.value(Int, 1);
                    let (x, y) = (first.column(), second.column());
                    let way = self.of(&["plain", "dynamic"]);
                    match way {
                        "plain" => {
                            format!("RETURN QUERY SELECT a.{x}, a.{y} FROM a WHERE a.g = {key} ORDER BY id;")
                        }
                        _ => format!(
                            "RETURN QUERY EXECUTE 'SELECT {x}, {y} FROM a WHERE g < $1
                             ORDER BY id' USING {key};"
                        ),
                    }
                }
            },
            Returns::InOut(ty) => format!("io := {};", self.value(ty, 2)),
            Returns::One(_) | Returns::Nothing => "NULL;".into(),
        };
        self.line(&text);
    }

    /// Writes a statement that leaves a loop or the routine.
    fn leave(&mut self) {
        let condition = self.value(Bool, 1);
        if let Some(label) = self.loops.last().cloned() {
            let word = self.of(&["EXIT", "CONTINUE"]);
            let label = match self.one_in(2) {
                true => String::new(),
                false => format!(" {label}"),
            };
            return self.line(&format!("{word}{label} WHEN {condition};"));
        }
        let value = match self.returns {
            Returns::One(ty) => format!(" {}", self.value(ty, 1)),
            _ => String::new(),
        };
        self.line(&format!("IF {condition} THEN RETURN{value}; END IF;"));
    }

    fn call(&mut self) {
        // PostgreSQL refuses subqueries in arguments of CALL.
        let key = self.value(Int, 0);
        let numeric = self.variables.iter().rfind(|own| own.is_written && own.ty == Numeric);
        let text = match numeric.map(|own| own.name.clone()) {
            Some(name) => format!("CALL added({key}, {name});"),
            None => format!("PERFORM doubled({key});"),
        };
        self.line(&text);
    }

    fn branch(&mut self, depth: u32) {
        let condition = self.value(Bool, 2);
        self.line(&format!("IF {condition} THEN"));
        self.statements(depth);
        if self.one_in(2) {
            let condition = self.value(Bool, 1);
            self.line(&format!("ELSIF {condition} THEN"));
            self.statements(depth);
        }
        if self.one_in(2) {
            self.line("ELSE");
            self.statements(depth);
        }
        self.line("END IF;");
    }

    fn case(&mut self, depth: u32) {
        let ty = self.of(&[Int, Text]);
        let (operand, is_simple) = (self.value(ty, 1), self.one_in(2));
        let text = match is_simple {
            true => format!("CASE {operand}"),
            false => "CASE".into(),
        };
        self.line(&text);
        for _ in 0..2 {
            let when = match is_simple {
                true => format!("{}, {}", self.literal(ty), self.literal(ty)),
                false => self.value(Bool, 1),
            };
            self.line(&format!("WHEN {when} THEN"));
            self.statements(depth);
        }
        if !self.one_in(4) {
            self.line("ELSE");
            self.statements(depth);
        }
        self.line("END CASE;");
    }

    fn repetition(&mut self, depth: u32) {
        let label = self.fresh('l');
        let before = self.variables.len();
        let name = self.fresh('r');
        self.line(&format!("DECLARE {name} RECORD; BEGIN"));
        self.line(&format!("<<{label}>>"));
        let counter = self.loop_head(&name);
        if let Some(counter) = counter {
            self.line(counter);
        }
        self.loops.push(label.clone());
        self.statements(depth);
        self.loops.pop();
        self.variables.truncate(before);
        self.line(&format!("END LOOP {label}; END;"));
    }

    /// Writes the head of a loop, whose record may be `name`. Returns the statement that counts its rounds,
    /// if nothing else ends it.
    fn loop_head(&mut self, name: &str) -> Option<&'static str> {
        let read = |name: &str, ty| Variable { name: name.into(), ty, is_written: false };
        match self.number(5) {
            0 => {
                let name = self.fresh('i');
                let (from, to) = (self.number(4), self.number(5));
                let range = self.of(&["", " BY 2", "R"]);
                let text = match range {
                    "R" => format!("FOR {name} IN REVERSE {to}..{from} LOOP"),
                    step => format!("FOR {name} IN {from}..{to}{step} LOOP"),
                };
                self.line(&text);
                self.variables.push(read(&name, Int));
            }
            1 => {
                let key = self.value(Int, 1);
                self.line(&format!(
                    "FOR {name} IN SELECT * FROM a WHERE g <= {key} ORDER BY id LIMIT 4 LOOP"
                ));
                for ty in TYPES {
                    self.variables.push(read(&format!("{name}.{}", ty.column()), *ty));
                }
            }
            2 => {
                let ints = self.value(Ints, 1);
                let int = self.variables.iter().rfind(|own| own.is_written && own.ty == Int);
                match int.map(|own| own.name.clone()) {
                    Some(name) => self.line(&format!("FOREACH {name} IN ARRAY {ints} LOOP")),
                    None => self.line("FOR unused IN 1..2 LOOP"),
                }
            }
            3 => {
                let key = self.number(4);
                let of = |ty| self.variables.iter().rfind(|own| own.is_written && own.ty == ty);
                let scalars = of(Int).zip(of(Text)).map(|(int, text)| format!("{}, {}", int.name, text.name));
                let is_record = scalars.is_none() || self.one_in(2);
                let target = scalars.filter(|_| !is_record).unwrap_or_else(|| name.to_owned());
                self.line(&format!(
                    "FOR {target} IN EXECUTE 'SELECT id, note FROM b WHERE a_id > $1 ORDER BY id LIMIT 3'
                     USING {key} LOOP"
                ));
                if is_record {
                    self.variables.push(read(&format!("{name}.id"), Int));
                    self.variables.push(read(&format!("{name}.note"), Text));
                }
            }
            _ => {
                // Every second way counts, so that the loop ends.
                let condition = self.value(Bool, 1);
                let text = match self.one_in(2) {
                    true => format!("WHILE steps < 4 AND {condition} LOOP"),
                    false => "LOOP EXIT WHEN steps > 3;".into(),
                };
                self.line(&text);
                return Some("steps := steps + 1;");
            }
        }
        None
    }

    fn block(&mut self, depth: u32) {
        let before = self.variables.len();
        if self.one_in(2) {
            self.declare(1);
        }
        self.line("BEGIN");
        self.statements(depth);
        if self.one_in(4) {
            self.line("RAISE EXCEPTION 'in a block' USING HINT = 'none';");
        }
        self.line("EXCEPTION");
        let condition = self.of(&[
            "division_by_zero",
            "unique_violation OR check_violation",
            "no_data_found",
            "SQLSTATE '22012'",
            "raise_exception",
        ]);
        self.line(&format!("WHEN {condition} THEN"));
        self.statements(depth.min(1));
        self.line("WHEN OTHERS THEN");
        let text = self.variables.iter().rfind(|own| own.is_written && own.ty == Text);
        match text.map(|own| own.name.clone()) {
            Some(name) => self.line(&format!("{name} := SQLSTATE;")),
            None => self.line("NULL;"),
        }
        self.line("END;");
        self.variables.truncate(before);
    }

    fn cursor(&mut self, depth: u32) {
        let Some(Variable { name, ty, .. }) = self.target() else { return };
        let (cursor, key) = (self.fresh('c'), self.value(Int, 1));
        self.line(&format!("DECLARE {cursor} CURSOR (lower INT) FOR SELECT {} FROM a", ty.column()));
        self.line("WHERE g >= lower ORDER BY id; BEGIN");
        self.line(&format!("OPEN {cursor}({key});"));
        let direction = self.of(&["", "", "NEXT FROM "]);
        self.line(&format!("FETCH {direction}{cursor} INTO {name};"));
        // No statement may leave the block, because the cursor would stay open.
        let loops = std::mem::take(&mut self.loops);
        self.statements(depth.min(1));
        self.loops = loops;
        self.line(&format!("IF FOUND THEN FETCH {cursor} INTO {name}; END IF; CLOSE {cursor}; END;"));
    }

    /// Returns a routine of a name, and calls with random arguments.
    pub(super) fn routine(mut self, name: &str) -> Routine {
        let (first, second) = (self.ty(), self.ty());
        self.returns = match self.number(7) {
            0 => Returns::Nothing,
            1..4 => Returns::One(first),
            4 => Returns::Set(first),
            5 => Returns::Table(first, second),
            _ => Returns::InOut(first),
        };
        let types: Vec<Type> = (0..self.number(4)).map(|_| self.ty()).collect();
        let mut parameters: Vec<String> = Vec::new();
        for (number, ty) in types.iter().enumerate() {
            let name = format!("p{number}");
            parameters.push(format!("{name} {}", self.declared(*ty)));
            self.variables.push(Variable { name, ty: *ty, is_written: number == 0 });
        }
        if let Returns::InOut(ty) = self.returns {
            parameters.push(format!("INOUT io {}", self.declared(ty)));
            self.variables.push(Variable { name: "io".into(), ty, is_written: true });
        }
        let (word, returned) = match self.returns {
            Returns::Nothing => ("FUNCTION", "RETURNS void ".into()),
            Returns::One(ty) => ("FUNCTION", format!("RETURNS {} ", self.declared(ty))),
            Returns::Set(ty) => ("FUNCTION", format!("RETURNS SETOF {} ", ty.name())),
            Returns::Table(x, y) => ("FUNCTION", format!("RETURNS TABLE (x {}, y {}) ", x.name(), y.name())),
            Returns::InOut(_) => ("PROCEDURE", String::new()),
        };
        let head = format!("CREATE {word} {name}({}) {returned}", parameters.join(", "));
        let variables = 2 + self.number(3);
        self.declare(variables);
        self.line("steps INT := 0;");
        self.line("BEGIN");
        for _ in 0..2 + self.number(3) {
            let depth = self.of(&[0, 1, 2, 2]);
            self.statement(depth);
        }
        if let Returns::One(ty) = self.returns {
            let value = self.value(ty, 2);
            self.line(&format!("RETURN {value};"));
        }
        self.line("END");
        let body = std::mem::take(&mut self.text);
        self.variables.clear();
        let calls = (0..3).map(|_| {
            let mut arguments: Vec<String> = types.iter().map(|ty| self.literal(*ty)).collect();
            if let Returns::InOut(ty) = self.returns {
                arguments.push(self.literal(ty));
            }
            let arguments = arguments.join(", ");
            match (self.returns, self.number(3)) {
                (Returns::InOut(_), _) => format!("CALL {name}({arguments})"),
                (Returns::Nothing | Returns::One(_), 0..2) => format!("SELECT {name}({arguments})"),
                _ => format!("SELECT * FROM {name}({arguments})"),
            }
        });
        let calls = calls.collect();
        let definition = format!("{head}LANGUAGE plpgsql AS $body$\n{body}$body$");
        Routine { definition, calls, drop: format!("DROP {word} {name}") }
    }
}
