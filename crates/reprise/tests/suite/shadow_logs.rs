//! Shadow logs: whatever a crash leaves of the database's log and of those beside it, all come to one state
//! by all methods.

use crate::common::Durably as _;
use crate::common::{SHADOWS, on, recovered_digest_on};
use reprise::disk::{CrashingDisk, Disk};
use reprise::{Content, Database, Error, params};
use std::path::Path;
use std::sync::Arc;

const FOLDER: &str = "/db";

const SCHEMA: &str = "
CREATE TABLE items (id INT PRIMARY KEY, name TEXT, n INT NOT NULL);
CREATE INDEX items_name ON items (name);
CREATE TABLE total (id INT PRIMARY KEY, n BIGINT NOT NULL);
INSERT INTO total VALUES (1, 0);
CREATE PROCEDURE put(p_id INT, p_n INT) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO items VALUES (p_id, 'item ' || p_n, p_n);
    UPDATE items SET n = n + 1, name = name || '+' WHERE id = p_id - 1;
    DELETE FROM items WHERE id = p_id - 4;
    UPDATE total SET n = n + p_n WHERE id = 1;
END $$;
";

fn work(disk: &Arc<dyn Disk>, ids: std::ops::Range<i32>) -> Result<(), Error> {
    let mut config = on(Arc::clone(disk));
    config.shadow_logs = SHADOWS.to_vec();
    let db = Database::open(FOLDER, config)?;
    let mut sessions = [db.session()?, db.session()?];
    if ids.start == 0 {
        sessions[0].execute_script(SCHEMA)?;
    }
    let middle = (ids.start + ids.end) / 2;
    for id in ids {
        // Some are in flight at the crash.
        let session = &mut sessions[id as usize % 2];
        match id % 3 {
            0 => drop(session.call_durably("put", params![id, id * 7])?),
            _ => drop(session.call("put", params![id, id * 7])?),
        }
        if id == middle {
            db.checkpoint()?;
        }
    }
    Ok(())
}

#[test]
fn a_crash_at_every_call_leaves_one_state() {
    let whole = CrashingDisk::default();
    work(&(Arc::new(whole.clone()) as Arc<dyn Disk>), 0..12).unwrap();
    let mut compared = 0;
    for crash in 0..whole.calls() + 2 {
        let disk = CrashingDisk::default();
        disk.crash_after(crash);
        let finished = work(&(Arc::new(disk.clone()) as Arc<dyn Disk>), 0..12).is_ok();
        let after = disk.after_crash(crash);
        let shared: Arc<dyn Disk> = Arc::new(after.clone());
        recovered_digest_on(&shared, Path::new(FOLDER));
        compared += 1;
        if finished {
            // The next incarnation begins its shadow logs anew, from a checkpoint.
            work(&shared, 12..24).unwrap();
            let again: Arc<dyn Disk> = Arc::new(after.after_crash(crash));
            recovered_digest_on(&again, Path::new(FOLDER));
        }
    }
    assert!(compared > 50, "{compared} crashes");
}

#[test]
fn what_a_log_cannot_hold_is_refused() {
    let disk: Arc<dyn Disk> = Arc::new(CrashingDisk::default());
    let refused = |change: &dyn Fn(&mut reprise::Config), expected: &str| {
        let mut config = on(Arc::clone(&disk));
        change(&mut config);
        let error = Database::open(FOLDER, config).expect_err(expected);
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(error.sqlstate(), "22023");
    };
    refused(
        &|config| {
            config.content = Content::Physical;
            config.images = Some(reprise::Images::Columns);
        },
        "physical records hold whole rows",
    );
    refused(&|config| config.undo = false, "not command ones");
    refused(&|config| config.shadow_logs = vec![Content::Off], "a shadow log is there to be compared");
    Database::open(FOLDER, on(disk)).unwrap();
}

#[test]
fn a_method_says_which_one_replays_the_log() {
    let disk: Arc<dyn Disk> = Arc::new(CrashingDisk::default());
    work(&disk, 0..6).unwrap();
    let recover = |folder: &Path, method| {
        let settings = recovery::RecoveryConfig {
            method,
            memory_bytes: 1 << 30,
            memory_ahead_bytes: 0,
            ..Default::default()
        };
        recovery::recover(&disk, folder, &settings, &reprise::Progress::default())
    };
    for (name, method, expected) in [
        ("", reprise::Method::Plr, "clr-p does"),
        ("shadow-logical", reprise::Method::Aries, ""),
        ("shadow-logical", reprise::Method::Plr, "llr-p does"),
        ("shadow-physical", reprise::Method::Clr, "plr does"),
        ("shadow-physiological", reprise::Method::LlrP, "aries does"),
    ] {
        match recover(&Path::new(FOLDER).join(name), method) {
            Ok(_) => assert_eq!(expected, "", "{method} of {name}"),
            Err(error) => {
                assert!(!expected.is_empty() && error.to_string().contains(expected), "{name}: {error}");
            }
        }
    }
}
