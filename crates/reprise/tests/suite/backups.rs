//! A backup holds one moment of a database that goes on: what was acknowledged before it began, each
//! transaction whole, and is refused once a byte of it has changed. A restored one is a database of its own.

use crate::common::Durably as _;
use crate::common::{on, open, recovered_digest, small};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reprise::disk::{CrashingDisk, Disk};
use reprise::{Config, Content, Database, Error, Progress, Sequencing, Value, copy_database, params};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

const SCHEMA: &str = "
CREATE TABLE account (id INT PRIMARY KEY, balance NUMERIC(12,2) NOT NULL, note TEXT, opened DATE);
CREATE INDEX account_note ON account (note);
CREATE TABLE step (thread INT, n BIGINT, PRIMARY KEY (thread, n));
CREATE SEQUENCE ticket;
CREATE VIEW rich AS SELECT id FROM account WHERE balance > 1000;
CREATE PROCEDURE transfer(p_thread INT, p_n BIGINT, p_from INT, p_to INT, p_amount NUMERIC)
    LANGUAGE plpgsql AS $$
BEGIN
    UPDATE account SET balance = balance - p_amount, note = 'from ' || p_thread WHERE id = p_from;
    UPDATE account SET balance = balance + p_amount, note = NULL WHERE id = p_to;
    INSERT INTO step VALUES (p_thread, p_n);
END $$;
INSERT INTO account SELECT n, 1000, 'new', DATE '2026-01-01' + n FROM generate_series(1, 50) AS n;
";

/// Every content in every sequencing that admits it.
fn configurations() -> Vec<Config> {
    let mut configurations = Vec::new();
    for (_, sequencing) in Sequencing::NAMES {
        for content in [Content::Command, Content::Logical, Content::Physical, Content::Physiological] {
            if sequencing.admits(content, content.images()).is_ok() {
                let mut config = small();
                (config.sequencing, config.content) = (sequencing, content);
                configurations.push(config);
            }
        }
    }
    configurations
}

#[test]
fn a_backup_under_load_is_one_moment() {
    for config in configurations() {
        let folder = tempfile::tempdir().unwrap();
        let (data, target) = (folder.path().join("data"), folder.path().join("backup"));
        let db = Database::open(&data, config.clone()).unwrap();
        db.session().unwrap().execute_script(SCHEMA).unwrap();
        let acknowledged = [AtomicI64::new(0), AtomicI64::new(0)];
        let stops = AtomicBool::new(false);
        let (before, backup) = std::thread::scope(|scope| {
            for (thread, acknowledged) in acknowledged.iter().enumerate() {
                let (db, stops) = (&db, &stops);
                scope.spawn(move || {
                    let mut session = db.session().unwrap();
                    for n in 1i64.. {
                        let (from, to) = (1 + n as i32 % 50, 1 + (n as i32 * 7 + 3) % 50);
                        let thread = thread as i32;
                        session.call_durably("transfer", params![thread, n, from, to, "1.50"]).unwrap();
                        acknowledged.store(n, Ordering::Release);
                        if stops.load(Ordering::Acquire) {
                            return;
                        }
                    }
                });
            }
            while acknowledged.iter().any(|n| n.load(Ordering::Acquire) < 20) {
                std::thread::yield_now();
            }
            let before = acknowledged.each_ref().map(|n| n.load(Ordering::Acquire));
            let backup = db.backup(&target).unwrap();
            stops.store(true, Ordering::Release);
            (before, backup)
        });
        let restored = folder.path().join("restored");
        let copy = copy_database(&target, &restored, &small(), &Progress::default()).unwrap();
        assert_eq!((copy.digest, copy.rows), (backup.digest.clone(), backup.rows));
        assert_eq!(recovered_digest(&restored), backup.digest);
        let copied = open(&restored);
        let mut session = copied.session().unwrap();
        for (thread, before) in before.into_iter().enumerate() {
            let text = format!("SELECT count(*), max(n) FROM step WHERE thread = {thread}");
            let rows = session.query(&text).unwrap();
            let (Value::Int(count), Value::Int(newest)) = (&rows.rows[0][0], &rows.rows[0][1]) else {
                panic!("{rows:?}")
            };
            assert_eq!(count, newest, "{:?}: a prefix of the thread's transactions", config.sequencing);
            assert!(*newest >= before, "{before} was acknowledged before the backup, which has {newest}");
        }
        let sum = session.query("SELECT sum(balance)::text FROM account").unwrap();
        assert_eq!(sum.rows[0][0].to_string(), "50000.00", "transfers are whole");
        session.query("SELECT nextval('ticket')").unwrap();
        session.call_durably("transfer", params![9, 1i64, 1, 2, "1"]).unwrap();
        drop((session, copied));
        assert_eq!(recovered_digest(&target), backup.digest, "the backup stays as it was");
    }
}

fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let (path, target) = (entry?.path(), to);
        let target = target.join(path.file_name().unwrap());
        if path.is_dir() { copy_files(&path, &target)? } else { std::fs::copy(&path, &target).map(|_| ())? }
    }
    Ok(())
}

