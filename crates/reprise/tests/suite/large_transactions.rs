//! Transactions whose records no log buffer holds.

use crate::common::Durably as _;
use crate::common::{on, open, recovered_digest_of, small};
use reprise::disk::CrashingDisk;
use reprise::{Config, Content, Database, Digest, Images, Sequencing, Session, Value, params};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ROWS: i64 = 60_000;

fn large_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            match path.is_dir() {
                true => folders.push(path),
                false if name.starts_with("large-") => found.push(path),
                false => {}
            }
        }
    }
    found
}

fn fill(database: &Database) {
    let mut session = database.session().unwrap();
    session.execute_script("CREATE TABLE t (id BIGINT PRIMARY KEY, body TEXT)").unwrap();
    let insert = format!("INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(1, {ROWS}) AS n");
    assert_eq!(session.query(&insert).unwrap().affected, ROWS as u64);
    session.query("UPDATE t SET body = 'changed' WHERE id % 2 = 0").unwrap();
    session.query("DELETE FROM t WHERE id % 3 = 0").unwrap();
}

#[test]
fn they_are_recovered_by_every_method() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(folder.path());
    fill(&database);
    assert!(!large_files(folder.path()).is_empty());
    let digest = database.digest().unwrap();
    drop(database);
    assert_eq!(recovered_digest_of(Content::Command, folder.path()), digest);
    // And again, from an incarnation that did not write them; then a checkpoint holds what they say.
    let database = open(folder.path());
    assert_eq!(database.digest().unwrap(), digest);
    assert!(!large_files(folder.path()).is_empty());
    database.checkpoint().unwrap();
    assert!(large_files(folder.path()).is_empty());
    drop(database);
    assert_eq!(open(folder.path()).digest().unwrap(), digest);
}

#[test]
fn a_damaged_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fill(&open(folder.path()));
    let file = large_files(folder.path()).pop().unwrap();
    let bytes = std::fs::read(&file).unwrap();
    for damage in 0..3 {
        let mut damaged = bytes.clone();
        match damage {
            0 => damaged[bytes.len() / 2] ^= 1,
            1 => damaged.truncate(bytes.len() - 1),
            _ => damaged[3] ^= 1,
        }
        std::fs::write(&file, damaged).unwrap();
        let error = Database::open(folder.path(), small()).unwrap_err().to_string();
        assert!(error.contains(&file.display().to_string()), "{error}");
    }
    std::fs::remove_file(&file).unwrap();
    let error = Database::open(folder.path(), small()).unwrap_err().to_string();
    assert!(error.contains(&file.display().to_string()), "{error}");
    std::fs::write(&file, bytes).unwrap();
    open(folder.path());
}

#[test]
fn large_arguments_are_logged_as_what_was_asked() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(folder.path());
    let mut session = database.session().unwrap();
    session
        .execute_script(
            "CREATE TABLE blob (id INT PRIMARY KEY, body TEXT);
             CREATE PROCEDURE keep(p_id INT, p_body TEXT) LANGUAGE plpgsql AS $$
             BEGIN INSERT INTO blob VALUES (p_id, p_body); END $$;",
        )
        .unwrap();
    session.call_durably("keep", &[Value::Int(1), Value::Text("y".repeat(6 << 20))]).unwrap();
    // What fails leaves nothing behind.
    assert!(session.call_durably("keep", &[Value::Int(1), Value::Text("z".repeat(6 << 20))]).is_err());
    session.call_durably("keep", params![2, "small"]).unwrap();
    let digest = database.digest().unwrap();
    drop((session, database));
    assert_eq!(large_files(folder.path()).len(), 1);
    assert_eq!(recovered_digest_of(Content::Command, folder.path()), digest);
}

/// What holds rows and operations, in each order that it may have.
fn configurations() -> Vec<Config> {
    let all = [
        (Sequencing::Epoch, Content::Logical, None, true),
        (Sequencing::Serial, Content::Logical, Some(Images::Columns), true),
        (Sequencing::Ssn, Content::Logical, None, true),
        (Sequencing::Gsn, Content::Logical, None, true),
        (Sequencing::Epoch, Content::Physical, None, true),
        (Sequencing::Ssn, Content::Physical, None, true),
        (Sequencing::Gsn, Content::Physical, None, true),
        (Sequencing::Epoch, Content::Physiological, None, true),
        (Sequencing::Serial, Content::Physiological, Some(Images::Rows), true),
        (Sequencing::Epoch, Content::Physiological, None, false),
    ];
    let configuration = |(sequencing, content, images, undo)| {
        let mut config = small();
        (config.sequencing, config.content, config.images, config.undo) = (sequencing, content, images, undo);
        // So buffers are small, and small transactions are large.
        config.log_file_bytes = 64 << 10;
        config
    };
    all.into_iter().map(configuration).collect()
}

fn name(config: &Config) -> String {
    format!("{} {} {:?} undo: {}", config.sequencing, config.content, config.images, config.undo)
}

/// Each is longer than a buffer, as a whole or in one row.
const STATEMENTS: [&str; 7] = [
    "INSERT INTO t SELECT n, n % 7, repeat('x', 100) FROM generate_series(1, 2000) AS n",
    "UPDATE t SET body = 'changed ' || id, grp = grp + 1 WHERE id % 2 = 0",
    "INSERT INTO t VALUES (5000, 0, repeat('y', 200000))",
    "UPDATE t SET body = body || repeat('z', 200000) WHERE id = 5000",
    "DELETE FROM t WHERE id % 3 = 0",
    "INSERT INTO t SELECT n * 3, n, repeat('w', 150) FROM generate_series(1, 500) AS n",
    "UPDATE t SET grp = 1",
];

