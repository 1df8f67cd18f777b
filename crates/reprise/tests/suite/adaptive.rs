//! Adaptive logs: what is dear to run again is logged by value, what is not as a command, and checkpoints
//! come before the bound on recovery is used up.

use crate::common::Durably as _;
use crate::common::{on, recovered_digest_on};
use catalog::Reader;
use checkpoint::Manifest;
use logging::content::{self, RecordKind};
use logging::read_device;
use reprise::disk::{CrashingDisk, Disk};
use reprise::{Content, Database, Value, params};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const FOLDER: &str = "/db";

const SCHEMA: &str = "
CREATE TABLE entries (id INT PRIMARY KEY, n INT NOT NULL);
CREATE TABLE audits (id INT PRIMARY KEY, total BIGINT NOT NULL);
CREATE PROCEDURE enter(p_id INT) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO entries VALUES (p_id, p_id);
END $$;
-- Runs for long and writes one short row.
CREATE PROCEDURE audit(p_id INT) LANGUAGE plpgsql AS $$
DECLARE
    v_total BIGINT := 0;
    v_n BIGINT;
BEGIN
    FOR i IN 1..20 LOOP
        SELECT sum(n) INTO v_n FROM entries;
        v_total := v_total + v_n;
    END LOOP;
    INSERT INTO audits VALUES (p_id, v_total);
END $$;
";

#[test]
fn what_is_dear_to_run_again_is_logged_by_value() {
    let disk: Arc<dyn Disk> = Arc::new(CrashingDisk::default());
    let mut config = on(Arc::clone(&disk));
    config.content = Content::Adaptive;
    config.recovery_target = Duration::from_secs(60);
    let db = Database::open(FOLDER, config).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(SCHEMA).unwrap();
    for id in 0..500 {
        session.call_durably("enter", params![id]).unwrap();
    }
    db.checkpoint().unwrap();
    for id in 0..400 {
        session.call_durably("audit", params![id]).unwrap();
    }
    let live = db.digest().unwrap();
    drop((session, db));
    let mut counts = [0, 0];
    for batch in &read_device(&disk, &Path::new(FOLDER).join("log"), 0).unwrap()[0].batches {
        let mut reader = Reader::new(&batch.records);
        while reader.remaining() > 0 {
            match content::read(&mut reader).unwrap().1 {
                RecordKind::Call => counts[0] += 1,
                RecordKind::Writes => counts[1] += 1,
                _ => {}
            }
        }
    }
    assert!(counts[1] >= 300, "{counts:?} commands and write sets");
    assert_eq!(recovered_digest_on(&disk, Path::new(FOLDER)), live);
}

#[test]
fn a_checkpoint_comes_before_the_bound_is_used_up() {
    let disk: Arc<dyn Disk> = Arc::new(CrashingDisk::default());
    let mut config = on(Arc::clone(&disk));
    config.content = Content::Adaptive;
    // So short that a few transactions use it up.
    config.recovery_target = Duration::from_micros(50);
    let db = Database::open(FOLDER, config).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(SCHEMA).unwrap();
    let mut id = 0;
    let number = || Manifest::read(&disk, Path::new(FOLDER)).unwrap().map_or(0, |manifest| manifest.number);
    // The test ends as soon as there are two: nothing here waits for a time.
    while number() < 2 {
        session.call_durably("enter", params![id]).unwrap();
        id += 1;
    }
    session.call_durably("audit", &[Value::Int(1)]).unwrap();
    session.execute_script("INSERT INTO audits VALUES (-1, 0); DELETE FROM entries WHERE id < 2;").unwrap();
    let live = db.digest().unwrap();
    drop((session, db));
    assert_eq!(recovered_digest_on(&disk, Path::new(FOLDER)), live);
}
