//! Short random histories with faults on some of the devices: crash, recover, work, crash again. Whatever the
//! sequencing, no acknowledged transaction is lost, what is there is there with everything that it had read,
//! the last writer of each row wins, and what one recovery has left out never comes back.

use crate::common::Durably as _;
use crate::common::{on, scheme_of, seeds};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reprise::disk::{CrashingDisk, Disk, FailingDisk, Fault};
use reprise::{CommitQueue, Config, Content, Database, Error, Scheme, Sequencing, Session, Value, params};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

const FOLDER: &str = "/db";
/// Rows that transactions read and write.
const ROWS: i64 = 4;

const SCHEMA: &str = "
CREATE TABLE rows (id INT PRIMARY KEY, writer INT NOT NULL);
CREATE TABLE done (id INT PRIMARY KEY, read_from INT NOT NULL, wrote INT NOT NULL, over INT NOT NULL);
CREATE TABLE places (id INT PRIMARY KEY, owner INT NOT NULL);
CREATE INDEX places_by_owner ON places (owner);
INSERT INTO places VALUES (0, 0), (1, 0), (2, 1), (3, 1);
CREATE TABLE census (id INT PRIMARY KEY, owner INT NOT NULL, places BIGINT NOT NULL);
CREATE TABLE moves (id INT PRIMARY KEY, place INT NOT NULL, owner INT NOT NULL);
CREATE TABLE coming (id INT PRIMARY KEY, writer INT NOT NULL);
INSERT INTO rows VALUES (0, 0), (1, 0), (2, 0), (3, 0);
-- Reads one row, overwrites another one, and says what it found in both.
CREATE PROCEDURE step(p_id INT, p_read INT, p_write INT) LANGUAGE plpgsql AS $$
DECLARE r INT; o INT;
BEGIN
    SELECT writer INTO r FROM rows WHERE id = p_read;
    SELECT writer INTO o FROM rows WHERE id = p_write;
    UPDATE rows SET writer = p_id WHERE id = p_write;
    INSERT INTO done VALUES (p_id, r, p_write, o);
END $$;
-- A row that comes and goes.
CREATE PROCEDURE come_or_go(p_id INT, p_row INT) LANGUAGE plpgsql AS $$
DECLARE o INT;
BEGIN
    DELETE FROM coming WHERE id = p_row RETURNING writer INTO o;
    IF NOT FOUND THEN
        INSERT INTO coming VALUES (p_row, p_id);
        o := 0;
    END IF;
    INSERT INTO done VALUES (p_id, o, -1 - p_row, o);
END $$;
-- An entry of an index goes from one place to another.
CREATE PROCEDURE move(p_id INT, p_place INT, p_owner INT) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE places SET owner = p_owner WHERE id = p_place;
    INSERT INTO moves VALUES (p_id, p_place, p_owner);
END $$;
-- Reads what is there, and what is not there any more.
CREATE PROCEDURE count_places(p_id INT, p_owner INT) LANGUAGE plpgsql AS $$
DECLARE n BIGINT;
BEGIN
    SELECT count(*) INTO n FROM places WHERE owner = p_owner;
    INSERT INTO census VALUES (p_id, p_owner, n);
END $$;
CREATE PROCEDURE move_of(p_id INT, OUT p INT, OUT o INT) LANGUAGE plpgsql AS $$
BEGIN SELECT place, owner INTO p, o FROM moves WHERE id = p_id; END $$;
CREATE PROCEDURE census_of(p_id INT, OUT o INT, OUT n BIGINT) LANGUAGE plpgsql AS $$
BEGIN SELECT owner, places INTO o, n FROM census WHERE id = p_id; END $$;
CREATE PROCEDURE what(p_id INT, OUT r INT, OUT w INT, OUT o INT) LANGUAGE plpgsql AS $$
BEGIN
    SELECT read_from, wrote, over INTO r, w, o FROM done WHERE id = p_id;