const TABLE: &str =
    "CREATE TABLE t (id INT PRIMARY KEY, grp INT NOT NULL, body TEXT); CREATE INDEX t_grp ON t (grp)";

#[test]
fn every_content_holds_them() {
    for config in configurations() {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(folder.path(), config.clone()).unwrap();
        let mut session = db.session().unwrap();
        session.execute_script(TABLE).unwrap();
        for statement in STATEMENTS {
            session
                .query(statement)
                .unwrap_or_else(|error| panic!("{}: {statement}: {error}", name(&config)));
            // What is given up leaves nothing behind.
            session.begin().unwrap();
            run(&mut session, "UPDATE t SET body = repeat('u', 90)");
            session.rollback();
            assert!(
                session.query("INSERT INTO t SELECT n, 0, '' FROM generate_series(-2000, 1) AS n").is_err()
            );
        }
        let live = db.digest().unwrap();
        drop((session, db));
        assert!(!large_files(folder.path()).is_empty(), "{}", name(&config));
        // Methods that take the newest write of each row alone need it whole.
        if config.images != Some(Images::Columns) {
            assert_eq!(recovered_digest_of(config.content, folder.path()), live, "{}", name(&config));
        }
        let db = Database::open(folder.path(), config.clone()).unwrap();
        assert_eq!(db.digest().unwrap(), live, "{}", name(&config));
        db.checkpoint().unwrap();
        assert!(large_files(folder.path()).is_empty(), "{}", name(&config));
        // The log behind a checkpoint of the same opening still names the files that went with it.
        let mut session = db.session().unwrap();
        session.query("INSERT INTO t VALUES (6000, 0, repeat('y', 200000))").unwrap();
        db.checkpoint().unwrap();
        session.execute_script("DELETE FROM t WHERE id = 1").unwrap();
        let live = db.digest().unwrap();
        drop((session, db));
        assert_eq!(
            Database::open(folder.path(), config.clone()).unwrap().digest().unwrap(),
            live,
            "{}",
            name(&config)
        );
    }
}

fn run(session: &mut Session, statement: &str) {
    let prepared = session.prepare(statement).unwrap();
    session.execute_into(&prepared, &[], Box::new(reprise::Nowhere)).unwrap().commit.wait().unwrap();
}

/// Runs the statements until one fails; the digests before the first and after each.
fn run_all(disk: &CrashingDisk, config: &Config, crash_after: Option<u64>) -> Vec<Digest> {
    let mut config = config.clone();
    config.disk = on(Arc::new(disk.clone())).disk;
    let db = Database::open(Path::new("data"), config).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(TABLE).unwrap();
    let mut digests = vec![db.digest().unwrap()];
    if let Some(calls) = crash_after {
        disk.crash_after(disk.calls() + calls);
    }
    for statement in STATEMENTS {
        if session.query(statement).is_err() {
            break;
        }
        digests.push(db.digest().unwrap());
    }
    digests
}

/// Wherever the power goes, each of them is there as a whole or not at all, and there if it was acknowledged.
#[test]
fn a_crash_leaves_all_of_each_or_nothing() {
    for config in configurations() {
        let disk = CrashingDisk::default();
        let calls = disk.calls();
        let expected = run_all(&disk, &config, None);
        assert_eq!(expected.len(), STATEMENTS.len() + 1);
        let last = disk.calls() - calls;
        for crash in (0..last).step_by((last / 9).max(1) as usize) {
            let disk = CrashingDisk::default();
            let acknowledged = run_all(&disk, &config, Some(crash)).len() - 1;
            let mut config = config.clone();
            config.disk = on(Arc::new(disk.after_crash(crash))).disk;
            let recovered = Database::open(Path::new("data"), config.clone());
            let recovered =
                recovered.unwrap_or_else(|error| panic!("{}: crash {crash}: {error}", name(&config)));
            let digest = recovered.digest().unwrap();
            let possible = &expected[acknowledged..expected.len().min(acknowledged + 2)];
            assert!(
                possible.contains(&digest),
                "{}: crash {crash}, {acknowledged} acknowledged",
                name(&config)
            );
        }
    }
}

/// A row that one transaction inserts, changes and reads again is logged as it is at the end.
#[test]
fn rows_that_are_inserted_and_changed_are_recovered() {
    for content in [Content::Command, Content::Logical, Content::Physical, Content::Physiological] {
        let folder = tempfile::tempdir().unwrap();
        let mut config = small();
        config.content = content;
        let database = Database::open(folder.path(), config).unwrap();
        let mut session = database.session().unwrap();
        session.execute_script("CREATE TABLE t (id BIGINT PRIMARY KEY, body TEXT)").unwrap();
        session.begin().unwrap();
        let insert = format!("INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(1, {ROWS}) AS n");
        run(&mut session, &insert);
        run(&mut session, "UPDATE t SET body = 'changed' || id WHERE id % 2 = 0");
        run(&mut session, "DELETE FROM t WHERE id % 3 = 0");
        let commit = session.commit().unwrap();
        commit.wait().unwrap();
        assert!(!large_files(folder.path()).is_empty() || content == Content::Physiological);
        let digest = database.digest().unwrap();
        drop((session, database));
        assert_eq!(recovered_digest_of(content, folder.path()), digest, "{content}");
    }
}
