//! A process is killed with SIGKILL at a random moment of its recovery, again and again; the recovery that is
//! left alone in the end comes to the state that the first one would have come to.
//!
//! The killed process is this test program itself, started again with a folder in its environment.
//! `REPRISE_KILL_CYCLES` sets how many kills there are.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reprise::{Config, Database, params};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const FOLDER: &str = "REPRISE_RECOVERING_FOLDER";
const CHECKPOINT: &str = "REPRISE_RECOVERING_CHECKPOINT";
const CYCLES: &str = "REPRISE_KILL_CYCLES";
/// One kill in this many begins with the folder as the first crash left it.
const KILLS_A_FOLDER: u32 = 20;
const TRANSACTIONS: i32 = 60_000;

const SCHEMA: &str = "
CREATE TABLE account (id INT PRIMARY KEY, balance BIGINT NOT NULL, note TEXT);
CREATE TABLE entry (id INT, n INT, amount INT NOT NULL, PRIMARY KEY (id, n));
CREATE PROCEDURE pay(p_from INT, p_to INT, p_amounts INT[]) LANGUAGE plpgsql AS $$
DECLARE
    v_last INT;
BEGIN
    FOR i IN 1..array_length(p_amounts, 1) LOOP
        SELECT max(n) INTO v_last FROM entry WHERE id = p_from;
        INSERT INTO entry VALUES (p_from, coalesce(v_last, 0) + 1, p_amounts[i]);
        UPDATE account SET balance = balance - p_amounts[i] WHERE id = p_from;
        UPDATE account SET balance = balance + p_amounts[i], note = left('from ' || p_from, 20)
            WHERE id = p_to;
    END LOOP;
    DELETE FROM entry WHERE id = p_from AND n < coalesce(v_last, 0) - 20;
END $$;
";

fn config() -> Config {
    let mut config = crate::common::small();
    config.log_file_bytes = 256 << 10;
    config
}

fn fill(folder: &Path) {
    let db = Database::open(folder, config()).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(SCHEMA).unwrap();
    for id in 0..100 {
        session.execute_script(&format!("INSERT INTO account VALUES ({id}, 1000, NULL)")).unwrap();
    }
    let mut random = SmallRng::seed_from_u64(7);
    let mut last = None;
    for n in 0..TRANSACTIONS {
        if n == TRANSACTIONS / 4 {
            db.checkpoint().unwrap();
        }
        if n == TRANSACTIONS / 2 {
            session.execute_script("CREATE INDEX account_balance ON account (balance)").unwrap();
        }
        session.log_by_value(random.random_range(0..5) == 0);
        let (from, to) = (random.random_range(0..100), random.random_range(0..100));
        let amounts: Vec<i32> = (0..random.random_range(1..4)).collect();
        last = Some(session.call("pay", params![from, to, amounts]).unwrap());
    }
    last.unwrap().commit.wait().unwrap();
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A process that recovers a folder, and takes a checkpoint then or not.
fn recovering(folder: &Path, checkpoint: bool) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "recovery_survives_kill::recovering_process", "--nocapture"])
        .env(FOLDER, folder)
        .env(CHECKPOINT, if checkpoint { "1" } else { "0" })
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn an_interrupted_recovery_begins_again() {
    let cycles: u32 = std::env::var(CYCLES).ok().and_then(|cycles| cycles.parse().ok()).unwrap_or(20);
    let folder = tempfile::tempdir().unwrap();
    let original = folder.path().join("original");
    fill(&original);
    let expected = crate::common::recovered_digest(&original);
    let whole = folder.path().join("whole");
    copy(&original, &whole);
    let begun = Instant::now();
    assert!(recovering(&whole, false).wait().unwrap().success());
    let longest = begun.elapsed();
    let mut random = SmallRng::seed_from_u64(11);
    let mut finished = 0;
    for cycle in 0..cycles {
        let killed = folder.path().join("killed");
        if cycle % KILLS_A_FOLDER == 0 {
            let _ = std::fs::remove_dir_all(&killed);
            copy(&original, &killed);
        }
        let is_last = cycle % KILLS_A_FOLDER == KILLS_A_FOLDER - 1 || cycle == cycles - 1;
        let mut process = recovering(&killed, is_last);
        std::thread::sleep(longest.mul_f64(random.random::<f64>()));
        finished += u32::from(process.try_wait().unwrap().is_some());
        process.kill().unwrap();
        process.wait().unwrap();
        if is_last {
            assert_eq!(crate::common::recovered_digest(&killed), expected, "after kill {cycle}");
            let db = Database::open(&killed, config()).unwrap();
            assert_eq!(db.digest().unwrap(), expected, "opened after kill {cycle}");
        }
    }
    eprintln!("{cycles} kills during recovery, {finished} of them after its end");
    assert!(finished < cycles, "some kills met a recovery under way");
}

#[test]
fn recovering_process() {
    if let Ok(folder) = std::env::var(FOLDER) {
        let db = Database::open(folder, config()).unwrap();
        if std::env::var(CHECKPOINT).as_deref() == Ok("1") {
            db.checkpoint().unwrap();
        }
    }
}
