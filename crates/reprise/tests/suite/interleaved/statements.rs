//! The statements that clients choose from.

use super::client::World;
use super::history::{Effect, Place, Predicate, Seen, Statement, Token};
use rand::Rng;
use rand::rngs::SmallRng;
use reprise::Value;

/// Rows that a history begins with, by key from its base on; further keys come and go.
pub const ROWS: i64 = 6;
const KEYS: i64 = 10;
const GROUPS: i64 = 3;
const CODES: i64 = 8;
/// Keys of one history.
pub const WIDTH: i64 = 1_000;
/// More rows than an attempt reads before it goes on on a snapshot.
pub const FILLING: i64 = 5_000;

pub const SCHEMA: &str = "
CREATE TABLE t (id INT PRIMARY KEY, grp INT NOT NULL, code INT UNIQUE, list TEXT NOT NULL);
CREATE INDEX t_grp ON t (grp);
CREATE TABLE filling (id INT PRIMARY KEY);
CREATE PROCEDURE append_two(p_a INT, p_b INT, p_token TEXT, OUT n INT) LANGUAGE plpgsql AS $$
BEGIN
    n := 0;
    UPDATE t SET list = list || p_token WHERE id = p_a;
    IF FOUND THEN n := n + 1; END IF;
    UPDATE t SET list = list || p_token WHERE id = p_b;
    IF FOUND THEN n := n + 1; END IF;
END $$;
-- What the inner block does is undone.
CREATE PROCEDURE append_one(p_a INT, p_b INT, p_token TEXT, p_undone TEXT, OUT n INT) LANGUAGE plpgsql AS $$
BEGIN
    n := 0;
    BEGIN
        UPDATE t SET grp = grp + 1, list = list || p_undone WHERE id IN (p_b, p_a);
        DELETE FROM t WHERE id = p_b;
        INSERT INTO t VALUES (p_b, 0, NULL, p_undone);
        UPDATE t SET grp = 1 WHERE id = p_b;
        RAISE EXCEPTION 'enough';
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
    UPDATE t SET list = list || p_token WHERE id = p_a;
    IF FOUND THEN n := n + 1; END IF;
END $$;
";

/// A statement on its way.
#[derive(Clone, Debug)]
pub struct Asked {
    pub text: String,
    pub parameters: Vec<Value>,
    pub token: Token,
    pub effect: Effect,
    pub predicate: Option<Predicate>,
    /// Whether its rows tell what it has found.
    returns: bool,
    /// Whether its client takes rows slowly.
    pub is_slow: bool,
}

impl Asked {
    /// What its answer says.
    pub fn answered(&self, seen: Vec<Seen>, affected: u64, live: Vec<Token>) -> Statement {
        let is_new = |seen: &Seen| seen.list == [self.token];
        let effect = match self.effect {
            Effect::Insert(_) if self.returns && !seen.iter().any(is_new) => Effect::Append,
            effect => effect,
        };
        // Calls return one row, which says how many rows they have written.
        let calls = self.text.starts_with("CALL");
        let affected = seen.first().filter(|_| calls).map_or(affected, |row| row.at.id as u64);
        let seen = self.returns.then_some(seen).filter(|_| !calls);
        let (token, predicate) = (self.token, self.predicate.clone());
        Statement { token, predicate, effect, seen, affected, is_undone: false, live }
    }
}

/// A condition, with the values of its parameters.
fn condition(random: &mut SmallRng, base: i64) -> (String, Vec<i64>, Predicate) {
    let key = base + random.random_range(0..KEYS);
    let group = base + random.random_range(0..GROUPS);
    match random.random_range(0..12) {
        0..4 => ("id = $1".into(), vec![key], Predicate::Ids(vec![key])),
        4..7 => {
            let other = base + random.random_range(0..KEYS);
            ("id IN ($1, $2)".into(), vec![key, other], Predicate::Ids(vec![key, other]))
        }
        7 | 8 => {
            let last = key + random.random_range(0..5);
            ("id BETWEEN $1 AND $2".into(), vec![key, last], Predicate::IdsBetween(key, last))
        }
        9 => ("grp = $1".into(), vec![group], Predicate::GroupsBetween(group, group)),
        10 => {
            let last = base + GROUPS;
            ("grp BETWEEN $1 AND $2".into(), vec![group, last], Predicate::GroupsBetween(group, last))
        }
        _ => {
            let code = base + random.random_range(0..CODES);
            ("code = $1".into(), vec![code], Predicate::Code(code))
        }
    }
}

const COLUMNS: &str = "id, grp, code, list";