END $$;
CREATE PROCEDURE row_of(p_id INT, OUT w INT) LANGUAGE plpgsql AS $$
BEGIN SELECT writer INTO w FROM rows WHERE id = p_id; END $$;
CREATE PROCEDURE coming_of(p_id INT, OUT w INT) LANGUAGE plpgsql AS $$
BEGIN SELECT writer INTO w FROM coming WHERE id = p_id; END $$;
";

/// One history.
struct History {
    random: SmallRng,
    sequencing: Sequencing,
    content: Content,
    concurrency: Scheme,
    devices: usize,
    next_id: i64,
    acknowledged: BTreeSet<i64>,
    /// What is known to be there or not, from the last recovery.
    settled: BTreeMap<i64, bool>,
}

/// What is there.
#[derive(Debug)]
struct Found {
    read_from: i64,
    wrote: i64,
    over: i64,
}

impl History {
    fn new(sequencing: Sequencing, seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let contents = [Content::Command, Content::Logical, Content::Physical, Content::Physiological];
        let fits = |content: &Content| sequencing.admits(*content, content.images()).is_ok();
        let contents: Vec<_> = contents.into_iter().filter(fits).collect();
        let content = contents[random.random_range(0..contents.len())];
        let devices = if sequencing == Sequencing::Serial { 1 } else { random.random_range(1..=3) };
        let (acknowledged, settled) = (BTreeSet::new(), BTreeMap::new());
        let concurrency = scheme_of(seed);
        Self { random, sequencing, content, concurrency, devices, next_id: 1, acknowledged, settled }
    }

    fn config(&self, disk: Arc<dyn Disk>) -> Config {
        let mut config = on(disk);
        (config.sequencing, config.content) = (self.sequencing, self.content);
        config.concurrency = self.concurrency;
        config.log_devices = Some((0..self.devices).map(|device| format!("log{device}").into()).collect());
        config.workers = 16;
        config
    }

    /// Runs some transactions, most of them without waiting, until something fails or there are enough.
    fn work(&mut self, disk: Arc<dyn Disk>) -> Result<(), Error> {
        let db = Database::open(FOLDER, self.config(disk))?;
        let mut sessions: Vec<Session> = (0..3).map(|_| db.session()).collect::<Result<_, _>>()?;
        let mut queues: [CommitQueue<i64>; 3] = Default::default();
        for _ in 0..self.random.random_range(4..16) {
            let (place, id) = (self.random.random_range(0..3), self.next_id);
            self.next_id += 1;
            let (read, write) = (self.random.random_range(0..ROWS), self.random.random_range(0..ROWS));
            let done = match self.random.random_range(0..6) {
                4 => sessions[place].call("move", params![id, read, write % 2])?,
                5 => sessions[place].call("count_places", params![id, read % 2])?,
                0 => sessions[place].call("come_or_go", params![id, read % 2])?,
                _ => sessions[place].call("step", params![id, read, write])?,
            };
            let commit = done.commit;
            queues[place].push(commit.point(), id);
            match self.random.random_range(0..12) {
                0 => commit.wait()?,
                1 => {
                    let _ = db.checkpoint();
                }
                _ => {}
            }
            for queue in &mut queues {
                while let Some(id) = queue.pop_durable(|commit| db.is_durable(commit)) {
                    self.acknowledged.insert(id);
                }
            }
        }
        Ok(())
    }

