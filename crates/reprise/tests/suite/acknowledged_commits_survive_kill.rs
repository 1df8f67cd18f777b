//! A process is killed with SIGKILL at a random moment, again and again; after each kill every acknowledged
//! transaction is there, whole, and the database goes on. Where rows are recovered on demand, three kills in
//! a row meet a database that works while it recovers from the one before.
//!
//! The killed process is this test program itself, started again with a folder in its environment.
//! `REPRISE_KILL_CYCLES` sets how many kills there are.

use crate::common::Durably as _;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reprise::{
    CommitQueue, Config, Content, Database, Digest, Method, ReplayMode, Scheme, Sequencing, Session, Value,
    params,
};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const FOLDER: &str = "REPRISE_KILLED_FOLDER";
const TRIAL: &str = "REPRISE_KILLED_TRIAL";
const CYCLES: &str = "REPRISE_KILL_CYCLES";
const THREADS: i32 = 3;
/// The counters of a thread.
const KEYS: i32 = 30;
/// The calls of a thread that are under way at the same time, where calls run in batches.
const UNDER_WAY: usize = 8;

const SCHEMA: &str = "
CREATE TABLE left_side (thread INT, k INT, n BIGINT NOT NULL, PRIMARY KEY (thread, k));
CREATE TABLE right_side (k INT, thread INT, n BIGINT NOT NULL, note TEXT NOT NULL, PRIMARY KEY (k, thread));
CREATE INDEX right_notes ON right_side (note);
CREATE TABLE window_rows (thread INT, k INT, n BIGINT, PRIMARY KEY (thread, k, n));
CREATE PROCEDURE step(p_thread INT, p_k INT, OUT o_n BIGINT) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE left_side SET n = n + 1 WHERE thread = p_thread AND k = p_k RETURNING n INTO o_n;
    UPDATE right_side SET n = o_n, note = repeat('x', (o_n % 200)::int) WHERE thread = p_thread AND k = p_k;
    INSERT INTO window_rows VALUES (p_thread, p_k, o_n);
    DELETE FROM window_rows WHERE thread = p_thread AND k = p_k AND n <= o_n - 50;
END $$;
CREATE PROCEDURE look(p_thread INT, p_k INT, OUT l BIGINT, OUT r BIGINT, OUT size INT, OUT rows BIGINT,
    OUT newest BIGINT)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT n INTO l FROM left_side WHERE thread = p_thread AND k = p_k;
    SELECT n, length(note) INTO r, size FROM right_side WHERE thread = p_thread AND k = p_k;
    SELECT count(*), max(n) INTO rows, newest FROM window_rows WHERE thread = p_thread AND k = p_k;
END $$;
";

/// What is killed.
#[derive(Clone, Copy, Debug)]
struct Trial {
    devices: usize,
    content: Content,
    sequencing: Sequencing,
    on_demand: bool,
}

impl Trial {
    /// Parses what `Display` writes.
    fn parse(text: &str) -> Self {
        let words: Vec<&str> = text.split(' ').collect();
        let [devices, content, sequencing, on_demand] = words[..] else { panic!("{text}") };
        Self {
            devices: devices.parse().unwrap(),
            content: content.parse().unwrap(),
            sequencing: sequencing.parse().unwrap(),
            on_demand: on_demand.parse().unwrap(),
        }
    }

    fn config(self) -> Config {
        let Self { devices, content, sequencing, on_demand } = self;
        let mut config = crate::common::small();
        (config.content, config.sequencing) = (content, sequencing);
        if content.needs_batches() {
            config.concurrency = Scheme::DependencyGraph;
        }
        config.log_devices = Some((0..devices).map(|device| PathBuf::from(format!("log{device}"))).collect());
        config.on_demand = on_demand;
        if on_demand {
            // Without threads that drain, each kill meets rows that are not recovered.
            config.drain_threads = (std::process::id() % 2) as usize;
        } else {
            config.checkpoint_every = Some(Duration::from_millis(60));
        }
        config
    }

