//! A random case as SQL, which is what runs and what a failure prints.

use super::Case;
use super::steps::{Int, Rows, Step, VALUES};
use super::tables::{Shape, Ty, definitions};
use std::fmt;

/// A procedure: its parameters x, y and z, and what it does.
#[derive(Clone, Debug)]
pub struct Procedure {
    pub parameters: [Ty; 3],
    pub steps: Vec<Step>,
}

impl fmt::Display for Int {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(value) => write!(f, "{value}"),
            Self::Name(name) => write!(f, "coalesce({name}, 1)"),
            Self::Plain(name) => write!(f, "{name}"),
            Self::Third => write!(f, "y"),
            Self::Near(value) => write!(f, "{value}"),
            Self::Sum(a, b) => write!(f, "(({a} + {b}) % {VALUES})"),
            Self::Choice(a, b) => write!(f, "(CASE WHEN {b} % 2 = 0 THEN {a} ELSE 2 END)"),
        }
    }
}

/// Prints one procedure of a case.
struct Printer<'c> {
    tables: &'c [Shape],
    procedures: &'c [Procedure],
    number: usize,
    /// Whether procedures draw random numbers.
    draws: bool,
    /// Loops so far, which gives them names.
    loops: usize,
    /// Statements so far, which chooses between a table and its partitions.
    statements: usize,
}