    /// Recovers and compares.
    fn check(&mut self, disk: Arc<dyn Disk>, context: &str) {
        let config = self.config(disk);
        let db = Database::open(FOLDER, config).unwrap_or_else(|error| panic!("{context}: {error}"));
        let mut session = db.session().unwrap();
        let mut ask = |procedure: &str, id: i64| session.call_durably(procedure, params![id]).unwrap();
        let mut found = BTreeMap::new();
        for id in 1..self.next_id {
            let row = ask("what", id);
            if let [Value::Int(read_from), Value::Int(wrote), Value::Int(over)] = row.values()[..] {
                found.insert(id, Found { read_from, wrote, over });
            }
        }
        // What was counted must follow from the moves that are there.
        let mut owners = [0i64, 0, 1, 1];
        let mut moves_and_counts = BTreeSet::new();
        for id in 1..self.next_id {
            if let [Value::Int(place), Value::Int(owner)] = ask("move_of", id).values()[..] {
                owners[place as usize] = owner;
                moves_and_counts.insert(id);
            }
            if let [Value::Int(owner), Value::Int(counted)] = ask("census_of", id).values()[..] {
                let there = owners.iter().filter(|own| **own == owner).count() as i64;
                assert_eq!(counted, there, "{context}: {id} is there, and not what it had counted");
                moves_and_counts.insert(id);
            }
        }
        let is_there = |id: &i64| found.contains_key(id) || moves_and_counts.contains(id);
        for id in &self.acknowledged {
            assert!(is_there(id), "{context}: {id} was acknowledged and is lost");
        }
        for (id, own) in &found {
            let observed = [own.read_from, own.over];
            let missing = observed.into_iter().find(|from| *from != 0 && !found.contains_key(from));
            assert_eq!(missing, None, "{context}: {id} is there, and not what it had read");
        }
        for (id, was_there) in &self.settled {
            assert_eq!(is_there(id), *was_there, "{context}: {id} was there before: {was_there}");
        }
        // Transactions ran one after the other, so the last writer is the one with the greatest number.
        for row in 0..ROWS {
            let last = found.iter().rev().find(|(_, own)| own.wrote == row).map_or(0, |(id, _)| *id);
            assert_eq!(ask("row_of", row)[0], Value::Int(last), "{context}: row {row}");
        }
        for row in 0..2 {
            let writers = found.iter().filter(|(_, own)| own.wrote == -1 - row);
            // Each that is there found the one before: a row that it took away, or none.
            let mut present = 0;
            for (id, own) in writers {
                assert_eq!(own.over, present, "{context}: {id} found another state of row {row}");
                present = if own.over == 0 { *id } else { 0 };
            }
            let expected = if present == 0 { Value::Null } else { Value::Int(present) };
            assert_eq!(ask("coming_of", row)[0], expected, "{context}: coming row {row}");
        }
        self.settled = (1..self.next_id).map(|id| (id, is_there(&id))).collect();
    }
}

fn run(sequencing: Sequencing, seed: u64) {
    let mut history = History::new(sequencing, seed);
    let mut disk = CrashingDisk::default();
    {
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let db = Database::open(FOLDER, history.config(shared)).unwrap();
        db.session().unwrap().execute_script(SCHEMA).unwrap();
    }
    for round in 0..3 {
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let calls = disk.calls();
        let at = history.random.random_range(20..90);
        let working: Arc<dyn Disk> = match history.random.random_range(0..3) {
            0 => {
                disk.crash_after(calls + at);
                shared
            }
            1 => {
                // One device fails, and the remaining ones go on.
                let failing = history.random.random_range(0..history.devices);
                let fault = [Fault::Error, Fault::Full, Fault::ShortWrite][history.random.random_range(0..3)];
                let under = PathBuf::from(FOLDER).join(format!("log{failing}"));
                let for_good = history.random.random_range(0..2) == 0;
                Arc::new(FailingDisk::new(shared, fault, at / 3, for_good).under(under))
            }
            _ => shared,
        };
        let History { content, concurrency, .. } = &history;
        let context = format!("{sequencing}, {content}, {concurrency}, seed {seed}, round {round}");
        let _ = history.work(working);
        disk = disk.after_crash(seed * 3 + round);
        history.check(Arc::new(disk.clone()), &context);
        // Recovery itself may be cut short, too.
        disk = disk.after_crash(seed * 7 + round);
        history.check(Arc::new(disk.clone()), &format!("{context}, again"));
    }
}

#[test]
fn epoch() {
    seeds(300).for_each(|seed| run(Sequencing::Epoch, seed));
}

#[test]
fn serial() {
    seeds(300).for_each(|seed| run(Sequencing::Serial, seed));
}

#[test]
fn ssn() {
    seeds(300).for_each(|seed| run(Sequencing::Ssn, seed));
}

#[test]
fn gsn() {
    seeds(300).for_each(|seed| run(Sequencing::Gsn, seed));
}
