//! Histories of interleaved clients are strictly serializable, before a crash and after it.
//!
//! Clients run transactions of several statements with savepoints, calls and single statements over few rows;
//! they wait for each other, and statements are tried again. A checker that knows nothing of the database's
//! order decides (`check`). A failure names its seed;
//! `REPRISE_SEED=n cargo test -p reprise --test suite interleaved::epoch` runs it alone, and
//! `REPRISE_HISTORIES` says how many there are.

mod check;
mod client;
mod graph;
mod history;
mod schedule;
mod statements;

use crate::common::Durably as _;
use crate::common::{on, scheme_of, seeds};
use check::check;
use client::{Client, World};
use history::{Effect, Outcome, Place, Predicate, Transaction};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reprise::disk::{CrashingDisk, Disk};
use reprise::{Config, Content, Database, Scheme, Sequencing, Session, Value};
use schedule::{Schedule, run_on_thread};
use statements::{FILLING, ROWS, SCHEMA, WIDTH};
use std::sync::Arc;

const FOLDER: &str = "/db";
/// Histories of one database, each on what is left of the ones before.
const ROUNDS: i64 = 3;

/// How the clients of a history run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Running {
    /// One after the other, as the seed says.
    InTurn,
    OnThreads,
}

/// A database, and what was found in it.
struct Run {
    seed: u64,
    random: SmallRng,
    sequencing: Sequencing,
    content: Content,
    concurrency: Scheme,
    devices: usize,
    running: Running,
    transactions: usize,
}

impl Run {
    fn new(sequencing: Sequencing, running: Running, seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let concurrency = scheme_of(seed);
        let fits = |content: &Content| {
            let has_batches = concurrency.runs_batches() || !content.needs_batches();
            has_batches && sequencing.admits(*content, content.images()).is_ok()
        };
        let contents: Vec<_> = Content::NAMES.iter().map(|(_, content)| *content).filter(fits).collect();
        let contents: Vec<_> = contents.into_iter().filter(|content| *content != Content::Off).collect();
        let content = contents[random.random_range(0..contents.len())];
        let devices = if sequencing == Sequencing::Serial { 1 } else { random.random_range(1..=3) };
        Self { seed, random, sequencing, content, concurrency, devices, running, transactions: 0 }
    }

    fn config(&self, disk: &CrashingDisk) -> Config {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let mut config = on(disk);
        (config.sequencing, config.content) = (self.sequencing, self.content);
        config.concurrency = self.concurrency;
        config.log_devices = Some((0..self.devices).map(|device| format!("log{device}").into()).collect());
        config.workers = 16;
        config
    }

    fn open(&self, disk: &CrashingDisk) -> Database {
        let context = self.context(0);
        Database::open(FOLDER, self.config(disk)).unwrap_or_else(|error| panic!("{context}: {error}"))
    }

    fn context(&self, round: i64) -> String {
        let Self { seed, sequencing, content, concurrency, devices, running, .. } = self;
        let kind = format!("{sequencing}, {content}, {concurrency}");
        format!("seed {seed}, round {round}, {kind}, {devices} devices, {running:?}")
    }

    fn run(&mut self) {
        let mut disk = CrashingDisk::default();
        {
            let mut session = self.open(&disk).session().unwrap();
            session.execute_script(SCHEMA).unwrap();
            if self.random.random_range(0..4) == 0 {
                for first in (0..FILLING).step_by(1_000) {
                    let rows = format!("SELECT {first} + n FROM generate_series(1, 1000) AS g (n)");
                    session.execute_script(&format!("INSERT INTO filling {rows}")).unwrap();
                }
            }
        }
        let mut left: Vec<Transaction> = Vec::new();
        for round in 0..ROUNDS {
            let mut history = self.history(&disk, round);
            self.transactions += history.len();
            disk = disk.after_crash(self.seed * 31 + round as u64);
            let db = self.open(&disk);
            let mut session = db.session().unwrap();
            history.push(read_all(&mut session, round * WIDTH));
            if let Err(error) = check(&history) {
                panic!("{}: {error}", self.context(round));
            }
            let earlier: Vec<Transaction> =
                (0..round).map(|own| read_all(&mut session, own * WIDTH)).collect();
            for (before, after) in left.iter().zip(&earlier) {
                let seen = |own: &Transaction| own.statements[0].seen.clone();
                assert_eq!(
                    seen(before),
                    seen(after),
                    "{}: an earlier history has changed",
                    self.context(round)
                );
            }
            left = earlier;
            left.extend(history.pop());
        }
    }

