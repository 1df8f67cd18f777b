//! Random schemas, procedures and histories: what clr-p comes to, in every mode and with several numbers of threads, is
//! what clr comes to, and what the database held.
//!
//! `PROPTEST_CASES` sets how many (default 1,000). A failing case shrinks and prints itself as SQL.

use crate::common::{SHADOWS, on, recovered_digest_on};
use proptest::prelude::*;
use reprise::disk::{CrashingDisk, Disk};
use reprise::{Database, Error, Value};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Tables `t0`, `t1`, … of these shapes; all have the columns a, b, v, w.
const TABLES: [&str; 4] = [
    "CREATE TABLE t0 (a INT PRIMARY KEY, b INT NOT NULL, v INT NOT NULL, w TEXT);",
    "CREATE TABLE t1 (a INT, b INT, v INT NOT NULL, w TEXT, PRIMARY KEY (a, b));
     CREATE INDEX t1_v ON t1 (v, a);",
    "CREATE TABLE t2 (a INT, b INT, v INT, w TEXT, PRIMARY KEY (b, a)); CREATE UNIQUE INDEX t2_v ON t2 (a, v);",
    "CREATE TABLE t3 (a INT PRIMARY KEY, b INT, v NUMERIC(8,2), w TEXT);",
];
/// Rows that no case looks for make indexes more than one leaf, so that rows are looked up ahead. What follows is of another
/// segment of the log, as definitions follow.
const FILL: &str = "
    CREATE PROCEDURE fill(n INT) LANGUAGE plpgsql AS $$
    BEGIN
        FOR i IN 1000..1000 + n LOOP
            INSERT INTO t0 VALUES (i, i, 99, NULL);
            INSERT INTO t1 VALUES (i, i, 99, NULL);
            INSERT INTO t2 VALUES (i, i, 99, NULL);
            INSERT INTO t3 VALUES (i, i, 99, NULL);
        END LOOP;
    END $$;
    CALL fill(70);";
/// Keys are drawn from so few values that rows meet often.
const VALUES: i32 = 5;

