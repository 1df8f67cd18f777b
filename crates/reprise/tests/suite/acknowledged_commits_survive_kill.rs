//! A process is killed with SIGKILL at a random moment, again and again; after each kill every acknowledged
//! transaction is there, whole, and the database goes on.
//!
//! The killed process is this test program itself, started again with a folder in its environment.
//! `REPRISE_KILL_CYCLES` sets how many kills there are.

use crate::common::Durably as _;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reprise::{CommitQueue, Config, Content, Database, Scheme, Value, params};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const FOLDER: &str = "REPRISE_KILLED_FOLDER";
const CYCLES: &str = "REPRISE_KILL_CYCLES";
const LOG: &str = "REPRISE_KILLED_LOG";
const DEVICES: &str = "REPRISE_KILLED_DEVICES";
const THREADS: i32 = 3;
/// The calls of a thread that are under way at the same time, where calls run in batches.
const UNDER_WAY: usize = 8;

const SCHEMA: &str = "
CREATE TABLE left_side (thread INT PRIMARY KEY, n BIGINT NOT NULL);
CREATE TABLE right_side (thread INT PRIMARY KEY, n BIGINT NOT NULL, note TEXT NOT NULL);
CREATE TABLE window_rows (thread INT, n BIGINT, PRIMARY KEY (thread, n));
CREATE PROCEDURE step(p_thread INT, OUT o_n BIGINT) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE left_side SET n = n + 1 WHERE thread = p_thread RETURNING n INTO o_n;
    UPDATE right_side SET n = o_n, note = repeat('x', (o_n % 200)::int) WHERE thread = p_thread;
    INSERT INTO window_rows VALUES (p_thread, o_n);
    DELETE FROM window_rows WHERE thread = p_thread AND n <= o_n - 50;
END $$;
CREATE PROCEDURE look(p_thread INT, OUT l BIGINT, OUT r BIGINT, OUT size INT, OUT rows BIGINT,
    OUT newest BIGINT)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT n INTO l FROM left_side WHERE thread = p_thread;
    SELECT n, length(note) INTO r, size FROM right_side WHERE thread = p_thread;
    SELECT count(*), max(n) INTO rows, newest FROM window_rows WHERE thread = p_thread;
END $$;
";

fn config(devices: usize, content: Content) -> Config {
    let mut config = crate::common::small();
    config.content = content;
    if content.needs_batches() {
        config.concurrency = Scheme::DependencyGraph;
    }
    config.log_devices = Some((0..devices).map(|device| PathBuf::from(format!("log{device}"))).collect());
    config.checkpoint_every = Some(Duration::from_millis(60));
    config
}

/// The process that is killed: every thread steps on, and says how far it is once that is durable.
fn child(folder: &Path, devices: usize, content: Content) {
    let db = Database::open(folder, config(devices, content)).unwrap();
    let under_way = if content.needs_batches() { UNDER_WAY } else { 1 };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let db = &db;
            scope.spawn(move || {
                let mut session = db.session().unwrap();
                let mut pending: CommitQueue<Value> = CommitQueue::default();
                let mut started = VecDeque::new();
                loop {
                    while started.len() < under_way {
                        started.push_back(session.begin_call("step", params![thread]).unwrap());
                    }
                    let first = started.pop_front().expect("a call is under way");
                    let done = session.end_call(first).unwrap();
                    pending.push(done.commit.point(), done.rows[0][0].clone());
                    if let (true, Some(first)) = (pending.len() > 500, pending.first()) {
                        db.wait(first).unwrap();
                    }
                    let mut last = None;
                    while let Some(n) = pending.pop_durable(|commit| db.is_durable(commit)) {
                        last = Some(n);
                    }
                    if let Some(n) = last {
                        let line = format!("ack {thread} {n}\n");
                        if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
                            std::process::exit(1);
                        }
                    }
                }
            });
        }
    });
}

fn kill_cycles(devices: usize, content: Content, cycles: u32) {
    let folder = tempfile::tempdir().unwrap();
    {
        let db = Database::open(folder.path(), config(devices, content)).unwrap();
        let mut session = db.session().unwrap();
        session.execute_script(SCHEMA).unwrap();
        for thread in 0..THREADS {
            let rows = format!(
                "INSERT INTO left_side VALUES ({thread}, 0); INSERT INTO right_side VALUES ({thread}, 0, '');"
            );
            session.execute_script(&rows).unwrap();
        }
    }
    let mut random = SmallRng::seed_from_u64(devices as u64);
    let mut acknowledged = [0i64; THREADS as usize];
    for cycle in 0..cycles {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "acknowledged_commits_survive_kill::killed_process", "--nocapture"])
            .env(FOLDER, folder.path())
            .env(DEVICES, devices.to_string())
            .env(LOG, content.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        let wait = Duration::from_millis(random.random_range(30..250));
        let killer = std::thread::spawn(move || {
            std::thread::sleep(wait);
            process.kill().unwrap();
            process.wait().unwrap();
        });
        for line in lines.lines().map_while(Result::ok) {
            let words: Vec<&str> = line.split(' ').collect();
            if let ["ack", thread, n] = words[..] {
                let (Ok(thread), Ok(n)) = (thread.parse::<usize>(), n.parse()) else { continue };
                // A line that the kill cut short is a smaller number, so it claims nothing that is not so.
                acknowledged[thread] = acknowledged[thread].max(n);
            }
        }
        killer.join().unwrap();
        let before = crate::common::recovered_digest_of(content, folder.path());
        let db = Database::open(folder.path(), config(devices, content)).unwrap();
        assert_eq!(db.digest().unwrap(), before, "cycle {cycle}: recovering twice gives one state");
        let mut session = db.session().unwrap();
        for thread in 0..THREADS {
            let row = session.call_durably("look", params![thread]).unwrap();
            let Value::Int(n) = row[0] else { panic!("cycle {cycle}: no row") };
            let known = acknowledged[thread as usize];
            assert!(n >= known, "cycle {cycle}, thread {thread}: {known} was acknowledged, {n} is there");
            assert_eq!(row[1], Value::Int(n), "cycle {cycle}: a transaction is there in part");
            assert_eq!(row[2], Value::Int(n % 200), "cycle {cycle}: a transaction is there in part");
            assert_eq!(row[3], Value::Int(n.min(50)), "cycle {cycle}: a transaction is there in part");
            assert!(n == 0 || row[4] == Value::Int(n), "cycle {cycle}: a transaction is there in part");
        }
    }
    assert!(acknowledged.iter().all(|n| *n > 0), "every thread got acknowledgements: {acknowledged:?}");
    eprintln!(
        "{cycles} kills with {devices} devices, {content} log: {} transactions acknowledged",
        acknowledged.iter().sum::<i64>()
    );
}

#[test]
fn killed_process() {
    if let Ok(folder) = std::env::var(FOLDER) {
        let [devices, content] = [DEVICES, LOG].map(|name| std::env::var(name).unwrap());
        child(Path::new(&folder), devices.parse().unwrap(), content.parse().unwrap());
    }
}

#[test]
fn nothing_acknowledged_is_missing() {
    if std::env::var(FOLDER).is_ok() {
        return;
    }
    let cycles = std::env::var(CYCLES).ok().map_or(12, |cycles| cycles.parse().unwrap());
    kill_cycles(1, Content::Command, cycles);
    kill_cycles(2, Content::Command, cycles);
    kill_cycles(2, Content::DependencyCoarse, cycles);
    kill_cycles(2, Content::DependencyFine, cycles);
}
