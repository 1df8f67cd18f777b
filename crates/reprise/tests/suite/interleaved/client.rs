//! A client that does random things, one statement at a time, and remembers what it was told.

use super::history::{Outcome, Place, Seen, Token, Transaction};
use super::statements::{Asked, ask};
use rand::Rng;
use rand::rngs::SmallRng;
use reprise::{
    Arena, Attempt, Busy, CommitOrder, CommitPoint, Database, Datum, Error, Parameters, RowSink, Session,
    SqlError, Statement, TransactionState,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What the clients of a history share.
pub struct World {
    /// Keys, groups and codes of the history lie above this, so that histories don't meet.
    pub base: i64,
    clock: AtomicU64,
    tokens: AtomicU32,
    pub history: Mutex<Vec<Transaction>>,
    /// No transaction begins any more.
    pub ends: AtomicBool,
}

impl World {
    pub fn new(base: i64) -> Self {
        let (clock, tokens, ends) = (AtomicU64::new(1), AtomicU32::new(1), AtomicBool::new(false));
        Self { base, clock, tokens, history: Mutex::default(), ends }
    }

    pub fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    pub fn token(&self) -> Token {
        self.tokens.fetch_add(1, Ordering::SeqCst)
    }
}

/// What a client did.
pub enum Step {
    Done,
    /// A statement is to be tried again once a row is free.
    Waits(Busy),
    /// The log has failed.
    Broken,
}

/// Does something while the rows of a slow client wait.
pub type Meanwhile = Arc<dyn Fn() + Send + Sync>;

pub struct Client {
    pub world: Arc<World>,
    pub session: Session,
    pub random: SmallRng,
    name: String,
    prepared: HashMap<String, Statement>,
    transaction: Option<Transaction>,
    /// How many statements there were when each savepoint was set.
    savepoints: Vec<usize>,
    pending: Option<Asked>,
    /// What that waits for.
    waits: Option<Busy>,
    /// What is to be durable of each transaction, by its place in the history.
    pub commits: Vec<(usize, CommitPoint)>,
    pub meanwhile: Meanwhile,
}

struct Rows {
    rows: Arc<Mutex<Vec<Seen>>>,
    /// A slow client takes rows one by one.
    meanwhile: Option<Meanwhile>,
}

impl RowSink for Rows {
    fn begin(&mut self) {
        self.rows.lock().unwrap().clear();
    }

    fn row(&mut self, values: &[Datum], arena: &Arena) -> Result<(), SqlError> {
        let int = |value: Datum| match value {
            Datum::Int(value) => Some(value),
            _ => None,
        };
        let [id, grp, code, list] = values else {
            // A call says how many rows it has written.
            let at = Place { id: int(values[0]).unwrap(), grp: 0, code: None };
            self.rows.lock().unwrap().push(Seen { at, list: Vec::new() });
            return Ok(());
        };
        let list = String::from_utf8_lossy(arena.datum_bytes(*list)).into_owned();
        let list = list.split(',').map(|token| token.parse().unwrap()).collect();
        let at = Place { id: int(*id).unwrap(), grp: int(*grp).unwrap(), code: int(*code) };
        self.rows.lock().unwrap().push(Seen { at, list });
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.meanwhile.is_some()
    }

    fn relieve(&mut self, _shown: CommitOrder) -> Result<(), SqlError> {
        self.meanwhile.iter().for_each(|meanwhile| meanwhile());
        Ok(())
    }
}

impl Client {
    pub fn new(db: &Database, world: &Arc<World>, name: String, random: SmallRng) -> Result<Self, Error> {
        Ok(Self {
            world: Arc::clone(world),
            session: db.session()?,
            random,
            name,
            prepared: HashMap::new(),
            transaction: None,
            savepoints: Vec::new(),
            pending: None,
            waits: None,
            commits: Vec::new(),
            meanwhile: Arc::new(|| {}),
        })
    }

    fn in_block(&self) -> bool {
        self.session.transaction_state() != TransactionState::None
    }

    /// Whether it has nothing more to do.
    pub fn is_idle(&self) -> bool {
        self.transaction.is_none() && self.pending.is_none()
    }

    fn begin(&mut self) -> &mut Transaction {
        let (name, now) = (&self.name, self.world.now());
        self.transaction.get_or_insert_with(|| Transaction::new(format!("{name}@{now}"), now))
    }

    /// Ends the transaction.
    pub fn end(&mut self, outcome: Outcome, commit: Option<CommitPoint>) {
        let Some(mut transaction) = self.transaction.take() else { return };
        // One of unknown outcome may still run.
        let ended = if outcome == Outcome::Unknown { u64::MAX } else { self.world.now() };
        (transaction.ended, transaction.outcome) = (ended, outcome);
        transaction.is_acknowledged = outcome == Outcome::Committed && commit.is_none();
        let mut history = self.world.history.lock().unwrap();
        self.commits.extend(commit.map(|commit| (history.len(), commit)));
        history.push(transaction);
        self.savepoints.clear();
        self.pending = None;
    }

    /// Gives up the statement that waits, if there is one.
    pub fn gives_up(&mut self) {
        let Some(asked) = self.pending.take() else { return };
        // A call that its batch runs already may commit.
        let is_undone = self.waits.take().is_none_or(|busy| busy.withdraw());
        if self.session.is_waiting() {
            self.session.stop_waiting();
        }
        if !is_undone {
            self.is_unknown(&asked, Vec::new());
        } else if !self.in_block() {
            self.end(Outcome::Aborted, None);
        }
    }

    /// Ends the transaction with a statement that may have committed; then its rows tell.
    fn is_unknown(&mut self, asked: &Asked, seen: Vec<Seen>) {
        let statement = asked.answered(seen, u64::MAX, vec![asked.token]);
        self.begin().statements.push(statement);
        self.end(Outcome::Unknown, None);
    }

    /// Does one thing.
    pub fn step(&mut self) -> Step {
        let broken = |error: &Error| !matches!(error, Error::Sql(_));
        if self.pending.is_some() {
            return self.attempt();
        }
        match (self.session.transaction_state(), self.random.random_range(0..20)) {
            (TransactionState::None, _) if self.world.ends.load(Ordering::SeqCst) => return Step::Done,
            (TransactionState::None, 0..8) => self.session.begin().unwrap(),
            // Records and index entries go while other clients' transactions are open.
            (TransactionState::None, 8..12) => self.session.collect_garbage(),
            (TransactionState::None, _) => return self.choose(),
            (TransactionState::Open, 0..3) => {
                let ended = self.session.commit();
                match ended {
                    Ok(commit) => self.end(Outcome::Committed, Some(commit.point())),
                    Err(error) if broken(&error) => {
                        self.end(Outcome::Unknown, None);
                        return Step::Broken;
                    }
                    Err(_) => self.end(Outcome::Aborted, None),
                }
            }
            (TransactionState::Open, 3) => {
                self.session.rollback();
                self.end(Outcome::Aborted, None);
            }
            (TransactionState::Open, 4..6) => {
                let name = format!("s{}", self.savepoints.len());
                if self.session.set_savepoint(&name).is_err() {
                    self.end(Outcome::Aborted, None);
                    return Step::Broken;
                }
                self.begin();
                let statements = self.transaction.as_ref().map_or(0, |own| own.statements.len());
                self.savepoints.push(statements);
            }
            (TransactionState::Open, 6) if !self.savepoints.is_empty() => {
                let place = self.random.random_range(0..self.savepoints.len());
                self.session.release_savepoint(&format!("s{place}")).unwrap();
                self.savepoints.truncate(place);
            }
            (TransactionState::Open, 7) | (TransactionState::Failed, 0..16)
                if !self.savepoints.is_empty() =>
            {
                self.roll_back_to_savepoint();
            }
            (TransactionState::Failed, _) => {
                self.session.rollback();
                self.end(Outcome::Aborted, None);
            }
            (TransactionState::Open, _) => return self.choose(),
        }
        Step::Done
    }

    fn roll_back_to_savepoint(&mut self) {
        let place = self.random.random_range(0..self.savepoints.len());
        // One that failed with all of its transaction can't go back.
        if self.session.roll_back_to_savepoint(&format!("s{place}")).is_err() {
            self.session.rollback();
            return self.end(Outcome::Aborted, None);
        }
        self.savepoints.truncate(place + 1);
        let from = self.savepoints[place];
        let statements = self.transaction.iter_mut().flat_map(|own| &mut own.statements[from..]);
        statements.for_each(|own| own.is_undone = true);
    }

    fn choose(&mut self) -> Step {
        let in_block = self.in_block();
        let asked = ask(&mut self.random, &self.world, in_block);
        self.begin();
        self.pending = Some(asked);
        self.attempt()
    }

    fn attempt(&mut self) -> Step {
        let asked = self.pending.clone().expect("a statement is asked");
        let rows = Arc::new(Mutex::new(Vec::new()));
        let meanwhile = asked.is_slow.then(|| Arc::clone(&self.meanwhile));
        let sink = Box::new(Rows { rows: Arc::clone(&rows), meanwhile });
        self.waits = None;
        let attempted = self.run(&asked, sink);
        match attempted {
            Ok(Attempt::Busy(busy)) => {
                self.waits = Some(busy.clone());
                return Step::Waits(busy);
            }
            Ok(Attempt::Done(completion)) => {
                let seen = std::mem::take(&mut *rows.lock().unwrap());
                let in_block = self.in_block();
                let transaction = self.begin();
                let mut live = transaction.live();
                live.push(asked.token);
                transaction.statements.push(asked.answered(seen, completion.affected, live));
                self.pending = None;
                if !in_block {
                    self.end(Outcome::Committed, Some(completion.commit));
                }
            }
            Err(Error::Sql(error)) => {
                let known = ["40001", "23505", "58030"].contains(&error.sqlstate.as_str());
                assert!(known, "{}: {asked:?}: {error:?}", self.name);
                self.pending = None;
                if !self.in_block() {
                    self.end(Outcome::Aborted, None);
                }
            }
            Err(_) => {
                self.pending = None;
                let seen = std::mem::take(&mut *rows.lock().unwrap());
                if self.in_block() {
                    self.end(Outcome::Aborted, None);
                } else {
                    // The log may have failed after its commit.
                    self.is_unknown(&asked, seen);
                }
                return Step::Broken;
            }
        }
        Step::Done
    }

    fn run(&mut self, asked: &Asked, sink: Box<dyn RowSink>) -> Result<Attempt, Error> {
        if !self.prepared.contains_key(&asked.text) {
            let prepared = self.session.prepare(&asked.text)?;
            self.prepared.insert(asked.text.clone(), prepared);
        }
        let prepared = &self.prepared[&asked.text];
        self.session.attempt(prepared, &Parameters::of(prepared, &asked.parameters)?, sink)
    }
}
