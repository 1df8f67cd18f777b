//! The commit order is a serial order: what several threads did, one thread does again in commit order, with
//! the same digest. The procedures are made so that a lost update, a write skew, a phantom or a stale index
//! entry changes it.

use crate::common::Durably as _;
use crate::common::{open, recovered_digest_of, small};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reprise::{Content, Database, Error, Scheme, Sequencing, Value, params};

const SCHEMA: &str = "
CREATE TABLE items (id INT PRIMARY KEY, owner INT NOT NULL, rank INT NOT NULL, note TEXT);
CREATE INDEX items_by_owner ON items (owner, rank);
CREATE TABLE owners (id INT PRIMARY KEY, items INT NOT NULL, best INT, log TEXT NOT NULL);
CREATE TABLE tickets (id INT PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE notes (id BIGINT PRIMARY KEY, owner INT NOT NULL, items BIGINT NOT NULL);
CREATE TABLE counters (id INT PRIMARY KEY, value BIGINT NOT NULL);

-- Reads a range and writes what it found: a phantom changes the count.
CREATE PROCEDURE add_item(p_id INT, p_owner INT, p_rank INT) LANGUAGE plpgsql AS $$
DECLARE n INT;
BEGIN
    SELECT count(*) INTO n FROM items WHERE owner = p_owner;
    INSERT INTO items VALUES (p_id, p_owner, p_rank, 'made as number ' || n);
    UPDATE owners SET items = n + 1 WHERE id = p_owner;
END $$;

CREATE PROCEDURE drop_item(p_id INT) LANGUAGE plpgsql AS $$
DECLARE o INT; n INT;
BEGIN
    DELETE FROM items WHERE id = p_id RETURNING owner INTO o;
    IF NOT FOUND THEN RETURN; END IF;
    SELECT count(*) INTO n FROM items WHERE owner = o;
    UPDATE owners SET items = n WHERE id = o;
END $$;

-- Only reads rows that other procedures insert and delete: its result depends on the serial order alone.
CREATE PROCEDURE note_items(p_note BIGINT, p_owner INT) LANGUAGE plpgsql AS $$
DECLARE n BIGINT;
BEGIN
    SELECT count(*) INTO n FROM items WHERE owner = p_owner;
    INSERT INTO notes VALUES (p_note, p_owner, n);
END $$;

-- Changes indexed columns, and reads the index backward.
CREATE PROCEDURE give_item(p_id INT, p_owner INT, p_rank INT) LANGUAGE plpgsql AS $$
DECLARE b INT; t TEXT;
BEGIN
    UPDATE items SET owner = p_owner, rank = p_rank WHERE id = p_id;
    SELECT id, note INTO b, t FROM items WHERE owner = p_owner ORDER BY rank DESC LIMIT 1;
    UPDATE owners SET best = b, log = left(coalesce(t, '-') || '/' || log, p_rank * 3) WHERE id = p_owner;
END $$;

-- Write skew: each reads what the other writes.
CREATE PROCEDURE balance_counters(p_a INT, p_b INT) LANGUAGE plpgsql AS $$
DECLARE a BIGINT; b BIGINT;
BEGIN
    SELECT value INTO a FROM counters WHERE id = p_a;
    SELECT value INTO b FROM counters WHERE id = p_b;
    UPDATE counters SET value = (a * 3 + b * 7 + 1) % 1000003 WHERE id = p_b;
END $$;

-- A unique column whose values come and go.
CREATE PROCEDURE take_name(p_id INT, p_name TEXT) LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM tickets WHERE id = p_id;
    INSERT INTO tickets VALUES (p_id, p_name);
END $$;

-- Raises after it has written.
CREATE PROCEDURE add_many(p_first INT, p_count INT) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 0..p_count - 1 LOOP
        INSERT INTO items VALUES (p_first + i, i % 5, i, NULL);
        IF i = 7 THEN RAISE EXCEPTION 'too many'; END IF;
    END LOOP;
END $$;
";

fn request(random: &mut SmallRng) -> (&'static str, Vec<Value>) {
    let mut int = |range: std::ops::Range<i32>| Value::Int(random.random_range(range).into());
    let (id, owner, rank) = (int(0..60), int(0..5), int(0..30));
    match random.random_range(0..15) {
        12.. => ("note_items", vec![Value::Int(random.random_range(0..i64::MAX)), owner]),
        0..3 => ("add_item", vec![id, owner, rank]),
        3..5 => ("drop_item", vec![id]),
        5..8 => ("give_item", vec![id, owner, rank]),
        8..10 => ("balance_counters", vec![owner, Value::Int(random.random_range(0..5))]),
        10 => ("take_name", vec![owner, Value::Text(format!("name {}", random.random_range(0..8)))]),
        _ => ("add_many", vec![id, Value::Int(random.random_range(1..12))]),
    }
}

/// A log, and the logs beside it.
type Logged = (Sequencing, Content, &'static [Content]);

/// Where there is a command log, it is re-executed.
const LOGGED: [Logged; 9] = [
    (Sequencing::Epoch, Content::Command, &[]),
    (Sequencing::Serial, Content::Command, &[Content::Logical]),
    (Sequencing::Gsn, Content::Command, &[]),
    (Sequencing::Gsn, Content::Logical, &[Content::Command]),
    (Sequencing::Serial, Content::Physiological, &[Content::Command]),
    (Sequencing::Ssn, Content::Logical, &[]),
    (Sequencing::Ssn, Content::Physical, &[]),
    (Sequencing::Ssn, Content::Logical, &[Content::Physical]),
    (Sequencing::Epoch, Content::Logical, &[Content::Command, Content::Physical]),
];

#[test]
fn concurrent_transactions_equal_their_serial_re_execution() {
    for (place, logged) in LOGGED.into_iter().enumerate() {
        for seed in 0..3 {
            run_and_recover(logged, Scheme::Optimistic, place as u64 * 10 + seed);
        }
        run_and_recover(logged, Scheme::TwoPhase, place as u64 * 10);
        // Policies against deadlocks do not depend on the log.
        let rest = Scheme::all().filter(|scheme| *scheme != Scheme::Optimistic).nth(place % 4);
        run_and_recover(logged, rest.unwrap(), place as u64 * 10 + 1);
    }
}

fn run_and_recover((sequencing, content, shadows): Logged, concurrency: Scheme, seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let mut config = small();
    (config.sequencing, config.content, config.concurrency) = (sequencing, content, concurrency);
    config.shadow_logs = shadows.to_vec();
    let devices = if sequencing == Sequencing::Serial { 1 } else { 1 + seed as usize % 2 };
    config.log_devices = Some((0..devices).map(|device| format!("log{device}").into()).collect());
    let db = Database::open(folder.path(), config).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(SCHEMA).unwrap();
    for id in 0..5 {
        let script = format!(
            "INSERT INTO owners VALUES ({id}, 0, NULL, ''); INSERT INTO counters VALUES ({id}, {id});"
        );
        session.execute_script(&script).unwrap();
    }
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let mut session = db.session().unwrap();
            scope.spawn(move || {
                let mut random = SmallRng::seed_from_u64(seed * 100 + thread);
                for _ in 0..2_000 {
                    let (procedure, arguments) = request(&mut random);
                    match session.call(procedure, &arguments) {
                        Ok(_) => {}
                        Err(Error::Sql(error)) => {
                            let known = ["23505", "P0001"].contains(&error.sqlstate.as_str());
                            assert!(known, "{procedure}: {error:?}");
                        }
                        Err(error) => panic!("{procedure}: {error}"),
                    }
                }
            });
        }
        // A checkpoint under load must not change anything.
        for _ in 0..seed % 3 {
            db.checkpoint().unwrap();
        }
    });
    let live = db.digest().unwrap();
    drop(session);
    drop(db);
    let recovered = recovered_digest_of(content, folder.path());
    assert_eq!(recovered, live, "{concurrency} {sequencing} {content} beside {shadows:?}, seed {seed}");
}