/// Chooses a statement: one of an open transaction, or one that is a transaction of its own.
pub fn ask(random: &mut SmallRng, world: &World, in_block: bool) -> Asked {
    let (base, token) = (world.base, world.token());
    let (condition, values, predicate) = condition(random, base);
    let key = base + random.random_range(0..KEYS);
    let mut asked = Asked {
        text: String::new(),
        parameters: values.into_iter().map(Value::Int).collect(),
        token,
        effect: Effect::Read,
        predicate: Some(predicate),
        returns: true,
        is_slow: false,
    };
    match random.random_range(0..24) {
        0..4 => asked.text = format!("SELECT {COLUMNS} FROM t WHERE {condition}"),
        4 if in_block || random.random_range(0..2) == 0 => {
            asked.text = format!("SELECT {COLUMNS} FROM t WHERE {condition} FOR UPDATE")
        }
        4 => {
            asked.is_slow = true;
            asked.text = format!("SELECT {COLUMNS} FROM t WHERE {condition}");
        }
        5 if !in_block && random.random_range(0..4) == 0 => {
            let filling = "(SELECT count(*) AS c FROM filling) AS f";
            asked.text = format!("SELECT {COLUMNS} FROM {filling}, t WHERE f.c >= 0 AND {condition}");
        }
        5..12 => asked.update(random, &condition, ("list = list", Effect::Append)),
        12..14 => {
            let grp = base + random.random_range(0..GROUPS);
            asked.update(random, &condition, (&format!("grp = {grp}, list = list"), Effect::SetGroup(grp)));
        }
        14 => {
            let code = base + random.random_range(0..CODES);
            asked.update(random, "id = $1", (&format!("code = {code}, list = list"), Effect::SetCode(code)));
            (asked.parameters, asked.predicate) = (vec![Value::Int(key)], Some(Predicate::Ids(vec![key])));
            asked.add_token();
        }
        15 => {
            let from = base + random.random_range(0..KEYS);
            asked.update(random, "id = $1", (&format!("id = {key}, list = list"), Effect::SetId(key)));
            (asked.parameters, asked.predicate) = (vec![Value::Int(from)], Some(Predicate::Ids(vec![from])));
            asked.add_token();
        }
        16..18 => {
            asked.text = format!("DELETE FROM t WHERE {condition} RETURNING {COLUMNS}");
            asked.effect = Effect::Delete;
        }
        18..22 => asked.insert(random, base, key),
        _ => asked.call(random, base, key),
    }
    asked
}

impl Asked {
    fn add_token(&mut self) {
        self.parameters.push(Value::Text(format!(",{}", self.token)));
    }

    fn update(&mut self, random: &mut SmallRng, condition: &str, (set, effect): (&str, Effect)) {
        self.add_token();
        let token = self.parameters.len();
        self.returns = random.random_range(0..2) == 0;
        let returning = if self.returns { format!(" RETURNING {COLUMNS}") } else { String::new() };
        let token = if condition == "id = $1" { 2 } else { token };
        self.text = format!("UPDATE t SET {set} || ${token} WHERE {condition}{returning}");
        self.effect = effect;
    }

    fn insert(&mut self, random: &mut SmallRng, base: i64, id: i64) {
        let at = Place { id, grp: base + random.random_range(0..GROUPS), code: None };
        let first = Value::Text(self.token.to_string());
        self.parameters = vec![Value::Int(id), Value::Int(at.grp), first];
        self.effect = Effect::Insert(at);
        self.predicate = Some(Predicate::Ids(vec![id]));
        self.returns = random.random_range(0..2) == 0;
        self.text = "INSERT INTO t VALUES ($1, $2, NULL, $3)".into();
        if self.returns {
            self.text += " ON CONFLICT (id) DO UPDATE SET list = t.list || ',' || excluded.list RETURNING ";
            self.text += COLUMNS;
        }
    }

    fn call(&mut self, random: &mut SmallRng, base: i64, key: i64) {
        let other = base + (key - base + random.random_range(1..KEYS)) % KEYS;
        let token = |own: Token| Value::Text(format!(",{own}"));
        self.parameters = vec![Value::Int(other), Value::Int(key), token(self.token)];
        (self.effect, self.returns) = (Effect::Append, false);
        self.predicate = Some(Predicate::Ids(vec![other, key]));
        self.text = "CALL append_two($1, $2, $3, NULL)".into();
        if random.random_range(0..2) == 0 {
            self.parameters.push(Value::Text(",0".into()));
            self.predicate = Some(Predicate::Ids(vec![other]));
            self.text = "CALL append_one($1, $2, $3, $4, NULL)".into();
        }
    }
}

impl Asked {
    /// The insert of one row.
    pub fn inserting(token: Token, at: Place) -> Self {
        let (text, parameters) = (String::new(), Vec::new());
        let (effect, predicate) = (Effect::Insert(at), Some(Predicate::Ids(vec![at.id])));
        Self { text, parameters, token, effect, predicate, returns: false, is_slow: false }
    }
}