impl Printer<'_> {
    /// An expression as a value of a column.
    fn key(&self, value: &Int, column: Ty) -> String {
        match value {
            Int::Third if self.procedures[self.number].parameters[2].compares_with(column) => "z".into(),
            Int::Near(value) => column.near(&value.to_string()),
            value => column.of(&value.to_string()),
        }
    }

    fn rows(&self, t: usize, rows: &Rows) -> String {
        let Shape { a: a_type, b: b_type, .. } = &self.tables[t];
        let (a, b) = (|value| self.key(value, *a_type), |value| self.key(value, *b_type));
        match rows {
            Rows::Key(first, second) => format!("a = {} AND b = {}", a(first), b(second)),
            Rows::From(first, second) => format!("a = {} AND b >= {}", a(first), b(second)),
            Rows::First(first) => format!("a = {}", a(first)),
            Rows::ByValue(v) => format!("v = {v}"),
        }
    }

    /// The name of a table, or of one of its partitions.
    fn relation(&mut self, t: usize) -> String {
        self.statements += 1;
        self.tables[t].parts.map_or_else(|| format!("t{t}"), |parts| parts.relation(t, self.statements))
    }

    fn steps(&mut self, f: &mut fmt::Formatter<'_>, steps: &[Step], around: usize) -> fmt::Result {
        steps.iter().try_for_each(|step| self.step(f, step, around))
    }

    /// Writes a step; `around` is how many loops are around it.
    fn step(&mut self, f: &mut fmt::Formatter<'_>, step: &Step, around: usize) -> fmt::Result {
        let label = format!("<<l{}>>", around + 1);
        match step {
            Step::If(condition, then, other) => {
                writeln!(f, "IF {condition} > 1 THEN")?;
                self.steps(f, then, around)?;
                writeln!(f, "ELSE")?;
                self.steps(f, other, around)?;
                writeln!(f, "END IF;")
            }
            Step::IfFound(then) => {
                writeln!(f, "IF FOUND THEN")?;
                self.steps(f, then, around)?;
                writeln!(f, "END IF;")
            }
            Step::Loop(name, to, inside) | Step::Skip(name, to, inside) => {
                self.loops += 1;
                let i = format!("i{}", self.loops);
                writeln!(f, "{label} FOR {i} IN 1..{to} LOOP")?;
                if let Step::Skip(..) = step {
                    writeln!(f, "IF {i} % 3 = 2 THEN {i} := {i} + 1; END IF;")?;
                }
                writeln!(f, "{name} := {i};")?;
                self.steps(f, inside, around + 1)?;
                writeln!(f, "END LOOP;")
            }
            Step::Adjust(when) => writeln!(f, "IF {when} > 2 THEN x := coalesce(x, 1) + 1; END IF;"),
            Step::Each(t, rows, name, inside) => {
                let second = if self.tables[*t].a.is_integer() { "a" } else { "v" };
                let rows = self.rows(*t, rows);
                // A loop over all rows of a table without a primary key could double them with each round
                // around it.
                let order = if self.tables[*t].has_primary_key() { "a, b" } else { "a, b, v, w LIMIT 6" };
                let from = self.relation(*t);
                let query = format!("SELECT v, {second} FROM {from} WHERE {rows} ORDER BY {order}");
                writeln!(f, "{label} FOR {name}, e IN {query} LOOP")?;
                self.steps(f, inside, around + 1)?;
                writeln!(f, "END LOOP;")
            }
            Step::While(name, inside) => {
                let n = format!("n{around}");
                writeln!(f, "{n} := 0;\n{label} WHILE {n} < 3 LOOP\n{n} := {n} + 1; {name} := {n};")?;
                self.steps(f, inside, around + 1)?;
                writeln!(f, "END LOOP;")
            }
            Step::ForEach(name, a, b, inside) => {
                writeln!(f, "{label} FOREACH {name} IN ARRAY ARRAY[{a}, {b}, 2] LOOP")?;
                self.steps(f, inside, around + 1)?;
                writeln!(f, "END LOOP;")
            }
            Step::Leave(when) if around > 0 => writeln!(f, "EXIT l1 WHEN {when} > 2;"),
            Step::Exit(when) if around > 0 => writeln!(f, "EXIT WHEN {when} > 2;"),
            Step::Continue(when) if around > 0 => writeln!(f, "CONTINUE WHEN {when} > 2;"),
            Step::Exit(_) | Step::Leave(_) | Step::Continue(_) => Ok(()),
            Step::Return(when) => writeln!(f, "IF {when} > 3 THEN RETURN; END IF;"),
            Step::Raise(when) => writeln!(f, "IF {when} > 3 THEN RAISE EXCEPTION 'no'; END IF;"),
            Step::Call(x, y, into) => self.call(f, x, y, into),
            Step::Draw(name) if self.draws => writeln!(f, "{name} := floor(random() * {VALUES})::int;"),
            Step::Draw(name) => writeln!(f, "{name} := 1;"),
            Step::Now(name) => writeln!(f, "{name} := extract(minute FROM now())::int % {VALUES};"),
            other => self.access(f, other),
        }
    }

    /// Writes a step that is one statement on a table, or an assignment.
    fn access(&mut self, f: &mut fmt::Formatter<'_>, step: &Step) -> fmt::Result {
        let returning = |rows: &Rows, into: &Option<&str>| match (rows, into) {
            (Rows::Key(..), Some(name)) => format!(" RETURNING v INTO {name}"),
            _ => String::new(),
        };
        let table = step.table().map(|t| self.relation(t)).unwrap_or_default();
        match step {
            Step::Assign(name, value) => writeln!(f, "{name} := {value};"),
            Step::Read(t, rows, name) => {
                let rows = self.rows(*t, rows);
                writeln!(f, "SELECT v INTO {name} FROM {table} WHERE {rows} ORDER BY a, b, v, w LIMIT 1;")
            }
            Step::ReadTwice(t, rows, name) => {
                let (rows, order) = (self.rows(*t, rows), "a, b, v, w LIMIT 1");
                writeln!(f, "SELECT v, v + 1 INTO {name}, {name} FROM {table} WHERE {rows} ORDER BY {order};")
            }
            Step::Set(t, rows, v) => {
                let rows = self.rows(*t, rows);
                writeln!(f, "UPDATE {table} SET v = {v} WHERE {rows};")
            }
            Step::Count(t, rows, name) => {
                let rows = self.rows(*t, rows);
                writeln!(f, "SELECT count(*) % {VALUES} INTO {name} FROM {table} WHERE {rows};")
            }
            Step::Insert(t, a, b, v) => {
                let Shape { a: a_type, b: b_type, .. } = &self.tables[*t];
                let (a, b) = (self.key(a, *a_type), self.key(b, *b_type));
                let w = self.tables[*t].note(&format!("'row ' || {v}"));
                writeln!(f, "INSERT INTO {table} VALUES ({a}, {b}, {v}, {w});")
            }
            Step::Update(t, rows, v, into) => {
                let (returning, rows) = (returning(rows, into), self.rows(*t, rows));
                let w = self.tables[*t].noted(&v.to_string());
                writeln!(f, "UPDATE {table} SET v = (v + {v}) % {VALUES}, w = {w} WHERE {rows}{returning};")
            }
            Step::Move(t, rows, b) if self.tables[*t].can_move() => {
                let (b, rows) = (self.key(b, self.tables[*t].b), self.rows(*t, rows));
                writeln!(f, "UPDATE {table} SET b = {b} WHERE {rows};")
            }
            Step::Delete(t, rows, into) => {
                let (returning, rows) = (returning(rows, into), self.rows(*t, rows));
                writeln!(f, "DELETE FROM {table} WHERE {rows}{returning};")
            }
            _ => Ok(()),
        }
    }

    fn call(&self, f: &mut fmt::Formatter<'_>, x: &Int, y: &Int, into: &str) -> fmt::Result {
        let Some(callee) = self.number.checked_sub(1) else { return Ok(()) };
        let [x_type, y_type, z_type] = self.procedures[callee].parameters;
        let z = if self.procedures[self.number].parameters[2] == z_type { "z" } else { "NULL" };
        let (x_type, y_type) = (x_type.name(), y_type.name());
        writeln!(f, "CALL p{callee}(({x})::{x_type}, ({y})::{y_type}, {z}, {into});")
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", definitions(&self.tables, VALUES))?;
        for (number, Procedure { parameters, steps }) in self.procedures.iter().enumerate() {
            let [x, y, z] = parameters.map(Ty::name);
            writeln!(
                f,
                "CREATE PROCEDURE p{number}(x {x}, y {y}, z {z}, OUT result INT) LANGUAGE plpgsql AS $$"
            )?;
            writeln!(f, "DECLARE p INT; q INT; r INT; e INT; k INT; n0 INT; n1 INT; n2 INT; n3 INT;\nBEGIN")?;
            let (tables, procedures) = (&self.tables, &self.procedures);
            Printer { tables, procedures, number, draws: self.draws, loops: 0, statements: number }
                .steps(f, steps, 0)?;
            writeln!(f, "result := p;\nEND $$;")?;
        }
        for (number, call) in self.calls.iter().enumerate() {
            for change in self.changes_before(number) {
                writeln!(f, "-- {};", change.to_string().replace('\n', " "))?;
            }
            let how = if call.by_value { " by value" } else { "" };
            let arguments = call.values(&self.procedures[call.procedure]).map(|value| value.to_string());
            if self.checkpoint == Some(number) {
                writeln!(f, "-- checkpoint")?;
            }
            writeln!(f, "-- CALL p{}({});{how}", call.procedure, arguments.join(", "))?;
        }
        writeln!(f, "-- witnesses recorded: {}", self.witnesses)?;
        writeln!(f, "-- {:?}", self.recoveries)
    }
}
