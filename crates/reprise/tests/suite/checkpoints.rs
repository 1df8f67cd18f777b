//! Checkpoints under load: they hold what they should, nothing is blocked for good, the log behind them is
//! recycled.

use crate::common::Durably as _;
use crate::common::{on, open, recovered_digest, small};
use checkpoint::Manifest;
use recovery::{RecoveryConfig, recover};
use reprise::{Database, Progress, disk::CrashingDisk, params};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const SCHEMA: &str = "
CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL, pad TEXT NOT NULL);
CREATE INDEX t_v ON t (v, id);
CREATE PROCEDURE churn(p_id INT, p_v INT) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE t SET v = p_v, pad = repeat('p', p_v % 90) WHERE id = p_id;
    IF NOT FOUND THEN INSERT INTO t VALUES (p_id, p_v, 'new'); END IF;
    DELETE FROM t WHERE id = (p_id * 7 + p_v) % 5000;
END $$;
";

#[test]
fn checkpoints_under_load_are_consistent() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..4 {
        let db = open(folder.path());
        let mut session = db.session().unwrap();
        if round == 0 {
            session.execute_script(SCHEMA).unwrap();
        }
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (mut session, stop) = (db.session().unwrap(), &stop);
                scope.spawn(move || {
                    let mut n = thread;
                    while !stop.load(Ordering::Relaxed) {
                        let _ = session.call("churn", params![(n * 31 + round) % 5000, n % 1000]).unwrap();
                        n += 1;
                    }
                });
            }
            for _ in 0..5 {
                let summary = db.checkpoint().unwrap();
                assert!(summary.rows > 0 || round == 0);
            }
            stop.store(true, Ordering::Relaxed);
        });
        // The state at the end is checkpoint and log together; both were made while rows changed.
        let live = db.digest().unwrap();
        drop((session, db));
        assert_eq!(recovered_digest(folder.path()), live, "round {round}");
    }
}

#[test]
fn the_log_behind_a_checkpoint_is_recycled() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = small();
    config.log_file_bytes = 64 << 10;
    let db = Database::open(folder.path(), config).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(SCHEMA).unwrap();
    let log_files = || {
        let files = std::fs::read_dir(folder.path().join("log")).unwrap();
        files.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|e| e == "rlog")).count()
    };
    for n in 0..400 {
        session.call_durably("churn", params![n, n]).unwrap();
    }
    let before = log_files();
    assert!(before > 5, "the log fills files: {before}");
    db.checkpoint().unwrap();
    assert!(log_files() <= 2, "files behind the checkpoint are gone: {}", log_files());
}

#[test]
fn no_batch_outgrows_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = small();
    config.log_file_bytes = 32 << 10;
    // Records pile up while the logger rests: far more than a file holds.
    config.flush_floor = std::time::Duration::from_millis(30);
    let db = Database::open(folder.path(), config.clone()).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(SCHEMA).unwrap();
    for n in 0..3_000 {
        let _ = session.call("churn", params![n, n]).unwrap();
    }
    let too_large = "x".repeat(40 << 10);
    let definition = format!("CREATE TABLE big (id INT PRIMARY KEY, t TEXT DEFAULT '{too_large}')");
    let error = session.execute_script(&definition).unwrap_err().to_string();
    assert!(error.contains("more than the"), "{error}");
    let live = db.digest().unwrap();
    drop((session, db));
    assert_eq!(recovered_digest(folder.path()), live);
    config.log_file_bytes = 20 << 10;
    let error = Database::open(folder.path(), config).unwrap_err().to_string();
    assert!(error.contains("too small"), "{error}");
}

/// The rows of a part do not match its digest, but all checksums of files are right: as if memory had failed
/// while the checkpoint was written.
#[test]
fn digests_are_compared_when_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let mut session = db.session().unwrap();
    session.execute_script(SCHEMA).unwrap();
    session.call_durably("churn", params![1, 2]).unwrap();
    db.checkpoint().unwrap();
    drop((session, db));
    let disk = small().disk;
    let recovered = |verify| {
        let config = RecoveryConfig { verify, ..RecoveryConfig::default() };
        recover(&disk, folder.path(), &config, &Progress::default())
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    assert_eq!(recovered(true), Ok(()));
    let mut manifest = Manifest::read(&disk, folder.path()).unwrap().unwrap();
    let part = manifest.parts.iter_mut().find(|part| part.rows > 0).unwrap();
    part.digest = part.digest.map(|digest| digest ^ 1);
    let name = part.path.file_name().unwrap().to_string_lossy().into_owned();
    manifest.publish(&disk, folder.path()).unwrap();
    assert_eq!(recovered(false), Ok(()));
    let error = recovered(true).unwrap_err();
    assert!(error.contains("digest") && error.contains(&name), "{error}");
}

/// A crash comes after a checkpoint is written, and before the files that it makes needless are gone.
/// Recovery reads none of them, so it does not matter which of them are there, nor that one is damaged.
#[test]
fn files_that_a_checkpoint_makes_needless_are_not_read() {
    let disk = CrashingDisk::default();
    let db = Database::open("/db", on(Arc::new(disk.clone()))).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(SCHEMA).unwrap();
    for n in 0..2_000 {
        session.call_durably("churn", params![n % 900, n % 80]).unwrap();
    }
    let before = disk.contents();
    db.checkpoint().unwrap();
    session.call_durably("churn", params![1, 1]).unwrap();
    let (live, after) = (db.digest().unwrap(), disk.contents());
    let gone: Vec<_> = before.into_iter().filter(|(path, _)| !after.contains_key(path)).collect();
    assert!(gone.len() > 2, "{} files are gone", gone.len());
    let opened = |what: &str, left: &[(PathBuf, Vec<u8>)]| {
        let files = after.iter().map(|(path, bytes)| (path.clone(), bytes.clone()));
        let disk = CrashingDisk::holding(files.chain(left.iter().cloned()).collect());
        let db = Database::open("/db", on(Arc::new(disk))).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(db.digest().unwrap(), live, "{what}");
    };
    for place in 0..gone.len() {
        opened("the first are gone", &gone[place..]);
        opened("the last are gone", &gone[..place]);
        let mut damaged = gone.clone();
        damaged[place].1.iter_mut().skip(4096).for_each(|byte| *byte = !*byte);
        opened("one is damaged", &damaged);
    }
}