/// An integer expression.
#[derive(Clone, Debug)]
enum Int {
    Constant(i32),
    /// A parameter or variable.
    Name(&'static str),
    Sum(Box<Int>, Box<Int>),
    /// The first if the second is even.
    Choice(Box<Int>, Box<Int>),
}

/// Which rows.
#[derive(Clone, Debug)]
enum Rows {
    /// By the whole key.
    Key(Int, Int),
    /// By a, and by b from a value on.
    From(Int, Int),
    /// By a.
    First(Int),
    /// By v.
    ByValue(Int),
}

#[derive(Clone, Debug)]
enum Step {
    Assign(&'static str, Int),
    Read(usize, Rows, &'static str),
    Count(usize, Rows, &'static str),
    Insert(usize, Int, Int, Int),
    Update(usize, Rows, Int, Option<&'static str>),
    /// Moves rows to another b.
    Move(usize, Rows, Int),
    Delete(usize, Rows, Option<&'static str>),
    IfFound(Vec<Step>),
    If(Int, Vec<Step>, Vec<Step>),
    Loop(&'static str, Int, Vec<Step>),
    Each(usize, Rows, &'static str, Vec<Step>),
    While(&'static str, Vec<Step>),
    Exit(Int),
    Continue(Int),
    Return(Int),
    Raise(Int),
    /// Calls the procedure before this one, if there is one.
    Call(Int, Int, &'static str),
}

/// A procedure whose steps fall into slices of their own: each has its table, and reaches one row a round by a key that is
/// known before it runs. What is written there may follow from anything.
fn apart(steps: Vec<Step>) -> Vec<Step> {
    let own = |(place, step): (usize, Step)| on_one_row(vec![step], place % TABLES.len(), &["x", "y"]);
    steps.into_iter().enumerate().flat_map(own).collect()
}

/// Steps on the row of one table that the last two of the known names tell, and on ranges that the last one tells.
fn on_one_row(steps: Vec<Step>, t: usize, known: &[&'static str]) -> Vec<Step> {
    let name = |back: usize| Int::Name(known[known.len() - back]);
    let first = || name(1);
    let key = || Rows::Key(first(), name(2));
    // Nothing but their loops sets the names that are known.
    let other = |name: &'static str| if known.contains(&name) { "e" } else { name };
    let inside = |body, name| on_one_row(body, t, &[known, &[name]].concat());
    let step = |step: Step| match step {
        Step::Assign(into, value) => Step::Assign(other(into), value),
        Step::Read(_, _, into) => Step::Read(t, key(), other(into)),
        Step::Count(_, _, into) => Step::Count(t, Rows::First(name(1)), other(into)),
        Step::Insert(_, _, _, v) => Step::Insert(t, name(1), name(2), v),
        Step::Update(_, _, v, into) => Step::Update(t, key(), v, into.map(other)),
        Step::Move(_, _, b) => Step::Move(t, key(), b),
        Step::Delete(_, _, into) => Step::Delete(t, key(), into.map(other)),
        Step::IfFound(then) => Step::IfFound(on_one_row(then, t, known)),
        Step::If(condition, then, otherwise) => {
            Step::If(condition, on_one_row(then, t, known), on_one_row(otherwise, t, known))
        }
        Step::Loop(name, to, body) if !known.contains(&name) => {
            Step::Loop(name, if let Int::Name(_) = to { Int::Name("x") } else { to }, inside(body, name))
        }
        Step::While(name, body) if !known.contains(&name) => {
            Step::Loop(name, Int::Constant(3), inside(body, name))
        }
        // What of the row counts may follow from anything, so that there are rounds of no rows.
        Step::Each(_, Rows::From(_, b) | Rows::Key(_, b), name, body) => {
            Step::Each(t, Rows::From(first(), b), other(name), on_one_row(body, t, known))
        }
        Step::Loop(name, _, body) | Step::While(name, body) | Step::Each(_, _, name, body) => {
            Step::Each(t, key(), other(name), on_one_row(body, t, known))
        }
        Step::Call(x, _, into) => Step::Assign(other(into), x),
        rest => rest,
    };
    steps.into_iter().map(step).collect()
}

const NAMES: [&str; 5] = ["x", "y", "p", "q", "r"];
/// What is assigned to: not the parameters x and y.
const VARIABLES: [&str; 3] = ["p", "q", "r"];

fn int() -> impl Strategy<Value = Int> {
    let leaf = prop_oneof![
        (0..VALUES).prop_map(Int::Constant),
        proptest::sample::select(&NAMES[..]).prop_map(Int::Name),
        proptest::sample::select(&NAMES[..2]).prop_map(Int::Name),
    ];
    leaf.prop_recursive(2, 4, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Int::Sum(a.into(), b.into())),
            (inner.clone(), inner).prop_map(|(a, b)| Int::Choice(a.into(), b.into())),
        ]
    })
}

fn rows() -> impl Strategy<Value = Rows> {
    prop_oneof![
        4 => (int(), int()).prop_map(|(a, b)| Rows::Key(a, b)),
        1 => (int(), int()).prop_map(|(a, b)| Rows::From(a, b)),
        1 => int().prop_map(Rows::First),
        1 => int().prop_map(Rows::ByValue),
    ]
}

/// A step without others inside.
fn simple_step() -> BoxedStrategy<Step> {
    let table = || 0..TABLES.len();
    let variable = || proptest::sample::select(&VARIABLES[..]);
    let maybe = || proptest::option::of(proptest::sample::select(&VARIABLES[..]));
    prop_oneof![
        2 => (variable(), int()).prop_map(|(name, value)| Step::Assign(name, value)),
        4 => (table(), rows(), variable()).prop_map(|(t, rows, name)| Step::Read(t, rows, name)),
        3 => (table(), rows(), variable()).prop_map(|(t, rows, name)| Step::Count(t, rows, name)),
        4 => (table(), int(), int(), int()).prop_map(|(t, a, b, v)| Step::Insert(t, a, b, v)),
        5 => (table(), rows(), int(), maybe()).prop_map(|(t, rows, v, into)| Step::Update(t, rows, v, into)),
        1 => (table(), rows(), int()).prop_map(|(t, rows, b)| Step::Move(t, rows, b)),
        2 => (table(), rows(), maybe()).prop_map(|(t, rows, into)| Step::Delete(t, rows, into)),
        1 => int().prop_map(Step::Exit),
        1 => int().prop_map(Step::Continue),
        1 => int().prop_map(Step::Return),
        1 => int().prop_map(Step::Raise),
        1 => (int(), int(), variable()).prop_map(|(x, y, into)| Step::Call(x, y, into)),
    ]
    .boxed()
}

fn steps(depth: u32) -> BoxedStrategy<Vec<Step>> {
    if depth == 0 {
        return proptest::collection::vec(simple_step(), 1..3).boxed();
    }
    let table = || 0..TABLES.len();
    let variable = || proptest::sample::select(&VARIABLES[..]);
    let inner = || steps(depth - 1);
    let step = prop_oneof![
        6 => simple_step(),
        1 => inner().prop_map(Step::IfFound),
        1 => (int(), inner(), inner()).prop_map(|(c, then, other)| Step::If(c, then, other)),
        2 => (variable(), int(), inner()).prop_map(|(i, to, body)| Step::Loop(i, to, body)),
        1 => (table(), rows(), variable(), inner()).prop_map(|(t, rows, name, body)| Step::Each(t, rows, name, body)),
        1 => (variable(), inner()).prop_map(|(name, body)| Step::While(name, body)),
    ];
    proptest::collection::vec(step, 1..5).boxed()
}

impl fmt::Display for Int {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(value) => write!(f, "{value}"),
            Self::Name(name) => write!(f, "coalesce({name}, 1)"),
            Self::Sum(a, b) => write!(f, "(({a} + {b}) % {VALUES})"),
            Self::Choice(a, b) => write!(f, "(CASE WHEN {b} % 2 = 0 THEN {a} ELSE 2 END)"),
        }
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(a, b) => write!(f, "a = {a} AND b = {b}"),
            Self::From(a, b) => write!(f, "a = {a} AND b >= {b}"),
            Self::First(a) => write!(f, "a = {a}"),
            Self::ByValue(v) => write!(f, "v = {v}"),
        }
    }
}

/// Writes steps as PL/pgSQL. `number` names loops; `around` is how many loops are around them.
fn write_steps(
    f: &mut fmt::Formatter<'_>,
    steps: &[Step],
    procedure: usize,
    (number, around): (&mut usize, usize),
) -> fmt::Result {
    for step in steps {
        let body = |f: &mut fmt::Formatter<'_>, steps: &[Step], number: &mut usize, around| {
            write_steps(f, steps, procedure, (number, around))
        };
        let returning =
            |into: &Option<&str>| into.map_or(String::new(), |name| format!(" RETURNING v INTO {name}"));
        match step {
            Step::Assign(name, value) => writeln!(f, "{name} := {value};")?,
            Step::Read(t, rows, name) => {
                writeln!(f, "SELECT v INTO {name} FROM t{t} WHERE {rows} ORDER BY a, b LIMIT 1;")?;
            }
            Step::Count(t, rows, name) => {
                writeln!(f, "SELECT count(*) % {VALUES} INTO {name} FROM t{t} WHERE {rows};")?;
            }
            Step::Insert(t, a, b, v) => {
                writeln!(f, "INSERT INTO t{t} VALUES ({a}, {b}, {v}, 'row ' || {v});")?;
            }
            Step::Update(t, rows, v, into) => {
                let returning = if let Rows::Key(..) = rows { returning(into) } else { String::new() };
                writeln!(
                    f,
                    "UPDATE t{t} SET v = (v + {v}) % {VALUES}, w = left(coalesce(w, '') || {v}, 12) WHERE {rows}{returning};"
                )?;
            }
            Step::Move(t, rows, b) if *t == 0 || *t == 3 => {
                writeln!(f, "UPDATE t{t} SET b = {b} WHERE {rows};")?;
            }
            Step::Move(..) => {}
            Step::Delete(t, rows, into) => {
                let returning = if let Rows::Key(..) = rows { returning(into) } else { String::new() };
                writeln!(f, "DELETE FROM t{t} WHERE {rows}{returning};")?;
            }
            Step::IfFound(then) => {
                writeln!(f, "IF FOUND THEN")?;
                body(f, then, number, around)?;
                writeln!(f, "END IF;")?;
            }
            Step::If(condition, then, other) => {
                writeln!(f, "IF {condition} > 1 THEN")?;
                body(f, then, number, around)?;
                writeln!(f, "ELSE")?;
                body(f, other, number, around)?;
                writeln!(f, "END IF;")?;
            }
            Step::Loop(name, to, inside) => {
                *number += 1;
                let i = format!("i{number}");
                writeln!(f, "FOR {i} IN 1..{to} LOOP\n{name} := {i};")?;
                body(f, inside, number, around + 1)?;
                writeln!(f, "END LOOP;")?;
            }
            Step::Each(t, rows, name, inside) => {
                writeln!(f, "FOR {name}, e IN SELECT v, a FROM t{t} WHERE {rows} ORDER BY a, b LOOP")?;
                body(f, inside, number, around + 1)?;
                writeln!(f, "END LOOP;")?;
            }
            Step::While(name, inside) => {
                *number += 1;
                let n = format!("n{around}");
                writeln!(f, "{n} := 0;\nWHILE {n} < 3 LOOP\n{n} := {n} + 1; {name} := {n};")?;
                body(f, inside, number, around + 1)?;
                writeln!(f, "END LOOP;")?;
            }
            Step::Exit(when) if around > 0 => writeln!(f, "EXIT WHEN {when} > 2;")?,
            Step::Continue(when) if around > 0 => writeln!(f, "CONTINUE WHEN {when} > 2;")?,
            Step::Exit(_) | Step::Continue(_) => {}
            Step::Return(when) => writeln!(f, "IF {when} > 3 THEN RETURN; END IF;")?,
            Step::Raise(when) => writeln!(f, "IF {when} > 3 THEN RAISE EXCEPTION 'no'; END IF;")?,
            Step::Call(x, y, into) if procedure > 0 => {
                writeln!(f, "CALL p{}({x}, {y}, {into});", procedure - 1)?;
            }
            Step::Call(..) => {}
        }
    }
    Ok(())
}

/// One call.
#[derive(Clone, Debug)]
struct TestCall {
    procedure: usize,
    x: i32,
    y: i32,
    by_value: bool,
}

/// The procedures of a case, its calls, and whether witness values are recorded.
#[derive(Clone)]
struct Case {
    procedures: Vec<Vec<Step>>,
    calls: Vec<TestCall>,
    witnesses: bool,
}

impl Case {
    fn script(&self) -> String {
        format!("{}\n{FILL}\n{self:?}", TABLES.join("\n"))
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, steps) in self.procedures.iter().enumerate() {
            writeln!(f, "CREATE PROCEDURE p{number}(x INT, y INT, OUT result INT) LANGUAGE plpgsql AS $$")?;
            writeln!(f, "DECLARE p INT; q INT; r INT; e INT; n0 INT; n1 INT; n2 INT; n3 INT;\nBEGIN")?;
            write_steps(f, steps, number, (&mut 0, 0))?;
            writeln!(f, "result := p;\nEND $$;")?;
        }
        for TestCall { procedure, x, y, by_value } in &self.calls {
            let how = if *by_value { " by value" } else { "" };
            writeln!(f, "-- CALL p{procedure}({x}, {y});{how}")?;
        }
        writeln!(f, "-- witnesses recorded: {}", self.witnesses)?;
        Ok(())
    }
}

fn case() -> impl Strategy<Value = Case> {
    let anything = proptest::collection::vec(steps(2), 1..4);
    let each = (0..TABLES.len(), rows(), proptest::sample::select(&VARIABLES[..]), steps(0));
    let each = each.prop_map(|(t, rows, name, body)| Step::Each(t, rows, name, body));
    let body = proptest::collection::vec(prop_oneof![6 => simple_step(), 1 => each], 1..6);
    let body = (proptest::sample::select(&VARIABLES[..]), int(), body);
    let one_loop = body.prop_map(|(name, to, body)| Step::Loop(name, to, body));
    let loops = proptest::collection::vec(proptest::collection::vec(one_loop, 1..4), 1..3);
    let apart = |procedures: Vec<Vec<Step>>| procedures.into_iter().map(apart).collect();
    let procedures = prop_oneof![anything.clone(), anything.prop_map(apart), loops.prop_map(apart)];
    let settings = (any::<bool>(), 0..3u8);
    (procedures, settings).prop_flat_map(|(procedures, (witnesses, by_value))| {
        // None, some or all of the calls are logged by value.
        let by_value = proptest::bool::weighted(f64::from(by_value) / 2.0);
        let call = (0..procedures.len(), 0..VALUES, 0..VALUES, by_value);
        let call = call.prop_map(|(procedure, x, y, by_value)| TestCall { procedure, x, y, by_value });
        let calls = proptest::collection::vec(call, 1..60);
        calls.prop_map(move |calls| Case { procedures: procedures.clone(), calls, witnesses })
    })
}

/// Runs a case and recovers it by all methods.
fn check(case: &Case) {
    let disk: Arc<dyn Disk> = Arc::new(CrashingDisk::default());
    let folder = Path::new("/data");
    let mut config = on(Arc::clone(&disk));
    config.record_witnesses = case.witnesses;
    config.shadow_logs = SHADOWS.to_vec();
    let db = Database::open(folder, config).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(&case.script()).unwrap();
    for TestCall { procedure, x, y, by_value } in &case.calls {
        session.log_by_value(*by_value);
        let arguments = [Value::Int((*x).into()), Value::Int((*y).into())];
        match session.submit(&format!("p{procedure}"), &arguments) {
            Ok(_) | Err(Error::Sql(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let live = db.digest().unwrap();
    drop((session, db));
    assert_eq!(recovered_digest_on(&disk, folder), live, "recovered against live");
}

#[test]
fn parallel_replay_equals_serial_replay() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1_000);
    let config =
        ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 4_000, ..Default::default() };
    proptest!(config, |(case in case())| check(&case));
}

/// What the random cases once found: a RETURN from within a loop that does nothing else, and FOUND inside a loop over rows.
#[test]
fn jumps_and_found_are_replayed_as_they_ran() {
    let disk: Arc<dyn Disk> = Arc::new(CrashingDisk::default());
    let folder = Path::new("/data");
    let db = Database::open(folder, on(Arc::clone(&disk))).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(include_str!("../../../sql/tests/analysis/jumps.sql")).unwrap();
    for id in 1..=6 {
        let rows = format!("INSERT INTO a VALUES ({id}, 0); INSERT INTO b VALUES ({id}, 0);");
        session.execute_script(&rows).unwrap();
    }
    session.execute_script("INSERT INTO c VALUES (1, 0), (3, 0);").unwrap();
    for k in [2, 5, 1, 9, 4, 3] {
        let _ = session.submit("returns_from_within", &[Value::Int(k)]).unwrap();
        let _ = session.submit("finds", &[Value::Int(k)]).unwrap();
    }
    let live = db.digest().unwrap();
    drop((session, db));
    assert_eq!(recovered_digest_on(&disk, folder), live);
}

/// Runs a script, then calls, of which those that `by_value` names are logged so; compares all recoveries with the database.
fn check_calls(
    script: &str,
    calls: impl Iterator<Item = (&'static str, Vec<Value>)>,
    by_value: impl Fn(usize) -> bool,
) {
    let disk: Arc<dyn Disk> = Arc::new(CrashingDisk::default());
    let folder = Path::new("/data");
    let db = Database::open(folder, on(Arc::clone(&disk))).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(script).unwrap();
    for (number, (procedure, arguments)) in calls.enumerate() {
        session.log_by_value(by_value(number));
        let _ = session.submit(procedure, &arguments).unwrap();
    }
    let live = db.digest().unwrap();
    drop((session, db));
    assert_eq!(recovered_digest_on(&disk, folder), live);
}

/// Rounds take as many witness values as they received when they ran, so a round may run on its own only where every one
/// takes equally many.
#[test]
fn rounds_that_pass_over_a_witness_stay_together() {
    let script = "
        CREATE TABLE item (a INT, b INT, v INT NOT NULL, PRIMARY KEY (a, b));
        CREATE PROCEDURE raise_some(p INT, n INT) LANGUAGE plpgsql AS $$
        DECLARE m INT;
        BEGIN
            FOR i IN 1..n LOOP
                CONTINUE WHEN (i + p) % 3 = 0;
                SELECT max(v) INTO m FROM item WHERE a = i;
                UPDATE item SET v = m + i WHERE a = i AND b = p % 4;
            END LOOP;
        END $$;";
    let rows = (1..10).flat_map(|a| (0..4).map(move |b| format!("INSERT INTO item VALUES ({a}, {b}, {b});")));
    let script = script.to_owned() + &rows.collect::<String>();
    let calls = (0..400).map(|n| ("raise_some", vec![Value::Int(n % 7), Value::Int(3 + n % 7)]));
    check_calls(&script, calls, |_| false);
}

/// A round that uses what an earlier one computed does not run on its own.
#[test]
fn rounds_that_hand_values_on_stay_together() {
    let script = "
        CREATE TABLE item (a INT PRIMARY KEY, v INT NOT NULL);
        CREATE PROCEDURE carry(p INT, n INT) LANGUAGE plpgsql AS $$
        DECLARE m INT := 0;
        BEGIN
            FOR i IN 1..n LOOP
                UPDATE item SET v = v + m WHERE a = i;
                m := m + p * i;
            END LOOP;
        END $$;";
    let rows = (1..10).map(|a| format!("INSERT INTO item VALUES ({a}, 0);"));
    let script = script.to_owned() + &rows.collect::<String>();
    let calls = (0..400).map(|n| ("carry", vec![Value::Int(n % 7), Value::Int(3 + n % 7)]));
    check_calls(&script, calls, |_| false);
}

/// Rows that hand a unique key from one to the other are of one partition, though the procedure that does so is only logged
/// by value, and those that are logged as calls leave unique keys alone.
#[test]
fn rows_hand_unique_keys_on() {
    let script = "
        CREATE TABLE seat (id INT PRIMARY KEY, place INT NOT NULL, note TEXT);
        CREATE UNIQUE INDEX seat_place ON seat (place);
        CREATE PROCEDURE rotate(p_id INT) LANGUAGE plpgsql AS $$
        DECLARE
            v_first INT;
            v_second INT;
        BEGIN
            SELECT place INTO v_first FROM seat WHERE id = p_id;
            SELECT place INTO v_second FROM seat WHERE id = (p_id + 1) % 16;
            UPDATE seat SET place = -1 WHERE id = p_id;
            UPDATE seat SET place = v_first WHERE id = (p_id + 1) % 16;
            UPDATE seat SET place = v_second WHERE id = p_id;
        END $$;
        CREATE PROCEDURE annotate(p_id INT) LANGUAGE plpgsql AS $$
        BEGIN
            UPDATE seat SET note = left('again ' || coalesce(note, ''), 20) WHERE id = p_id;
        END $$;";
    let rows = (0..16).map(|id| format!("INSERT INTO seat VALUES ({id}, {id}, NULL);"));
    let script = script.to_owned() + &rows.collect::<String>();
    let procedures = ["rotate", "annotate"];
    let calls = (0..1000).map(|n| (procedures[n as usize % 2], vec![Value::Int(n * 7 % 16)]));
    check_calls(&script, calls, |number| number % 2 == 0);
}

/// A row that is looked up ahead, and deleted and inserted again before its turn, is another one then. The table is so large
/// that looking up ahead is worth it.
#[test]
fn rows_that_come_back_are_found() {
    let script = "
        CREATE TABLE item (a INT PRIMARY KEY, v INT NOT NULL);
        CREATE PROCEDURE come(k INT) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO item VALUES (k, 0); END $$;
        CREATE PROCEDURE grow(k INT) LANGUAGE plpgsql AS $$ BEGIN UPDATE item SET v = v + 1 WHERE a = k; END $$;
        CREATE PROCEDURE go(k INT) LANGUAGE plpgsql AS $$ BEGIN DELETE FROM item WHERE a = k; END $$;";
    let steps = ["come", "grow", "grow", "go", "come", "grow", "go"];
    let calls = (0..500).flat_map(|n| steps.map(|step| (step, vec![Value::Int(n % 3)])));
    let last = (0..3).flat_map(|k| ["come", "grow"].map(|step| (step, vec![Value::Int(k)])));
    let others = (10..600).map(|k| ("come", vec![Value::Int(k)]));
    check_calls(script, others.chain(calls).chain(last), |_| false);
}

/// A piece that touches the rows of two keys runs after everything that touched either before it. What is done to a row is
/// not the same in another order.
#[test]
fn pieces_of_several_keys_stay_with_all_of_them() {
    let script = "
        CREATE TABLE item (a INT PRIMARY KEY, v INT NOT NULL);
        CREATE PROCEDURE pass(p INT, q INT) LANGUAGE plpgsql AS $$
        BEGIN
            UPDATE item SET v = (v * 3 + q) % 1009 WHERE a = p;
            UPDATE item SET v = (v * 5 + p) % 1009 WHERE a = q;
        END $$;
        CREATE PROCEDURE turn(p INT, q INT) LANGUAGE plpgsql AS $$
        BEGIN
            UPDATE item SET v = (v * 7 + 1) % 1009 WHERE a = p;
        END $$;";
    let rows = (0..40).map(|a| format!("INSERT INTO item VALUES ({a}, {a});"));
    let script = script.to_owned() + &rows.collect::<String>();
    let calls = (0..3000).map(|n| {
        let procedure = if n % 3 == 0 { "pass" } else { "turn" };
        (procedure, vec![Value::Int(n * 7 % 40), Value::Int(n * 11 % 40)])
    });
    check_calls(&script, calls, |number| number % 5 == 0);
}

/// A table that calls only read is read at their place in the order, where transactions logged by value write it.
#[test]
fn tables_that_are_written_by_value_are_read_in_order() {
    let script = "
        CREATE TABLE rate (id INT PRIMARY KEY, v INT NOT NULL);
        CREATE TABLE item (a INT PRIMARY KEY, v BIGINT NOT NULL);
        INSERT INTO rate VALUES (1, 0);
        CREATE PROCEDURE set_rate(k INT, n INT) LANGUAGE plpgsql AS $$
        BEGIN
            UPDATE rate SET v = n WHERE id = 1;
        END $$;
        CREATE PROCEDURE charge(k INT, n INT) LANGUAGE plpgsql AS $$
        DECLARE r INT;
        BEGIN
            SELECT v INTO r FROM rate WHERE id = 1;
            UPDATE item SET v = v + r WHERE a = k;
        END $$;";
    let rows = (0..20).map(|a| format!("INSERT INTO item VALUES ({a}, 0);"));
    let script = script.to_owned() + &rows.collect::<String>();
    let calls = (0..1000).map(|n| {
        let procedure = if n % 4 == 0 { "set_rate" } else { "charge" };
        (procedure, vec![Value::Int(n % 20), Value::Int(n)])
    });
    check_calls(&script, calls, |number| number % 4 == 0);
}

/// Calls `pass(x)`, whose loop may fall into rounds, over ten rows of `item`.
fn check_rounds(script: &str) {
    let rows = (0..10).map(|a| format!("INSERT INTO item VALUES ({a}, {a});"));
    let script = script.to_owned() + &rows.collect::<String>();
    let calls = (0..400).map(|n| ("pass", vec![Value::Int(n)]));
    check_calls(&script, calls, |_| false);
}

/// A loop over no rows sets its variables to NULL, so nothing goes from one round to the next through them.
#[test]
fn loops_over_no_rows_forget_the_row_before() {
    let script = "
        CREATE TABLE item (a INT PRIMARY KEY, v INT NOT NULL);
        CREATE PROCEDURE pass(x INT) LANGUAGE plpgsql AS $$
        DECLARE p INT; e INT;
        BEGIN
            FOR i IN 1..9 LOOP
                FOR p, e IN SELECT v, a FROM item WHERE a = i AND v % 3 <> 0 LOOP END LOOP;
                UPDATE item SET v = (v * 5 + coalesce(p, x)) % 1009 WHERE a = i;
            END LOOP;
        END $$;";
    check_rounds(script);
}

/// Inside of a loop over rows FOUND is what it was before that began, which may be of the round before.
#[test]
fn found_inside_a_loop_over_rows_is_of_the_round_before() {
    let script = "
        CREATE TABLE item (a INT PRIMARY KEY, v INT NOT NULL);
        CREATE PROCEDURE pass(x INT) LANGUAGE plpgsql AS $$
        DECLARE p INT; e INT;
        BEGIN
            FOR i IN 1..9 LOOP
                FOR p, e IN SELECT v, a FROM item WHERE a = i AND v % 3 <> 0 LOOP
                    IF FOUND THEN
                        UPDATE item SET v = (v * 5 + x) % 1009 WHERE a = i;
                    END IF;
                END LOOP;
            END LOOP;
        END $$;";
    check_rounds(script);
}