#[test]
fn a_read_only_call_sees_one_state() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let mut session = db.session().unwrap();
    session
        .execute_script(
            "CREATE TABLE a (id INT PRIMARY KEY, v INT NOT NULL);
             INSERT INTO a VALUES (1, 50); INSERT INTO a VALUES (2, 50);
             CREATE PROCEDURE move(n INT) LANGUAGE plpgsql AS $$ BEGIN
                 UPDATE a SET v = v - n WHERE id = 1; UPDATE a SET v = v + n WHERE id = 2; END $$;
             CREATE PROCEDURE total(OUT t BIGINT) LANGUAGE plpgsql AS $$
                 BEGIN SELECT sum(v) INTO t FROM a; END $$;",
        )
        .unwrap();
    std::thread::scope(|scope| {
        let mut writer = db.session().unwrap();
        scope.spawn(move || {
            for n in 0..5_000 {
                let _ = writer.call("move", params![n % 7 - 3]).unwrap();
            }
        });
        for _ in 0..5_000 {
            let done = session.call("total", params![]).unwrap();
            assert_eq!(done.rows[0][0], Value::Int(100));
        }
    });
}

/// An attempt that sees states of different moments is found out even while it loops.
#[test]
fn a_doomed_attempt_does_not_loop_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    db.session()
        .unwrap()
        .execute_script(
            "CREATE TABLE pair (id INT PRIMARY KEY, v INT NOT NULL);
             INSERT INTO pair VALUES (1, 0), (2, 0);
             CREATE PROCEDURE move_both() LANGUAGE plpgsql AS $$ BEGIN
                 UPDATE pair SET v = v + 1 WHERE id = 1;
                 UPDATE pair SET v = v + 1 WHERE id = 2;
             END $$;
             -- Between the two reads there is time for other transactions to commit.
             CREATE PROCEDURE compare_both(OUT rounds INT) LANGUAGE plpgsql AS $$
             DECLARE a INT; b INT;
             BEGIN
                 rounds := 0;
                 SELECT v INTO a FROM pair WHERE id = 1;
                 FOR i IN 1..300 LOOP rounds := rounds + 1; END LOOP;
                 SELECT v INTO b FROM pair WHERE id = 2;
                 WHILE a <> b LOOP rounds := 0; END LOOP;
             END $$;",
        )
        .unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = db.session().unwrap();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = session.call("move_both", &[]).unwrap();
            }
        });
        let mut session = db.session().unwrap();
        let mut calls = 0;
        // Until attempts have been found out: conflicts are counted where a session publishes them.
        while calls < 2_000 || db.statistics().conflicts < 10 {
            assert_eq!(session.call_durably("compare_both", &[]).unwrap()[0], Value::Int(300));
            calls += 1;
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// What a transaction itself changes in a range that it has read is no phantom.
#[test]
fn own_changes_of_an_observed_index_are_no_conflict() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let mut session = db.session().unwrap();
    session
        .execute_script(
            "CREATE TABLE a (id INT PRIMARY KEY, v INT NOT NULL);
             CREATE INDEX a_v ON a (v);
             CREATE PROCEDURE churn(OUT n BIGINT) LANGUAGE plpgsql AS $$ BEGIN
                 SELECT count(*) INTO n FROM a WHERE v = 1;
                 INSERT INTO a VALUES (1, 1);
                 UPDATE a SET v = 2 WHERE id = 1;
                 SELECT count(*) INTO n FROM a WHERE v = 2;
             END $$;",
        )
        .unwrap();
    assert_eq!(session.call_durably("churn", &[]).unwrap()[0], Value::Int(1));
    assert_eq!(db.statistics().conflicts, 0);
}