    /// The digest of what a closed recovery comes to.
    fn digest(self, folder: &Path) -> Digest {
        if !self.on_demand {
            return crate::common::recovered_digest_of(self.content, folder);
        }
        let method = Method::of(self.content)[0];
        crate::common::digest_by(&self.config().disk, folder, method, ReplayMode::default(), 1)
    }

    /// Kills in a row, before what is there is looked at.
    fn depth(self) -> u32 {
        if self.on_demand { 3 } else { 1 }
    }
}

impl std::fmt::Display for Trial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { devices, content, sequencing, on_demand } = self;
        write!(f, "{devices} {content} {sequencing} {on_demand}")
    }
}

/// The process that is killed: every thread steps on, and says how far it is once that is durable.
fn child(folder: &Path, trial: Trial) {
    let db = Database::open(folder, trial.config()).unwrap();
    let under_way = if trial.content.needs_batches() { UNDER_WAY } else { 1 };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let db = &db;
            scope.spawn(move || {
                let mut session = db.session().unwrap();
                let mut random = SmallRng::seed_from_u64(u64::from(std::process::id()));
                let mut pending: CommitQueue<(i32, Value)> = CommitQueue::default();
                let mut started = VecDeque::new();
                loop {
                    while started.len() < under_way {
                        let key = random.random_range(0..KEYS);
                        started.push_back((key, session.begin_call("step", params![thread, key]).unwrap()));
                    }
                    let (key, first) = started.pop_front().expect("a call is under way");
                    let done = session.end_call(first).unwrap();
                    pending.push(done.commit.point(), (key, done.rows[0][0].clone()));
                    if let (true, Some(first)) = (pending.len() > 500, pending.first()) {
                        db.wait(first).unwrap();
                    }
                    while let Some((key, n)) = pending.pop_durable(|commit| db.is_durable(commit)) {
                        let line = format!("ack {thread} {key} {n};\n");
                        if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
                            std::process::exit(1);
                        }
                    }
                }
            });
        }
    });
}

/// What is acknowledged: the greatest number of each thread and key.
type Acknowledged = [[i64; KEYS as usize]; THREADS as usize];

/// Starts the process, and kills it after `wait`.
fn kill(folder: &Path, trial: Trial, wait: Duration, acknowledged: &mut Acknowledged) {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "acknowledged_commits_survive_kill::killed_process", "--nocapture"])
        .env(FOLDER, folder)
        .env(TRIAL, trial.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap());
    let killer = std::thread::spawn(move || {
        std::thread::sleep(wait);
        process.kill().unwrap();
        process.wait().unwrap();
    });
    for line in lines.lines().map_while(Result::ok) {
        // The kill may cut a line short.
        let Some(line) = line.strip_suffix(';') else { continue };
        let words: Vec<&str> = line.split(' ').collect();
        if let ["ack", thread, key, n] = words[..] {
            let known = &mut acknowledged[thread.parse::<usize>().unwrap()][key.parse::<usize>().unwrap()];
            *known = (*known).max(n.parse().unwrap());
        }
    }
    killer.join().unwrap();
}

/// Looks whether what was acknowledged is there, and each transaction whole.
fn check(session: &mut Session, acknowledged: &Acknowledged, random: &mut SmallRng, context: &str) {
    let first = random.random_range(0..THREADS * KEYS);
    for place in (0..THREADS * KEYS).map(|place| (first + place * 7) % (THREADS * KEYS)) {
        let (thread, key) = (place / KEYS, place % KEYS);
        let row = session.call_durably("look", params![thread, key]).unwrap();
        let Value::Int(n) = row[0] else { panic!("{context}: no row") };
        let known = acknowledged[thread as usize][key as usize];
        assert!(n >= known, "{context}, {thread}, {key}: {known} was acknowledged, {n} is there");
        let newest = if n == 0 { Value::Null } else { Value::Int(n) };
        let whole = [Value::Int(n), Value::Int(n), Value::Int(n % 200), Value::Int(n.min(50)), newest];
        assert_eq!(row.into_values(), whole, "{context}, {thread}, {key}: a transaction is there in part");
    }
}