/// Files that are copied one by one while checkpoints are taken are of different moments.
#[test]
fn a_plain_copy_of_an_open_folder_is_right_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = small();
    config.checkpoint_every = Some(std::time::Duration::from_millis(20));
    let db = Database::open(folder.path().join("data"), config).unwrap();
    db.session().unwrap().execute_script(SCHEMA).unwrap();
    let (acknowledged, stops) = (AtomicI64::new(0), AtomicBool::new(false));
    let (mut right, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = db.session().unwrap();
            for n in 1i64.. {
                if stops.load(Ordering::Acquire) {
                    return;
                }
                session.call_durably("transfer", params![0, n, 1 + n as i32 % 50, 7, "1.50"]).unwrap();
                acknowledged.store(n, Ordering::Release);
            }
        });
        for copy in 0..40 {
            let (before, target) =
                (acknowledged.load(Ordering::Acquire), folder.path().join(format!("{copy}")));
            if copy_files(&folder.path().join("data"), &target).is_err() {
                // A file was removed while it was copied.
                refused += 1;
                continue;
            }
            match Database::open(&target, small()) {
                Ok(copied) => {
                    right += 1;
                    let mut session = copied.session().unwrap();
                    let steps = session.query("SELECT count(*), coalesce(max(n), 0) FROM step").unwrap();
                    let (Value::Int(count), Value::Int(newest)) = (&steps.rows[0][0], &steps.rows[0][1])
                    else {
                        panic!("{steps:?}")
                    };
                    assert_eq!(count, newest, "a prefix of the transactions");
                    assert!(
                        *newest >= before,
                        "{before} was acknowledged before the copy, which has {newest}"
                    );
                    let sum = session.query("SELECT sum(balance)::text FROM account").unwrap();
                    assert_eq!(sum.rows[0][0].to_string(), "50000.00", "transfers are whole");
                }
                Err(error) => {
                    refused += 1;
                    assert!(error.to_string().contains(target.to_str().unwrap()), "{error}");
                }
            }
            std::fs::remove_dir_all(&target).unwrap();
        }
        stops.store(true, Ordering::Release);
    });
    eprintln!("{right} copies are right, {refused} are refused");
}

#[test]
fn a_backup_is_never_written_over_files() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder.path().join("data"));
    db.session().unwrap().execute_script(SCHEMA).unwrap();
    let target = folder.path().join("backup");
    std::fs::create_dir(&target).unwrap();
    db.backup(&target).unwrap();
    assert!(matches!(db.backup(&target), Err(Error::BackupTarget(_))));
    let data = folder.path().join("data");
    let copied = copy_database(&target, &data, &small(), &Progress::default());
    assert!(matches!(copied, Err(Error::BackupTarget(_))), "{copied:?}");
    let copied = copy_database(&data, &folder.path().join("other"), &small(), &Progress::default());
    assert!(matches!(copied, Err(Error::InUse(_))), "{copied:?}");
    let missing = folder.path().join("missing");
    let copied = copy_database(&missing, &folder.path().join("other"), &small(), &Progress::default());
    assert!(matches!(copied, Err(Error::NoDatabase(_))), "{copied:?}");
    assert!(!missing.exists(), "a folder that was only looked for is not made");
}

#[test]
fn a_changed_backup_is_refused() {
    let crashing = CrashingDisk::default();
    let disk: Arc<dyn Disk> = Arc::new(crashing.clone());
    let db = Database::open("/data", on(Arc::clone(&disk))).unwrap();
    db.session().unwrap().execute_script(SCHEMA).unwrap();
    let backup = Path::new("/backup");
    let digest = db.backup(backup).unwrap().digest;
    drop(db);
    let mut random = SmallRng::seed_from_u64(14);
    let mut files: Vec<_> = disk.list(backup).unwrap();
    let parts: Vec<_> = files.iter().flat_map(|path| disk.list(path).unwrap()).collect();
    files.retain(|path| disk.list(path).unwrap().is_empty());
    for path in files.into_iter().chain(parts) {
        let file = disk.open(&path).unwrap();
        let length = file.length().unwrap();
        for _ in 0..40 {
            let (offset, mut byte) = (random.random_range(0..length), [0]);
            file.read_at(offset, &mut byte).unwrap();
            file.write_at(offset, &[byte[0] ^ 1 << random.random_range(0..8)]).unwrap();
            let target = Path::new("/restored");
            match copy_database(backup, target, &on(Arc::clone(&disk)), &Progress::default()) {
                Ok(copy) => assert_eq!(copy.digest, digest, "byte {offset} of {}", path.display()),
                Err(error) => {
                    assert!(error.to_string().contains(&*path.display().to_string()), "{error}");
                }
            }
            file.write_at(offset, &byte).unwrap();
            if !disk.list(target).unwrap().is_empty() {
                disk.remove(target).unwrap();
            }
        }
    }
    assert_eq!(
        copy_database(backup, Path::new("/restored"), &on(disk), &Progress::default()).unwrap().digest,
        digest
    );
}

/// A backup or restore that a crash cut short is refused, or whole; never an empty database.
#[test]
fn an_unfinished_backup_is_refused() {
    let made = |disk: &CrashingDisk, calls: Option<u64>| {
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let db = Database::open("/source", on(Arc::clone(&shared))).unwrap();
        db.session().unwrap().execute_script(SCHEMA).unwrap();
        let live = db.digest().unwrap();
        drop(db);
        let before = disk.calls();
        calls.into_iter().for_each(|calls| disk.crash_after(before + calls));
        let copied =
            copy_database(Path::new("/source"), Path::new("/target"), &on(shared), &Progress::default());
        (live, copied.is_ok(), disk.calls() - before)
    };
    let (.., calls) = made(&CrashingDisk::default(), None);
    let mut refused = 0;
    for crash in 0..calls {
        let disk = CrashingDisk::default();
        let (live, is_done, _) = made(&disk, Some(crash));
        let disk = disk.after_crash(crash);
        let files = disk.list(Path::new("/target")).unwrap_or_default();
        match Database::open("/target", on(Arc::new(disk))) {
            Ok(db) if db.digest().unwrap() == live => {}
            Ok(_) => {
                assert!(files.is_empty() && !is_done, "crash {crash}: an empty database among {files:?}")
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 3, "{refused} of {calls}");
}