    /// Runs a history, and cuts the power at its end or before.
    fn history(&mut self, disk: &CrashingDisk, round: i64) -> Vec<Transaction> {
        let db = self.open(disk);
        let world = Arc::new(World::new(round * WIDTH));
        begin(&world, &mut db.session().unwrap());
        let clients = self.random.random_range(2..6);
        let client = |number: usize| {
            let random = SmallRng::seed_from_u64(self.random.random());
            Client::new(&db, &world, format!("client {number}"), random).unwrap()
        };
        let mut clients: Vec<Client> = (0..clients).map(client).collect();
        let transactions = self.random.random_range(40..160);
        if self.random.random_range(0..2) == 0 {
            disk.crash_after(disk.calls() + self.random.random_range(1..200));
        }
        match self.running {
            Running::InTurn => {
                let random = SmallRng::seed_from_u64(self.random.random());
                clients = Schedule::new(clients, random).run(&db, transactions);
            }
            Running::OnThreads => std::thread::scope(|scope| {
                for client in &mut clients {
                    scope.spawn(|| run_on_thread(client, transactions));
                }
            }),
        }
        let mut commits = Vec::new();
        for client in &mut clients {
            client.gives_up();
            client.session.rollback();
            client.end(Outcome::Aborted, None);
            commits.append(&mut client.commits);
        }
        if db.check_log().is_ok() && self.random.random_range(0..2) == 0 {
            let last = commits.iter().map(|(_, commit)| *commit);
            last.for_each(|commit| drop(db.wait(commit)));
        }
        let mut history = std::mem::take(&mut *world.history.lock().unwrap());
        for (place, commit) in commits {
            history[place].is_acknowledged = db.is_durable(commit);
        }
        let end = world.now();
        for transaction in history.iter_mut().filter(|own| own.outcome != Outcome::Aborted) {
            if !transaction.is_acknowledged {
                // A client that only reads and is not told so knows nothing; what it writes may be there or
                // not.
                transaction.outcome = if transaction.writes() { Outcome::Unknown } else { Outcome::Aborted };
            }
            if transaction.outcome == Outcome::Unknown {
                transaction.ended = transaction.ended.min(end);
            }
        }
        history
    }
}

/// The rows that a history begins with.
fn begin(world: &World, session: &mut Session) {
    let mut transaction = Transaction::new("the first".into(), world.now());
    for id in 0..ROWS {
        let (token, at) =
            (world.token(), Place { id: world.base + id, grp: world.base + id % 3, code: None });
        let text = format!("INSERT INTO t VALUES ({}, {}, NULL, '{token}')", at.id, at.grp);
        session.execute_script(&text).unwrap();
        let asked = statements::Asked::inserting(token, at);
        transaction.statements.push(asked.answered(Vec::new(), 1, vec![token]));
    }
    (transaction.ended, transaction.outcome) = (world.now(), Outcome::Committed);
    transaction.is_acknowledged = true;
    world.history.lock().unwrap().push(transaction);
}

/// Runs the last transaction of a history, which reads all of its rows.
fn read_all(session: &mut Session, base: i64) -> Transaction {
    let last = base + WIDTH - 1;
    let text = format!("SELECT id, grp, code, list FROM t WHERE id BETWEEN {base} AND {last}");
    let rows = session.query(&text).unwrap().rows;
    let int = |value: &Value| match value {
        Value::Int(value) => Some(*value),
        _ => None,
    };
    let seen = rows.iter().map(|row| history::Seen {
        at: Place { id: int(&row[0]).unwrap(), grp: int(&row[1]).unwrap(), code: int(&row[2]) },
        list: row[3].to_string().split(',').map(|token| token.parse().unwrap()).collect(),
    });
    let statement = history::Statement {
        token: u32::MAX,
        predicate: Some(Predicate::IdsBetween(base, last)),
        effect: Effect::Read,
        seen: Some(seen.collect()),
        affected: 0,
        is_undone: false,
        live: Vec::new(),
    };
    let (begun, ended) = (u64::MAX - 1, u64::MAX);
    let (outcome, is_acknowledged) = (Outcome::Committed, true);
    Transaction {
        name: "the last".into(),
        begun,
        ended,
        outcome,
        is_acknowledged,
        statements: vec![statement],
    }
}

/// Runs a database for each seed.
fn run(sequencing: Sequencing, running: Running, usual: u64) {
    let seeds = seeds(usual);
    let mut transactions = 0;
    for seed in seeds.clone() {
        let mut run = Run::new(sequencing, running, seed);
        // A test that passes says nothing of it.
        println!("{}", run.context(0));
        run.run();
        transactions += run.transactions;
    }
    eprintln!(
        "{sequencing}, {running:?}: {transactions} transactions of {} databases",
        seeds.end - seeds.start
    );
}

#[test]
fn epoch() {
    run(Sequencing::Epoch, Running::InTurn, 12);
}

#[test]
fn serial() {
    run(Sequencing::Serial, Running::InTurn, 12);
}

#[test]
fn ssn() {
    run(Sequencing::Ssn, Running::InTurn, 12);
}

#[test]
fn gsn() {
    run(Sequencing::Gsn, Running::InTurn, 12);
}

#[test]
fn epoch_on_threads() {
    run(Sequencing::Epoch, Running::OnThreads, 6);
}

#[test]
fn serial_on_threads() {
    run(Sequencing::Serial, Running::OnThreads, 6);
}

#[test]
fn ssn_on_threads() {
    run(Sequencing::Ssn, Running::OnThreads, 6);
}

#[test]
fn gsn_on_threads() {
    run(Sequencing::Gsn, Running::OnThreads, 6);
}
