//! The steps of random procedures, and how they are drawn.

use super::tables::TABLES;
use proptest::prelude::*;

/// Keys are drawn from few values, so that rows meet often.
pub const VALUES: i32 = 5;

/// An integer expression.
#[derive(Clone, Debug)]
pub enum Int {
    Constant(i32),
    /// A parameter or variable; 1 where it is NULL.
    Name(&'static str),
    /// A parameter, NULL included.
    Plain(&'static str),
    /// The third parameter, where its type compares with the column's; else the second one.
    Third,
    /// What a column rounds or cuts to the value of an expression.
    Near(Box<Int>),
    Sum(Box<Int>, Box<Int>),
    /// The first if the second is even.
    Choice(Box<Int>, Box<Int>),
}

/// Which rows.
#[derive(Clone, Debug)]
pub enum Rows {
    /// By a and b.
    Key(Int, Int),
    /// By a, and by b from a value on.
    From(Int, Int),
    /// By a.
    First(Int),
    /// By v.
    ByValue(Int),
}

#[derive(Clone, Debug)]
pub enum Step {
    Assign(&'static str, Int),
    /// Adds to the first parameter, on a condition.
    Adjust(Int),
    Read(usize, Rows, &'static str),
    /// Reads two values into one variable.
    ReadTwice(usize, Rows, &'static str),
    Count(usize, Rows, &'static str),
    Insert(usize, Int, Int, Int),
    Update(usize, Rows, Int, Option<&'static str>),
    /// Overwrites v, whatever it was.
    Set(usize, Rows, Int),
    /// Moves rows to another b.
    Move(usize, Rows, Int),
    Delete(usize, Rows, Option<&'static str>),
    IfFound(Vec<Step>),
    If(Int, Vec<Step>, Vec<Step>),
    Loop(&'static str, Int, Vec<Step>),
    /// A loop that changes its variable in some rounds.
    Skip(&'static str, Int, Vec<Step>),
    Each(usize, Rows, &'static str, Vec<Step>),
    While(&'static str, Vec<Step>),
    ForEach(&'static str, Int, Int, Vec<Step>),
    /// Leaves the innermost loop.
    Exit(Int),
    /// Leaves the outermost loop.
    Leave(Int),
    Continue(Int),
    Return(Int),
    Raise(Int),
    /// Calls the procedure before this one, if there is one.
    Call(Int, Int, &'static str),
    /// Draws a random number.
    Draw(&'static str),
    /// Asks for the time.
    Now(&'static str),
}

impl Step {
    /// Returns the table of a step that is one statement.
    pub fn table(&self) -> Option<usize> {
        match self {
            Self::Read(t, ..)
            | Self::ReadTwice(t, ..)
            | Self::Count(t, ..)
            | Self::Insert(t, ..)
            | Self::Update(t, ..)
            | Self::Set(t, ..)
            | Self::Move(t, ..)
            | Self::Delete(t, ..) => Some(*t),
            _ => None,
        }
    }
}

/// The variable of a key that is read.
pub const KEY: &str = "k";

/// How the steps of a procedure are related.
#[derive(Clone, Debug)]
pub enum Relation {
    /// Not at all.
    Free,
    /// Each step has its table, and reaches one row a round by a key that is known before it runs, so that
    /// each is a slice of its own. What is written may follow from anything.
    Apart,
    /// All steps of a procedure reach the rows of one key, in any table: columns of several tables tell one
    /// partition.
    Together(Int),
    /// A procedure reads the key of its steps from the first table, which no other step touches. The read
    /// is of a block of its own, and the keys of later blocks follow from what it sends.
    Looked {
        key: Int,
        /// Whether the procedure changes the row before it reads the key, so that the table is not constant.
        changes: bool,
    },
    /// A condition chooses the key of the steps: what the procedure reads from the first table, or what it
    /// computes.
    Chosen { key: Int, condition: Int, otherwise: Int },
    /// In each round of a loop, the procedure reads the key of the further steps from the first table. Some
    /// rounds end before it, or behind it. With a table, the number of the round is part of the key, too.
    InRounds { key: Int, before: Option<Int>, behind: Option<Int>, table: Option<usize> },
}

impl Relation {
    pub fn any() -> impl Strategy<Value = Self> {
        let key = prop_oneof![
            2 => Just(Int::Name("y")),
            2 => Just(Int::Plain("y")),
            2 => Just(Int::Third),
            1 => Just(Int::Near(Box::new(Int::Name("y")))),
        ];
        let looked = (key.clone(), any::<bool>()).prop_map(|(key, changes)| Self::Looked { key, changes });
        let chosen = (key.clone(), int(), int());
        let chosen =
            chosen.prop_map(|(key, condition, otherwise)| Self::Chosen { key, condition, otherwise });
        let before = proptest::option::of((0..2).prop_map(|first| {
            let round = Int::Sum(Int::Name("q").into(), Int::Constant(first).into());
            Int::Choice(Int::Constant(3).into(), round.into())
        }));
        let behind = proptest::option::of(Just(Int::Name(KEY)));
        let in_rounds = (key.clone(), before, behind, proptest::option::of(1..TABLES));
        let in_rounds =
            in_rounds.prop_map(|(key, before, behind, table)| Self::InRounds { key, before, behind, table });
        prop_oneof![
            2 => Just(Self::Free),
            2 => Just(Self::Apart),
            3 => key.prop_map(Self::Together),
            4 => looked,
            2 => chosen,
            2 => in_rounds,
        ]
    }

    /// The steps of a procedure, changed so that they are related so.
    pub fn relate(&self, steps: Vec<Step>) -> Vec<Step> {
        match self {
            Self::Free => steps,
            Self::Apart => {
                let key = Int::Name("y");
                let own = |(place, step): (usize, Step)| {
                    let names = vec!["x", "y"];
                    Known { names, key: &key, table: Some(place % TABLES), least: 0 }.relate(vec![step])
                };
                steps.into_iter().enumerate().flat_map(own).collect()
            }
            Self::Together(key) => Known { names: vec!["x", "y"], key, table: None, least: 0 }.relate(steps),
            Self::Looked { key, changes } => {
                let row = || Rows::Key(key.clone(), key.clone());
                let change = changes.then(|| Step::Update(0, row(), Int::Name("x"), None));
                let read = Step::Read(0, row(), KEY);
                let names = vec!["x", "y", KEY];
                let following = Known { names, key, table: None, least: 1 }.relate(steps);
                change.into_iter().chain([read]).chain(following).collect()
            }
            Self::Chosen { key, condition, otherwise } => {
                let read = vec![Step::Read(0, Rows::Key(key.clone(), key.clone()), KEY)];
                let chosen = Step::If(condition.clone(), read, vec![Step::Assign(KEY, otherwise.clone())]);
                let names = vec!["x", "y", KEY];
                let following = Known { names, key, table: None, least: 1 }.relate(steps);
                [chosen].into_iter().chain(following).collect()
            }
            Self::InRounds { key, before, behind, table } => {
                let read = Step::Read(0, Rows::Key(Int::Name("q"), key.clone()), KEY);
                let names = vec!["x", "y", "q", KEY];
                let following = Known { names, key, table: *table, least: 1 }.relate(steps);
                let ends = |when: &Option<Int>| when.clone().map(Step::Continue);
                let body = ends(before).into_iter().chain([read]).chain(ends(behind)).chain(following);
                let body = body.collect();
                vec![Step::Loop("q", Int::Constant(3), body)]
            }
        }
    }
}

/// What is known of the rows that steps reach.
struct Known<'k> {
    /// The names that tell them; the last two are the key's.
    names: Vec<&'static str>,
    /// What the last name is where that is a parameter.
    key: &'k Int,
    /// The only table.
    table: Option<usize>,
    /// The first table that steps may touch.
    least: usize,
}

impl Known<'_> {
    fn first(&self) -> Int {
        let last = self.names[self.names.len() - 1];
        if last == "y" { self.key.clone() } else { Int::Name(last) }
    }

    fn second(&self) -> Int {
        // Rows of one key in any table are those whose two columns are equal: every table begins with some.
        if self.table.is_none() { self.first() } else { Int::Name(self.names[self.names.len() - 2]) }
    }

    fn rows(&self) -> Rows {
        Rows::Key(self.first(), self.second())
    }

    /// Steps on the rows that the last two names tell, and on ranges that the last one tells.
    fn relate(&self, steps: Vec<Step>) -> Vec<Step> {
        steps.into_iter().map(|step| self.step(step)).collect()
    }

    fn step(&self, step: Step) -> Step {
        // Nothing but their loops sets the names that are known.
        let other = |name: &'static str| if self.names.contains(&name) { "e" } else { name };
        let on = |t: usize| self.table.unwrap_or(t.max(self.least));
        let inside = |body, name| Known { names: [&self.names[..], &[name]].concat(), ..*self }.relate(body);
        match step {
            Step::Assign(into, value) => Step::Assign(other(into), value),
            Step::Draw(into) => Step::Draw(other(into)),
            Step::Now(into) => Step::Now(other(into)),
            Step::Read(t, _, into) => Step::Read(on(t), self.rows(), other(into)),
            Step::ReadTwice(t, _, into) => Step::ReadTwice(on(t), self.rows(), other(into)),
            Step::Set(t, _, v) => Step::Set(on(t), self.rows(), v),
            Step::Count(t, _, into) => Step::Count(on(t), Rows::First(self.first()), other(into)),
            Step::Insert(t, _, _, v) => Step::Insert(on(t), self.first(), self.second(), v),
            Step::Update(t, _, v, into) => Step::Update(on(t), self.rows(), v, into.map(other)),
            Step::Move(t, _, b) => Step::Move(on(t), self.rows(), b),
            Step::Delete(t, _, into) => Step::Delete(on(t), self.rows(), into.map(other)),
            Step::IfFound(then) => Step::IfFound(self.relate(then)),
            Step::If(condition, then, otherwise) => {
                Step::If(condition, self.relate(then), self.relate(otherwise))
            }
            Step::Loop(name, to, body) if !self.names.contains(&name) => {
                let to = if let Int::Name(_) | Int::Plain(_) = to { Int::Name("x") } else { to };
                Step::Loop(name, to, inside(body, name))
            }
            Step::Skip(name, to, body) if !self.names.contains(&name) => {
                Step::Skip(name, to, inside(body, name))
            }
            Step::While(name, body) if !self.names.contains(&name) => {
                Step::Loop(name, Int::Constant(3), inside(body, name))
            }
            // What of the row counts may follow from anything, so that there are rounds of no rows.
            Step::Each(t, Rows::From(_, b) | Rows::Key(_, b), name, body) => {
                Step::Each(on(t), Rows::From(self.first(), b), other(name), self.relate(body))
            }
            Step::Each(t, _, name, body) => Step::Each(on(t), self.rows(), other(name), self.relate(body)),
            Step::Loop(name, _, body) | Step::Skip(name, _, body) | Step::While(name, body) => {
                Step::Each(on(0), self.rows(), other(name), self.relate(body))
            }
            Step::ForEach(name, a, b, body) => Step::ForEach(other(name), a, b, self.relate(body)),
            Step::Call(x, _, into) => Step::Assign(other(into), x),
            rest @ (Step::Adjust(_)
            | Step::Exit(_)
            | Step::Leave(_)
            | Step::Continue(_)
            | Step::Return(_)
            | Step::Raise(_)) => rest,
        }
    }
}

const NAMES: [&str; 5] = ["x", "y", "p", "q", "r"];
/// What is assigned to: not the parameters x and y.
const VARIABLES: [&str; 3] = ["p", "q", "r"];

fn variable() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(&VARIABLES[..])
}

fn int() -> impl Strategy<Value = Int> {
    let leaf = prop_oneof![
        4 => (0..VALUES).prop_map(Int::Constant),
        4 => proptest::sample::select(&NAMES[..]).prop_map(Int::Name),
        4 => proptest::sample::select(&NAMES[..2]).prop_map(Int::Name),
        1 => proptest::sample::select(&NAMES[..2]).prop_map(Int::Plain),
        1 => Just(Int::Third),
    ];
    leaf.prop_recursive(2, 4, 2, |inner| {
        prop_oneof![
            3 => (inner.clone(), inner.clone()).prop_map(|(a, b)| Int::Sum(a.into(), b.into())),
            3 => (inner.clone(), inner.clone()).prop_map(|(a, b)| Int::Choice(a.into(), b.into())),
            1 => inner.prop_map(|a| Int::Near(a.into())),
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

/// Generates a step without inner steps.
fn simple_step() -> BoxedStrategy<Step> {
    let table = || 0..TABLES;
    let maybe = || proptest::option::of(variable());
    prop_oneof![
        4 => (variable(), int()).prop_map(|(name, value)| Step::Assign(name, value)),
        8 => (table(), rows(), variable()).prop_map(|(t, rows, name)| Step::Read(t, rows, name)),
        6 => (table(), rows(), variable()).prop_map(|(t, rows, name)| Step::Count(t, rows, name)),
        1 => (table(), rows(), variable()).prop_map(|(t, rows, name)| Step::ReadTwice(t, rows, name)),
        4 => (table(), rows(), int()).prop_map(|(t, rows, v)| Step::Set(t, rows, v)),
        1 => int().prop_map(Step::Adjust),
        8 => (table(), int(), int(), int()).prop_map(|(t, a, b, v)| Step::Insert(t, a, b, v)),
        10 => (table(), rows(), int(), maybe()).prop_map(|(t, rows, v, into)| Step::Update(t, rows, v, into)),
        2 => (table(), rows(), int()).prop_map(|(t, rows, b)| Step::Move(t, rows, b)),
        4 => (table(), rows(), maybe()).prop_map(|(t, rows, into)| Step::Delete(t, rows, into)),
        2 => int().prop_map(Step::Exit),
        1 => int().prop_map(Step::Leave),
        2 => int().prop_map(Step::Continue),
        2 => int().prop_map(Step::Return),
        2 => int().prop_map(Step::Raise),
        2 => (int(), int(), variable()).prop_map(|(x, y, into)| Step::Call(x, y, into)),
        1 => variable().prop_map(Step::Draw),
        1 => variable().prop_map(Step::Now),
    ]
    .boxed()
}

/// Steps, nested so deep at most.
pub fn steps(depth: u32) -> BoxedStrategy<Vec<Step>> {
    if depth == 0 {
        return proptest::collection::vec(simple_step(), 1..3).boxed();
    }
    let inner = || steps(depth - 1);
    let step = prop_oneof![
        6 => simple_step(),
        1 => inner().prop_map(Step::IfFound),
        1 => (int(), inner(), inner()).prop_map(|(c, then, other)| Step::If(c, then, other)),
        2 => (variable(), int(), inner()).prop_map(|(i, to, body)| Step::Loop(i, to, body)),
        1 => (variable(), int(), inner()).prop_map(|(i, to, body)| Step::Skip(i, to, body)),
        1 => (0..TABLES, rows(), variable(), inner())
            .prop_map(|(t, rows, name, body)| Step::Each(t, rows, name, body)),
        1 => (variable(), inner()).prop_map(|(name, body)| Step::While(name, body)),
        1 => (variable(), int(), int(), inner())
            .prop_map(|(name, a, b, body)| Step::ForEach(name, a, b, body)),
    ];
    proptest::collection::vec(step, 1..5).boxed()
}

/// Procedures that are nothing but loops.
pub fn loops() -> impl Strategy<Value = Vec<Step>> {
    let each = (0..TABLES, rows(), variable(), steps(0));
    let each = each.prop_map(|(t, rows, name, body)| Step::Each(t, rows, name, body));
    let body = proptest::collection::vec(prop_oneof![6 => simple_step(), 1 => each], 1..6);
    let one_loop = prop_oneof![
        3 => (variable(), int(), body.clone()).prop_map(|(name, to, body)| Step::Loop(name, to, body)),
        1 => (variable(), int(), body).prop_map(|(name, to, body)| Step::Skip(name, to, body)),
        1 => int().prop_map(Step::Adjust),
    ];
    proptest::collection::vec(one_loop, 1..4)
}

/// Procedures that carry a value from one table to the next.
pub fn chains() -> impl Strategy<Value = Vec<Step>> {
    let step = (0..TABLES, rows(), 0..4u8, variable(), variable());
    let step = step.prop_map(|(t, rows, kind, from, into)| {
        let value = Int::Sum(Int::Name(from).into(), Int::Constant(1).into());
        match kind {
            0 => Step::Read(t, rows, into),
            _ => Step::Update(t, rows, value, Some(into)),
        }
    });
    let step = prop_oneof![6 => step, 1 => simple_step()];
    proptest::collection::vec(step, 2..6)
}