fn kill_cycles(trial: Trial, cycles: u32) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    {
        let db = Database::open(folder, trial.config()).unwrap();
        let mut session = db.session().unwrap();
        session.execute_script(SCHEMA).unwrap();
        for (thread, key) in (0..THREADS).flat_map(|thread| (0..KEYS).map(move |key| (thread, key))) {
            let rows = format!(
                "INSERT INTO left_side VALUES ({thread}, {key}, 0);
                INSERT INTO right_side VALUES ({key}, {thread}, 0, '');"
            );
            session.execute_script(&rows).unwrap();
        }
    }
    let mut random = SmallRng::seed_from_u64(trial.devices as u64);
    let mut acknowledged = Acknowledged::default();
    let lacks_some =
        |acknowledged: &Acknowledged| acknowledged.iter().any(|keys| keys.iter().sum::<i64>() == 0);
    let mut cycle = 0;
    while cycle < cycles || cycle < 10 * cycles && lacks_some(&acknowledged) {
        let context = format!("{trial}, cycle {cycle}");
        for _ in 0..trial.depth() {
            // A busy machine may need more than one round of cycles to acknowledge anything.
            let patience = cycle / cycles + 1;
            let wait = Duration::from_millis(random.random_range(30..250)) * patience;
            kill(folder, trial, wait, &mut acknowledged);
        }
        let before = trial.digest(folder);
        let db = Database::open(folder, trial.config()).unwrap();
        check(&mut db.session().unwrap(), &acknowledged, &mut random, &context);
        assert_eq!(db.digest().unwrap(), before, "{context}: recovering twice gives one state");
        if trial.on_demand && cycle % 2 == 0 {
            db.checkpoint().unwrap();
        }
        cycle += 1;
    }
    let sums = acknowledged.map(|keys| keys.iter().sum::<i64>());
    assert!(sums.iter().all(|n| *n > 0), "{trial}: every thread got acknowledgements: {sums:?}");
    let kills = cycle * trial.depth();
    eprintln!("{kills} kills, {trial}: {} transactions acknowledged", sums.iter().sum::<i64>());
}

#[test]
fn killed_process() {
    if let Ok(folder) = std::env::var(FOLDER) {
        child(Path::new(&folder), Trial::parse(&std::env::var(TRIAL).unwrap()));
    }
}

/// Returns how often, as `REPRISE_KILL_CYCLES` says; `None` in a process that is killed.
fn cycles(usual: u32) -> Option<u32> {
    let cycles = std::env::var(CYCLES).ok().map_or(usual, |cycles| cycles.parse().unwrap());
    std::env::var(FOLDER).is_err().then_some(cycles)
}

#[test]
fn nothing_acknowledged_is_missing() {
    let Some(cycles) = cycles(12) else { return };
    let sequencing = Sequencing::Epoch;
    for (devices, content) in [
        (1, Content::Command),
        (2, Content::Command),
        (2, Content::DependencyCoarse),
        (2, Content::DependencyFine),
    ] {
        kill_cycles(Trial { devices, content, sequencing, on_demand: false }, cycles);
    }
}

#[test]
fn nothing_acknowledged_while_rows_are_recovered_is_missing() {
    let Some(cycles) = cycles(1) else { return };
    for content in Content::NAMES.map(|(_, content)| content) {
        for sequencing in Sequencing::NAMES.map(|(_, sequencing)| sequencing) {
            if content != Content::Off && sequencing.admits(content, content.images()).is_ok() {
                let devices = if sequencing.admits_devices(2).is_ok() { 2 } else { 1 };
                kill_cycles(Trial { devices, content, sequencing, on_demand: true }, cycles);
            }
        }
    }
}
